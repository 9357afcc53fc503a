"""A part that is heated and grows: in pictures, in a browser's page, in the viewer and in motion files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chromium import Browser, centre, needs_chromium, share

from pullback import PullbackError
from pullback.thermal import births, follow, printed
from pullback.view import Viewer, draw_heat, load_motion, save_motion, write_page
from pullback.view.render import Renderer

FROM_THE_FRONT = ((0.005, -0.1, 0.02), (0.005, 0.0, 0.0))


@pytest.fixture(scope="module")
def wall():
    """A wall of ten cells, printed from left to right within 2 s; it is hot where the laser is."""
    mesh = printed(np.ones((10, 2)), 1e-3, layers=2, layer=1e-3, base=2e-3, base_cells=1, margin=1)
    path = follow([(0, 1e-3, 2e-3), (10e-3, 1e-3, 2e-3)], speed=5e-3)
    born = births(mesh, path, base=1e-3, reach=1.2e-3)
    times = np.linspace(0, 2, 81)
    places, _ = path.at(times)
    away = np.linalg.norm(mesh.nodes - places[:, None], axis=2)
    return mesh, path, born, times, 300 + 1500 * np.exp(-away / 1.5e-3)


@pytest.fixture(scope="module")
def drawing(wall):
    mesh, path, born, times, temperatures = wall
    return draw_heat(mesh, times, temperatures, born=born, path=path, camera=FROM_THE_FRONT)


def hot(view) -> np.ndarray:
    """Orange and red, but not the laser, which is darker."""
    r, g, b = np.moveaxis(np.asarray(view, dtype=float), -1, 0)
    return (r > 1.25 * g) & (g > 1.15 * b)


def test_faces_are_seen_between_two_births(wall, drawing):
    mesh, _, born, times, _ = wall
    for frame in (0, 40, 80):
        alive = born <= times[frame]
        inside = (mesh.faces()[2] >= 0) & alive[mesh.faces()[1]] & alive[mesh.faces()[2]]
        exposed = int((alive[mesh.faces()[1]] | (alive[mesh.faces()[2]] & (mesh.faces()[2] >= 0))).sum() - inside.sum())
        assert drawing.faces_seen(frame, 0).sum() == 2 * exposed, "two triangles a face"


def test_seen_faces_turn_outwards(wall, drawing):
    mesh, _, born, times, _ = wall
    surface = drawing.surface(0)
    seen = drawing.faces_seen(40, 0)
    corners = surface.vertices[surface.faces[seen]].astype(float)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    alive = mesh.centres[born <= times[40]]
    inwards = corners.mean(axis=1) - 1e-4 * normals / np.linalg.norm(normals, axis=1, keepdims=True)
    half = np.array([0.5e-3, 0.5e-3, 0.5e-3])
    # just behind a face there is an element that is alive (the plate is 2 mm high, all else 1 mm)
    apart = np.abs(inwards[:, None] - alive)
    height = np.where(alive[:, 2] < 0, 1e-3, half[2])
    assert np.all(np.any((apart[..., :2] <= half[:2] + 1e-9).all(axis=2) & (apart[..., 2] <= height), axis=1))


def test_a_renderer_draws_the_heat_where_the_laser_is(drawing):
    renderer = Renderer(drawing, (320, 200), samples=1)
    places = [centre(hot(renderer.frame(frame)))[0] for frame in (8, 40, 72)]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.05)
    assert places[2] - places[0] > 0.3


def test_a_motion_file_keeps_the_paint(drawing, tmp_path):
    held = load_motion(save_motion(tmp_path / "motion.npz", drawing))
    assert held.paint_unit == "K"
    for name in ("paint", "paint_range", "face_times"):
        np.testing.assert_array_equal(getattr(held, name), getattr(drawing, name))
    wrong = replace(drawing, paint=drawing.paint[:, :-1])
    with pytest.raises(PullbackError, match="draw_paint has shape"):
        load_motion(save_motion(tmp_path / "wrong.npz", wrong))


def test_files_without_paint_are_still_read(drawing, tmp_path):
    save_motion(tmp_path / "motion.npz", replace(drawing, paint=np.zeros((0, 0), np.uint8), paint_range=np.zeros(0)))
    with np.load(tmp_path / "motion.npz") as file:
        old = {name: file[name] for name in file.files if "paint" not in name and "face_times" not in name}
    np.savez(tmp_path / "old.npz", **old)
    assert not len(load_motion(tmp_path / "old.npz").paint)


def test_thinning_keeps_colours_with_their_times(drawing):
    thin = drawing.thinned(10)
    assert thin.frames < drawing.frames
    for frame in range(thin.frames):
        row = int(np.argmin(np.abs(drawing.times - thin.times[frame])))
        np.testing.assert_array_equal(thin.paint[frame], drawing.paint[row])


def test_a_laser_that_is_slower_than_its_path(wall):
    """At half the speed everything happens twice as late, births too."""
    mesh, path, born, times, temperatures = wall
    slow = draw_heat(mesh, 2 * times, temperatures, born=born, path=path, clock=times)
    usual = draw_heat(mesh, times, temperatures, born=born, path=path)
    np.testing.assert_array_equal(slow.poses, usual.poses)
    for frame in (0, 40, 80):
        np.testing.assert_array_equal(slow.faces_seen(frame, 0), usual.faces_seen(frame, 0))
    with pytest.raises(PullbackError, match="clock must have"):
        draw_heat(mesh, times, temperatures, clock=-times)


@needs_chromium
def test_a_browser_shows_the_part_grow(drawing, tmp_path):
    page = write_page(tmp_path / "replay.html", drawing)
    with Browser(tmp_path) as browser:
        places, views = [], []
        for time in (0.3, 1.0, 1.7):
            browser.go(f"{page.as_uri()}?{time}#t={time}")
            view = browser.until(lambda view: share(hot(view)) > 0.001, f"the heat at {time} s", np.s_[:480, :560])
            places.append(centre(hot(view))[0])
            views.append(view)
        assert places[0] + 0.1 < places[1] < places[2] - 0.1
        column = int(places[2] * views[2].shape[1])
        wall = [np.min(view[:, column - 5 : column + 5], axis=2) < 0.6 for view in views]  # darker than the sky
        assert wall[0].sum() < 0.9 * wall[2].sum(), "the wall is not there yet"
        assert browser.value("document.getElementById('legend').textContent") == "301 K1800 K"


def test_the_viewer_shows_it(drawing):
    with Viewer(drawing) as viewer:
        viewer.go(False, at=1.0)
        assert viewer.url.startswith("http")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperatures": np.zeros((81, 3))}, r"temperatures has shape \(81, 3\)"),
        ({"times": np.zeros(81)}, "times must be finite and rise"),
        ({"times": np.full(81, np.nan)}, "times must be finite and rise"),
        ({"times": ["a"]}, "times cannot be read"),
        ({"clock": np.full(81, np.nan)}, "clock must have"),
        ({"born": [1.0, 2.0]}, "born must be .* one per element"),
        ({"limits": (500.0, 300.0)}, "limits must be two temperatures that rise"),
        ({"frames": 0}, "frames must be"),
    ],
)
def test_what_cannot_be_drawn(wall, change, message):
    mesh, _, _, times, temperatures = wall
    with pytest.raises(PullbackError, match=message):
        draw_heat(mesh, **{"times": times, "temperatures": temperatures} | change)
