"""The robot inside a System that wraps one, such as a hybrid of :mod:`pullback.neural`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from pullback.core.system import System
from pullback.core.wrapper import Wrapper
from pullback.dynamics.articulated import Articulated

Algorithm = TypeVar("Algorithm", bound=Callable)
Robot = Articulated | Wrapper  # a robot, or a System around one


def has_robot(system: System) -> bool:
    """Whether a System is a robot, or wraps one."""
    while isinstance(system, Wrapper):
        system = system.system
    return isinstance(system, Articulated)


def robot_of(system: Any, params: Mapping | None = None) -> tuple[Any, Any]:
    """The innermost System of wrappers, and its part of the held parameters."""
    while isinstance(system, Wrapper):
        system, params = system.system, system.hold_params(params).parts[""]
    return system, params


def of_robots(algorithm: Algorithm) -> Algorithm:
    """Decorates an algorithm of robots, so that it also accepts a System that wraps a robot."""

    @wraps(algorithm)
    def found(system, *given, params: Mapping | None = None, **options):
        robot, held = robot_of(system, params)
        return algorithm(robot, *given, params=held, **options)

    return cast(Algorithm, found)
