"""Which power did the laser have? A hidden curve over time, found from the temperatures of a part while it grew."""

from __future__ import annotations

from functools import cache

import numpy as np

from pullback import thermal
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed, check_whole
from pullback.plan import Adam
from pullback.rollout import Run, rollout
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Network
from pullback.tasks.task import Camera, Curves, Task, task_factory

CELL, LAYER = 1e-3, 1e-3  # edges of the elements [m]
LENGTH, WIDTH, LAYERS = 16, 2, 5  # of the wall [cells], and how many layers it has
PLATE, PLATE_CELLS, MARGIN = 4e-3, 2, 2  # its height [m], and cells over its height and around the wall
SPEED, TRAVEL = 10e-3, 50e-3  # of the laser along a layer and to the next [m/s]
RADIUS, POWER, CONVECTION = 1.2e-3, 250.0, 50.0  # of the laser [m], its most [W]; [W/m²/K]
STEPS = 1000
HARMONICS = 4  # half waves in the hidden curve, at most
LEAST, MOST = 0.3, 0.9  # of the hidden curve, against the laser's most [1]
SCALE = 100.0  # a difference in temperature that counts as one [K]
EYE, LOOK = (0.03, -0.05, 0.03), (0.0, 0.0, 0.0)


def wall(
    dtype: str = "float64", device: str = "cpu", steps: int = STEPS, layers: int = LAYERS, *, plate: float = PLATE,
    power: float = POWER, dt: float | None = None,
) -> thermal.Heat:  # fmt: skip
    """A thin wall on a plate, printed to and fro, with so many steps until the end, or with steps of dt [s].

    plate:  its height [m]
    power:  of the laser [W]
    """
    mesh = wall_mesh(layers, plate)
    ends = np.array([(0.0, WIDTH / 2), (LENGTH, WIDTH / 2)]) * CELL
    lines = []
    for layer in range(layers):
        there = ends if layer % 2 == 0 else ends[::-1]
        lines.append(thermal.follow(np.column_stack([there, 2 * [LAYER * (layer + 1)]]), speed=SPEED))
    path = thermal.stack(lines, travel=TRAVEL)
    born = thermal.births(mesh, path, reach=1.2 * CELL)
    return thermal.Heat(
        mesh, thermal.inconel_718(), path, born=born, dt=path.duration / steps if dt is None else dt,
        convection=CONVECTION, spot_radius=RADIUS, power=power, dtype=dtype, device=device,
    )  # fmt: skip


def wall_mesh(layers: int, plate: float = PLATE) -> thermal.Mesh:
    """Of the wall and its plate, of this height [m]."""
    return thermal.printed(
        np.ones((LENGTH, WIDTH)), CELL, layers=layers, layer=LAYER, base=plate, base_cells=PLATE_CELLS, margin=MARGIN
    )


def top_nodes(mesh: thermal.Mesh) -> np.ndarray:
    """The nodes (k,) of its uppermost plane."""
    return np.flatnonzero(mesh.nodes[:, 2] > mesh.high[2] - LAYER / 2)


def heat_task(heat: thermal.Heat, **fields) -> Task:
    """A task of a part from its initial temperature, seen from above."""
    return Task(system=heat, start=heat.state(), camera=Camera(EYE, LOOK), **fields)


def hidden_power(steps: int, seed: int) -> np.ndarray:
    """A random smooth curve (steps,) [W]: a few half waves of random strength and phase."""
    random, share = np.random.default_rng(check_seed(seed)), np.linspace(0, 1, steps)
    curve = sum(
        random.standard_normal() / k * np.sin(np.pi * k * share + random.uniform(0, 2 * np.pi))
        for k in range(1, HARMONICS + 1)
    )
    return POWER * (LEAST + (MOST - LEAST) * (curve - curve.min()) / np.ptp(curve))


@task_factory
def laser_history(device: str = "cpu", seed: int = 0, steps: int = STEPS, dtype: str = "float64") -> Task:
    steps = check_whole(steps, "steps", 2)
    heat = wall(dtype, device, steps)
    times = heat.toolpath.times[0] + heat.dt * np.arange(steps)
    on = heat.toolpath.at(times)[1] > 0
    truth = hidden_power(steps, seed)

    @cache
    def recorded() -> np.ndarray:
        controls = heat.default_controls(steps)
        controls[:, 0, 0] = truth
        return to_numpy(rollout(heat, heat.state(), controls).T)

    def loss(run: Run) -> Loss:
        apart = (to_numpy(run.T) - recorded()) / SCALE
        count = apart.shape[0] * apart.shape[2]
        values = np.einsum("twn,twn->w", apart, apart, dtype=float) / (2 * count)
        return Loss(values, {"T_bar": apart / (SCALE * count)})

    def error(run: Run) -> np.ndarray:
        """Of the power where the laser is on, against the truth [%]."""
        found = to_numpy(run.controls)[on, :, 0].astype(float)
        return 100 * np.linalg.norm(found - truth[on, None], axis=0) / np.linalg.norm(truth[on])

    def curves(run: Run) -> list[Curves]:
        found = to_numpy(run.controls)[:, 0, 0]
        return [Curves("power", times, {"hidden": truth, "found": found}, "time [s]", "power of the laser [W]")]

    return heat_task(
        heat,
        name="laser-history",
        about="recover a hidden power curve of a laser from the temperatures of the wall that it prints",
        find=Network(steps, (POWER, 1.0, RADIUS), 0, POWER, seed=seed),
        loss=loss,
        metric=error,
        target=2.0,
        unit="% of the power, rms error",
        method=Adam(rate=1e-2),
        iterations=300,
        curves=curves,
    )
