"""How steep does this sand stand, and how rough is the floor? From marked grains of a column that collapses."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.checks import check_seed
from pullback.soft import Particles, Sand, Wall, block
from pullback.tasks.markers import Markers, drawn_factors, marker_task
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Factors

DX, CELLS, STEP, STEPS = 0.02, (70, 22), 1e-3, 500  # [m], nodes, [s]
FLOOR, SIDE = 0.06, 0.1  # heights of the floor and place of the smooth wall that the sand leans on [m]
WIDTH, HEIGHT, COUNTS = 0.2, 0.3, (20, 30)  # of the column [m], and particles along each axis
SAND = Sand(young=2e5, poisson=0.3, density=1600.0, friction_angle=math.radians(32.0))
ROUGHNESS = 0.4  # of the floor: Coulomb's coefficient on the data sheet
EVERY = 50  # steps from one picture to the next
MARKED = 40  # grains
NOISE = 2e-3  # of a grain's place, standard deviation [m]
OFF = (0.1, 0.3)  # how far the real sand is from the data sheet, at least and at most [1]
MOST = 2.0  # times more or less than the data sheet says, at most [1]
GROUPS = {"friction angle": ("friction_angle", ...), "friction of the floor": ("friction", 0)}


def column(device: str = "cpu") -> Particles:
    """Sand that stands against a wall, and whose other wall has just been taken away."""
    low = np.array((SIDE, FLOOR))
    sand = block(low, low + (WIDTH, HEIGHT), COUNTS, SAND, name="sand")
    walls = [Wall((0.0, FLOOR), (0.0, 1.0), ROUGHNESS), Wall((SIDE, 0.0), (1.0, 0.0))]
    return Particles([sand], dx=DX, cells=CELLS, dt=STEP, walls=walls, device=device)


def markers(random: np.random.Generator) -> np.ndarray:
    """Which numbers of a state are the places of marked grains."""
    chosen = np.sort(random.permutation(math.prod(COUNTS))[:MARKED])
    return (2 * chosen[:, None] + np.arange(2)).ravel()


@task_factory
def sand_slope(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the real sand and floor, the marked grains and the noise."""
    system, random = column(device), np.random.default_rng(check_seed(seed))
    find, rows = Factors(STEPS, GROUPS, most=MOST), np.arange(0, STEPS + 1, EVERY)
    seen = Markers(system, find, np.log(drawn_factors(random, OFF, len(GROUPS))), rows, markers(random), NOISE, random)
    farthest = int(np.argmax(system.bodies[0].points.ravel()[seen.seen[::2]]))
    return marker_task(
        seen,
        GROUPS,
        name="sand-slope",
        about="find the friction angle of sand and the friction of a floor from forty marked grains of a collapse",
        curves=lambda run: [seen.curves(run, "grain", 2 * farthest, "place of a grain along the floor [m]")],
        camera=Camera((0.5, -1.6, 0.4), (0.5, 0.0, 0.2)),
    )
