"""Gauss-Newton without a matrix: each step by conjugate gradients, from products with the Jacobian alone.

(JᵀJ + λ) d = -Jᵀ r is solved approximately, since the direction need not be exact, and several lengths of d are tried
at once. The best length, and the accuracy of the predicted decrease, set the next λ (Martens, Deep learning via
Hessian-free optimization, 2010, uses the same components for networks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.plan.least_squares import LeastSquares, Linearisation, Sampled
from pullback.plan.methods import FIRST_GUESS, Memory, Method, inside, movable, ranked, require


@dataclass(frozen=True)
class MatrixFreeGaussNewton(Method):
    """Gauss-Newton steps for sums of squares with many variables, from products with the Jacobian J only.

    For problems that are :class:`LeastSquares`: torch functions by :class:`TorchResiduals`, tasks whose loss is made of
    residuals or ready terms, or any object with ``linearise``. Each iteration linearises once, solves (JᵀJ + λ) d = -Jᵀ
    r by conjugate gradients, and takes the best of several fractions of d, or none. λ is halved after a long step that
    lowered the loss as predicted, and tripled after a short or a poor one. With a :class:`Sampled` problem, every
    iteration uses another batch, and the newest point counts as the best.

    damping:         initial λ, in the units of JᵀJ
    lengths:         fractions of d that are tried [1]
    inner:           maximum number of conjugate-gradient iterations per step
    inner_tolerance: residual at which they stop, relative to |Jᵀ r| [1]
    tolerance:       converged if the predicted relative decrease of the loss of an undamped step is smaller than this
                     [1]; never for a Sampled problem
    """

    damping: float = 0.1
    lengths: tuple[float, ...] = (1.0, 0.5, 0.25, 0.1, 0.03)
    inner: int = 30
    inner_tolerance: float = 1e-3
    tolerance: float = 1e-8
    problem: Any = field(default=None, repr=False, compare=False)  # LeastSquares or Sampled, set by ``bound``
    _kept: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    wants_gradients = False

    # Damping is multiplied by LESS if the step has at least length LONG and gains more than WELL of the prediction, and
    # by MORE if it has at most length SHORT or gains less than BADLY.
    LONG, WELL, LESS = 0.5, 0.5, 1 / 2
    SHORT, BADLY, MORE = 0.1, 0.1, 3.0
    WEAKEST, STRONGEST = 1e-12, 1e10  # range of the damping; above it, steps are lost in rounding

    def __post_init__(self):
        require(self, damping=(0, self.STRONGEST), inner_tolerance=(0, 1), tolerance=(0, 1))
        check_whole(self.inner, "inner of MatrixFreeGaussNewton")
        if not self.lengths or not all(0 < length <= 1 for length in self.lengths):
            raise PullbackError(
                f"lengths of MatrixFreeGaussNewton are shares of a step, in (0, 1], not {self.lengths!r}"
            )

    def bound(self, problem) -> MatrixFreeGaussNewton:
        if not isinstance(problem, LeastSquares | Sampled):
            raise PullbackError(
                "MatrixFreeGaussNewton needs a problem with linearise(x): a task, TorchResiduals, or your own"
            )
        return replace(self, problem=problem)

    @property
    def newest(self) -> bool:
        return isinstance(self.problem, Sampled)

    def begin(self, x, low, high, seed):
        memory = {
            "x": x, "low": low, "high": high, "loss": np.array(np.nan), "damping": np.array(self.damping),
            "promise": np.array(np.inf), "iteration": np.array(0), "seed": np.array(seed),
        }  # fmt: skip
        if _retraction(self.sample(self.problem, memory)) and np.any(np.isfinite([low, high])):
            raise PullbackError("bounds are for variables without a retraction: write residuals in their place")
        return memory

    def sample(self, problem, memory):
        if not isinstance(problem, Sampled):
            return problem
        iteration = int(memory["iteration"])
        if self._kept.get("drawn") != (iteration, int(memory["seed"])):
            random = np.random.default_rng([int(memory["seed"]), iteration])
            self._kept.update(batch=problem.sample(random, iteration), drawn=(iteration, int(memory["seed"])))
        return self._kept["batch"]

    def ask(self, memory):
        return self._tried(memory)[0]

    def tell(self, memory, losses, gradients, *curvatures):
        points, steps, direction, linear = self._tried(memory)
        if not np.isfinite(losses[0]) and np.isnan(memory["loss"]):
            raise PullbackError(FIRST_GUESS)
        best = int(np.argmin(ranked(losses)))
        length = (0.0, *self.lengths)[best]
        promised, damping = _promise(linear, steps[best]), float(memory["damping"])
        kept = (losses[0] - losses[best]) / promised if promised > 0 else 0.0
        if length <= self.SHORT or not kept >= self.BADLY:
            factor = self.MORE
        else:
            factor = self.LESS if length >= self.LONG and kept > self.WELL else 1.0
        # not converged while damping shortens the step
        held = damping * (direction @ direction) > direction @ linear.product(direction)
        return {
            **memory, "x": points[best], "loss": np.asarray(losses[best]),
            "damping": np.array(max(factor * damping, self.WEAKEST)), "iteration": memory["iteration"] + 1,
            "promise": np.array(np.inf if held or self.newest else _promise(linear, direction)),
        }  # fmt: skip

    def done(self, memory):
        if self.newest or not np.isfinite(memory["loss"]):
            return False
        return bool(memory["promise"] <= self.tolerance * memory["loss"] or memory["damping"] > self.STRONGEST)

    def _tried(self, memory: Memory) -> tuple[np.ndarray, np.ndarray, np.ndarray, Linearisation]:
        """The points to evaluate, with the current one first; the steps to them; the direction; the Linearisation."""
        key = tuple(memory[name].tobytes() for name in ("x", "damping", "iteration", "seed"))
        if self._kept.get("asked") != key:  # cached, since ``tell`` asks again
            problem, x = self.sample(self.problem, memory), memory["x"]
            linear, retract = problem.linearise(x), _retraction(problem)
            direction = self._direction(memory, linear, retract is None)
            steps = np.outer((0.0, *self.lengths), direction)
            if retract is None:
                points = inside(x + steps, memory)
                steps = points - x
            else:
                points = np.array([x, *(retract(x, step) for step in steps[1:])])
            self._kept.update(tried=(points, steps, direction, linear), asked=key)
        return self._kept["tried"]

    def _direction(self, memory: Memory, linear: Linearisation, bounded: bool) -> np.ndarray:
        if not np.all(np.isfinite(linear.gradient)):
            return np.zeros_like(linear.gradient)
        damping = float(memory["damping"])
        free: Any = movable({**memory, "gradient": linear.gradient}) if bounded else 1.0

        def product(d):
            return free * (linear.product(d) + damping * d)

        def precondition(v):
            return v if linear.precondition is None else free * linear.precondition(v, damping)

        return conjugate_gradients(product, -(free * linear.gradient), precondition, self.inner, self.inner_tolerance)


def conjugate_gradients(
    product: Callable, right: np.ndarray, precondition: Callable, iterations: int, tolerance: float
) -> np.ndarray:
    """The solution x (n,) of H x = right, for a positive definite H given by products (Hestenes and Stiefel, 1952).

    iterations: the most; tolerance: stops when |right - H x| is below this fraction of |right|
    """
    x, left = np.zeros_like(right), right
    search = near = precondition(left)
    along, enough = left @ near, tolerance * np.linalg.norm(right)
    for _ in range(iterations):
        if np.linalg.norm(left) <= enough:
            break
        image = product(search)
        curvature = search @ image
        if not curvature > 0:  # only rounding is left
            break
        x, left = x + along / curvature * search, left - along / curvature * image
        near = precondition(left)
        before, along = along, left @ near
        search = near + along / before * search
    return x


def _retraction(problem: LeastSquares) -> Callable | None:
    return getattr(problem, "retract", None)


def _promise(linear: Linearisation, step: np.ndarray) -> float:
    """The predicted decrease of the linearised loss."""
    return -float(linear.gradient @ step + step @ linear.product(step) / 2)
