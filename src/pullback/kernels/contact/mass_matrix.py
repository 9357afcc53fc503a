"""The mass matrix M, H = M + Jᵀ K J with the curvatures of constraints, their factors, and forces without constraints.

Both are lower triangles, nv × nv. Of each row only the columns that may be nonzero are looked at: every degree of
freedom's ancestors, and where a contact couples different branches, what that fills in.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import inertia_mul, sym66_mul
from ..spatial.scalar import real
from ..tree.structs import Params, Tree, Workspace, dofs
from ..tree.sweeps import accelerations, gathered_inertia, pass_inertia
from .flavour import matr
from .rows import Rows, contact_count


@wp.func
def smooth_forces(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """r.smooth = tau - bias, from s.tau and the bodies' bias forces s.pA, which stay as they are."""
    for d in range(m.nv):
        r.smooth[d, slot] = s.tau[d, slot]
        s.a[d, slot] = real(0.0)
    accelerations(m, s, slot)
    for i in range(1, m.body_parent.shape[0]):
        # X is free here and holds the force on the way in
        s.X[i, slot] = s.pA[i, slot] + inertia_mul(p.mass[world, i], s.h[i, slot], s.J[i, slot], s.A[i, slot])
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        force = s.X[i, slot]
        for k in range(m.body_joint[i], m.body_joint[i + 1]):
            for j in range(dofs(m.joint_type[k])):
                d = m.joint_v[k] + j
                r.smooth[d, slot] = r.smooth[d, slot] - wp.dot(s.S[d, slot], force)
        parent = m.body_parent[i]
        if parent > 0:
            s.X[parent, slot] = s.X[parent, slot] + force


@wp.func
def composite_bodies(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """r.M, the lower triangle of the mass matrix without armature, by composite rigid bodies."""
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        composite = gathered_inertia(m, p, s, i, world, slot)
        for j in range(m.body_joint[i], m.body_joint[i + 1]):
            for n in range(dofs(m.joint_type[j])):
                d = m.joint_v[j] + n
                F = sym66_mul(composite, s.S[d, slot])
                e = int(d)
                while e >= 0:
                    r.M[d * m.nv + e, slot] = wp.dot(s.S[e, slot], F)
                    e = m.dof_parent[e]
        pass_inertia(m, s, i, composite, slot)


@wp.func
def multiply_mass(m: Tree, r: Rows, x: wp.array2d(dtype=real), y: wp.array2d(dtype=real), slot: int):
    """y = M x"""
    for d in range(m.nv):
        own = x[d, slot]
        total = r.M[d * m.nv + d, slot] * own
        e = m.dof_parent[d]
        while e >= 0:
            entry = r.M[d * m.nv + e, slot]
            total += entry * x[e, slot]
            y[e, slot] = y[e, slot] + entry * own
            e = m.dof_parent[e]
        y[d, slot] = total


@wp.func
def tree_columns(m: Tree, r: Rows, slot: int):
    """The columns of the mass matrix: every degree of freedom's ancestors."""
    for d in range(m.nv):
        r.columns_count[d, slot] = m.columns_count[d, slot]
        for a in range(m.columns_count[d, slot]):
            r.columns[d * m.nv + a, slot] = m.columns[d * m.nv + a, slot]


@wp.func
def merge_columns(r: Rows, x: wp.array2d(dtype=int), first: int, end: int, row: int, nv: int, slot: int):
    """Joins x[first:end] to the columns of a row; both fall, and none of x is beyond the row."""
    own = int(0)
    own_count = r.columns_count[row, slot]
    other = int(first)
    count = int(0)
    while own < own_count or other < end:
        a = int(-1)
        b = int(-1)
        if own < own_count:
            a = r.columns[row * nv + own, slot]
        if other < end:
            b = x[other, slot]
        if a >= b:
            own += 1
        if b >= a:
            other += 1
        r.scratch[count, slot] = wp.max(a, b)
        count += 1
    for i in range(count):
        r.columns[row * nv + i, slot] = r.scratch[i, slot]
    r.columns_count[row, slot] = count


@wp.func
def find_columns(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """The columns of H = M + Jᵀ K J and of its factor, if they are others than the mass matrix has.

    A contact or a row of joints couples its whole chain: all of it goes to the row of its last degree of freedom, and
    from there, as rows are eliminated, each row's columns to the row of the first of them.
    """
    if r.coupled[0, slot] == 1:
        tree_columns(m, r, slot)
        for k in range(contact_count(c, slot)):
            first = k * m.nv
            length = r.chain_length[k, slot]
            if length > 1:
                merge_columns(r, r.chain, first + 1, first + length, r.chain[first, slot], m.nv, slot)
        for k in range(r.joint_rows[0, slot]):
            first = k * g.joint_width
            length = r.joint_length[k, slot]
            if length > 1:
                into = r.joint_chain[first, slot]
                merge_columns(r, r.joint_chain, first + 1, first + length, into, m.nv, slot)
        for back in range(m.nv):
            row = m.nv - 1 - back
            count = r.columns_count[row, slot]
            if count > 1:
                into = r.columns[row * m.nv, slot]
                merge_columns(r, r.columns, row * m.nv + 1, row * m.nv + count, into, m.nv, slot)


# The next three take arrays, not structs, and stay functions: there are several calls of each, and their code is long.


@wp.func(inline=False)
def factorise_rows(
    columns: wp.array2d(dtype=int),
    count: wp.array2d(dtype=int),
    H: wp.array2d(dtype=real),
    nv: int,
    slot: int,
):
    """H = Lᵀ D L in place, from the last row up: what trees and contacts leave zero stays zero. 1/D is kept."""
    for back in range(nv):
        k = nv - 1 - back
        row = k * nv
        length = count[k, slot]
        inverse = real(1.0) / H[row + k, slot]
        for a in range(length):
            i = columns[row + a, slot]
            share = H[row + i, slot] * inverse
            for b in range(a, length):
                j = columns[row + b, slot]
                H[i * nv + j, slot] = H[i * nv + j, slot] - share * H[row + j, slot]
            H[row + i, slot] = share
        H[row + k, slot] = inverse


@wp.func(inline=False)
def solve_rows(
    columns: wp.array2d(dtype=int),
    count: wp.array2d(dtype=int),
    H: wp.array2d(dtype=real),
    x: wp.array2d(dtype=real),
    nv: int,
    slot: int,
):
    """x := H⁻¹ x"""
    for back in range(nv):
        k = nv - 1 - back
        own = x[k, slot]
        for a in range(count[k, slot]):
            j = columns[k * nv + a, slot]
            x[j, slot] = x[j, slot] - H[k * nv + j, slot] * own
    for k in range(nv):
        total = x[k, slot] * H[k * nv + k, slot]
        for a in range(count[k, slot]):
            j = columns[k * nv + a, slot]
            total -= H[k * nv + j, slot] * x[j, slot]
        x[k, slot] = total


@wp.func(inline=False)
def copy_rows(
    columns: wp.array2d(dtype=int),
    count: wp.array2d(dtype=int),
    M: wp.array2d(dtype=real),
    H: wp.array2d(dtype=real),
    nv: int,
    slot: int,
):
    """H = M"""
    for d in range(nv):
        row = d * nv
        H[row + d, slot] = M[row + d, slot]
        for a in range(count[d, slot]):
            e = columns[row + a, slot]
            H[row + e, slot] = M[row + e, slot]


@wp.func
def factorise(m: Tree, r: Rows, slot: int):
    """r.H = Lᵀ D L in place"""
    if r.coupled[0, slot] == 1:
        factorise_rows(r.columns, r.columns_count, r.H, m.nv, slot)
    else:
        factorise_rows(m.columns, m.columns_count, r.H, m.nv, slot)


@wp.func
def solve_factored(m: Tree, r: Rows, x: wp.array2d(dtype=real), slot: int):
    """x := r.H⁻¹ x"""
    if r.coupled[0, slot] == 1:
        solve_rows(r.columns, r.columns_count, r.H, x, m.nv, slot)
    else:
        solve_rows(m.columns, m.columns_count, r.H, x, m.nv, slot)


@wp.func
def start_matrix(m: Tree, r: Rows, slot: int):
    """r.H = r.M"""
    if r.coupled[0, slot] == 1:
        copy_rows(r.columns, r.columns_count, r.M, r.H, m.nv, slot)
    else:
        copy_rows(m.columns, m.columns_count, r.M, r.H, m.nv, slot)


@wp.func
def add_curvature(m: Tree, r: Rows, H: wp.array2d(dtype=real), K: matr, k: int, slot: int):
    """H += Jᵀ K J of contact k, lower triangle."""
    length = r.chain_length[k, slot]
    first = k * m.nv
    for j in range(length):
        column = K * r.J[first + j, slot]
        e = r.chain[first + j, slot]
        for i in range(j + 1):
            d = r.chain[first + i, slot]  # the chain runs from the last degree of freedom to the first: d >= e
            H[d * m.nv + e, slot] = H[d * m.nv + e, slot] + wp.dot(r.J[first + i, slot], column)


@wp.func
def add_joint_curvature(m: Tree, g: Shapes, r: Rows, K: real, k: int, slot: int):
    """The same of a row of a joint, to r.H."""
    first = k * g.joint_width
    for j in range(r.joint_length[k, slot]):
        e = r.joint_chain[first + j, slot]
        column = K * r.joint_J[first + j, slot]
        for i in range(j + 1):
            at = r.joint_chain[first + i, slot] * m.nv + e
            r.H[at, slot] = r.H[at, slot] + r.joint_J[first + i, slot] * column
