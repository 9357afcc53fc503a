"""Going back through the potential of a pair with meshes of triangles: the cotangents of its derivative along a motion.

Those of poses follow from the Hessian by motions of shape 2. Those of the length, and of the sizes of a shape that is
no mesh, take a walk of their own: they move hulls, and the radius of a ball, by which nodes are blended.
"""

import warp as wp

from ..collision.hull_pair import (
    OWN_WEIGHT,
    best_plane,
    cholesky44,
    hull_normal,
    margin_of,
    margin_slope,
    middle_along,
    normal_of,
    own_term,
    plane_curvature,
    point_count,
    side_of,
    unwhiten,
    whiten,
)
from ..collision.shapes import CAPSULE, SPHERE, Contacts, Shapes
from ..spatial.algebra import ang, lin, velocity_at
from ..spatial.scalar import real, vec3, vec4
from ..tree.structs import Params, Workspace
from .hull_adjoint import HullBar, hull_bar_adjoint
from .mesh_contact import opposite_at, path_moment_of
from .mesh_pair import (
    BLEND_ENDS,
    WHOLE,
    ball_at,
    blend_of,
    far_law,
    growth_law,
    is_leaf_pair,
    leaf_hulls,
    leaf_weight,
    near_share,
    onset_of,
    start_walk,
    visit_children,
)
from .potential_fields import vec5
from .rows import Rows
from .shape_hulls import about, hull_scale


@wp.struct
class Slope:
    """P of two nodes, its derivative along a motion, and those of both by parameters."""

    value: real
    slope: real
    value_by: vec5
    slope_by: vec5


@wp.func
def add_scales(by: vec5, scales: vec3):
    return by + vec5(real(0.0), real(0.0), scales[0], scales[1], scales[2])


@wp.func
def far_law_by_length(r: real, spread: real, length: real):
    """The derivatives of far, and of its first derivative, by the length."""
    rho = wp.sqrt(r * r + spread)
    x = length / rho
    root = wp.sqrt(x)
    return OWN_WEIGHT * (root + x) / length, -OWN_WEIGHT * (real(0.5) * root + x) / (length * rho) * (r / rho)


@wp.func
def whole_radius_by(g: Shapes, p: Params, i: int, world: int):
    """The derivatives of ``whole_radius``."""
    by = vec5()
    if g.kind[i] == SPHERE or g.kind[i] == CAPSULE:
        by[1] = real(1.0)
    if g.first_point[i + 1] > g.first_point[i] + 1:
        local = g.point[g.first_point[i]]
        scaled = wp.cw_mul(local, hull_scale(g.kind[i], p.shape_size[world, i]))
        by = add_scales(by, wp.cw_mul(local, scaled) / wp.length(scaled))
    return by


@wp.func(inline=False)
def leaf_slope(
    g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, pair: int, nodes: wp.vec2i, world: int, slot: int
):
    """Of two leaves, under the motions s.X of their bodies."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    X1 = s.X[g.body[i], slot]
    X2 = s.X[g.body[j], slot]
    o1 = s.o[g.body[i], slot]
    o2 = s.o[g.body[j], slot]
    h = leaf_hulls(g, p, r, pair, nodes, c.x[i, slot], c.R[i, slot], c.x[j, slot], c.R[j, slot], world, slot)
    normal, _gap = hull_normal(h, r.point, slot)
    h.origin = middle_along(h, r.point, normal, slot)
    plane, _found = best_plane(h, r.point, normal, slot)
    n = normal_of(plane)
    m = wp.length(n)
    u = n / m
    one = Slope()
    one.value = own_term(m) - OWN_WEIGHT
    pull = vec4()  # P_px y
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        x = r.point[at, slot]
        a = margin_of(h, x, plane, m, sign, radius)
        psi = h.length * weight / (a * a)
        y = velocity_at(X1, x - o1)
        if sign > real(0.0):
            y = velocity_at(X2, x - o2)
        towards = sign * wp.dot(n, y)
        pull += (real(2.0) * psi / a * towards) * margin_slope(h, x, u, sign, radius)
        pull -= (sign * psi) * vec4(y[0], y[1], y[2], real(0.0))
        one.value += h.length * weight / a
        one.slope -= psi * towards
    _gradient, Ppp = plane_curvature(h, r.point, plane, slot)
    C = cholesky44(Ppp)
    turn = -unwhiten(C, whiten(C, pull))  # how the plane moves along
    dn = normal_of(turn)
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        x = r.point[at, slot]
        a = margin_of(h, x, plane, m, sign, radius)
        psi = h.length * weight / (a * a)
        kappa = real(2.0) * psi / a
        X = X1
        o = o1
        if sign > real(0.0):
            X = X2
            o = o2
        da = sign * wp.dot(n, velocity_at(X, x - o)) + wp.dot(margin_slope(h, x, u, sign, radius), turn)
        one.value_by[0] = one.value_by[0] + weight / a
        one.slope_by[0] = one.slope_by[0] - weight / (a * a) * da
        if sign < real(0.0) and nodes[0] == WHOLE:
            gradient = psi * n
            x_bar = psi * dn - (kappa * da) * n + wp.cross(gradient, ang(X))
            local = g.point[g.first_point[i] + at - h.behind]
            back = wp.transpose(c.R[i, slot])
            one.value_by = add_scales(one.value_by, wp.cw_mul(local, back * gradient))
            one.slope_by = add_scales(one.slope_by, wp.cw_mul(local, back * x_bar))
            one.value_by[1] = one.value_by[1] + psi * m
            one.slope_by[1] = one.slope_by[1] + psi * wp.dot(u, dn) - kappa * m * da
    onset, onset_by = onset_of(g, nodes, h.length)
    growth = growth_law(one.value, onset, leaf_weight(g, nodes), near_share(g, nodes))
    grown = Slope()
    grown.value = growth.value
    grown.slope = growth.slope * one.slope
    grown.value_by = growth.slope * one.value_by
    grown.slope_by = growth.slope * one.slope_by + (growth.curve * one.slope) * one.value_by
    grown.value_by[0] = grown.value_by[0] + growth.by_onset * onset_by
    grown.slope_by[0] = grown.slope_by[0] + growth.slope_by_onset * onset_by * one.slope
    return grown


@wp.func(inline=False)
def mesh_slope_by(g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, pair: int, world: int, slot: int):
    """The derivatives of that of P along the motions s.X, by the length, and by radius and sizes of shape 1."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    length = p.reach[world, 0][1]
    count = int(start_walk(g, r, pair, slot))
    at = int(0)
    r.blend_slope_by[0, slot] = vec5()
    while count > 0:
        count -= 1
        nodes = r.visits[count, slot]
        ends = nodes[0] == BLEND_ENDS
        if ends:
            nodes = r.blend_nodes[at, slot]
        a = ball_at(g, p, i, nodes[0], c.x[i, slot], c.R[i, slot], world)
        b = ball_at(g, p, j, nodes[1], c.x[j, slot], c.R[j, slot], world)
        blend = blend_of(a, b, g.balls.blend)
        one = Slope()
        adds = bool(True)
        if ends or blend.phi >= real(1.0):
            near = Slope()
            if ends:
                near.value = r.blend_value[at, slot]
                near.slope = r.blend_slope[at, slot]
                near.value_by = r.blend_value_by[at, slot]
                near.slope_by = r.blend_slope_by[at, slot]
                at -= 1
            y1 = velocity_at(s.X[g.body[i], slot], a.x - s.o[g.body[i], slot])
            y2 = velocity_at(s.X[g.body[j], slot], b.x - s.o[g.body[j], slot])
            dr = wp.dot(blend.way, y2 - y1)
            value, first, _second = far_law(blend.r, a.spread + b.spread, length)
            value_by, first_by = far_law_by_length(blend.r, a.spread + b.spread, length)
            far = Slope()
            far.value = blend.share * value
            far.slope = blend.share * first * dr
            far.value_by[0] = blend.share * value_by
            far.slope_by[0] = blend.share * first_by * dr
            phi = blend.phi
            rest = real(1.0) - phi
            dphi = blend.slope * dr
            phi_by = vec5()
            dphi_by = vec5()
            if nodes[0] == WHOLE:
                near_by = whole_radius_by(g, p, i, world) / (a.radius + b.radius)
                phi_by = (-blend.slope * blend.r) * near_by
                dphi_by = (-(blend.curve * blend.r + blend.slope) * dr) * near_by
            apart = far.value - near.value
            one.value = rest * near.value + phi * far.value
            one.slope = rest * near.slope + phi * far.slope + dphi * apart
            one.value_by = rest * near.value_by + phi * far.value_by + apart * phi_by
            one.slope_by = rest * near.slope_by + phi * far.slope_by + dphi * (far.value_by - near.value_by)
            one.slope_by += (far.slope - near.slope) * phi_by + apart * dphi_by
        else:
            if blend.phi > real(0.0):
                r.visits[count, slot] = wp.vec2i(BLEND_ENDS, 0)
                count += 1
                at += 1
                r.blend_nodes[at, slot] = nodes
                r.blend_value[at, slot] = real(0.0)
                r.blend_slope[at, slot] = real(0.0)
                r.blend_value_by[at, slot] = vec5()
                r.blend_slope_by[at, slot] = vec5()
            if is_leaf_pair(a, b):
                one = leaf_slope(g, p, s, c, r, pair, nodes, world, slot)
            else:
                count = visit_children(r, nodes, a, b, count, slot)
                adds = False
        if adds:
            r.blend_value[at, slot] = r.blend_value[at, slot] + one.value
            r.blend_slope[at, slot] = r.blend_slope[at, slot] + one.slope
            r.blend_value_by[at, slot] = r.blend_value_by[at, slot] + one.value_by
            r.blend_slope_by[at, slot] = r.blend_slope_by[at, slot] + one.slope_by
    return r.blend_slope_by[0, slot]


@wp.func
def mesh_pair_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, pair: int, mu: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """As ``hull_pair_adjoint``."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    o1 = s.o[g.body[i], slot]
    o = s.o[g.body[j], slot]
    push = r.mesh_push[pair, slot]
    lever = r.mesh_lever[pair, slot]
    X = s.X[g.body[j], slot] - about(s.X[g.body[i], slot], o1, o)
    bend = r.mesh_curvature[pair, slot] * X
    turn = ang(X)
    bar1 = HullBar()
    bar2 = HullBar()
    bar2.push = push
    bar2.moment = ang(bend) + lever * turn - wp.trace(lever) * turn
    bar2.force = lin(bend) + wp.cross(lin(push), turn)
    bar1.push = opposite_at(push, o, o1)
    bar1.force = -lin(bend)
    bar1.moment = wp.cross(o - o1, bar1.force) - ang(bend) - path_moment_of(X, lin(push), lever)
    length_bar = real(0.0)
    if wants_params == 1:
        by = mesh_slope_by(g, p, s, c, r, pair, world, slot)
        length_bar = by[0]
        bar1.radius = by[1]
        bar1.scale = vec3(by[2], by[3], by[4])
    hull_bar_adjoint(g, p, p_bar, s, c, i, bar1, mu, world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar2, mu, world, slot, wants_params)
    return wp.dot(push, X), length_bar
