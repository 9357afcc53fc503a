"""Slices of reachability maps as pictures."""

import numpy as np
import pytest
from matplotlib import image

import pullback as pb
from pullback.reach import ReachabilityMap
from pullback.reach.svm import SupportVectors
from pullback.view import plot_slice
from pullback.view.slices import SHADES, _round_levels


def bump(name: str, centre) -> ReachabilityMap:
    """Positive around one pose."""
    rmap = ReachabilityMap(name)
    rmap._hold(SupportVectors(rmap.space.features(np.array([centre])), np.ones(1), 4.0, 0.5))
    return rmap


def test_a_slice_shows_inside_and_outside_and_the_truth(tmp_path):
    rmap = bump("R3", [0.5, 0.0, 0.2])
    options = {"at": [0, 0, 0.2], "ranges": [(-1, 1), (-1, 1)]}
    path = plot_slice(tmp_path / "slice.png", rmap, **options)
    picture = image.imread(path)[..., :3]
    height, width = picture.shape[:2]
    # inside is blue and lies to the right, outside is red; the colour bar stands at the very right
    sheet = picture[height // 4 : 3 * height // 4, width // 8 : 3 * width // 4]
    blue = np.argwhere((sheet[..., 2] > sheet[..., 0] + 0.1) & (sheet[..., 2] > 0.5))
    red = np.argwhere((sheet[..., 0] > sheet[..., 2] + 0.1) & (sheet[..., 0] > 0.5))
    assert len(blue) > 1000 and len(red) > 1000 and blue[:, 1].mean() > red[:, 1].mean() + 0.1 * width
    seen = []
    with_truth = plot_slice(tmp_path / "truth.png", rmap, **options, truth=lambda x: seen.append(x) or x[:, 0] > 0)
    assert seen[0].shape[1] == 3 and np.ptp(seen[0], axis=0) == pytest.approx([2, 2, 0])
    assert with_truth.read_bytes() != path.read_bytes()


@pytest.mark.parametrize("most", [1e-9, 0.3, 14.69, 97.0, 3e5])
def test_the_colour_bar_has_round_numbers(most):
    levels = _round_levels(most)
    ticks = levels[::SHADES]
    step = ticks[1] - ticks[0]
    assert round(step / 10.0 ** np.floor(np.log10(step) + 1e-9), 6) in (1, 2, 2.5, 5)
    assert len(ticks) % 2 and ticks[len(ticks) // 2] == 0 and 0.5 * most < levels[-1] < 2.1 * most


@pytest.mark.parametrize(("name", "at", "axes"), [("SE2", [0, 0, 0], (0, 2)), ("SO3", [1, 0, 0, 0], (0, 1))])
def test_turns_are_axes_too(tmp_path, name, at, axes):
    path = plot_slice(tmp_path / "slice.png", bump(name, at), at=at, axes=axes, ranges=[(-1, 1), (-2, 2)], title="$")
    assert path.read_bytes().startswith(b"\x89PNG")


BAD = {
    "a pose of another space": ({"at": [0, 0]}, "at has shape"),
    "one axis twice": ({"axes": (1, 1)}, "axes must be two of 0 to 2"),
    "an axis that is not there": ({"axes": (0, 3)}, "axes must be two of 0 to 2"),
    "an empty range": ({"ranges": [(0, 0), (0, 1)]}, "ranges must be two rows"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind, tmp_path):
    given, message = BAD[kind]
    with pytest.raises(pb.PullbackError, match=message):
        plot_slice(tmp_path / "x.png", bump("R3", [0, 0, 0]), **{"at": [0, 0, 0], "ranges": [(0, 1), (0, 1)], **given})
