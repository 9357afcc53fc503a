"""What plans on foot share: feet on the floor, what they can reach, what they keep clear of, and the plan itself.

Feet are poses in SE2: x, y [m] and yaw [rad] of a site on the sole. They step in turn. A stance is two feet on the
floor; its frame is half-way between them. A foot map says where the right foot can be as seen from the left one; for
the left foot everything is mirrored in y and yaw. A hand map says where the left hand can be, (x, y, z) [m], as seen
from the frame of the stance; for the right hand it is mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.reach.obstacles import Obstacle
from pullback.reach.spaces import LARGEST, shortest_turn, space
from pullback.reach.sqp import FIXED, Demand, Rows, Solution, Violation, report

SE2 = space("SE2")
MIRROR = np.array([1.0, -1.0, -1.0])  # x, y, yaw
MIRROR_POINT = np.array([1.0, -1.0, 1.0])  # x, y, z
SIDES = ("left", "right")
TURNING = 0.3  # of the way: to turn to where one goes, and back [1]
MOST = 0.6  # of the steps; the optimiser shortens the others [1]
PARTS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05)  # of the way, that are tried as a first guess


@dataclass(frozen=True)
class Stance:
    """Two feet on the floor, (x, y, yaw) each [m, m, rad]."""

    left: tuple[float, float, float] = (0.0, 0.09, 0.0)
    right: tuple[float, float, float] = (0.0, -0.09, 0.0)

    def __post_init__(self):
        for side in SIDES:
            object.__setattr__(self, side, tuple(pose3(getattr(self, side), f"{side} foot")))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where feet and a hand are put, and whether that is what was asked for.

    A moment is a stance with the hand somewhere, or nowhere; the robot goes from moment to moment.
    """

    feet: np.ndarray  # (2 + steps, 3) in the order in which they are put down, those of the start first
    sides: tuple[str, ...]  # (2 + steps) "left" or "right"
    left: np.ndarray  # (moments, 3) the left foot at each moment
    right: np.ndarray  # (moments, 3)
    hand: np.ndarray  # (moments, 3) [m]; NaN where the hand touches nothing
    hand_side: str = "left"
    aims: dict[str, tuple[float, float]] = field(default_factory=dict)  # what was aimed at: how far off, and allowed
    solution: Solution  # of the optimisation: iterations, seconds, violations
    seconds: float = 0.0  # of all that were tried

    @property
    def problems(self) -> tuple[Violation, ...]:
        """What is not as it was asked for, the worst first; none if the plan is good."""
        missed = [Violation(name, off - allowed) for name, (off, allowed) in self.aims.items() if off > allowed]
        return (*missed, *self.solution.violations)

    @property
    def solved(self) -> bool:
        return not self.problems

    def report(self, most: int = 5) -> str:
        """In words: that all is well, or what is violated by how much."""
        return report(self.problems, self.solution.iterations, self.seconds, most)


def pose3(values, name: str) -> np.ndarray:
    """Three finite numbers, or an error."""
    try:
        pose = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise PullbackError(f"{name} must be three numbers, not {values!r}") from None
    if pose.shape != (3,) or not (np.abs(pose) <= LARGEST).all():
        raise PullbackError(f"{name} must be three finite numbers up to {LARGEST:g}, not {values!r}")
    return pose


def other(side: str) -> str:
    return SIDES[1 - SIDES.index(side)]


def check_map(given, wanted: Sequence[str], name: str) -> None:
    """An error unless a map is one of a space that is needed, and gives NumPy arrays."""
    found = getattr(getattr(given, "space", None), "name", None)
    if found not in wanted or not hasattr(given, "evaluate"):
        what = f"one in {found}" if found else repr(type(given).__name__)
        raise PullbackError(f"{name} must be a reachability map in {' or '.join(wanted)}, not {what}")
    device = getattr(given, "device", "cpu")
    if device != "cpu":
        raise PullbackError(f"{name} is on {device}, but plans are made on the CPU: load it with device='cpu'")


# --- frames -----------------------------------------------------------------------------------------------------------


def middle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Poses (n, 3) half-way between two; steps of either move them half as far."""
    return SE2.integrate(a, 0.5 * SE2.difference(a, b))


class Seen(NamedTuple):
    """Points as seen from frames (n, 3), and how that moves with steps of the frame and of the point (n, 3, 3)."""

    values: np.ndarray
    by_frame: np.ndarray
    by_point: np.ndarray


def points_seen(frames: np.ndarray, points: np.ndarray) -> Seen:
    """Points (n, 3) [m] from frames on the floor (n, 3)."""
    flat = np.concatenate([points[:, :2], frames[:, 2:]], axis=1)
    values = SE2.relative(frames, flat)
    by_frame, by_point = SE2.relative_jacobians(frames, flat)
    values[:, 2] = points[:, 2]
    by_frame[:, 2], by_point[:, 2], by_point[:, :, 2] = 0.0, 0.0, (0.0, 0.0, 1.0)
    return Seen(values, by_frame, by_point)


# --- feet -------------------------------------------------------------------------------------------------------------


class Walk:
    """Steps from a stance: two feet that stand, then variables of the group "feet", one foot after the other."""

    def __init__(self, start: Stance, first: str, steps: int):
        if first not in SIDES:
            raise PullbackError(f"first must be 'left' or 'right', not {first!r}")
        if not isinstance(start, Stance):
            raise PullbackError(f"start must be a Stance, not {type(start).__name__}")
        self.steps = steps = check_whole(steps, "steps")
        self.sides = tuple(first if i % 2 == 0 else other(first) for i in range(steps + 2))
        self.fixed = np.array([getattr(start, side) for side in self.sides[:2]])
        standing = np.full((2, SE2.tangent_size), FIXED)
        self.columns = np.concatenate([standing, np.arange(steps * SE2.tangent_size).reshape(steps, -1)])
        self.is_left = np.array([side == "left" for side in self.sides])

    def all_feet(self, steps: np.ndarray) -> np.ndarray:
        """(2 + steps, 3)"""
        return np.concatenate([self.fixed, steps])

    def steps_seen(self, feet: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each step from the foot that stands, as a right foot from a left one (steps, 3), and how that moves with the
        two feet, (steps, 3, 3) each."""
        base, tip = feet[1:-1], feet[2:]
        sign = np.where(self.is_left[2:, None], MIRROR, 1.0)
        by_base, by_tip = SE2.relative_jacobians(base, tip)
        return sign * SE2.relative(base, tip), sign[..., None] * by_base, sign[..., None] * by_tip

    def reach(self, feet: np.ndarray, foot_map, threshold: float) -> Demand:
        """Every step is inside the foot map: one evaluation of all of them."""
        seen, by_base, by_tip = self.steps_seen(feet)
        value, gradient = foot_map.evaluate(seen)
        entries = [np.einsum("ni,nij->nj", gradient, by) for by in (by_base, by_tip)]
        columns = np.concatenate([self.columns[1:-1], self.columns[2:]], axis=1)
        rows = Rows(value - threshold, columns, np.concatenate(entries, axis=1))
        return Demand(rows, lambda i: f"step {i + 1} ({self.sides[i + 2]}) is out of reach")

    def smooth(self, feet: np.ndarray, weight: float) -> Rows:
        """Steps should be short, straight and as wide as the stance at the start."""
        seen, by_base, by_tip = self.steps_seen(feet)
        width = np.linalg.norm(self.fixed[0, :2] - self.fixed[1, :2])
        root = np.sqrt(weight)
        columns = np.repeat(np.concatenate([self.columns[1:-1], self.columns[2:]], axis=1), 3, axis=0)
        entries = root * np.concatenate([by_base, by_tip], axis=2).reshape(len(columns), -1)
        return Rows(root * (seen - (0.0, -width, 0.0)).ravel(), columns, entries)

    def clear(
        self, feet: np.ndarray, obstacles: Sequence[Obstacle], margin: float, soles: np.ndarray, what: str = ""
    ) -> list[Demand]:
        """Points of every sole (k, 2) [m] that is put down keep ``margin`` from every obstacle.

        what: their name in a report, unless they are those of the user and are counted
        """
        tips = feet[2:]
        c, s = np.cos(tips[:, 2])[:, None], np.sin(tips[:, 2])[:, None]
        x, y = soles.T
        offset = np.stack([c * x - s * y, s * x + c * y], axis=-1)  # (steps, k, 2)
        points = (tips[:, None, :2] + offset).reshape(-1, 2)
        turned = np.stack([-offset[..., 1], offset[..., 0]], axis=-1).reshape(-1, 2)  # how a point moves with the yaw
        columns = np.repeat(self.columns[2:], len(soles), axis=0)
        demands = []
        for number, obstacle in enumerate(obstacles):
            distance, way = obstacle.distance(points)
            entries = np.concatenate([way, np.sum(way * turned, axis=1, keepdims=True)], axis=1)
            label = f"is too near to {what or f'obstacle {number} ({type(obstacle).__name__})'}"

            def name(row: int, label=label) -> str:
                return f"step {1 + row // len(soles)} {label}"

            demands.append(Demand(Rows(distance - margin, columns, entries), name))
        return demands

    # --- stances with a hand ------------------------------------------------------------------------------------------

    def frames(self, feet: np.ndarray) -> np.ndarray:
        """Of all stances (steps + 1, 3): that of the start, and after each step."""
        return middle(feet[:-1], feet[1:])

    def moments(self, feet: np.ndarray, stances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The left and the right feet (m, 3) of stances (m,), counted from the start's."""
        first_is_left = self.is_left[stances][:, None]
        one, two = feet[stances], feet[stances + 1]
        return np.where(first_is_left, one, two), np.where(first_is_left, two, one)

    def ending_at(self, goal: np.ndarray) -> np.ndarray:
        """The stance frame (3,) in which the foot of the last step is at ``goal`` (3,), feet apart as at the start."""
        side = np.linalg.norm(self.fixed[0, :2] - self.fixed[1, :2]) / 2
        side = -side if self.is_left[-1] else side
        return goal + (-side * np.sin(goal[2]), side * np.cos(goal[2]), 0.0)

    def at_goal(self, feet: np.ndarray, goal: np.ndarray) -> Rows:
        """How far the last step is from ``goal`` (3,)."""
        return Rows(off(feet[-1], goal), self.columns[-1][:, None], np.full((3, 1), -1.0))

    def furthest(self, to: np.ndarray, foot_map, threshold: float) -> float:
        """How much of the way to a stance frame ``to`` (3,) can be gone straight, most steps being within reach [1]."""
        for part in PARTS:
            for facing in (False, True):
                steps = self.guess(to, part=part, facing=facing)
                value, _ = foot_map.evaluate(self.steps_seen(self.all_feet(steps))[0])
                if np.mean(value >= threshold) >= MOST:
                    return part
        return PARTS[-1]

    def guess(self, to: np.ndarray, *, part: float = 1.0, bend: float = 0.0, facing: bool = False) -> np.ndarray:
        """Steps (steps, 3) along a part of the way to the stance frame ``to`` (3,).

        bend:    how far the way is bent aside, half-way [m]
        facing:  turn to where one goes, and in the end as ``to`` is turned; else turn evenly
        """
        start = middle(self.fixed[:1], self.fixed[1:])[0]
        way = SE2.difference(start, to)
        share = part * np.arange(1, self.steps + 1) / self.steps
        frames = start + share[:, None] * way
        length = np.linalg.norm(way[:2])
        if length > 0:
            aside = np.array([-way[1], way[0]]) / length
            frames[:, :2] += bend * np.sin(np.pi * share)[:, None] * aside
            ahead = way[:2] + np.pi * bend * np.cos(np.pi * share)[:, None] * aside  # the way's own direction
            if facing:
                turn = shortest_turn(np.arctan2(ahead[:, 1], ahead[:, 0]) - frames[:, 2])
                frames[:, 2] += turn * np.clip(np.minimum(share, part - share) / TURNING, 0.0, 1.0)
        width = np.linalg.norm(self.fixed[0, :2] - self.fixed[1, :2]) / 2
        side = np.where(self.is_left[2:], width, -width)
        feet = frames.copy()
        feet[:, 0] -= side * np.sin(frames[:, 2])
        feet[:, 1] += side * np.cos(frames[:, 2])
        return feet


@dataclass(frozen=True)
class HandReach:
    """What a hand must reach: one point from each of some stances."""

    walk: Walk
    hand_map: object
    threshold: float
    side: str  # "left" or "right"
    stances: np.ndarray  # (m,) counted from that of the start
    name: Callable[[int], str]  # of a row

    def demand(self, feet: np.ndarray, points: np.ndarray, columns: np.ndarray, moves: np.ndarray) -> Demand:
        """Points (m, 3) that move by ``moves`` (m, 3, k) with variables ``columns`` (m, k): one evaluation of all."""
        seen = points_seen(self.walk.frames(feet)[self.stances], points)
        sign = MIRROR_POINT if self.side == "right" else np.ones(3)
        value, gradient = self.hand_map.evaluate(sign * seen.values)
        gradient = sign * gradient
        by_foot = 0.5 * np.einsum("ni,nij->nj", gradient, seen.by_frame)  # the frame is half-way between two
        by_point = np.einsum("ni,nij,njk->nk", gradient, seen.by_point, moves)
        feet_columns = [self.walk.columns[self.stances], self.walk.columns[self.stances + 1]]
        entries = np.concatenate([by_foot, by_foot, by_point], axis=1)
        rows = Rows(value - self.threshold, np.concatenate([*feet_columns, columns], axis=1), entries)
        return Demand(rows, self.name)


def off(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """From a pose on the floor to a goal (3,) [m, m, rad]."""
    return np.concatenate([goal[:2] - pose[:2], shortest_turn(goal[2:] - pose[2:])])


def missed_goal(feet: np.ndarray, goal, allowed: float) -> dict[str, tuple[float, float]]:
    """The aim of a :class:`Plan` whose last step should be at ``goal`` (3,)."""
    return {"the last step misses the goal": (float(np.linalg.norm(off(feet[-1], np.array(goal)))), allowed)}


def on_floor(feet: np.ndarray) -> np.ndarray:
    """Poses in SE2 (n, 3) as poses in SE3 (n, 7), flat on the floor."""
    nothing, half = np.zeros(len(feet)), feet[:, 2] / 2
    return np.stack([feet[:, 0], feet[:, 1], nothing, np.cos(half), nothing, nothing, np.sin(half)], axis=1)
