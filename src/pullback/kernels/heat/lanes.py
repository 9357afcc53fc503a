"""Many steps in one launch on the CPU: each core takes a share of every world, or some of the worlds.

Cores that share a world wait for each other between the phases of a step, inside the kernel: handing over to a Python
thread and back would take longer than a phase of a few thousand elements.
"""

import warp as wp

from ..spatial.scalar import real
from .cores import BLOCK, Share, meet
from .elements import Beam, Law, LawBar, Part, advance, conduct, flow_bar_of, potential, retreat


@wp.func(inline=True)
def conduct_share(
    g: Part,
    share: Share,
    live: wp.array2d(dtype=int),
    t: int,
    x: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    meetings: int,
):
    """slots = -K x in step t, this core's share, between two meetings. Returns the meetings so far."""
    meet(share.arrived, share.cores, meetings + 1)
    for world in range(share.first_world, share.end_world):
        count = live[t, world]
        for e in range(count * share.core / share.cores, count * (share.core + 1) / share.cores):
            conduct(g, x, slots, e, world)
    meet(share.arrived, share.cores, meetings + 2)
    return meetings + 2


@wp.kernel(enable_backward=False)
def roll(
    g: Part,
    m: Law,
    share: Share,
    beams: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    dt: real,
    first: int,
    end: int,
    keep_every: int,
    theta: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    now: wp.array2d(dtype=real),
    rows: wp.array3d(dtype=real),
):
    """Steps ``now`` (worlds, n) in place from step ``first`` to ``end``.

    Of all steps, every keep_every-th state and the last go into ``rows`` from 1 on.
    """
    n = now.shape[1]
    steps = beams.shape[0]
    meeting = int(0)
    for world in range(share.first_world, share.end_world):
        for block in range(share.core * BLOCK, n, share.cores * BLOCK):
            for i in range(block, wp.min(block + BLOCK, n)):
                theta[world, i] = potential(m, now[world, i], world)
    for t in range(first, end):
        row = int(0)
        if (t + 1) % keep_every == 0 or t + 1 == steps:
            row = t / keep_every + 1
        meeting = conduct_share(g, share, live, t, theta, slots, meeting)
        for world in range(share.first_world, share.end_world):
            beam = beams[t, world]
            for block in range(share.core * BLOCK, n, share.cores * BLOCK):
                for i in range(block, wp.min(block + BLOCK, n)):
                    T = advance(g, m, beam, live[t, world], live[t + 1, world], dt, now[world, i], slots, i, world)
                    now[world, i] = T
                    theta[world, i] = potential(m, T, world)
                    if row > 0:
                        rows[row, world, i] = T


@wp.kernel(enable_backward=False)
def roll_back(
    g: Part,
    m: Law,
    bar: LawBar,
    share: Share,
    beams: wp.array2d(dtype=Beam),
    beams_bar: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    dt: real,
    first: int,
    end: int,
    rows: wp.array3d(dtype=real),
    rows_bar: wp.array3d(dtype=real),
    every_row: int,
    wants_params: int,
    flow_bar: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    carry: wp.array2d(dtype=real),
):
    """``carry`` (worlds, n) is the cotangent of the state at ``end``, a row, and then of that at ``first``.

    With every_row, the states' own cotangents rows_bar join on the way, but for the last one's.
    """
    n = carry.shape[1]
    worlds = carry.shape[0]
    meeting = int(0)
    for world in range(share.first_world, share.end_world):
        for block in range(share.core * BLOCK, n, share.cores * BLOCK):
            for i in range(block, wp.min(block + BLOCK, n)):
                flow_bar[world, i] = flow_bar_of(
                    g, m, live[end, world], dt, rows[end, world, i], carry[world, i], i, world
                )
    for back in range(end - first):
        t = end - 1 - back
        meeting = conduct_share(g, share, live, t, flow_bar, slots, meeting)
        for world in range(share.first_world, share.end_world):
            beam = beams[t, world]
            for block in range(share.core * BLOCK, n, share.cores * BLOCK):
                for i in range(block, wp.min(block + BLOCK, n)):
                    T = rows[t, world, i]
                    T_bar = retreat(
                        g, m, bar, beam, beams_bar, t, live[t, world], live[t + 1, world], dt, T, rows[t + 1, world, i],
                        carry[world, i], flow_bar[world, i], slots, i, world, share.lane * worlds + world, wants_params,
                    )  # fmt: skip
                    if every_row == 1:
                        T_bar += rows_bar[t, world, i]
                    carry[world, i] = T_bar
                    flow_bar[world, i] = flow_bar_of(g, m, live[t, world], dt, T, T_bar, i, world)
