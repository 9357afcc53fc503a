"""Steps along a wall, with one hand on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers, check_obstacles, check_soles
from pullback.reach.footsteps import SOLES
from pullback.reach.obstacles import Obstacle, Wall
from pullback.reach.spaces import space
from pullback.reach.sqp import Demand, Linearised, Options, Poses, Problem, Rows, Solution, minimise
from pullback.reach.walking import SE2, HandReach, Plan, Stance, Walk, check_map, missed_goal, pose3

R3 = space("R3")
STANCES_A_HOLD = 3  # a hand stays while two feet step; it moves on in the stance that two holds share
AHEAD = 0.1  # of the stances it serves, in a first guess [m]


@dataclass(frozen=True, kw_only=True)
class MultiContact:
    """Find steps and handholds: the last step at the goal, the hand on a wall beside the way.

    Hold k serves the stances after steps 2k + 1, 2k + 2 and 2k + 3: it stays while two feet step, and in the last of
    them the hand moves on to the next hold. Nine steps need four holds.

    foot_map:   a reachability map in SE2: the right foot as seen from the left one
    hand_map:   a reachability map in R3: the left hand as seen from between the feet
    goal:       of the last step, x, y, yaw [m, m, rad]
    wall:       y of the wall, on the left of the way along x [m]
    heights:    from and to of the holds [m]
    start, first, steps, threshold, smoothing, tolerance, soles: as for :class:`Footsteps`; steps is odd
    clearance:  that soles keep from the wall: hips and shoulders are wider than the feet [m]
    obstacles, margin:  others, as for :class:`Footsteps`
    """

    foot_map: object
    hand_map: object
    goal: Sequence[float]
    wall: float = 0.6
    heights: Sequence[float] = (0.7, 0.9)
    start: Stance = field(default_factory=Stance)
    first: str = "right"
    steps: int = 9
    threshold: float = 0.0
    smoothing: float = 1e-3
    tolerance: float = 5e-3
    soles: Sequence[Sequence[float]] = SOLES
    clearance: float = 0.15
    obstacles: Sequence[Obstacle] = ()
    margin: float = 0.1

    def __post_init__(self):
        check_map(self.foot_map, ("SE2",), "foot_map")
        check_map(self.hand_map, ("R3",), "hand_map")
        object.__setattr__(self, "goal", tuple(pose3(self.goal, "goal")))
        check_numbers(self, "wall", "threshold", "clearance", "margin")
        check_numbers(self, "smoothing", "tolerance", least=0)
        check_obstacles(self.obstacles)
        check_soles(self.soles)
        try:
            low, high = (float(height) for height in self.heights)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not -np.inf < low <= high < np.inf:
            raise PullbackError(f"heights must be from and to, not {self.heights!r}")
        if check_whole(self.steps, "steps") < STANCES_A_HOLD or self.steps % 2 == 0:
            raise PullbackError(f"steps must be odd and at least {STANCES_A_HOLD}, not {self.steps}")
        object.__setattr__(self, "walk", Walk(self.start, self.first, self.steps))

    @property
    def holds(self) -> int:
        return (self.steps - 1) // 2

    @property
    def served(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a hold and a stance that it serves (m,), in the order in which they come."""
        hold = np.repeat(np.arange(self.holds), STANCES_A_HOLD)
        return hold, 1 + 2 * hold + np.tile(np.arange(STANCES_A_HOLD), self.holds)

    def problem(self) -> Problem:
        """For :func:`pullback.reach.sqp.minimise`: the groups "feet" (steps, 3) and "hands" (holds, 3)."""
        walk, soles, goal = self.walk, np.asarray(self.soles, dtype=float), np.array(self.goal)
        hold, stance = self.served
        columns = 3 * self.steps + np.arange(3 * self.holds).reshape(-1, 3)
        moves = np.broadcast_to(np.eye(3), (len(hold), 3, 3))
        wall = Wall((0.0, -1.0), -self.wall)

        def out_of_reach(row: int) -> str:
            return f"hold {hold[row] + 1} is out of reach after step {stance[row]}"

        hands_reach = HandReach(walk, self.hand_map, self.threshold, "left", stance, out_of_reach)

        def linearise(poses: Poses) -> Linearised:
            feet, hands = walk.all_feet(poses["feet"]), poses["hands"]
            demands = [
                walk.reach(feet, self.foot_map, self.threshold),
                hands_reach.demand(feet, hands[hold], columns[hold], moves),
                *self._on_wall(hands, columns),
                *walk.clear(feet, [wall], self.clearance, soles, "the wall"),
                *walk.clear(feet, self.obstacles, self.margin, soles),
            ]
            return Linearised([walk.at_goal(feet, goal), walk.smooth(feet, self.smoothing)], demands)

        return Problem({"feet": SE2, "hands": R3}, linearise)

    def _on_wall(self, hands: np.ndarray, columns: np.ndarray) -> list[Demand]:
        one = np.ones((self.holds, 1))
        y, z = columns[:, 1:2], columns[:, 2:3]
        low, high = self.heights
        return [
            Demand(Rows(hands[:, 1] - self.wall, y, one), lambda k: f"hold {k + 1} is off the wall", equal=True),
            Demand(Rows(hands[:, 2] - low, z, one), lambda k: f"hold {k + 1} is too low"),
            Demand(Rows(high - hands[:, 2], z, -one), lambda k: f"hold {k + 1} is too high"),
        ]

    def guess(self) -> Poses:
        """Straight to the goal, holds beside the way."""
        frame = self.walk.ending_at(np.array(self.goal))
        feet = self.walk.guess(frame, part=self.walk.furthest(frame, self.foot_map, self.threshold))
        frames = self.walk.frames(self.walk.all_feet(feet))
        hold, stance = self.served
        x = np.bincount(hold, frames[stance, 0]) / STANCES_A_HOLD + AHEAD
        return {
            "feet": feet,
            "hands": np.stack([x, np.full(self.holds, self.wall), np.full(self.holds, np.mean(self.heights))], axis=1),
        }

    def plan(self, options: Options | None = None) -> Plan:
        began = time.perf_counter()
        found = self._plan(minimise(self.problem(), self.guess(), options))
        return replace(found, seconds=time.perf_counter() - began)

    def _plan(self, solution: Solution) -> Plan:
        feet, hands = self.walk.all_feet(solution.poses["feet"]), solution.poses["hands"]
        hold, stance = self.served
        left, right = self.walk.moments(feet, np.concatenate([[0], stance]))
        return Plan(
            feet=feet,
            sides=self.walk.sides,
            left=left,
            right=right,
            hand=np.concatenate([np.full((1, 3), np.nan), hands[hold]]),
            aims=missed_goal(feet, self.goal, self.tolerance),
            solution=solution,
        )
