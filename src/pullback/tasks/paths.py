"""Smooth paths through a few points, to sketch a motion with."""

from __future__ import annotations

import numpy as np


def through(times, places, speeds, t: np.ndarray) -> np.ndarray:
    """Cubics (len(t), n) that pass through places (k, n) at times (k,) with speeds (k, n)."""
    times, places, speeds = (np.asarray(x, dtype=float) for x in (times, places, speeds))
    t = np.clip(t, times[0], times[-1])
    piece = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2)
    length = np.diff(times)[piece]
    s = ((t - times[piece]) / length)[:, None]
    length = length[:, None]
    return (
        (1 + 2 * s) * (1 - s) ** 2 * places[piece]
        + s * (1 - s) ** 2 * length * speeds[piece]
        + s**2 * (3 - 2 * s) * places[piece + 1]
        + s**2 * (s - 1) * length * speeds[piece + 1]
    )
