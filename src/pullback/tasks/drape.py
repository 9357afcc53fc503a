"""How much does this cloth rub, and how much does it bend? From noisy markers on it while it slides off a ball."""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.soft import Elastic, Membrane, Shape, sheet
from pullback.tasks.markers import Markers, drawn_factors, marker_task
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Factors

SIDE, CELLS = 0.5, 14  # of the cloth [m]
OFFSET = 0.09  # of its middle from that of the ball: it slides to that side [m]
RADIUS = 0.15  # of the ball [m]
COTTON = Membrane(young=200.0, density=0.2, bending=1e-3, viscosity=0.02, drag=0.1)
FRICTION = 0.3  # of the data sheet
DT, STEPS, EVERY = 0.01, 50, 2  # [s]; steps from one picture to the next
NOISE = 1e-3  # of a marker's place, standard deviation [m]
OFF = (0.1, 0.4)  # how far the real cloth is from the data sheet, at least and at most [1]
MOST = 3.0  # times more or less than the data sheet says, at most [1]
GROUPS = {"friction": ("friction", ...), "bending": ("bending", ...)}


def cloth(device: str = "cpu") -> Elastic:
    """A square of cotton just above a ball, and not over its middle."""
    body = sheet((OFFSET - SIDE / 2, -SIDE / 2, 2 * RADIUS + 0.002), (SIDE, 0, 0), (0, SIDE, 0), (CELLS, CELLS), COTTON)
    ball = Shape.sphere((0.0, 0.0, RADIUS), RADIUS, friction=FRICTION)
    return Elastic(body, dt=DT, shapes=[ball], gap=4e-3, device=device)


def markers(system: Elastic) -> np.ndarray:
    """Which numbers of a state are the places of corners, of the middles of edges, and of the middle."""
    lines = np.arange(CELLS + 1) * (CELLS + 1)
    ends = np.array([0, CELLS // 2, CELLS])
    chosen = (lines[ends][:, None] + ends).ravel()
    return (3 * chosen[:, None] + np.arange(3)).ravel()


@task_factory
def drape(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the real cloth and the noise."""
    system, random = cloth(device), np.random.default_rng(check_seed(seed))
    find, rows = Factors(STEPS, GROUPS, most=MOST), np.arange(0, STEPS + 1, EVERY)
    seen = Markers(system, find, np.log(drawn_factors(random, OFF, len(GROUPS))), rows, markers(system), NOISE, random)
    return marker_task(
        seen,
        GROUPS,
        name="drape",
        about="find friction and bending stiffness of a cloth on a ball from nine markers, with noise of 1 mm",
        curves=lambda run: [seen.curves(run, "corner", -1, "height of a corner [m]")],
        camera=Camera((0.8, -0.95, 0.55), (0.06, 0.0, 0.13)),
    )
