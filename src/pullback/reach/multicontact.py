"""Steps along a wall, with one hand on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers
from pullback.reach.obstacles import Wall
from pullback.reach.spaces import space
from pullback.reach.sqp import Constraint, Linearised, Poses, Rows
from pullback.reach.walking import ToGoal, WithHand

R3 = space("R3")
STANCES_PER_HOLD = 3  # a hand stays while two feet step; it moves on in the stance that two holds share
AHEAD = 0.1  # of the stances it serves, in a first guess [m]


@dataclass(frozen=True, kw_only=True)
class MultiContact(ToGoal, WithHand):
    """Find steps and handholds: the last step at the goal, the hand on a wall beside the path.

    Hold k serves the stances after steps 2k + 1, 2k + 2 and 2k + 3: it stays while two feet step, and in the last of
    them the hand moves on to the next hold. Nine steps need four holds.

    foot_map:   a reachability map in SE2: the right foot as seen from the left one
    hand_map:   a reachability map in R3: the left hand as seen from between the feet
    goal:       of the last step, x, y, yaw [m, m, rad]
    wall:       y of the wall, on the left of the path along x [m]
    heights:    from and to of the holds [m]
    start, first, steps, threshold, smoothing, tolerance, soles: as for :class:`Footsteps`; steps is odd
    clearance:  that soles keep from the wall: hips and shoulders are wider than the feet [m]
    obstacles, margin:  others, as for :class:`Footsteps`
    """

    wall: float = 0.6
    heights: Sequence[float] = (0.7, 0.9)
    steps: int = 9
    clearance: float = 0.15

    groups = {"hands": R3}

    def __post_init__(self):
        super().__post_init__()
        check_numbers(self, "wall", "clearance")
        low, high = self.heights
        if not -np.inf < low <= high < np.inf:
            raise PullbackError(f"heights must be from and to, not {self.heights!r}")
        if check_whole(self.steps, "steps") < STANCES_PER_HOLD or self.steps % 2 == 0:
            raise PullbackError(f"steps must be odd and at least {STANCES_PER_HOLD}, not {self.steps}")

    @property
    def holds(self) -> int:
        return (self.steps - 1) // 2

    @property
    def served(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a hold and a stance that it serves (m,), in the order in which they come."""
        hold = np.repeat(np.arange(self.holds), STANCES_PER_HOLD)
        return hold, 1 + 2 * hold + np.tile(np.arange(STANCES_PER_HOLD), self.holds)

    def own_terms(self, feet: np.ndarray, poses: Poses) -> Linearised:
        hands, (hold, stance) = poses["hands"], self.served
        columns = 3 * self.steps + np.arange(3 * self.holds).reshape(-1, 3)
        moves = np.broadcast_to(np.eye(3), (len(hold), 3, 3))

        def out_of_reach(row: int) -> str:
            return f"hold {hold[row] + 1} is out of reach after step {stance[row]}"

        constraints = [
            self.hand_within_reach(feet, stance, hands[hold], columns[hold], moves, out_of_reach),
            *self._on_wall(hands, columns),
            *self.clear(feet, [Wall((0.0, -1.0), -self.wall)], self.clearance, "the wall"),
        ]
        return Linearised([self.at_goal(feet)], constraints)

    def _on_wall(self, hands: np.ndarray, columns: np.ndarray) -> list[Constraint]:
        one = np.ones((self.holds, 1))
        y, z = columns[:, 1:2], columns[:, 2:3]
        low, high = self.heights
        return [
            Constraint(Rows(hands[:, 1] - self.wall, y, one), lambda k: f"hold {k + 1} is off the wall", equal=True),
            Constraint(Rows(hands[:, 2] - low, z, one), lambda k: f"hold {k + 1} is too low"),
            Constraint(Rows(high - hands[:, 2], z, -one), lambda k: f"hold {k + 1} is too high"),
        ]

    def guess(self) -> Poses:
        """Straight to the goal, holds beside the path."""
        frame, part = self.path()
        feet = self.walk.guess(frame, part=part)
        frames = self.walk.frames(self.walk.all_feet(feet))
        hold, stance = self.served
        x = np.bincount(hold, frames[stance, 0]) / STANCES_PER_HOLD + AHEAD
        height = np.mean(self.heights)
        return {"feet": feet, "hands": np.stack([x, np.full_like(x, self.wall), np.full_like(x, height)], axis=1)}

    def contacts(self, poses: Poses) -> tuple[np.ndarray, np.ndarray]:
        hold, stance = self.served
        return np.append(0, stance), np.concatenate([np.full((1, 3), np.nan), poses["hands"][hold]])
