"""Meshes: what is generated is right, and what cannot be a part is refused, with the element named."""

import meshio
import numpy as np
import pytest

from pullback import PullbackError
from pullback.thermal import Mesh, block, frame, grid, printed, read_mesh


def test_a_block_has_its_volume_and_its_faces():
    mesh = block((2.0, 3.0, 4.0), (2, 3, 5), origin=(1.0, 0.0, -1.0))
    assert mesh.nodes.shape == (3 * 4 * 6, 3) and mesh.elements.shape == (30, 8)
    np.testing.assert_allclose(mesh.volumes(), 24 / 30, rtol=1e-13)
    np.testing.assert_array_equal(mesh.low, (1, 0, -1))
    np.testing.assert_array_equal(mesh.high, (3, 3, 3))
    corners, owner, beyond = mesh.faces()
    assert (beyond < 0).sum() == 2 * (2 * 3 + 2 * 5 + 3 * 5)
    assert (beyond >= 0).sum() == 1 * 3 * 5 + 2 * 2 * 5 + 2 * 3 * 4
    assert np.all((beyond < 0) | (owner < beyond))


def test_faces_turn_outwards():
    rng = np.random.default_rng(0)
    mesh = block((1.0, 1.0, 1.0), (3, 3, 3))
    nodes = mesh.nodes + rng.uniform(-0.05, 0.05, mesh.nodes.shape)
    mesh = Mesh(nodes, mesh.elements)
    corners, owner, _ = mesh.faces()
    p = mesh.nodes[corners]
    normal = np.cross(p[:, 2] - p[:, 0], p[:, 3] - p[:, 1])
    assert np.all(((p.mean(axis=1) - mesh.centres[owner]) * normal).sum(axis=1) > 0)


def test_the_volume_of_a_bent_mesh_is_that_of_its_outside():
    rng = np.random.default_rng(1)
    mesh = block((1.0, 1.0, 1.0), (3, 3, 3))
    inner = np.all((mesh.nodes > 0) & (mesh.nodes < 1), axis=1)
    nodes = mesh.nodes + inner[:, None] * rng.uniform(-0.08, 0.08, mesh.nodes.shape)
    assert Mesh(nodes, mesh.elements).volumes().sum() == pytest.approx(1.0, rel=1e-12)


def test_a_printed_frame():
    mesh = printed(frame(6, 5), 2e-3, layers=4, layer=1e-3, base=10e-3, base_cells=2, margin=3)
    plate, ring = 2 * 12 * 11, 2 * 6 + 2 * 3
    assert len(mesh.elements) == plate + 4 * ring
    np.testing.assert_array_equal(mesh.centres[:plate, 2] < 0, True)
    np.testing.assert_array_equal(mesh.centres[plate:, 2] > 0, True)
    top = mesh.centres[-ring:]
    assert np.all(top[:, 2] == pytest.approx(3.5e-3))
    assert not np.any((np.abs(top[:, 0] - 6e-3) < 3e-3) & (np.abs(top[:, 1] - 5e-3) < 2e-3)), "nothing inside"


def cube():
    mesh = block((1.0, 1.0, 1.0), (2, 1, 1))
    return mesh.nodes.copy(), mesh.elements.copy()


def test_an_inverted_element_is_named():
    nodes, elements = cube()
    elements[1] = elements[1][[4, 5, 6, 7, 0, 1, 2, 3]]
    with pytest.raises(PullbackError, match="element 1 is inverted"):
        Mesh(nodes, elements)


def test_a_flat_element_is_named():
    nodes, elements = cube()
    nodes[elements[1][4:], 2] = 1e-14 * np.arange(4)
    with pytest.raises(PullbackError, match="element [01] has no volume|same point"):
        Mesh(nodes, elements)


def test_an_element_that_names_a_node_twice():
    nodes, elements = cube()
    elements[1, 3] = elements[1, 2]
    with pytest.raises(PullbackError, match="element 1 names a node twice|belongs to no element"):
        Mesh(nodes, elements)


@pytest.mark.parametrize("bad", [-1, 12])
def test_a_node_that_does_not_exist(bad):
    nodes, elements = cube()
    elements[1, 6] = bad
    with pytest.raises(PullbackError, match="element 1 names nodes"):
        Mesh(nodes, elements)


def test_two_parts_are_refused():
    one, two = block((1.0, 1.0, 1.0), (2, 2, 2)), block((1.0, 1.0, 1.0), (1, 1, 1), origin=(3, 0, 0))
    elements = np.concatenate([one.elements, two.elements + len(one.nodes)])
    with pytest.raises(PullbackError, match="element 8 is not connected to element 0"):
        Mesh(np.concatenate([one.nodes, two.nodes]), elements)


def test_a_long_chain_with_scattered_numbers_is_one_part():
    rng = np.random.default_rng(2)
    mesh = block((50.0, 1.0, 1.0), (200, 1, 1))
    new = rng.permutation(len(mesh.nodes))
    nodes = np.empty_like(mesh.nodes)
    nodes[new] = mesh.nodes
    assert len(Mesh(nodes, rng.permutation(new[mesh.elements])).elements) == 200


@pytest.mark.parametrize("apart", [0.0, 3e-11])
def test_parts_that_touch_without_sharing_nodes_are_named(apart):
    one, two = block((1.0, 1.0, 1.0), (1, 1, 1)), block((1.0, 1.0, 1.0), (1, 1, 1), origin=(1 + apart, 0, 0))
    with pytest.raises(PullbackError, match=r"of element 1\) are the same point"):
        Mesh(np.concatenate([one.nodes, two.nodes]), np.concatenate([one.elements, two.elements + 8]))


def test_other_slips():
    nodes, elements = cube()
    with pytest.raises(PullbackError, match="node 3 of the mesh is not finite"):
        Mesh(np.where(np.arange(12)[:, None] == 3, np.nan, nodes), elements)
    with pytest.raises(PullbackError, match="node 12 belongs to no element"):
        Mesh(np.concatenate([nodes, [[5, 5, 5]]]), elements)
    with pytest.raises(PullbackError, match="whole numbers"):
        Mesh(nodes, elements.astype(float))
    with pytest.raises(PullbackError, match="planes y of a grid must increase"):
        grid([0, 1], [1, 0], [0, 1])
    with pytest.raises(PullbackError, match="no cell"):
        grid([0, 1], [0, 1], [0, 1], np.zeros((1, 1, 1)))


def test_a_mesh_is_read_from_a_file(tmp_path):
    mesh = block((20.0, 10.0, 5.0), (4, 2, 1))
    surface = [("quad", mesh.faces()[0][:3])]
    meshio.write(tmp_path / "part.vtu", meshio.Mesh(mesh.nodes, [("hexahedron", mesh.elements), *surface]))
    read = read_mesh(tmp_path / "part.vtu", unit=1e-3)
    np.testing.assert_allclose(read.nodes, 1e-3 * mesh.nodes, rtol=1e-14)
    np.testing.assert_array_equal(read.elements, mesh.elements)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: block(1, 1), "a block needs three sizes"),
        (lambda: block((1, 1, 1), (1, 1, 1), origin=(0, 0)), "a block needs three sizes"),
        (lambda: block((1, 1, "a"), (1, 1, 1)), "a size of a block must be a number above 0"),
        (lambda: block((1, 1, 1), (1, 1, 1.5)), "cells of a block along an axis must be a whole number"),
        (lambda: printed([[1]], 1.0, layers=1.5, layer=1.0, base=1.0, base_cells=1), "layers must be a whole number"),
        (lambda: printed([[1]], 1.0, layers=1, layer=1.0, base="a", base_cells=1), "base must be a number above 0"),
        (lambda: printed([[1]], 1.0, layers=1, layer=1.0, base=1.0, base_cells=1, margin=-1), "margin must be a whole"),
        (lambda: frame(5, 5, 1.5), "thickness must be a whole number"),
    ],
)
def test_sizes_that_cannot_be(make, message):
    with pytest.raises(PullbackError, match=message):
        make()


def test_files_that_are_no_such_mesh(tmp_path, capsys):
    with pytest.raises(PullbackError, match="there is no mesh"):
        read_mesh(tmp_path / "nothing.vtu")
    with pytest.raises(PullbackError, match="there is no mesh"):
        read_mesh(None)
    (tmp_path / "broken.vtu").write_text("<VTKFile>")
    with pytest.raises(PullbackError, match="unit must be a number above 0, not 'mm'"):
        read_mesh(tmp_path / "broken.vtu", unit="mm")
    with pytest.raises(PullbackError, match="cannot be read as a mesh"):
        read_mesh(tmp_path / "broken.vtu")
    (tmp_path / "broken.vtk").write_text("junk")
    with pytest.raises(PullbackError, match="cannot be read as a mesh"):
        read_mesh(tmp_path / "broken.vtk")
    (tmp_path / "page.xml").write_text("<html><body>no mesh</body></html>")
    with pytest.raises(PullbackError, match="cannot be read as a mesh: meshio, which reads VTK, .* finds none in it"):
        read_mesh(tmp_path / "page.xml")
    assert capsys.readouterr() == ("", "")  # meshio prints what it thinks of a file
    points = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], dtype=float)
    meshio.write(tmp_path / "tetra.vtu", meshio.Mesh(points, [("tetra", np.arange(4)[None])]))
    with pytest.raises(PullbackError, match="tetra elements"):
        read_mesh(tmp_path / "tetra.vtu")
