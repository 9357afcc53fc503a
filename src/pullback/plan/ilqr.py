"""Iterative LQR: a policy around a motion from its linearised steps, and a better motion from the policy.

With the loss to second order and the steps to first order, the best change of each control is δu = α k + K δx. It is
found backwards in time, within the bounds of the controls (Tassa, Mansard and Todorov, Control-limited differential
dynamic programming, 2014), and tried forwards at several lengths α, each in its own world: K keeps the motion from
drifting away from what was linearised. Tangents are those of the System's ``linearize``.

| letter | meaning | shape |
|---|---|---|
| A, B | Jacobians of all steps for which one control is held | n × n, n × nu |
| V | loss from here to the end, in δx: v·δx + ½ δxᵀ V δx | n, n × n |
| Q | loss from a control on, in δx and δu | |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.plan.methods import Memory, Method
from pullback.rollout import linearize_run

# Of the regularisation, in units of the largest curvature of the loss: from where it is none, to where to give up.
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e6


class Knot(NamedTuple):
    """The steps for which a control is held, to second order in the tangent x of the first state and the control u."""

    A: np.ndarray
    B: np.ndarray
    x: np.ndarray
    u: np.ndarray
    xx: np.ndarray
    ux: np.ndarray
    uu: np.ndarray


@dataclass(frozen=True)
class ILQR(Method):
    """Iterative LQR for a task that looks for Controls and whose loss can be expanded, as ``Tracking`` can.

    An iteration linearises the motion once and tries all lengths.

    lengths:   of steps that are tried, as shares of the whole [1]
    damping:   of the first step, as a share of the largest curvature of the loss in the controls [1]
    """

    lengths: tuple[float, ...] = (1.0, 0.6, 0.36, 0.2, 0.1, 0.03, 0.01, 0.001)
    damping: float = 1e-6
    problem: Any = field(default=None, repr=False, compare=False)
    _kept: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    wants_gradients = False
    DAMP, RELAX = 10.0, 0.1  # factors of the damping after a step that failed, and after one that did well

    def __post_init__(self):
        if not self.lengths or not all(0 < length <= 1 for length in self.lengths):
            raise PullbackError(f"lengths of ILQR are shares of a step, in (0, 1], not {self.lengths!r}")
        if not 0 < self.damping < np.inf:
            raise PullbackError(f"damping of ILQR must be positive, not {self.damping!r}")

    def bound(self, problem) -> ILQR:
        if not hasattr(getattr(problem, "find", None), "hold"):
            raise PullbackError("iLQR looks for controls: give it a task that finds pullback.tasks.Controls")
        if problem.motions != 1:
            raise PullbackError(f"iLQR finds the controls of one motion, and the task has {problem.motions}")
        if not hasattr(problem.loss, "expand"):
            raise PullbackError("iLQR needs a loss to second order: use pullback.tasks.Tracking, or LBFGS for any loss")
        return replace(self, problem=problem)

    def begin(self, x, low, high, seed):
        return {"x": x, "low": low, "high": high, "loss": np.array(np.nan), "damping": np.array(self.damping)}

    def ask(self, memory):
        if np.isnan(memory["loss"]):
            return memory["x"][None]
        key = (memory["x"].tobytes(), float(memory["damping"]))
        if self._kept.get("asked") != key:  # tell asks again
            self._kept.update(points=self._tried(memory, *self._policy(memory)), asked=key)
        return self._kept["points"]

    def tell(self, memory, losses, gradients):
        if np.isnan(memory["loss"]):
            if not np.isfinite(losses[0]):
                raise PullbackError("the first guess cannot be evaluated: its loss is not finite")
            return {**memory, "loss": np.array(losses[0])}
        ranked = np.where(np.isfinite(losses), losses, np.inf)
        best = int(np.argmin(ranked))
        damping = float(memory["damping"])
        if not ranked[best] < memory["loss"]:
            return {**memory, "damping": np.array(min(max(damping, LEAST_DAMPING) * self.DAMP, MOST_DAMPING))}
        # a step that had to be cut short was trusted too far
        damping *= self.RELAX if self.lengths[best] > 0.5 else 1.0 if self.lengths[best] > 0.05 else self.DAMP
        damping = min(max(damping, LEAST_DAMPING), MOST_DAMPING)
        x = self.ask(memory)[best]
        return {**memory, "x": x, "loss": np.array(ranked[best]), "damping": np.array(damping)}

    # --- the motion, and steps around it -----------------------------------------------------------

    def _expanded(self, memory: Memory) -> tuple[Any, list[Knot]]:
        """The motion of the best controls so far and its knots. Kept, since it stays while steps fail."""
        key = memory["x"].tobytes()
        if self._kept.get("key") != key:
            run = self.problem.run(memory["x"])
            self._kept.clear()
            self._kept.update(key=key, run=run, knots=self._knots(run))
        return self._kept["run"], self._kept["knots"]

    def _knots(self, run) -> list[Knot]:
        find, scale = self.problem.find, self.problem.find.scale_in(run.system)
        A, B = (jacobian[:, 0] for jacobian in linearize_run(run))
        loss = self.problem.loss.expand(run)
        B, u, uu = B * scale, loss.u * scale, loss.uu * scale**2
        n, nu = B.shape[1:]
        knots = []
        for first in range(0, find.knots * find.hold, find.hold):
            # x of a step is a x₀ + b u
            a, b = np.eye(n), np.zeros((n, nu))
            sums = Knot(a, b, np.zeros(n), np.zeros(nu), np.zeros((n, n)), np.zeros((nu, n)), np.zeros((nu, nu)))
            for t in range(first, min(first + find.hold, find.driven)):
                slope, curve = loss.x[t], loss.xx[t]
                sums.x[:] += slope @ a
                sums.u[:] += slope @ b + u[t]
                sums.xx[:] += a.T @ curve @ a
                sums.ux[:] += b.T @ curve @ a
                sums.uu[:] += b.T @ curve @ b + np.diag(uu[t])
                a, b = A[t] @ a, A[t] @ b + B[t]
            knots.append(sums._replace(A=a, B=b))
        # what comes after the last control, undriven
        v, V = loss.x[-1], loss.xx[-1]
        for t in reversed(range(find.driven, run.steps)):
            v, V = loss.x[t] + A[t].T @ v, loss.xx[t] + A[t].T @ V @ A[t]
        self._kept["end"] = v, V
        return knots

    # --- backwards ---------------------------------------------------------------------------------

    def _policy(self, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """k (knots, nu) and K (knots, nu, n). Damping grows where the loss curves the wrong way."""
        _, knots = self._expanded(memory)
        x, low, high = (memory[name].reshape(len(knots), -1) for name in ("x", "low", "high"))
        largest = max(float(np.linalg.norm(knot.uu, 2)) for knot in knots)
        damping = float(memory["damping"])
        while damping <= 10 * MOST_DAMPING:
            found = _backwards(knots, *self._kept["end"], low - x, high - x, damping * max(largest, 1e-12))
            if found is not None:
                return found
            damping = max(damping, LEAST_DAMPING) * self.DAMP
        raise PullbackError("iLQR cannot find a step: the linearised motion or the loss around it is not finite")

    # --- forwards ----------------------------------------------------------------------------------

    def _tried(self, memory: Memory, k: np.ndarray, K: np.ndarray) -> np.ndarray:
        """The controls (lengths, variables) that the policy makes of the motion, one row a length."""
        lengths = np.array(self.lengths)
        try:
            return self._follow(memory, k, K, lengths)
        except PullbackError:  # in one of the worlds: the others are still good
            return np.concatenate([self._follow_alone(memory, k, K, length) for length in lengths])

    def _follow_alone(self, memory: Memory, k: np.ndarray, K: np.ndarray, length: float) -> np.ndarray:
        try:
            return self._follow(memory, k, K, np.array([length]))
        except PullbackError:
            return np.clip(memory["x"] + length * k.ravel(), memory["low"], memory["high"])[None]

    def _follow(self, memory: Memory, k: np.ndarray, K: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        run, knots = self._expanded(memory)
        worlds, find = len(lengths), self.problem.find
        system, state = self.problem.in_worlds(worlds), self.problem.start_in(worlds)
        scale = find.scale_in(system)
        x, low, high = (memory[name].reshape(len(knots), -1) for name in ("x", "low", "high"))
        points = np.zeros((worlds, *x.shape))
        for i, first in enumerate(range(0, find.driven, find.hold)):
            planned = type(state)(*(np.repeat(to_numpy(f)[first], worlds, axis=0) for f in run.states))
            away = system.difference(planned, state)
            points[:, i] = np.clip(x[i] + lengths[:, None] * k[i] + away @ K[i].T, low[i], high[i])
            held = min(find.hold, find.driven - first)
            controls = np.repeat((points[:, i] * scale)[None], held, axis=0).astype(system.dtype)
            states = system.steps(state, controls)
            state = type(states)(*(to_numpy(f)[-1] for f in states))
        return points.reshape(worlds, -1)


def _backwards(knots: list[Knot], v, V, low: np.ndarray, high: np.ndarray, damping: float):
    """The policy k, K within the bounds low and high of δu, or None where a control has no best value."""
    n, nu = knots[0].B.shape
    k, K = np.zeros((len(knots), nu)), np.zeros((len(knots), nu, n))
    for i in reversed(range(len(knots))):
        A, B, x, u, xx, ux, uu = knots[i]
        Qx, Qu = x + A.T @ v, u + B.T @ v
        Qux, Quu = ux + B.T @ V @ A, uu + B.T @ V @ B
        solved = box_step(Quu + damping * np.eye(nu), Qu, low[i], high[i])
        if solved is None:
            return None
        k[i], free, factor = solved
        if np.any(free):
            K[i][free] = -_solve(factor, Qux[free])
        v = Qx + K[i].T @ (Quu @ k[i] + Qu) + Qux.T @ k[i]
        # as a sum of squares, so that rounding cannot make it negative where contact makes A large
        closed, cross = A + B @ K[i], K[i].T @ ux
        V = closed.T @ V @ closed + xx + K[i].T @ uu @ K[i] + cross + cross.T
        V = (V + V.T) / 2
    return k, K


def box_step(H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray, most: int = 50):
    """The least of g·d + ½ dᵀ H d with low <= d <= high, by projected Newton steps.

    Returns d, which entries are free, and the Cholesky factor of H for those; None where H is not positive there.
    """
    d = np.clip(np.zeros_like(g), low, high)
    for _ in range(most):
        slope = g + H @ d
        free = ~((d <= low) & (slope > 0) | (d >= high) & (slope < 0))
        try:
            factor = np.linalg.cholesky(H[np.ix_(free, free)])
        except np.linalg.LinAlgError:
            return None
        step = np.zeros_like(d)
        if np.any(free):
            step[free] = -_solve(factor, slope[free])
        if np.abs(slope[free] @ step[free]) <= 1e-20 + 1e-14 * np.abs(g @ d):
            break
        value, length = g @ d + d @ H @ d / 2, 1.0
        while True:
            trial = np.clip(d + length * step, low, high)
            if g @ trial + trial @ H @ trial / 2 <= value + 0.1 * slope @ (trial - d) or length < 1e-10:
                break
            length /= 2
        if np.array_equal(trial, d):
            break
        d = trial
    return d, free, factor


def _solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ right"""
    return np.linalg.solve(factor.T, np.linalg.solve(factor, right))
