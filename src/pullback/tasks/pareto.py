"""Several objectives at once: solutions of which none is better in everything than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.plan import minimise
from pullback.rollout import Run
from pullback.tasks.loss import Loss, Sum
from pullback.tasks.task import Task


class Front(NamedTuple):
    """Solutions for several weights of the objectives.

    names:    (k,) of the objectives
    weights:  (m, k) that were asked for; each row adds up to one
    x:        (m, n) the variables
    values:   (m, k) of the objectives there
    first:    (k,) of the objectives at the first guess
    units:    (k,) in which they were weighed
    best:     (m,) bool: no other row is as good in all objectives and better in one
    """

    names: tuple[str, ...]
    weights: np.ndarray
    x: np.ndarray
    values: np.ndarray
    first: np.ndarray
    units: np.ndarray
    best: np.ndarray


def pareto(
    task: Task,
    objectives: Mapping[str, Callable[[Run], Loss]],
    *,
    divisions: int = 6,
    iterations: int = 30,
    rounds: int = 3,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Front:
    """Minimises sums of several objectives of the same trajectory, with different weights, by the task's method.

    task:        its System, initial state and variables are used; its own loss is not
    objectives:  by name, a :class:`Loss` of a run each; all must be positive at the initial guess
    divisions:   weights are all multiples of one over this that add up to one; a tenth of that instead of zero, since
                 an objective without weight may become arbitrarily bad
    iterations:  for each set of weights, in each round
    rounds:      number of passes over the weights. Each optimisation starts at the best solution so far for its
                 weights, so that one that is stuck benefits from its neighbours. Objectives are normalised by their
                 values at the initial guess, and after one round by the extent of the front in each objective;
                 otherwise all solutions may end in one corner of the front
    watch:       called after each with the number that are done, and the total number

    Weighted sums find the convex part of a front: where it bends inwards, solutions in between are not found.
    """
    if not isinstance(objectives, Mapping) or len(objectives) < 2:
        raise PullbackError("a Pareto front needs two objectives or more, by name")
    check_whole(divisions, "divisions")
    check_whole(rounds, "rounds")
    names = tuple(objectives)
    x, low, high = task.begin()
    first = _values(task, objectives, x)
    wrong = ~(np.isfinite(first) & (first > 0))
    if np.any(wrong):
        raise PullbackError(f"objective {names[int(np.argmax(wrong))]!r} must be above zero at the first guess")
    weights = _weights(len(names), divisions)
    found, values, units = np.tile(x, (len(weights), 1)), np.tile(first, (len(weights), 1)), first
    for number in range(rounds):
        for row, share in enumerate(weights / units):
            begin = found[np.argmin(values @ share)]
            summed = task.but(loss=Sum(tuple(zip(share, objectives.values(), strict=True))))
            found[row] = minimise(summed, begin, task.method, iterations=iterations, low=low, high=high, seed=seed).x
            values[row] = _values(task, objectives, found[row])
            if watch is not None:
                watch(number * len(weights) + row + 1, rounds * len(weights))
        if number == 0 and rounds > 1:
            apart = np.ptp(values, axis=0)
            units = np.where(apart > 0, apart, first)
    chosen = np.argmin(values @ (weights / units).T, axis=0)
    return Front(names, weights, found[chosen], values[chosen], first, units, undominated(values[chosen]))


def undominated(values: np.ndarray) -> np.ndarray:
    """Rows (m,) of values (m, k), small ones wanted, of which no other is as good in everything and better in one."""
    as_good = np.all(values[:, None] <= values[None], axis=2)
    better = np.any(values[:, None] < values[None], axis=2)
    return ~np.any(as_good & better, axis=0)


def _weights(count: int, divisions: int) -> np.ndarray:
    """Neighbours lie side by side."""
    rows = [row for row in product(range(divisions + 1), repeat=count) if sum(row) == divisions]
    weights = np.maximum(np.array(rows, dtype=float), 0.1)
    return weights / weights.sum(axis=1, keepdims=True)


def _values(task: Task, objectives: Mapping[str, Callable[[Run], Loss]], x: np.ndarray) -> np.ndarray:
    run = task.run(x)
    return np.array([float(np.sum(objective(run).values)) for objective in objectives.values()])
