"""A rolling pin gives plasticine a wanted shape: how must it move?"""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.plan import LBFGS
from pullback.rollout import Run, rollout
from pullback.soft import Particles, Shape, VonMises, Wall, block
from pullback.tasks.loss import Loss
from pullback.tasks.shapes import Lump, ShapePath
from pullback.tasks.task import Camera, Task, task_factory

DX, CELLS, STEP, STEPS = 0.02, (21, 11, 12), 3e-3, 180  # [m], nodes, [s]
CLAY = VonMises(young=2e4, poisson=0.3, density=1500.0, yield_stress=300.0)
LOW, HIGH, COUNTS = (0.12, 0.07, 0.04), (0.28, 0.13, 0.1), (16, 6, 6)  # of the clay: corners [m], and particles
TABLE = 0.04  # its height [m]
RADIUS, START = 0.03, (0.2, 0.135)  # of the pin, and where its axis begins: along the clay, and its height [m]
FRICTION = 0.6  # of pin and table
# The pin is as long as the grid is wide. It rolls where it is moved along.
MOVES = ((0.0, 1 / RADIUS, 0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
# Paths through three knots, along and up [m]: down onto the clay, along it, and up again. That whose shape is wanted,
# and the first guess.
WANTED = ((-0.04, -0.04), (0.05, -0.045), (0.05, 0.0))
GUESS = ((-0.03, -0.025), (0.03, -0.025), (0.03, 0.0))
LOWEST = (-0.1, -0.06)  # along and up: there the pin is just above the table [m]
UNSURE = 0.01  # of the first guess at each knot, standard deviation [m]
SHAPE_CELL = 0.02  # of the grid on which shapes are compared [m]


def kitchen(device: str = "cpu") -> Particles:
    """Clay on a table, and a pin above it."""
    clay = block(LOW, HIGH, COUNTS, CLAY, name="clay")
    along, height = START
    width = DX * (CELLS[1] - 1)
    pin = Shape.cylinder((along, 0.0, height), (along, width, height), RADIUS, friction=FRICTION)
    table = Wall((0.0, 0.0, TABLE), (0.0, 0.0, 1.0), FRICTION)
    return Particles([clay], dx=DX, cells=CELLS, dt=STEP, walls=[table], shapes=[pin], device=device)


@task_factory
def mould(device: str = "cpu", seed: int = 0) -> Task:
    """``seed`` chooses the first guess."""
    system, random = kitchen(device), np.random.default_rng(check_seed(seed))
    guess = np.array(GUESS) + UNSURE * random.standard_normal(np.shape(GUESS))
    masses = np.full(system.n, 100.0 / system.n)  # [%]
    lump = Lump(np.zeros(3), DX * (np.array(CELLS) - 1), SHAPE_CELL)
    known = ShapePath(STEPS, MOVES, WANTED)
    inputs = known.inputs(system, np.array(WANTED).reshape(1, -1))
    ideal = rollout(system, system.state(), steps=STEPS, inputs=inputs, checkpoint_every=STEPS).final.x[0]
    wanted = lump.mass(ideal, masses)

    def apart(run: Run) -> np.ndarray:
        """How much more of the clay is in each cell than there should be (worlds, cells) [%]."""
        return np.stack([lump.mass(x, masses) - wanted for x in to_numpy(run.final.x)])

    def loss(run: Run) -> Loss:
        off = apart(run)
        x_bar = [lump.pull(x, masses, one) for x, one in zip(to_numpy(run.final.x), off, strict=True)]
        return Loss((off**2).sum(axis=1) / 2, {"x_bar": np.stack(x_bar)})

    return Task(
        name="mould",
        about="move a rolling pin so that plasticine gets a target shape",
        system=system,
        start=system.state(),
        find=ShapePath(STEPS, MOVES, tuple(map(tuple, guess)), low=LOWEST),
        loss=loss,
        metric=lambda run: np.abs(apart(run)).sum(axis=1) / 2,
        target=2.0,
        unit="% of the clay in the wrong place",
        method=LBFGS(),
        iterations=60,
        camera=Camera((0.2, -0.8, 0.35), (0.2, 0.1, 0.06)),
        checkpoint_every=16,
    )
