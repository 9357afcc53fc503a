"""A soft robot in the plane learns to run: four muscles in its legs, and nothing rigid in it.

The robot, its numbers and its gait are those of DiffTaichi's ``diffmpm`` (Hu et al., 2020), so that the two can be
compared.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pullback.plan import Adam
from pullback.soft import Corotated, Muscle, Particles, block, room
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Rhythm
from pullback.tasks.task import Camera, Task, task_factory

CELLS, STEP = 128, 1e-3  # of a grid of 1 m by 1 m; [s]
STEPS = 1023
TISSUE = Corotated(young=25.0, poisson=0.25, density=1.0)  # Lamé's mu and lambda are 10 Pa
STRENGTH = 4.0  # of a muscle [Pa]
TURNS = 20 / (2 * math.pi)  # of the gait [Hz]
GRAVITY = 3.8  # [m/s²]
BODY = ((0.1, 0.13), (0.4, 0.23), (76, 24))  # corners [m], and particles along each axis
LEGS = (0.1, 0.15, 0.3, 0.35)  # where each begins [m]; the two of a pair touch
LEG = (0.05, 0.1, (12, 24))  # width and height [m], and particles
# Of every particle [m²]: as there, those of trunk and legs have the same, though the trunk's are a little closer.
VOLUME = LEG[0] * LEG[1] / math.prod(LEG[2])
# Nodes nearer to the border than three cells hold back what moves outwards.
MARGIN = 2.5 / CELLS
WANTED = 0.3  # of the way [m]
EYE, LOOK = (0.5, -2.2, 0.35), (0.5, 0.0, 0.15)


def robot(dtype: str = "float32", **options) -> Particles:
    """A trunk on two pairs of legs, each leg a muscle along its length."""
    width, height, counts = LEG
    bodies = [block(*BODY, TISSUE, name="trunk")]
    for number, x in enumerate(LEGS):
        muscle = Muscle((0.0, 1.0), STRENGTH)
        bodies.append(block((x, 0.03), (x + width, 0.03 + height), counts, TISSUE, muscle=muscle, name=f"leg {number}"))
    bodies = [replace(body, volume=VOLUME) for body in bodies]
    walls = room((MARGIN, MARGIN), (1 - MARGIN, 1 - MARGIN), friction=math.inf)
    settings = {"dx": 1 / CELLS, "cells": (CELLS, CELLS), "dt": STEP, "gravity": (0.0, -GRAVITY), "walls": walls}
    return Particles(bodies, dtype=dtype, **settings | options)


@task_factory
def soft_walker(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the weights of the first gait."""
    system = robot(device=device)
    start = system.state()
    from_here = float(start.x[0, :, 0].mean())

    def way(run) -> np.ndarray:
        """How far the mean of all particles has come (worlds,) [m]."""
        return run.final.x[..., 0].mean(axis=1, dtype=float) - from_here

    def loss(run) -> Loss:
        x_bar = np.zeros(run.final.x.shape)
        x_bar[..., 0] = -1 / system.n
        return Loss(-way(run), {"x_bar": x_bar})

    return Task(
        name="soft-walker",
        about=f"find a gait of a soft robot, by its four muscles, that takes it {WANTED:g} m far in a second",
        system=system,
        start=start,
        find=Rhythm(STEPS, STEP, TURNS, seed=seed),
        loss=loss,
        metric=lambda run: WANTED - way(run),
        target=0.0,
        unit="m short of the goal",
        method=Adam(rate=0.05),
        iterations=100,
        camera=Camera(EYE, LOOK),
        checkpoint_every=8,
    )
