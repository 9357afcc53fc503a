"""Particles in drawings: in pictures, pages and files."""

from dataclasses import replace

import numpy as np
import pytest

from pullback.drawing import draw_points
from pullback.drawing.surfaces import bead
from pullback.view import load_motion, save_motion, write_page
from pullback.view.camera import fitted_view
from pullback.view.render import Renderer


def cloud():
    """A hundred particles in two frames; half of them hot, and they rise."""
    random = np.random.default_rng(0)
    drawing = draw_points(np.array([0.0, 1.0]), np.zeros((2, 0, 3)), radius=1.0)
    at = random.uniform(-1, 1, (100, 3)).astype(np.float32)
    paint = np.repeat(np.where(at[:, 0] < 0, 0, 255)[None], 2, axis=0).astype(np.uint8)
    return replace(
        drawing, points=np.stack([at, at + np.float32([0, 0, 4])]), point_radius=np.full(100, 0.1), point_paint=paint,
        paint_range=np.array([0.0, 1.0]), camera=np.array([(0.0, -5.0, 0.0), (0.0, 0.0, 0.0)]),
    )  # fmt: skip


def test_particles_are_seen_where_they_are():
    drawing = cloud()
    assert drawing.problem() == ""
    renderer = Renderer(drawing, (160, 120))
    cold, hot = [], []
    for frame in range(2):
        picture = renderer.frame(frame).astype(int)
        warm = (picture[..., 0] > picture[..., 2] + 15) & (picture[..., 0] > 120)
        hot.append(np.argwhere(warm).mean(axis=0))
        cold.append(warm.sum())
    assert min(cold) > 200, "some pixels are of hot particles"
    assert hot[0][1] > 80 and hot[1][1] > 80, "to the right"
    assert hot[1][0] < hot[0][0] - 30, "and higher later"


def test_the_camera_sees_all_of_them():
    drawing = cloud()
    corners = drawing.outline([0, 1])
    assert corners.shape == (2, 8, 3)
    np.testing.assert_allclose(corners[0].min(axis=0), drawing.points[0].min(axis=0) - 0.1, atol=1e-6)
    assert fitted_view(drawing, 1.0).eye[1] < -5


def test_files_and_pages_hold_them(tmp_path):
    drawing = cloud()
    again = load_motion(save_motion(tmp_path / "cloud.npz", drawing))
    np.testing.assert_array_equal(again.points, drawing.points)
    np.testing.assert_array_equal(again.point_paint, drawing.point_paint)
    assert '"points":{"places":' in write_page(tmp_path / "cloud.html", drawing).read_text()
    assert len(drawing.thinned(0.5).points) == len(drawing.thinned(0.5).times)


@pytest.mark.parametrize("wrong", [{"point_radius": np.zeros(0)}, {"point_paint": np.zeros((0, 0), np.uint8)},
                                   {"points": np.zeros((3, 100, 3))}])  # fmt: skip
def test_what_is_not_sound_is_said(wrong):
    assert replace(cloud(), **wrong).problem()


def test_a_bead_is_a_closed_ball():
    ball = bead()
    assert len(ball.faces) == 20
    edges = np.sort(np.concatenate([ball.faces[:, [0, 1]], ball.faces[:, [1, 2]], ball.faces[:, [2, 0]]]), axis=1)
    assert np.all(np.unique(edges, axis=0, return_counts=True)[1] == 2)
    corners = ball.vertices[ball.faces]
    outwards = np.einsum(
        "fi,fi->f", np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), corners[:, 0]
    )
    assert np.all(outwards > 0)
