"""Reading a robot: MJCF, URDF, MjSpec or MjModel, through MuJoCo's compiler, into a :class:`Model`."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection
from pathlib import Path

import mujoco
import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.model.activations import read_activations, read_delays
from pullback.model.constraints import describe_constraints
from pullback.model.files import compile_file, compile_string, one_line
from pullback.model.flex_contacts import flexes_to_convert, with_spheres
from pullback.model.flexes import read_flexes
from pullback.model.model import BALL, FREE, JOINT_DOFS, Frames, Keyframe, Model
from pullback.model.motors import read_motors, read_orientations
from pullback.model.muscles import read_muscles
from pullback.model.tendons import read_tendons
from pullback.model.unsupported import (
    INTEGRATORS,
    JOINT_IN_PARENT,
    SLIDER_CRANK,
    Disable,
    actuator_complaint,
    adheres,
    disabled,
    fluid_acts,
    gain_and_bias,
    gives_no_force,
    gravity_is_compensated,
    holds_orientation,
    in_disabled_group,
    label,
    name_of,
    pulls_tendon,
    pushes_site,
    reflecting_actuators,
    refuse_unsupported,
    require_known_kinds,
)
from pullback.spatial import unit, unit_quat_matrix

# All fields whose numbers affect the motion, by the element that a message should name.
FINITE_FIELDS = {
    "body": ("body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia", "body_gravcomp"),
    "joint": ("jnt_pos", "jnt_axis", "jnt_stiffness", "jnt_stiffnesspoly"),
    "dof": ("dof_armature", "dof_damping", "dof_dampingpoly"),
    "coordinate": ("qpos0", "qpos_spring"),
    "actuator": ("actuator_gainprm", "actuator_biasprm", "actuator_dynprm", "actuator_armature", "actuator_damping"),
    "output": ("actuator_gear",),
    "tendon": ("tendon_stiffness", "tendon_damping", "tendon_armature", "tendon_lengthspring", "tendon_range"),
    "equality": ("eq_data", "eq_solref", "eq_solimp"),
    "geom": ("geom_pos", "geom_quat"),
    "site": ("site_pos", "site_quat"),
    "camera": ("cam_pos", "cam_quat"),
    "key": ("key_qpos", "key_qvel", "key_act", "key_ctrl"),
}
QUATERNION_FIELDS = {
    "body": ("body_quat", "body_iquat"),
    "geom": ("geom_quat",),
    "site": ("site_quat",),
    "camera": ("cam_quat",),
}
MJMINVAL = mujoco.mjMINVAL
# A longer text is not a path, and would fill the screen in a message. [characters]
LONGEST_PATH = 1000
# A pivot of the mass matrix this small relative to its diagonal is rounding: nothing resists the joint. [1]
SINGULAR_PIVOT = 1e-13
# Rounding of a written inertia may violate A + B >= C by this much, relative to the largest moment. [1]
INERTIA_SLACK = 1e-9
# Tolerance of the length of an axis that is set in an MjModel directly. [1]
UNIT_AXIS_SLACK = 1e-6


def load(
    source: str | os.PathLike | mujoco.MjSpec | mujoco.MjModel,
    *,
    ignore: Collection[str] = (),
    anywhere: bool = False,
    folder: str | os.PathLike | None = None,
    integrator: str | None = None,
    timestep: float | None = None,
) -> Model:
    """Load a robot.

    ``source`` is the path of an MJCF or URDF file, XML text (it starts with ``<``), a ``mujoco.MjSpec`` (a copy is
    compiled) or a ``mujoco.MjModel`` (copied). An element that would change the motion and that a :class:`Model` cannot
    represent raises a :class:`PullbackError` that names it. Contacts, limits, friction loss and equality constraints
    are listed in ``model.constraints``; a contact model simulates them.

    ``ignore`` drops elements deliberately, by kind:

    - ``"contact"``, ``"limit"``, ``"frictionloss"``, ``"equality"``: contacts, limits of joints and tendons, their
      friction loss, equality constraints: each is disabled as by a flag in the file (``contact=None`` of
      :class:`Articulated` disables all four);
    - ``"tendon"``: springs, dampers, armature, limits and friction loss of tendons;
    - ``"actuator"``: actuators that are neither muscles, PID controllers, DC motors, servos of orientations nor
      gain·drive + bias on one joint or tendon, or at sites, with the control or an activation as drive. They keep their
      controls, so that ``nu`` is as in MuJoCo, and exert no force;
    - ``"plugin"``: plugins that exert forces on bodies or drive actuators;
    - ``"flex"``: elasticity, edge constraints and contacts of flexes; their point masses stay;
    - ``"flexface"``: contacts of the faces of flexes with shapes other than planes, with each other and with
      themselves: only their vertices touch, and only shapes;
    - ``"fluid"``: density and viscosity of the medium;
    - ``"spring-poly"``, ``"damping-poly"``: quadratic and cubic terms of springs and dampers, which are supported; the
      linear terms stay;
    - ``"spring-yield"``: plastic joint springs, which become elastic;
    - ``"actuatorgravcomp"``: counting gravity compensation as actuator force, which may be clamped, and which is
      supported; it then acts directly;
    - ``"sleep"``: the option that puts bodies at rest to sleep.

    ``integrator`` ("euler", "implicitfast", "implicit" or "rk4") and ``timestep`` [s] override the options of the
    file; None keeps them.

    A file can read only from its own folder, or from ``folder`` if given. Paths that lead elsewhere, also through
    ``..``, symbolic links, includes or sub-models, raise an error unless ``anywhere=True`` says that the file is
    trusted. Paths in XML text are relative to ``folder``. An MjSpec or MjModel is trusted.

    URDF follows MuJoCo's conventions: the root link is welded to the world, links joined by fixed joints are fused,
    visual shapes are dropped, and effort limits clamp the actuator force of joints (there are no actuators; add them
    through an MjSpec). ``<mujoco><compiler .../></mujoco>`` inside the file changes that.
    """
    require_known_kinds(ignore)
    if not isinstance(anywhere, bool):  # a string such as "no" would count as True
        raise PullbackError(f"anywhere must be True or False, not {anywhere!r}")
    m = compile_source(source, anywhere=anywhere, folder=folder, ignore=ignore)
    _set_option(m, integrator, timestep)
    _drop(m, ignore)
    check_numbers(m)
    refuse_unsupported(m, ignore)
    fields = {
        **_sizes_and_names(m),
        **_bodies(m),
        **_joints_and_dofs(m),
        **_actuators(m),
        **_world(m, ignore),
        "geoms": _frames(m, "geom", m.ngeom, m.geom_bodyid, m.geom_pos, m.geom_quat),
        "sites": _frames(m, "site", m.nsite, m.site_bodyid, m.site_pos, m.site_quat),
        "cameras": _frames(m, "camera", m.ncam, m.cam_bodyid, m.cam_pos, m.cam_quat),
        "tendons": read_tendons(m),
        "flexes": read_flexes(m, ignore),
        "muscles": read_muscles(m),
        "motors": read_motors(m),
        "orientations": read_orientations(m),
        "constraints": describe_constraints(m, with_flexes="flex" not in ignore),
    }
    fields["delays"] = read_delays(m)
    fields["activations"] = read_activations(m, fields["delays"])
    fields["keyframes"] = _keyframes(m, fields["activations"].count)
    check_mass_matrix(m, fields["dof_armature"], fields["tendons"].armature)
    return Model(**fields, mujoco=m, ignored=tuple(sorted(set(ignore))))


def _set_option(m: mujoco.MjModel, integrator: str | None, timestep: float | None) -> None:
    """Sets options as if the file did; MuJoCo's compiler depends on neither of them."""
    if integrator is not None:
        numbers = {name: number for number, name in INTEGRATORS.items()}
        if integrator not in numbers:
            raise PullbackError(f"integrator must be one of {', '.join(numbers)}, not {integrator!r}")
        m.opt.integrator = numbers[integrator]
    if timestep is not None:
        m.opt.timestep = check_number(timestep, "timestep")


def _drop(m: mujoco.MjModel, ignore: Collection[str]) -> None:
    """Disables kinds of elements in the same way as a file can."""
    bits = {"contact": Disable.mjDSBL_CONTACT, "limit": Disable.mjDSBL_LIMIT}
    bits |= {"frictionloss": Disable.mjDSBL_FRICTIONLOSS, "equality": Disable.mjDSBL_EQUALITY}
    for kind in bits.keys() & set(ignore):
        m.opt.disableflags |= int(bits[kind])
    if "spring-poly" in ignore:
        m.jnt_stiffnesspoly[:] = m.tendon_stiffnesspoly[:] = 0
    if "damping-poly" in ignore:
        m.dof_dampingpoly[:] = m.tendon_dampingpoly[:] = m.actuator_dampingpoly[:] = 0
    if "actuatorgravcomp" in ignore:
        m.jnt_actgravcomp[:] = 0
    if "tendon" in ignore:
        for name in ("stiffness", "stiffnesspoly", "damping", "dampingpoly", "armature", "frictionloss"):
            getattr(m, f"tendon_{name}")[:] = 0
        m.tendon_limited[:] = m.tendon_actfrclimited[:] = 0
        m.tendon_actuatorid[:] = -1


def compile_source(
    source, *, anywhere: bool, folder: str | os.PathLike | None, ignore: Collection[str]
) -> mujoco.MjModel:
    """A compiled model that belongs to Pullback, from any kind of source."""
    if isinstance(source, (mujoco.MjSpec, mujoco.MjModel)) and folder is not None:
        raise PullbackError(f"folder= applies to files and XML text, not to a {type(source).__name__}")
    if isinstance(source, mujoco.MjModel):
        for f in flexes_to_convert(source, ignore):
            raise PullbackError(
                f"{label(source, 'flex', f)} may touch other shapes, which needs geoms at its vertices: give load the "
                'file or a mujoco.MjSpec in place of a compiled MjModel, or ignore=("contact",)'
            )
        return copy.copy(source)  # the user may change the original
    if isinstance(source, mujoco.MjSpec):
        try:
            # compiling fuses and renumbers elements, which must not change the user's spec
            return with_spheres(source.copy(), ignore)
        except (ValueError, RuntimeError, mujoco.FatalError) as error:
            raise PullbackError(f"MjSpec '{source.modelname}': MuJoCo cannot compile it: {one_line(error)}") from None
    if isinstance(source, str):
        if source.lstrip("\ufeff \t\r\n").startswith("<"):
            return compile_string(source, folder=folder, anywhere=anywhere, ignore=ignore)
        if not source.strip():
            raise PullbackError("load was given an empty string; give a path or XML text")
        if len(source) > LONGEST_PATH or not source.isprintable():
            raise PullbackError(
                f"load was given text that is no path and no XML, which starts with '<': {source[:60]!r}"
            )
        return compile_file(Path(source), folder=folder, anywhere=anywhere, ignore=ignore)
    if isinstance(source, os.PathLike) and isinstance(os.fspath(source), str):
        return compile_file(Path(source), folder=folder, anywhere=anywhere, ignore=ignore)
    raise PullbackError(
        f"load takes a path, XML text, a mujoco.MjSpec or a mujoco.MjModel, not {type(source).__name__}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# checks of numbers: an MjModel may have been edited, and MuJoCo's compiler accepts infinities


def _owner(m: mujoco.MjModel, what: str, index: int) -> str:
    """The element that a row of an MjModel field belongs to."""
    if what == "dof":
        return label(m, "joint", m.dof_jntid[index])
    if what == "coordinate":
        return label(m, "joint", np.searchsorted(m.jnt_qposadr, index, side="right") - 1)
    if what in ("control", "output"):
        count = m.actuator_ctrlnum if what == "control" else m.actuator_outnum
        return label(m, "actuator", np.repeat(np.arange(m.nactuator), count)[index])
    return label(m, what, index)


def _first(bad: np.ndarray) -> int | None:
    """The first row with a bad entry, or None."""
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1)) if bad.size else np.zeros(0, int)
    return int(rows[0]) if len(rows) else None


def _refuse(m: mujoco.MjModel, what: str, bad: np.ndarray, values: np.ndarray, reason: str) -> None:
    if (i := _first(bad)) is not None:
        raise PullbackError(f"{_owner(m, what, i)} has {reason} ({np.array2string(values[i], precision=6)})")


def _euler_damps_implicitly(m: mujoco.MjModel) -> bool:
    """Whether Euler steps are implicit in joint damping, as in MuJoCo: not if all damping is negative."""
    only_negative = np.any(m.dof_damping < 0) and not np.any(m.dof_damping > 0)
    return not disabled(m, Disable.mjDSBL_EULERDAMP) and not only_negative


def check_numbers(m: mujoco.MjModel) -> None:
    for what, names in FINITE_FIELDS.items():
        for name in names:
            values = getattr(m, name)
            _refuse(m, what, ~np.isfinite(values), values, f"a value in {name} that is not finite")
    for what, names in QUATERNION_FIELDS.items():
        for name in names:
            values = getattr(m, name)
            _refuse(m, what, np.linalg.norm(values, axis=1) < MJMINVAL, values, f"a zero quaternion in {name}")
    _check_inertias(m)
    _check_joints(m)
    _check_actuators(m)
    _check_option(m)


def _check_inertias(m: mujoco.MjModel) -> None:
    _refuse(m, "body", m.body_mass < 0, m.body_mass, "a negative mass")
    _refuse(m, "body", m.body_inertia < 0, m.body_inertia, "a negative moment of inertia")
    excess = 2 * m.body_inertia.max(axis=1) - m.body_inertia.sum(axis=1)  # C - (A + B)
    slack = MJMINVAL + INERTIA_SLACK * m.body_inertia.max(axis=1)
    impossible = "moments of inertia no body can have: one exceeds the sum of the other two"
    _refuse(m, "body", excess > slack, m.body_inertia, impossible)


def _check_joints(m: mujoco.MjModel) -> None:
    scalar = ~np.isin(m.jnt_type, (FREE, BALL))
    off_unit = abs(np.linalg.norm(m.jnt_axis, axis=1) - 1) > UNIT_AXIS_SLACK
    _refuse(m, "joint", scalar & off_unit, m.jnt_axis, "an axis that is not a unit vector")
    limited, ranges = m.jnt_actfrclimited, m.jnt_actfrcrange
    not_here = "an actuator force range, which applies to hinge and slide joints only"
    _refuse(m, "joint", limited & ~scalar, ranges, not_here)
    _refuse(m, "joint", limited & ~(ranges[:, 0] <= ranges[:, 1]), ranges, "an actuator force range that is empty")
    for name in ("qpos0", "qpos_spring"):
        _check_quaternions(m, getattr(m, name), where=name)
    _refuse(m, "dof", m.dof_armature < 0, m.dof_armature, "a negative armature")


def _check_quaternions(m: mujoco.MjModel, q: np.ndarray, where: str) -> None:
    for j, part in _quaternion_slices(m):
        if np.linalg.norm(q[part]) < MJMINVAL:
            raise PullbackError(f"{label(m, 'joint', j)} has a zero quaternion in {where}")


def _quaternion_slices(m: mujoco.MjModel) -> list[tuple[int, slice]]:
    """The joints with a quaternion, and its slice of q."""
    starts = {FREE: 3, BALL: 0}
    return [
        (j, slice(int(m.jnt_qposadr[j]) + starts[kind], int(m.jnt_qposadr[j]) + starts[kind] + 4))
        for j, kind in enumerate(m.jnt_type.tolist())
        if kind in starts
    ]


def _check_actuators(m: mujoco.MjModel) -> None:
    for what, name in (("control", "ctrl"), ("actuator", "force"), ("actuator", "act")):
        limited, ranges = getattr(m, f"actuator_{name}limited"), getattr(m, f"actuator_{name}range")
        empty = limited.astype(bool) & ~(ranges[:, 0] <= ranges[:, 1])
        called = {"ctrl": "control", "force": "force", "act": "activation"}[name]
        _refuse(m, what, empty, ranges, f"{'an' if name == 'act' else 'a'} {called} range that is empty")


def _check_option(m: mujoco.MjModel) -> None:
    if not (np.isfinite(m.opt.timestep) and m.opt.timestep > 0):
        raise PullbackError(f"option timestep is {m.opt.timestep}; it must be positive")
    for name in ("gravity", "wind", "density", "viscosity"):
        value = np.asarray(getattr(m.opt, name))
        if not np.isfinite(value).all() or (value.ndim == 0 and value < 0):
            wanted = "zero or positive" if value.ndim == 0 else "finite"
            raise PullbackError(f"option {name} is {value}; it must be {wanted}")


def check_mass_matrix(m: mujoco.MjModel, armature: np.ndarray, tendon_armature: np.ndarray) -> None:
    """Raises an error for a joint that no inertia resists in the file's pose."""
    if m.nv == 0:
        return
    bare = copy.copy(m)  # with the armature as this package computes it
    bare.dof_armature[:] = armature
    bare.jnt_actuatorid[:] = -1
    bare.tendon_armature[:] = tendon_armature
    bare.tendon_actuatorid[:] = -1
    data = mujoco.MjData(bare)
    data.qpos[:] = bare.qpos0
    mujoco.mj_kinematics(bare, data)
    mujoco.mj_comPos(bare, data)
    mujoco.mj_makeM(bare, data)
    mass = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(bare, data, mass)
    scale = mass.diagonal().copy()
    for i in reversed(range(m.nv)):  # eliminate from the tips: a pivot is the inertia that resists the joint
        pivot = mass[i, i]
        if not pivot > max(MJMINVAL, SINGULAR_PIVOT * scale[i]):
            raise PullbackError(
                f"{label(m, 'joint', m.dof_jntid[i])} moves nothing that has inertia (singular mass matrix); "
                f"give its body mass, or the joint armature"
            )
        column = mass[:i, i]
        above = np.flatnonzero(column)
        mass[np.ix_(above, above)] -= np.outer(column[above], column[above]) / pivot


# ---------------------------------------------------------------------------------------------------------------------
# the fields of a Model


def _frozen(values, dtype=np.float64) -> np.ndarray:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def _unit_coordinates(m: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    q = np.array(q, dtype=np.float64)
    for _, part in _quaternion_slices(m):
        q[part] = unit(q[part])
    return q


def _sizes_and_names(m: mujoco.MjModel) -> dict:
    actuator_names = [""] * m.nu
    for i in range(m.nactuator):
        name, first, count = name_of(m, "actuator", i), int(m.actuator_ctrladr[i]), int(m.actuator_ctrlnum[i])
        for k in range(count):
            actuator_names[first + k] = name if count == 1 else f"{name}[{k}]"
    return {
        "nq": int(m.nq),
        "nv": int(m.nv),
        "nu": int(m.nu),
        "body_names": tuple(name_of(m, "body", i) for i in range(m.nbody)),
        "joint_names": tuple(name_of(m, "joint", j) for j in range(m.njnt)),
        "actuator_names": tuple(actuator_names),
    }


def inertial_frames(m: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Positions (nbody, 3) [m] and quaternions (nbody, 4) of inertial frames in their bodies, as MuJoCo uses them.

    MuJoCo snaps an inertial frame that is within 1e-6 of its body's frame to that frame.
    """
    same, kinds = m.body_sameframe, mujoco.mjtSameFrame
    pos, quat = m.body_ipos.copy(), m.body_iquat.copy()
    pos[same == kinds.mjSAMEFRAME_BODY] = 0.0
    quat[(same == kinds.mjSAMEFRAME_BODY) | (same == kinds.mjSAMEFRAME_BODYROT)] = (1.0, 0.0, 0.0, 0.0)
    return pos, quat


def _bodies(m: mujoco.MjModel) -> dict:
    com, iquat = inertial_frames(m)
    iquat = unit(iquat)
    rotation = unit_quat_matrix(iquat)
    inertia = np.einsum("bik,bk,bjk->bij", rotation, m.body_inertia, rotation)
    # Edge lengths of a uniform box with this mass and these moments, clamped as in MuJoCo.
    totals = m.body_inertia.sum(axis=1, keepdims=True)
    has_mass = m.body_mass[:, None] >= MJMINVAL
    mass = np.where(has_mass, m.body_mass[:, None], 1.0)
    ellipsoids = np.isin(np.arange(m.nbody), m.geom_bodyid[m.geom_fluid[:, 0] > 0])  # the fluid acts on their geoms
    has_box = has_mass & ~ellipsoids[:, None]
    box = np.where(has_box, np.sqrt(6 * np.maximum(MJMINVAL, totals - 2 * m.body_inertia) / mass), 0.0)
    return {
        "body_parent": _frozen(m.body_parentid, np.int32),
        "body_pos": _frozen(m.body_pos),
        "body_quat": _frozen(unit(m.body_quat)),
        "body_mass": _frozen(m.body_mass),
        "body_com": _frozen(com),
        "body_inertia": _frozen(inertia[:, (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]),
        "body_gravcomp": _frozen(m.body_gravcomp if gravity_is_compensated(m) else np.zeros(m.nbody)),
        "fluid_box": _frozen(box),
        "fluid_quat": _frozen(iquat),
    }


def _joints_and_dofs(m: mujoco.MjModel) -> dict:
    armature, damping, curve = m.dof_armature.copy(), m.dof_damping.copy(), m.dof_dampingpoly.copy()
    for j, kind in enumerate(m.jnt_type.tolist()):
        dofs = slice(int(m.jnt_dofadr[j]), int(m.jnt_dofadr[j]) + JOINT_DOFS[kind])
        for i in reflecting_actuators(m, j):
            # MuJoCo reflects a rotor through the first gear entry alone, onto every dof of the joint.
            ratio = m.actuator_gear[m.actuator_outadr[i], 0] ** 2
            armature[dofs] += m.actuator_armature[i] * ratio
            damping[dofs] += m.actuator_damping[i] * ratio
            curve[dofs] += m.actuator_dampingpoly[i] * ratio
    no_springs, no_dampers = disabled(m, Disable.mjDSBL_SPRING), disabled(m, Disable.mjDSBL_DAMPER)
    return {
        "joint_type": _frozen(m.jnt_type, np.int32),
        "joint_body": _frozen(m.jnt_bodyid, np.int32),
        "joint_q": _frozen(m.jnt_qposadr, np.int32),
        "joint_v": _frozen(m.jnt_dofadr, np.int32),
        "joint_pos": _frozen(m.jnt_pos),
        "joint_axis": _frozen(m.jnt_axis),
        "joint_stiffness": _frozen(np.zeros(m.njnt) if no_springs else m.jnt_stiffness),
        "joint_stiffness_poly": _frozen(np.zeros((m.njnt, 2)) if no_springs else m.jnt_stiffnesspoly),
        "joint_force_limited": _frozen(m.jnt_actfrclimited, bool),
        "joint_force_range": _frozen(m.jnt_actfrcrange),
        "joint_lift": _frozen(_lifts(m), np.int32),
        "dof_armature": _frozen(armature),
        "dof_damping": _frozen(np.zeros(m.nv) if no_dampers else damping),
        "dof_damping_poly": _frozen(np.zeros((m.nv, 2)) if no_dampers else curve),
        "q0": _frozen(_unit_coordinates(m, m.qpos0)),
        "q_spring": _frozen(_unit_coordinates(m, m.qpos_spring)),
    }


def _lifts(m: mujoco.MjModel) -> np.ndarray:
    """How gravity compensation acts on each joint: see ``Model.joint_lift``."""
    counts = m.jnt_actgravcomp.astype(bool) & gravity_is_compensated(m)
    off = disabled(m, Disable.mjDSBL_ACTUATION) or m.nu == 0
    return np.where(counts, 2 if off else np.where(m.jnt_actfrclimited, 1, 0), 0)


def _actuators(m: mujoco.MjModel) -> dict:
    """One row per control. Actuators that exert no force have zero gear, gain and bias."""
    joint, in_parent = np.zeros(m.nu, np.int32), np.zeros(m.nu, bool)
    tendon, site, reference, body = np.full((4, m.nu), -1, np.int32)
    crank = np.zeros(m.nu)
    gear, gain, bias = np.zeros((m.nu, 6)), np.zeros((m.nu, 3)), np.zeros((m.nu, 3))
    force_limited, force_range = np.zeros(m.nu, bool), np.zeros((m.nu, 2))
    for i in range(m.nactuator):
        if gives_no_force(m, i) or actuator_complaint(m, i):
            continue  # unsupported actuators that remain here are those that the user ignored
        u = m.actuator_ctrladr[i]
        on = tendon if pulls_tendon(m, i) else site if pushes_site(m, i) else body if adheres(m, i) else joint
        on[u], turns = m.actuator_trnid[i, 0], holds_orientation(m, i)
        if pushes_site(m, i):
            reference[u] = m.actuator_trnid[i, 1]
            crank[u] = m.actuator_cranklength[i] if m.actuator_trntype[i] == SLIDER_CRANK else 0.0
        in_parent[u] = m.actuator_trntype[i] == JOINT_IN_PARENT
        gear[u] = 0 if adheres(m, i) or turns else m.actuator_gear[m.actuator_outadr[i]]
        force_limited[u], force_range[u] = m.actuator_forcelimited[i] and not turns, m.actuator_forcerange[i]
        if not in_disabled_group(m, i):
            gain[u], bias[u] = gain_and_bias(m, i)
    clamped = not disabled(m, Disable.mjDSBL_CLAMPCTRL)
    return {
        "actuator_joint": _frozen(joint, np.int32),
        "actuator_tendon": _frozen(tendon, np.int32),
        "actuator_site": _frozen(site, np.int32),
        "actuator_reference": _frozen(reference, np.int32),
        "actuator_body": _frozen(body, np.int32),
        "actuator_crank": _frozen(crank),
        "actuator_in_parent": _frozen(in_parent, bool),
        "actuator_gear": _frozen(gear),
        "actuator_gain": _frozen(gain),
        "actuator_bias": _frozen(bias),
        "control_limited": _frozen(m.actuator_ctrllimited & clamped, bool),
        "control_range": _frozen(m.actuator_ctrlrange),
        "force_limited": _frozen(force_limited, bool),
        "force_range": _frozen(force_range),
    }


def _world(m: mujoco.MjModel, ignore: Collection[str]) -> dict:
    fluid = fluid_acts(m) and "fluid" not in ignore
    return {
        "timestep": float(m.opt.timestep),
        "gravity": _frozen(np.zeros(3) if disabled(m, Disable.mjDSBL_GRAVITY) else m.opt.gravity),
        "integrator": INTEGRATORS[m.opt.integrator],
        "implicit_damping": _euler_damps_implicitly(m),
        "fluid_density": float(m.opt.density) if fluid else 0.0,
        "fluid_viscosity": float(m.opt.viscosity) if fluid else 0.0,
        "wind": _frozen(m.opt.wind),
    }


def _frames(m: mujoco.MjModel, what: str, count: int, body, pos, quat) -> Frames:
    names = tuple(name_of(m, what, i) for i in range(count))
    return Frames(names, _frozen(body, np.int32), _frozen(pos), _frozen(unit(quat)))


def _keyframes(m: mujoco.MjModel, na: int) -> dict[str, Keyframe]:
    keyframes = {}
    for k in range(m.nkey):
        name, q = name_of(m, "key", k), m.key_qpos[k]
        _check_quaternions(m, q, where=label(m, "key", k))
        act = np.resize(np.append(m.key_act[k][:na], np.zeros(na)), na)  # samples of delayed controls are zero
        others = (_frozen(x) for x in (m.key_qvel[k], m.key_ctrl[k], act))
        keyframes[name] = Keyframe(_frozen(_unit_coordinates(m, q)), *others)
    return keyframes
