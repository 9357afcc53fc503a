"""How long must a printer wait between layers? As briefly as possible, with none laid on a part that is too hot."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from pullback import thermal
from pullback.core.arrays import to_numpy
from pullback.plan import LBFGS
from pullback.rollout import Run
from pullback.tasks.laser_history import (
    CELL,
    CONVECTION,
    LAYER,
    LENGTH,
    RADIUS,
    SPEED,
    WIDTH,
    heat_task,
    top_nodes,
    wall_mesh,
)
from pullback.tasks.loss import Loss
from pullback.tasks.task import Curves, Task, task_factory
from pullback.tasks.timing import Crossing, Timing, always_on, crossing, pauses

HEIGHT, LAYERS = 3, 5  # of the wall [cells]; how many thin ones are laid on its top
POWER = 100.0  # [W]
LIMIT, SLACK = 520.0, 0.5  # of the interpass temperature, and by how much it may be passed [K]
SHORTEST, LONGEST, SETTLE = 0.1, 10.0, 0.08  # pauses [s]; and after each, before the laser is on
# Of the first guess: too short everywhere, so that every pause finds its own limit; and not at a kink. [s]
START = 2.003
DT, RAMP = 0.01, 0.1  # [s]; of the power, when it is switched on or off [s]
# The price of a kelvin above the limit, as a share of the longest time of printing [1/K]; and the range of temperatures
# in which it sets in [K]. A limit that is a wall would be found by a gradient only when it is behind.
PRICE, SOFT = 0.03, 2.0


def layers_on_a_wall() -> thermal.Toolpath:
    """To and fro on the top, with a pause of a second after each layer but the last."""
    ends = np.array([(0.0, WIDTH * CELL / 2, HEIGHT * LAYER), (LENGTH * CELL, WIDTH * CELL / 2, HEIGHT * LAYER)])
    durations = np.tile([LENGTH * CELL / SPEED, 1.0, SETTLE], LAYERS)[:-2]
    places = [ends[0]] + [ends[(number + 1) % 2] for number in range(LAYERS) for _ in range(3)][:-2]
    return thermal.Toolpath(np.append(0.0, np.cumsum(durations)), places, np.tile([1.0, 0.0, 0.0], LAYERS)[:-1])


class Interpass(NamedTuple):
    """The mean temperature of the top at the end of each pause, (pauses, worlds), and where in the run that is."""

    T: np.ndarray  # [K]
    change: np.ndarray  # in the step in which that is [K]
    at: list[Crossing]


@task_factory
def dwell(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` changes nothing: there is no chance in it."""
    mesh, path = wall_mesh(HEIGHT), layers_on_a_wall()
    heat = thermal.Heat(
        mesh, thermal.inconel_718(), always_on(path), dt=DT, convection=CONVECTION, spot_radius=RADIUS, power=POWER,
        device=device,
    )  # fmt: skip
    waits = pauses(path)[::2]  # without those in which it settles
    top = top_nodes(mesh)
    longest = path.duration + len(waits) * (LONGEST - 1.0)
    steps = int(np.ceil(longest / DT)) + 2
    find = Timing(steps, DT, path, waits, POWER, RADIUS, low=SHORTEST, high=LONGEST, start=START, ramp=RAMP)

    def interpass(run: Run) -> Interpass:
        mean, s = to_numpy(run.T)[:, :, top].mean(axis=2, dtype=float), to_numpy(run.s)[..., 0].astype(float)
        worlds = np.arange(s.shape[1])
        at = [crossing(s, path.times[piece + 1], DT) for piece in waits]
        before, after = (np.array([mean[one.row + k, worlds] for one in at]) for k in (0, 1))
        share = np.array([one.share for one in at])
        return Interpass(before + share * (after - before), after - before, at)

    def ended(run: Run) -> Crossing:
        return crossing(to_numpy(run.s)[..., 0].astype(float), path.times[-1], DT)

    def duration(run: Run) -> np.ndarray:
        """Until the end of the path (worlds,) [s]."""
        end = ended(run)
        return DT * (end.row + end.share)

    def loss(run: Run) -> Loss:
        """The time of printing, against the longest, and the price of what is above the limit."""
        T_bar, s_bar, worlds = np.zeros(run.T.shape), np.zeros(run.s.shape), np.arange(run.system.worlds)
        end, seen = ended(run), interpass(run)
        s_bar[end.row + 1, worlds, 0] += DT / longest * end.by_next
        above = (seen.T - LIMIT) / SOFT
        for bar, change, at in zip(PRICE * (1 + np.tanh(above / 2)) / 2, seen.change, seen.at, strict=True):
            for row, part in ((at.row, 1 - at.share), (at.row + 1, at.share)):
                T_bar[row[:, None], worlds[:, None], top] += (bar * part / len(top))[:, None]
            s_bar[at.row + 1, worlds, 0] += bar * change * at.by_next
        price = PRICE * SOFT * np.logaddexp(0.0, above).sum(axis=0)
        return Loss(duration(run) / longest + price, {"T_bar": T_bar, "s_bar": s_bar})

    @cache
    def equal() -> tuple[Run, float]:
        """With the shortest equal pauses that keep the limit: that motion, and its time of printing [s]."""
        low, high = SHORTEST, LONGEST
        for _ in range(12):
            middle = (low + high) / 2
            cool = interpass(made.run(np.full(len(waits), middle))).T.max() <= LIMIT
            low, high = (low, middle) if cool else (middle, high)
        run = made.run(np.full(len(waits), high))
        return run, float(duration(run)[0])

    def metric(run: Run) -> np.ndarray:
        """The time of printing, against that with equal pauses; infinite where a layer is laid on what is too hot."""
        kept = interpass(run).T.max(axis=0) <= LIMIT + SLACK
        return np.where(kept, duration(run) / equal()[1], np.inf)

    def curves(run: Run) -> list[Curves]:
        times = DT * np.arange(steps + 1)
        rows = times <= equal()[1] + 1
        tops = {"equal pauses": equal()[0], "found": run}
        values = {name: to_numpy(one.T)[rows, 0][:, top].mean(axis=1) for name, one in tops.items()}
        values["limit between layers"] = np.full(rows.sum(), LIMIT)
        ends = np.array([DT * (at.row[0] + at.share[0]) for at in interpass(run).at])
        printing = LENGTH * CELL / SPEED + SETTLE * (np.arange(len(waits)) > 0)
        found = np.diff(ends, prepend=0.0) - printing
        same = (equal()[1] - path.duration) / len(waits) + 1
        pause = {"equal pauses": np.full(len(waits), same), "found": found}
        return [
            Curves("top", times[rows], values, "time [s]", "mean temperature of the top [K]"),
            Curves("pauses", 1 + np.arange(len(waits)), pause, "after layer", "pause [s]"),
        ]

    made = heat_task(
        heat,
        name="dwell",
        about=f"find the shortest pauses between layers such that none is deposited on a part above {LIMIT:.0f} K",
        find=find,
        loss=loss,
        metric=metric,
        target=0.8,
        unit="of the time with equal pauses",
        method=LBFGS(first=1.0),
        iterations=60,
        curves=curves,
    )
    return made
