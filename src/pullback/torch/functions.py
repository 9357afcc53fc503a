"""``step`` and ``rollout`` as autograd functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.core.status import Status
from pullback.core.system import System, check_inputs
from pullback.core.trees import is_state, leaf_names, leaves, start_of, tree_map, with_leaves
from pullback.rollout import Run, checkpoint_levels
from pullback.torch.tensors import check, lend, param_grad, refuse_second_derivatives, split_params, stream, take


def rollout(
    system: System,
    *start_and_controls,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    checkpoint_every: int | str | tuple[int, ...] = 1,
    status: Status | None = None,
):
    """The trajectory from an initial state under controls: ``rollout(system, state, controls)``, a state of tensors.

    Each tensor has the shape of its field in ``state`` with time in front: q (steps + 1, worlds, nq), v (steps + 1,
    worlds, nv). The fields of the initial state may also be given one by one; then a plain tuple is returned:
    ``q, v = rollout(system, q0, v0, controls)``.

    state:     of tensors: q (worlds, nq) [m, rad, quaternions wxyz] and v (worlds, nv) [m/s, rad/s] for a robot
    controls:  (steps, worlds, nu) [in the actuators' units]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set per world. Tensors that
               require a gradient get one; if none does, the time for parameter gradients is saved.
    inputs:    inputs besides the controls, e.g. {"wrench": (steps, worlds, nbody, 6)}: see :func:`pullback.rollout`
    hold:      timesteps for which each control is held; states are those of control steps
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The
               backward pass recomputes the others; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    status:    a ``pullback.Status()`` to be filled in: worlds that fail then keep their last state and have zero
               gradients, as with ``on_failure="mask"`` of :func:`pullback.rollout`. Without one, failure is an error.
    """
    start, controls = start_of(system, start_and_controls)
    check(system, "controls", controls)
    if controls.ndim != 3 or controls.shape[0] == 0:
        raise PullbackError(f"controls has shape {tuple(controls.shape)}, but (steps, worlds, nu) is needed")
    call = prepare(system, start, params, inputs, hold=hold, every=checkpoint_every, status=status)
    states = call(start, controls, inputs or {})
    return states if is_state(start_and_controls[0]) else tuple(states)


def step(
    system: System,
    *state_and_control,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    status: Status | None = None,
):
    """The state after one control step of ``hold`` timesteps: ``step(system, state, control)``, or ``step(system, q, v,
    control)``, which returns a plain tuple. control: (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    start, control = start_of(system, state_and_control)
    call = prepare(system, start, params, inputs, hold=hold, last=True, status=status)
    after = call(start, check_control(system, control), inputs or {})
    return after if is_state(state_and_control[0]) else tuple(after)


def check_control(system: System, control, what: str = "control") -> torch.Tensor:
    """A control (worlds, nu), unchanged, or an error."""
    check(system, what, control)
    if tuple(control.shape) != (system.worlds, system.nu):
        raise PullbackError(
            f"{what} has shape {tuple(control.shape)}, but (worlds={system.worlds}, nu={system.nu}) is needed"
        )
    return control


def prepare(system: System, start, params: Mapping | None, inputs: Mapping | None, **options) -> Call:
    """Checks everything that is common to all calls of a loop, that is everything but the tensors of each call."""
    for name, given in {"params": params, "inputs": inputs}.items():
        check_kind({} if given is None else given, Mapping, name, '{"mass": mass}')
    if options.get("status") is not None:
        check_kind(options["status"], Status, "status", "pullback.Status()")
    for name, tensor in zip(leaf_names(start), leaves(start), strict=True):
        check(system, name, tensor, counts=True)
    tensors, constants = split_params(system, params or {})
    for name, tensor in (inputs or {}).items():
        check(system, f"input {name!r}", tensor)
    options["hold"] = check_whole(options["hold"], "hold")
    with stream(system):
        held = system.hold_params({**constants, **{name: to_numpy(x) for name, x in tensors.items()}})
    return Call(system, tree_map(lambda leaf: None, start), tuple(inputs or {}), tensors, held, **options)


class Call(NamedTuple):
    """The arguments of a rollout except its tensors: start, controls and inputs."""

    system: System
    form: Any  # a state with None instead of each leaf
    inputs: tuple[str, ...]
    params: dict[str, torch.Tensor]
    held: Any  # all parameters, in the System's form
    hold: int = 1
    every: int | str | tuple[int, ...] = 1
    status: Status | None = None
    last: bool = False  # a single step: controls, inputs and the returned state have no time axis

    def __call__(self, start, controls: torch.Tensor, inputs: Mapping):
        given = (*leaves(start), controls, *(inputs[name] for name in self.inputs), *self.params.values())
        return with_leaves(self.form, _Rollout.apply(self, *given))

    def split(self, row: Sequence) -> tuple[list, Any, dict, dict]:
        """A flat sequence of tensors, as autograd has them, as leaves, controls, inputs by name, parameters by name."""
        count, more = len(leaves(self.form)), len(self.inputs)
        leaf, (controls, *rest) = row[:count], row[count:]
        named = (zip(self.inputs, rest[:more], strict=True), zip(self.params, rest[more:], strict=True))
        return list(leaf), controls, *map(dict, named)

    def over_time(self, x: torch.Tensor) -> torch.Tensor:
        """Controls or an input with a time axis, which Systems need."""
        return x[None] if self.last else x


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, *tensors):
        system, status = call.system, call.status
        start, controls, inputs, params = call.split(tensors)
        # For a single control step, the states of all timesteps are kept for the backward pass.
        keep_every = 1 if call.last else call.hold * checkpoint_levels(call.every, controls.shape[0])[0]
        with stream(system):
            run = {"hold": call.hold, "params": call.held, **_inputs(call, inputs, controls, status)}
            first = with_leaves(call.form, map(lend, start))
            states = system.steps(first, lend(call.over_time(controls)), keep_every=keep_every, **run)
            ctx.path = tree_map(lambda x: x[: call.hold], states) if call.last else None
            states = [take(x[call.hold] if call.last else x) for x in leaves(states)]
        ctx.call, ctx.status = call, None if status is None else Status(status.codes)  # the caller may reuse theirs
        for name, given, kept in zip(leaf_names(call.form), start, states, strict=True):
            if kept.is_floating_point() and not given.is_floating_point():
                check(system, name, given)
        ctx.mark_non_differentiable(*(x for x in states if not x.is_floating_point()))
        # Saved by autograd rather than stored in ctx, so that it notices in-place changes of tensors.
        ctx.save_for_backward(*states, controls, *inputs.values(), *params.values())
        return tuple(states)

    @staticmethod
    def backward(ctx, *states_bar):
        refuse_second_derivatives()
        call = ctx.call
        states, controls, inputs, params = call.split(ctx.saved_tensors)
        *_, wanted_params = wanted = call.split(ctx.needs_input_grad[1:])
        with stream(call.system):
            kept = with_leaves(call.form, map(lend, states))
            bars = with_leaves(call.form, map(_lend_bar, states_bar, states))
            given = _inputs(call, inputs, controls, ctx.status)
            controls = lend(call.over_time(controls))
            wants = {"wants_params": any(wanted_params.values())}
            if call.last:
                found = call.system.step_pullback(
                    ctx.path, controls, kept, bars, hold=call.hold, params=call.held, **wants, **given
                )
            else:
                run = Run(call.system, kept, controls, call.every, call.held, call.hold, **given)
                found = run.pullback(**{f"{name}_bar": bar for name, bar in bars._asdict().items()}, **wants)
            start_bar = [take(bar) if want else None for bar, want in zip(leaves(found.state), wanted[0], strict=True)]
            others = zip((found.controls, *found.inputs.values()), (wanted[1], *wanted[2].values()), strict=True)
            others_bar = [take(bar) if want else None for bar, want in others]
        if call.last:
            others_bar = [None if bar is None else bar[0] for bar in others_bar]
        params_bar = (param_grad(found.params[n], x) if wanted_params[n] else None for n, x in params.items())
        return None, *start_bar, *others_bar, *params_bar


def _lend_bar(bar: torch.Tensor | None, like: torch.Tensor):
    """A cotangent; zero if ``like`` holds whole numbers."""
    return lend(bar if like.is_floating_point() else torch.zeros(like.shape, device=like.device))


def _inputs(call: Call, inputs: Mapping, controls: torch.Tensor, status: Status | None) -> dict:
    """Keywords for Systems and runs: the checked inputs and the status, if there are any."""
    steps = 1 if call.last else len(controls)
    given = check_inputs(call.system, {name: lend(call.over_time(x)) for name, x in inputs.items()}, steps)
    return ({"inputs": given} if given else {}) | ({} if status is None else {"status": status})


def differentiate(function, arrays: Mapping, system: System) -> tuple[np.ndarray, dict]:
    """Values (worlds,) of a torch function of a System's named arrays, and the cotangents of these arrays."""
    with stream(system), torch.enable_grad():
        tensors = {name: take(array).detach().requires_grad_() for name, array in arrays.items()}
        values = function(**tensors)
        if not isinstance(values, torch.Tensor) or not values.requires_grad:
            raise PullbackError(
                f"a torch loss must return a tensor that depends on {', '.join(tensors)} by operations of torch; what "
                "was detached, or computed by NumPy, has no gradient"
            )
        bars = torch.autograd.grad(values.sum(), tuple(tensors.values()), materialize_grads=True)
        return to_numpy(values), {name: lend(bar) for name, bar in zip(tensors, bars, strict=True)}
