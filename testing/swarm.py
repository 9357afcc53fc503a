"""A System whose states have every shape: arrays of rank one, two and three, whole numbers, NamedTuples inside."""

from typing import Any, NamedTuple

import numpy as np

import pullback as pb
from pullback.core.bars import Named


class Points(NamedTuple):
    x: Any  # (worlds, 4, 3) places [m]
    v: Any  # (worlds, 4, 3) velocities [m/s]


class SwarmState(NamedTuple):
    points: Points
    heat: Any  # (worlds,) what their friction makes
    count: Any  # (worlds, 2) steps, and steps of even number: whole numbers


class Swarm(pb.System):
    """Four points on springs that soften as they warm up; a control pushes all of them along each axis.

    v' = v + h (u - k x / (1 + heat) - c v),  x' = x + h v',  heat' = heat + h c Σ v²
    """

    nu, device, state_type = 3, "cpu", SwarmState
    h = 0.1

    def __init__(self, worlds=2, dtype="float64"):
        self.worlds, self.dtype = worlds, dtype
        self.params = {"k": np.array([1.0, 2.0, 0.5, 1.5]), "c": np.array(0.3)}  # springs (4,), damping ()

    def _values(self, params):
        """k (worlds or 1, 4, 1) and c (worlds or 1, 1, 1)"""
        values = {**self.params, **(params or {})}
        return np.reshape(values["k"], (-1, 4, 1)), np.reshape(values["c"], (-1, 1, 1))

    def state(self):
        x = np.linspace(-1, 1, 12 * self.worlds, dtype=self.dtype).reshape(self.worlds, 4, 3)
        heat, count = np.zeros(self.worlds, self.dtype), np.zeros((self.worlds, 2), dtype=int)
        return SwarmState(Points(x, np.cos(5 * x)), heat, count)

    def step(self, state, control, params=None):
        (x, v), heat, count = state
        k, c = self._values(params)
        force = control[:, None] - k * x / (1 + heat[:, None, None]) - c * v
        after = v + self.h * force
        warmer = heat + self.h * np.sum(c * v**2, axis=(1, 2))
        count = count + np.stack([np.ones(self.worlds), count[:, 0] % 2 == 0], axis=1).astype(count.dtype)
        cast = lambda array: array.astype(self.dtype)  # noqa: E731
        return SwarmState(Points(cast(x + self.h * after), cast(after)), cast(warmer), count)

    def pullback(self, state, control, next_bar, params=None):
        (x, v), heat, _ = state
        (x_bar, v_bar), heat_bar, _ = next_bar
        k, c = self._values(params)
        soft = 1 + heat[:, None, None]
        v_bar = v_bar + self.h * x_bar
        force_bar = self.h * v_bar
        warm_bar = self.h * heat_bar[:, None, None]
        before = Points(x_bar - force_bar * k / soft, v_bar - force_bar * c + 2 * c * v * warm_bar)
        heat_bar = heat_bar + np.sum(force_bar * k * x / soft**2, axis=(1, 2))
        bars = {"k": -np.sum(force_bar * x / soft, axis=2), "c": np.sum(warm_bar * v**2 - force_bar * v, axis=(1, 2))}
        for name, bar in bars.items():
            shared = np.shape((params or self.params)[name]) == np.shape(self.params[name])
            bars[name] = bar.sum(axis=0) if shared else bar
        cast = lambda array: array.astype(self.dtype)  # noqa: E731
        state_bar = SwarmState(Points(cast(before.x), cast(before.v)), cast(heat_bar), np.zeros((self.worlds, 2)))
        return pb.Bars(state_bar, cast(force_bar.sum(axis=1)), Named(bars))
