"""A soft hook opens a door: how must the hand that holds it move?"""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.coupled import Coupled
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.plan import LBFGS
from pullback.rollout import Run
from pullback.soft import Elastic, Solid, StableNeoHookean
from pullback.soft.elastic_bodies import CUBE
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Schedule
from pullback.tasks.task import Camera, Task, task_factory

CELL = 0.015  # of the mesh [m]
THICK, ROOM, SHANK, FINGER = 2, 2, 5, 4  # cells: of each part, between shank and finger, below the bridge
RUBBER = StableNeoHookean(young=5e5, poisson=0.4, density=1000.0, viscosity=200.0)
BAR = (0.35, -0.055, 1.0)  # middle of the bar that it hooks on to, with the door shut [m]
ABOVE = 0.08  # of the bridge above that, at first [m]
DT, STEPS, KNOTS = 0.01, 100, 5  # [s]; of a trajectory, and of each control
OPEN = 35.0  # [degrees]
# The velocity of the hand along x, y and z [m/s]: down behind the bar, then back.
GUESS = np.array([(0, 0, -0.3), (0, 0, -0.12), (0, -0.2, 0), (0, -0.25, 0), (0, -0.25, 0)])
MOST = 0.6  # [m/s]
UNSURE = 0.03  # of the first guess at each knot, standard deviation [m/s]
DOOR = f"""
<mujoco><option timestep="{DT}"/><worldbody>
  <body name="door" pos="0 0 0.9">
    <joint name="hinge" axis="0 0 -1" damping="0.1"/>
    <geom name="panel" type="box" pos="0.2 0.015 0" size="0.2 0.015 0.25" mass="2" rgba="0.75 0.6 0.45 1"/>
    <geom name="bar" type="capsule" fromto="0.28 -0.055 0.1 0.4 -0.055 0.1" size="0.009" mass="0.1"/>
    <geom type="capsule" fromto="0.28 -0.055 0.1 0.28 0 0.1" size="0.007" mass="0.02"/>
    <geom type="capsule" fromto="0.4 -0.055 0.1 0.4 0 0.1" size="0.007" mass="0.02"/>
  </body>
</worldbody></mujoco>"""


def hook() -> Solid:
    """A shank that is held at its lower end, a bridge over the bar, and a finger behind it."""
    across = 2 * THICK + ROOM
    filled = np.zeros((THICK, across, THICK + SHANK), dtype=bool)  # along x, y and z
    filled[:, :, SHANK:] = filled[:, :THICK, :] = filled[:, -THICK:, SHANK - FINGER :] = True
    filled[:, THICK:-THICK, :SHANK] = False
    number = np.arange(np.prod(np.add(filled.shape, 1))).reshape(np.add(filled.shape, 1))
    x, y, z = np.nonzero(filled)
    cubes = np.stack([number[x + i, y + j, z + k] for k in (0, 1) for j in (0, 1) for i in (0, 1)], axis=1)
    used, tets = np.unique(cubes[:, CUBE], return_inverse=True)
    lattice = np.stack(np.unravel_index(used, number.shape), axis=1)
    middle = np.array([THICK / 2, across / 2, SHANK])  # of the bridge's lower side
    points = np.array(BAR) + (0.0, 0.0, ABOVE) + CELL * (lattice - middle)
    return Solid(points, tets.reshape(-1, 4), RUBBER, "hook")


def hook_and_door() -> Coupled:
    body = hook()
    held = np.flatnonzero(body.points[:, 2] < body.points[:, 2].min() + CELL / 2)
    elastic = Elastic(body, dt=DT, handles=[held], gap=4e-3)
    return Coupled(Articulated(load(DOOR), None), elastic, shapes=("bar", "panel"), friction=0.3)


@task_factory
def open_door(seed: int = 0) -> Task:
    """``seed`` chooses the first guess."""
    system, random = hook_and_door(), np.random.default_rng(check_seed(seed))
    guess = GUESS + UNSURE * random.standard_normal(GUESS.shape)

    def miss(run: Run) -> np.ndarray:
        """From the goal to the angle of the door (worlds,) [degrees]."""
        return np.degrees(run.final.robot.q[:, 0]) - OPEN

    def loss(run: Run) -> Loss:
        q_bar = np.degrees(miss(run))[:, None]
        return Loss(miss(run) ** 2 / 2, {"robot_bar": type(run.final.robot)(q_bar, None)})

    return Task(
        name="open-door",
        about=f"open a door by {OPEN:g} degrees with a soft hook, by the motion of the hand that holds it",
        system=system,
        start=system.state(),
        find=Schedule(STEPS, (0.0, 0.0, 0.0), (0, 1, 2), KNOTS, scale=0.1, low=-MOST, high=MOST, start=guess),
        loss=loss,
        metric=lambda run: np.abs(miss(run)),
        target=1.0,
        unit="degrees",
        method=LBFGS(),
        iterations=60,
        camera=Camera((-0.25, -0.75, 1.35), (0.25, -0.05, 0.95)),
        checkpoint_every=10,
    )
