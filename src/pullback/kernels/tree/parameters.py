"""Sums of cotangents over worlds, in an order that the number of worlds alone decides: the same bits in every run."""

import warp as wp

from ..spatial.scalar import real


@wp.kernel(enable_backward=False)
def sum_worlds(x: wp.array3d(dtype=real), groups: int, first: int, total: wp.array3d(dtype=real)):
    """Adds up x[item, world, entry] of every ``groups``-th world from ``group`` on, in total[0, group, first + ...].

    One thread per (item, group, entry): neighbours read neighbouring memory.
    """
    item, group, entry = wp.tid()
    found = real(0.0)
    for world in range(group, x.shape[1], groups):
        found += x[item, world, entry]
    total[0, group, first + item * x.shape[2] + entry] = found
