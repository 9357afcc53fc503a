"""How deep does the laser melt? Its power, so that the pool stays equally deep where the path turns and comes back; or
its timing instead: how fast it goes along the path."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from pullback import thermal
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.plan import LBFGS
from pullback.rollout import Run, rollout
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Schedule
from pullback.tasks.task import Camera, Curves, Task, task_factory

SIZE = (10e-3, 7e-3)  # of the plate [m]
EDGE = 0.5e-3  # of its elements along x and y [m]
DEPTHS = np.array([0, 0.2, 0.4, 0.6, 0.85, 1.2, 1.8, 2.7, 4.0]) * 1e-3  # of its planes of nodes [m]
LINES, SPACING, INSET = 3, 1.2e-3, 2e-3  # of the path; lines apart and from the edges [m]
SPEED, RADIUS, CONVECTION = 10e-3, 2e-3, 50.0  # [m/s], [m], [W/m²/K]
POWER = 270.0  # constant, to compare with [W]
DT, EVERY = 2.5e-3, 4  # [s]; steps from one look at the pool to the next
WARM_UP = 0.3  # before the pool is looked at [s]
KNOTS = 60
SLOWEST, FASTEST = 0.3, 3.0  # against the speed of the path [1]
LATE = 0.98  # speed of the first guess [1]
PUNCTUAL = 100.0  # weight of the square of how early or late the laser is at the end, as a share of the whole time
# From a surface that is not molten to the nodes below, at least: a cold plate is infinitely far from molten, else. [K]
FLAT = 100.0
# Which columns of the controls are decision variables.
FREE = {"power": (0,), "timing": (1,), "both": (0, 1)}
EYE, LOOK = (0.012, -0.018, 0.014), (0.0, 0.0, 0.0)


class Pool(NamedTuple):
    """Depth of the pool under the laser at the rows that are looked at, and how it moves with the state."""

    depth: np.ndarray  # (rows, worlds) [m]; negative where nothing is molten
    nodes: np.ndarray  # (rows, worlds, 32) which temperatures it depends on
    slopes: np.ndarray  # (rows, worlds, 32) [m/K]
    by_path: np.ndarray  # (rows, worlds) by the time on the path [m/s]


class Columns:
    """The nodes of a block under any place on top of it, its planes along x and y at equal distances.

    Temperatures are interpolated between 4 × 4 columns of nodes by cubics, smooth in the place: straight lines would
    cut off the peak under the laser between nodes, and the depth would wave with every element. The depth is where the
    straight line between two nodes of that column crosses the melting temperature, which is continuous. Where the
    surface is not molten, the line from it to the next node is drawn on upwards, and one that is too flat is taken to
    fall by FLAT: a negative depth.
    """

    def __init__(self, mesh: thermal.Mesh, melting: float):
        self.x, self.y, z = (np.unique(np.round(axis, 12)) for axis in mesh.nodes.T)
        self.down, self.melting = z[::-1], melting
        if len(mesh.nodes) != len(self.x) * len(self.y) * len(z):
            raise PullbackError("the depth of a melt pool is measured in a block, which this mesh is not")
        for planes in (self.x, self.y):
            if len(planes) < 4 or np.ptp(np.diff(planes)) > 1e-6 * np.ptp(planes):
                raise PullbackError("a melt pool needs four planes or more along x and y, at equal distances")
        order = np.lexsort((mesh.nodes[:, 0], mesh.nodes[:, 1], -mesh.nodes[:, 2]))
        self.number = order.reshape(len(z), len(self.y), len(self.x))

    def pool(self, T: np.ndarray, places: np.ndarray, velocity: np.ndarray) -> Pool:
        """T: (rows, worlds, n) [K]; places, velocity: (rows, worlds, 3) of the laser [m, m/s]."""
        (i, x, turn_x), (j, y, turn_y) = _cubic(self.x, places[..., 0]), _cubic(self.y, places[..., 1])
        corners = np.stack([self.number[:, j + dj, i + di] for dj in range(4) for di in range(4)], axis=-1)
        weights = _outer(y, x)
        moved = _outer(y, turn_x) * velocity[..., :1] + _outer(turn_y, x) * velocity[..., 1:2]  # a second on the path
        rows, worlds = np.indices(T.shape[:2])
        around = T[rows[None, ..., None], worlds[None, ..., None], corners]  # (levels, rows, worlds, 16)
        column = np.einsum("lrwc,rwc->lrw", around, weights)
        # The first level that is no longer molten; there is one below the surface, or the plate is molten through.
        cold = np.where(np.any(column[1:] < self.melting, axis=0), 1 + np.argmax(column[1:] < self.melting, axis=0), 0)
        if np.any(cold == 0):
            raise PullbackError(f"the plate is molten through at row {int(np.argwhere(cold == 0)[0][0])}")
        upper, lower = (np.take_along_axis(column, level[None], axis=0)[0] for level in (cold - 1, cold))
        height, drop = self.down[cold - 1] - self.down[cold], upper - lower
        flat = (upper < self.melting) & (drop < FLAT)
        drop = np.where(flat, FLAT, drop)
        depth = self.down[0] - self.down[cold - 1] + height * (upper - self.melting) / drop
        by_lower = np.where(flat, 0.0, height * (upper - self.melting) / drop**2)
        by_upper = height / drop - by_lower
        pick = np.broadcast_to(np.stack([cold - 1, cold])[..., None], (2, *corners.shape[1:]))
        nodes, near = (np.take_along_axis(a, pick, axis=0) for a in (corners, around))
        slopes = np.stack([by_upper, by_lower])[..., None] * weights
        by_path = np.einsum("krw,krwc,rwc->rw", np.stack([by_upper, by_lower]), near, moved)
        both = (x.transpose(1, 2, 0, 3).reshape(*T.shape[:2], 32) for x in (nodes, slopes))
        return Pool(depth, *both, by_path)


def _cubic(planes: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first of the four planes around a coordinate, the weights of the four (4, ...) and their slopes [1/m].

    Catmull and Rom's cubics: through the values at the planes, with the slope of their neighbours.
    """
    wide = (planes[-1] - planes[0]) / (len(planes) - 1)
    i = np.clip(np.searchsorted(planes, at, side="right") - 2, 0, len(planes) - 4)
    u = (at - planes[i + 1]) / wide
    weights = np.stack([-u + 2 * u**2 - u**3, 2 - 5 * u**2 + 3 * u**3, u + 4 * u**2 - 3 * u**3, u**3 - u**2]) / 2
    slopes = np.stack([-1 + 4 * u - 3 * u**2, -10 * u + 9 * u**2, 1 + 8 * u - 9 * u**2, 3 * u**2 - 2 * u]) / (2 * wide)
    return i, weights, slopes


def _outer(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """All products (..., 16) of (4, ...) and (4, ...)."""
    return np.moveaxis(y[:, None] * x[None], (0, 1), (-2, -1)).reshape(*y.shape[1:], 16)


def plate(device: str = "cpu", dt: float = DT) -> thermal.Heat:
    """A plate, and a laser that goes to and fro on it in narrow turns."""
    planes = [np.linspace(0, size, round(size / EDGE) + 1) for size in SIZE]
    mesh = thermal.grid(*planes, np.sort(-DEPTHS))
    points = []
    for line in range(LINES):
        ends = [(INSET, INSET + line * SPACING, 0.0), (SIZE[0] - INSET, INSET + line * SPACING, 0.0)]
        points += ends if line % 2 == 0 else ends[::-1]
    path = thermal.follow(points, speed=SPEED)
    return thermal.Heat(
        mesh, thermal.inconel_718(), path, dt=dt, convection=CONVECTION, spot_radius=RADIUS, power=POWER, device=device
    )


def measure(heat: thermal.Heat, columns: Columns, run: Run, rows: np.ndarray) -> Pool:
    """The pool at some of the states of a run."""
    s = to_numpy(run.s)[rows, :, 0].astype(float)
    places, _ = heat.toolpath.at(s)
    path = heat.toolpath
    piece = np.clip(np.searchsorted(path.times, s, side="right") - 1, 0, len(path.times) - 2)
    velocity = (np.diff(path.points, axis=0) / np.diff(path.times)[:, None])[piece]
    velocity[(s < path.times[0]) | (s > path.times[-1])] = 0.0  # it waits at the ends
    return columns.pool(to_numpy(run.T)[rows].astype(float), places, velocity)


def melt_pool_timing(device: str = "cpu", seed: int = 0) -> Task:
    return melt_pool(device, seed, by="timing")


@task_factory
def melt_pool(device: str = "cpu", seed: int = 0, by: str = "power") -> Task:
    """by: what is optimised: "power", "timing" (the speed along the path, and so its pauses too) or "both".

    Whatever is found, the laser reaches the end of its path when it would by itself. ``seed`` changes nothing: there is
    no chance in it.
    """
    if by not in tuple(FREE):
        raise PullbackError(f"by must be one of {', '.join(FREE)}, not {by!r}")
    heat = plate(device)
    material = heat.material
    columns = Columns(heat.mesh, (material.solidus + material.liquidus) / 2)
    steps = heat.steps_until(heat.toolpath.times[-1])
    rows = np.arange(round(WARM_UP / DT), steps + 1, EVERY)

    @cache
    def constant() -> np.ndarray:
        """Depths (rows,) [m] with constant power."""
        run = rollout(heat, heat.state(), heat.default_controls(steps))
        return measure(heat, columns, run, rows).depth[:, 0]

    def loss(run: Run) -> Loss:
        """Half the mean square of the distance from the mean depth that constant power gives, against that depth."""
        pool, wanted = measure(heat, columns, run, rows), constant().mean()
        off = pool.depth / wanted - 1
        T_bar = np.zeros(run.T.shape)
        bar = (off / (wanted * len(rows)))[..., None] * pool.slopes
        at = (rows[:, None, None], np.arange(bar.shape[1])[:, None], pool.nodes)
        np.add.at(T_bar, at, bar)
        s_bar = np.zeros(run.s.shape)
        s_bar[rows, :, 0] = off / (wanted * len(rows)) * pool.by_path
        late = (to_numpy(run.s)[-1, :, 0] - heat.toolpath.times[-1]) / heat.toolpath.duration
        s_bar[-1, :, 0] += PUNCTUAL * late / heat.toolpath.duration
        return Loss((off**2).mean(axis=0) / 2 + PUNCTUAL * late**2 / 2, {"T_bar": T_bar, "s_bar": s_bar})

    def variance(run: Run) -> np.ndarray:
        """Of the depth, against that with constant power."""
        return measure(heat, columns, run, rows).depth.var(axis=0) / constant().var()

    def curves(run: Run) -> list[Curves]:
        times = heat.dt * rows
        depth = {"constant power": 1e3 * constant(), "found": 1e3 * measure(heat, columns, run, rows).depth[:, 0]}
        found = [Curves("depth", times, depth, "time [s]", "depth of the melt pool [mm]")]
        for column in FREE[by]:
            name, label = (("power", "power of the laser [W]"), ("speed", "speed along the path [1]"))[column]
            values = {"constant": np.full(steps, base[column]), "found": to_numpy(run.controls)[:, 0, column]}
            found.append(Curves(name, heat.dt * np.arange(steps), values, "time [s]", label))
        return found

    base, free = (POWER, 1.0, RADIUS), list(FREE[by])
    limits = np.array([(0.0, 3 * POWER, POWER / 10), (SLOWEST, FASTEST, 0.1)])[free]
    # A laser that is early at the end is switched off there, which no gradient sees coming: it starts a little late.
    start = np.array(base)[free] * [1.0 if column == 0 else LATE for column in free]
    about = {"power": "power", "timing": "speed", "both": "power and speed"}[by]

    return Task(
        name="melt-pool" if by == "power" else f"melt-pool-{by}",
        about=f"keep the depth of a laser's melt pool constant through the turns of its path, by its {about}",
        system=heat,
        start=heat.state(),
        find=Schedule(
            steps, base, FREE[by], KNOTS, scale=limits[:, 2], low=limits[:, 0], high=limits[:, 1], start=start
        ),
        loss=loss,
        metric=variance,
        target=0.15 if by == "timing" else 0.075,
        unit="of the variance with constant power",
        method=LBFGS(first=0.5),
        iterations=60,
        camera=Camera(EYE, LOOK),
        curves=curves,
    )
