"""The algorithms of :mod:`pullback.dynamics` as functions that autograd differentiates, by q, v and parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pullback.core.arrays import to_numpy
from pullback.core.system import System
from pullback.dynamics.algorithms import bind
from pullback.torch.tensors import check, lend, param_grad, refuse_second_derivatives, split_params, stream, take


def _evaluate(algorithm, system: System, arrays: Mapping, params: Mapping, options: Mapping) -> torch.Tensor:
    for name, tensor in arrays.items():
        check(system, name, tensor)
    tensors, constants = split_params(system, params)
    names = tuple(tensors)
    return _Evaluation.apply(algorithm, system, constants, names, options, *arrays.values(), *tensors.values())


class _Evaluation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, algorithm, system, constants, names, options, *tensors):
        arrays, params = tensors[: len(tensors) - len(names)], tensors[len(tensors) - len(names) :]
        ctx.system, ctx.names = system, names
        given = {**constants, **{name: to_numpy(x) for name, x in zip(names, params, strict=True)}}
        with stream(system):
            found = algorithm(system, *map(lend, arrays), params=given, **options)
            value = take(found.value)
        ctx.pullback = found.pullback
        ctx.save_for_backward(*tensors)  # for what is changed in place meanwhile: the pullback has its own references
        return value

    @staticmethod
    def backward(ctx, bar):
        refuse_second_derivatives()
        count = len(ctx.saved_tensors) - len(ctx.names)
        wanted, params = ctx.needs_input_grad[5:], ctx.saved_tensors[count:]
        with stream(ctx.system):
            found = ctx.pullback(lend(bar), wants_params=any(wanted[count:]))
            bars = [take(x) if want else None for x, want in zip(found[:count], wanted[:count], strict=True)]
        of_params = zip(ctx.names, params, wanted[count:], strict=True)
        params_bar = (param_grad(found.params[name], x) if want else None for name, x, want in of_params)
        return None, None, None, None, None, *bars, *params_bar


(
    kinematics,
    jacobian,
    velocity,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    momentum,
    inverse_dynamics,
    mass_matrix,
    forward_dynamics,
) = bind(_evaluate)
