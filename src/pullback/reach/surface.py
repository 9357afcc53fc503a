"""The surface where a map is zero, as triangles."""

from __future__ import annotations

import itertools

import numpy as np

from pullback.core.errors import PullbackError

CORNERS = np.array([*itertools.product((0, 1), repeat=3)])  # of a cell
# Six tetrahedra fill a cell: one for each order in which one can go from its first corner to its last.
TETRAHEDRA = [
    [0, *np.cumsum([4 >> axis for axis in order]).tolist()] for order in itertools.permutations(range(3))
]  # fmt: skip


def iso_surface(reach_map, bounds, *, level: float = 0.0, cells: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) [m] and triangles (m, 3) of the surface where a map in R3 has the value ``level``.

    bounds: (2, 3) [m] the box that is searched, with so many ``cells`` per axis. Triangles are seen
    counter-clockwise from where the map is smaller.
    """
    if reach_map.space.name != "R3":
        raise PullbackError(f"a surface is drawn of maps in R3, not in {reach_map.space.name}")
    low, high = np.asarray(bounds, dtype=float)
    axes = [np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    values = np.asarray(reach_map.decision_function(nodes)) - level
    number = np.arange(len(nodes)).reshape((cells + 1,) * 3)
    corner = np.stack([number[i : i + cells, j : j + cells, k : k + cells].ravel() for i, j, k in CORNERS], axis=1)
    tetrahedra = np.concatenate([corner[:, which] for which in TETRAHEDRA])
    inside = values[tetrahedra] > 0
    order = np.argsort(~inside, axis=1, kind="stable")  # those inside come first
    tetrahedra, count = np.take_along_axis(tetrahedra, order, axis=1), inside.sum(axis=1)
    # The edges that the surface cuts, in a row around the cut.
    cuts = {1: ((0, 1), (0, 2), (0, 3)), 2: ((0, 2), (0, 3), (1, 3), (1, 2)), 3: ((0, 3), (1, 3), (2, 3))}
    triangles = []
    for inner, edges in cuts.items():
        cut = tetrahedra[count == inner]
        ends = np.stack([cut[:, edge] for edge in edges], axis=1)  # (n, 3 or 4, 2)
        triangles += [ends[:, [0, 1, 2]], *([ends[:, [0, 2, 3]]] if inner == 2 else [])]
    edges = np.concatenate(triangles)  # (m, 3, 2), each from inside to outside
    if not len(edges):
        raise PullbackError(f"the map has no surface of value {level:g} in these bounds")
    unique, faces = np.unique(edges.reshape(-1, 2), axis=0, return_inverse=True)
    inner, outer = values[unique].T
    share = (inner / (inner - outer))[:, None]
    vertices = (1 - share) * nodes[unique[:, 0]] + share * nodes[unique[:, 1]]
    faces = faces.reshape(-1, 3)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    outwards = (nodes[edges[..., 1]] - nodes[edges[..., 0]]).sum(axis=1)
    inward = np.sum(np.cross(b - a, c - a) * outwards, axis=1) < 0
    faces[inward] = faces[inward][:, ::-1]
    return vertices, faces
