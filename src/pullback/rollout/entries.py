"""Names of the entries of states, controls and parameters."""

from __future__ import annotations

from pullback.model import BALL, FREE
from pullback.model.activations import SAMPLE
from pullback.model.motors import STATES

INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz")
QUATERNION = ("w", "x", "y", "z")
AXES = ("x", "y", "z")
FREE_COORDINATES = (*AXES, "qw", "qx", "qy", "qz")
FREE_DOFS = (*AXES, "rx", "ry", "rz")


def entry_name(system, field: str, index: tuple[int, ...], *, kind: str, steps: int) -> str:
    """For example "joint 'knee'" or "body 'torso' x (world 1)"; the field and index if the System has no names.

    kind: "state", "control" or "params"
    """
    extra = []
    if kind == "state":
        world, rest = index[0], index[1:]
        axes = {"q": ("coordinate",), "v": ("dof",), "act": ("activation",)}.get(field, ())
    elif kind == "control":
        step, world, rest = index[0], index[1], index[2:]
        axes = ("actuator",)
        extra += [f"step {step}"] if steps > 1 else []
    else:
        axes, world, rest = _parameter_axes(system, field, index)
    if world is not None and system.worlds > 1:
        extra.append(f"world {world}")
    label = _label(system, axes, tuple(rest)) or f"{field}{list(rest) if rest else ''}"
    return label + (f" ({', '.join(extra)})" if extra else "")


def _parameter_axes(system, field: str, index: tuple[int, ...]):
    """The names of the axes, the world (or None), and the rest of the index."""
    params = system.params
    if not hasattr(params, "axes"):
        return (), None, index
    axes = params.axes(field)
    per_world = len(index) > len(axes)
    if field == "inertia":
        axes = (axes[0], "inertia")
    return axes, index[0] if per_world else None, index[1:] if per_world else index


def _label(system, axes: tuple[str, ...], rest: tuple[int, ...]) -> str:
    model = getattr(system, "model", None)
    if model is None or len(axes) != len(rest):
        return ""
    return " ".join(_word(model, axis, i) for axis, i in zip(axes, rest, strict=True))


def _word(model, axis: str, i: int) -> str:
    if axis == "axis":
        return AXES[i]
    if axis == "inertia":
        return INERTIA[i]
    if axis == "coordinate":
        return _joint_word(model, model.joint_q, i, {FREE: FREE_COORDINATES, BALL: QUATERNION})
    if axis == "dof":
        return _joint_word(model, model.joint_v, i, {FREE: FREE_DOFS, BALL: AXES})
    if axis == "activation":
        owner, kind = int(model.activations.actuator[i]), model.activations.kind[i]
        what = kind if kind in (*STATES, SAMPLE) else "activation"  # an actuator may have several of the former
        return f"{what} of {_word(model, 'actuator', owner)}" if owner >= 0 else f"activation {i}"
    names = model.geoms.names if axis == "geom" else getattr(model, f"{axis}_names", ())
    unnamed = f"{axis} {i}"  # the name that a Model gives to elements without one
    return f"{axis} {names[i]!r}" if i < len(names) and names[i] != unnamed else unnamed


def _joint_word(model, first, i: int, parts: dict[int, tuple[str, ...]]) -> str:
    """The joint that owns an entry of q or v, and which component of the joint's coordinates the entry is."""
    joint = max(j for j in range(len(first)) if first[j] <= i)
    kind = int(model.joint_type[joint])
    part = f" {parts[kind][i - first[joint]]}" if kind in parts else ""
    return f"joint {model.joint_names[joint]!r}{part}"
