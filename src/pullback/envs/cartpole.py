"""A pole on a cart that swings up."""

from __future__ import annotations

import math

import torch

from pullback.core.system import State
from pullback.envs.environment import Environment, EnvState
from pullback.envs.random import Random
from pullback.model import Model, load, robots

UPRIGHT = 0.2  # the pole is upright if its angle is less than this [rad]


class CartPole(Environment):
    """A force of ±10 N on the cart swings the pole up and holds it there, in 4.8 s.

    Observation, reward and starts (±π/2 m and rad around the middle of the rail and the hanging pole) are DiffRL's (J.
    Xu et al., ICLR 2022), for the cart and the pole of ``robots.cartpole()``. There is no contact.
    """

    name = "cartpole"
    about = "a cart swings its pole up and keeps it there"
    hold = 4  # of 5 ms
    limit = 240
    contact = None
    settings = {
        "sapo": {"reward_scale": 0.1, "window": 32, "worlds": 64, "rate": 5e-3, "critic_rate": 2e-3,
                 "critic_passes": 4},
        "shac": {"reward_scale": 0.1, "window": 32, "worlds": 64, "rate": 5e-3, "critic_rate": 2e-3},
        "ppo": {"reward_scale": 0.1},
    }  # fmt: skip

    def model(self) -> Model:
        return load(robots.cartpole())

    def start(self, random: Random) -> State:
        near = random.uniform(2, low=-math.pi / 2, high=math.pi / 2)
        return State(near, random.uniform(2, low=-0.25, high=0.25))

    def angle(self, state: EnvState) -> torch.Tensor:
        """Of the pole from upright, between -π and π, (worlds,) [rad]."""
        hanging = state.physics.q[:, 1]
        return torch.atan2(-hanging.sin(), -hanging.cos())

    def observe(self, state: EnvState) -> torch.Tensor:
        q, v = state.physics[:2]
        return torch.stack([q[:, 0], v[:, 0], -q[:, 1].sin(), -q[:, 1].cos(), v[:, 1]], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        (x, _), (speed, turning) = after.physics.q.unbind(1), after.physics.v.unbind(1)
        angle = -(self.angle(after) ** 2)
        return {"angle": angle, "turning": -0.1 * turning**2, "place": -0.05 * x**2, "speed": -0.1 * speed**2}

    def metrics(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        """upright: the mean over an episode is the share of its last second in which the pole was upright."""
        last = round(1 / self.control_dt)
        share = (self.angle(after).abs() < UPRIGHT) & (after.age > self.limit - last)
        return {"upright": share.to(self.dtype) * self.limit / last}
