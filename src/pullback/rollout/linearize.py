"""Jacobians of every step of a motion."""

from __future__ import annotations

import numpy as np

from pullback.core.errors import PullbackError
from pullback.rollout.run import Run


def linearize_run(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """A (steps, worlds, n, n) and B (steps, worlds, n, nu): x ⊕ dx goes to x' ⊕ (A dx + B du) at each step.

    Tangents are those of the System's ``linearize``.
    """
    if run.steps == 0:
        raise PullbackError("there are no steps to linearise")
    parts = list(run.system.jacobians(run.every_state(), run.controls, run.params))
    return np.concatenate([part.A for part in parts]), np.concatenate([part.B for part in parts])
