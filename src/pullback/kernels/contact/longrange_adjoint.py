"""Going back through a step that minimises E(v) of ``potential.py``.

With a = (v - v₀) / h the minimum is  M a + bias = tau - ∂(Σ μ P(q ⊕ h v)) / h,  forces that balance. With H the Hessian
of E by v and H w = a_bar, the backward pass is the gradient of the pairing w·(tau - ID(q, v₀, a)) + w·(contact forces),
a held fixed. The second part is -Σ μ (gradient of P by points)·(motion of points), the motion being that of the joint
velocities w: of poses where the step leads, which depend on where it starts, and by v = v₀ + h a on v₀.
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
from ..spatial.algebra import ang, exp_jacobian, quat_exp, quat_rotate, velocity_at
from ..spatial.scalar import real, vec4, vec6
from ..status import HEALTHY, NOT_CONVERGED
from ..tree.structs import BALL, Params, Tree, Workspace, read_vec3
from ..tree.sweeps import accelerations, inward_adjoint, outward, virtual_motions
from .drag import add_drag_curvature
from .flavour import TRIANGLES
from .hull_adjoint import HullBar, add_point_bar, hull_bar_adjoint
from .limits import limit_distance
from .mass_matrix import factorise, multiply_mass, solve_factored
from .potential import assemble, distance_law, hulls_of, is_half_space, limit_law, loss_law, strength
from .rows import Rows

if TRIANGLES:
    from .mesh_adjoint import mesh_pair_adjoint
    from .mesh_pair import is_mesh_pair

# How well the linear solve must balance, beside its right-hand side [1].
SOLVED = wp.constant(real(1e-7))


@wp.func
def hull_pair_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, pair: int, h: HullPair,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents of -μ Σ (gradient of P by x)·y, y being the motion of points under the bodies' motions X.

    Returns Σ (gradient)·y, and the cotangent of the length in it.
    """
    mu = strength(g, p, pair, world)
    if TRIANGLES:
        if is_mesh_pair(g, pair):
            return mesh_pair_adjoint(g, p, p_bar, s, c, r, pair, mu, world, slot, wants_params)
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    plane = r.plane[pair, slot]
    n = normal_of(plane)
    m = wp.length(n)
    u = n / m
    X1 = s.X[g.body[i], slot]
    X2 = s.X[g.body[j], slot]
    o1 = s.o[g.body[i], slot]
    o2 = s.o[g.body[j], slot]
    pull = vec4()  # P_px y
    along = real(0.0)
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
        along -= psi * towards
    _gradient, Ppp = plane_curvature(h, r.point, plane, slot)
    C = cholesky44(Ppp)
    turn = -unwhiten(C, whiten(C, pull))  # how the plane moves along
    dn = normal_of(turn)
    bar1 = HullBar()
    bar2 = HullBar()
    length_bar = real(0.0)
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
        gradient = (-sign * psi) * n
        x_bar = sign * ((kappa * da) * n - psi * dn) + wp.cross(gradient, ang(X))
        radius_bar = psi * wp.dot(u, dn) - kappa * m * da
        length_bar -= weight / (a * a) * da
        if sign > real(0.0):
            bar2 = add_point_bar(bar2, g, c, j, at, x - o, x_bar, gradient, slot)
            bar2.radius += radius_bar
        else:
            bar1 = add_point_bar(bar1, g, c, i, at, x - o, x_bar, gradient, slot)
            bar1.radius += radius_bar
    hull_bar_adjoint(g, p, p_bar, s, c, i, bar1, mu, world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar2, mu, world, slot, wants_params)
    return along, length_bar


@wp.func
def half_space_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, pair: int, h: HullPair,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """The same with a plane, which does not move."""
    mu = strength(g, p, pair, world)
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    n = normal_of(r.plane[pair, slot])
    X = s.X[g.body[j], slot]
    o = s.o[g.body[j], slot]
    weight = real(4.0) / real(h.ahead_end - h.ahead)
    floor = HullBar()
    bar = HullBar()
    along = real(0.0)
    length_bar = real(0.0)
    for k in range(h.ahead, h.ahead_end):
        x = r.point[k, slot]
        distance = wp.dot(x - h.origin, n) - h.ahead_radius
        _value, slope, curve = distance_law(distance, h.length)
        y = velocity_at(X, x - o)
        towards = wp.dot(n, y)
        gradient = (-weight * slope) * n
        along += wp.dot(gradient, y)
        stiff = (weight * curve * towards) * n
        bar = add_point_bar(bar, g, c, j, k, x - o, stiff + wp.cross(gradient, ang(X)), gradient, slot)
        bar.radius -= weight * curve * towards
        root = wp.sqrt(h.length / distance)
        length_bar -= weight * towards * (real(0.5) * root / (h.length * distance) + real(1.0) / (distance * distance))
        # moving the plane is moving all else the other way, the motions y too
        floor.force -= stiff
        floor.moment -= wp.cross(x - s.o[g.body[i], slot], stiff) + wp.cross(y, gradient)
    hull_bar_adjoint(g, p, p_bar, s, c, i, floor, mu, world, slot, wants_params)
    hull_bar_adjoint(g, p, p_bar, s, c, j, bar, mu, world, slot, wants_params)
    return along, length_bar


@wp.func
def pairs_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int, wants_params: int
):
    for pair in range(g.pair_first.shape[0]):
        h = hulls_of(g, p, r, pair, world, slot)
        along = real(0.0)
        length_bar = real(0.0)
        if is_half_space(g, pair):
            along, length_bar = half_space_adjoint(g, p, p_bar, s, c, r, pair, h, world, slot, wants_params)
        else:
            along, length_bar = hull_pair_adjoint(g, p, p_bar, s, c, r, pair, h, world, slot, wants_params)
        if wants_params == 1:
            mu = strength(g, p, pair, world)
            reach = p.reach[world, 0]
            bar = p_bar.reach[world, 0]
            bar[0] = bar[0] - real(2.0) * mu / reach[0] * along
            bar[1] = bar[1] - mu * (length_bar - along / reach[1])
            p_bar.reach[world, 0] = bar


@wp.func
def joints_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Limits and friction loss, with s.w the joint velocities: to s.q_bar, where the step leads, and parameters."""
    reach = p.reach[world, 0]
    for k in range(g.limit_joint.shape[0]):
        d = m.joint_v[g.limit_joint[k]]
        w = s.w[d, slot]
        for side in range(2):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            _value, slope, curve = limit_law(distance, reach[2], reach[3])
            s.q_bar[d, slot] = s.q_bar[d, slot] - w * curve
            if wants_params == 1:
                limit_bar = p_bar.limit[world, k]
                limit_bar[side] = limit_bar[side] + w * curve
                p_bar.limit[world, k] = limit_bar
                bar = p_bar.reach[world, 0]
                bar[2] = bar[2] + w * J[0] * curve * distance / reach[2]
                bar[3] = bar[3] - w * J[0] * slope / reach[3]
                p_bar.reach[world, 0] = bar
    if wants_params == 1:
        slip = p.slip[world, 0][1]
        for k in range(g.loss_dof.shape[0]):
            d = g.loss_dof[k]
            v = r.v[d, slot]
            root, slide, _bend = loss_law(v, slip)
            p_bar.loss[world, k] = p_bar.loss[world, k] - s.w[d, slot] * slide
            slip_bar = p_bar.slip[world, 0]
            slip_bar[1] = slip_bar[1] + s.w[d, slot] * p.loss[world, k] * v * slip / (root * root * root)
            p_bar.slip[world, 0] = slip_bar


@wp.func
def residual(m: Tree, r: Rows, x: wp.array2d(dtype=real), b: wp.array2d(dtype=real), slot: int):
    """The largest entry of H x - b beside the largest of b, with H as it was kept."""
    for d in range(m.nv):
        r.gradient[d, slot] = -b[d, slot]
    for d in range(m.nv):
        for e in range(d + 1):
            entry = r.kept_H[d * m.nv + e, slot]
            r.gradient[d, slot] = r.gradient[d, slot] + entry * x[e, slot]
            if e < d:
                r.gradient[e, slot] = r.gradient[e, slot] + entry * x[d, slot]
    largest = real(0.0)
    scale = real(0.0)
    for d in range(m.nv):
        largest = wp.max(largest, wp.abs(r.gradient[d, slot]))
        scale = wp.max(scale, wp.abs(b[d, slot]))
    return wp.where(scale > real(0.0), largest / scale, real(0.0))


@wp.func
def descend_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From s.a_bar: s.w with s.X and s.A, for the sweeps that follow; adds the contact forces' own cotangents.

    s.q_bar must be zero. Right after ``descend``; poses and velocities are those before the step again. Returns the
    status.
    """
    h = m.timestep
    for d in range(m.nv):
        s.w[d, slot] = s.a_bar[d, slot]
    assemble(m, g, p, s, c, r, world, slot)
    add_drag_curvature(m, g, p, r, world, slot)
    for d in range(m.nv):
        for e in range(d + 1):
            r.kept_H[d * m.nv + e, slot] = r.H[d * m.nv + e, slot]
    factorise(m, r, slot)
    solve_factored(m, r, s.w, slot)
    apart = residual(m, r, s.w, s.a_bar, slot)
    multiply_mass(m, r, s.w, r.gradient, slot)
    for d in range(m.nv):
        s.v_bar[d, slot] = s.v_bar[d, slot] + (r.gradient[d, slot] - s.a_bar[d, slot]) / h
        r.step[d, slot] = s.w[d, slot]
    for k in range(m.joint_type.shape[0]):
        if m.joint_type[k] == BALL:
            at = m.joint_v[k]
            x = exp_jacobian(h * read_vec3(r.v, at, slot), read_vec3(s.w, at, slot))
            for j in range(3):
                s.w[at + j, slot] = x[j]
    virtual_motions(m, s, slot)
    for i in range(m.body_parent.shape[0]):
        s.X_bar[i, slot] = vec6()
        s.V_bar[i, slot] = vec6()
        s.A_bar[i, slot] = vec6()
        s.W[i, slot] = vec6()
    pairs_adjoint(g, p, p_bar, s, c, r, world, slot, wants_params)
    inward_adjoint(m, p, p_bar, s, world, slot, 0, 0, wants_params)
    joints_adjoint(m, g, p, p_bar, s, r, world, slot, wants_params)
    for k in range(m.joint_type.shape[0]):
        if m.joint_type[k] == BALL:
            at = m.joint_v[k]
            before = quat_rotate(quat_exp(h * read_vec3(r.v, at, slot)), read_vec3(s.q_bar, at, slot))
            for j in range(3):
                s.q_bar[at + j, slot] = before[j]
    for i in range(m.nq):
        s.q[i, slot] = r.kept_q[i, slot]
    for d in range(m.nv):
        s.w[d, slot] = r.step[d, slot]
    outward(m, p, s, world, slot)
    virtual_motions(m, s, slot)
    accelerations(m, s, slot)
    status = int(HEALTHY)
    if not apart <= SOLVED:  # written so that a NaN counts too
        status = NOT_CONVERGED
    return status
