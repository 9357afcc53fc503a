"""What a particle, and a node of the grid, does in a step of MLS-MPM, and the adjoints.

A step is three phases, each of which needs all of the one before:

    scatter   Ft = (I + h C) F;  F' = what the material leaves of it;  A = m C - h V 4/dx² tau(F')
              m_i += w m;   p_i += w (m v + A D)
    grid      vh_i = p_i/m_i + h g;   u_i = what walls leave of it
    gather    v' = sum w u_i;   C' = 4/dx² sum w u_i D^T;   x' = x + h v'

with D from the particle to node i and w the product of quadratic B-splines. Backwards, with k = 4/dx², everything but
the states is computed again:

    scatter   the same, and u_bar_i += w (v'_bar + h x'_bar + k C'_bar D)
    grid      vh_bar = walls' adjoint of u_bar;   p_bar = vh_bar/m_i;   m_bar = -(vh - h g)·p_bar
    gather    s_i = u·(v'_bar + h x'_bar + k C'_bar D) + p_bar·(m v + A D) + m m_bar
              x_bar = x'_bar + d/dx sum w s;   v_bar = m sum w p_bar;   A_bar = sum w p_bar D^T
              F'_bar += (dtau/dF')^T [-h V k A_bar], and through F' and Ft to F_bar and C_bar += m A_bar
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4
from .flavour import DIM, vec
from .kinds import DENSITY, PLACES
from .materials import respond, respond_adjoint, trial, trial_adjoint
from .structs import Bars, Body, Forward, Grid, Law, Numbers, Work, vec8, vecm, widem
from .walls import walled, walled_adjoint

if DIM == 2:
    from .plane import gather, gather_both, is_inside, place, scatter, scatter_both
else:
    from .space import gather, gather_both, is_inside, place, scatter, scatter_both


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
def push_particle(b: Body, g: Grid, m: Law, w: Work, f: Forward, offset: int, t: int, world: int, p: int):
    """Scatters a particle to the grid that begins at ``offset``. Returns its place, and whether it is sound: if not, it
    was turned inside out."""
    src = t % f.ring
    dst = (t + 1) % f.ring
    group = b.group[p]
    law = m.groups[world, group]
    kind = b.kind[group]
    active, direction = muscle_of(b, m, f.controls, group, t, world)
    C = f.now.C[src, world, p]
    Ft = trial(kind, f.now.F[src, world, p], C, g.h)
    sound = wp.determinant(Ft) > real(0.0)
    if not sound:
        Ft = wp.identity(n=DIM, dtype=real)
    F, Jp, tau = respond(law, kind, Ft, f.now.Jp[src, world, p], C, active, direction)
    f.now.F[dst, world, p] = F
    f.now.Jp[dst, world, p] = Jp
    volume = b.volume[p]
    mass = volume * law[DENSITY]
    A = g.dx * (mass * C - g.h * volume * g.affine * tau)
    X = place(g, f.now.x[src, world, p])
    scatter(g, w, offset, X, mass * f.now.v[src, world, p], A, mass)
    return X, sound


@wp.func(inline=True)
def settled(g: Grid, m: Law, q: vec4, fall: vec3, n: int, world: int):
    """Momentum and mass of node n as velocity and mass. ``fall`` is what gravity adds to a velocity."""
    if q[3] > real(0.0):
        v = vec3(q[0], q[1], q[2]) / q[3] + fall
        if g.covered[n] != 0:
            v = walled(g, m, g.covered[n], v, world)
        q = vec4(v[0], v[1], v[2], q[3])
    return q


@wp.func(inline=True)
def kept_row(f: Forward, t: int):
    """The row of ``f.kept`` that the state after step t goes to, 0 for none."""
    return wp.where((t + 1) % f.keep_every == 0 or t + 1 == f.steps, t / f.keep_every + 1, 0)


@wp.func(inline=True)
def pull_particle(g: Grid, w: Work, f: Forward, offset: int, row: int, t: int, world: int, p: int):
    """Gathers to a particle from the grid that begins at ``offset``. Returns whether it is still inside."""
    src = t % f.ring
    dst = (t + 1) % f.ring
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
    return is_inside(g, place(g, x))


@wp.func(inline=True)
def push_particle_back(
    b: Body, g: Grid, m: Law, w: Work, r: Bars, offset: int, affine: int, t: int, world: int, p: int
):
    """Scatters momentum, mass and the cotangent of velocity, and keeps A from ``affine`` on. Returns the place."""
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
    v_bar = r.carry.v[0, world, p] + g.h * r.carry.x[0, world, p]
    C_bar = (g.affine * g.dx) * r.carry.C[0, world, p]
    scatter_both(g, w, offset, X, mass * r.rows.v[t, world, p], A, mass, v_bar, C_bar)
    return X


@wp.func(inline=True)
def settled_adjoint(g: Grid, m: Law, r: Bars, q: vec8, fall: vec3, n: int, world: int, lane: int):
    """From momentum, mass and the cotangent of velocity of node n to velocity and the cotangents of momentum and mass;
    and the cotangent of ``fall``."""
    fall_bar = vec3()
    if q[3] > real(0.0):
        flow = vec3(q[0], q[1], q[2]) / q[3]
        v = flow + fall
        v_bar = vec3(q[4], q[5], q[6])
        if g.covered[n] != 0:
            v_bar = walled_adjoint(g, m, r.law, r.wants_params, g.covered[n], v, v_bar, world, lane)
            v = walled(g, m, g.covered[n], v, world)
        fall_bar = v_bar
        p_bar = v_bar / q[3]
        q = vec8(v[0], v[1], v[2], real(0.0), p_bar[0], p_bar[1], p_bar[2], -wp.dot(flow, p_bar))
    return q, fall_bar


@wp.func(inline=True)
def add_gravity_bar(g: Grid, r: Bars, fall_bar: vec3, lane: int):
    if r.wants_params == 1:
        h = wp.float64(g.h)
        sums = wp.vec3d(wp.float64(fall_bar[0]), wp.float64(fall_bar[1]), wp.float64(fall_bar[2]))
        r.law.gravity[lane, 0] = r.law.gravity[lane, 0] + h * sums


@wp.func(inline=True)
def widened(m: vecm):
    wide = widem()
    for i in range(PLACES):
        wide[i] = wp.float64(m[i])
    return wide


@wp.func(inline=True)
def pull_particle_back(
    b: Body, g: Grid, m: Law, w: Work, r: Bars, offset: int, affine: int, t: int, world: int, lane: int, p: int
):
    """Gathers cotangents of a particle, and takes them through its material. Cotangents of parameters are added to
    those of ``lane``. Returns that of the stress of its muscle."""
    group = b.group[p]
    law = m.groups[world, group]
    kind = b.kind[group]
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
        r.law.groups[lane, group] = r.law.groups[lane, group] + widened(law_bar)
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
    return active_bar
