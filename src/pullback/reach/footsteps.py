"""Steps to a goal, around obstacles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pullback.reach.sqp import Linearised, Poses, Problem
from pullback.reach.walking import ToGoal

BENDS = (0.0, 0.4, -0.4, 0.8, -0.8, 1.2, -1.2)  # of the paths that are tried [m]
TRIES = 4  # of them, from the one that hits obstacles least


@dataclass(frozen=True, kw_only=True)
class Footsteps(ToGoal):
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
    tolerance:  allowed distance of the last step from the goal [m, rad]
    """

    def own_terms(self, feet: np.ndarray, poses: Poses) -> Linearised:
        return Linearised([self.at_goal(feet)], [])

    def guesses(self) -> list[np.ndarray]:
        """First guesses (steps, 3): paths with and without a bend, those first that violate least."""
        problem, (frame, part) = self.problem(), self.path()

        def cost(steps: np.ndarray) -> float:
            return sum(float(np.sum(d.violations**2)) for d in problem.linearise({"feet": steps}).constraints)

        costs, paths = [], []
        for bend in BENDS:
            paths += [self.walk.guess(frame, part=part, bend=bend, facing=facing) for facing in (False, True)]
            costs += [cost(path) for path in paths[-2:]]
            if min(costs) == 0.0 or not self.obstacles:  # nothing is in the way
                break
        return [paths[i] for i in np.argsort(costs, kind="stable")]

    def attempts(self) -> Iterator[tuple[Problem, Poses]]:
        for guess in self.guesses()[:TRIES]:
            yield self.problem(), {"feet": guess}

    def contacts(self, poses: Poses) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.steps + 1), np.full((self.steps + 1, 3), np.nan)
