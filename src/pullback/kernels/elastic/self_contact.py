"""Contact of bodies with each other and with themselves: incremental potential contact (Li et al. 2020).

The potential of a pair, of a vertex and a face or of two edges, is m B(d), with the barrier B of the contact with
shapes, and m that makes way for edges which become parallel, where their closest points jump. Friction too is that of
shapes, between the closest points before the step, with the weights c that they had. Blocks of the Hessian of vertices
that no element joins are in a list for each row.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .broad_phase import LEAST_MARGIN, SPARE_MARGIN, find_pairs, mark_all, safe_share, strayed
from .contact import barrier, barrier_first, barrier_second, round_speed, rub
from .kinds import STIFFNESS
from .pairs import (
    ONE,
    ZERO,
    between,
    closest,
    edge_sign,
    fade,
    inverse_of_slides,
    product_bends,
    product_slopes,
    weighted,
)
from .solids import HALF
from .structs import Law, LawBar, Mesh, Scene, Step, Vectors, Work, mat43
from .touch import Touch

# By how much a residual is reduced before handles that could not go all the way move on. [1]
CALM = wp.constant(wp.float64(0.1))


@wp.func(inline=True)
def self_friction(c: Scene, m: Law, world: int):
    return m.friction[world, c.kind.shape[0]]


@wp.func(inline=True)
def slip_of(t: Touch, x: Vectors, before: Vectors, k: int, world: int):
    """How the closest points of a pair move along each other, by their weights before the step [m]."""
    a = t.rub_corners[world, k]
    c = t.rub_weights[world, k]
    n = t.rub_normal[world, k]
    u = c[0] * (x[world, a[0]] - before[world, a[0]]) + c[1] * (x[world, a[1]] - before[world, a[1]])
    u += c[2] * (x[world, a[2]] - before[world, a[2]]) + c[3] * (x[world, a[3]] - before[world, a[3]])
    return u - wp.dot(u, n) * n


@wp.func
def touch_energy(c: Scene, m: Law, w: Work, s: Step, x: Vectors, world: int):
    t = w.touch
    k = m.around[world, 0][STIFFNESS]
    total = wp.float64(0.0)
    for number in range(t.active_count[world]):
        p = t.active[world, number]
        corners = t.corners[world, p]
        parallel = t.parallel[world, p]
        x0 = x[world, corners[0]]
        x1 = x[world, corners[1]]
        x2 = x[world, corners[2]]
        x3 = x[world, corners[3]]
        d = between(x0, x1, x2, x3, parallel)
        if not d >= c.gap:
            share, _first, _second = fade(x1 - x0, x3 - x2, parallel)
            total += wp.float64(share * barrier(c, k, d))
    friction = self_friction(c, m, world)
    for p in range(t.rub_count[world]):
        slip = wp.length(slip_of(t, x, w.before, p, world))
        total += wp.float64(friction * t.rub_force[world, p] * round_speed(c.slip * s.dt, slip))
    return total


@wp.func
def add_block(g: Mesh, t: Touch, blocks: wp.array2d(dtype=mat33), i: int, j: int, block: mat33, world: int):
    """To the Hessian's block of vertices i and j."""
    place = int(-1)
    for b in range(g.first[i], g.first[i + 1]):
        if g.column[b] == j:
            place = b
    if place >= 0:
        blocks[world, place] += block
    else:
        place = t.block_head[world, i]
        while place >= 0 and t.block_column[world, place] != j:
            place = t.block_next[world, place]
        if place >= 0:
            t.block[world, place] += block
        else:
            place = t.block_count[world]
            if place < t.block.shape[1]:
                t.block_count[world] = place + 1
                t.block_column[world, place] = j
                t.block_next[world, place] = t.block_head[world, i]
                t.block_head[world, i] = place
                t.block[world, place] = block
            else:
                t.overflow[world] = 1


@wp.func
def touch_product(t: Touch, x: Vectors, i: int, world: int):
    """A row of the blocks that the mesh has none for, times x."""
    sum = vec3()
    place = t.block_head[world, i]
    while place >= 0:
        sum += t.block[world, place] * x[world, t.block_column[world, place]]
        place = t.block_next[world, place]
    return sum


@wp.func(inline=True)
def fade_slopes(u: vec3, v: vec3):
    """The gradient of |u x v|² by the four corners of two edges u and v."""
    by_u, by_v = product_slopes(u, v)
    slopes = mat43()
    slopes[0] = -by_u
    slopes[1] = by_u
    slopes[2] = -by_v
    slopes[3] = by_v
    return slopes


@wp.func
def add_pair(g: Mesh, c: Scene, w: Work, p: int, k: real, world: int, wants_hessian: int):
    t = w.touch
    corners = t.corners[world, p]
    parallel = t.parallel[world, p]
    x0 = w.after[world, corners[0]]
    x1 = w.after[world, corners[1]]
    x2 = w.after[world, corners[2]]
    x3 = w.after[world, corners[3]]
    weights, g0, g1 = closest(x0, x1, x2, x3, parallel)
    r = weighted(weights, x0, x1, x2, x3)
    d = wp.length(r)
    if d < c.gap:
        n = r / d
        share, fade_first, fade_second = fade(x1 - x0, x3 - x2, parallel)
        B = barrier(c, k, d)
        first = barrier_first(c, k, d)
        slopes = mat43()
        if fade_first != ZERO:
            slopes = fade_slopes(x1 - x0, x3 - x2)
        for a in range(4):
            w.gradient[world, corners[a]] += share * first * weights[a] * n + B * fade_first * slopes[a]
        if wants_hessian > 0:
            straight = share * barrier_second(c, k, d) * wp.outer(n, n)
            bend = ZERO  # m B'/d, of the Hessian of |r|²/2
            if wants_hessian == 1:
                bend = share * first / d
                straight += bend * (wp.identity(n=3, dtype=real) - wp.outer(n, n))
            e0 = weighted(g0, x0, x1, x2, x3)
            e1 = weighted(g1, x0, x1, x2, x3)
            inverse = inverse_of_slides(e0, e1)
            u = x1 - x0
            v = x3 - x2
            for a in range(4):
                va0 = g0[a] * r + weights[a] * e0
                va1 = g1[a] * r + weights[a] * e1
                left0 = inverse[0] * va0 + inverse[2] * va1
                left1 = inverse[2] * va0 + inverse[1] * va1
                for b in range(a + 1):
                    block = weights[a] * weights[b] * straight
                    if bend != ZERO:
                        vb0 = g0[b] * r + weights[b] * e0
                        vb1 = g1[b] * r + weights[b] * e1
                        block -= bend * (wp.outer(left0, vb0) + wp.outer(left1, vb1))
                    if fade_first != ZERO and wants_hessian == 1:
                        block += first * fade_first * weights[a] * wp.outer(n, slopes[b])
                        block += first * fade_first * weights[b] * wp.outer(slopes[a], n)
                        uu, vv, uv = product_bends(u, v)
                        turn = uu
                        if b >= 2:
                            turn = vv
                        elif a >= 2:
                            turn = wp.transpose(uv)
                        block += B * fade_second * wp.outer(slopes[a], slopes[b])
                        block += B * fade_first * edge_sign(a) * edge_sign(b) * turn
                    add_block(g, t, w.blocks, corners[a], corners[b], block, world)
                    if a != b:
                        add_block(g, t, w.blocks, corners[b], corners[a], wp.transpose(block), world)


@wp.func
def add_rub(g: Mesh, c: Scene, m: Law, w: Work, s: Step, p: int, world: int, wants_hessian: int):
    t = w.touch
    corners = t.rub_corners[world, p]
    weights = t.rub_weights[world, p]
    n = t.rub_normal[world, p]
    f = self_friction(c, m, world) * t.rub_force[world, p]
    u = slip_of(t, w.after, w.before, p, world)
    slope, bend = rub(c.slip * s.dt, wp.length(u))
    for a in range(4):
        w.gradient[world, corners[a]] += f * slope * weights[a] * u
    if wants_hessian > 0:
        whole = f * (slope * (wp.identity(n=3, dtype=real) - wp.outer(n, n)) + bend * wp.outer(u, u))
        for a in range(4):
            for b in range(4):
                if weights[a] * weights[b] != ZERO:
                    block = weights[a] * weights[b] * whole
                    add_block(g, t, w.blocks, corners[a], corners[b], block, world)


@wp.func
def add_touches(g: Mesh, c: Scene, m: Law, w: Work, s: Step, world: int, wants_hessian: int):
    """Adds all pairs to w.gradient, and to the Hessian if it is wanted, at w.after; see ``differentiate``. Without
    what is not convex, a barrier bends along its normal alone."""
    t = w.touch
    if wants_hessian > 0:
        t.block_count[world] = 0
        for i in range(g.handle.shape[0]):
            t.block_head[world, i] = -1
    k = m.around[world, 0][STIFFNESS]
    for number in range(t.active_count[world]):
        add_pair(g, c, w, t.active[world, number], k, world, wants_hessian)
    if self_friction(c, m, world) > ZERO:
        for p in range(t.rub_count[world]):
            add_rub(g, c, m, w, s, p, world, wants_hessian)


@wp.func
def note_friction(c: Scene, m: Law, w: Work, world: int):
    """Which pairs rub in this step, and how hard they are pressed, from the list as it was made at w.before."""
    t = w.touch
    k = m.around[world, 0][STIFFNESS]
    count = int(0)
    for p in range(t.pair_count[world]):
        if t.apart[world, p] < c.gap:
            corners = t.corners[world, p]
            parallel = t.parallel[world, p]
            x0 = w.before[world, corners[0]]
            x1 = w.before[world, corners[1]]
            x2 = w.before[world, corners[2]]
            x3 = w.before[world, corners[3]]
            weights, _g0, _g1 = closest(x0, x1, x2, x3, parallel)
            r = weighted(weights, x0, x1, x2, x3)
            d = wp.length(r)
            share, _first, _second = fade(x1 - x0, x3 - x2, parallel)
            force = -share * barrier_first(c, k, d)
            if force > ZERO:
                if count < t.rub_corners.shape[1]:
                    t.rub_corners[world, count] = corners
                    t.rub_parallel[world, count] = parallel
                    t.rub_weights[world, count] = weights
                    t.rub_normal[world, count] = r / d
                    t.rub_force[world, count] = force
                    count += 1
                else:
                    t.overflow[world] = 1
    t.rub_count[world] = count


@wp.func
def rub_adjoint(c: Scene, w: Work, s: Step, p: int, k: real, friction: real, world: int):
    """Subtracts the derivative of lam·gradient by x from w.direction; returns those by stiffness and friction.

    lam·gradient = f N s(|u|) lam_c·u, with u = (1 - n n^T) sum c_a (x'_a - x_a) and lam_c = sum c_a lam_a
    """
    t = w.touch
    corners = t.rub_corners[world, p]
    parallel = t.rub_parallel[world, p]
    x0 = w.before[world, corners[0]]
    x1 = w.before[world, corners[1]]
    x2 = w.before[world, corners[2]]
    x3 = w.before[world, corners[3]]
    weights, g0, g1 = closest(x0, x1, x2, x3, parallel)
    r = weighted(weights, x0, x1, x2, x3)
    d = wp.length(r)
    n = t.rub_normal[world, p]
    N = t.rub_force[world, p]
    share, fade_first, _second = fade(x1 - x0, x3 - x2, parallel)
    move = vec3()
    lam = vec3()
    for a in range(4):
        move += weights[a] * w.moved[world, corners[a]]
        lam += weights[a] * w.move[world, corners[a]]
    across = wp.dot(move, n)
    u = move - across * n
    slope, bend = rub(c.slip * s.dt, wp.length(u))
    lu = wp.dot(lam, u)
    dissipated = slope * lu
    u_bar = friction * N * (slope * lam + bend * lu * u)  # by u, before it is projected
    un = wp.dot(u_bar, n)
    move_bar = u_bar - un * n
    lam_bar = friction * N * slope * u
    n_bar = -(across * u_bar + un * move)
    r_bar = (n_bar - wp.dot(n_bar, n) * n) / d
    r_bar -= friction * dissipated * share * barrier_second(c, k, d) * n
    # The weights depend on x by the free numbers q.
    e0 = weighted(g0, x0, x1, x2, x3)
    e1 = weighted(g1, x0, x1, x2, x3)
    q0 = wp.dot(e0, r_bar)
    q1 = wp.dot(e1, r_bar)
    for a in range(4):
        by_weight = wp.dot(move_bar, w.moved[world, corners[a]]) + wp.dot(lam_bar, w.move[world, corners[a]])
        q0 += g0[a] * by_weight
        q1 += g1[a] * by_weight
    inverse = inverse_of_slides(e0, e1)
    y0 = inverse[0] * q0 + inverse[2] * q1
    y1 = inverse[2] * q0 + inverse[1] * q1
    e_bar = y0 * e0 + y1 * e1
    fade_bar = -friction * dissipated * barrier_first(c, k, d) * fade_first
    slopes = mat43()
    if fade_first != ZERO:
        slopes = fade_slopes(x1 - x0, x3 - x2)
    for a in range(4):
        x_bar = weights[a] * (r_bar - move_bar - e_bar) - (g0[a] * y0 + g1[a] * y1) * r + fade_bar * slopes[a]
        w.direction[world, corners[a]] -= x_bar
    return -friction * N * dissipated / k, -N * dissipated


@wp.func
def touch_adjoint(c: Scene, m: Law, w: Work, s: Step, bar: LawBar, world: int):
    """Subtracts the derivatives of lam·gradient, with lam in w.move: by x from w.direction, and by the parameters."""
    t = w.touch
    k = m.around[world, 0][STIFFNESS]
    k_bar = wp.float64(0.0)
    friction_bar = wp.float64(0.0)
    for p in range(t.pair_count[world]):
        corners = t.corners[world, p]
        parallel = t.parallel[world, p]
        x0 = w.after[world, corners[0]]
        x1 = w.after[world, corners[1]]
        x2 = w.after[world, corners[2]]
        x3 = w.after[world, corners[3]]
        weights, _g0, _g1 = closest(x0, x1, x2, x3, parallel)
        r = weighted(weights, x0, x1, x2, x3)
        d = wp.length(r)
        if d < c.gap:
            share, fade_first, _second = fade(x1 - x0, x3 - x2, parallel)
            lam = vec3()
            for a in range(4):
                lam += weights[a] * w.move[world, corners[a]]
            along = share * barrier_first(c, ONE, d) * wp.dot(lam, r) / d
            if fade_first != ZERO:
                slopes = fade_slopes(x1 - x0, x3 - x2)
                for a in range(4):
                    along += barrier(c, ONE, d) * fade_first * wp.dot(slopes[a], w.move[world, corners[a]])
            k_bar -= wp.float64(along)
    friction = self_friction(c, m, world)
    for p in range(t.rub_count[world]):
        by_stiffness, by_friction = rub_adjoint(c, w, s, p, k, friction, world)
        k_bar += wp.float64(by_stiffness)
        friction_bar += wp.float64(by_friction)
    around = bar.around[world, 0]
    around[STIFFNESS] += k_bar
    bar.around[world, 0] = around
    bar.friction[world, c.kind.shape[0]] += friction_bar


# --- the course of a step -----------------------------------------------------------------------------


@wp.func(inline=True)
def go(w: Work, move: Vectors, share: real, world: int):
    """From w.before by a share of a move."""
    for i in range(move.shape[1]):
        moved = share * move[world, i]
        w.moved[world, i] = moved
        w.after[world, i] = w.before[world, i] + moved


@wp.func
def set_out(g: Mesh, c: Scene, m: Law, w: Work, world: int):
    """Sees to it that the first guesses can be reached: w.after, where handles alone move, as w.moved says, and
    w.trial, where all vertices do, as w.move says. Keeps where handles go, for those that cannot get there yet."""
    t = w.touch
    n = g.handle.shape[0]
    t.overflow[world] = 0
    t.arrived[world] = 1
    t.unrest[world] = wp.float64(0.0)
    handles_move = bool(False)
    for i in range(n):
        t.target[world, i] = w.moved[world, i]
        handles_move = handles_move or wp.length_sq(w.moved[world, i]) > ZERO
    way = strayed(w.move, w.move, ZERO, w.move, ZERO, world)
    find_pairs(t, w.before, c.gap, SPARE_MARGIN * way + LEAST_MARGIN * c.gap, world)
    note_friction(c, m, w, world)
    together = safe_share(w, w.before, w.move, c.gap, world)
    if not handles_move:
        for i in range(n):
            move = together * w.move[world, i]
            w.move[world, i] = move
            w.trial[world, i] = w.before[world, i] + move
    else:
        alone = safe_share(w, w.before, w.moved, c.gap, world)
        if alone < ONE and together >= alone:
            go(w, w.move, together, world)
            t.arrived[world] = wp.where(together < ONE, 0, 1)
        elif alone < ONE:
            go(w, w.moved, alone, world)
            t.arrived[world] = 0
        if together < ONE:  # one guess alone is left
            for i in range(n):
                w.move[world, i] = w.moved[world, i]
                w.trial[world, i] = w.after[world, i]
        mark_all(t, world)


@wp.func(inline=True)
def is_calm(t: Touch, residual: wp.float64, world: int):
    """Whether vertices have made way since handles moved last, so that those may move on."""
    calm = t.unrest[world] > wp.float64(0.0) and residual <= CALM * t.unrest[world]
    if t.unrest[world] == wp.float64(0.0):
        t.unrest[world] = residual
    return calm


@wp.func
def move_handles_on(g: Mesh, c: Scene, w: Work, world: int):
    """Halfway to where handles can go now that vertices have made way for them, or all the way."""
    t = w.touch
    t.unrest[world] = wp.float64(0.0)
    for i in range(g.handle.shape[0]):
        move = vec3()
        if g.handle[i] != -1:
            move = t.target[world, i] - w.moved[world, i]
        w.move[world, i] = move
    share = safe_share(w, w.after, w.move, c.gap, world)
    if share < ONE:
        share = HALF * share
    for i in range(g.handle.shape[0]):
        moved = w.moved[world, i] + share * w.move[world, i]
        if share == ONE and g.handle[i] != -1:
            moved = t.target[world, i]
        w.moved[world, i] = moved
        w.after[world, i] = w.before[world, i] + moved
    if share == ONE:
        t.arrived[world] = 1


@wp.func
def retrace(c: Scene, m: Law, w: Work, world: int):
    """What a step that is gone back through rubs at, and what touches at its end."""
    t = w.touch
    t.overflow[world] = 0
    find_pairs(t, w.before, c.gap, ZERO, world)
    note_friction(c, m, w, world)
    find_pairs(t, w.after, c.gap, ZERO, world)
    mark_all(t, world)
