"""Launching kernels from any thread, and on how many cores."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import warp as wp

from pullback.core.checks import check_whole

# Warp loads a kernel's module at its first launch, and not safely from several threads at once.
_loading = threading.Lock()

# CUDA threads a block. A thread works on a world of its own for a long time, so what counts is that the blocks of some
# ten thousand worlds are spread over all multiprocessors.
BLOCK = 64


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """The CPU threads of one System, or whatever else has one workspace, and the lock that guards that workspace.

    A fork copies no threads, and maybe a lock whose owner is not there: a child process starts with new ones.
    """

    def __init__(self):
        self.renew()
        _crews.add(self)

    def renew(self) -> None:
        self.lock, self._pool = threading.Lock(), None

    def launch(self, commands: list[wp.Launch]) -> None:
        """All of them at the same time. The caller holds the lock, and always comes with as many."""
        if len(commands) == 1:
            commands[0].launch()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(commands))
        list(self._pool.map(wp.Launch.launch, commands))


def _renew_in_child() -> None:
    global _loading
    _loading = threading.Lock()
    for crew in list(_crews):
        crew.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)


def launch(kernel, dim: int, inputs: list, device: str, **options) -> wp.Launch | None:
    """wp.launch, one at a time in the whole process."""
    with _loading:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=device, block_dim=BLOCK, **options)


def cores_to_use(threads: int | None) -> int:
    """As many CPU threads as were asked for; all cores that this process may use if None."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_whole(threads, "threads")
