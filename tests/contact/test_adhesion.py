"""Actuators that press a body against what it touches, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion
from oracles import precise, relative_error

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")

# A climber on a tilted wall: a pad of two balls, an arm whose hand may hold a ball that flies, each with a gap.
CLIMBER = """<mujoco><compiler angle="radian"/>
<option timestep="0.002" integrator="{integrator}" gravity="3 1 -4" {option}/>
<default><geom margin="0.002" gap="0.006" friction="0.5"/></default>
<worldbody><geom name="wall" friction="0.8" type="plane" size="5 5 1" euler="0.1 0.2 0"/>
 <body name="pad" pos="0 0 0.052" euler="0.1 0.2 0"><freejoint/><geom name="left" type="sphere" size="0.05" mass="0.5"/>
  <geom name="right" type="capsule" size="0.04" fromto="0.2 0.02 -0.01 0.3 0.02 -0.008" mass="0.5"/>
  <body name="hand" pos="0.1 0 0.2"><joint name="wrist" axis="0 1 0" damping="0.1"/>
   <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0.1" mass="0.2"/>
   <geom name="palm" type="sphere" size="0.03" pos="0.2 0 0.1" mass="0.1"/></body></body>
 <body name="ball" pos="0.4336 -0.0234 0.3452"><freejoint/>
  <geom name="ball" type="sphere" size="0.06" friction="0.7" mass="0.3"/></body>
</worldbody>
<actuator>
 <motor joint="wrist" ctrlrange="-1 1"/>
 <adhesion name="cling" body="pad" ctrlrange="0 1" gain="20"/>
 <adhesion name="grasp" body="hand" ctrlrange="0 1" gain="6"/>
 <general name="slow" body="ball" ctrlrange="0 1" gainprm="3" dyntype="filter" dynprm="0.02" biastype="affine"
   biasprm="0.3" forcerange="0 2.5"/>
</actuator></mujoco>"""


def climber(integrator: str = "Euler", option: str = "") -> pb.Model:
    return pb.load(CLIMBER.format(integrator=integrator, option=option))


def scattered(system: pb.Articulated, seed: int = 0):
    """States in which bodies overlap, are in the gap, or are apart, and controls (20, worlds, nu) in their range."""
    rng, model, worlds = np.random.default_rng(seed), system.model, system.worlds
    q = np.tile(model.q0, (worlds, 1))
    q[:, 2] += rng.uniform(-0.004, 0.016, worlds)
    q[:, 8:11] += 0.006 * rng.normal(size=(worlds, 3))
    q[:, 3:7] += 0.01 * rng.normal(size=(worlds, 4))
    controls = np.concatenate([rng.normal(size=(20, worlds, 1)), rng.uniform(0.1, 0.9, (20, worlds, 3))], axis=2)
    return system.state(q, 0.03 * rng.normal(size=(worlds, system.nv)), rng.uniform(0, 1, (worlds, 1))), controls


def held(model: pb.Model, state) -> np.ndarray:
    """Contacts with forces of their own, and those in the gap, of each world."""
    data, counts = mujoco.MjData(model.mujoco), []
    for q in state.q:
        data.qpos[:] = q
        mujoco.mj_forward(model.mujoco, data)
        gap = data.contact.exclude == 1
        counts.append((np.count_nonzero(~gap), np.count_nonzero(gap)))
    return np.array(counts)


@pytest.mark.parametrize("integrator", [*INTEGRATORS, "implicit"])
@pytest.mark.parametrize("option", ["", 'cone="elliptic"'])
def test_a_climber_moves_as_in_mujoco(integrator, option):
    model = climber(integrator, option)
    system = pb.Articulated(model, worlds=40)
    state, controls = scattered(system)
    touching, near = held(model, state).T
    for counts in (touching, near):
        assert np.any(counts == 0) and np.any(counts > 1)
    assert np.any((touching == 0) & (near > 0)) and np.any((touching > 0) & (near > 0))
    theirs = mujoco_motion(precise(model.mujoco), *state, controls[:1], free=False)
    ours = system.step(state, controls[0])
    for x, before, exact in zip(ours, state, theirs, strict=True):
        assert relative_error(x - before, exact[1] - before) < 1e-9
    loose = mujoco_motion(precise(model.mujoco), *state, 0 * controls[:1], free=False)
    assert np.count_nonzero(np.abs(loose[1][1] - theirs[1][1]).max(axis=1) > 1e-3) > 20  # it pulls in most worlds


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradients(integrator):
    system = pb.Articulated(climber(integrator), worlds=20)
    state, controls = scattered(system, seed=1)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "act", "control", "gain", "bias", "activation", "geom_pos", "geom_size", "friction", "mass"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert report.passed


def test_gradients_where_the_gap_alone_holds():
    """No contact has a force of its own: what is pulled, and how, depends on points and normals all the same."""
    system = pb.Articulated(climber("implicitfast"), worlds=10)
    state, controls = scattered(system, seed=2)
    q = state.q.copy()
    q[:, 2] = system.model.q0[2] + np.random.default_rng(0).uniform(0.0045, 0.012, 10)
    q[:, 3:7], q[:, 10] = system.model.q0[3:7], 1.0
    state = system.state(q, state.v, state.act)
    touching, near = held(system.model, state).T
    assert not np.any(touching) and np.all(near > 0)
    report = pb.check_system(system, state, controls[:1])
    for name in ("q", "control", "gain", "geom_pos", "com", "body_quat"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_without_contacts_nothing_holds():
    system, rest = (pb.Articulated(climber(), contact=None, worlds=3) for _ in range(2))
    state, controls = scattered(system)
    still = controls.copy()
    still[..., 1:3] = 0
    for x, exact in zip(system.step(state, controls[0]), rest.step(state, still[0]), strict=True):
        np.testing.assert_array_equal(x, exact)
    bars = pb.rollout(system, state, controls[:3]).pullback(v_bar=np.ones((4, 3, system.nv)))
    assert not np.any(bars.controls[..., 1:3]) and np.any(bars.controls[..., 0])


def test_what_is_not_supported_is_named():
    text = CLIMBER.format(integrator="Euler", option="")
    with pytest.raises(pb.PullbackError, match="'slow' is adhesion with feedback of velocity"):
        pb.load(text.replace('biasprm="0.3"', 'biasprm="0.3 0 -1"'))
    with pytest.raises(pb.PullbackError, match="'cling' is adhesion, in a model with joints that limit"):
        pb.load(text.replace('name="wrist"', 'name="wrist" actuatorfrcrange="-1 1"'))
    for contact in ("impulse", "compliant", "longrange"):
        with pytest.raises(pb.PullbackError, match="'cling' is adhesion.*ContactConvex"):
            pb.Articulated(pb.load(text), contact)
    with pytest.raises(pb.PullbackError, match="refine.*'cling'"):
        pb.Articulated(pb.load(text), refine=1e-3)


def test_a_robot_without_adhesion_knows_nothing_of_it():
    text = CLIMBER.format(integrator="Euler", option="")
    model = pb.load(text[: text.index(" <adhesion")] + "</actuator></mujoco>")
    system = pb.Articulated(model)
    assert not system._flavour.adhesion and not system._flavour.tendons
    assert pb.Articulated(climber())._flavour.adhesion
