"""What methods need to know of a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pullback.core.renamed import renamed
from pullback.core.system import System
from pullback.rollout import Run


@renamed(figures="metrics")
@dataclass(frozen=True)
class Found:
    """A problem's values at k points: losses (k,), gradients (k, n) or None, and metrics (k,).

    Of half a sum of squares also the curvatures JᵀJ (k, n, n), J being the Jacobian of the residuals, if they are
    wanted. Gradients cost more than losses: where they are left for later, ``pull`` gives the same with them. The loss
    of a point that cannot be evaluated is infinite, and ``reason`` says why.
    """

    losses: np.ndarray
    gradients: np.ndarray | None
    metrics: np.ndarray
    curvatures: np.ndarray | None = None
    pull: Callable[[], Found] | None = None
    reason: str = ""


class Problem(Protocol):
    """A function of points (k, n). All that most methods need; those that want no curvature do not ask for it."""

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False, /) -> Found: ...


@runtime_checkable
class Simulation(Problem, Protocol):
    """A problem that can compute losses first and gradients later."""

    def simulated(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False, /) -> Found: ...


class Expansion(NamedTuple):
    """A loss around a trajectory in one world, to second order in tangents of states and in controls.

    Second derivatives of the distances themselves are left out (Gauss and Newton), so that ``xx`` is never negative.
    """

    x: np.ndarray  # (steps + 1, n)
    xx: np.ndarray  # (steps + 1, n, n)
    u: np.ndarray  # (steps, nu)
    uu: np.ndarray  # (steps, nu): no control counts for another


@runtime_checkable
class QuadraticLoss(Protocol):
    """A loss that iLQR can minimise. For a sketch it also needs ``goals(run)``: the states that it wants."""

    def expand(self, run: Run) -> Expansion: ...


@runtime_checkable
class HeldControls(Protocol):
    """Decision variables (knots, nu) that are controls, each held for some steps; those after ``driven`` are zero."""

    steps: int
    hold: int
    driven: int
    knots: int

    def scale_in(self, system: System) -> np.ndarray:
        """What a variable of one stands for (nu,), in the units of the controls."""

    def decode(self, system: System, points: np.ndarray) -> tuple[np.ndarray, dict]:
        """Controls (steps, k, nu), and parameters by name."""

    def shifted(self, x: np.ndarray, steps: int) -> np.ndarray:
        """The variables from so many steps on."""


@runtime_checkable
class ControlProblem(Simulation, Protocol):
    """The controls of a System, to be found by iLQR or tick by tick: a :class:`~pullback.tasks.Task` is one."""

    system: System  # in one world
    start: Any  # its state
    find: Any  # HeldControls, if it can be solved so
    loss: Any  # a QuadraticLoss, if iLQR can solve it
    motions: int  # that a point has; iLQR can do one

    def begin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first guess and the bounds, (n,) each."""

    def run(self, points: np.ndarray) -> Run:
        """The trajectories of points."""

    def in_worlds(self, worlds: int) -> System:
        """The System in so many worlds."""

    def start_in(self, copies: int) -> Any:
        """The start in so many worlds."""

    def starting(self, state: Any) -> ControlProblem:
        """The same problem from another state."""

    def window(self, state: Any, steps: int) -> ControlProblem:
        """The same problem from another state, over so many steps."""
