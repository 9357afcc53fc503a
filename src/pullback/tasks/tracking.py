"""The loss that iLQR knows: how far states are from where they should be, and how hard it was to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.errors import PullbackError
from pullback.rollout import Run
from pullback.tasks.loss import Expansion, Loss
from pullback.tasks.terms import Effort, StateTerm, checked_weights


@dataclass(frozen=True)
class Tracking(StateTerm):
    """½ Σₜ eₜᵀ weights eₜ + ½ Σₜ uₜᵀ effort uₜ, where eₜ is the tangent (n,) from the goal to the state.

    goal:     a state such as ``pb.State(q, v)``, whose fields are (size,), or (steps + 1, size) for one that moves
    weights:  (n,), or (steps + 1, n) where some moments count more than others; one number of the tangent each
    effort:   (nu,) or one number

    The tangent of an articulated System is [dq; dv], 2 nv numbers.
    """

    goal: Any
    weights: np.ndarray
    effort: np.ndarray | float = 0.0

    def __post_init__(self):
        if not hasattr(self.goal, "_fields"):
            raise PullbackError("goal of Tracking must be a state such as pb.State(q, v)")
        checked_weights(self.weights, "Tracking")
        Effort(self.effort)  # which checks it

    def __call__(self, run: Run) -> Loss:
        states, controls = super().__call__(run), Effort(self.effort)(run)
        return Loss(states.values + controls.values, states.bars, controls.controls_bar)

    def expand(self, run: Run) -> Expansion:
        states, controls = super().expand(run), Effort(self.effort).expand(run)
        return states._replace(u=controls.u, uu=controls.uu)

    def _away(self, run):
        away = run.system.difference(self.goals(run), run.states, leading=2)
        try:
            weights = np.broadcast_to(self._rows(self.weights), away.shape)
        except ValueError:
            raise PullbackError(
                f"weights of Tracking have shape {np.shape(self.weights)}, but ({away.shape[-1]},) or "
                f"({away.shape[0]}, {away.shape[-1]}) is needed"
            ) from None
        return np.arange(len(away)), run.states, away, weights

    def goals(self, run: Run):
        """The goal with the shapes of the run's states."""
        if type(self.goal)._fields != type(run.states)._fields:
            raise PullbackError(f"the goal is a {type(self.goal).__name__}, but states are {type(run.states).__name__}")
        fields = []
        for name, goal, states in zip(run.states._fields, self.goal, run.states, strict=True):
            try:
                fields.append(np.broadcast_to(self._rows(goal), states.shape))
            except ValueError:
                raise PullbackError(
                    f"{name} of the goal has shape {np.shape(goal)}, but ({states.shape[-1]},) or "
                    f"({states.shape[0]}, {states.shape[-1]}) is needed"
                ) from None
        return type(run.states)(*fields)

    @staticmethod
    def _rows(x) -> np.ndarray:
        """With an axis for worlds, if there is one for steps."""
        x = np.asarray(x, dtype=float)
        return x[:, None] if x.ndim == 2 else x
