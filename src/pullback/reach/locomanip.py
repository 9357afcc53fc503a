"""Steps while a hand moves something along an arc: opening a door."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pullback.core.errors import PullbackError
from pullback.reach.checks import check_numbers, check_obstacles, check_soles
from pullback.reach.footsteps import SOLES
from pullback.reach.obstacles import Disc, Obstacle
from pullback.reach.spaces import space
from pullback.reach.sqp import FIXED, Linearised, Options, Poses, Problem, Rows, Solution, minimise
from pullback.reach.walking import SE2, HandReach, Plan, Stance, Walk, check_map

SO2 = space("SO2")


@dataclass(frozen=True)
class Door:
    """What the hand holds moves on a circle about a hinge."""

    x: float = 0.75  # of the hinge [m]
    y: float = 0.9
    radius: float = 0.75  # of the handle's way [m]
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
class LocoManipulation:
    """Find steps and how far a door is opened at each, so that it is wide open in the end.

    A hand holds the handle all the time. In a stance it moves the door from one angle to the next, then a foot steps
    while the door rests. Feet stay out of the whole circle that the door may sweep.

    foot_map, hand_map:  as for :class:`MultiContact`
    opened:     by how much in the end [rad]
    door:       its hinge and handle
    hand:       the side of the hand that holds it
    start, first, steps, threshold, smoothing, soles, margin, obstacles:  as for :class:`Footsteps`
    tolerance:  the door may be so far from as open as it should be [rad]
    """

    foot_map: object
    hand_map: object
    opened: float = -np.deg2rad(100.0)
    door: Door = field(default_factory=Door)
    hand: str = "left"
    start: Stance = field(default_factory=lambda: Stance((0.25, 0.09, 0.0), (0.25, -0.09, 0.0)))
    first: str = "right"
    steps: int = 8
    threshold: float = 0.0
    smoothing: float = 1e-3
    soles: Sequence[Sequence[float]] = SOLES
    margin: float = 0.1
    obstacles: Sequence[Obstacle] = ()
    tolerance: float = 0.02

    def __post_init__(self):
        check_map(self.foot_map, ("SE2",), "foot_map")
        check_map(self.hand_map, ("R3",), "hand_map")
        if self.hand not in ("left", "right"):
            raise PullbackError(f"hand must be 'left' or 'right', not {self.hand!r}")
        if not isinstance(self.door, Door):
            raise PullbackError(f"door must be a Door, not {type(self.door).__name__}")
        check_numbers(self, "opened", "threshold", "margin")
        check_numbers(self, "smoothing", "tolerance", least=0)
        check_obstacles(self.obstacles)
        check_soles(self.soles)
        object.__setattr__(self, "walk", Walk(self.start, self.first, self.steps))

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of an angle and a stance in which the door has it (m,): at the stance's beginning and at its end."""
        stance = np.repeat(np.arange(self.steps + 1), 2)
        return stance + np.tile([0, 1], self.steps + 1), stance

    def problem(self) -> Problem:
        """For :func:`pullback.reach.sqp.minimise`: the groups "feet" (steps, 3) and "angles" (steps + 1, 1)."""
        walk, soles, root = self.walk, np.asarray(self.soles, dtype=float), np.sqrt(self.smoothing)
        number, stance = self.held
        # The first angle is no variable: the door is closed.
        columns = np.concatenate([[FIXED], 3 * self.steps + np.arange(self.steps + 1)])[:, None]
        sweep = Disc(self.door.x, self.door.y, self.door.radius)

        def out_of_reach(row: int) -> str:
            return f"the handle is out of reach after step {stance[row]}"

        hand_reaches = HandReach(walk, self.hand_map, self.threshold, self.hand, stance, out_of_reach)

        def linearise(poses: Poses) -> Linearised:
            feet, angles = walk.all_feet(poses["feet"]), self.all_angles(poses)
            at, moves = self.door.handle(angles[number])
            reach = hand_reaches.demand(feet, at, columns[number], moves[..., None])
            open_wide = Rows(self.opened - angles[-1:], columns[-1:], np.full((1, 1), -1.0))
            pairs = np.concatenate([columns[:-1], columns[1:]], axis=1)
            evenly = Rows(root * np.diff(angles), pairs, np.broadcast_to((-root, root), pairs.shape))
            demands = [walk.reach(feet, self.foot_map, self.threshold), reach]
            demands += walk.clear(feet, [sweep], self.margin, soles, "where the door moves")
            demands += walk.clear(feet, self.obstacles, self.margin, soles)
            return Linearised([open_wide, walk.smooth(feet, self.smoothing), evenly], demands)

        return Problem({"feet": SE2, "angles": SO2}, linearise)

    def all_angles(self, poses: Poses) -> np.ndarray:
        """The door's angles (steps + 2,): closed, and after it was moved in each stance [rad]."""
        return np.concatenate([[0.0], poses["angles"][:, 0]])

    def guess(self) -> Poses:
        """Around the hinge with the handle: the start, turned about it."""
        angles = np.linspace(0.0, self.opened, self.steps + 2)[1:]
        turn = angles[:-1]
        c, s = np.cos(turn), np.sin(turn)
        hinge = np.array([self.door.x, self.door.y])
        feet = self.walk.fixed[np.arange(self.steps) % 2]
        away = feet[:, :2] - hinge
        x, y = c * away[:, 0] - s * away[:, 1], s * away[:, 0] + c * away[:, 1]
        return {
            "feet": np.stack([hinge[0] + x, hinge[1] + y, feet[:, 2] + turn], axis=1),
            "angles": angles[:, None],
        }

    def plan(self, options: Options | None = None) -> Plan:
        began = time.perf_counter()
        found = self._plan(minimise(self.problem(), self.guess(), options))
        return replace(found, seconds=time.perf_counter() - began)

    def _plan(self, solution: Solution) -> Plan:
        feet, angles = self.walk.all_feet(solution.poses["feet"]), self.all_angles(solution.poses)
        number, stance = self.held
        left, right = self.walk.moments(feet, stance)
        miss = abs(float(angles[-1] - self.opened))
        return Plan(
            feet=feet,
            sides=self.walk.sides,
            left=left,
            right=right,
            hand=self.door.handle(angles[number])[0],
            hand_side=self.hand,
            aims={"the door is not as open as it should be": (miss, self.tolerance)},
            solution=solution,
        )
