"""The potential of a configuration, with its gradient and Hessian by the velocities that lead there.

    E(v) = ½ (v - free)ᵀ M (v - free)  +  Σ μ P(q ⊕ h v)  +  limits(q ⊕ h v)  +  dissipation(v)

Bodies at q ⊕ h v are moved by δv as by the motions r.motion, about o: h S for a hinge or slide, h S Jr(h v) for a ball.
The Hessian has a part from the motion of points along them, one from the planes between shapes, and one from the
curvature of the paths of points, Σ (gradient by x)·∂²x: for d before e in the tree ∂²x = ω_d × (motion of e at x).

    letter  meaning
    P       potential of a pair of shapes; ``hull_pair``, and ``half_space`` below
    μ       its strength [J]: a body at rest hovers at about the gap that was asked for
"""

import warp as wp

from ..collision.hull_pair import (
    HullForce,
    HullPair,
    best_plane,
    cholesky44,
    gap_along,
    hull_curvature,
    hull_normal,
    hull_value,
    mat44,
    mat64,
    mat66,
    middle_along,
    normal_of,
    plane_curvature,
    whiten,
    wrench_at,
)
from ..collision.shapes import PLANE_SHAPE, Contacts, Shapes
from ..spatial.algebra import (
    ang,
    axis_z,
    exp_jacobian,
    left_jacobian_slope,
    lin,
    pack,
    quat_conj,
    quat_exp,
    quat_rotate,
)
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.advance import advance
from ..tree.structs import BALL, Params, Tree, Workspace, read_vec3
from ..tree.sweeps import outward
from .collide import place_shapes, tree_poses
from .flavour import TRIANGLES
from .limits import limit_distance
from .mass_matrix import multiply_mass, start_matrix
from .rows import Rows
from .shape_hulls import KEPT_SHARE, NOT_FAR, allowed_share, distance_law, hull_radius, hull_scale

if TRIANGLES:
    from .mesh_contact import add_mesh_curvature, is_mesh_pair, keep_poses, mesh_energy, mesh_gaps

# What weighs a kilogram, in files with and without gravity [m/s²].
STANDARD_GRAVITY = wp.constant(real(9.81))


# --- shapes as hulls --------------------------------------------------------------------------------


@wp.func
def strength(g: Shapes, p: Params, pair: int, world: int):
    """μ [J]"""
    gap = p.reach[world, 0][0]
    return g.pair_mass[pair] * STANDARD_GRAVITY * gap * gap / (real(2.0) * p.reach[world, 0][1])


@wp.func
def is_half_space(g: Shapes, pair: int):
    return g.kind[g.pair_first[pair]] == PLANE_SHAPE


@wp.func
def hulls_of(g: Shapes, p: Params, r: Rows, pair: int, world: int, slot: int):
    """The normal of a pair points from its first shape, behind, to its second, ahead."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    h = HullPair()
    h.ahead = g.first_point[j]
    h.ahead_end = g.first_point[j + 1]
    h.behind = g.first_point[i]
    h.behind_end = g.first_point[i + 1]
    h.ahead_radius = hull_radius(g.kind[j], p.shape_size[world, j])
    h.behind_radius = hull_radius(g.kind[i], p.shape_size[world, i])
    h.length = p.reach[world, 0][1]
    h.origin = r.origin[pair, slot]
    return h


# --- a half-space: n is its own, P = 4 Σ w (2 √(L/d) + L/d), d the distances of points ---------------


@wp.func
def half_space_gap(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, slot: int):
    low = real(1e30)
    for k in range(h.ahead, h.ahead_end):
        low = wp.min(low, wp.dot(points[k, slot] - h.origin, n) - h.ahead_radius)
    return low


@wp.func
def half_space_value(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, slot: int):
    """P and the force on the hull, as those of ``hull_value``."""
    ahead = HullForce()
    total = real(0.0)
    weight = real(4.0) / real(h.ahead_end - h.ahead)
    for k in range(h.ahead, h.ahead_end):
        x = points[k, slot] - h.origin
        value, slope, _curve = distance_law(wp.dot(x, n) - h.ahead_radius, h.length)
        total += weight * value
        ahead.total += weight * slope
        ahead.first += (weight * slope) * x
    return total, ahead


@wp.func
def half_space_curvature(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, o: vec3, slot: int):
    """P_xx, and Σ ψ and Σ ψ (x - o)."""
    K = mat66()
    f = HullForce()
    weight = real(4.0) / real(h.ahead_end - h.ahead)
    for k in range(h.ahead, h.ahead_end):
        x = points[k, slot]
        _value, slope, curve = distance_law(wp.dot(x - h.origin, n) - h.ahead_radius, h.length)
        N = wrench_at(x - o, n)
        K += wp.outer((weight * curve) * N, N)
        f.total += weight * slope
        f.first += (weight * slope) * (x - o)
    return K, f


# --- joint limits: κ b(s/gap), b(x) = (1 - x)³ / x up to the gap -------------------------------------


@wp.func
def limit_law(distance: real, gap: real, force: real):
    """A barrier with two continuous derivatives that pushes with ``force`` at half of the gap: value, slope, curve."""
    x = distance / gap
    value = real(0.0)
    slope = real(0.0)
    curve = real(0.0)
    if x < real(1.0):
        rest = real(1.0) - x
        value = real(0.5) * force * gap * rest * rest * rest / x
        slope = real(-0.5) * force * rest * rest * (real(1.0) + real(2.0) * x) / (x * x)
        curve = force / gap * (real(1.0) / (x * x * x) - real(1.0))
    return value, slope, curve


# --- where everything is at q ⊕ h v ------------------------------------------------------------------


@wp.func
def place_everything(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Bodies, shapes, points and motions at r.kept_q ⊕ h r.v."""
    advance(m, s, r.kept_q, r.v, 0, m.timestep, slot)
    outward(m, p, s, world, slot)
    place_shapes(g, p, tree_poses(s), c, world, slot)
    for i in range(g.kind.shape[0]):
        scale = hull_scale(g.kind[i], p.shape_size[world, i])
        for k in range(g.first_point[i], g.first_point[i + 1]):
            r.point[k, slot] = c.x[i, slot] + c.R[i, slot] * wp.cw_mul(g.point[k], scale)
    h = m.timestep
    for k in range(m.joint_type.shape[0]):
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            phi = h * read_vec3(r.v, d, slot)
            for j in range(3):
                unit = vec3()
                unit[j] = h
                x = exp_jacobian(phi, unit)
                r.motion[d + j, slot] = x[0] * s.S[d, slot] + x[1] * s.S[d + 1, slot] + x[2] * s.S[d + 2, slot]
        else:
            r.motion[d, slot] = h * s.S[d, slot]


@wp.func
def find_gap(g: Shapes, p: Params, c: Contacts, r: Rows, pair: int, first: int, world: int, slot: int):
    """A direction along which two shapes are apart, and by how much: searched for at ``first``, then the best of those
    that were kept in the world's frame and in those of the two shapes. Where these leave too little, as between edges
    that turn, it is searched for again, not far from them: what passed through each other is apart the other way.
    """
    i = g.pair_first[pair]
    n = axis_z(c.R[i, slot])
    gap = real(0.0)
    r.origin[pair, slot] = c.x[i, slot]
    h = hulls_of(g, p, r, pair, world, slot)
    if is_half_space(g, pair):
        gap = half_space_gap(h, r.point, n, slot)
    elif first == 1:
        n, gap = hull_normal(h, r.point, slot)
    else:
        gap = real(-1e30)
        for k in range(3):
            trial = r.normal[pair, slot]
            if k == 1:
                trial = c.R[i, slot] * r.normal1[pair, slot]
            if k == 2:
                trial = c.R[g.pair_second[pair], slot] * r.normal2[pair, slot]
            apart, _offset = gap_along(h, r.point, trial, slot)
            if apart > gap:
                gap = apart
                n = trial
        if not gap >= KEPT_SHARE * r.gap[pair, slot]:
            other, apart = hull_normal(h, r.point, slot)
            if apart > gap and wp.dot(other, n) > NOT_FAR:
                gap = apart
                n = other
    if not is_half_space(g, pair):
        r.origin[pair, slot] = middle_along(h, r.point, n, slot)
    return n, gap


@wp.func
def find_gaps(
    m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, first: int, world: int, slot: int
):  # fmt: skip
    """How much of the last move is safe: 1 if all is. At ``first`` 0, or less the number of what overlaps, less 1."""
    share = real(1.0)
    if TRIANGLES:
        share = mesh_gaps(g, p, c, r, first, world, slot)
    for pair in range(g.pair_first.shape[0]):
        if TRIANGLES:
            if is_mesh_pair(g, pair):
                continue
        n, gap = find_gap(g, p, c, r, pair, first, world, slot)
        r.trial_normal[pair, slot] = n
        r.trial_gap[pair, slot] = gap
        if first == 1:
            if not gap > real(0.0) and share > real(0.0):
                share = real(-1 - pair)
        else:
            share = wp.min(share, allowed_share(gap, r.gap[pair, slot]))
    for k in range(g.limit_joint.shape[0]):
        for side in range(2):
            distance, _J = limit_distance(m, g, p, s, k, side, world, slot)
            if first == 1:
                if not distance > real(0.0) and share > real(0.0):
                    share = real(-1 - g.pair_first.shape[0] - k)
            else:
                share = wp.min(share, allowed_share(distance, r.room[2 * k + side, slot]))
    return share


@wp.func
def keep_gaps(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """From now on the solver's moves are measured against where it is."""
    if TRIANGLES:
        keep_poses(g, c, r, slot)
    for pair in range(g.pair_first.shape[0]):
        if TRIANGLES:
            if is_mesh_pair(g, pair):
                continue
        n = r.trial_normal[pair, slot]
        if not is_half_space(g, pair):
            n = wp.normalize(normal_of(r.plane[pair, slot]))
        h = hulls_of(g, p, r, pair, world, slot)
        gap = r.trial_gap[pair, slot]
        if not is_half_space(g, pair):
            gap, _offset = gap_along(h, r.point, n, slot)
        r.gap[pair, slot] = gap
        r.normal[pair, slot] = n
        r.normal1[pair, slot] = wp.transpose(c.R[g.pair_first[pair], slot]) * n
        r.normal2[pair, slot] = wp.transpose(c.R[g.pair_second[pair], slot]) * n
    for k in range(g.limit_joint.shape[0]):
        for side in range(2):
            distance, _J = limit_distance(m, g, p, s, k, side, world, slot)
            r.room[2 * k + side, slot] = distance


# --- energy and gradient -----------------------------------------------------------------------------


@wp.func
def add_push(r: Rows, body: int, f: HullForce, origin: vec3, o: vec3, n: vec3, scale: real, slot: int):
    """Adds the gradient ``scale`` ψ n of the points of a hull to that of its body."""
    x = f.first + f.total * (origin - o)
    r.push[body, slot] = r.push[body, slot] + pack(scale * wp.cross(x, n), (scale * f.total) * n)


@wp.func
def pair_energy(g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, pair: int, world: int, slot: int):
    """μ P of a pair, its plane in r.plane, its gradient added to the bodies'; and 1 if the plane was found."""
    h = hulls_of(g, p, r, pair, world, slot)
    mu = r.boost[0, slot] * strength(g, p, pair, world)
    if TRIANGLES:
        if is_mesh_pair(g, pair):
            return mesh_energy(g, p, s, c, r, pair, mu, world, slot)
    n = r.trial_normal[pair, slot]
    body2 = g.body[g.pair_second[pair]]
    value = real(0.0)
    found = int(1)
    if is_half_space(g, pair):
        r.plane[pair, slot] = vec4(n[0], n[1], n[2], real(0.0))
        P, push = half_space_value(h, r.point, n, slot)
        value = mu * P
        add_push(r, body2, push, h.origin, s.o[body2, slot], n, -mu, slot)
    else:
        plane, ok = best_plane(h, r.point, n, slot)
        found = ok
        r.plane[pair, slot] = plane
        P_hulls, ahead, behind = hull_value(h, r.point, plane, slot)
        value = mu * P_hulls
        body1 = g.body[g.pair_first[pair]]
        normal = normal_of(plane)
        add_push(r, body2, ahead, h.origin, s.o[body2, slot], normal, -mu, slot)
        add_push(r, body1, behind, h.origin, s.o[body1, slot], normal, mu, slot)
    return value, found


@wp.func
def loss_law(v: real, slip: real):
    """√(v² + slip²) and its first two derivatives."""
    root = wp.sqrt(v * v + slip * slip)
    return root, v / root, slip * slip / (root * root * root)


@wp.func
def gather_pushes(m: Tree, r: Rows, slot: int):
    """r.push of each body and all that it carries."""
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        parent = m.body_parent[i]
        if parent > 0 and m.body_is_root[i] == 0:
            r.push[parent, slot] = r.push[parent, slot] + r.push[i, slot]


@wp.func
def energy(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """E and r.gradient at r.v, after ``place_everything`` and ``find_gaps``; and 1 if all planes were found.

    r.push are left as those of each body and all that it carries.
    """
    for i in range(m.body_parent.shape[0]):
        r.push[i, slot] = vec6()
    value = real(0.0)
    found = int(1)
    for pair in range(g.pair_first.shape[0]):
        one, ok = pair_energy(g, p, s, c, r, pair, world, slot)
        value += one
        found = wp.min(found, ok)
    gather_pushes(m, r, slot)
    for d in range(m.nv):
        r.w[d, slot] = r.v[d, slot] - r.free[d, slot]
    multiply_mass(m, r, r.w, r.gradient, slot)
    for d in range(m.nv):
        value += real(0.5) * r.w[d, slot] * r.gradient[d, slot]
        push = wp.dot(r.motion[d, slot], r.push[m.dof_body[d], slot])
        r.scale[d, slot] = wp.abs(r.gradient[d, slot]) + wp.abs(push)
        r.gradient[d, slot] = r.gradient[d, slot] + push
    reach = p.reach[world, 0]
    for k in range(g.limit_joint.shape[0]):
        d = m.joint_v[g.limit_joint[k]]
        for side in range(2):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            U, slope, _curve = limit_law(distance, reach[2], reach[3])
            value += U
            r.gradient[d, slot] = r.gradient[d, slot] + m.timestep * slope * J[0]
            r.scale[d, slot] = r.scale[d, slot] + m.timestep * wp.abs(slope)
    for k in range(g.loss_dof.shape[0]):
        d = g.loss_dof[k]
        loss = m.timestep * p.loss[world, k]
        root, slide, _bend = loss_law(r.v[d, slot], p.slip[world, 0][1])
        value += loss * root
        r.gradient[d, slot] = r.gradient[d, slot] + loss * slide
    return value, found


# --- curvature ----------------------------------------------------------------------------------------


@wp.func
def path_moment(motion: vec6, f: HullForce, n: vec3, sign: real):
    """Σ (motion at x) × (gradient by x), the gradient being -σ ψ n: its product with ω_d is that with ∂²x."""
    turn = ang(motion)
    return -sign * (f.total * wp.cross(lin(motion), n) + wp.dot(n, turn) * f.first - wp.dot(n, f.first) * turn)


@wp.func
def add_side(
    m: Tree, r: Rows, body: int, K: mat66, B: mat64, C: mat44, f: HullForce, n: vec3, sign: real,
    count: int, slot: int,
):  # fmt: skip
    """The degrees of freedom of a body join those that move a pair's shapes. Returns how many there are now."""
    last = int(count)
    for d in range(m.body_dof[body], m.body_dof[body + 1]):
        motion = r.motion[d, slot]
        r.link[last, slot] = d
        r.link_side[last, slot] = sign
        r.link_push[last, slot] = K * motion
        r.link_white[last, slot] = whiten(C, wp.transpose(B) * motion)
        r.link_moment[last, slot] = path_moment(motion, f, n, sign)
        last += 1
    return last


@wp.func
def add_pair_curvature(m: Tree, g: Shapes, p: Params, s: Workspace, r: Rows, pair: int, world: int, slot: int):
    """Adds to r.H the Hessian of a pair by the degrees of freedom that move its shapes against each other."""
    h = hulls_of(g, p, r, pair, world, slot)
    mu = r.boost[0, slot] * strength(g, p, pair, world)
    if TRIANGLES:
        if is_mesh_pair(g, pair):
            add_mesh_curvature(m, g, s, r, pair, mu, slot)
            return
    plane = r.plane[pair, slot]
    n = normal_of(plane)
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    K1 = mat66()
    B1 = mat64()
    f1 = HullForce()
    K2 = mat66()
    B2 = mat64()
    f2 = HullForce()
    C = mat44()
    if is_half_space(g, pair):
        C = wp.identity(4, real)
        K2, f2 = half_space_curvature(h, r.point, n, s.o[body2, slot], slot)
    else:
        _gradient, Ppp = plane_curvature(h, r.point, plane, slot)
        C = cholesky44(Ppp)
        K1, B1, f1 = hull_curvature(h, r.point, plane, real(-1.0), s.o[body1, slot], slot)
        K2, B2, f2 = hull_curvature(h, r.point, plane, real(1.0), s.o[body2, slot], slot)
    count = int(0)
    while body1 != body2:
        if body2 > body1:
            count = add_side(m, r, body2, K2, B2, C, f2, n, real(1.0), count, slot)
            body2 = m.body_parent[body2]
        else:
            count = add_side(m, r, body1, K1, B1, C, f1, n, real(-1.0), count, slot)
            body1 = m.body_parent[body1]
    for a in range(count):
        for b in range(a + 1):
            total = -wp.dot(r.link_white[a, slot], r.link_white[b, slot])
            inner = int(a)  # the one that carries the other
            outer = int(b)
            if r.link[a, slot] > r.link[b, slot]:
                inner = b
                outer = a
            d = r.link[inner, slot]
            if r.link_side[a, slot] == r.link_side[b, slot]:
                total += wp.dot(r.motion[d, slot], r.link_push[outer, slot])
                total += wp.dot(ang(r.motion[d, slot]), r.link_moment[outer, slot])
            at = r.link[outer, slot] * m.nv + d
            r.H[at, slot] = r.H[at, slot] + mu * total


@wp.func
def add_ball_curvature(m: Tree, s: Workspace, r: Rows, slot: int):
    """Adds to r.H what the rotation vector of a ball joint adds to the curvature of paths."""
    h = m.timestep
    for k in range(m.joint_type.shape[0]):
        if m.joint_type[k] == BALL:
            first = m.joint_v[k]
            phi = h * read_vec3(r.v, first, slot)
            back = quat_conj(quat_exp(phi))
            push = r.push[m.dof_body[first], slot]
            lever = vec3(
                wp.dot(push, s.S[first, slot]), wp.dot(push, s.S[first + 1, slot]), wp.dot(push, s.S[first + 2, slot])
            )
            for i in range(3):
                for j in range(i + 1):
                    unit_i = vec3()
                    unit_j = vec3()
                    unit_i[i] = h
                    unit_j[j] = h
                    slope = quat_rotate(back, left_jacobian_slope(phi, unit_j, unit_i))
                    at = (first + i) * m.nv + first + j
                    r.H[at, slot] = r.H[at, slot] + wp.dot(lever, slope)


@wp.func
def add_joint_curvatures(m: Tree, g: Shapes, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """The same of joint limits and friction loss."""
    reach = p.reach[world, 0]
    for k in range(g.limit_joint.shape[0]):
        d = m.joint_v[g.limit_joint[k]]
        at = d * m.nv + d
        for side in range(2):
            distance, _J = limit_distance(m, g, p, s, k, side, world, slot)
            _U, _slope, curve = limit_law(distance, reach[2], reach[3])
            r.H[at, slot] = r.H[at, slot] + m.timestep * m.timestep * curve
    for k in range(g.loss_dof.shape[0]):
        d = g.loss_dof[k]
        at = d * m.nv + d
        _root, _slide, bend = loss_law(r.v[d, slot], p.slip[world, 0][1])
        r.H[at, slot] = r.H[at, slot] + m.timestep * p.loss[world, k] * bend


@wp.func
def assemble(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """r.H, the Hessian of E but for friction, after ``energy``."""
    start_matrix(m, r, slot)
    for pair in range(g.pair_first.shape[0]):
        add_pair_curvature(m, g, p, s, r, pair, world, slot)
    add_ball_curvature(m, s, r, slot)
    add_joint_curvatures(m, g, p, s, r, world, slot)
