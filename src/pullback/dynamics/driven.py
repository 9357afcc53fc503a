"""Robots with a small network before every step, evaluated in the same kernel launch as the steps, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from pullback.core.arrays import (
    PRECISIONS,
    as_reals,
    checked,
    empty,
    from_device,
    require_space,
    to_numpy,
    zeros,
)
from pullback.core.errors import SimulationError
from pullback.core.status import Status
from pullback.core.system import State
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.backward import FusedBackward
from pullback.dynamics.health import check_health, set_status
from pullback.dynamics.tree import CACHE_LINE
from pullback.kernels import specialise

# More steps than any motion has: the first axis of views in which every step sees the same numbers. [steps]
MOST_STEPS = 1 << 30


@dataclass(frozen=True)
class Layer:
    """One linear layer and the activation after it: "linear", "tanh", "softsign", "elu" or "relu".

    size: alpha of an ELU
    """

    inputs: int
    outputs: int
    bend: str
    size: float = 1.0


@dataclass(frozen=True)
class Feature:
    """One input of a network: which number it is.

    kind:    "coordinate", "sine", "cosine" or "rotation" of q; "velocity"; "control"; "error", a control minus a
             coordinate; or "memory"
    at:      its index in q, v, the control or the memory; for a rotation, the index where its quaternion begins
    dof:     the degree of freedom of a coordinate; the first one of a rotation
    which:   the entry of a rotation's matrix, column by column; the control of an error
    """

    kind: str
    at: int
    dof: int = 0
    which: int = 0


@dataclass(frozen=True)
class Wiring:
    """How a network is connected to the state and the step.

    layers:    from features to outputs
    features:  per row; the network is evaluated once for each row
    adds:      what its outputs are added to: "control", "force" or "wrench"
    places:    (rows, outputs) indices in that, of the outputs
    scale:     (outputs,) factors of the outputs, whose products are clamped to ± ``limit``
    centre, gain: (features,) the network's inputs are (x - centre) · gain
    controls:  number of controls of the whole System
    replaces:  the inner System gets no controls of its own
    pairs:     (joints, 2) indices in q and in v of each joint in the memory; joint i is driven by control i
    times:     number of earlier timesteps in the memory
    """

    layers: Sequence[Layer]
    features: Sequence[Sequence[Feature]]
    adds: str
    places: np.ndarray
    scale: np.ndarray
    centre: np.ndarray
    gain: np.ndarray
    controls: int
    limit: float = np.inf
    replaces: bool = False
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), int))
    times: int = 0

    @property
    def remembered(self) -> int:
        """Numbers in the memory of one world."""
        return 2 * self.times * len(self.pairs)


def _in_fours(rows: int) -> int:
    """The number of rows, rounded up to a multiple of four, as weights are stored."""
    return -(-rows // 4) * 4


def shared_by_worlds(array: np.ndarray, dtype, worlds: int, precision: str) -> wp.array:
    """An array [world, item] from (1 or worlds, items, numbers per item). Shared values are stored once."""
    items = np.ascontiguousarray(array, dtype=precision)
    base = wp.array(items.reshape(*items.shape[:2], *dtype._shape_), dtype=dtype, device="cpu")
    if len(array) == worlds:
        return base
    strides = (0, base.strides[1])
    shared = wp.array(ptr=base.ptr, dtype=dtype, shape=(worlds, base.shape[1]), strides=strides, device="cpu")
    shared.owner = base  # keeps the memory alive
    return shared


class Driven:
    """The kernels of a robot with a network before every step.

    system:  the robot, whose lanes and workspaces are used
    """

    def __init__(self, system: Articulated, wiring: Wiring):
        self.system, self.wiring = system, wiring
        self.kernels = specialise(system.dtype, "tree.network")
        self.group = int(self.kernels.GROUP)
        self.sizes = [wiring.layers[0].inputs, *(layer.outputs for layer in wiring.layers)]
        self.network = self._network()
        worlds = system.worlds
        self.width = {"control": system.nu, "force": system.nv, "wrench": 6 * system.model.nbody}[wiring.adds]
        self.network.width = self.width
        remedy = "use fewer worlds"
        require_space((worlds, wiring.remembered + 1), system.dtype, "cpu", "the memory of a network", remedy)
        self.drive = self._drive()
        self.own = tuple((self._activations(), self.drive) for _ in system._lanes)
        # the controls of a step that has none of its own, and an array for their cotangents
        self.no_controls, self.no_controls_bar = (self._every_step(self._zeros(max(system.nu, 1))) for _ in range(2))
        self.nothing = zeros((1, worlds, 1), system.dtype, "cpu")

    # --- structs ---------------------------------------------------------------------------------------------------

    def _zeros(self, items: int) -> wp.array:
        return wp.zeros((self.system.worlds, items), dtype=PRECISIONS[self.system.dtype], device="cpu")

    def _every_step(self, array: wp.array, dtype=None) -> wp.array:
        """A view [step, world, item] of an array [world, number], with the same numbers in every step."""
        dtype = array.dtype if dtype is None else dtype
        item = wp.types.type_size_in_bytes(dtype)
        items = array.shape[1] * wp.types.type_size_in_bytes(array.dtype) // item
        view = wp.array(
            ptr=array.ptr, dtype=dtype, shape=(MOST_STEPS, array.shape[0], items),
            strides=(0, array.strides[0], item), device="cpu",
        )  # fmt: skip
        view.owner = array  # keeps the memory alive
        return view

    def _groups(self, units: int) -> int:
        return -(-units // self.group)

    def _network(self):
        wiring, kernels, dtype = self.wiring, self.kernels, self.system.dtype
        ints = lambda x: wp.array(np.array(x, dtype=np.int32), dtype=wp.int32, device="cpu")  # noqa: E731
        reals = lambda x: wp.array(np.array(x, dtype=dtype), dtype=PRECISIONS[dtype], device="cpu")  # noqa: E731
        result = kernels.Network()
        groups, fours = [self._groups(units) for units in self.sizes], [_in_fours(units) for units in self.sizes]
        self.starts = {
            "down": np.cumsum([0, *(n * g for n, g in zip(fours[:-1], groups[1:], strict=True))]),
            "up": np.cumsum([0, *(n * g for n, g in zip(fours[1:], groups[:-1], strict=True))]),
            "bias": np.cumsum([0, *groups[1:]]),
        }
        result.rows, result.layers, result.groups = len(wiring.features), len(wiring.layers), sum(groups)
        result.units, result.first = ints(self.sizes), ints(np.cumsum([0, *groups])[:-1])
        result.bend = ints([int(getattr(kernels, layer.bend.upper())) for layer in wiring.layers])
        result.bend_size = reals([layer.size for layer in wiring.layers])
        for name, starts in self.starts.items():
            setattr(result, name, ints(starts[:-1]))
        table = lambda read: ints([[read(one) for one in row] for row in wiring.features])  # noqa: E731
        result.feature = table(lambda one: int(getattr(kernels, one.kind.upper())))
        result.feature_at, result.feature_dof = table(lambda one: one.at), table(lambda one: one.dof)
        result.feature_with = table(lambda one: one.which)
        result.feature_centre, result.feature_scale = reals(wiring.centre), reals(wiring.gain)
        result.place, result.scale, result.limit = ints(wiring.places), reals(wiring.scale), float(wiring.limit)
        pairs = wiring.pairs if wiring.times else wiring.pairs[:0]
        result.pair_q, result.pair_v = ints(pairs[:, 0]), ints(pairs[:, 1])
        result.times = wiring.times
        return result

    def _activations(self):
        """Memory for the activations of one world, aligned to cache lines."""
        struct = self.kernels.Activations
        result, count = struct(), self.network.rows * self.network.groups
        for of in ("", "bar_"):
            memory = wp.zeros(count + 1, dtype=self.kernels.lanes4, device="cpu")
            start = -(-memory.ptr // CACHE_LINE) * CACHE_LINE
            for name in (of.rstrip("_") or "value", f"{of}vector", f"{of}four", f"{of}number"):
                kind = struct.vars[name].type.dtype
                each = wp.types.type_size_in_bytes(self.kernels.lanes4) // wp.types.type_size_in_bytes(kind)
                view = wp.array(ptr=start, dtype=kind, shape=count * each, device="cpu")
                view.owner = memory  # keeps the memory alive
                setattr(result, name, view)
        return result

    def _drive(self, memory_bar: wp.array | None = None):
        result = self.kernels.Drive()
        count = max(self.wiring.remembered, 1)
        if memory_bar is None:
            for name, items in (("push", self.width), ("push_bar", self.width), ("memory", count), ("memory_bar", 1)):
                setattr(result, name, self._zeros(max(items, 1)))
            result.now = self._zeros(max(2 * len(self.wiring.pairs), 1))
            return result
        for name in ("push", "push_bar", "memory", "now"):
            setattr(result, name, getattr(self.drive, name))
        result.memory_bar = memory_bar
        return result

    def weights(self, layers: Sequence[tuple[np.ndarray, np.ndarray]]):
        """The kernels' Weights of matrices (1 or worlds, outputs, inputs) and biases (1 or worlds, outputs)."""
        packed: dict[str, list] = {"down": [], "up": [], "bias": []}
        for matrix, bias in layers:
            packed["down"].append(self._packed(np.swapaxes(matrix, 1, 2), _in_fours(matrix.shape[2])))
            packed["up"].append(self._packed(matrix, _in_fours(matrix.shape[1])))
            packed["bias"].append(self._packed(bias[:, None], 1))
        result, system = self.kernels.Weights(), self.system
        for name, parts in packed.items():
            worlds = max(len(part) for part in parts)
            whole = np.concatenate([np.broadcast_to(part, (worlds, *part.shape[1:])) for part in parts], axis=1)
            setattr(result, name, shared_by_worlds(whole, self.kernels.lanes4, system.worlds, system.dtype))
        return result

    def _packed(self, matrix: np.ndarray, most: int) -> np.ndarray:
        """(w, rows, columns) as (w, groups, numbers per group), with zeros in the rows up to ``most``."""
        worlds, rows, columns = matrix.shape
        wide = np.zeros((worlds, most, self._groups(columns) * self.group))
        wide[:, :rows, :columns] = matrix
        return wide.reshape(worlds, -1, self.group)

    def weights_bar(self):
        """Memory for the cotangents of the weights of every world: the struct, and NumPy views of its arrays."""
        result, found = self.kernels.Weights(), {}
        for name, starts in self.starts.items():
            shape = (self.system.worlds, int(starts[-1]))
            require_space(shape, self.kernels.lanes4, "cpu", "the cotangents of the weights", "use fewer worlds")
            array = wp.zeros(shape, dtype=self.kernels.lanes4, device="cpu")
            setattr(result, name, array)
            found[name] = array.numpy().reshape(*shape, self.group)
        return result, found

    def unpacked(self, layer: int, found: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Cotangents (w, outputs, inputs) and (w, outputs) of one layer, from the packed ones of all layers."""
        n, m = self.sizes[layer], self.sizes[layer + 1]
        down, up, bias = (
            found[name][:, slice(*self.starts[name][layer : layer + 2])] for name in ("down", "up", "bias")
        )
        if n <= self.kernels.THIN:
            matrix = np.swapaxes(down.reshape(len(down), _in_fours(n), -1)[:, :n, :m], 1, 2)
        else:
            matrix = up.reshape(len(up), _in_fours(m), -1)[:, :m, :n]
        return matrix, bias.reshape(len(bias), -1)[:, :m]

    # --- inputs of the step ----------------------------------------------------------------------------------------

    def take_controls(self, controls) -> wp.array:
        shape = (len(controls) if hasattr(controls, "__len__") else 0, self.system.worlds, self.wiring.controls)
        return self.system._take(controls, shape, "controls", ("step", "worlds", "nu"))

    def given(self, controls: wp.array, inputs: Mapping[str, Any], bars: bool) -> tuple:
        """Arguments of the kernel for network and step: the array that outputs are added to, whether there is one, and
        the step's controls and forces.

        bars: the same for cotangents, which are summed in the arrays
        """
        adds, system = self.wiring.adds, self.system
        pushed = self.drive.push_bar if bars else self.drive.push
        applied = system._take_inputs(inputs)
        struct = specialise(system.dtype, "tree.applied").Applied
        if applied is system._nothing_applied:
            applied = struct()
        if adds == "control":
            return controls, 1, self._every_step(pushed), applied
        kind = struct.vars[adds].type.dtype
        setattr(applied, adds, self._every_step(pushed, kind))
        setattr(applied, f"has_{adds}", 1)
        mine = controls
        if self.wiring.replaces:
            mine = self.no_controls_bar if bars else self.no_controls
        given = self.nothing
        if adds in inputs:
            x = system._own(inputs[adds])
            given = as_reals(x, x.shape[0], system.worlds, system.dtype)
        return given, int(adds in inputs), mine, applied

    # --- trajectories ----------------------------------------------------------------------------------------------

    def steps(
        self, state: State, memory: np.ndarray, controls, held, weights, join: Callable[[State, np.ndarray], Any], *,
        keep_every: int, hold: int, inputs: Mapping | None, status: Status | None,
    ):  # fmt: skip
        """As ``Articulated.steps``; returns ``join`` of the robot's states and the memory (rows, worlds, n)."""
        system = self.system
        start = system._take_state(state)
        controls = self.take_controls(controls)
        count = hold * controls.shape[0]
        rows = 1 + -(-count // keep_every)
        sizes = (system.nq, system.nv, self.wiring.remembered)
        q, v, kept = (empty((rows, system.worlds, size), system.dtype, "cpu") for size in sizes)
        for array, first in ((q, start.q.numpy()), (v, start.v.numpy()), (kept, memory)):
            array.numpy()[0] = first
        codes = system._healthy()
        given, has_given, mine, applied = self.given(controls, inputs or {}, False)
        system._launch(
            specialise(system._flavour, "driven").driven_rollout,
            (system._tree, system._shapes, held.struct, self.network, weights),
            (controls, given, has_given, mine, applied),
            (0, count, hold, keep_every, q, v, kept, codes),
            with_contacts=True,
            own=self.own,
        )
        states, memories = State(from_device(q), from_device(v)), from_device(kept)
        if status is not None:
            set_status(system, status, codes, controls, State(q, v), hold)
            return join(states, memories)
        try:
            check_health(system, codes, controls, State(q, v), keep_every, hold)
        except SimulationError as error:
            error.states = join(error.states, memories[: len(error.states.q)])
            raise
        return join(states, memories)


class DrivenBackward(FusedBackward):
    """Pulls back through a trajectory with a network before every step.

    driven:   the kernels
    weights:  the kernels' Weights of the run
    """

    def __init__(
        self, driven: Driven, controls, final: State, final_bar: State, memory_bar, hold: int, params, weights,
        inputs: Mapping | None, status: Status | None, wants_params: bool,
    ):  # fmt: skip
        self.driven, self.weights = driven, weights
        system = driven.system
        super().__init__(system, controls, final, final_bar, hold, params, inputs, status, wants_params)
        shape = (system.worlds, driven.wiring.remembered)
        self.carry_memory = zeros((shape[0], max(shape[1], 1)), system.dtype, "cpu")
        if memory_bar is not None:
            flat = to_numpy(memory_bar).reshape(system.worlds, -1)
            self.carry_memory.numpy()[:, : shape[1]] = checked(
                flat, shape, system.dtype, "memory_bar", ("worlds", "numbers")
            )
        drive = driven._drive(self.carry_memory)
        self.own = tuple((activations, drive) for activations, _ in driven.own)
        self.weights_bar, self.found = driven.weights_bar() if wants_params else (driven.kernels.Weights(), {})
        self.given = driven.given(self.controls, inputs or {}, False)
        self.given_bar = driven.given(self.controls_bar, self.inputs_bar, True)

    def _take_controls(self, controls) -> wp.array:
        return self.driven.take_controls(controls)

    def through_all(self, states: State, memory, first: int, end: int, states_bar: State | None, memory_bar) -> None:
        """As ``through``, with the memory (rows, worlds, n) and its cotangents besides the states."""
        system = self.system
        q, v = (system._own(x) for x in states)
        memory = system._own(to_numpy(memory).reshape(len(memory), system.worlds, -1))
        self.first, self.first_bar = first, None if states_bar is None else system._own(states_bar[0][0])
        q_bar, v_bar, own_bar = q, v, memory
        if states_bar is not None:
            q_bar, v_bar = (system._own(x) for x in states_bar)
            own_bar = system._own(to_numpy(memory_bar).reshape(len(memory_bar), system.worlds, -1))
        flags = (int(states_bar is not None), int(self.mask), int(self.params_bar.wanted))
        (given, has_given, mine, applied), (given_bar, _, mine_bar, applied_bar) = self.given, self.given_bar
        network = (self.driven.network, self.weights, self.weights_bar)
        system._launch(
            specialise(system._adjoint_flavour, "driven_adjoint").driven_rollout_adjoint,
            (system._tree, system._shapes, self.params.struct, self.params_bar.struct, *network),
            (self.controls, self.controls_bar, given, given_bar, has_given, mine, mine_bar, applied, applied_bar),
            (first, end, self.hold, q, v, memory, q_bar, v_bar, own_bar, *flags) + (*self.carry, self.codes),
            with_contacts=True,
            own=self.own,
        )

    def weight_bars(self, per_world: Sequence[tuple[bool, bool]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Cotangents of matrices and biases, layer by layer: of every world, or summed over all worlds, (1, ...).

        per_world: for each layer, whether its matrix and its bias differ between worlds
        """
        if self.mask:
            failed = self.codes.numpy()[:, 1] >= 0
            for array in self.found.values():
                array[failed] = 0.0
        sums = {name: array.sum(axis=0, keepdims=True) for name, array in self.found.items()}
        result = []
        for layer, which in enumerate(per_world):
            every, summed = self.driven.unpacked(layer, self.found), self.driven.unpacked(layer, sums)
            pair = [every[i] if apart else summed[i] for i, apart in enumerate(which)]
            result.append((pair[0], pair[1]))
        return result

    def memory_bar(self) -> np.ndarray:
        """The cotangent (worlds, n) of the memory at the first step of the last piece."""
        bar = self.carry_memory.numpy()[:, : self.driven.wiring.remembered]
        if self.mask:
            bar[self.codes.numpy()[:, 1] >= 0] = 0.0
        return bar
