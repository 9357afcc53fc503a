"""Threads of the libraries that networks run in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """Networks on one core meanwhile. Small products are slower on several, and torch's idle threads go on spinning, on
    cores that a simulator then lacks."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's products on one core meanwhile, where threadpoolctl is installed: thousands of small ones are ten times
    slower on several."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield
