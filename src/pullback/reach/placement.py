"""Where to put a robot so that all of many targets are within its reach."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.reach.checks import check_numbers, check_obstacles
from pullback.reach.ik import Solutions
from pullback.reach.limb import inverse
from pullback.reach.obstacles import Obstacle
from pullback.reach.spaces import space
from pullback.reach.sqp import Demand, Linearised, Options, Poses, Problem, Rows, Solution, Violation, minimise, report
from pullback.reach.walking import SE2, check_map, on_floor, points_seen, pose3

SE3 = space("SE3")
UPRIGHT = [0, 1, 5]  # of the steps of a base in SE3, those on the floor: x, y and the turn about z
RADII, WAYS = (0.0, 0.3, 0.5, 0.7), 12  # of first guesses, around the targets, facing them [m], [1]
TRIES = 4  # of them, from the one that reaches most


@dataclass(frozen=True)
class Place:
    """Where the base is put, and whether that is what was asked for."""

    base: np.ndarray  # (3,) x, y, yaw [m, m, rad]
    seen: np.ndarray  # (n, sample size) the targets from there
    solution: Solution
    seconds: float

    @property
    def problems(self) -> tuple[Violation, ...]:
        return self.solution.violations

    @property
    def solved(self) -> bool:
        return self.solution.feasible

    def report(self, most: int = 5) -> str:
        """In words: that all is well, or what is violated by how much."""
        return report(self.problems, self.solution.iterations, self.seconds, most)


@dataclass(frozen=True, kw_only=True)
class Placement:
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
    obstacles: Sequence[Obstacle] = ()
    margin: float = 0.1
    threshold: float = 0.0
    weight: float = 1e-3  # of the distance from ``near`` or the first guess, squared [1]

    def __post_init__(self):
        check_map(self.reach_map, ("R3", "SE3"), "reach_map")
        targets = self.reach_map.space.check(self.targets, "targets")
        if not len(targets):
            raise PullbackError("there must be targets to reach")
        object.__setattr__(self, "targets", targets)
        check_numbers(self, "margin", "threshold")
        check_numbers(self, "weight", least=0)
        check_obstacles(self.obstacles)
        if self.near is not None:
            object.__setattr__(self, "near", tuple(pose3(self.near, "near")))

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

        def linearise(poses: Poses) -> Linearised:
            base = poses["base"]
            seen, moves = self.seen(base)
            value, gradient = self.reach_map.evaluate(seen)
            entries = np.einsum("ni,nij->nj", gradient, moves)
            rows = Rows(value - self.threshold, np.tile(columns, (len(seen), 1)), entries)
            demands = [Demand(rows, lambda i: f"target {i} is out of reach")]
            for number, obstacle in enumerate(self.obstacles):
                distance, way = obstacle.distance(base[:, :2])
                name = f"the base is too near to obstacle {number} ({type(obstacle).__name__})"
                demands.append(Demand(Rows(distance - self.margin, columns[None, :2], way), lambda _, name=name: name))
            away = Rows(root * SE2.difference(near, base[0]), columns[:, None], np.full((3, 1), root))
            return Linearised([away], demands)

        return Problem({"base": SE2}, linearise)

    def guesses(self) -> np.ndarray:
        """Bases (k, 3) around the targets, those first that violate least and of them those with the most to spare.

        One evaluation of all of them.
        """
        middle = self.targets[:, :2].mean(axis=0)
        way = np.linspace(0, 2 * np.pi, WAYS, endpoint=False)
        around = [np.stack([middle[0] - r * np.cos(way), middle[1] - r * np.sin(way), way], axis=1) for r in RADII]
        bases = np.concatenate([*around, *([[self.near]] if self.near is not None else [])])
        value, _ = self.reach_map.evaluate(self.seen(bases)[0])
        value = value.reshape(len(bases), -1) - self.threshold
        cost = np.sum(np.minimum(value, 0.0) ** 2, axis=1)
        for obstacle in self.obstacles:
            cost += np.minimum(obstacle.distance(bases[:, :2])[0] - self.margin, 0.0) ** 2
        if self.near is not None:
            cost += self.weight * np.sum(SE2.difference(np.array(self.near), bases) ** 2, axis=1)
        return bases[np.lexsort((-value.min(axis=1), cost))]

    def plan(self, options: Options | None = None) -> Place:
        """The first good place, or of those that were tried the one with the least violations."""
        began, best = time.perf_counter(), None
        for guess in self.guesses()[:TRIES]:
            near = guess if self.near is None else np.array(self.near)
            found = minimise(self.problem(near), {"base": guess[None]}, options)
            if best is None or sum(v.amount for v in found.violations) < sum(v.amount for v in best.violations):
                best = found
            if best.feasible:
                break
        base = best.poses["base"][0]
        return Place(base, self.seen(base[None])[0], best, time.perf_counter() - began)


def check_place(model: Model, base: str, tip: str, place: Place, **options) -> Solutions:
    """Looks for a configuration of a robot that stands at a place, for each of the targets.

    base, tip:  the sites or bodies that the map is about
    options:    of :func:`pullback.reach.inverse`
    """
    check_kind(place, Place, "place", "Placement(...).plan()")
    return inverse(model, base, tip, place.seen, "R3" if place.seen.shape[1] == 3 else "SE3", **options)
