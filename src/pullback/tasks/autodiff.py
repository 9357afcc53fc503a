"""Losses written with torch or JAX, whose cotangents are autodiff's."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import is_real, is_state
from pullback.rollout import Run
from pullback.tasks.loss import Loss, Term


class AutodiffLoss(Term):
    """A loss from a function whose arguments are named as what it needs: fields of the state, and ``controls``."""

    def __init__(self, function: Callable):
        if not callable(function):
            raise PullbackError(f"{type(self).__name__} needs a function of the trajectory, not {function!r}")
        self.function = function
        functools.update_wrapper(self, function)  # as a decorator it has the function's name, by which it is pickled
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        arguments = inspect.signature(function).parameters.values()
        self.names = tuple(each.name for each in arguments if each.kind in kinds and each.default is each.empty)

    def __reduce__(self):
        owner = sys.modules.get(self.__module__)
        if getattr(owner, getattr(self, "__qualname__", ""), None) is self:
            return self.__qualname__
        return type(self), (self.function,)

    def __call__(self, run: Run) -> Loss:
        known = {**run.every_state()._asdict(), "controls": run.controls}
        unknown = [name for name in self.names if name not in known]
        if unknown or not self.names:
            raise PullbackError(
                f"the arguments of a {type(self).__name__} are named as what it needs of {', '.join(known)}, and "
                f"{unknown[0]!r} is none of them"
                if unknown
                else f"a {type(self).__name__} needs at least one argument of {', '.join(known)}"
            )
        odd = [name for name in self.names if is_state(known[name]) or not is_real(known[name])]
        if odd:
            raise PullbackError(
                f"a {type(self).__name__} is a function of arrays of real numbers, and {odd[0]} is none"
            )
        values, bars = self._differentiate({name: known[name] for name in self.names}, run.system)
        if values.shape != (run.system.worlds,):
            raise PullbackError(
                f"a {type(self).__name__} must return one number for each world, shape ({run.system.worlds},), not "
                f"shape {values.shape}: sum over all axes but worlds"
            )
        controls_bar = bars.pop("controls", None)
        return Loss(values.astype(float), {f"{name}_bar": bar for name, bar in bars.items()}, controls_bar)

    def _differentiate(self, arrays: Mapping[str, Any], system: System) -> tuple[np.ndarray, dict[str, Any]]:
        """Values (worlds,) and the cotangents of all arrays from that of the sum of the values."""
        raise NotImplementedError


class TorchLoss(AutodiffLoss):
    """A loss from a torch function of the trajectory, which autograd differentiates.

        @TorchLoss
        def loss(q, controls):
            return ((q[-1] - goal) ** 2).sum(-1) + 1e-3 * (controls**2).sum((0, 2))

    Its arguments are named as what it needs: fields of the state, tensors (steps + 1, worlds, n), and ``controls``
    (steps, worlds, nu), of the System's precision and on its device. It returns (worlds,).
    """

    def _differentiate(self, arrays, system):
        from pullback.torch.functions import differentiate  # torch is loaded by whoever uses it

        return differentiate(self.function, arrays, system)


class JaxLoss(AutodiffLoss):
    """The same from a JAX function, which ``jax.vjp`` differentiates; ``jax.jit`` it where speed matters.

    @JaxLoss
    @jax.jit
    def loss(q, controls):
        return ((q[-1] - goal) ** 2).sum(-1) + 1e-3 * (controls**2).sum((0, 2))
    """

    def _differentiate(self, arrays, system):
        from pullback.jax.functions import differentiate  # JAX is loaded by whoever uses it

        return differentiate(self.function, arrays, system)
