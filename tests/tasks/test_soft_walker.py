"""The soft walker: its gait, its gradient, and that it learns to walk."""

import numpy as np
import pytest

import pullback as pb
from pullback.plan import LBFGS
from pullback.soft import Corotated, Muscle, Particles, Wall, block
from pullback.tasks import TASKS, Launch, Loss, Rhythm, Task
from pullback.tasks.soft_walker import robot, robot_in_space
from pullback.view import draw_run


def small_walker(steps=60) -> Task:
    """Two legs and a back of few particles, in double precision."""
    tissue = Corotated(young=25.0, poisson=0.25, density=1.0)
    bodies = [block((0.3, 0.3), (0.6, 0.4), (12, 4), tissue, name="back")]
    bodies += [block((x, 0.2), (x + 0.1, 0.3), (4, 4), tissue, muscle=Muscle((0, 1), 4.0)) for x in (0.3, 0.5)]
    floor = [Wall((0.0, 0.19), (0.0, 1.0), 0.5)]
    system = Particles(bodies, dx=1 / 20, cells=(21, 21), dt=4e-3, gravity=(0.0, -3.8), walls=floor)

    def loss(run) -> Loss:
        x_bar = np.zeros(run.final.x.shape)
        x_bar[..., 0] = -1 / system.n
        return Loss(-run.final.x[..., 0].mean(axis=1), {"x_bar": x_bar})

    return Task(
        name="small-walker", about="walk", system=system, start=system.state(), loss=loss, target=-1.0,
        find=Rhythm(steps, system.dt, 3.0, spread=0.3), metric=lambda run: -run.final.x[..., 0].mean(axis=1),
        checkpoint_every=7,
    )  # fmt: skip


def test_the_gradient_of_a_gait():
    """Every weight and bias against differences, through contact with the floor."""
    task = small_walker()
    x, _, _ = task.begin()
    gradient = task(x[None], True).gradients[0]
    steps = 1e-6 * np.eye(len(x))
    losses = task(np.concatenate([x + steps, x - steps]), False).losses
    numeric = (losses[: len(x)] - losses[len(x) :]) / 2e-6
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, numeric, atol=1e-6 * np.abs(gradient).max())


def test_a_rhythm_and_its_way_back():
    """Against differences of the controls themselves, in two worlds."""
    system, random = small_walker().system.in_worlds(2), np.random.default_rng(0)
    find = Rhythm(17, 0.01, 3.0, waves=3)
    x, low, high = find.begin(system)
    assert len(x) == 4 * system.nu and np.all(low == -np.inf) and np.all(high == np.inf)
    points = x + random.standard_normal((2, len(x)))
    controls, params = find.decode(system, points)
    assert controls.shape == (17, 2, 2) and not params and np.abs(controls).max() < 1
    turns = 0.01 * 3.0 * 5 + np.arange(3) / 3
    weights = points[1].reshape(4, 2)
    by_hand = np.tanh(np.sin(2 * np.pi * turns) @ weights[:3] + weights[3])
    np.testing.assert_allclose(controls[5, 1], by_hand, rtol=1e-12)
    bar = random.standard_normal(controls.shape)
    pulled = find.pull(system, points, pb.Bars(None, bar, {}))
    pushed = find.push(system, points)["controls"]
    np.testing.assert_allclose(pulled, np.einsum("tku,tkun->kn", bar, pushed), atol=1e-12)
    for i in range(len(x)):
        move = 1e-6 * np.eye(len(x))[i]
        up, down = (find.decode(system, points + sign * move)[0] for sign in (1, -1))
        np.testing.assert_allclose(pulled[:, i], ((up - down) * bar).sum(axis=(0, 2)) / 2e-6, rtol=1e-6, atol=1e-7)


def test_a_gait_is_found():
    task = small_walker(120)
    x, low, high = task.begin()
    found = pb.plan.minimise(task, x, LBFGS(), iterations=8, low=low, high=high)
    assert found.losses[found.best] < found.losses[0] - 0.01


def test_the_robot_is_difftaichis():
    """2,976 particles and four muscles; and a step from rest is a fall."""
    system = robot()
    assert (system.n, system.nu, system.cells) == (2976, 4, (128, 128))
    assert system.longest_dt > system.dt
    task = TASKS["soft-walker"]()
    assert len(task.begin()[0]) == 20
    states = system.steps(system.state(), np.zeros((20, 1, 4), np.float32), keep_every=20)
    assert states.v[1, ..., 1].mean() == pytest.approx(-3.8 * 20e-3, rel=0.1)


def test_what_is_drawn():
    """Particles of the plane stand in the xz plane; muscles are coloured by what they do."""
    task = small_walker()
    x, _, _ = task.begin()
    run = task.run(x)
    drawing = draw_run(run)
    assert drawing.points.shape == (len(run.kept), task.system.n, 3)
    np.testing.assert_allclose(drawing.points[-1][:, [0, 2]], run.final.x[0], rtol=1e-6)
    assert np.all(drawing.points[..., 1] == 0) and drawing.paint_unit == "control"
    paint = drawing.point_paint.astype(int)
    assert np.ptp(paint[:, :48]) == 0 and np.ptp(paint[:, 48:64]) > 50
    assert list(drawing.shape_kind) == ["plane"]


def test_a_launch_is_the_velocity_of_all_particles():
    """Its gradient against differences; and a square that is thrown to where it should be."""
    task = TASKS["soft-throw"]()
    assert task.system.n == 6400
    walker = small_walker(20).but(find=Launch(20, (0.3, 0.1)))
    x, _, _ = walker.begin()
    gradient = walker(x[None], True).gradients[0]
    losses = walker(x + 1e-5 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)]), False).losses
    np.testing.assert_allclose(gradient, (losses[::2] - losses[1::2]) / 2e-5, atol=1e-7)
    assert np.abs(gradient).max() > 1e-3
    with pytest.raises(pb.PullbackError, match="needs 2 numbers, not 3"):
        walker.but(find=Launch(20, (0.3, 0.1, 0.0))).run(np.zeros(3))


def test_the_throw_is_found():
    task = TASKS["soft-throw"]()
    task = task.but(find=Launch(200, (0.0, 0.0)))
    x, low, high = task.begin()
    found = pb.plan.minimise(task, x, task.method, iterations=10, target=task.target, low=low, high=high)
    assert found.metrics[found.best] <= task.target


def test_the_robot_in_space_is_difftaichis():
    """30,495 particles and sixteen muscles, which stand side by side without a gap."""
    system = robot_in_space()
    assert (system.n, system.nu, system.cells) == (30495, 16, (64, 64, 64))
    low, high = (f([f(body.points, axis=0) for body in system.bodies], axis=0) for f in (np.min, np.max))
    np.testing.assert_allclose(low, (0.1, 0.3, 0.05), atol=0.01)
    np.testing.assert_allclose(high, (0.4, 0.6, 0.12), atol=0.01)
    few = robot_in_space(0.05)
    assert few.n == 3186 and few.longest_dt > few.dt
