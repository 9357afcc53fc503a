"""The algorithms of :mod:`pullback.dynamics` as differentiable torch functions of q, v and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import torch

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.dynamics.bound import bars_of, bind
from pullback.torch.tensors import check, lend, param_grad, refuse_second_derivatives, split_params, stream, take

FIXED = 7  # arguments of _Evaluation before its tensors


def _evaluate(algorithm, system: System, arrays: Mapping, params: Mapping, options: Mapping) -> torch.Tensor:
    for name, tensor in arrays.items():
        check(system, name, tensor)
    tensors, constants = split_params(system, params)
    names = tuple(tensors)
    return _Evaluation.apply(
        algorithm,
        system,
        constants,
        tuple(arrays),
        names,
        options,
        SimpleNamespace(),
        *arrays.values(),
        *tensors.values(),
    )


class _Evaluation(torch.autograd.Function):
    """``held`` passes data from ``forward``, which has no context under torch.func, to ``setup_context``."""

    @staticmethod
    def forward(algorithm, system, constants, of, names, options, held, *tensors):
        arrays, params = tensors[: len(of)], tensors[len(of) :]
        given = {**constants, **{name: to_numpy(x) for name, x in zip(names, params, strict=True)}}
        with stream(system):
            held.found = algorithm(system, **dict(zip(of, map(lend, arrays), strict=True)), params=given, **options)
            return take(held.found.value)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.algorithm, ctx.system, _, ctx.of, ctx.names, _, held, *tensors = inputs
        ctx.found = held.found
        ctx.save_for_backward(*tensors)  # autograd then notices in-place changes; the pullback has its own references

    @staticmethod
    def jvp(ctx, *tangents):
        count = len(ctx.of)
        arrays, params = tangents[FIXED : FIXED + count], tangents[FIXED + count :]
        if ctx.found.pushforward is None:
            raise PullbackError(f"forward mode is for kinematics, not for {ctx.algorithm.__name__}: use backward")
        if any(tangent is not None for tangent in params):
            raise PullbackError("forward mode is by q alone, not by parameters: use backward")
        return _Push.apply(ctx.system, ctx.found.pushforward, arrays[0])

    @staticmethod
    def backward(ctx, bar):
        refuse_second_derivatives()
        count = len(ctx.of)
        wanted, params = ctx.needs_input_grad[FIXED:], ctx.saved_tensors[count:]
        with stream(ctx.system):
            found = ctx.found.pullback(lend(bar), wants_params=any(wanted[count:]))
            given = bars_of(ctx.algorithm, ctx.of, found)
            bars = [take(x) if want else None for x, want in zip(given, wanted[:count], strict=True)]
        of_params = zip(ctx.names, params, wanted[count:], strict=True)
        params_bar = (param_grad(found.params[name], x) if want else None for name, x, want in of_params)
        return *(None,) * FIXED, *bars, *params_bar


class _Push(torch.autograd.Function):
    """A pushforward as a separate operation, so that torch.func passes plain tensors to it."""

    @staticmethod
    def forward(system, pushforward, tangent):
        with stream(system):
            return torch.as_tensor(pushforward(to_numpy(tangent)), dtype=tangent.dtype, device=tangent.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, bar):
        raise PullbackError("there are no second derivatives: the tangent of poses cannot be differentiated again")


(
    kinematics,
    jacobian,
    velocity,
    acceleration,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    momentum,
    inverse_dynamics,
    mass_matrix,
    forward_dynamics,
    sensors,
) = bind(_evaluate)
