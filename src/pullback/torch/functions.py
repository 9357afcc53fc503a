"""``step`` and ``rollout`` as autograd functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.status import Status
from pullback.core.system import System, check_inputs
from pullback.core.trees import is_state, leaf_names, leaves, row, start_of, tree_map, with_leaves
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
    """The trajectory from a start under controls: ``rollout(system, state, controls)``, a state of tensors.

    Each of them has the shape of its field in ``state`` with time in front: q (steps + 1, worlds, nq), v (steps + 1,
    worlds, nv). The fields of the start may also be given one by one; then a plain tuple is returned:
    ``q, v = rollout(system, q0, v0, controls)``.

    state:     of tensors: q (worlds, nq) [m, rad, quaternions wxyz] and v (worlds, nv) [m/s, rad/s] for a robot
    controls:  (steps, worlds, nu) [as the actuators take them]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set per world. Tensors that
               require a gradient get one; without any, the time that parameter gradients take is saved.
    inputs:    what acts besides the controls, e.g. {"wrench": (steps, worlds, nbody, 6)}: see :func:`pullback.rollout`
    hold:      timesteps for which each control is held; states are those of control steps
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The rest
               are stepped again in the backward pass; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    status:    a ``pullback.Status()`` to be filled in: worlds that fail then stay where they were and have gradients of
               zero, as with ``on_failure="mask"`` of :func:`pullback.rollout`. Without one, failure is an error.
    """
    hold = check_whole(hold, "hold")
    start, controls = start_of(system, start_and_controls)
    for name, tensor in zip(leaf_names(start), leaves(start), strict=True):
        check(system, name, tensor, counts=True)
    check(system, "controls", controls)
    if controls.ndim == 3 and controls.shape[0] == 0:
        raise PullbackError("controls has no steps: its shape is (steps, worlds, nu)")
    tensors, constants = split_params(system, params or {})
    for name, tensor in (inputs or {}).items():
        check(system, f"input {name!r}", tensor)
    form = Form(tree_map(lambda leaf: None, start), tuple(inputs or {}), tuple(tensors))
    every = (*leaves(start), controls, *(inputs or {}).values(), *tensors.values())
    states = with_leaves(form.state, _Rollout.apply(system, hold, checkpoint_every, status, constants, form, *every))
    return states if is_state(start_and_controls[0]) else tuple(states)


def step(
    system: System,
    *state_and_control,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    status: Status | None = None,
):
    """The state one timestep on, or ``hold`` timesteps: ``step(system, state, control)``, or ``step(system, q, v,
    control)``, which returns a plain tuple. control: (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    *start, control = state_and_control
    check(system, "control", control)
    if tuple(control.shape) != (system.worlds, system.nu):
        raise PullbackError(
            f"control has shape {tuple(control.shape)}, but (worlds={system.worlds}, nu={system.nu}) is needed"
        )
    every = None if inputs is None else {name: x[None] for name, x in inputs.items()}
    states = rollout(system, *start, control[None], params=params, inputs=every, hold=hold, status=status)
    return row(states, 1) if is_state(states) else tuple(x[1] for x in states)


class Form(NamedTuple):
    """What the tensors are that autograd hands on in a row: leaves of a state, controls, inputs, parameters."""

    state: Any  # a state with None in the place of each leaf
    inputs: tuple[str, ...]
    params: tuple[str, ...]

    def split(self, row: Sequence) -> tuple[list, Any, dict, dict]:
        """Leaves, controls, inputs by name and parameters by name."""
        count, more = len(leaves(self.state)), len(self.inputs)
        leaf, (controls, *rest) = row[:count], row[count:]
        named = (zip(self.inputs, rest[:more], strict=True), zip(self.params, rest[more:], strict=True))
        return list(leaf), controls, *map(dict, named)


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, system, hold, every, status, constants, form, *tensors):
        ctx.system, ctx.hold, ctx.every, ctx.form = system, hold, every, form
        start, controls, inputs, params = form.split(tensors)
        keep_every = hold * checkpoint_levels(every, controls.shape[0])[0]
        with stream(system):
            ctx.held = system.hold_params({**constants, **{name: to_numpy(x) for name, x in params.items()}})
            run = {"hold": hold, "params": ctx.held, **_inputs(system, inputs, len(controls), status)}
            first = with_leaves(form.state, map(lend, start))
            states = system.steps(first, lend(controls), keep_every=keep_every, **run)
            states = [take(x) for x in leaves(states)]
        ctx.status = None if status is None else Status(status.codes)  # the caller may use theirs again
        for name, given, kept in zip(leaf_names(form.state), start, states, strict=True):
            check(system, name, given, counts=not kept.is_floating_point())
        ctx.mark_non_differentiable(*(x for x in states if not x.is_floating_point()))
        # Saved by autograd rather than held by ctx, so that it notices a tensor that is changed in place meanwhile.
        ctx.save_for_backward(*states, controls, *inputs.values(), *params.values())
        return tuple(states)

    @staticmethod
    def backward(ctx, *states_bar):
        refuse_second_derivatives()
        states, controls, inputs, params = ctx.form.split(ctx.saved_tensors)
        *_, wanted_params = wanted = ctx.form.split(ctx.needs_input_grad[6:])
        with stream(ctx.system):
            kept = with_leaves(ctx.form.state, map(lend, states))
            given = _inputs(ctx.system, inputs, len(controls), ctx.status)
            run = Run(ctx.system, kept, lend(controls), ctx.every, ctx.held, ctx.hold, **given)
            pairs = zip(states, states_bar, strict=True)
            bars = with_leaves(ctx.form.state, (lend(bar) if x.is_floating_point() else None for x, bar in pairs))
            named = {f"{name}_bar": bar for name, bar in bars._asdict().items()}
            found = run.pullback(**named, wants_params=any(wanted_params.values()))
            wants = (*wanted[0], wanted[1], *wanted[2].values())
            found_bars = (*leaves(found.state), found.controls, *found.inputs.values())
            tensors_bar = [take(bar) if want else None for bar, want in zip(found_bars, wants, strict=True)]
        params_bar = (param_grad(found.params[n], x) if wanted_params[n] else None for n, x in params.items())
        return None, None, None, None, None, None, *tensors_bar, *params_bar


def _inputs(system: System, inputs: Mapping, steps: int, status: Status | None) -> dict:
    """Inputs, checked, and the status as keywords for Systems and runs, where there are any."""
    given = check_inputs(system, {name: lend(x) for name, x in inputs.items()}, steps)
    return ({"inputs": given} if given else {}) | ({} if status is None else {"status": status})


def differentiate(function, arrays: Mapping, system: System) -> tuple[np.ndarray, dict]:
    """Values (worlds,) of a torch function of named arrays of a System, and its cotangents by each of them."""
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
