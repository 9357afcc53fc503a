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
STEPS = {"float64": (3e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "float32": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)}
# What central differences reach for a smooth step, with a margin. [1]
TOLERANCE = {"float64": 1e-6, "float32": 2e-2}
# A difference quotient this far above rounding, and the same at two step sizes, is a derivative and no accident. [1]
CERTAIN, SAME, GROSS = 100.0, 0.01, 0.1
# An error this far above rounding is that of the difference formula. [1]
CLEAR = 10.0
# Entries of a parameter this small are what rounding has left of zeros, whatever their unit.
RESIDUE = 1e-12
# Where central differences disagree, shorter steps and each side alone are tried. Relative to the shortest step. [1]
SHORTER = (0.1, 0.01, 0.001)
# A limit has been reached where shorter steps change it by less, against the difference of the two sides. [1]
SETTLED = 0.05


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
    rows = tuple(_row(probe, name, bars[name], steps, tolerance) for name in bars if names is None or name in names)
    report = Report(rows, tolerance, rollout_steps)
    if not report.passed:
        raise WrongGradient(report)
    return report


# --- judging ----------------------------------------------------------------------------------------------------------


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


def _scales(value: np.ndarray, is_param: bool) -> np.ndarray:
    """What the step sizes are relative to, an entry each.

    Entries of one vector may be of different kinds: a width of a millimetre stands beside numbers of order one. One
    that is much smaller is moved by its own size, but for zeros and what rounding has left of them.
    """
    sizes = _sizes(value, is_param)
    if not is_param:
        return sizes
    share = np.abs(value).astype(float) / sizes
    return np.where((share > 1e-6) & (share < 0.1), np.maximum(share, 1e-4), 1.0) * sizes


@dataclass
class Quotients:
    """Difference quotients of one field: (entries, step sizes), NaN where none could be formed."""

    numeric: np.ndarray
    rounding: np.ndarray
    ahead: np.ndarray  # from one side, of first order: only to see kinks
    behind: np.ndarray
    moves: np.ndarray  # by which the entries were moved

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.numeric, self.rounding, self.ahead, self.behind, self.moves


def _quotients(probe: Probe, name: str, steps: np.ndarray, entries: np.ndarray) -> Quotients:
    value = probe.value(name)
    # what is added must be what is divided by: the move as the System's numbers hold it
    held = np.broadcast_to(value.ravel()[entries, None], (len(entries), len(steps)))
    wanted = _scales(value, name in probe.params).ravel()[entries, None] * steps
    moves = ((held + wanted).astype(value.dtype).astype(float) - held).astype(float)
    places = np.broadcast_to(entries[:, None], moves.shape)

    def changes(times: float, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        result, rounding = np.full(moves.shape, np.nan), np.full(moves.shape, np.nan)
        if np.any(where):
            result[where], rounding[where] = probe.changes(name, places[where], times * moves[where])
        return result, rounding

    moved = moves > 0  # a step may be too short for the numbers to hold
    (up, up_rounding), (down, down_rounding) = changes(1.0, moved), changes(-1.0, moved)
    moves = np.where(moved, moves, np.nan)
    numeric = (up - down) / (2 * moves)
    rounding = np.fmax(up_rounding, down_rounding) / moves
    for side, once in ((1.0, up), (-1.0, down)):  # second-order differences from one side, where the other is refused
        missing = np.isnan(numeric) & ~np.isnan(once)
        twice, twice_rounding = changes(2 * side, missing)
        numeric = np.where(missing, side * (4 * once - twice) / (2 * moves), numeric)
        rounding = np.where(missing, 2 * rounding + twice_rounding / (2 * moves), rounding)
    rounding = np.where(np.isnan(numeric), np.nan, rounding)
    return Quotients(numeric, rounding, up / moves, -down / moves, moves)


class Comparison:
    """The gradient of one field beside its difference quotients, with shorter steps where these disagree."""

    def __init__(self, probe: Probe, name: str, bar: np.ndarray, steps: np.ndarray, tolerance: float):
        self.probe, self.name, self.steps, self.tolerance = probe, name, steps, tolerance
        value = probe.value(name)
        found = _quotients(probe, name, steps, np.arange(value.size))
        found.numeric[_lone_jumps(found, probe.noise)] = np.nan
        self.where = np.flatnonzero(~np.all(np.isnan(found.numeric), axis=1))  # entries that can be compared
        spare = np.full((len(self.where), len(SHORTER)), np.nan)
        self.found = Quotients(*(np.hstack([x[self.where], spare]) for x in found.arrays()))
        self.analytic = bar.ravel()[self.where]
        # A change by its own size that moves nothing beyond this has no influence, whatever the last digits say.
        self.floor = probe.residual / _sizes(value, name in probe.params).ravel()[self.where]
        # the longest step that was not refused: the least rounding
        longest = np.argmax(~np.isnan(self.found.numeric), axis=1)
        rows = np.arange(len(self.where))
        self.long, self.long_rounding = (np.abs(x)[rows, longest] for x in (self.found.numeric, self.found.rounding))
        # what every step size agrees on: long ones may reach beyond a kink
        self.least = np.min(np.where(np.isnan(self.found.numeric), np.inf, np.abs(self.found.numeric)), axis=1)
        self.examined = np.zeros(len(self.where), dtype=bool)
        self.sides: dict[int, Sides] = {}

    def judge(self) -> bool:
        """Finds largest, error and numeric; False if the field has no influence."""
        self._examine(self._hidden_zeros())
        idle = np.all(np.abs(self.analytic) <= self.floor)
        if idle and np.all(self.long <= np.fmax(self.floor, self.long_rounding)) and not self.sides:
            return False
        while True:
            # at a kink, quotients may be those of a jump, which no gradient is to be measured by
            slopes = [abs(slope) for sides in self.sides.values() for slope in sides.slopes]
            smooth = [x for k, x in enumerate(self.least) if k not in self.sides]
            self.largest = float(max([np.max(np.abs(self.analytic)), *slopes, *smooth]))
            self.error, self.numeric = _errors(
                self.found, self._meeting(), self.analytic, self.largest, self.floor, self.tolerance, self.probe.small
            )
            suspects = ~(self.error <= self.tolerance) & ~self.examined
            if not np.any(suspects):
                break
            self._examine(suspects)
        self.accepted = [k for k in self.sides if self._at_kink(k)]
        return True

    def _hidden_zeros(self) -> np.ndarray:
        """Zeros that central differences of a kink may confirm, although the slopes of both sides are not zero."""
        last = len(self.steps) - 1 - np.argmax(~np.isnan(self.found.moves[:, len(self.steps) - 1 :: -1]), axis=1)
        rows = np.arange(len(self.where))
        ahead, behind, moves = (x[rows, last] for x in (self.found.ahead, self.found.behind, self.found.moves))
        nearer = np.fmin(np.abs(ahead), np.abs(behind))
        plain = np.isfinite(ahead + behind) & (nearer > CERTAIN * self.probe.noise / moves)
        return plain & (np.abs(self.analytic) <= self.probe.small * nearer)

    def _examine(self, entries: np.ndarray) -> None:
        """Adds shorter steps for these entries, and looks for kinks."""
        which = np.flatnonzero(entries)
        if not len(which):
            return
        shorter = _quotients(self.probe, self.name, self.steps[-1] * np.array(SHORTER), self.where[which])
        for mine, new in zip(self.found.arrays(), shorter.arrays(), strict=True):
            mine[which, len(self.steps) :] = new
        self.examined[which] = True
        for k in which:
            sides = _sides(self.found, k, self.probe.noise)
            if sides is not None:
                self.sides[int(k)] = sides

    def _meeting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What both sides converge to, how far they are apart, and rounding; of entries that were examined.

        Where only the second derivative has a kink, central differences are of first order, and this of second.
        """
        found = self.found
        ahead, rounding = _limits(found.ahead, found.rounding, found.moves)
        behind, _ = _limits(found.behind, found.rounding, found.moves)
        ready = self.examined[:, None]
        return tuple(np.where(ready, x, np.nan) for x in ((ahead + behind) / 2, np.abs(ahead - behind), rounding))

    def _at_kink(self, k: int) -> bool:
        """Whether the pullback may be what it is, at a kink; sets the error and the difference to be shown."""
        sides, analytic = self.sides[k], self.analytic[k]
        low, high = min(sides.slopes), max(sides.slopes)
        # what is not known of the slopes is little beside how they differ, or beside the one there is
        slack = max(self.tolerance * self.largest, self.floor[k])
        slack += min(sides.uncertainty, SETTLED * (high - low if low < high else abs(low)))
        nearest = min(sides.slopes, key=lambda slope: abs(slope - analytic))
        zero = abs(analytic) <= self.probe.small * min(abs(low), abs(high)) and min(abs(low), abs(high)) > slack
        outside = max(low - analytic, analytic - high, 0.0)
        if outside <= slack and not zero:
            self.error[k], self.numeric[k] = outside / self.largest if outside else 0.0, nearest
            return True
        if not self.error[k] > self.tolerance:  # central differences agree by symmetry only
            self.error[k], self.numeric[k] = abs(nearest - analytic) / self.largest, nearest
        return False


def _row(probe: Probe, name: str, bar: np.ndarray, steps: np.ndarray, tolerance: float) -> Row:
    compared = Comparison(probe, name, bar, steps, tolerance)
    skipped = bar.size - len(compared.where)
    about: dict[str, Any] = {"field": name, "entries": len(compared.where), "skipped": skipped}
    nothing = {"worst": "", "index": (), "analytic": 0.0, "numeric": 0.0, "error": 0.0, "largest": 0.0}
    if not len(compared.where) or not compared.judge():
        idle = SKIPPED if skipped and not len(compared.where) else NO_INFLUENCE
        return Row(**about, status=idle, **nothing, slope=np.nan, kink=False)

    error, accepted, found = compared.error, compared.accepted, compared.found
    plain = np.ones(len(error), dtype=bool)
    plain[accepted] = False
    if not np.all(error[plain] <= tolerance):
        status, worst = WRONG, int(np.argmax(np.where(plain, error, -np.inf)))
    elif accepted:
        status, worst = KINK, max(accepted, key=lambda k: compared.sides[k].apart)
    else:
        status, worst = AGREES, int(np.argmax(error))
    index = tuple(int(i) for i in np.unravel_index(compared.where[worst], bar.shape))
    sides = compared.sides.get(worst)
    gap = np.abs(found.numeric - compared.analytic[:, None])[plain, : len(steps)]
    return Row(
        **about,
        status=status,
        worst=probe.name_of(name, index),
        index=index,
        analytic=float(compared.analytic[worst]),
        numeric=float(compared.numeric[worst]),
        error=float(error[worst]),
        largest=compared.largest,
        slope=_slope(gap, found.rounding[plain, : len(steps)], steps),
        kink=sides is not None,
        sides=None if sides is None else (sides.behind, sides.ahead),
    )


def _errors(
    found: Quotients,
    meeting: tuple[np.ndarray, np.ndarray, np.ndarray],
    analytic: np.ndarray,
    largest: float,
    floor: np.ndarray,
    tolerance: float,
    small: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The error of each entry at its best step size, and the difference quotient that it belongs to."""
    meet, apart, meet_rounding = meeting
    meet = np.where(apart <= tolerance * largest, meet, np.nan)
    values = np.hstack([found.numeric, meet])
    rounding = np.hstack([found.rounding, meet_rounding])
    gap = np.abs(values - analytic[:, None])
    gap[np.isnan(gap)] = np.inf
    rounding[np.isnan(rounding)] = np.inf
    sharp = rounding <= tolerance * largest
    # Step sizes whose rounding hides the tolerance: where no other agrees, they count less what rounding explains. But
    # it must be smaller than the error that the others show, or there would always be one that explains everything.
    trusted = rounding <= np.maximum(tolerance * largest, np.min(rounding, axis=1, keepdims=True))
    shown = np.min(np.where(trusted, gap, np.inf), axis=1, keepdims=True)
    explained = np.where(sharp | np.isinf(rounding), 0.0, rounding)
    judged = np.where(trusted | (rounding < shown), np.maximum(gap - explained, 0.0), np.inf)
    best = np.argmin(judged, axis=1)
    rows = np.arange(len(gap))
    measure = np.maximum(largest, floor / tolerance if tolerance > 0 else 0.0)
    error = judged[rows, best] / np.maximum(measure, np.finfo(float).tiny)

    # An entry that is small beside the largest may still be plainly wrong against its own size.
    count = found.numeric.shape[1]
    least = np.maximum(CERTAIN * rounding[:, :count], np.maximum(small * largest, CERTAIN * floor)[:, None])
    for k in np.flatnonzero(np.isfinite(gap[:, :count]).sum(axis=1) >= 2):
        sure = np.flatnonzero(np.abs(found.numeric[k]) > least[k])
        for i, j in zip(sure[:-1], sure[1:], strict=True):
            a, b = found.numeric[k, i], found.numeric[k, j]
            if abs(a - b) > SAME * abs(b) or gap[k, j] <= GROSS * abs(b):
                continue
            # Long steps may agree with each other beyond a kink; what a shorter one says, if it is sure, counts more.
            shorter = slice(j + 1, count)
            if np.any((CERTAIN * rounding[k, shorter] <= abs(b)) & (gap[k, shorter] <= SAME * abs(b))):
                continue
            error[k] = max(error[k], gap[k, j] / max(abs(b), abs(analytic[k])))
            best[k] = j
    return error, values[rows, best]


def _slope(gap: np.ndarray, rounding: np.ndarray, steps: np.ndarray) -> float:
    """Of log error against log step size, where truncation dominates; NaN where it never does."""
    clear = np.where(np.isnan(gap) | (gap <= CLEAR * rounding), -np.inf, gap)
    ready = np.flatnonzero(np.sum(np.isfinite(clear[:, :3]), axis=1) >= 2)
    if not len(ready):
        return float("nan")
    entry = ready[np.argmax(np.max(clear[ready], axis=1))]
    shown = np.flatnonzero(np.isfinite(clear[entry]))[-3:]
    return float(np.polyfit(np.log(steps[shown]), np.log(gap[entry, shown]), 1)[0])


# --- kinks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """Slopes of the two sides of a kink, None for one on which the step jumps."""

    behind: float | None
    ahead: float | None
    uncertainty: float

    @property
    def slopes(self) -> list[float]:
        return [slope for slope in (self.behind, self.ahead) if slope is not None]

    @property
    def apart(self) -> float:
        return float("inf") if len(self.slopes) == 1 else abs(self.ahead - self.behind)


def _limits(quotient: np.ndarray, error: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One-sided quotients (..., steps) without their first-order error, and what an error in them does to that."""
    long, short = moves[..., :-1], moves[..., 1:]
    weight = long / (long - short)
    limit = weight * quotient[..., 1:] + (1 - weight) * quotient[..., :-1]
    return limit, weight * error[..., 1:] + (weight - 1) * error[..., :-1]


def _sides(found: Quotients, entry: int, noise: float) -> Sides | None:
    """The slopes of both sides, if these are a kink's: each settles as steps get shorter, and they differ clearly.

    Of a smooth step, however curved, both settle on the same, at least at the shortest steps that rounding leaves.
    Where one side's change does not vanish with the step, the point is on the edge of a jump.
    """
    _, rounding, ahead, behind, moves = (x[entry] for x in found.arrays())
    usable = np.isfinite(ahead) & np.isfinite(behind) & np.isfinite(rounding)
    if np.sum(usable) < 3:
        return None
    rounding, ahead, behind, moves = (x[usable] for x in (rounding, ahead, behind, moves))
    error = rounding + noise / moves
    a, limit_error = _limits(ahead, error, moves)
    b, _ = _limits(behind, error, moves)
    a_jumps, b_jumps = (_jumps(x * moves, error * moves) for x in (ahead, behind))
    if a_jumps and b_jumps:
        return None  # an isolated point
    if a_jumps or b_jumps:
        steady = b if a_jumps else a
        doubt = np.abs(np.diff(steady)) + limit_error[1:]
        best = int(np.argmin(doubt))
        slope, uncertainty = float(steady[best + 1]), float(doubt[best])
        return Sides(slope, None, uncertainty) if a_jumps else Sides(None, slope, uncertainty)

    apart = np.abs(a - b)
    sure = np.flatnonzero(apart > 2 * CLEAR * limit_error)
    if not len(sure):
        return None
    last = int(sure[-1])  # a kink some way off is seen by longer steps only
    near = SETTLED * apart[last]
    settled = np.maximum(np.abs(np.diff(a)), np.abs(np.diff(b)))
    if last == 0 or settled[last - 1] > near:
        return None
    # still shorter steps are rough, but must not say otherwise
    if np.any(np.abs(apart[last:] - apart[last]) > 2 * limit_error[last:] + near):
        return None
    # of the limits that the last one confirms, that which is known best
    same = np.maximum(np.abs(a - a[last]), np.abs(b - b[last]))[1:] <= near
    doubt = np.where(same, settled + limit_error[1:], np.inf)
    best = int(np.argmin(doubt))
    return Sides(float(b[best + 1]), float(a[best + 1]), float(doubt[best]))


def _lone_jumps(found: Quotients, noise: float) -> np.ndarray:
    """Which entries, (entries,), are at a bound with a jump on the only side there is: they have no slope at all."""
    alone = np.isnan(found.ahead).all(axis=1) ^ np.isnan(found.behind).all(axis=1)
    for k in np.flatnonzero(alone):
        change = np.where(np.isnan(found.ahead[k]), -found.behind[k], found.ahead[k]) * found.moves[k]
        usable = np.isfinite(change)
        error = found.rounding[k] * found.moves[k] + noise
        alone[k] = np.sum(usable) >= 3 and _jumps(change[usable], np.nan_to_num(error)[usable])
    return alone


def _jumps(change: np.ndarray, error: np.ndarray) -> bool:
    """Whether a change stays as the step gets shorter."""
    last = change[-1]
    return bool(abs(last) > CERTAIN * error[-1] and np.all(np.abs(change[-3:] - last) <= SETTLED * abs(last)))
