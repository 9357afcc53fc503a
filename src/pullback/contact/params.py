"""The parameters that all contact models read, and their positions in the kernels' fields.

Kernels have one *material* per shape, followed by one per explicit pair. Vectors in a field may be longer than the
parameter; the rest is zero.
"""

from __future__ import annotations

from functools import partial

import mujoco
import numpy as np

from pullback.contact.scene import SIZES, Scene, geom_frames
from pullback.core.params import Parameter, has_direction, not_negative
from pullback.model.unsupported import EQ_WELD
from pullback.spatial import quat_bar_of_tangent, unit

SOLREF = "must be two positive numbers (time constant, damping ratio) or two negative ones (-k, -b)"


def geom_parameters(m: mujoco.MjModel, geoms: np.ndarray, sizes: np.ndarray) -> dict[str, Parameter]:
    """Poses and sizes of the geoms that are shapes, in this order. sizes: (n,) how many sizes each geom uses."""
    if not len(geoms):
        return {}
    pos, quat = geom_frames(m)
    turn, matters = (unit, quat_bar_of_tangent), np.zeros((m.ngeom, 3), bool)
    matters[geoms] = np.arange(3) < sizes[:, None]
    axis, entry, bounds = ("geom", "axis"), ("geom", "entry"), partial(_positive_where, matters)
    return {
        "geom_pos": Parameter("m", axis, pos, field="shape_pos", of=geoms),
        "geom_quat": Parameter("1", entry, quat, has_direction, field="shape_quat", of=geoms, form=turn),
        "geom_size": Parameter("m", entry, m.geom_size, bounds, field="shape_size", of=geoms),
    }


def shared_parameters(scene: Scene) -> dict[str, Parameter]:
    """The parameters that all contact models read, by name."""
    m, geoms = scene.model.mujoco, scene.geoms
    table: dict[str, Parameter] = {}
    own, pairs = materials(scene, "friction", 5)
    if len(geoms):
        table |= geom_parameters(m, geoms, size_counts(scene))
        rub = (_all_directions, _all_directions_adjoint)
        table["friction"] = Parameter("1, m, m", ("geom", "entry"), m.geom_friction, not_negative, form=rub, **own)
    if len(scene.explicit):
        value = m.pair_friction[scene.explicit]
        table["pair_friction"] = Parameter("1, 1, m, m, m", ("pair", "entry"), value, not_negative, **pairs)
    if len(scene.limited):
        ordered, at = partial(_low_first, scene.limited), limits(scene, "limit", 2)[0]
        table["joint_range"] = Parameter("rad or m", ("joint", "entry"), m.jnt_range, ordered, **at)
    if len(scene.limited_tendons):
        ordered, at = partial(_low_first, scene.limited_tendons), limits(scene, "limit", 2)[1]
        table["tendon_range"] = Parameter("rad or m", ("tendon", "entry"), m.tendon_range, ordered, **at)
    own, tendons = joints_and_tendons("loss", scene.lossy, scene.lossy_tendons)
    if len(scene.lossy):
        table["frictionloss"] = Parameter("N·m or N", ("dof",), m.dof_frictionloss, not_negative, **own)
    if len(scene.lossy_tendons):
        value = m.tendon_frictionloss
        table["tendon_frictionloss"] = Parameter("N·m or N", ("tendon",), value, not_negative, **tendons)
    return table


def equality_parameters(scene: Scene) -> dict[str, Parameter]:
    """The geometry of equality constraints: coefficients, anchors and relative orientations."""
    m, loops = scene.model.mujoco, scene.loops
    axes, table = ("equality", "entry"), {}
    if len(scene.equalities):
        unit_, value = "rad or m, per power of rad or m", m.eq_data[:, :5]
        table["equality_polycoef"] = Parameter(unit_, axes, value, field="equality", of=scene.equalities)
    if len(loops.index):
        points, quats = np.zeros((m.neq, 2, 3)), np.tile((1.0, 0.0, 0.0, 0.0), (m.neq, 1))
        points[loops.index], quats[loops.index] = loops.point, loops.quat
        apart, turn = (_one_after_the_other, _by_pair), (unit, quat_bar_of_tangent)
        table["equality_anchor"] = Parameter(
            "m", ("equality", "side", "axis"), points, field="loop_point", of=loops.index, form=apart
        )
        welds = loops.rows == 6
        if np.any(welds):
            at = {"of": loops.index[welds], "at": (np.flatnonzero(welds),)}
            blank, ones = np.tile((1.0, 0.0, 0.0, 0.0), (len(welds), 1)), np.ones(len(welds))
            table["equality_quat"] = Parameter(
                "1", axes, quats, has_direction, field="loop_quat", form=turn, blank=blank, **at
            )
            scale = np.where(m.eq_type == EQ_WELD, m.eq_data[:, 10], 0.0)
            table["equality_torquescale"] = Parameter("m", ("equality",), scale, field="loop_scale", blank=ones, **at)
    return table


def equality_law(scene: Scene) -> dict[str, Parameter]:
    """The solref and solimp of equality constraints."""
    m, of, axes, table = scene.model.mujoco, scene.all_equalities, ("equality", "entry"), {}
    if len(of):
        signs = partial(of_one_sign, of)
        table["equality_solref"] = Parameter("s, 1 or 1/s², 1/s", axes, m.eq_solref, signs, of=of)
        table["equality_solimp"] = Parameter("1, 1, rad or m, 1, 1", axes, m.eq_solimp, of=of)
    return table


# --- positions of numbers in a field: keywords of a Parameter -----------------------------------------


def materials(scene: Scene, field: str, width: int) -> tuple[dict, dict]:
    """Keywords for geoms, and for explicit pairs, in a field with ``width`` numbers per material."""
    shapes = len(scene.geoms)
    blank = np.zeros((shapes + len(scene.explicit), width))
    own = {"field": field, "of": scene.geoms, "blank": blank, "at": (slice(shapes),)}
    return own, {"field": field, "blank": blank, "at": (slice(shapes, None),)}


def joints_and_tendons(field: str, joints: np.ndarray, tendons: np.ndarray, *width: int) -> tuple[dict, dict]:
    """Keywords for joints, and for tendons, in a field that has joints first."""
    if not len(tendons):
        return {"field": field, "of": joints}, {}
    blank, first = np.zeros((len(joints) + len(tendons), *width)), len(joints)
    own = {"field": field, "of": joints, "blank": blank, "at": (slice(first),)}
    return own, {"field": field, "of": tendons, "blank": blank, "at": (slice(first, None),)}


def limits(scene: Scene, field: str, width: int) -> tuple[dict, dict]:
    """Keywords for limits of joints, and of tendons, with ``width`` numbers each."""
    return joints_and_tendons(field, scene.limited, scene.limited_tendons, width)


def limit_column(scene: Scene, field: str, number: int) -> tuple[dict, dict]:
    """Keywords for one number per limit of a joint, and of a tendon, in a field of two numbers per limit."""
    first = len(scene.limited)
    common = {"field": field, "blank": np.zeros((first + len(scene.limited_tendons), 2))}
    own = {"of": scene.limited, "at": (slice(first), number)}
    return common | own, common | {"of": scene.limited_tendons, "at": (slice(first, None), number)}


def column(field: str, number: int, items: np.ndarray) -> dict:
    """Keywords for one number per item, in a field of two numbers per item."""
    return {"field": field, "of": items, "blank": np.zeros((len(items), 2)), "at": (slice(None), number)}


def constant(field: str, number: int) -> dict:
    """Keywords for one number per world, in a field of four numbers."""
    return {"field": field, "blank": np.zeros((1, 4)), "at": (0, number)}


# --- forms and bounds -------------------------------------------------------------------------------


def _all_directions(friction: np.ndarray) -> np.ndarray:
    """From (sliding, torsional, rolling) friction to (sliding, sliding, torsional, rolling, rolling)."""
    return friction[..., [0, 0, 1, 2, 2]]


def _all_directions_adjoint(friction: np.ndarray, bar: np.ndarray) -> np.ndarray:
    return np.stack([bar[..., 0] + bar[..., 1], bar[..., 2], bar[..., 3] + bar[..., 4]], axis=-1)


def _one_after_the_other(points: np.ndarray) -> np.ndarray:
    """Pairs (worlds, n, 2, 3) as (worlds, 2n, 3)."""
    return points.reshape(len(points), -1, 3)


def _by_pair(points: np.ndarray, bar: np.ndarray) -> np.ndarray:
    return bar.reshape(len(bar), -1, 2, 3)


def mixed_sign(solref: np.ndarray) -> np.ndarray:
    """Where exactly one of the two numbers is positive, (...): MuJoCo would replace both by defaults."""
    return (solref[..., 0] > 0) != (solref[..., 1] > 0)


def of_one_sign(used: np.ndarray, solref: np.ndarray) -> tuple[np.ndarray, str]:
    return mixed_sign(solref) & np.isin(np.arange(solref.shape[-2]), used), SOLREF


def _low_first(limited: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, str]:
    used = np.isin(np.arange(ranges.shape[-2]), limited)
    return (ranges[..., 0] > ranges[..., 1]) & used, "must have its lower limit first"


def size_counts(scene: Scene) -> np.ndarray:
    """The number of sizes that each shape uses (nshape,)."""
    return np.array([SIZES.get(int(kind), 0) for kind in scene.kind], int)


def _positive_where(matters: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, str]:
    return (value <= 0) & matters, "must be positive, but is {:g}"
