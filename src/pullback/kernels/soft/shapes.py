"""Shapes that move: what they make of the velocity of a node in reach, what they get for it, and the adjoint.

With r the velocity of the node against the shape's, a shape holds as a wall does: r' is what that leaves of r. It holds
all of it from half a cell below the surface on, nothing from half a cell above, and a share b in between, so that
everything moves smoothly with the shape's pose:

    y = x - p;   d, n = distance(R^T y);   r = v - w × y - u;   v' = v + b(d) (r'(r, R n) - r)

The shape gets the momentum m (v - v') that the node loses, at x: shapes act before gravity's share and walls make a
velocity of the rest. Backwards, a turn of the shape is one in world axes.
"""

import warp as wp

from ..cores import Share
from ..spatial.algebra import ang, lin
from ..spatial.scalar import real, vec3, vec4, vec6
from ..spatial.shape_kinds import BOX, CAPSULE, CYLINDER, PLANE, SPHERE
from .kinds import CLAMPED, RUBS
from .structs import Bars, Forward, Grid, Law, Shapes, Work, vec8, wide6, wide12
from .walls import friction_share

ZERO = wp.constant(real(0.0))
ONE = wp.constant(real(1.0))
HALF = wp.constant(real(0.5))
FAR_BELOW = wp.constant(real(-1e30))  # where a cylinder has no third face
TINY = wp.constant(real(1e-30))


@wp.func(inline=True)
def sign_of(x: real):
    return wp.where(x < ZERO, -ONE, ONE)


@wp.func(inline=True)
def beyond_faces(q: vec3):
    """The distance to what has perpendicular faces, from how far each of them is passed, and its gradient by q."""
    e = vec3(wp.max(q[0], ZERO), wp.max(q[1], ZERO), wp.max(q[2], ZERO))
    d = wp.length(e)
    m = vec3()
    if d > ZERO:
        m = e / d
    else:
        nearest = int(0)
        for k in range(1, 3):
            if q[k] > q[nearest]:
                nearest = k
        d = q[nearest]
        m[nearest] = ONE
    return d, m


@wp.func(inline=True)
def beyond_faces_adjoint(d: real, m: vec3, d_bar: real, m_bar: vec3):
    q_bar = d_bar * m
    if d > ZERO:
        along = wp.dot(m, m_bar)
        for k in range(3):
            if m[k] > ZERO:
                q_bar[k] = q_bar[k] + (m_bar[k] - along * m[k]) / d
    return q_bar


@wp.func(inline=True)
def from_core(kind: int, size: vec3, a: vec3):
    """From the nearest point of a sphere's centre or a capsule's segment."""
    c = a
    if kind == CAPSULE:
        c = vec3(a[0], a[1], a[2] - wp.clamp(a[2], -size[1], size[1]))
    return c


@wp.func(inline=True)
def passed_faces(kind: int, size: vec3, a: vec3):
    q = vec3(wp.abs(a[0]) - size[0], wp.abs(a[1]) - size[1], wp.abs(a[2]) - size[2])
    if kind == CYLINDER:
        q = vec3(wp.sqrt(a[0] * a[0] + a[1] * a[1]) - size[0], FAR_BELOW, wp.abs(a[2]) - size[1])
    return q


@wp.func(inline=True)
def distance(kind: int, size: vec3, a: vec3):
    """Of a point in the shape's axes from the surface, negative inside, and the gradient, which is the normal."""
    d = a[2]
    n = vec3(ZERO, ZERO, ONE)
    if kind == SPHERE or kind == CAPSULE:
        c = from_core(kind, size, a)
        length = wp.length(c)
        d = length - size[0]
        n = c / wp.max(length, TINY)
    elif kind == BOX:
        d, m = beyond_faces(passed_faces(kind, size, a))
        n = vec3(sign_of(a[0]) * m[0], sign_of(a[1]) * m[1], sign_of(a[2]) * m[2])
    elif kind == CYLINDER:
        d, m = beyond_faces(passed_faces(kind, size, a))
        across = m[0] / wp.max(wp.sqrt(a[0] * a[0] + a[1] * a[1]), TINY)
        n = vec3(across * a[0], across * a[1], sign_of(a[2]) * m[2])
    return d, n


@wp.func
def distance_adjoint(kind: int, size: vec3, a: vec3, d_bar: real, n_bar: vec3):
    """Cotangents of the point and the sizes."""
    a_bar = vec3(ZERO, ZERO, d_bar)
    size_bar = vec3()
    if kind == SPHERE or kind == CAPSULE:
        c = from_core(kind, size, a)
        length = wp.max(wp.length(c), TINY)
        n = c / length
        a_bar = d_bar * n + (n_bar - wp.dot(n, n_bar) * n) / length
        size_bar[0] = -d_bar
        if kind == CAPSULE:
            if wp.abs(a[2]) < size[1]:
                a_bar[2] = ZERO
            else:
                size_bar[1] = -sign_of(a[2]) * a_bar[2]
    elif kind == BOX:
        d, m = beyond_faces(passed_faces(kind, size, a))
        s = vec3(sign_of(a[0]), sign_of(a[1]), sign_of(a[2]))
        q_bar = beyond_faces_adjoint(d, m, d_bar, wp.cw_mul(s, n_bar))
        a_bar = wp.cw_mul(s, q_bar)
        size_bar = -q_bar
    elif kind == CYLINDER:
        d, m = beyond_faces(passed_faces(kind, size, a))
        radius = wp.max(wp.sqrt(a[0] * a[0] + a[1] * a[1]), TINY)
        e = vec3(a[0] / radius, a[1] / radius, ZERO)
        q_bar = beyond_faces_adjoint(d, m, d_bar, vec3(wp.dot(e, n_bar), ZERO, sign_of(a[2]) * n_bar[2]))
        turned = vec3(n_bar[0], n_bar[1], ZERO)
        a_bar = q_bar[0] * e + m[0] / radius * (turned - wp.dot(e, turned) * e)
        a_bar[2] = sign_of(a[2]) * q_bar[2]
        size_bar = vec3(-q_bar[0], -q_bar[2], ZERO)
    return a_bar, size_bar


@wp.func(inline=True)
def hold_share(y: real):
    """How much a shape holds at a distance of y cells from its surface."""
    c = wp.clamp(HALF - y, ZERO, ONE)
    return c * c * (real(3.0) - real(2.0) * c)


@wp.func(inline=True)
def hold_slope(y: real):
    c = wp.clamp(HALF - y, ZERO, ONE)
    return real(-6.0) * c * (ONE - c)


@wp.func(inline=True)
def held(hold: int, mu: real, r: vec3, n: vec3):
    """What is taken of a velocity: r' - r. And how much of the tangential part is left, zero or less of none."""
    normal = wp.dot(r, n)
    change = vec3()
    share = ZERO
    if normal < ZERO or hold == CLAMPED:
        change = -r
        if hold == RUBS:
            tangential = r - normal * n
            share = friction_share(mu, normal, wp.length(tangential))
            if share > ZERO:
                change += share * tangential
    return change, share


@wp.func(inline=True)
def in_reach(g: Grid, m: Law, s: Shapes, x: vec3, k: int, row: int, world: int):
    """Where a node is against a shape, in world axes; its distance and normal, if it is near enough to be held."""
    y = x - s.position[row, world, k]
    size = m.shape_size[world, k]
    kind = s.kind[k]
    d = g.dx
    n = vec3()
    reach = size[0] + size[1] + size[2] + g.dx
    if kind == PLANE or wp.dot(y, y) < reach * reach:
        R = s.rotation[row, world, k]
        d, n = distance(kind, size, wp.transpose(R) * y)
        n = R * n
    return y, d, n


@wp.func
def shaped(g: Grid, m: Law, s: Shapes, x: vec3, v: vec3, k: int, row: int, world: int):
    """A velocity as one shape leaves it."""
    y, d, n = in_reach(g, m, s, x, k, row, world)
    if d < HALF * g.dx:
        r = v - s.linear[row, world, k] - wp.cross(s.angular[row, world, k], y)
        change, _share = held(s.hold[k], m.shape_friction[world, k], r, n)
        v += hold_share(d * g.inverse) * change
    return v


@wp.func(inline=True)
def node_at(g: Grid, row: int, n: int):
    i = row / g.shape[1]
    return vec3(g.origin[0], g.origin[1], g.origin[2]) + g.dx * vec3(
        real(i), real(row - i * g.shape[1]), real(n - row * g.shape[2])
    )


@wp.func(inline=True)
def wide(a: vec3, b: vec3):
    return wide6(
        wp.float64(a[0]), wp.float64(a[1]), wp.float64(a[2]), wp.float64(b[0]), wp.float64(b[1]), wp.float64(b[2])
    )


@wp.func
def give(g: Grid, m: Law, s: Shapes, w: Work, q: vec4, fall: vec3, row: int, n: int, t: int, world: int, lane: int):
    """Momentum and mass of node n of a row after all shapes, one after the other, took theirs, which the lane notes."""
    if q[3] > ZERO:
        x = node_at(g, row, n)
        v = vec3(q[0], q[1], q[2]) / q[3] + fall
        for k in range(s.kind.shape[0]):
            after = shaped(g, m, s, x, v, k, t * s.moves, world)
            lost = q[3] * (v - after)
            if wp.dot(lost, lost) > ZERO:
                w.given[lane, k] += wide(wp.cross(x, lost), lost)
                q -= vec4(lost[0], lost[1], lost[2], ZERO)
            v = after
    return q


@wp.func
def without_given(g: Grid, m: Law, s: Shapes, q: vec8, fall: vec3, row: int, n: int, t: int, world: int):
    """The same, of momentum and mass beside which there is a cotangent."""
    if q[3] > ZERO:
        x = node_at(g, row, n)
        v = vec3(q[0], q[1], q[2]) / q[3] + fall
        for k in range(s.kind.shape[0]):
            after = shaped(g, m, s, x, v, k, t * s.moves, world)
            lost = q[3] * (v - after)
            q -= vec8(lost[0], lost[1], lost[2], ZERO, ZERO, ZERO, ZERO, ZERO)
            v = after
    return q


@wp.func
def shaped_adjoint(
    g: Grid, m: Law, s: Shapes, r: Bars, x: vec3, v: vec3, v_bar: vec3, k: int, t: int, world: int, place: int
):
    """The cotangent of a velocity from that of what one shape leaves of it."""
    row = t * s.moves
    y, d, n = in_reach(g, m, s, x, k, row, world)
    if d < HALF * g.dx:
        w = s.angular[row, world, k]
        moved = v - s.linear[row, world, k] - wp.cross(w, y)
        mu = m.shape_friction[world, k]
        change, share = held(s.hold[k], mu, moved, n)
        if wp.dot(change, change) > ZERO:
            d_bar = wp.dot(v_bar, change) * hold_slope(d * g.inverse) * g.inverse
            change_bar = hold_share(d * g.inverse) * v_bar
            moved_bar = -change_bar
            n_bar = vec3()
            if share > ZERO:  # change = share tangential - moved
                normal = wp.dot(moved, n)
                tangential = moved - normal * n
                speed = wp.length(tangential)
                tangential_bar = share * change_bar
                normal_bar = ZERO
                if speed > ZERO:
                    share_bar = wp.dot(tangential, change_bar)
                    normal_bar = share_bar * mu / speed
                    tangential_bar -= normal_bar * normal / (speed * speed) * tangential
                    if r.wants_params == 1:
                        r.law.shape_friction[place, k] += wp.float64(share_bar * normal / speed)
                normal_bar -= wp.dot(n, tangential_bar)
                n_bar = normal_bar * moved - normal * tangential_bar
                moved_bar += tangential_bar + normal_bar * n
            R = s.rotation[row, world, k]
            size = m.shape_size[world, k]
            a_bar, size_bar = distance_adjoint(s.kind[k], size, wp.transpose(R) * y, d_bar, wp.transpose(R) * n_bar)
            arm_bar = R * a_bar
            if r.wants_params == 1:
                r.law.shape_size[place, k] += wp.vec3d(
                    wp.float64(size_bar[0]), wp.float64(size_bar[1]), wp.float64(size_bar[2])
                )
            if s.moves == 1:
                turn = wp.cross(n, n_bar) - wp.cross(y, arm_bar)
                shift = wp.cross(moved_bar, w) - arm_bar
                spin = -wp.cross(y, moved_bar)
                r.motion_bar[t, place, k] += wide12(
                    wp.float64(turn[0]), wp.float64(turn[1]), wp.float64(turn[2]),
                    wp.float64(shift[0]), wp.float64(shift[1]), wp.float64(shift[2]),
                    wp.float64(spin[0]), wp.float64(spin[1]), wp.float64(spin[2]),
                    -wp.float64(moved_bar[0]), -wp.float64(moved_bar[1]), -wp.float64(moved_bar[2]),
                )  # fmt: skip
            v_bar += moved_bar
    return v_bar


@wp.func
def give_adjoint(
    g: Grid, m: Law, r: Bars, before: vec8, q: vec8, fall: vec3, row: int, n: int, t: int, world: int, place: int
):
    """Changes the cotangents of momentum and mass in q from those after the shapes to those before; and what ``fall``
    gets. ``before``: momentum and mass before them."""
    fall_bar = vec3()
    mass = before[3]
    if mass > ZERO:
        s = r.shapes
        x = node_at(g, row, n)
        flow = vec3(before[0], before[1], before[2]) / mass
        p_bar = vec3(q[4], q[5], q[6])
        mass_bar = real(0.0)
        for back in range(s.kind.shape[0]):
            last = s.kind.shape[0] - 1 - back
            v = flow + fall
            for k in range(last):
                v = shaped(g, m, s, x, v, k, t * s.moves, world)
            lost = v - shaped(g, m, s, x, v, last, t * s.moves, world)
            if wp.dot(lost, lost) > ZERO:
                impulse_bar = r.carry.impulse[0, world, last]
                lost_bar = lin(impulse_bar) + wp.cross(ang(impulse_bar), x) - p_bar
                mass_bar += wp.dot(lost, lost_bar)
                fall_bar = shaped_adjoint(g, m, s, r, x, v, fall_bar - mass * lost_bar, last, t, world, place)
                fall_bar += mass * lost_bar
        by_flow = fall_bar / mass
        mass_bar -= wp.dot(flow, by_flow)
        q += vec8(ZERO, ZERO, ZERO, ZERO, by_flow[0], by_flow[1], by_flow[2], mass_bar)
    return q, fall_bar


@wp.func(inline=True)
def nothing_given(s: Shapes, w: Work, lane: int):
    for k in range(s.kind.shape[0]):
        w.given[lane, k] = wide6()


@wp.func(inline=True)
def add_impulses(w: Work, f: Forward, share: Share, row: int, t: int, world: int):
    """What shapes got of all cores in step t goes to the state; each core does some of the shapes."""
    base = share.lane - share.core
    for k in range(share.core, f.shapes.kind.shape[0], share.cores):
        sum = wide6()
        for lane in range(base, base + share.cores):
            sum += w.given[lane, k]
        given = vec6(real(sum[0]), real(sum[1]), real(sum[2]), real(sum[3]), real(sum[4]), real(sum[5]))
        impulse = f.now.impulse[t % f.ring, world, k] + given
        f.now.impulse[(t + 1) % f.ring, world, k] = impulse
        if row > 0 and f.ring == 2:
            f.kept.impulse[row, world, k] = impulse


@wp.func(inline=True)
def add_impulse_bar(r: Bars, first: int, t: int, world: int):
    """Of the state before step t, by the core that has the first particle."""
    if r.every_row == 1 and first == 0:
        for k in range(r.shapes.kind.shape[0]):
            r.carry.impulse[0, world, k] = r.carry.impulse[0, world, k] + r.rows_bar.impulse[t, world, k]
