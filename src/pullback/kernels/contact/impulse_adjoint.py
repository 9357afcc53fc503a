"""The sweeps of ``impulse.py`` backwards.

One update gave λ_k' = wish within bounds, from residual = Σ A_kn λ_n. Backwards, the cotangent of λ_k' becomes that of
the old λ_k and of the residual, and λ_n gets A_nk residual_bar. As sweeps go up and down in turn, what a block was
between two of its updates is seen by each neighbour on one side of it twice, and by none on the other: r.seen_bar has
the sum of both residual_bar. From it a block gathers what λ_k' gets, just before its update is reversed. Afterwards it
gives A_bar_kn + A_bar_nkᵀ, the sum over lines of seen_bar_k λ_nᵀ or λ_k seen_bar_nᵀ. That is all that matters of A_bar,
for A is symmetric and made of B: times B_n it joins B_bar_k.

Sweeps by velocity are reversed with y, which needs no lists: the cotangent of y is what all later residuals gave, a
block's change λ_k' - λ_k gets its share of that, and y itself is taken back by subtracting what the update added.

Cotangents: of y in r.y_bar, and of what is left of it once it is held back in r.left_bar; of λ in r.force_bar, of b in
r.b_bar, of B in r.B_bar, of bounds in r.high_bar and r.friction_bar, of distances in r.dist_bar, of J v alone in
r.speed_bar, of rebounds in r.rebound_bar.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec4
from ..tree.structs import Params, Tree, Workspace
from .flavour import matr, vecr
from .impulse import (
    LOAD,
    after_touching,
    bounded,
    mass_factor,
    restitution,
    start_wish,
    sticking_matrix,
    touching,
    tree_weight,
)
from .impulse_couplings import rest_aim_adjoint
from .impulse_sweeps import (
    NO_BOUND,
    block_count,
    friction_share,
    gather,
    goes_up,
    only_normal,
    turn,
)
from .islands import hold_back_adjoint, island_of, rebounds, stopped
from .mass_matrix import solve_factored
from .materials import mixed_friction_adjoint
from .rows import Rows, add_contact_force, contact_count, contact_motion
from .whitening import whiten, whitened_motion


@wp.func
def bounce_adjoint(
    x: real,
    speed: real,
    free: real,
    restitution: real,
    h: real,
    target_bar: real,
    rebound_bar: real,
    moment_bar: real,
):
    """Cotangents of x, speed, free and restitution in those of the velocity without rebound, of it, of the moment."""
    one = real(1.0)
    moment = touching(x, speed, free, h)
    after_bar = target_bar + restitution * rebound_bar
    free_bar = -restitution * rebound_bar + (one - moment) * after_bar
    speed_bar = -(one - moment) * after_bar
    restitution_bar = -(free - after_touching(moment, speed, free)) * rebound_bar
    x_bar = real(0.0)
    whole_bar = moment_bar - after_bar * (free - speed)
    if x > real(0.0):
        x_bar = -whole_bar / (h * free)
        free_bar -= x_bar * x / free
    elif moment > -one:
        x_bar = -whole_bar / (h * speed)
        speed_bar -= x_bar * x / speed
    return x_bar, speed_bar, free_bar, restitution_bar


@wp.func
def restitution_adjoint(p: Params, p_bar: Params, g: Shapes, pair: int, bar: real, world: int):
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    e1 = p.restitution[world, i]
    e2 = p.restitution[world, j]
    share1 = wp.where(e1 > e2, real(1.0), real(0.0))
    share2 = wp.where(e2 > e1, real(1.0), real(0.0))
    if e1 == e2:
        # the mean of both sides; at zero there is only the upper one
        share1 = wp.where(e1 > real(0.0), real(0.5), real(1.0))
        share2 = share1
    p_bar.restitution[world, i] = p_bar.restitution[world, i] + share1 * bar
    p_bar.restitution[world, j] = p_bar.restitution[world, j] + share2 * bar


@wp.func
def add_softness_bar(p_bar: Params, bar: real, world: int):
    p_bar.impulse[world, 0] = p_bar.impulse[world, 0] + vec4(real(0.0), bar, real(0.0), real(0.0))


@wp.func
def start_impulses_adjoint(m: Tree, c: Contacts, r: Rows, slot: int):
    """From the cotangents of the first impulses (r.force_bar) to b_bar; r.w becomes ν = H⁻¹ Jᵀ p.

    With p = -D λ_bar and s = p - D J ν: b_bar gets s, J_bar gets s u + λ ν (see ``rows_adjoint``), M gets -ν u.
    """
    for d in range(m.nv):
        r.w[d, slot] = real(0.0)
    for k in range(block_count(c, r, slot)):
        add_contact_force(m, r, r.w, -wp.cw_mul(r.start_stiffness[k, slot], r.force_bar[k, slot]), k, slot)
    solve_factored(m, r, r.w, slot)
    for k in range(block_count(c, r, slot)):
        share = r.force_bar[k, slot] + contact_motion(m, r, r.w, k, slot)
        share = -wp.cw_mul(r.start_stiffness[k, slot], share)
        r.force_bar[k, slot] = share
        r.b_bar[k, slot] = r.b_bar[k, slot] + share


@wp.func
def shortened_adjoint(x: real, y: real, bound: real, x_bar: real, y_bar: real):
    """Cotangents of x, y and the bound of a tangential impulse, (x, y) · bound / length if that is shorter."""
    share = friction_share(x, y, bound)
    free_x_bar = share * x_bar
    free_y_bar = share * y_bar
    bound_bar = real(0.0)
    if share < real(1.0):
        length = wp.sqrt(x * x + y * y)
        x_unit = x / length
        y_unit = y / length
        bound_bar = x_bar * x_unit + y_bar * y_unit
        free_x_bar -= share * bound_bar * x_unit
        free_y_bar -= share * bound_bar * y_unit
    return free_x_bar, free_y_bar, bound_bar


@wp.func
def add_bound_bar(r: Rows, wish: real, bar: real, k: int, slot: int):
    """Of an impulse that is at its bound. That of friction loss is on both sides; others cannot be less than zero."""
    if wish >= r.high[k, slot] or r.low[k, slot] < real(0.0):
        r.high_bar[k, slot] = r.high_bar[k, slot] + wp.sign(wish) * bar


@wp.func
def update_adjoint(r: Rows, softness: real, bar: vecr, sweep: int, k: int, slot: int):
    """From the cotangent of block k after its update to that of its residual, and of softness.

    r.force_bar gets the cotangent from before the update, but for what the residual had of it.
    """
    old = r.history[sweep, k, slot]
    new = r.history[sweep + 1, k, slot]
    wish = r.wish[sweep, k, slot]
    own = r.own[k, slot]
    weight = r.weight[k, slot]
    n_wish = wish[0]
    pressed = new[0] - old[0]
    n_bar = bar[0]
    x_bar = real(0.0)
    y_bar = real(0.0)
    pressed_bar = real(0.0)
    if weight[1] > real(0.0):
        mu = r.friction[k, slot][1]
        x_bar, y_bar, limit_bar = shortened_adjoint(wish[1], wish[2], mu * new[0], bar[1], bar[2])
        r.friction_bar[k, slot] = r.friction_bar[k, slot] + new[0] * limit_bar
        pressed_bar = -weight[1] * (x_bar * own[1, 0] + y_bar * own[2, 0])
        n_bar += mu * limit_bar + pressed_bar
    if not (r.low[k, slot] < n_wish and n_wish < r.high[k, slot]):
        if new[0] > r.high[k, slot]:  # its aim was given up
            n_wish = new[0]
            r.aim_bar[k, slot] = r.aim_bar[k, slot] - weight[0] * n_bar
        else:
            add_bound_bar(r, n_wish, n_bar, k, slot)
            n_bar = real(0.0)
    wish = vecr(n_wish, wish[1], wish[2])
    wish_bar = vecr(n_bar, x_bar, y_bar)
    residual_bar = -wp.cw_mul(weight, wish_bar)
    r.force_bar[k, slot] = wish_bar - only_normal(pressed_bar) + softness * residual_bar
    r.b_bar[k, slot] = r.b_bar[k, slot] + residual_bar
    # Besides the residual, A_kk is in what the normal's impulse does to sliding, and, both lengths for each tangent, in
    # the weights.
    length_bar = wp.cw_mul(residual_bar, wish - old)
    tangents_bar = length_bar[1] + length_bar[2]
    direct_bar = matr(
        length_bar[0], pressed * residual_bar[1], pressed * residual_bar[2],
        real(0.0), tangents_bar, real(0.0),
        real(0.0), real(0.0), tangents_bar,
    )  # fmt: skip
    r.own_bar[k, slot] = r.own_bar[k, slot] + direct_bar
    return residual_bar, wp.dot(residual_bar, wish)


@wp.func
def update_among_neighbours_adjoint(r: Rows, softness: real, sweep: int, k: int, slot: int):
    """r.force_bar of block k goes from after its update to before it. Returns the cotangent of softness."""
    bar = r.force_bar[k, slot] + gather(r, r.seen_bar, sweep + 1, not goes_up(sweep), k, slot)
    residual_bar, softness_bar = update_adjoint(r, softness, bar, sweep, k, slot)
    r.seen_bar[sweep + 1, k, slot] = r.seen_bar[sweep + 1, k, slot] + residual_bar
    r.seen_bar[sweep, k, slot] = residual_bar
    r.force_bar[k, slot] = r.force_bar[k, slot] + r.own[k, slot] * residual_bar
    r.own_bar[k, slot] = r.own_bar[k, slot] + wp.outer(residual_bar, r.history[sweep, k, slot])
    return softness_bar


@wp.func
def update_by_velocity_adjoint(m: Tree, r: Rows, softness: real, sweep: int, k: int, slot: int):
    """The same through residual = Bᵀ y and y' = y + B (λ' - λ), where y in r.swept is taken back to before too."""
    change = r.history[sweep + 1, k, slot] - r.history[sweep, k, slot]
    change_bar = whitened_motion(m, r, r.swept_bar, k, slot)
    residual_bar, softness_bar = update_adjoint(r, softness, r.force_bar[k, slot] + change_bar, sweep, k, slot)
    r.force_bar[k, slot] = r.force_bar[k, slot] - change_bar
    for i in range(r.reach[k, slot]):
        at = k * m.nv + i
        d = r.chain[at, slot]
        B = r.B[at, slot]
        y = r.swept[d, slot] - wp.dot(B, change)
        y_bar = r.swept_bar[d, slot]
        r.swept[d, slot] = y
        r.swept_bar[d, slot] = y_bar + wp.dot(B, residual_bar)
        r.B_bar[at, slot] = r.B_bar[at, slot] + y_bar * change + y * residual_bar
    return softness_bar


@wp.func
def product_bar(g: Shapes, r: Rows, k: int, n: int, slot: int):
    """A_bar_kn + A_bar_nkᵀ from the residuals of all sweeps, where n has its turn before k.

    k sees of n what a sweep upwards leaves, in odd lines, and n of k what one downwards leaves.
    """
    total = matr()
    line = int(0)
    while line <= g.sweeps:
        total += wp.outer(r.history[line, k, slot], r.seen_bar[line, n, slot])
        line += 2
    line = int(1)
    while line <= g.sweeps:
        total += wp.outer(r.seen_bar[line, k, slot], r.history[line, n, slot])
        line += 2
    return total


@wp.func
def add_product_bar(m: Tree, r: Rows, bar: matr, k: int, n: int, slot: int):
    """B_bar_k += bar B_n, and B_bar_n += barᵀ B_k, at the degrees of freedom that are in both chains."""
    i = k * m.nv
    j = n * m.nv
    end_i = i + r.reach[k, slot]
    end_j = j + r.reach[n, slot]
    while i < end_i and j < end_j:
        d = r.chain[i, slot]
        e = r.chain[j, slot]
        if d == e:
            r.B_bar[i, slot] = r.B_bar[i, slot] + bar * r.B[j, slot]
            r.B_bar[j, slot] = r.B_bar[j, slot] + r.B[i, slot] * bar
        if d >= e:
            i += 1
        if e >= d:
            j += 1


@wp.func
def products_adjoint(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """From the cotangents of A to B_bar."""
    for k in range(block_count(c, r, slot)):
        if r.crowded[0, slot] == 0:
            for i in range(int(r.before[k, slot])):
                n = int(r.neighbour[i, k, slot])
                add_product_bar(m, r, product_bar(g, r, k, n, slot), k, n, slot)
        own_bar = r.own_bar[k, slot] + wp.transpose(r.own_bar[k, slot])
        for i in range(r.reach[k, slot]):
            at = k * m.nv + i
            r.B_bar[at, slot] = r.B_bar[at, slot] + own_bar * r.B[at, slot]


@wp.func
def aims_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    world: int,
    slot: int,
    wants_params: int,
):
    """From b_bar, that of J v* - target, to those of J v*, in its place, of J v, of the distance and of parameters."""
    law = p.impulse[world, 0]
    h = m.timestep
    for k in range(contact_count(c, slot)):
        r.rebound_bar[k, slot] = r.aim_bar[k, slot] - r.b_bar[k, slot][0]
    if rebounds(c, r, slot):  # the work is that of velocities less what they aim at without rebound
        for k in range(block_count(c, r, slot)):
            i = island_of(r, k, slot)
            if i >= 0:
                r.b_bar[k, slot] = r.b_bar[k, slot] + r.linear[i, slot] * r.history[g.sweeps, k, slot]
    for k in range(contact_count(c, slot)):
        pair = c.pair[k, slot]
        x = c.dist[k, slot]
        bar = r.aim_bar[k, slot] - r.b_bar[k, slot][0]
        rebound_bar = r.rebound_bar[k, slot]
        r.speed_bar[k, slot] = real(0.0)
        if r.bounced[k, slot] == 1:
            speed = contact_motion(m, r, s.v, k, slot)[0]
            free = speed + h * contact_motion(m, r, r.kept_a, k, slot)[0]
            e = restitution(p, g, pair, world)
            moment_bar = r.moment_bar[k, slot]
            x_bar, speed_bar, free_bar, e_bar = bounce_adjoint(x, speed, free, e, h, bar, rebound_bar, moment_bar)
            r.b_bar[k, slot] = r.b_bar[k, slot] + only_normal(free_bar)
            r.speed_bar[k, slot] = speed_bar
            r.dist_bar[k, slot] = x_bar
            if wants_params == 1:
                restitution_adjoint(p, p_bar, g, pair, e_bar, world)
        else:
            x_rest_bar, slop_bar, erp_bar = rest_aim_adjoint(x, law[2], law[0], h, bar)
            r.dist_bar[k, slot] = x_rest_bar
            parting = contact_motion(m, r, s.v, k, slot)[0]
            if parting > g.rest_speed:
                r.speed_bar[k, slot] = -restitution(p, g, pair, world) * rebound_bar
                if wants_params == 1:
                    restitution_adjoint(p, p_bar, g, pair, -parting * rebound_bar, world)
            if wants_params == 1:
                p_bar.impulse[world, 0] = p_bar.impulse[world, 0] + vec4(erp_bar, real(0.0), slop_bar, real(0.0))


@wp.func
def bounce_moments_adjoint(m: Tree, c: Contacts, r: Rows, slot: int):
    """From r.moved_bar to the cotangents of moments, and to r.force_bar, which begins here. r.w: what these changed."""
    for d in range(m.nv):
        r.late_bar[d, slot] = -r.moved_bar[d, slot] * r.w[d, slot]
    for back in range(m.nv):
        d = m.nv - 1 - back
        parent = m.dof_parent[d]
        if parent >= 0:
            r.late_bar[parent, slot] = r.late_bar[parent, slot] + r.late_bar[d, slot]
    for k in range(contact_count(c, slot)):
        push_bar = real(0.0)
        moment_bar = real(0.0)
        if r.bounced[k, slot] == 1:
            for i in range(r.reach[k, slot]):
                root = r.chain[k * m.nv + i, slot]
                if m.dof_parent[root] < 0 and r.pushed[root, slot] > real(0.0):
                    share = r.late_bar[root, slot] / r.pushed[root, slot]
                    push_bar += share * (r.moment[k, slot] - r.late[root, slot])
                    moment_bar += share * r.force[k, slot][0]
        r.moment_bar[k, slot] = moment_bar
        r.force_bar[k, slot] = only_normal(push_bar)


@wp.func
def add_outer(m: Tree, r: Rows, x: wp.array2d(dtype=real), force: vecr, k: int, slot: int):
    """B_bar += x forceᵀ of block k: through x·(B force)."""
    for i in range(r.reach[k, slot]):
        at = k * m.nv + i
        r.B_bar[at, slot] = r.B_bar[at, slot] + x[r.chain[at, slot], slot] * force


@wp.func
def scale_start_adjoint(
    m: Tree, p: Params, p_bar: Params, c: Contacts, r: Rows, world: int, slot: int, wants_params: int
):
    """From the cotangents of the scaled impulses, in r.force_bar, to those before, to b_bar and B_bar.

    r.swept is y of the scaled impulses.
    """
    scale = r.start_scale[0, slot]
    softness = p.impulse[world, 0][1]
    inside = scale > real(0.0) and scale < real(1.0)
    count = block_count(c, r, slot)
    scale_bar = real(0.0)
    norm = real(0.0)
    for k in range(count):
        first = r.history[0, k, slot]
        if inside:
            scale_bar += wp.dot(r.force_bar[k, slot], first) / scale
            norm += wp.dot(first, first) / (scale * scale)
        r.force_bar[k, slot] = scale * r.force_bar[k, slot]
    if inside:
        square = softness * norm
        for d in range(m.nv):
            r.swept[d, slot] = r.swept[d, slot] / scale
            square += r.swept[d, slot] * r.swept[d, slot]
        linear_bar = -scale_bar / square
        square_bar = real(2.0) * scale * linear_bar  # of half of it
        for k in range(count):
            first = r.history[0, k, slot] / scale
            change = whitened_motion(m, r, r.swept, k, slot) + softness * first
            r.force_bar[k, slot] = r.force_bar[k, slot] + linear_bar * r.b[k, slot] + square_bar * change
            r.b_bar[k, slot] = r.b_bar[k, slot] + linear_bar * first
            add_outer(m, r, r.swept, square_bar * first, k, slot)
        if wants_params == 1:
            add_softness_bar(p_bar, real(0.5) * square_bar * norm, world)


@wp.func
def bounds_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    c: Contacts,
    r: Rows,
    world: int,
    slot: int,
    wants_params: int,
):
    """r.force_bar goes from the first impulses to those before they were bounded; these are put in r.force.

    Then all cotangents of bounds are known and join p_bar.
    """
    contacts = contact_count(c, slot)
    for k in range(block_count(c, r, slot)):
        wish = start_wish(m, r, k, slot)
        bar = r.force_bar[k, slot]
        n = bounded(r, wish[0], k, slot)
        mu = r.friction[k, slot][1]
        x_bar, y_bar, length_bar = shortened_adjoint(wish[1], wish[2], mu * n, bar[1], bar[2])
        n_bar = bar[0] + mu * length_bar
        if not (r.low[k, slot] < wish[0] and wish[0] < r.high[k, slot]):
            add_bound_bar(r, wish[0], n_bar, k, slot)
            n_bar = real(0.0)
        r.force_bar[k, slot] = vecr(n_bar, x_bar, y_bar)
        r.force[k, slot] = wish
        if wants_params == 1:
            if k < contacts:
                friction_bar = vecr(real(0.0), r.friction_bar[k, slot] + n * length_bar, real(0.0))
                mixed_friction_adjoint(p, p_bar, g, c.pair[k, slot], friction_bar, world)
            elif r.joint_source[k - contacts, slot] < 0:
                loss = -1 - r.joint_source[k - contacts, slot]
                p_bar.loss[world, loss] = p_bar.loss[world, loss] + m.timestep * r.high_bar[k, slot]


@wp.func
def bound_impulses_adjoint(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """From the cotangents of bounds to those of aims, of energies, for ``rows_adjoint``, and of velocities."""
    for d in range(m.nv):
        r.energy_bar[d, slot] = real(0.0)
    for k in range(block_count(c, r, slot)):
        bar = r.high_bar[k, slot]
        if r.aim[k, slot] < NO_BOUND and bar != real(0.0):
            i = island_of(r, k, slot)
            if i >= 0:
                r.aim_bar[k, slot] = r.aim_bar[k, slot] + real(2.0) * tree_weight(g, r, k, slot) * bar
                if r.energy[i, slot] > real(0.0):
                    share = real(0.5) * LOAD * wp.sqrt(r.arm[k, slot] * r.load[i, slot] / r.energy[i, slot])
                    r.energy_bar[i, slot] = r.energy_bar[i, slot] + share * bar
        if not r.aim[k, slot] > real(0.0):
            r.aim_bar[k, slot] = real(0.0)
    for d in range(m.nv):
        free_bar = real(2.0) * r.energy_bar[r.island[d, slot], slot] * r.momentum[d, slot]
        s.v_bar[d, slot] = s.v_bar[d, slot] + free_bar
        s.a_bar[d, slot] = s.a_bar[d, slot] + m.timestep * free_bar


@wp.func
def end_adjoint(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """From s.a_bar to the cotangents of the last impulses, and of B by y = B λ; all other sums begin at zero."""
    for d in range(m.nv):
        r.left_bar[d, slot] = s.a_bar[d, slot] / m.timestep - r.late[d, slot] * r.moved_bar[d, slot]
    for k in range(contact_count(c, slot), block_count(c, r, slot)):
        r.force_bar[k, slot] = vecr()
    for k in range(contact_count(c, slot)):
        r.force[k, slot] = r.history[g.sweeps, k, slot]  # before they were held back
    bounce_moments_adjoint(m, c, r, slot)
    whiten(m, r, r.left_bar, slot)
    for d in range(m.nv):
        r.y_bar[d, slot] = r.left_bar[d, slot]
    rebound = rebounds(c, r, slot)
    if rebound:
        hold_back_adjoint(m, r, slot)
    for k in range(block_count(c, r, slot)):
        force = r.force[k, slot]
        force_bar = r.force_bar[k, slot]
        if rebound:
            i = island_of(r, k, slot)
            if i >= 0:
                force_bar += r.linear[i, slot] * stopped(c, r, k, slot)
        for i in range(r.reach[k, slot]):
            at = k * m.nv + i
            y_bar = r.y_bar[r.chain[at, slot], slot]
            force_bar += y_bar * r.B[at, slot]
            r.B_bar[at, slot] = y_bar * force
        r.force_bar[k, slot] = force_bar
        r.b_bar[k, slot] = vecr()
        r.friction_bar[k, slot] = real(0.0)
        r.high_bar[k, slot] = real(0.0)
        r.aim_bar[k, slot] = real(0.0)
        r.own_bar[k, slot] = matr()
        r.seen_bar[g.sweeps, k, slot] = vecr()


@wp.func
def sweeps_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    world: int,
    slot: int,
    wants_params: int,
):
    """From s.a_bar back to B_bar and b_bar; what b depends on joins s.a_bar."""
    contacts = contact_count(c, slot)
    count = block_count(c, r, slot)
    softness = p.impulse[world, 0][1]
    end_adjoint(m, g, s, c, r, slot)
    softness_bar = real(0.0)
    if r.crowded[0, slot] == 1:
        for d in range(m.nv):
            r.swept_bar[d, slot] = real(0.0)
        for back in range(g.sweeps):
            sweep = g.sweeps - 1 - back
            for i in range(count):
                k = turn(sweep, count - 1 - i, contacts, count)
                softness_bar += update_by_velocity_adjoint(m, r, softness, sweep, k, slot)
        for k in range(count):
            r.force_bar[k, slot] = r.force_bar[k, slot] + whitened_motion(m, r, r.swept_bar, k, slot)
            add_outer(m, r, r.swept_bar, r.history[0, k, slot], k, slot)
    else:
        for back in range(g.sweeps):
            sweep = g.sweeps - 1 - back
            for i in range(count):
                k = turn(sweep, count - 1 - i, contacts, count)
                softness_bar += update_among_neighbours_adjoint(r, softness, sweep, k, slot)
        for k in range(count):
            r.force_bar[k, slot] = r.force_bar[k, slot] + gather(r, r.seen_bar, 0, True, k, slot)
    if wants_params == 1:
        add_softness_bar(p_bar, softness_bar, world)
    products_adjoint(m, g, c, r, slot)
    scale_start_adjoint(m, p, p_bar, c, r, world, slot, wants_params)
    bounds_adjoint(m, g, p, p_bar, c, r, world, slot, wants_params)
    bound_impulses_adjoint(m, g, s, c, r, slot)
    sticking_matrix(m, g, s, c, r, slot)
    start_impulses_adjoint(m, c, r, slot)
    mass_factor(m, s, r, slot)
    aims_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
    for k in range(count):
        add_contact_force(m, r, s.a_bar, m.timestep * r.b_bar[k, slot], k, slot)
