"""Vertices and shapes: the distance, a barrier that keeps it above zero, and friction that lags a step behind.

With y = d/gap the barrier is k gap² times -(y - 1)² log y where y < 1 (Li et al. 2020, IPC), with two continuous
derivatives. Friction is a dissipation, f N |u| by the tangential motion u in the step, rounded where |u| is below slip
times h; its normal force N and its normal are those before the step, so that Newton's equations stay symmetric.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from ..spatial.shape_kinds import BOX, CAPSULE, PLANE
from .kinds import STIFFNESS
from .solids import ONE
from .structs import Law, LawBar, Scene, Step, Work

TINY = wp.constant(real(1e-30))


@wp.func(inline=True)
def nearest(c: Scene, shape: int, x: vec3):
    """Vector from the nearest point of a shape's core (plane: centre) to x, and a projection along which it is zero.

    In the shape's axes. A capsule's core is its segment, a sphere's its centre, a box is its own.
    """
    p = wp.transpose(c.rotation[shape]) * (x - c.position[shape])
    free = vec3(ONE, ONE, ONE)
    kind = c.kind[shape]
    size = c.size[shape]
    if kind == CAPSULE:
        if wp.abs(p[2]) < size[1]:
            free = vec3(ONE, ONE, real(0.0))
        p = vec3(p[0], p[1], p[2] - wp.clamp(p[2], -size[1], size[1]))
    elif kind == BOX:
        for k in range(3):
            if wp.abs(p[k]) < size[k]:
                free[k] = real(0.0)
            p[k] = p[k] - wp.clamp(p[k], -size[k], size[k])
    return p, free


@wp.func(inline=True)
def distance(c: Scene, shape: int, x: vec3):
    """From the surface [m]; zero or less inside."""
    p, _free = nearest(c, shape, x)
    d = p[2]
    if c.kind[shape] != PLANE:
        d = wp.length(p)
        if c.kind[shape] != BOX:
            d -= c.size[shape][0]
    return d


@wp.func(inline=True)
def distance_slopes(c: Scene, shape: int, x: vec3):
    """The normal, which is the gradient of the distance, and the Hessian [1/m], outside of the shape."""
    p, free = nearest(c, shape, x)
    R = c.rotation[shape]
    n = vec3(real(0.0), real(0.0), ONE)
    bend = mat33()
    if c.kind[shape] != PLANE:
        length = wp.length(p)
        n = p / length
        bend = (wp.diag(free) - wp.outer(n, n)) / length
    return R * n, R * bend * wp.transpose(R)


@wp.func(inline=True)
def barrier(c: Scene, k: real, d: real):
    """[J]"""
    b = real(0.0)
    if d < c.gap:
        y = d / c.gap
        b = -k * c.gap * c.gap * (y - ONE) * (y - ONE) * wp.log(y)
    return b


@wp.func(inline=True)
def barrier_first(c: Scene, k: real, d: real):
    """Minus the normal force [N]."""
    b = real(0.0)
    if d < c.gap:
        y = d / c.gap
        b = -k * c.gap * (y - ONE) * (real(2.0) * wp.log(y) + (y - ONE) / y)
    return b


@wp.func(inline=True)
def barrier_second(c: Scene, k: real, d: real):
    """[N/m]"""
    b = real(0.0)
    if d < c.gap:
        y = d / c.gap
        r = (y - ONE) / y
        b = -k * (real(2.0) * wp.log(y) + real(4.0) * r - r * r)
    return b


@wp.func(inline=True)
def round_speed(e: real, u: real):
    """|u|, rounded below e [m]."""
    r = u
    if u < e:
        y = u / e
        r = e * (y * y * (ONE - y / real(3.0)) + ONE / real(3.0))
    return r


@wp.func(inline=True)
def rub(e: real, u: real):
    """s, the slope of the rounded |u| over |u|, and s'/|u|."""
    s = real(0.0)
    bend = real(0.0)
    if u < e:
        s = (real(2.0) - u / e) / e
        bend = -ONE / (e * e * wp.max(u, TINY))
    else:
        s = ONE / u
        bend = -ONE / (u * u * u)
    return s, bend


@wp.func(inline=True)
def contact_energy(c: Scene, m: Law, w: Work, s: Step, x: vec3, i: int, world: int):
    k = m.around[world, 0][STIFFNESS]
    W = real(0.0)
    for shape in range(c.kind.shape[0]):
        W += barrier(c, k, distance(c, shape, x))
        before = w.before[world, i]
        normal = -barrier_first(c, k, distance(c, shape, before))
        if normal > real(0.0):
            n, _turn = distance_slopes(c, shape, before)
            u = x - before
            u -= wp.dot(u, n) * n
            W += m.friction[world, shape] * normal * round_speed(c.slip * s.dt, wp.length(u))
    return W


@wp.func(inline=True)
def contact_slopes(c: Scene, m: Law, w: Work, s: Step, i: int, world: int):
    """Gradient and Hessian at w.after."""
    k = m.around[world, 0][STIFFNESS]
    gradient = vec3()
    hessian = mat33()
    for shape in range(c.kind.shape[0]):
        x = w.after[world, i]
        d = distance(c, shape, x)
        if d < c.gap:
            n, turn = distance_slopes(c, shape, x)
            first = barrier_first(c, k, d)
            gradient += first * n
            hessian += barrier_second(c, k, d) * wp.outer(n, n) + first * turn
        before = w.before[world, i]
        normal = -barrier_first(c, k, distance(c, shape, before))
        if normal > real(0.0):
            n, _turn = distance_slopes(c, shape, before)
            u = x - before
            u -= wp.dot(u, n) * n
            slope, bend = rub(c.slip * s.dt, wp.length(u))
            f = m.friction[world, shape] * normal
            gradient += f * slope * u
            hessian += f * (slope * (wp.identity(n=3, dtype=real) - wp.outer(n, n)) + bend * wp.outer(u, u))
    return gradient, hessian


@wp.func(inline=True)
def contact_adjoint(c: Scene, m: Law, w: Work, s: Step, bar: LawBar, i: int, world: int):
    """Subtracts the derivatives of lam·gradient, with lam in w.move: by x from w.direction, and by the parameters."""
    k = m.around[world, 0][STIFFNESS]
    lam = w.move[world, i]
    x_bar = vec3()
    k_bar = real(0.0)
    for shape in range(c.kind.shape[0]):
        x = w.after[world, i]
        d = distance(c, shape, x)
        if d < c.gap:
            n, _turn = distance_slopes(c, shape, x)
            k_bar -= barrier_first(c, ONE, d) * wp.dot(lam, n)
        before = w.before[world, i]
        d = distance(c, shape, before)
        normal = -barrier_first(c, k, d)
        if normal > real(0.0):
            n, turn = distance_slopes(c, shape, before)
            move = x - before
            across = wp.dot(move, n)
            u = move - across * n
            slope, bend = rub(c.slip * s.dt, wp.length(u))
            lu = wp.dot(lam, u)
            f = m.friction[world, shape]
            bar.friction[world, shape] -= wp.float64(normal * slope * lu)
            k_bar -= f * slope * lu * -barrier_first(c, ONE, d)
            # lam·gradient = f N s(|u|) lam·u, with u = (1 - n n^T) (x' - x)
            u_bar = f * normal * (slope * lam + bend * lu * u)
            un = wp.dot(u_bar, n)
            x_bar += f * barrier_second(c, k, d) * slope * lu * n
            x_bar += u_bar - un * n + turn * (across * u_bar + un * move)
    w.direction[world, i] += x_bar
    around = bar.around[world, 0]
    around[STIFFNESS] += wp.float64(k_bar)
    bar.around[world, 0] = around


@wp.func(inline=True)
def longest_move(c: Scene, x: vec3, move: vec3):
    """How much of a move, at most all of it, a vertex can make without coming nearer than a tenth of each distance.

    A distance changes by no more than the way that is made, and along it there is no shape.
    """
    share = ONE
    length = wp.length(move)
    for shape in range(c.kind.shape[0]):
        least = real(0.1) * distance(c, shape, x)
        t = real(0.0)
        d = distance(c, shape, x)
        tries = int(0)
        while t < share and d > real(1.01) * least and tries < 100:
            tries += 1
            t += (d - least) / length
            d = distance(c, shape, x + wp.min(t, share) * move)
        share = wp.min(share, t)
    return share
