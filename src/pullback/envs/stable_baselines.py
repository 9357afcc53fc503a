"""Environments for stable-baselines3: ``PPO("MlpPolicy", VecEnv("ant", 64)).learn(1_000_000)``.

https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html
"""

from __future__ import annotations

import time

import numpy as np
from stable_baselines3.common import vec_env
from stable_baselines3.common.monitor import Monitor

from pullback.core.errors import PullbackError
from pullback.envs.environment import Environment
from pullback.envs.episodes import Episodes, arrays
from pullback.envs.gymnasium import spaces


class VecEnv(vec_env.VecEnv):
    """All worlds of an environment at once. A world whose episode has ended is in its next one when step returns.

    env:       an Environment, or a name of ``pullback.envs.ENVS`` with options of ``pullback.envs.make``
    num_envs:  worlds; as many as the environment has if None
    max_episode_steps: in place of the environment's own limit

    infos[i]["TimeLimit.truncated"] says whether the time limit alone ended the episode. At its end, there are also
    infos[i]["terminal_observation"], infos[i]["reward_terms"], the parts of its return by name, and, as from a Monitor,
    infos[i]["episode"]: the return "r", the length "l", and the time "t" since this was made [s].
    """

    def __init__(
        self, env: Environment | str, num_envs: int | None = None, *, max_episode_steps: int | None = None, **options
    ):
        self.episodes = Episodes(env, num_envs, limit=max_episode_steps, **options)
        self._made = time.time()
        super().__init__(self.episodes.env.worlds, *spaces(self.episodes.env))

    def reset(self) -> np.ndarray:
        seed = self._seeds[0]
        if seed is not None or not self.episodes.begun:
            self.episodes.seed(self.seed()[0] if seed is None else seed)
        self._reset_seeds()
        return arrays(self.episodes.reset())

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self):
        outcome = self.episodes.step(self._actions)
        seen, reward, ended, truncated = arrays((outcome.observation, outcome.reward, outcome.ended, outcome.truncated))
        infos = [{"TimeLimit.truncated": flag} for flag in truncated.tolist()]
        if ended.any():
            totals, lengths = arrays((self.episodes.totals, self.episodes.state.age))
            elapsed = round(time.time() - self._made, 6)
            for world in np.flatnonzero(ended):
                parts = {name: float(total[world]) for name, total in totals.items()}
                infos[world] |= {
                    "terminal_observation": seen[world],
                    "episode": {"r": parts.pop("reward"), "l": int(lengths[world]), "t": elapsed},
                    "reward_terms": parts,
                }
            seen = arrays(self.episodes.reset(outcome.ended))
        return seen, reward, ended, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices=None) -> list:
        value = None if attr_name == "render_mode" else getattr(self.episodes.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value, indices=None) -> None:
        if indices is not None:
            raise PullbackError(f"{attr_name} is the same in all worlds: set it without indices")
        setattr(self.episodes.env, attr_name, value)

    def env_method(self, method_name: str, *method_args, indices=None, **method_kwargs) -> list:
        """A method of the Environment, which is for all worlds: called once, and its result given for each."""
        result = getattr(self.episodes.env, method_name)(*method_args, **method_kwargs)
        return [result for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        """As if by a Monitor, since infos have what it would put there."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]
