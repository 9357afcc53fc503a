"""That hopping is hopping and grasping is grasping: metrics that cannot be fooled, sketches that are what they say."""

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.plan import REACHED
from pullback.rollout import Run
from pullback.tasks import grasp, hop, solve


def posed(task, q: np.ndarray, v: np.ndarray | None = None) -> float:
    """The metric of a motion (steps + 1, nq) that is made up."""
    states = pb.State(q[:, None], np.zeros((len(q), 1, task.system.nv)) if v is None else v[:, None])
    return float(task.metric(Run(task.system, states, np.zeros((len(q) - 1, 1, task.system.nu)), 1, None))[0])


@pytest.fixture(scope="module")
def hopping():
    return hop.hop()


@pytest.fixture(scope="module")
def grasping():
    return grasp.grasp()


def test_starts_are_random_and_at_rest():
    for make in (hop.hop, grasp.grasp):
        starts = [make(seed=seed).start for seed in (0, 0, 1)]
        np.testing.assert_array_equal(starts[0].q, starts[1].q)
        assert np.abs(starts[0].q - starts[2].q).max() > 1e-3
        assert not np.any(starts[0].v)


def test_the_sole_is_where_mujoco_says(hopping):
    model = hopping.system.model.mujoco
    data = mujoco.MjData(model)
    foot = model.body("ankle").geomadr[0]
    rng = np.random.default_rng(0)
    for q in rng.uniform(-1, 1, (5, 6)):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        middle, low = hop.sole(q)
        axis = data.geom_xmat[foot].reshape(3, 3)[:, 2]
        np.testing.assert_allclose(middle, data.geom_xpos[foot][0], atol=1e-12)
        ends = [data.geom_xpos[foot][2] + s * model.geom_size[foot, 1] * axis[2] for s in (-1, 1)]
        np.testing.assert_allclose(low, min(ends) - hop.RADIUS, atol=1e-12)


def test_the_sketch_of_the_hop_flies_over_the_gap(hopping):
    path = np.asarray(hopping.loss.goal.q)
    assert posed(hopping, path) < 0.5
    dt = hopping.system.model.timestep
    flight = path[round((hop.TAKE_OFF + 0.01) / dt) : round((hop.TAKE_OFF + hop.FLIGHT - 0.01) / dt)]
    fall = np.diff(flight[:, :2], 2, axis=0) / dt**2
    np.testing.assert_allclose(fall, np.tile([0, -hop.G], (len(fall), 1)), atol=1e-6)
    np.testing.assert_allclose(path[0], hopping.start.q[0], atol=1e-9)


def test_what_is_no_hop(hopping):
    path = np.asarray(hopping.loss.goal.q)
    slid = path.copy()  # through the gap at the height of the platforms
    slid[:, 1] = path[0, 1]
    slid[:, 3:] = path[0, 3:]
    assert posed(hopping, slid) > 1
    near = path - [0.06, 0, 0, 0, 0, 0]
    low = path - [0, 0.06, 0, 0, 0, 0]
    bowed = path + [0, 0, 0.11, -0.11, 0, 0]
    stayed = np.tile(path[0], (len(path), 1))
    for wrong in (near, low, bowed, stayed):
        assert posed(hopping, wrong) > 1
    for k, speed in ((0, 0.3), (5, 0.6)):
        v = np.zeros(path.shape)
        v[-5, k] = speed  # a moment before the end is enough
        assert posed(hopping, path, v) > 1


def test_the_harness_is_gone_in_the_end(hopping):
    assert hopping.system.nu == 3 and all(task.system.nu == 6 for task in hopping.easier)
    assert hopping.system.model.mujoco.nu == 3
    mass = [task.system.model.mujoco.body_mass for task in (hopping, *hopping.easier)]
    np.testing.assert_array_equal(mass[0], mass[-1])


def test_without_control_the_hopper_stands(hopping):
    run = hopping.run(hopping.begin()[0])
    assert np.abs(run.q[-1, 0, :3] - run.q[0, 0, :3]).max() < 0.12 and np.abs(run.v[-1]).max() < 0.3


def test_what_is_no_lift(grasping):
    path = np.asarray(grasping.loss.goal.q)
    assert posed(grasping, path) < 0.5
    fallen, thrown, scooped, tilted = (path.copy() for _ in range(4))
    fallen[-5:, 8] = grasp.HALF
    scooped[:, [2, 5]] -= 0.03
    turn = np.array([np.cos(0.05), np.sin(0.05), 0, 0])
    tilted[:, 9:] = turn
    thrown[:, 6] += 0.02 * np.linspace(0, 1, len(path))
    for wrong in (fallen, thrown, scooped, tilted, np.tile(path[0], (len(path), 1))):
        assert posed(grasping, wrong) > 1
    for k, speed in ((8, 0.02), (11, 0.1)):
        v = np.zeros((len(path), 12))
        v[-30, k] = speed
        assert posed(grasping, path, v) > 1


@pytest.mark.parametrize("seed", range(10))
def test_fingers_begin_apart_from_the_cube(seed):
    task = grasp.grasp(seed=seed)
    model = task.system.model.mujoco
    data = mujoco.MjData(model)
    data.qpos[:] = task.start.q[0]
    mujoco.mj_forward(model, data)
    assert all(model.geom("floor").id in contact.geom for contact in data.contact)
    assert data.ncon > 0


def test_the_cube_is_held_by_friction(grasping):
    """At the end it touches the fingertips alone, with forces that point into its sides, and they carry its weight."""
    found = solve(grasping, target=grasping.target)[-1]
    assert found.stopped == REACHED
    run = grasping.run(found.x)
    points = run.contacts(-1)[0]
    assert len(points) == 4 and all("cube" in pair for pair in points.geoms)
    np.testing.assert_allclose(np.abs(points.normal[:, 1]), 1, atol=0.02)
    np.testing.assert_allclose(abs(points.force[:, 2].sum()), grasp.MASS * 9.81, rtol=0.05)
