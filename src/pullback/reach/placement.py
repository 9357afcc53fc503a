"""Where to put a robot so that all of many targets are within its reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.reach.checks import check_map, check_numbers, check_pose
from pullback.reach.ik import Solutions
from pullback.reach.limb import inverse
from pullback.reach.planner import Planner, Result, clear_of, within_reach
from pullback.reach.spaces import space
from pullback.reach.sqp import Linearised, Poses, Problem, Rows, Solution
from pullback.reach.walking import SE2, on_floor, points_seen

SE3 = space("SE3")
UPRIGHT = [0, 1, 5]  # of the steps of a base in SE3, those on the floor: x, y and the rotation about z
RADII, DIRECTIONS = (0.0, 0.3, 0.5, 0.7), 12  # of first guesses, around the targets, facing them [m], [1]
TRIES = 4  # of them, from the one that reaches most


@dataclass(frozen=True, kw_only=True)
class Place(Result):
    """The planned pose of the base, and whether it meets all constraints."""

    base: np.ndarray  # (3,) x, y, yaw [m, m, rad]
    seen: np.ndarray  # (n, sample size) the targets from there


@dataclass(frozen=True, kw_only=True)
class Placement(Planner[Place]):
    """Find a base pose on the floor from which all targets are within reach.

    reach_map:  a reachability map in R3 or SE3: the tip as seen from the base
    targets:    (n, 3) points or (n, 7) poses of the tip, in the world [m]
    near:       x, y, yaw [m, m, rad]: of all such places, one near this one; None for any
    obstacles:  the base keeps ``margin`` [m] from them
    threshold:  of the map: a target where it is larger is within reach
    """

    reach_map: object
    targets: np.ndarray
    near: Sequence[float] | None = None
    weight: float = 1e-3  # of the distance from ``near`` or the first guess, squared [1]

    def __post_init__(self):
        super().__post_init__()
        check_map(self.reach_map, ("R3", "SE3"), "reach_map")
        targets = self.reach_map.space.check(self.targets, "targets")
        if not len(targets):
            raise PullbackError("there must be targets to reach")
        object.__setattr__(self, "targets", targets)
        check_numbers(self, "weight", least=0)
        if self.near is not None:
            object.__setattr__(self, "near", check_pose(self.near, "near"))

    def seen(self, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All targets from each of k bases (k·n, sample size), and how that moves with the base (k·n, tangent, 3)."""
        n = len(self.targets)
        frames, targets = np.repeat(bases, n, axis=0), np.tile(self.targets, (len(bases), 1))
        if self.reach_map.space.name == "R3":
            found = points_seen(frames, targets)
            return found.values, found.by_frame
        upright = on_floor(frames)
        return SE3.relative(upright, targets), SE3.relative_jacobians(upright, targets)[0][..., UPRIGHT]

    def problem(self, near: np.ndarray) -> Problem:
        """For :func:`pullback.reach.sqp.minimise`: the group "base" (1, 3)."""
        columns, root = np.arange(3), np.sqrt(self.weight)

        def too_near(_row: int, number: int) -> str:
            return f"the base is too near to obstacle {number} ({type(self.obstacles[number]).__name__})"

        def linearise(poses: Poses) -> Linearised:
            base = poses["base"]
            seen, moves = self.seen(base)
            reach = within_reach(
                self.reach_map, self.threshold, seen, np.tile(columns, (len(seen), 1)), moves,
                lambda i: f"target {i} is out of reach",
            )  # fmt: skip
            clear = clear_of(self.obstacles, self.margin, base[:, :2], columns[None, :2], np.eye(2)[None], too_near)
            away = Rows(root * SE2.difference(near, base[0]), columns[:, None], np.full((3, 1), root))
            return Linearised([away], [reach, *clear])

        return Problem({"base": SE2}, linearise)

    def guesses(self) -> np.ndarray:
        """Bases (k, 3) around the targets, those first that violate least and of them those with the most to spare.

        One evaluation of all of them.
        """
        middle = self.targets[:, :2].mean(axis=0)
        yaw = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
        around = [np.stack([middle[0] - r * np.cos(yaw), middle[1] - r * np.sin(yaw), yaw], axis=1) for r in RADII]
        bases = np.concatenate([*around, *([[self.near]] if self.near is not None else [])])
        value, _ = self.reach_map.evaluate(self.seen(bases)[0])
        value = value.reshape(len(bases), -1) - self.threshold
        cost = np.sum(np.minimum(value, 0.0) ** 2, axis=1)
        for obstacle in self.obstacles:
            cost += np.minimum(obstacle.distance(bases[:, :2])[0] - self.margin, 0.0) ** 2
        if self.near is not None:
            cost += self.weight * np.sum(SE2.difference(np.array(self.near), bases) ** 2, axis=1)
        return bases[np.lexsort((-value.min(axis=1), cost))]

    def attempts(self) -> Iterator[tuple[Problem, Poses]]:
        for guess in self.guesses()[:TRIES]:
            yield self.problem(guess if self.near is None else np.array(self.near)), {"base": guess[None]}

    def result(self, solution: Solution) -> Place:
        base = solution.poses["base"]
        return Place(base=base[0], seen=self.seen(base)[0], solution=solution)


def check_place(model: Model, base: str, tip: str, place: Place, **options) -> Solutions:
    """Finds a configuration of a robot that stands at a place, for each of the targets.

    base, tip:  the sites or bodies that the map is about
    options:    of :func:`pullback.reach.inverse`
    """
    check_kind(place, Place, "place", "Placement(...).plan()")
    return inverse(model, base, tip, place.seen, "R3" if place.seen.shape[1] == 3 else "SE3", **options)
