"""Pages, films and strips: what is in the files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from test_render import red, scene

from pullback.core.errors import PullbackError
from pullback.view import export
from pullback.view.export import _strip_frames, _strip_layout

SMALL = (96, 72)


@pytest.fixture(scope="module")
def drawing():
    """A red ball goes from left to right within 1 s."""
    return scene(np.stack([np.linspace(-1, 1, 11), np.full(11, 0.5)], axis=1))


def column(picture) -> float:
    """Where the red ball is, as a share of the width."""
    mask = red(np.asarray(picture))
    return np.nonzero(mask)[1].mean() / mask.shape[1]


def test_a_strip(drawing, tmp_path):
    seen = []
    path = export(drawing, tmp_path / "strip.png", frames=4, size=SMALL, watch=lambda *count: seen.append(count))
    strip = np.asarray(Image.open(path))
    assert strip.shape == (72, 4 * 96 + 3 * 4, 3) and seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    places = [column(strip[:, i * 100 : i * 100 + 96]) for i in range(4)]
    assert places[0] < 0.3 and places[3] > 0.7 and np.all(np.diff(places) > 0.1)
    assert strip[:12, :40].min() < 100  # a time is written there
    two_rows = Image.open(export(drawing, tmp_path / "rows.png", frames=4, size=(180, 72)))
    assert two_rows.size == (2 * 180 + 4, 2 * 72 + 4)
    wide = Image.open(export(drawing, tmp_path / "wide.png", frames=1))  # as wide as the motion
    assert wide.width > 1.8 * wide.height and wide.width * wide.height == pytest.approx(400 * 300, rel=0.02)


def test_a_strip_has_its_title_in_the_first_picture(drawing, tmp_path):
    """Clipped where it is too long; a drawing without one has none."""

    def dark(title: str) -> np.ndarray:
        path = export(replace(drawing, title=title), tmp_path / "strip.png", frames=2, size=SMALL)
        return np.asarray(Image.open(path)).max(axis=2) < 100

    without, short, long = dark(""), dark("ball"), dark("a ball that goes from left to right")
    below = slice(13, 30)
    assert not without[below, :40].any() and short[below, :40].any() and long[below, :96].any()
    assert (without[:, 96:] == long[:, 96:]).all()


def test_a_strip_shows_what_happens_fast():
    """A ball stands, moves from 0.4 to 0.6 s, and stands again: of six pictures evenly in time none is of its way."""
    x = np.interp(np.linspace(0, 1, 101), [0, 0.4, 0.6, 1], [-1, -1, 1, 1])
    shown = _strip_frames(replace(scene(np.stack([x, 0 * x], axis=1)), times=np.linspace(0, 1, 101)), 6)
    assert shown[0] == 0 and shown[-1] == 100 and len(shown) == 6
    assert np.sum((shown > 40) & (shown < 60)) >= 2 and np.diff(shown).max() < 45
    still = scene(np.zeros((11, 2)))
    assert list(_strip_frames(still, 3)) == [0, 5, 10] and list(_strip_frames(scene([[0.0, 0.0]]), 6)) == [0]


@pytest.mark.parametrize(
    ("count", "aspect", "layout"),
    [(6, 1.0, (3, 2)), (6, 4.0, (2, 3)), (4, 1.0, (4, 1)), (5, 1.3, (5, 1)), (1, 1, (1, 1))],
)
def test_layout_of_a_strip(count, aspect, layout):
    assert _strip_layout(count, aspect) == layout


def test_a_gif(drawing, tmp_path):
    film = Image.open(export(drawing, tmp_path / "film.gif", size=SMALL, fps=10))
    assert film.n_frames == 11 and film.size == SMALL and film.info["loop"] == 0 and film.info["duration"] == 100
    places = []
    for frame in range(film.n_frames):
        film.seek(frame)
        places.append(column(film.convert("RGB")))
    assert np.all(np.diff(places) > 0.02) and places[0] < 0.3 and places[-1] > 0.7


def test_an_mp4(drawing, tmp_path):
    import imageio_ffmpeg as ffmpeg

    path = export(drawing, tmp_path / "film.mp4", size=(95, 72), fps=20, speed=0.5)
    frames = ffmpeg.read_frames(str(path))
    about = next(frames)
    assert about["size"] == (96, 72) and about["fps"] == 20 and about["duration"] == pytest.approx(2.05, abs=0.1)
    pictures = [np.frombuffer(frame, np.uint8).reshape(72, 96, 3) for frame in frames]
    assert len(pictures) == 41  # half as fast
    assert column(pictures[0]) < 0.3 and column(pictures[20]) == pytest.approx(0.5, abs=0.05)


def test_a_page(drawing, tmp_path):
    assert b"<html" in export(drawing, tmp_path / "page.html").read_bytes()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("film.avi", {}, "its name must end in .html, .gif, .mp4, .png"),
        ("film", {}, "its name must end in"),
        ("strip.png", {"size": (8, 8)}, "16 to 4096 pixels"),
        ("film.gif", {"size": (5000, 100)}, "16 to 4096 pixels"),
        ("missing/strip.png", {"size": (16, 16), "frames": 1}, "cannot write"),
        ("missing/film.mp4", {"size": (16, 16), "frames": 1}, "cannot write"),
        ("missing/page.html", {}, "cannot write"),
    ],
)
def test_bad_input(drawing, tmp_path, name, options, message):
    with pytest.raises(PullbackError, match=message):
        export(drawing, tmp_path / name, **options)


@pytest.mark.parametrize(("package", "name"), [("PIL", "a.png"), ("PIL", "a.gif"), ("imageio_ffmpeg", "a.mp4")])
def test_missing_packages_are_named(drawing, tmp_path, monkeypatch, package, name):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(PullbackError, match=r'pip install "pullback\[view\]"'):
        export(drawing, tmp_path / name, frames=1, size=(16, 16))
