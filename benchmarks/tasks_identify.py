"""How well does the task ``identify`` find a quadruped's parameters, and are its confidence intervals honest?

Every seed is another robot, 5 to 30 % off its data sheet, and other noise of 1 %. An estimate succeeds if all 40
parameters are within 2 % of the truth. Intervals are calibrated if 95 % of all true values lie in intervals of their
own, and if all 40 lie in the joint intervals (Bonferroni's) of 95 % of the robots, or more.

Run: python benchmarks/tasks_identify.py [--json FILE] [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from common import Result, main

from pullback.plan import CONVERGED, Estimate, Progress, minimise
from pullback.tasks import TASKS, Task


class Trial(NamedTuple):
    task: Task
    found: Progress
    known: Estimate
    seconds: float

    @property
    def errors(self) -> np.ndarray:
        """Of all parameters [%]."""
        return 100 * np.abs(self.known.values / self.task.truth - 1)


def trial(seed: int) -> Trial:
    """What ``pullback optimize identify --seed N`` does."""
    task = TASKS["identify"](seed=seed)
    x, low, high = task.begin()
    began = time.perf_counter()
    found = minimise(task, x, task.method, iterations=task.iterations, low=low, high=high, seed=seed)
    known = task.estimate(found.x)
    done = Trial(task, found, known, time.perf_counter() - began)
    inside = int(known.covers(task.truth).sum())
    text = f"seed {seed}: {found.stopped} after {found.iterations}, worst {done.errors.max():.2f} %, {inside} inside"
    print(text, file=sys.stderr, flush=True)
    return done


def identify_results(seeds: Iterable[int]) -> Iterator[Result]:
    """One trial a seed, and what they say together."""
    trials = [trial(seed) for seed in seeds]
    count, of = len(trials), f"{len(trials)} robots of {len(trials[0].task.truth)} parameters, noise 1 %"
    worst = np.array([one.errors.max() for one in trials])
    single = np.mean([one.known.covers(one.task.truth) for one in trials])
    joint = np.mean([one.known.covers_all(one.task.truth) for one in trials])
    converged = np.mean([one.found.stopped == CONVERGED for one in trials])
    yield Result("identify: robots with every parameter within 2 %", np.mean(worst <= 2), "share", ">= 0.95", note=of)
    yield Result("identify: robots with all true values in the joint 95 % intervals", joint, "share", ">= 0.95")
    yield Result("identify: true values in 95 % intervals of their own", single, "share")
    yield Result("identify: that share, from 0.95", abs(single - 0.95), "share", "<= 0.03")
    yield Result("identify: worst error, median of robots", np.median(worst), "%", "<= 2")
    yield Result("identify: error of a parameter, median", np.median([one.errors for one in trials]), "%")
    yield Result("identify: runs that converged", converged, "share", ">= 0.95")
    spent = [one.found.evaluations for one in trials]
    yield Result(
        "identify: evaluations with Jacobian, median", np.median(spent), "evaluations", note=f"most {max(spent)}"
    )
    yield Result("identify: time, median", np.median([one.seconds for one in trials]), "s", note=f"{count} runs")


def baseline_results(seed: int, iterations: int) -> Iterator[Result]:
    """CMA-ES on the same loss."""
    task = TASKS["identify"](seed=seed)
    x, low, high = task.begin()
    found = minimise(task, x, task.baseline, iterations=iterations, low=low, high=high, seed=seed)
    note = f"{found.iterations} generations, {found.evaluations} evaluations, {found.seconds:.0f} s"
    yield Result("identify: worst error by CMA-ES", found.metrics[found.best], "%", peer="cma", note=note)


def figures(quick: bool) -> Iterator[Result]:
    yield from identify_results(range(2 if quick else 20))
    yield from baseline_results(0, 5 if quick else 300)


if __name__ == "__main__":
    main(figures)
