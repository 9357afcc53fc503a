"""The loop around a method: ask for points, evaluate them, tell the method; until convergence or the target."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.arrays import memory_left
from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.core.renamed import renamed
from pullback.plan.methods import Memory, Method, ranked
from pullback.plan.problem import Found, Problem, Simulation

# The most work that an interruption loses. [s]
SAVE_AFTER = 1.0

FORMAT = 1  # version of checkpoint files; those without a number have version 1
LATER = ("newest", "by_metric")  # fields that older checkpoints do not have: False there

REACHED, SPENT, STALLED, CONVERGED = "target reached", "iterations spent", "no progress", "converged"


@renamed(figures="metrics")
@dataclass(frozen=True)
class Progress:
    """The progress of a minimisation. Rows of the histories are iterations; for a population, those of the best point.

    x:            (n,) the best point so far, by its loss
    losses:       (iterations,)
    metrics:      (iterations,), of the same points
    evaluations:  number of points evaluated
    seconds:      time spent, without what an interruption lost
    stopped:      the reason why it stopped, or "" while it runs
    newest:       whether iterations used different parts of the problem, as minibatches do: then x is the newest point
    by_metric:    whether the best point is the one with the smallest metric
    """

    x: np.ndarray
    losses: np.ndarray
    metrics: np.ndarray
    evaluations: int
    seconds: float
    stopped: str = ""
    newest: bool = False
    by_metric: bool = False

    @property
    def iterations(self) -> int:
        return len(self.losses)

    @property
    def best(self) -> int:
        """The iteration with the smallest loss, or metric; the last iteration if ``newest``."""
        if self.newest:
            return max(len(self.losses) - 1, 0)
        return int(np.argmin(ranked(self.judged)))

    @property
    def judged(self) -> np.ndarray:
        """The values by which points are compared: losses, or metrics."""
        return self.metrics if self.by_metric else self.losses


def minimise(
    problem: Problem,
    x: np.ndarray,
    method: Method,
    *,
    iterations: int,
    target: float | None = None,
    low: np.ndarray | float = -np.inf,
    high: np.ndarray | float = np.inf,
    patience: int | None = None,
    seed: int = 0,
    by_metric: bool = False,
    checkpoint: Path | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Progress:
    """Minimises the losses of ``problem`` from the initial guess x (n,).

    target:      stops when the metric is at most this
    low, high:   bounds of the variables
    patience:    stops after this many iterations without a smaller loss
    by_metric:   the best point is the one with the smallest metric, and patience counts by it: for a metric that
                 measures what the loss does not, such as the error on held-out data
    checkpoint:  a file to resume from if it exists, written about once a second
    watch:       called after every iteration
    """
    check_kind(method, Method, "method", "LBFGS()")
    check_whole(iterations, "iterations")
    method = method.bound(problem)
    x = np.array(x, dtype=float)
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), x.shape).copy() for bound in (low, high))
    if x.ndim != 1 or not len(x) or not np.all(np.isfinite(x)):
        raise PullbackError(f"the first guess must be a vector of finite numbers, not one of shape {x.shape}")
    if np.any(low > high):
        raise PullbackError(f"the bounds of variable {int(np.argmax(low > high))} exclude each other")
    progress = Progress(np.clip(x, low, high), np.zeros(0), np.zeros(0), 0, 0.0, newest=method.newest)
    progress = replace(progress, by_metric=by_metric)
    memory = method.begin(progress.x, low, high, seed)
    checkpoint = None if checkpoint is None else Path(checkpoint)
    whose = {} if checkpoint is None else _whose(method.sample(problem, memory), progress.x, method, seed)
    if checkpoint is not None and checkpoint.exists():
        progress, memory = load_checkpoint(checkpoint, whose)
        why = _why_stop(progress, iterations, target, patience, method.done(memory))  # the limits may have been raised
        progress = replace(progress, stopped=why)
    saved = time.monotonic()
    while not progress.stopped:
        began = time.perf_counter()
        points, seen = method.ask(memory), method.sample(problem, memory)
        evaluate = seen.simulated if isinstance(seen, Simulation) else seen
        found = evaluate(points, True, True) if method.wants_curvature else evaluate(points, method.wants_gradients)
        # The last point needs no gradient, unless a checkpoint may be continued from there.
        solved = _why_stop(_advanced(progress, points, found), iterations, target, None, False) == REACHED
        if found.pull is not None and (checkpoint is not None or not solved):
            found = found.pull()
        if found.reason and not progress.iterations and not np.any(np.isfinite(found.losses)):
            raise PullbackError(f"the first guess cannot be evaluated: {found.reason}")
        if found.pull is None:
            curvatures = (found.curvatures,) if method.wants_curvature else ()
            memory = method.tell(memory, found.losses, found.gradients, *curvatures)
        progress = _advanced(progress, points, found)
        progress = replace(progress, seconds=progress.seconds + time.perf_counter() - began)
        progress = replace(progress, stopped=_why_stop(progress, iterations, target, patience, method.done(memory)))
        if checkpoint is not None and (progress.stopped or time.monotonic() - saved > SAVE_AFTER):
            save_checkpoint(checkpoint, progress, memory, whose)
            saved = time.monotonic()
        if watch is not None:
            watch(progress)
    return progress


def _advanced(progress: Progress, points: np.ndarray, found: Found) -> Progress:
    judged = found.metrics if progress.by_metric else found.losses
    best = int(np.argmin(ranked(judged)))
    better = progress.newest or not len(progress.losses) or ranked(judged)[best] < ranked(progress.judged).min()
    return Progress(
        points[best].copy() if better else progress.x,
        np.append(progress.losses, found.losses[best]),
        np.append(progress.metrics, found.metrics[best]),
        progress.evaluations + len(points),
        progress.seconds,
        newest=progress.newest,
        by_metric=progress.by_metric,
    )


def _why_stop(progress: Progress, iterations: int, target: float | None, patience: int | None, done: bool) -> str:
    # the last point must also be the best one, because the best one is returned
    if target is not None and progress.best == progress.iterations - 1 and progress.metrics[-1] <= target:
        return REACHED
    if done:
        return CONVERGED
    if progress.iterations >= iterations:
        return SPENT
    if patience is not None and progress.iterations - 1 - progress.best >= patience:
        return STALLED
    return ""


# --- files ------------------------------------------------------------------------------------------------------------


def _whose(problem: Problem, x: np.ndarray, method: Method, seed: int) -> dict[str, np.ndarray]:
    """What identifies a checkpoint's run: method, seed, initial guess, and the problem by its loss there, which also
    changes if code does."""
    loss = problem(x[None], False).losses[0]
    return {"method": np.array(repr(method)), "seed": np.array(seed), "guess": x, "loss": np.asarray(loss, dtype=float)}


def save_checkpoint(path: Path, progress: Progress, memory: Memory, whose: dict[str, np.ndarray]) -> None:
    arrays: dict[str, Any] = {f"progress_{name}": np.asarray(value) for name, value in vars(progress).items()}
    arrays["format"] = np.array(FORMAT)
    arrays |= whose | {f"memory_{name}": np.asarray(value) for name, value in memory.items()}
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def load_checkpoint(path: Path, whose: dict[str, np.ndarray]) -> tuple[Progress, Memory]:
    try:
        data = read_arrays(path, largest=memory_left("cpu"))
        if int(data.get("format", FORMAT)) != FORMAT:
            raise PullbackError("it was written by another version")
        same = all(
            np.array_equal(data[name], value, equal_nan=value.dtype.kind == "f") for name, value in whose.items()
        )
        kinds: dict[str, Callable] = {"x": np.asarray, "losses": np.atleast_1d, "metrics": np.atleast_1d}
        kinds |= {"evaluations": int, "seconds": float, "stopped": str, "newest": bool, "by_metric": bool}
        saved = {f"progress_{name}": False for name in LATER} | data
        progress = Progress(**{name: kind(saved[f"progress_{name}"]) for name, kind in kinds.items()})
    except Exception as error:  # a broken archive can raise anything
        raise PullbackError(f"{str(path)!r} cannot be read as a checkpoint: delete it ({error})") from error
    if not same:
        raise PullbackError(
            f"{str(path)!r} belongs to another method, seed or problem, or the problem was changed: delete it (on the "
            "command line: --fresh), or use another folder"
        )
    memory = {name.removeprefix("memory_"): value for name, value in data.items() if name.startswith("memory_")}
    return progress, memory
