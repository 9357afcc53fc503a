"""Contact as complementarity of velocities, by projected Gauss-Seidel, and the same sweeps backwards.

After all other forces have acted the velocity is v* = v + h a. Impulses λ at the contacts, limits and joints with
friction loss change it to v* + M⁻¹ Jᵀ λ, such that along a normal

    λ ≥ 0,   J v' + softness λ ≥ target,   and one of the two is an equality,

and friction, within its bound |λ_t| ≤ μ λ_n, brings the sliding velocity, but for softness, to zero. The sweeps end
after a fixed number, converged or not; what is differentiated is what was computed, sweep by sweep (Qiao et al. 2021,
supplement A).

A bounce happens when surfaces touch, somewhere in the step, and not at its start. Velocities do not know, but positions
move with v* before that moment and with v' after it. Without this a ball that falls from a little higher would rise by
as much higher, whatever its restitution. The moment is one for each tree of bodies, the mean over its contacts that
bounce, by impulse: what answers to a blow does so when the blow comes.

Contacts are blocks of three rows, a normal and two tangents; limits, friction loss and equality constraints
(``impulse_couplings.py``) are blocks whose second and third row are empty. All that the sweeps
(``impulse_sweeps.py``) need of the mechanism is A = J M⁻¹ Jᵀ.

With M = Lᵀ D L, W = D^(-1/2) L^(-T) and the whitened Jacobian B = W Jᵀ, A = Bᵀ B, and velocities change by Wᵀ y with
y = B λ. All that is made of B are products of its columns, so any W with Wᵀ W = M⁻¹ would do, and the backward pass
needs no derivative of the factors: it is the gradient of Σ (Wᵀ B_bar)·Jᵀ - ½ (Wᵀ B_bar)·M (Wᵀ B) over the rows.

    letter  meaning                                                      kept in
    y       whitened change of velocity; during the sweeps               r.y, r.swept
    b       J v* - target                                                r.b
    λ       impulses                                                     r.force
    A       blocks, by neighbour and block; with itself                  r.A, r.own
            how far an update goes for a unit of velocity                r.weight
    t / h   when bouncing surfaces touch, in steps                       r.moment
    κ       share of its impulses that a tree gets, see ``islands.py``   r.held
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..tree.structs import Params, Tree, Workspace
from .flavour import LOOPS, TENDONS, vecr
from .impulse_couplings import START_STIFFNESS, finish_block, rest_aim
from .impulse_sweeps import (
    NO_BOUND,
    block_count,
    find_neighbours,
    friction_share,
    only_normal,
    sweep_blocks,
)
from .islands import find_islands, hold_back, island_of, rebounds
from .limits import add_limit_row, limit_distance, sides
from .mass_matrix import (
    add_curvature,
    composite_bodies,
    factorise,
    factorise_rows,
    find_columns,
    multiply_mass,
    solve_factored,
    start_matrix,
)
from .materials import mixed_friction
from .rows import Rows, add_contact_force, add_loss_row, contact_count, contact_jacobian, contact_motion, has_rows
from .whitening import add_whitened, reach_root, whiten_block, whiten_transposed

if LOOPS:
    from .impulse_couplings import loop_blocks
if TENDONS:
    from .impulse_couplings import tendon_blocks
    from .tendons import add_couplings, multiply_couplings

# How many times over an impulse may be what stops all bodies that touch, before its aim is given up [1]: some, because
# of levers.
LOAD = wp.constant(real(5.0))


# --- whitening -------------------------------------------------------------------------------------


@wp.func
def mass_factor(m: Tree, s: Workspace, r: Rows, slot: int):
    """r.H: the factors of the mass matrix with what is implicit."""
    start_matrix(m, r, slot)  # also clears what contacts coupled
    for d in range(m.nv):
        at = d * m.nv + d
        r.H[at, slot] = r.H[at, slot] + s.diagonal[d, slot]
    if TENDONS:
        add_couplings(m, r, r.H, r.tendon_inertia, slot)
    factorise_rows(m.columns, m.columns_count, r.H, m.nv, slot)


# --- what the rows aim at --------------------------------------------------------------------------


@wp.func
def touching(x: real, speed: real, free: real, h: real):
    """When surfaces touch that are x apart, in steps from now.

    They move at the velocity ``free`` < 0 from now on. If they overlap they touched before, at the velocity ``speed``,
    but not longer ago than a step.
    """
    return wp.where(x > real(0.0), -x / (h * free), wp.max(-x / (h * speed), real(-1.0)))


@wp.func
def after_touching(moment: real, speed: real, free: real):
    """What forces do to the velocity in the rest of the step. Surfaces touch at the velocity free - after."""
    return (real(1.0) - moment) * (free - speed)


@wp.func
def parting_rebound(speed: real, restitution: real, rest_speed: real):
    """What restitution adds to the aim of a contact that parts already, faster than what bounces.

    If another one pushes it back it may come back at this velocity (Moreau). To be stopped instead would add energy: an
    impulse λ adds λ (v + v') / 2, which would be positive.
    """
    return wp.where(speed > rest_speed, -restitution * speed, real(0.0))


@wp.func
def bounces(x: real, speed: real, free: real, restitution: real, rest_speed: real, slop: real, erp: real, h: real):
    """Whether surfaces meet within the step, fast enough to part again."""
    result = bool(False)
    if restitution > real(0.0) and speed < -rest_speed and free < real(0.0) and x + h * free < real(0.0):
        after = after_touching(touching(x, speed, free, h), speed, free)
        result = after - restitution * (free - after) > rest_aim(x, slop, erp, h)
    return result


@wp.func
def restitution(p: Params, g: Shapes, pair: int, world: int):
    """The larger of both shapes'."""
    return wp.max(p.restitution[world, g.pair_first[pair]], p.restitution[world, g.pair_second[pair]])


@wp.func
def impulse_rows(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Jacobians and b of everything that may exert an impulse. s.a are the accelerations without."""
    law = p.impulse[world, 0]
    erp = law[0]
    slop = law[2]
    h = m.timestep
    r.coupled[0, slot] = 0
    for k in range(contact_count(c, slot)):
        contact_jacobian(m, g, s, c, r, k, slot)
        pair = c.pair[k, slot]
        v = contact_motion(m, r, s.v, k, slot)
        b = v + h * contact_motion(m, r, s.a, k, slot)
        x = c.dist[k, slot]
        e = restitution(p, g, pair, world)
        target = rest_aim(x, slop, erp, h)
        rebound = parting_rebound(v[0], e, g.rest_speed)
        r.bounced[k, slot] = 0
        if bounces(x, v[0], b[0], e, g.rest_speed, slop, erp, h):
            r.bounced[k, slot] = 1
            r.moment[k, slot] = touching(x, v[0], b[0], h)
            target = after_touching(r.moment[k, slot], v[0], b[0])
            rebound = -e * (b[0] - target)
        r.rebound[k, slot] = rebound
        b[0] = b[0] - (target + rebound)
        r.aim[k, slot] = wp.max(target + rebound, real(0.0))
        r.b[k, slot] = b
        r.friction[k, slot] = mixed_friction(p, g, pair, world)
        r.low[k, slot] = real(0.0)
        r.arm[k, slot] = real(1.0)
        D = START_STIFFNESS / p.weight[world, g.pair_weight[pair]]
        r.start_stiffness[k, slot] = only_normal(D)
        if g.pair_dim[pair] > 1:
            r.start_stiffness[k, slot] = vecr(D, D, D)
    r.joint_rows[0, slot] = 0
    for k in range(g.loss_dof.shape[0]):
        loss = h * p.loss[world, k]
        add_loss_row(g, r, k, slot)
        k_block = joint_block(m, g, s, c, r, real(0.0), p.weight[world, g.loss_weight[k]], slot)
        r.low[k_block, slot] = -loss
        r.high[k_block, slot] = loss
        r.aim[k_block, slot] = NO_BOUND
    for k in range(g.limit_joint.shape[0]):
        joint = g.limit_joint[k]
        for side in range(sides(m, joint)):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            if distance < g.limit_margin[k]:
                add_limit_row(m, g, r, k, side, J, slot)
                aim = rest_aim(distance, real(0.0), erp, h)
                k_block = joint_block(m, g, s, c, r, aim, p.weight[world, g.limit_weight[k]], slot)
                r.low[k_block, slot] = real(0.0)
                r.aim[k_block, slot] = wp.max(aim, real(0.0))
                r.arm[k_block, slot] = g.limit_arm[k]
    if TENDONS:
        tendon_blocks(m, g, p, s, c, r, world, slot)
    if LOOPS:
        loop_blocks(m, g, p, s, c, r, world, slot)


@wp.func(inline=True)
def joint_block(
    m: Tree,
    g: Shapes,
    s: Workspace,
    c: Contacts,
    r: Rows,
    target: real,
    inverse_weight: real,
    slot: int,
):
    """The last row of a joint becomes the last block, whose tangents stay zero. Returns its number."""
    row = r.joint_rows[0, slot] - 1
    k = contact_count(c, slot) + row
    for i in range(r.joint_length[row, slot]):
        r.chain[k * m.nv + i, slot] = r.joint_chain[row * g.joint_width + i, slot]
        r.J[k * m.nv + i, slot] = only_normal(r.joint_J[row * g.joint_width + i, slot])
    r.chain_length[k, slot] = r.joint_length[row, slot]
    finish_block(m, s, r, target, inverse_weight, k, slot)
    return k


# --- how large impulses get ------------------------------------------------------------------------
#
# All bodies can be stopped, but not every aim can be met: a limb that is in the floor, and beyond a limit of its joint
# too, may be unable to leave both. The two impulses would grow against each other until softness stops them, at 1e8 N.
# So an aim is given up as far as meeting it would take more than
#
#     high = LOAD sqrt(2 E (mass of the island)) + 2 aim (mass of the tree),
#
# with E the kinetic energy of v* of the island, all bodies that are joined by contacts: the load of all of them may be
# on one contact. For limits masses are at the arm of what the joint carries. To stop a row alone takes no more than
# sqrt(2 E / A_kk), since |J v*|² ≤ 2 E A_kk. What only stops bodies has no bound.


@wp.func
def bound_impulses(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """r.high of contacts and limits; also r.free = v*, r.momentum = M v*, and r.energy = 2 E and r.load of islands."""
    for d in range(m.nv):
        r.free[d, slot] = s.v[d, slot] + m.timestep * s.a[d, slot]
        r.energy[d, slot] = real(0.0)
        r.load[d, slot] = real(0.0)
    multiply_mass(m, r, r.free, r.momentum, slot)
    if TENDONS:
        multiply_couplings(r, r.free, r.momentum, slot)
    for d in range(m.nv):
        i = r.island[d, slot]
        momentum = r.momentum[d, slot] + s.diagonal[d, slot] * r.free[d, slot]
        r.momentum[d, slot] = momentum
        r.energy[i, slot] = r.energy[i, slot] + momentum * r.free[d, slot]
        r.load[i, slot] = r.load[i, slot] + g.root_mass[d]
    for k in range(block_count(c, r, slot)):
        if r.aim[k, slot] < NO_BOUND:
            high = real(0.0)
            i = island_of(r, k, slot)
            if i >= 0:
                high = LOAD * wp.sqrt(r.energy[i, slot] * r.arm[k, slot] * r.load[i, slot])
                high += real(2.0) * r.aim[k, slot] * tree_weight(g, r, k, slot)
            r.high[k, slot] = high


@wp.func
def tree_weight(g: Shapes, r: Rows, k: int, slot: int):
    """Of the heavier tree that block k moves [kg, or kg·m² at a joint's arm]."""
    root = r.root[k, slot]
    return r.arm[k, slot] * wp.max(g.root_mass[root[0]], g.root_mass[root[1]])


# --- where the sweeps start ------------------------------------------------------------------------
#
# If everything stuck, and softly, impulses would be λ = -D (b + J u), where u solves (M + Jᵀ D J) u = -Jᵀ D b. For what
# rests this is nearly the answer, which sweeps alone would take long to spread through a stack. D is a constant of each
# row, high against its inverse weight. Where bodies part or slide it may be far off, and few sweeps could not take away
# the energy that it begins with. So impulses that pull, or are beyond their bound, are cut off, and all are scaled down
# to where ½ λᵀ (A + softness) λ + b·λ, which the sweeps make smaller, is least: never more than without impulses.


@wp.func
def sticking_matrix(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """r.H = M + Jᵀ D J, factorised."""
    find_columns(m, g, c, r, slot)
    start_matrix(m, r, slot)
    for d in range(m.nv):
        at = d * m.nv + d
        r.H[at, slot] = r.H[at, slot] + s.diagonal[d, slot]
    if TENDONS:
        add_couplings(m, r, r.H, r.tendon_inertia, slot)
    for k in range(block_count(c, r, slot)):
        add_curvature(m, r, r.H, wp.diag(r.start_stiffness[k, slot]), k, slot)
    factorise(m, r, slot)


@wp.func
def start_impulses(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """The first line of r.history; r.u_start is u."""
    sticking_matrix(m, g, s, c, r, slot)
    for d in range(m.nv):
        r.u_start[d, slot] = real(0.0)
    for k in range(block_count(c, r, slot)):
        push = -wp.cw_mul(r.start_stiffness[k, slot], r.b[k, slot])
        add_contact_force(m, r, r.u_start, push, k, slot)
    solve_factored(m, r, r.u_start, slot)
    for k in range(block_count(c, r, slot)):
        wish = start_wish(m, r, k, slot)
        n = bounded(r, wish[0], k, slot)
        share = friction_share(wish[1], wish[2], r.friction[k, slot][1] * n)
        r.history[0, k, slot] = vecr(n, share * wish[1], share * wish[2])


@wp.func
def start_wish(m: Tree, r: Rows, k: int, slot: int):
    """The first impulse of block k, were it not bounded."""
    left = r.b[k, slot] + contact_motion(m, r, r.u_start, k, slot)
    return -wp.cw_mul(r.start_stiffness[k, slot], left)


@wp.func
def bounded(r: Rows, wish: real, k: int, slot: int):
    """Contacts and limits only push, friction loss holds with what it has. NaN stays NaN: min and max would drop it."""
    pushed = wp.where(wish < r.low[k, slot], r.low[k, slot], wish)
    return wp.where(pushed > r.high[k, slot], r.high[k, slot], pushed)


@wp.func
def scale_start(m: Tree, c: Contacts, r: Rows, softness: real, slot: int):
    """Also r.swept = y of the first impulses: λᵀ A λ = |y|²."""
    for d in range(m.nv):
        r.swept[d, slot] = real(0.0)
    linear = real(0.0)
    square = real(0.0)
    for k in range(block_count(c, r, slot)):
        first = r.history[0, k, slot]
        add_whitened(m, r, r.swept, first, k, slot)
        linear += wp.dot(r.b[k, slot], first)
        square += softness * wp.dot(first, first)
    for d in range(m.nv):
        square += r.swept[d, slot] * r.swept[d, slot]
    scale = real(1.0)
    if -linear < square:
        scale = wp.max(-linear / square, real(0.0))
    r.start_scale[0, slot] = scale
    for k in range(block_count(c, r, slot)):
        r.history[0, k, slot] = scale * r.history[0, k, slot]
    for d in range(m.nv):
        r.swept[d, slot] = scale * r.swept[d, slot]


# --- all of it -------------------------------------------------------------------------------------


@wp.func
def bounce_moments(m: Tree, c: Contacts, r: Rows, slot: int):
    """r.late: the moment of each degree of freedom's tree; r.pushed: at its root, the sum of impulses that bounce."""
    for d in range(m.nv):
        r.late[d, slot] = real(0.0)
        r.pushed[d, slot] = real(0.0)
    for k in range(contact_count(c, slot)):
        if r.bounced[k, slot] == 1:
            push = r.force[k, slot][0]
            for i in range(r.reach[k, slot]):
                d = r.chain[k * m.nv + i, slot]
                if m.dof_parent[d] < 0:
                    r.late[d, slot] = r.late[d, slot] + push * r.moment[k, slot]
                    r.pushed[d, slot] = r.pushed[d, slot] + push
    for d in range(m.nv):
        if m.dof_parent[d] >= 0:
            r.late[d, slot] = r.late[m.dof_parent[d], slot]
        elif r.pushed[d, slot] > real(0.0):
            r.late[d, slot] = r.late[d, slot] / r.pushed[d, slot]


@wp.func
def impulses(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Adds to s.a what impulses change of the velocity, r.w, divided by the timestep; r.kept_a is s.a without."""
    for d in range(m.nv):
        r.kept_a[d, slot] = s.a[d, slot]
        r.y[d, slot] = real(0.0)
        r.w[d, slot] = real(0.0)
        r.late[d, slot] = real(0.0)
        r.held[d, slot] = real(1.0)
    impulse_rows(m, g, p, s, c, r, world, slot)
    if has_rows(c, r, slot):
        softness = p.impulse[world, 0][1]
        count = block_count(c, r, slot)
        composite_bodies(m, p, s, r, world, slot)
        for k in range(count):
            reach_root(m, r, k, slot)
        find_islands(m, r, count, slot)
        bound_impulses(m, g, s, c, r, slot)
        start_impulses(m, g, s, c, r, slot)
        mass_factor(m, s, r, slot)
        for k in range(count):
            whiten_block(m, r, k, slot)
        find_neighbours(m, c, r, softness, slot)
        scale_start(m, c, r, softness, slot)
        sweep_blocks(m, g, c, r, softness, slot)
        for k in range(count):
            add_whitened(m, r, r.y, r.force[k, slot], k, slot)
        if rebounds(c, r, slot):
            hold_back(m, c, r, count, slot)
        for d in range(m.nv):
            r.w[d, slot] = r.y[d, slot]
        whiten_transposed(m, r, r.w, slot)
        for d in range(m.nv):
            s.a[d, slot] = s.a[d, slot] + r.w[d, slot] / m.timestep
        bounce_moments(m, c, r, slot)
        for k in range(contact_count(c, slot)):
            if r.root[k, slot][0] >= 0:
                r.force[k, slot] = r.held[r.root[k, slot][0], slot] * r.force[k, slot]
