"""Easier tasks before a hard one."""

import numpy as np
import pytest

import pullback as pb
from pullback.plan import CMA, ILQR, LBFGS, REACHED, SPENT
from pullback.tasks import Controls, Parameters, Task, Tracking, solve

ARM = """<mujoco><option timestep="0.02"/><worldbody>
  <body><joint name="one" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <body pos="0 0 -0.5"><joint name="two" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.7"/></body></body></worldbody>
  <actuator>{}</actuator></mujoco>"""
ONE, BOTH = '<motor joint="one" ctrlrange="-9 9"/>', '<motor joint="one" ctrlrange="-5 5"/><motor joint="two"/>'


def made(motors: str, price=(), **changes) -> Task:
    system = pb.Articulated(pb.load(ARM.format(motors)), contact=None)
    goal = np.array([0.3, 0.2])
    weights = np.ones((31, 4))
    loss = Tracking(pb.State(goal, np.zeros(2)), weights, np.array([1e-3, *price]))
    about = {"name": "arm", "about": "", "target": 0.4, "method": ILQR(), "iterations": 20}
    metric = lambda run: np.abs(run.q[-1] - goal).max(axis=1)  # noqa: E731
    find = Controls(30, hold=4)
    return Task(**{**about, "system": system, "start": system.state(), "find": find, "loss": loss, "metric": metric,
                   **changes})  # fmt: skip


def chained() -> Task:
    easier = tuple(made(BOTH, [price], iterations=3) for price in (1e-4, 1e-1))
    return made(ONE, easier=easier)


def test_what_easier_tasks_find_is_where_the_task_begins():
    task = chained()
    seen = []
    first, second, last = solve(task, iterations=4, watch=lambda done: seen.append(len(done)))
    assert [one.iterations for one in (first, second, last)] == [3, 3, 4] and last.stopped == SPENT
    assert seen == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    # the second begins with the motion that the first ended with
    moved = task.easier[0].run(first.x)
    np.testing.assert_allclose(second.losses[0], task.easier[1].loss(moved).values[0], rtol=1e-12)
    # the last has no second motor; the first one's torque is the same, in another scale
    torques = np.asarray(task.easier[1].run(second.x).controls)[..., :1]
    alone = pb.rollout(task.system, task.start, torques)
    np.testing.assert_allclose(last.losses[0], task.loss(alone).values[0], rtol=1e-12)
    assert np.abs(torques).max() > 0.5


def test_a_method_of_another_kind_starts_with_the_task_itself():
    task = chained()
    assert len(solve(task, LBFGS(), iterations=2)) == len(solve(task, CMA(), iterations=2)) == 1
    assert len(solve(task, ILQR(damping=0.1), iterations=1)) == 3


def test_the_target_is_the_last_ones():
    *easier, last = solve(chained(), target=10.0)
    assert [one.stopped for one in easier] == [SPENT, SPENT] and last.stopped == REACHED and last.iterations == 1


def test_it_goes_on_where_it_was(tmp_path):
    """Broken off in the second, and in the last."""
    task, state = chained(), tmp_path / "state.npz"
    whole = solve(task, iterations=5)

    class Killed(Exception):
        pass

    for until in (5, 8):

        def kill(done, until=until):
            if sum(one.iterations for one in done) == until:
                raise Killed

        with pytest.raises(Killed):
            solve(task, iterations=5, checkpoint=state, watch=kill)
    parts = solve(task, iterations=5, checkpoint=state)
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(a.losses, b.losses)
        np.testing.assert_array_equal(a.x, b.x)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state-0.npz", "state-1.npz", "state.npz"]


def test_only_controls_are_taken_over():
    task = chained()
    with pytest.raises(pb.PullbackError, match="optimises Parameters, but .* Controls: .* same kind of variables"):
        solve(
            made(
                ONE, find=Parameters(30, {"mass": [1, 2]}), method=LBFGS(), easier=(task.easier[0].but(method=LBFGS()),)
            )
        )
