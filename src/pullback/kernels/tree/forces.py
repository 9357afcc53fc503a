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
    velocity_at,
)
from ..spatial.scalar import PI, mat33, real, vec3, vec4, vec6
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
    com_from_o,
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


# --- actuators -------------------------------------------------------------------------------------
#
# A control becomes joint forces in three stages, each with its adjoint. ``take_controls`` sets the drive of an
# actuator, its clamped control. A transmission, here that of a joint, finds length and velocity, ``affine_force`` makes
# a force of these and of the drive, and the transmission holds it to its range and passes it on.


@wp.func
def take_controls(m: Tree, s: Workspace, controls: wp.array3d(dtype=real), t: int, world: int, slot: int):
    """Sets the drive of all actuators."""
    for k in range(m.actuator_on.shape[0]):
        s.drive[k, slot] = wp.clamp(controls[t, world, k], m.control_low[k], m.control_high[k])


@wp.func
def take_controls_adjoint(
    m: Tree, s: Workspace, controls: wp.array3d(dtype=real), controls_bar: wp.array3d(dtype=real),
    t: int, world: int, slot: int,
):  # fmt: skip
    """Adds the cotangents of controls from those of drives."""
    for k in range(m.actuator_on.shape[0]):
        control_bar = s.drive_bar[k, slot] * in_range(controls[t, world, k], m.control_low[k], m.control_high[k])
        controls_bar[t, world, k] = controls_bar[t, world, k] + control_bar


@wp.func
def affine_force(p: Params, s: Workspace, k: int, length: real, velocity: real, world: int, slot: int):
    """gain(length, velocity) · drive + bias(length, velocity) of actuator k, and its slope by velocity."""
    drive = s.drive[k, slot]
    gain = p.gain[world, k]
    bias = p.bias[world, k]
    force = (
        (gain[0] + gain[1] * length + gain[2] * velocity) * drive
        + bias[0] + bias[1] * length + bias[2] * velocity
    )  # fmt: skip
    return force, bias[2] + gain[2] * drive


@wp.func
def affine_force_adjoint(
    p: Params, p_bar: Params, s: Workspace, k: int, length: real, velocity: real,
    force_bar: real, slope_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Cotangents of length and velocity; sets that of the drive, and adds those of parameters."""
    drive = s.drive[k, slot]
    gain = p.gain[world, k]
    bias = p.bias[world, k]
    s.drive_bar[k, slot] = force_bar * (gain[0] + gain[1] * length + gain[2] * velocity) + slope_bar * gain[2]
    if wants_params == 1:
        bias_bar = force_bar * vec3(real(1.0), length, velocity) + vec3(real(0.0), real(0.0), slope_bar)
        p_bar.bias[world, k] = p_bar.bias[world, k] + bias_bar
        p_bar.gain[world, k] = p_bar.gain[world, k] + drive * bias_bar
    return force_bar * (gain[1] * drive + bias[1]), force_bar * (gain[2] * drive + bias[2])


@wp.func
def ball_stretch(p: Params, s: Workspace, qi: int, world: int, slot: int):
    """How far a ball joint with coordinates from qi on is turned from where its spring rests."""
    return quat_log(quat_mul(quat_conj(spring_quat(p, world, qi)), read_quat(s, qi, slot)))


@wp.func
def actuator_moment(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """What a unit force of actuator k does along the degrees of freedom of its joint, how many these are (1, 3, 6), and
    the quaternion of a ball or free joint. A gear on rotations is given in the body's frame or in the parent's."""
    moment = p.gear[world, k]
    count = int(1)
    quat = vec4()
    if m.actuator_on[k] != ON_SCALAR:
        on_free = m.actuator_on[k] == ON_FREE
        count = wp.where(on_free, 6, 3)
        quat = read_quat(s, m.actuator_q[k] + count - 3, slot)
        if m.actuator_in_parent[k] == 1:
            if on_free:
                moment = pack(ang(moment), quat_rotate(quat_conj(quat), lin(moment)))
            else:
                moment = pack(quat_rotate(quat_conj(quat), ang(moment)), vec3())
    return moment, count, quat


@wp.func
def actuator_length_velocity(m: Tree, s: Workspace, k: int, moment: vec6, count: int, quat: vec4, slot: int):
    """What actuator k feels of its joint. A free joint has no length."""
    length = real(0.0)
    if m.actuator_on[k] == ON_SCALAR:
        length = moment[0] * s.q[m.actuator_q[k], slot]
    elif m.actuator_on[k] == ON_BALL:
        length = wp.dot(ang(moment), quat_log(quat))
    velocity = real(0.0)
    for j in range(6):  # unrolled, so that the moment stays in registers
        if j < count:
            velocity += moment[j] * s.v[m.actuator_v[k] + j, slot]
    return length, velocity


@wp.func
def push_joint(
    m: Tree, s: Workspace, k: int, moment: vec6, count: int, free_force: real, slope_velocity: real, slot: int
):
    """Adds actuator k's force, held to its range, to s.actuation, and its slope by velocity to the diagonal."""
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    d = m.actuator_v[k]
    for j in range(6):
        if j < count:
            s.actuation[d + j, slot] = s.actuation[d + j, slot] + moment[j] * force
    if m.integrator == IMPLICITFAST and m.actuator_on[k] == ON_SCALAR:
        slope = inside(free_force, m.force_low[k], m.force_high[k]) * slope_velocity
        s.diagonal[d, slot] = s.diagonal[d, slot] - m.timestep * moment[0] * moment[0] * slope


@wp.func
def add_actuator_force(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """Adds the force of actuator k, which acts on a joint."""
    moment, count, quat = actuator_moment(m, p, s, k, world, slot)
    length, velocity = actuator_length_velocity(m, s, k, moment, count, quat, slot)
    free_force, slope_velocity = affine_force(p, s, k, length, velocity, world, slot)
    push_joint(m, s, k, moment, count, free_force, slope_velocity, slot)


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
def start_joint_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """tau and the diagonal of dampers alone; no actuation yet."""
    for d in range(m.nv):
        damping = p.damping[world, d]
        s.actuation[d, slot] = real(0.0)
        s.tau[d, slot] = -damping * s.v[d, slot]
        diagonal = p.armature[world, d]
        if m.implicit_damping == 1:
            diagonal += m.timestep * damping
        s.diagonal[d, slot] = diagonal


@wp.func
def finish_joint_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Adds the actuation, held to the ranges of joints, and springs to tau."""
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
def joint_forces(m: Tree, p: Params, s: Workspace, controls: wp.array3d(dtype=real), t: int, world: int, slot: int):
    """tau and the diagonal added to the mass matrix, from s.q, s.v and controls[t, world]."""
    start_joint_forces(m, p, s, world, slot)
    take_controls(m, s, controls, t, world, slot)
    for k in range(m.actuator_on.shape[0]):
        add_actuator_force(m, p, s, k, world, slot)
    finish_joint_forces(m, p, s, world, slot)


@wp.func
def push_joint_adjoint(
    m: Tree, s: Workspace, k: int, moment: vec6, count: int, free_force: real, slope_velocity: real, slot: int
):
    """Cotangents of the moment, of the force before its range and of its slope by velocity."""
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    d = m.actuator_v[k]
    moment_bar = vec6()
    force_bar = real(0.0)
    for j in range(6):
        e = d + j
        if j < count:
            pull_bar = s.tau_bar[e, slot] * in_range(s.actuation[e, slot], m.dof_force_low[e], m.dof_force_high[e])
            force_bar += moment[j] * pull_bar
            moment_bar[j] = force * pull_bar
    force_bar *= in_range(free_force, m.force_low[k], m.force_high[k])
    slope_bar = real(0.0)
    if m.integrator == IMPLICITFAST and m.actuator_on[k] == ON_SCALAR:
        diagonal_bar = s.diagonal_bar[d, slot]
        diagonal_bar *= inside(free_force, m.force_low[k], m.force_high[k])
        diagonal_bar *= inside(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        slope_bar = -m.timestep * moment[0] * moment[0] * diagonal_bar
        moment_bar[0] -= real(2.0) * m.timestep * moment[0] * slope_velocity * diagonal_bar
    return moment_bar, force_bar, slope_bar


@wp.func
def joint_transmission_adjoint(
    m: Tree, p_bar: Params, s: Workspace, k: int, moment: vec6, count: int, quat: vec4, moment_bar: vec6,
    length_bar: real, velocity_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents of q, v and the gear from those of moment, length and velocity."""
    d = m.actuator_v[k]
    on_scalar = m.actuator_on[k] == ON_SCALAR
    felt_bar = vec6()
    for j in range(6):
        if j < count:
            s.v_bar[d + j, slot] = s.v_bar[d + j, slot] + velocity_bar * moment[j]
            felt_bar[j] = velocity_bar * s.v[d + j, slot]
    if on_scalar:
        s.q_bar[d, slot] = s.q_bar[d, slot] + length_bar * moment[0]
        felt_bar[0] += length_bar * s.q[m.actuator_q[k], slot]
    elif m.actuator_on[k] == ON_BALL:
        rotation = quat_log(quat)
        add_vec3(s.q_bar, d, slot, log_jacobian_transposed(rotation, length_bar * ang(moment)))
        felt_bar += pack(length_bar * rotation, vec3())
    gear_bar = moment_bar + felt_bar
    if m.actuator_in_parent[k] == 1 and not on_scalar:
        # moment = Rᵀ gear on rotations, so rotating the body by e changes it by moment × e
        if count == 6:
            add_vec3(s.q_bar, d + 3, slot, wp.cross(lin(gear_bar), lin(moment)))
            gear_bar = pack(ang(gear_bar), quat_rotate(quat, lin(gear_bar)))
        else:
            add_vec3(s.q_bar, d, slot, wp.cross(ang(gear_bar), ang(moment)))
            gear_bar = pack(quat_rotate(quat, ang(gear_bar)), vec3())
    if wants_params == 1:
        p_bar.gear[world, k] = p_bar.gear[world, k] + gear_bar


@wp.func
def actuator_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, k: int, world: int, slot: int, wants_params: int):
    """Adds what actuator k's force has to do with q, v and its parameters, and sets the cotangent of its drive."""
    moment, count, quat = actuator_moment(m, p, s, k, world, slot)
    length, velocity = actuator_length_velocity(m, s, k, moment, count, quat, slot)
    free_force, slope_velocity = affine_force(p, s, k, length, velocity, world, slot)
    moment_bar, force_bar, slope_bar = push_joint_adjoint(m, s, k, moment, count, free_force, slope_velocity, slot)
    length_bar, velocity_bar = affine_force_adjoint(
        p, p_bar, s, k, length, velocity, force_bar, slope_bar, world, slot, wants_params
    )
    joint_transmission_adjoint(
        m, p_bar, s, k, moment, count, quat, moment_bar, length_bar, velocity_bar, world, slot, wants_params
    )


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
def dampers_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """The same for dampers and the diagonal."""
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


@wp.func
def joint_forces_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace,
    controls: wp.array3d(dtype=real), controls_bar: wp.array3d(dtype=real),
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents of q, v, controls and parameters from tau_bar and diagonal_bar."""
    dampers_adjoint(m, p, p_bar, s, world, slot, wants_params)
    for k in range(m.actuator_on.shape[0]):
        actuator_adjoint(m, p, p_bar, s, k, world, slot, wants_params)
    take_controls_adjoint(m, s, controls, controls_bar, t, world, slot)
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
def box_drag_slope(velocity: vec6, box: vec3, density: real, viscosity: real):
    """Derivative of ``box_drag`` by the velocity: a diagonal matrix."""
    turn, push, edge = box_drag_shape(box)
    ones = vec3(real(1.0), real(1.0), real(1.0))
    two = real(2.0)
    return pack(
        -PI * viscosity * edge * edge * edge * ones - two * density * wp.cw_mul(turn, wp.abs(ang(velocity))),
        -real(3.0) * PI * viscosity * edge * ones - two * density * wp.cw_mul(push, wp.abs(lin(velocity))),
    )


@wp.func
def box_drag_adjoint(velocity: vec6, box: vec3, density: real, viscosity: real, x: vec6):
    """Cotangents of velocity, box, density and viscosity in x·box_drag(...)."""
    velocity_bar = wp.cw_mul(box_drag_slope(velocity, box, density, viscosity), x)
    w = ang(velocity)
    v = lin(velocity)
    ww = wp.cw_mul(ang(x), signed_square(w))
    vv = wp.cw_mul(lin(x), signed_square(v))
    turned = wp.dot(ang(x), w)
    pushed = wp.dot(lin(x), v)
    box_bar, density_bar, viscosity_bar = box_params_adjoint(box, density, viscosity, ww, vv, turned, pushed)
    return velocity_bar, box_bar, density_bar, viscosity_bar


@wp.func
def box_params_adjoint(box: vec3, density: real, viscosity: real, ww: vec3, vv: vec3, turned: real, pushed: real):
    """Cotangents of box, density and viscosity in -density (turn·ww + push·vv), with the shape of the box as in
    ``box_drag_shape``, and in viscous drag times turned and pushed."""
    turn, push, edge = box_drag_shape(box)
    density_bar = -wp.dot(turn, ww) - wp.dot(push, vv)
    viscosity_bar = -PI * edge * (edge * edge * turned + real(3.0) * pushed)
    edge_bar = -PI * viscosity * (edge * edge * turned + pushed)  # a third of it: the edge is a mean of three
    xx = box[0] * box[0]
    yy = box[1] * box[1]
    zz = box[2] * box[2]
    shape_bar = vec3(
        (yy * yy + zz * zz) * ww[0] + real(4.0) * xx * box[0] * (box[1] * ww[1] + box[2] * ww[2]),
        (xx * xx + zz * zz) * ww[1] + real(4.0) * yy * box[1] * (box[0] * ww[0] + box[2] * ww[2]),
        (xx * xx + yy * yy) * ww[2] + real(4.0) * zz * box[2] * (box[0] * ww[0] + box[1] * ww[1]),
    ) / real(64.0) + vec3(
        box[2] * vv[1] + box[1] * vv[2],
        box[2] * vv[0] + box[0] * vv[2],
        box[1] * vv[0] + box[0] * vv[1],
    ) / real(2.0)
    return vec3(edge_bar, edge_bar, edge_bar) - density * shape_bar, density_bar, viscosity_bar


@wp.func
def into_box(B: mat33, c: vec3, x: vec6):
    """The motion x at c, in the axes B."""
    return pack(wp.transpose(B) * ang(x), wp.transpose(B) * velocity_at(x, c))


@wp.func
def out_of_box(B: mat33, c: vec3, f: vec6):
    """The force f that acts at c, in the axes B, about o."""
    push = B * lin(f)
    return pack(B * ang(f) + wp.cross(c, push), push)


@wp.func
def fluid_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Takes the drag on each body from its bias force pA."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for i in range(1, m.body_parent.shape[0]):
        B = quat_matrix(quat_mul(s.quat[i, slot], m.fluid_quat[i]))
        c = com_from_o(p, s, i, world, slot)
        drag = box_drag(into_box(B, c, s.V[i, slot] - wind), p.fluid_box[world, i], fluid[0], fluid[1])
        s.pA[i, slot] = s.pA[i, slot] - out_of_box(B, c, drag)


@wp.func
def fluid_forces_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """Adds to V_bar, X_bar and W of each body the cotangents of Σ X·drag."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for i in range(1, m.body_parent.shape[0]):
        B = quat_matrix(quat_mul(s.quat[i, slot], m.fluid_quat[i]))
        c = com_from_o(p, s, i, world, slot)
        V = s.V[i, slot] - wind
        X = s.X[i, slot]
        V_local = into_box(B, c, V)
        box = p.fluid_box[world, i]
        V_local_bar, box_bar, density_bar, viscosity_bar = box_drag_adjoint(
            V_local, box, fluid[0], fluid[1], into_box(B, c, X)
        )
        V_bar = out_of_box(B, c, V_local_bar)
        X_bar = out_of_box(B, c, box_drag(V_local, box, fluid[0], fluid[1]))
        s.V_bar[i, slot] = s.V_bar[i, slot] + V_bar
        s.X_bar[i, slot] = s.X_bar[i, slot] + X_bar
        # Moving the body by e is, seen from the body, moving V and X by -e.
        s.W[i, slot] = s.W[i, slot] - cross_force(V, V_bar) - cross_force(X, X_bar)
        if wants_params == 1:
            c_bar = wp.cross(lin(V_bar), ang(V)) + wp.cross(lin(X_bar), ang(X))
            p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(s.R[i, slot]) * c_bar
            p_bar.fluid_box[world, i] = p_bar.fluid_box[world, i] + box_bar
            p_bar.fluid[world, 0] = p_bar.fluid[world, 0] + vec3(density_bar, viscosity_bar, real(0.0))
            p_bar.fluid[world, 1] = p_bar.fluid[world, 1] - lin(V_bar)
