"""Jacobians of every step of a trajectory."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.trees import tree_map
from pullback.rollout.push import refuse_inputs
from pullback.rollout.run import Run, rollout


def linearize_run(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Jacobians A (steps, worlds, n, n) and B (steps, worlds, n, nu) of every step of a run.

    A step maps x ⊕ dx to x' ⊕ (A dx + B du). Tangents are those of the System's ``linearize``.
    """
    if run.steps == 0:
        raise PullbackError("there are no steps to linearise")
    refuse_inputs(run, "linearize_run")
    run, hold = run.timesteps(), run.hold
    parts = list(run.system.jacobians(run.every_state(), run.controls, run.params))
    A, B = np.concatenate([part.A for part in parts]), np.concatenate([part.B for part in parts])
    first, driven = A[::hold], B[::hold]
    for k in range(1, hold):
        first, driven = A[k::hold] @ first, A[k::hold] @ driven + B[k::hold]
    return first, driven


def side_by_side(system, states, controls) -> Run:
    """Every step of a one-world trajectory as a world of its own: the run of one step in all of these worlds.

    system: with as many worlds as the trajectory has steps
    states: (steps + 1, 1, ...), which need not follow from each other; the last is not used
    controls: (steps, 1, nu)
    """
    start = tree_map(lambda x: np.ascontiguousarray(to_numpy(x)[:-1, 0]), states)
    return rollout(system, start, np.ascontiguousarray(to_numpy(controls)[:, 0])[None])
