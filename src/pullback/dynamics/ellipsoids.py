"""Geoms with ``fluidshape="ellipsoid"`` in the file, as the kernels' struct, and their parameters."""

from __future__ import annotations

import mujoco
import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.core.params import Parameter
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.integrators import has_fluid

Geom = mujoco.mjtGeom
# Columns of MuJoCo's table geom_fluid: the five coefficients, and added mass and inertia per density.
COEFFICIENTS, MASS, INERTIA = slice(1, 6), slice(6, 9), slice(9, 12)


def ellipsoid_geoms(model: Model) -> np.ndarray:
    """The indices of these geoms; empty without a fluid."""
    m = model.mujoco
    if not has_fluid(model):
        return np.zeros(0, int)
    return np.flatnonzero((m.geom_fluid[:, 0] > 0) & (m.body_mass[m.geom_bodyid] >= mujoco.mjMINVAL))


def ellipsoids_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Ellipsoids."""
    module, m, ids = specialise(flavour.precision, "tree.ellipsoids"), model.mujoco, ellipsoid_geoms(model)
    result = module.Ellipsoids()
    s = np.array([_semi_axes(int(m.geom_type[i]), m.geom_size[i]) for i in ids]).reshape(-1, 3)
    least, middle, most = np.sort(s, axis=1).T[:, :, None]
    wider = np.column_stack([np.maximum(s[:, (i + 1) % 3], s[:, (i + 2) % 3]) for i in range(3)])
    fields = {
        "pos": m.geom_pos[ids],
        "quat": m.geom_quat[ids],
        "sides": (least / s) ** 2,
        "mass": m.geom_fluid[ids, MASS],
        "inertia": m.geom_fluid[ids, INERTIA],
        "drag": 8 / 15 * np.pi * s * wider**4,
        "largest": np.hstack([np.pi * most * middle, 8 / 15 * np.pi * middle * most**4, 2 * s.mean(1, keepdims=True)]),
    }
    for name, value in fields.items():
        kind = module.vec4 if name == "quat" else module.vec3
        setattr(result, name, wp.array(value.astype(flavour.precision), dtype=kind, device=device))
    volume = (4 / 3 * np.pi * s.prod(axis=1)).astype(flavour.precision)
    result.volume = wp.array(volume, dtype=PRECISIONS[flavour.precision], device=device)
    result.body = wp.array(m.geom_bodyid[ids].astype(np.int32), dtype=wp.int32, device=device)
    return result


def ellipsoid_parameters(model: Model) -> dict[str, Parameter]:
    """The coefficients of fluid forces on these geoms: MuJoCo's fluidcoef."""
    ids = ellipsoid_geoms(model)
    coef = Parameter("1", ("geom", "entry"), model.mujoco.geom_fluid[:, COEFFICIENTS], of=ids)
    return {"fluid_coef": coef} if len(ids) else {}


def _semi_axes(kind: int, size: np.ndarray) -> np.ndarray:
    """The semi-axes of the ellipsoid that MuJoCo uses for a geom."""
    if kind == Geom.mjGEOM_SPHERE:
        return np.repeat(size[0], 3)
    if kind == Geom.mjGEOM_CAPSULE:
        return np.array([size[0], size[0], size[1] + size[0]])
    if kind == Geom.mjGEOM_CYLINDER:
        return np.array([size[0], size[0], size[1]])
    return size
