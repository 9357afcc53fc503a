"""Joint forces (actuators, springs, dampers) and the drag of a surrounding fluid, each with its adjoint."""

import warp as wp

from ..spatial.algebra import (
    ang,
    cross_force,
    lin,
    log_jacobian_transposed,
    pack,
    quat_conj,
    quat_log,
    quat_matrix,
    quat_mul,
    quat_rotate,
)
from ..spatial.scalar import PI, real, vec3, vec4, vec6
from .structs import (
    BALL,
    IMPLICITFAST,
    ON_BALL,
    ON_FREE,
    ON_SCALAR,
    Params,
    Tree,
    Workspace,
    add_vec3,
    read_quat,
    read_vec3,
)


@wp.func
def in_range(x: real, low: real, high: real):
    """1 where a clamp passes its input on, 0 where it holds it."""
    return wp.where(x >= low and x <= high, real(1.0), real(0.0))


@wp.func
def inside(x: real, low: real, high: real):
    """1 strictly within a range, where MuJoCo takes a clamped force's slope into account."""
    return wp.where(x > low and x < high, real(1.0), real(0.0))


@wp.func
def spring_quat(p: Params, world: int, qi: int):
    return vec4(
        p.spring_ref[world, qi], p.spring_ref[world, qi + 1], p.spring_ref[world, qi + 2], p.spring_ref[world, qi + 3]
    )


# --- actuators: force = gain(length, velocity) · clamp(control) + bias(length, velocity) -----------


@wp.func
def ball_stretch(p: Params, s: Workspace, qi: int, world: int, slot: int):
    """How far a ball joint with coordinates from qi on is turned from where its spring rests."""
    return quat_log(quat_mul(quat_conj(spring_quat(p, world, qi)), read_quat(s, qi, slot)))


@wp.func
def turning_gear(m: Tree, p: Params, s: Workspace, world: int, slot: int, k: int):
    """Actuator k's gear on the three rotations of its ball or free joint, in the body's frame."""
    gear = p.gear[world, k]
    turn = vec3(gear[0], gear[1], gear[2])
    qi = m.actuator_q[k]
    if m.actuator_on[k] == ON_FREE:
        turn = vec3(gear[3], gear[4], gear[5])
        qi += 3
    if m.actuator_in_parent[k] == 1:
        turn = quat_rotate(quat_conj(read_quat(s, qi, slot)), turn)
    return turn


@wp.func
def actuator_length_velocity(m: Tree, p: Params, s: Workspace, world: int, slot: int, k: int):
    """What actuator k feels of its joint."""
    qi = m.actuator_q[k]
    d = m.actuator_v[k]
    gear = p.gear[world, k]
    length = real(0.0)
    velocity = real(0.0)
    if m.actuator_on[k] == ON_SCALAR:
        length = gear[0] * s.q[qi, slot]
        velocity = gear[0] * s.v[d, slot]
    else:
        turn = turning_gear(m, p, s, world, slot, k)
        if m.actuator_on[k] == ON_BALL:
            length = wp.dot(turn, quat_log(read_quat(s, qi, slot)))
        else:  # a free joint has no length
            velocity = wp.dot(vec3(gear[0], gear[1], gear[2]), read_vec3(s.v, d, slot))
            d += 3
        velocity += wp.dot(turn, read_vec3(s.v, d, slot))
    return length, velocity


@wp.func
def add_actuator_force(
    m: Tree, p: Params, s: Workspace, controls: wp.array3d(dtype=real), t: int, k: int, world: int, slot: int
):
    """Adds actuator k's force to s.actuation, and what its slope by velocity adds to the diagonal."""
    control = wp.clamp(controls[t, world, k], m.control_low[k], m.control_high[k])
    length, velocity = actuator_length_velocity(m, p, s, world, slot, k)
    gain = p.gain[world, k]
    bias = p.bias[world, k]
    free_force = (
        (gain[0] + gain[1] * length + gain[2] * velocity) * control
        + bias[0] + bias[1] * length + bias[2] * velocity
    )  # fmt: skip
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    d = m.actuator_v[k]
    gear = p.gear[world, k]
    if m.actuator_on[k] == ON_SCALAR:
        s.actuation[d, slot] = s.actuation[d, slot] + gear[0] * force
        if m.integrator == IMPLICITFAST:
            slope = inside(free_force, m.force_low[k], m.force_high[k]) * (bias[2] + gain[2] * control)
            s.diagonal[d, slot] = s.diagonal[d, slot] - m.timestep * gear[0] * gear[0] * slope
    else:
        if m.actuator_on[k] == ON_FREE:
            add_vec3(s.actuation, d, slot, vec3(gear[0], gear[1], gear[2]) * force)
            d += 3
        add_vec3(s.actuation, d, slot, turning_gear(m, p, s, world, slot, k) * force)


@wp.func
def add_spring_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Adds the forces of joint springs to tau."""
    for k in range(m.joint_type.shape[0]):
        stiffness = p.stiffness[world, k]
        if stiffness != real(0.0):
            qi = m.joint_q[k]
            d = m.joint_v[k]
            if m.joint_type[k] == BALL:
                stretch = ball_stretch(p, s, qi, world, slot)
                add_vec3(s.tau, d, slot, -stiffness * stretch)
            else:
                s.tau[d, slot] = s.tau[d, slot] - stiffness * (s.q[qi, slot] - p.spring_ref[world, qi])


@wp.func
def joint_forces(m: Tree, p: Params, s: Workspace, controls: wp.array3d(dtype=real), t: int, world: int, slot: int):
    """tau and the diagonal added to the mass matrix, from s.q, s.v and controls[t, world]."""
    for d in range(m.nv):
        damping = p.damping[world, d]
        s.actuation[d, slot] = real(0.0)
        s.tau[d, slot] = -damping * s.v[d, slot]
        diagonal = p.armature[world, d]
        if m.implicit_damping == 1:
            diagonal += m.timestep * damping
        s.diagonal[d, slot] = diagonal
    for k in range(m.actuator_on.shape[0]):
        add_actuator_force(m, p, s, controls, t, k, world, slot)
    for d in range(m.nv):
        actuation = s.actuation[d, slot]
        low = m.dof_force_low[d]
        high = m.dof_force_high[d]
        s.tau[d, slot] = s.tau[d, slot] + wp.clamp(actuation, low, high)
        if m.integrator == IMPLICITFAST:
            if actuation <= low or actuation >= high:  # held by the joint's range: no slope of any actuator counts
                s.diagonal[d, slot] = p.armature[world, d] + m.timestep * p.damping[world, d]
    add_spring_forces(m, p, s, world, slot)


@wp.func
def actuator_adjoint(
    m: Tree,
    p: Params,
    p_bar: Params,
    s: Workspace,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    t: int,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """Adds what actuator k's force has to do with q, v, its control and its parameters."""
    control = wp.clamp(controls[t, world, k], m.control_low[k], m.control_high[k])
    length, velocity = actuator_length_velocity(m, p, s, world, slot, k)
    gain = p.gain[world, k]
    bias = p.bias[world, k]
    slope_control = gain[0] + gain[1] * length + gain[2] * velocity
    slope_length = gain[1] * control + bias[1]
    slope_velocity = gain[2] * control + bias[2]
    free_force = slope_control * control + bias[0] + bias[1] * length + bias[2] * velocity
    free = in_range(free_force, m.force_low[k], m.force_high[k])
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    gear = p.gear[world, k]
    qi = m.actuator_q[k]
    d = m.actuator_v[k]
    gear_bar = vec6()
    slope_velocity_bar = real(0.0)
    force_bar = real(0.0)
    length_bar = real(0.0)
    velocity_bar = real(0.0)
    if m.actuator_on[k] == ON_SCALAR:
        pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        force_bar = free * gear[0] * pull_bar
        length_bar = force_bar * slope_length
        velocity_bar = force_bar * slope_velocity
        s.q_bar[d, slot] = s.q_bar[d, slot] + gear[0] * length_bar
        s.v_bar[d, slot] = s.v_bar[d, slot] + gear[0] * velocity_bar
        gear_bar[0] = force * pull_bar + length_bar * s.q[qi, slot] + velocity_bar * s.v[d, slot]
        if m.integrator == IMPLICITFAST:
            diagonal_bar = s.diagonal_bar[d, slot]
            diagonal_bar *= inside(free_force, m.force_low[k], m.force_high[k])
            diagonal_bar *= inside(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
            slope_velocity_bar = -m.timestep * gear[0] * gear[0] * diagonal_bar
            gear_bar[0] -= real(2.0) * m.timestep * gear[0] * slope_velocity * diagonal_bar
    else:
        turn = turning_gear(m, p, s, world, slot, k)
        on_free = m.actuator_on[k] == ON_FREE
        if on_free:
            push = vec3(gear[0], gear[1], gear[2])
            w_push = read_vec3(s.tau_bar, d, slot)
            v_push = read_vec3(s.v, d, slot)
            w_turn = read_vec3(s.tau_bar, d + 3, slot)
            force_bar = free * (wp.dot(push, w_push) + wp.dot(turn, w_turn))
            velocity_bar = force_bar * slope_velocity
            add_vec3(s.v_bar, d, slot, velocity_bar * push)
            push_bar = force * w_push + velocity_bar * v_push
            gear_bar = pack(push_bar, vec3())
            d += 3
            qi += 3
        quat = read_quat(s, qi, slot)
        w_turn = read_vec3(s.tau_bar, d, slot)
        v_turn = read_vec3(s.v, d, slot)
        turn_bar = force * w_turn
        if not on_free:
            rotation = quat_log(quat)
            force_bar = free * wp.dot(turn, w_turn)
            length_bar = force_bar * slope_length
            velocity_bar = force_bar * slope_velocity
            add_vec3(s.q_bar, d, slot, log_jacobian_transposed(rotation, length_bar * turn))
            turn_bar += length_bar * rotation
        turn_bar += velocity_bar * v_turn
        add_vec3(s.v_bar, d, slot, velocity_bar * turn)
        if m.actuator_in_parent[k] == 1:
            # turn = Rᵀ gear, so rotating the body by e changes it by turn × e
            add_vec3(s.q_bar, d, slot, wp.cross(turn_bar, turn))
            turn_bar = quat_rotate(quat, turn_bar)
        if on_free:
            gear_bar = pack(vec3(gear_bar[0], gear_bar[1], gear_bar[2]), turn_bar)
        else:
            gear_bar = pack(turn_bar, vec3())
    control_bar = force_bar * slope_control + slope_velocity_bar * gain[2]
    controls_bar[t, world, k] = controls_bar[t, world, k] + control_bar * in_range(
        controls[t, world, k], m.control_low[k], m.control_high[k]
    )
    if wants_params == 1:
        bias_bar = force_bar * vec3(real(1.0), length, velocity) + vec3(real(0.0), real(0.0), slope_velocity_bar)
        p_bar.bias[world, k] = p_bar.bias[world, k] + bias_bar
        p_bar.gain[world, k] = p_bar.gain[world, k] + control * bias_bar
        p_bar.gear[world, k] = p_bar.gear[world, k] + gear_bar


@wp.func
def spring_forces_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """The same for the springs of joints."""
    for k in range(m.joint_type.shape[0]):
        stiffness = p.stiffness[world, k]
        if stiffness != real(0.0) or wants_params == 1:
            qi = m.joint_q[k]
            d = m.joint_v[k]
            if m.joint_type[k] == BALL:
                stretch = ball_stretch(p, s, qi, world, slot)
                w = read_vec3(s.tau_bar, d, slot)
                add_vec3(s.q_bar, d, slot, log_jacobian_transposed(stretch, -stiffness * w))
                if wants_params == 1:
                    p_bar.stiffness[world, k] = p_bar.stiffness[world, k] - wp.dot(w, stretch)
                    # turning the rest pose by e changes log(rest⁻¹ q) by -Jr(-stretch)⁻¹ e
                    rest_bar = log_jacobian_transposed(-stretch, stiffness * w)
                    for j in range(3):
                        p_bar.spring_ref[world, qi + j] = p_bar.spring_ref[world, qi + j] + rest_bar[j]
            else:
                pull_bar = s.tau_bar[d, slot]
                s.q_bar[d, slot] = s.q_bar[d, slot] - stiffness * pull_bar
                if wants_params == 1:
                    stretched = s.q[qi, slot] - p.spring_ref[world, qi]
                    p_bar.stiffness[world, k] = p_bar.stiffness[world, k] - pull_bar * stretched
                    p_bar.spring_ref[world, qi] = p_bar.spring_ref[world, qi] + stiffness * pull_bar


@wp.func
def joint_forces_adjoint(
    m: Tree,
    p: Params,
    p_bar: Params,
    s: Workspace,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    t: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """Adds the cotangents of q, v, controls and parameters from tau_bar and diagonal_bar."""
    for d in range(m.nv):
        tau_bar = s.tau_bar[d, slot]
        diagonal_bar = s.diagonal_bar[d, slot]
        s.v_bar[d, slot] = s.v_bar[d, slot] - p.damping[world, d] * tau_bar
        if wants_params == 1:
            damping_bar = -tau_bar * s.v[d, slot]
            if m.implicit_damping == 1:
                damping_bar += m.timestep * diagonal_bar
            p_bar.damping[world, d] = p_bar.damping[world, d] + damping_bar
            p_bar.armature[world, d] = p_bar.armature[world, d] + diagonal_bar
    for k in range(m.actuator_on.shape[0]):
        actuator_adjoint(m, p, p_bar, s, controls, controls_bar, t, k, world, slot, wants_params)
    spring_forces_adjoint(m, p, p_bar, s, world, slot, wants_params)


# --- a fluid around the bodies: MuJoCo's inertia-box model -----------------------------------------


@wp.func
def box_drag_shape(box: vec3):
    """What a box's size means for its drag: by rotation and translation about each axis, and its mean edge."""
    xx = box[0] * box[0]
    yy = box[1] * box[1]
    zz = box[2] * box[2]
    turn = vec3(box[0] * (yy * yy + zz * zz), box[1] * (xx * xx + zz * zz), box[2] * (xx * xx + yy * yy))
    push = vec3(box[1] * box[2], box[0] * box[2], box[0] * box[1])
    return turn / real(64.0), push / real(2.0), (box[0] + box[1] + box[2]) / real(3.0)


@wp.func
def box_drag(velocity: vec6, box: vec3, density: real, viscosity: real):
    """Force on a box at its centre, in its own axes, moving with ``velocity`` against the fluid."""
    turn, push, edge = box_drag_shape(box)
    w = ang(velocity)
    v = lin(velocity)
    return pack(
        -PI * viscosity * edge * edge * edge * w - density * wp.cw_mul(turn, signed_square(w)),
        -real(3.0) * PI * viscosity * edge * v - density * wp.cw_mul(push, signed_square(v)),
    )


@wp.func
def signed_square(x: vec3):
    return vec3(wp.abs(x[0]) * x[0], wp.abs(x[1]) * x[1], wp.abs(x[2]) * x[2])


@wp.func
def box_drag_adjoint(velocity: vec6, box: vec3, density: real, viscosity: real, x: vec6):
    """Cotangents of velocity, box, density and viscosity in x·box_drag(...)."""
    turn, push, edge = box_drag_shape(box)
    w = ang(velocity)
    v = lin(velocity)
    xw = ang(x)
    xv = lin(x)
    two = real(2.0)
    velocity_bar = pack(
        -PI * viscosity * edge * edge * edge * xw - two * density * wp.cw_mul(turn, wp.cw_mul(wp.abs(w), xw)),
        -real(3.0) * PI * viscosity * edge * xv - two * density * wp.cw_mul(push, wp.cw_mul(wp.abs(v), xv)),
    )
    ww = wp.cw_mul(xw, signed_square(w))
    vv = wp.cw_mul(xv, signed_square(v))
    density_bar = -wp.dot(turn, ww) - wp.dot(push, vv)
    turned = wp.dot(xw, w)
    pushed = wp.dot(xv, v)
    viscosity_bar = -PI * edge * (edge * edge * turned + real(3.0) * pushed)
    edge_bar = -PI * viscosity * (edge * edge * turned + pushed)  # a third of it: the edge is a mean of three
    xx = box[0] * box[0]
    yy = box[1] * box[1]
    zz = box[2] * box[2]
    shape_bar = (
        vec3(
            (yy * yy + zz * zz) * ww[0] + real(4.0) * xx * box[0] * (box[1] * ww[1] + box[2] * ww[2]),
            (xx * xx + zz * zz) * ww[1] + real(4.0) * yy * box[1] * (box[0] * ww[0] + box[2] * ww[2]),
            (xx * xx + yy * yy) * ww[2] + real(4.0) * zz * box[2] * (box[0] * ww[0] + box[1] * ww[1]),
        )
        / real(64.0)
        + vec3(
            box[2] * vv[1] + box[1] * vv[2],
            box[2] * vv[0] + box[0] * vv[2],
            box[1] * vv[0] + box[0] * vv[1],
        )
        / two
    )
    box_bar = vec3(edge_bar, edge_bar, edge_bar) - density * shape_bar
    return velocity_bar, box_bar, density_bar, viscosity_bar


@wp.func
def fluid_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Takes the drag on each body from its bias force pA."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for i in range(1, m.body_parent.shape[0]):
        R = s.R[i, slot]
        B = quat_matrix(quat_mul(s.quat[i, slot], m.fluid_quat[i]))
        c = s.pos[i, slot] - s.o[i, slot] + R * p.com[world, i]
        V = s.V[i, slot] - wind
        Bt = wp.transpose(B)
        local = pack(Bt * ang(V), Bt * (lin(V) + wp.cross(ang(V), c)))
        drag = box_drag(local, p.fluid_box[world, i], fluid[0], fluid[1])
        push = B * lin(drag)
        s.pA[i, slot] = s.pA[i, slot] - pack(B * ang(drag) + wp.cross(c, push), push)


@wp.func
def fluid_forces_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """Adds to V_bar, X_bar and W of each body the cotangents of Σ X·drag."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for i in range(1, m.body_parent.shape[0]):
        R = s.R[i, slot]
        B = quat_matrix(quat_mul(s.quat[i, slot], m.fluid_quat[i]))
        c = s.pos[i, slot] - s.o[i, slot] + R * p.com[world, i]
        V = s.V[i, slot] - wind
        X = s.X[i, slot]
        Bt = wp.transpose(B)
        V_com = lin(V) + wp.cross(ang(V), c)
        X_com = lin(X) + wp.cross(ang(X), c)
        V_local = pack(Bt * ang(V), Bt * V_com)
        X_local = pack(Bt * ang(X), Bt * X_com)
        box = p.fluid_box[world, i]
        X_local_bar = box_drag(V_local, box, fluid[0], fluid[1])
        V_local_bar, box_bar, density_bar, viscosity_bar = box_drag_adjoint(V_local, box, fluid[0], fluid[1], X_local)
        V_push = B * lin(V_local_bar)
        X_push = B * lin(X_local_bar)
        V_bar = pack(B * ang(V_local_bar) + wp.cross(c, V_push), V_push)
        X_bar = pack(B * ang(X_local_bar) + wp.cross(c, X_push), X_push)
        s.V_bar[i, slot] = s.V_bar[i, slot] + V_bar
        s.X_bar[i, slot] = s.X_bar[i, slot] + X_bar
        # Moving the body by e is, seen from the body, moving V and X by -e.
        s.W[i, slot] = s.W[i, slot] - cross_force(V, V_bar) - cross_force(X, X_bar)
        if wants_params == 1:
            c_bar = wp.cross(V_push, ang(V)) + wp.cross(X_push, ang(X))
            p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(R) * c_bar
            p_bar.fluid_box[world, i] = p_bar.fluid_box[world, i] + box_bar
            p_bar.fluid[world, 0] = p_bar.fluid[world, 0] + vec3(density_bar, viscosity_bar, real(0.0))
            p_bar.fluid[world, 1] = p_bar.fluid[world, 1] - V_push
