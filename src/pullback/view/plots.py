"""Curves as PNG pictures, for loss histories and the like."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pullback.core.errors import PullbackError

# One accent, quiet greys: the curve is what should be seen first.
CURVE_COLOUR, TEXT_COLOUR, GRID_COLOUR = "#2f6fde", "#2b313b", "#e3e6eb"
MARKED_UP_TO = 40  # points; with more, the markers would hide the line


def plot_curve(path, values, *, title: str, xlabel: str, ylabel: str, log: bool = True) -> Path:
    """Write ``values`` (n,) against 0, 1, ..., n-1 as a PNG picture at ``path`` and return that path.

    ``log`` asks for a logarithmic vertical axis; values that are not all positive get a linear one.
    """
    try:
        curve = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PullbackError(f"values must be a sequence of numbers: {problem}") from None
    if curve.ndim != 1 or curve.size == 0:
        raise PullbackError(f"values must have shape (n,) with n >= 1, not {curve.shape}")
    if not np.isfinite(curve).all():
        raise PullbackError(f"values[{int(np.argmin(np.isfinite(curve)))}] is not finite")

    try:
        # pyplot is avoided on purpose: it picks a backend and keeps figures for the whole process.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise PullbackError('plot_curve needs matplotlib: pip install "pullback[view]"') from None

    figure = Figure(figsize=(7.0, 4.2), dpi=150, facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    marker = "o" if curve.size <= MARKED_UP_TO else ""
    axes.plot(np.arange(curve.size), curve, color=CURVE_COLOUR, linewidth=1.8, marker=marker, markersize=3.5)
    if log and (curve > 0.0).all():
        axes.set_yscale("log")
    # Titles may hold names from files, so a "$" in them is a dollar sign and not the start of a formula.
    axes.set_title(title, color=TEXT_COLOUR, fontsize=12, fontweight="bold", loc="left", pad=10, parse_math=False)
    axes.set_xlabel(xlabel, color=TEXT_COLOUR, parse_math=False)
    axes.set_ylabel(ylabel, color=TEXT_COLOUR, parse_math=False)
    axes.tick_params(which="both", color=GRID_COLOUR, labelcolor=TEXT_COLOUR, labelsize=9)
    axes.grid(True, color=GRID_COLOUR, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID_COLOUR)

    try:
        target = Path(path)
        with target.open("wb") as picture:
            canvas.print_png(picture)
    except (OSError, TypeError, ValueError) as problem:
        raise PullbackError(f"cannot write the plot to {path!r}: {problem}") from None
    return target
