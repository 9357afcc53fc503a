"""Gauss-Newton for sums of squares, damped as Levenberg and Marquardt do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.errors import PullbackError
from pullback.core.quadratic import box_step
from pullback.plan.methods import FIRST_GUESS, Memory, Method, inside, movable, require


@dataclass(frozen=True)
class GaussNewton(Method):
    """Steps to the minimum of the loss with its residuals linearised, for losses that are half a sum of squares.

    The problem supplies JᵀJ as the curvature, where J is the Jacobian of the residuals. With bounds, a step goes to the
    minimum within the bounds. A step that does not lower the loss, or that leads to a point that cannot be evaluated,
    is repeated with ten times the damping (Marquardt, 1963); a step that lowers the loss as predicted reduces the
    damping (Nielsen, 1999).

    damping:    initial value, relative to the diagonal of the curvature [1]
    tolerance:  converged if the predicted relative decrease of the loss is smaller than this [1]
    """

    damping: float = 1e-3
    tolerance: float = 1e-8

    wants_curvature = True

    SUFFICIENT = 1e-4  # least fraction of the predicted decrease that is accepted
    WEAKEST, STRONGEST = 1e-10, 1e10  # range of the damping; above it, steps are lost in rounding
    NO_CURVATURE = 1e-14  # eigenvalues below this fraction of the largest are rounding

    def __post_init__(self):
        require(self, damping=(0, self.STRONGEST), tolerance=(0, 1))

    def begin(self, x, low, high, seed):
        return {
            "x": x, "low": low, "high": high, "loss": np.array(np.nan), "gradient": np.zeros_like(x),
            "curvature": np.zeros((len(x), len(x))), "step": np.zeros_like(x), "damping": np.array(self.damping),
            "promise": np.array(np.inf),
        }  # fmt: skip

    def ask(self, memory):
        return inside(memory["x"] + memory["step"], memory)[None]

    def tell(self, memory, losses, gradients, *curvatures):
        point, loss, curvature = self.ask(memory)[0], losses[0], curvatures[0][0]  # of a single point
        if not np.isfinite(memory["loss"]):  # the initial guess
            if not np.isfinite(loss):
                raise PullbackError(FIRST_GUESS)
            return self._aim({**memory, "loss": loss, "gradient": gradients[0], "curvature": curvature})
        step, damping = point - memory["x"], float(memory["damping"])
        promised = -float(memory["gradient"] @ step + step @ memory["curvature"] @ step / 2)
        kept = (memory["loss"] - loss) / promised if np.isfinite(loss) and promised > 0 else -np.inf
        if kept < self.SUFFICIENT:
            return self._aim({**memory, "damping": np.array(10 * max(damping, self.WEAKEST))})
        damping = max(damping * max(1 / 3, 1 - (2 * kept - 1) ** 3), self.WEAKEST)
        known = {"x": point, "loss": loss, "gradient": gradients[0], "curvature": curvature}
        return self._aim({**memory, **known, "damping": np.array(damping)})

    def done(self, memory):
        small = memory["promise"] <= self.tolerance * memory["loss"]
        return bool(np.isfinite(memory["loss"]) and (small or memory["damping"] > self.STRONGEST))

    def _aim(self, memory: Memory) -> Memory:
        """The memory with the next step, and with the predicted decrease of an undamped step."""
        free, gradient = movable(memory), memory["gradient"]
        values, vectors = np.linalg.eigh(memory["curvature"][np.ix_(free, free)])
        certain = values > self.NO_CURVATURE * values.max(initial=0.0)
        along = vectors.T[certain] @ gradient[free]
        promise = np.sum(along**2 / values[certain]) / 2
        return {**memory, "step": self._step(memory), "promise": np.array(promise)}

    def _step(self, memory: Memory) -> np.ndarray:
        """The damped step (n,) to the minimum within the bounds."""
        x, curvature, damping = memory["x"], memory["curvature"], max(float(memory["damping"]), self.WEAKEST)
        diagonal = np.diag(curvature)
        # a variable without influence has zero gradient too, and does not move
        scale = np.where(diagonal > 0, diagonal, 1.0)
        low, high = memory["low"] - x, memory["high"] - x
        # the curvature may have a negative eigenvalue by rounding, which larger damping outweighs
        while (solved := box_step(curvature + np.diag(damping * scale), memory["gradient"], low, high)) is None:
            damping *= 10
        return solved[0]
