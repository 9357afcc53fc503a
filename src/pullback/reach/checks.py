"""What problems are given, checked before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.reach.spaces import LARGEST


def check_numbers(given, *names: str, above: float | None = None, least: float | None = None) -> None:
    """An error unless each of these fields is a finite number that is large enough."""
    for name in names:
        check_number(getattr(given, name), f"{name} of {type(given).__name__}", above=above, least=least)


def check_obstacles(obstacles) -> None:
    """An error unless each of them has a distance."""
    for obstacle in obstacles:
        if not callable(getattr(obstacle, "distance", None)):
            raise PullbackError(f"an obstacle must have a method distance, not {type(obstacle).__name__}")


def check_points(points, size: int, name: str) -> np.ndarray:
    """Finite points (k, size), at least one, or an error."""
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or array.shape[1] != size or not len(array) or not np.isfinite(array).all():
        raise PullbackError(f"{name} must be points (k, {size}), finite and at least one, not {points!r}")
    return array


def check_pose(values, name: str) -> tuple[float, float, float]:
    """A pose on the floor, x, y, yaw [m, m, rad], or an error."""
    pose = np.asarray(values, dtype=float)
    if pose.shape != (3,) or not (np.abs(pose) <= LARGEST).all():
        raise PullbackError(f"{name} must be three finite numbers up to {LARGEST:g}, not {values!r}")
    return tuple(pose)


def check_map(given, wanted: Sequence[str], name: str) -> None:
    """An error unless a map is one of a space that is needed, and gives NumPy arrays."""
    found = getattr(getattr(given, "space", None), "name", None)
    if found not in wanted or not hasattr(given, "evaluate"):
        what = f"one in {found}" if found else repr(type(given).__name__)
        raise PullbackError(f"{name} must be a reachability map in {' or '.join(wanted)}, not {what}")
    device = getattr(given, "device", "cpu")
    if device != "cpu":
        raise PullbackError(f"{name} is on {device}, but plans are made on the CPU: load it with device='cpu'")
