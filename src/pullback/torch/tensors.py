"""Conversion between torch tensors and the arrays of Systems, and checks of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import numpy as np
import torch
import warp as wp

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System


def check(system: System, name: str, tensor, *, anywhere: bool = False, counts: bool = False) -> None:
    """Raises an error unless a tensor has the System's precision and device. ``counts`` also allows whole numbers, and
    ``anywhere`` any device. Shapes are checked by the System."""
    if not isinstance(tensor, torch.Tensor):
        raise PullbackError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
    found = str(tensor.dtype).removeprefix("torch.")
    if found != system.dtype and (tensor.is_floating_point() or not counts):
        cast = {"float64": ".double()", "float32": ".float()"}[system.dtype]
        other = f', or make the System with dtype="{found}"' if found in ("float32", "float64") else ""
        raise PullbackError(f"{name} is {found}, but the System is {system.dtype}: convert it with {cast}{other}")
    if not anywhere and str(tensor.device) != system.device:
        raise PullbackError(
            f"{name} is on {tensor.device}, but the System is on {system.device}: move it with "
            f'.to("{system.device}"), or make the System with device="{tensor.device}"'
        )


def split_params(system: System, params: Mapping) -> tuple[dict, dict]:
    """Splits parameters into tensors, which may have gradients, and all others."""
    tensors = {name: value for name, value in params.items() if isinstance(value, torch.Tensor)}
    for name, tensor in tensors.items():
        check(system, f"parameter {name!r}", tensor, anywhere=True)
    return tensors, {name: value for name, value in params.items() if name not in tensors}


def refuse_second_derivatives() -> None:
    """Refuses second derivatives; torch's once_differentiable would silently return 0 for linear losses."""
    if torch.is_grad_enabled():
        raise PullbackError("there are no second derivatives: call backward or grad without create_graph=True")


def lend(tensor: torch.Tensor):
    """A view of the tensor's memory as a NumPy (CPU) or Warp (CUDA) array."""
    tensor = tensor.detach().contiguous()
    return tensor.numpy() if tensor.device.type == "cpu" else wp.from_torch(tensor, requires_grad=False)


def take(array) -> torch.Tensor:
    """A tensor over the memory of a System's array; a copy if it is read-only, because tensors are writable."""
    if isinstance(array, wp.array):
        return wp.to_torch(array)
    array = np.asarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def param_grad(bar, tensor: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(to_numpy(bar), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)


def stream(system: System):
    """On CUDA, a context in which the System uses torch's current stream, in order with the operations around it."""
    if system.device == "cpu":
        return nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.device(system.device)), sync_exit=True)
