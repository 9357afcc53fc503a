"""The adjoint of the mass matrix, by composite bodies."""

import warp as wp

from ..spatial.algebra import inertia_matrix, pack, sym66_mul
from ..spatial.scalar import mat33, mat66, real, sym66, vec3, vec6
from ..tree.structs import Params, Tree, Workspace, dofs
from .rows import Rows


@wp.func
def sym66_of(x: vec6, y: vec6):
    """½ (x yᵀ + y xᵀ)"""
    result = sym66()
    at = int(0)
    for i in range(6):
        for j in range(i, 6):
            result[at] = real(0.5) * (x[i] * y[j] + y[i] * x[j])
            at += 1
    return result


@wp.func
def full66(x: sym66):
    result = mat66()
    at = int(0)
    for i in range(6):
        for j in range(i, 6):
            result[i, j] = x[at]
            result[j, i] = x[at]
            at += 1
    return result


@wp.func
def twist(N: mat66, row: int, column: int):
    """Of the 3×3 block that begins there: ω·twist = Σ N (ω×)."""
    return vec3(
        N[row + 2, column + 1] - N[row + 1, column + 2],
        N[row, column + 2] - N[row + 2, column],
        N[row + 1, column] - N[row, column + 1],
    )


@wp.func
def composite_bodies_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """From the cotangent of the mass matrix in r.M to S_bar, W and the bodies' inertias, from the roots on.

    With F = Ic S_e, M_de = S_d·F: each degree of freedom e gives its composite body the cotangent of G·Ic S_e, where
    G = M_bar_ee S_e + 2 Σ M_bar_de S_d over its ancestors d; and a body's own inertia is part of all composites above.
    """
    for i in range(1, m.body_parent.shape[0]):
        own = inertia_matrix(p.mass[world, i], s.h[i, slot], s.J[i, slot])
        composite = own
        if m.body_children[i] > 0:
            composite += s.IA[i, slot]
        parent = m.body_parent[i]
        Q = sym66()
        if parent > 0:
            Q = s.IA[parent, slot]  # by now the cotangent of the parent's composite
        for k in range(m.body_joint[i], m.body_joint[i + 1]):
            for j in range(dofs(m.joint_type[k])):
                e = m.joint_v[k] + j
                row = e * m.nv
                S = s.S[e, slot]
                F = sym66_mul(composite, S)
                G = r.M[row + e, slot] * S
                s.S_bar[e, slot] = s.S_bar[e, slot] + r.M[row + e, slot] * F
                d = m.dof_parent[e]
                while d >= 0:
                    twice = real(2.0) * r.M[row + d, slot]
                    G += twice * s.S[d, slot]
                    s.S_bar[d, slot] = s.S_bar[d, slot] + twice * F
                    d = m.dof_parent[d]
                s.S_bar[e, slot] = s.S_bar[e, slot] + sym66_mul(composite, G)
                Q += sym66_of(G, S)
        s.IA[i, slot] = Q
        Q_full = full66(Q)
        N = full66(own) * Q_full
        two = real(2.0)
        s.W[i, slot] = s.W[i, slot] - two * pack(twist(N, 0, 0) + twist(N, 3, 3), twist(N, 3, 0))
        if wants_params == 1:
            inertia_matrix_adjoint(p, p_bar, s, Q_full, i, world, slot)


@wp.func
def inertia_matrix_adjoint(p: Params, p_bar: Params, s: Workspace, Q: mat66, i: int, world: int, slot: int):
    """Cotangents of mass, centre of mass and inertia of body i in <Q, I>, Q symmetric."""
    R = s.R[i, slot]
    Rt = wp.transpose(R)
    mass = p.mass[world, i]
    c = s.pos[i, slot] - s.o[i, slot] + R * p.com[world, i]
    cx = mat33(real(0.0), -c[2], c[1], c[2], real(0.0), -c[0], -c[1], c[0], real(0.0))
    aa = mat33()
    la = mat33()
    ll = mat33()
    for a in range(3):
        for b in range(3):
            aa[a, b] = Q[a, b]
            la[a, b] = Q[3 + a, b]
            ll[a, b] = Q[3 + a, 3 + b]
    # the linear part at the centre of mass is lin + ang × c = lin - c × ang
    la_c = la - cx * aa
    ll_c = ll - cx * wp.transpose(la) - la_c * wp.transpose(cx)
    c_bar = vec3(la_c[1, 2] - la_c[2, 1], la_c[2, 0] - la_c[0, 2], la_c[0, 1] - la_c[1, 0])
    J_bar = Rt * aa * R
    two = real(2.0)
    p_bar.mass[world, i] = p_bar.mass[world, i] + ll_c[0, 0] + ll_c[1, 1] + ll_c[2, 2]
    p_bar.com[world, i] = p_bar.com[world, i] + two * mass * (Rt * c_bar)
    p_bar.inertia[world, i] = p_bar.inertia[world, i] + vec6(
        J_bar[0, 0], J_bar[1, 1], J_bar[2, 2], two * J_bar[0, 1], two * J_bar[0, 2], two * J_bar[1, 2]
    )
