"""MuJoCo's noslip: after the convex problem, sweeps that let friction stop what still creeps.

Friction of the convex problem gives way like a spring. The sweeps are projected Gauss-Seidel on the forces f of
friction loss and of contacts' tangents alone, without that softness: residual = z + J M⁻¹ Jᵀ (f - f_start), where
z = J a - reference is what the convex solution leaves. Normals, limits and equalities keep their forces.

    friction loss             f = f - residual / A_kk, between ± loss
    pyramid, each tangent     f = f - residual / A_jj, between ± mu (sum of both edges), which stays as it was
    elliptic, all tangents    the minimum of ½ x·A x + (residual - A f)·x  where |x / mu| ≤ normal force

Friction losses come first, by degree of freedom and then by tendon, and then contacts in MuJoCo's order. An island, the
trees that constraints join, ends its sweeps when one lowers its cost by less than the file's tolerance. What is
differentiated is what was computed, sweep by sweep (``noslip_adjoint.py``).

    letter  meaning                                              kept in
    y       whitened change of acceleration                      r.swept
    B       whitened Jacobian of a block, see ``whitening.py``   r.B
    A       block of J M⁻¹ Jᵀ with itself                        r.own
    f       forces before each sweep and after the last          r.history
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..tree.structs import Tree
from .flavour import ROWS, matr, vecr
from .islands import island_of, joined_to
from .law import cone_force, joint_row_force
from .mass_matrix import factorise_rows, start_matrix
from .rows import Rows, contact_count
from .whitening import add_whitened, reach_root, whiten_block, whitened_motion

# Bounds that MuJoCo sets: of a normal force, of a pair of edges' curvature, of determinants and pivots, and by how much
# a block may raise the cost before its update is undone.
LEAST_FORCE = wp.constant(real(1e-15))
LEAST_CURVATURE = wp.constant(real(1e-15))
LEAST_PIVOT = wp.constant(real(1e-10))
MOST_RISE = wp.constant(real(1e-10))
# Newton's method for the multiplier of an elliptic cone: it ends at this share of the radius.
ON_CONE = wp.constant(real(1e-6 if real is wp.float32 else 1e-14))
MOST_STEPS = wp.constant(50)
# What became of the tangents of an elliptic contact.
INSIDE, ON_THE_CONE, NOTHING, UNDONE = (wp.constant(k) for k in range(4))


# --- blocks ----------------------------------------------------------------------------------------


@wp.func
def first_of(x: real):
    result = vecr()
    result[0] = x
    return result


@wp.func
def block_count(c: Contacts, r: Rows, slot: int):
    """Contacts are first, then come rows of friction loss."""
    return contact_count(c, slot) + r.loss_blocks[0, slot]


@wp.func
def edges(z: vecr, stiffness: real, mu: real, j: int):
    """Forces of both edges of a pyramid in the plane of tangent j."""
    plus = stiffness * wp.max(-(z[0] + mu * z[j]), real(0.0))
    minus = stiffness * wp.max(-(z[0] - mu * z[j]), real(0.0))
    return plus, minus


@wp.func
def start_contact(g: Shapes, c: Contacts, r: Rows, k: int, slot: int):
    """Force and bounds of contact k, as the convex problem leaves them. Returns Σ f²/stiffness of its rows."""
    dim = g.pair_dim[c.pair[k, slot]]
    z = r.z[k, slot]
    stiffness = r.stiffness[k, slot]
    friction = r.friction[k, slot]
    force, _K = cone_force(z, dim, g.elliptic, g.impratio, stiffness, friction)
    r.slip[k, slot] = z
    r.history[0, k, slot] = force
    energy = force[0] * force[0] / stiffness
    bound = first_of(force[0])
    if dim > 1 and g.elliptic == 0:
        energy = real(0.0)
        for j in range(1, ROWS):
            if j < dim:
                plus, minus = edges(z, stiffness, friction[j], j)
                bound[j] = friction[j] * (plus + minus)
                energy += (plus * plus + minus * minus) / stiffness
    elif dim > 1:
        for j in range(1, ROWS):
            if j < dim:
                ratio = force[j] * friction[1] / friction[j]
                energy += ratio * ratio / (stiffness * g.impratio)
    r.bound[k, slot] = bound
    return energy


@wp.func
def loss_block(m: Tree, g: Shapes, r: Rows, row: int, k: int, slot: int):
    """Row ``row`` of the joints, friction loss, becomes block k.

    A tendon's chain may branch: it gets all degrees of freedom that carry those it had, with no columns of J.
    """
    r.row_block[row, slot] = k
    r.block_row[k, slot] = row
    first = k * m.nv
    of_row = row * g.joint_width
    end = r.joint_length[row, slot]
    length = int(0)
    if end == 1:
        r.chain[first, slot] = r.joint_chain[of_row, slot]
        r.J[first, slot] = first_of(r.joint_J[of_row, slot])
        length = 1
    else:
        entry = int(0)
        for back in range(m.nv):
            d = m.nv - 1 - back
            belongs = bool(False)
            J = vecr()
            for i in range(length):
                if m.dof_parent[r.chain[first + i, slot]] == d:
                    belongs = True
            if entry < end:
                if r.joint_chain[of_row + entry, slot] == d:
                    J = first_of(r.joint_J[of_row + entry, slot])
                    entry += 1
                    belongs = True
            if belongs:
                r.chain[first + length, slot] = d
                r.J[first + length, slot] = J
                length += 1
    r.chain_length[k, slot] = length
    r.slip[k, slot] = first_of(r.joint_z[row, slot])
    r.bound[k, slot] = first_of(r.joint_loss[row, slot])
    r.history[0, k, slot] = first_of(r.row_force[row, slot])


@wp.func
def root_of(m: Tree, dof: int):
    d = int(dof)
    while m.dof_parent[d] >= 0:
        d = m.dof_parent[d]
    return d


@wp.func
def join(r: Rows, one: int, other: int, slot: int):
    a = joined_to(r, one, slot)
    b = joined_to(r, other, slot)
    r.island[wp.max(a, b), slot] = wp.min(a, b)


@wp.func
def join_trees(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """r.island of each degree of freedom; blocks have their roots."""
    for d in range(m.nv):
        r.island[d, slot] = d
    for k in range(block_count(c, r, slot)):
        root = r.root[k, slot]
        if root[0] >= 0:
            join(r, root[0], root[1], slot)
    for row in range(r.joint_rows[0, slot]):
        first = row * g.joint_width
        for i in range(1, r.joint_length[row, slot]):
            join(r, root_of(m, r.joint_chain[first, slot]), root_of(m, r.joint_chain[first + i, slot]), slot)
    for d in range(m.nv):
        above = m.dof_parent[d]
        island = int(0)
        if r.noslip.by_island == 1:
            island = r.island[wp.where(above < 0, r.island[d, slot], above), slot]
        r.island[d, slot] = island


@wp.func
def find_turns(c: Contacts, r: Rows, slot: int):
    """r.order: friction losses, then contacts by their pairs' rank, those of a pair as they were found."""
    contacts = contact_count(c, slot)
    losses = r.loss_blocks[0, slot]
    for i in range(losses):
        r.order[i, slot] = contacts + i
    for k in range(contacts):
        rank = r.noslip.rank[c.pair[k, slot]]
        at = int(losses + k)
        going = bool(True)
        while going:
            going = False
            if at > losses:
                before = r.order[at - 1, slot]
                if r.noslip.rank[c.pair[before, slot]] > rank:
                    r.order[at, slot] = before
                    at -= 1
                    going = True
        r.order[at, slot] = k


@wp.func
def start_blocks(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """All that the sweeps begin with, but for A; r.load and r.gain of islands."""
    contacts = contact_count(c, slot)
    count = int(contacts)
    for row in range(r.joint_rows[0, slot]):
        force, _K, _bound = joint_row_force(r.joint_z[row, slot], r.joint_stiffness[row, slot], r.joint_loss[row, slot])
        r.row_force[row, slot] = force
        r.row_block[row, slot] = -1
        if r.joint_source[row, slot] < 0:
            loss_block(m, g, r, row, count, slot)
            count += 1
    r.loss_blocks[0, slot] = count - contacts
    for k in range(count):
        reach_root(m, r, k, slot)
    join_trees(m, g, c, r, slot)
    find_turns(c, r, slot)
    for d in range(m.nv):
        r.swept[d, slot] = real(0.0)
        r.gain[d, slot] = real(0.0)
        r.load[d, slot] = real(0.0)
        r.island_sweeps[d, slot] = r.noslip.sweeps
    for d in range(m.nv):
        i = r.island[d, slot]
        r.load[i, slot] = r.load[i, slot] + r.M[d * m.nv + d, slot]
    # MuJoCo counts the energy of all softness as won by the first sweep
    for k in range(contacts):
        energy = start_contact(g, c, r, k, slot)
        i = island_of(r, k, slot)
        if i >= 0:
            r.gain[i, slot] = r.gain[i, slot] + real(0.5) * energy
    for row in range(r.joint_rows[0, slot]):
        if r.joint_length[row, slot] > 0:
            i = r.island[r.joint_chain[row * g.joint_width, slot], slot]
            f = r.row_force[row, slot]
            r.gain[i, slot] = r.gain[i, slot] + real(0.5) * f * f / r.joint_stiffness[row, slot]


@wp.func
def factor_of_mass(m: Tree, r: Rows, slot: int):
    """r.H: the factors of the mass matrix."""
    start_matrix(m, r, slot)  # also clears what contacts coupled
    factorise_rows(m.columns, m.columns_count, r.H, m.nv, slot)


# --- elliptic cones --------------------------------------------------------------------------------
#
# Vectors and matrices of a contact's rows, of which 1 .. n are its tangents.


@wp.func
def tangents_factor(A: matr, shift: real, n: int):
    """Cholesky's factor of the tangents' block of A + shift; its smallest pivot and its determinant."""
    L = matr()
    smallest = real(wp.inf)
    determinant = real(1.0)
    for j in range(1, ROWS):
        if j <= n:
            pivot = A[j, j] + shift
            for i in range(1, j):
                pivot -= L[j, i] * L[j, i]
            smallest = wp.min(smallest, pivot)
            determinant *= pivot
            root = wp.sqrt(wp.max(pivot, LEAST_FORCE))
            L[j, j] = root
            for k in range(j + 1, ROWS):
                if k <= n:
                    entry = A[k, j]
                    for i in range(1, j):
                        entry -= L[k, i] * L[j, i]
                    L[k, j] = entry / root
    return L, smallest, determinant


@wp.func
def tangents_solve(L: matr, b: vecr, n: int):
    x = vecr()
    for j in range(1, ROWS):
        if j <= n:
            total = b[j]
            for i in range(1, j):
                total -= L[j, i] * x[i]
            x[j] = total / L[j, j]
    for back in range(1, ROWS):
        j = n + 1 - back
        if j >= 1:
            total = x[j]
            for i in range(j + 1, ROWS):
                if i <= n:
                    total -= L[i, j] * x[i]
            x[j] = total / L[j, j]
    return x


@wp.func
def singular_tangents(smallest: real, determinant: real, n: int):
    """Where MuJoCo gives up: it looks at the determinant of two or three tangents, and at pivots of more."""
    return not wp.where(n <= 3, determinant, smallest) >= LEAST_PIVOT


@wp.func
def minimise_in_ball(A: matr, b: vecr, n: int, radius: real):
    """v that minimises ½ v·A v + b·v where |v| ≤ radius, the factor of A + multiplier there, and what it is."""
    L, smallest, determinant = tangents_factor(A, real(0.0), n)
    v = vecr()
    what = int(NOTHING)
    if not singular_tangents(smallest, determinant, n):
        what = INSIDE
        v = -tangents_solve(L, b, n)
        length = wp.length(v)
        if length > radius:
            what = ON_THE_CONE
            shift = real(0.0)
            steps = int(0)
            while steps < MOST_STEPS and length - radius > ON_CONE * radius:
                steps += 1
                turned = tangents_solve(L, v, n)
                shift += length * length / wp.dot(v, turned) * (length - radius) / radius
                L, smallest, determinant = tangents_factor(A, shift, n)
                v = -tangents_solve(L, b, n)
                length = wp.length(v)
            v = v * (radius / length)
    return v, L, what


@wp.func
def cone_problem(own: matr, friction: vecr, old: vecr, miss: vecr, n: int):
    """A and b in units of each tangent's friction, and b before that."""
    A = matr()
    b = vecr()
    plain = vecr()
    for j in range(1, ROWS):
        if j <= n:
            total = miss[j]
            for i in range(1, ROWS):
                if i <= n:
                    total -= own[j, i] * old[i]
                    A[j, i] = friction[j] * friction[i] * own[j, i]
            plain[j] = total
            b[j] = friction[j] * total
    return A, b, plain


@wp.func
def cone_update(own: matr, friction: vecr, old: vecr, miss: vecr, n: int):
    """Tangents' forces, these in units of friction, the factor, what became of them, and by how much the cost fell."""
    A, b, _plain = cone_problem(own, friction, old, miss, n)
    v = vecr()
    L = matr()
    what = int(NOTHING)
    if old[0] >= LEAST_FORCE:
        v, L, what = minimise_in_ball(A, b, n, old[0])
    new = old
    change = vecr()
    for j in range(1, ROWS):
        if j <= n:
            new[j] = friction[j] * v[j]
            change[j] = new[j] - old[j]
    fell = -(real(0.5) * wp.dot(change, own * change) + wp.dot(change, miss))
    if fell < -MOST_RISE:
        new = old
        what = UNDONE
        fell = real(0.0)
    return new, v, L, what, fell


# --- sweeps ----------------------------------------------------------------------------------------


@wp.func
def within(x: real, bound: real):
    """NaN stays NaN: min and max would drop it."""
    above = wp.where(x < -bound, -bound, x)
    return wp.where(above > bound, bound, above)


@wp.func
def update_pyramid(own: matr, friction: vecr, bound: vecr, old: vecr, miss: vecr, n: int):
    """Tangents' forces, one after the other, and by how much the cost fell."""
    new = old
    fell = real(0.0)
    for j in range(1, ROWS):
        if j <= n:
            residual = miss[j]
            for i in range(1, j):
                residual += own[j, i] * (new[i] - old[i])
            wish = real(0.0)
            if real(4.0) * friction[j] * friction[j] * own[j, j] >= LEAST_CURVATURE:
                wish = old[j] - residual / own[j, j]
            new[j] = within(wish, bound[j])
            change = new[j] - old[j]
            fell -= change * (real(0.5) * own[j, j] * change + residual)
    return new, fell


@wp.func
def update_block(g: Shapes, c: Contacts, r: Rows, old: vecr, miss: vecr, k: int, slot: int):
    """Forces of block k, and by how much the cost fell. miss: z + B·y"""
    own = r.own[k, slot]
    new = old
    fell = real(0.0)
    if k >= contact_count(c, slot):
        new[0] = within(old[0] - miss[0] / wp.max(own[0, 0], LEAST_CURVATURE), r.bound[k, slot][0])
        change = new[0] - old[0]
        fell = -change * (real(0.5) * own[0, 0] * change + miss[0])
    else:
        n = g.pair_dim[c.pair[k, slot]] - 1
        if n > 0:
            if g.elliptic == 0:
                new, fell = update_pyramid(own, r.friction[k, slot], r.bound[k, slot], old, miss, n)
            else:
                new, _v, _L, _what, fell = cone_update(own, r.friction[k, slot], old, miss, n)
    return new, fell


@wp.func
def sweeps_of(r: Rows, k: int, slot: int):
    """How many sweeps block k had, or is going to have."""
    i = island_of(r, k, slot)
    return wp.where(i < 0, 0, r.island_sweeps[wp.max(i, 0), slot])


@wp.func
def end_sweep(m: Tree, r: Rows, sweep: int, slot: int):
    """Islands that won less than the tolerance stop. Returns whether any goes on."""
    going = bool(False)
    for d in range(m.nv):
        if r.island[d, slot] == d and sweep < r.island_sweeps[d, slot]:
            if r.gain[d, slot] < r.noslip.tolerance * r.load[d, slot]:
                r.island_sweeps[d, slot] = sweep + 1
            else:
                going = True
            r.gain[d, slot] = real(0.0)
    return going


@wp.func
def stop_slip(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """From the convex solution: r.force of contacts and r.row_force of friction loss. r.M is the mass matrix."""
    start_blocks(m, g, c, r, slot)
    factor_of_mass(m, r, slot)
    count = block_count(c, r, slot)
    for k in range(count):
        whiten_block(m, r, k, slot)
        own = matr()
        for i in range(r.reach[k, slot]):
            B = r.B[k * m.nv + i, slot]
            own += wp.outer(B, B)
        r.own[k, slot] = own
    going = bool(True)
    for sweep in range(r.noslip.sweeps):
        if going:
            for turn in range(count):
                k = r.order[turn, slot]
                if sweep < sweeps_of(r, k, slot):
                    old = r.history[sweep, k, slot]
                    miss = r.slip[k, slot] + whitened_motion(m, r, r.swept, k, slot)
                    new, fell = update_block(g, c, r, old, miss, k, slot)
                    r.history[sweep + 1, k, slot] = new
                    add_whitened(m, r, r.swept, new - old, k, slot)
                    i = island_of(r, k, slot)
                    r.gain[i, slot] = r.gain[i, slot] + fell
            going = end_sweep(m, r, sweep, slot)
    for k in range(count):
        force = r.history[sweeps_of(r, k, slot), k, slot]
        if k < contact_count(c, slot):
            r.force[k, slot] = force
        else:
            r.row_force[r.block_row[k, slot], slot] = force[0]
