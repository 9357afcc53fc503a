"""A trajectory that can be pulled back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.core.errors import PullbackError
from pullback.core.system import Bars, System


def rollout(
    system: System,
    state,
    controls=None,
    *,
    steps: int | None = None,
    checkpoint_every: int = 1,
    params: Mapping | None = None,
) -> Run:
    """Steps ``system`` from ``state`` under ``controls`` (steps, worlds, nu), or ``steps`` times without control.

    checkpoint_every: 1 keeps every state; k keeps every k-th (and the last) and steps the rest again on the way back,
    which gives the same gradients to the last bit in about 1/k of the memory.
    params: replaces some of the System's own parameters, e.g. {"mass": mass}.
    """
    if not isinstance(checkpoint_every, int | np.integer) or checkpoint_every < 1:
        raise PullbackError(f"checkpoint_every must be a whole number of at least 1, not {checkpoint_every!r}")
    if (controls is None) == (steps is None):
        raise PullbackError("give controls (steps, worlds, nu), or steps=N for a motion without control")
    if controls is None:
        controls = np.zeros((steps, system.worlds, system.nu), dtype=system.dtype)
    if not hasattr(controls, "shape"):
        controls = np.asarray(controls, dtype=system.dtype)
    if len(controls.shape) != 3:
        raise PullbackError(
            f"controls has shape {tuple(controls.shape)}, but (steps, worlds={system.worlds}, nu={system.nu}) is needed"
        )
    states = system.steps(state, controls, keep_every=int(checkpoint_every), params=params)
    return Run(system, states, controls, int(checkpoint_every), params)


class Run:
    """The result of :func:`rollout`. Its states are its attributes: ``run.q``, ``run.v`` for an articulated System.

    Their first axis is time: steps + 1 rows, or fewer with checkpoints; ``run.kept`` says which steps they are.
    """

    def __init__(self, system: System, states, controls, checkpoint_every: int, params: Mapping | None):
        self.system, self.states, self.controls = system, states, controls
        self.checkpoint_every, self.params = checkpoint_every, params
        self.steps = int(controls.shape[0])
        self._firsts = range(0, self.steps, checkpoint_every)  # the steps that pieces start at

    def __getattr__(self, name: str) -> Any:
        states = self.__dict__.get("states")
        if states is not None and name in states._fields:
            return getattr(states, name)
        raise AttributeError(name)

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

    def pullback(self, *, wants_params: bool = True, **bars) -> Bars:
        """Cotangents of the start, the controls and the parameters from those of the states.

        One keyword a field of the state, e.g. q_bar and v_bar: of shape (steps + 1, worlds, n), or (worlds, n) for the
        last state alone; zero if left out. wants_params=False saves the time that parameters take.
        """
        fields = self.states._fields
        unknown = set(bars) - {f"{name}_bar" for name in fields}
        if unknown:
            raise PullbackError(f"{unknown.pop()!r} is not known: use {', '.join(f'{name}_bar' for name in fields)}")
        if all(bar is None for bar in bars.values()):
            raise PullbackError(f"give at least one of {', '.join(f'{name}_bar' for name in fields)}")
        final_bar, every_bar = [], []
        for name, kept in zip(fields, self.states, strict=True):
            last, every = self._split_bar(name, bars.get(f"{name}_bar"), kept)
            final_bar.append(last)
            every_bar.append(every)
        state = type(self.states)
        backward = self.system.backward(
            self.controls, self.final, state(*final_bar), params=self.params, wants_params=wants_params
        )
        if any(bar is not None for bar in every_bar):
            # a field given for the last state alone is zero at all others
            every_bar = [
                np.zeros((self.steps + 1, *kept.shape[1:]), kept.dtype) if bar is None else bar
                for bar, kept in zip(every_bar, self.states, strict=True)
            ]
        else:
            every_bar = None
        if self.checkpoint_every == 1:
            backward.through(self.states, 0, self.steps, None if every_bar is None else state(*every_bar))
        else:
            for index in reversed(range(len(self._firsts))):
                first, end = self._bounds(index)
                rows = None if every_bar is None else state(*(bar[first : end + 1] for bar in every_bar))
                backward.through(self.piece(index), first, end, rows)
        return backward.finish(self._row(0))

    def _split_bar(self, name: str, bar, kept):
        """The cotangent of the last state, and of every state if there is one."""
        one = tuple(kept.shape[1:])
        if bar is None:
            return np.zeros(one, self.system.dtype), None
        if not hasattr(bar, "shape"):
            bar = np.asarray(bar, dtype=self.system.dtype)
        if tuple(bar.shape) == one:
            return bar, None
        if tuple(bar.shape) != (self.steps + 1, *one):
            raise PullbackError(
                f"{name}_bar has shape {tuple(bar.shape)}, but {(self.steps + 1, *one)} for every state "
                f"or {one} for the last is needed"
            )
        return bar[self.steps], bar
