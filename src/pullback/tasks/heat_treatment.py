"""A part that is heat-treated while it is printed: every probe spends the same time within a band of temperatures."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.plan import LBFGS
from pullback.rollout import Run
from pullback.tasks.laser_history import POWER, RADIUS, heat_task, wall
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Schedule
from pullback.tasks.task import Curves, Task, task_factory

BAND = (900.0, 1200.0)  # [K]
SOFT = 20.0  # over which the edges of the band are smeared out, so that they have a slope [K]
WANTED = 2.0  # [s]
START = 150.0  # power of the first guess [W]
STEPS, KNOTS = 1000, 40


@task_factory
def heat_treatment(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` changes nothing: there is no chance in it."""
    heat = wall(device=device, steps=STEPS)
    probes = choose_probes(heat.mesh)
    times = heat.dt * np.arange(STEPS + 1)

    def inside(run: Run) -> tuple[np.ndarray, np.ndarray]:
        """Whether each probe is in the band, from 0 to 1 (rows, worlds, probes), and how that moves with T [1/K]."""
        T = to_numpy(run.T)[:, :, probes].astype(float)
        above, below = _sigmoid((T - BAND[0]) / SOFT), _sigmoid((BAND[1] - T) / SOFT)
        return above * below, above * below * ((1 - above) - (1 - below)) / SOFT

    def band_times(run: Run) -> np.ndarray:
        """(worlds, probes) [s]"""
        return heat.dt * inside(run)[0].sum(axis=0)

    def loss(run: Run) -> Loss:
        share, slope = inside(run)
        off = heat.dt * share.sum(axis=0) / WANTED - 1  # (worlds, probes)
        T_bar = np.zeros(run.T.shape)
        T_bar[:, :, probes] = slope * (heat.dt / (WANTED * len(probes))) * off
        return Loss((off**2).mean(axis=1) / 2, {"T_bar": T_bar})

    def worst(run: Run) -> np.ndarray:
        """Of all probes, how far from the wanted time [%]."""
        return 100 * np.abs(band_times(run) / WANTED - 1).max(axis=1)

    def curves(run: Run) -> list[Curves]:
        T = to_numpy(run.T)[:, 0, probes]
        names = [f"probe {i + 1}: {t:.2f} s in the band" for i, t in enumerate(band_times(run)[0])]
        power = {"found": to_numpy(run.controls)[:, 0, 0]}
        return [
            Curves("probes", times, dict(zip(names, T.T, strict=True)), "time [s]", "temperature [K]"),
            Curves("power", times[:-1], power, "time [s]", "power of the laser [W]"),
        ]

    return heat_task(
        heat,
        name="heat-treatment",
        about=f"keep probes in a wall between {BAND[0]:.0f} and {BAND[1]:.0f} K for {WANTED:g} s while it is printed",
        find=Schedule(STEPS, (START, 1.0, RADIUS), (0,), KNOTS, scale=POWER / 10, low=0.0, high=2 * POWER),
        loss=loss,
        metric=worst,
        target=1.0,
        unit="% error of the time, at worst",
        method=LBFGS(first=0.5),
        iterations=100,
        curves=curves,
    )


def choose_probes(mesh) -> np.ndarray:
    """Nodes along the middle of the wall, at three heights."""
    wanted = [(x, 1e-3, z) for z in (1e-3, 2e-3, 3e-3) for x in (4e-3, 8e-3, 12e-3)]
    return np.array([np.argmin(np.linalg.norm(mesh.nodes - place, axis=1)) for place in wanted])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))
