"""How does the wind blow, and how stiff is this T-shirt? From noisy markers on it while a gust lifts it."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.plan import CMA, GaussNewton
from pullback.rollout import Run
from pullback.soft import Cloth, Elastic, Membrane
from pullback.tasks.markers import Markers
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Parameters

CELL = 0.05  # of the mesh [m]
COLUMNS, ROWS = (3, 13), 13  # of cells: between which the trunk is, and how long it is
SLEEVE, NECK = 4, (6, 10)  # rows of cells; columns of nodes between which the neck is open
DEPTH = 0.025  # of the front before the seams, and of the back behind them [m]
TOP = 1.6  # height of the line that it hangs on [m]
PEGS = (4, 5, 11, 12)  # columns of nodes in the shoulder seams
COTTON = Membrane(young=300.0, density=0.2, bending=2e-4, viscosity=0.1, drag=0.3)
DT, STEPS, EVERY = 0.01, 60, 3  # [s]; steps from one picture to the next
NOISE = 1e-3  # of a marker's place, standard deviation [m]
GUESS = (0.0, 3.0, 0.0)  # of the wind [m/s]
SPEED, TURN, RISE = (2.5, 4.5), 0.7, 0.5  # of the real wind [m/s], from the guess [rad], [m/s]
STORM, MOST = 8.0, 2.0  # bounds: of each component of the wind [m/s]; times more or less stiff than nominal [1]
OFF = (0.1, 0.4)  # how far the real stiffness is from the data sheet, at least and at most [1]


def shirt() -> tuple[Cloth, np.ndarray]:
    """Front and back, sewn together at shoulders, sides and under the sleeves, open at neck, hem and sleeves. And which
    vertices are the nodes of the front (columns, rows), -1 where there is none."""
    first, last = COLUMNS
    width = first + last
    columns, rows = np.meshgrid(np.arange(width), np.arange(ROWS), indexing="ij")
    cut = ((columns >= first) & (columns < last)) | (rows < SLEEVE)
    nodes = np.zeros((width + 1, ROWS + 1), dtype=bool)
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        nodes[i : i + width, j : j + ROWS] |= cut
    sewn = np.zeros_like(nodes)
    sewn[:, 0] = True
    sewn[NECK[0] + 1 : NECK[1], 0] = False
    sewn[[first, last], SLEEVE:] = True
    sewn[: first + 1, SLEEVE] = sewn[last:, SLEEVE] = True
    front = np.where(nodes, np.cumsum(nodes).reshape(nodes.shape) - 1, -1)
    behind = nodes & ~sewn
    back = np.where(behind, nodes.sum() + np.cumsum(behind).reshape(nodes.shape) - 1, front)
    at = np.stack(np.meshgrid(np.arange(width + 1), np.arange(ROWS + 1), indexing="ij"), axis=-1)
    places = np.zeros((*nodes.shape, 3))
    places[..., 0], places[..., 2] = CELL * (at[..., 0] - width / 2), TOP - CELL * at[..., 1]
    depth = DEPTH * np.where(sewn, 0.0, 1.0)[..., None] * (0.0, 1.0, 0.0)
    points = np.concatenate([(places - depth)[nodes], (places + depth)[behind]])
    return Cloth(points, np.concatenate([_triangles(side, cut) for side in (front, back)]), COTTON, "shirt"), front


def _triangles(number: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Of all cells that are cut out; diagonals alternate."""
    a, b, c, d = (x[cut] for x in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    even = (np.add.outer(*map(np.arange, cut.shape)) % 2 == 0)[cut][:, None]
    first = np.where(even, np.stack([a, b, c], axis=1), np.stack([a, b, d], axis=1))
    second = np.where(even, np.stack([a, c, d], axis=1), np.stack([b, c, d], axis=1))
    return np.concatenate([first, second])


@task_factory
def t_shirt(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the real wind, the real shirt and the noise."""
    random = np.random.default_rng(check_seed(seed))
    body, front = shirt()
    system = Elastic(body, dt=DT, fixed=front[list(PEGS), 0], wind=GUESS, device=device)
    sheet = np.log(system.params["cloth_shear"])
    low, high = (np.append(sign * np.full(3, STORM), sheet + sign * np.log(MOST)) for sign in (-1, 1))
    find = Parameters(STEPS, {"wind": ..., "cloth_shear": ...}, linear=("wind",), low=low, high=high)
    speed, turn, rise = random.uniform(*SPEED), random.uniform(-TURN, TURN), random.uniform(-RISE, RISE)
    wind = np.array([speed * np.sin(turn), speed * np.cos(turn), rise])
    shear = system.params["cloth_shear"] * (1 + random.uniform(*OFF) * random.choice([-1, 1]))
    # On the front, down the middle and both sides, and at the ends of the sleeves.
    chosen = np.concatenate([front[[4, 8, 12], 4], front[[4, 8, 12], 8], front[[4, 8, 12], ROWS], front[[0, -1], 2]])
    rows, numbers = np.arange(0, STEPS + 1, EVERY), (3 * chosen[:, None] + np.arange(3)).ravel()
    seen = Markers(system, find, np.concatenate([wind, np.log(shear)]), rows, numbers, NOISE, random)

    def error(run: Run) -> np.ndarray:
        """Of the wind against its speed, or of the stiffness if that is more (worlds,) [%]."""
        found = {name: np.atleast_2d(to_numpy(run.params.values[name])) for name in ("wind", "cloth_shear")}
        of_wind = np.linalg.norm(found["wind"] - wind, axis=1) / np.linalg.norm(wind)
        of_shear = np.abs(found["cloth_shear"] / shear - 1).max(axis=1)
        return 100 * np.broadcast_to(np.maximum(of_wind, of_shear), run.x.shape[1])

    return Task(
        name="t-shirt",
        about="find the wind that lifts a T-shirt on a line, and how stiff its cloth is, from eleven noisy markers",
        system=system,
        start=system.state(),
        find=find,
        loss=seen,
        metric=error,
        target=3.0,
        unit="% of the true value, at worst",
        evaluate_at_end=True,
        truth=np.concatenate([wind, shear]),
        method=GaussNewton(),
        iterations=20,
        baseline=CMA(spread=0.1),
        baseline_iterations=60,
        curves=lambda run: [seen.curves(run, "hem", 3 * 7 + 1, "the hem, along y [m]")],
        camera=Camera((1.9, -1.6, 1.6), (0.0, 0.15, 1.3)),
    )
