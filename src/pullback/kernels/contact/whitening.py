"""Whitened Jacobians of blocks of rows, and what their cotangents become.

With M = Lᵀ D L, whose factors are in r.H, and W = D^(-1/2) L^(-T), the whitened Jacobian of a block is B = W Jᵀ:
J M⁻¹ Jᵀ = Bᵀ B. Of a function of such products alone, the gradient is that of Σ (Wᵀ B_bar)·Jᵀ - ½ (Wᵀ B_bar)·M (Wᵀ B).
"""

import warp as wp

from ..collision.shapes import Contacts
from ..spatial.algebra import ang, pack, velocity_at
from ..spatial.scalar import real, vec3
from ..tree.structs import Tree, Workspace
from .flavour import ROWS, vecr
from .rows import Rows, in_world, rotation_in_world


@wp.func
def reach_root(m: Tree, r: Rows, k: int, slot: int):
    """Goes on with the chain of block k to the root: J has no columns there, but the inertia of what carries counts."""
    first = k * m.nv
    length = int(r.chain_length[k, slot])
    root = wp.vec2i(-1, -1)
    if length > 0:
        d = m.dof_parent[r.chain[first + length - 1, slot]]
        while d >= 0:
            r.chain[first + length, slot] = d
            length += 1
            d = m.dof_parent[d]
        last = r.chain[first + length - 1, slot]
        root = wp.vec2i(last, last)
    for i in range(length - 1):
        if m.dof_parent[r.chain[first + i, slot]] < 0:
            root[1] = r.chain[first + i, slot]
    r.reach[k, slot] = length
    r.root[k, slot] = root


@wp.func
def whiten_block(m: Tree, r: Rows, k: int, slot: int):
    """B of block k along its chain."""
    first = k * m.nv
    own = r.chain_length[k, slot]
    length = r.reach[k, slot]
    for i in range(length):
        d = r.chain[first + i, slot]
        column = vecr()
        if i < own:
            column = r.J[first + i, slot]
        for j in range(i):
            e = r.chain[first + j, slot]
            entry = r.H[e * m.nv + d, slot]
            if entry != real(0.0):
                column -= entry * r.B[first + j, slot]
        r.B[first + i, slot] = column
    for i in range(length):
        d = r.chain[first + i, slot]
        r.B[first + i, slot] = wp.sqrt(r.H[d * m.nv + d, slot]) * r.B[first + i, slot]


@wp.func
def whiten(m: Tree, r: Rows, x: wp.array2d(dtype=real), slot: int):
    """x := D^(-1/2) L^(-T) x"""
    for back in range(m.nv):
        k = m.nv - 1 - back
        own = x[k, slot]
        for a in range(m.columns_count[k, slot]):
            j = m.columns[k * m.nv + a, slot]
            x[j, slot] = x[j, slot] - r.H[k * m.nv + j, slot] * own
        x[k, slot] = wp.sqrt(r.H[k * m.nv + k, slot]) * own


@wp.func
def whiten_transposed(m: Tree, r: Rows, x: wp.array2d(dtype=real), slot: int):
    """x := L⁻¹ D^(-1/2) x"""
    for k in range(m.nv):
        total = wp.sqrt(r.H[k * m.nv + k, slot]) * x[k, slot]
        for a in range(m.columns_count[k, slot]):
            j = m.columns[k * m.nv + a, slot]
            total -= r.H[k * m.nv + j, slot] * x[j, slot]
        x[k, slot] = total


@wp.func
def whitened_motion(m: Tree, r: Rows, x: wp.array2d(dtype=real), k: int, slot: int):
    """Bᵀ x of block k."""
    total = vecr()
    at = k * m.nv
    end = at + r.reach[k, slot]
    while at < end:  # Warp's range tests its step in every pass
        total += r.B[at, slot] * x[r.chain[at, slot], slot]
        at += 1
    return total


@wp.func
def add_whitened(m: Tree, r: Rows, x: wp.array2d(dtype=real), force: vecr, k: int, slot: int):
    """x += B force of block k"""
    at = k * m.nv
    end = at + r.reach[k, slot]
    while at < end:
        d = r.chain[at, slot]
        x[d, slot] = x[d, slot] + wp.dot(r.B[at, slot], force)
        at += 1


# --- the adjoint -----------------------------------------------------------------------------------


@wp.func
def add_products(m: Tree, r: Rows, k: int, slot: int):
    """Adds block k's share to T: for each degree of freedom, B_bar at its ancestors times B at its own."""
    first = k * m.nv
    length = r.reach[k, slot]
    for i in range(length):
        d = r.chain[first + i, slot]
        B = r.B[first + i, slot]
        above = int(d)
        for j in range(i, length):
            if r.chain[first + j, slot] == above:
                at = d * m.nv + above
                r.M[at, slot] = r.M[at, slot] + real(0.5) * wp.dot(r.B_bar[first + j, slot], B)
                above = m.dof_parent[above]


@wp.func
def mass_bar(m: Tree, r: Rows, slot: int):
    """From T in r.M to the cotangent of the mass matrix, -Wᵀ T W, in its place; both on pairs of ancestors alone.

    With L X Lᵀ = D^(-1/2) T D^(-1/2), X = Wᵀ T W: a degree of freedom at a time, from the roots on.
    """
    for e in range(m.nv):
        row = e * m.nv
        count = int(0)
        above_e = int(e)
        while above_e >= 0:
            r.scratch[count, slot] = above_e
            count += 1
            above_e = m.dof_parent[above_e]
        for i in range(count):  # Y = X Lᵀ at e and its ancestors, from the root on
            d = r.scratch[count - 1 - i, slot]
            total = wp.sqrt(r.H[row + e, slot] * r.H[d * m.nv + d, slot]) * r.M[row + d, slot]
            for j in range(i):
                above = r.scratch[count - 1 - j, slot]
                total -= r.H[d * m.nv + above, slot] * r.column[above, slot]
            r.column[d, slot] = total
        for i in range(count):
            d = r.scratch[count - 1 - i, slot]
            total = r.column[d, slot]
            for j in range(count - 1):
                above = r.scratch[count - 1 - j, slot]  # every ancestor of e
                entry = real(0.0)
                if d == e:
                    entry = r.M[row + above, slot]
                else:
                    entry = r.M[wp.max(d, above) * m.nv + wp.min(d, above), slot]
                total -= r.H[row + above, slot] * entry
            r.M[row + d, slot] = total
    for e in range(m.nv):
        d = int(e)
        while d >= 0:
            r.M[e * m.nv + d, slot] = -r.M[e * m.nv + d, slot]
            d = m.dof_parent[d]


@wp.func
def jacobian_bar(m: Tree, r: Rows, k: int, slot: int):
    """B_bar of block k becomes J_bar = Wᵀ B_bar along its chain."""
    first = k * m.nv
    length = r.reach[k, slot]
    for back in range(length):
        i = length - 1 - back
        d = r.chain[first + i, slot]
        total = wp.sqrt(r.H[d * m.nv + d, slot]) * r.B_bar[first + i, slot]
        for j in range(i + 1, length):
            entry = r.H[d * m.nv + r.chain[first + j, slot], slot]
            if entry != real(0.0):
                total -= entry * r.B_bar[first + j, slot]
        r.B_bar[first + i, slot] = total


@wp.func
def contact_jacobian_adjoint(m: Tree, s: Workspace, c: Contacts, r: Rows, k: int, slot: int):
    """From J_bar to S_bar and to the contact's point and frame."""
    n = c.normal[k, slot]
    t1 = r.tangent1[k, slot]
    t2 = r.tangent2[k, slot]
    pos_bar = vec3()
    n_bar = vec3()
    t1_bar = vec3()
    t2_bar = vec3()
    for i in range(r.chain_length[k, slot]):
        at = k * m.nv + i
        d = r.chain[at, slot]
        S = s.S[d, slot]
        bar = r.side[at, slot] * r.B_bar[at, slot]
        arm = c.pos[k, slot] - s.o[m.dof_body[d], slot]
        velocity = velocity_at(S, arm)
        force = in_world(bar, n, t1, t2)
        moment = wp.cross(arm, force)
        if ROWS == 6:
            moment += rotation_in_world(bar, n, t1, t2)
        s.S_bar[d, slot] = s.S_bar[d, slot] + pack(moment, force)
        pos_bar += wp.cross(force, ang(S))
        n_bar += bar[0] * velocity
        t1_bar += bar[1] * velocity
        t2_bar += bar[2] * velocity
        if ROWS == 6:
            n_bar += bar[3] * ang(S)
            t1_bar += bar[4] * ang(S)
            t2_bar += bar[5] * ang(S)
    r.pos_bar[k, slot] = pos_bar
    r.n_bar[k, slot] = n_bar
    r.t1_bar[k, slot] = t1_bar
    r.t2_bar[k, slot] = t2_bar
