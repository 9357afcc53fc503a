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

With M = Lᵀ D L, W = D^(-1/2) L^(-T) and the whitened Jacobian B = W Jᵀ, J M⁻¹ Jᵀ = Bᵀ B. The sweeps keep y = B λ, so
that a row costs as much as its chain is long, and no matrix over all contacts is stored. All that is made of B are
products of its columns, so any W with Wᵀ W = M⁻¹ would do, and the way back needs no derivative of the factors: it is
the gradient of Σ (Wᵀ B_bar)·Jᵀ - ½ (Wᵀ B_bar)·M (Wᵀ B) over the rows.

    letter  meaning                                                      kept in
    y       whitened change of velocity                                  r.step
    b       J v* - target                                                r.z_free, r.joint_z_free
    λ       impulses                                                     r.force, r.joint_force
    G       squared lengths of the columns of B, by row                  r.joint_stiffness
    X       products of the normal's column with those of a contact      r.cross
            how far a sweep goes for a unit of velocity                  r.weight
    t / h   when bouncing surfaces touch, in steps                       r.moment
"""

import warp as wp

from .flavour import vecr
from .materials import mixed_friction
from .rows import (
    Rows,
    add_contact_force,
    add_curvature,
    add_joint_curvature,
    add_joint_row,
    add_joint_row_force,
    composite_bodies,
    contact_count,
    contact_jacobian,
    contact_motion,
    factorise,
    factorise_rows,
    find_columns,
    has_rows,
    joint_row_motion,
    joint_row_size,
    limit_distance,
    sides,
    solve_factored,
    start_matrix,
)
from .scalar import real, vec3
from .shapes import Contacts, Shapes
from .tree import Params, Tree, Workspace

# How stiff rows are for the first guess, against their inverse weight [1]: stiff enough to be near, soft enough for
# single precision.
START_STIFFNESS = wp.constant(real(1e3))


@wp.func
def only_normal(x: real):
    result = vecr()
    result[0] = x
    return result


# --- whitening -------------------------------------------------------------------------------------


@wp.func
def whiten_contact(m: Tree, r: Rows, softness: real, k: int, slot: int):
    """B of contact k along its chain, G and X, and how far a sweep goes for a unit of velocity.

    That is the same for both tangents, so that where they are shortened to their bound friction is opposite to sliding;
    and no more than the larger eigenvalue of their block allows.
    """
    first = k * m.nv
    length = r.chain_length[k, slot]
    G = vecr()
    X = vecr()
    for i in range(length):
        d = r.chain[first + i, slot]
        column = r.J[first + i, slot]
        for j in range(i):
            e = r.chain[first + j, slot]
            entry = r.H[e * m.nv + d, slot]
            if entry != real(0.0):
                column -= entry * r.B[first + j, slot]
        r.B[first + i, slot] = column
    for i in range(length):
        d = r.chain[first + i, slot]
        column = wp.sqrt(r.H[d * m.nv + d, slot]) * r.B[first + i, slot]
        r.B[first + i, slot] = column
        G += wp.cw_mul(column, column)
        X += column[0] * column
    r.cross[k, slot] = X
    tangents = real(1.0) / (G[1] + G[2] + softness)
    r.weight[k, slot] = vecr(real(1.0) / (G[0] + softness), tangents, tangents)


@wp.func
def joint_chain(m: Tree, g: Shapes, r: Rows, k: int, slot: int):
    """Degrees of freedom from a joint's row down to its root, and B along them."""
    first = k * m.nv
    dof = r.joint_dof[k, slot]
    size = joint_row_size(m, r, g, k, slot)
    J = r.joint_J[k, slot]
    length = int(0)
    G = real(0.0)
    above = dof + size - 1
    while above >= 0:
        value = real(0.0)
        if above >= dof:
            value = J[above - dof]
        for j in range(length):
            e = r.joint_chain[first + j, slot]
            value -= r.H[e * m.nv + above, slot] * r.joint_B[first + j, slot]
        r.joint_chain[first + length, slot] = above
        r.joint_B[first + length, slot] = value
        length += 1
        above = m.dof_parent[above]
    for j in range(length):
        d = r.joint_chain[first + j, slot]
        value = wp.sqrt(r.H[d * m.nv + d, slot]) * r.joint_B[first + j, slot]
        r.joint_B[first + j, slot] = value
        G += value * value
    r.joint_length[k, slot] = length
    r.joint_stiffness[k, slot] = G


@wp.func
def mass_factor(m: Tree, s: Workspace, r: Rows, slot: int):
    """r.H: the factors of the mass matrix with what is implicit."""
    start_matrix(m, r, slot)  # also clears what contacts coupled
    for d in range(m.nv):
        at = d * m.nv + d
        r.H[at, slot] = r.H[at, slot] + s.diagonal[d, slot]
    factorise_rows(m.columns, m.columns_count, r.H, m.nv, slot)


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


# --- what the rows aim at --------------------------------------------------------------------------


@wp.func
def rest_aim(x: real, slop: real, erp: real, h: real):
    """Velocity along the normal: what undoes a share of the depth beyond ``slop``, and closes a gap, if there is one.

    Bodies come to rest at the depth ``slop``, well away from the kink where surfaces touch.
    """
    target = -erp * (wp.min(x, real(0.0)) + slop) / h
    if x > real(0.0):
        target -= x / h
    return target


@wp.func
def touching(x: real, speed: real, free: real, h: real):
    """When surfaces touch that are x apart, in steps from now.

    They move at the velocity ``free`` < 0 from now on. If they overlap they touched before, at the velocity ``speed``,
    but not longer ago than a step.
    """
    return wp.where(x > real(0.0), -x / (h * free), wp.max(-x / (h * speed), real(-1.0)))


@wp.func
def bounce_speed(moment: real, speed: real, free: real, restitution: real):
    """Velocity at the end of the step: what is left of that of touching, and what forces do in the rest of the step."""
    after = (real(1.0) - moment) * (free - speed)
    return -restitution * (free - after) + after


@wp.func
def bounces(x: real, speed: real, free: real, restitution: real, law: vec3, slop: real, h: real):
    """Whether surfaces meet within the step, fast enough to part again."""
    result = bool(False)
    if restitution > real(0.0) and speed < -law[2] and free < real(0.0) and x + h * free < real(0.0):
        result = bounce_speed(touching(x, speed, free, h), speed, free, restitution) > rest_aim(x, slop, law[0], h)
    return result


@wp.func
def restitution(p: Params, g: Shapes, pair: int, world: int):
    """The larger of both shapes'."""
    return wp.max(p.bounce[world, g.pair_first[pair]][0], p.bounce[world, g.pair_second[pair]][0])


@wp.func
def impulse_rows(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Jacobians and b of everything that may exert an impulse. s.a are the accelerations without."""
    law = p.law[world, 0]
    slop = p.law[world, 1][0]
    h = m.timestep
    r.coupled[0, slot] = 0
    for k in range(contact_count(c, slot)):
        contact_jacobian(m, g, s, c, r, k, slot)
        pair = c.pair[k, slot]
        v = contact_motion(m, r, s.v, k, slot)
        b = v + h * contact_motion(m, r, s.a, k, slot)
        x = c.dist[k, slot]
        e = restitution(p, g, pair, world)
        target = rest_aim(x, slop, law[0], h)
        r.bounced[k, slot] = 0
        if bounces(x, v[0], b[0], e, law, slop, h):
            r.bounced[k, slot] = 1
            r.moment[k, slot] = touching(x, v[0], b[0], h)
            target = bounce_speed(r.moment[k, slot], v[0], b[0], e)
        b[0] = b[0] - target
        r.z_free[k, slot] = b
        r.friction[k, slot] = mixed_friction(p, g, pair, world)
    r.joint_rows[0, slot] = 0
    for k in range(g.loss_dof.shape[0]):
        dof = g.loss_dof[k]
        J = vec3(real(1.0), real(0.0), real(0.0))
        b_loss = s.v[dof, slot] + h * s.a[dof, slot]
        add_joint_row(r, slot, -1 - k, dof, J, b_loss, real(0.0), h * p.loss[world, k])
    for k in range(g.limit_joint.shape[0]):
        joint = g.limit_joint[k]
        for side in range(sides(m, joint)):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            if distance < g.limit_margin[k]:
                row = r.joint_rows[0, slot]
                add_joint_row(r, slot, 2 * k + side, m.joint_v[joint], J, real(0.0), real(0.0), real(0.0))
                b_limit = joint_row_motion(m, g, r, s.v, row, slot) + h * joint_row_motion(m, g, r, s.a, row, slot)
                r.joint_z_free[row, slot] = b_limit - rest_aim(distance, real(0.0), law[0], h)


# --- where the sweeps start ------------------------------------------------------------------------
#
# If everything stuck, and softly, impulses would be λ = -D (b + J u), where u solves (M + Jᵀ D J) u = -Jᵀ D b. For what
# rests this is nearly the answer, which sweeps alone would take long to spread through a stack. D is a constant of each
# row, high against its inverse weight. Where bodies part or slide it may be far off, and few sweeps could not take away
# the energy that it begins with. So impulses that pull, or are beyond their bound, are cut off, and all are scaled down
# to where ½ λᵀ (A + softness) λ + b·λ, which the sweeps make smaller, is least: never more than without impulses.


@wp.func
def start_stiffness(g: Shapes, c: Contacts, k: int, slot: int):
    """D of a contact's rows."""
    pair = c.pair[k, slot]
    D = START_STIFFNESS / g.pair_tran[pair]
    result = only_normal(D)
    if g.pair_dim[pair] > 1:
        result = vecr(D, D, D)
    return result


@wp.func
def joint_start_stiffness(g: Shapes, r: Rows, k: int, slot: int):
    source = r.joint_source[k, slot]
    weight = real(1.0)
    if source < 0:
        weight = g.loss_weight[-1 - source]
    else:
        weight = g.limit_weight[source / 2]
    return START_STIFFNESS / weight


@wp.func
def sticking_matrix(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """r.H = M + Jᵀ D J, factorised."""
    find_columns(m, c, r, slot)
    start_matrix(m, r, slot)
    for d in range(m.nv):
        at = d * m.nv + d
        r.H[at, slot] = r.H[at, slot] + s.diagonal[d, slot]
    for k in range(contact_count(c, slot)):
        add_curvature(m, r, r.H, wp.diag(start_stiffness(g, c, k, slot)), k, slot)
    for k in range(r.joint_rows[0, slot]):
        add_joint_curvature(m, g, r, joint_start_stiffness(g, r, k, slot), k, slot)
    factorise(m, r, slot)


@wp.func
def start_impulses(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """r.force and r.joint_force; r.u_start is u."""
    sticking_matrix(m, g, s, c, r, slot)
    for d in range(m.nv):
        r.u_start[d, slot] = real(0.0)
    for k in range(contact_count(c, slot)):
        push = -wp.cw_mul(start_stiffness(g, c, k, slot), r.z_free[k, slot])
        add_contact_force(m, r, r.u_start, push, k, slot)
    for k in range(r.joint_rows[0, slot]):
        row_push = -joint_start_stiffness(g, r, k, slot) * r.joint_z_free[k, slot]
        add_joint_row_force(m, g, r, r.u_start, row_push, k, slot)
    solve_factored(m, r, r.u_start, slot)
    for k in range(contact_count(c, slot)):
        wish = start_wish(m, g, c, r, k, slot)
        n = wp.max(wish[0], real(0.0))
        share = friction_share(wish[1], wish[2], r.friction[k, slot][1] * n)
        r.force[k, slot] = vecr(n, share * wish[1], share * wish[2])
    for k in range(r.joint_rows[0, slot]):
        r.joint_force[k, slot] = joint_bounded(r, joint_start_wish(m, g, r, k, slot), k, slot)


@wp.func
def start_wish(m: Tree, g: Shapes, c: Contacts, r: Rows, k: int, slot: int):
    """The first impulse of contact k, were it not bounded."""
    left = r.z_free[k, slot] + contact_motion(m, r, r.u_start, k, slot)
    return -wp.cw_mul(start_stiffness(g, c, k, slot), left)


@wp.func
def joint_start_wish(m: Tree, g: Shapes, r: Rows, k: int, slot: int):
    left = r.joint_z_free[k, slot] + joint_row_motion(m, g, r, r.u_start, k, slot)
    return -joint_start_stiffness(g, r, k, slot) * left


@wp.func
def friction_share(x: real, y: real, bound: real):
    """By how much a tangential impulse is shortened to its bound [1]."""
    length = wp.sqrt(x * x + y * y)
    return wp.where(length > bound, bound / length, real(1.0))


@wp.func
def is_loss(r: Rows, k: int, slot: int):
    return r.joint_source[k, slot] < 0


@wp.func
def joint_bounded(r: Rows, wish: real, k: int, slot: int):
    """The impulse of a joint's row: friction loss holds with what it has, a limit only pushes."""
    bound = r.joint_loss[k, slot]
    return wp.where(is_loss(r, k, slot), wp.clamp(wish, -bound, bound), wp.max(wish, real(0.0)))


# --- sweeps ----------------------------------------------------------------------------------------


@wp.func
def contact_residual(m: Tree, r: Rows, k: int, slot: int):
    """B y"""
    total = vecr()
    for i in range(r.chain_length[k, slot]):
        total += r.B[k * m.nv + i, slot] * r.step[r.chain[k * m.nv + i, slot], slot]
    return total


@wp.func
def add_contact_impulse(m: Tree, r: Rows, change: vecr, k: int, slot: int):
    for i in range(r.chain_length[k, slot]):
        d = r.chain[k * m.nv + i, slot]
        r.step[d, slot] = r.step[d, slot] + wp.dot(r.B[k * m.nv + i, slot], change)


@wp.func
def normal_wish(r: Rows, softness: real, residual: real, k: int, slot: int):
    """The normal impulse that would do, were it not bounded."""
    old = r.force[k, slot][0]
    return old - r.weight[k, slot][0] * (r.z_free[k, slot][0] + residual + softness * old)


@wp.func
def tangent_wish(r: Rows, softness: real, residual: vecr, k: int, slot: int):
    old = r.force[k, slot]
    miss = r.weight[k, slot][1] * (r.z_free[k, slot] + residual + softness * old)
    return old[1] - miss[1], old[2] - miss[2]


@wp.func
def update_contact(m: Tree, g: Shapes, c: Contacts, r: Rows, softness: real, k: int, slot: int):
    """First the normal's impulse, then, with what that does to sliding, the tangents'."""
    residual = contact_residual(m, r, k, slot)
    old = r.force[k, slot]
    new = old
    new[0] = wp.max(real(0.0), normal_wish(r, softness, residual[0], k, slot))
    if g.pair_dim[c.pair[k, slot]] > 1:
        residual += (new[0] - old[0]) * r.cross[k, slot]
        x, y = tangent_wish(r, softness, residual, k, slot)
        share = friction_share(x, y, r.friction[k, slot][1] * new[0])
        new[1] = share * x
        new[2] = share * y
    add_contact_impulse(m, r, new - old, k, slot)
    r.force[k, slot] = new


@wp.func
def joint_residual(m: Tree, r: Rows, k: int, slot: int):
    total = real(0.0)
    for i in range(r.joint_length[k, slot]):
        total += r.joint_B[k * m.nv + i, slot] * r.step[r.joint_chain[k * m.nv + i, slot], slot]
    return total


@wp.func
def joint_wish(r: Rows, softness: real, residual: real, k: int, slot: int):
    old = r.joint_force[k, slot]
    return old - (r.joint_z_free[k, slot] + residual + softness * old) / (r.joint_stiffness[k, slot] + softness)


@wp.func
def update_joint(m: Tree, r: Rows, softness: real, k: int, slot: int):
    new = joint_bounded(r, joint_wish(r, softness, joint_residual(m, r, k, slot), k, slot), k, slot)
    add_joint_impulse(m, r, new - r.joint_force[k, slot], k, slot)
    r.joint_force[k, slot] = new


@wp.func
def add_joint_impulse(m: Tree, r: Rows, change: real, k: int, slot: int):
    for i in range(r.joint_length[k, slot]):
        d = r.joint_chain[k * m.nv + i, slot]
        r.step[d, slot] = r.step[d, slot] + r.joint_B[k * m.nv + i, slot] * change


@wp.func
def turn(sweep: int, i: int, count: int):
    """Sweeps go up and down in turn, so that a push at one end of a stack soon reaches the other."""
    return wp.where(sweep % 2 == 0, i, count - 1 - i)


@wp.func
def start_energy(m: Tree, c: Contacts, r: Rows, softness: real, slot: int):
    """b·λ and λᵀ (A + softness) λ of the impulses as they are."""
    linear = real(0.0)
    square = real(0.0)
    for k in range(contact_count(c, slot)):
        linear += wp.dot(r.z_free[k, slot], r.force[k, slot])
        square += softness * wp.dot(r.force[k, slot], r.force[k, slot])
    for k in range(r.joint_rows[0, slot]):
        linear += r.joint_z_free[k, slot] * r.joint_force[k, slot]
        square += softness * r.joint_force[k, slot] * r.joint_force[k, slot]
    for d in range(m.nv):
        square += r.step[d, slot] * r.step[d, slot]
    return linear, square


@wp.func
def scale_start(m: Tree, c: Contacts, r: Rows, softness: real, slot: int):
    linear, square = start_energy(m, c, r, softness, slot)
    scale = real(1.0)
    if -linear < square:
        scale = wp.max(-linear / square, real(0.0))
    r.start_scale[0, slot] = scale
    for k in range(contact_count(c, slot)):
        r.force[k, slot] = scale * r.force[k, slot]
    for k in range(r.joint_rows[0, slot]):
        r.joint_force[k, slot] = scale * r.joint_force[k, slot]
    for d in range(m.nv):
        r.step[d, slot] = scale * r.step[d, slot]


@wp.func
def bounce_moments(m: Tree, c: Contacts, r: Rows, slot: int):
    """r.late: the moment of each degree of freedom's tree; r.pushed: at its root, the sum of impulses that bounce."""
    for d in range(m.nv):
        r.late[d, slot] = real(0.0)
        r.pushed[d, slot] = real(0.0)
    for k in range(contact_count(c, slot)):
        if r.bounced[k, slot] == 1:
            push = r.force[k, slot][0]
            for i in range(r.chain_length[k, slot]):
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
        r.step[d, slot] = real(0.0)
        r.w[d, slot] = real(0.0)
        r.late[d, slot] = real(0.0)
    impulse_rows(m, g, p, s, c, r, world, slot)
    if has_rows(c, r, slot):
        composite_bodies(m, p, s, r, world, slot)
        start_impulses(m, g, s, c, r, slot)
        mass_factor(m, s, r, slot)
        contacts = contact_count(c, slot)
        joints = r.joint_rows[0, slot]
        softness = p.law[world, 0][1]
        for k in range(contacts):
            whiten_contact(m, r, softness, k, slot)
        for k in range(joints):
            joint_chain(m, g, r, k, slot)
        for k in range(contacts):
            add_contact_impulse(m, r, r.force[k, slot], k, slot)
        for k in range(joints):
            add_joint_impulse(m, r, r.joint_force[k, slot], k, slot)
        scale_start(m, c, r, softness, slot)
        for sweep in range(g.sweeps):
            for k in range(contacts):
                r.history[sweep * c.pair.shape[0] + k, slot] = r.force[k, slot]
            for k in range(joints):
                r.joint_history[sweep * r.joint_dof.shape[0] + k, slot] = r.joint_force[k, slot]
            for i in range(contacts + joints):
                k = turn(sweep, i, contacts + joints)
                if k < joints:
                    update_joint(m, r, softness, k, slot)
                else:
                    update_contact(m, g, c, r, softness, k - joints, slot)
        for d in range(m.nv):
            r.w[d, slot] = r.step[d, slot]
        whiten_transposed(m, r, r.w, slot)
        for d in range(m.nv):
            s.a[d, slot] = s.a[d, slot] + r.w[d, slot] / m.timestep
        bounce_moments(m, c, r, slot)
