"""A slice of a reachability map as a picture: its value in colour, its boundary, and arrows along its gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.reach import ReachabilityMap
from pullback.view.plots import LABEL_SIZE, LEGEND_SIZE, TEXT_COLOUR, TRUTH_COLOUR, _axes, _write

FINE = 160  # points along the longer side, for colours
SHADES = 5  # between two numbers of the colour bar
TICK_SIZE = 8  # of letters beside it [points]
COARSE = 24  # arrows along the longer side
POSITIONS = ("x [m]", "y [m]", "z [m]")
TURNS = ("turn about x [rad]", "turn about y [rad]", "turn about z [rad]")


def plot_slice(
    path, rmap: ReachabilityMap, *, at, ranges, axes: tuple[int, int] = (0, 1), title: str = "", truth=None
) -> Path:
    """Write a picture of a map around one pose, moved along two axes of its tangent space; returns its path.

    at:      (sample size,) the pose that says all that does not change
    axes:    which two numbers of the tangent space change, the horizontal one first
    ranges:  (2, 2) [m or rad] from and to of each; of a turn, from where ``at`` is
    truth:   a function of poses (n, sample size) that says which can be reached (n,) bool, such as one that calls
             ``pullback.reach.inverse``; its boundary is drawn too
    """
    check_kind(rmap, ReachabilityMap, "rmap")
    space = rmap.space
    at = space.check(np.reshape(at, (1, -1)), "at")[0]
    ranges = to_numbers(ranges, "ranges").astype(float)
    known = range(space.tangent_size)
    if len(axes) != 2 or axes[0] == axes[1] or any(axis not in known for axis in axes):
        raise PullbackError(f"axes must be two of 0 to {space.tangent_size - 1}, not {axes}")
    if ranges.shape != (2, 2) or not np.all(ranges[:, 0] < ranges[:, 1]):
        raise PullbackError("ranges must be two rows of from and to, e.g. [(-1, 1), (0, 2)]")

    def grid(most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lengths = ranges[:, 1] - ranges[:, 0]
        counts = tuple(int(n) for n in np.maximum(2, np.round(most * lengths / lengths.max())))
        across, up = (np.linspace(*ends, n) for ends, n in zip(ranges, counts, strict=True))
        return across, up, space.grid(at, axes, ranges, counts)

    def on(poses: np.ndarray, function) -> np.ndarray:
        found = to_numpy(function(poses.reshape(-1, space.sample_size)))
        return found.reshape(*poses.shape[:2], *found.shape[1:]).swapaxes(0, 1)

    sheet = _axes((7.0, 5.2))
    across, up, poses = grid(FINE)
    value = on(poses, rmap.decision_function)
    most = max(float(np.percentile(np.abs(value), 80)), 1e-9)
    levels = _round_levels(most)
    filled = sheet.contourf(across, up, value, levels=levels, cmap="RdBu", extend="both", alpha=0.75)
    bar = sheet.figure.colorbar(filled, ax=sheet, shrink=0.85, ticks=levels[::SHADES])
    bar.ax.tick_params(labelcolor=TEXT_COLOUR, labelsize=TICK_SIZE)
    bar.set_label("value of the map [1]: positive within reach", color=TEXT_COLOUR, fontsize=LABEL_SIZE)
    lines = {"boundary of the map": {"colors": TEXT_COLOUR, "linewidths": 1.8, "linestyles": "solid"}}
    sheet.contour(across, up, value, levels=[0.0], **lines["boundary of the map"])
    if truth is not None:
        reached = on(poses, truth).astype(float)
        lines["boundary of the truth"] = {"colors": TRUTH_COLOUR, "linewidths": 1.4, "linestyles": "dashed"}
        sheet.contour(across, up, reached, levels=[0.5], **lines["boundary of the truth"])
    across, up, poses = grid(COARSE)
    slope = on(poses, lambda x: rmap.evaluate(x)[1])[..., list(axes)]
    # Arrows say where to go, colours how much: lengths are brought closer together.
    length = np.linalg.norm(slope, axis=-1, keepdims=True)
    slope = slope / np.maximum(length, 1e-12) * (length / max(length.max(), 1e-12)) ** 0.25
    options = {"color": TEXT_COLOUR, "alpha": 0.7, "width": 0.0022, "angles": "xy", "pivot": "middle"}
    sheet.quiver(across, up, slope[..., 0], slope[..., 1], **options)
    _legend_below(sheet, lines)
    if max(axes) < space.dimensions:
        sheet.set_aspect("equal")
    return _write(sheet, path, title or f"A map in {space.name}", *(_axis_name(space, axis) for axis in axes))


def _round_levels(most: float) -> np.ndarray:
    """About as far as ``most`` both ways, in shades between round numbers."""
    from matplotlib.ticker import MaxNLocator

    tick = float(np.diff(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(-most, most))[0])
    count = SHADES * max(1, round(most / tick))
    return tick / SHADES * np.arange(-count, count + 1)


def _legend_below(sheet, lines: dict[str, dict]) -> None:
    """What the lines and the arrows are; below the axes, since every place inside is coloured."""
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=style["colors"], linewidth=style["linewidths"], linestyle=style["linestyles"], label=name)
        for name, style in lines.items()
    ]
    arrow = {"marker": r"$\rightarrow$", "markersize": 12, "linestyle": "none"}
    keys.append(Line2D([], [], color=TEXT_COLOUR, **arrow, label="gradient of the map"))
    sheet.figure.legend(handles=keys, loc="outside lower center", ncols=3, fontsize=LEGEND_SIZE, frameon=False)


def _axis_name(space, axis: int) -> str:
    if axis < space.dimensions:
        return POSITIONS[axis]
    return TURNS[axis - space.dimensions if space.rotation == "quaternion" else 2]
