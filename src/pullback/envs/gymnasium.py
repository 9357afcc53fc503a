"""Environments for Gymnasium: ``gym.make("pullback/Ant-v0")`` and ``gym.make_vec("pullback/Ant-v0", num_envs=64)``.

Importing ``pullback.envs`` registers every name of ``pullback.envs.ENVS``, and Gymnasium imports it when it is part of
the name: ``gym.make("pullback.envs:pullback/Ant-v0")``. Environments of your own need no registration:
``VectorEnv(MyEnvironment(worlds=64))``.

https://gymnasium.farama.org/api/vector and https://farama.org/Vector-Autoreset-Mode
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from pullback.core.errors import PullbackError
from pullback.envs.environment import Environment
from pullback.envs.episodes import Episodes, arrays
from pullback.envs.registry import ENVS, identifier


class VectorEnv(gymnasium.vector.VectorEnv):
    """All worlds of an environment at once, as a Gymnasium vector environment.

    env:       an Environment, or a name of ``pullback.envs.ENVS`` with options of ``pullback.envs.make``
    num_envs:  worlds; as many as the environment has if None
    autoreset_mode:
        "NextStep", Gymnasium's default: the step after an episode's end starts a new one, and its reward is 0;
        "SameStep": the observation is the new episode's, and infos["final_obs"] and infos["final_info"] have the last
        of the old one, where infos["_final_obs"] is true;
        "Disabled": ``reset(options={"reset_mask": ended})`` is left to the caller
    tensors:   observations, rewards, flags and infos are torch tensors on the environment's device, and no copies: do
               not write into them. NumPy arrays, float32, if False
    max_episode_steps: in place of the environment's own limit

    infos has "reward_terms" and "metrics", by name, and "failed", each with Gymnasium's masks ("_failed"). Actions
    beyond [-1, 1] are clipped. One seed is for the random numbers of all worlds. There is no render(): the command
    ``pullback view`` draws.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        env: Environment | str,
        num_envs: int | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        tensors: bool = False,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options,
    ):
        _refuse_rendering(render_mode)
        self.episodes = Episodes(env, num_envs, limit=max_episode_steps, **options)
        self.metadata = {**self.metadata, "autoreset_mode": _mode(autoreset_mode)}
        self.num_envs, self.tensors = self.episodes.env.worlds, tensors
        self.single_observation_space, self.single_action_space = spaces(self.episodes.env)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool, device=self.episodes.env.device)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """New episodes in all worlds, or where ``options={"reset_mask": mask}`` is true: others stay as they are."""
        super().reset(seed=seed)
        where = self._reset_mask(options)
        _seed(self, seed)
        self._ended = torch.zeros_like(self._ended) if where is None else self._ended & ~where
        return self._given(self.episodes.reset(where)), {}

    def step(self, actions):
        mode, resting = self.metadata["autoreset_mode"], None
        if mode is AutoresetMode.DISABLED and self._ended.any():
            worlds = self._ended.nonzero()[:, 0].tolist()
            raise PullbackError(
                f"the episodes of worlds {worlds} have ended: reset(options={{'reset_mask': mask}}) first"
            )
        if mode is AutoresetMode.NEXT_STEP and self._ended.any():
            resting = self._ended
        outcome = self.episodes.step(actions, resting)
        seen, ended = outcome.observation, outcome.ended
        if mode is AutoresetMode.SAME_STEP and ended.any():
            infos = _masked(outcome.info, ~ended) | _masked({"final_obs": seen, "final_info": outcome.info}, ended)
            seen = self.episodes.reset(ended)
        else:
            infos = _masked(outcome.info, torch.ones_like(ended) if resting is None else ~resting)
        self._ended = torch.zeros_like(ended) if mode is AutoresetMode.SAME_STEP else ended
        infos = self._given(infos)
        if "final_obs" in infos and not self.tensors:  # by rows, as Gymnasium's wrappers expect it
            rows = np.full(self.num_envs, None, dtype=object)
            for world in np.flatnonzero(infos["_final_obs"]):
                rows[world] = infos["final_obs"][world]
            infos["final_obs"] = rows
        return *map(self._given, (seen, outcome.reward, outcome.terminated, outcome.truncated)), infos

    def _given(self, x):
        return x if self.tensors else arrays(x)

    def _reset_mask(self, options: dict[str, Any] | None) -> torch.Tensor | None:
        _check_options(options, "reset_mask")
        if not options:
            return None
        mask = torch.as_tensor(options["reset_mask"], device=self._ended.device)
        if tuple(mask.shape) != (self.num_envs,) or mask.dtype != torch.bool:
            raise PullbackError(
                f"reset_mask must be booleans of shape ({self.num_envs},), not {mask.dtype} of {tuple(mask.shape)}"
            )
        return mask


class Env(gymnasium.Env):
    """One world of an environment, as a Gymnasium environment. It ends its episodes itself, at the environment's limit.

    The arguments, and what is in info, are as for :class:`VectorEnv`, which is far faster for many worlds.
    """

    metadata: dict[str, Any] = {"render_modes": []}
    truncates = True

    def __init__(
        self,
        env: Environment | str,
        *,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options,
    ):
        _refuse_rendering(render_mode)
        self.episodes = Episodes(env, 1, limit=max_episode_steps, **options)
        self.observation_space, self.action_space = spaces(self.episodes.env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        _check_options(options)
        _seed(self, seed)
        return arrays(self.episodes.reset())[0], {}

    def step(self, action):
        action = np.asarray(action)
        if action.shape != self.action_space.shape and action.dtype.kind in "fiub":  # what is no number is named below
            name, needed = self.episodes.env.name, self.action_space.shape
            raise PullbackError(f"the action of {name!r} has shape {action.shape}, but {needed} is needed")
        outcome = self.episodes.step(action[None])
        seen, reward, terminated, truncated, info = arrays(tuple(outcome))
        return seen[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]) and self.truncates, _first(info)


class UnlimitedEnv(Env):
    """For ``gymnasium.make``, whose TimeLimit wrapper ends episodes, so that its max_episode_steps can change that.

    Only when: what an environment observes and rewards by its own limit stays (``make_vec`` changes the limit itself).
    """

    truncates = False


def spaces(env: Environment) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Of the observation and the action of one world."""
    anything = gymnasium.spaces.Box(-np.inf, np.inf, (env.observation_size,), np.float32)
    return anything, gymnasium.spaces.Box(-1.0, 1.0, (env.action_size,), np.float32)


def register() -> None:
    """All names of ``pullback.envs.ENVS``, where they are not registered yet."""
    for name, maker in ENVS.items():
        if identifier(name) not in gymnasium.registry:
            gymnasium.register(
                identifier(name),
                entry_point="pullback.envs.gymnasium:UnlimitedEnv",
                vector_entry_point="pullback.envs.gymnasium:VectorEnv",
                max_episode_steps=getattr(maker, "func", maker).limit,
                kwargs={"env": name},
            )


def _seed(env: Env | VectorEnv, seed: int | None) -> None:
    """Gymnasium's seed, also the one that it chose itself, for an environment's own random numbers."""
    if seed is not None or not env.episodes.begun:
        env.episodes.seed(env.np_random_seed % 2**63)


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        names = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise PullbackError(f"autoreset_mode must be one of {names}, not {mode!r}") from None


def _check_options(options: dict[str, Any] | None, *known: str) -> None:
    for name in options or ():
        if name not in known:
            raise PullbackError(f"reset has no option {name!r}; there is {', '.join(known) or 'none'}")


def _refuse_rendering(mode: str | None) -> None:
    if mode is not None:  # a TypeError, after which others try again without it
        raise TypeError(f"there is no render_mode {mode!r}: films are drawn by the command `pullback view`")


def _masked(info: dict, mask: torch.Tensor) -> dict:
    """With a mask beside every entry, as Gymnasium has them."""
    found = {}
    for name, x in info.items():
        found[name], found[f"_{name}"] = _masked(x, mask) if isinstance(x, dict) else x, mask
    return found


def _first(info: dict) -> dict:
    """Of the first world, as Python numbers."""
    return {name: _first(x) if isinstance(x, dict) else x[0].item() for name, x in info.items()}
