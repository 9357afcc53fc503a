"""The half-cheetah."""

from __future__ import annotations

import torch

from pullback.core.system import State
from pullback.envs.environment import EnvState
from pullback.envs.random import Random
from pullback.envs.runner import Runner
from pullback.model import Model, load, robots


class HalfCheetah(Runner):
    """Gymnasium's half-cheetah runs along x. Observation, reward and starts are DiffRL's; episodes never end early."""

    name = "half-cheetah"
    about = "a two-legged cheetah runs along x as fast as it can"
    settings = {"sapo": {"reward_scale": 0.1}, "shac": {"reward_scale": 0.1}, "ppo": {"reward_scale": 0.1}}

    def model(self) -> Model:
        # Ours in any case: Gymnasium's file, which moves alike, makes MuJoCo warn of an attribute it will give up.
        return load(robots.half_cheetah(), integrator="implicitfast", timestep=self.timestep)

    def start(self, random: Random) -> State:
        near = self.tensor([0, 0.1, *(0,) * 7]) + random.uniform(9, low=-0.1, high=0.1)  # over the floor
        return State(near, random.uniform(9, low=-0.25, high=0.25))

    def observe(self, state: EnvState) -> torch.Tensor:
        return torch.cat([state.physics.q[:, 1:], state.physics.v], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        return {"speed": after.physics.v[:, 0], "effort": -0.1 * (action * action).sum(1)}
