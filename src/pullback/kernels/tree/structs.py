"""What a kernel reads of a robot, and the workspace it works in.

Inside kernels a free joint is three slides along the world's axes followed by a ball, so only three joint types are
left. "Joint" below means one of these.

Arrays of parameters are indexed ``[world, item]``; one that all worlds share has a stride of zero along ``world``.
Arrays of the workspace are indexed ``[item, slot]``: on CUDA a slot is a world, so that neighbouring threads touch
neighbouring memory; on the CPU each thread has a workspace with the single slot 0, which stays in its cache.
"""

import warp as wp

from ..spatial.algebra import quat_unit
from ..spatial.scalar import mat33, real, sym66, vec3, vec4, vec6, vec9

SLIDE = wp.constant(0)
HINGE = wp.constant(1)
BALL = wp.constant(2)

# What an actuator pulls at.
ON_SCALAR = wp.constant(0)  # hinge or slide
ON_BALL = wp.constant(1)
ON_FREE = wp.constant(2)

EULER = wp.constant(0)
IMPLICITFAST = wp.constant(1)
RK4 = wp.constant(2)


@wp.struct
class Tree:
    """Topology and settings: nothing here is differentiated."""

    body_parent: wp.array(dtype=int)  # body_parent[i] < i; body 0 is the world
    body_is_root: wp.array(dtype=int)  # 1: has joints, and nothing above it moves
    body_children: wp.array(dtype=int)  # how many
    body_is_last_child: wp.array(dtype=int)  # 1: the first of its siblings that an inward sweep meets
    body_joint: wp.array(dtype=int)  # (nbody + 1): joints of body i are body_joint[i] .. body_joint[i+1]
    body_dof: wp.array(dtype=int)  # likewise: degrees of freedom
    joint_type: wp.array(dtype=int)
    joint_q: wp.array(dtype=int)
    joint_v: wp.array(dtype=int)
    dof_parent: wp.array(dtype=int)  # the degree of freedom that carries this one, or -1
    dof_body: wp.array(dtype=int)
    # With contacts: columns of each row of the mass matrix left of its diagonal, nv places per row: the ancestors, the
    # nearest first. The second axis is that of slots, with a stride of zero.
    columns: wp.array2d(dtype=int)
    columns_count: wp.array2d(dtype=int)
    joint_q0: wp.array(dtype=real)  # hinge and slide: the coordinate of the pose the file was written in

    # springs and dampers with quadratic or cubic terms: of a free joint the first slide and the ball
    curved_spring: wp.array(dtype=int)
    curved_is_free: wp.array(dtype=int)  # 1: of the slides of a free joint
    curved_damper: wp.array(dtype=int)

    # bodies that are moved from outside, and those welded to them, parents first
    mocap_body: wp.array(dtype=int)
    mocap_number: wp.array(dtype=int)  # of its pose among the inputs, or -1: it is welded to another

    lone_body: wp.array(dtype=int)  # under implicitfast, free bodies that carry no joints ...
    lone_end: wp.array(dtype=int)  # ... and where the bodies welded to them end

    actuator_on: wp.array(dtype=int)
    actuator_q: wp.array(dtype=int)
    actuator_v: wp.array(dtype=int)
    actuator_in_parent: wp.array(dtype=int)
    control_low: wp.array(dtype=real)
    control_high: wp.array(dtype=real)
    force_low: wp.array(dtype=real)
    force_high: wp.array(dtype=real)
    dof_force_low: wp.array(dtype=real)  # of all actuators on the degree of freedom together
    dof_force_high: wp.array(dtype=real)

    nq: int
    nv: int
    timestep: real
    tolerance: real  # of steps that are refined [m or rad]
    integrator: int
    implicit_damping: int  # 1: joint damping joins the mass matrix
    has_fluid: int
    fluid_quat: wp.array(dtype=vec4)  # of the box that stands for a body in the fluid, in its frame


@wp.struct
class Params:
    """Everything differentiable, ``[world, item]``. The same struct holds their cotangents."""

    mass: wp.array2d(dtype=real)  # per body
    com: wp.array2d(dtype=vec3)
    inertia: wp.array2d(dtype=vec6)
    gravcomp: wp.array2d(dtype=real)
    body_pos: wp.array2d(dtype=vec3)
    body_quat: wp.array2d(dtype=vec4)  # unit; the cotangent is a rotation vector in the first three numbers
    fluid_box: wp.array2d(dtype=vec3)
    fluid_coef: wp.array2d(dtype=vec6)  # per ellipsoid in the fluid: its five coefficients, 0
    joint_pos: wp.array2d(dtype=vec3)  # per joint
    joint_axis: wp.array2d(dtype=vec3)  # unit
    stiffness: wp.array2d(dtype=real)
    stiffness_poly: wp.array2d(dtype=vec3)  # per spring that has one: quadratic and cubic term, 0
    damping_poly: wp.array2d(dtype=vec3)  # per damper that has one: likewise
    spring_ref: wp.array2d(dtype=real)  # per coordinate; quaternions unit
    armature: wp.array2d(dtype=real)  # per degree of freedom
    damping: wp.array2d(dtype=real)
    gear: wp.array2d(dtype=vec6)  # per actuator
    gain: wp.array2d(dtype=vec3)
    bias: wp.array2d(dtype=vec3)
    activation: wp.array2d(dtype=vec3)  # of its law: see ``activation.py``
    muscle_gain: wp.array2d(dtype=vec9)  # per muscle: see ``muscle.py``
    muscle_bias: wp.array2d(dtype=vec9)
    motor_gain: wp.array2d(dtype=vec9)  # per PID controller or DC motor: see ``motor.py``
    motor_dynamics: wp.array2d(dtype=vec9)
    motor_bias: wp.array2d(dtype=vec6)
    crank: wp.array2d(dtype=real)  # per actuator between two sites: the length of its rod
    gravity: wp.array2d(dtype=vec3)  # (worlds, 1)
    fluid: wp.array2d(dtype=vec3)  # (worlds, 2): [density, viscosity, 0], wind

    site_pos: wp.array2d(dtype=vec3)  # per site that is pushed at, in its body's frame
    site_quat: wp.array2d(dtype=vec4)  # unit; the cotangent is a rotation vector in the first three numbers

    # tendons and equality constraints
    tendon_coef: wp.array2d(dtype=real)  # per degree of freedom of each tendon
    tendon: wp.array2d(dtype=vec6)  # per tendon: stiffness, damping, armature, ends of the dead band, 0
    # per tendon, if one of them has such terms: quadratic and cubic stiffness, quadratic and cubic damping
    tendon_poly: wp.array2d(dtype=vec4)
    equality: wp.array2d(dtype=vec6)  # per constraint on joints or tendons: coefficients of its polynomial, 0
    loop_point: wp.array2d(dtype=vec3)  # two per connect or weld, in the frames of its bodies
    loop_quat: wp.array2d(dtype=vec4)  # unit; the cotangent is a rotation vector in the first three numbers
    loop_scale: wp.array2d(dtype=real)
    # per equality constraint, those on joints and tendons before connects and welds
    equality_solref: wp.array2d(dtype=vec3)  # the last number is not used
    equality_solimp: wp.array2d(dtype=vec6)  # the last number is not used

    # per flex: shear and lame, damping; stiffness and damping of edges; bending
    flex: wp.array2d(dtype=vec6)

    # contacts, limits and friction loss, in any model
    shape_pos: wp.array2d(dtype=vec3)  # per shape, in its body's frame
    shape_quat: wp.array2d(dtype=vec4)  # unit; the cotangent is a rotation vector in the first three numbers
    shape_size: wp.array2d(dtype=vec3)
    friction: wp.array2d(dtype=vec6)  # per material: two tangents, torsion, two rolling directions, 0
    limit: wp.array2d(dtype=vec3)  # per limited joint, then per limited tendon: low, high, 0
    loss: wp.array2d(dtype=real)  # per degree of freedom with friction loss, then per such tendon

    # those of MuJoCo's contact
    solref: wp.array2d(dtype=vec3)  # per material; the last number is not used
    solimp: wp.array2d(dtype=vec6)  # the last number is not used
    limit_solref: wp.array2d(dtype=vec3)  # per limit; likewise
    limit_solimp: wp.array2d(dtype=vec6)

    # inverse weights [1/kg or 1/(kg·m²)] of constraints, one for each combination of bodies, degrees of freedom or
    # tendons that some constraint has
    weight: wp.array2d(dtype=real)

    # those of compliant contact
    surface: wp.array2d(dtype=vec3)  # per shape: stiffness, dissipation, 0
    limit_spring: wp.array2d(dtype=vec3)  # per limited joint, then tendon: stiffness, dissipation, 0
    equality_spring: wp.array2d(dtype=vec4)  # per equality: stiffness, that of its turns, dampings of both
    compliance: wp.array2d(dtype=vec4)  # (worlds, 1): smoothing, slip speed; those of joints

    # those of impulses
    restitution: wp.array2d(dtype=real)  # per shape
    impulse: wp.array2d(dtype=vec4)  # (worlds, 1): erp, cfm, slop, 0
    custom: wp.array2d(dtype=vec4)  # (worlds, 1): of a contact model from elsewhere

    # those of long-range contact
    reach: wp.array2d(dtype=vec4)  # (worlds, 1): rest gap, length; gap and force of joint limits
    slip: wp.array2d(dtype=vec4)  # (worlds, 1): slip speeds of surfaces and of joints, 0, 0


@wp.struct
class Workspace:
    """Intermediate results of one step, ``[item, slot]``. Letters as in Featherstone; all in world axes about ``o``.

    A cotangent of a *pose* is a force W: the change of the pairing when the body is moved by the motion d is W·d.
    """

    # the state being worked on
    q: wp.array2d(dtype=real)
    v: wp.array2d(dtype=real)
    a: wp.array2d(dtype=real)  # joint accelerations
    tau: wp.array2d(dtype=real)  # joint forces: actuators, springs, dampers, constraints
    drive: wp.array2d(dtype=real)  # per actuator: its clamped control
    actuation: wp.array2d(dtype=real)  # actuators' share of tau, before joint force ranges
    diagonal: wp.array2d(dtype=real)  # armature and implicit damping, added to the mass matrix

    # bodies
    o: wp.array2d(dtype=vec3)  # the point everything in the body's tree is taken about
    pos: wp.array2d(dtype=vec3)
    quat: wp.array2d(dtype=vec4)
    R: wp.array2d(dtype=mat33)
    h: wp.array2d(dtype=vec3)  # mass × (centre of mass - o)
    J: wp.array2d(dtype=vec6)  # rotational inertia about o
    V: wp.array2d(dtype=vec6)  # velocity
    c: wp.array2d(dtype=vec6)  # velocity-product acceleration, of the body against its parent
    A: wp.array2d(dtype=vec6)  # acceleration
    IA: wp.array2d(dtype=sym66)  # articulated-body inertia that the children pass on
    pA: wp.array2d(dtype=vec6)  # articulated bias force

    # joints: the rotation of a hinge or ball
    turn: wp.array2d(dtype=vec4)

    # degrees of freedom
    S: wp.array2d(dtype=vec6)  # motion subspace
    U: wp.array2d(dtype=vec6)  # IA S
    D_inv: wp.array2d(dtype=real)  # 1 / (Sᵀ U + diagonal)
    u: wp.array2d(dtype=real)  # tau - Sᵀ pA

    # backward: cotangents of the state, of the step's result and of what lies between
    q_bar: wp.array2d(dtype=real)  # tangent (nv)
    v_bar: wp.array2d(dtype=real)
    a_bar: wp.array2d(dtype=real)
    w: wp.array2d(dtype=real)  # M⁻¹ a_bar
    tau_bar: wp.array2d(dtype=real)  # w, and what constraints add to it
    drive_bar: wp.array2d(dtype=real)
    diagonal_bar: wp.array2d(dtype=real)  # -w a, and what impulses add to it
    X: wp.array2d(dtype=vec6)  # virtual motion of a body under the joint velocities w
    V_bar: wp.array2d(dtype=vec6)
    A_bar: wp.array2d(dtype=vec6)
    X_bar: wp.array2d(dtype=vec6)
    G_bar: wp.array2d(dtype=vec6)  # of Σ S a alone, the acceleration that constraints see
    S_bar: wp.array2d(dtype=vec6)  # of S, from the Jacobians of impulses
    W: wp.array2d(dtype=vec6)  # cotangent of the pose

    # Runge-Kutta: velocities and accelerations of the four stages, and the state they start from (stage · nv + dof)
    stage_v: wp.array2d(dtype=real)
    stage_a: wp.array2d(dtype=real)
    stage_v_bar: wp.array2d(dtype=real)
    stage_a_bar: wp.array2d(dtype=real)
    q_start: wp.array2d(dtype=real)
    v_start: wp.array2d(dtype=real)
    q_start_bar: wp.array2d(dtype=real)
    v_start_bar: wp.array2d(dtype=real)

    # where steps are refined: the states before each substep of one step (substep · nq + i)
    sub_q: wp.array2d(dtype=real)
    sub_v: wp.array2d(dtype=real)


@wp.func
def dofs(joint_type: int):
    return wp.where(joint_type == BALL, 3, 1)


@wp.func
def com_from_o(p: Params, s: Workspace, i: int, world: int, slot: int):
    """The centre of mass of body i, from o."""
    return s.pos[i, slot] - s.o[i, slot] + s.R[i, slot] * p.com[world, i]


@wp.func
def read_quat(s: Workspace, qi: int, slot: int):
    """The quaternion at q[qi], brought to unit length."""
    return quat_unit(vec4(s.q[qi, slot], s.q[qi + 1, slot], s.q[qi + 2, slot], s.q[qi + 3, slot]))


@wp.func
def read_vec3(x: wp.array2d(dtype=real), i: int, slot: int):
    return vec3(x[i, slot], x[i + 1, slot], x[i + 2, slot])


@wp.func
def add_vec3(x: wp.array2d(dtype=real), i: int, slot: int, y: vec3):
    x[i, slot] = x[i, slot] + y[0]
    x[i + 1, slot] = x[i + 1, slot] + y[1]
    x[i + 2, slot] = x[i + 2, slot] + y[2]
