"""The potential of two shapes of which one or both are meshes of triangles, and how far they are apart.

Nodes I and J of two hierarchies of balls, at the distance r of their centres, with s their share in the area of their
mesh, have the potential

    P(I, J) = (1 - φ) near + φ s_I s_J far        near = Σ P of the children of the larger one with the other,
                                                         or T(potential of two hulls - 4) of two leaves
                                                  far  = 4 (2 √(L/ρ) + L/ρ), ρ² = r² + spread of I + spread of J

φ rises from 0 at d = R_I + R_J to 1 at (1 + blend) d. The spread is the mean square distance of centres of triangles
from that of the node: far is what Jensen's inequality leaves of the mean over all pairs of triangles, 4 (2 √(L/√u) +
L/√u) being convex in u = r². So near is never less than far, and as φ rises forces only grow: what the blend adds
pushes apart, too. T(z) is s_I s_J z where leaves are not all but touching, so that two meshes weigh as much as two
other shapes, and more where they are, so that they rest not much nearer to each other. A shape that is no mesh is a
leaf of share 1 and spread 0.

Everything is by the motion of shape 2 against shape 1, about o: P depends on no other.
"""

import warp as wp

from ..collision.hull_pair import (
    OWN_WEIGHT,
    HullPair,
    best_plane,
    cholesky44,
    gap_along,
    hull_curvature,
    hull_normal,
    hull_value,
    mat64,
    mat66,
    middle_along,
    normal_of,
    plane_curvature,
    whiten,
    wrench_at,
)
from ..collision.shapes import PLANE_SHAPE, Contacts, Shapes
from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from ..tree.structs import Params
from .rows import Rows
from .shape_hulls import KEPT_SHARE, NOT_FAR, allowed_share, distance_law, hull_radius, hull_scale

# In place of nodes: a shape that is no mesh, and where a blend ends.
WHOLE = wp.constant(-1)
BLEND_ENDS = wp.constant(-2)
CORNERS = wp.constant(3)


@wp.struct
class Ball:
    """A node in its place."""

    x: vec3
    radius: real
    spread: real
    share: real
    child: int


@wp.struct
class Blend:
    """Two nodes: their distance, the direction of the second from the first, and φ with its derivatives by distance."""

    r: real
    way: vec3
    phi: real
    slope: real
    curve: real
    share: real  # s_I s_J


@wp.struct
class Field:
    """P, its gradient and Hessian by the motion of shape 2, and Σ (gradient by x) ⊗ (x - o) over points of shape 2."""

    value: real
    push: vec6
    lever: mat33
    curvature: mat66
    found: int
    leaves: int  # pairs of these that were looked at


@wp.func
def is_mesh_pair(g: Shapes, pair: int):
    """Whether the second of two shapes, whose type is not the lower one, is a mesh, and the first is no plane."""
    return g.balls.root[g.pair_second[pair]] >= 0 and g.kind[g.pair_first[pair]] != PLANE_SHAPE


@wp.func
def whole_radius(g: Shapes, p: Params, i: int, world: int):
    """Of the ball about a shape that is no mesh; all its points are at the same distance."""
    size = p.shape_size[world, i]
    radius = hull_radius(g.kind[i], size)
    if g.first_point[i + 1] > g.first_point[i] + 1:
        radius += wp.length(wp.cw_mul(g.point[g.first_point[i]], hull_scale(g.kind[i], size)))
    return radius


@wp.func
def ball_at(g: Shapes, p: Params, i: int, node: int, x: vec3, R: mat33, world: int):
    """A node of shape i, which is at x, R."""
    ball = Ball()
    ball.x = x
    ball.share = real(1.0)
    ball.child = -1
    if node == WHOLE:
        ball.radius = whole_radius(g, p, i, world)
    else:
        ball.x = x + R * g.balls.centre[node]
        ball.radius = g.balls.radius[node]
        ball.spread = g.balls.spread[node]
        ball.share = g.balls.share[node]
        ball.child = g.balls.child[node]
    return ball


@wp.func
def place_leaf(
    g: Shapes, p: Params, r: Rows, i: int, node: int, x: vec3, R: mat33, first: int, world: int, slot: int
):  # fmt: skip
    """The points of a leaf, to r.point from ``first`` on. Returns their end."""
    end = int(first)
    if node == WHOLE:
        scale = hull_scale(g.kind[i], p.shape_size[world, i])
        for k in range(g.first_point[i], g.first_point[i + 1]):
            r.point[end, slot] = x + R * wp.cw_mul(g.point[k], scale)
            end += 1
    else:
        corner = CORNERS * (-1 - g.balls.child[node])
        for k in range(CORNERS):
            r.point[end, slot] = x + R * g.balls.corners[corner + k]
            end += 1
    return end


@wp.func
def leaf_hulls(
    g: Shapes, p: Params, r: Rows, pair: int, nodes: wp.vec2i, x1: vec3, R1: mat33, x2: vec3, R2: mat33,
    world: int, slot: int,
):  # fmt: skip
    """Two leaves as hulls, in the places of r.point behind those of shapes."""
    i = g.pair_first[pair]
    h = HullPair()
    h.ahead = g.point.shape[0]
    h.ahead_end = place_leaf(g, p, r, g.pair_second[pair], nodes[1], x2, R2, h.ahead, world, slot)
    h.behind = h.ahead_end
    h.behind_end = place_leaf(g, p, r, i, nodes[0], x1, R1, h.behind, world, slot)
    if nodes[0] == WHOLE:
        h.behind_radius = hull_radius(g.kind[i], p.shape_size[world, i])
    h.length = p.reach[world, 0][1]
    h.origin = x1
    return h


# --- laws of distance -----------------------------------------------------------------------------------


@wp.func
def far_law(r: real, spread: real, length: real):
    """far, and its first two derivatives by r."""
    rho = wp.sqrt(r * r + spread)
    value, slope, curve = distance_law(rho, length)
    share = r / rho
    return (
        OWN_WEIGHT * value,
        -OWN_WEIGHT * slope * share,
        OWN_WEIGHT * (curve * share * share - slope * spread / (rho * rho * rho)),
    )


@wp.func
def quintic(t: real):
    """6 t⁵ - 15 t⁴ + 10 t³ from 0 to 1, and its first two derivatives."""
    t = wp.clamp(t, real(0.0), real(1.0))
    rest = t * (real(1.0) - t)
    value = t * t * t * (real(10.0) - t * (real(15.0) - real(6.0) * t))
    return value, real(30.0) * rest * rest, real(60.0) * rest * (real(1.0) - real(2.0) * t)


@wp.func
def blend_of(a: Ball, b: Ball, blend: real):
    one = Blend()
    way = b.x - a.x
    one.r = wp.length(way)
    one.share = a.share * b.share
    near = a.radius + b.radius
    if one.r > near:
        one.way = way / one.r
        width = blend * near
        phi, slope, curve = quintic((one.r - near) / width)
        one.phi = phi
        one.slope = slope / width
        one.curve = curve / (width * width)
    return one


@wp.func
def onset_of(g: Shapes, nodes: wp.vec2i, length: real):
    """From which potential on two leaves are stronger than their share, and its derivative by the length: what two
    points at a tenth of the length have, or at an eighth of the size of both triangles if that is less."""
    size = g.balls.radius[nodes[1]]
    if nodes[0] == WHOLE:
        size = real(2.0) * size
    else:
        size += g.balls.radius[nodes[0]]
    distance = real(0.125) * size
    slope = real(0.0)
    if distance < real(0.1) * length:
        x = length / distance
        slope = OWN_WEIGHT * (wp.sqrt(x) + x) / length
    else:
        distance = real(0.1) * length
    value, _slope, _curve = distance_law(distance, length)
    return OWN_WEIGHT * value, slope


@wp.func
def near_share(g: Shapes, nodes: wp.vec2i):
    """Of two leaves that all but touch: the root of their share in the mesh. So a few triangles that meet at a corner
    and many that lie on each other are kept apart at distances that are not too different, however small they are."""
    share = g.balls.share[nodes[1]]
    if nodes[0] != WHOLE:
        share = wp.sqrt(share * g.balls.share[nodes[0]])
    return wp.sqrt(share)


@wp.func
def leaf_weight(g: Shapes, nodes: wp.vec2i):
    share = g.balls.share[nodes[1]]
    if nodes[0] != WHOLE:
        share = share * g.balls.share[nodes[0]]
    return share


@wp.struct
class Growth:
    """T(z) of two leaves, share z + more u³ / (u² + onset²) with u = max(z - onset, 0), and its derivatives by z and by
    the onset."""

    value: real
    slope: real
    curve: real
    by_onset: real
    slope_by_onset: real


@wp.func
def growth_law(z: real, onset: real, share: real, near: real):
    one = Growth()
    one.value = share * z
    one.slope = share
    u = z - onset
    if u > real(0.0):
        more = near - share
        q = onset * onset
        base = u * u + q
        grows = u * u * (u * u + real(3.0) * q) / (base * base)
        bends = real(2.0) * q * u * (real(3.0) * q - u * u) / (base * base * base)
        one.value += more * u * u * u / base
        one.slope += more * grows
        one.curve = more * bends
        one.by_onset = -more * (grows + real(2.0) * u * u * u * onset / (base * base))
        one.slope_by_onset = more * (real(2.0) * u * u * onset * (u * u - real(3.0) * q) / (base * base * base) - bends)
    return one


# --- what is added to a field ------------------------------------------------------------------------------


@wp.func
def along_way(way: vec3, first: real, second: real, r: real):
    """The Hessian of a function of r by the place of its end."""
    across = wp.identity(3, real) - wp.outer(way, way)
    return second * wp.outer(way, way) + (first / r) * across


@wp.func
def at_point(arm: vec3, h: mat33):
    """A Hessian by the place of a point, as one by motions of its body."""
    A = wp.skew(arm)
    low = h * -A  # by moving, then turning
    top = A * low
    K = mat66()
    for i in range(3):
        for j in range(3):
            K[i, j] = top[i, j]
            K[3 + i, j] = low[i, j]
            K[i, 3 + j] = low[j, i]
            K[3 + i, 3 + j] = h[i, j]
    return K


@wp.func(inline=False)
def leaf_pair(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, nodes: wp.vec2i, o: vec3, world: int, slot: int):
    """The field of two leaves, which are part of the whole."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    h = leaf_hulls(g, p, r, pair, nodes, c.x[i, slot], c.R[i, slot], c.x[j, slot], c.R[j, slot], world, slot)
    normal, _gap = hull_normal(h, r.point, slot)
    h.origin = middle_along(h, r.point, normal, slot)
    plane, found = best_plane(h, r.point, normal, slot)
    value, _ahead, _behind = hull_value(h, r.point, plane, slot)
    _gradient, Ppp = plane_curvature(h, r.point, plane, slot)
    C = cholesky44(Ppp)
    K, B, f = hull_curvature(h, r.point, plane, real(1.0), o, slot)
    white = mat64()
    for a in range(6):
        row = whiten(C, vec4(B[a, 0], B[a, 1], B[a, 2], B[a, 3]))
        for b in range(4):
            white[a, b] = row[b]
    onset, _slope = onset_of(g, nodes, h.length)
    growth = growth_law(value - OWN_WEIGHT, onset, leaf_weight(g, nodes), near_share(g, nodes))
    n = normal_of(plane)
    moment = wp.cross(f.first, n)
    push = -vec6(moment[0], moment[1], moment[2], f.total * n[0], f.total * n[1], f.total * n[2])
    field = Field()
    field.found = found
    field.value = growth.value
    field.push = growth.slope * push
    field.lever = wp.outer((-growth.slope) * n, f.first)
    field.curvature = growth.slope * (K - white * wp.transpose(white)) + wp.outer(growth.curve * push, push)
    return field


# --- the walk ----------------------------------------------------------------------------------------------


@wp.func
def start_walk(g: Shapes, r: Rows, pair: int, slot: int):
    """At the roots. Returns how many pairs of nodes are to be visited."""
    r.visits[0, slot] = wp.vec2i(g.balls.root[g.pair_first[pair]], g.balls.root[g.pair_second[pair]])
    return 1


@wp.func
def is_leaf_pair(a: Ball, b: Ball):
    return a.child < 0 and b.child < 0


@wp.func
def visit_children(r: Rows, nodes: wp.vec2i, a: Ball, b: Ball, count: int, slot: int):
    """Those of the larger one of two nodes are next. Returns how many pairs are to be visited now."""
    if b.child < 0 or (a.child >= 0 and a.radius >= b.radius):
        r.visits[count, slot] = wp.vec2i(a.child, nodes[1])
        r.visits[count + 1, slot] = wp.vec2i(a.child + 1, nodes[1])
    else:
        r.visits[count, slot] = wp.vec2i(nodes[0], b.child)
        r.visits[count + 1, slot] = wp.vec2i(nodes[0], b.child + 1)
    return count + 2


@wp.func(inline=False)
def mesh_field(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, o: vec3, world: int, slot: int):
    """The field of a pair of shapes where they are."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    length = p.reach[world, 0][1]
    field = Field()
    field.found = 1
    count = int(start_walk(g, r, pair, slot))
    at = int(0)  # the blend that the walk is in; the first is the whole
    r.blend_share[0, slot] = real(1.0)
    r.blend_value[0, slot] = real(0.0)
    r.blend_push[0, slot] = vec6()
    while count > 0:
        count -= 1
        nodes = r.visits[count, slot]
        ends = nodes[0] == BLEND_ENDS
        if ends:
            nodes = r.blend_nodes[at, slot]
        a = ball_at(g, p, i, nodes[0], c.x[i, slot], c.R[i, slot], world)
        b = ball_at(g, p, j, nodes[1], c.x[j, slot], c.R[j, slot], world)
        blend = blend_of(a, b, g.balls.blend)
        arm = b.x - o
        if ends or blend.phi >= real(1.0):
            near = real(0.0)
            near_push = vec6()
            if ends:
                near = r.blend_value[at, slot]
                near_push = r.blend_push[at, slot]
                at -= 1
            share = r.blend_share[at, slot]
            far, first, second = far_law(blend.r, a.spread + b.spread, length)
            far = blend.share * far
            first = blend.share * first
            more = blend.phi * first + blend.slope * (far - near)  # by r
            push = wrench_at(arm, more * blend.way)
            r.blend_value[at, slot] = r.blend_value[at, slot] + (real(1.0) - blend.phi) * near + blend.phi * far
            r.blend_push[at, slot] = r.blend_push[at, slot] + (real(1.0) - blend.phi) * near_push + push
            field.lever += wp.outer((share * more) * blend.way, arm)
            bend = blend.phi * blend.share * second + blend.curve * (far - near)
            # the slope of φ meets that of far, along the same way, and that of near, along another
            bend += real(2.0) * blend.slope * first
            field.curvature += share * at_point(arm, along_way(blend.way, more, bend, blend.r))
            if ends:
                turn = wrench_at(arm, (share * blend.slope) * blend.way)
                field.curvature -= wp.outer(turn, near_push) + wp.outer(near_push, turn)
        else:
            if blend.phi > real(0.0):
                r.visits[count, slot] = wp.vec2i(BLEND_ENDS, 0)
                count += 1
                share = r.blend_share[at, slot]
                at += 1
                r.blend_nodes[at, slot] = nodes
                r.blend_share[at, slot] = (real(1.0) - blend.phi) * share
                r.blend_value[at, slot] = real(0.0)
                r.blend_push[at, slot] = vec6()
            if is_leaf_pair(a, b):
                leaf = leaf_pair(g, p, c, r, pair, nodes, o, world, slot)
                share = r.blend_share[at, slot]
                field.found = wp.min(field.found, leaf.found)
                field.leaves += 1
                r.blend_value[at, slot] = r.blend_value[at, slot] + leaf.value
                r.blend_push[at, slot] = r.blend_push[at, slot] + leaf.push
                field.lever += share * leaf.lever
                field.curvature += share * leaf.curvature
            else:
                count = visit_children(r, nodes, a, b, count, slot)
    field.value = r.blend_value[0, slot]
    field.push = r.blend_push[0, slot]
    return field


# --- how far shapes are apart ------------------------------------------------------------------------------


@wp.func(inline=False)
def leaf_gap(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, nodes: wp.vec2i, world: int, slot: int):
    """A direction along which two leaves are apart where they are, and by how much."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    h = leaf_hulls(g, p, r, pair, nodes, c.x[i, slot], c.R[i, slot], c.x[j, slot], c.R[j, slot], world, slot)
    n, gap = hull_normal(h, r.point, slot)
    return n, gap


@wp.func(inline=False)
def mesh_distance(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, world: int, slot: int):
    """The least gap of all pairs of leaves, found among those whose balls are nearer than the best so far; at most the
    distance of the roots' balls. Not positive where shapes overlap."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    best = real(1e30)
    count = int(start_walk(g, r, pair, slot))
    while count > 0:
        count -= 1
        nodes = r.visits[count, slot]
        a = ball_at(g, p, i, nodes[0], c.x[i, slot], c.R[i, slot], world)
        b = ball_at(g, p, j, nodes[1], c.x[j, slot], c.R[j, slot], world)
        if wp.length(b.x - a.x) - a.radius - b.radius < best:
            if is_leaf_pair(a, b):
                _n, gap = leaf_gap(g, p, c, r, pair, nodes, world, slot)
                best = wp.min(best, gap)
            else:
                count = visit_children(r, nodes, a, b, count, slot)
    return best


@wp.func(inline=False)
def mesh_overlaps(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, world: int, slot: int):
    """Whether two leaves whose balls meet touch or overlap."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    overlaps = bool(False)
    count = int(start_walk(g, r, pair, slot))
    while count > 0 and not overlaps:
        count -= 1
        nodes = r.visits[count, slot]
        a = ball_at(g, p, i, nodes[0], c.x[i, slot], c.R[i, slot], world)
        b = ball_at(g, p, j, nodes[1], c.x[j, slot], c.R[j, slot], world)
        if not wp.length(b.x - a.x) > a.radius + b.radius:  # written so that a NaN counts too
            if is_leaf_pair(a, b):
                _n, gap = leaf_gap(g, p, c, r, pair, nodes, world, slot)
                overlaps = not gap > real(0.0)
            else:
                count = visit_children(r, nodes, a, b, count, slot)
    return overlaps


@wp.func(inline=False)
def leaf_share(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, nodes: wp.vec2i, world: int, slot: int):
    """Of two leaves: how much of the last move is safe, as ``find_gap`` finds it."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    R1 = r.kept_R[i, slot]
    R2 = r.kept_R[j, slot]
    h = leaf_hulls(g, p, r, pair, nodes, r.kept_x[i, slot], R1, r.kept_x[j, slot], R2, world, slot)
    n, before = hull_normal(h, r.point, slot)
    h = leaf_hulls(g, p, r, pair, nodes, c.x[i, slot], c.R[i, slot], c.x[j, slot], c.R[j, slot], world, slot)
    gap = real(-1e30)
    best = vec3()
    for k in range(3):
        trial = n
        if k == 1:
            trial = c.R[i, slot] * (wp.transpose(R1) * n)
        if k == 2:
            trial = c.R[j, slot] * (wp.transpose(R2) * n)
        apart, _offset = gap_along(h, r.point, trial, slot)
        if apart > gap:
            gap = apart
            best = trial
    if not gap >= KEPT_SHARE * before:
        other, apart = hull_normal(h, r.point, slot)
        if apart > gap and wp.dot(other, best) > NOT_FAR:
            gap = apart
    return allowed_share(gap, before)


@wp.func(inline=False)
def mesh_share(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, world: int, slot: int):
    """How much of the last move is safe, from r.kept_x and r.kept_R to where shapes are now.

    Two balls that were apart, and keep enough of that along the line between their centres, hold triangles that never
    met on the way.
    """
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    share = real(1.0)
    count = int(start_walk(g, r, pair, slot))
    while count > 0:
        count -= 1
        nodes = r.visits[count, slot]
        a = ball_at(g, p, i, nodes[0], r.kept_x[i, slot], r.kept_R[i, slot], world)
        b = ball_at(g, p, j, nodes[1], r.kept_x[j, slot], r.kept_R[j, slot], world)
        now1 = ball_at(g, p, i, nodes[0], c.x[i, slot], c.R[i, slot], world)
        now2 = ball_at(g, p, j, nodes[1], c.x[j, slot], c.R[j, slot], world)
        radii = a.radius + b.radius
        way = b.x - a.x
        before = wp.length(way) - radii
        apart = wp.dot(now2.x - now1.x, way) / (before + radii) - radii
        if not (before > real(0.0) and apart >= KEPT_SHARE * before):
            if is_leaf_pair(a, b):
                share = wp.min(share, leaf_share(g, p, c, r, pair, nodes, world, slot))
            else:
                count = visit_children(r, nodes, a, b, count, slot)
    return share
