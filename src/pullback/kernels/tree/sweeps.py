"""The four sweeps over the tree that every algorithm is made of.

    outward      poses, motion subspaces, velocities, inertias
    eliminate    articulated inertias and bias forces, inward (Featherstone's ABA, one pivot per degree of freedom)
    substitute   accelerations, outward
    inward_adjoint   the reverse of ``outward`` and of the acceleration recursion

In world axes a joint's effect is a sum: V = V_parent + Σ S v, A = A_parent + Σ S a + V_before × Σ S v. A joint's
subspace S is fixed to the body it belongs to (ball) or to the frame before it (hinge, slide); either way moving that
frame by d changes S by d × S, and the inertia of a body by d ×* I - I d ×. So the cotangent of a pose is a force W,
it is summed inward like a force, and the cotangent of a joint coordinate is S·W.
"""

import warp as wp

from ..spatial.algebra import (
    ang,
    cross_force,
    cross_motion,
    inertia_about_origin,
    inertia_matrix,
    inertia_mul,
    lin,
    moment_about,
    pack,
    quat_axis_angle,
    quat_conj,
    quat_matrix,
    quat_mul,
    quat_rotate,
    quat_vec,
    sym66_mul,
    sym66_outer,
    sym_outer,
    velocity_at,
)
from ..spatial.scalar import SMALLEST_INERTIA, SMALLEST_SHARE, real, sym66, vec3, vec4, vec6
from .structs import HINGE, SLIDE, Params, Tree, Workspace, com_from_o, dofs, read_quat


@wp.func
def outward(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Poses, subspaces S, velocities V, velocity-product accelerations c and inertias about o, from s.q and s.v."""
    s.pos[0, slot] = vec3()
    s.quat[0, slot] = vec4(real(1.0), real(0.0), real(0.0), real(0.0))
    s.R[0, slot] = wp.identity(3, real)
    s.V[0, slot] = vec6()
    s.A[0, slot] = vec6()
    s.o[0, slot] = vec3()
    for i in range(1, m.body_parent.shape[0]):
        parent = m.body_parent[i]
        pos = s.pos[parent, slot] + s.R[parent, slot] * p.body_pos[world, i]
        quat = quat_mul(s.quat[parent, slot], p.body_quat[world, i])
        first = m.body_joint[i]
        last = m.body_joint[i + 1]
        o = s.o[parent, slot]
        if m.body_is_root[i] == 1:
            # About where the body is now, so that nothing is lost when it is far from the world's origin.
            o = pos
            for k in range(first, last):
                if m.joint_type[k] == SLIDE:
                    o += quat_rotate(quat, p.joint_axis[world, k]) * (s.q[m.joint_q[k], slot] - m.joint_q0[k])
        V = s.V[parent, slot]
        c = vec6()
        for k in range(first, last):
            joint_type = m.joint_type[k]
            d = m.joint_v[k]
            qi = m.joint_q[k]
            motion = vec6()
            if joint_type == SLIDE:
                axis = quat_rotate(quat, p.joint_axis[world, k])
                S = pack(vec3(), axis)
                s.S[d, slot] = S
                motion = S * s.v[d, slot]
                pos += axis * (s.q[qi, slot] - m.joint_q0[k])
            elif joint_type == HINGE:
                local_axis = p.joint_axis[world, k]
                local_anchor = p.joint_pos[world, k]
                axis = quat_rotate(quat, local_axis)
                anchor = pos + quat_rotate(quat, local_anchor)
                S = pack(axis, wp.cross(anchor - o, axis))
                s.S[d, slot] = S
                motion = S * s.v[d, slot]
                turn = quat_axis_angle(local_axis, s.q[qi, slot] - m.joint_q0[k])
                s.turn[k, slot] = turn
                quat = quat_mul(quat, turn)
                pos = anchor - quat_rotate(quat, local_anchor)
            else:
                local_anchor = p.joint_pos[world, k]
                anchor = pos + quat_rotate(quat, local_anchor)
                turn = read_quat(s, qi, slot)
                s.turn[k, slot] = turn
                quat = quat_mul(quat, turn)
                R = quat_matrix(quat)
                for j in range(3):
                    axis = vec3(R[0, j], R[1, j], R[2, j])
                    S = pack(axis, wp.cross(anchor - o, axis))
                    s.S[d + j, slot] = S
                    motion += S * s.v[d + j, slot]
                pos = anchor - R * local_anchor
            c += cross_motion(V, motion)
            V += motion
        R = quat_matrix(quat)
        mass = p.mass[world, i]
        com = pos - o + R * p.com[world, i]
        s.o[i, slot] = o
        s.pos[i, slot] = pos
        s.quat[i, slot] = quat
        s.R[i, slot] = R
        s.V[i, slot] = V
        s.c[i, slot] = c
        s.h[i, slot] = mass * com
        s.J[i, slot] = inertia_about_origin(R, p.inertia[world, i], mass, com)


@wp.func
def gravity_acceleration(p: Params, world: int, i: int):
    """What gravity does to body i, less the share that is held up."""
    return pack(vec3(), p.gravity[world, 0] * (real(1.0) - p.gravcomp[world, i]))


@wp.func
def bias_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """pA of each body on its own: V ×* I V less its weight."""
    for i in range(1, m.body_parent.shape[0]):
        mass = p.mass[world, i]
        h = s.h[i, slot]
        J = s.J[i, slot]
        V = s.V[i, slot]
        weight = inertia_mul(mass, h, J, gravity_acceleration(p, world, i))
        s.pA[i, slot] = cross_force(V, inertia_mul(mass, h, J, V)) - weight


@wp.func(inline=True)
def gathered_inertia(m: Tree, p: Params, s: Workspace, i: int, world: int, slot: int):
    """Inertia of body i, with what its children passed on to it."""
    inertia = inertia_matrix(p.mass[world, i], s.h[i, slot], s.J[i, slot])
    if m.body_children[i] > 0:
        inertia += s.IA[i, slot]
    return inertia


@wp.func(inline=True)
def pass_inertia(m: Tree, s: Workspace, i: int, inertia: sym66, slot: int):
    """Adds to what the parent of body i gathers; the first child that comes by need not find a zero there."""
    parent = m.body_parent[i]
    if parent > 0:
        if m.body_is_last_child[i] == 1:
            s.IA[parent, slot] = inertia
        else:
            s.IA[parent, slot] = s.IA[parent, slot] + inertia


@wp.func
def eliminate(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Inward: U, 1/D and u of every degree of freedom. Returns the first one without inertia, or -1."""
    singular = int(-1)
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        IA = gathered_inertia(m, p, s, i, world, slot)
        pA = s.pA[i, slot] + sym66_mul(IA, s.c[i, slot])
        first = m.body_dof[i]
        count = m.body_dof[i + 1] - first
        whole = IA
        for j in range(count):
            d = first + count - 1 - j
            S = s.S[d, slot]
            U = sym66_mul(IA, S)
            D = wp.dot(S, U) + s.diagonal[d, slot]
            least = SMALLEST_INERTIA
            if count > 1:
                least = wp.max(least, SMALLEST_SHARE * wp.dot(S, sym66_mul(whole, S)))
            if D < least and singular < 0:
                singular = d
            D_inv = real(1.0) / D
            u = s.tau[d, slot] - wp.dot(S, pA)
            s.U[d, slot] = U
            s.D_inv[d, slot] = D_inv
            s.u[d, slot] = u
            IA -= sym66_outer(U, D_inv)
            pA += U * (D_inv * u)
        parent = m.body_parent[i]
        if parent > 0:
            s.pA[parent, slot] = s.pA[parent, slot] + pA
        pass_inertia(m, s, i, IA, slot)
    return singular


@wp.func
def substitute(m: Tree, s: Workspace, slot: int):
    """Outward: joint accelerations a and body accelerations A (gravity not included)."""
    for i in range(1, m.body_parent.shape[0]):
        A = s.A[m.body_parent[i], slot]
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            a = s.D_inv[d, slot] * (s.u[d, slot] - wp.dot(s.U[d, slot], A))
            s.a[d, slot] = a
            A += s.S[d, slot] * a
        s.A[i, slot] = A + s.c[i, slot]


@wp.func
def accelerations(m: Tree, s: Workspace, slot: int):
    """A of each body (gravity not included) from given joint accelerations s.a."""
    for i in range(1, m.body_parent.shape[0]):
        A = s.A[m.body_parent[i], slot] + s.c[i, slot]
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            A += s.S[d, slot] * s.a[d, slot]
        s.A[i, slot] = A


@wp.func
def inverse_dynamics(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """tau = M a + bias from s.a, after ``outward``. M has the armature, the bias has gravity less what is held up."""
    accelerations(m, s, slot)
    bias_forces(m, p, s, world, slot)
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        force = s.pA[i, slot] + inertia_mul(p.mass[world, i], s.h[i, slot], s.J[i, slot], s.A[i, slot])
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            s.tau[d, slot] = wp.dot(s.S[d, slot], force) + p.armature[world, d] * s.a[d, slot]
        parent = m.body_parent[i]
        if parent > 0:
            s.pA[parent, slot] = s.pA[parent, slot] + force


@wp.func
def solve(m: Tree, s: Workspace, slot: int):
    """w = M⁻¹ a_bar with the pivots that ``eliminate`` left, and the virtual motion X of each body under w."""
    for i in range(1, m.body_parent.shape[0]):
        s.X[i, slot] = vec6()  # holds the bias force in the inward sweep
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        force = s.X[i, slot]
        first = m.body_dof[i]
        end = m.body_dof[i + 1]
        for k in range(first, end):
            d = first + end - 1 - k
            u = s.a_bar[d, slot] - wp.dot(s.S[d, slot], force)
            s.w[d, slot] = u
            force += s.U[d, slot] * (s.D_inv[d, slot] * u)
        parent = m.body_parent[i]
        if parent > 0:
            s.X[parent, slot] = s.X[parent, slot] + force
    s.X[0, slot] = vec6()
    for i in range(1, m.body_parent.shape[0]):
        X = s.X[m.body_parent[i], slot]
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            w = s.D_inv[d, slot] * (s.w[d, slot] - wp.dot(s.U[d, slot], X))
            s.w[d, slot] = w
            X += s.S[d, slot] * w
        s.X[i, slot] = X


@wp.func
def virtual_motions(m: Tree, s: Workspace, slot: int):
    """X of each body under given joint velocities w."""
    s.X[0, slot] = vec6()
    for i in range(1, m.body_parent.shape[0]):
        X = s.X[m.body_parent[i], slot]
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            X += s.S[d, slot] * s.w[d, slot]
        s.X[i, slot] = X


@wp.func
def inertia_params_adjoint(
    p: Params, p_bar: Params, s: Workspace, world: int, slot: int, i: int,
    x: vec6, y: vec6, u: vec6, z: vec6, scale: real,
):  # fmt: skip
    """Cotangents of mass, centre of mass and inertia of body i in scale · (xᵀ I y + uᵀ I z)."""
    Rt = wp.transpose(s.R[i, slot])
    mass = p.mass[world, i]
    c = com_from_o(p, s, i, world, slot)
    xc = velocity_at(x, c)
    yc = velocity_at(y, c)
    uc = velocity_at(u, c)
    zc = velocity_at(z, c)
    c_bar = wp.cross(yc, ang(x)) + wp.cross(xc, ang(y)) + wp.cross(zc, ang(u)) + wp.cross(uc, ang(z))
    J_bar = sym_outer(Rt * ang(x), Rt * ang(y)) + sym_outer(Rt * ang(u), Rt * ang(z))
    p_bar.mass[world, i] = p_bar.mass[world, i] + scale * (wp.dot(xc, yc) + wp.dot(uc, zc))
    p_bar.com[world, i] = p_bar.com[world, i] + (scale * mass) * (Rt * c_bar)
    p_bar.inertia[world, i] = p_bar.inertia[world, i] + scale * J_bar


@wp.func
def inverse_dynamics_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int,
    scale: real, with_gravity: real, wants_params: int,
):  # fmt: skip
    """Sets V_bar, A_bar, X_bar and W of each body to the cotangents of scale · wᵀ ID(q, v, a).

    wᵀ ID = Σ X·(I A + V ×* I V) = Σ Xᵀ I A + (X × V)ᵀ I V, with A less gravity (with_gravity is 1 or 0).
    """
    for i in range(1, m.body_parent.shape[0]):
        mass = p.mass[world, i]
        h = s.h[i, slot]
        J = s.J[i, slot]
        X = s.X[i, slot]
        V = s.V[i, slot]
        A = s.A[i, slot] - with_gravity * gravity_acceleration(p, world, i)
        Y = cross_motion(X, V)
        IX = inertia_mul(mass, h, J, X)
        IA = inertia_mul(mass, h, J, A)
        IV = inertia_mul(mass, h, J, V)
        IY = inertia_mul(mass, h, J, Y)
        s.A_bar[i, slot] = scale * IX
        s.V_bar[i, slot] = scale * (IY - cross_force(X, IV))
        s.X_bar[i, slot] = scale * (IA + cross_force(V, IV))
        s.W[i, slot] = -scale * (cross_force(X, IA) + cross_force(A, IX) + cross_force(Y, IV) + cross_force(V, IY))
        if wants_params == 1:
            inertia_params_adjoint(p, p_bar, s, world, slot, i, X, A, Y, V, scale)
            pull = -scale * with_gravity * lin(IX)
            p_bar.gravity[world, 0] = p_bar.gravity[world, 0] + pull * (real(1.0) - p.gravcomp[world, i])
            p_bar.gravcomp[world, i] = p_bar.gravcomp[world, i] - wp.dot(pull, p.gravity[world, 0])


@wp.func
def unrotate(quat: vec4, x: vec3):
    return quat_rotate(quat_conj(quat), x)


@wp.func
def axis_of_turn_adjoint(axis: vec3, angle: real, turn: vec4, moment: vec3):
    """Cotangent of the axis of a hinge from that of the rotation it makes, in the frame after it.

    angle · Jr(angle · axis)ᵀ moment, for a unit axis; sine and cosine of the angle come from its quaternion.
    """
    half_sin = wp.dot(quat_vec(turn), axis)
    sin = real(2.0) * turn[0] * half_sin
    one_minus_cos = real(2.0) * half_sin * half_sin
    along = wp.dot(axis, moment) * axis
    return angle * along + sin * (moment - along) + one_minus_cos * wp.cross(axis, moment)


@wp.func
def joint_placement_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, i: int, joint: int, pos: vec3, quat: vec4, r: vec3,
    W: vec6, anchor_bar: vec3, axis_bar: vec3, world: int, slot: int,
):  # fmt: skip
    """Adds the cotangents of a joint's axis and anchor; returns the frame before it from the one after, pos and quat.

    r: the anchor of a hinge or ball, from o; W: what acts on the frame after the joint; the others: of S.
    """
    joint_type = m.joint_type[joint]
    if joint_type == SLIDE:
        moved = s.q[m.joint_q[joint], slot] - m.joint_q0[joint]
        pos -= moved * quat_rotate(quat, p.joint_axis[world, joint])
        p_bar.joint_axis[world, joint] = p_bar.joint_axis[world, joint] + unrotate(quat, axis_bar + moved * lin(W))
    else:
        turn = s.turn[joint, slot]
        quat_after = quat
        quat = quat_mul(quat, quat_conj(turn))
        pos = r + s.o[i, slot] - quat_rotate(quat, p.joint_pos[world, joint])
        p_bar.joint_pos[world, joint] = (
            p_bar.joint_pos[world, joint] + unrotate(quat, anchor_bar + lin(W)) - unrotate(quat_after, lin(W))
        )
        if joint_type == HINGE:
            local_axis = p.joint_axis[world, joint]
            moment = unrotate(quat_after, moment_about(W, r))
            angle = s.q[m.joint_q[joint], slot] - m.joint_q0[joint]
            p_bar.joint_axis[world, joint] = (
                p_bar.joint_axis[world, joint]
                + unrotate(quat, axis_bar)
                + axis_of_turn_adjoint(local_axis, angle, turn, moment)
            )
    return pos, quat


@wp.func
def inward_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, with_G: int, with_S: int, wants_params: int
):
    """From V_bar, A_bar, X_bar and W of each body, add the cotangents of q (tangent) and v; set that of a.

    Reverses V = V_parent + Σ S v, A = A_parent + Σ S a + V_before × Σ S v, X = X_parent + Σ S w, and the poses.
    With with_G also G = G_parent + Σ S a; with with_S, S_bar of each degree of freedom joins.
    """
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        V = s.V[i, slot]
        V_bar = s.V_bar[i, slot]
        A_bar = s.A_bar[i, slot]
        X_bar = s.X_bar[i, slot]
        G_bar = vec6()
        if with_G == 1:
            G_bar = s.G_bar[i, slot]
        W = s.W[i, slot]
        first = m.body_joint[i]
        last = m.body_joint[i + 1]
        quat = s.quat[i, slot]
        pos = s.pos[i, slot]
        for k in range(first, last):
            joint = last - 1 - (k - first)
            joint_type = m.joint_type[joint]
            n = dofs(joint_type)
            d0 = m.joint_v[joint]
            motion = vec6()
            for j in range(n):
                motion += s.S[d0 + j, slot] * s.v[d0 + j, slot]
            V -= motion  # the velocity before the joint
            coriolis = cross_force(V, A_bar)
            carried = vec6()
            anchor_bar = vec3()
            axis_bar = vec3()
            r = vec3()  # the anchor of a hinge or ball, which is the same before and after it
            if wants_params == 1:
                r = pos + quat_rotate(quat, p.joint_pos[world, joint]) - s.o[i, slot]
            for j in range(n):
                d = d0 + j
                S = s.S[d, slot]
                v = s.v[d, slot]
                S_bar = X_bar * s.w[d, slot] + (A_bar + G_bar) * s.a[d, slot] + (V_bar - coriolis) * v
                if with_S == 1:
                    S_bar += s.S_bar[d, slot]
                s.v_bar[d, slot] = s.v_bar[d, slot] + wp.dot(S, V_bar - coriolis)
                s.a_bar[d, slot] = wp.dot(S, A_bar)
                carried += cross_force(S, S_bar)
                if wants_params == 1:
                    if joint_type == SLIDE:
                        axis_bar += lin(S_bar)
                    else:
                        axis_bar += ang(S_bar) + wp.cross(lin(S_bar), r)  # S = [axis; r × axis]
                        anchor_bar += wp.cross(ang(S), lin(S_bar))
            if wants_params == 1:
                pos, quat = joint_placement_adjoint(
                    m, p, p_bar, s, i, joint, pos, quat, r, W, anchor_bar, axis_bar, world, slot
                )
            V_bar += cross_force(motion, A_bar)
            W += carried
            for j in range(n):
                s.q_bar[d0 + j, slot] = s.q_bar[d0 + j, slot] + wp.dot(s.S[d0 + j, slot], W)
        parent = m.body_parent[i]
        if wants_params == 1:
            p_bar.body_pos[world, i] = p_bar.body_pos[world, i] + wp.transpose(s.R[parent, slot]) * lin(W)
            turn_bar = unrotate(quat, moment_about(W, pos - s.o[i, slot]))
            p_bar.body_quat[world, i] = p_bar.body_quat[world, i] + vec4(
                turn_bar[0], turn_bar[1], turn_bar[2], real(0.0)
            )
        if parent > 0:
            if m.body_is_root[i] == 1:  # what holds the tree up is taken about another point
                W = pack(ang(W) + wp.cross(s.o[i, slot] - s.o[parent, slot], lin(W)), lin(W))
            s.V_bar[parent, slot] = s.V_bar[parent, slot] + V_bar
            s.A_bar[parent, slot] = s.A_bar[parent, slot] + A_bar
            s.X_bar[parent, slot] = s.X_bar[parent, slot] + X_bar
            if with_G == 1:
                s.G_bar[parent, slot] = s.G_bar[parent, slot] + G_bar
            s.W[parent, slot] = s.W[parent, slot] + W
