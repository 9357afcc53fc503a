"""Contacts of flexes: their vertices become spheres, which touch the geoms that the flex may touch.

With planes MuJoCo makes the same contacts, one per vertex. With other geoms, and between and within flexes, MuJoCo uses
the faces of the flex. These contacts are missing here, so the user must opt in by ignoring "flexface".
"""

from __future__ import annotations

import warnings
from collections.abc import Collection

import mujoco
import numpy as np

from pullback.core.errors import PullbackError
from pullback.model.unsupported import Disable, disabled, label, name_of, soft_flexes

BITS = 32  # of contype and conaffinity
PLANE, SPHERE = int(mujoco.mjtGeom.mjGEOM_PLANE), mujoco.mjtGeom.mjGEOM_SPHERE


def touching_flexes(m: mujoco.MjModel) -> np.ndarray:
    """The indices of flexes that may touch something."""
    return np.flatnonzero((m.flex_contype != 0) | (m.flex_conaffinity != 0))


def touched_geoms(m: mujoco.MjModel, f: int) -> np.ndarray:
    """The indices of geoms that a flex may touch."""
    return np.flatnonzero((m.flex_contype[f] & m.geom_conaffinity) | (m.geom_contype & m.flex_conaffinity[f]))


def touches_by_faces(m: mujoco.MjModel, f: int) -> bool:
    """Whether MuJoCo may make contacts of a flex other than between a vertex and a plane."""
    bits = (m.flex_contype[f] & m.flex_conaffinity) | (m.flex_contype & m.flex_conaffinity[f])
    itself = bits[f] and m.flex_selfcollide[f]
    others = np.any(np.delete(bits, f))
    return bool(itself or others or np.any(m.geom_type[touched_geoms(m, f)] != PLANE))


def flexes_to_convert(m: mujoco.MjModel, ignore: Collection[str]) -> list[int]:
    """The flexes whose vertices are converted to spheres."""
    if {"flex", "contact"} & set(ignore) or disabled(m, Disable.mjDSBL_CONTACT):
        return []
    may = set(touching_flexes(m)) & set(soft_flexes(m))
    return sorted(f for f in may if "flexface" in ignore or not touches_by_faces(m, f))


def with_spheres(spec: mujoco.MjSpec, ignore: Collection[str], vfs: mujoco.MjVfs | None = None) -> mujoco.MjModel:
    """The compiled model of a spec, with spheres at the vertices of its flexes instead of the flexes' own contacts."""
    m = spec.compile(vfs)
    flexes = flexes_to_convert(m, ignore)
    if not flexes:
        return m
    bodies = {body.id: body for body in spec.bodies}
    for f in flexes:
        first = int(m.flex_vertadr[f])
        for i in range(first, first + int(m.flex_vertnum[f])):
            bodies[int(m.flex_vertbodyid[i])].add_geom(
                name=f"{name_of(m, 'flex', f)} vertex {i - first}",
                type=SPHERE,
                size=[m.flex_radius[f], 0, 0],
                pos=np.zeros(3) if m.flex_centered[f] else m.flex_vert[i],
                mass=0,
                rgba=(0.5, 0.5, 0.5, 0),  # invisible: the flex itself is drawn
                friction=m.flex_friction[f],
                condim=int(m.flex_condim[f]),
                priority=int(m.flex_priority[f]),
                solref=m.flex_solref[f],
                solimp=m.flex_solimp[f],
                solmix=m.flex_solmix[f],
                margin=m.flex_margin[f],
                gap=m.flex_gap[f],
            )
    with warnings.catch_warnings():  # the first compilation has issued them
        warnings.simplefilter("ignore")
        converted = spec.compile(vfs)
    for f in flexes:
        bit = _free_bit(converted, f)
        name = f"{name_of(m, 'flex', f)} vertex "
        # compiling sorts geoms by body, so their indices are looked up by name
        spheres = [converted.geom(f"{name}{i}").id for i in range(int(m.flex_vertnum[f]))]
        converted.geom_contype[spheres] = converted.geom_conaffinity[spheres] = 0
        converted.geom_contype[touched_geoms(converted, f)] |= bit
        converted.geom_conaffinity[spheres] = bit
        converted.flex_contype[f] = converted.flex_conaffinity[f] = 0
    return converted


def _free_bit(m: mujoco.MjModel, f: int) -> int:
    """A contype bit that nothing else in the file uses, so that the spheres do not touch each other."""
    used = 0
    for name in ("geom_contype", "geom_conaffinity", "flex_contype", "flex_conaffinity"):
        used |= int(np.bitwise_or.reduce(getattr(m, name).astype(np.int64) & 0xFFFFFFFF, initial=0))
    free = [1 << i for i in range(BITS - 1) if not used >> i & 1]
    if not free:
        raise PullbackError(
            f"{label(m, 'flex', f)} needs a bit of contype that no geom uses, and there is none left: use fewer"
        )
    return free[0]
