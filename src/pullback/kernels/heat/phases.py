"""One phase of a step a launch, one thread an element or node: for CUDA, where launches follow each other in order."""

import warp as wp

from ..spatial.scalar import real
from .elements import Beam, Law, LawBar, Part, advance, conduct, flow_bar_of, potential, retreat


@wp.kernel(enable_backward=False)
def elements(g: Part, live: wp.array2d(dtype=int), t: int, x: wp.array2d(dtype=real), slots: wp.array2d(dtype=real)):
    world, e = wp.tid()
    if e < live[t, world]:
        conduct(g, x, slots, e, world)


@wp.kernel(enable_backward=False)
def start(m: Law, now: wp.array2d(dtype=real), theta: wp.array2d(dtype=real)):
    world, i = wp.tid()
    theta[world, i] = potential(m, now[world, i], world)


@wp.kernel(enable_backward=False)
def nodes(
    g: Part,
    m: Law,
    beams: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    t: int,
    row: int,
    dt: real,
    theta: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    now: wp.array2d(dtype=real),
    rows: wp.array3d(dtype=real),
):
    """``row`` is where the state goes, if it is kept: above zero."""
    world, i = wp.tid()
    T = advance(g, m, beams[t, world], live[t, world], live[t + 1, world], dt, now[world, i], slots, i, world)
    now[world, i] = T
    theta[world, i] = potential(m, T, world)
    if row > 0:
        rows[row, world, i] = T


@wp.kernel(enable_backward=False)
def start_back(
    g: Part,
    m: Law,
    live: wp.array2d(dtype=int),
    steps: int,
    dt: real,
    rows: wp.array3d(dtype=real),
    flow_bar: wp.array2d(dtype=real),
    carry: wp.array2d(dtype=real),
):
    world, i = wp.tid()
    flow_bar[world, i] = flow_bar_of(g, m, live[steps, world], dt, rows[steps, world, i], carry[world, i], i, world)


@wp.kernel(enable_backward=False)
def nodes_back(
    g: Part,
    m: Law,
    bar: LawBar,
    beams: wp.array2d(dtype=Beam),
    beams_bar: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    t: int,
    dt: real,
    rows: wp.array3d(dtype=real),
    rows_bar: wp.array3d(dtype=real),
    every_row: int,
    wants_params: int,
    lanes: int,
    flow_bar: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    carry: wp.array2d(dtype=real),
):
    """A lane takes every lanes-th node, and has sums of its own."""
    world, lane = wp.tid()
    n = carry.shape[1]
    place = lane * carry.shape[0] + world
    for i in range(lane, n, lanes):
        T = rows[t, world, i]
        T_bar = retreat(
            g, m, bar, beams[t, world], beams_bar, t, live[t, world], live[t + 1, world], dt, T, rows[t + 1, world, i],
            carry[world, i], flow_bar[world, i], slots, i, world, place, wants_params,
        )  # fmt: skip
        if every_row == 1:
            T_bar += rows_bar[t, world, i]
        carry[world, i] = T_bar
        flow_bar[world, i] = flow_bar_of(g, m, live[t, world], dt, T, T_bar, i, world)
