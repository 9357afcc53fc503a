"""A problem with a name: what moves, what is looked for, what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.system import System
from pullback.plan import LBFGS, Found, Method
from pullback.rollout import Run, rollout
from pullback.tasks.variables import Variables


class Loss(NamedTuple):
    """A loss (worlds,) and its cotangents by field of the state, e.g. ``Loss(values, {"q_bar": ..., "v_bar": ...})``.

    Cotangents have the shapes that ``run.pullback`` takes: (steps + 1, worlds, n), or (worlds, n) for the last state.
    A loss that depends on the controls themselves, on effort say, also gives that cotangent (steps, worlds, nu).
    """

    values: np.ndarray
    bars: Mapping[str, Any]
    controls_bar: np.ndarray | None = None


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from [m], and what it looks at."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A System, a start, what is looked for, a loss and a figure that says when it is solved.

    name, about:  of the task; ``about`` in one line
    system:       with one world
    start:        its state
    find:         :class:`Controls` or :class:`Parameters`
    loss:         of a run, a :class:`Loss`; runs may have several worlds
    figure:       of a run, (worlds,): how far it is from solved, in ``unit``
    target:       the task is solved where the figure is at most this
    method:       that does well
    iterations:   after which to give up
    easier:       tasks to solve before this one, each from what the one before it found: see :func:`solve`
    baseline:     a method without gradients, tuned to this task, for comparison
    camera:       for pictures
    ghost:        coordinates (nq,) of the wanted end, drawn translucent
    """

    name: str
    about: str
    system: System
    start: Any
    find: Variables
    loss: Callable[[Run], Loss]
    figure: Callable[[Run], np.ndarray]
    target: float
    unit: str = ""
    method: Method = field(default_factory=LBFGS)
    iterations: int = 100
    easier: tuple[Task, ...] = ()
    baseline: Method | None = None
    baseline_iterations: int = 500
    camera: Camera | None = None
    ghost: np.ndarray | None = None

    def __post_init__(self):
        if self.system.worlds != 1:
            raise PullbackError(f"the System of a task has one world, not {self.system.worlds}")
        system = self.system
        # Systems of a few worlds are asked for again and again, and take longer to make than to step.
        made = cache(lambda worlds: system if worlds == 1 else system.in_worlds(worlds))
        object.__setattr__(self, "in_worlds", made)

    def begin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first guess and the bounds of the variables, (n,) each."""
        return self.find.begin(self.system)

    def start_in(self, worlds: int):
        """The start in so many worlds."""
        return type(self.start)(*(np.repeat(to_numpy(x), worlds, axis=0) for x in self.start))

    def starting(self, state) -> Task:
        """The same task from another state."""
        return self.but(start=state)

    def but(self, **changes) -> Task:
        """The same task with other fields, and the same System."""
        task = replace(self, **changes)
        object.__setattr__(task, "in_worlds", self.in_worlds)
        return task

    def run(self, points: np.ndarray) -> Run:
        """The motion of points (n,) or (k, n), one a world."""
        points = np.atleast_2d(np.asarray(points, dtype=float))
        system = self.in_worlds(len(points))
        start = self.start_in(len(points))
        controls, params = self.find.decode(system, points)
        return rollout(system, start, controls, params=params or None)

    def __call__(self, points: np.ndarray, wants_gradients: bool) -> Found:
        """Losses, gradients and figures of points (k, n): what :func:`pullback.plan.minimise` asks for."""
        try:
            run = self.run(points)
        except PullbackError:
            return self._one_by_one(points, wants_gradients)
        values, bars, controls_bar = self.loss(run)
        gradients = None
        if wants_gradients:
            try:
                pulled = run.pullback(**bars, wants_params=self.find.wants_params)
            except GradientOverflow:
                return self._one_by_one(points, wants_gradients)
            if controls_bar is not None:
                pulled = replace(pulled, control=to_numpy(pulled.control) + controls_bar)
            gradients = self.find.pull(run.system, points, pulled)
        return Found(np.asarray(values, dtype=float), gradients, np.asarray(self.figure(run), dtype=float))

    def _one_by_one(self, points: np.ndarray, wants_gradients: bool) -> Found:
        """One motion that cannot be simulated, or pulled back, must not spoil the others."""
        if len(points) == 1:
            nothing = np.full(points.shape, np.nan)
            return Found(np.full(1, np.inf), nothing if wants_gradients else None, np.full(1, np.inf))
        parts = [self(point[None], wants_gradients) for point in points]
        gradients = np.concatenate([part.gradients for part in parts]) if wants_gradients else None
        losses, figures = (np.concatenate([getattr(part, name) for part in parts]) for name in ("losses", "figures"))
        return Found(losses, gradients, figures)
