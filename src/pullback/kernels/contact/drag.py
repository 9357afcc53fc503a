"""Friction between shapes that a potential keeps apart: a dissipation that the step minimises with it.

    D(v) = h Σ λ f √(|T y|² + e²)

over the points of both hulls of a pair, with y the velocity of one body against the other where the point's surface is,
and T = 1 - n nᵀ. Forces f, normals n and places are those before the step (lagged), so that D is convex in v. Only what
is near has friction: f is that of the potential, times a window that closes between 5 and 10 rest gaps. Each hull's
points carry half; a half-space has none.

    letter  meaning
    λ       coefficient of friction
    e       slip speed
"""

import warp as wp

from ..collision.gjk import across
from ..collision.hull_pair import HullPair, margin_of, mat66, normal_of, point_count, side_of, wrench_at
from ..collision.shapes import Shapes
from ..spatial.algebra import ang, lin, pack
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params, Tree, Workspace
from .materials import mixed_friction
from .potential import distance_law, hulls_of, is_half_space, strength
from .rows import Rows
from .shape_hulls import about

# Where the window is open, and how far beyond that it is closed [rest gaps].
OPEN = wp.constant(real(5.0))
CLOSING = wp.constant(real(5.0))


@wp.struct
class Rub:
    """Friction at a point: where its surface is, the normal, the force along it."""

    place: vec3
    n: vec3
    force: real
    weight: real  # of the force, without its window


@wp.func
def window(x: real):
    """1 up to OPEN and 0 from OPEN + CLOSING on, with two continuous derivatives; and its derivative."""
    t = wp.clamp((x - OPEN) / CLOSING, real(0.0), real(1.0))
    rest = t * (real(1.0) - t)
    value = real(1.0) - t * t * t * (real(10.0) - t * (real(15.0) - real(6.0) * t))
    return value, real(-30.0) * rest * rest / CLOSING


@wp.func
def old_hulls(g: Shapes, p: Params, r: Rows, pair: int, world: int, slot: int):
    """The hulls of a pair before the step."""
    h = hulls_of(g, p, r, pair, world, slot)
    h.origin = r.old_origin[pair, slot]
    return h


@wp.func
def rubs(g: Shapes, pair: int):
    return g.pair_dim[pair] > 1 and g.has_friction == 1


@wp.func
def rub_count(g: Shapes, h: HullPair, pair: int):
    return wp.where(is_half_space(g, pair), h.ahead_end - h.ahead, point_count(h))


@wp.func
def rub_at(g: Shapes, p: Params, r: Rows, h: HullPair, pair: int, k: int, world: int, slot: int):
    """Of the k-th point of a pair."""
    plane = r.old_plane[pair, slot]
    n = normal_of(plane)
    gap = p.reach[world, 0][0]
    mu = strength(g, p, pair, world)
    rub = Rub()
    if is_half_space(g, pair):
        x = r.old_point[h.ahead + k, slot]
        distance = wp.dot(x - h.origin, n) - h.ahead_radius
        share, _slope = window(distance / gap)
        _value, push, _curve = distance_law(distance, h.length)
        rub.weight = mu * real(4.0) / real(h.ahead_end - h.ahead) * push
        rub.force = rub.weight * share
        rub.place = x - h.ahead_radius * n
        rub.n = n
    else:
        at, sign, radius, weight = side_of(h, k)
        m = wp.length(n)
        x = r.old_point[at, slot]
        a = margin_of(h, x, plane, m, sign, radius)
        share, _slope = window(a / (m * gap))
        rub.weight = real(0.5) * mu * h.length * weight / (a * a) * m
        rub.force = rub.weight * share
        rub.n = n / m
        rub.place = x - (sign * radius) * rub.n
    return rub


@wp.func
def slide_at(g: Shapes, r: Rows, motion: wp.array2d(dtype=vec6), pair: int, x: vec3, slot: int):
    """Velocity of body 2 of a pair against body 1 at x, from the bodies' motions about r.old_o."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    V1 = motion[body1, slot]
    V2 = motion[body2, slot]
    v2 = lin(V2) + wp.cross(ang(V2), x - r.old_o[body2, slot])
    return v2 - lin(V1) - wp.cross(ang(V1), x - r.old_o[body1, slot])


@wp.func
def rub_pair(g: Shapes, r: Rows, W: wp.array2d(dtype=vec6), pair: int, x: vec3, force: vec3, slot: int):
    """Adds a force at x to body 2 of a pair, and its opposite to body 1."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    W[body2, slot] = W[body2, slot] + pack(wp.cross(x - r.old_o[body2, slot], force), force)
    W[body1, slot] = W[body1, slot] - pack(wp.cross(x - r.old_o[body1, slot], force), force)


@wp.func
def keep_old(m: Tree, g: Shapes, s: Workspace, r: Rows, slot: int):
    """What friction needs of the state before the step, where everything is by now."""
    for k in range(r.point.shape[0]):
        r.old_point[k, slot] = r.point[k, slot]
    for pair in range(g.pair_first.shape[0]):
        r.old_plane[pair, slot] = r.plane[pair, slot]
        r.old_origin[pair, slot] = r.origin[pair, slot]
    for d in range(m.nv):
        r.old_S[d, slot] = s.S[d, slot]
    for i in range(m.body_parent.shape[0]):
        r.old_o[i, slot] = s.o[i, slot]


@wp.func
def old_motions(m: Tree, r: Rows, slot: int):
    """r.drift, the motion of each body under the velocities r.v, where it was before the step."""
    r.drift[0, slot] = vec6()
    for i in range(1, m.body_parent.shape[0]):
        V = r.drift[m.body_parent[i], slot]
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            V += r.old_S[d, slot] * r.v[d, slot]
        r.drift[i, slot] = V


@wp.func
def gather_drags(m: Tree, r: Rows, slot: int):
    """r.drag of each body and all that it carries."""
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        parent = m.body_parent[i]
        if parent > 0 and m.body_is_root[i] == 0:
            r.drag[parent, slot] = r.drag[parent, slot] + r.drag[i, slot]


@wp.func
def drag_energy(m: Tree, g: Shapes, p: Params, r: Rows, world: int, slot: int):
    """D at r.v; its gradient is added to r.gradient."""
    value = real(0.0)
    if g.has_friction == 1:
        old_motions(m, r, slot)
        for i in range(m.body_parent.shape[0]):
            r.drag[i, slot] = vec6()
        slip = p.slip[world, 0][0]
        for pair in range(g.pair_first.shape[0]):
            if rubs(g, pair):
                h = old_hulls(g, p, r, pair, world, slot)
                friction = m.timestep * mixed_friction(p, g, pair, world)[1]
                for k in range(rub_count(g, h, pair)):
                    rub = rub_at(g, p, r, h, pair, k, world, slot)
                    if rub.force > real(0.0):
                        y = slide_at(g, r, r.drift, pair, rub.place, slot)
                        Ty = y - wp.dot(rub.n, y) * rub.n
                        root = wp.sqrt(wp.dot(Ty, Ty) + slip * slip)
                        value += friction * rub.force * root
                        rub_pair(g, r, r.drag, pair, rub.place, (friction * rub.force / root) * Ty, slot)
        gather_drags(m, r, slot)
        for d in range(m.nv):
            drag = wp.dot(r.old_S[d, slot], r.drag[m.dof_body[d], slot])
            r.gradient[d, slot] = r.gradient[d, slot] + drag
            r.scale[d, slot] = r.scale[d, slot] + wp.abs(drag)
    return value


@wp.func
def drag_force(g: Shapes, p: Params, r: Rows, pair: int, world: int, slot: int):
    """Of friction on body 2 of a pair, after ``drag_energy``."""
    force = vec3()
    if rubs(g, pair):
        h = old_hulls(g, p, r, pair, world, slot)
        slip = p.slip[world, 0][0]
        friction = mixed_friction(p, g, pair, world)[1]
        for k in range(rub_count(g, h, pair)):
            rub = rub_at(g, p, r, h, pair, k, world, slot)
            y = slide_at(g, r, r.drift, pair, rub.place, slot)
            Ty = y - wp.dot(rub.n, y) * rub.n
            force -= (friction * rub.force / wp.sqrt(wp.dot(Ty, Ty) + slip * slip)) * Ty
    return force


@wp.func
def pair_drag_curvature(g: Shapes, p: Params, r: Rows, pair: int, h: HullPair, scale: real, world: int, slot: int):
    """The Hessian of a pair's Σ λ f √(...) by the motion of body 2 against body 1 about the origin of the pair; and
    Σ f."""
    Q = mat66()
    total = real(0.0)
    slip = p.slip[world, 0][0]
    for k in range(rub_count(g, h, pair)):
        rub = rub_at(g, p, r, h, pair, k, world, slot)
        if rub.force > real(0.0):
            total += rub.force
            y = slide_at(g, r, r.drift, pair, rub.place, slot)
            Ty = y - wp.dot(rub.n, y) * rub.n
            root = wp.sqrt(wp.dot(Ty, Ty) + slip * slip)
            stiff = scale * rub.force / root
            t1 = wp.normalize(across(rub.n))
            arm = rub.place - h.origin
            N1 = wrench_at(arm, t1)
            N2 = wrench_at(arm, wp.cross(rub.n, t1))
            N3 = wrench_at(arm, Ty / root)
            Q += wp.outer(stiff * N1, N1) + wp.outer(stiff * N2, N2) - wp.outer(stiff * N3, N3)
    return Q, total


@wp.func
def add_old_side(m: Tree, r: Rows, body: int, Q: mat66, origin: vec3, sign: real, count: int, slot: int):
    last = int(count)
    for d in range(m.body_dof[body], m.body_dof[body + 1]):
        motion = sign * about(r.old_S[d, slot], r.old_o[body, slot], origin)
        r.link[last, slot] = d
        r.link_motion[last, slot] = motion
        r.link_push[last, slot] = Q * motion
        last += 1
    return last


@wp.func
def add_drag_curvature(m: Tree, g: Shapes, p: Params, r: Rows, world: int, slot: int):
    """Adds the Hessian of D to r.H, after ``drag_energy``."""
    if g.has_friction == 1:
        for pair in range(g.pair_first.shape[0]):
            if rubs(g, pair):
                h = old_hulls(g, p, r, pair, world, slot)
                scale = m.timestep * mixed_friction(p, g, pair, world)[1]
                Q, total = pair_drag_curvature(g, p, r, pair, h, scale, world, slot)
                if total > real(0.0):
                    body1 = g.body[g.pair_first[pair]]
                    body2 = g.body[g.pair_second[pair]]
                    count = int(0)
                    while body1 != body2:
                        if body2 > body1:
                            count = add_old_side(m, r, body2, Q, h.origin, real(1.0), count, slot)
                            body2 = m.body_parent[body2]
                        else:
                            count = add_old_side(m, r, body1, Q, h.origin, real(-1.0), count, slot)
                            body1 = m.body_parent[body1]
                    for a in range(count):
                        for b in range(a + 1):
                            d = r.link[a, slot]
                            e = r.link[b, slot]
                            at = wp.max(d, e) * m.nv + wp.min(d, e)
                            r.H[at, slot] = r.H[at, slot] + wp.dot(r.link_motion[b, slot], r.link_push[a, slot])
