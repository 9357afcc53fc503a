"""CMA-ES, for comparison with gradient-based methods."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pullback.core.errors import PullbackError
from pullback.plan.methods import Memory, Method


@dataclass(frozen=True)
class CMA(Method):
    """Covariance matrix adaptation (Hansen), from the package ``cma``. One iteration evaluates a whole population.

    spread:      standard deviation of the first population, in the units of the variables
    population:  points per iteration; None for 4 + 3 ln n
    """

    spread: float = 0.1
    population: int | None = None
    _running: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    wants_gradients = False

    def begin(self, x, low, high, seed):
        # The losses told so far, in order, determine the package's state: it draws the same points again.
        told = np.zeros((0, self._size(x)))
        memory = {"x": x, "start": x, "low": low, "high": high, "seed": np.array(seed), "told": told}
        self._strategy(memory)  # raises an error for a missing package before anything is simulated
        return memory

    def _size(self, x: np.ndarray) -> int:
        return self.population or 4 + int(3 * np.log(len(x)))

    def ask(self, memory):
        return self._strategy(memory)[1]

    def tell(self, memory, losses, gradients, *curvatures):
        strategy, points = self._strategy(memory)
        strategy.tell(list(points), list(self._ranked(losses)))
        memory = {**memory, "told": np.concatenate([memory["told"], losses[None]]), "x": strategy.result.xbest}
        self._running["now"] = (memory, strategy, self._draw(strategy))
        return memory

    def _strategy(self, memory: Memory):
        """The package's state for a memory: the running one, or one that is told all losses again."""
        whose, *running = self._running.get("now", ({},))
        if whose and all(np.array_equal(whose[name], value, equal_nan=True) for name, value in memory.items()):
            return running
        try:
            import cma
        except ImportError:
            raise PullbackError("CMA-ES needs the package cma: pip install 'pullback[plan]'") from None
        bounds = [[None if np.isinf(b) else float(b) for b in memory[name]] for name in ("low", "high")]
        # A generator of its own: the package would seed and use NumPy's global one.
        normal = np.random.default_rng(int(memory["seed"])).standard_normal
        options = {
            "seed": np.nan, "randn": lambda *shape: normal(shape), "popsize": self._size(memory["x"]), "bounds": bounds,
            "verbose": -9, "tolfun": 0, "tolx": 0, "tolstagnation": 10**9,
        }  # fmt: skip
        strategy = cma.CMAEvolutionStrategy(np.array(memory["start"]), self.spread, options)
        points = self._draw(strategy)
        for losses in memory["told"]:
            strategy.tell(list(points), list(self._ranked(losses)))
            points = self._draw(strategy)
        self._running["now"] = (memory, strategy, points)
        return strategy, points

    @staticmethod
    def _draw(strategy) -> np.ndarray:
        return np.array(strategy.ask())

    @staticmethod
    def _ranked(losses: np.ndarray) -> np.ndarray:
        """Losses with those that are not finite replaced by a larger one: only the order matters."""
        finite = np.isfinite(losses)
        worst = losses[finite].max() if np.any(finite) else 0.0
        return np.where(finite, losses, worst + 1 + abs(worst))
