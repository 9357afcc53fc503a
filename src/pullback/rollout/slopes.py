"""Slopes of a loss by each of many entries, as intervals, from differences at several step sizes and measured noise.

A difference quotient has a truncation error, which shrinks with the step, and an error from the noise of the loss,
which grows as the step shrinks. The noise, from rounding and from solvers' residuals, is measured at steps so short
that it dominates (Moré & Wild, "Estimating computational noise", 2011). The change of quotients from one step size to
the next bounds the truncation error.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pullback.rollout.probe import Probe

# The noise of the loss is measured at four moves that are multiples of this size, where the loss is linear. [1]
TINY = {"float64": 1e-10, "float32": 1e-5}
# Safety factor of the measured noise, because its samples are few. [1]
MARGIN = 4.0
# A change is a jump if a tiny move and four times that move cause the same change, up to this relative difference. [1]
SAME = 0.05


def _sizes(value: np.ndarray, is_param: bool) -> np.ndarray:
    """Typical size of each entry: that of the vector, inertia or quaternion that it belongs to."""
    magnitude = np.abs(value).astype(float)
    if not is_param:
        return np.maximum(1.0, magnitude)
    nonzero = magnitude[magnitude > 0]
    typical = np.median(nonzero) if len(nonzero) else 1.0
    if value.ndim > 1:
        magnitude = np.maximum(magnitude, magnitude.max(axis=-1, keepdims=True, initial=0.0))
    return np.where(magnitude > 1e-6 * typical, magnitude, typical)


class Differences:
    """Changes of the loss with every entry of some fields, at several step sizes: arrays of (entries, steps).

    NaN where there is no change: the System refuses the value, or the step was not requested for this entry.
    """

    def __init__(self, probe: Probe, names: Collection[str], steps: np.ndarray):
        self.probe = probe
        self.fields = {name: probe.value(name).ravel() for name in names}
        self.scales = {name: _sizes(probe.value(name), name in probe.params).ravel() for name in names}
        self.names = np.repeat(np.array(list(names), dtype=object), [x.size for x in self.fields.values()])
        self.places = np.concatenate([np.arange(x.size) for x in self.fields.values()])
        self.sizes = np.concatenate(list(self.scales.values()))

        tiny = self._held(TINY[probe.precision] * np.arange(1, 5))
        ahead, size = probe.changes(self.names, self.places, tiny)
        behind, other = probe.changes(self.names, self.places, -tiny)
        self.free = [~np.isnan(ahead[:, 0]), ~np.isnan(behind[:, 0])]  # where the System accepts values on that side
        self.moves, self.ahead, self.behind = (np.zeros((len(self.names), 0)) for _ in range(3))
        self.size = np.fmax(size, other).max(axis=1)
        self.add(steps, np.ones(len(self.names), dtype=bool))

        # Third differences cancel slope and curvature, and a kink at the point itself, since each side has its own.
        # The noise is that of the loss: an entry that shows none, as it moves nothing yet, gets the others' median.
        seen = np.maximum(*(np.nan_to_num(np.abs(np.diff(side, n=3)[:, 0])) for side in (ahead, behind)))
        common = np.median(seen[seen > 0]) if np.any(seen > 0) else 0.0
        self.noise = MARGIN * np.fmax(np.maximum(seen, common), probe.epsilon * self.size)
        self.jumps = [self._jumps(side) for side in (ahead, behind)]

    def _held(self, steps: np.ndarray) -> np.ndarray:
        """Moves by steps, rounded to the System's precision: the move that is added must be the one divided by."""
        pairs = [(x[:, None], self.scales[name][:, None] * steps) for name, x in self.fields.items()]
        return np.concatenate([(x + wanted).astype(x.dtype).astype(float) - x for x, wanted in pairs])

    def add(self, steps: np.ndarray, which: np.ndarray) -> None:
        """Measures the changes at additional, shorter steps, for the entries in the mask ``which``."""
        moves = self._held(steps)
        moves[~which[:, None] | (moves == 0)] = np.nan  # a step may be below the resolution of the number
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
        """Whether a change does not shrink with the move."""
        return (np.abs(side[:, 0]) > self.noise) & (np.abs(side[:, 3] - side[:, 0]) <= SAME * np.abs(side[:, 0]))


@dataclass
class Interval:
    """Bounds (entries,) of the slopes, and the best estimate of each."""

    low: np.ndarray
    high: np.ndarray
    best: np.ndarray

    def without(self, entries: np.ndarray) -> Interval:
        """The same intervals, unbounded for these entries."""
        low, high, best = (
            np.where(entries, x, y) for x, y in ((-np.inf, self.low), (np.inf, self.high), (np.nan, self.best))
        )
        return Interval(low, high, best)


def _limit(values: np.ndarray, noise: np.ndarray) -> Interval:
    """The limit of difference quotients (entries, steps), ordered by ever shorter steps.

    Each quotient has an interval. Its radius is the noise plus twice the change from the previous step, which exceeds
    the truncation error if errors shrink at all. The intervals are intersected from the shortest step on. Long steps
    may reach beyond kinks: an interval that is disjoint from those of shorter steps is ignored.
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


def _late_noise(quotients: np.ndarray, moves: np.ndarray, residual: float) -> np.ndarray:
    """Noise (entries,) that tiny moves did not show, because a solver's residual may vary with longer moves only.

    Changes of quotients between steps that are within that residual are taken for noise.
    """
    changes = np.abs(np.diff(quotients, axis=1)) * moves[:, 1:]
    return MARGIN * np.where(changes <= residual, changes, 0.0).max(axis=1, initial=0.0)


def _one_sided(quotient: np.ndarray, noise: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One-sided quotients (entries, steps) extrapolated to remove the first-order error, and the noise of the result.

    The first column is NaN, because it has no previous step.
    """
    weight = moves[:, :-1] / (moves[:, :-1] - moves[:, 1:])
    value = weight * quotient[:, 1:] - (weight - 1) * quotient[:, :-1]
    # twice, because the loss at the point itself is noisy too; central differences do not use it
    error = 2 * (weight * noise[:, 1:] + (weight - 1) * noise[:, :-1])
    value, error = (np.pad(x, ((0, 0), (1, 0)), constant_values=np.nan) for x in (value, error))
    return value, error


class Slopes:
    """Slopes of the loss by each entry: central, and from each side alone."""

    def __init__(self, found: Differences):
        moves = found.moves
        self.quotients = (found.ahead - found.behind) / (2 * moves)
        late = _late_noise(self.quotients, moves, found.probe.residual)
        self.noise = np.maximum(found.noise, late)[:, None] / moves
        ahead, wide = _one_sided(found.ahead / moves, self.noise, moves)
        behind, _ = _one_sided(-found.behind / moves, self.noise, moves)
        lone = np.logical_xor(np.isnan(found.ahead).all(axis=1), np.isnan(found.behind).all(axis=1))
        self.quotients = np.where(lone[:, None], np.fmax(ahead, behind), self.quotients)
        torn = found.jumps[0] ^ found.jumps[1]
        self.skipped = np.isnan(self.quotients).all(axis=1) | (lone & torn)
        self.central = _limit(self.quotients, np.where(lone[:, None], wide, self.noise)).without(torn)
        self.ahead = _limit(ahead, wide).without(found.jumps[0])
        self.behind = _limit(behind, wide).without(found.jumps[1])

        three = (self.central, self.ahead, self.behind)
        low, high, best = (np.stack([getattr(one, x) for one in three]) for x in ("low", "high", "best"))
        self.low, self.high = low.max(axis=0), high.min(axis=0)
        # At a kink no slope fits both sides, and any value between them is accepted.
        self.apart = apart = self.low > self.high
        self.low = np.where(apart, np.where(np.isinf(low), np.inf, low).min(axis=0), self.low)
        self.high = np.where(apart, np.where(np.isinf(high), -np.inf, high).max(axis=0), self.high)
        self.kink = (self.ahead.low > self.behind.high) | (self.behind.low > self.ahead.high) | torn
        sharpest = np.argmin(high - low, axis=0)
        self.best = np.clip(best[sharpest, np.arange(len(sharpest))], self.low, self.high)
