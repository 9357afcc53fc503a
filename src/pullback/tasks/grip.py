"""A gripper lifts a soft block: how must it close, and when must it rise?"""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.coupled import Coupled
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.plan import LBFGS
from pullback.rollout import Run
from pullback.soft import NeoHookean, Particles, ShapedState, Wall, block
from pullback.tasks.loss import Loss
from pullback.tasks.schedules import Schedule
from pullback.tasks.task import Camera, Task, task_factory

DX, CELLS, SUBSTEPS = 0.02, (10, 12, 14), 5  # [m], nodes, steps of the particles in one of the gripper
FOAM = NeoHookean(young=5e3, poisson=0.3, density=150.0)
LOW, HIGH, COUNTS = (0.06, 0.08, 0.04), (0.12, 0.14, 0.1), (6, 6, 6)  # of the block: corners [m], and particles
TABLE = 0.04  # its height [m]
FRICTION = 2.0  # of rubber fingers
STEPS, KNOTS = 60, 4  # of a trajectory, and of each control
LIFT = 0.05  # of the block's centre [m]
# How high the hand is, and how far the fingers are closed [m].
GUESS, MOST = (0.01, 0.022), (0.1, 0.03)
UNSURE = 0.003  # of the first guess at each knot, standard deviation [m]
GRIPPER = """
<mujoco><option timestep="0.009" gravity="0 0 0"/><worldbody>
  <geom name="table" type="plane" size="0.3 0.3 0.1" pos="0.09 0.11 0.04" contype="0" conaffinity="0"/>
  <body name="hand" pos="0.09 0.11 0.15">
    <joint name="lift" type="slide" axis="0 0 1"/>
    <geom name="palm" type="box" size="0.015 0.08 0.01" mass="0.5" contype="0" conaffinity="0"/>
    <body name="left" pos="0 -0.063 -0.08">
      <joint name="left" type="slide" axis="0 1 0"/>
      <geom name="left" type="box" size="0.03 0.025 0.025" mass="0.2" contype="0" conaffinity="0"/>
    </body>
    <body name="right" pos="0 0.063 -0.08">
      <joint name="right" type="slide" axis="0 -1 0"/>
      <geom name="right" type="box" size="0.03 0.025 0.025" mass="0.2" contype="0" conaffinity="0"/>
    </body>
  </body>
</worldbody><tendon>
  <fixed name="fingers"><joint joint="left" coef="0.5"/><joint joint="right" coef="0.5"/></fixed>
</tendon><actuator>
  <position joint="lift" kp="400" kv="30"/>
  <position tendon="fingers" kp="1600" kv="60"/>
</actuator></mujoco>"""


def gripper() -> Coupled:
    """A hand with two fingers, whose own weight is balanced, and a block of foam on a table between them."""
    robot = Articulated(load(GRIPPER))
    foam = block(LOW, HIGH, COUNTS, FOAM, name="block")
    table = Wall((0.0, 0.0, TABLE), (0.0, 0.0, 1.0), 0.5)
    particles = Particles([foam], dx=DX, cells=CELLS, dt=robot.dt / SUBSTEPS, walls=[table])
    return Coupled(robot, particles, shapes=("left", "right"), friction=FRICTION)


@task_factory
def grip(seed: int = 0) -> Task:
    """``seed`` chooses the first guess."""
    system, random = gripper(), np.random.default_rng(check_seed(seed))
    guess = np.array(GUESS) + UNSURE * random.standard_normal((KNOTS, len(GUESS)))
    goal = system.soft.bodies[0].points.mean(axis=0) + (0.0, 0.0, LIFT)

    def miss(run: Run) -> np.ndarray:
        """From the goal to the centre of the block (worlds, 3) [cm]."""
        return 100 * (run.final.soft.x.mean(axis=1) - goal)

    def loss(run: Run) -> Loss:
        x_bar = np.broadcast_to(100 * miss(run)[:, None] / system.soft.n, run.final.soft.x.shape)
        nothing = [None] * (len(ShapedState._fields) - 1)
        return Loss((miss(run) ** 2).sum(axis=1) / 2, {"soft_bar": ShapedState(x_bar, *nothing)})

    return Task(
        name="grip",
        about=f"grip a soft block and lift it by {100 * LIFT:g} cm, with fingers and a hand that have servos",
        system=system,
        start=system.state(),
        find=Schedule(STEPS, (0.0, 0.0), (0, 1), KNOTS, scale=0.01, low=0.0, high=MOST, start=guess.clip(0.0, MOST)),
        loss=loss,
        metric=lambda run: np.linalg.norm(miss(run), axis=1),
        target=0.2,
        unit="cm",
        method=LBFGS(),
        iterations=60,
        camera=Camera((0.9, 0.0, 0.22), (0.09, 0.11, 0.1)),
        checkpoint_every=8,
    )
