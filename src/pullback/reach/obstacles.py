"""What feet must keep clear of: shapes on the floor, by their signed distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers


class Obstacle(Protocol):
    """Anything with a signed distance, negative inside. One's own class needs no more than this."""

    def distance(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of points (n, 2) [m]: the distances (n,) [m] and their gradients (n, 2) [1]."""


@dataclass(frozen=True)
class Disc:
    """A round obstacle."""

    x: float  # of the centre [m]
    y: float
    radius: float  # [m]

    def __post_init__(self):
        check_numbers(self, "x", "y")
        check_numbers(self, "radius", above=0)

    def distance(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        away = points - (self.x, self.y)
        length = np.linalg.norm(away, axis=1)
        # At the centre any direction serves.
        direction = np.where(length[:, None] > 0, away / np.maximum(length, 1e-300)[:, None], (1.0, 0.0))
        return length - self.radius, direction


@dataclass(frozen=True)
class Block:
    """A rectangular obstacle."""

    x: float  # of the centre [m]
    y: float
    half_length: float  # along its own x axis [m]
    half_width: float  # [m]
    yaw: float = 0.0  # [rad]

    def __post_init__(self):
        check_numbers(self, "x", "y", "yaw")
        check_numbers(self, "half_length", "half_width", above=0)

    def distance(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rotation = np.array([[np.cos(self.yaw), -np.sin(self.yaw)], [np.sin(self.yaw), np.cos(self.yaw)]])
        local = (points - (self.x, self.y)) @ rotation
        sign, beyond = np.where(local < 0, -1.0, 1.0), np.abs(local) - (self.half_length, self.half_width)
        outside = np.maximum(beyond, 0.0)
        length = np.linalg.norm(outside, axis=1)
        nearest = np.eye(2)[np.argmax(beyond, axis=1)]  # inside: out through the nearest side
        direction = np.where(length[:, None] > 0, outside / np.maximum(length, 1e-300)[:, None], nearest)
        return np.where(length > 0, length, beyond.max(axis=1)), (sign * direction) @ rotation.T


@dataclass(frozen=True)
class Wall:
    """Everything beyond a straight line: the points with normal · point < offset are inside."""

    normal: tuple[float, float]  # away from the wall, of length one
    offset: float  # [m]

    def __post_init__(self):
        check_numbers(self, "offset")
        if np.shape(self.normal) != (2,) or not np.isclose(np.linalg.norm(self.normal), 1.0):
            raise PullbackError(f"normal of a Wall must be two numbers, of length one together, not {self.normal!r}")

    def distance(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return points @ np.asarray(self.normal) - self.offset, np.tile(self.normal, (len(points), 1))
