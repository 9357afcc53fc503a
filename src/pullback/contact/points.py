"""Shapes as convex hulls of points, for long-range contact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    from pullback.contact.scene import Scene

PLANE, SPHERE, CAPSULE, CYLINDER, BOX, MESH = 0, 2, 3, 5, 6, 7
HULL_KINDS = (PLANE, SPHERE, CAPSULE, CYLINDER, BOX, MESH)
RING = 12  # points on each rim of a cylinder
LEAF_POINTS = 3 + 2 * RING  # of a triangle, and of the largest shape that is not a mesh


@dataclass(frozen=True)
class Points:
    """The points of all shapes, concatenated; a plane has none. ``first`` ends with the total."""

    first: np.ndarray  # (nshape + 1,)
    local: np.ndarray  # (n, 3) in units of the shape's sizes [1]; for a mesh in its frame [m]

    @staticmethod
    def of(scene: Scene) -> Points:
        each = [_points(scene, shape) for shape in range(len(scene.geoms))]
        return Points(np.cumsum([0, *map(len, each)]), np.concatenate([np.zeros((0, 3)), *each]))


def _points(scene: Scene, shape: int) -> np.ndarray:
    kind = int(scene.kind[shape])
    if kind == SPHERE:
        return np.zeros((1, 3))
    if kind == CAPSULE:
        return np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    if kind == BOX:
        return np.stack(np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]), axis=-1).reshape(8, 3)
    if kind == CYLINDER:
        angle = 2 * np.pi * np.arange(RING) / RING
        rim = np.stack([np.cos(angle), np.sin(angle), np.ones(RING)], axis=-1)
        return np.concatenate([rim, rim * [1, 1, -1]])
    if kind == MESH:
        return scene.hulls.vertex[scene.hulls.first_vertex[shape] : scene.hulls.first_vertex[shape + 1]]
    return np.zeros((0, 3))


def pair_masses(scene: Scene) -> np.ndarray:
    """The reduced mass m₁ m₂ / (m₁ + m₂) of the trees that the shapes of each pair belong to (npair,) [kg]. Fixed ones
    count as infinitely heavy."""
    m = scene.model.mujoco
    root = m.body_rootid[scene.body]
    moves = m.body_weldid[scene.body] != 0
    inverse = np.where(moves, 1 / np.maximum(m.body_subtreemass[root], mujoco.mjMINVAL), 0.0)
    return 1 / np.maximum(inverse[scene.pair_shapes].sum(axis=1), mujoco.mjMINVAL)


def inner_radii(scene: Scene) -> np.ndarray:
    """The radius of a ball inside each shape (nshape,) [m]; for a mesh, half of the largest in its bounding box."""
    m = scene.model.mujoco
    half = m.geom_aabb[scene.geoms, 3:].min(axis=1)
    return np.where(scene.kind == MESH, 0.5, 1.0) * np.maximum(half, mujoco.mjMINVAL)
