"""Tasks for tests of workers: small enough to be solved in a moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pullback as pb
from pullback.plan import Adam, GaussNewton
from pullback.tasks import Controls, Effort, Factors, Recording, StateGoal, Task


class Temperature(NamedTuple):
    T: np.ndarray  # (worlds, 1) [K]


class Cooling(pb.System):
    """A body that cools towards 293 K and is heated by the control."""

    def __init__(self, worlds: int, k: float):
        self.worlds, self.nu, self.dtype, self.device, self.k = worlds, 1, "float64", "cpu", k

    def in_worlds(self, worlds: int):
        return Cooling(worlds, self.k)

    def step(self, state, control, params=None):
        return Temperature(state.T + 0.1 * (control - self.k * (state.T - 293.0)))

    def pullback(self, state, control, next_bar, params=None):
        return pb.Bars(Temperature((1 - 0.1 * self.k) * next_bar.T), 0.1 * next_bar.T)


def warm_up(k: float = 0.5, seed: int = 0, deadly: str = "") -> Task:
    """From a temperature by the seed to 400 K.

    deadly:  a folder: runs of seed 0 kill their worker once, in the middle of their iterations
    """
    goal = StateGoal(T=[400.0])
    calls = 0

    def metric(run):
        nonlocal calls
        calls += 1
        mark = Path(deadly) / f"{k}"
        if deadly and seed == 0 and calls == 12 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return goal.distance(run)

    return Task(
        name="warm-up",
        about="bring a body to 400 K",
        system=Cooling(1, k),
        start=Temperature(np.full((1, 1), 293.0 + 10 * seed)),
        find=Controls(steps=20, hold=5, scale=20.0),
        loss=goal + 1e-4 * Effort(),
        metric=metric,
        target=0.5,
        unit="K",
        method=Adam(),
        iterations=30,
    )


def two_masses() -> Task:
    """Of an acrobot, from three recordings."""
    system = pb.Articulated(pb.load(pb.robots.acrobot()), contact=None)
    start = system.in_worlds(3).state(np.linspace(-1, 1, 6).reshape(3, 2))
    run = pb.rollout(system.in_worlds(3), start, steps=40)
    recording = Recording(system.model, run.q, run.v + 0.01 * np.random.default_rng(0).normal(size=run.v.shape))
    return Task(
        name="two-masses",
        about="find a mass and an inertia of an acrobot",
        system=system,
        start=start,
        find=Factors(40, {"upper": ("mass", 1), "lower": ("inertia", 2)}),
        loss=recording,
        metric=lambda run: np.abs(run.q[-1, :, 0]),
        target=1.0,
        method=GaussNewton(),
    )
