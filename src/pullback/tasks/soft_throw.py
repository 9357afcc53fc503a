"""A soft square is thrown: with which velocity does it come where it should be?

The square and its numbers are those of DiffTaichi's ``diffmpm_benchmark`` (Hu et al., 2020).
"""

from __future__ import annotations

import numpy as np

from pullback.plan import LBFGS
from pullback.soft import Corotated, Particles, block, room
from pullback.tasks.loss import Loss
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Launch

CELLS, STEP, STEPS = 120, 3e-4, 1023  # of a grid of 1 m by 1 m; [s]
TISSUE = Corotated(young=250.0, poisson=0.25, density=1.0)  # Lamé's mu and lambda are 100 Pa
CORNER, SIZE, COUNT = (10 / CELLS, 25 / CELLS), 40 / CELLS, 80  # [m], and particles along an edge
GOAL = (0.3, 0.6)  # of the centre of mass [m]
MARGIN = 2.5 / CELLS  # walls all around that let slip [m]
EYE, LOOK = (0.5, -2.6, 0.5), (0.5, 0.0, 0.45)


def square(dtype: str = "float32", **options) -> Particles:
    low = np.array(CORNER)
    body = block(low, low + SIZE, (COUNT, COUNT), TISSUE, name="square")
    walls = room((MARGIN, MARGIN), (1 - MARGIN, 1 - MARGIN))
    settings = {"dx": 1 / CELLS, "cells": (CELLS, CELLS), "dt": STEP, "gravity": (0.0, -9.8), "walls": walls}
    return Particles([body], dtype=dtype, **settings | options)


@task_factory
def soft_throw(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` changes nothing: there is no chance in it."""
    system = square(device=device)

    def miss(run) -> np.ndarray:
        """From the goal to the centre of mass (worlds, 2) [m]."""
        return run.final.x.mean(axis=1, dtype=float) - GOAL

    def loss(run) -> Loss:
        x_bar = np.broadcast_to(miss(run)[:, None] / system.n, run.final.x.shape)
        return Loss((miss(run) ** 2).sum(axis=1) / 2, {"x_bar": x_bar})

    return Task(
        name="soft-throw",
        about="throw a soft square so that its centre is at a mark after 0.3 s",
        system=system,
        start=system.state(),
        find=Launch(STEPS, (0.0, 0.0)),
        loss=loss,
        metric=lambda run: np.linalg.norm(miss(run), axis=1),
        target=1e-3,
        unit="m",
        method=LBFGS(),
        iterations=30,
        camera=Camera(EYE, LOOK),
        checkpoint_every=16,
    )
