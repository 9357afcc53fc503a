"""A System with torch functions in front of its step. These compute the inputs of the step from state and control.

    u', inputs', params', memory' = front(state, memory, u, weights)        torch
    state'                        = system.step(state, u', params', inputs')

The result of the step is not changed, so that physics, contacts included, keeps its invariants. In the backward pass,
the step's own pullback gives cotangents of its inputs, and autograd takes them through the front.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import checked, to_numpy
from pullback.core.bars import Bars, Named, of_one_step
from pullback.core.checks import check_kind, check_word
from pullback.core.errors import PullbackError
from pullback.core.params import FieldValues
from pullback.core.system import System
from pullback.core.trees import is_real, leaf_names, leaves, row, tree_map, with_leaves
from pullback.core.wrapper import HeldParts, Wrapper
from pullback.neural.in_kernel import PLACES, InKernel
from pullback.neural.network import Network
from pullback.rollout import Run


class Front(NamedTuple):
    """The tensors that a network in front of a step reads, or the inputs of the step that it computes.

    state:    of the inner System
    memory:   further state of the hybrid, a tuple of tensors (worlds, ...)
    control:  (worlds, nu)
    inputs:   by name (worlds, ...)
    params:   by name, parameters of the inner System that the front replaces
    """

    state: Any
    memory: tuple
    control: Any
    inputs: dict
    params: dict


def check_where(where) -> str:
    """The place where networks are evaluated, "torch" or "kernel"; an error for anything else."""
    return check_word(where, "where", PLACES)


class Hybrid(Wrapper):
    """A System around another one, with networks before its step. A derived class has ``_front``.

    networks:  their weights become parameters
    replaces:  parameters of the inner System that the front computes
    """

    def __init__(self, system: System, networks: tuple[Network, ...], *, own: Mapping | None = None, replaces=()):
        check_kind(system, System, "system", "pb.Articulated(model)")
        if system.device != "cpu":
            raise PullbackError(
                f"networks inside a System are for the CPU, not {system.device}: make it with device='cpu'"
            )
        weights = {name: record for network in networks for name, record in network.parameters().items()}
        super().__init__(system, {**weights, **(own or {})})
        self.networks, self.replaces = networks, tuple(replaces)
        self._own_names = (*weights, *(own or {}))
        self._kernel: InKernel | None = None  # set if networks run inside the inner System's kernels

    @abstractmethod
    def _front(self, front: Front, weights: Mapping) -> Front:
        """In torch: the inputs of the inner step, and the memory after it."""

    def _split(self, state) -> tuple[Any, tuple]:
        """The state of the inner System, and the memory."""
        return state, ()

    def _join(self, inner, memory: tuple):
        return inner

    def started(self, state):
        inner = super().started(state)
        if not np.prod(self.remembered):
            return inner
        return self._join(inner, (np.zeros((self.worlds, *self.remembered), self.dtype),))

    @property
    def remembered(self) -> tuple[int, ...]:
        """The shape of the memory in one world."""
        return (0,)

    # --- tensors ---------------------------------------------------------------------------------------------------

    def _tensors(self, held: HeldParts) -> dict:
        """The hybrid's own parameters as tensors, cached with the held parameters."""
        import torch

        if "tensors" not in held.made:
            names = [*self._own_names, *self.replaces]
            cast = {name: np.array(held.values[name], dtype=self.dtype) for name in names}
            held.made["tensors"] = {name: torch.from_numpy(x) for name, x in cast.items()}
        return held.made["tensors"]

    def _given(self, state, control, inputs: Mapping | None, held: HeldParts, wants_grad: bool, wants_params: bool):
        """The arguments of the front, and those of its tensors that need cotangents, by kind."""
        import torch

        leaf: dict[str, list] = {"state": [], "memory": [], "control": [], "inputs": [], "weights": []}

        def tensor(x, kind: str, name: str, shape: tuple[int, ...] = ()):
            x = np.asarray(to_numpy(x))
            real, shape = is_real(x) or bool(shape), shape or (self.worlds, *x.shape[1:])
            if real:  # checked here, because errors from torch would blame the network
                axes = ("worlds", *(f"axis {i}" for i in range(1, len(shape))))
                x = checked(x, shape, self.dtype, name, axes)
            x = torch.from_numpy(x.copy())
            if wants_grad and real:
                leaf[kind].append(x.requires_grad_())
            return x

        inner, memory = self._split(state)
        inner = with_leaves(
            inner, [tensor(x, "state", n) for x, n in zip(leaves(inner), leaf_names(inner), strict=True)]
        )
        memory = tuple(tensor(x, "memory", "memory") for x in memory)
        control = tensor(control, "control", "control", (self.worlds, self.nu))
        inputs = {name: tensor(x, "inputs", f"input {name!r}") for name, x in (inputs or {}).items()}
        weights = dict(self._tensors(held))
        if wants_grad and wants_params:
            weights = {name: x.detach().requires_grad_() for name, x in weights.items()}
            leaf["weights"] = list(weights.values())
        params = {name: weights[name] for name in self.replaces}
        return Front(inner, memory, control, inputs, params), weights, leaf

    def _checked(self, front: Front) -> Front:
        """The outputs of a network; an error names the worlds in which one is not finite."""
        import torch

        for x in (front.control, *front.inputs.values(), *front.params.values(), *front.memory):
            if not torch.isfinite(x).all():
                bad = ~torch.isfinite(x).reshape(len(x), -1).all(dim=1)
                worlds = torch.nonzero(bad).flatten().tolist() if len(x) == self.worlds else [0]
                names = ", ".join(repr(network.name) for network in self.networks)
                raise PullbackError(
                    f"the network {names} gives numbers that are not finite in world {worlds[0]}", worlds=worlds
                )
        return front

    def _to_step(self, front: Front, held: HeldParts) -> tuple[np.ndarray, Any, dict]:
        """Control, held parameters and keywords of the inner step."""
        inner = held.parts[""]
        if front.params:
            values = inner.values if isinstance(inner, FieldValues) else inner
            inner = self.system.hold_params({**values, **{n: x.detach().numpy() for n, x in front.params.items()}})
        inputs = {name: x.detach().numpy() for name, x in front.inputs.items()}
        return front.control.detach().numpy(), inner, {"inputs": inputs} if inputs else {}

    # --- the contract ----------------------------------------------------------------------------------------------

    def step(self, state, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None):
        import torch

        held = self.hold_params(params)
        control = self.default_controls(1)[0] if control is None else control
        if self._kernel is not None:
            given = {"params": held, "inputs": self.system._one_input(inputs)}
            return row(self.steps(state, to_numpy(control)[None], **given), 1)
        with torch.no_grad():
            given, weights, _ = self._given(state, control, inputs, held, False, False)
            front = self._checked(self._front(given, weights))
        driven, inner, keywords = self._to_step(front, held)
        after = self.system.step(self._split(state)[0], driven, inner, **keywords)
        return self._join(after, tuple(x.numpy() for x in front.memory))

    def pullback_between(self, state, control, after, next_bar, params=None, *, inputs=None, wants_params=True) -> Bars:
        import torch

        held = self.hold_params(params)
        control = self.default_controls(1)[0] if control is None else control
        if self._kernel is not None:
            start = tree_map(lambda x: to_numpy(x)[None], state)
            options = {"params": held, "wants_params": wants_params, "inputs": self.system._one_input(inputs)}
            return of_one_step(self.step_pullback(start, to_numpy(control)[None], after, next_bar, **options))
        with torch.enable_grad():
            given, weights, leaf = self._given(state, control, inputs, held, True, wants_params)
            front = self._front(given, weights)
        driven, inner, keywords = self._to_step(front, held)
        inner_bar, memory_bar = self._split(_filled(next_bar, after))
        wants_inner = {"wants_params": wants_params or bool(front.params)}
        between = (self._split(state)[0], driven, self._split(after)[0], inner_bar, inner)
        bars = self.system.pullback_between(*between, **keywords, **wants_inner)

        outs = [front.control, *front.inputs.values(), *front.params.values(), *front.memory]
        outs_bar = [bars.control, *(bars.inputs[name] for name in front.inputs)]
        outs_bar += [*(bars.params[name] for name in front.params), *memory_bar]
        pairs = [(x, torch.as_tensor(to_numpy(bar), dtype=x.dtype)) for x, bar in zip(outs, outs_bar, strict=True)]
        ends, ends_bar = zip(*((x, bar) for x, bar in pairs if x.requires_grad), strict=True)
        every = [x for part in leaf.values() for x in part]
        found = torch.autograd.grad(ends, every, ends_bar, materialize_grads=True)
        grads = dict(zip(map(id, every), (x.numpy() for x in found), strict=True))

        def grad_of(part: str) -> list[np.ndarray]:
            return [grads[id(x)] for x in leaf[part]]

        state_bar = _added(self._split(state)[0], bars.state, iter(grad_of("state")))
        result: dict[str, Any] = {}
        if wants_params:
            result = {name: np.asarray(bar) for name, bar in bars.params.items() if name not in front.params}
            result |= dict(zip(weights, grad_of("weights"), strict=True))
        given_bars = dict(zip(given.inputs, grad_of("inputs"), strict=True))
        (control_bar,) = grad_of("control")
        return Bars(self._join(state_bar, tuple(grad_of("memory"))), control_bar, Named(result), Named(given_bars))

    def steps(self, state, controls, *, keep_every=1, hold=1, params=None, inputs=None, status=None):
        given = {"keep_every": keep_every, "hold": hold, "inputs": inputs, "status": status}
        if self._kernel is None:
            return super().steps(state, controls, params=params, **given)
        return self._kernel.steps(self, state, controls, self.hold_params(params), **given)

    def backward(self, controls, final, final_bar, *, hold=1, params=None, inputs=None, status=None, wants_params=True):
        given = {"hold": hold, "inputs": inputs, "status": status, "wants_params": wants_params}
        if self._kernel is None:
            return super().backward(controls, final, final_bar, params=params, **given)
        return self._kernel.backward(self, controls, final, final_bar, self.hold_params(params), **given)

    # --- evaluation of runs ----------------------------------------------------------------------------------------

    def front(self, state, control, params: Mapping | None = None, inputs: Mapping | None = None) -> Front:
        """The inputs of the inner step in a state, as arrays: control, inputs, parameters, and the memory after it."""
        import torch

        held = self.hold_params(params)
        with torch.no_grad():
            given, weights, _ = self._given(state, control, inputs, held, False, False)
            found = self._front(given, weights)
        return Front(
            tree_map(lambda x: x.numpy(), found.state), tuple(x.numpy() for x in found.memory), found.control.numpy(),
            {n: x.numpy() for n, x in found.inputs.items()}, {n: x.numpy() for n, x in found.params.items()},
        )  # fmt: skip

    def inside(self, run: Run) -> Run:
        """The same motion as a run of the inner System, with the controls and inputs that its steps received."""
        run = run.timesteps()
        states, fronts = run.every_state(), []
        for t in range(run.steps):
            inputs = {name: x[t] for name, x in run.inputs.items()}
            fronts.append(self.front(row(states, t), run.controls[t], run.params, inputs))
        controls = np.array([front.control for front in fronts])
        controls = controls.reshape(run.steps, self.worlds, self.system.nu)
        names = fronts[0].inputs if fronts else {}
        inputs = {name: np.array([front.inputs[name] for front in fronts]) for name in names}
        held = run.params.parts[""]
        return Run(self.system, self._split(states)[0], controls, 1, held, inputs=inputs, status=run.status)

    def contacts(self, state, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None):
        """The contacts of each world in a state, from the inner System."""
        if not hasattr(self.system, "contacts"):
            raise PullbackError(f"{type(self.system).__name__} has no contacts")
        held = self.hold_params(params)
        front = self.front(state, self.default_controls(1)[0] if control is None else control, held, inputs)
        return self.system.contacts(self._split(state)[0], front.control, held.parts[""], inputs=front.inputs or None)


def _filled(bars, like):
    """The cotangent of a state, with zeros for None."""
    return tree_map(lambda x, bar: np.zeros(np.shape(x)) if bar is None else to_numpy(bar), like, bars)


def _added(state, bars, more):
    """The cotangent of a state, plus further cotangents of its real leaves, in order."""
    return tree_map(lambda x, bar: to_numpy(bar) + next(more) if is_real(to_numpy(x)) else bar, state, bars)


def weights_of(system: System) -> tuple[str, ...]:
    """Names of the weights of all networks inside a System, outermost first."""
    found: tuple[str, ...] = ()
    while isinstance(system, Wrapper):
        if isinstance(system, Hybrid):
            found += tuple(name for network in system.networks for name in network.weights)
        system = system.system
    return found
