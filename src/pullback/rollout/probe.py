"""A System at one point, with entries perturbed: the basis of finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.bars import checked_bars
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import is_real, is_state, leaf_names, leaves, tree_map, with_leaves
from pullback.rollout.entries import entry_name
from pullback.rollout.run import rollout

# Relative perturbation of the System's own state, if the user gives no state to check at. [1]
SPREAD = 0.3
# Perturbed copies of the whole System that are stepped at once. [worlds]
BATCH = 256
# Residual that a solver inside of a step may leave, relative to states of size one. [1]
RESIDUAL = {"float64": 1e-13, "float32": 1e-6}


class Probe:
    """A System at one point, and the change of the loss (a random cotangent times the next state) as an entry moves."""

    def __init__(self, system: System, state, control, count: int, random: np.random.Generator):
        self.system, self.count = system, count
        self.twins: dict[int, System] = {}  # by number of copies: the System with copies · worlds worlds
        self.form, arrays = _start(system, state, random)
        self.fields = dict(zip(leaf_names(self.form), arrays, strict=True))
        self.controls = _controls(system, control, count, random)
        params: Any = getattr(system, "params", None)
        self.params = {name: np.array(to_numpy(value)) for name, value in (params or {}).items()}
        self.batches = hasattr(system, "in_worlds") and (not self.params or hasattr(params, "is_per_world"))
        self.per_world = {
            name: bool(self.batches and params.is_per_world(name, value)) for name, value in self.params.items()
        }
        # Differences of float32 numbers are mostly rounding, so they are taken in float64 if the System supports it.
        self.precision = precision_of_differences(system)
        self.judge = system
        if self.precision != system.dtype:
            self.judge = system.in_worlds(system.worlds, dtype=self.precision)
            self.fields = {name: x.astype(self.precision) if is_real(x) else x for name, x in self.fields.items()}
            self.controls = self.controls.astype(self.precision)
        self.inputs = {**self.fields, "control": self.controls, **self.params}
        if len(self.inputs) != len(self.fields) + 1 + len(self.params):
            raise PullbackError("fields of the state and parameters need names of their own, other than 'control'")
        try:
            self.base = self.run(self.judge, self.fields, self.controls, None if self.judge is system else self.params)
        except PullbackError as error:
            if state is not None:
                raise
            raise PullbackError(f"give a state to check at: in one that is made up, {error}") from error
        self.bar = [random.standard_normal(x.shape) if is_real(x) else np.zeros(x.shape) for x in self.base]
        self.epsilon = float(np.finfo(np.dtype(self.precision)).eps)
        # The residual is that of the whole loss: a body at rest has forces that cancel, so small numbers are no more
        # exact than large ones.
        size = sum(
            float(np.sum(np.abs(b) * np.maximum(1.0, np.abs(x))))
            for b, x in zip(self.bar, self.base, strict=True)
            if is_real(x)
        )
        self.residual = RESIDUAL[str(system.dtype)] * size

    def run(self, system: System, fields: Mapping, controls: np.ndarray, params: Mapping | None = None) -> list:
        """The leaves of the states after each step, (steps, worlds, ...)."""
        given: dict[str, Any] = {"params": params} if params else {}
        state = with_leaves(self.form, fields.values())
        if self.count == 1:
            return [to_numpy(x)[None] for x in leaves(system.step(state, controls[0], **given))]
        return [to_numpy(x)[1:] for x in leaves(system.steps(state, controls, **given))]

    def pull_back(self, system: System | None = None) -> dict[str, np.ndarray]:
        """Cotangents by name: fields of the state, "control", and the parameters.

        system: computes them, if given: one with the same steps, such as this one with its surrogate gradient
        """
        system = system or self.system
        bars = [b.astype(system.dtype) for b in self.bar]
        own = (x.astype(system.dtype) if is_real(x) else x for x in self.fields.values())
        state = with_leaves(self.form, own)
        controls = self.controls.astype(system.dtype)
        if self.count == 1:
            next_bar = with_leaves(self.form, (b[0] for b in bars))
            result = checked_bars(system, system.pullback(state, controls[0], next_bar))
            control_bar = None if result.control is None else to_numpy(result.control)[None]
        else:
            # zero at the start, which is not a result of the System
            every = with_leaves(self.form, (np.concatenate([np.zeros_like(b[:1]), b]) for b in bars))
            named = {f"{name}_bar": bar for name, bar in every._asdict().items()}
            result = rollout(system, state, controls).pullback(**named)
            control_bar = to_numpy(result.control)
        named = {n: b for n, b in zip(self.fields, leaves(result.state), strict=True) if is_real(self.fields[n])}
        if self.controls.size:
            named["control"] = control_bar
        for name, value in self.params.items():
            if is_real(value):
                named[name] = (result.params or {}).get(name)
        return {name: self._checked_bar(name, bar) for name, bar in named.items()}

    def _checked_bar(self, name: str, bar) -> np.ndarray:
        if bar is None:
            raise PullbackError(f"the pullback gives no cotangent of {name!r}")
        bar, value = np.asarray(to_numpy(bar), dtype=float), self.value(name)
        if bar.shape != value.shape:
            raise PullbackError(f"the cotangent of {name!r} has shape {bar.shape}, but {value.shape} is needed")
        if not np.all(np.isfinite(bar)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(bar))[0])
            raise PullbackError(f"the pullback gives {bar[index]} for {name!r} at {self.name_of(name, index)}")
        return bar

    def value(self, name: str) -> np.ndarray:
        return self.inputs[name]

    def name_of(self, name: str, index: tuple[int, ...]) -> str:
        kind = "state" if name in self.fields else "params" if name in self.params else "control"
        return entry_name(self.system, name, index, kind=kind, steps=self.count)

    def changes(self, names: np.ndarray, places: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The changes of the loss when entry places[k] of the field names[k] moves by each of moves[k], (entries, n).

        Returns the changes and the sizes of the terms that change, to which rounding errors are relative. Both are NaN
        where the System refuses the moved value; without batches, all moves of an entry are then NaN.
        """
        copies = max(1, BATCH // (self.system.worlds * moves.shape[1])) if self.batches else 1
        parts = [
            self._some_changes(names[i : i + copies], places[i : i + copies], moves[i : i + copies])
            for i in range(0, len(places), copies)
        ]
        changes, sizes = np.concatenate([np.zeros((2, 0, moves.shape[1])), *parts], axis=1)
        return changes, sizes

    def _some_changes(self, names: np.ndarray, places: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """The result of ``changes``, (2, entries, n), for as many entries as are stepped at once."""
        try:
            return np.stack(self._pairings(names, places, moves))
        except PullbackError as error:
            if self.batches and not error.worlds:  # the error does not say which: one entry at a time from now on
                self.batches = False
                return np.stack(self.changes(names, places, moves))
            copies = np.array(error.worlds, dtype=int) // self.system.worlds
            taken = ~np.isin(np.arange(len(places)), copies // moves.shape[1]) & self.batches
        result = np.full((2, *moves.shape), np.nan)
        if np.any(taken):
            result[:, taken] = self._some_changes(names[taken], places[taken], moves[taken])
        return result

    def _pairings(self, names: np.ndarray, places: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        each = moves.shape[1]
        flat = np.repeat(names, each), np.repeat(places, each), moves.ravel()
        if self.batches:
            moved = self._run_copies(*flat)
        else:
            alone = [self._run_alone(*one) for one in zip(*flat, strict=True)]
            moved = [np.stack(field, axis=1) for field in zip(*alone, strict=True)]
        change, size = np.zeros(moves.size), np.zeros(moves.size)
        for after, base, bar in zip(moved, self.base, self.bar, strict=True):
            if not is_real(base):
                continue
            # Subtracting entry by entry, before the sum, keeps unchanged entries out of the rounding error.
            difference = after[:, : moves.size].astype(float) - base[:, None]
            axes = (0, *range(2, difference.ndim))
            change += np.sum(bar[:, None] * difference, axis=axes)
            size += np.sum(np.abs(bar * base)[:, None] * (difference != 0), axis=axes)
        return change.reshape(moves.shape), size.reshape(moves.shape)

    def _run_alone(self, name: str, place: int, move: float) -> list[np.ndarray]:
        """The leaves of the states after each step, (steps, worlds, ...), with one entry moved."""
        value = self.inputs[name].copy()
        value.reshape(-1)[place] += value.dtype.type(move)
        inputs = {**self.inputs, name: value}
        given = {name: value} if name in self.params else None
        return self.run(self.judge, {n: inputs[n] for n in self.fields}, inputs["control"], given)

    def _run_copies(self, names: np.ndarray, places: np.ndarray, moves: np.ndarray) -> list[np.ndarray]:
        """The leaves of the states after each step, (steps, copies, worlds, ...): a copy per move, and unused ones."""
        worlds = self.system.worlds
        # 1, 16 or all: few different sizes, so that few Systems are made
        copies = max(len(places), min(16 ** ((len(places) - 1).bit_length() + 3 >> 2), BATCH // worlds))

        def spread(name: str, world_axis: int | None) -> np.ndarray:
            """(..., copies · worlds, ...): copies of a field, each with its move."""
            array = np.repeat(self.inputs[name][None], copies, axis=0)
            mine = np.flatnonzero(names == name)
            array.reshape(copies, -1)[mine, places[mine]] += moves[mine].astype(array.dtype)
            if world_axis is None:  # a value that all worlds of a copy share
                return np.repeat(array, worlds, axis=0)
            array = np.moveaxis(array, 0, world_axis)
            return array.reshape(*array.shape[:world_axis], copies * worlds, *array.shape[world_axis + 2 :])

        params = {
            name: spread(name, 0 if self.per_world[name] else None) if self.per_world[name] or name in names else value
            for name, value in self.params.items()
        }
        if copies not in self.twins:
            other = {} if self.precision == self.system.dtype else {"dtype": self.precision}
            self.twins[copies] = self.system.in_worlds(copies * worlds, **other)
        after = self.run(self.twins[copies], {n: spread(n, 0) for n in self.fields}, spread("control", 1), params)
        return [x.reshape(x.shape[0], copies, worlds, *x.shape[2:]) for x in after]


def precision_of_differences(system: System) -> str:
    """float64 if the System is available in it, else the System's own precision."""
    return "float64" if "dtype" in inspect.signature(system.in_worlds).parameters else str(system.dtype)


def _start(system: System, state, random: np.random.Generator) -> tuple[Any, list[np.ndarray]]:
    """The state to check at: its form, with None in place of each leaf, and the list of its leaves."""
    given = state is not None
    if not given:
        if not hasattr(system, "state"):
            raise PullbackError(f"give a state to check {type(system).__name__} at: it has no state() of its own")
        state = system.state()
    if not is_state(state):
        raise PullbackError(f"a state is a NamedTuple of arrays, not {type(state).__name__}")
    arrays = [np.array(to_numpy(x)) for x in leaves(state)]
    if not given:
        size = [SPREAD * np.maximum(1.0, np.abs(x)) if is_real(x) else 0 for x in arrays]
        arrays = [
            (x + s * random.standard_normal(x.shape)).astype(x.dtype) if is_real(x) else x
            for x, s in zip(arrays, size, strict=True)
        ]
    return tree_map(lambda leaf: None, state), arrays


def _controls(system: System, control, count: int, random: np.random.Generator) -> np.ndarray:
    """Controls (steps, worlds, nu) to check at."""
    shape = (count, system.worlds, system.nu)
    if control is None:
        model: Any = getattr(system, "model", None)
        draws = random.uniform(-1, 1, shape)
        usual = to_numpy(system.default_controls(count)) if hasattr(system, "default_controls") else np.zeros(shape)
        draws = np.where(usual == 0, draws, usual * (1 + SPREAD * draws))  # a laser's radius is not near zero
        own = hasattr(system, "control_range")  # a System around a robot, with controls of its own
        if hasattr(model, "control_limited") and model.nu == system.nu and not own:
            low, high = np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0)).T
            # well inside the limits, because a limit is a kink
            draws = (low + high) / 2 + 0.8 * draws * (high - low) / 2
        return draws.astype(system.dtype)
    controls = to_numbers(control, "control").astype(system.dtype)
    if controls.shape == shape[1:]:
        controls = np.repeat(controls[None], count, axis=0)
    if controls.shape != shape:
        raise PullbackError(f"control has shape {controls.shape}, but {shape[1:]} or {shape} is needed")
    return controls
