"""Temperatures as files for ParaView: one .vtu a moment, and a .pvd that puts them on a time line."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.core.files import write_text
from pullback.thermal.geometry import birth_times
from pullback.thermal.mesh import Mesh

HEXAHEDRON = 12  # VTK's number for it
TYPES = {"f": "Float", "i": "Int", "u": "UInt"}


def write_vtk(path, mesh: Mesh, times, temperatures, *, born=None, **fields) -> Path:
    """Write ``path``, a .pvd file, and beside it a folder of the same name with a .vtu file a time. Returns the path.

    times:         (rows,) [s], rising
    temperatures:  (rows, nodes) [K]
    born:          (elements,) [s] when each is deposited: a file has only those that are there; None for all
    fields:        further numbers a node, (rows, nodes) or (nodes,), by name
    """
    if not isinstance(path, str | os.PathLike):
        raise PullbackError(f"path must be that of a .pvd file, not {type(path).__name__}")
    check_kind(mesh, Mesh, "mesh")
    path, times = Path(path), to_numbers(times, "times").astype(float)
    if path.suffix.lower() != ".pvd":
        raise PullbackError(f"{str(path)!r} must end in .pvd")
    if times.ndim != 1 or not len(times) or np.any(np.diff(times) <= 0):
        raise PullbackError("times must be a row of numbers that rise")
    given = {"temperature": to_numpy(temperatures)} | {name: to_numpy(value) for name, value in fields.items()}
    shapes = {"temperature": [(len(times), len(mesh.nodes))]}
    for name, value in given.items():
        allowed = shapes.get(name, [(len(times), len(mesh.nodes)), (len(mesh.nodes),)])
        if value.shape not in allowed:
            raise PullbackError(f"{name} has shape {value.shape}, but {allowed[0]} is needed: one a time and node")
    born = birth_times(born, len(mesh.elements))
    folder, digits = path.with_suffix(""), len(str(len(times) - 1))
    lines = ['<VTKFile type="Collection" version="1.0" byte_order="LittleEndian">', "<Collection>"]
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise PullbackError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    for row, time in enumerate(times):
        name = f"{folder.name}/{row:0{digits}d}.vtu"
        values = {key: value if value.ndim == 1 else value[row] for key, value in given.items()}
        write_text(path.parent / name, _grid(mesh, mesh.elements[born <= time], values))
        lines.append(f'<DataSet timestep="{float(time)!r}" file="{name}"/>')
    return write_text(path, "\n".join([*lines, "</Collection>", "</VTKFile>", ""]))


def _grid(mesh: Mesh, elements: np.ndarray, values: dict[str, np.ndarray]) -> str:
    """The text of a .vtu file with these elements and the nodes that they have."""
    if not len(elements):
        raise PullbackError("no element is there at the first time")
    used, local = np.unique(elements, return_inverse=True)
    count = len(elements)
    parts = [
        '<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" header_type="UInt32" '
        'compressor="vtkZLibDataCompressor">',
        f'<UnstructuredGrid><Piece NumberOfPoints="{len(used)}" NumberOfCells="{count}">',
        "<Points>", _array("Points", mesh.nodes[used], components=3), "</Points>",
        "<Cells>",
        _array("connectivity", local.reshape(-1).astype(np.int32)),
        _array("offsets", 8 * np.arange(1, count + 1, dtype=np.int32)),
        _array("types", np.full(count, HEXAHEDRON, dtype=np.uint8)),
        "</Cells>",
        "<PointData>", *(_array(name, value[used]) for name, value in values.items()), "</PointData>",
        "</Piece></UnstructuredGrid></VTKFile>", "",
    ]  # fmt: skip
    return "\n".join(parts)


def _array(name: str, values: np.ndarray, components: int = 1) -> str:
    """One compressed block: how many, of what size, how large it is; then the block itself."""
    values = np.ascontiguousarray(values)
    kind = f"{TYPES[values.dtype.kind]}{8 * values.dtype.itemsize}"
    raw = values.astype(values.dtype.newbyteorder("<")).tobytes()
    block = zlib.compress(raw, 1)
    header = struct.pack("<4I", 1, len(raw), 0, len(block))
    body = (base64.b64encode(header) + base64.b64encode(block)).decode("ascii")
    several = f'NumberOfComponents="{components}" ' if components > 1 else ""
    return f'<DataArray type="{kind}" Name="{name}" {several}format="binary">{body}</DataArray>'
