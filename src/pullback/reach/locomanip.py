"""Steps while a hand moves something along an arc: opening a door."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers
from pullback.reach.obstacles import Disc
from pullback.reach.spaces import space
from pullback.reach.sqp import FIXED, Linearised, Poses, Rows
from pullback.reach.walking import SE2, SIDES, Stance, WithHand

SO2 = space("SO2")


@dataclass(frozen=True)
class Door:
    """A door, whose handle moves on a circle about a hinge."""

    x: float = 0.75  # of the hinge [m]
    y: float = 0.9
    radius: float = 0.75  # of the handle's path [m]
    height: float = 0.95  # of the handle [m]
    closed: float = -np.pi / 2  # which way the door points from its hinge when it is closed [rad]

    def __post_init__(self):
        check_numbers(self, "x", "y", "height", "closed")
        check_numbers(self, "radius", above=0)

    def handle(self, opened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the handle is (n, 3) [m] when the door is opened by angles (n,) [rad], and how it moves (n, 3)."""
        angle = self.closed + opened
        c, s, zero = np.cos(angle), np.sin(angle), np.zeros_like(angle)
        at = np.stack([self.x + self.radius * c, self.y + self.radius * s, zero + self.height], axis=1)
        return at, self.radius * np.stack([-s, c, zero], axis=1)


@dataclass(frozen=True, kw_only=True)
class LocoManipulation(WithHand):
    """Find steps and how far a door is opened at each, so that it is wide open in the end.

    A hand holds the handle all the time. In a stance it moves the door from one angle to the next, then a foot steps
    while the door rests. Feet stay out of the whole circle that the door may sweep.

    foot_map, hand_map:  as for :class:`MultiContact`
    opened:     by how much in the end [rad]
    door:       its hinge and handle
    hand:       the side of the hand that holds it
    start, first, steps, threshold, smoothing, soles, margin, obstacles:  as for :class:`Footsteps`
    tolerance:  allowed difference of the last angle from ``opened`` [rad]
    """

    opened: float = -np.deg2rad(100.0)
    door: Door = field(default_factory=Door)
    hand: str = "left"
    start: Stance = field(default_factory=lambda: Stance((0.25, 0.09, 0.0), (0.25, -0.09, 0.0)))
    steps: int = 8
    tolerance: float = 0.02

    groups = {"angles": SO2}

    def __post_init__(self):
        super().__post_init__()
        check_numbers(self, "opened")
        if self.hand not in SIDES:
            raise PullbackError(f"hand must be 'left' or 'right', not {self.hand!r}")

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of an angle and a stance in which the door has it (m,): at the stance's beginning and at its end."""
        stance = np.repeat(np.arange(self.steps + 1), 2)
        return stance + np.tile([0, 1], self.steps + 1), stance

    def own_terms(self, feet: np.ndarray, poses: Poses) -> Linearised:
        angles, (number, stance) = self.all_angles(poses), self.held
        # The first angle is no variable: the door is closed.
        columns = np.concatenate([[FIXED], 3 * self.steps + np.arange(self.steps + 1)])[:, None]

        def out_of_reach(row: int) -> str:
            return f"the handle is out of reach after step {stance[row]}"

        at, moves = self.door.handle(angles[number])
        reach = self.hand_within_reach(feet, stance, at, columns[number], moves[..., None], out_of_reach)
        swept = Disc(self.door.x, self.door.y, self.door.radius)
        clear = self.clear(feet, [swept], self.margin, "where the door moves")
        open_wide = Rows(self.opened - angles[-1:], columns[-1:], np.full((1, 1), -1.0))
        pairs, root = np.concatenate([columns[:-1], columns[1:]], axis=1), np.sqrt(self.smoothing)
        evenly = Rows(root * np.diff(angles), pairs, np.broadcast_to((-root, root), pairs.shape))
        return Linearised([open_wide, evenly], [reach, *clear])

    def all_angles(self, poses: Poses) -> np.ndarray:
        """The door's angles (steps + 2,): closed, and after it was moved in each stance [rad]."""
        return np.concatenate([[0.0], poses["angles"][:, 0]])

    def guess(self) -> Poses:
        """Around the hinge with the handle: the start, rotated about it."""
        angles = np.linspace(0.0, self.opened, self.steps + 2)[1:]
        hinge = np.array([self.door.x, self.door.y, 0.0])
        seen = SE2.relative(hinge, self.walk.fixed[np.arange(self.steps) % 2])
        return {"feet": SE2.compose(hinge + np.outer(angles[:-1], (0, 0, 1)), seen), "angles": angles[:, None]}

    def contacts(self, poses: Poses) -> tuple[np.ndarray, np.ndarray]:
        number, stance = self.held
        return stance, self.door.handle(self.all_angles(poses)[number])[0]

    def aims(self, feet: np.ndarray, poses: Poses) -> dict[str, tuple[float, float]]:
        missed = abs(float(poses["angles"][-1, 0] - self.opened))
        return {"the door is not as open as it should be": (missed, self.tolerance)}
