"""What is drawn: where shapes are, how large, and which arrows a frame has."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.drawing.drawing import HARDEST_WITHIN, turns_from_z
from pullback.drawing.surfaces import simple_surface
from pullback.spatial import unit_quat_matrix
from pullback.view import draw
from pullback.view.camera import HALF_VIEW, fitted_view, motion_points


@pytest.fixture(scope="module")
def model():
    return pb.load(pb.robots.quadruped())


@pytest.fixture(scope="module")
def drawing(model):
    """A motion of 0.4 s in steps of 2 ms with made-up contacts and gradients, from which arrows can be told."""
    q = np.tile(model.home.q, (201, 1))
    q[:, 0] = np.linspace(0.0, 1.0, 201)
    frames = np.array([0, 0, 90, 91, 200])
    gradients = np.zeros((201, model.nbody, 3))
    gradients[:, 1] = (0.0, 2.0, 0.0)
    gradients[100, 1] = (0.0, 0.5, 0.0)
    return replace(
        draw(model, q, dt=0.002, ghost=model.home.q),
        contact_frame=frames,
        contact_pos=np.arange(15.0).reshape(5, 3),
        contact_force=np.array([[0, 0, 10.0], [0, 0, -5.0], [20.0, 0, 0], [0, 30.0, 0], [0, 0, 1e-9]]),
        body_gradients=gradients,
    )


def test_shapes_are_where_mujoco_has_them(model, drawing):
    m, data = model.mujoco, mujoco.MjData(model.mujoco)
    data.qpos[:] = model.home.q
    data.qpos[0] = 0.5
    mujoco.mj_kinematics(m, data)
    shapes = np.arange(len(drawing.shape_kind))
    at, turn = drawing.shape_poses(100, 0, shapes)
    shown = m.geom_group < 3
    np.testing.assert_allclose(at, data.geom_xpos[shown], atol=1e-6)
    np.testing.assert_allclose(turn.reshape(-1, 9), data.geom_xmat[shown], atol=1e-6)
    assert drawing.copies == 2 and drawing.worlds == 1
    np.testing.assert_allclose(drawing.poses[0, 1], drawing.poses[200, 1])  # the ghost stands still


@pytest.mark.parametrize(
    ("kind", "size", "volume"),
    [
        ("box", (0.1, 0.2, 0.3), 8 * 0.006),
        ("sphere", (0.1, 0.2, 0.3), 4 / 3 * np.pi * 0.006),
        ("cylinder", (0.1, 0.1, 0.3), np.pi * 0.01 * 0.6),
        ("capsule", (0.1, 0.1, 0.3), np.pi * 0.01 * 0.6 + 4 / 3 * np.pi * 0.001),
    ],
)
def test_surfaces_are_closed_and_point_outwards(kind, size, volume):
    mesh = simple_surface(kind, size)
    a, b, c = mesh.vertices[mesh.faces].astype(float).transpose(1, 0, 2)
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6 == pytest.approx(volume, rel=0.03)
    assert np.abs(np.cross(b - a, c - a).sum(axis=0)).max() < 1e-6  # closed
    faced = np.einsum("ij,ikj->ik", np.cross(b - a, c - a), mesh.normals[mesh.faces].astype(float))
    assert faced.min() > 0


def test_arrows_point_and_are_as_long_as_what_they_stand_for(drawing):
    arrows = drawing.force_arrows(0)
    np.testing.assert_allclose(arrows.pos, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(unit_quat_matrix(arrows.quat)[:, :, 2], [[0, 0, 1], [0, 0, -1]], atol=1e-9)
    assert arrows.scale[0, 2] == pytest.approx(2 * arrows.scale[1, 2])
    assert not len(drawing.force_arrows(200).pos)  # near, but does not touch
    assert not len(drawing.contacts(200)[0]) and not len(drawing.contacts(50)[0])

    downhill = drawing.gradient_arrows(0)
    np.testing.assert_allclose(unit_quat_matrix(downhill.quat)[0, :, 2], [0, -1, 0], atol=1e-9)
    assert drawing.gradient_arrows(100).scale[0, 2] == pytest.approx(downhill.scale[0, 2] / 4)


def test_arrows_of_gradients_start_on_the_line_through_the_centre_of_mass_where_it_leaves_the_body():
    body = '<body pos="1 0 1" euler="0 0 90"><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.03 0 0"/></body>'
    model = pb.load(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    found = []
    for way in ((-1, 0, 0), (0, 1, 0), (0, 0, 1)):
        gradients = np.tile(np.array(way, dtype=float), (1, 2, 1))
        found.append(replace(draw(model, model.q0[None], dt=0.1), body_gradients=gradients).gradient_arrows(0).pos[0])
    np.testing.assert_allclose(found, [(1.2, 0.03, 1), (1, 0.03 - 0.1, 1), (1, 0.03, 0.7)], atol=1e-6)


def test_turns_from_z():
    ways = np.random.default_rng(0).normal(size=(50, 3))
    ways = np.concatenate([ways / np.linalg.norm(ways, axis=1, keepdims=True), [[0, 0, 1], [0, 0, -1]]])
    np.testing.assert_allclose(unit_quat_matrix(turns_from_z(ways))[:, :, 2], ways, atol=1e-9)


def test_an_impact_between_two_pictures_is_seen(drawing):
    """The hardest moment since the last picture, unless that is long ago."""
    assert drawing.contacts(95, since=85)[1].tolist() == [[0, 30, 0]]
    assert drawing.contacts(90, since=85)[1].tolist() == [[20, 0, 0]]
    assert not len(drawing.contacts(95)[1])
    late = 91 + round(HARDEST_WITHIN / 0.002) + 2
    assert not len(drawing.contacts(late, since=85)[1])

    thin = drawing.thinned(60)
    assert thin.frames == 26 and thin.times[-1] == drawing.times[-1]
    np.testing.assert_array_equal(thin.poses[1], drawing.poses[8])
    strongest = [np.linalg.norm(thin.contacts(frame)[1], axis=-1).max(initial=0.0) for frame in range(thin.frames)]
    assert max(strongest) == 30.0 and strongest[0] == 10.0 and np.count_nonzero(strongest) == 2


@pytest.mark.parametrize("aspect", [0.5, 1.0, 2.5])
def test_the_camera_sees_the_whole_motion_and_no_more(drawing, aspect):
    view = fitted_view(drawing, aspect)
    x, y, z = ((motion_points(drawing) - view.eye) @ view.axes.T).T
    filled = np.array([np.abs(x / z).max() / aspect, np.abs(y / z).max()]) / HALF_VIEW
    assert 0.8 < filled.max() <= 1.0
    np.testing.assert_allclose(view.axes @ view.axes.T, np.eye(3), atol=1e-9)


def test_a_camera_says_from_where(model):
    seen = draw(model, model.home.q[None], dt=0.1, camera=((0.0, -3.0, 0.5), (0.0, 0.0, 0.5)))
    np.testing.assert_allclose(fitted_view(seen, 1.0).axes, [[1, 0, 0], [0, 0, 1], [0, -1, 0]], atol=1e-9)
    with pytest.raises(pb.PullbackError, match="camera must be two different points"):
        draw(model, model.home.q[None], dt=0.1, camera=((1, 1, 1), (1, 1, 1)))
