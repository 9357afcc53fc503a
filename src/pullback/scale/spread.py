"""Existing functions on many workers: the losses and gradients of a task, and samples of a robot's reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pullback.core.checks import check_kind, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.plan import CMA, Found, Method
from pullback.reach.limb import Limb
from pullback.reach.sampling import Samples, box_of
from pullback.reach.sampling import sample as sample_here
from pullback.reach.spaces import Space
from pullback.scale.shards import Shard, Shards, added
from pullback.tasks import Task

MOST_SHARDS = 16  # of a task's trajectories, or of samples; independent of the number of workers


class Spread:
    """A task's losses and gradients from many workers, for :func:`pullback.plan.minimise` and ``solve(problem=...)``.

    A task of several trajectories, such as the identification of a robot from many recordings, is divided by
    trajectories into at most 16 shards, whose losses, gradients and curvatures are added in order. Otherwise the points
    of a method are divided, which helps methods with many points per iteration, such as CMA-ES.

    task:     a Task that can be pickled
    make:     an importable function that makes the same task on a worker, if it cannot be pickled
    method:   the method that will be used: an error if workers do not help it
    workers, cpus, address: as in :class:`Shards`
    """

    def __init__(
        self,
        task: Task,
        make: Callable[[], Task] | None = None,
        *,
        method: Method | None = None,
        workers: int | None = None,
        cpus: int = 1,
        address: str | None = None,
    ):
        check_kind(task, Task, "task", 'pullback.tasks.TASKS["identify"]()')
        self.task, self.by_motion = task, task.motions > 1
        if self.by_motion:
            task.part(slice(0, 1))  # raises an error now if the task cannot be divided
        elif method is not None and not isinstance(method, CMA):
            raise PullbackError(
                f"{task.name!r} has one trajectory, and {type(method).__name__} asks for one point after the other, so "
                "that workers do not help: solve it from many first guesses by 'pullback sweep --spread'"
            )
        shards = min(MOST_SHARDS, task.motions) if self.by_motion else MOST_SHARDS
        options = {"workers": workers, "cpus": cpus, "address": address}
        self._shards = Shards(_Part(make or task, self.by_motion), shards=shards, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Stops the workers."""
        self._shards.close()

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        """Losses, gradients and metrics of points (k, n)."""
        wanted = wants_gradients, wants_curvature
        if not self.by_motion:
            rows = [Shard(number, self._shards.count).of(points) for number in range(self._shards.count)]
            found = [one for one in self._shards.map(*wanted, each=rows) if one is not None]
            *columns, reasons = zip(*found, strict=True)
            joined = [None if parts[0] is None else np.concatenate(parts) for parts in columns]
            return Found(*joined, reason=next(filter(None, reasons), ""))
        found = self._shards.map(*wanted, each=[points] * self._shards.count)
        losses, gradients, metrics, curvatures, reasons = zip(*found, strict=True)
        sums = added(losses), added(gradients), np.max(metrics, axis=0), added(curvatures)
        return Found(*sums, reason=next(filter(None, reasons), ""))


@dataclass
class _Part:
    """Builds parts of a task on a worker, where the task is made once."""

    make: Task | Callable[[], Task]
    by_motion: bool

    @cached_property
    def task(self) -> Task:
        return self.make if isinstance(self.make, Task) else self.make()

    def __call__(self, shard: Shard):
        task = self.task
        if self.by_motion:
            own = shard.of(range(task.motions))
            task = task.part(slice(own.start, own.stop))

        def evaluate(wants_gradients: bool, wants_curvature: bool, points: np.ndarray):
            if not len(points):
                return None
            found = task(points, wants_gradients, wants_curvature)
            return found.losses, found.gradients, found.metrics, found.curvatures, found.reason

        return evaluate


def sample(
    model: Model,
    base: str,
    tip: str,
    space: str | Space = "SE3",
    *,
    n: int = 10_000,
    seed: int = 0,
    shards: int = MOST_SHARDS,
    workers: int | None = None,
    cpus: int = 1,
    address: str | None = None,
    **options,
) -> Samples:
    """:func:`pullback.reach.sample` on many workers, with the same poses for any number of workers.

    The poses differ from those of ``pullback.reach.sample`` with the same seed, and depend on ``shards``.
    """
    n, shards = check_whole(n, "n", 2), check_whole(shards, "shards", 1, n // 2)
    own = {name: x for name, x in options.items() if name not in ("unreachable", "starts")}
    limb, random = Limb(model, base, tip, space, **own), np.random.default_rng(check_seed(seed))
    build = _Sampling((model, base, tip, limb.space), n, options | {"box": box_of(limb, random)})
    with Shards(build, shards=shards, seed=seed, workers=workers, cpus=cpus, address=address) as on:
        poses, reachable = (np.concatenate(x) for x in zip(*on.map(), strict=True))
    order = random.permutation(n)
    return Samples(limb.space, poses[order], reachable[order])


@dataclass(frozen=True)
class _Sampling:
    """Draws a shard's samples."""

    of: tuple
    n: int
    options: dict

    def __call__(self, shard: Shard):
        def draw() -> tuple[np.ndarray, np.ndarray]:
            seed = int(shard.random().integers(2**62))
            found = sample_here(*self.of, n=len(shard.of(range(self.n))), seed=seed, progress=False, **self.options)
            return found.poses, found.reachable

        return draw
