"""Sums over shards: parts of a problem that live on workers, each with its own worlds, scenes or recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Any

import numpy as np

from pullback.core.checks import check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.core.launch import shares
from pullback.core.trees import is_state
from pullback.scale.workers import Pool


@dataclass(frozen=True)
class Shard:
    """The part of a problem to build: the index of a shard, from 0, and the number of shards."""

    number: int
    count: int
    seed: int = 0

    def of(self, items):
        """This shard's part of a sequence or array; all parts have nearly the same size."""
        first, end = shares(len(items), self.count)[self.number]
        return items[first:end]

    def random(self, *path: int) -> np.random.Generator:
        """Random numbers of this shard; different ones for each ``path``, such as the number of an iteration."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.number, *path)))


class Shards:
    """Shards of a problem on many workers, and sums over them.

    The sum is the same to the last bit on any number of workers, here and on a cluster: the number of shards is fixed,
    each has its own random numbers, and results are added in the order of the shards. If a worker dies, it is
    replaced, and its shards are built again.

    build:    ``build(shard)``, for a :class:`Shard`, returns a function of the arguments of :meth:`gradient`, which
              returns numbers and arrays, such as ``(loss, gradient)``. Both run on a worker: ``build`` must be
              importable there, and the function's result must depend on its arguments alone
    shards:   number of shards
    workers:  number of workers; None: as many as there are resources for, at most one per shard
    cpus:     CPUs and threads of each worker. With another number the last bits may differ
    address:  of a Ray cluster, such as "auto" or "head:6379"; None: this machine
    seed:     of the random numbers of all shards
    """

    def __init__(
        self,
        build: Callable[[Shard], Callable],
        *,
        shards: int = 16,
        workers: int | None = None,
        cpus: int = 1,
        address: str | None = None,
        seed: int = 0,
    ):
        self.count = check_whole(shards, "shards")
        if not callable(build):
            raise PullbackError(f"build must be a function of a Shard, not {type(build).__name__}")
        builder = _Builder(build, self.count, check_seed(seed))
        self._pool = Pool(workers, cpus=cpus, address=address, most=self.count)
        try:
            self._builder = self._pool.share(builder)
        except (AttributeError, TypeError, PicklingError) as error:
            self._pool.close()
            raise PullbackError(
                f"build must be a function that a worker can import, at the top of a module: {error}"
            ) from error
        self._owners: dict[int, Any] = {}  # shard: the worker that evaluated it last, and so has built it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Stops the workers."""
        self._pool.close()

    def map(self, *args, each: Sequence | None = None) -> list:
        """The results of all shards for these arguments, in the order of shards.

        each:  one additional argument for each shard
        """
        if each is not None and len(each) != self.count:
            raise PullbackError(f"each must have one argument for each of {self.count} shards, not {len(each)}")
        jobs = [(number, *((each[number],) if each is not None else ())) for number in range(self.count)]
        shared = (self._builder, self._pool.share(args))
        found: list = [None] * self.count
        for number, value in self._pool.run(_evaluate, jobs, shared, choose=self._choose):
            if isinstance(value, Exception):
                value.add_note(f"in shard {number} of {self.count}")
                raise value
            found[number] = value
        return found

    def gradient(self, *args, each: Sequence | None = None):
        """The sum over shards of their results for these arguments, such as a loss and its gradient."""
        return added(self.map(*args, each=each))

    def _choose(self, worker, waiting: list[int], workers: Sequence) -> int | None:
        """The next shard for a worker: one that it has built, else one that no living worker has, else one of the
        worker with the most left.

        The last shard of another worker is not taken: building it again may take longer than waiting.
        """
        alive, by_owner = set(workers), {}
        for number in waiting:
            owner = self._owners.get(number)
            by_owner.setdefault(owner if owner in alive else None, []).append(number)
        most = max(by_owner.values(), key=len)[::-1]
        one = by_owner.get(worker) or by_owner.get(None) or (most if len(most) > 1 else [None])
        if one[0] is not None:
            self._owners[one[0]] = worker
        return one[0]


@dataclass
class _Builder:
    """The function that builds shards on a worker, and the shards it has built."""

    build: Callable[[Shard], Callable]
    count: int
    seed: int
    built: dict[int, Callable] = field(default_factory=dict)


def _evaluate(builder: _Builder, args: tuple, number: int, *own):
    if number not in builder.built:
        built = builder.build(Shard(number, builder.count, builder.seed))
        if not callable(built):
            raise PullbackError(f"build must return a function, not {type(built).__name__}")
        builder.built[number] = built
    return builder.built[number](*args, *own)


def added(parts: Sequence):
    """The sum of several numbers, arrays, or tuples and dictionaries of these, in order."""
    one = parts[0]
    if len({_form(part) for part in parts}) > 1:  # NumPy would broadcast axes of length one
        forms = " and ".join(str(form) for form in dict.fromkeys(map(_form, parts)))
        raise PullbackError(f"what shards return cannot be added up: some return {forms}")
    if one is None:
        return None
    if isinstance(one, dict):
        return {name: added([part[name] for part in parts]) for name in one}
    if isinstance(one, tuple | list):
        sums = [added(column) for column in zip(*parts, strict=True)]
        return type(one)(*sums) if is_state(one) else type(one)(sums)
    total = one
    for part in parts[1:]:
        total = total + part
    return total


def _form(part):
    """The structure that parts must share to be added: names, a length, or a shape."""
    if part is None or isinstance(part, dict):
        return part if part is None else tuple(sorted(map(str, part)))
    return len(part) if isinstance(part, tuple | list) else np.shape(part)
