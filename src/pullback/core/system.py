"""The contract of a System: a forward step, and its pullback."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from pullback.core.arrays import (
    FEWER,
    PRECISIONS,
    checked,
    require_memory,
    to_numbers,
    to_numpy,
)
from pullback.core.bars import Bars, Jacobians, Named, checked_bars, refuse_overflow, require_param_bars
from pullback.core.checks import unknown
from pullback.core.errors import PullbackError, SimulationError, UnknownName
from pullback.core.params import FieldValues, NamedParams, frozen
from pullback.core.status import Status
from pullback.core.trees import (
    check_like,
    checked_state,
    first_bad_leaf,
    from_numbers,
    is_real,
    is_state,
    leaves,
    numbers,
    row,
    stack,
    tree_map,
    where,
    world_mask,
)

# At most this many pullbacks run side by side for Jacobians, because each has cotangents of all parameters. [worlds]
WIDEST = 4096


def check_inputs(system: System, inputs: Mapping | None, steps: int) -> dict | None:
    """The inputs besides the control, checked: each is (steps, worlds, ...) in the shape that the System declares."""
    if inputs is None:
        return None
    if not isinstance(inputs, Mapping):
        raise PullbackError(f"inputs must map names to arrays, not {type(inputs).__name__}")
    found = {}
    for name, x in inputs.items():
        shape = (steps, system.worlds, *input_shape(system, name))
        axes = ("step", "worlds", *(f"axis {i}" for i in range(2, len(shape))))
        if isinstance(x, wp.array) and not x.device.is_cpu:
            if x.shape != shape or x.dtype is not PRECISIONS[system.dtype] or str(x.device) != system.device:
                raise PullbackError(
                    f"input {name!r} is {x.dtype.__name__} of shape {x.shape} on {x.device}, but {system.dtype} of "
                    f"shape {shape} on {system.device} is needed"
                )
            found[name] = x
        else:
            found[name] = checked(x, shape, system.dtype, f"input {name!r}", axes)
    return found


def input_shape(system: System, name: str) -> tuple[int, ...]:
    """The shape of an input besides the control, in one world."""
    if name not in system.inputs:
        known = f"use {', '.join(system.inputs)}" if system.inputs else f"{type(system).__name__} has none"
        raise UnknownName(f"there is no input {name!r}: {known}")
    return system.inputs[name]


class State(NamedTuple):
    """The state of a robot: coordinates (worlds, nq) and velocities (worlds, nv)."""

    q: Any
    v: Any


class ActivatedState(NamedTuple):
    """The state of a robot whose actuators have activations (worlds, na), which come after q and v."""

    q: Any
    v: Any
    act: Any


RobotState = State | ActivatedState


class System(ABC):
    """Anything with ``step`` and ``pullback``.

    A state is a NamedTuple of arrays (worlds, ...) of any rank, or of such NamedTuples; a control has shape (worlds,
    nu). Rollouts, checkpoints, bindings and optimisation are written against this class and do not depend on the
    physics. A System that can take many steps at once overrides ``steps`` and ``backward``; the ones here call ``step``
    and ``pullback`` in a loop, and check their inputs and outputs.

    Parameters, if there are any, are in ``params``: arrays by name, in a dict or a
    :class:`~pullback.core.params.NamedParams`.

    States move in a tangent space of n numbers. By default it consists of all real numbers of the state; a System with
    constrained coordinates, such as quaternions, overrides ``difference`` and the methods below it.

    A System that can be visualised has a method ``drawing(run, *, ghost=None, bars=None)``. It returns a
    :class:`pullback.view.Drawing` of the states of a run, which ``pullback.view`` and the commands show. ``ghost`` is
    a target to compare with, and ``bars`` are cotangents of a loss by field of the state, for a System that draws them.
    """

    worlds: int
    nu: int
    dtype: str
    device: str
    params: Any  # arrays by name; may be left out
    state_type: type = State
    # Whether ``jacobians`` gives Jacobians by parameters too, at a cost that least squares can afford. For a state of
    # thousands of numbers it cannot: there, residuals are differentiated by finite differences in a few variables.
    has_jacobians = False
    drawing: Any = None
    # What may act on the System besides the control: names and shapes in one world. Rollouts take them as ``inputs``.
    inputs: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    # Describes, for people, the surrogate gradient that the pullback adds to the exact derivative of the step; None if
    # the pullback is exact.
    surrogate: Any = None

    def exact(self) -> System:
        """The same System without its ``surrogate``."""
        return self

    @abstractmethod
    def step(self, state, control, params: Mapping | None = None):
        """The state after one timestep. ``params`` replaces some of the System's own parameters.

        A System that has ``inputs`` takes them by keyword: a mapping of names to arrays (worlds, ...), some or all.
        """

    @abstractmethod
    def pullback(self, state, control, next_bar, params: Mapping | None = None) -> Bars:
        """Cotangents of the state, control, parameters and given ``inputs``, from the cotangent of the next state."""

    def pullback_between(
        self,
        state,
        control,
        after,
        next_bar,
        params: Mapping | None = None,
        *,
        inputs: Mapping | None = None,
        wants_params: bool = True,
    ) -> Bars:
        """``pullback`` of a step whose end state ``after`` is known, which saves some Systems a forward step."""
        return self.pullback(state, control, next_bar, params, **({"inputs": inputs} if inputs else {}))

    def default_controls(self, steps: int) -> np.ndarray:
        """Default controls (steps, worlds, nu): zeros, unless the System overrides this."""
        size = steps * self.worlds * self.nu * np.dtype(self.dtype).itemsize
        require_memory(size, "cpu", f"a motion of {steps} steps", FEWER)
        return np.zeros((steps, self.worlds, self.nu), dtype=self.dtype)

    def hold_params(self, given: Mapping | None = None):
        """A copy of the current parameters, in which ``given`` replaces some. Pass it as ``params`` later.

        It is a copy so that a backward pass uses the values of its forward pass, even if the arrays change in between.
        """
        own = getattr(self, "params", {})
        held = {name: frozen(np.array(to_numpy(value))) for name, value in own.items()}
        for name, value in (given or {}).items():
            held[name] = own.check(name, value) if isinstance(own, NamedParams) else self._checked_param(name, value)
        return held

    def _checked_param(self, name: str, value) -> np.ndarray:
        own = getattr(self, "params", {})
        if name not in own:
            none = f"there is no parameter {name!r}: {type(self).__name__} has none"
            raise UnknownName(unknown("parameter", name, own) if own else none)
        shape, given = np.shape(own[name]), np.shape(to_numbers(value, f"parameter {name!r}"))
        if given not in (shape, (self.worlds, *shape)):
            per_world = f" or {(self.worlds, *shape)}"
            raise PullbackError(f"parameter {name!r} has shape {given}, but {shape}{per_world} is needed")
        axes = (*(["worlds"] if given != shape else []), *(f"axis {i}" for i in range(len(shape))))
        return frozen(checked(value, given, self.dtype, f"parameter {name!r}", axes).copy())

    def steps(
        self,
        state,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ):
        """The states of a trajectory from ``state`` on: every keep_every-th and the last, along a new first axis.

        controls: (n, worlds, nu), each held for ``hold`` steps: n · hold steps in total
        inputs:   by name, (n, worlds, ...), held likewise
        status:   filled in by this call. A world fails if its state is not finite, or if ``step`` raises a
                  PullbackError that names it; it then keeps its last state. Without a status, a failure is an error
        """
        state = checked_state(state, self.worlds, self.dtype)
        controls = self._checked_controls(controls)
        count, kept = hold * len(controls), [state]
        failed: dict[int, tuple[int, str]] = {}  # by world: the step that failed, and the reason
        held: dict[int, Any] = {}  # by the number of failed worlds: the parameters of the steps that follow
        for t in range(count):
            try:
                given = controls[t // hold], params, _inputs_at(inputs, t // hold)
                after = (
                    self._checked_step(state, *given)
                    if status is None
                    else self._masked_step(state, *given, t, failed, held)
                )
                if status is None:
                    _refuse_blow_up(after, t)
            except SimulationError as error:
                error.step, error.states = t, stack(kept)
                raise
            if t == 0:  # a real field may have been given as whole numbers
                kept[0] = tree_map(lambda x, y: x if is_real(x) or not is_real(y) else x.astype(y.dtype), state, after)
            state = after
            if (t + 1) % keep_every == 0 or t + 1 == count:
                kept.append(state)
        if status is not None:
            steps = [failed[world][0] if world in failed else -1 for world in range(self.worlds)]
            status.set(np.stack([steps, steps], axis=1), lambda world, code, step: failed[world][1])
        return stack(kept)

    def _checked_step(self, state, control, params, inputs: Mapping):
        after = self.step(state, control, params, **inputs)
        check_like(after, state, f"the state that {type(self).__name__}.step returns")
        return after

    def _masked_step(self, state, control, params, inputs: Mapping, t: int, failed: dict, held: dict):
        """The state after step t. Worlds that failed, in this step or earlier, keep their state."""
        while len(failed) < self.worlds:
            gone = np.isin(np.arange(self.worlds), list(failed))
            before, during = (_stand_in(x, gone) for x in (state, control))
            others = {name: {n: _stand_in(x, gone) for n, x in each.items()} for name, each in inputs.items()}
            if len(failed) not in held:
                held[len(failed)] = _healthy_params(self, params, gone)
            try:
                after = tree_map(to_numpy, self._checked_step(before, during, held[len(failed)], others))
            except PullbackError as error:
                named = error.worlds or range(self.worlds == 1)  # with a single world, an error is about that world
                if not set(named) - set(failed):
                    raise
                failed.update({world: (t, str(error)) for world in named if world not in failed})
                continue
            finite = [np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in leaves(after) if is_real(x)]
            for world in map(int, np.flatnonzero(~np.all(finite, axis=0) & ~gone)):
                failed[world] = t, f"the state of world {world} was not finite after step {t}"
            gone = np.isin(np.arange(self.worlds), list(failed))
            stay = lambda new, old: np.where(gone.reshape(-1, *(1,) * (new.ndim - 1)), old, new)  # noqa: B023, E731
            return tree_map(stay, after, state)
        return state

    def _checked_controls(self, controls) -> np.ndarray:
        shape = (len(controls), self.worlds, self.nu)
        return checked(controls, shape, self.dtype, "controls", ("step", "worlds", "nu"))

    def backward(
        self,
        controls,
        final,
        final_bar,
        *,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
        wants_params: bool = True,
    ):
        """The backward pass of a trajectory that ended in the state ``final``, whose cotangent is ``final_bar``.

        controls, hold, params, inputs: those given to ``steps``
        status: that of ``steps``; cotangents of worlds that failed are zero
        """
        controls = self._checked_controls(controls)
        return SteppedBackward(self, controls, final, final_bar, hold, params, inputs, status, wants_params)

    def step_pullback(
        self,
        start,
        controls,
        final,
        final_bar,
        *,
        hold: int = 1,
        params: Mapping | None = None,
        wants_params: bool = True,
        **given,
    ) -> Bars:
        """Cotangents through one control step whose end state is known.

        start:     (hold, worlds, ...) the states before each of its timesteps, or (1, worlds, ...) the first of them
        controls:  (1, worlds, nu), held for ``hold`` steps
        final:     (worlds, ...) the state after the control step; final_bar is its cotangent
        given:     ``inputs`` (1, worlds, ...) and ``status`` of the control step, if there are any
        """
        again = given | ({"status": Status()} if "status" in given else {})  # failures are in the given status already
        first = row(start, 0)
        is_whole = len(leaves(start)[0]) == hold
        states = start if is_whole else self.steps(first, controls, hold=hold, params=params, **again)
        options = {"hold": hold, "params": params, "wants_params": wants_params, **given}
        backward = self.backward(controls, final, final_bar, **options)
        backward.through(states, 0, hold)
        return backward.finish(first)

    def in_worlds(self, worlds: int, *, dtype: str | None = None) -> System:
        """The same System with another number of worlds, and optionally in another precision.

        The default is correct for Systems whose ``step`` accepts any number of worlds and either precision.
        """
        other = copy.copy(self)
        other.worlds, other.dtype = worlds, dtype or self.dtype
        return other

    def reset(self, state, worlds, start=None):
        """A copy of a state in which some worlds are set to a start state; the others are unchanged.

        worlds: (worlds,) booleans, such as ``run.status.failed``, or indices of worlds
        start:  a state of all worlds, from which the chosen worlds are taken; ``system.state()`` if None
        """
        start = self.start_like(state, start)
        chosen = where(world_mask(worlds, self.worlds), tree_map(to_numpy, start), tree_map(to_numpy, state))
        return tree_map(_as_given, chosen, state)

    def start_like(self, state, start=None):
        """The given start, or ``system.state()``; an error unless it has the fields and shapes of ``state``."""
        if start is None:
            if not hasattr(self, "state"):
                raise PullbackError(f"{type(self).__name__} has no state() to start from: give a start")
            start = self.state()
        check_like(start, state, "the start")
        return start

    # --- the tangent space -------------------------------------------------------------------------

    def difference(self, start, end, *, leading: int = 1) -> np.ndarray:
        """The tangent (..., n) at ``start`` that leads to ``end``.

        leading: axes before those of a state in one world: 1 for worlds, 2 for time and worlds
        """
        return numbers(end, leading) - numbers(start, leading)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        """The derivative (..., n, n) of a difference ``apart`` (..., n) with respect to a tangent at its end."""
        return np.broadcast_to(np.eye(apart.shape[-1]), (*apart.shape, apart.shape[-1]))

    def state_bar(self, state, tangent_bar: np.ndarray):
        """The cotangent of a state, in the form of a state, from the cotangent (..., n) of its tangent."""
        return from_numbers(tangent_bar, state)

    def tangent_bar(self, state, bars) -> np.ndarray:
        """The cotangent (..., n) of a state's tangent, from that of the state: the transpose of ``state_bar``."""
        return numbers(_real_bars(bars, state))

    def linearize(self, state, control, params: Mapping | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of a step: A (worlds, n, n) and B (worlds, n, nu), one pullback per row."""
        state, controls = checked_state(state, self.worlds, self.dtype), self._checked_controls([control])
        after = self.step(state, controls[0], params)
        (found,) = self.jacobians(stack([state, tree_map(to_numpy, after)]), controls, params)
        return found.A[0], found.B[0]

    def jacobians(
        self, states, controls, params: Mapping | None = None, names: tuple[str, ...] = ()
    ) -> Iterator[Jacobians]:
        """Jacobians of every step of a trajectory, by state, control and the parameters in ``names``.

        They are yielded in chunks of consecutive steps.

        states:   (steps + 1, worlds, ...), as ``steps`` returns them
        controls: (steps, worlds, nu)
        """
        if names and not isinstance(getattr(self, "params", None), NamedParams):
            raise PullbackError(
                f"{type(self).__name__} has no Jacobians by parameters: it needs ``jacobians`` of its own"
            )
        states, controls = tree_map(to_numpy, states), to_numpy(controls)
        held, rows = self.hold_params(params), self.difference(row(states, 0), row(states, 0)).shape[-1]
        chunk = max(1, min(len(controls), WIDEST // max(1, rows * self.worlds)))
        for first in range(0, len(controls), chunk):
            count = min(chunk, len(controls) - first)
            wide = self._wide(count * self.worlds * rows)
            spread = partial(_spread_rows, rows=rows, worlds=count * self.worlds)
            here = slice(first, first + count)
            before, after = (tree_map(spread, row(states, t)) for t in (here, slice(first + 1, first + count + 1)))
            picks = np.tile(np.eye(rows, dtype=self.dtype), (count * self.worlds, 1))
            values = _in_copies(held, names, self.worlds, rows, count)
            control, next_bar = spread(controls[here]), wide.state_bar(after, picks)
            bars = wide.pullback_between(before, control, after, next_bar, values, wants_params=bool(names))
            checked_bars(self, bars)
            found = {"A": wide.tangent_bar(before, bars.state), "B": to_numpy(bars.control)}
            found |= {name: to_numpy(bars.params[name]) for name in names}
            found = {n: x.reshape(count, self.worlds, rows, *x.shape[1:]) for n, x in found.items()}
            yield Jacobians(first, found.pop("A"), found.pop("B"), found)

    def _wide(self, copies: int) -> System:
        """The System with ``copies`` worlds: one per row of the Jacobians of a chunk of steps."""
        return self.in_worlds(copies)


def _spread_rows(x: np.ndarray, rows: int, worlds: int) -> np.ndarray:
    """(steps, worlds, ...) as (steps · worlds · rows, ...): each world is repeated ``rows`` times."""
    return np.repeat(x.reshape(worlds, *x.shape[2:]), rows, axis=0)


def _in_copies(held, names: tuple[str, ...], worlds: int, rows: int, count: int):
    """Parameters for count · rows copies of the worlds. Each copy has its own value of those in ``names``."""
    if not isinstance(held, FieldValues):
        return held or None
    values = dict(held.values)
    for name, value in values.items():
        if name in names and not held.per_world[name]:
            value = np.broadcast_to(value, (worlds, *value.shape))
        if name in names or held.per_world[name]:
            values[name] = np.tile(np.repeat(value, rows, axis=0), (count, *(1,) * (value.ndim - 1)))
    return values


def _as_given(array: np.ndarray, like):
    """The array in the precision of ``like``, on the same GPU if that is on one."""
    if isinstance(like, wp.array) and not like.device.is_cpu:
        return wp.array(array, dtype=like.dtype, device=like.device)
    return array.astype(to_numpy(like).dtype, copy=False)


def _refuse_blow_up(state, step: int) -> None:
    bad = first_bad_leaf(tree_map(to_numpy, state))
    if bad is not None:
        name, (world, *_) = bad
        message = f"the trajectory blew up in world {world} at step {step}: {name} is not finite"
        raise SimulationError(message, world=world)


def _stand_in(x, failed: np.ndarray | None):
    """A state, or an array (worlds, ...), with the values of failed worlds replaced by those of a healthy world.

    Multiplying by a zero cotangent would not remove a failed world's NaN or infinity: 0 · NaN is NaN.
    """
    if failed is None or not np.any(failed) or np.all(failed):
        return x
    worlds = np.where(failed, np.argmin(failed), np.arange(len(failed)))
    return tree_map(lambda leaf: leaf[worlds], x) if is_state(x) else x[worlds]


def _healthy_params(system: System, params, failed: np.ndarray | None):
    """Parameters with the values of failed worlds replaced by a healthy world's: their own fail in any state."""
    if failed is None or not np.any(failed) or np.all(failed):
        return params
    held = system.hold_params(params)
    values = held.values if isinstance(held, FieldValues) else held
    own = getattr(system, "params", {})
    apart = {name: x for name, x in values.items() if np.ndim(x) > np.ndim(own[name])}
    return system.hold_params({**values, **{n: _stand_in(x, failed) for n, x in apart.items()}}) if apart else params


def _inputs_at(inputs: Mapping | None, t: int, take=lambda x: x) -> dict:
    """Keywords for ``step`` and ``pullback``: the inputs at step t, mapped by ``take``; empty without inputs."""
    return {"inputs": {name: take(x[t]) for name, x in inputs.items()}} if inputs else {}


def _real_bars(bars, states):
    """Cotangents of a state. Leaves of whole numbers keep the state's own values, which ``numbers`` leaves out."""
    return tree_map(lambda bar, x: to_numpy(bar) if is_real(x) else x, bars, states)


class SteppedBackward:
    """Pulls back through a trajectory piece by piece, last piece first, by calling ``pullback`` at every step."""

    def __init__(self, system: System, controls, final, final_bar, hold: int, params, inputs, status, wants_params):
        self.system, self.controls, self.hold = system, controls, hold
        self.values: Mapping = params.values if isinstance(params, FieldValues) else params or {}
        self.status, self.failed = status, None if status is None else status.failed
        self.given = _healthy_params(system, params, self.failed)
        self.after = self._healthy(tree_map(to_numpy, final))  # the state after the step to be pulled back next
        self.inputs = inputs or {}
        self.inputs_bar = {name: np.zeros_like(x) for name, x in self.inputs.items()}
        self.wants_params = wants_params
        self.carry = self._masked(final_bar)
        self.controls_bar = np.zeros_like(controls)
        self.params_bar: dict[str, np.ndarray] = {}

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """Pulls back from step ``end`` to step ``first``.

        states:     row r is the state at step first + r; the last row is the state at ``end``
        states_bar: cotangents of these states. That of the state at ``end`` is already carried, so its row is not read
                    and may be missing
        """
        what = f"the cotangent of the state that {type(self.system).__name__}.pullback returns"
        for t in reversed(range(first, end)):
            state, held = self._healthy(row(states, t - first)), t // self.hold
            control, inputs = self._healthy(self.controls[held]), _inputs_at(self.inputs, held, self._healthy)
            between = (state, control, self.after, self.carry, self.given)
            bars = self.system.pullback_between(*between, **inputs, wants_params=self.wants_params)
            bars, self.after = checked_bars(self.system, bars), state
            check_like(bars.state, state, what)
            self.carry = tree_map(lambda bar, x: bar if is_real(x) else np.zeros(x.shape), bars.state, state)
            self._add_control_bar(held, bars.control)
            for name, bar in self.inputs_bar.items():
                given: Any = bars.inputs.get(name)
                self._check_shape(f"{name!r}", np.shape(given), bar.shape[1:])
                bar[held] += to_numpy(bars.inputs[name])
            if self.wants_params:
                require_param_bars(self.system, bars)
                for name, bar in bars.params.items():
                    self._add_param_bar(name, to_numpy(bar))
            if states_bar is not None:
                self.carry = tree_map(lambda carry, bar: carry + bar, self.carry, row(states_bar, t - first))
            self.carry = self._masked(self.carry)

    def _healthy(self, x):
        return _stand_in(x, self.failed)

    def _masked(self, bars):
        """The cotangents, set to zero in worlds that failed: the inputs of those have no influence on the result."""
        if self.failed is None or not np.any(self.failed):
            return bars
        return where(self.failed, tree_map(np.zeros_like, bars), bars)

    def _add_control_bar(self, held: int, bar) -> None:
        if bar is not None or self.system.nu:
            self._check_shape("the control", np.shape(bar), self.controls_bar.shape[1:])
            self.controls_bar[held] += to_numpy(bar)

    def _add_param_bar(self, name: str, bar: np.ndarray) -> None:
        if name in self.values:
            self._check_shape(f"parameter {name!r}", bar.shape, np.shape(self.values[name]))
        self.params_bar[name] = self.params_bar.get(name, 0.0) + bar

    def _check_shape(self, what: str, shape: tuple[int, ...], needed: tuple[int, ...]) -> None:
        if shape != needed:
            raise PullbackError(
                f"the cotangent of {what} that {type(self.system).__name__}.pullback returns has shape {shape}, but "
                f"{needed} is needed"
            )

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        bars = Bars(self.carry, self.controls_bar, Named(self.params_bar), Named(self.inputs_bar), self.status)
        own = getattr(self.system, "params", {})
        per_world = {name: name in own and np.ndim(bar) > np.ndim(own[name]) for name, bar in bars.params.items()}
        return refuse_overflow(bars, str(self.system.dtype), per_world)
