"""Servos that hold the orientation of a ball joint against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion
from oracles import relative_error, unconstrained

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

ARM = """<mujoco><option timestep="0.002" integrator="{integrator}"/>
<worldbody><body><joint name="shoulder" type="ball" damping="0.02" armature="0.05"/>
 <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.05 0" mass="1"/>
 <body pos="0.3 0 0"><joint name="elbow" axis="0 1 0" armature="0.05"/>
  <geom type="capsule" size="0.04" fromto="0 0 0 0.2 0.1 0" mass="0.5"/>
  <body pos="0.2 0.1 0"><joint name="wrist" type="ball" armature="0.02"/><geom type="box" size="0.1 0.05 0.03"
   pos="0.1 0.02 0" mass="0.3"/></body></body></body></worldbody>
<actuator>
 <motor name="elbow" joint="elbow"/>
 <orientation name="hold" joint="shoulder" kp="9" kv="0.3"/>
 <orientation name="weak" joint="shoulder" kp="5" kv="0.2" forcerange="0 6" ctrlrange="-1.5 1.5"/>
 <orientation name="hand" joint="wrist" kp="3" kv="0.1" input="quat" forcerange="0 4"/>
</actuator></mujoco>"""


LIMITS = ('forcerange="0 6"', 'forcerange="0 4"')


def arm(integrator: str = "Euler", *, limited: bool = True) -> pb.Model:
    text = ARM.format(integrator=integrator)
    for limit in () if limited else LIMITS:
        text = text.replace(limit, "")
    return pb.load(text)


def scattered(system: pb.Articulated, seed: int = 0):
    rng, worlds = np.random.default_rng(seed), system.worlds
    q = rng.normal(size=(worlds, system.nq))
    for first in (0, 5):
        q[:, first : first + 4] /= np.linalg.norm(q[:, first : first + 4], axis=1, keepdims=True)
    return system.state(q, rng.normal(size=(worlds, system.nv))), rng.normal(size=(30, worlds, system.nu))


def torques(model: pb.Model, state, control: np.ndarray) -> np.ndarray:
    data, found = mujoco.MjData(model.mujoco), []
    for q, v, u in zip(*state, control, strict=True):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
        mujoco.mj_forward(model.mujoco, data)
        found.append(np.linalg.norm(data.actuator_force[1:].reshape(3, 3), axis=1))
    return np.array(found)


@pytest.mark.parametrize(
    ("integrator", "limited"), [("Euler", True), ("RK4", True), ("implicitfast", False), ("implicit", False)]
)
def test_they_move_as_in_mujoco(integrator, limited):
    """Whether damping at the limit is implicit is decided by rounding in MuJoCo."""
    model = arm(integrator, limited=limited)
    assert model.nu == 11 and model.orientations.controls.tolist() == list(range(1, 11))
    system = pb.Articulated(model, contact=None, worlds=30)
    state, controls = scattered(system)
    for number, limit in ((1, 6), (2, 4)):
        held = np.abs(torques(model, state, controls[0])[:, number] - limit) < 1e-9
        assert held.any() == limited and not held.all()
    controls[:, :3, 7:] = 0  # a quaternion of no length is no rotation
    theirs = mujoco_motion(model.mujoco, *state, np.zeros((30, 0)), controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs[:2], strict=True):
        assert relative_error(ours, exact) < 1e-11


@each_integrator
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients(integrator, seed):
    system = pb.Articulated(arm(integrator), contact=None, worlds=10)
    state, controls = scattered(system, seed)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "control", "gain", "bias", "mass"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert report.passed
    bars = pb.rollout(system, state, controls[:2]).pullback(v_bar=np.ones((3, 10, system.nv)))
    assert np.all(np.abs(bars.controls[:, :, 1:]).max(axis=(0, 1)) > 1e-6)
    for row in (1, 4, 7):
        assert abs(bars.params["gain"][row, 0]) > 1e-6 and np.all(np.abs(bars.params["bias"][row, [0, 2]]) > 1e-6)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_jacobians_are_mujocos(integrator):
    model = arm(integrator, limited=integrator == "Euler")
    system = pb.Articulated(model, contact=None)
    state, controls = scattered(system, seed=2)
    A, B = system.linearize(state, controls[0])
    m = unconstrained(model.mujoco)
    data, their_A, their_B = mujoco.MjData(m), np.zeros((2 * m.nv, 2 * m.nv)), np.zeros((2 * m.nv, m.nu))
    data.qpos[:], data.qvel[:], data.ctrl[:] = *(x[0] for x in state), controls[0, 0]
    mujoco.mjd_transitionFD(m, data, 1e-6, 1, their_A, their_B, None, None)
    assert relative_error(A[0], their_A) < 1e-6 and relative_error(B[0], their_B) < 1e-6


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name="hold" joint="shoulder" kp="9" kv="0.3"', 'name="hold" site="s" refsite="r"', "between sites"),
        (
            '<orientation name="hold" joint="shoulder" kp="9" kv="0.3"/>',
            '<general name="hold" joint="shoulder" gaintype="so3" biastype="so3" gainprm="9"'
            ' biasprm="0 -9 -0.3" dyntype="integrator"/>',
            "an orientation that it integrates",
        ),
    ],
)
def test_what_is_refused_is_named(old, new, why):
    text = ARM.format(integrator="Euler").replace(
        "<worldbody><body>", '<worldbody><site name="r"/><body><site name="s"/>'
    )
    assert old in text
    with pytest.raises(pb.PullbackError, match=f"'hold' holds an orientation.*{why.split()[-1]}.*ignore"):
        pb.load(text.replace(old, new))


def test_a_robot_without_them_knows_nothing_of_them():
    assert not pb.Articulated(pb.load(pb.robots.cartpole()), None)._flavour.orientations
    assert pb.Articulated(arm(), None)._flavour.orientations
