"""Plans made again and again, each from where the last one led."""

import numpy as np
import pytest

import pullback as pb
from pullback.plan import ILQR, LBFGS, Adam, receding
from pullback.tasks import Controls, Parameters, Task, Tracking

ARM = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="arm" axis="0 1 0" damping="0.05"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/></body></worldbody>
  <actuator><motor joint="arm" ctrlrange="-4 4"/></actuator></mujoco>"""
AIM = 1.0  # [rad]


def task(**changes) -> Task:
    system = pb.Articulated(pb.load(ARM), contact=None)
    steps = 30
    weights = np.tile([1.0, 0.01], (steps + 1, 1))
    given = {
        "name": "hold", "about": "an arm against gravity", "system": system, "start": system.state(),
        "find": Controls(steps, hold=3), "loss": Tracking(pb.State([AIM], [0.0]), weights, 1e-4),
        "metric": lambda run: np.abs(run.q[-1, :, 0] - AIM), "target": 0.02,
    }  # fmt: skip
    return Task(**{**given, **changes})


def heavier(of: Task) -> pb.Articulated:
    plant = of.system.in_worlds(1)
    plant.params["mass"] = 1.3 * of.system.params["mass"]
    return plant


@pytest.mark.parametrize("method", [ILQR(), LBFGS(), Adam(rate=0.1)], ids=["ilqr", "lbfgs", "adam"])
def test_an_arm_that_is_heavier_than_planned_is_held(method):
    """The plan alone would leave it where the heavier arm sags to."""
    of = task()
    driven = receding(of, method, ticks=40, apply=3, iterations=8, plant=heavier(of))
    settled = driven.run.q[-30:, 0, 0]
    assert driven.run.steps == 120 and len(driven.plans) == 40
    np.testing.assert_allclose(settled, AIM, atol=0.1)
    blind = pb.rollout(heavier(of), of.start, np.repeat(of.run(driven.plans[0].x).controls, 4, axis=0))
    assert np.abs(blind.q[-30:, 0, 0] - AIM).max() > 0.3
    assert np.abs(driven.run.controls).max() <= 4


def test_without_surprises_the_plant_does_what_was_planned():
    of = task()
    driven = receding(of, ILQR(), ticks=2, apply=6, iterations=20)
    first = of.run(driven.plans[0].x)
    np.testing.assert_array_equal(driven.run.q[:7], first.q[:7])
    guess = of.find.shifted(driven.plans[0].x, 6)
    np.testing.assert_array_equal(guess[:-2], driven.plans[0].x[2:])
    assert (
        driven.plans[1].losses[driven.plans[1].best]
        <= of.starting(pb.State(first.q[6], first.v[6]))(guess[None], False).losses[0]
    )
    np.testing.assert_array_equal(of.start.q, [[0.0]])  # planning from elsewhere leaves the task as it was


def test_a_moving_goal_is_followed():
    """Each plan sees the goal of its own window; with that of the first window for ever, the arm stays behind."""
    of, ticks, apply = task(), 20, 3
    steps = of.find.steps
    path = 0.8 * np.sin(np.arange(ticks * apply + steps + 1) * 0.05)[:, None]  # [rad]

    def follow(first: int) -> Task:
        goal = pb.State(path[first : first + steps + 1], np.zeros(1))
        return of.but(loss=Tracking(goal, [1.0, 0.0], 1e-5))

    seen = []
    moving = receding(lambda first: seen.append(first) or follow(first), ILQR(), ticks=ticks, apply=apply, iterations=6)
    frozen = receding(follow(0), ILQR(), ticks=ticks, apply=apply, iterations=6)
    errors = [np.abs(driven.run.q[20:, 0] - path[20 : ticks * apply + 1]).max() for driven in (moving, frozen)]
    assert errors[0] < 0.05 < 0.3 < errors[1], errors
    assert seen == [0, *range(0, ticks * apply, apply)]


def test_watching():
    seen = []
    receding(task(), ILQR(), ticks=3, apply=3, iterations=2, watch=lambda tick, plan: seen.append((tick, plan.losses)))
    assert [tick for tick, _ in seen] == [0, 1, 2] and all(len(losses) == 2 for _, losses in seen)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"apply": 4}, "held for 3 steps"),
        ({"apply": 33}, "only 30 steps ahead"),
        ({"ticks": 0}, "ticks must be a whole number"),
        ({"iterations": 1.5}, "iterations must be a whole number"),
        ({"task": task(find=Parameters(30, {"mass": ...}))}, "finds Controls"),
        ({"plant": pb.Articulated(pb.load(ARM), contact=None, worlds=2)}, "one world and 1 controls"),
    ],
)
def test_bad_input(changes, message):
    given = {"ticks": 1, "apply": 3, "iterations": 1, "plant": None, **changes}
    with pytest.raises(pb.PullbackError, match=message):
        receding(given.pop("task", None) or task(), ILQR(), **given)
