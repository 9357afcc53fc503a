"""Equality constraints that close loops: connect, which holds two points together, and weld, two frames.

Each is a residual r of poses, and MuJoCo's law is that of a spring and damper along it, softened by R:

    r̈ + b ṙ + k d(|r|) r = -R f

Points are p1 and p2 on bodies 1 and 2. E = q2* q1 L is how the first body, turned by L, is turned against the second.

    r_t = p1 - p2                      r_r = scale · vec E
    ṙ_t = v1 - v2                      ṙ_r = N u,                          u  = R2ᵀ (ω1 - ω2)
    r̈_t = a1 - a2                      r̈_r = N u' - ¼ scale |u|² vec E,    u' = R2ᵀ (α1 - α2 - ω2 × ω1)
    a = lin A + α × ρ + ω × v          N x = ½ scale (E0 x + x × vec E)

with ρ from o to the point. Each component of r is a row of the joints, with all degrees of freedom that carry one of
the bodies: those that carry both turn the gap between the points.
"""

import warp as wp

from ..collision.shapes import Shapes
from ..spatial.algebra import acceleration_at, ang, pack, quat_conj, quat_mul, quat_vec, velocity_at
from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import accelerations
from .law import impedance, impedance_adjoint, row_stiffness, spring, spring_adjoint, weight_adjoint
from .rows import LOOP_ROW, UNBOUNDED, Rows, joint_row_motion, push_body


@wp.func
def anchor(p: Params, s: Workspace, r: Rows, e: int, side: int, world: int, slot: int):
    """The point of loop e on its body 1 (side 0) or 2."""
    body = r.loops.body[e, side]
    return s.pos[body, slot] + s.R[body, slot] * p.loop_point[world, 2 * e + side]


@wp.func
def relative_turn(p: Params, s: Workspace, r: Rows, e: int, world: int, slot: int):
    """E"""
    q1 = quat_mul(s.quat[r.loops.body[e, 0], slot], p.loop_quat[world, e])
    return quat_mul(quat_conj(s.quat[r.loops.body[e, 1], slot]), q1)


@wp.func
def turn_rows(E: vec4, x: vec3):
    """N x, at scale 1."""
    return real(0.5) * (E[0] * x + wp.cross(x, quat_vec(E)))


@wp.func
def turn_rows_transposed(E: vec4, g: vec3):
    """Nᵀ g, at scale 1."""
    return real(0.5) * (E[0] * g + wp.cross(quat_vec(E), g))


@wp.func
def turning(s: Workspace, r: Rows, e: int, slot: int):
    """u, and u' with the accelerations A that bodies have."""
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    Rt = wp.transpose(s.R[body2, slot])
    w1 = ang(s.V[body1, slot])
    w2 = ang(s.V[body2, slot])
    change = ang(s.A[body1, slot]) - ang(s.A[body2, slot]) - wp.cross(w2, w1)
    return Rt * (w1 - w2), Rt * change


@wp.func
def residual(p: Params, s: Workspace, r: Rows, e: int, world: int, slot: int):
    """r_t, r_r and |r|; a connect has no r_r."""
    apart = anchor(p, s, r, e, 0, world, slot) - anchor(p, s, r, e, 1, world, slot)
    turned = vec3()
    if r.loops.rows[e] == 6:
        turned = p.loop_scale[world, e] * quat_vec(relative_turn(p, s, r, e, world, slot))
    return apart, turned, wp.sqrt(wp.dot(apart, apart) + wp.dot(turned, turned))


@wp.func
def motion_of_residual(p: Params, s: Workspace, r: Rows, e: int, world: int, slot: int):
    """ṙ_t, ṙ_r, r̈_t and r̈_r with the velocities V and accelerations A that bodies have."""
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    arm1 = anchor(p, s, r, e, 0, world, slot) - s.o[body1, slot]
    arm2 = anchor(p, s, r, e, 1, world, slot) - s.o[body2, slot]
    V1 = s.V[body1, slot]
    V2 = s.V[body2, slot]
    moving = velocity_at(V1, arm1) - velocity_at(V2, arm2)
    speeding = acceleration_at(V1, s.A[body1, slot], arm1) - acceleration_at(V2, s.A[body2, slot], arm2)
    turn_speed = vec3()
    turn_speeding = vec3()
    if r.loops.rows[e] == 6:
        E = relative_turn(p, s, r, e, world, slot)
        u, u_dot = turning(s, r, e, slot)
        scale = p.loop_scale[world, e]
        turn_speed = scale * turn_rows(E, u)
        turn_speeding = scale * (turn_rows(E, u_dot) - real(0.25) * wp.dot(u, u) * quat_vec(E))
    return moving, turn_speed, speeding, turn_speeding


@wp.func
def loop_rows(m: Tree, g: Shapes, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds the rows of all loops to those of joints, with MuJoCo's law."""
    for dof in range(m.nv):
        s.a[dof, slot] = real(0.0)
    accelerations(m, s, slot)  # those that velocities alone make
    for e in range(r.loops.rows.shape[0]):
        rows = r.loops.rows[e]
        first_row = add_loop_rows(g, p, s, r, e, world, slot)
        apart, turned, x = residual(p, s, r, e, world, slot)
        moving, turn_speed, speeding, turn_speeding = motion_of_residual(p, s, r, e, world, slot)
        at = r.loops.first_law + e
        solimp = p.equality_solimp[world, at]
        d, _slope = impedance(solimp, x)
        stiff, damp = spring(p.equality_solref[world, at], solimp, g.shortest_time)
        z = speeding + damp * moving + stiff * d * apart
        z_turn = turn_speeding + damp * turn_speed + stiff * d * turned
        stiffness, _s = row_stiffness(d, p.weight[world, r.loops.weight[e, 0]])
        stiffness_turn, _t = row_stiffness(d, p.weight[world, r.loops.weight[e, 1]])
        for i in range(3):
            r.joint_z_free[first_row + i, slot] = z[i]
            r.joint_stiffness[first_row + i, slot] = stiffness
            r.joint_loss[first_row + i, slot] = UNBOUNDED
            if rows == 6:
                r.joint_z_free[first_row + 3 + i, slot] = z_turn[i]
                r.joint_stiffness[first_row + 3 + i, slot] = stiffness_turn
                r.joint_loss[first_row + 3 + i, slot] = UNBOUNDED


@wp.func
def add_loop_rows(g: Shapes, p: Params, s: Workspace, r: Rows, e: int, world: int, slot: int):
    """The rows of loop e, with their chains and columns. Returns the number of the first."""
    if r.loops.coupled == 1:
        r.coupled[0, slot] = 1
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    arm1 = anchor(p, s, r, e, 0, world, slot) - s.o[body1, slot]
    arm2 = anchor(p, s, r, e, 1, world, slot) - s.o[body2, slot]
    rows = r.loops.rows[e]
    E = vec4()
    if rows == 6:
        E = relative_turn(p, s, r, e, world, slot)
    Rt = wp.transpose(s.R[body2, slot])
    first = r.loops.first[e]
    length = r.loops.first[e + 1] - first
    first_row = r.joint_rows[0, slot]
    r.loop_row[e, slot] = first_row
    r.joint_rows[0, slot] = first_row + rows
    for k in range(rows):
        r.joint_source[first_row + k, slot] = LOOP_ROW + 6 * e + k
        r.joint_length[first_row + k, slot] = length
    for i in range(length):
        d = r.loops.dof[first + i]
        S = s.S[d, slot]
        side1 = r.loops.moves[first + i, 0]
        side2 = r.loops.moves[first + i, 1]
        column = side1 * velocity_at(S, arm1) - side2 * velocity_at(S, arm2)
        turn = vec3()
        if rows == 6:
            turn = p.loop_scale[world, e] * turn_rows(E, (side1 - side2) * (Rt * ang(S)))
        for k in range(3):
            at = (first_row + k) * g.joint_width + i
            r.joint_chain[at, slot] = d
            r.joint_J[at, slot] = column[k]
            if rows == 6:
                at = (first_row + 3 + k) * g.joint_width + i
                r.joint_chain[at, slot] = d
                r.joint_J[at, slot] = turn[k]
    return first_row


# --- the adjoint -----------------------------------------------------------------------------------


@wp.func
def relative_turn_adjoint(
    p_bar: Params, R2: mat33, E: vec4, E0_bar: real, Ev_bar: vec3, e: int, world: int, wants_params: int
):
    """From the cotangent of E to that of L, and the moment on body 1; body 2 gets its opposite."""
    Ev = quat_vec(E)
    if wants_params == 1:
        L_bar = real(0.5) * (E[0] * Ev_bar - E0_bar * Ev + wp.cross(Ev_bar, Ev))
        p_bar.loop_quat[world, e] = p_bar.loop_quat[world, e] + vec4(L_bar[0], L_bar[1], L_bar[2], real(0.0))
    return R2 * (real(0.5) * (E[0] * Ev_bar - E0_bar * Ev + wp.cross(Ev, Ev_bar)))


@wp.func
def places_adjoint(
    p_bar: Params, s: Workspace, r: Rows, e: int, p1: vec3, p2: vec3, p1_bar: vec3, p2_bar: vec3,
    turn1_bar: vec3, turn2_bar: vec3, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents of p1 and of -p2, and moments on both bodies, to W and to the points."""
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    push_body(s.W, body1, p1 - s.o[body1, slot], turn1_bar, p1_bar, real(1.0), slot)
    push_body(s.W, body2, p2 - s.o[body2, slot], -turn2_bar, p2_bar, real(-1.0), slot)
    if wants_params == 1:
        local1 = wp.transpose(s.R[body1, slot]) * p1_bar
        local2 = wp.transpose(s.R[body2, slot]) * p2_bar
        p_bar.loop_point[world, 2 * e] = p_bar.loop_point[world, 2 * e] + local1
        p_bar.loop_point[world, 2 * e + 1] = p_bar.loop_point[world, 2 * e + 1] - local2


@wp.func
def loop_rows_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, e: int, apart_bar: vec3, turned_bar: vec3,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From the cotangents of J of all rows of loop e, in r.joint_J_bar, and of r_t and r_r: adds to S_bar, W and
    parameters. For contact models whose law has J, and not the acceleration of r."""
    p1 = anchor(p, s, r, e, 0, world, slot)
    p2 = anchor(p, s, r, e, 1, world, slot)
    arm1 = p1 - s.o[r.loops.body[e, 0], slot]
    arm2 = p2 - s.o[r.loops.body[e, 1], slot]
    rows = r.loops.rows[e]
    E = vec4()
    scale = real(0.0)
    if rows == 6:
        E = relative_turn(p, s, r, e, world, slot)
        scale = p.loop_scale[world, e]
    Ev = quat_vec(E)
    R2 = s.R[r.loops.body[e, 1], slot]
    p1_bar = apart_bar
    p2_bar = apart_bar
    turn2_bar = vec3()
    E0_bar = real(0.0)
    Ev_bar = scale * turned_bar
    scale_bar = wp.dot(turned_bar, Ev)
    first = r.loops.first[e]
    first_row = r.loop_row[e, slot]
    for i in range(r.loops.first[e + 1] - first):
        d = r.loops.dof[first + i]
        side1 = r.loops.moves[first + i, 0]
        side2 = r.loops.moves[first + i, 1]
        spin = ang(s.S[d, slot])
        force = vec3()
        turn_force = vec3()
        for k in range(3):
            force[k] = r.joint_J_bar[(first_row + k) * g.joint_width + i, slot]
            if rows == 6:
                turn_force[k] = r.joint_J_bar[(first_row + 3 + k) * g.joint_width + i, slot]
        p1_bar += side1 * wp.cross(force, spin)
        p2_bar += side2 * wp.cross(force, spin)
        moment = side1 * wp.cross(arm1, force) - side2 * wp.cross(arm2, force)
        if rows == 6:
            between = (side1 - side2) * spin
            y = wp.transpose(R2) * between
            pull = R2 * (scale * turn_rows_transposed(E, turn_force))
            moment += (side1 - side2) * pull
            turn2_bar += wp.cross(pull, between)
            E0_bar += real(0.5) * scale * wp.dot(turn_force, y)
            Ev_bar += real(0.5) * scale * wp.cross(turn_force, y)
            scale_bar += wp.dot(turn_force, turn_rows(E, y))
        s.S_bar[d, slot] = s.S_bar[d, slot] + pack(moment, (side1 - side2) * force)
    turn1_bar = vec3()
    if rows == 6:
        turn1_bar = relative_turn_adjoint(p_bar, R2, E, E0_bar, Ev_bar, e, world, wants_params)
        if wants_params == 1:
            p_bar.loop_scale[world, e] = p_bar.loop_scale[world, e] + scale_bar
    turn2_bar -= turn1_bar
    places_adjoint(p_bar, s, r, e, p1, p2, p1_bar, p2_bar, turn1_bar, turn2_bar, world, slot, wants_params)


@wp.func
def loop_forces(r: Rows, e: int, slot: int):
    """Forces of the rows of loop e, along r_t and r_r."""
    k = r.loop_row[e, slot]
    force = vec3()
    turn_force = vec3()
    for i in range(3):
        force[i] = -r.joint_stiffness[k + i, slot] * r.joint_z[k + i, slot]
        if r.loops.rows[e] == 6:
            turn_force[i] = -r.joint_stiffness[k + 3 + i, slot] * r.joint_z[k + 3 + i, slot]
    return force, turn_force


@wp.func
def push_loop(
    s: Workspace, r: Rows, W: wp.array2d(dtype=vec6), e: int, p1: vec3, p2: vec3, moment: vec3, force: vec3, slot: int
):
    """Adds a force at p1 and a moment to body 1 of a loop, and their opposites, at p2, to body 2."""
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    push_body(W, body1, p1 - s.o[body1, slot], moment, force, real(1.0), slot)
    push_body(W, body2, p2 - s.o[body2, slot], moment, force, real(-1.0), slot)


@wp.func
def push_loop_forces(p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds to X_bar of each body the force that loops exert on it."""
    for e in range(r.loops.rows.shape[0]):
        force, turn_force = loop_forces(r, e, slot)
        moment = vec3()
        if r.loops.rows[e] == 6:
            E = relative_turn(p, s, r, e, world, slot)
            pull = p.loop_scale[world, e] * turn_rows_transposed(E, turn_force)
            moment = s.R[r.loops.body[e, 1], slot] * pull
        p1 = anchor(p, s, r, e, 0, world, slot)
        p2 = anchor(p, s, r, e, 1, world, slot)
        push_loop(s, r, s.X_bar, e, p1, p2, moment, force, slot)


@wp.func
def loop_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, e: int, world: int, slot: int, wants_params: int
):
    """Cotangents of (J w)·f of loop e, but for those of w and a: V_bar, A_bar, W, parameters. w is s.tau_bar."""
    body1 = r.loops.body[e, 0]
    body2 = r.loops.body[e, 1]
    rows = r.loops.rows[e]
    p1 = anchor(p, s, r, e, 0, world, slot)
    p2 = anchor(p, s, r, e, 1, world, slot)
    arm1 = p1 - s.o[body1, slot]
    arm2 = p2 - s.o[body2, slot]
    V1 = s.V[body1, slot]
    V2 = s.V[body2, slot]
    w1 = ang(V1)
    w2 = ang(V2)
    apart, turned, x = residual(p, s, r, e, world, slot)
    moving, turn_speed, _a, _t = motion_of_residual(p, s, r, e, world, slot)
    force, turn_force = loop_forces(r, e, slot)
    k = r.loop_row[e, slot]
    U = vec3()  # J w
    U_turn = vec3()
    z = vec3()
    z_turn = vec3()
    for i in range(3):
        U[i] = joint_row_motion(g, r, s.tau_bar, k + i, slot)
        z[i] = r.joint_z[k + i, slot]
        if rows == 6:
            U_turn[i] = joint_row_motion(g, r, s.tau_bar, k + 3 + i, slot)
            z_turn[i] = r.joint_z[k + 3 + i, slot]
    z_bar = -r.joint_stiffness[k, slot] * U
    z_turn_bar = vec3()
    if rows == 6:
        z_turn_bar = -r.joint_stiffness[k + 3, slot] * U_turn

    # the law
    at = r.loops.first_law + e
    solref = p.equality_solref[world, at]
    solimp = p.equality_solimp[world, at]
    stiff, damp = spring(solref, solimp, g.shortest_time)
    d, d_slope = impedance(solimp, x)
    stiffness, stiffness_d = row_stiffness(d, p.weight[world, r.loops.weight[e, 0]])
    turn_stiffness, turn_stiffness_d = row_stiffness(d, p.weight[world, r.loops.weight[e, 1]])
    along = wp.dot(z_bar, apart) + wp.dot(z_turn_bar, turned)
    d_bar = stiff * along - wp.dot(z, U) * stiffness_d - wp.dot(z_turn, U_turn) * turn_stiffness_d
    per_length = real(0.0)
    if x > real(0.0):
        per_length = d_bar * d_slope / x
    r_bar = stiff * d * z_bar + per_length * apart
    r_turn_bar = stiff * d * z_turn_bar + per_length * turned

    # how the bodies move under w
    spin1 = vec3()
    spin2 = vec3()
    for i in range(r.loops.first[e], r.loops.first[e + 1]):
        dof = r.loops.dof[i]
        S = s.tau_bar[dof, slot] * ang(s.S[dof, slot])
        spin1 += r.loops.moves[i, 0] * S
        spin2 += r.loops.moves[i, 1] * S

    # translation
    drive1 = wp.cross(z_bar, w1) + damp * z_bar
    drive2 = wp.cross(z_bar, w2) + damp * z_bar
    p1_bar = r_bar + wp.cross(force, spin1) + wp.cross(z_bar, ang(s.A[body1, slot])) + wp.cross(drive1, w1)
    p2_bar = r_bar + wp.cross(force, spin2) + wp.cross(z_bar, ang(s.A[body2, slot])) + wp.cross(drive2, w2)
    zero = vec3()
    push_body(s.V_bar, body1, arm1, wp.cross(velocity_at(V1, arm1), z_bar), drive1, real(1.0), slot)
    push_body(s.V_bar, body2, arm2, wp.cross(velocity_at(V2, arm2), z_bar), drive2, real(-1.0), slot)
    turn1_bar = vec3()
    turn2_bar = vec3()
    moment = vec3()

    # rotation
    if rows == 6:
        scale = p.loop_scale[world, e]
        R2 = s.R[body2, slot]
        E = relative_turn(p, s, r, e, world, slot)
        Ev = quat_vec(E)
        u, u_dot = turning(s, r, e, slot)
        y = wp.transpose(R2) * (spin1 - spin2)
        whole = u_dot + damp * u
        u_bar = scale * (damp * turn_rows_transposed(E, z_turn_bar) - real(0.5) * wp.dot(z_turn_bar, Ev) * u)
        E0_bar = real(0.5) * scale * (wp.dot(turn_force, y) + wp.dot(z_turn_bar, whole))
        Ev_bar = scale * (
            real(0.5) * (wp.cross(turn_force, y) + wp.cross(z_turn_bar, whole))
            - real(0.25) * wp.dot(u, u) * z_turn_bar
            + r_turn_bar
        )
        moment = R2 * (scale * turn_rows_transposed(E, z_turn_bar))
        pull = R2 * (scale * turn_rows_transposed(E, turn_force))
        speed_bar = R2 * u_bar
        push_body(s.V_bar, body1, arm1, speed_bar + wp.cross(w2, moment), zero, real(1.0), slot)
        push_body(s.V_bar, body2, arm2, speed_bar + wp.cross(w1, moment), zero, real(-1.0), slot)
        turn1_bar = relative_turn_adjoint(p_bar, R2, E, E0_bar, Ev_bar, e, world, wants_params)
        turn2_bar = wp.cross(pull, R2 * y) + wp.cross(moment, R2 * u_dot) + wp.cross(speed_bar, R2 * u) - turn1_bar
        if wants_params == 1:
            speeding = turn_rows(E, whole) - real(0.25) * wp.dot(u, u) * Ev
            scale_bar = wp.dot(turn_force, turn_rows(E, y)) + wp.dot(z_turn_bar, speeding) + wp.dot(r_turn_bar, Ev)
            p_bar.loop_scale[world, e] = p_bar.loop_scale[world, e] + scale_bar
    push_loop(s, r, s.A_bar, e, p1, p2, moment, z_bar, slot)
    places_adjoint(p_bar, s, r, e, p1, p2, p1_bar, p2_bar, turn1_bar, turn2_bar, world, slot, wants_params)
    if wants_params == 1:
        at_weight = r.loops.weight[e, 0]
        weight_adjoint(p, p_bar, at_weight, stiffness, stiffness_d, -wp.dot(z, U), world)
        if rows == 6:
            at_weight = r.loops.weight[e, 1]
            weight_adjoint(p, p_bar, at_weight, turn_stiffness, turn_stiffness_d, -wp.dot(z_turn, U_turn), world)
        solimp_bar = impedance_adjoint(solimp, x, d_bar)
        damp_bar = wp.dot(z_bar, moving) + wp.dot(z_turn_bar, turn_speed)
        solref_bar, d1_bar = spring_adjoint(solref, solimp, g.shortest_time, d * along, damp_bar)
        solimp_bar[1] = solimp_bar[1] + d1_bar
        p_bar.equality_solref[world, at] = p_bar.equality_solref[world, at] + solref_bar
        p_bar.equality_solimp[world, at] = p_bar.equality_solimp[world, at] + solimp_bar


@wp.func
def loops_adjoint(g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int):
    for e in range(r.loops.rows.shape[0]):
        loop_adjoint(g, p, p_bar, s, r, e, world, slot, wants_params)
