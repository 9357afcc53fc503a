"""Convex hulls of meshes as MuJoCo's compiler computes them: corners, edges and faces; and height fields as prisms."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from pullback.core.errors import PullbackError
from pullback.model.unsupported import name_of

MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
HEIGHT_FIELD = int(mujoco.mjtGeom.mjGEOM_HFIELD)

# The most prisms of a height field; each takes about half a kilobyte.
MOST_PRISMS = 200_000
# The neighbours of each corner of a prism: the others at its end, and the one above or below it. Bottom corners first.
PRISM = np.array([[1, 2, 3], [0, 2, 4], [0, 1, 5], [4, 5, 0], [3, 5, 1], [3, 4, 2]])


@dataclass(frozen=True)
class Hulls:
    """The hulls of all shapes, concatenated. Only meshes have one; a height field has the corners of its prisms, and no
    faces. Each array ``first_...`` ends with the total."""

    first_vertex: np.ndarray  # (nshape + 1,)
    radius: np.ndarray  # (nshape,) farthest distance of the hull or height field from the shape's origin [m]
    vertex: np.ndarray  # (n, 3) corners in the shape's frame, or from the prism's centre [m]
    first_neighbour: np.ndarray  # (n + 1,)
    neighbour: np.ndarray  # corners that share an edge
    first_face: np.ndarray  # (n + 1,)
    face: np.ndarray  # faces that meet in a corner
    face_normal: np.ndarray  # (nface, 3) outward
    first_corner: np.ndarray  # (nface + 1,)
    corner: np.ndarray  # corners of a face, in order around it

    @staticmethod
    def of(m: mujoco.MjModel, geoms: np.ndarray) -> Hulls:
        first_vertex, radius = [0], []
        vertices, normals = [np.zeros((0, 3))], [np.zeros((0, 3))]
        neighbours: list[np.ndarray] = []
        faces: list[np.ndarray] = []
        corners: list[np.ndarray] = []
        for geom in geoms:
            if m.geom_type[geom] == MESH:
                hull = _hull(m, int(m.geom_dataid[geom]), int(geom))
                neighbours += [np.add(near, len(faces)) for near in hull["neighbours"]]
                face_count = sum(len(x) for x in normals)
                corners += [np.add(around, len(faces)) for around in hull["corners"]]
                faces += [np.add(met, face_count) for met in hull["faces"]]
                vertices.append(hull["vertex"])
                normals.append(hull["normal"])
                reach = float(np.linalg.norm(hull["vertex"], axis=1).max())
            elif m.geom_type[geom] == HEIGHT_FIELD:
                corners_of, reach = prisms(m, int(m.geom_dataid[geom]))
                start = len(faces) + 6 * np.arange(len(corners_of) // 6)
                neighbours += list((start[:, None, None] + PRISM).reshape(-1, 3))
                faces += [np.zeros(0, int)] * len(corners_of)
                vertices.append(corners_of)
            else:
                reach = 0.0
            first_vertex.append(len(faces))
            radius.append(reach)
        first_neighbour, neighbour = _packed(neighbours)
        first_face, face = _packed(faces)
        first_corner, corner = _packed(corners)
        return Hulls(
            np.array(first_vertex), np.array(radius), np.concatenate(vertices), first_neighbour, neighbour,
            first_face, face, np.concatenate(normals), first_corner, corner,
        )  # fmt: skip


def prism_count(m: mujoco.MjModel, field: int) -> int:
    return 2 * int(m.hfield_nrow[field] - 1) * int(m.hfield_ncol[field] - 1)


def prisms(m: mujoco.MjModel, field: int) -> tuple[np.ndarray, float]:
    """Corners (n, 3) [m] of the prisms below the triangles of a height field, relative to each prism's centre, and the
    field's farthest distance from its origin. Each prism has three corners at the bottom, then the three above them. If
    there are too many prisms, none.

    The order is that of ``kernels/collision/height_field.py``, which computes the centres.
    """
    if prism_count(m, field) > MOST_PRISMS:
        return np.zeros((0, 3)), 0.0
    rows, columns = int(m.hfield_nrow[field]), int(m.hfield_ncol[field])
    half_x, half_y, top, depth = m.hfield_size[field]
    start = m.hfield_adr[field]
    x, y = np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows)
    z = top * m.hfield_data[start : start + rows * columns].reshape(rows, columns).astype(float)
    surface = np.stack([*np.meshgrid(x, y), z], axis=-1)  # (rows, columns, 3)
    below, above = surface[:-1], surface[1:]
    corners = np.stack([above[:, :-1], below[:, :-1], above[:, 1:], below[:, 1:]], axis=2)
    triangles = np.stack([corners[:, :, :3], corners[:, :, 1:]], axis=2).reshape(-1, 1, 3, 3)
    ends = np.repeat(triangles, 2, axis=1)
    ends[:, 0, :, 2] = -depth
    reach = np.linalg.norm(ends, axis=-1).max(initial=0.0)
    centre = triangles.mean(axis=2, keepdims=True)
    centre[..., 2] = -depth / 2
    return (ends - centre).reshape(-1, 3), float(reach)


def _packed(lists: list) -> tuple[np.ndarray, np.ndarray]:
    """Concatenated lists: the start of each, and all items."""
    return np.cumsum([0, *map(len, lists)]), np.concatenate([np.zeros(0, int), *lists]).astype(int)


def _hull(m: mujoco.MjModel, mesh: int, geom: int) -> dict:
    """The convex hull of one mesh. Corners keep the order of MuJoCo's graph, so that ties are broken in the same way.

    The graph is stored as: number of corners, of triangles, then for each corner the start of its edge list, its index
    in the mesh, and the edge lists, which count corners of the hull and are each ended by -1.
    """
    start = m.mesh_graphadr[mesh]
    if start < 0:
        raise PullbackError(f"the mesh of geom {name_of(m, 'geom', geom)!r} has no convex hull; is it flat?")
    first = m.mesh_vertadr[mesh]
    graph = m.mesh_graph[start:]
    count = int(graph[0])
    edge_start, original, edges = graph[2 : 2 + count], graph[2 + count : 2 + 2 * count], graph[2 + 2 * count :]
    corner_of = {int(v): i for i, v in enumerate(original)}
    polygons = slice(m.mesh_polyadr[mesh], m.mesh_polyadr[mesh] + m.mesh_polynum[mesh])
    around = zip(m.mesh_polyvertadr[polygons], m.mesh_polyvertnum[polygons], strict=True)
    met = ((m.mesh_polymapadr[first + v], m.mesh_polymapnum[first + v]) for v in original)
    return {
        "vertex": m.mesh_vert[first + original].astype(np.float64),
        "neighbours": [edges[at : at + int(np.argmax(edges[at:] < 0))] for at in edge_start],
        "normal": m.mesh_polynormal[polygons].astype(np.float64),
        "corners": [[corner_of[int(v)] for v in m.mesh_polyvert[at : at + n]] for at, n in around],
        "faces": [m.mesh_polymap[at : at + n] for at, n in met],
    }
