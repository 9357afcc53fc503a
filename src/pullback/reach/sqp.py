"""Optimisation over poses: sequential quadratic programming on a product of spaces.

The variables are poses, in groups by name; a step moves each of them in its own tangent space. The objective is least
squares of residuals, subject to constraints: numbers that must not be negative, or must be zero. An iteration
linearises everything, solves one sparse QP

    min  ½ |r + R d|² + ½ damping |d|² + ½ weight |s|²     over steps d and one slack s per constraint
    s.t. c + C d + s >= 0,    |d| <= box

and goes along d as far as the merit ½ |r|² + ½ weight |what is violated|² falls. Since slacks and merit weigh a
violation alike, d always leads downhill, and constraints that contradict each other end in the best compromise and a
report of what is violated by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers

FIXED = -1  # the column of what is no variable
ENDLESS = 1e20  # what the QP solver takes for infinity
ENOUGH = 1e-4  # of the decrease that the QP promises, for a step to be taken [1]
STUCK = 1e-3  # of what violations add to the merit: a step that promises less leads nowhere [1]
QP_ITERATIONS = 200  # a QP that has not converged by then still gives a step, which the merit accepts or not
QP_ACCURACY = 1e-6  # of residuals and duality gap
RETURNS = 2  # to the constraints that a step violates, before a shorter one is tried
LEAST = 1e-9  # added to the diagonal of what is solved for that: rows may depend on each other [1]
SHORTEST = 2.0**-8  # part of a step that is tried [1]

Poses = dict[str, np.ndarray]


class Rows(NamedTuple):
    """Numbers that depend on the variables, and how: row i moves by Σ entries[i, k] · step[columns[i, k]].

    A column may be given more than once, and FIXED stands for none.
    """

    values: np.ndarray  # (m,)
    columns: np.ndarray  # (m, k) int
    entries: np.ndarray  # (m, k)


class Constraint(NamedTuple):
    """Rows that must not be negative, or must be zero if ``equal``; ``name`` says what a row is about."""

    rows: Rows
    name: Callable[[int], str]
    equal: bool = False

    @property
    def violations(self) -> np.ndarray:
        """By how much each is violated (m,)."""
        return np.abs(self.rows.values) if self.equal else np.maximum(-self.rows.values, 0.0)


class Linearised(NamedTuple):
    """A problem around some poses: what should be small, and what must hold."""

    residuals: Sequence[Rows]
    constraints: Sequence[Constraint]


@dataclass(frozen=True)
class Problem:
    """Decision variables, and what they should do.

    spaces:    of each group of poses, by name; the columns of Rows count the tangents of all poses in this order
    linearise: of the poses by name, (count, sample size) each
    """

    spaces: Mapping[str, object]
    linearise: Callable[[Poses], Linearised]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to solve."""

    iterations: int = 50  # after which to give up
    box: float = 0.1  # a step's largest entry [m, rad]
    weight: float = 1e6  # of a violation, squared [1]
    damping: float = 1e-6  # added to the squared residuals, as the weight of a step, squared [1]
    tolerance: float = 1e-3  # a constraint that is violated by less is met
    enough: float = 1e-5  # a step that promises to make the merit smaller by less ends it: (4 mm)² / 2 [m²]

    def __post_init__(self):
        check_whole(self.iterations, "iterations")
        check_numbers(self, "box", "weight", "damping", "tolerance", "enough", above=0)


class Violation(NamedTuple):
    """A constraint that is not met."""

    name: str
    amount: float

    def __str__(self) -> str:
        return f"{self.name}: violated by {self.amount:.3g}"


@dataclass(frozen=True)
class Solution:
    """What was found."""

    poses: Poses
    cost: float  # ½ |residuals|²
    violations: tuple[Violation, ...]  # the worst first; none if the poses are feasible
    iterations: int
    evaluations: int

    @property
    def feasible(self) -> bool:
        return not self.violations


class Variables:
    """Poses in groups by name: which columns belong to which, and how a step moves them."""

    def __init__(self, spaces: Mapping[str, object], counts: Mapping[str, int]):
        self.spaces, self.size = spaces, 0
        self.columns: dict[str, np.ndarray] = {}  # of the poses of a group, (count, tangent size)
        for name, space in spaces.items():
            shape = (counts[name], space.tangent_size)
            self.columns[name] = self.size + np.arange(np.prod(shape)).reshape(shape)
            self.size += self.columns[name].size

    def moved(self, poses: Poses, step: np.ndarray) -> Poses:
        return {name: space.integrate(poses[name], step[self.columns[name]]) for name, space in self.spaces.items()}


def minimise(problem: Problem, start: Poses, options: Options | None = None) -> Solution:
    """Solves a problem from a first guess: (count, sample size) poses by name."""
    options = Options() if options is None else options
    check_kind(options, Options, "options", "pullback.reach.sqp.Options(iterations=20)")
    variables = Variables(problem.spaces, {name: len(poses) for name, poses in start.items()})
    poses, solver = {name: np.array(start[name], dtype=float) for name in problem.spaces}, _Solver(variables, options)
    here, evaluations, iteration = problem.linearise(poses), 1, 0
    merit, longest = _merit(here, options.weight), 1.0
    if not np.isfinite(merit):
        raise PullbackError("the first guess has a residual or a constraint that is not finite")
    while iteration < options.iterations:
        iteration += 1
        step, promised = solver.step(here)
        if promised <= max(options.enough, STUCK * (merit - _cost(here))):
            break
        part = 2 * longest
        while part > SHORTEST:
            part /= 2
            moved, returns = variables.moved(poses, part * step), 0
            there = problem.linearise(moved)
            # Constraints are curved, and at their weight hardly any tangent leads downhill: go back to them first.
            while (found := _merit(there, options.weight)) > merit - ENOUGH * part * promised and returns < RETURNS:
                moved = variables.moved(moved, solver.back(there))
                there = problem.linearise(moved)
                returns += 1
            evaluations += 1 + returns
            if found <= merit - ENOUGH * part * promised:
                break
        else:
            break
        poses, here, merit, longest = moved, there, found, min(1.0, 2 * part)
    return Solution(poses, _cost(here), _violations(here, options.tolerance), iteration, evaluations)


def _cost(here: Linearised) -> float:
    return 0.5 * sum(float(rows.values @ rows.values) for rows in here.residuals)


def _merit(here: Linearised, weight: float) -> float:
    violated = sum(float(np.sum(constraint.violations**2)) for constraint in here.constraints)
    merit = _cost(here) + 0.5 * weight * violated
    return merit if np.isfinite(merit) else np.inf


def _violations(here: Linearised, tolerance: float) -> tuple[Violation, ...]:
    found = [
        Violation(constraint.name(int(row)), float(constraint.violations[row]))
        for constraint in here.constraints
        for row in np.flatnonzero(constraint.violations > tolerance)
    ]
    return tuple(sorted(found, key=lambda one: -one.amount))


class _Solver:
    """The QP of every iteration."""

    def __init__(self, variables: Variables, options: Options):
        try:
            import proxsuite
            import scipy.sparse
        except ImportError:
            raise PullbackError('planning needs proxsuite: pip install "pullback[reach]"') from None
        self.proxqp, self.sparse = proxsuite.proxqp, scipy.sparse
        self.variables, self.options = variables, options

    def step(self, here: Linearised) -> tuple[np.ndarray, float]:
        """The step (n,) in tangents, and by how much it would make the merit smaller if all were linear."""
        sparse, options, n = self.sparse, self.options, self.variables.size
        residuals, values = self._stacked(here.residuals)
        constraints, needed = self._stacked([constraint.rows for constraint in here.constraints])
        equal = np.concatenate([np.full(len(d.rows.values), d.equal) for d in here.constraints] or [np.zeros(0, bool)])
        m = len(needed)
        damping = values @ values + options.damping
        hessian = (residuals.T @ residuals + damping * sparse.identity(n)).tocsc()
        # Slacks are scaled by the root of their weight, or the QP would be badly conditioned.
        scale = 1.0 / np.sqrt(options.weight)
        quadratic = sparse.block_diag([hessian, sparse.identity(m)], format="csc")
        linear = np.concatenate([residuals.T @ values, np.zeros(m)])
        # The step box comes last; slacks are free.
        left = sparse.vstack([constraints, sparse.identity(n)])
        right = sparse.vstack([scale * sparse.identity(m), sparse.csc_matrix((n, m))])
        rows = sparse.hstack([left, right], format="csc")
        qp = self.proxqp.sparse.QP(n + m, 0, m + n)
        settings = qp.settings
        settings.eps_abs, settings.max_iter = QP_ACCURACY, QP_ITERATIONS
        # Without this it may stop away from a bound whose multiplier is not zero.
        settings.check_duality_gap = True
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = QP_ACCURACY
        box = np.full(n, options.box)
        low, high = np.concatenate([-needed, -box]), np.concatenate([np.where(equal, -needed, ENDLESS), box])
        qp.init(quadratic, linear, None, None, rows, low, high)
        qp.solve()
        step = np.array(qp.results.x[:n])
        if not np.all(np.isfinite(step)):
            raise PullbackError("the QP solver found no finite step: check the scale of residuals and constraints")
        after = needed + constraints @ step
        wrong = [np.where(equal, np.abs(x), np.maximum(-x, 0.0)) for x in (needed, after)]
        promised = 0.5 * (values @ values - np.sum((values + residuals @ step) ** 2))
        return step, max(0.0, promised + 0.5 * options.weight * float(np.sum(wrong[0] ** 2) - np.sum(wrong[1] ** 2)))

    def back(self, there: Linearised) -> np.ndarray:
        """The shortest step (n,) to where what is violated is met, were it linear."""
        violated = [(constraint.rows, constraint.violations > 0) for constraint in there.constraints]
        rows, values = self._stacked([Rows(*(part[wrong] for part in rows)) for rows, wrong in violated])
        rows = rows.toarray()
        return rows.T @ np.linalg.solve(rows @ rows.T + LEAST * np.eye(len(values)), -values)

    def _stacked(self, blocks: Sequence[Rows]):
        """All rows as one sparse matrix (m, n), and their values (m,)."""
        if not blocks:
            return self.sparse.csc_matrix((0, self.variables.size)), np.zeros(0)
        values = np.concatenate([block.values for block in blocks])
        first = np.cumsum([0, *(len(block.values) for block in blocks)])
        row = np.concatenate([np.repeat(f + np.arange(len(b.values)), b.columns.shape[1])
                              for f, b in zip(first[:-1], blocks, strict=True)])  # fmt: skip
        column = np.concatenate([block.columns.ravel() for block in blocks])
        entry = np.concatenate([block.entries.ravel() for block in blocks])
        kept = column != FIXED
        shape = (len(values), self.variables.size)
        return self.sparse.csc_matrix((entry[kept], (row[kept], column[kept])), shape=shape), values
