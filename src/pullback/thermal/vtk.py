"""Temperatures as files for ParaView: one .vtu per moment, and a .pvd that puts them on a time line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind, check_path
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file, write_text
from pullback.thermal.geometry import birth_times
from pullback.thermal.mesh import Mesh, import_meshio


def write_vtk(path, mesh: Mesh, times, temperatures, *, born=None, **fields) -> Path:
    """Write ``path``, a .pvd file, and beside it a folder of the same name with one .vtu file per time, by meshio.

    times:         (rows,) [s], increasing
    temperatures:  (rows, nodes) [K]
    born:          (elements,) [s] when each is deposited: a file has only those that are there; None for all
    fields:        further numbers per node, (rows, nodes) or (nodes,), by name

    Returns the path.
    """
    meshio = import_meshio("write_vtk")
    check_kind(mesh, Mesh, "mesh")
    path, times = check_path(path), to_numbers(times, "times").astype(float)
    if path.suffix.lower() != ".pvd":
        raise PullbackError(f"{str(path)!r} must end in .pvd")
    if times.ndim != 1 or not len(times) or np.any(np.diff(times) <= 0):
        raise PullbackError("times must be a row of increasing numbers")
    given = {"temperature": to_numpy(temperatures)} | {name: to_numpy(value) for name, value in fields.items()}
    each = (len(times), len(mesh.nodes))
    for name, value in given.items():
        if value.shape != each and (name == "temperature" or value.shape != each[1:]):
            raise PullbackError(f"{name} has shape {value.shape}, but {each} is needed: one number per time and node")
    born = birth_times(born, len(mesh.elements))
    if not np.any(born <= times[0]):
        raise PullbackError("no element is born at the first time")
    folder, digits = path.with_suffix(""), len(str(len(times) - 1))
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise PullbackError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    lines = ['<VTKFile type="Collection" version="1.0" byte_order="LittleEndian">', "<Collection>"]
    for row, time in enumerate(times):
        used, elements = np.unique(mesh.elements[born <= time], return_inverse=True)
        values = {name: (value if value.ndim == 1 else value[row])[used] for name, value in given.items()}
        grid = meshio.Mesh(mesh.nodes[used], {"hexahedron": elements.reshape(-1, 8)}, point_data=values)
        file = folder / f"{row:0{digits}d}.vtu"
        with whole_file(file) as partial:
            meshio.write(partial, grid, file_format="vtu")
        lines.append(f'<DataSet timestep="{float(time)!r}" file="{folder.name}/{file.name}"/>')
    return write_text(path, "\n".join([*lines, "</Collection>", "</VTKFile>", ""]))
