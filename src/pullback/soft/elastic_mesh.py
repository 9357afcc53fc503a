"""Arrays of an Elastic System's meshes for the kernels: shape functions at rest, hinges, sparsity of the Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.soft.elastic_bodies import Bodies, Cloth, Solid


@dataclass(frozen=True, eq=False)
class ElasticMesh:
    """The arrays of the kernels' Mesh (``kernels/elastic/structs.py``) except ``handle``, and the points of all bodies.

    points:   (n, 3) of all bodies, concatenated [m]
    offsets:  (bodies + 1,) the first point of each
    """

    points: np.ndarray
    offsets: np.ndarray
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, bodies: Bodies) -> ElasticMesh:
        offsets = np.cumsum([0, *(len(body.points) for body in bodies)])
        points = np.concatenate([body.points for body in bodies])
        solids = [(body, start) for body, start in zip(bodies, offsets, strict=False) if isinstance(body, Solid)]
        cloths = [(body, start) for body, start in zip(bodies, offsets, strict=False) if isinstance(body, Cloth)]
        tets = _stacked([body.tets + start for body, start in solids], 4)
        triangles = _stacked([body.triangles + start for body, start in cloths], 3)
        tet_rest, tet_volume = tet_shapes(points, tets)
        triangle_rest, triangle_area = triangle_shapes(points, triangles)
        hinges = [hinges_of(body.triangles) for body, _ in cloths]
        hinge_group = np.repeat(np.arange(len(cloths)), [len(x) for x in hinges])
        hinges = _stacked([x + start for x, (_, start) in zip(hinges, cloths, strict=True)], 4)
        (tet_place, triangle_place, hinge_place), first, column = sparsity(len(points), [tets, triangles, hinges])
        owner = np.repeat(np.arange(len(points)), np.diff(first))
        arrays = {
            "tets": tets,
            "tet_rest": tet_rest,
            "tet_volume": tet_volume,
            "tet_group": np.repeat(np.arange(len(solids)), [len(body.tets) for body, _ in solids]),
            "tet_place": tet_place,
            "solid_kind": np.array([body.material.kind for body, _ in solids]),
            "triangles": triangles,
            "triangle_rest": triangle_rest,
            "triangle_area": triangle_area,
            "triangle_group": np.repeat(np.arange(len(cloths)), [len(body.triangles) for body, _ in cloths]),
            "triangle_place": triangle_place,
            "cloth_kind": np.array([body.material.kind for body, _ in cloths]),
            "hinges": hinges,
            "hinge_weights": hinge_weights(points, hinges),
            "hinge_group": hinge_group,
            "hinge_place": hinge_place,
            "first": first,
            "column": column,
            "diagonal": np.flatnonzero(owner == column),
        }
        return cls(points, offsets, arrays)


def tet_shapes(points: np.ndarray, tets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (m, 4, 3) of the shape functions [1/m], and volumes (m,) [m³]."""
    edges = points[tets[:, 1:]] - points[tets[:, :1]]
    gradients = np.swapaxes(np.linalg.inv(edges), 1, 2)
    return np.concatenate([-gradients.sum(axis=1, keepdims=True), gradients], axis=1), np.linalg.det(edges) / 6


def triangle_shapes(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (m, 2, 2) of the last two shape functions in the plane of each triangle [1/m], and areas (m,) [m²]."""
    e1, e2 = np.moveaxis(points[triangles[:, 1:]] - points[triangles[:, :1]], 1, 0)
    u = e1 / np.linalg.norm(e1, axis=1, keepdims=True)
    v = e2 - np.sum(e2 * u, axis=1, keepdims=True) * u
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    edges = np.stack([np.stack([np.sum(e * a, axis=1) for a in (u, v)], axis=1) for e in (e1, e2)], axis=1)
    return np.swapaxes(np.linalg.inv(edges), 1, 2), np.linalg.det(edges) / 2


def hinges_of(triangles: np.ndarray) -> np.ndarray:
    """Edges between two triangles (m, 4): the two ends of the edge, and the two opposite corners."""
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    across = np.concatenate([triangles[:, 2], triangles[:, 0], triangles[:, 1]])
    ends = np.sort(edges, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, across = ends[order], across[order]
    same = np.flatnonzero(np.all(ends[1:] == ends[:-1], axis=1))
    return np.column_stack([ends[same], across[same], across[same + 1]]).reshape(-1, 4)


def hinge_weights(points: np.ndarray, hinges: np.ndarray) -> np.ndarray:
    """Weights w (m, 4) [1/m]: the bending energy per unit of rigidity is ½ |Σ w_i x_i|² over the four vertices."""
    x0, x1, x2, x3 = (points[hinges[:, a]] for a in range(4))
    e = x1 - x0
    area = sum(np.linalg.norm(np.cross(e, x - x0), axis=1) for x in (x2, x3)) / 2
    c01, c02 = _cotangent(e, x2 - x0), _cotangent(e, x3 - x0)
    c03, c04 = _cotangent(-e, x2 - x1), _cotangent(-e, x3 - x1)
    weights = np.stack([c03 + c04, c01 + c02, -c01 - c03, -c02 - c04], axis=1)
    return weights * np.sqrt(1.0 / area)[:, None]


def sparsity(n: int, kinds: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """The sparse blocks of vertex pairs: their indices per kind of element (m, corners²); first (n + 1,) and column."""
    keys = [(x[:, :, None].astype(np.int64) * n + x[:, None, :]).reshape(len(x), x.shape[1] ** 2) for x in kinds]
    blocks, places = np.unique(np.concatenate([key.ravel() for key in keys]), return_inverse=True)
    ends = np.cumsum([key.size for key in keys])[:-1]
    split = [x.reshape(key.shape) for x, key in zip(np.split(places.ravel(), ends), keys, strict=True)]
    first = np.searchsorted(blocks, np.arange(n + 1, dtype=np.int64) * n)
    return split, first, blocks % n


def _cotangent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=1) / np.linalg.norm(np.cross(a, b), axis=1)


def _stacked(parts: list[np.ndarray], corners: int) -> np.ndarray:
    return np.concatenate([np.zeros((0, corners), int), *parts])
