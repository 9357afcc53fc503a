"""The number of threads of torch and BLAS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limits torch to one thread in this context. Small products are slower on several threads, and torch's idle
    threads spin on cores that the simulator needs."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits NumPy's BLAS to one thread in this context, if threadpoolctl is installed: thousands of small products are
    ten times slower on several threads."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield
