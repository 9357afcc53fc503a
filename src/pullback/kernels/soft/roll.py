"""Many steps of MLS-MPM in one launch on the CPU: each core takes some of the worlds, or a share of every world.

The phases of a step are in ``particle.py``; between them the cores of a world meet. Every core has a grid of its own to
scatter to, and their sum is taken in a fixed order: nothing is atomic, and results do not depend on timing.
"""

import warp as wp

from ..cores import Share, meet
from ..spatial.scalar import vec3, vec4
from .flavour import DIM, SHAPES, vec
from .kinds import INVERTED, LEFT
from .particle import (
    add_gravity_bar,
    kept_row,
    pull_particle,
    pull_particle_back,
    push_particle,
    push_particle_back,
    settled,
    settled_adjoint,
)
from .structs import Bars, Body, Forward, Grid, Law, Work, vec8

if DIM == 2:
    from .plane import around, touch
else:
    from .space import around, touch
if SHAPES:
    from .shapes import add_impulse_bar, add_impulses, give, give_adjoint, nothing_given, without_given


@wp.func(inline=True)
def is_running(f: Forward, share: Share, world: int, t: int, phase: int):
    """Whether no core that shares this world has found a failure in it, before a phase of step t in which failures are
    of one kind: one that another core has found in this very phase does not keep a late one from looking."""
    result = bool(True)
    for lane in range(share.lane - share.core, share.lane - share.core + share.cores):
        found = f.status[lane, world]
        if found[1] >= 0 and (found[1] != t or found[0] != phase):
            result = False
    return result


@wp.func(inline=True)
def fail(f: Forward, share: Share, world: int, code: int, t: int, particle: int):
    """Notes the first failure that a core finds. Each has a place of its own: an early core may find one of step t
    while a late one finds one of the step before, which counts."""
    if f.status[share.lane, world][1] < 0:
        f.status[share.lane, world] = wp.vec3i(code, t, particle)


@wp.func(inline=True)
def begin_rows(g: Grid):
    """No rows: first and end."""
    return g.shape[0] * g.shape[1], 0


@wp.func(inline=True)
def touch_rows(g: Grid, w: Work, lane: int, X: vec, used: wp.vec4i):
    """Notes the nodes around a place. ``used``: the rows in use, first and end, and where the last particle was."""
    row, low, rest = around(g, X)
    if row != used[2] or low != used[3]:
        used = wp.vec4i(wp.min(used[0], row), wp.max(used[1], touch(g, w, lane, row, low)), row, low)
    return used


@wp.func(inline=True)
def push(b: Body, g: Grid, m: Law, w: Work, f: Forward, share: Share, t: int, world: int, first: int, end: int):
    """Scatters a core's share of the particles, in step t."""
    first_row, end_row = begin_rows(g)
    used = wp.vec4i(first_row, end_row, -1, -1)
    for p in range(first, end):
        X, sound = push_particle(b, g, m, w, f, share.lane * g.covered.shape[0], t, world, p)
        if not sound:
            fail(f, share, world, INVERTED, t, p)
        used = touch_rows(g, w, share.lane, X, used)
    w.rows[share.lane, 0] = used[0]
    w.rows[share.lane, 1] = used[1]


@wp.func(inline=True)
def used_rows(g: Grid, w: Work, base: int, cores: int):
    """The rows that any core has touched: first and end."""
    first, end = begin_rows(g)
    for lane in range(base, base + cores):
        first = wp.min(first, w.rows[lane, 0])
        end = wp.max(end, w.rows[lane, 1])
    return first, end


@wp.func(inline=True)
def used_nodes(g: Grid, w: Work, base: int, cores: int, row: int):
    """The nodes of a row that any core has touched; they are forgotten."""
    low = g.shape[2]
    high = int(0)
    for lane in range(base, base + cores):
        low = wp.min(low, w.low[lane, row])
        high = wp.max(high, w.high[lane, row])
        w.low[lane, row] = g.shape[2]
        w.high[lane, row] = 0
    return low, high


@wp.func(inline=True)
def settle(g: Grid, m: Law, w: Work, f: Forward, share: Share, t: int, world: int):
    """From momentum to velocity, in a core's share of the rows."""
    if SHAPES:
        nothing_given(f.shapes, w, share.lane)
    count = g.covered.shape[0]
    fall = g.h * m.gravity[world, 0]
    base = share.lane - share.core
    offset = base * count
    first, end = used_rows(g, w, base, share.cores)
    for row in range(first + share.core, end, share.cores):
        low, high = used_nodes(g, w, base, share.cores, row)
        for n in range(row * g.shape[2] + low, row * g.shape[2] + high):
            q = w.own[offset + n]
            w.own[offset + n] = vec4()
            for core in range(1, share.cores):
                q += w.own[offset + core * count + n]
                w.own[offset + core * count + n] = vec4()
            if SHAPES:
                q = give(g, m, f.shapes, w, q, fall, row, n, t, world, share.lane)
            w.nodes[offset + n] = settled(g, m, q, fall, n, world)


@wp.func(inline=True)
def pull(g: Grid, w: Work, f: Forward, share: Share, t: int, world: int, first: int, end: int):
    """Gathers to a core's share of the particles, in step t."""
    row = kept_row(f, t)
    for p in range(first, end):
        if not pull_particle(g, w, f, (share.lane - share.core) * g.covered.shape[0], row, t, world, p):
            fail(f, share, world, LEFT, t, p)
    if SHAPES:
        add_impulses(w, f, share, row, t, world)


@wp.kernel(enable_backward=False)
def roll(b: Body, g: Grid, m: Law, share: Share, w: Work, f: Forward, first: int, end: int):
    """From step ``first`` to ``end``."""
    if not meet(share.gate, share.cores, 1):
        return
    n = b.group.shape[0]
    first_particle = n * share.core / share.cores
    end_particle = n * (share.core + 1) / share.cores
    meeting = int(1)
    for world in range(share.first_world, share.end_world):
        for t in range(first, end):
            if is_running(f, share, world, t, INVERTED):
                push(b, g, m, w, f, share, t, world, first_particle, end_particle)
            else:
                w.rows[share.lane, 0] = g.shape[0] * g.shape[1]
                w.rows[share.lane, 1] = 0
            meet(share.gate, share.cores, meeting + 1)
            settle(g, m, w, f, share, t, world)
            meet(share.gate, share.cores, meeting + 2)
            meeting += 2
            if is_running(f, share, world, t, LEFT):
                pull(g, w, f, share, t, world, first_particle, end_particle)


@wp.func(inline=True)
def push_back(b: Body, g: Grid, m: Law, w: Work, r: Bars, share: Share, t: int, world: int, first: int, end: int):
    """Scatters momentum, mass and the cotangent of velocity."""
    affine = (share.lane - share.core) * b.group.shape[0]
    first_row, end_row = begin_rows(g)
    used = wp.vec4i(first_row, end_row, -1, -1)
    for p in range(first, end):
        X = push_particle_back(b, g, m, w, r, share.lane * g.covered.shape[0], affine, t, world, p)
        used = touch_rows(g, w, share.lane, X, used)
    w.rows[share.lane, 0] = used[0]
    w.rows[share.lane, 1] = used[1]


@wp.func(inline=True)
def settle_back(g: Grid, m: Law, w: Work, r: Bars, share: Share, t: int, world: int, place: int):
    """The adjoint of what happens on the grid, in a core's share of the rows."""
    count = g.covered.shape[0]
    fall = g.h * m.gravity[world, 0]
    fall_bar = vec3()
    base = share.lane - share.core
    offset = base * count
    first, end = used_rows(g, w, base, share.cores)
    for row in range(first + share.core, end, share.cores):
        low, high = used_nodes(g, w, base, share.cores, row)
        for n in range(row * g.shape[2] + low, row * g.shape[2] + high):
            q = w.own_bar[offset + n]
            w.own_bar[offset + n] = vec8()
            for core in range(1, share.cores):
                q += w.own_bar[offset + core * count + n]
                w.own_bar[offset + core * count + n] = vec8()
            before = q
            if SHAPES:
                q = without_given(g, m, r.shapes, q, fall, row, n, t, world)
            q, by_fall = settled_adjoint(g, m, r, q, fall, n, world, place)
            fall_bar += by_fall
            if SHAPES:
                q, by_fall = give_adjoint(g, m, r, before, q, fall, row, n, t, world, place)
                fall_bar += by_fall
            w.nodes_bar[offset + n] = q
    add_gravity_bar(g, r, fall_bar, place)


@wp.func(inline=True)
def pull_back(
    b: Body, g: Grid, m: Law, w: Work, r: Bars, share: Share, t: int, world: int, lane: int, first: int, end: int
):
    """Gathers cotangents of a core's share of the particles, and takes them through their materials."""
    offset = (share.lane - share.core) * g.covered.shape[0]
    affine = (share.lane - share.core) * b.group.shape[0]
    for p in range(first, end):
        active_bar = pull_particle_back(b, g, m, w, r, offset, affine, t, world, lane, p)
        muscle = b.muscle[b.group[p]]
        if muscle >= 0:
            r.controls_bar[t, lane, muscle] += wp.float64(m.strength[world, muscle] * active_bar)
            r.law.strength[lane, muscle] += wp.float64(r.controls[t, world, muscle] * active_bar)
    if SHAPES:
        add_impulse_bar(r, first, t, world)


@wp.kernel(enable_backward=False)
def roll_back(b: Body, g: Grid, m: Law, share: Share, w: Work, r: Bars, first: int, end: int):
    """``r.carry`` is the cotangent of the state at ``end``, and then of that at ``first``."""
    if not meet(share.gate, share.cores, 1):
        return
    n = b.group.shape[0]
    worlds = r.running.shape[0]
    first_particle = n * share.core / share.cores
    end_particle = n * (share.core + 1) / share.cores
    meeting = int(1)
    for world in range(share.first_world, share.end_world):
        lane = share.lane * worlds + world
        for back in range(end - first):
            t = end - 1 - back
            if r.running[world] == 1:
                push_back(b, g, m, w, r, share, t, world, first_particle, end_particle)
                meet(share.gate, share.cores, meeting + 1)
                settle_back(g, m, w, r, share, t, world, lane)
                meet(share.gate, share.cores, meeting + 2)
                meeting += 2
                pull_back(b, g, m, w, r, share, t, world, lane, first_particle, end_particle)
