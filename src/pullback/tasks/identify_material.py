"""What is this material really like? Conductivity, capacity, losses and absorptivity from noisy temperatures on top."""

from __future__ import annotations

from functools import cache

import numpy as np

from pullback import thermal
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.plan import CMA, GaussNewton
from pullback.rollout import Run, rollout
from pullback.tasks.identify import worst_error
from pullback.tasks.laser_history import heat_task, top_nodes, wall
from pullback.tasks.residuals import Residuals
from pullback.tasks.task import Curves, Task, task_factory
from pullback.tasks.variables import Factors

LAYERS, PLATE = 2, 3e-3  # of the wall; height of the plate [m]
COOLING = 12.0  # how long the part is watched after printing [s]: losses are what is seen then
# The top melts, whatever the material: without latent heat in it, a common factor is known to 4 %.
POWER, DT = 190.0, 0.02  # [W], [s]
OFF = (0.05, 0.25)  # how far the real material is from the handbook, at least and at most [1]
MOST = 1.6  # times more or less than the handbook says, at most [1]
NOISE = 2.0  # of a thermometer, standard deviation [K]
EVERY = 5  # steps from one reading to the next
# The decision variables. Density, emissivity and the latent heat are known: were they not, a common factor of all
# would be free, since the temperatures would stay the same.
GROUPS = {
    "conductivity": ("conductivity", ...),
    "heat capacity": ("capacity", ...),
    "convection": ("convection", ...),
    "absorptivity": ("absorptivity", ...),
}


def experiment(device: str = "cpu") -> thermal.Heat:
    """A low wall that is printed, and a laser that is off while it cools."""
    return wall(device=device, layers=LAYERS, plate=PLATE, power=POWER, dt=DT)


@task_factory
def identify_material(device: str = "cpu", seed: int = 0) -> Task:
    heat, random = experiment(device), np.random.default_rng(check_seed(seed))
    steps = heat.steps_until(heat.toolpath.times[-1] + COOLING)
    rows = np.arange(0, steps + 1, EVERY)
    find = Factors(steps, GROUPS, heat.default_controls(steps)[:, 0], most=MOST)
    truth = 1 + random.uniform(*OFF, len(GROUPS)) * random.choice([-1, 1], len(GROUPS))
    top = top_nodes(heat.mesh)
    # A node is read from when the material around it is there.
    born = np.array([heat.born[np.any(heat.mesh.elements == node, axis=1)].min() for node in top])
    times = heat.toolpath.times[0] + heat.dt * rows
    seen = times[:, None] > born

    @cache
    def recorded() -> np.ndarray:
        """Temperatures (rows, top nodes) [K] of the real part, as they were measured."""
        controls, params = find.decode(heat, np.log(truth)[None])
        exact = to_numpy(rollout(heat, heat.state(), controls, params=params).T)[rows][:, 0, top]
        return exact + NOISE * random.standard_normal(exact.shape)

    moves = np.where(seen[:, :, None], np.eye(len(top)) / NOISE, 0.0)[:, None]  # (rows, 1, top, top)

    def loss(run: Run) -> Residuals:
        """What is apart, in units of the noise."""
        apart = np.where(seen[:, None], to_numpy(run.T)[rows][:, :, top] - recorded()[:, None], 0.0) / NOISE
        return Residuals(rows, apart, np.broadcast_to(moves, (*apart.shape, len(top))), top)

    def curves(run: Run) -> list[Curves]:
        """The reading in the middle of the top, and what it would be with the material that was found."""
        middle = int(np.argmin(np.linalg.norm(heat.mesh.nodes[top] - heat.mesh.nodes[top].mean(axis=0), axis=1)))
        there = seen[:, middle]
        values = {"measured": recorded()[there, middle], "found": to_numpy(run.T)[rows[there], 0, top[middle]]}
        return [Curves("temperature", times[there], values, "time [s]", "temperature in the middle of the top [K]")]

    return heat_task(
        heat,
        name="identify-material",
        about="find conductivity, capacity, convection and absorptivity from top temperatures with 2 K noise",
        find=find,
        loss=loss,
        metric=lambda run: worst_error(run, GROUPS, truth),
        target=3.0,
        unit="% error of the worst parameter",
        evaluate_at_end=True,
        truth=truth,
        method=GaussNewton(),
        iterations=20,
        baseline=CMA(spread=0.1),
        baseline_iterations=60,
        curves=curves,
    )
