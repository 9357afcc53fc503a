"""Comparison of any System's pullback with finite differences, entry by entry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind, check_number, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout.probe import Probe, precision_of_differences
from pullback.rollout.slopes import Differences, Slopes

AGREES, NO_INFLUENCE, SKIPPED, KINK, WRONG = "agrees", "no influence here", "skipped", "kink", "WRONG"

# Step sizes relative to the size of the varied quantity: long steps show the order of convergence, short ones have the
# smallest error. [1]
STEPS = {"float64": (3e-2, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7), "float32": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)}
# Shorter steps that are tried where those leave a doubt, relative to the shortest of them. [1]
SHORTER = (0.1, 0.01, 0.001)
# Tolerance of an entry's error, relative to the largest entry of its gradient. [1]
TOLERANCE = {"float64": 1e-6, "float32": 2e-2}
# An entry is also wrong if it lies outside its slope's interval by more than this, relative to its own size, [1]
OWN = {"float64": 1e-5, "float32": 1e-1}
# unless it does so by no more than this, relative to the largest entry of its gradient. [1]
SMALL = {"float64": 1e-9, "float32": 1e-4}
TINIEST = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Row:
    """The comparison of the gradient of one field, control or parameter with finite differences."""

    field: str
    status: str  # AGREES, NO_INFLUENCE, SKIPPED, KINK or WRONG
    entries: int  # compared
    skipped: int  # entries without a difference: bounds on both sides, or a bound on one side and a jump on the other
    worst: str  # name of the entry that agrees least; at a kink, of the one whose two slopes differ most
    index: tuple[int, ...]  # of that entry
    analytic: float  # from the pullback, at that entry
    numeric: float  # from finite differences, at that entry; at a kink, the slope of the nearer side
    # |analytic - numeric| at that entry, relative to ``largest`` (or to the effect of a solver's residual, if that is
    # larger). Where the slope is known less exactly than the tolerance, and at a kink, it is the distance of the
    # analytic value from the interval of the slope.
    error: float
    largest: float  # largest entry of this field's gradient
    slope: float  # of log error against log step size: about 2 where smooth; NaN where differences are exact
    kink: bool  # the slopes of the two sides differ at that entry
    # the slopes for smaller and for larger values, if they differ; None for a side on which the step jumps
    sides: tuple[float | None, float | None] | None = None
    rough: bool = False  # differences at that entry are less exact than the tolerance; the error is from their interval
    # share of the System's surrogate gradient in this gradient: |added| / (|added| + |exact|)
    surrogate: float = 0.0

    @property
    def slope_text(self) -> str:
        if self.status == KINK:
            return KINK
        return "exact" if np.isnan(self.slope) else f"{self.slope:.2f}"

    @property
    def sides_text(self) -> str:
        """The slopes for smaller and for larger values."""
        return " | ".join("jump" if side is None else f"{side:.6g}" for side in self.sides or ())


@dataclass(frozen=True)
class Report:
    """The result of :func:`check_system`. Prints as a table."""

    rows: tuple[Row, ...]
    tolerance: float
    rollout_steps: int

    @property
    def worst(self) -> Row | None:
        """The row that agrees least; None if nothing was compared."""
        compared = [row for row in self.rows if row.status in (AGREES, KINK, WRONG)]
        return max(compared, key=lambda row: (row.status == WRONG, row.error), default=None)

    @property
    def passed(self) -> bool:
        return all(row.status != WRONG for row in self.rows)

    def __getitem__(self, field: str) -> Row:
        for row in self.rows:
            if row.field == field:
                return row
        raise KeyError(f"{field!r} was not checked; {', '.join(row.field for row in self.rows)} were")

    def __str__(self) -> str:
        head = ("gradient of", "entries", "error", "slope", "worst entry", "pullback", "differences")
        lines: list[tuple[str, ...]] = [head, *(_cells(row) for row in self.rows)]
        surrogate = any(row.surrogate for row in self.rows)
        if surrogate:
            shares = ("surrogate", *(f"{row.surrogate:.1e}" for row in self.rows))
            lines = [(*line, share) for line, share in zip(lines, shares, strict=True)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        left = (0, 4)
        table = [
            "  ".join(
                c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        table.insert(1, "-" * len(table[0]))
        notes = [
            f"error: largest difference, relative to the largest entry of each gradient; tolerance {self.tolerance:g}",
            "slope: order of convergence of the differences: 2 if the motion is smooth; exact: they have no error",
        ]
        if any(row.rough and row.status in (AGREES, WRONG) for row in self.rows):
            notes.append("~: differences are noisy here, and error is the distance of the pullback from their range")
        if any(row.status == KINK for row in self.rows):
            notes.append(
                "kink: slopes for smaller | larger values differ, and the pullback is one of them or in between"
            )
        if surrogate:
            notes.append(
                "surrogate: its share of the System's gradient; the check is of the exact gradient, without it"
            )
        return "\n".join(line.rstrip() for line in [*table, *notes])


def _cells(row: Row) -> tuple[str, ...]:
    count = f"{row.entries}" + (f" (+{row.skipped} skipped)" if row.skipped else "")
    if row.status in (NO_INFLUENCE, SKIPPED):
        return row.field, count, "", "", row.status, "", ""
    name = row.worst + (f"  <-- {row.status}" if row.status in (KINK, WRONG) else "")
    differences = row.sides_text if row.status == KINK else f"{'~' if row.rough else ''}{row.numeric:.6g}"
    return row.field, count, f"{row.error:.1e}", row.slope_text, name, f"{row.analytic:.6g}", differences


class WrongGradient(PullbackError):
    """A pullback and finite differences disagree. ``report`` has all rows."""

    def __init__(self, report: Report):
        self.report = report
        row = report.worst
        assert row is not None  # one of its rows is wrong
        others = sum(other.status == WRONG for other in report.rows) - 1
        super().__init__(
            f"the gradient of {row.field!r} is wrong at {row.worst}: the pullback gives {row.analytic:.9g}, finite "
            f"differences give {row.numeric:.9g} (the largest entry is {row.largest:.3g}, tolerance "
            f"{report.tolerance:g} of it)"
            + (f"; the step has a kink here, with slopes {row.sides_text} to either side" if row.kink else "")
            + (f"; {others} more {'gradient is' if others == 1 else 'gradients are'} wrong" if others else "")
        )


def check_system(
    system: System,
    state=None,
    control=None,
    *,
    seed: int = 0,
    steps: Collection[float] | None = None,
    rollout_steps: int = 1,
    tolerance: float | None = None,
    names: Collection[str] | None = None,
) -> Report:
    """Compares ``system.pullback`` with central differences, for every entry of the state, control and parameters.

    A random cotangent of the next state is pulled back once; then each entry is perturbed by several step sizes in both
    directions. The changes of the difference quotients between step sizes and the measured noise of the loss give an
    interval for each slope. A pullback outside of it by more than ``tolerance`` times the largest entry of that
    gradient raises :class:`WrongGradient` (a PullbackError), which names the worst entry. So does an entry that is off
    by more than 1e-5 (float32: 0.1) of its own size, unless that is as small as rounding errors of the largest entry.

    state:          where to check; None: the System's initial state, with a random perturbation
    control:        (worlds, nu), or (rollout_steps, worlds, nu); None: random within its limits
    seed:           of the cotangent and of all other random numbers
    steps:          step sizes, relative to the size of the varied quantity
    rollout_steps:  1 checks ``step`` and ``pullback``; more check a rollout of this many steps, with a cotangent at
                    every state, and the control of every step
    tolerance:      None: 1e-6 in float64 and 2e-2 in float32
    names:          fields to check, e.g. ("q", "control", "mass"); None: all

    A System with ``in_worlds(n)``, which returns the same System with n worlds, and ``params.is_per_world`` is checked
    with many perturbed copies at once. A value for which the System raises a PullbackError is taken as a bound:
    differences are then one-sided. If the step jumps on that side there is no slope, and the entry is skipped.

    Exactly at a kink, such as a control at its limit or a body that just touches, the slopes from the two sides differ.
    There the pullback must equal one of them or lie in between, and must not be zero if neither is; at the edge of a
    jump it must equal the slope of the continuous side. The row then has status "kink" and shows both slopes. This is
    not an error, but a weaker test: choose a point away from kinks to check a gradient to tolerance.

    A System with a surrogate gradient, such as one with ``ContactConvex(far=...)``, is checked without it, and each row
    has the surrogate's share of the System's gradient.
    """
    check_kind(system, System, "system", "pb.Articulated(model)")
    rollout_steps = check_whole(rollout_steps, "rollout_steps")
    given = STEPS[precision_of_differences(system)] if steps is None else to_numbers(steps, "steps")
    steps = np.unique(np.asarray(given, dtype=float))[::-1]
    if not len(steps) or not np.all((steps > 0) & (steps < np.inf)):
        raise PullbackError(f"steps must be positive step sizes, not {given}")
    if tolerance is None:
        tolerance = TOLERANCE[str(system.dtype)]
    elif not (isinstance(tolerance, int | float) and tolerance in (0, np.inf)):  # which nothing or everything meets
        tolerance = check_number(tolerance, "tolerance")
    if not (names is None or (isinstance(names, Collection) and all(isinstance(name, str) for name in names))):
        raise PullbackError(f"names must be what to check, such as ('q', 'mass'), not {names!r}")
    probe = Probe(system.exact(), state, control, rollout_steps, np.random.default_rng(check_seed(seed)))
    bars = probe.pull_back()
    unknown = set(names or ()) - set(bars)
    if unknown:
        raise PullbackError(f"there is nothing called {sorted(unknown)[0]!r} to check; there are {', '.join(bars)}")
    bars = {name: bar for name, bar in bars.items() if names is None or name in names}
    rows = _rows(probe, bars, steps, tolerance) if bars else ()
    if system.surrogate is not None:
        own = probe.pull_back(system)
        rows = tuple(replace(row, surrogate=_share(own[row.field], bars[row.field])) for row in rows)
    report = Report(rows, tolerance, rollout_steps)
    if not report.passed:
        raise WrongGradient(report)
    return report


def _share(own: np.ndarray, exact: np.ndarray) -> float:
    """The share of a surrogate in a gradient ``own``, of which ``exact`` is the part without it."""
    added = float(np.linalg.norm(own - exact))
    return added / (added + float(np.linalg.norm(exact))) if added else 0.0


# --- comparison -------------------------------------------------------------------------------------------------------


def _rows(probe: Probe, bars: dict[str, np.ndarray], steps: np.ndarray, tolerance: float) -> tuple[Row, ...]:
    found = Differences(probe, bars, steps)
    slopes, verdicts = _judge(found, bars, tolerance)
    unclear = np.concatenate([verdict.unclear for verdict in verdicts])
    if len(unclear):
        found.add(steps[-1] * np.array(SHORTER), np.isin(np.arange(len(found.names)), unclear))
        slopes, verdicts = _judge(found, bars, tolerance)
    return tuple(verdict.row(found, slopes, steps) for verdict in verdicts)


def _judge(found: Differences, bars: dict[str, np.ndarray], tolerance: float) -> tuple[Slopes, list[Verdict]]:
    slopes = Slopes(found)
    return slopes, [Verdict(found, slopes, name, bar, tolerance) for name, bar in bars.items()]


class Verdict:
    """The comparison of one field's gradient with the slopes of those entries that can be compared."""

    def __init__(self, found: Differences, slopes: Slopes, name: str, bar: np.ndarray, tolerance: float):
        self.name, self.shape = name, bar.shape
        field = found.names == name
        self.where = np.flatnonzero(field & ~slopes.skipped)
        self.skipped = int(np.sum(field)) - len(self.where)
        self.analytic = analytic = bar.ravel()[found.places[self.where]]
        dtype = str(found.probe.system.dtype)
        low, high, best, kink = (x[self.where] for x in (slopes.low, slopes.high, slopes.best, slopes.kink))
        self.sides = sides = np.stack([slopes.behind.best, slopes.ahead.best])[:, self.where]

        # A field has no influence if changes by its own size move the loss by less than a solver's residual may.
        floor = found.probe.residual / found.sizes[self.where]
        certain = np.maximum(np.maximum(low, -high), 0.0)
        moved = np.nan_to_num(np.abs(slopes.quotients[self.where]) - slopes.noise[self.where]).max(axis=1)
        idle = not np.any(kink) and bool(np.all(np.maximum(np.abs(analytic), moved) <= floor))
        known = [np.abs(analytic), certain, np.nan_to_num(np.abs(sides[:, kink])).ravel()]
        self.largest = float(np.concatenate(known).max(initial=0.0))

        # Where the slope is known better than the tolerance, the error is the difference from it; elsewhere, the
        # distance from its interval.
        outside = np.maximum(np.maximum(low - analytic, analytic - high), 0.0)
        sharp = ~slopes.apart[self.where] & (high - low <= 2 * tolerance * self.largest)
        error = np.where(sharp, np.abs(best - analytic), outside)
        # Zero lies between the two slopes of |x|, but is an error there: it is neither of them.
        magnitude = np.nan_to_num(np.abs(sides), nan=np.inf).min(axis=0)
        zero = kink & (np.abs(analytic) <= SMALL[dtype] * magnitude) & (magnitude > tolerance * self.largest)
        error = np.where(zero, magnitude, error)
        self.error = error / np.maximum(max(self.largest, TINIEST), floor / tolerance if tolerance else 0.0)
        # An entry that is small relative to the largest may still be wrong relative to its own size.
        nearest = np.nan_to_num(np.abs(sides - analytic), nan=np.inf).argmin(axis=0)
        self.numeric = np.where(kink, np.take_along_axis(sides, nearest[None], axis=0)[0], best)
        own = np.maximum(np.maximum(np.abs(self.numeric), np.abs(analytic)), TINIEST)
        plain = outside > np.maximum(OWN[dtype] * own, SMALL[dtype] * self.largest)
        self.error = np.where(plain, np.maximum(self.error, outside / own), self.error)

        self.wrong = ~(self.error <= tolerance)
        # A field that moves the loss only by long steps, such as a distant shape's size, has no influence here either.
        still = bool(np.all(np.maximum(np.abs(analytic), np.abs(best)) <= floor))
        self.idle = idle or (still and not np.any(kink | self.wrong))
        self.rough = ~sharp
        self.apart = np.nan_to_num(np.abs(sides[1] - sides[0]), nan=np.inf)
        self.kink = kink & (self.apart > tolerance * self.largest)
        self.unclear = self.where[self.wrong | ~sharp]

    def row(self, found: Differences, slopes: Slopes, steps: np.ndarray) -> Row:
        about: dict[str, Any] = {"field": self.name, "entries": len(self.where), "skipped": self.skipped}
        if self.idle:
            nothing: dict[str, Any] = {
                "worst": "",
                "index": (),
                "analytic": 0.0,
                "numeric": 0.0,
                "error": 0.0,
                "largest": 0.0,
            }
            status = NO_INFLUENCE if len(self.where) or not self.skipped else SKIPPED
            return Row(**about, status=status, **nothing, slope=np.nan, kink=False)
        if np.any(self.wrong):
            status, worst = WRONG, int(np.argmax(np.where(self.wrong, self.error, -np.inf)))
        elif np.any(self.kink):
            status, worst = KINK, int(np.argmax(np.where(self.kink, self.apart, -np.inf)))
        else:
            status, worst = AGREES, int(np.lexsort((np.abs(self.analytic), self.error))[-1])
        index = tuple(int(i) for i in np.unravel_index(found.places[self.where[worst]], self.shape))
        smooth = self.where[~self.kink | self.wrong], slice(len(steps))
        gap = np.abs(slopes.quotients[smooth] - self.analytic[~self.kink | self.wrong, None])
        behind, ahead = (None if np.isnan(side) else float(side) for side in self.sides[:, worst])
        return Row(
            **about,
            status=status,
            worst=found.probe.name_of(self.name, index),
            index=index,
            analytic=float(self.analytic[worst]),
            numeric=float(self.numeric[worst]),
            error=float(self.error[worst]),
            largest=self.largest,
            slope=_slope(gap, slopes.noise[smooth], steps),
            kink=bool(self.kink[worst]),
            sides=(behind, ahead) if self.kink[worst] else None,
            rough=bool(self.rough[worst]),
        )


def _slope(gap: np.ndarray, noise: np.ndarray, steps: np.ndarray) -> float:
    """The slope of log error over log step size where truncation dominates; NaN where it never does."""
    clear = np.where(np.isnan(gap) | (gap <= noise), -np.inf, gap)
    ready = np.flatnonzero(np.sum(np.isfinite(clear[:, :3]), axis=1) >= 2)
    if not len(ready):
        return float("nan")
    entry = ready[np.argmax(np.max(clear[ready], axis=1))]
    shown = np.flatnonzero(np.isfinite(clear[entry]))[-3:]
    return float(np.polyfit(np.log(steps[shown]), np.log(gap[entry, shown]), 1)[0])
