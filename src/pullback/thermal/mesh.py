"""Parts made of hexahedra: generated, read from a file, checked."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number, check_whole
from pullback.core.errors import PullbackError

# Corners of a hexahedron in the order of VTK, in its own coordinates from -1 to 1.
CORNERS = np.array(
    [(-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)], dtype=float
)
GAUSS = 1.0 / np.sqrt(3.0)  # where the 2×2×2 Gauss points are, in the same coordinates
# Its six faces, corners in an order that turns outwards: -x, +x, -y, +y, -z, +z.
FACES = np.array([(0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (3, 7, 6, 2), (0, 3, 2, 1), (4, 5, 6, 7)])
# An element whose volume is smaller than this, relative to the cube of its extent, is degenerate. [1]
FLAT = 1e-9
# Nodes closer than this, relative to the size of the part, are duplicates. [1]
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Mesh:
    """A part as hexahedra of eight nodes, checked when it is made.

    nodes:     (n, 3) [m]
    elements:  (e, 8) the nodes of each, in the order of VTK's hexahedron: four around the bottom, then four above them
    """

    nodes: np.ndarray
    elements: np.ndarray

    def __post_init__(self):
        nodes = to_numbers(self.nodes, "nodes of a mesh").astype(float)
        elements = to_numbers(self.elements, "elements of a mesh")
        if nodes.ndim != 2 or nodes.shape[1] != 3:
            raise PullbackError(f"nodes of a mesh have shape {nodes.shape}, but (n, 3) is needed")
        if elements.ndim != 2 or elements.shape[1] != 8 or not len(elements):
            raise PullbackError(f"elements of a mesh have shape {elements.shape}, but (e, 8) is needed, with e > 0")
        if elements.dtype.kind not in "iu":
            raise PullbackError(f"elements of a mesh must be whole numbers, not {elements.dtype}")
        _require_nodes(nodes, elements)
        object.__setattr__(self, "nodes", np.ascontiguousarray(nodes))
        object.__setattr__(self, "elements", np.ascontiguousarray(elements, dtype=np.int32))
        _require_distinct(self)
        _require_volumes(self)
        _require_one_part(self)

    @property
    def centres(self) -> np.ndarray:
        """Means of the corners (e, 3) [m]."""
        return self.nodes[self.elements].mean(axis=1)

    @property
    def low(self) -> np.ndarray:
        """The corner of the bounding box (3,) [m] where all coordinates are smallest."""
        return self.nodes.min(axis=0)

    @property
    def high(self) -> np.ndarray:
        return self.nodes.max(axis=0)

    def volumes(self) -> np.ndarray:
        """(e,) [m³], exact for hexahedra of straight edges."""
        return gauss_volumes(self).sum(axis=1)

    def faces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every face once: its corners (f, 4), the element it belongs to (f,), and the element beyond it (f,) or -1.

        Corners turn outwards from the element a face belongs to, which is the lower numbered of two.
        """
        corners = self.elements[:, FACES].reshape(-1, 4)
        owner = np.repeat(np.arange(len(self.elements)), 6)
        key = np.sort(corners, axis=1)
        order = np.lexsort((owner, *key.T[::-1]))
        sorted_key = key[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = np.any(sorted_key[1:] != sorted_key[:-1], axis=1)
        starts = np.flatnonzero(is_first)
        counts = np.diff(np.append(starts, len(order)))
        if np.any(counts > 2):
            element = owner[order[starts[np.argmax(counts > 2)]]]
            raise PullbackError(f"a face of element {element} belongs to more than two elements")
        first = order[starts]
        beyond = np.full(len(first), -1)
        beyond[counts == 2] = owner[order[starts[counts == 2] + 1]]
        return corners[first], owner[first], beyond


def _require_nodes(nodes: np.ndarray, elements: np.ndarray) -> None:
    bad = ~np.all(np.isfinite(nodes), axis=1)
    if np.any(bad):
        raise PullbackError(f"node {int(np.argmax(bad))} of the mesh is not finite")
    outside = np.any((elements < 0) | (elements >= len(nodes)), axis=1)
    if np.any(outside):
        element = int(np.argmax(outside))
        raise PullbackError(
            f"element {element} names nodes {elements[element].tolist()}, but there are nodes 0 to {len(nodes) - 1}"
        )
    used = np.zeros(len(nodes), dtype=bool)
    used[elements] = True
    if not np.all(used):
        raise PullbackError(f"node {int(np.argmin(used))} belongs to no element: leave it out")


def _require_distinct(mesh: Mesh) -> None:
    ordered = np.sort(mesh.elements, axis=1)
    twice = np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)
    if np.any(twice):
        raise PullbackError(f"element {int(np.argmax(twice))} names a node twice")
    tolerance = SAME * float(np.max(mesh.high - mesh.low)) or 1.0
    for shift in (0.0, 0.5):  # two that round apart in one of them round together in the other
        cells = np.floor((mesh.nodes - mesh.low) / tolerance + shift).astype(np.int64)
        order = np.lexsort(cells.T)
        same = np.all(cells[order[1:]] == cells[order[:-1]], axis=1)
        if np.any(same):
            at = int(np.argmax(same))
            a, b = sorted((int(order[at]), int(order[at + 1])))
            element = int(np.argmax(np.any(mesh.elements == b, axis=1)))
            raise PullbackError(f"nodes {a} and {b} (of element {element}) are the same point: merge them")


def hexahedron_shapes() -> tuple[np.ndarray, np.ndarray]:
    """Shape functions (8 Gauss points, 8 corners) of a hexahedron, and their slopes (8 points, 3, 8 corners)."""
    x = 1 + GAUSS * CORNERS[:, None] * CORNERS[None]
    slopes = [CORNERS[:, a] * x[..., (a + 1) % 3] * x[..., (a + 2) % 3] for a in range(3)]
    return x.prod(axis=-1) / 8, np.stack(slopes, axis=1) / 8


def gauss_volumes(mesh: Mesh) -> np.ndarray:
    """Determinants (e, 8) [m³] of the map from the cube at the eight Gauss points."""
    _, slopes = hexahedron_shapes()
    return np.linalg.det(np.einsum("qac,ecx->eqax", slopes, mesh.nodes[mesh.elements]))


def _require_volumes(mesh: Mesh) -> None:
    least = gauss_volumes(mesh).min(axis=1)
    extent = np.ptp(mesh.nodes[mesh.elements], axis=1).max(axis=1)
    bad = least <= FLAT * extent**3
    if np.any(bad):
        element = int(np.argmax(bad))
        if least[element] < -FLAT * extent[element] ** 3:
            raise PullbackError(f"element {element} is inverted: list its nodes in the order of VTK")
        raise PullbackError(f"element {element} has no volume: it is degenerate")


def _require_one_part(mesh: Mesh) -> None:
    """Elements that share a node are connected: each node takes the lowest label around it until none changes."""
    label = np.arange(len(mesh.nodes))
    while True:
        lowest = label[mesh.elements].min(axis=1)
        sunk = label.copy()
        for corner in mesh.elements.T:
            np.minimum.at(sunk, corner, lowest)
            np.minimum.at(sunk, label[corner], lowest)  # and so does the root of each label
        while np.any(sunk[sunk] != sunk):
            sunk = sunk[sunk]
        if np.array_equal(sunk, label):
            break
        label = sunk
    apart = label[mesh.elements[:, 0]] != label[mesh.elements[0, 0]]
    if np.any(apart):
        raise PullbackError(
            f"element {int(np.argmax(apart))} is not connected to element 0: the mesh has several parts"
        )


# --- generators -------------------------------------------------------------------------------------------------------


def grid(x, y, z, filled=None) -> Mesh:
    """Hexahedra between planes x (nx + 1,), y and z [m], all of them or where ``filled`` (nx, ny, nz) is true.

    Elements are numbered layer by layer from below, in each along x first.
    """
    planes = [to_numbers(p, f"planes {axis} of a grid").astype(float) for axis, p in zip("xyz", (x, y, z), strict=True)]
    for axis, plane in zip("xyz", planes, strict=True):
        if plane.ndim != 1 or len(plane) < 2 or not np.all(np.isfinite(plane)) or not np.all(np.diff(plane) > 0):
            raise PullbackError(f"planes {axis} of a grid must increase, and be two or more finite numbers")
    cells = tuple(len(plane) - 1 for plane in planes)
    filled = np.ones(cells, dtype=bool) if filled is None else np.asarray(filled, dtype=bool)
    if filled.shape != cells:
        raise PullbackError(f"filled has shape {filled.shape}, but the grid has {cells} cells")
    if not np.any(filled):
        raise PullbackError("no cell of the grid is filled")
    k, j, i = np.nonzero(filled.transpose(2, 1, 0))
    number = np.arange(np.prod([n + 1 for n in cells])).reshape([n + 1 for n in cells[::-1]])  # [z, y, x]
    steps = ((CORNERS + 1) // 2).astype(int)
    elements = np.stack([number[k + dz, j + dy, i + dx] for dx, dy, dz in steps], axis=1)
    used, elements = np.unique(elements, return_inverse=True)
    Z, Y, X = np.meshgrid(planes[2], planes[1], planes[0], indexing="ij")
    nodes = np.stack([X.ravel(), Y.ravel(), Z.ravel()], axis=1)[used]
    return Mesh(nodes, elements.reshape(-1, 8))


def block(size, cells, *, origin=(0.0, 0.0, 0.0)) -> Mesh:
    """A block of size (3,) [m] cut into cells (3,), its lowest corner at origin [m]."""
    if any(np.shape(x) != (3,) for x in (size, cells, origin)):
        raise PullbackError("a block needs three sizes, three numbers of cells and three coordinates of its origin")
    size = [check_number(s, "a size of a block") for s in size]
    cells = [check_whole(c, "the cells of a block along an axis") for c in cells]
    origin = [check_number(o, "a coordinate of the origin", above=None) for o in origin]
    return grid(*(o + np.linspace(0.0, s, c + 1) for o, s, c in zip(origin, size, cells, strict=True)))


def printed(
    footprint, cell: float, *, layers: int, layer: float, base: float, base_cells: int, margin: int = 0
) -> Mesh:
    """A base plate and on it layers of the same outline, as a printer builds them.

    footprint:   (nx, ny) true where cells of a layer are filled
    cell:        edge of a cell along x and y [m]
    layers:      how many are printed
    layer:       height of each [m]
    base:        height of the plate [m]; its top is at z = 0, where printing begins
    base_cells:  elements over that height
    margin:      cells by which the plate is wider than the footprint, on each side

    The lowest corner of the footprint is at x = y = 0. The elements of the plate come first.
    """
    footprint = np.asarray(footprint, dtype=bool)
    if footprint.ndim != 2 or not np.any(footprint):
        raise PullbackError("a footprint must be a table (nx, ny) with some of its cells filled")
    layers, base_cells, margin = (
        check_whole(layers, "layers"),
        check_whole(base_cells, "base_cells"),
        check_whole(margin, "margin", least=0),
    )
    cell, layer, base = check_number(cell, "cell"), check_number(layer, "layer"), check_number(base, "base")
    wide = np.pad(footprint, margin)
    with np.errstate(over="ignore"):  # a place that is no number is found by the mesh
        x, y = (cell * np.arange(-margin, n - margin + 1) for n in wide.shape)
        z = np.concatenate([np.linspace(-base, 0.0, base_cells + 1), layer * np.arange(1, layers + 1)])
    filled = np.concatenate(
        [np.ones((*wide.shape, base_cells), dtype=bool), np.repeat(wide[:, :, None], layers, axis=2)], axis=2
    )
    return grid(x, y, z, filled)


def frame(nx: int, ny: int, thickness: int = 1) -> np.ndarray:
    """The footprint (nx, ny) of a box with walls of so many cells and nothing inside, for :func:`printed`."""
    nx, ny, thickness = check_whole(nx, "nx"), check_whole(ny, "ny"), check_whole(thickness, "thickness")
    footprint = np.ones((nx, ny), dtype=bool)
    footprint[thickness : nx - thickness, thickness : ny - thickness] = False
    return footprint


def import_meshio(what: str):
    """meshio, which reads and writes files of meshes, for a function named ``what``."""
    try:
        import meshio
    except ImportError:
        raise PullbackError(f"{what} needs meshio: pip install 'pullback[thermal]'") from None
    return meshio


def read_mesh(path: str | os.PathLike, *, unit: float = 1.0) -> Mesh:
    """The hexahedra of a file that meshio reads (VTK, Abaqus, Gmsh, Exodus, ...). ``unit`` is the file's in metres."""
    meshio = import_meshio("read_mesh")
    unit = check_number(unit, "unit")
    if not isinstance(path, str | os.PathLike) or not os.path.isfile(path):
        raise PullbackError(f"there is no mesh {str(path)!r}")
    try:
        # It prints what is wrong, and then leaves.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = meshio.read(path)
    except (Exception, SystemExit) as error:  # meshio leaves with SystemExit where it does not know the format
        said = " ".join(str(error).split()) if isinstance(error, meshio.ReadError) else ""
        reason = said or "meshio, which reads VTK, Abaqus, Gmsh, Exodus and others, finds none in it"
        raise PullbackError(f"{str(path)!r} cannot be read as a mesh: {reason}") from error
    others = sorted({c.type for c in found.cells if c.dim == 3 and c.type != "hexahedron"})
    if others:
        raise PullbackError(f"{str(path)!r} has {', '.join(others)} elements: only hexahedra of 8 nodes are known")
    parts = [c.data for c in found.cells if c.type == "hexahedron"]
    if not parts:
        raise PullbackError(f"{str(path)!r} has no hexahedra")
    elements = np.concatenate(parts).astype(int)
    used, elements = np.unique(elements, return_inverse=True)  # nodes of surfaces and lines are left out
    if used[0] < 0 or used[-1] >= len(found.points):
        raise PullbackError(f"{str(path)!r} names node {used[-1]}, but it has {len(found.points)}")
    return Mesh(unit * np.asarray(found.points, dtype=float)[used], elements.reshape(-1, 8))
