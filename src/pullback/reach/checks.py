"""What problems are given, looked at before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real

import numpy as np

from pullback.core.errors import PullbackError


def check_numbers(given, *names: str, above: float = -np.inf, least: float = -np.inf) -> None:
    """An error unless each of these fields is a finite number that is large enough."""
    wanted = "a finite number"
    if above == 0:
        wanted = "positive and finite"
    elif least == 0:
        wanted = "a finite number and not negative"
    for name in names:
        value = getattr(given, name)
        if not isinstance(value, Real) or not np.isfinite(value) or not value > above or not value >= least:
            raise PullbackError(f"{name} of {type(given).__name__} must be {wanted}, not {value!r}")


def check_obstacles(obstacles) -> None:
    """An error unless each of them has a distance."""
    if not isinstance(obstacles, Iterable):
        raise PullbackError(f"obstacles must be a list of them, not {type(obstacles).__name__}")
    for obstacle in obstacles:
        if not callable(getattr(obstacle, "distance", None)):
            raise PullbackError(f"an obstacle must have a method distance, not {type(obstacle).__name__}")


def check_soles(soles) -> None:
    """An error unless they are points in the plane of the foot."""
    try:
        points = np.asarray(soles, dtype=float)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points) or not np.isfinite(points).all():
        raise PullbackError(f"soles must be points (k, 2), finite and at least one, not {soles!r}")
