"""Jacobians of every step of a motion, and how well its states belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout.run import Run

# Steps that are linearised at once: enough to keep a processor busy, few enough that memory does not follow the motion.
TOGETHER = 64

Worlds = Callable[[int], System] | None


def linearize_run(run: Run, in_worlds: Worlds = None) -> tuple[np.ndarray, np.ndarray]:
    """A (steps, n, n) and B (steps, n, nu) of a motion in one world, whose states were all kept.

    x ⊕ dx goes to x' ⊕ (A dx + B du); tangents are those of the System's ``linearize``, parameters are its own.
    in_worlds: makes the System in a number of worlds, for those who keep it; the System's own ``in_worlds`` if None.
    """
    found = [system.linearize(state, control) for system, _, state, control in _pieces(run, in_worlds)]
    A, B = (np.concatenate(parts)[: run.steps] for parts in zip(*found, strict=True))
    return A, B


def gaps(run: Run, in_worlds: Worlds = None) -> np.ndarray:
    """From each state but the first to where the step before it leads (steps, n); zero but for states made up by hand.

    Other than that, as :func:`linearize_run`.
    """
    found = []
    for system, rows, state, control in _pieces(run, in_worlds):
        after = type(state)(*(to_numpy(field)[rows + 1, 0] for field in run.states))
        found.append(system.difference(after, system.step(state, control)))
    return np.concatenate(found)[: run.steps]


def _pieces(run: Run, in_worlds: Worlds) -> Iterator[tuple[System, np.ndarray, tuple, np.ndarray]]:
    """A System with a world a step, which steps, and their states and controls."""
    if run.system.worlds != 1 or run.checkpoint_every != 1:
        raise PullbackError("only a motion in one world, with all states kept, can be linearised step by step")
    if run.steps == 0:
        raise PullbackError("there are no steps to linearise")
    together = min(TOGETHER, run.steps)
    system = (in_worlds or run.system.in_worlds)(together)
    for first in range(0, run.steps, together):
        # the last ones again where the motion is shorter, since a System has a fixed number of worlds
        rows = np.minimum(np.arange(first, first + together), run.steps - 1)
        state = type(run.states)(*(to_numpy(field)[rows, 0] for field in run.states))
        yield system, rows, state, to_numpy(run.controls)[rows, 0]
