"""Triangles: the surfaces of simple shapes, and normals that keep edges sharp and round things round."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

# Faces of a mesh that meet at a smaller angle are shaded as one smooth surface; a sharper edge stays visible.
CREASE_ANGLE = math.radians(35.0)
ROUND = 32  # sides of what is round
CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])  # of a box
GOLDEN = (1 + math.sqrt(5)) / 2
# An arrow of length one: the shaft's radius, the head's, and where the head begins. [1]
SHAFT, HEAD, NECK = 0.45, 1.0, 0.7


class Surface(NamedTuple):
    """Triangles with a normal at each vertex. Where a vertex lies on an edge it is there once for each side."""

    vertices: np.ndarray  # (n, 3) float32 [m]
    normals: np.ndarray  # (n, 3) int8, of length 127: finer than anyone sees
    faces: np.ndarray  # (m, 3) int32, counter-clockwise from outside
    source: np.ndarray  # (n,) int32, which of the vertices that it was made from


def surface(vertices: np.ndarray, faces: np.ndarray) -> Surface:
    """A mesh with normals: corners that share a vertex and a normal become one vertex."""
    quantised = np.round(crease_normals(vertices, faces) * 127.0).astype(np.int64)
    unique, indices = np.unique(np.column_stack([faces.reshape(-1, 1), quantised]), axis=0, return_inverse=True)
    at = np.asarray(vertices, dtype=np.float32)[unique[:, 0]]
    source = unique[:, 0].astype(np.int32)
    return Surface(at, unique[:, 1:].astype(np.int8), indices.reshape(-1, 3).astype(np.int32), source)


def moved_surface(mesh: Surface, vertices: np.ndarray) -> Surface:
    """A mesh whose vertices (n, 3) have moved: its creases stay where they were."""
    corners = vertices[mesh.faces].astype(np.float64)
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.zeros((len(vertices), 3))
    for corner in mesh.faces.T:
        np.add.at(normals, corner, across)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    return mesh._replace(vertices=vertices, normals=np.round(127 * normals).astype(np.int8))


def two_sides(places: np.ndarray, triangles: np.ndarray, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of cloth that moves, each so far from its middle: places (frames, 2 n, 3) and faces.

    Each is lit from its own side.
    """
    corners = places[:, triangles]
    across = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0])
    normals = np.zeros(places.shape)
    for corner in triangles.T:
        np.add.at(normals, (slice(None), corner), across)
    normals *= apart / np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-30)
    faces = np.concatenate([triangles, triangles[:, ::-1] + places.shape[1]])
    return np.concatenate([places + normals, places - normals], axis=1), faces


def crease_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """A unit normal for each corner of each face, (3m, 3): the mean over the faces around that meet without a crease.

    MuJoCo stores normals too, but averages them over sharp edges, which makes machined parts look inflated.
    """
    corners = vertices[faces].astype(np.float64)
    area_normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(area_normals, axis=1, keepdims=True)
    directions = np.divide(area_normals, lengths, out=np.zeros_like(area_normals), where=lengths > 0.0)

    # Files repeat a vertex where textures have seams; such copies are one point of the surface.
    point_of_vertex = np.unique(vertices, axis=0, return_inverse=True)[1].ravel()
    by_point = np.argsort(point_of_vertex[faces.ravel()], kind="stable")
    points = point_of_vertex[faces.ravel()][by_point]
    face_of = by_point // 3
    _, start, count = np.unique(points, return_index=True, return_counts=True)
    start, count = np.repeat(start, count), np.repeat(count, count)

    sums = area_normals[face_of].copy()
    position = np.arange(len(points)) - start
    for shift in range(1, int(count.max(initial=1))):  # each corner meets the others at its point, one after another
        here = np.flatnonzero(count > shift)
        mine, other = face_of[here], face_of[start[here] + (position[here] + shift) % count[here]]
        smooth = np.einsum("ij,ij->i", directions[mine], directions[other]) > math.cos(CREASE_ANGLE)
        sums[here[smooth]] += area_normals[other[smooth]]
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    normals = np.empty_like(sums)
    normals[by_point] = np.divide(sums, lengths, out=np.tile([0.0, 0.0, 1.0], (len(sums), 1)), where=lengths > 0.0)
    return normals


# --- simple shapes ----------------------------------------------------------------------------------------------------


_POLAR = np.linspace(0.0, np.pi, ROUND // 2 + 1)
# Of size one: (r, z) from top to bottom, turned about z.
OUTLINES = {
    "sphere": (np.sin(_POLAR), np.cos(_POLAR)),
    "cylinder": (np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, -1.0, -1.0])),
    "arrow": (np.array([0.0, HEAD, SHAFT, SHAFT, 0.0]), np.array([1.0, NECK, NECK, 0.0, 0.0])),
}


@cache
def simple_surface(kind: str, size: tuple[float, float, float]) -> Surface:
    """The surface of a "sphere", "box", "cylinder", "capsule" or "arrow".

    size [m]: half axes of a sphere, half edges of a box; of a cylinder and of a capsule's straight part the radius,
    twice, and half of the length. An arrow reaches from the origin along z; size is the radius of its head, twice, and
    its length.
    """
    radius, _, length = size
    if kind == "box":
        vertices, faces = _box()
    elif kind == "capsule":  # scaled as a whole its ends would not be round
        up = np.linspace(0.0, np.pi / 2, ROUND // 4 + 1)
        r = radius * np.concatenate([np.sin(up), np.cos(up)])
        z = np.concatenate([length + radius * np.cos(up), -length - radius * np.sin(up)])
        return surface(*_turned(r, z))
    else:
        vertices, faces = _turned(*OUTLINES[kind])
    return surface(vertices * size, faces)


def _turned(r: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An outline (r, z) from top to bottom, turned about z."""
    angle = np.linspace(0.0, 2.0 * np.pi, ROUND, endpoint=False)
    vertices = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle)), np.outer(z, np.ones(ROUND))], axis=-1)
    row, column = (x.ravel() for x in np.meshgrid(np.arange(len(r) - 1), np.arange(ROUND), indexing="ij"))
    here, beside = row * ROUND + column, row * ROUND + (column + 1) % ROUND
    faces = np.concatenate(
        [np.stack([here, here + ROUND, beside], 1), np.stack([beside, here + ROUND, beside + ROUND], 1)]
    )
    corners = vertices.reshape(-1, 3)[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return vertices.reshape(-1, 3), faces[area > 1e-12 * area.max()]


@cache
def bead() -> Surface:
    """A ball of radius one of few triangles, for where there are thousands: an icosahedron that is shaded as round."""
    corners = np.array([(0, a, b * GOLDEN) for a in (-1, 1) for b in (-1, 1)])
    corners = np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)]) / math.hypot(1, GOLDEN)
    near = np.linalg.norm(corners[:, None] - corners, axis=-1) < 1.1  # edges are 1.05 long
    faces = [
        (a, b, c) if np.linalg.det(corners[[a, b, c]]) > 0 else (a, c, b)
        for a, b, c in combinations(range(12), 3)
        if near[a, b] and near[b, c] and near[a, c]
    ]
    # A little larger than one: the middles of its faces are nearer.
    return Surface(
        (1.1 * corners).astype(np.float32),
        np.round(127 * corners).astype(np.int8),
        np.array(faces, dtype=np.int32),
        np.arange(12, dtype=np.int32),
    )


def _box() -> tuple[np.ndarray, np.ndarray]:
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return CORNERS, np.array([face for a, b, c, d in sides for face in ((a, b, c), (a, c, d))])
