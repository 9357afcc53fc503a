"""Projected Gauss-Seidel on the blocks of ``impulse.py``, in one of two ways that give the same impulses.

An update of block k is

    residual = A_k λ,   wish = λ_k - weight (b_k + residual + softness λ_k),   λ_k = wish within bounds.

**Among neighbours.** A = Bᵀ B is stored in 3×3 blocks A_kn: what an impulse of block n does to the velocities of block
k. It is zero unless both move the same tree of bodies; the others, a block's neighbours, are listed. Sweeps go up and
down in turn. When one that goes up comes to block k, nothing has changed above k since the last one came down past it.
So half of the sum is known, and only that over the neighbours below k is new; going down, above.

**By velocity.** Where blocks have many more neighbours than degrees of freedom, as with hundreds of contacts on one
body, the whitened change of velocity y = B λ is kept instead: residual = B_kᵀ y, and then y += B_k (λ_k' - λ_k).
Neither time nor memory grows with the square of the contacts.
"""

import math

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..tree.structs import Tree
from .flavour import matr, vecr
from .rows import Rows, contact_count
from .whitening import add_whitened, whitened_motion

NO_BOUND = wp.constant(real(math.inf))


@wp.func
def only_normal(x: real):
    result = vecr()
    result[0] = x
    return result


@wp.func
def block_count(c: Contacts, r: Rows, slot: int):
    """Contacts are first, then come the rows of joints."""
    return contact_count(c, slot) + r.joint_rows[0, slot]


@wp.func
def has_tangents(r: Rows, k: int, slot: int):
    return r.start_stiffness[k, slot][1] > real(0.0)


@wp.func
def goes_up(sweep: int):
    return sweep % 2 == 0


@wp.func
def turn(sweep: int, i: int, contacts: int, count: int):
    """Sweeps go up and down in turn, so that a push at one end of a stack soon reaches the other; joints are lowest."""
    k = contacts + wp.where(goes_up(sweep), i, count - 1 - i)
    return wp.where(k < count, k, k - count)


# --- how impulses change velocities ----------------------------------------------------------------


@wp.func
def share_a_tree(r: Rows, k: int, n: int, slot: int):
    a = r.root[k, slot]
    b = r.root[n, slot]
    return a[0] >= 0 and (a[0] == b[0] or a[0] == b[1] or a[1] == b[0] or a[1] == b[1])


@wp.func
def block_product(m: Tree, r: Rows, k: int, n: int, slot: int):
    """A_kn: products of B at the degrees of freedom that are in both chains, which fall."""
    total = matr()
    i = k * m.nv
    j = n * m.nv
    end_i = i + r.reach[k, slot]
    end_j = j + r.reach[n, slot]
    while i < end_i and j < end_j:
        d = r.chain[i, slot]
        e = r.chain[j, slot]
        if d == e:
            total += wp.outer(r.B[i, slot], r.B[j, slot])
        if d >= e:
            i += 1
        if e >= d:
            j += 1
    return total


@wp.func
def is_crowded(m: Tree, r: Rows, count: int, slot: int):
    """Whether any block has more neighbours than there is room for; counted tree by tree, with itself."""
    for d in range(m.nv):
        r.scratch[d, slot] = 0
    for k in range(count):
        root = r.root[k, slot]
        if root[0] >= 0:
            r.scratch[root[0], slot] = r.scratch[root[0], slot] + 1
            if root[1] != root[0]:
                r.scratch[root[1], slot] = r.scratch[root[1], slot] + 1
    most = int(0)
    for k in range(count):
        root = r.root[k, slot]
        if root[0] >= 0:
            own = r.scratch[root[0], slot]
            if root[1] != root[0]:
                own += r.scratch[root[1], slot]
            most = wp.max(most, own)
    return most > r.A.shape[0]


@wp.func(inline=True)
def add_neighbour(r: Rows, k: int, n: int, A: matr, slot: int):
    """A: A_nk"""
    count = int(r.neighbours[k, slot])
    r.neighbour[count, k, slot] = wp.uint16(n)
    r.A[count, k, slot] = A
    r.neighbours[k, slot] = wp.uint16(count + 1)


@wp.func
def find_neighbours(m: Tree, c: Contacts, r: Rows, softness: real, slot: int):
    """A of each block with itself and, unless they are crowded, with those before it; by turn, and so are the lists."""
    contacts = contact_count(c, slot)
    count = block_count(c, r, slot)
    crowded = is_crowded(m, r, count, slot)
    r.crowded[0, slot] = wp.where(crowded, 1, 0)
    for i in range(count):
        k = turn(0, i, contacts, count)
        if not crowded:
            r.neighbours[k, slot] = wp.uint16(0)
            for j in range(i):
                n = turn(0, j, contacts, count)
                if share_a_tree(r, k, n, slot):
                    A = block_product(m, r, k, n, slot)
                    add_neighbour(r, n, k, A, slot)
                    add_neighbour(r, k, n, wp.transpose(A), slot)
            r.before[k, slot] = r.neighbours[k, slot]
        own = block_product(m, r, k, k, slot)
        r.own[k, slot] = own
        # The weight is the same for both tangents, so that where they are shortened to their bound friction is opposite
        # to sliding; and no more than the larger eigenvalue of their block allows.
        weight = only_normal(real(1.0) / (own[0, 0] + softness))
        if has_tangents(r, k, slot):
            weight[1] = real(1.0) / (own[1, 1] + own[2, 2] + softness)
            weight[2] = weight[1]
        r.weight[k, slot] = weight


# --- one update ------------------------------------------------------------------------------------


@wp.func
def friction_share(x: real, y: real, bound: real):
    """By how much a tangential impulse is shortened to its bound [1]."""
    square = x * x + y * y
    share = real(1.0)
    if square > bound * bound:
        share = bound / wp.sqrt(square)
    return share


@wp.func
def update_block(r: Rows, miss: vecr, sweep: int, k: int, slot: int):
    """First the normal's impulse, then, with what that does to sliding, the tangents'. Returns both.

    miss: b + residual + softness λ
    """
    old = r.history[sweep, k, slot]
    own = r.own[k, slot]
    weight = r.weight[k, slot]
    wish = old[0] - weight[0] * miss[0]
    # NaN stays NaN: min and max would drop it
    new = wp.where(wish < r.low[k, slot], r.low[k, slot], wish)
    if wish > r.high[k, slot]:  # with the aim no more than this, without it whatever it takes
        new = wp.max(r.high[k, slot], wish - weight[0] * r.aim[k, slot])
    # numbers, not vectors: a vector that is set in a branch goes through memory
    x = real(0.0)
    y = real(0.0)
    share = real(1.0)
    if weight[1] > real(0.0):
        pressed = new - old[0]
        x = old[1] - weight[1] * (miss[1] + pressed * own[1, 0])
        y = old[2] - weight[2] * (miss[2] + pressed * own[2, 0])
        share = friction_share(x, y, r.friction[k, slot][1] * new)
    r.wish[sweep, k, slot] = vecr(wish, x, y)
    force = vecr(new, share * x, share * y)
    r.history[sweep + 1, k, slot] = force
    return force


# --- sweeps ----------------------------------------------------------------------------------------


@wp.func(inline=True)
def gather(r: Rows, x: wp.array3d(dtype=vecr), line: int, lower: bool, k: int, slot: int):
    """A x[line] at block k, from its neighbours with a turn before it (lower), or after it."""
    before = int(r.before[k, slot])
    total = vecr()
    i = int(wp.where(lower, 0, before))
    end = wp.where(lower, before, int(r.neighbours[k, slot]))
    while i < end:
        n = int(r.neighbour[i, k, slot])
        total += x[line, n, slot] * r.A[i, k, slot]
        i += 1
    return total


@wp.func
def update_among_neighbours(r: Rows, softness: real, sweep: int, k: int, slot: int):
    old = r.history[sweep, k, slot]
    side = sweep % 2
    # What the block before has just changed comes in last: an update has to wait for it.
    rest = r.b[k, slot] + r.change[1 - side, k, slot] + r.own[k, slot] * old + softness * old
    change = gather(r, r.history, sweep + 1, goes_up(sweep), k, slot)
    r.change[side, k, slot] = change
    update_block(r, rest + change, sweep, k, slot)


@wp.func
def update_by_velocity(m: Tree, r: Rows, softness: real, sweep: int, k: int, slot: int):
    old = r.history[sweep, k, slot]
    miss = r.b[k, slot] + softness * old + whitened_motion(m, r, r.swept, k, slot)
    add_whitened(m, r, r.swept, update_block(r, miss, sweep, k, slot) - old, k, slot)


@wp.func
def sweep_blocks(m: Tree, g: Shapes, c: Contacts, r: Rows, softness: real, slot: int):
    """r.force, from the first line of r.history and y = B λ in r.swept."""
    contacts = contact_count(c, slot)
    count = block_count(c, r, slot)
    if r.crowded[0, slot] == 1:
        for sweep in range(g.sweeps):
            for i in range(count):
                update_by_velocity(m, r, softness, sweep, turn(sweep, i, contacts, count), slot)
    else:
        for k in range(count):
            r.change[1, k, slot] = gather(r, r.history, 0, False, k, slot)
        for sweep in range(g.sweeps):
            for i in range(count):
                update_among_neighbours(r, softness, sweep, turn(sweep, i, contacts, count), slot)
    for k in range(count):
        r.force[k, slot] = r.history[g.sweeps, k, slot]
