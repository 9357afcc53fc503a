"""Bodies that deform: in pictures, in a browser's page, in the viewer and in motion files."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from chromium import Browser, centre, needs_chromium, share

import pullback as pb
from pullback import soft
from pullback.view import Viewer, draw_run, load_motion, save_motion, write_page
from pullback.view.render import Renderer

FROM_THE_FRONT = ((0.0, -1.5, 0.2), (0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def run():
    """A sheet that falls on a ball, past a solid cube that hangs in the air."""
    cloth = soft.sheet((-0.2, -0.2, 0.3), (0.4, 0, 0), (0, 0.4, 0), (8, 8), soft.Membrane(young=200.0, density=0.2))
    cube = soft.solid_block((0.5, 0, 0), (0.6, 0.1, 0.1), (2, 2, 2), soft.StVK(young=1e4, density=1e3))
    ball = soft.Shape.sphere((0, 0, 0.1), 0.1, friction=0.3)
    fixed = np.arange(len(cloth.points), len(cloth.points) + len(cube.points))
    system = soft.Elastic([cloth, cube], dt=0.01, shapes=[ball], fixed=fixed, damping=1.0)
    return pb.rollout(system, system.state(), steps=40)


@pytest.fixture(scope="module")
def drawing(run):
    return draw_run(run, camera=FROM_THE_FRONT)


def coloured(view) -> np.ndarray:
    """Red and orange: what is strained."""
    r, g, b = np.moveaxis(np.asarray(view, dtype=float), -1, 0)
    return (r > 1.15 * g) & (g > 0.05 * b)


def test_the_drawing_is_that_of_the_states(run, drawing):
    assert drawing.problem() == ""
    body = run.system.bodies[1]
    assert drawing.mesh_sizes.tolist() == [[2 * 81 + 26, 2 * 2 * 64 + 6 * 8]], "both sides of cloth; a solid's surface"
    np.testing.assert_allclose(drawing.mesh_motion[7, -26:].max(axis=0), body.points.max(axis=0), atol=1e-6)
    middle = (drawing.mesh_motion[:, :81] + drawing.mesh_motion[:, 81:162]) / 2
    np.testing.assert_allclose(middle, run.x[:, 0, :81], atol=1e-6)
    mesh = drawing.surface_at(30, 0)
    corners = mesh.vertices[mesh.faces[-48:]].astype(float)
    outwards = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all(np.sum(outwards * (corners.mean(axis=1) - [0.55, 0.05, 0.05]), axis=1) > 0)


def test_colours_are_strains(run, drawing):
    assert np.all(drawing.paint[0] == 0) and drawing.paint[20].max() > 100 and drawing.paint_unit == "strain"
    stretched = run.system.state(1.25 * run.system.mesh.points)
    strain = soft.elastic_drawing.vertex_strains(run.system, stretched.x)
    np.testing.assert_allclose(strain, 0.25, atol=1e-12)


def test_a_renderer_and_a_motion_file(drawing, tmp_path):
    renderer = Renderer(drawing, (240, 160), samples=1)
    views = [renderer.frame(frame) for frame in (0, 20)]
    assert share(coloured(views[0])) < 0.001 < share(coloured(views[1]))
    held = load_motion(save_motion(tmp_path / "motion.npz", drawing))
    np.testing.assert_array_equal(held.mesh_motion, drawing.mesh_motion)
    with pytest.raises(pb.PullbackError, match="draw_mesh_motion has shape"):
        load_motion(save_motion(tmp_path / "wrong.npz", replace(drawing, mesh_motion=drawing.mesh_motion[:, :-1])))


def test_the_viewer_shows_it(drawing):
    with Viewer(drawing) as viewer:
        viewer.go(False, at=0.2)
        assert viewer.url.startswith("http")


@needs_chromium
def test_a_browser_shows_the_cloth_fall(drawing, tmp_path):
    page = write_page(tmp_path / "replay.html", drawing)
    with Browser(tmp_path) as browser:
        places = []
        for time in (0.2, 0.4):
            browser.go(f"{page.as_uri()}?{time}#t={time}")
            view = browser.until(lambda view: share(coloured(view)) > 0.0005, f"strain at {time} s", np.s_[:480, :560])
            places.append(centre(coloured(view))[1])
        legend = browser.value("document.getElementById('legend').textContent")
        low, high = map(float, re.fullmatch(r"(.+) strain(.+) strain", legend).groups())
        assert low == 0 and high == pytest.approx(drawing.paint_range[1], rel=0.05)  # small strains are not shown as 0
        assert abs(places[1] - places[0]) > 0.005
