"""Markers on a soft body, and what a parameter must be for them to be where they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.system import System
from pullback.plan import CMA, GaussNewton
from pullback.rollout import Run, rollout
from pullback.tasks.identify import worst_error
from pullback.tasks.residuals import Residuals
from pullback.tasks.task import Curves, Task
from pullback.tasks.variables import Variables


@dataclass(frozen=True)
class Markers:
    """Some points of a soft body, whose places are seen with noise. Called with a run, it gives the Residuals.

    system:  with places ``x`` as the first field of its states
    find:    its parameters
    truth:   (n,) variables of the real body
    rows:    steps at which there is a picture; at the first nothing has moved, and nothing is compared
    seen:    which numbers of a state's ``x`` a picture shows, such as 3 · vertex + 2 for the height of a vertex
    noise:   of a place, standard deviation [m]
    random:  which the noise is drawn from
    """

    system: System
    find: Variables
    truth: np.ndarray
    rows: np.ndarray
    seen: np.ndarray
    noise: float
    random: np.random.Generator = field(compare=False)

    def places(self, run: Run) -> np.ndarray:
        """What would be seen of a run without noise (rows, worlds, seen) [m]."""
        x = to_numpy(run.states[0])[self.rows]
        return x.reshape(*x.shape[:2], -1)[..., self.seen]

    @cached_property
    def recorded(self) -> np.ndarray:
        """Of the real body, as they were measured (rows, 1, seen) [m]."""
        controls, params = self.find.decode(self.system, self.truth[None])
        exact = self.places(rollout(self.system, self.system.state(), controls, params=params))  # type: ignore
        return exact + self.noise * self.random.standard_normal(exact.shape)

    def __call__(self, run: Run) -> Residuals:
        """What is apart, in units of the noise."""
        later = np.where(self.rows > 0, 1 / self.noise, 0.0)
        apart = (self.places(run) - self.recorded) * later[:, None, None]
        moves = later[:, None, None, None] * np.eye(len(self.seen))
        return Residuals(self.rows, apart, np.broadcast_to(moves, (*apart.shape, len(self.seen))), self.seen)

    def curves(self, run: Run, name: str, which: int, ylabel: str) -> Curves:
        """One of the numbers over time, and what it would be with the parameters that were found."""
        values = {"measured": self.recorded[:, 0, which], "found": self.places(run)[:, 0, which]}
        return Curves(name, self.system.dt * self.rows, values, "time [s]", ylabel)  # type: ignore


def drawn_factors(random: np.random.Generator, off: tuple[float, float], count: int) -> np.ndarray:
    """Factors (count,) from 1 - off to 1 + off, none nearer to one than the smaller of both."""
    return 1 + random.uniform(*off, count) * random.choice([-1, 1], count)


def marker_task(markers: Markers, groups: Mapping[str, Any], **others) -> Task:
    """To find the factors from what the markers did, by Gauss-Newton."""
    factors = np.exp(markers.truth)
    settings = {
        "system": markers.system,
        "start": markers.system.state(),  # type: ignore
        "find": markers.find,
        "loss": markers,
        "metric": lambda run: worst_error(run, groups, factors),
        "target": 3.0,
        "unit": "% error of the worst parameter",
        "evaluate_at_end": True,
        "truth": factors,
        "method": GaussNewton(),
        "iterations": 20,
        "baseline": CMA(spread=0.1),
        "baseline_iterations": 60,
    }
    return Task(**settings | others)
