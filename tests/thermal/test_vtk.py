"""Files for ParaView, read back with another reader."""

import sys
import xml.etree.ElementTree as ElementTree

import meshio
import numpy as np
import pytest

from pullback import PullbackError
from pullback.thermal import births, follow, printed, read_mesh, write_vtk


@pytest.fixture
def wall():
    mesh = printed(np.ones((4, 1)), 1e-3, layers=1, layer=1e-3, base=1e-3, base_cells=1)
    path = follow([(0, 0.5e-3, 1e-3), (4e-3, 0.5e-3, 1e-3)], speed=1e-3)
    return mesh, births(mesh, path, reach=0.5e-3)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_what_is_written_is_read_back(tmp_path, wall, precision):
    mesh, born = wall
    times = np.array([0.5, 1.5, 3.5])
    temperatures = np.random.default_rng(0).uniform(300, 2000, (3, len(mesh.nodes))).astype(precision)
    height = mesh.nodes[:, 2]
    path = write_vtk(tmp_path / "part.pvd", mesh, times, temperatures, born=born, height=height)
    sets = ElementTree.parse(path).findall("Collection/DataSet")
    np.testing.assert_array_equal([float(s.get("timestep")) for s in sets], times)
    for row, entry in enumerate(sets):
        read = meshio.read(tmp_path / entry.get("file"))
        alive = mesh.elements[born <= times[row]]
        assert len(alive) == 4 + row + 1 + (row == 2)
        np.testing.assert_array_equal(read.points[read.cells_dict["hexahedron"]], mesh.nodes[alive])
        np.testing.assert_array_equal(read.point_data["temperature"], temperatures[row][np.unique(alive)])
        np.testing.assert_array_equal(read.point_data["height"], height[np.unique(alive)])


def test_without_meshio_the_message_says_what_to_install(tmp_path, wall, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshio", None)
    for call in (lambda: write_vtk(tmp_path / "part.pvd", wall[0], [0.0], None), lambda: read_mesh("part.vtu")):
        with pytest.raises(PullbackError, match=r"needs meshio: pip install 'pullback\[thermal\]'"):
            call()


def test_what_cannot_be_written(tmp_path, wall):
    mesh, born = wall
    fine = np.zeros((2, len(mesh.nodes)))
    with pytest.raises(PullbackError, match="must end in .pvd"):
        write_vtk(tmp_path / "part.vtu", mesh, [0, 1], fine)
    with pytest.raises(PullbackError, match="temperature has shape"):
        write_vtk(tmp_path / "part.pvd", mesh, [0, 1], fine[:, 1:])
    with pytest.raises(PullbackError, match="times must be a row"):
        write_vtk(tmp_path / "part.pvd", mesh, [1, 0], fine)
    with pytest.raises(PullbackError, match="times cannot be read"):
        write_vtk(tmp_path / "part.pvd", mesh, ["a", "b"], fine)
    for path, part in ((None, mesh), (tmp_path / "part.pvd", None)):
        with pytest.raises(PullbackError, match="must be"):
            write_vtk(path, part, [0, 1], fine)
    with pytest.raises(PullbackError, match="birth of element 0 is not a number"):
        write_vtk(tmp_path / "part.pvd", mesh, [0, 1], fine, born=np.full(len(mesh.elements), np.nan))
    with pytest.raises(PullbackError, match="cannot write"):
        write_vtk(tmp_path / "nowhere" / "part.pvd", mesh, [0, 1], fine)
    with pytest.raises(PullbackError, match="no element is born"):
        write_vtk(tmp_path / "part.pvd", mesh, [0, 1], fine, born=np.full(len(mesh.elements), 2.0))
