"""Controls as functions of time with fewer variables than steps: straight lines between knots, waves, or a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.checks import check_number, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.tasks.variables import Variables

# Of the network at first: how steep its first layer may be over the whole time, and how much wider than usual the
# weights of its second are. Bends that are spread over all of the time are found by Adam in a third of the steps. [1]
STEEPEST, WIDER = 15.0, 2.0


@dataclass(frozen=True)
class Schedule(Variables):
    """Some of the controls, linear between knots at equal distances in time; the others are unchanged.

    steps:      of the trajectory
    base:       (nu,) all controls, of which some are optimised
    columns:    which of them are
    knots:      of each
    scale:      what a variable of one stands for, in the units of the controls: one number, or one per column
    low, high:  bounds, likewise
    start:      the first guess: one number, one per column, or (knots, columns); the base if None
    """

    steps: int
    base: tuple[float, ...]
    columns: tuple[int, ...]
    knots: int
    scale: np.ndarray | float = 1.0
    low: np.ndarray | float = -np.inf
    high: np.ndarray | float = np.inf
    start: np.ndarray | float | None = None

    def __post_init__(self):
        check_whole(self.steps, "steps of a Schedule", 2)
        check_whole(self.knots, "knots of a Schedule", 2)
        if self.knots > self.steps:
            raise PullbackError(f"knots of a Schedule must be from 2 to its steps, {self.steps}, not {self.knots!r}")
        if not self.columns or not all(0 <= column < len(self.base) for column in self.columns):
            raise PullbackError(
                f"columns of a Schedule must be some of 0 to {len(self.base) - 1}, not {self.columns!r}"
            )

    def _weights(self) -> np.ndarray:
        """How much of each knot is in each step (steps, knots)."""
        at = np.linspace(0, self.steps - 1, self.knots)
        return np.stack([np.interp(np.arange(self.steps), at, one) for one in np.eye(self.knots)], axis=1)

    def _scale(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.scale, dtype=float), len(self.columns))

    def begin(self, system):
        start = np.asarray(self.base)[list(self.columns)] if self.start is None else self.start
        shape = (self.knots, len(self.columns))
        first, low, high = (np.broadcast_to(x, shape) / self._scale() for x in (start, self.low, self.high))
        return first.ravel(), low.ravel(), high.ravel()

    def decode(self, system, points):
        knots = points.reshape(len(points), self.knots, -1) * self._scale()
        controls = np.empty((self.steps, len(points), len(self.base)), dtype=system.dtype)
        controls[:] = self.base
        controls[..., self.columns] = np.einsum("tk,wkc->twc", self._weights(), knots)
        return controls, {}

    def pull(self, system, points, bars):
        bar = np.asarray(bars.control, dtype=float)[..., self.columns]
        return (np.einsum("tk,twc->wkc", self._weights(), bar) * self._scale()).reshape(len(points), -1)

    def push(self, system, points):
        moves = np.zeros((self.steps, len(points), len(self.base), self.knots, len(self.columns)))
        for c, column in enumerate(self.columns):
            moves[:, :, column, :, c] = self._weights()[:, None] * self._scale()[c]
        return {"controls": moves.reshape(self.steps, len(points), len(self.base), -1)}


@dataclass(frozen=True)
class Waves(Variables):
    """Controls that are sums of waves: base + scale Σ (a sin(2π f t) + b (cos(2π f t) - 1)), so that they begin at the
    base. The variables a and b are zero at first.

    steps:        of the trajectory
    base:         (nu,) all controls
    timestep:     of the System [s]
    frequencies:  of the waves [Hz]; each has a sine and a cosine
    scale:        what a variable of one stands for, (nu,) or one number, in the units of the controls
    """

    steps: int
    base: tuple[float, ...]
    timestep: float
    frequencies: tuple[float, ...]
    scale: np.ndarray | float = 1.0

    def __post_init__(self):
        check_whole(self.steps, "steps of Waves")
        if not self.frequencies or not all(0 < one < np.inf for one in self.frequencies):
            raise PullbackError(f"frequencies of Waves must be some positive numbers, not {self.frequencies!r}")

    def _weights(self) -> np.ndarray:
        """How much of each wave is in each step (steps, waves)."""
        angles = 2 * np.pi * self.timestep * np.outer(np.arange(self.steps), self.frequencies)
        return np.concatenate([np.sin(angles), np.cos(angles) - 1], axis=1)

    def begin(self, system):
        x = np.zeros(2 * len(self.frequencies) * len(self.base))
        return x, x - np.inf, x + np.inf

    def decode(self, system, points):
        waves = points.reshape(len(points), -1, len(self.base)) * self.scale
        controls = self.base + np.einsum("tk,wkc->twc", self._weights(), waves)
        return controls.astype(system.dtype), {}

    def pull(self, system, points, bars):
        bar = np.asarray(bars.control, dtype=float)
        return (np.einsum("tk,twc->wkc", self._weights(), bar) * self.scale).reshape(len(points), -1)

    def push(self, system, points):
        each = np.diag(np.broadcast_to(np.asarray(self.scale, dtype=float), len(self.base)))
        moves = np.einsum("tk,cd->tckd", self._weights(), each).reshape(self.steps, 1, len(self.base), -1)
        return {"controls": np.repeat(moves, len(points), axis=1)}


@dataclass(frozen=True)
class Rhythm(Variables):
    """Controls between -1 and 1 that repeat: tanh(Σ_k w_k sin(2π (f t + k/waves)) + b), with weights w and a bias b of
    each control (Hu et al., 2020). The variables are all weights (waves, nu), and then the biases (nu,).

    steps:      of the trajectory
    timestep:   of the System [s]
    frequency:  f [Hz]
    waves:      of equal frequency and different phase
    spread:     of the weights at first; biases are zero
    seed:       of the weights
    """

    steps: int
    timestep: float
    frequency: float
    waves: int = 4
    spread: float = 0.01
    seed: int = 0

    def __post_init__(self):
        check_whole(self.steps, "steps of a Rhythm")
        check_whole(self.waves, "waves of a Rhythm")
        check_seed(self.seed)
        for name in ("timestep", "frequency", "spread"):
            check_number(getattr(self, name), f"{name} of a Rhythm")

    def _features(self) -> np.ndarray:
        """(steps, waves + 1): the waves at every step, and one."""
        turns = self.frequency * self.timestep * np.arange(self.steps)[:, None] + np.arange(self.waves) / self.waves
        return np.column_stack([np.sin(2 * np.pi * turns), np.ones(self.steps)])

    def _curves(self, system, points: np.ndarray) -> np.ndarray:
        """(steps, k, nu)"""
        weights = points.reshape(len(points), self.waves + 1, system.nu)
        return np.tanh(np.einsum("tf,kfu->tku", self._features(), weights))

    def begin(self, system):
        weights = self.spread * np.random.default_rng(self.seed).standard_normal((self.waves, system.nu))
        x = np.concatenate([weights, np.zeros((1, system.nu))]).ravel()
        return x, np.full(x.shape, -np.inf), np.full(x.shape, np.inf)

    def decode(self, system, points):
        return self._curves(system, points).astype(system.dtype), {}

    def pull(self, system, points, bars):
        slope = 1 - self._curves(system, points) ** 2
        bar = np.asarray(bars.control, dtype=float) * slope
        return np.einsum("tf,tku->kfu", self._features(), bar).reshape(len(points), -1)

    def push(self, system, points):
        slope = 1 - self._curves(system, points) ** 2
        moves = np.einsum("tku,tf,uv->tkufv", slope, self._features(), np.eye(system.nu))
        return {"controls": moves.reshape(*slope.shape, -1)}


@dataclass(frozen=True)
class Network(Variables):
    """One of the controls as a small network of time: inputs 1, τ and τ² with τ from -1/2 to 1/2, two layers of tanh,
    and an output between zero and ``most`` (Mozaffar et al., 2023). The variables are its weights.

    steps:   of the trajectory
    base:    (nu,) all controls, of which one is optimised
    column:  index of the control that the network computes
    most:    its largest value, in its unit
    width:   of the layers
    seed:    of the initial weights
    """

    steps: int
    base: tuple[float, ...]
    column: int
    most: float
    width: int = 50
    seed: int = 0

    def __post_init__(self):
        for name in ("steps", "width"):
            check_whole(getattr(self, name), f"{name} of a Network")
        check_seed(self.seed)
        if not (check_whole(self.column, "column of a Network", 0) < len(self.base)):
            raise PullbackError(f"column of a Network must be from 0 to {len(self.base) - 1}, not {self.column!r}")

    def _shapes(self) -> list[tuple[int, ...]]:
        """Weights and biases, layer by layer."""
        w = self.width
        return [(w, 3), (w,), (w, w), (w,), (1, w), (1,)]

    def begin(self, system):
        random, w = np.random.default_rng(self.seed), self.width
        usual = [random.uniform(-1, 1, shape) / np.sqrt(shape[-1] if len(shape) > 1 else w) for shape in self._shapes()]
        slope, bend = random.uniform(-STEEPEST, STEEPEST, w), random.uniform(-0.5, 0.5, w)
        usual[0] = np.stack([np.zeros(w), slope, random.uniform(-STEEPEST, STEEPEST, w) / 3], axis=1)
        usual[1] = -slope * bend
        usual[2] = WIDER * usual[2]
        x = np.concatenate([part.ravel() for part in usual])
        return x, np.full(x.shape, -np.inf), np.full(x.shape, np.inf)

    def _curve(self, x):
        """What a torch vector of variables gives at every step (steps,), and torch itself."""
        import torch

        tau = torch.linspace(-0.5, 0.5, self.steps, dtype=torch.float64)
        h, at = torch.stack([torch.ones_like(tau), tau, tau**2], dim=1), 0
        shapes = self._shapes()
        for weight, bias in zip(shapes[::2], shapes[1::2], strict=True):
            count = weight[0] * weight[1]
            h = h @ x[at : at + count].reshape(weight).T + x[at + count : at + count + bias[0]]
            h = torch.tanh(h)
            at += count + bias[0]
        return self.most * (h[:, 0] + 1) / 2

    def _leaf(self, point: np.ndarray):
        try:
            import torch
        except ImportError:
            raise PullbackError('a Network needs torch: pip install "pullback[torch]"') from None
        return torch.tensor(point, dtype=torch.float64, requires_grad=True)

    def decode(self, system, points):
        controls = np.empty((self.steps, len(points), len(self.base)), dtype=system.dtype)
        controls[:] = self.base
        for world, point in enumerate(points):
            controls[:, world, self.column] = self._curve(self._leaf(point)).detach().numpy()
        return controls, {}

    def pull(self, system, points, bars):
        bar = np.asarray(bars.control, dtype=float)[..., self.column]
        rows = []
        for world, point in enumerate(points):
            x = self._leaf(point)
            self._curve(x).backward(x.new_tensor(bar[:, world]))
            rows.append(x.grad.numpy())
        return np.stack(rows)

    def push(self, system, points):
        raise PullbackError("a Network has no tangents: use a method that needs gradients alone, such as Adam")
