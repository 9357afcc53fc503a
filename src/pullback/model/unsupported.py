"""What MuJoCo can simulate and a :class:`Model` cannot represent: an error, unless the user ignores it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import mujoco
import numpy as np

from pullback.core.checks import unknown
from pullback.core.errors import PullbackError
from pullback.model.model import BALL

# Kinds that ``load(..., ignore=...)`` accepts; its docstring describes the effect of each.
KINDS = (
    *("contact", "limit", "frictionloss", "equality"),
    *("tendon", "actuator", "plugin", "flex", "flexface", "fluid"),
    *("spring-poly", "spring-yield", "damping-poly", "actuatorgravcomp", "sleep"),
)

# MuJoCo's enumerations do not compare equal to numpy's integers, so they are taken as plain integers throughout.
EULER = int(mujoco.mjtIntegrator.mjINT_EULER)
RK4 = int(mujoco.mjtIntegrator.mjINT_RK4)
IMPLICITFAST = int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
IMPLICIT = int(mujoco.mjtIntegrator.mjINT_IMPLICIT)
INTEGRATORS = {EULER: "euler", RK4: "rk4", IMPLICITFAST: "implicitfast", IMPLICIT: "implicit"}
JOINT_IN_PARENT = int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)
JOINT_TRANSMISSIONS = (int(mujoco.mjtTrn.mjTRN_JOINT), JOINT_IN_PARENT)
STATELESS, INTEGRATOR = int(mujoco.mjtDyn.mjDYN_NONE), int(mujoco.mjtDyn.mjDYN_INTEGRATOR)
FILTERS = int(mujoco.mjtDyn.mjDYN_FILTER), int(mujoco.mjtDyn.mjDYN_FILTEREXACT)
ACTIVATION_NAMES = ("INTEGRATOR", "FILTER", "FILTEREXACT", "MUSCLE")
ACTIVATIONS = tuple(int(getattr(mujoco.mjtDyn, f"mjDYN_{name}")) for name in ACTIVATION_NAMES)
GAIN_FIXED, GAIN_AFFINE = int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE)
GAIN_SO3 = int(mujoco.mjtGain.mjGAIN_SO3)
GAIN_PID, GAIN_DCMOTOR = int(mujoco.mjtGain.mjGAIN_PID), int(mujoco.mjtGain.mjGAIN_DCMOTOR)
BIAS_DCMOTOR = int(mujoco.mjtBias.mjBIAS_DCMOTOR)
DYN_PID, DYN_DCMOTOR = int(mujoco.mjtDyn.mjDYN_PID), int(mujoco.mjtDyn.mjDYN_DCMOTOR)
BIAS_NONE, BIAS_AFFINE = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)
GAIN_MUSCLE, BIAS_MUSCLE = int(mujoco.mjtGain.mjGAIN_MUSCLE), int(mujoco.mjtBias.mjBIAS_MUSCLE)
TENDON_TRANSMISSION, SITE_TRANSMISSION = int(mujoco.mjtTrn.mjTRN_TENDON), int(mujoco.mjtTrn.mjTRN_SITE)
SLIDER_CRANK, BODY_TRANSMISSION = int(mujoco.mjtTrn.mjTRN_SLIDERCRANK), int(mujoco.mjtTrn.mjTRN_BODY)
TRANSMISSIONS = (*JOINT_TRANSMISSIONS, TENDON_TRANSMISSION, SITE_TRANSMISSION, SLIDER_CRANK)
EQ_CONNECT, EQ_WELD = int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)
EQ_JOINT, EQ_TENDON = int(mujoco.mjtEq.mjEQ_JOINT), int(mujoco.mjtEq.mjEQ_TENDON)
EQUALITIES = (EQ_CONNECT, EQ_WELD, EQ_JOINT, EQ_TENDON)  # all but those of flexes
Disable = mujoco.mjtDisableBit
Enable = mujoco.mjtEnableBit
KNOWN_DISABLE_BITS = (1 << 20) - 1  # those of MuJoCo 4.0, all of which are handled
KNOWN_ENABLE_BITS = (1 << 8) - 1
Complaint = tuple[str, str, str]  # kind for ``ignore``, or "" if it cannot be ignored; element; problem
MOST_NAMED = 20  # elements with the same problem that a message names; the others are counted


def _name(m: mujoco.MjModel, what: str, index: int) -> str | None:
    return mujoco.mj_id2name(m, getattr(mujoco.mjtObj, f"mjOBJ_{what.upper()}"), int(index))


def name_of(m: mujoco.MjModel, what: str, index: int) -> str:
    """The element's name, or e.g. "body 3" if it has none."""
    return _name(m, what, index) or f"{what} {index}"


def label(m: mujoco.MjModel, what: str, index: int | np.integer) -> str:
    """An element in a message: "body 'torso'" or "body 3"."""
    name = _name(m, what, int(index))
    return f"{what} '{name}'" if name else f"{what} {index}"


def pair_label(m: mujoco.MjModel, index: int | np.integer) -> str:
    """An explicit contact pair in a message, with its geoms: "pair 0 (geom 'foot' and geom 'floor')"."""
    geoms = (label(m, "geom", ids[index]) for ids in (m.pair_geom1, m.pair_geom2))
    return f"{label(m, 'pair', index)} ({' and '.join(geoms)})"


def equality_label(m: mujoco.MjModel, index: int | np.integer) -> str:
    """An equality constraint in a message, with its kind: "equality 'mimic' (joint)"."""
    return f"{label(m, 'equality', index)} ({spell(mujoco.mjtEq, m.eq_type[index])})"


def spell(enumeration, value: int) -> str:
    """The last word of an enumerator: "slidercrank" for mjTRN_SLIDERCRANK."""
    return enumeration(int(value)).name.split("_", 1)[1].lower()


def disabled(m: mujoco.MjModel, *flags: int) -> bool:
    """Whether the file disables all of these features."""
    return all(m.opt.disableflags & int(flag) for flag in flags)


def passive_forces_off(m: mujoco.MjModel) -> bool:
    """Whether springs and dampers are both off: MuJoCo then has no passive forces, fluid or gravity compensation."""
    return disabled(m, Disable.mjDSBL_SPRING, Disable.mjDSBL_DAMPER)


def gravity_is_compensated(m: mujoco.MjModel) -> bool:
    """Whether gravity compensation acts. MuJoCo requires some body with a positive one; negative ones alone have no
    effect."""
    return bool(m.ngravcomp) and not passive_forces_off(m)


def fluid_acts(m: mujoco.MjModel) -> bool:
    return (m.opt.density > 0 or m.opt.viscosity > 0) and not passive_forces_off(m)


def require_known_kinds(ignore: Collection[str]) -> None:
    if isinstance(ignore, str):
        raise PullbackError(f'ignore must be a tuple of kinds, as in ignore=("{ignore}",)')
    for kind in ignore:
        if kind not in KINDS:
            raise PullbackError(unknown("kind of element to ignore:", str(kind), KINDS))


def describe(complaints: Collection[Complaint]) -> str:
    """All problems in one line, with elements that have the same problem grouped."""
    elements: dict[str, list[str]] = {}
    for _, element, reason in complaints:
        elements.setdefault(reason, []).append(element)
    sentences = []
    for reason, (first, *others) in elements.items():
        more = [*others[:MOST_NAMED], *([f"{len(others) - MOST_NAMED} more"] if len(others) > MOST_NAMED else [])]
        sentences.append(f"{first} {reason}" + (f" (also {', '.join(more)})" if more else ""))
    return "; ".join(sentences)


def ignoring(complaints: Collection[Complaint]) -> str:
    """The argument of ``load`` that ignores what can be ignored, such as ignore=("tendon",), or ""."""
    kinds = tuple(dict.fromkeys(kind for kind, _, _ in complaints if kind))
    return f"ignore={kinds}".replace("'", '"') if kinds else ""


def refuse_unsupported(m: mujoco.MjModel, ignore: Collection[str]) -> None:
    """Raises one error that names all elements that the model cannot represent and the user did not ignore."""
    complaints = [complaint for complaint in all_complaints(m) if complaint[0] not in ignore]
    if not complaints:
        return
    rest = "these" if all(kind for kind, _, _ in complaints) else "what can be left out"
    without = f", or load it without {rest}: {ignoring(complaints)}" if ignoring(complaints) else ""
    raise PullbackError(f"not supported: {describe(complaints)}. Change the model{without}")


def _option(m: mujoco.MjModel) -> Iterator[Complaint]:
    """Unsupported options, which cannot be ignored."""
    if m.opt.integrator not in INTEGRATORS:
        name = spell(mujoco.mjtIntegrator, m.opt.integrator)
        yield (
            "",
            "option",
            f'has the integrator "{name}" (pass integrator="implicitfast", "implicit", "euler" or "rk4")',
        )
    # Flags of later versions of MuJoCo are unknown here and could change the motion.
    unknown_disable = m.opt.disableflags & ~KNOWN_DISABLE_BITS
    unknown_enable = m.opt.enableflags & ~KNOWN_ENABLE_BITS
    if unknown_disable or unknown_enable:
        yield "", "option", f"has unknown flags: disable {unknown_disable:#x}, enable {unknown_enable:#x}"


def all_complaints(m: mujoco.MjModel) -> Iterator[Complaint]:
    yield from _option(m)
    for kind, what, rows, reason in _table(m):
        for i in map(int, np.flatnonzero(rows)):
            yield kind, label(m, what, i), reason
    for i in range(m.nactuator):
        if not gives_no_force(m, i) and (complaint := actuator_complaint(m, i)):
            kind, reason = complaint
            yield kind, label(m, "actuator", i), reason
    if m.opt.enableflags & int(Enable.mjENBL_SLEEP):
        yield "sleep", "option", "puts bodies at rest to sleep"


def _table(m: mujoco.MjModel) -> Iterator[tuple[str, str, np.ndarray, str]]:
    """The kind for ``ignore``, the type of element, which elements have the problem (n,) bool, and the problem."""
    springs = not disabled(m, Disable.mjDSBL_SPRING)
    yield from _flexes(m)

    slack = (m.tendon_plasticadr >= 0) & ((m.tendon_stiffness != 0) | np.any(m.tendon_stiffnesspoly, axis=1))
    yield "spring-yield", "tendon", springs & slack, "has a spring that yields"
    yield "plugin", "body", m.body_plugin >= 0, "gets its passive forces from a plugin"

    curved = np.any(m.jnt_stiffnesspoly, axis=1)
    yields = (m.jnt_plasticadr >= 0) & ((m.jnt_stiffness != 0) | curved)
    yield "spring-yield", "joint", springs & yields, "has a spring that yields"


def _flexes(m: mujoco.MjModel) -> Iterator[tuple[str, str, np.ndarray, str]]:
    """Problems of deformable flexes, in the form of ``_table``."""
    soft = np.isin(np.arange(m.nflex), soft_flexes(m))
    reasons = {
        "moves its vertices by interpolation": m.flex_interp != 0,
        "keeps the lengths of its edges by equality constraints": m.flex_edgeequality != 0,
        "yields": m.flex_plasticmode != 0,
        "has passive contacts": m.flex_passive != 0,
        'is deformable, which is supported with integrator "Euler" or "RK4" only': m.opt.integrator
        in (IMPLICITFAST, IMPLICIT),
        "is deformable, and the file switches springs off": disabled(m, Disable.mjDSBL_SPRING),
    }
    for reason, is_so in reasons.items():
        yield "flex", "flex", soft & is_so, reason


def soft_flexes(m: mujoco.MjModel) -> np.ndarray:
    """The indices of deformable flexes."""
    return np.flatnonzero(~m.flex_rigid.astype(bool))


def spatial_tendons(m: mujoco.MjModel) -> np.ndarray:
    """Which tendons are spatial (ntendon,), and not sums of joint coordinates."""
    return m.wrap_type[m.tendon_adr] != int(mujoco.mjtWrap.mjWRAP_JOINT)


def wrapping_tendons(m: mujoco.MjModel) -> np.ndarray:
    """Which tendons may wrap around geoms (ntendon,)."""
    kinds = [m.wrap_type[m.tendon_adr[t] : m.tendon_adr[t] + m.tendon_num[t]] for t in range(m.ntendon)]
    around = (int(mujoco.mjtWrap.mjWRAP_SPHERE), int(mujoco.mjtWrap.mjWRAP_CYLINDER))
    return np.array([np.isin(of_one, around).any() for of_one in kinds], bool).reshape(m.ntendon)


def acting_equalities(m: mujoco.MjModel, *types: int) -> np.ndarray:
    """The equality constraints of these types that a file enables."""
    if disabled(m, Disable.mjDSBL_CONSTRAINT) or disabled(m, Disable.mjDSBL_EQUALITY):
        return np.zeros(0, int)
    return np.flatnonzero(m.eq_active0.astype(bool) & np.isin(m.eq_type, types))


def in_disabled_group(m: mujoco.MjModel, i: int) -> bool:
    return 0 <= m.actuator_group[i] < 31 and bool(m.opt.disableactuator >> int(m.actuator_group[i]) & 1)


def gives_no_force(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator exerts no force. MuJoCo clamps even the zero force of a disabled group to the force range."""
    if disabled(m, Disable.mjDSBL_ACTUATION):
        return True
    low, high = m.actuator_forcerange[i]
    return in_disabled_group(m, i) and (not m.actuator_forcelimited[i] or low <= 0 <= high)


def actuator_complaint(m: mujoco.MjModel, i: int) -> tuple[str, str] | None:
    """Why an actuator is not supported: no muscle or motor, and not (g0 + g1·l + g2·l̇)·drive + b0 + b1·l + b2·l̇."""
    if m.actuator_plugin[i] >= 0:
        return "plugin", "is driven by a plugin"
    if is_motor(m, i) or holds_orientation(m, i):
        reason = (_motor_complaint if is_motor(m, i) else _orientation_complaint)(m, i)
        return ("actuator", reason) if reason else None
    transmission, gain = spell(mujoco.mjtTrn, m.actuator_trntype[i]), spell(mujoco.mjtGain, m.actuator_gaintype[i])
    dynamics, bias = spell(mujoco.mjtDyn, m.actuator_dyntype[i]), spell(mujoco.mjtBias, m.actuator_biastype[i])
    kinds = " and ".join(", ".join(ACTIVATION_NAMES).lower().rsplit(", ", 1))
    controls, outputs = m.actuator_ctrlnum[i], m.actuator_outnum[i]
    reasons = {
        f"acts through a {transmission} transmission; only joints, tendons, sites, slidercrank, body are supported": (
            m.actuator_trntype[i] not in (*TRANSMISSIONS, BODY_TRANSMISSION)
        ),
        f"has activation dynamics of type {dynamics}; only none, {kinds} are supported": (
            m.actuator_dyntype[i] not in (STATELESS, *ACTIVATIONS)
        ),
        f"has {m.actuator_actnum[i]} activations; only one is supported": m.actuator_actnum[i] > 1,
        f"has a gain of type {gain}; only fixed, affine, muscle, pid and dcmotor are supported": (
            m.actuator_gaintype[i] not in (GAIN_FIXED, GAIN_AFFINE, GAIN_MUSCLE)
        ),
        f"has a bias of type {bias}; only none, affine, muscle and dcmotor are supported": (
            m.actuator_biastype[i] not in (BIAS_NONE, BIAS_AFFINE, BIAS_MUSCLE)
        ),
        f"has {controls} controls and {outputs} outputs, not one of each": controls != 1 or outputs != 1,
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    if reason is None:
        reason = _muscle_complaint(m, i) or _adhesion_complaint(m, i)
    return ("actuator", reason) if reason else None


def is_motor(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator is a PID controller or a DC motor."""
    return m.actuator_gaintype[i] in (GAIN_PID, GAIN_DCMOTOR)


def holds_orientation(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator is a servo with a rotation as its setpoint."""
    return m.actuator_gaintype[i] == GAIN_SO3


def _orientation_complaint(m: mujoco.MjModel, i: int) -> str | None:
    reasons = {
        "holds an orientation between sites; only ball joints are supported": m.actuator_trnid[i, 1] >= 0,
        "holds an orientation that it integrates": m.actuator_dyntype[i] != STATELESS,
        "delays several controls": m.actuator_delay[i] > 0,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _motor_complaint(m: mujoco.MjModel, i: int) -> str | None:
    circuit = m.actuator_gaintype[i] == GAIN_DCMOTOR
    gain, dynamics = m.actuator_gainprm[i], m.actuator_dynprm[i]
    kinds = (BIAS_DCMOTOR, DYN_DCMOTOR) if circuit else (BIAS_AFFINE, DYN_PID)
    dynamics_kind, bias = spell(mujoco.mjtDyn, m.actuator_dyntype[i]), spell(mujoco.mjtBias, m.actuator_biastype[i])
    on_tendon = m.actuator_trntype[i] == TENDON_TRANSMISSION
    reasons = {
        f"acts through a {spell(mujoco.mjtTrn, m.actuator_trntype[i])} transmission; only joints, tendons, sites and "
        "slidercrank are supported": m.actuator_trntype[i] not in TRANSMISSIONS,
        f"mixes the laws of motors with others, dynamics {dynamics_kind} and bias {bias}": (
            m.actuator_biastype[i] != kinds[0] or m.actuator_dyntype[i] not in (STATELESS, kinds[1])
        ),
        "delays several controls": m.actuator_delay[i] > 0 and m.actuator_ctrlnum[i] > 1,
        "is a motor without controls; give it one, such as a voltage": m.actuator_ctrlnum[i] == 0,
        f"has {m.actuator_actnum[i]} activations, which is not what its numbers ask for": (
            m.actuator_actnum[i] != len(states_of_motor(m, i))
        ),
        "is a DC motor on a tendon that limits the force of its actuators": (
            circuit and on_tendon and m.tendon_actfrclimited[m.actuator_trnid[i, 0]]
        ),
        "is a DC motor of a disabled group, whose bristles would move": (
            circuit and dynamics[5] > 0 and in_disabled_group(m, i)
        ),
        "is a DC motor with impossible numbers": circuit and impossible_motor(gain, dynamics, m.actuator_biasprm[i]),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def states_of_motor(m: mujoco.MjModel, i: int) -> list[int]:
    """Which of slew, integral, heat, bristle and current a PID controller or DC motor has."""
    gain, dynamics = m.actuator_gainprm[i], m.actuator_dynprm[i]
    there: list[bool] = []
    if m.actuator_gaintype[i] == GAIN_PID and m.actuator_dyntype[i] == DYN_PID:
        there = [dynamics[1] > 0, gain[0] > 0]
    elif m.actuator_gaintype[i] == GAIN_DCMOTOR:
        there = [dynamics[7] > 0, gain[5] > 0, dynamics[2] > 0, dynamics[5] > 0, dynamics[0] > 0]
    return np.flatnonzero(there).tolist()


def impossible_motor(gain: np.ndarray, dynamics: np.ndarray, bias: np.ndarray) -> bool:
    """Whether a gainprm, dynprm and biasprm are invalid for a DC motor."""
    controlled = np.any(gain[4:7])
    signs = min(gain[1], gain[5], gain[7], *dynamics[[0, 1, 2, 5, 7, 8]], *bias[3:6]) < 0
    return bool(gain[0] <= 0 or signs or (controlled and gain[1] == 0) or (dynamics[2] > 0 and dynamics[3] <= 0))


def _adhesion_complaint(m: mujoco.MjModel, i: int) -> str | None:
    """Why an adhesion actuator is not supported: contacts have no length, and joints cannot clamp adhesion forces."""
    if not adheres(m, i):
        return None
    if feels_velocity(m, i) or m.actuator_biastype[i] == BIAS_MUSCLE:
        return "is adhesion with feedback of velocity, or a muscle"
    if np.any(m.jnt_actfrclimited):
        return "is adhesion, in a model with joints that limit the force of their actuators"
    return None


def _muscle_complaint(m: mujoco.MjModel, i: int) -> str | None:
    """Why a muscle is invalid: MuJoCo's compiler would refuse it, or has found no range of lengths for it."""
    gain, bias = m.actuator_gaintype[i] == GAIN_MUSCLE, m.actuator_biastype[i] == BIAS_MUSCLE
    laws = [law for law, used in ((m.actuator_gainprm[i], gain), (m.actuator_biasprm[i], bias)) if used]
    shortest, longest = m.actuator_lengthrange[m.actuator_outadr[i]]
    if laws and not shortest < longest:
        return f"is a muscle without a range of lengths (lengthrange {shortest:g} to {longest:g})"
    return "is a muscle with impossible numbers" if any(impossible_muscle(law) for law in laws) else None


def impossible_muscle(law: np.ndarray) -> bool:
    """Whether a gainprm or biasprm is invalid for a muscle."""
    low, high, _force, scale, lmin, lmax, vmax = law[:7]
    return not (low < high and lmin < 1 < lmax and vmax > 0 and scale > 0)


def has_activation(m: mujoco.MjModel, i: int) -> bool:
    return m.actuator_actnum[i] > 0


def pulls_tendon(m: mujoco.MjModel, i: int) -> bool:
    return m.actuator_trntype[i] == TENDON_TRANSMISSION


def adheres(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator is adhesion: it acts on the contacts of a body."""
    return m.actuator_trntype[i] == BODY_TRANSMISSION


def pushes_site(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator acts at a site, or between two sites."""
    return m.actuator_trntype[i] in (SITE_TRANSMISSION, SLIDER_CRANK)


def feels_velocity(m: mujoco.MjModel, i: int) -> bool:
    gain, bias = gain_and_bias(m, i)
    return bool(gain[2] != 0 or bias[2] != 0 or m.actuator_gaintype[i] in (GAIN_MUSCLE, GAIN_DCMOTOR))


def is_servo(m: mujoco.MjModel, i: int) -> bool:
    """Whether an actuator holds a position that its control sets, directly or through an integrator or filter."""
    gain, bias = gain_and_bias(m, i)
    fixed = m.actuator_gaintype[i] == GAIN_FIXED and m.actuator_dyntype[i] in (STATELESS, INTEGRATOR, *FILTERS)
    return bool(fixed and gain[0] != 0 and bias[1] == -gain[0])


def wrapped_servo(m: mujoco.MjModel, i: int) -> int:
    """Whether MuJoCo wraps the error of a servo around the circle: 1 on a ball joint, 2 between two sites, else 0."""
    return rotation_kind(m, i) if is_servo(m, i) else 0


def rotation_kind(m: mujoco.MjModel, i: int) -> int:
    """Whether an actuator's length is a rotation: 1 on a ball joint, 2 between two sites, else 0."""
    if m.actuator_trntype[i] in JOINT_TRANSMISSIONS:
        return int(m.jnt_type[m.actuator_trnid[i, 0]] == BALL)
    gear = m.actuator_gear[m.actuator_outadr[i]]
    relative = m.actuator_trntype[i] == SITE_TRANSMISSION and m.actuator_trnid[i, 1] >= 0
    return 2 if relative and not np.any(gear[:3]) and np.any(gear[3:]) else 0


def gain_and_bias(m: mujoco.MjModel, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (3,) of 1, length and velocity in gain and bias; zero where they are a muscle's or DC motor's."""
    gain, bias = m.actuator_gainprm[i, :3].copy(), np.zeros(3)
    if m.actuator_gaintype[i] in (GAIN_MUSCLE, GAIN_DCMOTOR):
        gain[:] = 0
    if m.actuator_gaintype[i] in (GAIN_FIXED, GAIN_PID, GAIN_SO3):
        gain[1:] = 0
    if m.actuator_biastype[i] == BIAS_AFFINE or holds_orientation(m, i):
        bias[:] = m.actuator_biasprm[i, :3]
    return gain, bias


def reflecting_actuators(m: mujoco.MjModel, index: int, *, of_tendon: bool = False) -> list[int]:
    """The actuators whose armature and damping MuJoCo adds to a joint or tendon. Its field is an actuator, -1 for none,
    or -2 for all that act on it."""
    which = (m.tendon_actuatorid if of_tendon else m.jnt_actuatorid)[index]
    if which >= 0:
        return [int(which)]
    kinds = (TENDON_TRANSMISSION,) if of_tendon else JOINT_TRANSMISSIONS
    acting = np.isin(m.actuator_trntype, kinds) & (m.actuator_trnid[:, 0] == index)
    return [] if which == -1 else [int(i) for i in np.flatnonzero(acting)]
