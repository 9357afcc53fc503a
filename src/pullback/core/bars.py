"""Cotangents as pullbacks return them, and checks of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.core.arrays import first_not_finite, square_sum, to_numpy
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.status import Status
from pullback.core.trees import is_real, leaf_names, leaves

if TYPE_CHECKING:
    from pullback.core.system import System


class Named(dict):
    """Named arrays, also reachable as attributes: ``grads.params["mass"]`` is ``grads.params.mass``."""

    def __getattr__(self, name: str):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}") from None


@dataclass(frozen=True)
class Bars:
    """Cotangents of a state, of the control of a step (or the controls of a rollout), of the parameters, and of other
    inputs."""

    state: Any
    control: Any
    params: Any = field(default_factory=Named)  # Named arrays; a dict is converted
    inputs: Any = field(default_factory=Named)  # likewise
    status: Status | None = None  # of a rollout with on_failure="mask"; cotangents of failed worlds are zero

    def __post_init__(self):
        for name in ("params", "inputs"):
            if not isinstance(getattr(self, name), Named):
                object.__setattr__(self, name, Named(getattr(self, name) or {}))

    def __repr__(self) -> str:
        arrays = dict(zip(leaf_names(self.state), leaves(self.state), strict=True)) | {"controls": self.control}
        named = {**arrays, **self.inputs, **{f"params.{name}": bar for name, bar in self.params.items()}}
        return f"Bars({', '.join(f'{name} {tuple(x.shape)}' for name, x in named.items() if x is not None)})"

    @property
    def controls(self):
        return self.control


class Jacobians(NamedTuple):
    """Jacobians of consecutive steps, of which ``first`` is the first, in the tangent space of n numbers.

    A:       (steps, worlds, n, n) by the state
    B:       (steps, worlds, n, nu) by the control
    params:  (steps, worlds, n, *shape) by each parameter that was asked for
    """

    first: int
    A: np.ndarray
    B: np.ndarray
    params: dict[str, np.ndarray]


def of_one_step(bars: Bars) -> Bars:
    """The cotangents of a single step, from those of a rollout of one step."""
    control_bar = bars.control.reshape(bars.control.shape[1:])  # Warp cannot index an array of no controls
    return Bars(bars.state, control_bar, bars.params, Named({name: x[0] for name, x in bars.inputs.items()}))


def checked_bars(system: System, bars) -> Bars:
    """The result of a System's ``pullback``; an error unless it is a Bars."""
    if not isinstance(bars, Bars):
        name = f"{type(system).__name__}.pullback"
        raise PullbackError(f"{name} must return pb.Bars(state, control, params), not {type(bars).__name__}")
    return bars


def require_param_bars(system: System, bars: Bars) -> None:
    """Raises an error unless every real parameter of a System has a cotangent."""
    for name, value in getattr(system, "params", {}).items():
        if is_real(to_numpy(value)) and bars.params.get(name) is None:
            raise PullbackError(f"{type(system).__name__}.pullback gives no cotangent of {name!r}")


def refuse_overflow(bars: Bars, dtype: str, per_world: Mapping[str, bool]) -> Bars:
    """The cotangents of a trajectory, unchanged; an error names the worlds where one is not finite.

    The motion itself was finite, or it would have been refused: gradients can grow where states do not.

    per_world:  for each parameter, whether it has a leading axis of worlds
    """
    # This runs after every pullback and seldom finds anything: one sum of all squares is a cheap first test.
    arrays = leaves(bars.state)
    if np.isfinite(square_sum([*arrays, bars.control, *bars.params.values(), *bars.inputs.values()])):
        return bars
    named: dict[str, tuple[Any, int | None]]
    named = {f"{name}_bar": (x, 0) for name, x in zip(leaf_names(bars.state), arrays, strict=True)}
    named |= {"controls_bar": (bars.control, 1), **{f"{name}_bar": (x, 1) for name, x in bars.inputs.items()}}
    named |= {f"the cotangent of {name!r}": (x, 0 if per_world[name] else None) for name, x in bars.params.items()}
    for name, (x, axis) in named.items():
        x = to_numpy(x)
        bad = first_not_finite(x) if x.dtype.kind == "f" else None  # a state may hold counters too
        if bad is not None:
            world = "" if axis is None else f" in world {bad[axis]}"
            raise GradientOverflow(
                f"gradients grew beyond the precision{world}: {name} is {x[bad]} in {dtype}, although the motion is "
                "finite. Pull back through fewer steps, or look for what makes the motion so sensitive"
                + (", or try dtype='float64'" if dtype == "float32" else ""),
                world=None if axis is None else bad[axis],
                worlds=() if axis is None else np.unique(np.argwhere(~np.isfinite(x))[:, axis]),
            )
    return bars
