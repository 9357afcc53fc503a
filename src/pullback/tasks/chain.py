"""A task that is too hard to begin with is solved after easier ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pullback.core.checks import check_kind, check_number, check_path, check_seed, unknown
from pullback.core.errors import PullbackError
from pullback.plan import CMA, METHODS, Method, Problem, Progress, minimise
from pullback.tasks.task import Task
from pullback.tasks.variables import Controls


def solve(
    task: Task,
    method: Method | None = None,
    *,
    iterations: int | None = None,
    target: float | None = None,
    spread: float = 0.0,
    problem: Problem | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    watch: Callable[[list[Progress]], None] | None = None,
) -> list[Progress]:
    """Minimises the loss of each of the task's easier tasks, and then its own. One Progress each; the last one counts.

    Each easier task uses its own method and number of iterations, and starts at the solution of the one before it. A
    method of another kind than the task's own starts with the task itself.

    method, iterations:  the task's own if None
    target:              stops the last one when its metric is at most this
    spread:              standard deviation of random numbers, by the seed, that are added to the initial guess, in its
                         own units
    problem:             evaluates losses and gradients in place of the task, such as the same task on many workers
    checkpoint:          a file to resume from; those of easier tasks are stored beside it
    watch:               called after every iteration with all Progress so far
    """
    check_kind(task, Task, "task", 'pullback.tasks.TASKS["throw"]()')
    method = task.method if method is None else method
    iterations = task.iterations if iterations is None else iterations
    seed, spread = check_seed(seed), check_number(spread, "spread", least=0.0)
    checkpoint = None if checkpoint is None else check_path(checkpoint, "checkpoint")
    chain = [*easier_for(task, method), task]
    done: list[Progress] = []
    x = None
    for number, one in enumerate(chain):
        first, low, high = one.begin()
        if spread and x is None:
            first = np.clip(first + spread * np.random.default_rng(seed).standard_normal(len(first)), low, high)
        last = one is task
        done.append(
            minimise(
                problem if last and problem is not None else one,
                first if x is None else _taken_over(chain[number - 1], x, one),
                method if last else one.method,
                iterations=iterations if last else one.iterations,
                target=target if last else one.target if one.until_solved else None,
                low=low,
                high=high,
                seed=seed,
                checkpoint=checkpoint if last or checkpoint is None else _beside(checkpoint, number),
                watch=None if watch is None else lambda progress: watch([*done, progress]),
            )
        )
        x = done[-1].x
    return done


def choose(task: Task, name: str | None = None) -> tuple[Method, int]:
    """The task's method of this name with its settings, or another with its defaults; and how many iterations."""
    method = task.method
    if name is not None:
        check_kind(name, str, "method", '"adam"')
        if name not in METHODS:
            raise PullbackError(unknown("method", name, METHODS))
        own = [task.method, *([] if task.baseline is None else [task.baseline])]
        method = next((one for one in own if isinstance(one, METHODS[name])), None) or METHODS[name]()
    return method, task.baseline_iterations if isinstance(method, CMA) else task.iterations


def easier_for(task: Task, method: Method) -> tuple[Task, ...]:
    """What comes before a task with this method."""
    return task.easier if isinstance(method, type(task.method)) else ()


def _beside(checkpoint: Path, number: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.stem}-{number}{checkpoint.suffix}")


def _taken_over(easier: Task, x: np.ndarray, task: Task) -> np.ndarray:
    """The variables of a task that make the controls that an easier one has found.

    The easier one may have more controls than the task. They come last and are left out. Where variables are not
    Controls, both tasks have the same.
    """
    if type(easier.find) is type(task.find) and not isinstance(task.find, Controls):
        if len(x) != len(task.begin()[0]):
            raise PullbackError(f"{task.name!r} has {len(task.begin()[0])} variables, and the one before it {len(x)}")
        return x
    if not isinstance(task.find, Controls) or not isinstance(easier.find, Controls):
        kinds = f"{type(task.find).__name__}, but the easier task {easier.name!r} {type(easier.find).__name__}"
        raise PullbackError(f"task {task.name!r} optimises {kinds}: both must optimise the same kind of variables")
    controls, _ = easier.find.decode(easier.system, x[None])
    knots = controls[: task.find.driven : task.find.hold, 0, : task.system.nu]
    return replace(task.find, start=knots).begin(task.system)[0]
