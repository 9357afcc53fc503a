"""Iterative LQR: a policy around a trajectory from its linearised steps, and a better trajectory from the policy.

With the loss to second order and the steps to first order, the best change of each control is δu = α k + K δx. The
backward pass computes it within the bounds of the controls (Tassa, Mansard and Todorov, Control-limited differential
dynamic programming, 2014). The forward pass tries it at several lengths α, each in its own world; K keeps the
trajectory near the linearised one. Tangents are those of the System's ``linearize``.

The linearised states need not be a trajectory. If each step misses the next state by a defect c, then c enters the
backward pass (Giftthaler et al., A family of iterative Gauss-Newton shooting methods, 2018), and the forward pass
produces a trajectory again. This is how a sketch of the goal becomes a first trajectory.

| letter | meaning | shape |
|---|---|---|
| A, B | Jacobians of all steps for which one control is held | n × n, n × nu |
| c | defect: by how much they miss the next state | n |
| V | loss from here to the end, in δx: v·δx + ½ δxᵀ V δx | n, n × n |
| Q | loss from a control on, in δx and δu | |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.quadratic import box_step
from pullback.core.status import Status
from pullback.core.trees import row, tree_map
from pullback.plan.methods import FIRST_GUESS, Memory, Method, ranked
from pullback.plan.problem import ControlProblem, HeldControls, QuadraticLoss
from pullback.rollout import Run, linearize_run, side_by_side

# Range of the damping, relative to the largest curvature of the loss: from no damping to no motion.
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e6


class Knot(NamedTuple):
    """The steps for which one control is held: their loss to second order in the tangent x of the first state and the
    control u, and their end state A x + B u + c.
    """

    A: np.ndarray
    B: np.ndarray
    c: np.ndarray
    x: np.ndarray
    u: np.ndarray
    xx: np.ndarray
    ux: np.ndarray
    uu: np.ndarray


class Around(NamedTuple):
    """A trajectory, its knots, and v and V after the last knot."""

    run: Run
    knots: list[Knot]
    v: np.ndarray
    V: np.ndarray


@dataclass(frozen=True)
class ILQR(Method):
    """Iterative LQR for a task that finds Controls and whose loss has a second-order expansion, as ``Tracking`` has.

    An iteration linearises the trajectory once and tries policies with several dampings and step lengths, in parallel.

    lengths:   step lengths that are tried, as fractions of the full step [1]
    spread:    dampings that are tried, as multiples of the best previous one [1]
    damping:   of the first step, as a fraction of the largest curvature of the loss in the controls [1]
    sketch:    takes the loss's goal as a trajectory and starts with policies around it, besides the initial guess. The
               goal need not be feasible: the defect between each step and the next state is part of the linear problem.
               It should include the contacts that the trajectory needs, since absent contacts have no gradient.
    """

    lengths: tuple[float, ...] = (1.0, 0.5, 0.2, 0.05)
    spread: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    damping: float = 1e-3
    sketch: bool = False
    problem: Any = field(default=None, repr=False, compare=False)  # a ControlProblem, set by ``bound``
    _kept: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    wants_gradients = False

    def __post_init__(self):
        if not self.lengths or not all(0 < length <= 1 for length in self.lengths):
            raise PullbackError(f"lengths of ILQR are shares of a step, in (0, 1], not {self.lengths!r}")
        if not self.spread or not all(0 < factor < np.inf for factor in self.spread):
            raise PullbackError(f"spread of ILQR are positive factors of the damping, not {self.spread!r}")
        if not 0 < self.damping < np.inf:
            raise PullbackError(f"damping of ILQR must be positive, not {self.damping!r}")

    def bound(self, problem) -> ILQR:
        if not isinstance(problem, ControlProblem) or not isinstance(problem.find, HeldControls):
            raise PullbackError("iLQR optimises controls: give it a task that finds pullback.tasks.Controls")
        if problem.motions != 1:
            raise PullbackError(f"iLQR finds the controls of one trajectory, and the task has {problem.motions}")
        if not isinstance(problem.loss, QuadraticLoss):
            raise PullbackError(
                "iLQR needs a loss to second order: use terms of pullback.tasks such as Tracking, or LBFGS for any loss"
            )
        return replace(self, problem=problem)

    def begin(self, x, low, high, seed):
        return {"x": x, "low": low, "high": high, "loss": np.array(np.nan), "damping": np.array(self.damping)}

    def ask(self, memory):
        key = tuple(memory[name].tobytes() for name in ("x", "loss", "damping"))
        if self._kept.get("asked") != key:  # cached, since ``tell`` asks again
            self._kept.update(points=self._points(memory), asked=key)
        return self._kept["points"]

    def _points(self, memory: Memory) -> np.ndarray:
        if not np.isnan(memory["loss"]):
            return self._tried(memory, self._trajectory(memory), self.lengths)
        guess = memory["x"][None]
        if not self.sketch:
            return guess
        return np.concatenate([guess, self._tried(memory, self._goal(memory), (1.0,))])

    def tell(self, memory, losses, gradients, *curvatures):
        losses = ranked(losses)
        best = int(np.argmin(losses))
        point = {"x": self.ask(memory)[best], "loss": np.array(losses[best])}
        if np.isnan(memory["loss"]):
            if np.isinf(losses[best]):
                raise PullbackError(FIRST_GUESS)
            return {**memory, **point}
        dampings = self._dampings(memory)
        if not losses[best] < memory["loss"]:
            return {**memory, "damping": np.array(min(10 * dampings.max(), MOST_DAMPING))}
        return {**memory, **point, "damping": np.array(dampings[best // len(self.lengths)])}

    def done(self, memory):
        """Whether the largest damping is reached: not even the shortest step improves the loss."""
        return bool(memory["damping"] >= MOST_DAMPING)

    def _dampings(self, memory: Memory) -> np.ndarray:
        return np.clip(memory["damping"] * np.array(self.spread), LEAST_DAMPING, MOST_DAMPING)

    # --- the trajectory that is linearised ---------------------------------------------------------

    def _trajectory(self, memory: Memory) -> Around:
        """The trajectory of the best controls so far. Cached, because it does not change while steps fail."""
        key = memory["x"].tobytes()
        if self._kept.get("key") != key:
            run = self.problem.run(memory["x"])
            A, B = (jacobian[:, 0] for jacobian in linearize_run(run))
            self._kept.update(key=key, trajectory=self._around(run, A, B, np.zeros(A.shape[:2])))
        return self._kept["trajectory"]

    def _goal(self, memory: Memory) -> Around:
        """The goal of the loss, paired with the controls of the initial guess."""
        run = self.problem.run(memory["x"])
        goals = self.problem.loss.goals(run)
        steps = side_by_side(self.problem.in_worlds(run.steps), goals, run.controls)
        A, B = (jacobian[0] for jacobian in linearize_run(steps))
        missed = run.system.difference(tree_map(lambda x: x[1:, 0], goals), steps.final)
        return self._around(Run(run.system, goals, run.controls, 1, run.params), A, B, missed)

    def _around(self, run: Run, A: np.ndarray, B: np.ndarray, missed: np.ndarray) -> Around:
        """The knots of a run, from Jacobians of all steps, and their defects ``missed`` (steps, n)."""
        find, scale = self.problem.find, self.problem.find.scale_in(run.system)
        loss = self.problem.loss.expand(run)
        B, u, uu = B * scale, loss.u * scale, loss.uu * scale**2
        n, nu = B.shape[1:]
        knots = []
        for first in range(0, find.knots * find.hold, find.hold):
            # x of a step is a x₀ + b u + c
            a, b, c = np.eye(n), np.zeros((n, nu)), np.zeros(n)
            sums = Knot(a, b, c, np.zeros(n), np.zeros(nu), np.zeros((n, n)), np.zeros((nu, n)), np.zeros((nu, nu)))
            for t in range(first, min(first + find.hold, find.driven)):
                slope, curve = loss.x[t] + loss.xx[t] @ c, loss.xx[t]
                sums.x[:] += slope @ a
                sums.u[:] += slope @ b + u[t]
                sums.xx[:] += a.T @ curve @ a
                sums.ux[:] += b.T @ curve @ a
                sums.uu[:] += b.T @ curve @ b + np.diag(uu[t])
                a, b, c = A[t] @ a, A[t] @ b + B[t], A[t] @ c + missed[t]
            knots.append(sums._replace(A=a, B=b, c=c))
        # the steps after the last control, which have none
        v, V = loss.x[-1], loss.xx[-1]
        for t in reversed(range(find.driven, run.steps)):
            v, V = loss.x[t] + A[t].T @ (v + V @ missed[t]), loss.xx[t] + A[t].T @ V @ A[t]
        return Around(run, knots, v, V)

    # --- forward pass ------------------------------------------------------------------------------

    def _tried(self, memory: Memory, around: Around, lengths: tuple[float, ...]) -> np.ndarray:
        """The controls (dampings × lengths, variables) that result from policies around a trajectory."""
        x, low, high = (memory[name].reshape(len(around.knots), -1) for name in ("x", "low", "high"))
        largest = max(float(np.linalg.norm(knot.uu, 2)) for knot in around.knots)
        if largest < 1e-12:  # the loss depends on the last state only: use its curvature in the last control
            B, V = around.knots[-1].B, around.V
            largest = max(float(np.linalg.norm(B.T @ V @ B, 2)), 1e-12)
        policies = [_backwards(around, low - x, high - x, damping * largest) for damping in self._dampings(memory)]
        k, K = (np.repeat(np.array(part), len(lengths), axis=0) for part in zip(*policies, strict=True))
        k = k * np.tile(lengths, len(policies))[:, None, None]
        return self._follow(around, x, low, high, k, K).reshape(len(k), -1)

    def _follow(self, around: Around, x, low, high, k: np.ndarray, K: np.ndarray) -> np.ndarray:
        """The controls (worlds, knots, nu) that result from policies k (worlds, knots, nu), K (worlds, knots, nu, n).

        In a world that fails there is no state to feed back; its controls are those of k alone.
        """
        worlds, find = len(k), self.problem.find
        system, state = self.problem.in_worlds(worlds), self.problem.start_in(worlds)
        scale = find.scale_in(system)
        points, failed = np.zeros((worlds, *x.shape)), np.zeros(worlds, dtype=bool)
        for i, first in enumerate(range(0, find.driven, find.hold)):
            planned = tree_map(lambda x: np.repeat(to_numpy(x), worlds, axis=0), row(around.run.states, first))
            away = system.difference(planned, state)
            points[:, i] = np.clip(x[i] + k[:, i] + np.einsum("wij,wj->wi", K[:, i], away), low[i], high[i])
            held = min(find.hold, find.driven - first)
            controls = np.repeat((points[:, i] * scale)[None], held, axis=0).astype(system.dtype)
            status = Status()
            states = system.steps(state, controls, keep_every=held, status=status)
            state = tree_map(lambda x: to_numpy(x)[-1], states)
            failed |= status.failed
        return np.where(failed[:, None, None], np.clip(x + k, low, high), points)


def _backwards(around: Around, low: np.ndarray, high: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """The backward pass: the policy k (knots, nu), K (knots, nu, n) within the bounds low and high of δu."""
    _, knots, v, V = around
    n, nu = knots[0].B.shape
    k, K = np.zeros((len(knots), nu)), np.zeros((len(knots), nu, n))
    for i in reversed(range(len(knots))):
        A, B, c, x, u, xx, ux, uu = knots[i]
        v = v + V @ c
        Qx, Qu = x + A.T @ v, u + B.T @ v
        Qux, Quu = ux + B.T @ V @ A, uu + B.T @ V @ B
        damped = Quu + damping * np.eye(nu)
        solved = box_step(damped, Qu, low[i], high[i])
        if solved is None:
            raise PullbackError("iLQR cannot find a step: the linearised trajectory or its loss is not finite")
        k[i], free = solved
        K[i][free] = -np.linalg.solve(damped[np.ix_(free, free)], Qux[free])
        v = Qx + K[i].T @ (Quu @ k[i] + Qu) + Qux.T @ k[i]
        # as a sum of squares, so that rounding cannot make it indefinite where contact makes A large
        closed, cross = A + B @ K[i], K[i].T @ ux
        V = closed.T @ V @ closed + xx + K[i].T @ uu @ K[i] + cross + cross.T
        V = (V + V.T) / 2
    return k, K
