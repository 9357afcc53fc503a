"""The sweeps of ``impulse.py`` backwards, and from there to everything that its rows are made of.

Cotangents: of y in r.gradient, of λ in r.z and r.joint_z, of b in r.b_bar and r.joint_b_bar, of B in r.B_bar and
r.joint_B_bar, of the squared lengths G in r.G_bar, of distances in r.dist_bar and of J v alone in r.speed_bar.
"""

import warp as wp

from .collide import geometry_adjoint
from .composites import composite_bodies_adjoint
from .flavour import vecr
from .impulse import (
    bounces,
    is_loss,
    joint_residual,
    joint_start_stiffness,
    joint_wish,
    mass_factor,
    normal_wish,
    only_normal,
    restitution,
    start_stiffness,
    sticking_matrix,
    tangent_weight,
    tangent_wish,
    touching,
    turn,
    whiten,
)
from .materials import mixed_friction_adjoint
from .rows import (
    NO_ANGLE,
    Rows,
    add_contact_force,
    add_joint_row_force,
    contact_count,
    contact_motion,
    joint_row_motion,
    joint_row_size,
    limit_adjoint,
    limit_distance,
    push_pair,
    solve_factored,
)
from .scalar import real, vec3, vec6
from .shapes import Contacts, Shapes
from .spatial import ang, lin, log_jacobian_transposed, pack, quat_log
from .tree import Params, Tree, Workspace, add_vec3, read_quat, read_vec3


@wp.func
def rest_aim_adjoint(x: real, erp: real, h: real, bar: real):
    """Cotangents of x and erp in bar · target."""
    apart = x > real(0.0)
    return wp.where(apart, -bar / h, -erp * bar / h), wp.where(apart, real(0.0), -x * bar / h)


@wp.func
def bounce_adjoint(x: real, speed: real, free: real, restitution: real, h: real, bar: real, moment_bar: real):
    """Cotangents of x, speed, free and restitution in bar · target + moment_bar · moment."""
    one = real(1.0)
    moment = touching(x, free, h)
    after_bar = (one + restitution) * bar
    free_bar = -restitution * bar + (one - moment) * after_bar
    speed_bar = -(one - moment) * after_bar
    after = (one - moment) * (free - speed)
    restitution_bar = -(free - after) * bar
    x_bar = real(0.0)
    if moment > -one:
        rate_bar = (moment_bar - after_bar * (free - speed)) / (h * free)
        x_bar = -rate_bar
        free_bar += rate_bar * x / free
    return x_bar, speed_bar, free_bar, restitution_bar


@wp.func
def restitution_adjoint(p: Params, p_bar: Params, g: Shapes, pair: int, bar: real, world: int):
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    e1 = p.bounce[world, i][0]
    e2 = p.bounce[world, j][0]
    share = real(0.5)  # where they are the same, the mean of both sides
    if e1 > e2:
        share = real(1.0)
    elif e1 < e2:
        share = real(0.0)
    p_bar.bounce[world, i] = p_bar.bounce[world, i] + vec3(share * bar, real(0.0), real(0.0))
    p_bar.bounce[world, j] = p_bar.bounce[world, j] + vec3((real(1.0) - share) * bar, real(0.0), real(0.0))


@wp.func
def start_impulses_adjoint(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """From the cotangents of the first impulses (r.z, r.joint_z) to b_bar; r.w becomes ν = H⁻¹ Jᵀ p.

    With p = -D λ_bar and s = p - D J ν: b_bar gets s, J_bar gets s u + λ ν (see ``add_start``), M gets -ν u.
    """
    for d in range(m.nv):
        r.w[d, slot] = real(0.0)
    for k in range(contact_count(c, slot)):
        add_contact_force(m, r, r.w, -wp.cw_mul(start_stiffness(g, c, k, slot), r.z[k, slot]), k, slot)
    for k in range(r.joint_rows[0, slot]):
        row_push = -joint_start_stiffness(g, r, k, slot) * r.joint_z[k, slot]
        add_joint_row_force(m, g, r, r.w, row_push, k, slot)
    solve_factored(m, r, r.w, slot)
    for k in range(contact_count(c, slot)):
        share = r.z[k, slot] + contact_motion(m, r, r.w, k, slot)
        share = -wp.cw_mul(start_stiffness(g, c, k, slot), share)
        r.z[k, slot] = share
        r.b_bar[k, slot] = r.b_bar[k, slot] + share
    for k in range(r.joint_rows[0, slot]):
        row_share = r.joint_z[k, slot] + joint_row_motion(m, g, r, r.w, k, slot)
        row_share = -joint_start_stiffness(g, r, k, slot) * row_share
        r.joint_z[k, slot] = row_share
        r.joint_b_bar[k, slot] = r.joint_b_bar[k, slot] + row_share


@wp.func
def contact_step_adjoint(m: Tree, r: Rows, change: vecr, k: int, slot: int):
    """Takes y' = y + B change back to y. Returns the cotangent of the change, and the residual B y."""
    change_bar = vecr()
    residual = vecr()
    for i in range(r.chain_length[k, slot]):
        at = k * m.nv + i
        d = r.chain[at, slot]
        B = r.B[at, slot]
        y = r.step[d, slot] - wp.dot(B, change)
        r.step[d, slot] = y
        change_bar += r.gradient[d, slot] * B
        residual += y * B
    return change_bar, residual


@wp.func
def columns_adjoint(m: Tree, r: Rows, change: vecr, residual_bar: vecr, k: int, slot: int):
    """Reverses residual = B y and y' = y + B change: adds to the cotangents of B and of y."""
    for i in range(r.chain_length[k, slot]):
        at = k * m.nv + i
        d = r.chain[at, slot]
        y_bar = r.gradient[d, slot]
        r.B_bar[at, slot] = r.B_bar[at, slot] + y_bar * change + r.step[d, slot] * residual_bar
        r.gradient[d, slot] = y_bar + wp.dot(r.B[at, slot], residual_bar)


@wp.func
def update_contact_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    c: Contacts,
    r: Rows,
    old: vecr,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """r.force goes from after the update back to ``old``; r.z is its cotangent."""
    softness = p.law[world, 0][1]
    new = r.force[k, slot]
    r.force[k, slot] = old
    change_bar, residual = contact_step_adjoint(m, r, new - old, k, slot)
    bar = r.z[k, slot] + change_bar
    old_bar = -change_bar
    residual_bar = vecr()
    softness_bar = real(0.0)
    G_bar = r.G_bar[k, slot]
    if g.pair_dim[c.pair[k, slot]] > 1:
        pressed = new[0] - old[0]
        x, y = tangent_wish(r, softness, residual + pressed * r.cross[k, slot], k, slot)
        x_bar = bar[1]
        y_bar = bar[2]
        mu = r.friction[k, slot][1]
        bound = mu * new[0]
        length = wp.sqrt(x * x + y * y)
        if length > bound:
            # (x, y) · bound / length
            x_unit = x / length
            y_unit = y / length
            bound_bar = x_bar * x_unit + y_bar * y_unit
            x_bar = (x_bar - bound_bar * x_unit) * bound / length
            y_bar = (y_bar - bound_bar * y_unit) * bound / length
            bar[0] = bar[0] + mu * bound_bar
            if wants_params == 1:
                friction_bar = vecr()
                friction_bar[1] = new[0] * bound_bar
                mixed_friction_adjoint(p, p_bar, g, c.pair[k, slot], friction_bar, world)
        weight_t = tangent_weight(r, softness, k, slot)
        gx = weight_t * x_bar
        gy = weight_t * y_bar
        old_bar[1] = old_bar[1] + x_bar - softness * gx
        old_bar[2] = old_bar[2] + y_bar - softness * gy
        softness_bar = -gx * x - gy * y
        # both lengths count in the weight
        length_bar = -gx * (x - old[1]) - gy * (y - old[2])
        G_bar[1] = G_bar[1] + length_bar
        G_bar[2] = G_bar[2] + length_bar
        residual_bar[1] = -gx
        residual_bar[2] = -gy
        pressed_bar = wp.dot(residual_bar, r.cross[k, slot])
        bar[0] = bar[0] + pressed_bar
        old_bar[0] = old_bar[0] - pressed_bar
        r.cross_bar[k, slot] = r.cross_bar[k, slot] + pressed * residual_bar
    wish = normal_wish(r, softness, residual[0], k, slot)
    if wish > real(0.0):
        g_n = bar[0] / (r.z_step[k, slot][0] + softness)
        old_bar[0] = old_bar[0] + bar[0] - softness * g_n
        G_bar[0] = G_bar[0] - g_n * (wish - old[0])
        softness_bar -= g_n * wish
        residual_bar[0] = -g_n
    columns_adjoint(m, r, new - old, residual_bar, k, slot)
    r.z[k, slot] = old_bar
    r.b_bar[k, slot] = r.b_bar[k, slot] + residual_bar
    r.G_bar[k, slot] = G_bar
    if wants_params == 1:
        p_bar.law[world, 0] = p_bar.law[world, 0] + vec3(real(0.0), softness_bar, real(0.0))


@wp.func
def update_joint_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    r: Rows,
    old: real,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    softness = p.law[world, 0][1]
    change = r.joint_force[k, slot] - old
    change_bar = real(0.0)
    first = k * m.nv
    for i in range(r.joint_length[k, slot]):
        d = r.joint_chain[first + i, slot]
        B = r.joint_B[first + i, slot]
        y_bar = r.gradient[d, slot]
        r.step[d, slot] = r.step[d, slot] - B * change
        change_bar += y_bar * B
        r.joint_B_bar[first + i, slot] = r.joint_B_bar[first + i, slot] + y_bar * change
    r.joint_force[k, slot] = old
    wish = joint_wish(r, softness, joint_residual(m, r, k, slot), k, slot)
    wish_bar = r.joint_z[k, slot] + change_bar
    old_bar = -change_bar
    free = wish > real(0.0)
    if is_loss(r, k, slot):
        bound = r.joint_loss[k, slot]
        free = wp.abs(wish) <= bound
        if wants_params == 1 and not free:
            loss = -1 - r.joint_source[k, slot]
            p_bar.loss[world, loss] = p_bar.loss[world, loss] + m.timestep * wp.sign(wish) * wish_bar
    if free:
        g_bar = wish_bar / (r.joint_stiffness[k, slot] + softness)
        old_bar += wish_bar - softness * g_bar
        r.joint_b_bar[k, slot] = r.joint_b_bar[k, slot] - g_bar
        G_row_bar = -g_bar * (wish - old)
        for i in range(r.joint_length[k, slot]):
            d = r.joint_chain[first + i, slot]
            B = r.joint_B[first + i, slot]
            r.joint_B_bar[first + i, slot] = (
                r.joint_B_bar[first + i, slot] - g_bar * r.step[d, slot] + real(2.0) * G_row_bar * B
            )
            r.gradient[d, slot] = r.gradient[d, slot] - g_bar * B
        if wants_params == 1:
            p_bar.law[world, 0] = p_bar.law[world, 0] - vec3(real(0.0), g_bar * wish, real(0.0))
    r.joint_z[k, slot] = old_bar


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
    law = p.law[world, 0]
    slop = p.law[world, 1][0]
    h = m.timestep
    for k in range(contact_count(c, slot)):
        pair = c.pair[k, slot]
        e = restitution(p, g, pair, world)
        x = c.dist[k, slot] + slop
        bar = -r.b_bar[k, slot][0]
        speed = contact_motion(m, r, s.v, k, slot)[0]
        free = speed + h * contact_motion(m, r, r.kept_a, k, slot)[0]
        x_bar = real(0.0)
        erp_bar = real(0.0)
        speed_bar = real(0.0)
        if bounces(x, speed, free, e, law[0], law[2], h):
            x_bar, speed_bar, free_bar, e_bar = bounce_adjoint(x, speed, free, e, h, bar, r.moment_bar[k, slot])
            r.b_bar[k, slot] = r.b_bar[k, slot] + only_normal(free_bar)
            if wants_params == 1:
                restitution_adjoint(p, p_bar, g, pair, e_bar, world)
        else:
            x_bar, erp_bar = rest_aim_adjoint(x, law[0], h, bar)
        r.dist_bar[k, slot] = x_bar
        r.speed_bar[k, slot] = speed_bar
        if wants_params == 1:
            p_bar.law[world, 0] = p_bar.law[world, 0] + vec3(erp_bar, real(0.0), real(0.0))
            p_bar.law[world, 1] = p_bar.law[world, 1] + vec3(x_bar, real(0.0), real(0.0))


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
    joints = r.joint_rows[0, slot]
    for d in range(m.nv):
        r.gradient[d, slot] = s.a_bar[d, slot] / m.timestep
    whiten(m, r, r.gradient, slot)
    for d in range(m.nv):
        r.y_end[d, slot] = r.step[d, slot]
        r.y_end_bar[d, slot] = r.gradient[d, slot]
    whiten(m, r, r.shift_bar, slot)
    for k in range(contacts):
        # positions: λ acts on them from the moment on
        moved = vecr()
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            late_bar = r.shift_bar[r.chain[at, slot], slot]
            moved -= late_bar * r.B[at, slot]
            r.B_bar[at, slot] = -late_bar * r.moment[k, slot] * r.force[k, slot]
        r.moment_bar[k, slot] = wp.dot(moved, r.force[k, slot])
        r.z[k, slot] = r.moment[k, slot] * moved
        r.b_bar[k, slot] = vecr()
        r.G_bar[k, slot] = vecr()
        r.cross_bar[k, slot] = vecr()
    for k in range(joints):
        r.joint_z[k, slot] = real(0.0)
        r.joint_b_bar[k, slot] = real(0.0)
        for i in range(r.joint_length[k, slot]):
            r.joint_B_bar[k * m.nv + i, slot] = real(0.0)
    for back in range(g.sweeps):
        sweep = g.sweeps - 1 - back
        for j in range(contacts + joints):
            k = turn(sweep, contacts + joints - 1 - j, contacts + joints)
            if k < joints:
                old_joint = r.joint_history[sweep * r.joint_dof.shape[0] + k, slot]
                update_joint_adjoint(m, g, p, p_bar, r, old_joint, k, world, slot, wants_params)
            else:
                old = r.history[sweep * c.pair.shape[0] + k - joints, slot]
                update_contact_adjoint(m, g, p, p_bar, c, r, old, k - joints, world, slot, wants_params)
    # the first impulses, which y began with
    for k in range(contacts):
        start_bar = r.z[k, slot]
        first_force = r.force[k, slot]
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            y_bar = r.gradient[r.chain[at, slot], slot]
            start_bar += y_bar * r.B[at, slot]
            r.B_bar[at, slot] = r.B_bar[at, slot] + y_bar * first_force
        r.z[k, slot] = start_bar
    for k in range(joints):
        row_bar = r.joint_z[k, slot]
        for i in range(r.joint_length[k, slot]):
            at = k * m.nv + i
            y_bar_row = r.gradient[r.joint_chain[at, slot], slot]
            row_bar += y_bar_row * r.joint_B[at, slot]
            r.joint_B_bar[at, slot] = r.joint_B_bar[at, slot] + y_bar_row * r.joint_force[k, slot]
        r.joint_z[k, slot] = row_bar
    sticking_matrix(m, g, s, c, r, slot)
    start_impulses_adjoint(m, g, s, c, r, slot)
    mass_factor(m, s, r, slot)
    aims_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
    two = real(2.0)
    for k in range(contacts):
        G_bar = r.G_bar[k, slot]
        cross_bar = r.cross_bar[k, slot]
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            B = r.B[at, slot]
            B_bar = two * wp.cw_mul(G_bar, B) + B[0] * cross_bar + only_normal(wp.dot(cross_bar, B))
            r.B_bar[at, slot] = r.B_bar[at, slot] + B_bar
            d = r.chain[at, slot]
            s.a_bar[d, slot] = s.a_bar[d, slot] + m.timestep * wp.dot(r.J[at, slot], r.b_bar[k, slot])
    for k in range(joints):
        J = r.joint_J[k, slot]
        d0 = r.joint_dof[k, slot]
        for i in range(joint_row_size(m, r, g, k, slot)):
            s.a_bar[d0 + i, slot] = s.a_bar[d0 + i, slot] + m.timestep * J[i] * r.joint_b_bar[k, slot]


@wp.func
def add_products(m: Tree, r: Rows, k: int, slot: int):
    """Adds contact k's share to T: for each degree of freedom, B_bar at its ancestors times B at its own."""
    first = k * m.nv
    length = r.chain_length[k, slot]
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
def add_joint_products(m: Tree, r: Rows, k: int, slot: int):
    first = k * m.nv
    length = r.joint_length[k, slot]
    for i in range(length):
        d = r.joint_chain[first + i, slot]
        for j in range(i, length):  # a joint's chain has nothing but ancestors
            at = d * m.nv + r.joint_chain[first + j, slot]
            r.M[at, slot] = r.M[at, slot] + real(0.5) * r.joint_B_bar[first + j, slot] * r.joint_B[first + i, slot]


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
            r.spare[count, slot] = above_e
            count += 1
            above_e = m.dof_parent[above_e]
        for i in range(count):  # Y = X Lᵀ at e and its ancestors, from the root on
            d = r.spare[count - 1 - i, slot]
            total = wp.sqrt(r.H[row + e, slot] * r.H[d * m.nv + d, slot]) * r.M[row + d, slot]
            for j in range(i):
                above = r.spare[count - 1 - j, slot]
                total -= r.H[d * m.nv + above, slot] * r.scale[above, slot]
            r.scale[d, slot] = total
        for i in range(count):
            d = r.spare[count - 1 - i, slot]
            total = r.scale[d, slot]
            for j in range(count - 1):
                above = r.spare[count - 1 - j, slot]  # every ancestor of e
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
    """B_bar of contact k becomes J_bar = Wᵀ B_bar along its chain."""
    first = k * m.nv
    length = r.chain_length[k, slot]
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
def rows_adjoint(
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
    """From B_bar back to the mass matrix and the Jacobians: adds to S_bar, W, q_bar and parameters.

    Cotangents of each contact's point and frame are left in r.pos_bar, r.n_bar, r.t1_bar, r.t2_bar.
    """
    contacts = contact_count(c, slot)
    joints = r.joint_rows[0, slot]
    # The change of velocity is made like a row: c = W a_bar / h is its B, and y its cotangent. So is the shift.
    for d in range(m.nv):
        s.S_bar[d, slot] = vec6()
        above = int(d)
        while above >= 0:
            r.M[d * m.nv + above, slot] = real(0.5) * (
                r.y_end[above, slot] * r.y_end_bar[d, slot] + r.y_shift[above, slot] * r.shift_bar[d, slot]
            )
            above = m.dof_parent[above]
    for k in range(contacts):
        add_products(m, r, k, slot)
        jacobian_bar(m, r, k, slot)
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            d = r.chain[at, slot]
            r.B_bar[at, slot] = r.B_bar[at, slot] + r.u_start[d, slot] * r.z[k, slot] + r.w[d, slot] * r.force[k, slot]
        contact_jacobian_adjoint(m, s, c, r, k, slot)
    for k in range(joints):
        add_joint_products(m, r, k, slot)
        ball_limit_jacobian_adjoint(m, g, s, r, k, slot)
    mass_bar(m, r, slot)
    for e in range(m.nv):
        d = int(e)
        while d >= 0:
            at = e * m.nv + d
            r.M[at, slot] = r.M[at, slot] - real(0.5) * (
                r.w[d, slot] * r.u_start[e, slot] + r.w[e, slot] * r.u_start[d, slot]
            )
            d = m.dof_parent[d]
    for d in range(m.nv):
        s.diagonal_bar[d, slot] = s.diagonal_bar[d, slot] + r.M[d * m.nv + d, slot]
    composite_bodies_adjoint(m, p, p_bar, s, r, world, slot, wants_params)


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
        side = r.side[at, slot]
        if side != real(0.0):
            d = r.chain[at, slot]
            S = s.S[d, slot]
            bar = side * r.B_bar[at, slot]
            arm = c.pos[k, slot] - s.o[m.dof_body[d], slot]
            velocity = lin(S) + wp.cross(ang(S), arm)
            force = bar[0] * n + bar[1] * t1 + bar[2] * t2
            s.S_bar[d, slot] = s.S_bar[d, slot] + pack(wp.cross(arm, force), force)
            pos_bar += wp.cross(force, ang(S))
            n_bar += bar[0] * velocity
            t1_bar += bar[1] * velocity
            t2_bar += bar[2] * velocity
    r.pos_bar[k, slot] = pos_bar
    r.n_bar[k, slot] = n_bar
    r.t1_bar[k, slot] = t1_bar
    r.t2_bar[k, slot] = t2_bar


@wp.func
def ball_limit_jacobian_adjoint(m: Tree, g: Shapes, s: Workspace, r: Rows, k: int, slot: int):
    """From joint_B_bar to J_bar = Wᵀ B_bar, in place, and to the coordinates of a ball joint, whose limit's J turns."""
    first = k * m.nv
    length = r.joint_length[k, slot]
    for back in range(length):
        i = length - 1 - back
        d = r.joint_chain[first + i, slot]
        total = wp.sqrt(r.H[d * m.nv + d, slot]) * r.joint_B_bar[first + i, slot]
        for j in range(i + 1, length):
            total -= r.H[d * m.nv + r.joint_chain[first + j, slot], slot] * r.joint_B_bar[first + j, slot]
        r.joint_B_bar[first + i, slot] = total
    for i in range(length):
        d = r.joint_chain[first + i, slot]
        start_bar = r.joint_z[k, slot] * r.u_start[d, slot] + r.joint_force[k, slot] * r.w[d, slot]
        r.joint_B_bar[first + i, slot] = r.joint_B_bar[first + i, slot] + start_bar
    if joint_row_size(m, r, g, k, slot) == 3:
        J_bar = vec3(r.joint_B_bar[first + 2, slot], r.joint_B_bar[first + 1, slot], r.joint_B_bar[first, slot])
        ball_axis_adjoint(m, g, s, r, J_bar, k, slot)


@wp.func
def ball_axis_adjoint(m: Tree, g: Shapes, s: Workspace, r: Rows, J_bar: vec3, k: int, slot: int):
    """Adds the cotangent of a ball joint's limit's J = -phi / |phi| to that of the coordinates."""
    joint = g.limit_joint[r.joint_source[k, slot] / 2]
    J = r.joint_J[k, slot]
    phi = quat_log(read_quat(s, m.joint_q[joint], slot))
    angle = wp.sqrt(wp.dot(phi, phi))
    if angle > NO_ANGLE:
        phi_bar = -(J_bar - J * wp.dot(J, J_bar)) / angle
        add_vec3(s.q_bar, r.joint_dof[k, slot], slot, log_jacobian_transposed(phi, phi_bar))


@wp.func
def approach_adjoint(
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
    """Adds cotangents of Σ b_bar · (J v + h J a) + speed_bar J v + dist_bar distance to V_bar, G_bar, W, q_bar, p_bar.

    s.a is free.
    """
    h = m.timestep
    for i in range(m.body_parent.shape[0]):
        s.G_bar[i, slot] = vec6()
    for k in range(contact_count(c, slot)):
        pair = c.pair[k, slot]
        b_bar = r.b_bar[k, slot]
        n = c.normal[k, slot]
        t1 = r.tangent1[k, slot]
        t2 = r.tangent2[k, slot]
        pos = c.pos[k, slot]
        Jv = contact_motion(m, r, s.v, k, slot)
        Ja = contact_motion(m, r, s.a, k, slot)
        speed_bar = r.speed_bar[k, slot]
        dist_bar = r.dist_bar[k, slot]
        v_force = b_bar[0] * n + b_bar[1] * t1 + b_bar[2] * t2
        a_force = h * v_force
        v_force += speed_bar * n
        v_world = Jv[0] * n + Jv[1] * t1 + Jv[2] * t2
        whole = v_world + h * (Ja[0] * n + Ja[1] * t1 + Ja[2] * t2)
        spin_v = vec3()
        spin_a = vec3()
        for i in range(r.chain_length[k, slot]):
            d = r.chain[k * m.nv + i, slot]
            S = r.side[k * m.nv + i, slot] * ang(s.S[d, slot])
            spin_v += s.v[d, slot] * S
            spin_a += s.a[d, slot] * S
        push_pair(g, s, s.V_bar, pair, pos, vec3(), v_force, slot)
        push_pair(g, s, s.G_bar, pair, pos, vec3(), a_force, slot)
        pos_bar = r.pos_bar[k, slot] + wp.cross(v_force, spin_v) + wp.cross(a_force, spin_a)
        n_bar = r.n_bar[k, slot] + b_bar[0] * whole + speed_bar * v_world
        t1_bar = r.t1_bar[k, slot] + b_bar[1] * whole
        t2_bar = r.t2_bar[k, slot] + b_bar[2] * whole
        geometry_adjoint(g, p, p_bar, s, c, k, pos_bar, dist_bar, n_bar, t1_bar, t2_bar, world, slot, wants_params)
    for k in range(r.joint_rows[0, slot]):
        row_bar = r.joint_b_bar[k, slot]
        d = r.joint_dof[k, slot]
        J = r.joint_J[k, slot]
        for i in range(joint_row_size(m, r, g, k, slot)):
            s.v_bar[d + i, slot] = s.v_bar[d + i, slot] + row_bar * J[i]
        source = r.joint_source[k, slot]
        if source >= 0:
            if joint_row_size(m, r, g, k, slot) == 3:
                ball_axis_adjoint(
                    m, g, s, r, row_bar * (read_vec3(s.v, d, slot) + h * read_vec3(s.a, d, slot)), k, slot
                )
            erp = p.law[world, 0][0]
            distance, _J = limit_distance(m, g, p, s, source / 2, source % 2, world, slot)
            x_bar, erp_bar = rest_aim_adjoint(distance, erp, h, -row_bar)
            limit_adjoint(m, g, p, p_bar, s, r, k, x_bar, world, slot, wants_params)
            if wants_params == 1:
                p_bar.law[world, 0] = p_bar.law[world, 0] + vec3(erp_bar, real(0.0), real(0.0))
