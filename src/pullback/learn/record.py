"""What a policy does, as a run: to be drawn, filmed and kept like any other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.trees import stack
from pullback.envs import Environment, EnvState
from pullback.envs.registry import named
from pullback.learn.evaluation import evaluate
from pullback.learn.policy import Policy
from pullback.rollout import Run


def record(policy: Policy | Callable, env: Environment | str, *, seed: int = 10_000, steps: int | None = None) -> Run:
    """One episode of a policy, from a random start until it ends. ``pullback.view.draw_run`` draws it.

    steps:  at most so many control steps; the environment's time limit if None
    """
    env = named(env)
    seen: list[EnvState] = []
    found = evaluate(policy, env, starts=1, seed=seed, steps=steps, watch=seen.append)
    if not found.survived[0]:
        del seen[-1]  # after the end comes a new start
    env = env.in_worlds(1)
    controls = [to_numpy(env.control(before, after.action)) for before, after in pairwise(seen)]
    controls = np.stack(controls) if controls else np.zeros((0, 1, env.action_size), env.system.dtype)
    states = stack([state.physics for state in seen])
    return Run(env.system, states, controls, 1, env.system.hold_params(), env.hold)
