"""A soft robot learns to run: muscles in its legs, and nothing rigid in it. In the plane, and in space.

The robots, their numbers and gaits are those of DiffTaichi's ``diffmpm`` and ``diffmpm3d`` (Hu et al., 2020), so that
they can be compared.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pullback.plan import Adam
from pullback.soft import Body, Corotated, Muscle, NeoHookean, Particles, block, room
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

# The same in space.
SPACE_CELLS, SPACE_STEP, SPACE_STEPS = 64, 2e-3, 511
SPACE_STRENGTH, SPACE_TURNS = 5.0, 40 / (2 * math.pi)  # [Pa], [Hz]
SPACE_CORNER, SPACE_SIZE = np.array((0.1, 0.3, 0.05)), 0.1  # [m]
SPACE_VOLUME = (1 / SPACE_CELLS / 3) ** 3  # of every particle [m³]
SPACE_WANTED = 0.2  # of the way [m]
SPACE_EYE, SPACE_LOOK = (1.3, -1.2, 0.7), (0.4, 0.45, 0.1)


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


def robot_in_space(size: float = SPACE_SIZE, dtype: str = "float32", **options) -> Particles:
    """Three trunks on four legs, each leg of four muscles; 30,495 particles. size: of a trunk [m]"""
    tissue = NeoHookean(young=25.0, poisson=0.25, density=1.0)
    leg = np.array((size / 2, size, 0.7 * size / 2))

    def part(at, extent, **of) -> Body:
        low = SPACE_CORNER + at
        counts = tuple(int(length * SPACE_CELLS * 3 + 1e-9) for length in extent)
        return replace(block(low, low + extent, counts, tissue, **of), volume=SPACE_VOLUME)

    bodies = []
    for number in range(16):
        corner = size * np.array((2 * (number // 8), 2 * (number // 4 % 2), 0))
        at = corner + leg * (number // 2 % 2, 0, number % 2)
        muscle = Muscle((0.0, 1.0, 0.0), SPACE_STRENGTH)
        bodies.append(part(at, leg, muscle=muscle, name=f"leg {number // 4}, muscle {number % 4}"))
    trunk = np.array((size, size, 0.7 * size))
    bodies += [part(size * np.array((i, 1, 0)), trunk, name=f"trunk {i}") for i in range(3)]
    walls = room([2.5 / SPACE_CELLS] * 3, [1 - 2.5 / SPACE_CELLS] * 3, friction=math.inf)
    settings = {"dx": 1 / SPACE_CELLS, "cells": (SPACE_CELLS,) * 3, "dt": SPACE_STEP, "gravity": (0.0, 0.0, -10.0)}
    return Particles(bodies, dtype=dtype, walls=walls, **settings | options)


def walker(system: Particles, wanted: float, find: Rhythm, **others) -> Task:
    """To come far along x."""
    start = system.state()
    from_here = float(start.x[0, :, 0].mean(dtype=float))

    def way(run) -> np.ndarray:
        """How far the mean of all particles has come (worlds,) [m]."""
        return run.final.x[..., 0].mean(axis=1, dtype=float) - from_here

    def loss(run) -> Loss:
        x_bar = np.zeros(run.final.x.shape)
        x_bar[..., 0] = -1 / system.n
        return Loss(-way(run), {"x_bar": x_bar})

    return Task(
        system=system,
        start=start,
        find=find,
        loss=loss,
        metric=lambda run: wanted - way(run),
        target=0.0,
        unit="m short of the goal",
        iterations=100,
        **others,
    )


@task_factory
def soft_walker(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the weights of the first gait."""
    return walker(
        robot(device=device),
        WANTED,
        Rhythm(STEPS, STEP, TURNS, seed=seed),
        name="soft-walker",
        about=f"find a gait that moves a soft robot with four muscles by {WANTED:g} m in a second",
        method=Adam(rate=0.05),
        camera=Camera(EYE, LOOK),
        checkpoint_every=8,
    )


@task_factory
def soft_walker_3d(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the weights of the first gait."""
    return walker(
        robot_in_space(device=device),
        SPACE_WANTED,
        Rhythm(SPACE_STEPS, SPACE_STEP, SPACE_TURNS, seed=seed),
        name="soft-walker-3d",
        about=f"find a gait that moves a 3D soft robot with sixteen muscles by {SPACE_WANTED:g} m in a second",
        method=Adam(rate=0.1),
        camera=Camera(SPACE_EYE, SPACE_LOOK),
        checkpoint_every=16,
    )
