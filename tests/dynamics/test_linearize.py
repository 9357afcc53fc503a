"""Jacobians of a step: against MuJoCo's differences, against Pinocchio's derivatives of ABA, and their structure."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import relative_error, unconstrained
from pinocchio_trees import pinocchio_model
from trees import random_states, random_tree

import pullback as pb

seeds = st.integers(0, 2**32 - 1)


def mujoco_jacobians(m, q, v, control) -> tuple[np.ndarray, np.ndarray]:
    """A (2nv, 2nv) and B (2nv, nu) by central differences of MuJoCo's step."""
    data = mujoco.MjData(m)
    A, B = np.zeros((2 * m.nv, 2 * m.nv)), np.zeros((2 * m.nv, m.nu))
    if m.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4.value:
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, control
        mujoco.mjd_transitionFD(m, data, 1e-6, 1, A, B, None, None)
        return A, B

    def step(move: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v + move[m.nv : 2 * m.nv], control + move[2 * m.nv :]
        mujoco.mj_integratePos(m, data.qpos, move[: m.nv], 1.0)
        mujoco.mj_step(m, data)
        return data.qpos.copy(), data.qvel.copy()

    h, columns, turn = 1e-6, [], np.zeros(m.nv)
    for e in np.eye(2 * m.nv + m.nu):
        (q_minus, v_minus), (q_plus, v_plus) = step(-h * e), step(h * e)
        mujoco.mj_differentiatePos(m, turn, 2 * h, q_minus, q_plus)
        columns.append(np.concatenate([turn, (v_plus - v_minus) / (2 * h)]))
    both = np.column_stack(columns)
    return both[:, : 2 * m.nv], both[:, 2 * m.nv :]


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
@given(seed=seeds)
@settings(max_examples=20)
def test_against_mujocos_differences(integrator, seed):
    joints = ("ball", "hinge", "slide") if integrator == "implicitfast" else ("free", "ball", "hinge", "slide")
    model = pb.load(random_tree(seed, integrator=integrator, timestep=0.01, joints=joints))
    rng = np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, 2)
    controls = rng.normal(size=(2, model.nu))
    system = pb.Articulated(model, worlds=2)
    A, B = system.linearize(system.state(q, v), controls)
    for world in range(2):
        their_A, their_B = mujoco_jacobians(unconstrained(model.mujoco), q[world], v[world], controls[world])
        assert relative_error(A[world], their_A) < 1e-6
        assert np.abs(B[world] - their_B).max(initial=0) < 1e-6 * max(1e-3, np.abs(their_B).max(initial=0))


@given(seed=seeds)
@settings(max_examples=60)
def test_against_pinocchios_derivatives(seed):
    """An Euler step without damping is v' = v + h a, so its Jacobians hold those of the acceleration, analytically."""
    h = 1e-3
    model = pb.load(random_tree(seed, actuators="motor", passive=False, timestep=h))
    m, nv = model.mujoco, model.nv
    rng = np.random.default_rng(seed)
    q, v = random_states(m, rng, 1)
    tau = rng.normal(size=nv)
    system = pb.Articulated(model)
    state = system.state(q, v)
    peer = pinocchio_model(m)
    a = (system.step(state, tau[None]).v[0] - v[0]) / h
    assert relative_error(a, peer.aba(q[0], v[0], tau)) < 1e-9
    A, B = (x[0] for x in system.linearize(state, tau[None]))
    ours = A[nv:, :nv] / h, (A[nv:, nv:] - np.eye(nv)) / h, B[nv:] / h
    for x, y in zip(ours, peer.aba_derivatives(q[0], v[0], tau), strict=True):
        assert np.abs(x - y).max() < 1e-9 * max(np.abs(y).max(), 1e-3)


@given(seed=seeds)
@settings(max_examples=40)
def test_forces_act_through_the_inverse_of_the_mass_matrix(seed):
    """dv'/dtau = h M⁻¹: symmetric, positive definite, and MuJoCo's."""
    h = 1e-3
    model = pb.load(random_tree(seed, actuators="motor", passive=False, timestep=h))
    m = model.mujoco
    q, v = random_states(m, np.random.default_rng(seed), 1)
    system = pb.Articulated(model)
    _, B = system.linearize(system.state(q, v), np.zeros((1, model.nu)))
    inverse = B[0, model.nv :] / h
    assert np.abs(inverse - inverse.T).max() < 1e-12 * np.abs(inverse).max()
    assert np.linalg.eigvalsh(inverse).min() > 0
    data = mujoco.MjData(m)
    data.qpos[:] = q[0]
    mujoco.mj_forward(m, data)
    mass = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, mass)
    assert np.abs(inverse @ mass - np.eye(m.nv)).max() < 1e-9


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
def test_worlds_and_parameters_of_their_own(integrator):
    """Each world's Jacobians are those of that world alone, at its own parameters, to the last bit."""
    model = pb.load(random_tree(21, integrator=integrator))
    rng = np.random.default_rng(0)
    q, v = random_states(model.mujoco, rng, 3, unit=False)
    controls = rng.normal(size=(3, model.nu))
    mass = model.body_mass * rng.uniform(0.5, 2.0, size=(3, model.nbody))
    system, alone = pb.Articulated(model, worlds=3), pb.Articulated(model)
    system.params["mass"] = mass
    A, B = system.linearize(system.state(q, v), controls)
    given_A, _ = system.linearize(system.state(q, v), controls, {"mass": mass[::-1]})
    for w in range(3):
        one_A, one_B = alone.linearize(alone.state(q[w], v[w]), controls[[w]], {"mass": mass[w]})
        np.testing.assert_array_equal(A[w], one_A[0])
        np.testing.assert_array_equal(B[w], one_B[0])
        other_A, _ = alone.linearize(alone.state(q[w], v[w]), controls[[w]], {"mass": mass[2 - w]})
        np.testing.assert_array_equal(given_A[w], other_A[0])


def test_without_controls():
    model = pb.load(random_tree(2, actuators="none"))
    system = pb.Articulated(model, worlds=2)
    A, B = system.linearize(system.state())
    assert A.shape == (2, 2 * model.nv, 2 * model.nv) and B.shape == (2, 2 * model.nv, 0)
    assert np.isfinite(A).all()


ROD = """<mujoco><worldbody><body><joint axis="0 1 0"/><geom size="0.1" mass="1" pos="0.2 0 0"/>
  <body pos="0.3 0 0" euler="30 20 10"><inertial pos="0 0 0" mass="0.5" diaginertia="0.1 0.1 0"/></body></body>
  </worldbody></mujoco>"""


def test_a_rod_without_thickness():
    """The file's own parameters are parameters a robot can have, also an inertia with a zero moment."""
    model = pb.load(ROD)
    system = pb.Articulated(model, contact=None)
    A, _ = system.linearize(system.state())
    np.testing.assert_allclose(A[0, 0, 1], model.timestep, rtol=1e-12)
    assert pb.check_system(system, names=("q", "v", "mass", "com"))["com"].largest > 0
    for name, value in system.params.items():
        system.params[name] = value
