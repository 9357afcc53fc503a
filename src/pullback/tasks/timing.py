"""How long a tool takes for pieces of its path: dwell times where it stands still, speeds where it moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.tasks.variables import Variables
from pullback.thermal import Toolpath


@dataclass(frozen=True)
class Timing(Variables):
    """Durations of segments of a toolpath, as controls of a laser: its speed and its power.

    A step in which a piece begins or ends has the speed that leads to where the laser is at its end, and the power that
    spends the energy of the time in which it is on. So both are continuous in the durations; the speed has kinks where
    a piece begins exactly at a step. The power rises and falls within a ramp of a few steps: were that at once, what a
    layer does to a later one would waver with every step that passes, by little, but with slopes that hide the true
    one. A laser that the System itself switches off would do so between two steps, which no gradient sees: give it the
    path with the laser :func:`always_on`.

    steps:      of the trajectory; the laser waits at the end of the path until then
    dt:         of a step [s]
    toolpath:   with the laser on where it should be
    pieces:     whose durations are optimised: piece i leads from point i to point i + 1
    power:      where the laser is on [W]
    radius:     of the laser [m]
    ramp:       in which the power rises or falls, half of it before the piece begins and half after it [s]
    low, high:  bounds of the durations [s], one number or one per piece; low must be above zero
    start:      the first guess, likewise; that of the path if None
    """

    steps: int
    dt: float
    toolpath: Toolpath
    pieces: tuple[int, ...]
    power: float
    radius: float
    low: np.ndarray | float
    high: np.ndarray | float
    start: np.ndarray | float | None = None
    ramp: float = 0.05

    def __post_init__(self):
        check_whole(self.steps, "steps of a Timing")
        count = len(self.toolpath.times) - 1
        if not self.ramp > 0:
            raise PullbackError(f"ramp of a Timing must be above zero, not {self.ramp!r}")
        if (
            not self.pieces
            or sorted(set(self.pieces)) != list(self.pieces)
            or not 0 <= self.pieces[0] <= self.pieces[-1] < count
        ):
            raise PullbackError(f"pieces of a Timing must rise, each from 0 to {count - 1}, not {self.pieces!r}")
        if not np.all(np.asarray(self.low) > 0) or not np.all(np.asarray(self.high) >= self.low):
            raise PullbackError(f"bounds of a Timing must be 0 < low <= high, not {self.low!r} and {self.high!r}")
        durations = np.diff(self.toolpath.times)
        durations[list(self.pieces)] = self.high
        if durations.sum() > self.steps * self.dt * (1 + 1e-9):
            raise PullbackError(
                f"the path may take {durations.sum():g} s, but {self.steps} steps are {self.steps * self.dt:g} s: "
                "lower high, or take more steps"
            )

    def begin(self, system):
        start = np.diff(self.toolpath.times)[list(self.pieces)] if self.start is None else self.start
        return tuple(
            np.broadcast_to(np.asarray(x, dtype=float), len(self.pieces)).copy() for x in (start, self.low, self.high)
        )

    def _clock(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Time on the path, and for how long the laser has been on, (2, steps + 1) [s], and how both move with the
        durations (2, steps + 1, n)."""
        path, pieces = self.toolpath, np.array(self.pieces)
        durations = np.diff(path.times)
        pace = np.append(durations, 1.0)  # a second in a second, after the end
        durations[pieces] = point
        pace[:-1] /= durations
        begins = np.concatenate([[0.0], np.cumsum(durations)])
        times = self.dt * np.arange(self.steps + 1)
        at = np.searchsorted(begins, times, side="right") - 1
        into = times - begins[at]
        past, inside = pieces < at[:, None], pieces == at[:, None]
        by_path = -pace[at, None] * (past + inside * into[:, None] / point)
        ends = [self._lit(begins, times + sign * self.ramp / 2) for sign in (1, -1)]
        lit, by_lit = ((after - before) / self.ramp for after, before in zip(*ends, strict=True))
        return np.stack([path.times[at] + pace[at] * into, lit]), np.stack([by_path, by_lit])

    def _lit(self, begins: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The integral of how long the laser has been on [s²], if it were switched at once: its mean over the ramp is
        how long it has been on with the ramp. And how that moves with the durations (times, n)."""
        on, pieces = np.append(self.toolpath.on[:-1], 0.0), np.array(self.pieces)
        lengths = np.diff(begins)
        lit = np.concatenate([[0.0], np.cumsum(on[:-1] * lengths)])
        sums = np.concatenate([[0.0], np.cumsum((lit[:-1] + lit[1:]) / 2 * lengths)])
        at = np.maximum(np.searchsorted(begins, times, side="right") - 1, 0)
        into = np.maximum(times - begins[at], 0.0)
        now = lit[at] + on[at] * into
        since = times[:, None] - begins[pieces + 1]
        moved = np.where(since > 0, on[pieces] * since - (now[:, None] - lit[pieces + 1]), 0.0)
        return sums[at] + (lit[at] + on[at] * into / 2) * into, moved

    def decode(self, system, points):
        controls = np.empty((self.steps, len(points), 3), dtype=system.dtype)
        for world, point in enumerate(points):
            speed, share = np.diff(self._clock(point)[0], axis=1) / self.dt
            controls[:, world] = np.stack([self.power * share, speed, np.full(self.steps, self.radius)], axis=1)
        return controls, {}

    def _moves(self, point: np.ndarray) -> np.ndarray:
        """Of the controls by the durations (steps, 3, n)."""
        speed, share = np.diff(self._clock(point)[1], axis=1) / self.dt
        return np.stack([self.power * share, speed, np.zeros(share.shape)], axis=1)

    def pull(self, system, points, bars):
        bar = np.asarray(bars.control, dtype=float)
        return np.stack([np.einsum("tc,tcn->n", bar[:, w], self._moves(x)) for w, x in enumerate(points)])

    def push(self, system, points):
        return {"controls": np.stack([self._moves(point) for point in points], axis=1)}


def always_on(path: Toolpath) -> Toolpath:
    """The same path with the laser always on, for a laser that is switched by its power."""
    return Toolpath(path.times, path.points, np.ones(len(path.times)))


def pauses(path: Toolpath) -> tuple[int, ...]:
    """The segments in which the tool stands still and is off."""
    still = np.all(path.points[1:] == path.points[:-1], axis=1) & (path.on[:-1] == 0)
    return tuple(int(i) for i in np.flatnonzero(still))


class Crossing(NamedTuple):
    """When the clock of a path passes a time on it.

    row:      (worlds,) the last row of the run before it
    share:    (worlds,) of the step from there to the next row [1]
    by_next:  how the share moves with the clock at the next row [1/s]
    """

    row: np.ndarray
    share: np.ndarray
    by_next: float


def crossing(s: np.ndarray, time: float, dt: float) -> Crossing:
    """s: (rows, worlds) [s], rising, with steps of dt. From ``time`` on it must rise as time does: what is left of the
    step then says when it was passed, however fast it was before."""
    row = np.argmax(s[1:] > time, axis=0)
    share = 1 - (s[row + 1, np.arange(s.shape[1])] - time) / dt
    if not np.all((s[0] <= time) & (time < s[-1])):
        raise PullbackError(f"the clock of the path does not pass {time:g} s: take more steps")
    return Crossing(row, share, -1 / dt)
