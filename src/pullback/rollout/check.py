"""Finite differences against the pullback of any System, entry by entry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout.entries import entry_name
from pullback.rollout.run import rollout

AGREES, NO_INFLUENCE, SKIPPED, WRONG = "agrees", "does not matter here", "skipped", "WRONG"

# Long steps show the slope, short ones the smallest error. Relative to the size of what is varied. [1]
STEPS = {"float64": (3e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "float32": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)}
# What central differences reach for a smooth step, with a margin. [1]
TOLERANCE = {"float64": 1e-6, "float32": 2e-2}
# How many units in the last place the sums inside a step may lose. [1]
ROUNDING = 8.0
# A difference quotient this far above rounding, and the same at two step sizes, is a derivative and no accident. [1]
CERTAIN, SAME, GROSS = 100.0, 0.01, 0.1
# An error this far above rounding is that of the difference formula. [1]
CLEAR = 10.0
# Perturbed copies of the whole System that are stepped at once, a power of two. [worlds]
BATCH = 256
# How far a state made up for the check lies from the System's own, against the size of its entries. [1]
SPREAD = 0.3


@dataclass(frozen=True)
class Row:
    """How the gradient with respect to one field, control or parameter compares with finite differences."""

    field: str
    status: str  # AGREES, NO_INFLUENCE, SKIPPED or WRONG
    entries: int  # compared
    skipped: int  # at a bound on both sides, so that no difference could be formed
    worst: str  # the entry that agrees least, by name
    index: tuple[int, ...]  # of that entry
    analytic: float  # from the pullback, at that entry
    numeric: float  # from finite differences, at that entry
    error: float  # |analytic - numeric| at that entry and its best step size, over ``largest``
    largest: float  # largest entry of this field's gradient
    slope: float  # of log error against log step size: about 2 where smooth; NaN where differences are exact
    kink: bool  # wrong, but the derivative from one side agrees

    @property
    def slope_text(self) -> str:
        return "exact" if np.isnan(self.slope) else f"{self.slope:.2f}"


@dataclass(frozen=True)
class Report:
    """What :func:`check_system` found; printed as a table."""

    rows: tuple[Row, ...]
    tolerance: float
    rollout_steps: int

    @property
    def worst(self) -> Row | None:
        """The row that agrees least; None if nothing was compared."""
        compared = [row for row in self.rows if row.status in (AGREES, WRONG)]
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
        note = f"error: against the largest entry of each gradient; tolerance {self.tolerance:g}"
        return "\n".join(line.rstrip() for line in [*table, note])


def _cells(row: Row) -> tuple[str, ...]:
    count = f"{row.entries}" + (f" (+{row.skipped} skipped)" if row.skipped else "")
    if row.status in (NO_INFLUENCE, SKIPPED):
        return row.field, count, "", "", row.status, "", ""
    name = row.worst + ("  <-- WRONG" if row.status == WRONG else "")
    return row.field, count, f"{row.error:.1e}", row.slope_text, name, f"{row.analytic:.6g}", f"{row.numeric:.6g}"


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
            + ("; differences from one side agree, so the step may have a kink exactly here" if row.kink else "")
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
    against its own size, such as a zero where differences are not zero, however small it is beside the largest.

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
    differences are then taken from one side. The point should be away from kinks such as a control at its limit.
    """
    if rollout_steps < 1:
        raise PullbackError(f"rollout_steps must be at least 1, not {rollout_steps}")
    steps = np.sort(
        np.asarray(STEPS[_precision_of_differences(system)] if steps is None else tuple(steps), dtype=float)
    )[::-1]
    if not len(steps) or not np.all(steps > 0):
        raise PullbackError(f"steps must be positive step sizes, not {steps}")
    tolerance = TOLERANCE[str(system.dtype)] if tolerance is None else float(tolerance)
    probe = Probe(system, state, control, int(rollout_steps), np.random.default_rng(seed))
    bars = probe.pull_back()
    unknown = set(names or ()) - set(bars)
    if unknown:
        raise PullbackError(f"there is nothing called {sorted(unknown)[0]!r} to check; there are {', '.join(bars)}")
    rows = tuple(_row(probe, name, bars[name], steps, tolerance) for name in bars if names is None or name in names)
    report = Report(rows, tolerance, int(rollout_steps))
    if not report.passed:
        raise WrongGradient(report)
    return report


# --- evaluating the System --------------------------------------------------------------------------------------------


class Probe:
    """A System at one point, and how the pairing of its next state with a cotangent changes when an entry moves."""

    def __init__(self, system: System, state, control, count: int, random: np.random.Generator):
        self.system, self.count = system, count
        self.state_type, state = _start(system, state, random)
        self.fields = dict(zip(self.state_type._fields, state, strict=True))
        self.controls = _controls(system, control, count, random)
        params = getattr(system, "params", None)
        self.params = {name: np.array(to_numpy(value)) for name, value in (params or {}).items()}
        self.batches = hasattr(system, "in_worlds") and (not self.params or hasattr(params, "is_per_world"))
        self.per_world = {
            name: bool(self.batches and params.is_per_world(name, value)) for name, value in self.params.items()
        }
        # Differences of float32 are mostly rounding; where the System can be had in float64, they are taken there.
        self.precision = _precision_of_differences(system)
        judge = system
        if self.precision != system.dtype:
            judge = system.in_worlds(system.worlds, dtype=self.precision)
            self.fields = {name: x.astype(self.precision) if _real(x) else x for name, x in self.fields.items()}
            self.controls = self.controls.astype(self.precision)
        self.inputs = {**self.fields, "control": self.controls, **self.params}
        if len(self.inputs) != len(self.fields) + 1 + len(self.params):
            raise PullbackError("fields of the state and parameters need names of their own, other than 'control'")
        self.base = self.run(judge, self.fields, self.controls, self.params if judge is not system else None)
        self.bar = [random.standard_normal(x.shape) if _real(x) else np.zeros(x.shape) for x in self.base]
        self.epsilon = float(np.finfo(np.dtype(self.precision)).eps)
        # rounding error of the pairing as a whole, in the precision that the pullback has
        own = float(np.finfo(np.dtype(str(system.dtype))).eps)
        self.rounding = ROUNDING * own * sum(np.sum(np.abs(b * x)) for b, x in zip(self.bar, self.base, strict=True))

    def run(self, system: System, fields: Mapping, controls: np.ndarray, params: Mapping | None = None) -> list:
        """Fields of the states after each step, (steps, worlds, ...)."""
        given = {"params": params} if params else {}
        state = self.state_type(**fields)
        if self.count == 1:
            return [to_numpy(x)[None] for x in system.step(state, controls[0], **given)]
        return [to_numpy(x)[1:] for x in system.steps(state, controls, **given)]

    def pull_back(self) -> dict[str, np.ndarray]:
        """Cotangents by name: fields of the state, "control", and the parameters."""
        bars = [b.astype(self.system.dtype) for b in self.bar]
        state = self.state_type(*(x.astype(self.system.dtype) if _real(x) else x for x in self.fields.values()))
        controls = self.controls.astype(self.system.dtype)
        if self.count == 1:
            result = self.system.pullback(state, controls[0], self.state_type(*(b[0] for b in bars)))
            control_bar = None if result.control is None else to_numpy(result.control)[None]
        else:
            # none at the start, which the System did not make
            every = {
                f"{n}_bar": np.concatenate([np.zeros_like(b[:1]), b]) for n, b in zip(self.fields, bars, strict=True)
            }
            result = rollout(self.system, state, controls).pullback(**every)
            control_bar = to_numpy(result.control)
        named = {n: b for n, b in zip(self.fields, result.state, strict=True) if _real(self.fields[n])}
        if self.controls.size:
            named["control"] = control_bar
        for name, value in self.params.items():
            if _real(value):
                named[name] = (result.params or {}).get(name)
        return {name: self._checked_bar(name, bar) for name, bar in named.items()}

    def _checked_bar(self, name: str, bar) -> np.ndarray:
        if bar is None:
            raise PullbackError(f"the pullback gives no cotangent of {name!r}")
        bar, value = np.asarray(to_numpy(bar), dtype=float), self.value(name)
        if bar.shape != value.shape:
            raise PullbackError(f"the cotangent of {name!r} has shape {bar.shape}, but {value.shape} is needed")
        if not np.all(np.isfinite(bar)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(bar))[0])
            raise PullbackError(f"the pullback gives {bar[index]} for {name!r} at {self.name_of(name, index)}")
        return bar

    def value(self, name: str) -> np.ndarray:
        return self.inputs[name]

    def name_of(self, name: str, index: tuple[int, ...]) -> str:
        kind = "state" if name in self.fields else "params" if name in self.params else "control"
        return entry_name(self.system, name, index, kind=kind, steps=self.count)

    def changes(self, name: str, places: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How the pairing changes when entry places[k] of a field moves by moves[k], and the rounding error of that.

        NaN where the System refuses the moved value.
        """
        copies = max(1, BATCH // self.system.worlds) if self.batches else 1
        parts = [
            self._some_changes(name, places[i : i + copies], moves[i : i + copies])
            for i in range(0, len(places), copies)
        ]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _some_changes(self, name: str, places: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            moved = self._run_moved(name, places, moves)
        except PullbackError:
            if len(places) == 1:
                return np.full(1, np.nan), np.full(1, np.nan)
            half = len(places) // 2  # one refused value fails a whole batch: find which
            parts = [self._some_changes(name, places[p], moves[p]) for p in (slice(half), slice(half, None))]
            return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        change, size = np.zeros(len(places)), np.zeros(len(places))
        for after, base, bar in zip(moved, self.base, self.bar, strict=True):
            if not _real(base):
                continue
            # Subtracting entry by entry, before summing, keeps what did not change out of the rounding error.
            difference = after[:, : len(places)].astype(float) - base[:, None]
            axes = (0, *range(2, difference.ndim))
            change += np.sum(bar[:, None] * difference, axis=axes)
            size += np.sum(np.abs(bar * base)[:, None] * (difference != 0), axis=axes)
        return change, ROUNDING * self.epsilon * size

    def _run_moved(self, name: str, places: np.ndarray, moves: np.ndarray) -> list[np.ndarray]:
        """Fields of the states after each step, (steps, copies, worlds, ...), one copy an entry (and some to spare)."""
        copies = 1 << (len(places) - 1).bit_length()  # few sizes, so that few Systems are made
        places = np.append(places, np.zeros(copies - len(places), dtype=int))
        moves = np.append(moves, np.zeros(copies - len(moves)))
        worlds = self.system.worlds
        inputs = dict(self.inputs)
        value = inputs[name]
        many = np.repeat(value[None], copies, axis=0)
        many.reshape(copies, -1)[np.arange(copies), places] += moves.astype(value.dtype)
        if not self.batches:
            inputs[name] = many[0]
            given = {name: many[0]} if name in self.params else None
            fields = {n: inputs[n] for n in self.fields}
            return [x[:, None] for x in self.run(self.system, fields, inputs["control"], given)]

        def spread(key: str, axis: int) -> np.ndarray:
            """(..., copies · worlds, ...), with the worlds at ``axis``"""
            array = many if key == name else np.repeat(inputs[key][None], copies, axis=0)
            array = np.moveaxis(array, 0, axis)
            return array.reshape(*array.shape[:axis], copies * worlds, *array.shape[axis + 2 :])

        params = {}
        for key, array in self.params.items():
            if self.per_world[key]:
                params[key] = spread(key, 0)
            else:
                params[key] = np.repeat(many, worlds, axis=0) if key == name else array
        other = {} if self.precision == self.system.dtype else {"dtype": self.precision}
        twin = self.system.in_worlds(copies * worlds, **other)
        after = self.run(twin, {n: spread(n, 0) for n in self.fields}, spread("control", 1), params)
        return [x.reshape(x.shape[0], copies, worlds, *x.shape[2:]) for x in after]


def _precision_of_differences(system: System) -> str:
    return "float64" if hasattr(system, "in_worlds") else str(system.dtype)


def _real(x) -> bool:
    return np.issubdtype(np.asarray(x).dtype, np.floating)


def _start(system: System, state, random: np.random.Generator) -> tuple[type, list[np.ndarray]]:
    """The type and the fields of the state to check at."""
    given = state is not None
    if not given:
        if not hasattr(system, "state"):
            raise PullbackError(f"give a state to check {type(system).__name__} at: it has no state() of its own")
        state = system.state()
    if not hasattr(state, "_fields"):
        raise PullbackError(f"a state is a NamedTuple of arrays, not {type(state).__name__}")
    arrays = [np.array(to_numpy(x)) for x in state]
    if not given:
        size = [SPREAD * np.maximum(1.0, np.abs(x)) if _real(x) else 0 for x in arrays]
        arrays = [
            (x + s * random.standard_normal(x.shape)).astype(x.dtype) if _real(x) else x
            for x, s in zip(arrays, size, strict=True)
        ]
    return type(state), arrays


def _controls(system: System, control, count: int, random: np.random.Generator) -> np.ndarray:
    """(steps, worlds, nu)"""
    shape = (count, system.worlds, system.nu)
    if control is None:
        model = getattr(system, "model", None)
        draws = random.uniform(-1, 1, shape)
        if hasattr(model, "control_limited"):
            low, high = np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0)).T
            # well inside: a limit is a kink
            draws = (low + high) / 2 + 0.8 * draws * (high - low) / 2
        return draws.astype(system.dtype)
    controls = np.array(to_numpy(control), dtype=system.dtype)
    if controls.shape == shape[1:]:
        controls = np.repeat(controls[None], count, axis=0)
    if controls.shape != shape:
        raise PullbackError(f"control has shape {controls.shape}, but {shape[1:]} or {shape} is needed")
    return controls


# --- judging ----------------------------------------------------------------------------------------------------------


def _sizes(value: np.ndarray, is_param: bool) -> np.ndarray:
    """What the step sizes are relative to, an entry each."""
    magnitude = np.abs(value).astype(float)
    if not is_param:
        return np.maximum(1.0, magnitude)
    nonzero = magnitude[magnitude > 0]
    typical = np.median(nonzero) if len(nonzero) else 1.0
    if value.ndim > 1:  # entries of one vector, inertia or quaternion share its size
        magnitude = np.maximum(magnitude, magnitude.max(axis=-1, keepdims=True, initial=0.0))
    return np.where(magnitude > 1e-6 * typical, magnitude, typical)


@dataclass
class Quotients:
    """Difference quotients of one field: (entries, step sizes), NaN where none could be formed."""

    numeric: np.ndarray
    rounding: np.ndarray
    ahead: np.ndarray  # from one side, of first order: only to see kinks
    behind: np.ndarray


def _quotients(probe: Probe, name: str, steps: np.ndarray) -> Quotients:
    value = probe.value(name)
    # what is added must be what is divided by: the move as the System's numbers hold it
    held = np.broadcast_to(value.reshape(-1, 1), (value.size, len(steps)))
    wanted = _sizes(value, name in probe.params).reshape(-1, 1) * steps
    moves = ((held + wanted).astype(value.dtype).astype(float) - held).astype(float)
    places = np.repeat(np.arange(value.size), len(steps))

    def changes(times: float, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        result, rounding = np.full(moves.shape, np.nan), np.full(moves.shape, np.nan)
        if np.any(where):
            result[where], rounding[where] = probe.changes(name, places[where.ravel()], times * moves[where])
        return result, rounding

    everywhere = np.ones(moves.shape, dtype=bool)
    (up, up_rounding), (down, down_rounding) = changes(1.0, everywhere), changes(-1.0, everywhere)
    numeric = (up - down) / (2 * moves)
    rounding = np.fmax(up_rounding, down_rounding) / moves
    for side, once in ((1.0, up), (-1.0, down)):  # second-order differences from one side, where the other is refused
        missing = np.isnan(numeric) & ~np.isnan(once)
        twice, _ = changes(2 * side, missing)
        numeric = np.where(missing, side * (4 * once - twice) / (2 * moves), numeric)
    rounding = np.where(np.isnan(numeric), np.nan, rounding)
    return Quotients(numeric, rounding, up / moves, -down / moves)


def _row(probe: Probe, name: str, bar: np.ndarray, steps: np.ndarray, tolerance: float) -> Row:
    found, analytic = _quotients(probe, name, steps), bar.ravel()
    compared = ~np.all(np.isnan(found.numeric), axis=1)
    skipped = int(np.sum(~compared))
    about: dict[str, Any] = {"field": name, "entries": int(np.sum(compared)), "skipped": skipped}
    nothing = {"worst": "", "index": (), "analytic": 0.0, "numeric": 0.0, "error": 0.0, "largest": 0.0}
    if not np.any(compared):
        return Row(**about, status=SKIPPED if skipped else NO_INFLUENCE, **nothing, slope=np.nan, kink=False)
    where = np.flatnonzero(compared)
    analytic = analytic[where]
    found = Quotients(*(x[where] for x in (found.numeric, found.rounding, found.ahead, found.behind)))
    long = np.argmax(~np.isnan(found.numeric), axis=1)  # the longest step that was not refused: the least rounding
    rows = np.arange(len(where))
    # A change by its own size that moves nothing beyond rounding: no influence, whatever the last digits say.
    floor = probe.rounding / _sizes(probe.value(name), name in probe.params).ravel()[where]
    numeric = np.abs(found.numeric[rows, long])
    if np.all(np.abs(analytic) <= floor) and np.all(numeric <= np.fmax(floor, found.rounding[rows, long])):
        return Row(**about, status=NO_INFLUENCE, **nothing, slope=np.nan, kink=False)

    largest = max(np.max(np.abs(analytic)), np.max(numeric))
    error, best = _errors(found, analytic, largest, tolerance)
    worst = int(np.argmax(error))
    index = tuple(int(i) for i in np.unravel_index(where[worst], bar.shape))
    wrong = not error[worst] <= tolerance
    return Row(
        **about,
        status=WRONG if wrong else AGREES,
        worst=probe.name_of(name, index),
        index=index,
        analytic=float(analytic[worst]),
        numeric=float(found.numeric[worst, best[worst]]),
        error=float(error[worst]),
        largest=float(largest),
        slope=_slope(np.abs(found.numeric - analytic[:, None]), found.rounding, steps),
        kink=wrong and _has_kink(found, analytic, worst, tolerance * largest),
    )


def _errors(found: Quotients, analytic: np.ndarray, largest: float, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """The error of each entry at its best step size, and which that is."""
    gap = np.abs(found.numeric - analytic[:, None])
    gap[np.isnan(gap)] = np.inf
    rounding = np.where(np.isnan(found.rounding), np.inf, found.rounding)
    sharp = rounding <= tolerance * largest
    # A step size whose rounding hides the tolerance counts only where every one does, less what rounding explains.
    explained = np.where(np.isinf(gap), np.inf, np.maximum(gap - np.where(np.isinf(rounding), 0, rounding), 0))
    judged = np.where(np.any(sharp, axis=1, keepdims=True), np.where(sharp, gap, np.inf), explained)
    best = np.argmin(judged, axis=1)
    error = judged[np.arange(len(gap)), best] / largest

    # An entry that is small beside the largest may still be plainly wrong against its own size.
    for k in np.flatnonzero(np.isfinite(gap).sum(axis=1) >= 2):
        sure = np.flatnonzero(np.abs(found.numeric[k]) > CERTAIN * rounding[k])
        for i, j in zip(sure[:-1], sure[1:], strict=True):
            a, b = found.numeric[k, i], found.numeric[k, j]
            if abs(a - b) <= SAME * abs(b) and gap[k, j] > GROSS * abs(b):
                error[k] = max(error[k], gap[k, j] / max(abs(b), abs(analytic[k])))
                best[k] = j
    return error, best


def _slope(gap: np.ndarray, rounding: np.ndarray, steps: np.ndarray) -> float:
    """Of log error against log step size, where truncation dominates; NaN where it never does."""
    clear = np.where(np.isnan(gap) | (gap <= CLEAR * rounding), -np.inf, gap)
    ready = np.flatnonzero(np.sum(np.isfinite(clear[:, :3]), axis=1) >= 2)
    if not len(ready):
        return float("nan")
    entry = ready[np.argmax(np.max(clear[ready], axis=1))]
    shown = np.flatnonzero(np.isfinite(clear[entry]))[-3:]
    return float(np.polyfit(np.log(steps[shown]), np.log(gap[entry, shown]), 1)[0])


def _has_kink(found: Quotients, analytic: np.ndarray, entry: int, small: float) -> bool:
    """Whether differences from the two sides disagree and one of them agrees with the pullback."""
    usable = np.flatnonzero(np.isfinite(found.ahead[entry]) & np.isfinite(found.behind[entry]))
    if not len(usable):
        return False
    middle = usable[len(usable) // 2]  # short enough to see one side's derivative, long enough to be above rounding
    ahead, behind = found.ahead[entry, middle], found.behind[entry, middle]
    apart = abs(ahead - behind)
    return bool(apart > small and min(abs(ahead - analytic[entry]), abs(behind - analytic[entry])) < 0.05 * apart)
