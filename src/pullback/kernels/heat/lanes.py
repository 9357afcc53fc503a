"""Many explicit steps in one launch on the CPU: each core takes a share of every world, or some of the worlds.

Cores that share a world wait for each other between the phases of a step, inside the kernel: handing over to a Python
thread and back would take longer than a phase of a few thousand elements.
"""

import warp as wp

from ..cores import BLOCK, Share, meet
from .elements import (
    Bars,
    Counts,
    Law,
    Part,
    States,
    Trace,
    Work,
    advance,
    conduct,
    flow_bar_of,
    is_running,
    potential,
    retreat,
    row_of,
    settle,
)


@wp.func(inline=True)
def conduct_share(g: Part, share: Share, w: Work, live: Counts, t: int, meetings: int):
    """w.slots = -K w.nodal in step t, this core's share, between two meetings. Returns the meetings so far."""
    meet(share.gate, share.cores, meetings + 1)
    for world in range(share.first_world, share.end_world):
        count = live[t, world]
        for e in range(count * share.core / share.cores, count * (share.core + 1) / share.cores):
            conduct(g, w.nodal, w.slots, e, world)
    meet(share.gate, share.cores, meetings + 2)
    return meetings + 2


@wp.kernel(enable_backward=False)
def roll(g: Part, m: Law, share: Share, w: Work, trace: Trace, x: States, first: int, end: int):
    """From step ``first`` to ``end``."""
    if not meet(share.gate, share.cores, 1):
        return
    n = x.now.shape[2]
    steps = trace.beams.shape[0]
    meeting = int(1)
    for world in range(share.first_world, share.end_world):
        for block in range(share.core * BLOCK, n, share.cores * BLOCK):
            for i in range(block, wp.min(block + BLOCK, n)):
                w.nodal[world, i] = potential(m, x.now[first % 2, world, i], world)
    for t in range(first, end):
        row = row_of(t, steps, x.keep_every)
        meeting = conduct_share(g, share, w, trace.live, t, meeting)
        for world in range(share.first_world, share.end_world):
            if is_running(x.status, t, world):
                beam = trace.beams[t, world]
                live = trace.live[t, world]
                live_next = trace.live[t + 1, world]
                for block in range(share.core * BLOCK, n, share.cores * BLOCK):
                    for i in range(block, wp.min(block + BLOCK, n)):
                        T = advance(g, m, w, beam, live, live_next, trace.dt, x.now[t % 2, world, i], i, world)
                        w.nodal[world, i] = potential(m, T, world)
                        settle(x, T, t, row, i, world)


@wp.kernel(enable_backward=False)
def roll_back(g: Part, m: Law, share: Share, w: Work, trace: Trace, b: Bars, first: int, end: int):
    """``b.carry`` is the cotangent of the state at ``end``, and then of that at ``first``."""
    if not meet(share.gate, share.cores, 1):
        return
    n = b.carry.shape[1]
    place = share.lane * b.carry.shape[0]
    meeting = int(1)
    for world in range(share.first_world, share.end_world):
        live = trace.live[end, world]
        for block in range(share.core * BLOCK, n, share.cores * BLOCK):
            for i in range(block, wp.min(block + BLOCK, n)):
                w.nodal[world, i] = flow_bar_of(
                    g, m, live, trace.dt, b.rows[end, world, i], b.carry[world, i], i, world
                )
    for back in range(end - first):
        t = end - 1 - back
        meeting = conduct_share(g, share, w, trace.live, t, meeting)
        for world in range(share.first_world, share.end_world):
            if b.status[world, 1] < 0:
                beam = trace.beams[t, world]
                live = trace.live[t, world]
                live_next = trace.live[t + 1, world]
                for block in range(share.core * BLOCK, n, share.cores * BLOCK):
                    for i in range(block, wp.min(block + BLOCK, n)):
                        retreat(g, m, w, b, beam, live, live_next, trace.dt, t, i, world, share.lane, place + world)
