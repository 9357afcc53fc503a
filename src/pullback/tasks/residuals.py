"""Losses that are half a sum of squares, of which Gauss-Newton and confidence intervals make more than a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pullback.core.arrays import checked, to_numpy
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.model.tangent import difference, difference_jacobian
from pullback.plan import Expansion
from pullback.rollout import Run


class Residuals(NamedTuple):
    """Residuals of some states of a run, and their Jacobians with respect to these states.

    steps:      (rows,) the steps of these states
    values:     (rows, worlds, m)
    jacobians:  (rows, worlds, m, c) with respect to the tangent of the state, [dq; dv] of a robot; residuals with a
                zero Jacobian do not count
    columns:    (c,) which numbers of the tangent these are; None for all of them
    """

    steps: np.ndarray
    values: np.ndarray
    jacobians: np.ndarray
    columns: np.ndarray | None = None

    @property
    def count(self) -> int:
        """How many there are, in all worlds."""
        return int(np.count_nonzero(np.any(self.jacobians != 0, axis=3)))

    def losses(self) -> np.ndarray:
        """Half the sum of squares (worlds,)."""
        return np.sum(self.values**2, axis=(0, 2)) / 2

    def bars(self, run: Run) -> dict[str, np.ndarray]:
        """The cotangents of the loss, as ``run.pullback`` takes them."""
        states = type(run.states)(*(to_numpy(field)[self.steps] for field in run.states))
        columns = slice(None) if self.columns is None else self.columns
        tangent_bar = np.zeros(run.system.difference(states, states, leading=2).shape)
        tangent_bar[..., columns] = np.einsum("twm,twmi->twi", self.values, self.jacobians)
        bars = {}
        for name, of_rows in run.system.state_bar(states, tangent_bar)._asdict().items():
            bars[f"{name}_bar"] = np.zeros(getattr(run, name).shape)
            bars[f"{name}_bar"][self.steps] = of_rows
        return bars

    def expand(self, run: Run) -> Expansion:
        """The loss to second order in the tangents of states, with an axis of worlds: gradients Jᵀr, curvatures JᵀJ."""
        size = run.system.difference(run.final, run.final).shape[-1]
        columns = np.arange(size) if self.columns is None else np.asarray(self.columns)
        lead, of_controls = (run.steps + 1, run.system.worlds), (run.steps, run.system.worlds, run.system.nu)
        found = Expansion(np.zeros((*lead, size)), np.zeros((*lead, size, size)), *np.zeros((2, *of_controls)))
        for step, values, jacobians in zip(self.steps, self.values, self.jacobians, strict=True):
            found.x[step][:, columns] += np.einsum("wm,wmi->wi", values, jacobians)
            found.xx[step][:, columns[:, None], columns] += jacobians.swapaxes(1, 2) @ jacobians
        return found

    def by_variables(self, tangents: np.ndarray) -> np.ndarray:
        """The Jacobian (worlds, rows · m, n) from tangents of all states, which ``run.pushforward`` gives."""
        columns = slice(None) if self.columns is None else self.columns
        return by_world(self.jacobians @ tangents[self.steps][:, :, columns])

    def each(self) -> Iterator[Residuals]:
        """One residual of all after the other, in the order of ``by_variables``: alone, and of value one.

        The gradient of such a loss is a row of the Jacobian.
        """
        for index in np.ndindex(len(self.steps), self.values.shape[2]):
            values = np.zeros_like(self.values)
            values[index[0], :, index[1]] = 1.0
            yield self._replace(values=values)


@dataclass(frozen=True)
class Recording:
    """Measured trajectories of a robot. Called with a run, it returns the Residuals.

    Each of the 2nv channels of q and v is compared in units of its own standard deviation over the recording, so noise
    in per cent of the signal is the same for all. The initial state is not compared, since the run starts there.

    model:  of the robot
    q, v:   (steps + 1, motions, nq) and (steps + 1, motions, nv), as in a run
    every:  steps between measurements
    scales: of the channels (2nv,) in their units; default: standard deviations over this recording
    """

    model: Model
    q: np.ndarray
    v: np.ndarray
    every: int = 1
    scales: np.ndarray | None = None

    def __post_init__(self):
        steps, motions = np.shape(self.q)[:2] if np.ndim(self.q) == 3 else (0, 0)
        for name, size in (("q", self.model.nq), ("v", self.model.nv)):
            axes = ("steps + 1", "motions", f"n{name}")
            value = checked(getattr(self, name), (steps, motions, size), "float64", f"recorded {name}", axes)
            object.__setattr__(self, name, value)
        if not isinstance(self.every, int | np.integer) or not 1 <= self.every < steps:
            raise PullbackError(f"every must be from 1 to the number of steps, {steps - 1}, not {self.every!r}")

    def scale(self) -> np.ndarray:
        """The standard deviation of each channel (2nv,), in its own unit."""
        if self.scales is not None:
            return self.scales
        scale = channel_deviations(self.model, self.q, self.v)
        if np.any(scale == 0):
            raise PullbackError(f"channel {int(np.argmin(scale))} of the 2nv recorded does not move: no scale for it")
        return scale

    def part(self, motions: slice) -> Recording:
        """Some of the motions, in the units of all."""
        return replace(self, q=self.q[:, motions], v=self.v[:, motions], scales=self.scale())

    def __call__(self, run: Run) -> Residuals:
        steps = np.arange(self.every, run.steps + 1, self.every)
        if len(self.q) != run.steps + 1 or run.q.shape[1] % self.q.shape[1]:
            raise PullbackError(f"a run of shape {run.q.shape} cannot be compared with a recording of {self.q.shape}")
        copies = run.q.shape[1] // self.q.shape[1]
        q, v = (np.tile(x[steps], (1, copies, 1)) for x in (self.q, self.v))
        apart = difference(self.model, q, to_numpy(run.q)[steps])
        nv, scale = self.model.nv, self.scale()
        values = np.concatenate([apart, to_numpy(run.v)[steps] - v], axis=2) / scale
        jacobians = np.zeros((*values.shape, 2 * nv + self.model.na))
        jacobians[..., :nv, :nv] = difference_jacobian(self.model, apart)
        jacobians[..., nv:, nv : 2 * nv] = np.eye(nv)
        size = run.system.difference(run.final, run.final).shape[-1]
        columns = None if size == jacobians.shape[-1] else np.arange(jacobians.shape[-1])  # a state that has more
        return Residuals(steps, values, jacobians / scale[:, None], columns)


def channel_deviations(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Standard deviations (2nv,) of the coordinates, in the tangent space of the first, and of the velocities."""
    moved = difference(model, q[:1, :1], q)
    return np.concatenate([x.reshape(-1, x.shape[-1]).std(axis=0) for x in (moved, v)])


def by_world(x: np.ndarray) -> np.ndarray:
    """(rows, worlds, m, ...) as (worlds, rows · m, ...)."""
    x = np.swapaxes(x, 0, 1)
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])
