"""The sweeps of ``impulse.py`` backwards.

Cotangents: of y in r.gradient, of λ in r.z and r.joint_z, of b in r.b_bar and r.joint_b_bar, of B in r.B_bar and
r.joint_B_bar, of the squared lengths G in r.G_bar, of distances in r.dist_bar and of J v alone in r.speed_bar.
"""

import warp as wp

from .flavour import vecr
from .impulse import (
    friction_share,
    is_loss,
    joint_residual,
    joint_start_stiffness,
    joint_start_wish,
    joint_wish,
    mass_factor,
    normal_wish,
    only_normal,
    restitution,
    start_energy,
    start_stiffness,
    start_wish,
    sticking_matrix,
    tangent_wish,
    touching,
    turn,
    whiten,
)
from .materials import mixed_friction_adjoint
from .rows import (
    Rows,
    add_contact_force,
    add_joint_row_force,
    contact_count,
    contact_motion,
    joint_row_motion,
    joint_row_size,
    solve_factored,
)
from .scalar import real, vec3
from .shapes import Contacts, Shapes
from .tree import Params, Tree, Workspace


@wp.func
def rest_aim_adjoint(x: real, slop: real, erp: real, h: real, bar: real):
    """Cotangents of x, slop and erp in bar · target."""
    x_bar = wp.where(x > real(0.0), -bar / h, -erp * bar / h)
    return x_bar, -erp * bar / h, -(wp.min(x, real(0.0)) + slop) * bar / h


@wp.func
def bounce_adjoint(x: real, speed: real, free: real, restitution: real, h: real, bar: real, moment_bar: real):
    """Cotangents of x, speed, free and restitution in bar · target + moment_bar · moment."""
    one = real(1.0)
    moment = touching(x, speed, free, h)
    after_bar = (one + restitution) * bar
    after = (one - moment) * (free - speed)
    free_bar = -restitution * bar + (one - moment) * after_bar
    speed_bar = -(one - moment) * after_bar
    restitution_bar = -(free - after) * bar
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
        weight_t = r.weight[k, slot][1]
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
        g_n = bar[0] * r.weight[k, slot][0]
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
def joint_bounded_adjoint(
    m: Tree, p_bar: Params, r: Rows, wish: real, bar: real, k: int, world: int, slot: int, wants_params: int
):
    """The cotangent of an impulse before it was bounded; that of the bound joins p_bar."""
    free = wish > real(0.0)
    if is_loss(r, k, slot):
        free = wp.abs(wish) <= r.joint_loss[k, slot]
        if wants_params == 1 and not free:
            loss = -1 - r.joint_source[k, slot]
            p_bar.loss[world, loss] = p_bar.loss[world, loss] + m.timestep * wp.sign(wish) * bar
    return wp.where(free, bar, real(0.0))


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
    free_bar = joint_bounded_adjoint(m, p_bar, r, wish, wish_bar, k, world, slot, wants_params)
    if free_bar != real(0.0):
        g_bar = free_bar / (r.joint_stiffness[k, slot] + softness)
        old_bar += free_bar - softness * g_bar
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
        x = c.dist[k, slot]
        bar = -r.b_bar[k, slot][0]
        r.speed_bar[k, slot] = real(0.0)
        if r.bounced[k, slot] == 1:
            speed = contact_motion(m, r, s.v, k, slot)[0]
            free = speed + h * contact_motion(m, r, r.kept_a, k, slot)[0]
            e = restitution(p, g, pair, world)
            x_bar, speed_bar, free_bar, e_bar = bounce_adjoint(x, speed, free, e, h, bar, r.moment_bar[k, slot])
            r.b_bar[k, slot] = r.b_bar[k, slot] + only_normal(free_bar)
            r.speed_bar[k, slot] = speed_bar
            r.dist_bar[k, slot] = x_bar
            if wants_params == 1:
                restitution_adjoint(p, p_bar, g, pair, e_bar, world)
        else:
            x_rest_bar, slop_bar, erp_bar = rest_aim_adjoint(x, slop, law[0], h, bar)
            r.dist_bar[k, slot] = x_rest_bar
            if wants_params == 1:
                p_bar.law[world, 0] = p_bar.law[world, 0] + vec3(erp_bar, real(0.0), real(0.0))
                p_bar.law[world, 1] = p_bar.law[world, 1] + vec3(slop_bar, real(0.0), real(0.0))


@wp.func
def bounce_moments_adjoint(m: Tree, c: Contacts, r: Rows, slot: int):
    """From r.moved_bar to the cotangents of moments, and of impulses, where r.z begins; r.w is what these changed."""
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
            for i in range(r.chain_length[k, slot]):
                root = r.chain[k * m.nv + i, slot]
                if m.dof_parent[root] < 0 and r.pushed[root, slot] > real(0.0):
                    share = r.late_bar[root, slot] / r.pushed[root, slot]
                    push_bar += share * (r.moment[k, slot] - r.late[root, slot])
                    moment_bar += share * r.force[k, slot][0]
        r.moment_bar[k, slot] = moment_bar
        r.z[k, slot] = only_normal(push_bar)


@wp.func
def scale_start_adjoint(
    m: Tree, p: Params, p_bar: Params, c: Contacts, r: Rows, world: int, slot: int, wants_params: int
):
    """From the cotangents of the scaled impulses, in r.z and r.joint_z, to those before, and to b_bar and B_bar."""
    scale = r.start_scale[0, slot]
    scale_bar = real(0.0)
    softness = p.law[world, 0][1]
    inside = scale > real(0.0) and scale < real(1.0)
    contacts = contact_count(c, slot)
    joints = r.joint_rows[0, slot]
    if inside:
        for k in range(contacts):
            r.force[k, slot] = r.force[k, slot] / scale
            scale_bar += wp.dot(r.z[k, slot], r.force[k, slot])
        for k in range(joints):
            r.joint_force[k, slot] = r.joint_force[k, slot] / scale
            scale_bar += r.joint_z[k, slot] * r.joint_force[k, slot]
        for d in range(m.nv):
            r.step[d, slot] = r.step[d, slot] / scale
    linear_bar = real(0.0)
    square_bar = real(0.0)
    if inside:
        _linear, square = start_energy(m, c, r, softness, slot)
        linear_bar = -scale_bar / square
        square_bar = -real(2.0) * scale_bar * scale / square  # of half the square
        if wants_params == 1:
            norm = real(0.0)
            for k in range(contacts):
                norm += wp.dot(r.force[k, slot], r.force[k, slot])
            for k in range(joints):
                norm += r.joint_force[k, slot] * r.joint_force[k, slot]
            p_bar.law[world, 0] = p_bar.law[world, 0] + vec3(real(0.0), real(0.5) * square_bar * norm, real(0.0))
    for k in range(contacts):
        bar = scale * r.z[k, slot] + linear_bar * r.z_free[k, slot] + square_bar * softness * r.force[k, slot]
        if inside:
            r.b_bar[k, slot] = r.b_bar[k, slot] + linear_bar * r.force[k, slot]
            for i in range(r.chain_length[k, slot]):
                at = k * m.nv + i
                y_bar = square_bar * r.step[r.chain[at, slot], slot]
                bar += y_bar * r.B[at, slot]
                r.B_bar[at, slot] = r.B_bar[at, slot] + y_bar * r.force[k, slot]
        r.z[k, slot] = bar
    for k in range(joints):
        row_bar = scale * r.joint_z[k, slot]
        row_bar += linear_bar * r.joint_z_free[k, slot] + square_bar * softness * r.joint_force[k, slot]
        if inside:
            r.joint_b_bar[k, slot] = r.joint_b_bar[k, slot] + linear_bar * r.joint_force[k, slot]
            for i in range(r.joint_length[k, slot]):
                at = k * m.nv + i
                y_row_bar = square_bar * r.step[r.joint_chain[at, slot], slot]
                row_bar += y_row_bar * r.joint_B[at, slot]
                r.joint_B_bar[at, slot] = r.joint_B_bar[at, slot] + y_row_bar * r.joint_force[k, slot]
        r.joint_z[k, slot] = row_bar


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
    """From the cotangents of the first impulses to those before they were bounded, in r.z; these are put in r.force."""
    for k in range(contact_count(c, slot)):
        wish = start_wish(m, g, c, r, k, slot)
        bar = r.z[k, slot]
        n = wp.max(wish[0], real(0.0))
        mu = r.friction[k, slot][1]
        share = friction_share(wish[1], wish[2], mu * n)
        n_bar = bar[0]
        x_bar = share * bar[1]
        y_bar = share * bar[2]
        if share < real(1.0):
            length = wp.sqrt(wish[1] * wish[1] + wish[2] * wish[2])
            bound_bar = (bar[1] * wish[1] + bar[2] * wish[2]) / length
            x_bar -= share * bound_bar * wish[1] / length
            y_bar -= share * bound_bar * wish[2] / length
            n_bar += mu * bound_bar
            if wants_params == 1:
                friction_bar = vecr()
                friction_bar[1] = n * bound_bar
                mixed_friction_adjoint(p, p_bar, g, c.pair[k, slot], friction_bar, world)
        if wish[0] <= real(0.0):
            n_bar = real(0.0)
        r.z[k, slot] = vecr(n_bar, x_bar, y_bar)
        r.force[k, slot] = wish
    for k in range(r.joint_rows[0, slot]):
        row_wish = joint_start_wish(m, g, r, k, slot)
        r.joint_z[k, slot] = joint_bounded_adjoint(
            m, p_bar, r, row_wish, r.joint_z[k, slot], k, world, slot, wants_params
        )
        r.joint_force[k, slot] = row_wish


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
        r.gradient[d, slot] = s.a_bar[d, slot] / m.timestep - r.late[d, slot] * r.moved_bar[d, slot]
    bounce_moments_adjoint(m, c, r, slot)
    whiten(m, r, r.gradient, slot)
    for d in range(m.nv):
        r.y_end[d, slot] = r.step[d, slot]
        r.y_end_bar[d, slot] = r.gradient[d, slot]
    for k in range(contacts):
        for i in range(r.chain_length[k, slot]):
            r.B_bar[k * m.nv + i, slot] = vecr()
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
    scale_start_adjoint(m, p, p_bar, c, r, world, slot, wants_params)
    bounds_adjoint(m, g, p, p_bar, c, r, world, slot, wants_params)
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
