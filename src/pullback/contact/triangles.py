"""Meshes as triangles in a hierarchy of balls, for long-range contact.

A node of the hierarchy stands for some triangles of a mesh. The centre of its ball is their centre of area. Its radius
is that of the smallest ball about this centre that contains the balls of both children. This is more than the triangles
need, but it guarantees that the children of two nodes with disjoint balls have disjoint balls too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pullback.core.errors import PullbackError
from pullback.model.unsupported import name_of

if TYPE_CHECKING:
    from pullback.contact.scene import Scene

MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
# A triangle whose area is less than this fraction of its longest edge squared has no usable normal [1].
FLAT = 1e-6


@dataclass(frozen=True)
class Balls:
    """The nodes of all meshes, concatenated, in the frames of their shapes; the nodes of a mesh follow its root."""

    root: np.ndarray  # (nshape,) -1 for shapes that are not meshes
    centre: np.ndarray  # (n, 3) of area [m]
    radius: np.ndarray  # (n,) [m]
    spread: np.ndarray  # (n,) mean square distance of the triangles' centres from the node's [m²]
    share: np.ndarray  # (n,) fraction of the mesh's area [1]
    child: np.ndarray  # (n,) the first of two consecutive children; for a leaf, -1 minus the index of its triangle
    corners: np.ndarray  # (3 ntriangle, 3) of triangles, three each [m]
    thickness: np.ndarray  # (nshape,) volume over area: a third of a ball's radius, half of a plate's thickness [m]
    depth: int  # the most levels below a root

    @staticmethod
    def of(scene: Scene) -> Balls:
        m = scene.model.mujoco
        known: dict[int, int] = {}  # mesh: root; several geoms may have the same mesh
        parts: list[dict[str, np.ndarray]] = []
        nodes, triangles, depth = 0, 0, 0
        root, thickness = np.full(len(scene.geoms), -1), np.zeros(len(scene.geoms))
        for shape, geom in enumerate(scene.geoms):
            if m.geom_type[geom] != MESH:
                continue
            mesh = int(m.geom_dataid[geom])
            corners = mesh_triangles(m, mesh)
            thickness[shape] = _thickness(corners)
            if mesh not in known:
                known[mesh] = nodes
                part, levels = hierarchy(corners)
                part["child"] = np.where(part["child"] < 0, part["child"] - triangles, part["child"] + nodes)
                parts.append(part)
                nodes, triangles, depth = nodes + len(part["child"]), triangles + len(corners), max(depth, levels)
            root[shape] = known[mesh]
        empty = {"centre": np.zeros((0, 3)), "corners": np.zeros((0, 3)), "child": np.zeros(0, int)}
        empty |= dict.fromkeys(("radius", "spread", "share"), np.zeros(0))
        joined = {name: np.concatenate([empty[name], *(part[name] for part in parts)]) for name in empty}
        return Balls(root=root, thickness=thickness, depth=depth, **joined)


def mesh_triangles(m: mujoco.MjModel, mesh: int) -> np.ndarray:
    """Corners (n, 3, 3) [m] of the triangles of a mesh; an error names a mesh that does not enclose a volume."""
    first, count = m.mesh_vertadr[mesh], m.mesh_vertnum[mesh]
    vertex = m.mesh_vert[first : first + count].astype(np.float64)
    face = m.mesh_face[m.mesh_faceadr[mesh] : m.mesh_faceadr[mesh] + m.mesh_facenum[mesh]]
    _check(vertex, face, f"mesh {name_of(m, 'mesh', mesh)!r}")
    return vertex[face]


def _check(vertex: np.ndarray, face: np.ndarray, name: str) -> None:
    remedy = "repair it, or use ContactLongRange(meshes='hull')"
    if not np.isfinite(vertex).all():
        raise PullbackError(f"vertex {int(np.argmin(np.isfinite(vertex).all(axis=1)))} of {name} is not finite")
    corners = vertex[face]
    edges = np.roll(corners, -1, axis=1) - corners
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    flat = area <= FLAT * np.square(edges).sum(axis=2).max(axis=1)
    if flat.any():
        raise PullbackError(f"triangle {int(np.argmax(flat))} of {name} has no area: {remedy}")
    same = np.unique(vertex, axis=0, return_inverse=True)[1].reshape(-1)[face]  # files may repeat a vertex
    there = np.stack([same, np.roll(same, -1, axis=1)], axis=-1).reshape(-1, 2).astype(np.int64)
    ways = np.sort(there @ [len(vertex), 1])
    back = np.sort(there[:, ::-1] @ [len(vertex), 1])
    if not np.array_equal(ways, back):
        open_edges = np.setxor1d(ways, back).size // 2
        what = (
            f"{open_edges} edges have no second triangle" if open_edges else "neighbouring triangles face opposite ways"
        )
        raise PullbackError(f"{name} is not closed: {what}; {remedy}")
    if _volume(corners) <= 0:
        raise PullbackError(f"the triangles of {name} face inward: reverse the order of their corners")


def _volume(corners: np.ndarray) -> float:
    return float(np.einsum("ti,ti->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


def _areas(corners: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2


def _thickness(corners: np.ndarray) -> float:
    return _volume(corners) / float(_areas(corners).sum())


def hierarchy(corners: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """The nodes of one mesh, from the root level by level, and the number of levels below the root.

    corners: (n, 3, 3) of triangles [m]. Nodes are split at the median along their longest axis.
    """
    middle, share = corners.mean(axis=1), _areas(corners)
    share = share / share.sum()
    order, begins = np.arange(len(corners)), np.array([0, len(corners)])
    levels = []  # for each level, where its nodes begin in its order of triangles, and that order
    while True:
        levels.append((begins, order))
        sizes = np.diff(begins)
        if sizes.max() == 1:
            break
        node = np.repeat(np.arange(len(sizes)), sizes)
        low, high = (f.reduceat(middle[order], begins[:-1]) for f in (np.minimum, np.maximum))
        axis = np.argmax(high - low, axis=1)
        order = order[np.lexsort((middle[order, axis[node]], node))]
        wide = sizes > 1
        halves = np.stack([sizes - sizes // 2, sizes // 2], axis=1)[wide].reshape(-1)
        order, begins = order[np.repeat(wide, sizes)], np.concatenate([[0], np.cumsum(halves)])
    return _fill(levels, corners, middle, share), len(levels) - 1


def _fill(levels: list, corners: np.ndarray, middle: np.ndarray, share: np.ndarray) -> dict[str, np.ndarray]:
    """Computes the nodes from the leaves up. A node becomes a leaf at the level where it has a single triangle."""
    found: list[dict[str, np.ndarray]] = []
    first = np.cumsum([0, *(len(begins) - 1 for begins, _ in levels)])
    for number in reversed(range(len(levels))):
        begins, order = levels[number]
        sizes, one = np.diff(begins), order[begins[:-1]]
        wide = np.flatnonzero(sizes > 1)
        here = {"centre": middle[one], "share": share[one], "spread": np.zeros(len(one)), "child": -1 - one}
        here["radius"] = np.linalg.norm(corners[one] - middle[one][:, None], axis=2).max(axis=1)
        if len(wide):
            below = {name: x.reshape(len(wide), 2, *x.shape[1:]) for name, x in found[-1].items()}
            here["share"][wide] = below["share"].sum(axis=1)
            part = below["share"] / here["share"][wide, None]
            here["centre"][wide] = np.einsum("nc,nci->ni", part, below["centre"])
            away = np.linalg.norm(below["centre"] - here["centre"][wide, None], axis=2)
            here["spread"][wide] = np.einsum("nc,nc->n", part, below["spread"] + away**2)
            here["radius"][wide] = (away + below["radius"]).max(axis=1)
            here["child"][wide] = first[number + 1] + 2 * np.arange(len(wide))
        found.append(here)
    joined = {name: np.concatenate([level[name] for level in reversed(found)]) for name in found[0]}
    return joined | {"corners": corners.reshape(-1, 3)}
