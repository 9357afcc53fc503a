"""Explicit steps, one phase per launch and one thread per element or node: for CUDA, where launches follow each other
in order."""

import warp as wp

from .elements import (
    Bars,
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


@wp.kernel(enable_backward=False)
def elements(g: Part, w: Work, trace: Trace, t: int):
    world, e = wp.tid()
    if e < trace.live[t, world]:
        conduct(g, w.nodal, w.slots, e, world)


@wp.kernel(enable_backward=False)
def start(m: Law, w: Work, x: States):
    world, i = wp.tid()
    w.nodal[world, i] = potential(m, x.now[0, world, i], world)


@wp.kernel(enable_backward=False)
def nodes(g: Part, m: Law, w: Work, trace: Trace, x: States, t: int):
    world, i = wp.tid()
    if is_running(x.status, t, world):
        beam = trace.beams[t, world]
        live = trace.live[t, world]
        T = advance(g, m, w, beam, live, trace.live[t + 1, world], trace.dt, x.now[t % 2, world, i], i, world)
        w.nodal[world, i] = potential(m, T, world)
        settle(x, T, t, row_of(t, trace.beams.shape[0], x.keep_every), i, world)


@wp.kernel(enable_backward=False)
def start_back(g: Part, m: Law, w: Work, trace: Trace, b: Bars, steps: int):
    world, i = wp.tid()
    live = trace.live[steps, world]
    w.nodal[world, i] = flow_bar_of(g, m, live, trace.dt, b.rows[steps, world, i], b.carry[world, i], i, world)


@wp.kernel(enable_backward=False)
def nodes_back(g: Part, m: Law, w: Work, trace: Trace, b: Bars, t: int, lanes: int):
    """A lane takes every lanes-th node, and has sums of its own."""
    world, lane = wp.tid()
    place = lane * b.carry.shape[0] + world
    if b.status[world, 1] < 0:
        beam = trace.beams[t, world]
        live = trace.live[t, world]
        live_next = trace.live[t + 1, world]
        for i in range(lane, b.carry.shape[1], lanes):
            retreat(g, m, w, b, beam, live, live_next, trace.dt, t, i, world, 0, place)
