"""Vertices and shapes: the distance, a barrier that keeps it above zero, and friction that lags a step behind.

With y = d/gap the barrier is k gap² times -(y - 1)² log y where y < 1 (Li et al. 2020, IPC), with two continuous
derivatives. Friction is a dissipation, f N |u| by the tangential motion u in the step, rounded where |u| is below slip
times h; its normal force N and its normal are those before the step, so that Newton's equations stay symmetric.

Shapes may move from where they are before the step, p and R, to where they are after it, p' and R'. All is done in
their axes, from where a turn or a shift of shape and vertices together changes nothing:

    a = R^T (x - p)        a' = R'^T (x' - p')        barrier(distance(a'))        u = (1 - n n^T) (a' - a), n at a

A shape gets what the vertices do: the impulse J = h G of the gradient G of these energies by x', at x'.
"""

import warp as wp

from ..spatial.algebra import ang, lin
from ..spatial.scalar import mat33, real, vec3, vec6
from ..spatial.shape_kinds import BOX, CAPSULE, PLANE
from .kinds import AFTER, BEFORE, STIFFNESS
from .solids import ONE
from .structs import Law, LawBar, Path, Scene, Step, Work, wide12

TINY = wp.constant(real(1e-20 if real is wp.float32 else 1e-30))
# A first guess is this much of the gap off a shape, or of the distance before the step if that is less, and has come no
# nearer on its way than half of it. [1]
KEPT_OFF = wp.constant(real(0.5))
MOST_SWEEPS = wp.constant(100)  # through all shapes, to find a place between them


@wp.func(inline=True)
def place_shapes(c: Scene, path: Path, t: int, world: int):
    """Where the shapes are in step t."""
    row = t * path.moves
    for shape in range(c.kind.shape[0]):
        c.position[BEFORE, world, shape] = path.position[row, world, shape]
        c.rotation[BEFORE, world, shape] = path.rotation[row, world, shape]
        c.position[AFTER, world, shape] = path.end_position[row, world, shape]
        c.rotation[AFTER, world, shape] = path.end_rotation[row, world, shape]


@wp.func(inline=True)
def seen(c: Scene, when: int, shape: int, x: vec3, world: int):
    """A point in the axes of a shape."""
    return wp.transpose(c.rotation[when, world, shape]) * (x - c.position[when, world, shape])


@wp.func(inline=True)
def nearest(c: Scene, shape: int, a: vec3):
    """Vector from the nearest point of a shape's core (plane: centre) to a, and a projection along which it is zero.

    In the shape's axes, as all that follows. A capsule's core is its segment, a sphere's its centre, a box is its own.
    """
    p = a
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
def distance(c: Scene, shape: int, a: vec3):
    """From the surface [m]; zero or less inside."""
    p, _free = nearest(c, shape, a)
    d = p[2]
    if c.kind[shape] != PLANE:
        d = wp.length(p)
        if c.kind[shape] != BOX:
            d -= c.size[shape][0]
    return d


@wp.func(inline=True)
def distance_slopes(c: Scene, shape: int, a: vec3):
    """The normal, which is the gradient of the distance, and the Hessian [1/m], outside of the shape."""
    p, free = nearest(c, shape, a)
    n = vec3(real(0.0), real(0.0), ONE)
    bend = mat33()
    if c.kind[shape] != PLANE:
        length = wp.length(p)
        n = p / length
        bend = (wp.diag(free) - wp.outer(n, n)) / length
    return n, bend


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
        a = seen(c, AFTER, shape, x, world)
        W += barrier(c, k, distance(c, shape, a))
        before = seen(c, BEFORE, shape, w.before[world, i], world)
        normal = -barrier_first(c, k, distance(c, shape, before))
        if normal > real(0.0):
            n, _turn = distance_slopes(c, shape, before)
            u = a - before
            u -= wp.dot(u, n) * n
            W += m.friction[world, shape] * normal * round_speed(c.slip * s.dt, wp.length(u))
    return W


@wp.func(inline=True)
def touch(c: Scene, m: Law, w: Work, s: Step, shape: int, i: int, world: int):
    """Gradient and Hessian at w.after of what there is between a vertex and a shape."""
    k = m.around[world, 0][STIFFNESS]
    gradient = vec3()
    hessian = mat33()
    a = seen(c, AFTER, shape, w.after[world, i], world)
    d = distance(c, shape, a)
    if d < c.gap:
        n, turn = distance_slopes(c, shape, a)
        first = barrier_first(c, k, d)
        gradient += first * n
        hessian += barrier_second(c, k, d) * wp.outer(n, n) + first * turn
    before = seen(c, BEFORE, shape, w.before[world, i], world)
    normal = -barrier_first(c, k, distance(c, shape, before))
    if normal > real(0.0):
        n, _turn = distance_slopes(c, shape, before)
        u = a - before
        u -= wp.dot(u, n) * n
        slope, bend = rub(c.slip * s.dt, wp.length(u))
        f = m.friction[world, shape] * normal
        gradient += f * slope * u
        hessian += f * (slope * (wp.identity(n=3, dtype=real) - wp.outer(n, n)) + bend * wp.outer(u, u))
    R = c.rotation[AFTER, world, shape]
    return R * gradient, R * hessian * wp.transpose(R)


@wp.func(inline=True)
def contact_slopes(c: Scene, m: Law, w: Work, s: Step, i: int, world: int):
    """Gradient and Hessian at w.after."""
    gradient = vec3()
    hessian = mat33()
    for shape in range(c.kind.shape[0]):
        slope, bend = touch(c, m, w, s, shape, i, world)
        gradient += slope
        hessian += bend
    return gradient, hessian


@wp.func(inline=True)
def give_impulse(c: Scene, m: Law, w: Work, s: Step, i: int, world: int):
    """What the vertex gave to each shape in this step goes to w.impulse: about the world's origin, and linear."""
    for shape in range(c.kind.shape[0]):
        slope, _bend = touch(c, m, w, s, shape, i, world)
        spin = wp.cross(w.after[world, i], slope)
        given = s.dt * vec6(spin[0], spin[1], spin[2], slope[0], slope[1], slope[2])
        w.impulse[world, shape] = w.impulse[world, shape] + given


@wp.func(inline=True)
def share_of_impulse(s: Step, x: vec3, impulse_bar: vec6):
    """What the gradient of a vertex at x has for cotangent, by the impulse."""
    return s.dt * (lin(impulse_bar) + wp.cross(ang(impulse_bar), x))


@wp.func(inline=True)
def impulse_adjoint(c: Scene, m: Law, w: Work, s: Step, i: int, world: int):
    """The cotangent of x' by those of the impulses, in w.impulse."""
    x_bar = vec3()
    for shape in range(c.kind.shape[0]):
        impulse_bar = w.impulse[world, shape]
        if wp.dot(impulse_bar, impulse_bar) > real(0.0):
            slope, bend = touch(c, m, w, s, shape, i, world)
            x_bar += bend * share_of_impulse(s, w.after[world, i], impulse_bar)
            x_bar += s.dt * wp.cross(slope, ang(impulse_bar))
    return x_bar


@wp.func
def contact_adjoint(c: Scene, m: Law, w: Work, s: Step, bar: LawBar, i: int, world: int):
    """Subtracts the derivatives of lam·gradient, with lam in w.move, less what the impulses add to them: by x from
    w.direction, by the parameters, and by where shapes are from w.motion_bar."""
    k = m.around[world, 0][STIFFNESS]
    k_bar = real(0.0)
    for shape in range(c.kind.shape[0]):
        world_lam = w.move[world, i] - share_of_impulse(s, w.after[world, i], w.impulse[world, shape])
        R = c.rotation[AFTER, world, shape]
        lam = wp.transpose(R) * world_lam
        gradient = vec3()
        a_bar = vec3()
        before_bar = vec3()
        a = seen(c, AFTER, shape, w.after[world, i], world)
        d = distance(c, shape, a)
        if d < c.gap:
            n, turn = distance_slopes(c, shape, a)
            first = barrier_first(c, k, d)
            along = wp.dot(lam, n)
            gradient += first * n
            a_bar -= barrier_second(c, k, d) * along * n + first * (turn * lam)
            k_bar -= barrier_first(c, ONE, d) * along
        before = seen(c, BEFORE, shape, w.before[world, i], world)
        d = distance(c, shape, before)
        normal = -barrier_first(c, k, d)
        if normal > real(0.0):
            n, turn = distance_slopes(c, shape, before)
            move = a - before
            across = wp.dot(move, n)
            u = move - across * n
            slope, bend = rub(c.slip * s.dt, wp.length(u))
            lu = wp.dot(lam, u)
            f = m.friction[world, shape]
            bar.friction[world, shape] -= wp.float64(normal * slope * lu)
            k_bar -= f * slope * lu * -barrier_first(c, ONE, d)
            # lam·gradient = f N s(|u|) lam·u, with u = (1 - n n^T) (a' - a)
            u_bar = f * normal * (slope * lam + bend * lu * u)
            un = wp.dot(u_bar, n)
            gradient += f * normal * slope * u
            a_bar -= u_bar - un * n
            before_bar += f * barrier_second(c, k, d) * slope * lu * n
            before_bar += u_bar - un * n + turn * (across * u_bar + un * move)
        if wp.dot(gradient, gradient) > real(0.0) or normal > real(0.0):
            before_bar = c.rotation[BEFORE, world, shape] * before_bar
            a_bar = R * a_bar
            w.direction[world, i] = w.direction[world, i] + before_bar
            arm = w.before[world, i] - c.position[BEFORE, world, shape]
            end_arm = w.after[world, i] - c.position[AFTER, world, shape]
            turn_bar = -wp.cross(arm, before_bar)
            end_turn_bar = -wp.cross(end_arm, a_bar) - wp.cross(R * gradient, world_lam)
            w.motion_bar[world, shape] += wide12(
                wp.float64(turn_bar[0]), wp.float64(turn_bar[1]), wp.float64(turn_bar[2]),
                -wp.float64(before_bar[0]), -wp.float64(before_bar[1]), -wp.float64(before_bar[2]),
                wp.float64(end_turn_bar[0]), wp.float64(end_turn_bar[1]), wp.float64(end_turn_bar[2]),
                -wp.float64(a_bar[0]), -wp.float64(a_bar[1]), -wp.float64(a_bar[2]),
            )  # fmt: skip
    around = bar.around[world, 0]
    around[STIFFNESS] += wp.float64(k_bar)
    bar.around[world, 0] = around


@wp.func(inline=True)
def share_of_move(c: Scene, shape: int, a: vec3, move: vec3, least: real):
    """How much of a move, at most all of it, a point can make without coming nearer to a shape than ``least``.

    A distance changes by no more than the way that is made, and along it there is no shape.
    """
    length = wp.length(move)
    d = distance(c, shape, a)
    t = real(0.0)
    tries = int(0)
    while t < ONE and d > real(1.01) * least and tries < 100:
        tries += 1
        t += (d - least) / length
        d = distance(c, shape, a + wp.min(t, ONE) * move)
    return wp.min(t, ONE)


@wp.func(inline=True)
def longest_move(c: Scene, x: vec3, move: vec3, world: int):
    """How much of a move a vertex can make without coming nearer than a tenth of each distance after the step."""
    share = ONE
    for shape in range(c.kind.shape[0]):
        a = seen(c, AFTER, shape, x, world)
        turned = wp.transpose(c.rotation[AFTER, world, shape]) * move
        share *= share_of_move(c, shape, a, share * turned, real(0.1) * distance(c, shape, a))
    return share


@wp.func(inline=True)
def is_outside(c: Scene, when: int, x: vec3, world: int):
    """Of all shapes."""
    outside = bool(True)
    for shape in range(c.kind.shape[0]):
        if not distance(c, shape, seen(c, when, shape, x, world)) > real(0.0):
            outside = bool(False)
    return outside


@wp.func
def carried_along(c: Scene, x: vec3, world: int):
    """How far shapes that come near a vertex at x, or pass it, push it in a step.

    A shape is convex, and so on one side of the plane through its nearest point, with which it moves. Returns whether
    there is room between all shapes.
    """
    pushed = vec3()
    sweeps = int(0)
    pushing = bool(True)
    while pushing and sweeps < MOST_SWEEPS:
        sweeps += 1
        pushing = bool(False)
        for shape in range(c.kind.shape[0]):
            before = seen(c, BEFORE, shape, x, world)
            d = distance(c, shape, before)
            least = KEPT_OFF * wp.min(d, c.gap)
            move = seen(c, AFTER, shape, x + pushed, world) - before
            blocked = share_of_move(c, shape, before, move, KEPT_OFF * least) < ONE
            if blocked or distance(c, shape, before + move) < least:
                n, _bend = distance_slopes(c, shape, before)
                height = d + wp.dot(move, n)
                if height < real(0.999) * least:
                    pushed += c.rotation[AFTER, world, shape] * ((least - height) * n)
                    pushing = bool(True)
    there_is_room = not pushing and is_outside(c, AFTER, x + pushed, world)
    return pushed, there_is_room
