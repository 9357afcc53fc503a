"""How stiff is this beam, and how much does it damp? From noisy markers on it while it falls and swings."""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.soft import Elastic, StableNeoHookean, solid_block
from pullback.tasks.markers import Markers, drawn_factors, marker_task
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Factors

LENGTH, SIDE, CELLS = 0.4, 0.05, (16, 2, 2)  # [m], [m]
RUBBER = StableNeoHookean(young=2e5, poisson=0.4, density=1e3, viscosity=2000.0)
DT, STEPS, EVERY = 0.01, 80, 2  # [s]; steps from one picture to the next
MARKERS = 4  # along the upper edge, from its middle to the tip
NOISE = 1e-3  # of a marker's place, standard deviation [m]
OFF = (0.1, 0.4)  # how far the real beam is from the data sheet, at least and at most [1]
MOST = 3.0  # times more or less than the data sheet says, at most [1]
# Both moduli at once: Poisson's ratio is known, and the density, for all would be slower with a heavier beam.
GROUPS = {"stiffness": (("shear", "lame"), ...), "viscosity": ("viscosity", ...)}


def beam(device: str = "cpu") -> Elastic:
    """A beam of rubber that is held at one end, straight."""
    body = solid_block((0, -SIDE / 2, 0.3), (LENGTH, SIDE / 2, 0.3 + SIDE), CELLS, RUBBER, name="beam")
    return Elastic(body, dt=DT, fixed=np.flatnonzero(body.points[:, 0] < 1e-9), device=device, tolerance=1e-10)


def markers(system: Elastic) -> np.ndarray:
    """Which numbers of a state's tangent are the places of the markers, x and z of each."""
    points = system.bodies[0].points
    edge = np.flatnonzero((points[:, 1] < -SIDE / 2 + 1e-9) & (points[:, 2] > 0.3 + SIDE - 1e-9))
    edge = edge[np.argsort(points[edge, 0])]
    chosen = edge[np.linspace(len(edge) // 2, len(edge) - 1, MARKERS).round().astype(int)]
    return (3 * chosen[:, None] + [0, 2]).ravel()


@task_factory
def identify_beam(device: str = "cpu", seed: int = 0) -> Task:
    system, random = beam(device), np.random.default_rng(check_seed(seed))
    find, rows = Factors(STEPS, GROUPS, most=MOST), np.arange(0, STEPS + 1, EVERY)
    seen = Markers(system, find, np.log(drawn_factors(random, OFF, len(GROUPS))), rows, markers(system), NOISE, random)
    return marker_task(
        seen,
        GROUPS,
        name="identify-beam",
        about="find stiffness and viscosity of a soft beam from four markers on it, with noise of 1 mm",
        curves=lambda run: [seen.curves(run, "tip", -1, "height of the tip [m]")],
        camera=Camera((0.15, -1.1, 0.35), (0.15, 0.0, 0.18)),
    )
