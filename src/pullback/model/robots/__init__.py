"""Sample robots, modelled from published dimensions with primitive shapes only.

Each function returns an MJCF document as a string, ready for :func:`pullback.load`; :func:`chain` returns a
``mujoco.MjSpec`` instead, since XML cannot nest that deep. Every model is in SI units, z up, x forward; it has a light,
a checkered floor and a fixed camera "side", and its motors take torques or forces directly (gear 1), so a control is in
N·m, or in N for the cart.

``pendulum``, ``cartpole``, ``acrobot`` and ``chain`` have no contacts, joint limits or friction. ``arm``, ``quadruped``
and ``humanoid`` have joint limits, touch the floor (but not themselves) and start from a keyframe "home".

Hands have position servos, so that their controls are joint positions, and need an object to hold: ``gripper`` (two
fingers), ``three_finger`` and ``hand`` (five) on an arm, and ``fingertips`` without one.

``ant``, ``hopper`` and ``half_cheetah`` move as Gymnasium's do, so their controls are in ±1, as there.
"""

from __future__ import annotations

from collections.abc import Callable

from .arms import arm
from .hands import fingertips, gripper, hand, three_finger
from .humanoids import humanoid
from .planar import acrobot, cartpole, chain, pendulum
from .quadrupeds import quadruped
from .runners import ant, half_cheetah, hopper

ROBOTS: dict[str, Callable[[], str]] = {
    "pendulum": pendulum,
    "cartpole": cartpole,
    "acrobot": acrobot,
    "arm": arm,
    "quadruped": quadruped,
    "humanoid": humanoid,
    "ant": ant,
    "hopper": hopper,
    "half_cheetah": half_cheetah,
}
HANDS: dict[str, Callable[[], str]] = {
    "fingertips": fingertips,
    "gripper": gripper,
    "three_finger": three_finger,
    "hand": hand,
}
SAMPLES = ROBOTS | HANDS  # all that commands know by name

__all__ = [
    "HANDS",
    "ROBOTS",
    "SAMPLES",
    "acrobot",
    "ant",
    "arm",
    "cartpole",
    "chain",
    "fingertips",
    "gripper",
    "half_cheetah",
    "hand",
    "hopper",
    "humanoid",
    "pendulum",
    "quadruped",
    "three_finger",
]
