"""How does a printed part lose its heat? Cooling that a number cannot say, learned from thermometers on the part."""

from __future__ import annotations

from functools import cache

import numpy as np

from pullback import thermal
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.neural import Law
from pullback.plan import LBFGS
from pullback.rollout import Run, rollout
from pullback.tasks.laser_history import POWER, heat_task, top_nodes, wall
from pullback.tasks.learned import found_params
from pullback.tasks.loss import Loss
from pullback.tasks.task import Curves, Task, task_factory
from pullback.tasks.variables import Parameters

LAYERS, PLATE = 2, 3e-3  # of the wall; height of the plate [m]
DT, COOLING = 0.02, 6.0  # timestep, and how long the part is watched after printing [s]
HANDBOOK = 50.0  # convection that the model begins with [W/m²/K]
# The real one: of still air at first, and of a fan that is switched on by a warm part. [W/m²/K], [K], [K]
STILL, FAN, SWITCH, SMEARED = 20.0, 400.0, 600.0, 40.0
NOISE, EVERY = 2.0, 10  # of a thermometer, standard deviation [K]; steps from one reading to the next
POWERS, HELD_OUT = (0.45, 0.6, 0.75), (0.55, 0.7)  # of prints that are recorded, and held out, against the laser's most
HIDDEN = (6, 6)
WARM = 300.0  # for features of about one [K]
SPREAD = 1.5  # logarithms of the convection over that of the handbook, at an output of one [1]


def convection(T: np.ndarray) -> np.ndarray:
    """The real coefficient [W/m²/K] at mean temperatures (...) of the wall's top [K]."""
    return STILL + FAN / (1 + np.exp(-(T - SWITCH) / SMEARED))


class Warmth:
    """What a law of cooling reads: the mean temperature of the thermometers, (worlds, 1)."""

    def __init__(self, nodes: np.ndarray, ambient: float):
        self.nodes, self.ambient = nodes, ambient

    def __call__(self, state, control):
        return (state.T[:, self.nodes].mean(dim=1, keepdim=True) - self.ambient) / WARM - 1


def part(device: str = "cpu") -> thermal.Heat:
    """A low wall that is printed, and a laser that is off while it cools, with the handbook's convection."""
    heat = wall(device=device, layers=LAYERS, plate=PLATE, dt=DT)
    heat.params["convection"] = HANDBOOK
    return heat


def hybrid(seed: int = 0, device: str = "cpu") -> Law:
    """The same with convection that is a function of how warm the wall is, by a network."""
    from pullback.neural import perceptron

    heat = part(device)
    reads = Warmth(top_nodes(heat.mesh), float(heat.params["ambient"]))
    return Law(heat, perceptron(1, HIDDEN, 1, seed=seed), parameter="convection", reads=reads, scale=SPREAD)


def prints(heat: thermal.Heat, steps: int, powers) -> np.ndarray:
    """Controls (steps, prints, 3): the laser has so much of its power."""
    controls = np.repeat(heat.default_controls(steps), len(powers), axis=1)
    controls[:, :, 0] = POWER * np.array(powers)
    return controls


def real(heat: thermal.Heat, controls: np.ndarray) -> np.ndarray:
    """Temperatures (steps + 1, prints, nodes) [K] of real parts, step by step."""
    wide, top = heat.in_worlds(controls.shape[1]), top_nodes(heat.mesh)
    state = wide.state()
    rows = [to_numpy(state.T)]
    for control in controls:
        state = wide.step(state, control, {"convection": convection(rows[-1][:, top].mean(axis=1))})
        rows.append(to_numpy(state.T))
    return np.array(rows)


@task_factory
def heat_residual(device: str = "cpu", seed: int = 0) -> Task:
    system, random = hybrid(seed, device), np.random.default_rng(check_seed(seed))
    heat = system.system
    steps = heat.steps_until(heat.toolpath.times[-1] + COOLING)
    rows, top = np.arange(0, steps + 1, EVERY), top_nodes(heat.mesh)
    born = np.array([heat.born[np.any(heat.mesh.elements == node, axis=1)].min() for node in top])
    seen = ((heat.toolpath.times[0] + heat.dt * rows)[:, None] > born)[:, None]  # of material that is there
    weights = system.networks[0].weights
    controls, unseen = (prints(heat, steps, powers) for powers in (POWERS, HELD_OUT))
    find = Parameters(steps, dict.fromkeys(weights, ...), controls=controls, linear=tuple(weights))
    count = int(seen.sum()) * len(POWERS)

    @cache
    def recorded() -> np.ndarray:
        exact = real(heat, controls)[rows][:, :, top]
        return exact + NOISE * random.standard_normal(exact.shape)

    @cache
    def held_out() -> np.ndarray:
        return real(heat, unseen)

    def loss(run: Run) -> Loss:
        copies = run.system.worlds // len(POWERS)
        apart = to_numpy(run.T)[rows][:, :, top] - np.tile(recorded(), (1, copies, 1))
        apart = np.where(seen, apart, 0.0) / NOISE
        bar = np.zeros(run.T.shape)
        bar[rows[:, None], :, top] = (apart / (NOISE * count)).transpose(0, 2, 1)
        return Loss(np.einsum("twn,twn->w", apart, apart) / (2 * count), {"T_bar": bar})

    def replayed(one, params=None) -> np.ndarray:
        wide = one.in_worlds(len(HELD_OUT))
        return to_numpy(rollout(wide, wide.state(), unseen, params=params).T)

    def metric(run: Run) -> np.ndarray:
        """Of prints held out; those of a point have the same network."""
        firsts = range(0, run.system.worlds, len(POWERS))
        away = [(replayed(system, found_params(run, weights, first)) - held_out())[rows][:, :, top] for first in firsts]
        each = [np.sqrt(np.mean(x[np.broadcast_to(seen, x.shape)] ** 2)) for x in away]
        return np.repeat(each, len(POWERS))

    def curves(run: Run) -> list[Curves]:
        middle, times = top[len(top) // 2], heat.dt * np.arange(steps + 1)
        paths = {"real": held_out(), "hybrid": replayed(system, found_params(run, weights)), "handbook": replayed(heat)}
        T = np.linspace(300.0, 900.0, 61)
        every = system.in_worlds(len(T))
        warm = every.state(T=np.repeat(T[:, None], heat.n, axis=1))
        learned = every.front(warm, every.default_controls(1)[0], found_params(run, weights)).params["convection"]
        laws = {"real": convection(T), "hybrid": learned, "handbook": np.full(len(T), HANDBOOK)}
        return [
            Curves("temperature", times, {n: x[:, 0, middle] for n, x in paths.items()}, "time [s]", "temperature [K]"),
            Curves("convection", T, laws, "mean temperature of the top [K]", "convection [W/m²/K]"),
        ]

    task = heat_task(
        heat,
        name="heat-residual",
        about="learn how a fan cools a printed part, from noisy temperatures of three prints",
        find=find,
        loss=loss,
        metric=metric,
        target=1.0,
        unit="K, rms error in prints held out",
        evaluate_at_end=True,
        method=LBFGS(),
        iterations=25,
        curves=curves,
    )
    start = system.in_worlds(len(POWERS)).state()
    return task.but(system=system, start=start)
