"""The contract: everything that steps, and steps back."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import FEWER, first_not_finite, require_memory, square_sum, to_numpy
from pullback.core.errors import GradientOverflow, PullbackError, SimulationError


class Named(dict):
    """Named arrays, also reachable as attributes: ``grads.params["mass"]`` is ``grads.params.mass``."""

    def __getattr__(self, name: str):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}") from None


@dataclass(frozen=True)
class Bars:
    """Cotangents: of a state, of the control of a step (or the controls of a rollout), and of the parameters."""

    state: Any
    control: Any
    params: Named

    @property
    def controls(self):
        return self.control


class Jacobians(NamedTuple):
    """Of the steps from ``first`` on, in the tangent space of n numbers.

    A:       (steps, worlds, n, n) by the state
    B:       (steps, worlds, n, nu) by the control
    params:  (steps, worlds, n, *shape) by each parameter that was asked for
    """

    first: int
    A: np.ndarray
    B: np.ndarray
    params: dict[str, np.ndarray]


def refuse_overflow(bars: Bars, dtype: str) -> Bars:
    """Cotangents of a trajectory as they are, or an error that names the world in which one is not finite.

    The motion was finite, or it would have been refused: gradients can grow where states do not.
    """
    # One sum of all squares, since this is looked at after every pullback, and seldom has anything to say.
    if np.isfinite(sum(square_sum(x) for x in (*bars.state, bars.control, *bars.params.values()))):
        return bars
    named = {f"{name}_bar": (x, 0) for name, x in zip(bars.state._fields, bars.state, strict=True)}
    named["controls_bar"] = (bars.control, 1)
    named |= {f"the cotangent of {name!r}": (x, None) for name, x in bars.params.items()}
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
            )
    return bars


class State(NamedTuple):
    """Where an articulated System is: coordinates (worlds, nq) and velocities (worlds, nv)."""

    q: Any
    v: Any


class System(ABC):
    """Anything with ``step`` and ``pullback``.

    A state is a NamedTuple of arrays with the leading axis ``worlds``; a control has shape (worlds, nu). Rollout,
    checkpoints, bindings and optimisation are written against this class and know no physics. A System that can do
    many steps at once overrides ``steps`` and ``backward``; the ones here call ``step`` and ``pullback`` in a loop.

    States move in a tangent space of n numbers. Here it is all numbers of the state in a row; a System whose
    coordinates are not free to move, such as quaternions, overrides ``difference`` and what follows it.
    """

    worlds: int
    nu: int
    dtype: str
    device: str
    state_type: type = State
    # Whether ``jacobians`` gives those by parameters too, at a cost that least squares can pay. A state of thousands of
    # numbers has Jacobians that nobody wants: there, residuals are differentiated by moving a few variables.
    has_jacobians = False

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """How many numbers each field of a state has, in one world: the bindings ask. Here those of a State."""
        return self.nq, self.nv

    @abstractmethod
    def step(self, state, control, params: Mapping | None = None):
        """The state one timestep on. ``params`` replaces some of the System's own parameters."""

    @abstractmethod
    def pullback(self, state, control, next_bar, params: Mapping | None = None) -> Bars:
        """Cotangents of state, control and parameters from that of the next state."""

    def default_controls(self, steps: int) -> np.ndarray:
        """Controls (steps, worlds, nu) of a motion that nobody controls."""
        size = steps * self.worlds * self.nu * np.dtype(self.dtype).itemsize
        require_memory(size, "cpu", f"a motion of {steps} steps", FEWER)
        return np.zeros((steps, self.worlds, self.nu), dtype=self.dtype)

    def hold_params(self, given: Mapping | None = None):
        """The parameters as they are now, with those given in place of some, to be passed as ``params`` later."""
        return {**getattr(self, "params", {}), **(given or {})}

    def steps(self, state, controls, *, keep_every: int = 1, params: Mapping | None = None):
        """Every keep_every-th state and the last, stacked along a new first axis, from ``state`` on."""
        rows = [state]
        for t, control in enumerate(controls):
            try:
                state = self.step(state, control, params)
            except SimulationError as error:  # of one step
                error.step, error.states = t, type(state)(*(np.stack(field) for field in zip(*rows, strict=True)))
                raise
            if (t + 1) % keep_every == 0 or t + 1 == len(controls):
                rows.append(state)
        return type(state)(*(np.stack(field) for field in zip(*rows, strict=True)))

    def backward(self, controls, final, final_bar, *, params: Mapping | None = None, wants_params: bool = True):
        """A Backward that starts at the cotangent ``final_bar`` of the state ``final``."""
        return SteppedBackward(self, controls, final_bar, params, wants_params)

    def in_worlds(self, worlds: int) -> System:
        """The same System in another number of worlds. This one is right where ``step`` takes what it is given."""
        other = copy.copy(self)
        other.worlds = worlds
        return other

    # --- the tangent space -------------------------------------------------------------------------

    def difference(self, start, end) -> np.ndarray:
        """The tangent (..., n) at ``start`` that leads to ``end``. States may have any leading axes."""
        return _in_a_row(end) - _in_a_row(start)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        """How a difference (..., n) moves with a tangent at its end: (..., n, n)."""
        return np.broadcast_to(np.eye(apart.shape[-1]), (*apart.shape, apart.shape[-1]))

    def state_bar(self, state, tangent_bar: np.ndarray):
        """Cotangents of the numbers of a state, in the form of a state, from that of its tangent (..., n)."""
        parts, at = [], 0
        for field in state:
            size = np.shape(field)[-1]
            parts.append(tangent_bar[..., at : at + size])
            at += size
        return type(state)(*parts)

    def linearize(self, state, control, params: Mapping | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of a step: A (worlds, n, n) and B (worlds, n, nu), by one pullback a row, each in its own world."""
        rows = sum(np.shape(field)[-1] for field in state)
        wide = self.in_worlds(rows * self.worlds)
        states = type(state)(*(np.repeat(to_numpy(field), rows, axis=0) for field in state))
        picks = np.tile(np.eye(rows, dtype=self.dtype), (self.worlds, 1))
        controls = np.repeat(to_numpy(control), rows, axis=0)
        bars = wide.pullback(states, controls, self.state_bar(states, picks), params)
        A = _in_a_row(bars.state).reshape(self.worlds, rows, rows)
        return A, to_numpy(bars.control).reshape(self.worlds, rows, self.nu)

    def jacobians(
        self, states, controls, params: Mapping | None = None, names: tuple[str, ...] = ()
    ) -> Iterator[Jacobians]:
        """The same of every step along a trajectory, and by the parameters named, some steps at a time.

        states: of all steps and one more, as ``steps`` gives them; controls: (steps, worlds, nu).
        """
        if names:
            raise PullbackError(
                f"{type(self).__name__} has no Jacobians by parameters: it needs ``jacobians`` of its own"
            )
        for t, control in enumerate(controls):
            A, B = self.linearize(type(states)(*(field[t] for field in states)), control, params)
            yield Jacobians(t, A[None], B[None], {})


def _in_a_row(state) -> np.ndarray:
    """The numbers of a state (..., n)."""
    return np.concatenate([to_numpy(field) for field in state], axis=-1)


class SteppedBackward:
    """Pulls back through a trajectory piece by piece, last piece first, by calling ``pullback`` at every step."""

    def __init__(self, system: System, controls, final_bar, params, wants_params: bool):
        self.system, self.controls, self.given = system, controls, params
        self.wants_params = wants_params
        self.carry = final_bar
        self.controls_bar = np.zeros_like(controls)
        self.params_bar: dict[str, np.ndarray] = {}

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """From step ``end`` back to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The state at ``end`` is the last of them; its own cotangent is already carried, and states_bar may end before.
        """
        for t in reversed(range(first, end)):
            state = type(states)(*(field[t - first] for field in states))
            bars = self.system.pullback(state, self.controls[t], self.carry, self.given)
            self.carry = bars.state
            self.controls_bar[t] = bars.control
            for name, bar in bars.params.items() if self.wants_params else ():
                self.params_bar[name] = self.params_bar[name] + bar if name in self.params_bar else bar
            if states_bar is not None:
                self.carry = type(states)(*(c + b[t - first] for c, b in zip(self.carry, states_bar, strict=True)))

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        return refuse_overflow(Bars(self.carry, self.controls_bar, Named(self.params_bar)), str(self.system.dtype))
