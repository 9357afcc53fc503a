"""What all planners share: several first guesses, the optimiser, and a result that says what is wrong with it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from pullback.reach.checks import check_numbers, check_obstacles
from pullback.reach.obstacles import Obstacle
from pullback.reach.sqp import Constraint, Options, Poses, Problem, Rows, Solution, Violation, minimise


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was planned, and whether that is what was asked for."""

    solution: Solution  # of the optimisation: iterations, violations
    aims: dict[str, tuple[float, float]] = field(default_factory=dict)  # by what is missed: how far off, and allowed
    seconds: float = 0.0  # of all attempts

    @property
    def problems(self) -> tuple[Violation, ...]:
        """What is not as it was asked for, missed aims first; none if the plan is good."""
        missed = [Violation(name, off - allowed) for name, (off, allowed) in self.aims.items() if off > allowed]
        return (*missed, *self.solution.violations)

    @property
    def solved(self) -> bool:
        return not self.problems

    def report(self, most: int = 5) -> str:
        """In words: that all is well, or what is violated by how much."""
        if self.solved:
            return f"solved in {self.solution.iterations} iterations, {self.seconds:.2g} s"
        lines = [str(problem) for problem in self.problems]
        more = [f"and {len(lines) - most} more"] if len(lines) > most else []
        return "\n".join([f"not solved after {self.solution.iterations} iterations:", *lines[:most], *more])


Found = TypeVar("Found", bound=Result)


@dataclass(frozen=True, kw_only=True)
class Planner(ABC, Generic[Found]):
    """A problem on reachability maps."""

    obstacles: Sequence[Obstacle] = ()
    margin: float = 0.1
    threshold: float = 0.0

    def __post_init__(self):
        check_numbers(self, "margin", "threshold")
        check_obstacles(self.obstacles)

    @abstractmethod
    def attempts(self) -> Iterable[tuple[Problem, Poses]]:
        """For :func:`pullback.reach.sqp.minimise`: problems and first guesses, the most promising first."""

    @abstractmethod
    def result(self, solution: Solution) -> Found:
        """What a solution means."""

    def plan(self, options: Options | None = None) -> Found:
        """The first good result, or of all attempts the one with the least violations."""
        began, best = time.perf_counter(), None
        for problem, guess in self.attempts():
            found = self.result(minimise(problem, guess, options))
            if best is None or _violation(found) < _violation(best):
                best = found
            if best.solved:
                break
        return replace(best, seconds=time.perf_counter() - began)


def _violation(result: Result) -> float:
    return sum(problem.amount for problem in result.problems)


def within_reach(
    reach_map, threshold: float, seen: np.ndarray, columns: np.ndarray, moves: np.ndarray, name: Callable[[int], str]
) -> Constraint:
    """Poses as seen from their bases (n, sample size) are inside a map: one evaluation of all of them.

    columns, moves:  (n, k), (n, tangent size, k): how they move with variables
    """
    value, gradient = reach_map.evaluate(seen)
    return Constraint(Rows(value - threshold, columns, np.einsum("ni,nij->nj", gradient, moves)), name)


def clear_of(
    obstacles: Sequence[Obstacle], margin: float, points: np.ndarray, columns: np.ndarray, moves: np.ndarray,
    name: Callable[[int, int], str],
) -> list[Constraint]:  # fmt: skip
    """Points (n, 2) [m] keep ``margin`` from obstacles: one constraint per obstacle.

    columns, moves:  (n, k), (n, 2, k): how points move with variables
    name:            of a point and an obstacle, by number each
    """
    constraints = []
    for number, obstacle in enumerate(obstacles):
        distance, gradient = obstacle.distance(points)
        rows = Rows(distance - margin, columns, np.einsum("ni,nik->nk", gradient, moves))
        constraints.append(Constraint(rows, lambda row, number=number: name(row, number)))
    return constraints
