"""Episodes that go on in all worlds, without gradients: what adapters to other libraries have in common."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch

from pullback.core.checks import check_whole, shown
from pullback.core.errors import PullbackError
from pullback.envs.environment import Environment, EnvState, select
from pullback.envs.random import Random
from pullback.envs.registry import make


class Outcome(NamedTuple):
    """What a step led to, before anything is reset: tensors (worlds,), and (worlds, n) for the observation.

    info:  "reward_terms" and "metrics" by name, and "failed", where the simulation could not go on
    """

    observation: torch.Tensor
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    info: dict

    @property
    def ended(self) -> torch.Tensor:
        return self.terminated | self.truncated


class Episodes:
    """The episodes that the worlds of an environment are in.

    env:     an Environment, or a name for ``pullback.envs.make`` with its options
    worlds:  how many; as many as the environment has if None, and 1 for a name
    limit:   control steps of an episode; the environment's own if None
    """

    random: Random
    state: EnvState
    totals: dict[str, torch.Tensor]  # rewards of the episodes so far, by the name of the part; "reward" is their sum

    def __init__(self, env: Environment | str, worlds: int | None = None, *, limit: int | None = None, **options):
        if not isinstance(env, Environment):
            env = make(env, 1 if worlds is None else worlds, **options)
        elif options:
            raise PullbackError(
                f"{', '.join(options)}: options are for names; give them to {type(env).__name__} itself"
            )
        elif worlds is not None:
            env = env.in_worlds(worlds)
        if limit is not None:
            env = copy.copy(env)  # what was given keeps its own
            env.limit = check_whole(limit, "max_episode_steps")
        self.env = env

    @property
    def begun(self) -> bool:
        return hasattr(self, "state")

    def seed(self, seed: int) -> None:
        """All randomness from here on."""
        self.random = self.env.random(seed)

    @torch.no_grad()
    def reset(self, where: torch.Tensor | None = None) -> torch.Tensor:
        """New episodes in all worlds, or where a mask (worlds,) is true; gives the observation."""
        fresh = self.env.reset(self.random)
        if where is None or not self.begun:
            self.state, self.totals = fresh, {}
        else:
            self.state = select(where, fresh, self.state)
            self.totals = {name: torch.where(where, 0, total) for name, total in self.totals.items()}
        return self.observe()

    @torch.no_grad()
    def observe(self) -> torch.Tensor:
        return self.env.check_observation(self.env.observe(self.state))

    @torch.no_grad()
    def step(self, action, resting: torch.Tensor | None = None) -> Outcome:
        """One control step. Actions are clipped to [-1, 1]: Gaussian policies of others go beyond.

        resting:  (worlds,) where a new episode begins instead; actions there are not looked at, and the reward is zero
        """
        if not self.begun:
            raise PullbackError("reset() must come before the first step()")
        env, state, action = self.env, self.state, self._tensor(action)
        if resting is not None:
            # These worlds are simulated like all others, from a start rather than from where an episode ended.
            state, action = select(resting, env.reset(self.random), state), torch.where(resting[:, None], 0, action)
        bad = ~torch.isfinite(action).all(dim=1)
        if bad.any():
            raise PullbackError(f"the action of world {int(bad.nonzero()[0])} of {env.name!r} is not finite")
        action = action.clamp(-1, 1)
        after = env.step(state, action, self.random)
        env.check_reward(after)
        terms = {name: torch.where(after.failed, 0, term) for name, term in after.terms.items()}
        metrics = env.check_metrics(env.metrics(state, action, after.state))
        info = {"reward_terms": terms, "metrics": metrics, "failed": after.failed}
        reward, terminated, truncated = after.reward, after.terminated, after.truncated
        self.state = after.state
        if resting is not None:
            self.state = select(resting, state, after.state)
            reward, terminated, truncated = torch.where(resting, 0, reward), terminated & ~resting, truncated & ~resting
        for name, x in {**terms, "reward": reward}.items():
            total = self.totals.get(name, 0) + x
            self.totals[name] = total if resting is None else torch.where(resting, 0, total)
        return Outcome(self.observe(), reward, terminated, truncated, info)

    def _tensor(self, action) -> torch.Tensor:
        env = self.env
        try:
            tensor = torch.as_tensor(action, dtype=env.dtype, device=env.device)
        except (TypeError, ValueError, RuntimeError):
            raise PullbackError(f"actions must be an array of numbers, not {shown(action)}") from None
        if tuple(tensor.shape) != (env.worlds, env.action_size):
            raise PullbackError(
                f"actions of {env.name!r} have shape {tuple(tensor.shape)}, but (worlds={env.worlds}, "
                f"actions={env.action_size}) is needed"
            )
        return tensor


def arrays(x):
    """Tensors as NumPy arrays that share nothing with them; float32, whatever the simulation's precision."""
    if isinstance(x, dict):
        return {name: arrays(y) for name, y in x.items()}
    if isinstance(x, tuple):
        return tuple(map(arrays, x))
    return np.array((x.float() if x.is_floating_point() else x).numpy(force=True))
