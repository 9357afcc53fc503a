"""Many steps of MLS-MPM in one launch on the CPU: each core takes some of the worlds, or a share of every world.

A step is three phases, between which the cores of a world meet:

    scatter   Ft = (I + h C) F;  F' = what the material leaves of it;  A = m C - h V 4/dx² tau(F')
              m_i += w m;   p_i += w (m v + A D)
    grid      vh_i = p_i/m_i + h g;   u_i = what shapes that move, and then walls, leave of it
    gather    v' = sum w u_i;   C' = 4/dx² sum w u_i D^T;   x' = x + h v'

with D from the particle to node i and w the product of quadratic B-splines. Every core has a grid of its own to scatter
to, and their sum is taken in a fixed order: nothing is atomic, and results do not depend on timing. Backwards, with
k = 4/dx², everything but the states is computed again:

    scatter   the same, and u_bar_i += w (v'_bar + h x'_bar + k C'_bar D)
    grid      vh_bar = their adjoint of u_bar;   p_bar = vh_bar/m_i;   m_bar = -(vh - h g)·p_bar
    gather    s_i = u·(v'_bar + h x'_bar + k C'_bar D) + p_bar·(m v + A D) + m m_bar
              x_bar = x'_bar + d/dx sum w s;   v_bar = m sum w p_bar;   A_bar = sum w p_bar D^T
              F'_bar += (dtau/dF')^T [-h V k A_bar], and through F' and Ft to F_bar and C_bar += m A_bar
"""

import warp as wp

from ..cores import Share, meet
from ..spatial.scalar import real, vec3, vec4
from .flavour import DIM, SHAPES, vec
from .kinds import DENSITY, INVERTED, LEFT, PLACES
from .materials import respond, respond_adjoint, trial, trial_adjoint
from .structs import Bars, Body, Forward, Grid, Law, Numbers, Work, vec8, vecm, widem
from .walls import walled, walled_adjoint

if DIM == 2:
    from .plane import around, gather, gather_both, is_inside, place, scatter, scatter_both, touch
else:
    from .space import around, gather, gather_both, is_inside, place, scatter, scatter_both, touch
if SHAPES:
    from .shapes import all_shaped, all_shaped_adjoint, give_to_all, given_by_all, node_at, nothing_given


@wp.func(inline=True)
def muscle_of(b: Body, m: Law, controls: Numbers, group: int, t: int, world: int):
    """The stress of a group's muscle [Pa], and its direction at rest."""
    muscle = b.muscle[group]
    active = real(0.0)
    direction = vec()
    if muscle >= 0:
        active = m.strength[world, muscle] * controls[t, world, muscle]
        direction = b.direction[muscle]
    return active, direction


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
def push(b: Body, g: Grid, m: Law, w: Work, f: Forward, share: Share, t: int, world: int, first: int, end: int):
    """Scatters a core's share of the particles, in step t."""
    src = t % f.ring
    dst = (t + 1) % f.ring
    offset = share.lane * g.covered.shape[0]
    first_row, end_row = begin_rows(g)
    last_row = int(-1)
    last_low = int(-1)
    for p in range(first, end):
        group = b.group[p]
        law = m.groups[world, group]
        kind = b.kind[group]
        active, direction = muscle_of(b, m, f.controls, group, t, world)
        C = f.now.C[src, world, p]
        Ft = trial(kind, f.now.F[src, world, p], C, g.h)
        if not wp.determinant(Ft) > real(0.0):
            fail(f, share, world, INVERTED, t, p)
            Ft = wp.identity(n=DIM, dtype=real)
        F, Jp, tau = respond(law, kind, Ft, f.now.Jp[src, world, p], C, active, direction)
        f.now.F[dst, world, p] = F
        f.now.Jp[dst, world, p] = Jp
        volume = b.volume[p]
        mass = volume * law[DENSITY]
        A = g.dx * (mass * C - g.h * volume * g.affine * tau)
        X = place(g, f.now.x[src, world, p])
        row, low, rest = around(g, X)
        if row != last_row or low != last_low:
            first_row = wp.min(first_row, row)
            end_row = wp.max(end_row, touch(g, w, share.lane, row, low))
            last_row = row
            last_low = low
        scatter(g, w, offset, X, mass * f.now.v[src, world, p], A, mass)
    w.rows[share.lane, 0] = first_row
    w.rows[share.lane, 1] = end_row


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
            if q[3] > real(0.0):
                v = vec3(q[0], q[1], q[2]) / q[3] + fall
                if SHAPES:
                    v = give_to_all(g, m, f.shapes, w, node_at(g, row, n), v, q[3], t, world, share.lane)
                if g.covered[n] != 0:
                    v = walled(g, m, g.covered[n], v, world)
                q = vec4(v[0], v[1], v[2], q[3])
            w.nodes[offset + n] = q


@wp.func(inline=True)
def pull(g: Grid, w: Work, f: Forward, share: Share, t: int, world: int, first: int, end: int):
    """Gathers to a core's share of the particles, in step t."""
    src = t % f.ring
    dst = (t + 1) % f.ring
    offset = (share.lane - share.core) * g.covered.shape[0]
    row = wp.where((t + 1) % f.keep_every == 0 or t + 1 == f.steps, t / f.keep_every + 1, 0)
    for p in range(first, end):
        x = f.now.x[src, world, p]
        v, vD = gather(g, w, offset, place(g, x))
        C = (g.affine * g.dx) * vD
        x += g.h * v
        f.now.x[dst, world, p] = x
        f.now.v[dst, world, p] = v
        f.now.C[dst, world, p] = C
        if row > 0 and f.ring == 2:
            f.kept.x[row, world, p] = x
            f.kept.v[row, world, p] = v
            f.kept.C[row, world, p] = C
            f.kept.F[row, world, p] = f.now.F[dst, world, p]
            f.kept.Jp[row, world, p] = f.now.Jp[dst, world, p]
        if not is_inside(g, place(g, x)):
            fail(f, share, world, LEFT, t, p)
    if SHAPES:
        for k in range(share.core, f.shapes.kind.shape[0], share.cores):
            impulse = f.now.impulse[src, world, k] + given_by_all(w, share.lane - share.core, share.cores, k)
            f.now.impulse[dst, world, k] = impulse
            if row > 0 and f.ring == 2:
                f.kept.impulse[row, world, k] = impulse


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
    offset = share.lane * g.covered.shape[0]
    first_row, end_row = begin_rows(g)
    last_row = int(-1)
    last_low = int(-1)
    for p in range(first, end):
        group = b.group[p]
        law = m.groups[world, group]
        kind = b.kind[group]
        active, direction = muscle_of(b, m, r.controls, group, t, world)
        C = r.rows.C[t, world, p]
        Ft = trial(kind, r.rows.F[t, world, p], C, g.h)
        F, Jp, tau = respond(law, kind, Ft, r.rows.Jp[t, world, p], C, active, direction)
        volume = b.volume[p]
        mass = volume * law[DENSITY]
        A = g.dx * (mass * C - g.h * volume * g.affine * tau)
        w.affine[affine + p] = A
        X = place(g, r.rows.x[t, world, p])
        row, low, rest = around(g, X)
        if row != last_row or low != last_low:
            first_row = wp.min(first_row, row)
            end_row = wp.max(end_row, touch(g, w, share.lane, row, low))
            last_row = row
            last_low = low
        v_bar = r.carry.v[0, world, p] + g.h * r.carry.x[0, world, p]
        C_bar = (g.affine * g.dx) * r.carry.C[0, world, p]
        scatter_both(g, w, offset, X, mass * r.rows.v[t, world, p], A, mass, v_bar, C_bar)
    w.rows[share.lane, 0] = first_row
    w.rows[share.lane, 1] = end_row


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
            if q[3] > real(0.0):
                flow = vec3(q[0], q[1], q[2]) / q[3]
                before = flow + fall
                v = before
                v_bar = vec3(q[4], q[5], q[6])
                m_bar = real(0.0)
                if SHAPES:
                    v = all_shaped(g, m, r.shapes, node_at(g, row, n), v, t, world)
                if g.covered[n] != 0:
                    v_bar = walled_adjoint(g, m, r.law, r.wants_params, g.covered[n], v, v_bar, world, place)
                    v = walled(g, m, g.covered[n], v, world)
                if SHAPES:
                    x = node_at(g, row, n)
                    v_bar, m_bar = all_shaped_adjoint(g, m, r.shapes, r, x, before, v_bar, q[3], t, world, place)
                fall_bar += v_bar
                p_bar = v_bar / q[3]
                m_bar -= wp.dot(flow, p_bar)
                q = vec8(v[0], v[1], v[2], real(0.0), p_bar[0], p_bar[1], p_bar[2], m_bar)
            w.nodes_bar[offset + n] = q
    if r.wants_params == 1:
        h = wp.float64(g.h)
        r.law.gravity[place, 0] += h * wp.vec3d(
            wp.float64(fall_bar[0]), wp.float64(fall_bar[1]), wp.float64(fall_bar[2])
        )


@wp.func(inline=True)
def widened(m: vecm):
    wide = widem()
    for i in range(PLACES):
        wide[i] = wp.float64(m[i])
    return wide


@wp.func(inline=True)
def pull_back(
    b: Body, g: Grid, m: Law, w: Work, r: Bars, share: Share, t: int, world: int, lane: int, first: int, end: int
):
    """Gathers cotangents of a core's share of the particles, and takes them through their materials."""
    offset = (share.lane - share.core) * g.covered.shape[0]
    affine = (share.lane - share.core) * b.group.shape[0]
    for p in range(first, end):
        group = b.group[p]
        law = m.groups[world, group]
        kind = b.kind[group]
        muscle = b.muscle[group]
        active, direction = muscle_of(b, m, r.controls, group, t, world)
        volume = b.volume[p]
        mass = volume * law[DENSITY]
        v = r.rows.v[t, world, p]
        C = r.rows.C[t, world, p]
        F = r.rows.F[t, world, p]
        x_bar = r.carry.x[0, world, p]
        v_bar = r.carry.v[0, world, p] + g.h * x_bar
        C_bar = (g.affine * g.dx) * r.carry.C[0, world, p]
        X = place(g, r.rows.x[t, world, p])
        p_bar, m_bar, pD, X_bar = gather_both(g, w, offset, X, mass * v, w.affine[affine + p], mass, v_bar, C_bar)
        x_bar += g.inverse * X_bar
        A_bar = g.dx * pD
        stress_bar = (-g.h * volume * g.affine) * A_bar
        Jp = r.rows.Jp[t, world, p]
        Ft = trial(kind, F, C, g.h)
        Ft_bar, Jp_bar, C_own_bar, active_bar, law_bar = respond_adjoint(
            law, kind, Ft, Jp, C, active, direction, r.rows.F[t + 1, world, p], r.carry.F[0, world, p],
            r.carry.Jp[0, world, p], stress_bar, r.wants_params
        )  # fmt: skip
        F_bar, C_trial_bar = trial_adjoint(kind, F, C, g.h, Ft_bar)
        C_own_bar += C_trial_bar + mass * A_bar
        v_own_bar = mass * p_bar
        if r.wants_params == 1:
            law_bar[DENSITY] = volume * (wp.dot(p_bar, v) + m_bar + wp.ddot(A_bar, C))
            r.law.groups[lane, group] += widened(law_bar)
        if muscle >= 0:
            r.controls_bar[t, lane, muscle] += wp.float64(m.strength[world, muscle] * active_bar)
            r.law.strength[lane, muscle] += wp.float64(r.controls[t, world, muscle] * active_bar)
        if r.every_row == 1:
            x_bar += r.rows_bar.x[t, world, p]
            v_own_bar += r.rows_bar.v[t, world, p]
            C_own_bar += r.rows_bar.C[t, world, p]
            F_bar += r.rows_bar.F[t, world, p]
            Jp_bar += r.rows_bar.Jp[t, world, p]
        r.carry.x[0, world, p] = x_bar
        r.carry.v[0, world, p] = v_own_bar
        r.carry.C[0, world, p] = C_own_bar
        r.carry.F[0, world, p] = F_bar
        r.carry.Jp[0, world, p] = Jp_bar
    if SHAPES:
        last = wp.where(r.every_row == 1 and first == 0, r.shapes.kind.shape[0], 0)  # the first core's alone
        for k in range(last):
            r.carry.impulse[0, world, k] = r.carry.impulse[0, world, k] + r.rows_bar.impulse[t, world, k]


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
