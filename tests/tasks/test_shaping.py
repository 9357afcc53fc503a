"""Shapes that are moved to shape soft bodies: their paths, the distance of shapes, and tasks that use both."""

import numpy as np
import pytest

import pullback as pb
from pullback import soft
from pullback.plan import minimise
from pullback.tasks import TASKS, ShapePath
from pullback.tasks.shapes import Lump

ROLL, UP = (0.0, 1 / 0.03, 0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def test_a_path_is_what_it_says():
    """Through its knots; velocities are those of its lines; and it rolls without slip."""
    system = TASKS["mould"]().system
    find = ShapePath(6, (ROLL, UP), ((0.02, -0.01), (0.05, 0.0)))
    found = find.inputs(system.in_worlds(2), np.stack([find.begin(system)[0], np.zeros(4)]))
    rest = system.shapes_at_rest["pose"]
    np.testing.assert_allclose(found["pose"][[0, 3], 0, 0, 0] - rest[0, 0], (0.0, 0.02), atol=1e-15)
    np.testing.assert_allclose(found["pose"][3, 0, 0, 2] - rest[0, 2], -0.01)
    np.testing.assert_allclose(
        found["twist"][3, 0, 0], (0, 0.01 / 0.03 / system.dt, 0, 0.01 / system.dt, 0, found["twist"][3, 0, 0, 5])
    )
    np.testing.assert_allclose(
        np.diff(found["pose"][..., :3], axis=0), system.dt * found["twist"][:-1, ..., 3:], atol=1e-15
    )
    np.testing.assert_array_equal(found["pose"][:, 1], np.tile(rest, (6, 1, 1)))
    assert not found["twist"][:, 1].any()


def test_a_path_and_its_way_back():
    """The cotangents of poses and twists come back to the knots: the inputs are linear in these."""
    system, random = TASKS["mould"]().system.in_worlds(2), np.random.default_rng(0)
    find = ShapePath(7, (ROLL, UP), np.zeros((3, 2)))
    points, other = random.standard_normal((2, 2, 6))
    bars = {name: random.standard_normal(x.shape) for name, x in find.inputs(system, points).items()}
    bars["pose"][..., 3:] = 0.0  # the pin is round: its quaternion stays
    pulled = find.pull(system, points, pb.Bars(None, None, {}, bars))
    moved = [find.inputs(system, x) for x in (points + other, points)]
    pushed = sum(((moved[0][n] - moved[1][n]) * bars[n]).sum(axis=(0, 2, 3)) for n in bars)
    assert np.abs(pushed).min() > 1
    np.testing.assert_allclose((pulled * other).sum(axis=1), pushed, rtol=1e-10)


def test_where_mass_is():
    """It adds up, its middle is that of the particles, and its slope is that of differences."""
    random = np.random.default_rng(1)
    x, mass = random.uniform(0.05, 0.25, (20, 3)), random.uniform(1, 2, 20)
    lump = Lump((0, 0, 0), (0.3, 0.3, 0.3), 0.05)
    found = lump.mass(x, mass)
    np.testing.assert_allclose(found.sum(), mass.sum(), rtol=1e-12)
    cells = np.indices(tuple(lump.counts)).reshape(3, -1).T
    np.testing.assert_allclose(found @ (cells - 1.0) * 0.05, mass @ x, rtol=1e-12)
    bar, move = random.standard_normal(found.shape), random.standard_normal(x.shape)
    slope = (lump.pull(x, mass, bar) * move).sum()
    numeric = bar @ (lump.mass(x + 1e-6 * move, mass) - lump.mass(x - 1e-6 * move, mass)) / 2e-6
    assert abs(slope) > 1
    np.testing.assert_allclose(slope, numeric, rtol=1e-7)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: ShapePath(0, (UP,), ((0.0,),)), "steps of a ShapePath"),
        (lambda: ShapePath(9, UP, ((0.0,),)), "moves of a ShapePath"),
        (lambda: ShapePath(9, (UP,), ((0.0, 1.0),)), "guess of a ShapePath"),
        (lambda: ShapePath(9, (UP,), ((np.nan,),)), "guess of a ShapePath"),
        (lambda: ShapePath(1, (UP,), ((0.0,), (1.0,))), "at most so many knots"),
        (lambda: ShapePath(9, (UP,), ((0.0,),), shape=1).begin(TASKS["mould"]().system), "has 1 shapes"),
        (lambda: ShapePath(9, ((1.0, 0, 0, 0, 0, 0),), ((0.0,),)).begin(TASKS["mould"]().system), "round about"),
        (lambda: ShapePath(9, (UP,), ((0.0,),)).begin(pb.Articulated(pb.load(pb.robots.pendulum()))), "has 0 shapes"),
        (lambda: TASKS["mould"](seed=-1), "seed must be"),
    ],
)  # fmt: skip
def test_bad_input(make, match):
    with pytest.raises(pb.PullbackError, match=match):
        make()


def agrees(task, x: np.ndarray) -> None:
    """The gradient along a random direction is that of differences."""
    direction = np.random.default_rng(2).standard_normal(len(x))
    slope = float(task(x[None], True).gradients[0] @ direction)
    steps = np.array([1e-6, 1e-7, 1e-8])[:, None] * direction
    losses = task(np.concatenate([x + steps, x - steps]), False).losses
    numeric = (losses[:3] - losses[3:]) / (2 * np.array([1e-6, 1e-7, 1e-8]))
    assert abs(slope) > 1e-3 and np.abs(numeric - slope).min() < 1e-5 * abs(slope)  # kinks are where clay yields


def test_grip_begins():
    """Its gradient, through robot and particles; and that the first iterations lift the block."""
    task = TASKS["grip"]()
    x, low, high = task.begin()
    agrees(task, x)
    found = minimise(task, x, task.method, iterations=5, low=low, high=high)
    assert found.metrics[0] > 5 * task.target and found.losses[found.best] < 0.9 * found.losses[0]


def test_mould():
    """Its gradient, and that the wanted shape is found."""
    task = TASKS["mould"]()
    x, low, high = task.begin()
    agrees(task, x)
    found = minimise(task, x, task.method, iterations=12, target=task.target, low=low, high=high)
    assert found.metrics[0] > 5 * task.target and found.metrics[found.best] <= task.target
    assert isinstance(task.system, soft.Particles)


def test_a_soft_hook_opens_the_door():
    """Its gradient, through elastic hook and hinge; and that the first iterations open the door farther."""
    task = TASKS["open-door"]()
    x, low, high = task.begin()
    agrees(task, x)
    found = minimise(task, x, task.method, iterations=12, target=task.target, low=low, high=high)
    assert found.metrics[0] > 5 * task.target and found.metrics[found.best] <= task.target
