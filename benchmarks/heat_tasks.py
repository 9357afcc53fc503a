"""Are the studies of heat in printed parts solved, and how well?

- ``laser-history``: a hidden random power curve from the temperatures of a wall, the power a network of time, Adam with
  a rate of 0.01. The benchmark has 26,000 steps; the task itself has 1,000.
- ``heat-treatment``: every probe 2 s in a band of temperatures.
- ``identify-material``: four factors of a material from top temperatures with noise of 2 K; every seed is another
  material and other noise.
- ``melt-pool``: the depth of the pool through the turns of a path, against constant power.
- ``dwell``: the time of printing with a limit of the temperature between layers, against equal pauses.

benchmarks/heat.py asks these questions too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import numpy as np
from common import Result

from pullback.plan import Progress
from pullback.tasks import TASKS, Task, solve

LONG = 26_000  # steps of laser-history
SEEDS = range(10)  # of identify-material


def solved(task: Task, seed: int = 0) -> Progress:
    """What ``pullback optimize NAME`` does, and a line about it."""
    found = solve(task, target=None if task.judged else task.target, seed=seed)[-1]
    text = f"{task.name}, seed {seed}: {found.stopped} after {found.iterations}, {found.metrics[found.best]:.3g}"
    print(f"{text} {task.unit}, {found.seconds:.0f} s", file=sys.stderr, flush=True)
    return found


def spent(found: Progress) -> str:
    first, last = found.losses[0], found.losses[found.best]
    return f"{found.iterations} iterations, {found.seconds:.0f} s, loss from {first:.3g} to {last:.3g}"


def history_results(steps: int) -> Iterator[Result]:
    task = TASKS["laser-history"](steps=steps, dtype="float32")
    found = solved(task)
    name = f"laser-history, {steps} steps"
    yield Result(f"{name}: error of the power", found.metrics[found.best], "%", "<= 2", note=spent(found))
    yield Result(f"{name}: iterations until 2 %", found.iterations, "iterations", "<= 300")
    yield Result(f"{name}: time of an iteration", found.seconds / found.iterations, "s", note=repr(task.system))


def treatment_results() -> Iterator[Result]:
    found = solved(TASKS["heat-treatment"]())
    worst = found.metrics[found.best]
    yield Result("heat-treatment: worst probe, from the wanted time", worst, "%", "<= 5", note=spent(found))


def material_results(seeds: Iterable[int]) -> Iterator[Result]:
    tasks = [TASKS["identify-material"](seed=seed) for seed in seeds]
    results = [solved(task, seed) for task, seed in zip(tasks, seeds, strict=True)]
    worst = np.array([found.metrics[found.best] for found in results])
    share, count = np.mean(worst <= 3), len(worst)
    note = f"noise 2 K; {np.sum(worst <= 3)} of {count}; worst {worst.max():.2f} %, median {np.median(worst):.2f} %"
    yield Result("identify-material: seeds with all four within 3 %", share, "share", ">= 1", note=note)
    known = [task.estimate(found.x) for task, found in zip(tasks, results, strict=True)]
    inside = np.array([one.covers(task.truth) for one, task in zip(known, tasks, strict=True)])
    jointly = np.mean([one.covers_all(task.truth) for one, task in zip(known, tasks, strict=True)])
    note = f"{inside.sum()} of {inside.size} in intervals of their own"
    yield Result("identify-material: seeds with all true values in joint 95 % intervals", jointly, "share", note=note)
    seconds = np.median([found.seconds for found in results])
    yield Result("identify-material: time, median", seconds, "s", note=f"{results[0].iterations} iterations each")


def pool_results() -> Iterator[Result]:
    found = solved(TASKS["melt-pool"]())
    ratio = found.metrics[found.best]
    yield Result("melt-pool: variance of the depth", ratio, "ratio", "<= 0.1", peer="constant power", note=spent(found))


def dwell_results() -> Iterator[Result]:
    found = solved(TASKS["dwell"]())
    yield Result(
        "dwell: time of printing", found.metrics[found.best], "ratio", "<= 0.8", peer="equal pauses", note=spent(found)
    )


QUESTIONS = {
    "heat-treatment": lambda quick: treatment_results(),
    "melt-pool": lambda quick: pool_results(),
    "dwell": lambda quick: dwell_results(),
    "identify-material": lambda quick: material_results(list(SEEDS)[: 2 if quick else None]),
    "laser-history": lambda quick: history_results(1000 if quick else LONG),
}
