"""What robots that run along x have in common."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import normalize

from pullback.core.system import State
from pullback.envs.environment import Environment, EnvState
from pullback.envs.random import Random
from pullback.envs.rotations import up_and_heading


class Runner(Environment):
    """A robot that runs along x, its first coordinate. Unless it says otherwise, its base is free.

    What it sees is DiffRL's (J. Xu et al., ICLR 2022): height, orientation, velocities of the base, joints, how far its
    z points up and its x along the world's, and its last action.

    Control steps are 20 ms, of eight implicitfast steps: with four, gradients of different worlds agree less, and what
    learned from them is slower and falls.
    """

    hold, timestep = 8, 0.0025
    limit = 1000

    def observe(self, state: EnvState) -> torch.Tensor:
        q, v = state.physics[:2]
        up, heading = up_and_heading(q[:, 3:7])
        turned = normalize(q[:, 3:7], dim=1)
        joints = (q[:, 7:], 0.1 * v[:, 6:])
        return torch.cat([q[:, 2:3], turned, v[:, :6], *joints, up[:, None], heading[:, None], state.action], dim=1)

    def metrics(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        return {"speed": (after.physics.q[:, 0] - before.physics.q[:, 0]) / self.control_dt}


def scattered(
    random: Random, joints: torch.Tensor, velocities: int, *, heights: tuple[float, float], spread: float = 0.2
) -> State:
    """Starts of a robot with a free base, around an upright pose, as DiffRL has them.

    joints:   (n,) coordinates of the joints, from which they are ``spread`` at most
    heights:  of the base, from and to [m]
    """
    place = torch.cat(
        [random.uniform(2, low=-0.1, high=0.1), random.uniform(1, low=heights[0], high=heights[1])], dim=1
    )
    angles = joints + random.uniform(len(joints), low=-spread, high=spread)
    q = torch.cat([place, random.rotation(math.pi / 24), angles], dim=1)
    return State(q, random.uniform(velocities, low=-0.25, high=0.25))


def height_reward(height: torch.Tensor, low: float, *, tolerance: float, cap: float, slope: float) -> torch.Tensor:
    """DiffRL's reward for the height of a base [m] over ``low``, where an episode ends: it falls steeply below ``low +
    tolerance``, and rises with ``slope`` over the next ``cap``."""
    y = (height - low - tolerance).clamp(-1.0, cap)
    return torch.where(y < 0, -200 * y * y, slope * y)
