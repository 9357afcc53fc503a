"""Curves and intervals as pictures."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib import image

from pullback.core.errors import PullbackError
from pullback.view import plot_curve, plot_front, plot_intervals, plot_lines

WORDS = {"title": "Loss of $robot_{", "xlabel": "iteration", "ylabel": "loss"}


def test_a_curve_is_drawn_without_global_state(tmp_path):
    pyplot_before = "matplotlib.pyplot" in sys.modules
    path = plot_curve(tmp_path / "curve.png", np.geomspace(1.0, 1e-4, 50), **WORDS)
    assert path == tmp_path / "curve.png"
    picture = image.imread(path)
    blue = (picture[..., 2] > 0.7) & (picture[..., 0] < 0.4)
    assert 500 < blue.sum() < picture[..., 0].size / 10
    assert ("matplotlib.pyplot" in sys.modules) == pyplot_before


@pytest.mark.parametrize("values", [[0.0, -1.0, 2.0], [3.0], range(100)])
def test_values_that_have_no_logarithm_are_drawn_too(tmp_path, values):
    assert plot_curve(tmp_path / "curve.png", values, **WORDS).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "shape"), ([[1.0]], "shape"), ([1.0, np.nan], r"values\[1\] is not finite"), (["a"], "numbers")],
)
def test_bad_values(tmp_path, values, message):
    with pytest.raises(PullbackError, match=message):
        plot_curve(tmp_path / "curve.png", values, **WORDS)
    assert not (tmp_path / "curve.png").exists()


def test_a_path_that_cannot_be_written(tmp_path):
    with pytest.raises(PullbackError, match="cannot write"):
        plot_curve(tmp_path / "missing" / "curve.png", [1.0], **WORDS)


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)  # makes importing it fail
    with pytest.raises(PullbackError, match=r'pip install "pullback\[view\]"'):
        plot_curve(tmp_path / "curve.png", [1.0], **WORDS)


def test_intervals_are_drawn_with_the_truth_beside_them(tmp_path):
    values = np.array([1.0, 0.8, 1.2])
    ends = (values - [0.1, 0.2, np.inf], values + [0.1, 0.2, np.inf])  # the last is not known
    pictures = []
    for truth in (None, values + 0.05):
        words = {"title": "$robot_{", "xlabel": "factor"}
        path = plot_intervals(tmp_path / "intervals.png", "abc", values, *ends, truth=truth, **words)
        pictures.append(image.imread(path))
    orange = [((p[..., 0] > 0.8) & (p[..., 2] < 0.3)).sum() for p in pictures]
    assert orange[0] == 0 and orange[1] > 50
    assert all(((p[..., 2] > 0.7) & (p[..., 0] < 0.4)).sum() > 100 for p in pictures)


def test_intervals_of_different_lengths(tmp_path):
    with pytest.raises(PullbackError, match="same length"):
        plot_intervals(tmp_path / "x.png", ["a"], [1.0, 2.0], [0.0], [2.0], title="", xlabel="")


def test_lines_are_compared(tmp_path):
    x = np.linspace(0, 1, 50)
    picture = image.imread(plot_lines(tmp_path / "lines.png", x, {"before": x, "found": x**2}, **WORDS))
    blue = (picture[..., 2] > 0.7) & (picture[..., 0] < 0.4)
    orange = (picture[..., 0] > 0.8) & (picture[..., 2] < 0.3)
    assert blue.sum() > 500 and orange.sum() > 500
    assert plot_lines(tmp_path / "many.png", x, {str(k): k * x for k in range(9)}, **WORDS).exists()
    with pytest.raises(PullbackError, match="the same length"):
        plot_lines(tmp_path / "lines.png", x, {"found": x[1:]}, **WORDS)
    steps, options = [1, 2, 4, 8], {"log2": True, "marks": {"limit": 0.85}, "within": (-0.3, 2.0)}
    plain, marked = (
        plot_lines(
            tmp_path / "marked.png", steps, {"a": [1, 1, 2, 90], "b": [1, 1, 0, 0]}, **WORDS, **given
        ).read_bytes()
        for given in ({}, options)
    )
    assert plain != marked


def test_a_line_of_one_point_is_seen(tmp_path):
    """As of a training that was evaluated once."""
    picture = image.imread(plot_lines(tmp_path / "point.png", [3.0], {"return": [-0.7]}, **WORDS))
    assert ((picture[..., 2] > 0.7) & (picture[..., 0] < 0.4)).sum() > 20


@pytest.mark.parametrize("count", [2, 3])
def test_a_front(tmp_path, count):
    values, best = np.random.default_rng(0).uniform(size=(9, count)), np.arange(9) < 6
    labels = ("a", "b", "c")[:count]
    assert plot_front(tmp_path / "front.png", values, best, labels=labels, title="front").stat().st_size > 1000
    with pytest.raises(PullbackError, match="labels"):
        plot_front(tmp_path / "front.png", values, best, labels=("a",), title="front")
    with pytest.raises(PullbackError, match="must have shape"):
        plot_front(tmp_path / "front.png", values, best[1:], labels=labels, title="front")


@pytest.mark.parametrize("words", [9, 400])
def test_long_words_stay_inside_the_picture(tmp_path, words):
    long = " ".join(["$some_body's_robot$:", *["WWW throws"] * words])
    texts, x = {"title": long, "xlabel": long, "ylabel": long}, np.linspace(0, 1, 9)
    ends = {"low": x - 0.1, "high": x + 0.1, "truth": x + 0.05}
    paths = [
        plot_curve(tmp_path / "curve.png", x + 1, **texts),
        plot_lines(tmp_path / "lines.png", x, {long: x, f"again {long}": x**2}, **texts),
        plot_front(tmp_path / "front.png", np.stack([x, x, x], axis=1), x > 0.3, labels=[long] * 3, title=long),
        plot_intervals(tmp_path / "intervals.png", [long] * 9, x, **ends, title=long, xlabel=long),
    ]
    for path in paths:
        picture = image.imread(path)[..., :3]
        edges = (picture[:3], picture[-3:], picture[:, :3], picture[:, -3:])
        assert all(edge.min() == 1.0 for edge in edges), path.name  # a letter that is cut off is dark there
        assert (picture.min(axis=-1) < 0.9).sum(axis=1).max() > 0.5 * picture.shape[1], path.name
