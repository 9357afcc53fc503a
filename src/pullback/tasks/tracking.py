"""The loss that iLQR knows: how far states are from where they should be, and how hard it was to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.errors import PullbackError
from pullback.rollout import Run
from pullback.tasks.task import Loss


class Expansion(NamedTuple):
    """A loss around a motion in one world, to second order in tangents of states (steps + 1, n) and in controls.

    Second derivatives of the distances themselves are left out (Gauss and Newton), so that ``xx`` is never negative.
    """

    x: np.ndarray  # (steps + 1, n)
    xx: np.ndarray  # (steps + 1, n, n)
    u: np.ndarray  # (steps, nu)
    uu: np.ndarray  # (steps, nu): no control counts for another


@dataclass(frozen=True)
class Tracking:
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
        for name, value in (("weights", self.weights), ("effort", self.effort)):
            numbers = to_numbers(value, f"{name} of Tracking")
            if not np.all(np.isfinite(numbers)) or np.any(numbers < 0):
                raise PullbackError(f"{name} of Tracking must be finite and not negative")

    def __call__(self, run: Run) -> Loss:
        away, weights = self._away(run)
        bar = np.einsum("twi,twij->twj", weights * away, run.system.difference_jacobian(away))
        controls = to_numpy(run.controls)
        effort = self._efforts(controls)
        values = (weights * away**2).sum(axis=(0, 2)) / 2 + (effort * controls**2).sum(axis=(0, 2)) / 2
        bars = run.system.state_bar(run.states, bar)
        named = {f"{name}_bar": x for name, x in zip(bars._fields, bars, strict=True)}
        return Loss(values, named, effort * controls)

    def expand(self, run: Run) -> Expansion:
        """Of a motion in one world."""
        away, weights = (x[:, 0] for x in self._away(run))
        rows = run.system.difference_jacobian(away)
        weighted = weights[:, :, None] * rows
        controls = to_numpy(run.controls)[:, 0]
        effort = self._efforts(controls)
        return Expansion(
            np.einsum("ti,tij->tj", away, weighted),
            np.einsum("tij,tik->tjk", rows, weighted),
            effort * controls,
            effort,
        )

    def _efforts(self, controls: np.ndarray) -> np.ndarray:
        """With the shape of controls (..., nu)."""
        effort = np.asarray(self.effort, dtype=float)
        if effort.shape not in ((), controls.shape[-1:]):
            raise PullbackError(f"effort of Tracking has shape {effort.shape}, but ({controls.shape[-1]},) is needed")
        return np.broadcast_to(effort, controls.shape)

    def _away(self, run: Run) -> tuple[np.ndarray, np.ndarray]:
        """Tangents from the goal (steps + 1, worlds, n), and their weights."""
        away = run.system.difference(self.goals(run), run.states, leading=2)
        try:
            weights = np.broadcast_to(self._rows(self.weights), away.shape)
        except ValueError:
            raise PullbackError(
                f"weights of Tracking have shape {np.shape(self.weights)}, but ({away.shape[-1]},) or "
                f"({away.shape[0]}, {away.shape[-1]}) is needed"
            ) from None
        return away, weights

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
