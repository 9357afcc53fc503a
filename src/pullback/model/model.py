"""The frozen :class:`Model` of a robot: a struct of arrays, indexed as in MuJoCo.

Body 0 is the world. Bodies, joints, degrees of freedom and actuators keep MuJoCo's order, so an index or an address
means the same in both. Arrays are float64 or int32 and read-only. Units are SI; quaternions are ``wxyz``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np

from pullback.core.checks import counted

# Joint types, as MuJoCo numbers them.
FREE, BALL, SLIDE, HINGE = 0, 1, 2, 3
JOINT_DOFS = {FREE: 6, BALL: 3, SLIDE: 1, HINGE: 1}
JOINT_COORDINATES = {FREE: 7, BALL: 4, SLIDE: 1, HINGE: 1}


@dataclass(frozen=True)
class Keyframe:
    """A named state and control stored in the file."""

    q: np.ndarray  # (nq,)
    v: np.ndarray  # (nv,)
    control: np.ndarray  # (nu,)
    act: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (na,)


@dataclass(frozen=True)
class Frames:
    """Things fixed to bodies: geoms, sites or cameras."""

    names: tuple[str, ...]
    body: np.ndarray  # (n,) int32
    pos: np.ndarray  # (n, 3) in the body's frame [m]
    quat: np.ndarray  # (n, 4) in the body's frame


@dataclass(frozen=True)
class Tendons:
    """Forces and inertia of tendons. Their paths and coefficients are in the compiled file."""

    names: tuple[str, ...]  # (ntendon,)
    stiffness: np.ndarray  # (ntendon,) [N/m]; here and below, if lengths are angles, [N·m/rad]
    damping: np.ndarray  # (ntendon,) [N·s/m]
    stiffness_poly: np.ndarray  # (ntendon, 2) quadratic and cubic [N/m², N/m³]
    damping_poly: np.ndarray  # (ntendon, 2) quadratic and cubic [N·s²/m², N·s³/m³]
    armature: np.ndarray  # (ntendon,) inertia of changes of length [kg]
    force_range: np.ndarray  # (ntendon, 2) total force of all its actuators [N]; infinite without a limit
    spring: np.ndarray  # (ntendon, 2) the range of lengths in which the spring exerts no force [m]


@dataclass(frozen=True)
class Flexes:
    """The deformable flexes, with the elements of all of them concatenated.

    The forces along an element's edges are (shear · A + lame · b bᵀ) e, with e the squared lengths minus those at rest.
    """

    names: tuple[str, ...]  # (nflex,) of all flexes of the file
    # material, (nflex,); moduli of cloth are multiplied by its thickness: N/m instead of Pa
    shear: np.ndarray  # Lamé's second modulus [Pa]
    lame: np.ndarray  # Lamé's first modulus [Pa]; for cloth that of plane stress
    damping: np.ndarray  # time constant [s]
    edge_stiffness: np.ndarray  # springs along edges [N/m]
    edge_damping: np.ndarray  # [N·s/m]
    bending: np.ndarray  # factor of the file's bending stiffness [1]

    vertex_body: np.ndarray  # (n,)
    vertex_place: np.ndarray  # (n, 3) in the frame of its body [m]
    edge: np.ndarray  # (n, 2) vertices
    edge_flex: np.ndarray  # (n,)
    rest: np.ndarray  # (n,) length [m]
    triangle_flex: np.ndarray  # (n,)
    triangle_edge: np.ndarray  # (n, 3)
    triangle_A: np.ndarray  # (n, 3, 3)
    triangle_b: np.ndarray  # (n, 3)
    solid_flex: np.ndarray  # (n,)
    solid_edge: np.ndarray  # (n, 6)
    solid_A: np.ndarray  # (n, 6, 6)
    solid_b: np.ndarray  # (n, 6)
    hinge: np.ndarray  # (n, 4) vertices: the two of an edge, and the two opposite to it
    hinge_flex: np.ndarray  # (n,)
    hinge_Q: np.ndarray  # (n, 4, 4) [N/m]
    hinge_curve: np.ndarray  # (n,) [N/m²]

    @property
    def used(self) -> np.ndarray:
        """The indices of flexes that have edges here."""
        return np.unique(self.edge_flex)


@dataclass(frozen=True)
class Activations:
    """The states of actuators: each follows its control, and drives the actuator's force instead of the control."""

    # (na,) MuJoCo's dyntype, such as "filter"; "slew", "integral", "heat", "bristle" or "current" of a motor;
    # "at rest": of an actuator that is switched off; "": of an ignored actuator. Empty if no actuator is driven by an
    # activation. Last come the "sample"s: controls of earlier steps, of actuators with a delay.
    kind: tuple[str, ...]
    actuator: np.ndarray  # (na,) int32, the (first) control of the actuator that each belongs to, or -1
    early: np.ndarray  # (na,) bool: the force uses the activation after the step
    range: np.ndarray  # (na, 2); infinite without a limit
    # (nu, 3) MuJoCo's dynprm: a time constant [s]; for muscles two, and a width [1]; for PID controllers the limit of
    # the integral, and the rate limit of the setpoint
    law: np.ndarray

    @property
    def count(self) -> int:
        return len(self.kind)

    def of(self, k: int) -> list[int]:
        """The indices of the activations of a control's actuator."""
        return [] if k < 0 else np.flatnonzero(self.actuator == k).tolist()


@dataclass(frozen=True)
class Muscles:
    """Actuators with a muscle's gain or bias, which are functions of length and velocity."""

    pulls: np.ndarray  # (nu,) bool: the gain is a muscle's
    resists: np.ndarray  # (nu,) bool: the bias is a muscle's
    gain: np.ndarray  # (nu, 9) MuJoCo's gainprm: two lengths, force [N], scale, lmin, lmax, vmax [1/s], fpmax, fvmax
    bias: np.ndarray  # (nu, 9) MuJoCo's biasprm: likewise
    limits: np.ndarray  # (nu, 2) shortest and longest length, from MuJoCo's compiler
    acc0: np.ndarray  # (nu,) acceleration caused by a unit force, from MuJoCo's compiler

    @property
    def ids(self) -> np.ndarray:
        """The controls of muscles."""
        return np.flatnonzero(self.pulls | self.resists)


@dataclass(frozen=True)
class Motors:
    """PID controllers and DC motors. The laws here are for DC motors; the others use gain, bias and activations."""

    ids: np.ndarray  # (n,) int32, the first control of each
    has_circuit: np.ndarray  # (n,) bool: a DC motor
    control: np.ndarray  # (n, 4) int32: the controls of position, velocity, torque and voltage, or -1
    state: np.ndarray  # (n, 5) int32: the activations slew, integral, heat, bristle and current, or -1
    wraps: np.ndarray  # (n,) int32: errors wrap around the circle; 1: of a ball joint, 2: between sites
    gain: np.ndarray  # (nu, 8) MuJoCo's gainprm: R [Ω], K [N·m/A], α [1/K], T0 [°C], kp, ki, kd, Vmax [V]
    # (nu, 9) its dynprm: te [s], rate of current [A/s], Rth [K/W], C [J/K], ambient [°C], σ0, σ1, rate of slew, Imax
    dynamics: np.ndarray
    bias: np.ndarray  # (nu, 6) its biasprm: cogging [N·m], poles, phase [rad], FC, FS [N·m], vS [rad/s]

    @property
    def circuits(self) -> np.ndarray:
        """The first control of each DC motor."""
        return self.ids[self.has_circuit]

    @property
    def others(self) -> np.ndarray:
        """The controls of these after the first one of each."""
        return np.setdiff1d(self.control, np.append(self.ids, -1))


@dataclass(frozen=True)
class Delays:
    """Controls with a delay: each actuator receives a weighted sum of the controls of the last steps."""

    ids: np.ndarray  # (n,) controls
    count: np.ndarray  # (n,) number of samples; they are the last of the activations, actuator by actuator
    weight: np.ndarray  # (3, samples), newest first: at the beginning of a step, in the middle and at its end


@dataclass(frozen=True)
class Orientations:
    """Servos of the orientation of a ball joint. They use the first gain, and the first and third bias."""

    ids: np.ndarray  # (n,) int32, the first control of each
    is_quat: np.ndarray  # (n,) bool: the target is given as a quaternion; otherwise as a rotation vector
    joint: np.ndarray  # (n,) int32
    limit: np.ndarray  # (n,) of the magnitude of the torque [N·m]; infinite without one

    @property
    def controls(self) -> np.ndarray:
        """All controls of these servos."""
        counts = 3 + self.is_quat
        return np.array([k + j for k, n in zip(self.ids, counts, strict=True) for j in range(n)], int)


@dataclass(frozen=True)
class Model:
    """A robot, or several, as loaded by :func:`pullback.load`. Frozen: parameters to vary live in ``system.params``."""

    # sizes and names
    nq: int  # stored coordinates
    nv: int  # degrees of freedom
    nu: int  # controls, one per actuator
    body_names: tuple[str, ...]  # (nbody,); unnamed elements are called e.g. "body 3"
    joint_names: tuple[str, ...]  # (njoint,)
    actuator_names: tuple[str, ...]  # (nu,)

    # bodies
    body_parent: np.ndarray  # (nbody,) int32; the world is its own parent
    body_pos: np.ndarray  # (nbody, 3) of the body's frame in the parent's [m]
    body_quat: np.ndarray  # (nbody, 4) of the body's frame in the parent's
    body_mass: np.ndarray  # (nbody,) [kg]
    body_com: np.ndarray  # (nbody, 3) centre of mass in the body's frame [m]
    body_inertia: np.ndarray  # (nbody, 6) xx yy zz xy xz yz about the centre of mass, body's axes [kg·m²]
    body_gravcomp: np.ndarray  # (nbody,) fraction of the body's weight that is compensated [1]

    # joints; several on one body act in order
    joint_type: np.ndarray  # (njoint,) int32: FREE, BALL, SLIDE or HINGE
    joint_body: np.ndarray  # (njoint,) int32
    joint_q: np.ndarray  # (njoint,) int32, first index in q
    joint_v: np.ndarray  # (njoint,) int32, first index in v
    joint_pos: np.ndarray  # (njoint, 3) anchor in the body's frame [m]
    joint_axis: np.ndarray  # (njoint, 3) unit axis in the body's frame
    joint_stiffness: np.ndarray  # (njoint,) [N·m/rad or N/m]
    joint_stiffness_poly: np.ndarray  # (njoint, 2) quadratic and cubic [N·m/rad² or N/m², N·m/rad³ or N/m³]
    joint_force_limited: np.ndarray  # (njoint,) bool: total actuator force on the joint is clamped
    joint_force_range: np.ndarray  # (njoint, 2) [N·m or N]
    # (njoint,) int32: gravity compensation acts directly (0), counts as actuator force and is clamped with it (1), or
    # is disabled with the actuators (2)
    joint_lift: np.ndarray

    # degrees of freedom and coordinates
    dof_armature: np.ndarray  # (nv,) [kg·m² or kg]
    dof_damping: np.ndarray  # (nv,) [N·m·s/rad or N·s/m]
    dof_damping_poly: np.ndarray  # (nv, 2) quadratic and cubic [N·m·s²/rad² or N·s²/m², N·m·s³/rad³ or N·s³/m³]
    q0: np.ndarray  # (nq,) the pose the file was written in; hinge and slide coordinates are measured from here
    q_spring: np.ndarray  # (nq,) the rest pose of the springs

    # actuators: force = gain·drive + bias, on a joint or tendon or at a site; the drive is the clamped control, or the
    # activation if there is one
    actuator_joint: np.ndarray  # (nu,) int32
    actuator_tendon: np.ndarray  # (nu,) int32; -1: it acts on a joint, or at a site
    actuator_site: np.ndarray  # (nu,) int32; -1: it acts on a joint or tendon
    actuator_reference: np.ndarray  # (nu,) int32; the site whose frame it acts relative to, or a crank's slider, or -1
    actuator_body: np.ndarray  # (nu,) int32; the body whose contacts it pulls together (adhesion), or -1
    actuator_crank: np.ndarray  # (nu,) length of the rod of a slider-crank [m]; 0 for other actuators
    actuator_in_parent: np.ndarray  # (nu,) bool: a ball or free joint's gear is given in the parent's frame
    actuator_gear: np.ndarray  # (nu, 6); the first entry alone for hinge, slide and tendons
    actuator_gain: np.ndarray  # (nu, 3): g0 + g1·length + g2·velocity
    actuator_bias: np.ndarray  # (nu, 3): b0 + b1·length + b2·velocity
    control_limited: np.ndarray  # (nu,) bool
    control_range: np.ndarray  # (nu, 2)
    force_limited: np.ndarray  # (nu,) bool
    force_range: np.ndarray  # (nu, 2)

    # the world
    timestep: float  # [s]
    gravity: np.ndarray  # (3,) [m/s²]
    integrator: str  # "euler", "implicitfast", "implicit" or "rk4"
    implicit_damping: bool  # Euler treats joint damping implicitly, as MuJoCo does unless told otherwise
    fluid_density: float  # [kg/m³]
    fluid_viscosity: float  # [Pa·s]
    wind: np.ndarray  # (3,) [m/s]
    fluid_box: np.ndarray  # (nbody, 3) full edge lengths of the box that represents the body in the fluid [m]
    fluid_quat: np.ndarray  # (nbody, 4) of that box in the body's frame

    tendons: Tendons
    flexes: Flexes
    activations: Activations
    muscles: Muscles
    motors: Motors
    orientations: Orientations
    delays: Delays

    # frames fixed to bodies, and the file's constraints
    geoms: Frames
    sites: Frames
    cameras: Frames
    keyframes: dict[str, Keyframe]
    constraints: tuple[str, ...]  # contacts, limits, friction loss and equality constraints, one line each

    mujoco: mujoco.MjModel = field(repr=False)  # the compiled file, for shapes, colours and meshes
    ignored: tuple[str, ...] = ()  # the kinds of elements that the user ignored

    def __repr__(self) -> str:
        """The sizes and the number of constraints, without the arrays."""
        size = f"nq={self.nq}, nv={self.nv}, nu={self.nu}" + (f", na={self.na}" if self.na else "")
        bodies, joints = counted(self.nbody - 1, "body", "bodies"), counted(self.njoint, "joint")
        made_of = f"{bodies}, {joints}, {counted(len(self.geoms.names), 'geom')}"
        time = f"{self.integrator} with {self.timestep:g} s"
        keys = f", keyframes {', '.join(self.keyframes)}" if self.keyframes else ""
        return f"Model({size}: {made_of}, {time}, {counted(len(self.constraints), 'constraint')}{keys})"

    @property
    def na(self) -> int:
        """The number of activations: entries of the state that belong to actuators."""
        return self.activations.count

    @property
    def nbody(self) -> int:
        return len(self.body_names)

    @property
    def njoint(self) -> int:
        return len(self.joint_names)

    @property
    def acting_tendons(self) -> np.ndarray:
        """The indices of tendons that exert forces, have inertia, or have an actuator."""
        tendons = self.tendons
        acts = (tendons.stiffness != 0) | (tendons.damping != 0) | (tendons.armature != 0)
        acts |= np.any(tendons.stiffness_poly, axis=1) | np.any(tendons.damping_poly, axis=1)
        acts[self.actuator_tendon[self.actuator_tendon >= 0]] = True
        return np.flatnonzero(acts)

    @property
    def pushed_sites(self) -> np.ndarray:
        """The indices of sites at which, or between which, an actuator acts."""
        sites = np.union1d(self.actuator_site, self.actuator_reference)
        return sites[sites >= 0]

    @property
    def home(self) -> Keyframe:
        """The keyframe called "home" if there is one, else the pose the file was written in, at rest."""
        return self.keyframes.get("home", Keyframe(self.q0, np.zeros(self.nv), np.zeros(self.nu), np.zeros(self.na)))
