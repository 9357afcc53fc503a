"""Several objectives at once: solutions of which none is better in everything than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from pullback.core.errors import PullbackError
from pullback.plan import minimise
from pullback.rollout import Run
from pullback.tasks.task import Loss, Task


class Front(NamedTuple):
    """What was found for several weights of the objectives.

    names:    (k,) of the objectives
    weights:  (m, k) that were asked for; each row adds up to one
    x:        (m, n) the variables
    values:   (m, k) of the objectives there
    first:    (k,) of the objectives at the first guess, in units of which they are weighed
    best:     (m,) bool: no other row is as good in all objectives and better in one
    """

    names: tuple[str, ...]
    weights: np.ndarray
    x: np.ndarray
    values: np.ndarray
    first: np.ndarray
    best: np.ndarray


def pareto(
    task: Task,
    objectives: Mapping[str, Callable[[Run], Loss]],
    *,
    divisions: int = 6,
    iterations: int = 30,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Front:
    """Minimises sums of several objectives of the same motion, with different weights, by the task's method.

    task:        its System, start and variables count; its own loss does not
    objectives:  by name, a :class:`Loss` of a run each; every one must be above zero at the first guess
    divisions:   weights are all multiples of one over this that add up to one; a tenth of that instead of zero, since
                 what has no weight at all may become arbitrarily bad
    iterations:  for each of them
    watch:       called after each with how many are done, and how many there will be

    Each begins at the nearest of what was found before. Weighted sums find the convex part of a front: where it bends
    inwards, there may be solutions between two of these that are on no weighted sum's minimum.
    """
    if len(objectives) < 2 or divisions < 1:
        raise PullbackError("a Pareto front needs two objectives or more, and at least one division")
    names = tuple(objectives)
    x, low, high = task.begin()
    first = _values(task, objectives, x)
    wrong = ~(np.isfinite(first) & (first > 0))
    if np.any(wrong):
        raise PullbackError(f"objective {names[int(np.argmax(wrong))]!r} must be above zero at the first guess")
    weights = _weights(len(names), divisions)
    found: list[np.ndarray] = []
    for row in weights:
        summed = task.but(loss=_sum(objectives, row / first))
        near = int(np.argmin([np.linalg.norm(row - other) for other in weights[: len(found)]])) if found else None
        start = x if near is None else found[near]
        found.append(minimise(summed, start, task.method, iterations=iterations, low=low, high=high, seed=seed).x)
        if watch is not None:
            watch(len(found), len(weights))
    values = np.array([_values(task, objectives, one) for one in found])
    return Front(names, weights, np.array(found), values, first, undominated(values))


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


def _sum(objectives: Mapping[str, Callable[[Run], Loss]], weights: np.ndarray) -> Callable[[Run], Loss]:
    def loss(run: Run) -> Loss:
        values, bars, controls_bar = 0.0, {}, None
        for weight, objective in zip(weights, objectives.values(), strict=True):
            part = objective(run)
            values = values + weight * np.asarray(part.values)
            for name, bar in part.bars.items():
                bars[name] = weight * bar + bars.get(name, 0.0)
            if part.controls_bar is not None:
                controls_bar = weight * part.controls_bar + (0.0 if controls_bar is None else controls_bar)
        return Loss(values, bars, controls_bar)

    return loss
