"""A trajectory that can be pulled back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from pullback.core.arrays import checked, full_shape, to_numbers, to_numpy
from pullback.core.bars import Bars
from pullback.core.checks import check_kind, check_whole, unknown
from pullback.core.errors import PullbackError
from pullback.core.status import Status
from pullback.core.system import System, check_inputs
from pullback.core.trees import is_state, leaf_names, leaves, row, stack, tree_map
from pullback.rollout.push import pushforward

# With held controls, a rollout keeps the states at control steps only. The backward pass recomputes the timesteps in
# between, at most this many at once (or as many as there are control steps): launches stay large and memory bounded.
HELD_TIMESTEPS = 256


def rollout(
    system: System,
    state,
    controls=None,
    *,
    steps: int | None = None,
    hold: int = 1,
    checkpoint_every: int | str | tuple[int, ...] = 1,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    on_failure: str = "raise",
) -> Run:
    """Steps ``system`` from ``state`` under ``controls`` (steps, worlds, nu), or ``steps`` times without control.

    hold: number of timesteps for which each control is held. Steps, in checkpoints, cotangents and rows of the states,
    then are control steps of ``hold`` timesteps.
    checkpoint_every: 1 keeps every state. k keeps every k-th state and the last; the backward pass recomputes the
    others, which gives the same gradients to the last bit in about 1/k of the memory. "sqrt" chooses k so that memory
    grows like the square root of the number of steps. A decreasing sequence of numbers sets several levels: with
    (1000, 100), one state in 1000 is kept, and the backward pass recomputes 1000 steps to keep one in 100 of those, and
    so on. Every level adds the time of one forward pass.
    params: replaces some of the System's own parameters, e.g. {"mass": mass}.
    inputs: other inputs besides the controls, (steps, worlds, ...) by name, as in ``system.inputs``: for a robot
    {"force": (steps, worlds, nv)} and {"wrench": (steps, worlds, nbody, 6)}.
    on_failure: "raise": a world that fails (it blows up, its contact solver does not converge, or there are too many
    contacts) raises a SimulationError. "mask": such a world keeps its last state, ``run.status`` says which world
    failed, when and why, and its cotangents are zero, as are those of a world whose gradient is not finite.

    Controls and inputs are kept for the backward pass without a copy: do not change these arrays before ``pullback``.
    """
    if not isinstance(system, System):
        raise PullbackError(f"rollout needs a System, such as pb.Articulated(model), not {type(system).__name__}")
    if (controls is None) == (steps is None):
        raise PullbackError("give controls (steps, worlds, nu), or steps=N for a trajectory without control")
    if controls is None:
        controls = system.default_controls(check_whole(steps, "steps", 0))
    controls = _own_controls(system, controls)
    held = system.hold_params(params)  # the backward pass needs these values even if the System's parameters change
    levels = checkpoint_levels(checkpoint_every, controls.shape[0])
    hold = check_whole(hold, "hold")
    inputs = check_inputs(system, inputs, controls.shape[0])
    status = status_for(on_failure)
    given: dict[str, Any] = {"inputs": inputs, "status": status}
    given = {name: x for name, x in given.items() if x is not None}
    states = system.steps(state, controls, keep_every=hold * levels[0], hold=hold, params=held, **given)
    return Run(system, states, controls, levels, held, hold, inputs, status)


def status_for(on_failure: str) -> Status | None:
    """An empty Status for "mask"; None for "raise"."""
    if on_failure not in ("raise", "mask"):
        raise PullbackError(f"on_failure is 'raise' or 'mask', not {on_failure!r}")
    return Status() if on_failure == "mask" else None


def _own_controls(system: System, controls):
    """Controls in the System's precision, so that their cotangents have it too."""
    if isinstance(controls, wp.array) and not controls.device.is_cpu:
        return controls
    controls = to_numbers(controls, "controls")
    if controls.ndim != 3:
        raise PullbackError(
            f"controls has shape {controls.shape}, but (steps, worlds={system.worlds}, nu={system.nu}) is needed"
        )
    return np.asarray(controls, dtype=system.dtype)


def checkpoint_levels(checkpoint_every, steps: int) -> tuple[int, ...]:
    """The argument ``checkpoint_every`` of a rollout as a tuple of numbers of steps, largest first."""
    if isinstance(checkpoint_every, str) and checkpoint_every == "sqrt":
        return (max(1, math.isqrt(max(steps, 1) - 1) + 1),)
    levels = checkpoint_every if isinstance(checkpoint_every, tuple) else (checkpoint_every,)
    whole = all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 1 for k in levels)
    if not levels or not whole or any(a <= b for a, b in zip(levels[:-1], levels[1:], strict=True)):
        raise PullbackError(
            f"checkpoint_every must be a whole number of at least 1, 'sqrt', or such numbers that fall, not "
            f"{checkpoint_every!r}"
        )
    return tuple(dict.fromkeys(min(int(k), max(steps, 1)) for k in levels))


class Run:
    """The result of :func:`rollout`. Its states are its attributes: ``run.q``, ``run.v`` for an articulated System.

    Their first axis is time: steps + 1 rows, or fewer with checkpoints; ``run.kept`` says which steps they are.
    """

    def __init__(
        self,
        system: System,
        states,
        controls,
        checkpoint_every,
        params,
        hold: int = 1,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ):
        self.system, self.controls, self.params, self.hold = system, controls, params, hold
        self.inputs, self.status = inputs or {}, status
        self.states = tree_map(_read_only, states)  # the backward pass starts from them
        self.steps = int(controls.shape[0])
        self.levels = checkpoint_levels(checkpoint_every, self.steps)
        self.checkpoint_every = self.levels[0]
        self._firsts = range(0, self.steps, self.checkpoint_every)  # the first step of each piece between kept states

    def __repr__(self) -> str:
        shapes = zip(leaf_names(self.states), leaves(self.states), strict=True)
        fields = ", ".join(f"{name} {tuple(x.shape)}" for name, x in shapes)
        every = "" if self.checkpoint_every == 1 else f", one state in {self.checkpoint_every} kept"
        held = "" if self.hold == 1 else f", {self.hold} timesteps each"
        return f"Run({self.steps} steps{held} of {type(self.system).__name__}{every}: {fields})"

    def __getattr__(self, name: str) -> Any:
        states = self.__dict__.get("states")
        if states is not None and name in states._fields:
            return getattr(states, name)
        if states is None or name.startswith("_"):  # during a copy, or a name that Python itself looks for
            raise AttributeError(name)
        public = (*states._fields, *vars(self), *(other for other in vars(Run) if not callable(getattr(Run, other))))
        methods = [f"{other}()" for other in vars(Run) if callable(getattr(Run, other))]
        known = [other for other in (*public, *methods) if not other.startswith("_")]
        raise AttributeError(unknown("attribute of a Run", name, known))

    def __getstate__(self) -> dict:
        """For copies and pickles: arrays become NumPy's, which a System accepts on any device."""
        inputs = {name: to_numpy(x) for name, x in self.inputs.items()}
        own = {"states": tree_map(to_numpy, self.states), "controls": to_numpy(self.controls), "inputs": inputs}
        return {**self.__dict__, **own}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, states=tree_map(_read_only, state["states"]))

    @property
    def kept(self) -> np.ndarray:
        """The steps whose states were kept, one per row of the states."""
        return np.append(self._firsts, self.steps)

    @property
    def final(self):
        """The last state."""
        return row(self.states, len(self._firsts))

    def _bounds(self, index: int) -> tuple[int, int]:
        first = self._firsts[index]
        return first, min(first + self.checkpoint_every, self.steps)

    def piece(self, index: int):
        """All states from one kept state to the next, both included; recomputed if they were not kept."""
        first, end = self._bounds(index)
        if end - first == 1:
            return row(self.states, slice(index, index + 2))
        return self._held_back(self._step_again(row(self.states, index), first, end), self.hold * first)

    def _held_back(self, states, timestep: int):
        """States from a timestep on; worlds that failed earlier keep the first of them."""
        if self.status is None or not np.any(gone := self.status.failed & (self.status.step < timestep)):
            return states
        stay = lambda x: np.where(gone.reshape(1, -1, *(1,) * (x.ndim - 2)), x[:1], x)  # noqa: E731
        return tree_map(lambda x: stay(to_numpy(x)), states)

    def every_state(self):
        """The states of all steps; recomputed if they were not kept."""
        if self.checkpoint_every == 1:
            return self.states
        return self._step_again(row(self.states, 0), 0, self.steps)

    def timesteps(self) -> Run:
        """The same run with one control per timestep, so that ``hold`` is 1."""
        if self.hold == 1:
            return self
        states = self._step_again(row(self.states, 0), 0, self.steps, keep_every=1)
        each = lambda x: np.repeat(to_numpy(x), self.hold, axis=0)  # noqa: E731
        return Run(self.system, states, each(self.controls), 1, self.params, status=self.status, **self._given(each))

    def _step_again(self, start, first: int, end: int, keep_every: int | None = None):
        """The states from step ``first`` to ``end``, recomputed: every keep_every-th timestep; None: control steps."""
        keep_every = self.hold if keep_every is None else keep_every
        return self.system.steps(
            start,
            self.controls[first:end],
            keep_every=keep_every,
            hold=self.hold,
            params=self.params,
            **self._given(lambda x: x[first:end], status=Status()),  # a new status: failures are known already
        )

    def _given(self, take=lambda x: x, status: Status | None = None) -> dict[str, Any]:
        """Keywords: the inputs mapped by ``take``, if there are any, and the status, if failed worlds are masked."""
        inputs = {"inputs": {name: take(x) for name, x in self.inputs.items()}} if self.inputs else {}
        return inputs if status is None or self.status is None else {**inputs, "status": status}

    def contacts(self, step: int):
        """The contacts during a step, one :class:`~pullback.contact.ContactPoints` per world: points, normals, forces.

        Steps count from 0; -1 is the last.
        """
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or not -self.steps <= step < self.steps:
            raise PullbackError(
                f"step must be a whole number from 0 to {self.steps - 1}, or from the end, -1 to {-self.steps}, not "
                f"{step!r}"
                if self.steps
                else "there are no steps, and so no contacts during one"
            )
        step = int(step) % self.steps
        if not hasattr(self.system, "contacts"):
            raise PullbackError(f"{type(self.system).__name__} has no contacts")
        index = step // self.checkpoint_every
        state = row(self.piece(index), step - self._firsts[index])
        return self.system.contacts(state, self.controls[step], params=self.params, **self._given(lambda x: x[step]))

    def pullback(self, *, wants_params: bool = True, **bars) -> Bars:
        """Cotangents of the initial state, controls, parameters and given inputs, from cotangents of the states.

        There is one keyword per field of the state, e.g. q_bar and v_bar. For a field (worlds, ...), a cotangent has
        shape (steps + 1, worlds, ...) for all states, (len(kept), worlds, ...) for those that were kept, or (worlds,
        ...) for the last state only; it is zero if left out. It can also be a function f(steps, states), which returns
        the cotangents (k, worlds, ...) at k steps (k,) from the states there. It is called for all steps, some at a
        time and the last first, so that only a part is in memory. For a field that is a NamedTuple, the cotangent is
        such a NamedTuple, with any of these forms, or None, for each of its arrays. wants_params=False saves the time
        for parameters.
        """
        check_kind(wants_params, bool, "wants_params")
        given, final_bar = self._take_bars(bars)
        backward = self._backward(final_bar, wants_params)
        if self.checkpoint_every == self.hold == 1:
            backward.through(self.states, 0, self.steps, self._rows_of(given, 0, self.steps, self.states))
        elif self.checkpoint_every == 1:
            length = max(1, max(self.steps, HELD_TIMESTEPS) // self.hold)
            for first in reversed(range(0, self.steps, length)):
                self._back_through(backward, given, row(self.states, first), first, min(first + length, self.steps), ())
        else:
            for index in reversed(range(len(self._firsts))):
                self._back_through(backward, given, row(self.states, index), *self._bounds(index), self.levels[1:])
        result = backward.finish(row(self.states, 0))
        if self.steps == 0:  # the last state is the initial state, in the caller's form
            return replace(result, state=final_bar)
        return result

    def _backward(self, final_bar, wants_params: bool):
        return self.system.backward(
            self.controls,
            self.final,
            final_bar,
            hold=self.hold,
            params=self.params,
            wants_params=wants_params,
            **self._given(status=self.status),
        )

    def _back_through(self, backward, given, start, first: int, end: int, levels: tuple[int, ...]) -> None:
        """Pulls back from step ``end`` to ``first``, whose state is ``start``. ``levels``: finer checkpoint levels."""
        if not levels or levels[0] >= end - first:
            states, hold = self._step_again(start, first, end, keep_every=1), self.hold
            bars = self._rows_of(given, first, end, row(states, slice(None, None, hold)))
            if bars is not None and hold > 1:
                bars = tree_map(partial(_spread, hold=hold), bars)
            backward.through(states, hold * first, hold * end, bars)
            return
        kept = self._step_again(start, first, end, keep_every=self.hold * levels[0])
        for index in reversed(range(len(range(first, end, levels[0])))):
            a = first + index * levels[0]
            self._back_through(backward, given, row(kept, index), a, min(a + levels[0], end), levels[1:])

    def adjoints(self, at, **bars):
        """Cotangents of the states at the steps ``at`` (n,), as a state with fields (n, worlds, ...).

        They are the gradients of the loss with respect to those states, with the rest of the trajectory following from
        each. ``bars`` are as for :meth:`pullback`. The run must have kept all states.
        """
        asked = np.asarray(at)
        if (
            asked.ndim != 1
            or not len(asked)
            or asked.dtype.kind not in "iu"
            or np.any((asked < 0) | (asked > self.steps))
        ):
            raise PullbackError(f"at must be a list of whole numbers from 0 to {self.steps}, not {at!r}")
        if not self.checkpoint_every == self.hold == 1:
            raise PullbackError("adjoints needs all states: make the rollout with checkpoint_every=1 and hold=1")
        given, final_bar = self._take_bars(bars)
        backward = self._backward(final_bar, wants_params=False)
        found, end = {self.steps: tree_map(to_numpy, final_bar)}, self.steps
        for first in sorted(set(asked.tolist()) - {self.steps}, reverse=True):
            piece = row(self.states, slice(first, end + 1))
            backward.through(piece, first, end, self._rows_of(given, first, end, piece))
            bar = backward.finish(row(self.states, first)).state
            found[first], end = tree_map(lambda x: np.array(to_numpy(x)), bar), first
        return stack([found[step] for step in asked.tolist()])

    def _take_bars(self, bars: Mapping):
        """A caller's cotangents, checked, as a state of :class:`Cotangent`; and the cotangent of the last state."""
        fields = self.states._fields
        unknown = set(bars) - {f"{name}_bar" for name in fields}
        known = ", ".join(f"{name}_bar" for name in fields)
        if unknown:
            raise PullbackError(f"{unknown.pop()!r} is not known: use {known}")
        if all(bar is None for bar in bars.values()):
            raise PullbackError(f"give at least one of {known}")
        values = (bars.get(f"{name}_bar") for name in fields)
        pairs = zip(fields, values, self.states, strict=True)
        given = type(self.states)(*(self.cotangents(f"{name}_bar", bar, kept) for name, bar, kept in pairs))
        return given, tree_map(self.last_bar, given, self.states)

    def cotangents(self, name: str, bar, kept=None):
        """The cotangent of one field, checked, in any form that :meth:`pullback` accepts; a NamedTuple if it is one."""
        kept = getattr(self.states, name.removesuffix("_bar")) if kept is None else kept
        if not is_state(kept):
            return self._checked_bar(name, bar, kept)
        if bar is not None and getattr(bar, "_fields", None) != kept._fields:
            raise PullbackError(f"{name} must be a {type(kept).__name__} of cotangents, not {type(bar).__name__}")
        parts = zip(kept._fields, [None] * len(kept) if bar is None else bar, kept, strict=True)
        return type(kept)(*(self.cotangents(f"{name}.{part}", x, k) for part, x, k in parts))

    def _rows_of(self, given, first: int, end: int, states):
        """Cotangents of the states from step first to end; None if only the last state of the run has one."""
        if all(bar.form in (NONE, LAST) for bar in leaves(given)):
            return None
        return tree_map(lambda bar, kept: self._rows(bar, kept, first, end, states), given, self.states)

    def _asked(self, bar, steps: np.ndarray, states, one: tuple[int, ...]):
        """The result of a caller's cotangent function for the states at some steps, checked."""
        rows = bar(steps, states)
        if not hasattr(rows, "shape"):
            rows = to_numbers(rows, "a cotangent")
        if full_shape(rows) != (len(steps), *one):
            raise PullbackError(
                f"a cotangent function gave shape {full_shape(rows)}, but {(len(steps), *one)} is needed"
            )
        if isinstance(rows, wp.array) and not rows.device.is_cpu:
            return rows
        return checked(rows, (len(steps), *one), self.system.dtype, "a cotangent", ("row", *_axes(one)))

    def pushforward(self, *, state=None, controls=None, params: Mapping | None = None) -> np.ndarray:
        """Tangents (steps + 1, worlds, 2nv, n) of all states, from n tangents of the start, controls or parameters.

        The tangent of a state is [dq; dv], where dq moves q as a velocity would in unit time. Give at least one of
        state:     (worlds, 2nv, n), of the start
        controls:  (steps, worlds, nu, n)
        params:    by name, e.g. {"mass": (worlds, nbody, n)}, or (nbody, n) for the same in all worlds

        Use this for the full Jacobian of many states by few variables, as in least squares. It costs 2nv pullbacks of
        the run for any number of variables.
        """
        return pushforward(self, state, controls, params)

    def _checked_bar(self, name: str, bar, kept) -> Cotangent:
        if bar is None:
            return Cotangent(NONE)
        if callable(bar) and not hasattr(bar, "shape"):
            return Cotangent(FUNCTION, bar)
        if not hasattr(bar, "shape"):
            bar = to_numbers(bar, name)
        one, shape = full_shape(kept)[1:], full_shape(bar)
        shapes = {EVERY: (self.steps + 1, *one), KEPT: (len(self._firsts) + 1, *one), LAST: one}
        form = next((form for form, wanted in shapes.items() if shape == wanted), None)
        if form is None:
            raise PullbackError(
                f"{name} has shape {shape}, but {shapes[EVERY]} for every state"
                + (f", {shapes[KEPT]} for those kept" if shapes[KEPT] != shapes[EVERY] else "")
                + f" or {one} for the last is needed"
            )
        if isinstance(bar, wp.array) and not bar.device.is_cpu:
            return Cotangent(form, bar)
        axes = () if form == LAST else ("step",)
        return Cotangent(form, checked(bar, shape, self.system.dtype, name, (*axes, *_axes(one))))

    def last_bar(self, bar: Cotangent, kept) -> Any:
        """The cotangent of the last state, for one array of the state; ``kept`` are its kept values."""
        one = full_shape(kept)[1:]
        if bar.form == NONE:
            return np.zeros(one, dtype=self.system.dtype)
        if bar.form == FUNCTION:
            final = row(self.states, slice(len(self._firsts), None))
            return self._asked(bar.value, np.array([self.steps]), final, one)[0]
        return bar.value if bar.form == LAST else bar.value[bar.value.shape[0] - 1]

    def every_bar(self, bar: Cotangent, kept) -> np.ndarray:
        """The cotangents of the states at all steps, for one array of the state; ``kept`` are its kept values."""
        if bar.form == FUNCTION:
            return to_numpy(self._asked(bar.value, np.arange(self.steps + 1), self.every_state(), full_shape(kept)[1:]))
        every = np.zeros((self.steps + 1, *full_shape(kept)[1:]), dtype=self.system.dtype)
        if bar.form != NONE:
            rows: dict[str, Any] = {LAST: -1, KEPT: self.kept, EVERY: slice(None)}
            every[rows[bar.form]] = to_numpy(bar.value)
        return every

    def _rows(self, bar: Cotangent, kept, first: int, end: int, states):
        """The cotangents of the states from step first to end, both included; that of the last one is not read."""
        if bar.form == FUNCTION:
            before = row(states, slice(end - first))
            return self._asked(bar.value, np.arange(first, end), before, full_shape(kept)[1:])
        if bar.form == EVERY:
            return bar.value[first : end + 1]
        rows = np.zeros((end - first + 1, *full_shape(kept)[1:]), dtype=self.system.dtype)
        # No state inside of a piece was kept, at any checkpoint level.
        if bar.form == KEPT and first % self.checkpoint_every == 0:
            rows[0] = to_numpy(bar.value[self._firsts.index(first)])
        return rows


NONE, LAST, KEPT, EVERY, FUNCTION = "none", "last", "kept", "every", "function"


@dataclass(frozen=True)
class Cotangent:
    """A checked cotangent of one array of the state: its value, and the steps it is for."""

    form: str  # NONE, LAST, KEPT, EVERY or FUNCTION
    value: Any = None


def _axes(one: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the axes of an array (worlds, ...), for messages."""
    return ("worlds", *("entry" if len(one) == 2 else f"axis {i}" for i in range(1, len(one))))


def _spread(rows, hold: int):
    """Cotangents at control steps as cotangents at all timesteps, with zeros in between."""
    shape = (hold * rows.shape[0], *rows.shape[1:])
    if isinstance(rows, wp.array):
        result = wp.zeros(shape, dtype=rows.dtype, device=rows.device)
        wp.copy(result[::hold], rows)
        return result
    result = np.zeros(shape, dtype=rows.dtype)
    result[::hold] = rows
    return result


def _read_only(x):
    """A view that cannot be written to. Arrays on CUDA have no such views."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x
