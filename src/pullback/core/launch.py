"""Launching kernels from any thread, and on how many cores."""

from __future__ import annotations

import os
import threading

import warp as wp

from pullback.core.checks import check_whole

# Warp loads a kernel's module at its first launch, and not safely from several threads at once.
_loading = threading.Lock()

# CUDA threads a block. A thread works on a world of its own for a long time, so what counts is that the blocks of some
# ten thousand worlds are spread over all multiprocessors.
BLOCK = 64


def launch(kernel, dim: int, inputs: list, device: str, **options) -> wp.Launch | None:
    """wp.launch, one at a time in the whole process."""
    with _loading:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=device, block_dim=BLOCK, **options)


def cores_to_use(threads: int | None) -> int:
    """As many CPU threads as were asked for; all cores that this process may use if None."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_whole(threads, "threads")
