"""Long range in the backward pass alone: what ``Far`` adds to the cotangents of a step.

The force from afar, F(q) = -∂U/∂q with U = Σ μ P, is not in the steps. The backward pass is that of steps to which
F(q) - F(q₀) is applied along the degrees of freedom, at q₀ = q: a force that is zero and has the derivative of F. With
the cotangent tau_bar of joint forces it adds that of the pairing tau_bar·F(q), which is -Σ μ (gradient of P by points)·
(motion of points under the joint velocities tau_bar), to the cotangents of q and of what places shapes.

P is that of ``soft_hulls`` between cores: shapes whose surface is moved inwards, so that cores of shapes that touch are
apart, and what P does where these are in each other too is bounded. With a plane it is the law of ``half_space_value``,
4 Σ w (2 √(L/y) + L/y), y = ½ (distance + √(distance² + 4 s²)).
"""

import warp as wp

from ..collision.hull_pair import cholesky44, normal_of, unwhiten, whiten
from ..collision.shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID_SHAPE, PLANE_SHAPE, SPHERE, Contacts, Shapes
from ..collision.soft_hulls import (
    Core,
    blunt,
    core_margin,
    core_margin_slope,
    core_point,
    soft_curvature,
    soft_inverse,
    soft_plane,
)
from ..spatial.algebra import ang, axis_z, velocity_at
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import inward_adjoint, virtual_motions
from .hull_adjoint import HullBar, add_point_bar, hull_bar_adjoint
from .potential import distance_law

# Softness against how far the surfaces of two shapes are moved inwards together, and against the length at least. [1]
SOFT_SHARE = wp.constant(real(0.125))
LEAST_SOFT = wp.constant(real(0.01))


@wp.func
def core_scale(kind: int, size: vec3, inset: real):
    """What the points of a shape are multiplied with, axis by axis."""
    scale = vec3(real(1.0), real(1.0), real(1.0))
    if kind == BOX or kind == ELLIPSOID_SHAPE:
        scale = vec3(size[0] - inset, size[1] - inset, size[2] - inset)
    elif kind == CAPSULE:
        scale = vec3(size[0], size[0], size[1])
    elif kind == CYLINDER:
        scale = vec3(size[0] - inset, size[0] - inset, size[1] - inset)
    return scale


@wp.func
def core_of(g: Shapes, p: Params, c: Contacts, i: int, origin: vec3, sign: real, world: int, slot: int):
    kind = g.kind[i]
    size = p.shape_size[world, i]
    core = Core()
    core.x = c.x[i, slot] - origin
    core.E = c.R[i, slot] * wp.diag(core_scale(kind, size, g.far_inset[i]))
    core.first = g.first_point[i]
    core.end = g.first_point[i + 1]
    if kind == SPHERE or kind == CAPSULE:
        core.radius = wp.max(size[0] - g.far_inset[i], real(0.0))
    core.sign = sign
    return core


@wp.func
def softness(g: Shapes, pair: int):
    """s [m]"""
    inset = g.far_inset[g.pair_first[pair]] + g.far_inset[g.pair_second[pair]]
    return wp.max(SOFT_SHARE * inset, LEAST_SOFT * g.far_length)


@wp.func
def core_pull(core: Core, points: wp.array(dtype=vec3), plane: vec4, X: vec6, o: vec3, soft: real):
    """P_px y over the length, y being the motion of the core's points under X, about o."""
    n = normal_of(plane)
    rho, root = blunt(n)
    pull = vec4()
    for k in range(core.first, core.end):
        x = core_point(core, points, k)
        _b, slope, curve = soft_inverse(core_margin(core, x, plane, rho), soft)
        y = velocity_at(X, x - o)
        pull += (curve * core.sign * wp.dot(n, y)) * core_margin_slope(core, x, n / root)
        pull += (slope * core.sign) * vec4(y[0], y[1], y[2], real(0.0))
    return pull / real(core.end - core.first)


@wp.func
def core_bar(
    g: Shapes, c: Contacts, i: int, core: Core, plane: vec4, turn: vec4, X: vec6, o: vec3, soft: real, slot: int
):
    """Cotangents of Σ (gradient of P by x)·y of the core of shape i over the length, the plane moving by ``turn``."""
    n = normal_of(plane)
    rho, root = blunt(n)
    u = n / root
    dn = normal_of(turn)
    weight = real(1.0) / real(core.end - core.first)
    bar = HullBar()
    for k in range(core.first, core.end):
        x = core_point(core, g.point, k)
        _b, slope, curve = soft_inverse(core_margin(core, x, plane, rho), soft)
        psi = -weight * slope
        kappa = weight * curve
        da = core.sign * wp.dot(n, velocity_at(X, x - o)) + wp.dot(core_margin_slope(core, x, u), turn)
        gradient = (-core.sign * psi) * n
        x_bar = core.sign * ((kappa * da) * n - psi * dn) + wp.cross(gradient, ang(X))
        bar = add_point_bar(bar, g, c, i, k, x - o, x_bar, gradient, slot)
        if core.radius > real(0.0):
            bar.radius += psi * wp.dot(u, dn) - kappa * rho * da
    return bar


@wp.func
def core_pair_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, pair: int, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of -μ Σ (gradient of P by x)·y, y being the motion of points under the bodies' motions X."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    origin = real(0.5) * (c.x[i, slot] + c.x[j, slot])
    one = core_of(g, p, c, i, origin, real(-1.0), world, slot)
    two = core_of(g, p, c, j, origin, real(1.0), world, slot)
    soft = softness(g, pair)
    plane = soft_plane(one, two, g.point, g.far_length, soft)
    X1 = s.X[g.body[i], slot]
    X2 = s.X[g.body[j], slot]
    o1 = s.o[g.body[i], slot] - origin
    o2 = s.o[g.body[j], slot] - origin
    pull = core_pull(one, g.point, plane, X1, o1, soft) + core_pull(two, g.point, plane, X2, o2, soft)
    _gradient, Ppp = soft_curvature(one, two, g.point, plane, g.far_length, soft)
    C = cholesky44(Ppp)
    turn = -g.far_length * unwhiten(C, whiten(C, pull))  # how the plane moves along
    mu = g.far_length * g.far_strength[pair]
    bar1 = core_bar(g, c, i, one, plane, turn, X1, o1, soft, slot)
    hull_bar_adjoint(g, p, p_bar, s, c, i, bar1, mu, world, slot, wants_params)
    bar2 = core_bar(g, c, j, two, plane, turn, X2, o2, soft, slot)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar2, mu, world, slot, wants_params)


@wp.func
def soft_distance_law(distance: real, length: real, soft: real):
    """Minus the first and the second derivative of 2 √(L/y) + L/y by the distance."""
    root = wp.sqrt(distance * distance + real(4.0) * soft * soft)
    y = real(0.5) * (root + distance)
    if distance < real(0.0):
        y = real(2.0) * soft * soft / (root - distance)
    _value, slope, curve = distance_law(y, length)
    dy = y / root
    return slope * dy, curve * dy * dy - slope * real(2.0) * soft * soft / (root * root * root)


@wp.func
def plane_pair_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, pair: int, world: int, slot: int, wants_params: int
):
    """The same with a half-space, which does not move."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    n = axis_z(c.R[i, slot])
    core = core_of(g, p, c, j, c.x[i, slot], real(1.0), world, slot)
    soft = softness(g, pair)
    X = s.X[g.body[j], slot]
    o = s.o[g.body[j], slot] - c.x[i, slot]
    floor_o = s.o[g.body[i], slot] - c.x[i, slot]
    weight = real(4.0) / real(core.end - core.first)
    mu = g.far_strength[pair]
    floor = HullBar()
    bar = HullBar()
    for k in range(core.first, core.end):
        x = core_point(core, g.point, k)
        slope, curve = soft_distance_law(wp.dot(x, n) - core.radius, g.far_length, soft)
        y = velocity_at(X, x - o)
        gradient = (-weight * slope) * n
        stiff = (weight * curve * wp.dot(n, y)) * n
        bar = add_point_bar(bar, g, c, j, k, x - o, stiff + wp.cross(gradient, ang(X)), gradient, slot)
        if core.radius > real(0.0):
            bar.radius -= weight * curve * wp.dot(n, y)
        # moving the half-space is moving all else the other way, the motions y too
        floor.force -= stiff
        floor.moment -= wp.cross(x - floor_o, stiff) + wp.cross(y, gradient)
    hull_bar_adjoint(g, p, p_bar, s, c, i, floor, mu, world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar, mu, world, slot, wants_params)


@wp.func
def far_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of s.tau_bar·F: to s.q_bar, and to parameters that place bodies and shapes.

    Bodies and shapes are where F is taken. s.w is overwritten.
    """
    for d in range(m.nv):
        s.w[d, slot] = s.tau_bar[d, slot]
    virtual_motions(m, s, slot)
    for i in range(m.body_parent.shape[0]):
        s.X_bar[i, slot] = vec6()
        s.V_bar[i, slot] = vec6()
        s.A_bar[i, slot] = vec6()
        s.W[i, slot] = vec6()
    for pair in range(g.pair_first.shape[0]):
        if g.kind[g.pair_first[pair]] == PLANE_SHAPE:
            plane_pair_adjoint(g, p, p_bar, s, c, pair, world, slot, wants_params)
        else:
            core_pair_adjoint(g, p, p_bar, s, c, pair, world, slot, wants_params)
    inward_adjoint(m, p, p_bar, s, world, slot, 0, 0, wants_params)
