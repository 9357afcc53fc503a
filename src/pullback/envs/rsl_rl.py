"""Environments for rsl_rl: ``OnPolicyRunner(VecEnv("ant", 4096, device="cuda"), config)``.

https://github.com/leggedrobotics/rsl_rl
"""

from __future__ import annotations

import torch
from rsl_rl import env as base
from tensordict import TensorDict

from pullback.envs.environment import Environment
from pullback.envs.episodes import Episodes


class VecEnv(base.VecEnv):
    """All worlds of an environment at once. A world whose episode has ended is in its next one when step returns.

    env:       an Environment, or a name of ``pullback.envs.ENVS`` with options of ``pullback.envs.make``
    num_envs:  worlds; as many as the environment has if None
    seed:      of all randomness
    max_episode_length: in place of the environment's own limit

    Observations are the group "policy": ``"obs_groups": {"actor": ["policy"], "critic": ["policy"]}``. Actions beyond
    [-1, 1] are clipped. extras["log"] has the means of the environment's metrics; and, of episodes that ended at this
    step, the mean of each part of the return, and the shares that the time limit or a failed simulation ended.
    """

    def __init__(
        self,
        env: Environment | str,
        num_envs: int | None = None,
        *,
        seed: int = 0,
        max_episode_length: int | None = None,
        **options,
    ):
        self.episodes = Episodes(env, num_envs, limit=max_episode_length, **options)
        env = self.episodes.env
        self.num_envs, self.num_actions, self.max_episode_length = env.worlds, env.action_size, env.limit
        self.device, self.step_dt = env.device, env.control_dt
        self.cfg = {"environment": env.name, "seed": seed, **options}
        self.episodes.seed(seed)
        self.episodes.reset()

    @property
    def unwrapped(self) -> VecEnv:
        return self

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Control steps since the episodes began; the runner sets it to spread their ends."""
        return self.episodes.state.age

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self.episodes.state = self.episodes.state._replace(age=lengths.to(self.episodes.state.age))

    def get_observations(self) -> TensorDict:
        return self._group(self.episodes.observe())

    def reset(self) -> tuple[TensorDict, dict]:
        return self._group(self.episodes.reset()), {}

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        outcome = self.episodes.step(actions)
        seen, ended = outcome.observation, outcome.ended
        log = {f"Metrics/{name}": x.mean() for name, x in outcome.info["metrics"].items()}
        if ended.any():
            parts = {name: total[ended].mean() for name, total in self.episodes.totals.items() if name != "reward"}
            log |= {f"Episode_Reward/{name}": x for name, x in parts.items()}
            ends = {"time_out": outcome.truncated, "failed": outcome.info["failed"]}
            log |= {f"Episode_Termination/{name}": x[ended].float().mean() for name, x in ends.items()}
            seen = self.episodes.reset(ended)
        return self._group(seen), outcome.reward, ended.long(), {"time_outs": outcome.truncated, "log": log}

    def _group(self, seen: torch.Tensor) -> TensorDict:
        return TensorDict({"policy": seen}, batch_size=[self.num_envs], device=self.device)
