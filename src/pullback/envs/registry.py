"""Environments by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from pullback.core.checks import check_kind, unknown
from pullback.core.errors import PullbackError
from pullback.envs.ant import Ant, AntSeed
from pullback.envs.cartpole import CartPole
from pullback.envs.environment import Environment
from pullback.envs.half_cheetah import HalfCheetah
from pullback.envs.hopper import Hopper
from pullback.envs.humanoid import Humanoid
from pullback.envs.pendulum import Pendulum
from pullback.envs.quadruped import Quadruped

ENVS: dict[str, Callable[..., Environment]] = {
    **{f"pendulum-{n}": partial(Pendulum, links=n) for n in range(1, 8)},
    **{env.name: env for env in (CartPole, Hopper, HalfCheetah, Ant, AntSeed, Quadruped, Humanoid)},
}


def identifier(name: str) -> str:
    """Gymnasium's name of an environment: "pullback/HalfCheetah-v0" for "half-cheetah"."""
    return f"pullback/{''.join(word[:1].upper() + word[1:] for word in re.split('[-_]', name))}-v0"


def named(env: Environment | str) -> Environment:
    """An environment as it is given, or the one of this name; an error if it is neither."""
    env = make(env) if isinstance(env, str) else env
    check_kind(env, Environment, "env", 'pullback.envs.make("ant")')
    return env


def make(name: str, worlds: int = 1, *, dtype: str = "float32", device: str = "cpu", **options) -> Environment:
    """An environment by its name; options are those of its class."""
    check_kind(name, str, "the name of an environment", '"ant"')
    if name not in ENVS:
        raise PullbackError(unknown("environment", name, ENVS))
    return ENVS[name](worlds, dtype=dtype, device=device, **options)
