"""Curves and intervals as PNG pictures, for loss histories and estimates."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file

# One accent, quiet greys: the curve is what should be seen first.
CURVE_COLOUR, TEXT_COLOUR, GRID_COLOUR, TRUTH_COLOUR = "#2f6fde", "#2b313b", "#e3e6eb", "#e8711f"
MARKED_UP_TO = 40  # points; with more, the markers would hide the line
TITLE_SIZE, LABEL_SIZE, LEGEND_SIZE, TICK_SIZE = 12, 10, 8, 7  # of letters [points]
TITLE_LINES, LABEL_LINES = 4, 2  # at most; what is longer ends in "…"


def plot_curve(path, values, *, title: str, xlabel: str, ylabel: str, log: bool = True) -> Path:
    """Write ``values`` (n,) against 0, 1, ..., n-1 as a PNG picture at ``path`` and return that path.

    ``log`` asks for a logarithmic vertical axis; values that are not all positive get a linear one.
    """
    curve = _reals(values, "values")
    if curve.ndim != 1 or curve.size == 0:
        raise PullbackError(f"values must have shape (n,) with n >= 1, not {curve.shape}")
    if not np.isfinite(curve).all():
        raise PullbackError(f"values[{int(np.argmin(np.isfinite(curve)))}] is not finite")

    axes = _axes()
    marker = "o" if curve.size <= MARKED_UP_TO else ""
    axes.plot(np.arange(curve.size), curve, color=CURVE_COLOUR, linewidth=1.8, marker=marker, markersize=3.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if log and (curve > 0.0).all():
        axes.set_yscale("log")
    return _write(axes, path, title, xlabel, ylabel)


def plot_lines(
    path,
    x,
    values,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log2: bool = False,
    marks: Mapping[str, float] | None = None,
    within: tuple[float, float] | None = None,
) -> Path:
    """Write several lines, (n,) each by what to call them, over x (n,) as a PNG picture at ``path``; returns that path.

    The last one is what should be seen first.

    log2:    a horizontal axis that doubles from one x to the next, with a marker at each
    marks:   thin horizontal lines, by what to call them
    within:  the vertical axis ends here where lines go further
    """
    x = _reals(x, "x")
    check_kind(values, Mapping, "values", '{"depth": depth}')
    lines = {str(label): _reals(y, str(label)) for label, y in values.items()}
    if not lines or x.ndim != 1 or not x.size or any(y.shape != x.shape for y in lines.values()):
        shapes = ", ".join(f"{label} {y.shape}" for label, y in lines.items())
        raise PullbackError(f"x and all lines must have the same length, at least 1, not {x.shape} and {shapes}")
    axes = _axes()
    # Two lines are a comparison; of more, all count alike.
    colours = [TRUTH_COLOUR, CURVE_COLOUR][-len(lines) :] if len(lines) < 3 else [None] * len(lines)
    style = {"linewidth": 1.8 if len(lines) < 3 else 1.2, "marker": "o" * (log2 or x.size == 1), "markersize": 4}
    for (label, y), colour in zip(lines.items(), colours, strict=True):
        axes.plot(x, y, color=colour, label=label, **style)
    for label, height in (marks or {}).items():
        axes.axhline(height, color=TEXT_COLOUR, linewidth=0.8, linestyle="dotted", label=label)
    if log2:
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [f"{each:g}" for each in x])
        axes.minorticks_off()
    if within is not None:
        seen = np.concatenate([*lines.values(), list((marks or {}).values()), [0.0, 1.0]])
        low, high = np.clip([seen.min(), seen.max()], *within)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    if len(lines) + len(marks or {}) > 1:
        _legend(axes)
    return _write(axes, path, title, xlabel, ylabel)


def plot_front(path, values, best, *, labels: tuple[str, ...], title: str) -> Path:
    """Write a Pareto front, values (m, 2 or 3), as a PNG picture at ``path`` and return that path.

    best: (m,) bool, which of them no other surpasses in all. The third value is the colour.
    """
    values, best, labels = _reals(values, "values"), np.asarray(best, dtype=bool), _labels(labels)
    if values.ndim != 2 or values.shape[1] not in (2, 3) or best.shape != (len(values),) or not len(values):
        raise PullbackError(f"values must have shape (m, 2) or (m, 3) and best (m,), not {values.shape}, {best.shape}")
    if len(labels) != values.shape[1]:
        raise PullbackError(f"there must be {values.shape[1]} labels, not {len(labels)}")
    axes = _axes()
    axes.plot(*values[~best, :2].T, "x", color=TEXT_COLOUR, markersize=5, alpha=0.5)
    colour = {"c": values[best, 2], "cmap": "viridis"} if values.shape[1] == 3 else {"color": CURVE_COLOUR}
    points = axes.scatter(*values[best, :2].T, s=40, **colour)
    if values.shape[1] == 3:
        beside = _fitted(labels[2], _height(axes), LABEL_SIZE)
        axes.figure.colorbar(points, ax=axes).set_label(beside, color=TEXT_COLOUR, parse_math=False)
    return _write(axes, path, title, *labels[:2])


def plot_intervals(path, labels, values, low, high, *, title: str, xlabel: str, truth=None) -> Path:
    """Write estimates (n,) with their intervals as a PNG picture at ``path``, one line each, and return that path.

    With true values (n,) a second column shows what the intervals are next to them, in per cent. An interval that is
    not finite is left out.
    """
    values, low, high = _reals(values, "values"), _reals(low, "low"), _reals(high, "high")
    labels = _labels(labels)
    if not values.ndim == low.ndim == high.ndim == 1 or not len(labels) == values.size == low.size == high.size > 0:
        shapes = f"{len(labels)} labels, {values.shape}, {low.shape} and {high.shape}"
        raise PullbackError(f"labels, values, low and high must have the same length, at least 1, not {shapes}")
    truth = None if truth is None else _reals(truth, "truth")
    if truth is not None and truth.shape != values.shape:
        raise PullbackError(f"truth has shape {truth.shape}, but {values.shape} is needed: one per value")
    rows = np.arange(values.size)
    known = np.isfinite(low) & np.isfinite(high)
    columns = _columns((8.0, 1.2 + 0.17 * values.size), 1 if truth is None else 2)
    columns[0].hlines(rows[known], low[known], high[known], color=CURVE_COLOUR, linewidth=1.6)
    columns[0].plot(values[known], rows[known], "o", color=CURVE_COLOUR, markersize=4, label="estimate")
    names = [_fitted(label, 0.4 * _width(columns[0]), TICK_SIZE, lines=1) for label in labels]
    columns[0].set_yticks(rows, names, fontsize=TICK_SIZE, parse_math=False)
    columns[0].set_ylim(values.size - 0.4, -0.6)
    if truth is not None:
        columns[0].plot(truth, rows, "|", color=TRUTH_COLOUR, markersize=8, markeredgewidth=1.8, label="truth")
        _legend(columns[0])
        ends = [100 * (x[known] / truth[known] - 1) for x in (low, high, values)]
        columns[1].axvline(0.0, color=TRUTH_COLOUR, linewidth=1.2)
        columns[1].hlines(rows[known], *ends[:2], color=CURVE_COLOUR, linewidth=1.6)
        columns[1].plot(ends[2], rows[known], "o", color=CURVE_COLOUR, markersize=3)
        _label(columns[1], "from the truth [%]")
        columns[1].set_yticks(rows, [])
        columns[1].set_ylim(columns[0].get_ylim())
    return _write(columns[0], path, title, xlabel)


def _reals(values, name: str) -> np.ndarray:
    return to_numbers(values, name).astype(float)


def _labels(labels) -> list[str]:
    check_kind(labels, Collection, "labels", '("mass", "friction")')
    return [str(label) for label in labels]


def _axes(size: tuple[float, float] = (7.0, 4.2)):
    """Empty axes in our style, of a picture of this size [inches]."""
    return _columns(size, 1)[0]


def _columns(size: tuple[float, float], columns: int):
    """The same beside each other."""
    try:
        # pyplot is avoided on purpose: it picks a backend and keeps figures for the whole process.
        from matplotlib.figure import Figure
    except ImportError:
        raise PullbackError('plots need matplotlib: pip install "pullback[view]"') from None
    figure = Figure(figsize=size, dpi=150 if columns == 1 else 110, facecolor="white", layout="constrained")
    all_axes = figure.subplots(1, columns, squeeze=False)[0]
    for axes in all_axes:
        axes.tick_params(which="both", color=GRID_COLOUR, labelcolor=TEXT_COLOUR, labelsize=9)
        axes.grid(True, color=GRID_COLOUR, linewidth=0.8)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(GRID_COLOUR)
    return all_axes


def _title(axes, title: str) -> None:
    """Above all columns, in the width of the figure, which grows by what takes more than a line."""
    # Titles may hold names from files, so a "$" in them is a dollar sign and not the start of a formula.
    text = _fitted(title, axes.figure.get_figwidth() - 0.3, TITLE_SIZE, weight="bold", lines=TITLE_LINES)
    axes.figure.set_figheight(axes.figure.get_figheight() + text.count("\n") * 1.2 * TITLE_SIZE / 72)
    style = {"color": TEXT_COLOUR, "fontsize": TITLE_SIZE, "fontweight": "bold", "parse_math": False}
    axes.figure.suptitle(text, x=0.1 / axes.figure.get_figwidth(), horizontalalignment="left", **style)


def _label(axes, xlabel: str, ylabel: str = "") -> None:
    style = {"color": TEXT_COLOUR, "fontsize": LABEL_SIZE, "parse_math": False}
    axes.set_xlabel(_fitted(xlabel, _width(axes), LABEL_SIZE), **style)
    axes.set_ylabel(_fitted(ylabel, _height(axes), LABEL_SIZE), **style)


def _legend(axes) -> None:
    for text in axes.legend(loc="best", fontsize=LEGEND_SIZE, frameon=False).get_texts():
        text.set_parse_math(False)
        text.set_text(_fitted(text.get_text(), 0.4 * _width(axes), LEGEND_SIZE, lines=1))


def _width(axes) -> float:
    """About how long a label below a column may be [inches]: what is beside it takes the rest."""
    return axes.figure.get_figwidth() / axes.get_gridspec().ncols - 1.2


def _height(axes) -> float:
    return axes.figure.get_figheight() - 1.2


def _fitted(text: str, inches: float, size: float, *, weight: str = "normal", lines: int = LABEL_LINES) -> str:
    """``text`` in lines that are no longer than ``inches``; matplotlib's own wrapping knows nothing of our layout."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)

    def fitting(words: str, end: str = "") -> int:
        """How many letters fit into a line before ``end``."""

        def width(count: int) -> float:
            return text_to_path.get_text_width_height_descent(words[:count] + end, font, ismath=False)[0]

        most = min(len(words), int(72 * inches / (0.2 * size)))  # no letter is narrower than that
        return max(1, bisect(range(1, most + 1), 72 * inches, key=width))

    done, rest = [], " ".join(str(text).split())
    while rest and len(done) < lines:
        end = fitting(rest)
        if end < len(rest) and len(done) == lines - 1:
            return "\n".join([*done, rest[: fitting(rest, "…")] + "…"])
        if end < len(rest):
            end = max(rest.rfind(" ", 0, end + 1), 0) or end  # a word that is longer than a line is cut
        done.append(rest[:end])
        rest = rest[end:].strip()
    return "\n".join(done)


def _write(axes, path, title: str, xlabel: str, ylabel: str = "") -> Path:
    """Labels the axes, and writes their picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    _label(axes, xlabel, ylabel)
    _title(axes, title)
    with whole_file(path) as partial, open(partial, "wb") as picture:
        FigureCanvasAgg(axes.figure).print_png(picture)
    return Path(path)
