"""The interfaces of problems that methods minimise."""

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

    For half sums of squares it also has the curvatures JᵀJ (k, n, n), with J the Jacobian of the residuals, if they are
    wanted. Gradients cost more than losses: if they were deferred, ``pull`` returns the same values with gradients. The
    loss of a point that cannot be evaluated is infinite, and ``reason`` says why.
    """

    losses: np.ndarray
    gradients: np.ndarray | None
    metrics: np.ndarray
    curvatures: np.ndarray | None = None
    pull: Callable[[], Found] | None = None
    reason: str = ""


class Problem(Protocol):
    """A function of points (k, n). Methods that want no curvature do not pass ``wants_curvature``."""

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False, /) -> Found: ...


@runtime_checkable
class Simulation(Problem, Protocol):
    """A problem that can compute losses first and gradients later."""

    def simulated(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False, /) -> Found: ...


class Expansion(NamedTuple):
    """A loss around a trajectory in one world, to second order in tangents of states and in controls.

    Second derivatives of the residuals are neglected (Gauss-Newton), so that ``xx`` is positive semidefinite.
    """

    x: np.ndarray  # (steps + 1, n)
    xx: np.ndarray  # (steps + 1, n, n)
    u: np.ndarray  # (steps, nu)
    uu: np.ndarray  # (steps, nu), diagonal


@runtime_checkable
class QuadraticLoss(Protocol):
    """A loss that iLQR can minimise. For a sketch it also needs ``goals(run)``: the desired states."""

    def expand(self, run: Run) -> Expansion: ...


@runtime_checkable
class HeldControls(Protocol):
    """Decision variables (knots, nu) that are controls, each held for some steps; zero after ``driven`` steps."""

    steps: int
    hold: int
    driven: int
    knots: int

    def scale_in(self, system: System) -> np.ndarray:
        """The controls (nu,) that variables of one stand for, in the units of the controls."""

    def decode(self, system: System, points: np.ndarray) -> tuple[np.ndarray, dict]:
        """Controls (steps, k, nu), and parameters by name, of points (k, n)."""

    def shifted(self, x: np.ndarray, steps: int) -> np.ndarray:
        """The variables from ``steps`` steps later on."""


@runtime_checkable
class ControlProblem(Simulation, Protocol):
    """The search for controls of a System, by iLQR or MPC: a :class:`~pullback.tasks.Task` is one."""

    system: System  # with one world
    start: Any  # its initial state
    find: Any  # HeldControls, for iLQR and MPC
    loss: Any  # a QuadraticLoss, for iLQR
    motions: int  # number of trajectories of a point; iLQR supports one

    def begin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The initial guess and the bounds, (n,) each."""

    def run(self, points: np.ndarray) -> Run:
        """The trajectories of points."""

    def in_worlds(self, worlds: int) -> System:
        """The System with so many worlds."""

    def start_in(self, copies: int) -> Any:
        """The initial state in so many worlds."""

    def starting(self, state: Any) -> ControlProblem:
        """The same problem from another initial state."""

    def window(self, state: Any, steps: int) -> ControlProblem:
        """The same problem from another initial state, over so many steps."""
