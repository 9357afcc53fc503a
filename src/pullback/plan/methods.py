"""Methods of minimisation, by an ask-and-tell interface: a method asks for points, and is told their values.

Between calls, the state of a method is a dictionary of arrays, its memory. It can be written to a file after any
evaluation, and an interrupted run resumes from it with the same result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pullback.core.checks import shown
from pullback.core.errors import PullbackError

Memory = dict[str, np.ndarray]
FIRST_GUESS = "the first guess cannot be evaluated: its loss is not finite, or its gradient"


class Method(ABC):
    """A method of minimisation. Its settings are its fields; its state is a Memory.

    Points are vectors (n,). ``low`` and ``high`` (n,) are their bounds, which may be infinite.
    """

    wants_gradients = True
    wants_curvature = False

    def bound(self, problem) -> Method:
        """The method for one problem; one that needs more of it than losses returns a copy that holds the problem."""
        return self

    def sample(self, problem, memory: Memory):
        """The problem that evaluates the next points: the whole problem, or this iteration's sample of it."""
        return problem

    @property
    def newest(self) -> bool:
        """Whether iterations use different parts of a problem, so that their losses cannot be compared."""
        return False

    @abstractmethod
    def begin(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, seed: int) -> Memory:
        """The initial memory, at the initial guess x."""

    def ask(self, memory: Memory) -> np.ndarray:
        """The points (k, n) to evaluate next. Calling it again returns the same points."""
        return memory["x"][None]

    @abstractmethod
    def tell(self, memory: Memory, losses: np.ndarray, gradients: np.ndarray | None, *curvatures: np.ndarray) -> Memory:
        """The memory after losses (k,), and gradients (k, n) if wanted, at the points of ``ask``.

        A loss that is not finite means that the point could not be evaluated. Curvatures (k, n, n) are passed only to a
        method that wants them.
        """

    def done(self, memory: Memory) -> bool:
        """Whether the method has converged."""
        return False


def require(method: Method, **ranges: tuple[float, float]) -> None:
    """Raises an error that names a setting of a method outside of its range."""
    for name, (least, most) in ranges.items():
        value = getattr(method, name)
        if not isinstance(value, int | float | np.number) or not least <= value <= most:
            raise PullbackError(
                f"{name} of {type(method).__name__} must be a number in [{least}, {most}], not {shown(value)}"
            )


def ranked(losses: np.ndarray) -> np.ndarray:
    """Losses (k,) with infinity where they are not finite, so that these rank last."""
    return np.where(np.isfinite(losses), losses, np.inf)


def inside(x: np.ndarray, memory: Memory) -> np.ndarray:
    """The point within the bounds that is nearest to x (n,)."""
    return np.clip(x, memory["low"], memory["high"])


def movable(memory: Memory) -> np.ndarray:
    """Whether each variable (n,) may move down the gradient, and is not held by a bound."""
    x, gradient = memory["x"], memory["gradient"]
    return ~((x <= memory["low"]) & (gradient > 0) | (x >= memory["high"]) & (gradient < 0))


@dataclass(frozen=True)
class SGD(Method):
    """Gradient descent.

    rate:      length of a step for a gradient of length one
    momentum:  fraction of the previous step that is kept [1]
    """

    rate: float = 0.1
    momentum: float = 0.0

    def __post_init__(self):
        require(self, rate=(0, np.inf), momentum=(0, 1))

    def begin(self, x, low, high, seed):
        return {"x": x, "low": low, "high": high, "step": np.zeros_like(x), "rate": np.array(self.rate)}

    def tell(self, memory, losses, gradients, *curvatures):
        if not np.isfinite(losses[0]):
            return _step_back(memory)
        step = self.momentum * memory["step"] - memory["rate"] * gradients[0]
        return {**memory, "kept": memory["x"], "step": step, "x": inside(memory["x"] + step, memory)}


@dataclass(frozen=True)
class Adam(Method):
    """Steps of about ``rate`` along each variable whose gradient keeps its sign (Kingma and Ba, 2015).

    rate:   length of a step, in the units of the variables
    beta1:  decay per step of the mean of gradients [1]
    beta2:  decay per step of the mean of their squares [1]
    decay:  number of steps over which the rate falls to zero, as a half cosine; None for a constant rate
    """

    rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    decay: int | None = None

    def __post_init__(self):
        require(self, rate=(0, np.inf), beta1=(0, 1), beta2=(0, 1))
        if self.decay is not None:
            require(self, decay=(1, np.inf))

    def begin(self, x, low, high, seed):
        zero = np.zeros_like(x)
        memory = {"x": x, "low": low, "high": high, "mean": zero, "square": zero, "step": zero}
        return {**memory, "count": np.array(0), "rate": np.array(self.rate)}

    def tell(self, memory, losses, gradients, *curvatures):
        if not np.isfinite(losses[0]):
            return _step_back(memory)
        count = int(memory["count"]) + 1
        mean = self.beta1 * memory["mean"] + (1 - self.beta1) * gradients[0]
        square = self.beta2 * memory["square"] + (1 - self.beta2) * gradients[0] ** 2
        rate = float(memory["rate"])
        if self.decay is not None:
            rate *= (1 + np.cos(np.pi * min(count / self.decay, 1.0))) / 2
        deviation = np.sqrt(square / (1 - self.beta2**count))
        step = -rate * (mean / (1 - self.beta1**count)) / np.maximum(deviation, np.finfo(float).tiny)
        x = inside(memory["x"] + step, memory)
        return {
            **memory, "kept": memory["x"], "x": x, "step": step,
            "mean": mean, "square": square, "count": np.array(count),
        }  # fmt: skip


@dataclass(frozen=True)
class LBFGS(Method):
    """Quasi-Newton steps from the last gradients (Liu and Nocedal, 1989), each with a line search.

    The line search meets Wolfe's weak conditions by doubling and halving, which works for nonsmooth functions too
    (Lewis and Overton, 2013), such as losses with kinks of contact. Every trial of the search is an evaluation.

    memory:  number of past steps, with changes of the gradient, that are kept
    first:   length of the first step, in the units of the variables
    """

    memory: int = 10
    first: float = 0.1

    SUFFICIENT = 1e-4  # least fraction of the decrease predicted by the slope
    FLATTER = 0.9  # largest fraction of the slope that may be left
    TRIALS = 25  # per line search; then the method restarts from the best point

    def __post_init__(self):
        require(self, memory=(1, 1000), first=(0, np.inf))

    def begin(self, x, low, high, seed):
        pairs = np.zeros((0, len(x)))
        return {
            "x": x, "low": low, "high": high, "loss": np.array(np.nan), "gradient": np.zeros_like(x),
            "direction": np.zeros_like(x), "length": np.array(0.0), "shorter": np.array(0.0),
            "longer": np.array(np.inf), "trials": np.array(0), "steps": pairs, "changes": pairs,
        }  # fmt: skip

    def ask(self, memory):
        return inside(memory["x"] + memory["length"] * memory["direction"], memory)[None]

    def tell(self, memory, losses, gradients, *curvatures):
        point, loss = self.ask(memory)[0], losses[0]
        if not np.isfinite(memory["loss"]):  # the initial guess
            if not np.isfinite(loss):
                raise PullbackError(FIRST_GUESS)
            return self._aim({**memory, "loss": loss, "gradient": gradients[0]})
        step, gradient = point - memory["x"], memory["gradient"]
        slope = float(gradient @ step)
        length, trials = float(memory["length"]), int(memory["trials"]) + 1
        shorter, longer = float(memory["shorter"]), float(memory["longer"])
        if not loss <= memory["loss"] + self.SUFFICIENT * slope:
            longer = length
        elif float(gradients[0] @ step) < self.FLATTER * slope and np.any(step != 0):
            shorter = length
        else:
            longer = shorter = length
        if shorter == longer or (trials >= self.TRIALS and loss < memory["loss"]):
            return self._accept(memory, point, loss, gradients[0])
        if trials >= self.TRIALS:  # no improvement in this direction: discard the pairs
            none = np.zeros((0, len(point)))
            return self._aim({**memory, "steps": none, "changes": none})
        length = 2 * shorter if np.isinf(longer) else (shorter + longer) / 2
        return {
            **memory, "length": np.array(length), "shorter": np.array(shorter), "longer": np.array(longer),
            "trials": np.array(trials),
        }  # fmt: skip

    def _accept(self, memory: Memory, point: np.ndarray, loss: float, gradient: np.ndarray) -> Memory:
        step, change = point - memory["x"], gradient - memory["gradient"]
        steps, changes = memory["steps"], memory["changes"]
        if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            steps = np.concatenate([steps, step[None]])[-self.memory :]
            changes = np.concatenate([changes, change[None]])[-self.memory :]
        known = {"x": point, "loss": np.array(loss), "gradient": gradient, "steps": steps, "changes": changes}
        return self._aim({**memory, **known})

    def _aim(self, memory: Memory) -> Memory:
        """The memory with a new direction."""
        free = movable(memory)
        direction = np.where(free, memory["gradient"], 0.0)
        pairs = list(zip(memory["steps"] * free, memory["changes"] * free, strict=True))
        pairs = [(s, y) for s, y in pairs if s @ y > 0]
        weights = []
        for s, y in reversed(pairs):
            weights.append((s @ direction) / (s @ y))
            direction = direction - weights[-1] * y
        if pairs:
            s, y = pairs[-1]
            direction = direction * (s @ y) / (y @ y)
            length = 1.0
        else:
            length = self.first / max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
        for (s, y), weight in zip(pairs, reversed(weights), strict=True):
            direction = direction + (weight - (y @ direction) / (s @ y)) * s
        fresh = {"length": length, "shorter": 0.0, "longer": np.inf, "trials": 0}
        return {**memory, "direction": -direction, **{name: np.array(value) for name, value in fresh.items()}}


def _step_back(memory: Memory) -> Memory:
    """Halves the last step, and the rate from now on."""
    if "kept" not in memory:
        raise PullbackError(FIRST_GUESS)
    step = memory["step"] / 2
    return {**memory, "x": inside(memory["kept"] + step, memory), "step": step, "rate": memory["rate"] / 2}
