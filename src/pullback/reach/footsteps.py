"""Steps to a goal, around obstacles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.reach.checks import check_numbers, check_obstacles, check_soles
from pullback.reach.obstacles import Obstacle
from pullback.reach.sqp import Linearised, Options, Poses, Problem, minimise
from pullback.reach.walking import SE2, Plan, Stance, Walk, check_map, missed_goal, pose3

SOLES = ((0.0, 0.0), (0.14, 0.0))  # under the ankle and under the ball of the foot [m]
BENDS = (0.0, 0.4, -0.4, 0.8, -0.8, 1.2, -1.2)  # of the ways that are tried [m]
TRIES = 4  # of them, from the one that hits obstacles least


@dataclass(frozen=True, kw_only=True)
class Footsteps:
    """Find steps so that the last one is at the goal.

    foot_map:   a reachability map in SE2: the right foot as seen from the left one
    goal:       of the last step, x, y, yaw [m, m, rad]
    start:      where the robot stands
    first:      the foot that moves first
    steps:      how many
    obstacles:  anything with ``distance``: see :class:`Obstacle`
    margin:     that the sole's points keep from obstacles [m]
    soles:      those points, as seen from the foot (k, 2) [m]
    threshold:  of the map: a step where it is larger is within reach
    smoothing:  weight of the steps' lengths, squared, beside that of the goal [1]
    tolerance:  the last step may be so far from the goal [m, rad]
    """

    foot_map: object
    goal: Sequence[float]
    start: Stance = field(default_factory=Stance)
    first: str = "right"
    steps: int = 16
    obstacles: Sequence[Obstacle] = ()
    margin: float = 0.1
    soles: Sequence[Sequence[float]] = SOLES
    threshold: float = 0.0
    smoothing: float = 1e-3
    tolerance: float = 5e-3

    def __post_init__(self):
        check_map(self.foot_map, ("SE2",), "foot_map")
        object.__setattr__(self, "goal", tuple(pose3(self.goal, "goal")))
        check_numbers(self, "margin", "threshold")
        check_numbers(self, "smoothing", "tolerance", least=0)
        check_obstacles(self.obstacles)
        check_soles(self.soles)
        object.__setattr__(self, "walk", Walk(self.start, self.first, self.steps))

    def problem(self) -> Problem:
        """For :func:`pullback.reach.sqp.minimise`: the group "feet" (steps, 3)."""
        walk, soles, goal = self.walk, np.asarray(self.soles, dtype=float), np.array(self.goal)

        def linearise(poses: Poses) -> Linearised:
            feet = walk.all_feet(poses["feet"])
            residuals = [walk.at_goal(feet, goal), walk.smooth(feet, self.smoothing)]
            demands = walk.clear(feet, self.obstacles, self.margin, soles)
            return Linearised(residuals, [walk.reach(feet, self.foot_map, self.threshold), *demands])

        return Problem({"feet": SE2}, linearise)

    def guesses(self) -> list[np.ndarray]:
        """First guesses (steps, 3): ways with and without a bend, those first that violate least."""
        problem, frame = self.problem(), self.walk.ending_at(np.array(self.goal))
        part = self.walk.furthest(frame, self.foot_map, self.threshold)

        def cost(steps: np.ndarray) -> float:
            return sum(float(np.sum(d.violations**2)) for d in problem.linearise({"feet": steps}).demands)

        costs, ways = [], []
        for bend in BENDS:
            ways += [self.walk.guess(frame, part=part, bend=bend, facing=facing) for facing in (False, True)]
            costs += [cost(way) for way in ways[-2:]]
            if min(costs) == 0.0 or not self.obstacles:  # nothing is in the way
                break
        return [ways[i] for i in np.argsort(costs, kind="stable")]

    def plan(self, options: Options | None = None) -> Plan:
        """The first good plan, or of those that were tried the one with the least violations."""
        began, problem, best = time.perf_counter(), self.problem(), None
        for guess in self.guesses()[:TRIES]:
            found = self._plan(minimise(problem, {"feet": guess}, options))
            if best is None or _worse(found) < _worse(best):
                best = found
            if best.solved:
                break
        return replace(best, seconds=time.perf_counter() - began)

    def _plan(self, solution) -> Plan:
        feet = self.walk.all_feet(solution.poses["feet"])
        left, right = self.walk.moments(feet, np.arange(self.steps + 1))
        return Plan(
            feet=feet,
            sides=self.walk.sides,
            left=left,
            right=right,
            hand=np.full((len(left), 3), np.nan),
            aims=missed_goal(feet, self.goal, self.tolerance),
            solution=solution,
        )


def _worse(plan: Plan) -> float:
    return sum(problem.amount for problem in plan.problems)
