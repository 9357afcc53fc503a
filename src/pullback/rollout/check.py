"""Finite differences against the pullback of any System, entry by entry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind, check_number, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout.probe import Probe, precision_of_differences

AGREES, NO_INFLUENCE, SKIPPED, KINK, WRONG = "agrees", "does not matter here", "skipped", "kink", "WRONG"

# Long steps show the slope, short ones the smallest error. Relative to the size of what is varied. [1]
STEPS = {"float64": (3e-2, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7), "float32": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)}
# Where these leave a doubt, shorter ones are tried, relative to the shortest. [1]
SHORTER = (0.1, 0.01, 0.001)
# What central differences reach for a smooth step, with a margin. [1]
TOLERANCE = {"float64": 1e-6, "float32": 2e-2}
# An entry may also be off against its own size by no more than this, beside what is not known of it; [1]
OWN = {"float64": 1e-5, "float32": 1e-1}
# unless it is as small as this beside the largest of its gradient. [1]
SMALL = {"float64": 1e-9, "float32": 1e-4}
# The noise of the loss is measured at four moves of this size, far too short for anything else to bend it. [1]
TINY = {"float64": 1e-10, "float32": 1e-5}
# and taken for larger than what the few samples show by this factor. [1]
MARGIN = 4.0
# What changes the loss by as much at one tiny move as at four times that, to this share, is a jump. [1]
SAME = 0.05
# Entries of a parameter this small are what rounding has left of zeros, whatever their unit.
RESIDUE = 1e-12
TINIEST = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Row:
    """How the gradient with respect to one field, control or parameter compares with finite differences."""

    field: str
    status: str  # AGREES, NO_INFLUENCE, SKIPPED, KINK or WRONG
    entries: int  # compared
    skipped: int  # no difference could be formed: at a bound on both sides, or on one with a jump to the other
    worst: str  # the entry that agrees least, by name; of a kink, where the slopes differ most
    index: tuple[int, ...]  # of that entry
    analytic: float  # from the pullback, at that entry
    numeric: float  # from finite differences, at that entry; of a kink, the slope of the nearer side
    # |analytic - numeric| at that entry and its best step size, over ``largest`` (or over what the residual of a solver
    # could make up, if that is more); of a kink, the distance from the interval between the slopes of both sides
    error: float
    largest: float  # largest entry of this field's gradient
    slope: float  # of log error against log step size: about 2 where smooth; NaN where differences are exact
    kink: bool  # the slopes of the two sides differ at that entry
    # those slopes, for smaller and for larger values, where they differ; None for a side on which the step jumps
    sides: tuple[float | None, float | None] | None = None

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
    """What :func:`check_system` found; printed as a table."""

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
        lines = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        left = (0, 4)
        table = [
            "  ".join(
                c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        table.insert(1, "-" * len(table[0]))
        notes = [
            f"error: against the largest entry of each gradient; tolerance {self.tolerance:g}",
            "slope: differences err like their step size to this power: about 2 where smooth; exact: they do not err",
        ]
        if any(row.status == KINK for row in self.rows):
            notes.append("kink: slopes for smaller | larger values differ, and the pullback is one of them or between")
        return "\n".join(line.rstrip() for line in [*table, *notes])


def _cells(row: Row) -> tuple[str, ...]:
    count = f"{row.entries}" + (f" (+{row.skipped} skipped)" if row.skipped else "")
    if row.status in (NO_INFLUENCE, SKIPPED):
        return row.field, count, "", "", row.status, "", ""
    name = row.worst + (f"  <-- {row.status}" if row.status in (KINK, WRONG) else "")
    differences = row.sides_text if row.status == KINK else f"{row.numeric:.6g}"
    return row.field, count, f"{row.error:.1e}", row.slope_text, name, f"{row.analytic:.6g}", differences


class WrongGradient(PullbackError):
    """A pullback and finite differences disagree. ``report`` has all rows."""

    def __init__(self, report: Report):
        self.report = report
        row = report.worst
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

    The next state is paired with a random cotangent, which is pulled back once; then each entry is moved by several
    step sizes both ways. An error that no step size brings below ``tolerance`` of the largest entry of that gradient
    raises :class:`WrongGradient` (a PullbackError), which names the worst entry. So does an entry that is clearly off
    against its own size, such as a zero where differences are not zero, unless it is no more than rounding beside
    the largest.

    state:          where to check; the System's own start, moved at random, if None
    control:        (worlds, nu), or (rollout_steps, worlds, nu); random inside its limits if None
    seed:           of the cotangent, and of what else is random
    steps:          step sizes, relative to the size of what is varied
    rollout_steps:  1 checks ``step`` and ``pullback``; more check a rollout of so many steps, with a cotangent at
                    every state, and the control of every step
    tolerance:      1e-6 in float64 and 2e-2 in float32 if None
    names:          fields to check, e.g. ("q", "control", "mass"); all if None

    A System with ``in_worlds(n)``, which gives the same System with n worlds, and ``params.is_per_world`` is checked
    with many perturbed copies at once. A value that the System refuses with a PullbackError is taken for a bound:
    differences are then taken from one side. Where the step jumps on that side there is no slope, and the entry is
    skipped.

    Exactly at a kink, such as a control at its limit or a body that just touches, slopes from the two sides converge
    to different limits. There the pullback must give one of them or lie between, and not be zero where neither is; on
    the edge of a jump it must give the slope of the side that is continuous. The row then has status "kink" and shows
    both slopes. It is no error, but it says less: choose a point away from kinks to check a gradient to tolerance.
    """
    check_kind(system, System, "system", "pb.Articulated(model)")
    rollout_steps = check_whole(rollout_steps, "rollout_steps")
    given = STEPS[precision_of_differences(system)] if steps is None else to_numbers(steps, "steps")
    steps = np.unique(np.asarray(given, dtype=float))[::-1]
    if not len(steps) or not np.all((steps > 0) & (steps < np.inf)):
        raise PullbackError(f"steps must be positive step sizes, not {given}")
    if tolerance is None:
        tolerance = TOLERANCE[str(system.dtype)]
    elif not (isinstance(tolerance, int | float) and tolerance in (0, np.inf)):  # which ask for perfection or nothing
        tolerance = check_number(tolerance, "tolerance")
    if not (names is None or (isinstance(names, Collection) and all(isinstance(name, str) for name in names))):
        raise PullbackError(f"names must be what to check, such as ('q', 'mass'), not {names!r}")
    probe = Probe(system, state, control, rollout_steps, np.random.default_rng(check_seed(seed)))
    bars = probe.pull_back()
    unknown = set(names or ()) - set(bars)
    if unknown:
        raise PullbackError(f"there is nothing called {sorted(unknown)[0]!r} to check; there are {', '.join(bars)}")
    bars = {name: bar for name, bar in bars.items() if names is None or name in names}
    found = Differences(probe, bars, steps)
    slopes = Slopes(found)
    verdicts = [Verdict(found, slopes, name, bar, tolerance) for name, bar in bars.items()]
    unclear = np.concatenate([verdict.unclear for verdict in verdicts])
    if len(unclear):
        found.add(steps[-1] * np.array(SHORTER), np.isin(np.arange(len(found.names)), unclear))
        slopes = Slopes(found)
        verdicts = [Verdict(found, slopes, name, bar, tolerance) for name, bar in bars.items()]
    report = Report(tuple(verdict.row(found, slopes, steps) for verdict in verdicts), tolerance, rollout_steps)
    if not report.passed:
        raise WrongGradient(report)
    return report


# --- differences ------------------------------------------------------------------------------------------------------


def _sizes(value: np.ndarray, is_param: bool) -> np.ndarray:
    """Typical size of each entry: that of the vector, inertia or quaternion that it is in."""
    magnitude = np.abs(value).astype(float)
    if not is_param:
        return np.maximum(1.0, magnitude)
    nonzero = magnitude[magnitude > RESIDUE]
    typical = np.median(nonzero) if len(nonzero) else 1.0
    if value.ndim > 1:
        magnitude = np.maximum(magnitude, magnitude.max(axis=-1, keepdims=True, initial=0.0))
    return np.where(magnitude > 1e-6 * typical, magnitude, typical)


def _scales(value: np.ndarray, sizes: np.ndarray, is_param: bool) -> np.ndarray:
    """What the step sizes are relative to, an entry each.

    Entries of one vector may be of different kinds: a width of a millimetre stands beside numbers of order one. One
    that is much smaller is moved by its own size, but for zeros and what rounding has left of them.
    """
    if not is_param:
        return sizes
    share = np.abs(value).astype(float) / sizes
    return np.where((share > 1e-6) & (share < 0.1), np.maximum(share, 1e-4), 1.0) * sizes


class Differences:
    """How the loss changes with every entry of some fields, at several step sizes: arrays of (entries, steps).

    NaN where there is no change to be had: a value that the System refuses, or a step that was not asked for.
    """

    def __init__(self, probe: Probe, names: Collection[str], steps: np.ndarray):
        self.probe = probe
        values = {name: probe.value(name) for name in names}
        sizes = {name: _sizes(value, name in probe.params) for name, value in values.items()}
        flat = lambda arrays: np.concatenate([np.ravel(array) for array in arrays])  # noqa: E731
        self.names = flat(np.full(value.size, name, dtype=object) for name, value in values.items())
        self.places = flat(np.arange(value.size) for value in values.values())
        self.sizes = flat(sizes.values())
        self.scales = flat(_scales(value, sizes[name], name in probe.params) for name, value in values.items())
        self.dtypes = flat(np.full(value.size, value.dtype, dtype=object) for value in values.values())
        self.values = flat(value.astype(float) for value in values.values())

        every = np.ones(len(self.names), dtype=bool)
        tiny = self._held(every, TINY[probe.precision] * np.arange(1, 5))
        ahead, size = probe.changes(self.names, self.places, tiny)
        behind, other = probe.changes(self.names, self.places, -tiny)
        self.free = [~np.isnan(ahead[:, 0]), ~np.isnan(behind[:, 0])]  # where that side is not refused
        self.moves, self.ahead, self.behind = (np.zeros((len(every), 0)) for _ in range(3))
        self.size = np.zeros(len(every))
        self.add(steps, every)

        # Third differences: neither slope nor curvature shows at such moves, nor does a kink between the sides.
        thirds = [np.nan_to_num(np.abs(np.diff(side, n=3, axis=1)[:, 0])) for side in (ahead, behind)]
        seen = np.maximum(*thirds)
        unit = probe.epsilon * np.fmax(self.size, np.fmax(size, other).max(axis=1))
        common = np.median(seen[seen > 0]) if np.any(seen > 0) else 0.0
        self.noise = MARGIN * np.maximum(np.fmax(seen, unit), common)
        self.jumps = [self._jumps(side) for side in (ahead, behind)]

    def _held(self, which: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Moves by steps, as the System's numbers hold them: what is added must be what is divided by."""
        value, wanted = self.values[which, None], self.scales[which, None] * steps
        moved = value + wanted
        for dtype in set(self.dtypes):
            same = self.dtypes[which] == dtype
            moved[same] = moved[same].astype(dtype).astype(float)
        return moved - value

    def add(self, steps: np.ndarray, which: np.ndarray) -> None:
        """Measures the changes at more, shorter steps, for some entries."""
        moves = np.full((len(which), len(steps)), np.nan)
        moves[which] = self._held(which, steps)
        moves[moves == 0] = np.nan  # too short for the numbers to hold
        self.moves = np.hstack([self.moves, moves])
        for side, sign, free in (("ahead", 1.0, self.free[0]), ("behind", -1.0, self.free[1])):
            changes = np.full(moves.shape, np.nan)
            there = np.isfinite(moves) & free[:, None]
            entry = np.nonzero(there)[0]
            found, size = self.probe.changes(self.names[entry], self.places[entry], sign * moves[there][:, None])
            changes[there] = found[:, 0]
            np.fmax.at(self.size, entry, size[:, 0])
            setattr(self, side, np.hstack([getattr(self, side), changes]))

    def _jumps(self, side: np.ndarray) -> np.ndarray:
        """Whether a change stays as the move gets shorter."""
        return (np.abs(side[:, 0]) > self.noise) & (np.abs(side[:, 3] - side[:, 0]) <= SAME * np.abs(side[:, 0]))


@dataclass
class Interval:
    """Where a slope lies for all that is known, (entries,), and the best estimate of it."""

    low: np.ndarray
    high: np.ndarray
    best: np.ndarray

    @property
    def width(self) -> np.ndarray:
        return self.high - self.low

    def without(self, entries: np.ndarray) -> Interval:
        """The same, but of these entries nothing is known."""
        low, high, best = (
            np.where(entries, x, y) for x, y in ((-np.inf, self.low), (np.inf, self.high), (np.nan, self.best))
        )
        return Interval(low, high, best)


def _limit(values: np.ndarray, noise: np.ndarray) -> Interval:
    """What difference quotients of ever shorter steps (entries, steps) converge to.

    Each lies in an interval of its own: what noise may do to it, and twice what it differs from the step before it,
    which is more than its own truncation error if errors shrink at all. Long steps may reach beyond kinks: an interval
    that has nothing in common with those of shorter steps is passed over, and the others intersect.
    """
    radius = noise[:, 1:] + 2 * np.abs(np.diff(values, axis=1))
    low, high, best, least = (np.full(len(values), x) for x in (-np.inf, np.inf, np.nan, np.inf))
    for value, around in zip(values[:, :0:-1].T, radius[:, ::-1].T, strict=True):
        fits = (value - around <= high) & (value + around >= low)
        low = np.where(fits, np.maximum(low, value - around), low)
        high = np.where(fits, np.minimum(high, value + around), high)
        best = np.where(fits & (around < least), value, best)
        least = np.where(fits & (around < least), around, least)
    return Interval(low, high, np.clip(best, low, high))


class Slopes:
    """Of the loss by each entry: from both sides together, and from each side alone."""

    def __init__(self, found: Differences):
        noise = found.noise[:, None] / found.moves
        self.quotients, self.noise = (found.ahead - found.behind) / (2 * found.moves), noise
        ahead, behind = (self._one_sided(x, found.moves) for x in (found.ahead, -found.behind))
        one_sided_noise = np.pad(4 * noise[:, 1:], ((0, 0), (1, 0)), constant_values=np.nan)
        lone = np.isnan(found.ahead).all(axis=1) ^ np.isnan(found.behind).all(axis=1)
        self.quotients = np.where(lone[:, None], np.fmax(ahead, behind), self.quotients)
        torn = found.jumps[0] ^ found.jumps[1]
        self.skipped = np.isnan(self.quotients).all(axis=1) | (lone & torn)
        self.central = _limit(self.quotients, np.where(lone[:, None], one_sided_noise, noise)).without(torn)
        self.ahead = _limit(ahead, one_sided_noise).without(found.jumps[0])
        self.behind = _limit(behind, one_sided_noise).without(found.jumps[1])

        three = (self.central, self.ahead, self.behind)
        low, high, best = (np.stack([getattr(one, x) for one in three]) for x in ("low", "high", "best"))
        self.low, self.high = low.max(axis=0), high.min(axis=0)
        # At a kink no slope will do for both sides, and anything between them is right.
        self.apart = apart = self.low > self.high
        self.low = np.where(apart, np.where(np.isinf(low), np.inf, low).min(axis=0), self.low)
        self.high = np.where(apart, np.where(np.isinf(high), -np.inf, high).max(axis=0), self.high)
        self.kink = (self.ahead.low > self.behind.high) | (self.behind.low > self.ahead.high) | torn
        sharpest = np.argmin(high - low, axis=0)
        self.best = np.clip(best[sharpest, np.arange(len(sharpest))], self.low, self.high)

    @staticmethod
    def _one_sided(change: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """One-sided quotients without their first-order error; the first has none before it."""
        quotient = change / moves
        weight = moves[:, :-1] / (moves[:, :-1] - moves[:, 1:])
        limit = weight * quotient[:, 1:] + (1 - weight) * quotient[:, :-1]
        return np.pad(limit, ((0, 0), (1, 0)), constant_values=np.nan)


# --- judging ----------------------------------------------------------------------------------------------------------


class Verdict:
    """The gradient of one field beside the slopes of its entries, of those that can be compared."""

    def __init__(self, found: Differences, slopes: Slopes, name: str, bar: np.ndarray, tolerance: float):
        self.name, self.shape = name, bar.shape
        field = found.names == name
        self.where = np.flatnonzero(field & ~slopes.skipped)
        self.skipped = int(np.sum(field)) - len(self.where)
        self.analytic = analytic = bar.ravel()[found.places[self.where]]
        dtype = str(found.probe.system.dtype)
        low, high, best, kink = (x[self.where] for x in (slopes.low, slopes.high, slopes.best, slopes.kink))
        self.sides = sides = np.stack([slopes.behind.best, slopes.ahead.best])[:, self.where]

        # A change by its own size that moves nothing beyond this has no influence, whatever the last digits say.
        floor = found.probe.residual / found.sizes[self.where]
        certain = np.maximum(np.maximum(low, -high), 0.0)
        moved = np.nan_to_num(np.abs(slopes.quotients[self.where]) - slopes.noise[self.where]).max(axis=1)
        self.idle = not np.any(kink) and bool(np.all(np.maximum(np.abs(analytic), moved) <= floor))
        known = [np.abs(analytic), certain, np.nan_to_num(np.abs(sides[:, kink])).ravel()]
        self.largest = float(np.concatenate(known).max(initial=0.0))

        # Where the slope is known better than to the tolerance, the error is what it differs by, else what is certain.
        outside = np.maximum(np.maximum(low - analytic, analytic - high), 0.0)
        sharp = ~slopes.apart[self.where] & (high - low <= 2 * tolerance * self.largest)
        error = np.where(sharp, np.abs(best - analytic), outside)
        # Zero is between the slopes of |x|, and still none of them.
        magnitude = np.nan_to_num(np.abs(sides), nan=np.inf).min(axis=0)
        zero = kink & (np.abs(analytic) <= SMALL[dtype] * magnitude) & (magnitude > tolerance * self.largest)
        error = np.where(zero, magnitude, error)
        self.error = error / np.maximum(max(self.largest, TINIEST), floor / tolerance if tolerance else 0.0)
        # An entry that is small beside the largest may still be plainly wrong against its own size.
        nearest = np.nan_to_num(np.abs(sides - analytic), nan=np.inf).argmin(axis=0)
        self.numeric = np.where(kink, np.take_along_axis(sides, nearest[None], axis=0)[0], best)
        own = np.maximum(np.maximum(np.abs(self.numeric), np.abs(analytic)), TINIEST)
        plain = outside > np.maximum(OWN[dtype] * own, np.maximum(SMALL[dtype] * self.largest, 100 * floor))
        self.error = np.where(plain, np.maximum(self.error, outside / own), self.error)

        self.wrong = ~(self.error <= tolerance)
        self.apart = np.nan_to_num(np.abs(sides[1] - sides[0]), nan=np.inf)
        self.kink = kink & (self.apart > tolerance * self.largest)
        self.unclear = self.where[self.wrong | ~sharp]

    def row(self, found: Differences, slopes: Slopes, steps: np.ndarray) -> Row:
        about: dict[str, Any] = {"field": self.name, "entries": len(self.where), "skipped": self.skipped}
        if self.idle:
            nothing = {"worst": "", "index": (), "analytic": 0.0, "numeric": 0.0, "error": 0.0, "largest": 0.0}
            status = NO_INFLUENCE if len(self.where) or not self.skipped else SKIPPED
            return Row(**about, status=status, **nothing, slope=np.nan, kink=False)
        if np.any(self.wrong):
            status, worst = WRONG, int(np.argmax(np.where(self.wrong, self.error, -np.inf)))
        elif np.any(self.kink):
            status, worst = KINK, int(np.argmax(np.where(self.kink, self.apart, -np.inf)))
        else:
            status, worst = AGREES, int(np.argmax(self.error))
        index = tuple(int(i) for i in np.unravel_index(found.places[self.where[worst]], self.shape))
        smooth = self.where[~self.kink | self.wrong], slice(len(steps))
        gap = np.abs(slopes.quotients[smooth] - self.analytic[~self.kink | self.wrong, None])
        sides = tuple(None if np.isnan(side) else float(side) for side in self.sides[:, worst])
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
            sides=sides if self.kink[worst] else None,
        )


def _slope(gap: np.ndarray, noise: np.ndarray, steps: np.ndarray) -> float:
    """Of log error against log step size, where truncation dominates; NaN where it never does."""
    clear = np.where(np.isnan(gap) | (gap <= noise), -np.inf, gap)
    ready = np.flatnonzero(np.sum(np.isfinite(clear[:, :3]), axis=1) >= 2)
    if not len(ready):
        return float("nan")
    entry = ready[np.argmax(np.max(clear[ready], axis=1))]
    shown = np.flatnonzero(np.isfinite(clear[entry]))[-3:]
    return float(np.polyfit(np.log(steps[shown]), np.log(gap[entry, shown]), 1)[0])
