"""Perceptrons inside a robot's kernels: the rollout of a hybrid is one launch, and so is its backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.core.arrays import checked, to_numpy
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.errors import PullbackError
from pullback.core.system import State
from pullback.core.trees import tree_map
from pullback.dynamics import Articulated
from pullback.dynamics.driven import Driven, DrivenBackward, Layer, Wiring

if TYPE_CHECKING:
    from pullback.neural.hybrid import Hybrid
    from pullback.neural.network import Network

TORCH, KERNEL = "torch", "kernel"
PLACES = (TORCH, KERNEL)
BENDS = {"Tanh": "tanh", "Softsign": "softsign", "ELU": "elu", "ReLU": "relu"}
NOTHING = ("Identity", "Dropout")  # layers that have no effect outside of training


def refuse(reason: str):
    """The error for a network that cannot be evaluated inside kernels."""
    return PullbackError(f"where='kernel' is not possible: {reason}; use where='torch'")


class Source(NamedTuple):
    """The source of a layer's matrix or bias: the name of a parameter, or fixed numbers."""

    name: str
    fixed: np.ndarray | None


def perceptron_layers(network: Network) -> tuple[list[Layer], list[tuple[Source, Source]]]:
    """The layers of a plain perceptron, and the sources of their weights; an error for any other module."""
    import torch

    module = network.module
    parts = {"": module} if type(module) is torch.nn.Linear else module._modules
    if type(module) not in (torch.nn.Linear, torch.nn.Sequential) or not parts:
        raise refuse(
            f"the module of {network.name!r} must be a torch.nn.Sequential of linear layers and activations, not "
            f"{type(module).__name__}"
        )
    names = {key: name for name, key in network.weights.items()}
    seen: set[int] = set()
    layers: list[Layer] = []
    sources: list[tuple[Source, Source]] = []
    bent = True
    for key, part in parts.items():
        kind = type(part).__name__ if part is not None and type(part).__module__.startswith("torch.nn.") else ""
        if kind in NOTHING:
            continue
        if kind == "Linear" and id(part) not in seen:
            seen.add(id(part))
            prefix = f"{key}." if key else ""
            layers.append(Layer(part.in_features, part.out_features, "linear"))
            bias = np.zeros(part.out_features) if part.bias is None else part.bias.detach().numpy()
            numbers = {"weight": part.weight.detach().numpy(), "bias": bias}
            pair = [
                Source(names.get(prefix + n, ""), None if prefix + n in names else x.copy()) for n, x in numbers.items()
            ]
            sources.append((pair[0], pair[1]))
            bent = False
        elif kind in BENDS and not bent:
            last = layers[-1]
            layers[-1] = Layer(last.inputs, last.outputs, BENDS[kind], getattr(part, "alpha", 1.0))
            bent = True
        else:
            raise refuse(
                f"the module of {network.name!r} has a {type(part).__name__} as its part {key!r}, where only linear "
                f"layers, each used once and with at most one of {', '.join(BENDS)} behind it, are known"
            )
    if not layers:
        raise refuse(f"the module of {network.name!r} has no linear layer")
    return layers, sources


class InKernel:
    """Runs a hybrid with one perceptron by kernels."""

    def __init__(self, hybrid: Hybrid, sources: list[tuple[Source, Source]], wiring: Wiring):
        if type(hybrid.system) is not Articulated:
            raise refuse(f"it is for a robot, pb.Articulated, and the System inside is {type(hybrid.system).__name__}")
        if hybrid.system.na:
            raise refuse("actuators of the robot have activations")
        self.sources = sources
        self.driven = Driven(hybrid.system, wiring)
        self.system: Articulated = hybrid.system

    # --- weights ---------------------------------------------------------------------------------------------------

    def _weights(self, held):
        """The kernels' weights, cached with the held parameters."""
        if "weights" not in held.made:
            each = [(self._batched(matrix, held, 2), self._batched(bias, held, 1)) for matrix, bias in self.sources]
            held.made["weights"] = self.driven.weights(each)
        return held.made["weights"]

    def _batched(self, source: Source, held, ndim: int) -> np.ndarray:
        """The value of a source, with a leading axis of 1 or worlds."""
        value = np.asarray(held.values[source.name] if source.fixed is None else source.fixed, dtype=float)
        return value if value.ndim > ndim else value[None]

    def _bars_of_weights(self, backward: DrivenBackward, held) -> dict[str, np.ndarray]:
        """Cotangents of the weights by name, in the shapes of their values."""
        apart = [tuple(s.fixed is None and held.per_world[s.name] for s in pair) for pair in self.sources]
        found = {}
        bars = backward.weight_bars([(bool(a), bool(b)) for a, b in apart])
        for pair, pair_bars, flags in zip(self.sources, bars, apart, strict=True):
            for source, bar, per_world in zip(pair, pair_bars, flags, strict=True):
                if source.fixed is None:
                    found[source.name] = np.array(bar if per_world else bar[0], dtype=self.system.dtype)
        return found

    # --- states ----------------------------------------------------------------------------------------------------

    def _memory(self, hybrid: Hybrid, memory: tuple) -> np.ndarray:
        """The memory of a state as (worlds, n)."""
        worlds, size = hybrid.worlds, self.driven.wiring.remembered
        if not size:
            return np.zeros((worlds, 0), hybrid.dtype)
        if not memory:
            raise PullbackError("a state has a memory here: make one with system.state(q, v)")
        shape = (worlds, *hybrid.remembered)
        axes = ("worlds", *(f"axis {i}" for i in range(1, len(shape))))
        return checked(to_numpy(memory[0]), shape, hybrid.dtype, "memory", axes).reshape(worlds, size)

    def _join(self, hybrid: Hybrid, states: State, memory: np.ndarray):
        """States of the hybrid, from those of the robot and the memory (..., worlds, n)."""
        return hybrid._join(states, (memory.reshape(*memory.shape[:-1], *hybrid.remembered),))

    # --- the contract ----------------------------------------------------------------------------------------------

    def steps(self, hybrid: Hybrid, state, controls, held, *, keep_every, hold, inputs, status):
        inner, memory = hybrid._split(state)
        given = (inner, self._memory(hybrid, memory), controls, held.parts[""], self._weights(held))
        join = partial(self._join, hybrid)
        return self.driven.steps(*given, join, keep_every=keep_every, hold=hold, inputs=inputs, status=status)

    def backward(self, hybrid: Hybrid, controls, final, final_bar, held, *, hold, inputs, status, wants_params):
        return Backward(self, hybrid, controls, final, final_bar, held, hold, inputs, status, wants_params)


class Backward:
    """Pulls back through a trajectory of a hybrid piece by piece, with one launch per piece."""

    def __init__(
        self, kernel: InKernel, hybrid: Hybrid, controls, final, final_bar, held, hold: int, inputs: Mapping | None,
        status, wants_params: bool,
    ):  # fmt: skip
        self.kernel, self.hybrid, self.held, self.wants_params = kernel, hybrid, held, wants_params
        inner_bar, memory_bar = hybrid._split(final_bar)
        self.inner = DrivenBackward(
            kernel.driven, controls, hybrid._split(final)[0], inner_bar, memory_bar[0] if memory_bar else None, hold,
            held.parts[""], kernel._weights(held), inputs, status, wants_params,
        )  # fmt: skip

    def _memory(self, states) -> np.ndarray:
        inner, memory = self.hybrid._split(states)
        return to_numpy(memory[0]) if memory else np.zeros((*np.shape(inner.q)[:2], 0), self.hybrid.dtype)

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """Pulls back from step ``end`` to ``first``. Row r of states, and of states_bar, is the state at first + r."""
        split = self.hybrid._split
        inner_bar = None if states_bar is None else split(states_bar)[0]
        memory_bar = None if states_bar is None else self._memory(states_bar)
        self.inner.through_all(split(states)[0], self._memory(states), first, end, inner_bar, memory_bar)

    def finish(self, start) -> Bars:
        """The cotangents at the first state of the last piece, in stored coordinates."""
        hybrid = self.hybrid
        bars = self.inner.finish(hybrid._split(start)[0])
        params: dict[str, Any] = dict(bars.params)
        if self.wants_params:
            params |= self.kernel._bars_of_weights(self.inner, self.held)
        state_bar = self.kernel._join(hybrid, bars.state, self.inner.memory_bar())
        found = Bars(tree_map(to_numpy, state_bar), bars.control, Named(params), bars.inputs, bars.status)
        if self.inner.mask:
            return found
        return refuse_overflow(found, hybrid.dtype, self.held.per_world)
