"""Free bodies that carry no joints, under implicitfast, where tendons that go through space may pull at them.

What tendons add to the mass matrix H of such a body couples all its six degrees of freedom, so that other than in
``tree/gyroscopic.py`` the factors of H are used: with a = H⁻¹ f, the solution of (H + h K) a' = f is a' = a - Z β',
where β' is its angular part and Z = H⁻¹ h K. Thus (1 + Z_a) β' = β. The transposed system is solved by
w' = w - H⁻¹ [0; g], where (1 + Z_a)ᵀ g = h Kᵀ w.

    letter  meaning                                          type
    l, a    rows of the three slides, of the ball
    K       derivative of the bias force by the velocity     two mat33
"""

import warp as wp

from ..spatial.algebra import ang, column, lin, pack
from ..spatial.scalar import mat33, real, vec3, vec6
from ..tree.gyroscopic import bias_slopes, gyroscopic, gyroscopic_solve, motion_of, write_vec3
from ..tree.structs import Params, Tree, Workspace, read_vec3
from .rows import Rows


@wp.func
def block_solve(m: Tree, r: Rows, d: int, x: vec6, slot: int):
    """H⁻¹ x of the six degrees of freedom from d on, with the factors in r.H. The first three are linear."""
    y = x
    for back in range(6):
        k = 5 - back
        for j in range(k):
            y[j] = y[j] - r.H[(d + k) * m.nv + d + j, slot] * y[k]
    for k in range(6):
        total = y[k] * r.H[(d + k) * m.nv + d + k, slot]
        for j in range(k):
            total -= r.H[(d + k) * m.nv + d + j, slot] * y[j]
        y[k] = total
    return y


@wp.func
def implicit_turn(m: Tree, r: Rows, d: int, K_la: mat33, K_aa: mat33, slot: int):
    """Z, its rows for the slides and those for the ball."""
    x = block_solve(m, r, d, pack(column(K_la, 0), column(K_aa, 0)), slot)
    y = block_solve(m, r, d, pack(column(K_la, 1), column(K_aa, 1)), slot)
    z = block_solve(m, r, d, pack(column(K_la, 2), column(K_aa, 2)), slot)
    return wp.matrix_from_cols(ang(x), ang(y), ang(z)), wp.matrix_from_cols(lin(x), lin(y), lin(z))


@wp.func
def tied_gyroscopic(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """``gyroscopic``, where joint accelerations come from the factors in r.H if tendons couple any."""
    if r.tendons.pair_tendon.shape[0] == 0:
        gyroscopic(m, p, s, world, slot)
    else:
        for k in range(m.lone_body.shape[0]):
            i = m.lone_body[k]
            d = m.joint_v[m.body_joint[i]]
            K_la, K_aa = bias_slopes(m, p, s, k, world, slot)
            Z_l, Z_a = implicit_turn(m, r, d, K_la, K_aa, slot)
            turn = wp.inverse(wp.identity(3, real) + Z_a) * read_vec3(s.a, d + 3, slot)
            write_vec3(s.a, d, slot, read_vec3(s.a, d, slot) - Z_l * turn)
            write_vec3(s.a, d + 3, slot, turn)
            A = s.c[i, slot] + motion_of(s, s.a, d, slot)
            for j in range(i, m.lone_end[k]):
                s.A[j, slot] = A


@wp.func
def tied_gyroscopic_solve(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """``gyroscopic_solve`` in the same way."""
    if r.tendons.pair_tendon.shape[0] == 0:
        gyroscopic_solve(m, p, s, world, slot)
    else:
        for k in range(m.lone_body.shape[0]):
            i = m.lone_body[k]
            d = m.joint_v[m.body_joint[i]]
            K_la, K_aa = bias_slopes(m, p, s, k, world, slot)
            _Z_l, Z_a = implicit_turn(m, r, d, K_la, K_aa, slot)
            push = read_vec3(s.w, d, slot)
            turn = read_vec3(s.w, d + 3, slot)
            g = wp.transpose(K_la) * push + wp.transpose(K_aa) * turn
            g = wp.transpose(wp.inverse(wp.identity(3, real) + Z_a)) * g
            less = block_solve(m, r, d, pack(vec3(), g), slot)
            write_vec3(s.w, d, slot, push - ang(less))
            write_vec3(s.w, d + 3, slot, turn - lin(less))
            X = motion_of(s, s.w, d, slot)
            for j in range(i, m.lone_end[k]):
                s.X[j, slot] = X
