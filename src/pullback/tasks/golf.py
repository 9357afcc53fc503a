"""A club of two links hits a ball that must come to rest at a hole."""

from __future__ import annotations

import numpy as np

from pullback.contact import ContactImpulse
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import GHOST, SOLID, Stage, add, capsule, decoration, document, motor, stage
from pullback.plan import CMA, LBFGS
from pullback.tasks.loss import Loss
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Controls

GOAL = 5.0  # where the ball should lie [m]
SECONDS = 5.0  # until it lies still
SWING = 0.6  # for which the club is driven [s]
TEE = 0.15  # where it lies at first: the club hits it on its way up [m]
RADIUS, MASS = 0.025, 0.5  # of the ball [m], [kg]
DRAG = 0.6  # of the grass [N·s/m]; the ball is slowed down within MASS / DRAG

EYE, LOOK = (-1.5, -4.0, 1.8), (2.4, 0, 0.4)  # of the camera, which is nearer to the club than to the hole [m]


def club_and_ball() -> str:
    """A double pendulum over a green and a ball where it will pass. 8 DoF.

    Links of 0.5 m and 1 and 2.16 kg, a ball of 0.5 kg and 2.5 cm, friction 2 on the green: as in Qiao et al. 2021. The
    club's face has a friction of 0.3: with more than 1 the ball would jam between club and green. Hinges "arm" and
    "club", the wrist, which is a stiff spring, with motors of ±20 and ±8 N·m. Grass is a damping of the ball along the
    ground, and the ball has three slides and a ball joint, so that its spin is not damped.
    """
    root, world, actuators = stage(Stage("golf", 0.002, EYE, LOOK))
    decoration(world, "cylinder", "dark", size=(0.05, 0.001), pos=(GOAL, 0, 0))
    decoration(world, "capsule", "accent", size=0.008, fromto=(GOAL, 0, 0, GOAL, 0, 0.5))
    arm = add(world, "body", name="arm", pos=(0, 0, 0.97 + RADIUS))
    add(arm, "joint", name="arm", axis=(0, -1, 0), damping=0.5)
    capsule(arm, (0, 0, 0), (0, 0, -0.5), 0.02, "blue", mass=1, **GHOST)
    club = add(arm, "body", name="club", pos=(0, 0, -0.5))
    add(club, "joint", name="club", axis=(0, -1, 0), stiffness=60, damping=1)
    capsule(club, (0, 0, 0), (0, 0, -0.47), 0.012, "steel", mass=1.8, **GHOST)
    add(club, "geom", name="head", size=0.03, pos=(0, 0, -0.47), mass=0.36, material="dark", **GHOST)
    motor(actuators, "arm", 20)
    motor(actuators, "club", 8)
    ball = add(world, "body", name="ball", pos=(TEE, 0, RADIUS))
    for axis, drag in (((1, 0, 0), DRAG), ((0, 1, 0), DRAG), ((0, 0, 1), 0)):
        add(ball, "joint", type="slide", axis=axis, damping=drag)
    add(ball, "joint", type="ball")
    add(ball, "geom", name="ball", size=RADIUS, mass=MASS, friction=(2, 0, 0), material="shell", **SOLID)
    add(add(root, "contact"), "pair", geom1="head", geom2="ball", condim=3, friction=(0.3, 0.3, 0, 0, 0), margin=0.02)
    return document(root)


@task_factory
def golf(device: str = "cpu") -> Task:
    model = load(club_and_ball())
    system = Articulated(model, ContactImpulse(restitution=0.5), device=device)
    steps = round(SECONDS / model.timestep)
    q = np.array(model.home.q)
    q[0] = -1.3  # drawn back [rad]
    ball, speed = slice(2, 4), slice(2, 4)  # x and y of the ball, and their velocities
    goal = np.array([GOAL - TEE, 0.0])  # its coordinates are zero where it lies at first

    def away(run) -> np.ndarray:
        """From the hole to where the ball will lie when the grass has stopped it."""
        return run.q[-1][:, ball] + run.v[-1][:, speed] * MASS / DRAG - goal

    def loss(run) -> Loss:
        q_bar, v_bar = np.zeros_like(run.q[-1]), np.zeros_like(run.v[-1])
        q_bar[:, ball] = away(run)
        v_bar[:, speed] = away(run) * MASS / DRAG
        return Loss((away(run) ** 2).sum(axis=1) / 2, {"q_bar": q_bar, "v_bar": v_bar})

    return Task(
        name="golf",
        about="swing a two-link club so that the ball comes to rest at the hole, 5 m away",
        system=system,
        start=system.state(q),
        find=Controls(steps, hold=25, until=round(SWING / model.timestep)),
        loss=loss,
        metric=lambda run: np.linalg.norm(away(run), axis=1),
        target=0.05,
        unit="m",
        method=LBFGS(first=0.2),
        iterations=100,
        baseline=CMA(spread=0.1),
        baseline_iterations=1500,
        camera=Camera(EYE, LOOK),
    )
