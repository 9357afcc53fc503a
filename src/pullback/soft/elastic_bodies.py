"""Solids and cloth: the bodies of a :class:`pullback.soft.Elastic`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind, check_wholes
from pullback.core.errors import PullbackError
from pullback.soft.elastic_materials import Membrane, SolidMaterial
from pullback.soft.shapes import vector

# The six tetrahedra of a cube around its diagonal. Its corners are numbered by bits: x + 2 y + 4 z.
CUBE = np.array([(0, 1, 3, 7), (0, 3, 2, 7), (0, 2, 6, 7), (0, 6, 4, 7), (0, 4, 5, 7), (0, 5, 1, 7)])
# An element smaller than this, relative to the cube or square of its longest edge, is degenerate. [1]
FLAT = 1e-9


@dataclass(frozen=True, eq=False)
class Solid:
    """A mesh of tetrahedra at rest.

    points:  (n, 3) [m]
    tets:    (m, 4) corners; the first three are counterclockwise when seen from the fourth
    name:    for messages
    """

    points: np.ndarray
    tets: np.ndarray
    material: SolidMaterial
    name: str = ""

    def __post_init__(self):
        check_kind(self.material, SolidMaterial, "material", "soft.StableNeoHookean(young=1e5, density=1e3)")
        points, tets = _mesh(self.points, self.tets, 4, "tets")
        edges = points[tets[:, 1:]] - points[tets[:, :1]]
        volume = np.linalg.det(edges) / 6
        _refuse(volume, FLAT * np.linalg.norm(edges, axis=-1).max(axis=1) ** 3, "tetrahedron", "volume", "two corners")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "tets", tets)


@dataclass(frozen=True, eq=False)
class Cloth:
    """A mesh of triangles at rest. Its bending energy is that of cloth cut from a flat sheet.

    points:     (n, 3) [m]
    triangles:  (m, 3) corners
    name:       for messages
    """

    points: np.ndarray
    triangles: np.ndarray
    material: Membrane
    name: str = ""

    def __post_init__(self):
        check_kind(self.material, Membrane, "material", "soft.Membrane(young=1e3, density=0.2)")
        points, triangles = _mesh(self.points, self.triangles, 3, "triangles")
        edges = points[triangles[:, 1:]] - points[triangles[:, :1]]
        area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=-1) / 2
        _refuse(area, FLAT * np.linalg.norm(edges, axis=-1).max(axis=1) ** 2, "triangle", "area", "")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "triangles", triangles)


def solid_block(low, high, cells, material: SolidMaterial, *, name: str = "") -> Solid:
    """A :class:`Solid` that fills the box from ``low`` to ``high`` (3,) [m]; cells (3,): cubes along each axis."""
    low, high = (vector(x, n) for x, n in ((low, "low"), (high, "high")))
    cells = check_wholes(cells, "cells")
    if len(cells) != 3 or not np.all(low < high):
        raise PullbackError("low, high and cells of a solid_block must be three numbers each, and low be below high")
    axes = [np.linspace(a, b, count + 1) for a, b, count in zip(low, high, cells, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(len(points)).reshape([count + 1 for count in cells])
    corners = [
        number[i : i + cells[0], j : j + cells[1], k : k + cells[2]] for k in (0, 1) for j in (0, 1) for i in (0, 1)
    ]
    cubes = np.stack([c.ravel() for c in corners], axis=1)
    return Solid(points, cubes[:, CUBE].reshape(-1, 4), material, name)


def sheet(corner, along, across, cells, material: Membrane, *, name: str = "") -> Cloth:
    """A rectangle of :class:`Cloth` from a corner along two edges (3,) [m]; cells (2,): squares along each."""
    corner, along, across = (vector(x, n) for x, n in ((corner, "corner"), (along, "along"), (across, "across")))
    cells = check_wholes(cells, "cells")
    if len(cells) != 2:
        raise PullbackError(f"cells of a sheet must be two numbers, not {len(cells)}")
    rows, columns = cells
    s, t = np.meshgrid(np.linspace(0, 1, rows + 1), np.linspace(0, 1, columns + 1), indexing="ij")
    points = (corner + s[..., None] * along + t[..., None] * across).reshape(-1, 3)
    number = np.arange(len(points)).reshape(rows + 1, columns + 1)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    # Diagonals alternate, so that no diagonal direction is stiffer than the other.
    even = (np.add.outer(np.arange(rows), np.arange(columns)) % 2 == 0)[..., None]
    first = np.where(even, np.stack([a, b, c], axis=-1), np.stack([a, b, d], axis=-1))
    second = np.where(even, np.stack([a, c, d], axis=-1), np.stack([b, c, d], axis=-1))
    return Cloth(points, np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)]), material, name)


def _mesh(points, elements, corners: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    points, elements = to_numbers(points, "points").astype(float), to_numbers(elements, name)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise PullbackError(f"points must be finite and of shape (n, 3), not {points.shape}")
    if elements.ndim != 2 or elements.shape[1] != corners or not len(elements) or elements.dtype.kind not in "iu":
        raise PullbackError(f"{name} must be whole numbers of shape (m, {corners}), not {elements.shape}")
    if elements.min() < 0 or elements.max() >= len(points):
        element = int(np.argwhere((elements < 0) | (elements >= len(points)))[0, 0])
        raise PullbackError(f"row {element} of {name} names a point that is not there: there are {len(points)}")
    used = np.zeros(len(points), dtype=bool)
    used[elements] = True
    if not used.all():
        raise PullbackError(f"point {int(np.argmin(used))} belongs to none of the {name}, so that it has no mass")
    return points, elements.astype(np.int32)


def _refuse(content: np.ndarray, least: np.ndarray, kind: str, what: str, swap: str) -> None:
    """Raises an error that names the first element whose volume or area is zero or negative."""
    bad = ~(content > least)
    if np.any(bad):
        element = int(np.argmax(bad))
        inverted = bool(swap) and content[element] < -least[element]
        remedy = f"is inverted at rest: swap {swap} of it" if inverted else f"has no {what} at rest"
        raise PullbackError(f"{kind} {element} {remedy} ({what} {content[element]:.3g})")


Bodies = Sequence[Solid | Cloth]
