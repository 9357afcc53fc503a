"""Environments: a System plus start, observation, reward and termination, for gradients and for Gymnasium.

import pullback.envs as envs

env = envs.make("ant", worlds=128)
random = env.random(seed=0)
state = env.reset(random)
after = env.step(state, action, random)     # after.reward has gradients by the action and the state
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('pullback.envs needs PyTorch: pip install "pullback[learn]"') from error

from pullback.envs.environment import Environment, EnvState, Transition, detached, select
from pullback.envs.random import Random
from pullback.envs.registry import ENVS, make

try:
    from pullback.envs.gymnasium import register as _register
except ImportError:  # no Gymnasium, or one before 1.1
    pass
else:
    _register()  # gymnasium.make("pullback/Ant-v0")

__all__ = ["ENVS", "EnvState", "Environment", "Random", "Transition", "detached", "make", "select"]
