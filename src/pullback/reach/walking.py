"""What plans on foot share: feet on the floor, what they can reach, what they keep clear of, and the plan itself.

Feet are poses in SE2: x, y [m] and yaw [rad] of a site on the sole. Left and right alternate. A stance is two feet on
the floor; its frame is half-way between them. A foot map says where the right foot can be as seen from the left one;
for the left foot everything is mirrored in y and yaw. A hand map says where the left hand can be, (x, y, z) [m], as
seen from the frame of the stance; for the right hand it is mirrored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.reach.checks import check_map, check_numbers, check_points, check_pose
from pullback.reach.obstacles import Obstacle
from pullback.reach.planner import Planner, Result, clear_of, within_reach
from pullback.reach.spaces import Space, shortest_angle, space
from pullback.reach.sqp import FIXED, Constraint, Linearised, Poses, Problem, Rows, Solution

SE2 = space("SE2")
MIRROR = np.array([1.0, -1.0, -1.0])  # x, y, yaw
MIRROR_POINT = np.array([1.0, -1.0, 1.0])  # x, y, z
SIDES = ("left", "right")
SOLES = ((0.0, 0.0), (0.14, 0.0))  # under the ankle and under the ball of the foot [m]
ALIGNING = 0.3  # of the path: to turn to where it leads, and back [1]
MOST = 0.6  # of the steps; the optimiser shortens the others [1]
PARTS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05)  # of the path, that are tried as a first guess


@dataclass(frozen=True)
class Stance:
    """Two feet on the floor, (x, y, yaw) each [m, m, rad]."""

    left: tuple[float, float, float] = (0.0, 0.09, 0.0)
    right: tuple[float, float, float] = (0.0, -0.09, 0.0)

    def __post_init__(self):
        for side in SIDES:
            object.__setattr__(self, side, check_pose(getattr(self, side), f"{side} foot"))


@dataclass(frozen=True, kw_only=True)
class Plan(Result):
    """The planned poses of feet and a hand, and whether they meet all constraints.

    A moment is a stance with the hand somewhere, or nowhere; the robot goes from moment to moment.
    """

    feet: np.ndarray  # (2 + steps, 3) in the order in which they are put down, those of the start first
    sides: tuple[str, ...]  # (2 + steps) "left" or "right"
    left: np.ndarray  # (moments, 3) the left foot at each moment
    right: np.ndarray  # (moments, 3)
    hand: np.ndarray  # (moments, 3) [m]; NaN where the hand touches nothing
    hand_side: str = "left"


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


def on_floor(feet: np.ndarray) -> np.ndarray:
    """Poses in SE2 (n, 3) as poses in SE3 (n, 7), flat on the floor."""
    nothing, half = np.zeros(len(feet)), feet[:, 2] / 2
    return np.stack([feet[:, 0], feet[:, 1], nothing, np.cos(half), nothing, nothing, np.sin(half)], axis=1)


# --- feet -------------------------------------------------------------------------------------------------------------


class Walk:
    """Steps from a stance: two feet that stand, then variables of the group "feet", one foot after the other."""

    def __init__(self, start: Stance, first: str, steps: int):
        if first not in SIDES:
            raise PullbackError(f"first must be 'left' or 'right', not {first!r}")
        self.steps = steps = check_whole(steps, "steps")
        other = SIDES[1 - SIDES.index(first)]
        self.sides = tuple(first if i % 2 == 0 else other for i in range(steps + 2))
        self.fixed = np.array([getattr(start, side) for side in self.sides[:2]])
        standing = np.full((2, SE2.tangent_size), FIXED)
        self.columns = np.concatenate([standing, np.arange(steps * SE2.tangent_size).reshape(steps, -1)])
        self.step_columns = np.concatenate([self.columns[1:-1], self.columns[2:]], axis=1)
        self.width = np.linalg.norm(self.fixed[0, :2] - self.fixed[1, :2])
        self.is_left = np.array([side == "left" for side in self.sides])

    def all_feet(self, steps: np.ndarray) -> np.ndarray:
        """(2 + steps, 3)"""
        return np.concatenate([self.fixed, steps])

    def steps_seen(self, feet: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each step from the foot that stands, as a right foot from a left one (steps, 3), and how that moves with the
        two feet (steps, 3, 6), whose columns are ``step_columns``."""
        base, tip = feet[1:-1], feet[2:]
        sign = np.where(self.is_left[2:, None], MIRROR, 1.0)
        moves = np.concatenate(SE2.relative_jacobians(base, tip), axis=2)
        return sign * SE2.relative(base, tip), sign[..., None] * moves

    def within_reach(self, feet: np.ndarray, foot_map, threshold: float) -> Constraint:
        """Every step is inside the foot map."""
        seen, moves = self.steps_seen(feet)
        name = lambda i: f"step {i + 1} ({self.sides[i + 2]}) is out of reach"  # noqa: E731
        return within_reach(foot_map, threshold, seen, self.step_columns, moves, name)

    def smooth(self, feet: np.ndarray, weight: float) -> Rows:
        """Steps should be short, straight and as wide as the stance at the start."""
        seen, moves = self.steps_seen(feet)
        root, columns = np.sqrt(weight), np.repeat(self.step_columns, 3, axis=0)
        return Rows(root * (seen - (0.0, -self.width, 0.0)).ravel(), columns, root * moves.reshape(len(columns), -1))

    def clear(
        self, feet: np.ndarray, obstacles: Sequence[Obstacle], margin: float, soles: np.ndarray, what: str = ""
    ) -> list[Constraint]:
        """Points of every sole (k, 2) [m] that is put down keep ``margin`` from every obstacle.

        what: their name in a report, unless they are those of the user and are counted
        """
        tips = feet[2:, None]
        points = SE2.compose(tips, np.pad(soles, ((0, 0), (0, 1))))[..., :2]  # (steps, k, 2)
        away = points - tips[..., :2]
        moves = np.tile(np.eye(2, 3), (*away.shape[:2], 1, 1))
        moves[..., 2] = np.stack([-away[..., 1], away[..., 0]], axis=-1)  # with the yaw
        columns = np.repeat(self.columns[2:], len(soles), axis=0)

        def name(row: int, number: int) -> str:
            kind = type(obstacles[number]).__name__
            return f"step {1 + row // len(soles)} is too near to {what or f'obstacle {number} ({kind})'}"

        return clear_of(obstacles, margin, points.reshape(-1, 2), columns, moves.reshape(-1, 2, 3), name)

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
        return SE2.compose(goal, (0.0, (-0.5 if self.is_left[-1] else 0.5) * self.width, 0.0))

    def furthest(self, to: np.ndarray, foot_map, threshold: float) -> float:
        """Part of the straight path to a stance frame ``to`` (3,) on which most steps are within reach [1]."""
        for part in PARTS:
            for facing in (False, True):
                steps = self.guess(to, part=part, facing=facing)
                value, _ = foot_map.evaluate(self.steps_seen(self.all_feet(steps))[0])
                if np.mean(value >= threshold) >= MOST:
                    return part
        return PARTS[-1]

    def guess(self, to: np.ndarray, *, part: float = 1.0, bend: float = 0.0, facing: bool = False) -> np.ndarray:
        """Steps (steps, 3) along a part of the path to the stance frame ``to`` (3,).

        bend:    how far the path is bent aside, half-way [m]
        facing:  yaw along the path, and in the end that of ``to``; else it changes evenly
        """
        start = middle(self.fixed[:1], self.fixed[1:])[0]
        path = SE2.difference(start, to)
        share = part * np.arange(1, self.steps + 1) / self.steps
        frames = start + share[:, None] * path
        length = np.linalg.norm(path[:2])
        if length > 0:
            aside = np.array([-path[1], path[0]]) / length
            frames[:, :2] += bend * np.sin(np.pi * share)[:, None] * aside
            ahead = path[:2] + np.pi * bend * np.cos(np.pi * share)[:, None] * aside  # its own direction
            if facing:
                angle = shortest_angle(np.arctan2(ahead[:, 1], ahead[:, 0]) - frames[:, 2])
                frames[:, 2] += angle * np.clip(np.minimum(share, part - share) / ALIGNING, 0.0, 1.0)
        side = np.where(self.is_left[2:], 0.5, -0.5) * self.width
        return SE2.compose(frames, np.outer(side, (0, 1, 0)))


# --- problems ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OnFoot(Planner[Plan]):
    """What all plans on foot are given; :class:`Footsteps` says what it means."""

    foot_map: object
    start: Stance = field(default_factory=Stance)
    first: str = "right"
    steps: int = 16
    soles: Sequence[Sequence[float]] = SOLES
    smoothing: float = 1e-3
    tolerance: float = 5e-3

    groups: ClassVar[Mapping[str, Space]] = {}  # of variables beside the feet
    hand = "left"

    def __post_init__(self):
        super().__post_init__()
        check_map(self.foot_map, ("SE2",), "foot_map")
        check_points(self.soles, 2, "soles")
        check_numbers(self, "smoothing", "tolerance", least=0)
        object.__setattr__(self, "walk", Walk(self.start, self.first, self.steps))

    @abstractmethod
    def own_terms(self, feet: np.ndarray, poses: Poses) -> Linearised:
        """Residuals and constraints beside those of the feet."""

    @abstractmethod
    def contacts(self, poses: Poses) -> tuple[np.ndarray, np.ndarray]:
        """Moments of the plan: their stances (m,), counted from that of the start, and the hand (m, 3) [m]."""

    @abstractmethod
    def aims(self, feet: np.ndarray, poses: Poses) -> dict[str, tuple[float, float]]:
        """By what is missed: how far off, and allowed."""

    def problem(self) -> Problem:
        """For :func:`pullback.reach.sqp.minimise`: the group "feet" (steps, 3), and others."""
        walk = self.walk

        def linearise(poses: Poses) -> Linearised:
            feet = walk.all_feet(poses["feet"])
            own = self.own_terms(feet, poses)
            reached = walk.within_reach(feet, self.foot_map, self.threshold)
            clear = self.clear(feet, self.obstacles, self.margin)
            residuals = [*own.residuals, walk.smooth(feet, self.smoothing)]
            return Linearised(residuals, [reached, *own.constraints, *clear])

        return Problem({"feet": SE2, **self.groups}, linearise)

    def clear(self, feet: np.ndarray, obstacles: Sequence[Obstacle], margin: float, what: str = "") -> list[Constraint]:
        return self.walk.clear(feet, obstacles, margin, np.asarray(self.soles, dtype=float), what)

    def attempts(self) -> Iterable[tuple[Problem, Poses]]:
        return [(self.problem(), self.guess())]

    def result(self, solution: Solution) -> Plan:
        feet = self.walk.all_feet(solution.poses["feet"])
        stances, hand = self.contacts(solution.poses)
        left, right = self.walk.moments(feet, stances)
        aims = self.aims(feet, solution.poses)
        return Plan(
            feet=feet, sides=self.walk.sides, left=left, right=right, hand=hand, hand_side=self.hand, aims=aims,
            solution=solution,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ToGoal(OnFoot):
    """The last step is at a goal: x, y, yaw [m, m, rad]."""

    goal: Sequence[float]

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "goal", check_pose(self.goal, "goal"))

    def at_goal(self, feet: np.ndarray) -> Rows:
        """How far the last step is from the goal."""
        return Rows(SE2.difference(feet[-1], self.goal), self.walk.columns[-1][:, None], np.full((3, 1), -1.0))

    def aims(self, feet: np.ndarray, poses: Poses) -> dict[str, tuple[float, float]]:
        missed = float(np.linalg.norm(SE2.difference(feet[-1], self.goal)))
        return {"the last step misses the goal": (missed, self.tolerance)}

    def path(self) -> tuple[np.ndarray, float]:
        """The stance frame (3,) in which the last step is at the goal, and how much of the path steps can cover."""
        frame = self.walk.ending_at(np.array(self.goal))
        return frame, self.walk.furthest(frame, self.foot_map, self.threshold)


@dataclass(frozen=True, kw_only=True)
class WithHand(OnFoot):
    """A hand map in R3 too: the left hand as seen from between the feet."""

    hand_map: object

    def __post_init__(self):
        super().__post_init__()
        check_map(self.hand_map, ("R3",), "hand_map")

    def hand_within_reach(
        self, feet: np.ndarray, stances: np.ndarray, points: np.ndarray, columns: np.ndarray, moves: np.ndarray,
        name: Callable[[int], str],
    ) -> Constraint:  # fmt: skip
        """The hand reaches a point (m, 3) from each of some stances (m,): one evaluation of all.

        columns, moves:  (m, k), (m, 3, k): how points move with variables
        """
        seen = points_seen(self.walk.frames(feet)[stances], points)
        sign = MIRROR_POINT if self.hand == "right" else np.ones(3)
        by_foot = 0.5 * seen.by_frame  # the frame is half-way between two
        moves = sign[:, None] * np.concatenate([by_foot, by_foot, seen.by_point @ moves], axis=2)
        columns = np.concatenate([self.walk.columns[stances], self.walk.columns[stances + 1], columns], axis=1)
        return within_reach(self.hand_map, self.threshold, sign * seen.values, columns, moves, name)
