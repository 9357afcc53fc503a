"""A trajectory that can be pulled back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from pullback.core.arrays import checked, to_numbers, to_numpy
from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import Bars, System
from pullback.rollout.push import pushforward


def rollout(
    system: System,
    state,
    controls=None,
    *,
    steps: int | None = None,
    checkpoint_every: int | str | tuple[int, ...] = 1,
    params: Mapping | None = None,
) -> Run:
    """Steps ``system`` from ``state`` under ``controls`` (steps, worlds, nu), or ``steps`` times without control.

    checkpoint_every: 1 keeps every state; k keeps every k-th (and the last) and steps the rest again on the way back,
    which gives the same gradients to the last bit in about 1/k of the memory. "sqrt" chooses k so that memory grows
    like the square root of the number of steps. Several numbers, each smaller than the one before, are levels: with
    (1000, 100) one state in 1000 is kept, and on the way back 1000 steps are stepped again to keep one in 100 of
    those, and so on. Every level adds the time of one motion.
    params: replaces some of the System's own parameters, e.g. {"mass": mass}.

    The controls are kept for the way back, not copied: do not change the array before ``pullback``.
    """
    if not isinstance(system, System):
        raise PullbackError(f"rollout needs a System, such as pb.Articulated(model), not {type(system).__name__}")
    if (controls is None) == (steps is None):
        raise PullbackError("give controls (steps, worlds, nu), or steps=N for a motion without control")
    if controls is None:
        controls = system.default_controls(check_whole(steps, "steps", 0))
    if not hasattr(controls, "shape"):
        controls = to_numbers(controls, "controls")
    if len(controls.shape) != 3:
        raise PullbackError(
            f"controls has shape {tuple(controls.shape)}, but (steps, worlds={system.worlds}, nu={system.nu}) is needed"
        )
    held = system.hold_params(params)  # so that the way back is right even if the System's parameters change meanwhile
    levels = checkpoint_levels(checkpoint_every, controls.shape[0])
    states = system.steps(state, controls, keep_every=levels[0], params=held)
    return Run(system, states, controls, levels, held)


def checkpoint_levels(checkpoint_every, steps: int) -> tuple[int, ...]:
    """The argument of the same name as numbers of steps, the longest first."""
    if isinstance(checkpoint_every, str) and checkpoint_every == "sqrt":
        return (max(1, math.isqrt(max(steps, 1) - 1) + 1),)
    levels = checkpoint_every if isinstance(checkpoint_every, tuple) else (checkpoint_every,)
    whole = all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 1 for k in levels)
    if not levels or not whole or any(a <= b for a, b in zip(levels[:-1], levels[1:], strict=True)):
        raise PullbackError(
            f"checkpoint_every must be a whole number of at least 1, 'sqrt', or such numbers that fall, not "
            f"{checkpoint_every!r}"
        )
    return tuple(min(int(k), max(steps, 1)) for k in levels)


class Run:
    """The result of :func:`rollout`. Its states are its attributes: ``run.q``, ``run.v`` for an articulated System.

    Their first axis is time: steps + 1 rows, or fewer with checkpoints; ``run.kept`` says which steps they are.
    """

    def __init__(self, system: System, states, controls, checkpoint_every, params):
        self.system, self.states, self.controls, self.params = system, states, controls, params
        self.steps = int(controls.shape[0])
        self.levels = checkpoint_levels(checkpoint_every, self.steps)
        self.checkpoint_every = self.levels[0]
        self._firsts = range(0, self.steps, self.checkpoint_every)  # the steps that pieces start at

    def __repr__(self) -> str:
        fields = ", ".join(f"{n} {tuple(x.shape)}" for n, x in zip(self.states._fields, self.states, strict=True))
        every = "" if self.checkpoint_every == 1 else f", one state in {self.checkpoint_every} kept"
        return f"Run({self.steps} steps of {type(self.system).__name__}{every}: {fields})"

    def __getattr__(self, name: str) -> Any:
        states = self.__dict__.get("states")
        if states is not None and name in states._fields:
            return getattr(states, name)
        raise AttributeError(name)

    def __getstate__(self) -> dict:
        """For copies and pickles, whose arrays are NumPy's: a System takes those as well as a GPU's."""
        states = type(self.states)(*(to_numpy(field) for field in self.states))
        return {**self.__dict__, "states": states, "controls": to_numpy(self.controls)}

    @property
    def kept(self) -> np.ndarray:
        """The steps whose states were kept, one a row."""
        return np.append(self._firsts, self.steps)

    def _row(self, row: int):
        return type(self.states)(*(field[row] for field in self.states))

    @property
    def final(self):
        """The last state."""
        return self._row(len(self._firsts))

    def _bounds(self, index: int) -> tuple[int, int]:
        first = self._firsts[index]
        return first, min(first + self.checkpoint_every, self.steps)

    def piece(self, index: int):
        """All states from one kept state to the next, both included, stepped again if they were not kept."""
        first, end = self._bounds(index)
        if end - first == 1:
            return type(self.states)(*(field[index : index + 2] for field in self.states))
        return self.system.steps(self._row(index), self.controls[first:end], params=self.params)

    def every_state(self):
        """The states of all steps, stepped again if they were not kept."""
        if self.checkpoint_every == 1:
            return self.states
        return self.system.steps(self._row(0), self.controls, params=self.params)

    def contacts(self, step: int):
        """The contacts during a step, one :class:`~pullback.contact.ContactPoints` a world: points, normals, forces.

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
        states = self.piece(index)
        state = type(self.states)(*(field[step - self._firsts[index]] for field in states))
        return self.system.contacts(state, self.controls[step], params=self.params)

    def pullback(self, *, wants_params: bool = True, **bars) -> Bars:
        """Cotangents of the start, the controls and the parameters from those of the states.

        One keyword a field of the state, e.g. q_bar and v_bar. Each has shape (steps + 1, worlds, n) for every state,
        (len(kept), worlds, n) for those that were kept, or (worlds, n) for the last alone; zero if left out. Or
        it is a function f(steps, states), which gives the cotangents (k, worlds, n) at k steps (k,) from the states
        there: it is called for all steps, some at a time and the last first, so that only a piece is in memory.
        wants_params=False saves the time that parameters take.
        """
        check_kind(wants_params, bool, "wants_params")
        given, final_bar = self._take_bars(bars)
        backward = self.system.backward(
            self.controls, self.final, final_bar, params=self.params, wants_params=wants_params
        )
        if self.checkpoint_every == 1:
            backward.through(self.states, 0, self.steps, self._rows_of(given, 0, self.steps, self.states))
        else:
            for index in reversed(range(len(self._firsts))):
                self._back_through(backward, given, self._row(index), *self._bounds(index), self.levels[1:])
        result = backward.finish(self._row(0))
        if self.steps == 0:  # the last state is the start, as it was given
            return Bars(final_bar, result.control, result.params)
        return result

    def _back_through(self, backward, given, start, first: int, end: int, levels: tuple[int, ...]) -> None:
        """From step ``end`` back to ``first``, whose state is ``start``; ``levels`` are those still to come."""
        controls = self.controls[first:end]
        if not levels or levels[0] >= end - first:
            states = self.system.steps(start, controls, params=self.params)
            backward.through(states, first, end, self._rows_of(given, first, end, states))
            return
        kept = self.system.steps(start, controls, keep_every=levels[0], params=self.params)
        for row in reversed(range(len(range(first, end, levels[0])))):
            a = first + row * levels[0]
            state = type(kept)(*(field[row] for field in kept))
            self._back_through(backward, given, state, a, min(a + levels[0], end), levels[1:])

    def adjoints(self, at, **bars):
        """Cotangents of the states at the steps ``at`` (n,): how the loss changes if the motion is moved there and goes
        on by itself. Fields (n, worlds, ...) as in the state; ``bars`` as for :meth:`pullback`.

        A run whose states were all kept is needed.
        """
        asked = np.asarray(at)
        if (
            asked.ndim != 1
            or not len(asked)
            or asked.dtype.kind not in "iu"
            or np.any((asked < 0) | (asked > self.steps))
        ):
            raise PullbackError(f"at must be a list of whole numbers from 0 to {self.steps}, not {at!r}")
        if self.checkpoint_every != 1:
            raise PullbackError("adjoints needs all states: make the rollout with checkpoint_every=1")
        given, final_bar = self._take_bars(bars)
        backward = self.system.backward(self.controls, self.final, final_bar, params=self.params, wants_params=False)
        found, end = {self.steps: type(self.states)(*(to_numpy(bar) for bar in final_bar))}, self.steps
        for first in sorted(set(asked.tolist()) - {self.steps}, reverse=True):
            piece = type(self.states)(*(field[first : end + 1] for field in self.states))
            backward.through(piece, first, end, self._rows_of(given, first, end, piece))
            bar = backward.finish(self._row(first)).state
            found[first], end = type(self.states)(*(np.array(to_numpy(x)) for x in bar)), first
        rows = [found[step] for step in asked.tolist()]
        return type(self.states)(*(np.stack(field) for field in zip(*rows, strict=True)))

    def _take_bars(self, bars: Mapping):
        """The cotangents of a caller, checked, one a field or None; and those of the last state."""
        state = type(self.states)
        unknown = set(bars) - {f"{name}_bar" for name in state._fields}
        known = ", ".join(f"{name}_bar" for name in state._fields)
        if unknown:
            raise PullbackError(f"{unknown.pop()!r} is not known: use {known}")
        if all(bar is None for bar in bars.values()):
            raise PullbackError(f"give at least one of {known}")
        given = state(*(self._checked_bar(name, bars.get(f"{name}_bar")) for name in state._fields))
        return given, state(*(self._last(bar, kept) for bar, kept in zip(given, self.states, strict=True)))

    def _rows_of(self, given, first: int, end: int, states):
        """Cotangents of the states from first to end, or None if only the last state of the run has one."""
        if all(bar is None or (not callable(bar) and len(bar.shape) == 2) for bar in given):
            return None
        return type(given)(*(self._rows(b, k, first, end, states) for b, k in zip(given, self.states, strict=True)))

    def _asked(self, bar, steps: np.ndarray, states, one: tuple[int, ...]):
        """What a function of the caller's gives for the states of some steps."""
        rows = bar(steps, states)
        if not hasattr(rows, "shape"):
            rows = to_numbers(rows, "a cotangent")
        if tuple(rows.shape) != (len(steps), *one):
            raise PullbackError(
                f"a cotangent function gave shape {tuple(rows.shape)}, but {(len(steps), *one)} is needed"
            )
        if isinstance(rows, wp.array) and not rows.device.is_cpu:
            return rows
        return checked(rows, (len(steps), *one), self.system.dtype, "a cotangent", ("row", "worlds", "entry"))

    def pushforward(self, *, state=None, controls=None, params: Mapping | None = None) -> np.ndarray:
        """Tangents of all states (steps + 1, worlds, 2nv, n) from n tangents each of the start, controls, parameters.

        That of a state is [dq; dv], where dq moves q as a velocity would in unit time. Give at least one of
        state:     (worlds, 2nv, n), of the start
        controls:  (steps, worlds, nu, n)
        params:    by name, e.g. {"mass": (worlds, nbody, n)}, or (nbody, n) for the same in all worlds

        This is the Jacobian itself where many states and few variables matter, as in least squares. It costs 2nv
        pullbacks of the run, however many variables there are.
        """
        return pushforward(self, state, controls, params)

    def _checked_bar(self, name: str, bar):
        """A cotangent of one field, in one of the three shapes."""
        if bar is None or (callable(bar) and not hasattr(bar, "shape")):
            return bar
        if not hasattr(bar, "shape"):
            bar = to_numbers(bar, f"{name}_bar")
        one = tuple(getattr(self.states, name).shape[1:])
        shape = tuple(bar.shape)
        every, kept = (self.steps + 1, *one), (len(self._firsts) + 1, *one)
        if shape not in (one, every, kept):
            raise PullbackError(
                f"{name}_bar has shape {shape}, but {every} for every state"
                + (f", {kept} for those kept" if kept != every else "")
                + f" or {one} for the last is needed"
            )
        if isinstance(bar, wp.array) and not bar.device.is_cpu:
            return bar
        return checked(bar, shape, self.system.dtype, f"{name}_bar", ("step", "worlds", "entry")[-len(shape) :])

    def _last(self, bar, kept):
        """The cotangent of the last state."""
        one = tuple(kept.shape[1:])
        if bar is None:
            return np.zeros(one, dtype=to_numpy(kept[:0]).dtype)
        if callable(bar):
            row = len(self._firsts)
            final = type(self.states)(*(field[row : row + 1] for field in self.states))
            return self._asked(bar, np.array([self.steps]), final, one)[0]
        return bar if len(bar.shape) == 2 else bar[bar.shape[0] - 1]

    def _rows(self, bar, kept, first: int, end: int, states):
        """The cotangents of the states from first to end, both included; the last one's is not looked at."""
        if callable(bar):
            before = type(states)(*(field[: end - first] for field in states))
            return self._asked(bar, np.arange(first, end), before, tuple(kept.shape[1:]))
        if bar is not None and len(bar.shape) == 3 and bar.shape[0] == self.steps + 1:
            return bar[first : end + 1]
        rows = np.zeros((end - first + 1, *kept.shape[1:]), dtype=self.system.dtype)
        if bar is not None and len(bar.shape) == 3:
            # Inside a piece no state was kept, whatever the level.
            if first % self.checkpoint_every == 0:
                rows[0] = to_numpy(bar[self._firsts.index(first)])
        return rows
