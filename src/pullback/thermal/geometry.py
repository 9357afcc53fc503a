"""What kernels need of a mesh: stiffness and volumes of elements, connectivity, exposed faces, in order of birth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.errors import PullbackError
from pullback.thermal.mesh import GAUSS, Mesh, hexahedron_shapes

# Elements whose corners differ by less than this, relative to their size, share one stiffness. [1]
SAME_SHAPE = 1e-10
# A face whose unit normal has a smaller vertical component is vertical, and absorbs nothing of the beam. [1]
VERTICAL = 1e-9
NEVER = np.iinfo(np.int32).max
# Corners of a face in its own coordinates, and the Gauss points near them.
SQUARE = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], dtype=float)


def _face_shapes() -> tuple[np.ndarray, np.ndarray]:
    """Shape functions (4 points, 4 corners) and their slopes (4 points, 2, 4 corners) on a face."""
    x = 1 + GAUSS * SQUARE[:, None] * SQUARE[None]  # (point, corner, axis)
    slopes = np.stack([SQUARE[:, 0] * x[..., 1], SQUARE[:, 1] * x[..., 0]], axis=1) / 4
    return x.prod(axis=-1) / 4, slopes


def stiffness_and_volumes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of hexahedra (e, 8, 3): (e, 8, 8) [m] for a conductivity of one, and the volume of each corner (e, 8) [m³].

    By 2×2×2 Gauss points; the volumes are the row sums of the mass matrix.
    """
    shapes, slopes = hexahedron_shapes()
    jacobian = np.einsum("qac,ecx->eqax", slopes, corners)
    weight = np.linalg.det(jacobian)
    gradient = np.linalg.solve(jacobian, np.broadcast_to(slopes, (len(corners), *slopes.shape)))
    stiffness = np.einsum("eq,eqxc,eqxd->ecd", weight, gradient, gradient)
    return (stiffness + stiffness.swapaxes(1, 2)) / 2, weight @ shapes


@dataclass(frozen=True)
class Geometry:
    """A mesh and the births of its elements, in double precision, as kernels need it."""

    arrays: dict[str, np.ndarray]  # fields of the kernels' struct Part
    births: np.ndarray  # (e,) [s], increasing
    fastest: float  # largest eigenvalue of a stiffness relative to its volumes [1/m²], which limits an explicit step
    widest: float  # largest ratio of exposed area to volume of all elements [1/m]

    @classmethod
    def of(cls, mesh: Mesh, born: np.ndarray) -> Geometry:
        order = np.argsort(born, kind="stable")
        elements = mesh.elements[order].astype(np.int64)
        count, n = len(elements), len(mesh.nodes)
        corners = mesh.nodes[elements]
        shape, sample = _group_shapes(corners)
        stiffness, volumes = stiffness_and_volumes(corners[sample])

        # Slots: all corners, sorted by node and then by element.
        flat = elements.ravel()
        by_node = np.argsort(flat, kind="stable")
        slots = np.empty(8 * count, dtype=np.int64)
        slots[by_node] = np.arange(8 * count)
        slots = slots.reshape(count, 8)
        first = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n))])

        # Volume of a node as its elements are born: one entry for none, and one more for each of them.
        volume, self_stiffness = np.zeros(8 * count + n), np.zeros(8 * count + n)
        volume[slots + elements + 1] = volumes[shape]
        self_stiffness[slots + elements + 1] = np.einsum("scc->sc", stiffness)[shape]
        faces = _exposed_faces(mesh, order)
        area = np.zeros(8 * count + n)
        corner_area = faces.areas @ _face_shapes()[0]
        for element, sign in ((faces.owner, 1.0), (faces.beyond, -1.0)):
            there = element < NEVER
            place = _slots_of(elements, slots, element[there], faces.nodes[there]) + faces.nodes[there] + 1
            np.add.at(area, place, sign * corner_area[there])
        starts = first[:-1] + np.arange(n)
        volume, area, self_stiffness = (_sums_from(x, starts) for x in (volume, area, self_stiffness))
        area[area < VERTICAL * np.max(area)] = 0.0  # rounding, where a covered face was subtracted

        gathered = {
            "element_nodes": elements,
            "element_slots": slots,
            "element_shape": shape,
            "stiffness": stiffness,
            "node_first": first,
            "slot_element": by_node // 8,
            "volume": volume,
            "area": area,
            "self_stiffness": self_stiffness,
            **_lit(mesh, faces),
        }
        scaled = stiffness / np.sqrt(volumes[:, :, None] * volumes[:, None, :])
        exposed = np.bincount(faces.owner, faces.areas.sum(axis=1), minlength=count)
        return cls(
            gathered,
            born[order],
            float(np.max(np.linalg.eigvalsh(scaled))),
            float(np.max(exposed / volumes[shape].sum(axis=1))),
        )


def _group_shapes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which shape each element has (e,), and an element of each shape."""
    relative = corners - corners[:, :1]
    size = np.max(np.abs(relative))
    key = np.rint(relative.reshape(len(corners), -1) / (SAME_SHAPE * size)).astype(np.int64).view(np.uint64)
    # Sorting one hash per row is far faster than sorting rows; collisions are too unlikely to occur.
    mixed = np.zeros(len(key), dtype=np.uint64)
    for column in key.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, sample, shape = np.unique(mixed, return_index=True, return_inverse=True)
    return shape.ravel(), sample


def _slots_of(elements: np.ndarray, slots: np.ndarray, element: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The slots (f, 4) of the nodes (f, 4) in an element each (f,)."""
    corner = np.argmax(elements[element][:, None, :] == nodes[:, :, None], axis=-1)
    return np.take_along_axis(slots[element], corner, axis=1)


def _sums_from(x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Running sums that begin anew at each of ``starts``; each begins with a zero, and is a short sum by itself."""
    result = x.copy()
    lengths = np.diff(np.append(starts, len(x)))
    for k in range(1, int(lengths.max())):
        place = starts[lengths > k] + k
        result[place] += result[place - 1]
    return result


@dataclass(frozen=True)
class _Faces:
    nodes: np.ndarray  # (f, 4)
    owner: np.ndarray  # (f,) the element that is born first, by order of birth
    beyond: np.ndarray  # (f,) the one that will cover the face, or NEVER
    points: np.ndarray  # (f, 4, 3) Gauss points [m]
    areas: np.ndarray  # (f, 4) of each [m²]
    upward: np.ndarray  # (f, 4) the same, seen from above [m²]; zero for faces that face down


def _exposed_faces(mesh: Mesh, order: np.ndarray) -> _Faces:
    """All faces that are exposed at some time."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    nodes, owner, beyond = mesh.faces()
    first, second = rank[owner], np.where(beyond >= 0, rank[beyond], NEVER)
    outward = np.where(first < second, 1.0, -1.0)  # corners turn outwards from the first
    owner, beyond = np.minimum(first, second), np.maximum(first, second)
    shapes, slopes = _face_shapes()
    corners = mesh.nodes[nodes]
    along = np.einsum("qac,fcx->fqax", slopes, corners)
    normal = np.cross(along[:, :, 0], along[:, :, 1]) * outward[:, None, None]
    areas = np.linalg.norm(normal, axis=-1)
    upward = np.where(normal[..., 2] > VERTICAL * areas, normal[..., 2], 0.0)
    return _Faces(nodes, owner, beyond, np.einsum("qc,fcx->fqx", shapes, corners), areas, upward)


def _lit(mesh: Mesh, faces: _Faces) -> dict[str, np.ndarray]:
    """The upward-facing faces, listed per node."""
    n = len(mesh.nodes)
    lit = np.flatnonzero(np.any(faces.upward > 0, axis=1))
    nodes = faces.nodes[lit]
    weight = np.einsum("fq,qc->fcq", faces.upward[lit], _face_shapes()[0])
    by_node = np.argsort(nodes.ravel(), kind="stable")
    face = by_node // 4
    distance = np.linalg.norm(faces.points[lit][:, None] - mesh.nodes[nodes][:, :, None], axis=-1).max(axis=-1)
    reach = np.full(n, -1.0)
    np.maximum.at(reach, nodes.ravel(), distance.ravel())
    return {
        "lit_first": np.concatenate([[0], np.cumsum(np.bincount(nodes.ravel(), minlength=n))]),
        "lit_face": face,
        "lit_from": faces.owner[lit][face],
        "lit_until": faces.beyond[lit][face],
        "lit_weight": weight.reshape(-1, 4)[by_node],
        "face_points": faces.points[lit],
        "node_place": np.column_stack([mesh.nodes, reach]),
    }


def birth_times(born, elements: int) -> np.ndarray:
    """When each element is deposited (e,) [s]; None means that all are there from the start, -inf."""
    if born is None:
        return np.full(elements, -np.inf)
    born = to_numbers(born, "born").astype(float)
    if born.shape != (elements,):
        raise PullbackError(f"born has shape {born.shape}, but (elements={elements},) is needed")
    if np.any(np.isnan(born)):
        raise PullbackError(f"the birth of element {int(np.argmax(np.isnan(born)))} is not a number")
    return born
