"""A trajectory of the whole robot along a plan: to be viewed, or followed by a controller."""

from __future__ import annotations

import numpy as np

from pullback.model.tangent import difference, integrate
from pullback.reach.humanoid import Check, Humanoid
from pullback.reach.walking import SE2, Plan, on_floor
from pullback.reach.whole_body import find_postures

ROWS = 8  # from one moment of a plan to the next
LIFT = 0.06  # of a foot that steps, half-way [m]


def plan_trajectory(robot: Humanoid, plan: Plan, check: Check, *, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, nq) along a plan, and where the hand is meant to be (n, 3) [m], NaN where it touches nothing.

    Between two moments the foot that steps is lifted and put down, and the other stays where it is, by inverse
    kinematics of every row. A hand that touches at both moments moves straight from one to the other.
    """
    share = np.arange(rows) / rows
    moments = len(plan.left)
    first = np.repeat(np.arange(moments - 1), rows)
    share = np.tile(share, moments - 1)[:, None]
    first, share = np.append(first, moments - 2), np.append(share, [[1.0]], axis=0)  # and the last moment itself
    targets = {}
    for site, feet in zip(robot.feet, (plan.left, plan.right), strict=True):
        step = SE2.difference(feet[first], feet[first + 1])
        poses = on_floor(SE2.integrate(feet[first], share * step))
        poses[:, 2] = LIFT * np.sin(np.pi * share[:, 0]) * np.any(np.abs(step) > 1e-9, axis=1)
        targets[site] = poses
    hand = (1 - share) * plan.hand[first] + share * plan.hand[first + 1]
    if np.isfinite(hand).any():
        targets[robot.hands[0 if plan.hand_side == "left" else 1]] = hand
    q = check.postures.q
    between = integrate(robot.model, q[first], share * difference(robot.model, q[first], q[first + 1]))
    return find_postures(robot.model, targets, usual=between, starts=1).q, hand
