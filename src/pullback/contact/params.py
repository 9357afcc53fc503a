"""The differentiable parameters of contacts, limits and friction loss: as users see them and as kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pullback.contact.checks import SOLREF, mixed_sign
from pullback.contact.models import Contact, ContactCompliant, ContactConvex, ContactImpulse
from pullback.contact.scene import SIZES, Scene, geom_frames
from pullback.spatial import quat_bar_of_tangent, unit

Entry = tuple[str, tuple[str, ...], np.ndarray]  # unit, what the axes count, the file's value


SOLREF_UNIT = "s, 1 or 1/s², 1/s"
# How far the weight of everything sinks into a surface [m], and its moment at a metre turns a limit [rad], by default.
SINKS_IN, TURNS = 1e-3, 1e-2
STANDARD_GRAVITY = 9.81  # where the file has none [m/s²]
# Entries of the kernels' ``law``: row and column of each constant.
LAW = {
    **{"smoothing": (0, 0), "slip_speed": (0, 1)},
    **{"limit_smoothing": (1, 0), "joint_slip_speed": (1, 1)},
    **{"erp": (0, 0), "cfm": (0, 1), "slop": (1, 0)},
}
# Entries of the kernels' ``bounce`` (a shape) and of ``limit_solref`` (a limit) in other models than MuJoCo's.
BOUNCE = {"contact_stiffness": 0, "contact_dissipation": 1, "restitution": 0}
LIMIT = {"limit_stiffness": 0, "limit_dissipation": 1}


def contact_parameters(scene: Scene, contact: Contact) -> dict[str, Entry]:
    """Every parameter that this contact model reads, by name."""
    table = _of_any_model(scene)
    if isinstance(contact, ContactConvex):
        table |= _of_convex(scene)
    elif isinstance(contact, ContactCompliant):
        table |= _of_compliant(scene, contact)
    elif isinstance(contact, ContactImpulse):
        table |= _of_impulse(scene, contact)
    return table


def _of_any_model(scene: Scene) -> dict[str, Entry]:
    m = scene.model.mujoco
    table: dict[str, Entry] = {}
    if len(scene.geoms):
        pos, quat = geom_frames(m)
        table |= {
            "geom_pos": ("m", ("geom", "axis"), pos),
            "geom_quat": ("1", ("geom", "entry"), quat),
            "geom_size": ("m", ("geom", "entry"), m.geom_size),
            "friction": ("1, m, m", ("geom", "entry"), m.geom_friction),
        }
    if len(scene.explicit):
        table["pair_friction"] = ("1, 1, m, m, m", ("pair", "entry"), m.pair_friction[scene.explicit])
    if len(scene.limited):
        table["joint_range"] = ("rad or m", ("joint", "entry"), m.jnt_range)
    if len(scene.lossy):
        table["frictionloss"] = ("N·m or N", ("dof",), m.dof_frictionloss)
    return table


def _of_convex(scene: Scene) -> dict[str, Entry]:
    m = scene.model.mujoco
    table: dict[str, Entry] = {}
    if len(scene.geoms):
        table["solref"] = (SOLREF_UNIT, ("geom", "entry"), m.geom_solref)
        table["solimp"] = ("1, 1, m, 1, 1", ("geom", "entry"), m.geom_solimp)
    if len(scene.explicit):
        table["pair_solref"] = (SOLREF_UNIT, ("pair", "entry"), m.pair_solref[scene.explicit])
        table["pair_solimp"] = ("1, 1, m, 1, 1", ("pair", "entry"), m.pair_solimp[scene.explicit])
    if len(scene.limited):
        table["limit_solref"] = (SOLREF_UNIT, ("joint", "entry"), m.jnt_solref)
        table["limit_solimp"] = ("1, 1, rad or m, 1, 1", ("joint", "entry"), m.jnt_solimp)
    return table


def _of_compliant(scene: Scene, contact: ContactCompliant) -> dict[str, Entry]:
    m = scene.model.mujoco
    geoms, joints = np.ones(m.ngeom), np.ones(m.njnt)
    weight = float(m.body_mass.sum() * (np.linalg.norm(m.opt.gravity) or STANDARD_GRAVITY))
    table: dict[str, Entry] = {}
    if len(scene.geoms):
        stiffness = contact.contact_stiffness or 2 * weight / SINKS_IN  # two surfaces act in series
        table["contact_stiffness"] = ("N/m", ("geom",), geoms * stiffness)
        table["contact_dissipation"] = ("s/m", ("geom",), geoms * contact.contact_dissipation)
        table["smoothing"] = ("m", (), np.asarray(contact.smoothing))
        table["slip_speed"] = ("m/s", (), np.asarray(contact.slip_speed))
    if len(scene.limited):
        stiffness = contact.limit_stiffness or weight / TURNS
        table["limit_stiffness"] = ("N·m/rad or N/m", ("joint",), joints * stiffness)
        table["limit_dissipation"] = ("s/rad or s/m", ("joint",), joints * contact.limit_dissipation)
        table["limit_smoothing"] = ("rad or m", (), np.asarray(contact.limit_smoothing))
    if len(scene.lossy):
        table["joint_slip_speed"] = ("rad/s or m/s", (), np.asarray(contact.joint_slip_speed))
    return table


def _of_impulse(scene: Scene, contact: ContactImpulse) -> dict[str, Entry]:
    table: dict[str, Entry] = {}
    if len(scene.geoms):
        table["restitution"] = ("1", ("geom",), np.full(scene.model.mujoco.ngeom, contact.restitution))
    table["erp"] = ("1", (), np.asarray(contact.erp))
    if len(scene.geoms):
        table["slop"] = ("m", (), np.asarray(contact.slop))
    table["cfm"] = ("1/kg or 1/(kg·m²)", (), np.asarray(contact.cfm))
    return table


def check_contact_parameter(scene: Scene, name: str, array: np.ndarray) -> tuple[np.ndarray, str] | None:
    """Where a value is impossible, (..., item), and why."""
    if name in ("friction", "pair_friction"):
        return np.any(array < 0, axis=-1), "must not be negative"
    if name in ("slop", "frictionloss", "contact_dissipation", "limit_dissipation"):
        return array < 0, "must not be negative"
    if name in ("erp", "restitution"):
        return (array < 0) | (array > 1), "must be between 0 and 1"
    if name in ("contact_stiffness", "limit_stiffness", *LAW):
        return array <= 0, "must be positive"
    if name == "geom_size":
        count = np.array([SIZES.get(int(kind), 0) for kind in scene.model.mujoco.geom_type])
        matters = np.isin(np.arange(len(count)), scene.geoms)[:, None] & (np.arange(3) < count[:, None])
        return np.any((array <= 0) & matters, axis=-1), "must be positive"
    if name == "geom_quat":
        return np.linalg.norm(array, axis=-1) < 1e-12, "has no direction: it is of zero length"
    if name in ("solref", "limit_solref", "pair_solref"):
        used = {"solref": scene.geoms[scene.own_materials], "limit_solref": scene.limited}
        items = np.arange(array.shape[-2])
        return mixed_sign(array) & np.isin(items, used.get(name, items)), SOLREF
    if name == "joint_range":
        limited = np.isin(np.arange(array.shape[-2]), scene.limited)
        return (array[..., 0] > array[..., 1]) & limited, "must have its lower limit first"
    return None


# The kernels' fields that belong to contacts, and how many numbers an item has; 0: it is a number.
FIELDS = {
    **{"shape_pos": 3, "shape_quat": 4, "shape_size": 3, "friction": 6, "solref": 3, "solimp": 6, "bounce": 3},
    **{"limit": 3, "limit_solref": 3, "limit_solimp": 6, "loss": 0, "law": 3},
}


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """(..., size) with zeros at the end."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], size - array.shape[-1]))], axis=-1)


def stacked(*arrays: np.ndarray) -> np.ndarray:
    """Along items, after worlds have been broadcast."""
    worlds = max(len(a) for a in arrays)
    return np.concatenate([np.broadcast_to(a, (worlds, *a.shape[1:])) for a in arrays], axis=1)


def _columns(columns: dict[int, np.ndarray], width: int) -> np.ndarray:
    """An array (worlds, items, width) from some of its columns (1 or worlds, items)."""
    worlds = max(len(x) for x in columns.values())
    result = np.zeros((worlds, next(iter(columns.values())).shape[1], width))
    for column, value in columns.items():
        result[..., column] = value
    return result


def kernel_form(
    scene: Scene | None, contact: Contact | None, field: str, values: Mapping, batched: Callable[[str], np.ndarray]
) -> np.ndarray:
    """The kernels' array (1 or worlds, items, entries) of a field; empty if it is not needed."""
    width = FIELDS[field]
    empty = np.zeros((1, 0, width) if width else (1, 0))
    if scene is None:
        return empty
    geoms, limited = scene.geoms, scene.limited
    if field in ("shape_pos", "shape_size"):
        name = field.replace("shape", "geom")
        return batched(name)[:, geoms] if name in values else empty
    if field == "shape_quat":
        if "geom_quat" not in values:
            return empty
        return unit(batched("geom_quat")[:, geoms])
    if field == "friction":
        if "friction" not in values:
            return empty
        slide, torsion, roll = np.moveaxis(batched("friction")[:, geoms], -1, 0)
        own = padded(np.stack([slide, slide, torsion, roll, roll], axis=-1), 6)
        return stacked(own, padded(batched("pair_friction"), 6)) if "pair_friction" in values else own
    if field in ("solref", "solimp"):
        if field not in values:
            return empty
        own = padded(batched(field)[:, geoms], width)
        pair = f"pair_{field}"
        return stacked(own, padded(batched(pair), width)) if pair in values else own
    if field == "limit":
        return padded(batched("joint_range")[:, limited], 3) if "joint_range" in values else empty
    if field == "law":
        used = {name: batched(name) for name in LAW if name in values}
        law = np.zeros((max((len(x) for x in used.values()), default=1), 2, 3))
        for name, value in used.items():
            law[:, *LAW[name]] = value
        if isinstance(contact, ContactImpulse):
            law[:, 0, 2] = contact.rest_speed
        return law
    if field == "bounce" and any(name in values for name in BOUNCE):
        return _columns({BOUNCE[name]: batched(name)[:, geoms] for name in BOUNCE if name in values}, width)
    if field == "limit_solref" and "limit_stiffness" in values:
        return _columns({column: batched(name)[:, limited] for name, column in LIMIT.items()}, width)
    if field in ("limit_solref", "limit_solimp"):
        return padded(batched(field)[:, limited], width) if field in values else empty
    if field == "loss":
        return batched("frictionloss")[:, scene.lossy] if "frictionloss" in values else empty
    return empty


def user_form(scene: Scene, name: str, value: np.ndarray, total: Callable[[str], np.ndarray]) -> np.ndarray:
    """The cotangent of a parameter, in its own shape with an axis of worlds first, from those of the kernels."""
    if name in LAW:
        return total("law")[:, *LAW[name]]
    if name in BOUNCE or name in LIMIT:
        field, column, items = (
            ("bounce", BOUNCE, scene.geoms) if name in BOUNCE else ("limit_solref", LIMIT, scene.limited)
        )
        bar = total(field)[..., column[name]]
        result = np.zeros((len(bar), *value.shape[1:]))
        result[:, items] = bar
        return result
    field = {"geom_pos": "shape_pos", "geom_quat": "shape_quat", "geom_size": "shape_size"}.get(name, name)
    field = {"joint_range": "limit", "frictionloss": "loss"}.get(field, field.removeprefix("pair_"))
    bar = total(field)
    result = np.zeros((len(bar), *value.shape[1:]))
    shapes = len(scene.geoms)
    if name.startswith("pair_"):
        result[:] = bar[:, shapes:, : value.shape[-1]]
    elif name == "friction":
        own = bar[:, :shapes]
        result[:, scene.geoms] = np.stack([own[..., 0] + own[..., 1], own[..., 2], own[..., 3] + own[..., 4]], axis=-1)
    elif name == "geom_quat":
        result[:, scene.geoms] = quat_bar_of_tangent(value[:, scene.geoms], bar[..., :3])
    elif name in ("geom_pos", "geom_size", "solref", "solimp"):
        result[:, scene.geoms] = bar[:, :shapes, : value.shape[-1]]
    elif name == "frictionloss":
        result[:, scene.lossy] = bar
    else:
        result[:, scene.limited] = bar[..., : value.shape[-1]]
    return result
