"""What tasks share in which a network learns from motions: windows of those, and the error of motions held out.

A motion is the states that were recorded, with rows in the place of worlds, and the controls between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.system import System
from pullback.core.trees import tree_map
from pullback.rollout import Run, rollout

Motion = tuple[Any, np.ndarray]


def windows(motions: Sequence[Motion], steps: int, count: int, random: np.random.Generator) -> Motion:
    """Pieces of motions from anywhere, side by side: states (steps + 1, count, ...), controls (steps, count, nu)."""
    lengths = [len(controls) - steps for _, controls in motions]
    firsts = random.integers(0, min(lengths), count)
    states, controls = [], []
    for i, first in enumerate(firsts):
        recorded, given = motions[i % len(motions)]
        states.append(tree_map(lambda x, a=first: to_numpy(x)[a : a + steps + 1], recorded))
        controls.append(given[first : first + steps])
    return tree_map(lambda *x: np.stack(x, axis=1), *states), np.stack(controls, axis=1)


def replay(system, motions: Sequence[Motion], params: Mapping | None = None) -> tuple[np.ndarray, np.ndarray] | None:
    """Coordinates (rows, motions, nq) from where motions began, under their controls, and the real ones; None where
    one cannot be simulated."""
    wide = system if system.worlds == len(motions) else system.in_worlds(len(motions))
    real = np.stack([states.q for states, _ in motions], axis=1)
    start = wide.state(real[0], np.stack([states.v[0] for states, _ in motions]))
    run = rollout(wide, start, np.stack([u for _, u in motions], axis=1), params=params, on_failure="mask")
    return None if np.any(run.status.failed) else (to_numpy(run.q), real)


def found_params(run: Run, names: Iterable[str], world: int = 0) -> dict[str, np.ndarray]:
    """The parameters of these names that a world of a run has."""
    values = ((name, run.params.values[name]) for name in names)
    return {name: x[world] if run.params.per_world[name] else x for name, x in values}


@dataclass(frozen=True)
class HeldOut:
    """The metric of a task that finds ``names``: the error of motions held out; those of a point have one network.

    apart:    of coordinates (rows, motions, nq) and the real ones, one number
    windows:  worlds of a point
    """

    system: System
    motions: Sequence[Motion]
    apart: Callable[[np.ndarray, np.ndarray], float]
    names: Sequence[str]
    windows: int

    def found(self, run: Run, world: int = 0) -> dict[str, np.ndarray]:
        """The parameters that a world of a run has."""
        return found_params(run, self.names, world)

    def error(self, system: System | None = None, params: Mapping | None = None) -> float:
        """Of a System; infinite where it cannot be simulated."""
        played = replay(self.system if system is None else system, self.motions, params)
        return np.inf if played is None else self.apart(*played)

    def __call__(self, run: Run) -> np.ndarray:
        each = [self.error(params=self.found(run, first)) for first in range(0, run.system.worlds, self.windows)]
        return np.repeat(each, self.windows)
