"""Geoms of a robot as shapes among soft bodies."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import unknown
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.soft import Shape
from pullback.soft.shapes import SIZES

KINDS = {
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
    mujoco.mjtGeom.mjGEOM_BOX: "box",
}


def geom_shapes(model: Model, names: Sequence[str], friction, soft) -> tuple[np.ndarray, list[Shape]]:
    """The bodies that the geoms are fixed to (n,), and a Shape for each geom, at its pose in the body's frame.

    soft:  the System that is in contact with them
    """
    known = model.geoms.names
    if not names:
        raise PullbackError("shapes must name at least one geom of the robot that is felt")
    for name in names:
        if name not in known:
            raise PullbackError(unknown("geom", str(name), known))
    if len(set(names)) < len(names):
        raise PullbackError(f"each geom can be named once in shapes, not as in {list(names)}")
    which = np.array([known.index(name) for name in names])
    made = []
    for name, geom, mu in zip(names, which, _frictions(model, which, friction), strict=True):
        kind = KINDS.get(mujoco.mjtGeom(int(model.mujoco.geom_type[geom])))
        if kind not in soft.shape_kinds:
            such = mujoco.mjtGeom(int(model.mujoco.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
            raise PullbackError(
                f"geom {name!r} is of type {such!r}, which {type(soft).__name__} cannot feel: use "
                f"{', '.join(soft.shape_kinds)}, such as the box or capsule that fits it"
            )
        size = np.where(np.arange(3) < SIZES[kind], model.mujoco.geom_size[geom], 0.0)
        made.append(Shape(kind, size, model.geoms.pos[geom], model.geoms.quat[geom], mu))
    return model.geoms.body[which], made


def _frictions(model: Model, which: np.ndarray, friction) -> list[float]:
    """The friction of each geom, from the user or from the file."""
    if friction is None:
        return [float(mu) for mu in model.mujoco.geom_friction[which, 0]]
    given = to_numbers(friction, "friction").astype(float)
    if given.shape not in ((), (len(which),)) or not np.all(given >= 0):
        raise PullbackError(
            f"friction must be one number of at least zero, or one for each of the {len(which)} geoms, not {friction!r}"
        )
    return [float(mu) for mu in np.broadcast_to(given, len(which))]
