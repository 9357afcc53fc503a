"""iLQR: exact where the problem is linear and quadratic, within bounds, on any System, from a sketch, after a break."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback.core.bars import Named
from pullback.plan import ILQR, ControlProblem, HeldControls, QuadraticLoss, minimise
from pullback.tasks import Controls, Effort, Loss, Parameters, Position, StateGoal, Task, TorchLoss, Tracking


class Pair(NamedTuple):
    x: Any
    y: Any


class Coupled(pb.System):
    """Three numbers in two fields and two controls: s' = A s + B u - bend s³, nothing but the contract."""

    worlds, nu, dtype, device = 1, 2, "float64", "cpu"
    A = np.array([[1.0, 0.1, 0.0], [-0.2, 0.95, 0.1], [0.05, 0.0, 1.02]])
    B = np.array([[0.0, 0.1], [0.3, 0.0], [0.1, -0.2]])

    def __init__(self, bend: float = 0.0, wall: float = np.inf):
        self.bend, self.wall = bend, wall

    def step(self, state, control, params=None):
        s = np.concatenate(state, axis=-1)
        s = s @ self.A.T + control @ self.B.T - self.bend * s**3
        left = np.flatnonzero(np.abs(s).max(axis=-1) > self.wall)
        if len(left):
            raise pb.PullbackError(f"worlds {left} have left", worlds=left)
        return Pair(s[..., :2], s[..., 2:])

    def pullback(self, state, control, next_bar, params=None):
        s, bar = (np.concatenate(x, axis=-1) for x in (state, next_bar))
        s_bar = bar @ self.A - 3 * self.bend * s**2 * bar
        return pb.Bars(Pair(s_bar[..., :2], s_bar[..., 2:]), bar @ self.B, Named())


def made(system: pb.System, find: Controls, goal=None, **changes) -> Task:
    goal = Pair(np.array([0.5, -0.2]), np.array([0.3])) if goal is None else goal
    loss = Tracking(goal, np.array([1.0, 2.0, 0.5]), np.array([0.1, 0.2]))
    metric = lambda run: loss(run).values  # noqa: E731
    start = Pair(np.array([[1.0, -1.0]]), np.array([[0.4]]))
    about = {"name": "coupled", "about": "", "target": 0.0, "method": ILQR()}
    return Task(**{**about, "system": system, "start": start, "find": find, "loss": loss, "metric": metric, **changes})


def best_of_quadratic(task: Task) -> tuple[np.ndarray, float]:
    """Where the loss of a linear System is least: its gradient is H x + g."""
    x, _, _ = task.begin()
    g = task(0 * x[None], True).gradients[0]
    H = task(np.eye(len(x)), True).gradients - g
    best = np.linalg.solve(H, -g)
    return best, float(task(best[None], False).losses[0])


def solved(task: Task, method=None, iterations=30, **more):
    x, low, high = task.begin()
    return minimise(task, x, method or task.method, iterations=iterations, **{"low": low, "high": high, **more})


def test_terms_of_any_system():
    """A goal by field, with effort, is Tracking; a field without a goal does not count; torch knows fields by name."""
    follow = made(Coupled(bend=0.1), Controls(12))
    goal = StateGoal(x=[0.5, -0.2], y=0.3, weights=[1.0, 2.0, 0.5], when="path")
    terms = follow.but(loss=goal + Effort([0.1, 0.2]))
    points = np.random.default_rng(0).normal(size=(2, 24))
    ours, theirs = terms(points, True), follow(points, True)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-14)
    np.testing.assert_allclose(ours.gradients, theirs.gradients, rtol=1e-12)
    np.testing.assert_allclose(solved(terms).x, solved(follow).x, rtol=1e-6, atol=1e-8)
    run = follow.run(points[0])
    part = StateGoal(x=[0.5, -0.2], weights=[1.0, 2.0, 0.5], when="path")
    np.testing.assert_array_equal(part(run).bars["y_bar"], 0)
    assert np.all(part.expand(run).xx[:, 2] == 0) and np.all(part.expand(run).xx[:, 0, 0] == 1)
    with pytest.raises(pb.PullbackError, match="by name are for q and v of a robot's joints, not for x"):
        StateGoal(x={"elbow": 1.0})(run)
    with pytest.raises(pb.PullbackError, match="Position is of a robot, not of Coupled"):
        Position("tip", (0, 0, 0))(run)
    import torch

    of_y = TorchLoss(lambda y: 0.25 * ((y - 0.3) ** 2).sum((0, 2)))
    goal = torch.tensor([0.5, -0.2], dtype=torch.float64)
    of_x = TorchLoss(lambda x: ((x - goal) ** 2 * torch.tensor([0.5, 1.0])).sum((0, 2)))
    mixed = follow.but(loss=of_x + of_y + Effort([0.1, 0.2]))(points, True)
    np.testing.assert_allclose(mixed.gradients, theirs.gradients, rtol=1e-12)


def test_what_tasks_offer_is_what_plan_declares():
    task = made(Coupled(), Controls(3))
    assert isinstance(task, ControlProblem) and isinstance(task.find, HeldControls)
    assert isinstance(task.loss, QuadraticLoss) and isinstance(2 * task.loss + Effort(), QuadraticLoss)
    assert not isinstance(lambda points, wants: None, ControlProblem)
    assert not isinstance(Parameters(3, {"mass": ...}), HeldControls)
    assert not isinstance(lambda run: Loss(np.zeros(1), {}), QuadraticLoss)


def test_a_loss_of_the_end_alone_without_effort():
    """It has no curvature in any control but through the states that follow."""
    goal = StateGoal(x=[0.5, -0.2], y=0.3)
    task = made(Coupled(bend=0.05), Controls(12, hold=3), loss=goal, metric=goal.distance)
    found = solved(task, target=1e-5)
    assert found.stopped == "target reached" and found.losses[0] > 0.1
    np.testing.assert_allclose(task.run(found.x).x[-1, 0], [0.5, -0.2], atol=1e-4)


def test_a_linear_quadratic_problem_takes_one_iteration_and_is_riccatis():
    task = made(Coupled(), Controls(12), goal=Pair(np.zeros(2), np.zeros(1)))
    found = solved(task, ILQR(damping=1e-9), 2)
    A, B, Q, R = Coupled.A, Coupled.B, np.diag(task.loss.weights), np.diag(task.loss.effort)
    P = Q
    for _ in range(12):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
    start = np.concatenate(task.start, axis=-1)[0]
    np.testing.assert_allclose(found.losses[1], start @ P @ start / 2, rtol=1e-9)
    np.testing.assert_allclose(found.x[:2], -K @ start, rtol=1e-6)  # K of the first step
    assert found.losses[0] > 1.5 * found.losses[1]


@pytest.mark.parametrize("hold, until", [(1, 8), (3, None), (4, 9), (5, 6)])
def test_held_controls_that_do_not_divide_the_motion(hold, until):
    task = made(Coupled(), Controls(10, hold=hold, until=until, scale=[2.0, 0.5]))
    best, loss = best_of_quadratic(task)
    found = solved(task, ILQR(damping=1e-9), 2)
    np.testing.assert_allclose(found.losses[1], loss, rtol=1e-9)
    np.testing.assert_allclose(found.x, best, atol=1e-5)


def test_a_sketch_that_is_no_motion_leads_to_the_best_motion_at_once():
    """What is best does not depend on where a linear problem is linearised, nor on gaps between its states."""
    rng = np.random.default_rng(0)
    goal = Pair(rng.normal(size=(11, 2)), rng.normal(size=(11, 1)))
    task = made(Coupled(), Controls(10, hold=3, until=8, start=0.3), goal=goal)
    _, loss = best_of_quadratic(task)
    found = solved(task, ILQR(damping=1e-8, sketch=True), 1)
    np.testing.assert_allclose(found.losses[0], loss, rtol=1e-9)
    assert task(task.begin()[0][None], False).losses[0] > 1.01 * loss


def test_bounds_hold_and_nothing_better_is_within_them():
    """The conditions of Karush, Kuhn and Tucker, with some controls at either bound and some at none."""
    task = made(Coupled(bend=0.02), Controls(15, hold=2))
    x, _, _ = task.begin()
    found = minimise(task, x, ILQR(), iterations=60, low=-0.5, high=0.2)
    assert np.all((found.x >= -0.5) & (found.x <= 0.2))
    slope = task(found.x[None], True).gradients[0]
    low, high = found.x == -0.5, found.x == 0.2
    assert low.any() and high.any() and (~low & ~high).any()
    assert np.abs(slope[~low & ~high]).max() < 1e-5 and np.all(slope[low] > 0) and np.all(slope[high] < 0)


def test_a_system_of_ones_own_that_is_not_linear():
    task = made(Coupled(bend=0.1), Controls(20, hold=3))
    found = solved(task)
    assert np.abs(task(found.x[None], True).gradients[0]).max() < 1e-6
    assert found.losses[1] < found.losses[0]


def test_a_world_that_fails_does_not_spoil_the_others():
    """All worlds step together; one that leaves where the System is defined has no state to feed back."""
    task = made(Coupled(bend=0.05), Controls(20), goal=Pair(np.array([3.0, 0.0]), np.array([0.0])))
    x, low, high = task.begin()
    method = ILQR(lengths=(1.0, 0.1)).bound(task)
    memory = method.begin(x, low, high, 0)
    memory = method.tell(memory, task(method.ask(memory), False).losses, None)
    right = method.ask(memory)
    run = task.run(right)
    far = np.abs(np.concatenate(run.states, axis=-1)).max(axis=(0, 2))
    task.system.wall = np.sort(far)[-3:-1].mean()  # which two of them pass
    walled = ILQR(lengths=(1.0, 0.1)).bound(task.but(system=task.system.in_worlds(1)))
    points = walled.ask(memory)
    left = far > task.system.wall
    assert left.sum() == 2
    np.testing.assert_array_equal(points[~left], right[~left])
    assert (
        np.all(np.isfinite(points[left])) and np.abs(points - right)[left].max(axis=1).min() > 1e-3
    )  # without feedback


def test_steps_that_leave_where_the_system_is_defined():
    """There is no way to the goal, and the wall is close to where the best motions are."""
    goal = Pair(np.array([3.0, 0.0]), np.array([0.0]))
    free = made(Coupled(bend=0.05), Controls(20), goal=goal)
    far = np.abs(np.concatenate(free.run(solved(free).x).states, axis=-1)).max()
    walled = made(Coupled(bend=0.05, wall=0.97 * far), Controls(20), goal=goal)
    found = solved(walled)
    assert np.all(np.isfinite(found.losses[found.best])) and found.losses.min() < 0.9 * found.losses[0]
    assert np.abs(np.concatenate(walled.run(found.x).states, axis=-1)).max() <= 0.97 * far


FREE_AND_BALL = """<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody>
  <body pos="0 0 1"><freejoint name="free"/><geom type="box" size="0.1 0.2 0.15" mass="1"/>
    <body pos="0.3 0 0"><joint name="ball" type="ball" damping="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.1 0" mass="0.5"/></body></body></worldbody>
  <actuator>
    <motor joint="free" gear="1 0 0 0 0 0"/><motor joint="free" gear="0 0 1 0 0 0"/>
    <motor joint="free" gear="0 0 0 0.2 0 0.1"/><motor joint="ball" gear="0.2 0 0"/><motor joint="ball" gear="0 0.2 0"/>
  </actuator></mujoco>"""


def test_free_and_ball_joints():
    """A motion that turns by more than a quarter, and is found again from its states."""
    system = pb.Articulated(pb.load(FREE_AND_BALL), contact=None)
    wanted = 4 * np.random.default_rng(0).normal(size=(10, system.nu))
    find = Controls(40, hold=4, start=wanted)
    nothing = Tracking(pb.State(np.zeros(system.nq), np.zeros(system.nv)), np.zeros(2 * system.nv))
    about = {"name": "tumble", "about": "", "target": 1e-6, "metric": lambda run: nothing(run).values}
    task = Task(system=system, start=system.state(), find=find, loss=nothing, **about)
    goal = task.run(task.begin()[0]).states
    goal = pb.State(*(np.array(x)[:, 0] for x in goal))
    assert min(np.abs(goal.q[:, 3]).min(), np.abs(goal.q[:, 7]).min()) < np.cos(np.pi / 4)
    loss = Tracking(goal, np.ones(2 * system.nv), 1e-9)
    task = Task(**{**about, "metric": lambda run: loss(run).values}, system=system, start=system.state(),
                find=Controls(40, hold=4), loss=loss)  # fmt: skip
    found = solved(task, ILQR(), 12)
    assert found.losses[0] > 10 and found.losses[-1] < 1e-5
    np.testing.assert_allclose(found.x.reshape(10, -1), wanted, atol=1e-2)


def test_going_on_from_a_checkpoint_gives_the_same(tmp_path):
    task = made(Coupled(bend=0.1), Controls(20, hold=3), goal=Pair(np.ones((21, 2)), np.zeros((21, 1))))
    whole = solved(task, ILQR(sketch=True), 6)
    for iterations in (1, 3, 6):
        parts = solved(task, ILQR(sketch=True), iterations, checkpoint=tmp_path / "state.npz")
    np.testing.assert_array_equal(parts.losses, whole.losses)
    np.testing.assert_array_equal(parts.x, whole.x)
    with pytest.raises(pb.PullbackError, match="seed"):
        solved(task, ILQR(sketch=True), 8, checkpoint=tmp_path / "state.npz", seed=1)


def test_where_it_cannot_get_better_it_stays():
    """Every step fails: the damping grows, within its bounds, and the point is the one it was."""
    task = made(Coupled(), Controls(5))
    best, _ = best_of_quadratic(task)
    found = minimise(task, best, ILQR(), iterations=15)
    np.testing.assert_allclose(found.x, best, atol=1e-6)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: ILQR(lengths=()), "lengths"),
        (lambda: ILQR(lengths=(1.5,)), "lengths"),
        (lambda: ILQR(spread=(0.0,)), "spread"),
        (lambda: ILQR(damping=0), "damping"),
        (lambda: minimise(lambda points, wants: None, np.zeros(2), ILQR(), iterations=1), "finds .*Controls"),
        (lambda: solved(made(Coupled(), Controls(3), loss=lambda run: Loss(np.zeros(1), {}))), "Tracking, or LBFGS"),
        (lambda: solved(made(Coupled(wall=5.0), Controls(3), start=Pair(np.full((1, 2), 9.0), np.zeros((1, 1))))),
         "first guess"),
    ],
)  # fmt: skip
def test_bad_input(make, match):
    with pytest.raises(pb.PullbackError, match=match):
        make()
