"""A loss around trajectories, as products: what matrix-free Gauss-Newton needs of a task.

The steps are linearised once. A direction d of the variables then moves all states by a recursion forwards in time, the
curvature of the loss at each state takes it to cotangents, and a recursion backwards in time takes those to the
variables. A product costs as much for a thousand residuals per state as for one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pullback.plan import Expansion, Linearisation
from pullback.rollout import Run


def linearised(run: Run, push: Mapping, loss: float, found: Expansion) -> Linearisation:
    """Of n variables that move controls and parameters of a run, whose trajectories' losses are added up.

    push:   tangents of controls (steps, worlds, nu, n) and of parameters (worlds, ..., n) by name, as ``find.push``
    found:  of the loss: fields of an Expansion with an axis of worlds after that of steps
    """
    names, worlds = tuple(push.get("params", {})), run.system.worlds
    parts = list(run.system.jacobians(run.every_state(), run.controls, run.params, names))
    A = np.concatenate([part.A for part in parts]).astype(float)
    moves = push.get("controls")
    B = None if moves is None else np.concatenate([part.B for part in parts]).astype(float)
    driven = None  # (steps, worlds, n of a state, n): how parameters move each step
    for name in names:
        tangents = np.asarray(push["params"][name]).reshape(worlds, -1, push["params"][name].shape[-1])
        by = np.concatenate([part.params[name].reshape(*part.A.shape[:2], A.shape[-1], -1) for part in parts])
        driven = by @ tangents + (0.0 if driven is None else driven)
    steps = len(A)

    def forwards(d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tangents of states (steps + 1, worlds, n) and controls (steps, worlds, nu)."""
        x, u = np.zeros(found.x.shape), np.zeros(found.u.shape)
        if moves is not None:
            u = moves @ d
        pushed = (0.0 if driven is None else driven @ d) + (0.0 if B is None else _times(B, u))
        for t in range(steps):
            x[t + 1] = _times(A[t], x[t]) + pushed[t]
        return x, u

    def backwards(x_bar: np.ndarray, u_bar: np.ndarray) -> np.ndarray:
        """The cotangent (n,) of the variables."""
        after = np.array(x_bar)
        for t in reversed(range(steps)):
            after[t] += _times(A[t].swapaxes(-1, -2), after[t + 1])
        bar = 0.0 if driven is None else np.einsum("twxn,twx->n", driven, after[1:])
        if B is not None:
            bar = bar + np.einsum("twun,twu->n", moves, u_bar + _times(B.swapaxes(-1, -2), after[1:]))
        return bar

    def product(d: np.ndarray) -> np.ndarray:
        x, u = forwards(d)
        return backwards(_times(found.xx, x), found.uu * u)

    return Linearisation(loss, backwards(found.x, found.u), product)


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[..., None])[..., 0]
