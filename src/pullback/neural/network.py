"""A torch module as a function of its inputs and of its weights, which are parameters of a System."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.core.checks import check_kind, check_seed, check_whole, check_wholes
from pullback.core.errors import PullbackError
from pullback.core.params import Parameter

if TYPE_CHECKING:
    import torch

# Standard deviation of the initial weights, for inputs of unit deviation: it makes tanh work in its curved range. [1]
GAIN = 2.0


def perceptron(inputs: int, hidden: Sequence[int], outputs: int, *, seed: int = 0, zero: bool = True):
    """A perceptron with tanh between its layers, whose last layer is zero, so that its initial correction is zero.

    Features of unit deviation reach the curved range of tanh, at a different point for each unit: units that start as
    straight lines remain so for a long time.

    zero:  False: the last layer starts with small random numbers
    """
    try:
        import torch
    except ImportError:
        raise PullbackError('networks need PyTorch: pip install "pullback[torch]"') from None

    check_kind(zero, bool, "zero")
    ends = [check_whole(n, f"{name} of a perceptron") for n, name in ((inputs, "inputs"), (outputs, "outputs"))]
    sizes = [ends[0], *check_wholes(hidden, "the hidden layers of a perceptron"), ends[1]]
    generator, layers = torch.Generator().manual_seed(check_seed(seed)), []
    for n, m in zip(sizes[:-1], sizes[1:], strict=True):
        layer = torch.nn.Linear(n, m, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(GAIN * torch.randn(m, n, generator=generator, dtype=torch.float64) / n**0.5)
            layer.bias.copy_(torch.randn(m, generator=generator, dtype=torch.float64))
        layers += [layer, torch.nn.Tanh()]
    with torch.no_grad():
        for x in (layers[-2].weight, layers[-2].bias):
            x.mul_(0.0 if zero else 0.1)
    return torch.nn.Sequential(*layers[:-1])


class Network:
    """A copy of a torch module in the precision of a System. Its weights are passed with every call.

    module:  the user's; its parameters that do not require a gradient stay constant
    name:    prefix of its weights' names
    """

    def __init__(self, module: torch.nn.Module, name: str, dtype: str):
        import torch

        if not isinstance(module, torch.nn.Module):
            raise PullbackError(f"a network must be a torch.nn.Module or sizes of layers, not {type(module).__name__}")
        if not isinstance(name, str) or not name:
            raise PullbackError(f"name of a network must be a word, not {name!r}")
        self.module = copy.deepcopy(module).to(dtype=getattr(torch, dtype), device="cpu").eval()
        self.name, self.dtype = name, getattr(torch, dtype)
        learned = [key for key, weight in self.module.named_parameters() if weight.requires_grad]
        self.weights = {f"{name}.{key}": key for key in learned}  # name of the parameter: name within the module
        self.module.requires_grad_(False)
        # the original numbers, before they are rounded to the System's precision
        self.first = {f"{name}.{key}": weight.detach().cpu().numpy() for key, weight in module.named_parameters()}

    def parameters(self) -> dict[str, Parameter]:
        """Records of the weights, with the module's weights as initial values."""
        values = {name: np.array(self.first[name], dtype=float) for name in self.weights}
        return {name: Parameter("1", _axes(value.ndim), value) for name, value in values.items()}

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum(self.first[name].size for name in self.weights)

    def with_weights(self, values: Mapping) -> torch.nn.Module:
        """A copy of the module with these weights, ready to be trained or saved by torch."""
        import torch

        module = copy.deepcopy(self.module)
        named = dict(module.named_parameters())
        with torch.no_grad():
            for name, key in self.weights.items():
                named[key].copy_(torch.as_tensor(np.array(values[name])))
        for key in self.weights.values():
            named[key].requires_grad_(True)
        return module

    def __call__(self, weights: Mapping[str, Any], x, *more):
        """The output (worlds, rows, ...) for inputs (worlds, rows, features). Further inputs and outputs of the module
        have worlds first too.

        weights:  tensors by name, each of its shape or (worlds, *shape)
        """
        import torch

        own = {key: weights[name] for name, key in self.weights.items()}
        shapes = dict(self.module.named_parameters())
        axes = {key: 0 if weight.ndim > shapes[key].ndim else None for key, weight in own.items()}
        try:
            if all(axis is None for axis in axes.values()):
                rows = [each.flatten(0, 1) for each in (x, *more)]
                found = torch.func.functional_call(self.module, own, tuple(rows))
                return _map(lambda y: _tensor(y).unflatten(0, x.shape[:2]), found)
            inputs = (axes, 0, *(0 for _ in more))
            return torch.func.vmap(self._alone, inputs)(own, x, *more)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = str(error).strip().splitlines()[0]
            message = f"the module of {self.name!r} cannot take {x.shape[-1]} features of {x.shape[0]} worlds: {reason}"
            raise PullbackError(message) from error

    def _alone(self, own, *inputs):
        import torch

        return torch.func.functional_call(self.module, own, inputs)


def _tensor(found):
    import torch

    if not torch.is_tensor(found):
        raise TypeError(f"it gives {type(found).__name__}, not a tensor")
    return found


def _axes(ndim: int) -> tuple[str, ...]:
    """The names of a weight's axes."""
    return ("output", "input")[:ndim] if ndim <= 2 else tuple(f"axis {i}" for i in range(ndim))


def _map(function, found):
    return tuple(_map(function, each) for each in found) if isinstance(found, tuple) else function(found)
