"""Going back through friction: the cotangents of -Σ λ f (T y)·(T z) / √(|T y|² + e²), z being the velocities of sliding
under the joint velocities w, from the state before the step.

Forces, normals and places depend on the shapes directly, and through the plane between them, which minimises P: with
its cotangent p_bar and t = -P_pp⁻¹ p_bar, that of points is P_xp t.
"""

import warp as wp

from ..collision.hull_pair import (
    HullPair,
    cholesky44,
    margin_of,
    margin_slope,
    normal_of,
    plane_curvature,
    point_count,
    side_of,
    unwhiten,
    whiten,
)
from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.structs import Params, Tree, Workspace
from .collide import place_shapes, tree_poses
from .drag import Rub, gather_drags, old_hulls, old_motions, rub_at, rub_count, rub_pair, rubs, slide_at, window
from .flavour import vecr
from .hull_adjoint import HullBar, add_point_bar, hull_bar_adjoint
from .materials import mixed_friction, mixed_friction_adjoint
from .potential import distance_law, is_half_space, strength
from .rows import Rows


@wp.struct
class RubBar:
    """Cotangents of friction at a point."""

    place: vec3
    n: vec3  # of the unit normal
    force: real
    friction: real
    slip: real


@wp.func
def rub_adjoint(g: Shapes, s: Workspace, r: Rows, pair: int, rub: Rub, friction: real, slip: real, slot: int):
    """Of one point; forces on bodies that z and y are paired with are added to s.X_bar and r.drag."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    y = slide_at(g, r, r.drift, pair, rub.place, slot)
    z = slide_at(g, r, s.X, pair, rub.place, slot)
    ny = wp.dot(rub.n, y)
    nz = wp.dot(rub.n, z)
    Ty = y - ny * rub.n
    Tz = z - nz * rub.n
    root = wp.sqrt(wp.dot(Ty, Ty) + slip * slip)
    both = wp.dot(Ty, Tz) / root
    c = friction * rub.force / root
    y_bar = -c * (Tz - (both / root) * Ty)
    z_bar = -c * Ty
    rub_pair(g, r, r.drag, pair, rub.place, y_bar, slot)
    rub_pair(g, r, s.X_bar, pair, rub.place, z_bar, slot)
    bar = RubBar()
    turn_y = ang(r.drift[body2, slot]) - ang(r.drift[body1, slot])
    turn_z = ang(s.X[body2, slot]) - ang(s.X[body1, slot])
    bar.place = wp.cross(y_bar, turn_y) + wp.cross(z_bar, turn_z)
    bar.n = c * (nz * y + ny * z) - (c * both / root * ny) * y
    bar.force = -friction * both
    bar.friction = -rub.force * both
    bar.slip = c * both * slip / root
    return bar


@wp.func
def hull_drag_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, pair: int, h: HullPair, friction: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of two hulls: returns the cotangents of friction, slip speed, gap and length."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    gap = p.reach[world, 0][0]
    slip = p.slip[world, 0][0]
    plane = r.old_plane[pair, slot]
    n = normal_of(plane)
    m = wp.length(n)
    u = n / m
    o1 = r.old_o[g.body[i], slot]
    o2 = r.old_o[g.body[j], slot]
    own = vec4()  # of friction, slip speed, gap, length
    plane_bar = vec4()
    bar1 = HullBar()
    bar2 = HullBar()
    for k in range(point_count(h)):
        rub = rub_at(g, p, r, h, pair, k, world, slot)
        if rub.force > real(0.0):
            at, sign, radius, _weight = side_of(h, k)
            x = r.old_point[at, slot]
            a = margin_of(h, x, plane, m, sign, radius)
            bar = rub_adjoint(g, s, r, pair, rub, friction, slip, slot)
            _share, close = window(a / (m * gap))
            # force = weight · window(a / (m gap)), weight ~ m gap² / a²
            a_bar = bar.force * (real(-2.0) * rub.force / a + rub.weight * close / (m * gap))
            m_bar = bar.force * (rub.force / m - rub.weight * close * a / (m * m * gap))
            own += vec4(
                bar.friction,
                bar.slip,
                bar.force * (real(2.0) * rub.force / gap - rub.weight * close * a / (m * gap * gap)),
                real(0.0),
            )
            unit_bar = bar.n - (sign * radius) * bar.place
            n_bar = (unit_bar - wp.dot(u, unit_bar) * u) / m + m_bar * u
            plane_bar += vec4(n_bar[0], n_bar[1], n_bar[2], real(0.0))
            plane_bar += a_bar * margin_slope(h, x, u, sign, radius)
            x_bar = bar.place + (sign * a_bar) * n
            radius_bar = -sign * wp.dot(u, bar.place) - m * a_bar
            if sign > real(0.0):
                bar2 = add_point_bar(bar2, g, c, j, at, x - o2, x_bar, vec3(), slot)
                bar2.radius += radius_bar
            else:
                bar1 = add_point_bar(bar1, g, c, i, at, x - o1, x_bar, vec3(), slot)
                bar1.radius += radius_bar
    _gradient, Ppp = plane_curvature(h, r.old_point, plane, slot)
    C = cholesky44(Ppp)
    turn = -unwhiten(C, whiten(C, plane_bar))
    dn = normal_of(turn)
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        x = r.old_point[at, slot]
        a = margin_of(h, x, plane, m, sign, radius)
        psi = h.length * weight / (a * a)
        kappa = real(2.0) * psi / a
        da = wp.dot(margin_slope(h, x, u, sign, radius), turn)
        x_bar = sign * ((kappa * da) * n - psi * dn)
        radius_bar = psi * wp.dot(u, dn) - kappa * m * da
        own[3] = own[3] - weight / (a * a) * da
        if sign > real(0.0):
            bar2 = add_point_bar(bar2, g, c, j, at, x - o2, x_bar, vec3(), slot)
            bar2.radius += radius_bar
        else:
            bar1 = add_point_bar(bar1, g, c, i, at, x - o1, x_bar, vec3(), slot)
            bar1.radius += radius_bar
    hull_bar_adjoint(g, p, p_bar, s, c, i, bar1, real(-1.0), world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar2, real(-1.0), world, slot, wants_params)
    return own


@wp.func
def floor_drag_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, pair: int, h: HullPair, friction: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """The same with a plane."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    gap = p.reach[world, 0][0]
    n = normal_of(r.old_plane[pair, slot])
    o1 = r.old_o[g.body[i], slot]
    o2 = r.old_o[g.body[j], slot]
    mu = strength(g, p, pair, world) * real(4.0) / real(h.ahead_end - h.ahead)
    own = vec4()
    floor = HullBar()
    bar2 = HullBar()
    for k in range(h.ahead_end - h.ahead):
        rub = rub_at(g, p, r, h, pair, k, world, slot)
        if rub.force > real(0.0):
            x = r.old_point[h.ahead + k, slot]
            bar = rub_adjoint(g, s, r, pair, rub, friction, p.slip[world, 0][0], slot)
            distance = wp.dot(x - h.origin, n) - h.ahead_radius
            share, close = window(distance / gap)
            _value, _slope, curve = distance_law(distance, h.length)
            d_bar = bar.force * (rub.weight * close / gap - mu * curve * share)
            ratio = h.length / distance
            root = wp.sqrt(ratio)
            own += vec4(
                bar.friction,
                bar.slip,
                bar.force * (real(2.0) * rub.force / gap - rub.weight * close * distance / (gap * gap)),
                bar.force * rub.force / h.length * ((real(0.5) * root + ratio) / (root + ratio) - real(1.0)),
            )
            bar2 = add_point_bar(bar2, g, c, j, h.ahead + k, x - o2, bar.place + d_bar * n, vec3(), slot)
            bar2.radius -= wp.dot(n, bar.place) + d_bar
            n_bar = bar.n - h.ahead_radius * bar.place + d_bar * (x - h.origin)
            floor.force -= d_bar * n
            floor.moment += wp.cross(n, n_bar) - wp.cross(h.origin - o1, d_bar * n)
    hull_bar_adjoint(g, p, p_bar, s, c, i, floor, real(-1.0), world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar2, real(-1.0), world, slot, wants_params)
    return own


@wp.func
def drag_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds to X_bar and W of each body, sets S_bar; poses are those before the step. That of r.v is not added."""
    for d in range(m.nv):
        s.S_bar[d, slot] = vec6()
    if g.has_friction == 1:
        place_shapes(g, p, tree_poses(s), c, world, slot)
        old_motions(m, r, slot)
        for i in range(m.body_parent.shape[0]):
            r.drag[i, slot] = vec6()
        for pair in range(g.pair_first.shape[0]):
            if rubs(g, pair):
                h = old_hulls(g, p, r, pair, world, slot)
                total = real(0.0)
                for k in range(rub_count(g, h, pair)):
                    rub = rub_at(g, p, r, h, pair, k, world, slot)
                    total += rub.force
                if total > real(0.0):
                    own = vec4()
                    friction = mixed_friction(p, g, pair, world)[1]
                    if is_half_space(g, pair):
                        own = floor_drag_adjoint(g, p, p_bar, s, c, r, pair, h, friction, world, slot, wants_params)
                    else:
                        own = hull_drag_adjoint(g, p, p_bar, s, c, r, pair, h, friction, world, slot, wants_params)
                    if wants_params == 1:
                        friction_bar = vecr()
                        friction_bar[1] = own[0]
                        mixed_friction_adjoint(p, p_bar, g, pair, friction_bar, world)
                        slip_bar = p_bar.slip[world, 0]
                        slip_bar[0] = slip_bar[0] + own[1]
                        p_bar.slip[world, 0] = slip_bar
                        reach_bar = p_bar.reach[world, 0]
                        reach_bar[0] = reach_bar[0] + own[2]
                        reach_bar[1] = reach_bar[1] + own[3]
                        p_bar.reach[world, 0] = reach_bar
        gather_drags(m, r, slot)
        for d in range(m.nv):
            s.S_bar[d, slot] = r.v[d, slot] * r.drag[m.dof_body[d], slot]
