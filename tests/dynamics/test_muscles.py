"""Muscles against MuJoCo: their curves, their activation, and the gradients of both."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion, random_motion_error, random_muscles
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracles import NoOracle, relative_error, unconstrained

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

# An arm of two links: muscles at a joint and on tendons, with and without activations, and a jet at its hand.
ARM = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<worldbody><site name="trunk" pos="-0.1 0.02 1.1"/>
 <body pos="0 0 1"><joint name="shoulder" axis="0 1 0" range="-1.5 1.5" damping="0.2"/>
  <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" mass="1"/><site name="upper" pos="0.1 0 0.03"/>
  <body pos="0.3 0 0"><joint name="elbow" axis="0 1 0" range="-1.5 1.5" damping="0.1"/>
   <geom type="capsule" size="0.04" fromto="0 0 0 0.3 0 0" mass="0.7"/><site name="hand" pos="0.3 0 0"/>
  </body></body></worldbody>
<tendon><fixed name="both"><joint joint="shoulder" coef="0.7"/><joint joint="elbow" coef="-0.5"/></fixed>{tendons}
</tendon>
<actuator>
 <muscle name="flexor" joint="shoulder" gear="-1" timeconst="0.01 0.04" tausmooth="0.2" scale="60"
   lengthrange="-1.5 1.5"/>
 <muscle name="extensor" joint="shoulder" force="9" range="0.8 1.1" lmin="0.6" lmax="1.4" vmax="2.5"
   lengthrange="-1.6 1.5"/>
 <muscle name="long" tendon="{tendon}" force="7" vmax="3" fvmax="1.4" lengthrange="{lengths}"/>
 <general name="direct" joint="elbow" gaintype="muscle" gainprm="0.75 1.05 5 200 0.5 1.6 1.5 1.3 1.2"
   biastype="affine" biasprm="0.1 -2 -0.3" lengthrange="-1.6 1.5"/>
 <general name="slow" joint="elbow" dyntype="filter" dynprm="0.1" gaintype="affine" gainprm="1 0.2 0.1"
   biastype="muscle" biasprm="0.75 1.05 5 200 0.5 1.6 1.5 1.3 1.2" lengthrange="-1.6 1.5" actearly="true"/>
 <motor name="jet" site="hand" gear="0 0 2 0 0 0"/>
</actuator></mujoco>"""
PATH = '<spatial name="path"><site site="trunk"/><site site="upper"/></spatial>'


def arm(integrator: str = "Euler", *, through_space: bool = False, **changes: str) -> pb.Model:
    on = ("path", "0.1 0.35", PATH) if through_space else ("both", "-1.6 1.5", "")
    text = ARM.format(integrator=integrator, tendon=on[0], lengths=on[1], tendons=on[2])
    for old, new in changes.items():
        text = text.replace(old, new)
    return pb.load(text)


def scattered(system: pb.Articulated, seed: int = 0):
    rng, worlds = np.random.default_rng(seed), system.worlds
    q, v = rng.uniform(-1.7, 1.7, (worlds, 2)), 3 * rng.normal(size=(worlds, 2))
    state = system.state(q, v, rng.uniform(-0.1, 1.1, (worlds, system.na)))
    return state, rng.uniform(-0.3, 1.3, (20, worlds, system.nu))


# --- the motion ---------------------------------------------------------------------------------------


@each_integrator
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_random_muscles_move_robots_as_in_mujoco(integrator, seed):
    m = random_muscles(seed, integrator=integrator)
    try:
        assert random_motion_error(m, seed, act=(0.5, 0.4), control=(0.5, 1)) < 1e-9
    except NoOracle:
        reject()


@each_integrator
@pytest.mark.parametrize("through_space", [False, True])
def test_an_arm_moves_as_in_mujoco_for_two_seconds(integrator, through_space):
    model = arm(integrator, through_space=through_space)
    system = pb.Articulated(model, contact=None, worlds=10)
    state, controls = scattered(system)
    controls = np.repeat(controls, 50, axis=0)
    theirs = mujoco_motion(model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-12


def test_a_change_of_numbers_is_that_of_the_file():
    system = pb.Articulated(arm(), contact=None, worlds=4)
    state, controls = scattered(system)
    laws = system.params["muscle_gain"].copy()
    laws[1, [0, 1, 2, 5, 6, 8]] = (0.7, 1.2, 11.0, 1.5, 2.0, 1.3)
    changed = arm(**{'force="9" range="0.8 1.1"': 'force="11" range="0.7 1.2"', 'lmax="1.4" vmax="2.5"': (
        'lmax="1.5" vmax="2" fvmax="1.3"')})  # fmt: skip
    other = pb.Articulated(changed, contact=None, worlds=4)
    system.params["muscle_gain"], system.params["muscle_bias"] = laws, other.params["muscle_bias"]
    np.testing.assert_allclose(laws[1], other.params["muscle_gain"][1], rtol=1e-15)
    ours, theirs = (pb.rollout(each, state, controls).final for each in (system, other))
    for x, exact in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-12, atol=1e-12)


def test_what_is_no_muscle_is_refused_by_name():
    with pytest.raises(pb.PullbackError, match="'extensor' is a muscle without a range of lengths.*ignore"):
        m = arm().mujoco
        m.actuator_lengthrange[1] = 0.3
        pb.load(m)
    with pytest.raises(pb.PullbackError, match="'flexor' is a muscle with impossible numbers"):
        m = arm().mujoco
        m.actuator_gainprm[0, 5] = 0.9
        pb.load(m)
    system = pb.Articulated(arm(), contact=None)
    laws = system.params["muscle_gain"].copy()
    laws[2, 1] = laws[2, 0]
    with pytest.raises(pb.PullbackError, match="muscle_gain.*low < high"):
        system.params["muscle_gain"] = laws


def test_a_model_without_muscles_knows_nothing_of_them():
    system = pb.Articulated(pb.load(pb.robots.cartpole()), None)
    assert "muscle_gain" not in system.params and not system._flavour.actuators
    assert pb.Articulated(arm(), None)._flavour.actuators


# --- gradients ----------------------------------------------------------------------------------------


@each_integrator
@pytest.mark.parametrize("through_space", [False, True])
def test_gradients(integrator, through_space):
    system = pb.Articulated(arm(integrator, through_space=through_space), contact=None, worlds=3)
    state, controls = scattered(system, seed=3)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "act", "control", "gear", "gain", "bias", "activation", "muscle_gain", "muscle_bias"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert report.passed


LENGTHS = (0.45, 0.6, 0.9, 1.15, 1.5, 1.7)  # on all pieces of the curves: lmin is 0.5, lmax 1.6
SPEEDS = (-1.3, -0.5, 0.1, 0.4)  # fvmax is 1.2


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_gradients_on_every_piece_of_the_curves(integrator):
    text = """<mujoco><option timestep="0.002" gravity="0 0 0" integrator="{}"/><worldbody><body><joint type="slide"/>
      <geom size="0.1" mass="2"/><site name="jet"/></body></worldbody><actuator>
      <muscle joint="joint 0" lengthrange="0.4 0.7" range="0.4 1.6" force="20" vmax="2"/><motor site="jet"/>
      </actuator></mujoco>"""
    model = pb.load(text.format(integrator).replace('type="slide"', 'name="joint 0" type="slide"'))
    assert model.muscles.gain[0, [0, 1, 4, 5, 8]].tolist() == [0.4, 1.6, 0.5, 1.6, 1.2]
    pieces = np.array([(length, speed) for length in LENGTHS for speed in SPEEDS])
    q = 0.4 + (pieces[:, :1] - 0.4) * 0.25
    system = pb.Articulated(model, worlds=len(pieces))
    state = system.state(q, 0.5 * pieces[:, 1:], np.full((len(pieces), 1), 0.6))
    report = pb.check_system(system, state, np.full((len(pieces), 2), 0.7))
    for name in ("q", "v", "act", "muscle_gain", "muscle_bias"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    # what each piece has to say: nothing pulls beyond the ends, nor where the muscle shortens as fast as it can
    act_bar = pb.rollout(system, state, np.full((1, len(pieces), 2), 0.7)).pullback(v_bar=np.ones((24, 1))).state.act
    pulls = ((pieces[:, 0] > 0.5) & (pieces[:, 0] < 1.6) & (pieces[:, 1] > -1))[:, None]
    np.testing.assert_array_equal(act_bar < -1e-4, pulls)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_jacobians_are_mujocos(integrator):
    model = arm(integrator)
    system = pb.Articulated(model, contact=None)
    state, controls = scattered(system, seed=1)
    A, B = system.linearize(state, controls[0])
    m = unconstrained(model.mujoco)
    size = 2 * m.nv + m.na
    data, their_A, their_B = mujoco.MjData(m), np.zeros((size, size)), np.zeros((size, m.nu))
    data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = *(x[0] for x in state), controls[0, 0]
    mujoco.mjd_transitionFD(m, data, 1e-6, 1, their_A, their_B, None, None)
    assert relative_error(A[0], their_A) < 1e-6 and relative_error(B[0], their_B) < 1e-6
    assert np.abs(A[0, :, 2 * m.nv :]).max() > 0.1
