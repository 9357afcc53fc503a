"""Toolpaths: where the laser is over time, and whether it is on."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.thermal.geometry import birth_times
from pullback.thermal.mesh import Mesh

COLUMNS = ("time", "x", "y", "z", "on")
# How far outside the part a path may be by rounding, relative to the size of the part. [1]
SLACK = 1e-6
# How far beside an element the laser still counts as over it, relative to the size of the element: outlines made of
# cells are not finer than that. [1]
NEAR = 0.25
# Lines of one raster, at most: more are a mistake in the unit.
MOST_LINES = 100_000


@dataclass(frozen=True, eq=False)
class Toolpath:
    """A path of straight segments, each at a constant speed.

    times:   (k,) [s], strictly increasing
    points:  (k, 3) [m] where the laser is then
    on:      (k,) share of the power, 0 to 1, for the piece that begins there; that of the last point counts for nothing
    lines:   (k,) the line of a file that the piece which begins there is from, to be named in errors; None if of none
    """

    times: np.ndarray
    points: np.ndarray
    on: np.ndarray
    lines: np.ndarray | None = None

    def __post_init__(self):
        for name, axes in (("times", 1), ("points", 2), ("on", 1)):
            value = np.array(to_numbers(getattr(self, name), f"{name} of a toolpath"), dtype=float)
            if value.ndim != axes:
                raise PullbackError(f"{name} of a toolpath must have {axes} axes, not shape {value.shape}")
            object.__setattr__(self, name, value)
        k = len(self.times)
        if k < 2 or self.points.shape != (k, 3) or self.on.shape != (k,):
            raise PullbackError(
                f"a toolpath needs two points or more: times (k,), points (k, 3) and on (k,), not shapes "
                f"{self.times.shape}, {self.points.shape} and {self.on.shape}"
            )
        if self.lines is not None:
            object.__setattr__(self, "lines", to_numbers(self.lines, "lines of a toolpath"))
            if self.lines.shape != (k,):
                raise PullbackError(f"lines of a toolpath has shape {self.lines.shape}, but ({k},) is needed")
        finite = np.isfinite(self.times) & np.all(np.isfinite(self.points), axis=1) & np.isfinite(self.on)
        if not np.all(finite):
            raise PullbackError(f"{self._point(np.argmin(finite))} of the toolpath is not finite")
        late = np.diff(self.times) <= 0
        if np.any(late):
            row = int(np.argmax(late)) + 1
            raise PullbackError(
                f"times of a toolpath must increase: {self._point(row)} at {self.times[row]:g} s comes after "
                f"{self.times[row - 1]:g} s"
            )
        wrong = (self.on < 0) | (self.on > 1)
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise PullbackError(f"on of a toolpath must be from 0 to 1: at {self._point(row)} it is {self.on[row]:g}")

    def _point(self, row: int) -> str:
        return f"point {row}" if self.lines is None else f"line {self.lines[row]}"

    @property
    def duration(self) -> float:
        """From the first point to the last [s]."""
        return float(self.times[-1] - self.times[0])

    def at(self, times) -> tuple[np.ndarray, np.ndarray]:
        """Places (..., 3) [m] and on (...) at some times (...) [s]; off, and at its ends, before and after the path."""
        times = to_numbers(times, "times").astype(float)
        if np.any(np.isnan(times)):
            raise PullbackError("a time on a toolpath is not a number")
        places = np.stack([np.interp(times, self.times, x) for x in self.points.T], axis=-1)
        piece = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 1)
        inside = (times >= self.times[0]) & (times < self.times[-1])
        return places, np.where(inside, self.on[piece], 0.0)

    def then(self, other: Toolpath, *, pause: float = 0.0, travel: float | None = None) -> Toolpath:
        """This path and then another, whose own start time does not matter. Of many, :func:`stack` is quicker.

        pause:   seconds at the end of this path, the laser off
        travel:  speed from here to where the other begins, the laser off [m/s]; needed unless it begins here
        """
        return _joined([self, other], pause, travel)

    def check_over(self, mesh: Mesh, *, born: np.ndarray | None = None) -> Toolpath:
        """This path, if the laser is on only where there is an element; an error that names piece and place if not.

        born: (e,) [s], of which those that are never born (inf) do not count; whether one is there in time does not
        matter. Where the laser is off, a path may lead anywhere.
        """
        corners = mesh.nodes[mesh.elements[birth_times(born, len(mesh.elements)) < np.inf]]
        low, high = corners.min(axis=1), corners.max(axis=1)
        grown, slack = NEAR * (high - low), SLACK * float(np.max(mesh.high - mesh.low))
        low, high = np.maximum(low - grown, mesh.low - slack), np.minimum(high + grown, mesh.high + slack)
        boxes = _Boxes(low, high)
        for piece in np.flatnonzero(self.on[:-1] > 0):
            a, b = self.points[piece : piece + 2]
            near = boxes.between(a, b)
            share = _first_gap(a, b, low[near], high[near])
            if share is not None:
                time = self.times[piece] + share * (self.times[piece + 1] - self.times[piece])
                place = tuple(float(f"{x:.6g}") for x in a + share * (b - a))
                raise PullbackError(
                    f"the laser is on outside the part: {self._name_of(piece)} has no element under it from "
                    f"{time:g} s on, at {place} m; where there is none it must be off: on=0, or G0 in G-code"
                )
        return self

    def _name_of(self, piece: int) -> str:
        if self.lines is not None:
            return f"line {self.lines[piece]} of the toolpath's file"
        return f"piece {piece} of the toolpath (point {piece} to {piece + 1})"


class _Boxes:
    """Boxes from low to high (e, 3), sorted along each axis, so that a query does not test all of them."""

    def __init__(self, low: np.ndarray, high: np.ndarray):
        self.low, self.high = low, high
        self.orders = [np.argsort(x, kind="stable") for x in low.T]
        self.sorted = [x[order] for x, order in zip(low.T, self.orders, strict=True)]
        self.widest = (high - low).max(axis=0, initial=0.0)

    def between(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Indices of those that intersect the bounding box of the line from a to b."""
        first, last = np.minimum(a, b), np.maximum(a, b)
        starts = [np.searchsorted(x, at) for x, at in zip(self.sorted, first - self.widest, strict=True)]
        ends = [np.searchsorted(x, at, side="right") for x, at in zip(self.sorted, last, strict=True)]
        axis = int(np.argmin(np.subtract(ends, starts)))
        some = self.orders[axis][starts[axis] : ends[axis]]
        return some[np.all((self.low[some] <= last) & (self.high[some] >= first), axis=1)]


def _first_gap(a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> float | None:
    """The share 0 to 1 of the way from a to b at which it is in no box from low to high (e, 3), or None."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(low - a) / (b - a), (high - a) / (b - a)])
    still = np.where((low <= a) & (a <= high), -np.inf, np.inf)
    enter = np.where(a == b, still, ends.min(axis=0)).max(axis=1, initial=-np.inf)
    leave = np.where(a == b, np.inf, ends.max(axis=0)).min(axis=1, initial=np.inf)
    order = np.flatnonzero(enter <= leave)
    order = order[np.argsort(enter[order])]
    covered = np.maximum.accumulate(np.append(0.0, leave[order]))  # up to there, by those before
    late = enter[order] > covered[:-1] + SLACK
    end = covered[np.argmax(late)] if np.any(late) else covered[-1]
    return float(end) if end < 1 - SLACK else None


def follow(points, *, speed: float, on=1.0, start: float = 0.0) -> Toolpath:
    """A path along points (k, 3) [m] at one speed [m/s], from the time ``start`` [s]. ``on``: one number or (k,)."""
    points = to_numbers(points, "points of a path").astype(float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
        raise PullbackError(f"points of a path must have shape (k, 3) with k >= 2, not {points.shape}")
    speed, start = check_number(speed, "speed"), check_number(start, "start", above=None)
    on = to_numbers(on, "on of a path").astype(float)
    if on.shape not in ((), (len(points),)):
        raise PullbackError(f"on of a path must be one number or have shape ({len(points)},), not {on.shape}")
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    if np.any(lengths == 0):
        raise PullbackError(
            f"points {int(np.argmin(lengths))} and {int(np.argmin(lengths)) + 1} of a path are the same"
        )
    with np.errstate(over="ignore"):  # a time that is no number is found by the path
        times = start + np.concatenate([[0.0], np.cumsum(lengths / speed)])
    return Toolpath(times, points, np.broadcast_to(on, len(points)))


def raster(
    low, high, z: float, *, spacing: float, speed: float, along: str = "x", travel: float | None = None
) -> Toolpath:
    """Lines back and forth over the rectangle from low (2,) to high (2,) [m] at height z, half a spacing from its
    edges.

    along:   "x" or "y", the direction of the lines
    travel:  speed from one line to the next, the laser off [m/s]; None for the speed of the lines
    """
    low, high = (to_numbers(x, f"{name} of a raster").astype(float) for x, name in ((low, "low"), (high, "high")))
    z, spacing = check_number(z, "z", above=None), check_number(spacing, "spacing")
    travel = check_number(speed, "speed") if travel is None else travel
    flat = low.shape == high.shape == (2,) and np.all((low < high) & (high < np.inf))
    if not flat or along not in ("x", "y"):
        raise PullbackError("raster needs low < high, (2,) each, and along 'x' or 'y'")
    first, second = (0, 1) if along == "x" else (1, 0)
    if high[second] - low[second] > MOST_LINES * spacing:
        raise PullbackError(f"a raster with a spacing of {spacing:g} m has more than {MOST_LINES} lines here")
    lines = max(1, round((high[second] - low[second]) / spacing))
    offsets = low[second] + (np.arange(lines) + 0.5) * (high[second] - low[second]) / lines
    paths = []
    for number, offset in enumerate(offsets):
        ends = np.full((2, 3), z)
        ends[:, first] = (low[first], high[first]) if number % 2 == 0 else (high[first], low[first])
        ends[:, second] = offset
        paths.append(follow(ends, speed=speed))
    return stack(paths, travel=travel)


def contour(corners, z: float, *, speed: float, start: float = 0.0) -> Toolpath:
    """Once around the polygon corners (k, 2) [m] at height z, back to the first."""
    corners = to_numbers(corners, "corners of a contour").astype(float)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
        raise PullbackError(f"corners of a contour must have shape (k, 2) with k >= 3, not {corners.shape}")
    closed = np.concatenate([corners, corners[:1]])
    height = np.full(len(closed), check_number(z, "z", above=None))
    return follow(np.column_stack([closed, height]), speed=speed, start=start)


def stack(paths, *, pause: float = 0.0, travel: float) -> Toolpath:
    """Paths one after the other, such as layers, with a pause [s] and a travel speed [m/s] in between."""
    return _joined(paths, pause, travel)


def _joined(paths, pause: float, travel: float | None) -> Toolpath:
    paths = list(paths)
    if not paths:
        raise PullbackError("there are no paths to stack")
    check_number(pause, "pause", least=0.0)
    if travel is not None:
        check_number(travel, "travel")
    times, points, on = (list(x) for x in (paths[0].times, paths[0].points, paths[0].on))
    for number, path in enumerate(paths[1:], start=1):
        on[-1] = 0.0
        if pause > 0:
            times.append(times[-1] + pause)
            points.append(points[-1])
            on.append(0.0)
        gap = float(np.linalg.norm(path.points[0] - points[-1]))
        if gap > 0 and travel is None:
            raise PullbackError(f"path {number} begins {gap:g} m away: give the speed of travel")
        if gap > 0:
            start = times[-1] + gap / travel
        else:  # its first point is the last one so far
            start = times.pop()
            points.pop()
            on.pop()
        times += list(path.times - path.times[0] + start)
        points += list(path.points)
        on += list(path.on)
    return Toolpath(times, points, on)


def from_table(table, *, unit: float = 1.0) -> Toolpath:
    """A path from rows of time [s], x, y, z and on (0 to 1): an array (k, 5), or the path of a CSV file.

    unit:  of the places in the table, in metres: 1e-3 for millimetres
    """
    unit = check_number(unit, "unit")
    if isinstance(table, str | os.PathLike):
        (rows, lines), name = _read_rows(table), repr(str(table))
    else:
        rows, lines, name = to_numbers(table, "table of a toolpath").astype(float), None, "the table"
        if rows.ndim != 2 or rows.shape[1] != 5:
            raise PullbackError(f"a table of a toolpath must have shape (k, 5), not {rows.shape}")
    try:
        return Toolpath(rows[:, 0], unit * rows[:, 1:4], rows[:, 4], lines)
    except PullbackError as error:
        raise PullbackError(f"in {name}: {error}") from None


def _read_rows(path) -> tuple[np.ndarray, list[int]]:
    """Numbers (k, 5) of a CSV file and the lines they are on; a first line of names is skipped, and lines with #."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = list(enumerate(csv.reader(file), start=1))
    except (OSError, ValueError, csv.Error) as error:
        raise PullbackError(f"{str(path)!r} cannot be read as a table: {error}") from None
    rows, lines = [], []
    for line, cells in text:
        if not cells or not "".join(cells).strip() or cells[0].lstrip().startswith("#"):
            continue
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if not rows and tuple(cell.strip().lower() for cell in cells) == COLUMNS:
                continue
            raise PullbackError(f"line {line} of {str(path)!r} is not of numbers: {','.join(cells)!r}") from None
        if len(row) != 5:
            raise PullbackError(f"line {line} of {str(path)!r} has {len(row)} numbers, not {', '.join(COLUMNS)}")
        rows.append(row)
        lines.append(line)
    if len(rows) < 2:
        raise PullbackError(f"{str(path)!r} has {len(rows)} rows: a toolpath needs two or more")
    return np.array(rows), lines


def births(mesh: Mesh, path: Toolpath, *, base: float = 0.0, reach: float | None = None) -> np.ndarray:
    """When each element is deposited (e,) [s]: -inf for those that were there before.

    base:   height [m] below which everything is there from the start: elements whose centre is lower
    reach:  how far from the laser material is deposited [m], seen from above; None for half of the element's diagonal

    An element is born when the laser, on, first comes within reach of its centre at a height of its layer: above its
    bottom, at most at its top.
    """
    base = check_number(base, "base", above=None)
    path.check_over(mesh)
    corners = mesh.nodes[mesh.elements]
    low, high, centres = corners.min(axis=1), corners.max(axis=1), corners.mean(axis=1)
    radius = np.linalg.norm(high[:, :2] - low[:, :2], axis=1) / 2
    if reach is not None:
        radius = np.full(len(low), check_number(reach, "reach"))
    slack = SLACK * float(np.max(mesh.high - mesh.low))
    born = np.full(len(low), np.inf)
    reached = np.column_stack([radius, radius])
    boxes = _Boxes(
        np.column_stack([centres[:, :2] - reached, low[:, 2] - slack]),
        np.column_stack([centres[:, :2] + reached, high[:, 2] + slack]),
    )
    for piece in np.flatnonzero(path.on[:-1] > 0):
        a, b = path.points[piece : piece + 2]
        near = boxes.between(a, b)
        share = _reached(a, b, centres[near, :2], radius[near], low[near, 2] + slack, high[near, 2] + slack)
        time = path.times[piece] + share * (path.times[piece + 1] - path.times[piece])
        born[near] = np.minimum(born[near], time)
    born[centres[:, 2] < base] = -np.inf
    never = np.isposinf(born)
    if np.any(never):
        raise PullbackError(
            f"element {int(np.argmax(never))} is never reached by the laser, nor are {int(never.sum()) - 1} others: "
            "lengthen the toolpath, or raise reach or base"
        )
    return born


def _reached(a, b, centres, radius, bottom, top) -> np.ndarray:
    """The share 0 to 1 of the way from a to b at which each element is first reached; inf where none is."""
    along = (b - a)[:2]
    from_centre = a[:2] - centres
    square, half = float(along @ along), from_centre @ along
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inside = (from_centre**2).sum(axis=1) - radius**2
        if square > 0:
            root = np.sqrt(half**2 - square * inside)  # NaN where it passes by
            enter, leave = (-half - root) / square, (-half + root) / square
        else:
            enter, leave = np.where(inside <= 0, 0.0, np.nan), np.ones(len(inside))
        rise = b[2] - a[2]
        if rise != 0:
            ends = np.stack([(bottom - a[2]) / rise, (top - a[2]) / rise])
            enter, leave = np.maximum(enter, ends.min(axis=0)), np.minimum(leave, ends.max(axis=0))
        else:
            enter = np.where((bottom < a[2]) & (a[2] <= top), enter, np.nan)
    enter = np.maximum(enter, 0.0)
    return np.where((enter <= np.minimum(leave, 1.0)), enter, np.inf)
