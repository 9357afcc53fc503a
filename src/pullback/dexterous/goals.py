"""Starts and goals that many tasks share. They are data, so that a task can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind, check_number, shown
from pullback.core.errors import PullbackError
from pullback.dexterous.scene import Scene, States
from pullback.dexterous.task import Wanted
from pullback.spatial import quat_exp, quat_mul

UP = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Scattered:
    """Random initial states: the hand at home, the object at rest near home, rotated about the vertical.

    spread:  of the place, either way [m]
    yaw:     of the turn, either way [rad]: π/4 is any turn of a cube, which looks the same every quarter turn. A policy
             cannot learn to jump from one face to the next, so a cube's frame is taken as the nearest of four
    """

    scene: Scene
    spread: float = 0.01
    yaw: float = 0.0

    def __call__(self, random: np.random.Generator, samples: int) -> States:
        hand, free = self.scene.hand, np.zeros((samples, 3))
        place = random.uniform(-self.spread, self.spread, (samples, 2))
        turn = quat_exp(random.uniform(-self.yaw, self.yaw, (samples, 1)) * UP)
        home, quat = self.scene.home
        at = home + np.concatenate([place, np.zeros((samples, 1))], axis=-1)
        return States(np.tile(hand.home, (samples, 1)), at, quat_mul(turn, quat), free, free)


@dataclass(frozen=True)
class Along:
    """A goal that moves the object by a given displacement, after a wait, along a smooth step.

    shift:  in the world [m]
    turn:   a rotation vector in the world [rad]
    wait:   the phase at which it sets out: until then the hand has time to come
    arrive: the phase at which it is there
    lift:   highest on the way, half a wave [m]
    own:    the turn is about axes of the object itself, as it lies at the start
    """

    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    wait: float = 0.4
    arrive: float = 0.9
    lift: float = 0.0
    own: bool = False

    def __post_init__(self):
        for name in ("shift", "turn"):
            _check_vector(getattr(self, name), f"{name} of Along")
        _check_way(self)
        check_kind(self.own, bool, "own of Along")

    def __call__(self, start: States, phase: np.ndarray) -> Wanted:
        s = _smooth((phase - self.wait) / (self.arrive - self.wait))
        at = start.at + s * np.array(self.shift) + np.sin(np.pi * s) * self.lift * UP
        turn = quat_exp(s * np.array(self.turn))
        return Wanted(at, quat_mul(start.quat, turn) if self.own else quat_mul(turn, start.quat))


@dataclass(frozen=True)
class To:
    """A goal that moves the object to a place, the same from every start, without turning it.

    at:      in the world [m]
    wait, arrive, lift:  as of Along
    """

    at: tuple[float, float, float]
    wait: float = 0.4
    arrive: float = 0.9
    lift: float = 0.0

    def __post_init__(self):
        _check_vector(self.at, "at of To")
        _check_way(self)

    def __call__(self, start: States, phase: np.ndarray) -> Wanted:
        s = _smooth((phase - self.wait) / (self.arrive - self.wait))
        at = start.at + s * (np.array(self.at) - start.at) + np.sin(np.pi * s) * self.lift * UP
        return Wanted(at, np.broadcast_to(start.quat, (*at.shape[:-1], 4)))


def _check_vector(given, name: str) -> None:
    vector = to_numbers(given, name).astype(float)
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise PullbackError(f"{name} must be three finite numbers, not {shown(given)}")


def _check_way(goal: Along | To) -> None:
    """When it sets out and arrives, and how high it goes."""
    name = type(goal).__name__
    wait, _lift = (check_number(getattr(goal, x), f"{x} of {name}", least=0.0) for x in ("wait", "lift"))
    check_number(goal.arrive, f"arrive of {name}", above=wait)


def _smooth(s: np.ndarray) -> np.ndarray:
    """From 0 to 1 without a jerk (phases, 1, 1)."""
    s = np.clip(s, 0.0, 1.0)[:, None, None]
    return s * s * (3 - 2 * s)


@dataclass(frozen=True)
class GripFrom:
    """A least normal force of every tip, in weights of the object, from a phase on, and until another."""

    phase: float
    force: float
    until: float = 2.0

    def __post_init__(self):
        for name in ("phase", "force"):
            check_number(getattr(self, name), f"{name} of GripFrom", least=0.0)
        check_number(self.until, "until of GripFrom", above=self.phase)

    def __call__(self, phase: np.ndarray) -> np.ndarray:
        return self.force * ((phase >= self.phase) & (phase < self.until))
