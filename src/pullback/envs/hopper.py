"""The hopper."""

from __future__ import annotations

import math

import torch

from pullback.core.system import State
from pullback.envs.environment import EnvState
from pullback.envs.gymnasium_files import load_gymnasium
from pullback.envs.random import Random
from pullback.envs.runner import Runner, height_reward
from pullback.model import Model

LOW = 0.8  # height of the torso below which it has fallen [m]


class Hopper(Runner):
    """Gymnasium's hopper hops along x. Observation, reward and end are DiffRL's.

    Starts are just over the floor, with thigh and leg bent by up to 0.1 rad: straight is where their ranges end.
    """

    name = "hopper"
    about = "a robot with one leg hops along x"
    settings = {"sapo": {"reward_scale": 0.1}, "shac": {"reward_scale": 0.1}, "ppo": {"reward_scale": 0.1}}

    def model(self) -> Model:
        return load_gymnasium("hopper", integrator="implicitfast", timestep=self.timestep)

    def start(self, random: Random) -> State:
        near = self.tensor([0, 1.3, 0, -0.05, -0.05, 0]) + random.uniform(6, low=-0.05, high=0.05)
        return State(near, random.uniform(6, low=-0.05, high=0.05))

    def observe(self, state: EnvState) -> torch.Tensor:
        return torch.cat([state.physics.q[:, 1:], state.physics.v], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        q, v = after.physics[:2]
        height = height_reward(q[:, 1], LOW, tolerance=0.15, cap=0.3, slope=1.0)
        upright = 1 - (q[:, 2] / math.radians(30)) ** 2
        return {"speed": v[:, 0], "height": height, "upright": upright, "effort": -0.1 * (action * action).sum(1)}

    def terminated(self, state: EnvState) -> torch.Tensor:
        return state.physics.q[:, 1] < LOW
