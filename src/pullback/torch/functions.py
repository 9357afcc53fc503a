"""``step`` and ``rollout`` as autograd functions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import numpy as np
import torch
import warp as wp

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout import Run
from pullback.rollout import rollout as roll


def rollout(
    system: System,
    q0: torch.Tensor,
    v0: torch.Tensor,
    controls: torch.Tensor,
    params: Mapping | None = None,
    checkpoint_every: int | str | tuple[int, ...] = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The trajectory from (q0, v0) under ``controls``: q (steps + 1, worlds, nq), v (steps + 1, worlds, nv).

    Of another System than a robot, q and v are the two fields of its state, such as T and s of heat.

    q0:        (worlds, nq) [m, rad, quaternions wxyz]
    v0:        (worlds, nv) [m/s, rad/s]
    controls:  (steps, worlds, nu) [as the actuators take them]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set a world. Tensors that
               require a gradient get one; without any, the time that parameter gradients take is saved.
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The rest
               are stepped again in the backward pass; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    """
    for name, tensor in (("q0", q0), ("v0", v0), ("controls", controls)):
        _check(system, name, tensor)
    if controls.ndim == 3 and controls.shape[0] == 0:
        raise PullbackError("controls has no steps: its shape is (steps, worlds, nu)")
    tensors = {name: value for name, value in (params or {}).items() if isinstance(value, torch.Tensor)}
    constants = {name: value for name, value in (params or {}).items() if name not in tensors}
    for name, tensor in tensors.items():
        _check(system, f"parameter {name!r}", tensor, anywhere=True)
    return _Rollout.apply(system, checkpoint_every, constants, tuple(tensors), q0, v0, controls, *tensors.values())


def step(
    system: System,
    q: torch.Tensor,
    v: torch.Tensor,
    control: torch.Tensor,
    params: Mapping | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state one timestep on: q (worlds, nq), v (worlds, nv), from the same and control (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    _check(system, "control", control)
    if tuple(control.shape) != (system.worlds, system.nu):
        raise PullbackError(
            f"control has shape {tuple(control.shape)}, but (worlds={system.worlds}, nu={system.nu}) is needed"
        )
    q, v = rollout(system, q, v, control[None], params)
    return q[1], v[1]


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, system, every, constants, names, q0, v0, controls, *tensors):
        ctx.system, ctx.every, ctx.names = system, every, names
        with _stream(system):
            ctx.held = system.hold_params({**constants, **dict(zip(names, map(to_numpy, tensors), strict=True))})
            start = system.state_type(_lend(q0), _lend(v0))
            run = roll(system, start, _lend(controls), checkpoint_every=every, params=ctx.held)
            q, v = (_take(x) for x in run.states)
        # Saved by autograd rather than held by ctx, so that it notices a tensor that is changed in place meanwhile.
        ctx.save_for_backward(q, v, controls, *tensors)
        return q, v

    @staticmethod
    def backward(ctx, q_bar, v_bar):
        # torch's once_differentiable would let a gradient of a gradient pass where the loss is linear, as a zero.
        if torch.is_grad_enabled():
            raise PullbackError("there are no second derivatives: call backward or grad without create_graph=True")
        q, v, controls, *tensors = ctx.saved_tensors
        wants_q, wants_v, wants_controls, *wants = ctx.needs_input_grad[4:]
        with _stream(ctx.system):
            kept = ctx.system.state_type(_lend(q), _lend(v))
            run = Run(ctx.system, kept, _lend(controls), ctx.every, ctx.held)
            given = {f"{name}_bar": _lend(bar) for name, bar in zip(kept._fields, (q_bar, v_bar), strict=True)}
            bars = run.pullback(**given, wants_params=any(wants))
            q0_bar = _take(bars.state[0]) if wants_q else None
            v0_bar = _take(bars.state[1]) if wants_v else None
            controls_bar = _take(bars.controls) if wants_controls else None
        params_bar = (
            _param_grad(bars.params[name], tensor) if want else None
            for name, tensor, want in zip(ctx.names, tensors, wants, strict=True)
        )
        return None, None, None, None, q0_bar, v0_bar, controls_bar, *params_bar


# --- between tensors and what Systems take and give -------------------------------------------------------------------


def _check(system: System, name: str, tensor, anywhere: bool = False) -> None:
    """Precision, and device unless it may be ``anywhere``; shapes are the System's to check."""
    if not isinstance(tensor, torch.Tensor):
        raise PullbackError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
    found = str(tensor.dtype).removeprefix("torch.")
    if found != system.dtype:
        cast = {"float64": ".double()", "float32": ".float()"}[system.dtype]
        other = f', or make the System with dtype="{found}"' if found in ("float32", "float64") else ""
        raise PullbackError(f"{name} is {found}, but the System is {system.dtype}: convert it with {cast}{other}")
    if not anywhere and str(tensor.device) != system.device:
        raise PullbackError(
            f"{name} is on {tensor.device}, but the System is on {system.device}: move it with "
            f'.to("{system.device}"), or make the System with device="{tensor.device}"'
        )


def _lend(tensor: torch.Tensor):
    """The tensor's own memory as NumPy (CPU) or Warp (CUDA) array."""
    tensor = tensor.detach().contiguous()
    return tensor.numpy() if tensor.device.type == "cpu" else wp.from_torch(tensor, requires_grad=False)


def _take(array) -> torch.Tensor:
    """A tensor over the memory of what a System returned."""
    return wp.to_torch(array) if isinstance(array, wp.array) else torch.from_numpy(np.asarray(array))


def _param_grad(bar, tensor: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(to_numpy(bar), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)


def _stream(system: System):
    """On CUDA the System works in torch's current stream, in line with the operations before and after it."""
    if system.device == "cpu":
        return nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.device(system.device)), sync_exit=True)
