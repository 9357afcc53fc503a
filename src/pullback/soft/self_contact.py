"""Contact of elastic bodies with each other and themselves: surfaces, the kernels' struct, checks and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import require_space, upload
from pullback.core.errors import PullbackError
from pullback.kernels.status import OVERLAP
from pullback.soft.elastic_bodies import Bodies, Solid

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic

CONTACTS = 24  # default number of contacts in the workspace, per surface vertex
# Workspace per contact: for candidate pairs, and for Hessian blocks between vertices that share no element.
NEAR, BLOCKS = 4, 3
# An edge crosses a plane if both of its ends are farther from it than this, relative to their distance to a corner. [1]
FLAT = 1e-10
WIDEST = 0.25  # how far vertices may move before candidate pairs are searched again, relative to the mean edge [1]


class Surfaces:
    """Surface vertices (n,), faces (m, 3) and edges (k, 2) of all bodies, in the order of the leaves of their trees."""

    def __init__(self, points: np.ndarray, bodies: Bodies, offsets: np.ndarray):
        faces = [start + surface_faces(body) for body, start in zip(bodies, offsets, strict=False)]
        self.points, self.bodies, self.offsets = points, bodies, offsets
        faces = np.concatenate(faces)
        order, *self.face_tree = tree(points[faces].mean(axis=1))
        self.faces = faces[order]
        self.vertices = np.unique(faces)
        edges = np.unique(
            np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1), axis=0
        )
        order, *self.edge_tree = tree(points[edges].mean(axis=1))
        self.edges = edges[order]
        self.lengths = np.linalg.norm(points[self.edges[:, 1]] - points[self.edges[:, 0]], axis=1)

    def check_gap(self, gap: float) -> None:
        """Raises an error if a vertex of a face at rest is within the gap of the opposite edge."""
        corners = self.points[self.faces]
        sides = corners[:, [2, 0, 1]] - corners[:, [1, 2, 0]]
        heights = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)[:, None] / np.linalg.norm(sides, axis=2)
        face, corner = np.unravel_index(np.argmin(heights), heights.shape)
        if heights[face, corner] <= gap:
            raise PullbackError(
                f"the gap of {gap:g} m is too large for this mesh: vertex {self.faces[face, corner]} is "
                f"{heights[face, corner]:.3g} m from the edge across in its own triangle, and contact with neighbours "
                "would push it; use a smaller gap, or a coarser mesh"
            )

    def pieces(self) -> np.ndarray:
        """For each connected component, a vertex, and the range of its body's vertices (pieces, 3)."""
        label = np.arange(len(self.points))
        ends, changed = self.edges, True
        while changed:
            least = np.minimum(label[ends[:, 0]], label[ends[:, 1]])
            before = label.copy()
            for end in ends.T:
                np.minimum.at(label, end, least)
            label = label[label]
            changed = bool(np.any(label != before))
        roots = np.unique(label[self.vertices])
        body = np.searchsorted(self.offsets, roots, side="right") - 1
        return np.stack([roots, self.offsets[body], self.offsets[body + 1]], axis=1)

    def name(self, vertex: int) -> str:
        body = int(np.searchsorted(self.offsets, vertex, side="right")) - 1
        return self.bodies[body].name or f"body {body}"

    def entangled(self, number: int, x: np.ndarray) -> str:
        """The message for what the kernel ``entangled`` found at positions x (n, 3)."""
        if number >= len(self.edges):
            vertex = number - len(self.edges)
            return f"vertex {vertex} ({self.name(vertex)}) is inside of another body"
        edge = self.edges[number]
        apart = self.faces[~np.isin(self.faces, edge).any(axis=1)]
        face = apart[np.argmax(crossed(x[edge], x[apart]))]
        return (
            f"the edge of vertices {edge[0]} and {edge[1]} ({self.name(edge[0])}) goes through the triangle of "
            f"vertices {face[0]}, {face[1]} and {face[2]} ({self.name(face[0])})"
        )


def surface_faces(body) -> np.ndarray:
    """The triangles of cloth, or the outer faces of a solid, oriented outwards (m, 3)."""
    if not isinstance(body, Solid):
        return body.triangles
    faces = np.concatenate([body.tets[:, corners] for corners in ([0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2])])
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return faces[first[count == 1]]


def tree(centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A binary tree over points, split at the median along the longest side.

    Returns the order of the points in it, and per node, in depth-first order: the next node after its subtree, its leaf
    item or -1, and the last leaf of its subtree.
    """
    order: list[int] = []
    skip: list[int] = []
    item: list[int] = []
    last: list[int] = []
    waiting = [(np.arange(len(centres)), -1)]
    while waiting:
        members, node = waiting.pop()
        if node >= 0:  # its subtree is complete
            skip[node], last[node] = len(skip), len(order) - 1
            continue
        node = len(skip)
        for column in (skip, item, last):
            column.append(-1)
        if len(members) == 1:
            item[node], skip[node], last[node] = len(order), node + 1, len(order)
            order.append(int(members[0]))
            continue
        axis = int(np.argmax(np.ptp(centres[members], axis=0)))
        members = members[np.argsort(centres[members, axis], kind="stable")]
        half = len(members) // 2
        waiting += [(members, node), (members[half:], -1), (members[:half], -1)]
    return np.array(order), *(np.array(column, np.int32) for column in (skip, item, last))


def crossed(edge: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Whether an edge (2, 3) crosses each of the faces (m, 3, 3)."""
    (p, q), (a, b, c) = edge, np.moveaxis(faces, 1, 0)

    def volume(a, b, c, d):
        return np.sum(np.cross(b - a, c - a) * (d - a), axis=-1)

    n = np.cross(b - a, c - a)
    sides = np.stack([np.sum(n * (end - a), axis=1) for end in (p, q)])
    least = FLAT * np.linalg.norm(n, axis=1) * (np.linalg.norm(p - a, axis=1) + np.linalg.norm(q - a, axis=1))
    beyond = (sides[0] * sides[1] < 0) & (np.abs(sides).min(axis=0) > least)
    around = np.stack([volume(p, q, a, b), volume(p, q, b, c), volume(p, q, c, a)])
    return beyond & (np.all(around >= 0, axis=0) | np.all(around <= 0, axis=0))


def touch_of(elastic: Elastic, structs):
    """The kernels' Touch: the surfaces and the workspace of self-contact."""
    surfaces, worlds, device = elastic.surfaces, elastic.worlds, elastic.device
    touch = upload(
        structs.Touch,
        {
            "vertices": surfaces.vertices,
            "faces": surfaces.faces,
            "face_skip": surfaces.face_tree[0],
            "face_item": surfaces.face_tree[1],
            "edges": surfaces.edges,
            "edge_length": surfaces.lengths,
            "edge_skip": surfaces.edge_tree[0],
            "edge_item": surfaces.edge_tree[1],
            "edge_last": surfaces.edge_tree[2],
            "within": surfaces.pieces(),
        },
        device,
    )
    touch.widest = max(WIDEST * float(surfaces.lengths.mean()), elastic.gap)
    most = elastic.max_contacts
    columns = {"corners": NEAR * most, "parallel": NEAR * most, "apart": NEAR * most, "active": NEAR * most}
    columns |= {name: len(surfaces.face_tree[0]) for name in ("face_low", "face_high")}
    columns |= {name: len(surfaces.edge_tree[0]) for name in ("edge_low", "edge_high")}
    columns |= dict.fromkeys(("rub_corners", "rub_parallel", "rub_weights", "rub_normal", "rub_force"), most)
    columns |= dict.fromkeys(("block", "block_column", "block_next"), BLOCKS * most)
    columns |= dict.fromkeys(("origin", "target", "block_head"), elastic.n)
    for name, count in columns.items():
        kind = structs.Touch.vars[name].type.dtype
        require_space((worlds, count), kind, device, f"the workspace for {most} contacts", "use a lower max_contacts")
        setattr(touch, name, wp.zeros((worlds, count), dtype=kind, device=device))
    for name in ("margin", "pair_count", "active_count", "rub_count", "block_count", "arrived", "unrest", "overflow"):
        kind = structs.Touch.vars[name].type.dtype
        setattr(touch, name, wp.zeros(worlds, dtype=kind, device=device))
    return touch


def reason(elastic: Elastic, world: int, code: int, step: int, number: int, x: np.ndarray) -> str:
    """The message for a failure of self-contact, where kernels return a number beyond the vertices; x (n, 3)."""
    if code == OVERLAP:
        found = elastic.surfaces.entangled(number - elastic.n, x.astype(float))
        return f"bodies intersect in world {world} at step {step}: {found}; start with all surfaces apart"
    return (
        f"there are more contacts of bodies in world {world} at step {step} than the {elastic.max_contacts} that the "
        "workspace holds; raise it: soft.Elastic(max_contacts=...)"
    )
