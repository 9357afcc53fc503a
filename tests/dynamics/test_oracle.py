"""The motion, against MuJoCo without constraints: random trees, sample robots, Gymnasium's robots, every integrator."""

from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from oracles import NoOracle, mujoco_run, relative_error, unconstrained
from trees import random_states, random_tree

import pullback as pb

ASSETS = sorted((Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets").glob("*.xml"))
INTEGRATORS = {
    "euler": {"integrator": "Euler"},
    "euler, damping explicit": {"integrator": "Euler", "eulerdamp": False},
    "implicitfast": {"integrator": "implicitfast"},
    "implicit": {"integrator": "implicit"},
    "rk4": {"integrator": "RK4"},
}
seeds = st.integers(0, 2**32 - 1)
each_integrator = pytest.mark.parametrize("how", INTEGRATORS.values(), ids=INTEGRATORS)


def both(source, *, steps: int, seed: int, worlds: int = 3, dtype: str = "float64", unit: bool = True, force=2.0):
    """A run of ours and MuJoCo's (q, v), from random states under random controls that leave their ranges."""
    model = source if isinstance(source, pb.Model) else pb.load(source)
    m = model.mujoco
    rng = np.random.default_rng(seed)
    q, v = random_states(m, rng, worlds, unit=unit)
    if dtype == "float32":  # from the very same numbers
        q, v = q.astype(dtype).astype(float), v.astype(dtype).astype(float)
    controls = force * rng.normal(size=(steps, worlds, m.nu)).astype(dtype).astype(float)
    try:
        exact_q, exact_v = mujoco_run(m, q, v, controls)
    except NoOracle:
        reject()  # such as feedback of a velocity that makes it grow
    system = pb.Articulated(model, contact=None, worlds=worlds, dtype=dtype)
    return pb.rollout(system, system.state(q, v), controls), exact_q, exact_v


def mean_acceleration(v: np.ndarray, timestep: float) -> np.ndarray:
    """That of a step, from the velocities around it; for Euler without damping, qacc itself."""
    return np.diff(v, axis=0) / timestep


# one step


@each_integrator
@given(seed=seeds)
@example(seed=3)  # a static body that carries trees
@settings(max_examples=100)
def test_acceleration_on_random_trees(how, seed):
    xml = random_tree(seed, fluid=seed % 3 == 0, **how)
    run, q, v = both(xml, steps=1, seed=seed)
    ours, theirs = (mean_acceleration(x, 0.002) for x in (run.v, v))
    assert relative_error(ours, theirs) <= 1e-10
    assert relative_error(run.q, q) <= 1e-12


@each_integrator
@given(seed=seeds)
@settings(max_examples=40)
def test_a_long_step_shows_the_integrators_every_term(how, seed):
    """At 50 ms what is of third order in the step is large: Runge-Kutta on rotations, the implicit terms."""
    xml = random_tree(seed, timestep=0.05, **how)
    run, q, v = both(xml, steps=1, seed=seed)
    assert relative_error(run.v, v) <= 1e-11
    assert relative_error(run.q, q) <= 1e-11


@pytest.mark.parametrize("joint", ["<freejoint/>", '<joint type="free" damping="0.1" armature="0.02"/>'])
def test_implicitfast_on_a_free_body_of_its_own(joint):
    """Since 3.11 MuJoCo's implicitfast takes the gyroscopic forces of a free body that carries no joints implicitly."""
    xml = f"""<mujoco><option integrator="implicitfast" timestep="0.01"/><worldbody><body>{joint}
      <inertial pos="0.1 0 0" mass="1" diaginertia="0.1 0.2 0.25"/></body></worldbody></mujoco>"""
    run, _, v = both(xml, steps=1, seed=0)
    assert relative_error(mean_acceleration(run.v, 0.01), mean_acceleration(v, 0.01)) <= 1e-10


def test_gravity_compensation_that_is_negative():
    """MuJoCo applies a negative compensation where some body has a positive one, and none at all where none has."""
    body = '<body gravcomp="{}"><joint axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body>'
    for pair in [(-0.5, -0.2), (-0.5, 0.3)]:
        xml = f"<mujoco><worldbody>{''.join(map(body.format, pair))}</worldbody></mujoco>"
        run, _, v = both(xml, steps=1, seed=0)
        assert relative_error(mean_acceleration(run.v, 0.002), mean_acceleration(v, 0.002)) <= 1e-10, pair


@each_integrator
@given(seed=seeds)
@settings(max_examples=25)
def test_quaternions_of_any_length(how, seed):
    """A state's quaternion counts as the rotation it points to, as in MuJoCo; the next one is of unit length."""
    xml = random_tree(seed, joints=("free", "ball"), **how)
    run, q, v = both(xml, steps=1, seed=seed, unit=False)
    assert relative_error(run.v[1:], v[1:]) <= 1e-12
    assert relative_error(run.q[1:], q[1:]) <= 1e-12


# trajectories


@each_integrator
@given(seed=seeds)
@settings(max_examples=25)
def test_a_hundred_steps_of_random_trees(how, seed):
    xml = random_tree(seed, fluid=how["integrator"] in ("RK4", "implicit") and seed % 2 == 0, **how)
    run, q, v = both(xml, steps=100, seed=seed, worlds=2)
    assert relative_error(run.v, v) <= 1e-8
    assert relative_error(run.q, q) <= 1e-8


def robots():
    for name, make in pb.robots.ROBOTS.items():
        yield pytest.param(make(), id=name)
    yield pytest.param(pb.robots.chain(6), id="chain")
    for path in ASSETS:
        yield pytest.param(str(path), id=f"gymnasium {path.stem}")


@each_integrator
@pytest.mark.parametrize("source", list(robots()))
def test_a_hundred_steps_of_known_robots(source, how):
    m = unconstrained(pb.load(source).mujoco)
    m.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{how['integrator'].upper()}")
    if not how.get("eulerdamp", True):
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    run, q, v = both(pb.load(m), steps=100, seed=1, worlds=2, force=0.5)
    first = [mean_acceleration(x[:2], m.opt.timestep) for x in (run.v, v)]
    assert relative_error(*first) <= 1e-10
    assert relative_error(run.v, v) <= 1e-8
    assert relative_error(run.q, q) <= 1e-8
    assert np.abs(v[-1] - v[0]).max() > 1e-2  # it moved


# single precision


@each_integrator
@given(seed=seeds)
@settings(max_examples=40)
def test_float32_agrees_to_its_accuracy(how, seed):
    run, _, v = both(random_tree(seed, **how), steps=1, seed=seed, dtype="float32")
    assert run.v.dtype == run.q.dtype == np.float32
    # an acceleration of 100 m/s² in 2 ms changes a velocity of 1 m/s by 0.2: what is lost is against the velocity
    change, exact = run.v[1] - run.v[0], v[1] - v[0]
    assert relative_error(change, exact) <= 2e-5


def test_float32_over_a_hundred_steps():
    run, q, v = both(pb.robots.quadruped(), steps=100, seed=0, dtype="float32", force=0.5)
    assert relative_error(run.q, q) <= 1e-3
    assert relative_error(run.v, v) <= 1e-3


# far from the origin

FLYER = """<mujoco><worldbody><body><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0.1"/>
  <body pos="0.3 0 0"><joint axis="0 1 0" pos="0 0 0.1"/><geom type="box" size="0.1 0.02 0.1" pos="0.1 0 0"/>
  <body pos="0.2 0 0"><joint type="ball"/><geom type="box" size="0.1 0.05 0.1" pos="0.1 0.1 0"/></body></body>
  </body></worldbody></mujoco>"""
SLIDER = """<mujoco><worldbody><body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
  <joint axis="0 1 0"/><geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0.1"/>
  <body pos="0.3 0 0"><joint axis="0 1 0"/><geom type="box" size="0.1 0.02 0.1" pos="0.1 0 0"/></body>
  </body></worldbody></mujoco>"""


@pytest.mark.parametrize("dtype, accuracy", [("float64", 1e-9), ("float32", 2e-2)])
@pytest.mark.parametrize("xml, where", [(FLYER, slice(0, 3)), (SLIDER, slice(0, 2))], ids=["flyer", "slider"])
def test_far_from_the_origin(xml, where, dtype, accuracy):
    """The acceleration does not depend on where a robot is: at 10 km as at home, which MuJoCo confirms."""
    model = pb.load(xml)
    system = pb.Articulated(model, contact=None, worlds=2, dtype=dtype)
    q, v = random_states(model.mujoco, np.random.default_rng(0), 1)
    q, v = np.tile(q, (2, 1)), np.tile(v, (2, 1))
    q[1, where] += [1e4, -7e3, 2e3][: where.stop]
    change = system.step(system.state(q, v)).v - np.asarray(v, dtype)
    _, exact = mujoco_run(model.mujoco, q[:1], v[:1], np.zeros((1, 1, 0)))
    assert relative_error(change[:1] / 0.002, (exact[1] - v[:1]) / 0.002) <= (1e-10 if dtype == "float64" else 1e-3)
    assert relative_error(change[1] / 0.002, change[0] / 0.002) <= accuracy


@pytest.mark.parametrize("xml, where", [(FLYER, slice(0, 3)), (SLIDER, slice(0, 2))], ids=["flyer", "slider"])
def test_gradients_far_from_the_origin(xml, where):
    model = pb.load(xml)
    system = pb.Articulated(model, contact=None, worlds=2)
    rng = np.random.default_rng(0)
    q, v = random_states(model.mujoco, rng, 1)
    q, v = np.tile(q, (2, 1)), np.tile(v, (2, 1))
    q[1, where] += [1e4, -7e3, 2e3][: where.stop]
    A, _ = system.linearize(system.state(q, v))
    assert relative_error(A[1], A[0]) <= 1e-9


def test_an_inertial_frame_is_where_mujoco_has_it():
    """Within 1e-6 of the body's frame it is taken for that frame: the acceleration is MuJoCo's to rounding."""
    model = pb.load(
        """<mujoco><worldbody><body><joint axis="1 1 0"/><joint axis="0 0 1" pos="0.1 0 0"/>
        <inertial pos="9e-7 0 -5e-7" quat="1 4e-7 0 0" mass="2" diaginertia="0.1 0.2 0.25"/>
        </body></worldbody></mujoco>"""
    )
    m = model.mujoco
    assert m.body_sameframe[1] == mujoco.mjtSameFrame.mjSAMEFRAME_BODY
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = (0.3, -0.8), (2.0, 1.5)
    mujoco.mj_step(m, data)
    after = pb.Articulated(model).step(pb.State(np.array([[0.3, -0.8]]), np.array([[2.0, 1.5]])))
    np.testing.assert_allclose(after.v[0], data.qvel, rtol=1e-13)
