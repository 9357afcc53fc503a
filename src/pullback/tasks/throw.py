"""An arm with nine joints throws a ball at a target on the floor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pullback.contact import ContactCompliant
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import GHOST, Stage, Vector, add, capsule, decoration, document, motor, stage
from pullback.plan import CMA, LBFGS
from pullback.tasks.loss import Loss
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Controls

TARGET = (1.6, 0.5)  # on the floor [m]
SECONDS = 1.0  # of the motion
SHOULDER = 0.6  # height of the arm [m]
RADIUS = 0.03  # of the ball [m]
RING, BEAD, BEADS, RISE = 0.038, 0.02, 6, 0.03  # the hand is a ring of beads that the ball lies in [m]
G = 9.81  # [m/s²]
NEAR = 0.01  # of the floor: from here on the flight is known [m]
EYE, LOOK = (0.8, -3.2, 1.4), (0.8, 0.2, 0.5)  # of the camera [m]


@dataclass(frozen=True)
class Joint:
    """A hinge and the link that it carries."""

    name: str
    axis: Vector
    way: Vector  # to the next joint [m]
    mass: float  # [kg]
    radius: float  # [m]
    torque: float  # [N·m]
    share: float  # of the torque in a step of the search: joints that carry little are moved by little [1]


JOINTS = (
    Joint("base", (0, 0, 1), (0, 0, 0.10), 2.0, 0.07, 60, 1),
    Joint("shoulder", (0, -1, 0), (0.05, 0, 0), 1.5, 0.06, 60, 1),
    Joint("upper_arm", (1, 0, 0), (0.30, 0, 0), 2.5, 0.05, 30, 0.3),
    Joint("elbow", (0, -1, 0), (0.05, 0, 0), 1.0, 0.045, 30, 1),
    Joint("forearm", (1, 0, 0), (0.25, 0, 0), 1.5, 0.04, 10, 0.1),
    Joint("wrist_pitch", (0, -1, 0), (0.04, 0, 0), 0.4, 0.035, 10, 0.3),
    Joint("wrist_yaw", (0, 0, 1), (0.06, 0, 0), 0.4, 0.03, 5, 0.1),
    Joint("hand_roll", (1, 0, 0), (0.04, 0, 0), 0.2, 0.025, 2, 0.03),
    Joint("hand_pitch", (0, -1, 0), (0.06, 0, 0), 0.2, 0.02, 2, 0.03),
)


def arm_and_ball() -> str:
    """An arm stretched out 0.6 m above the floor, and a ball that lies in its hand. 15 DoF.

    Nine hinges, "base" to "hand_pitch", with motors called after them. The arm's weight is compensated, as that of arms
    in factories is by their controllers; the ball's is not. Sizes and masses are made up, those of a light arm.
    """
    root, world, actuators = stage(Stage("throw", 0.002, EYE, LOOK))
    decoration(world, "cylinder", "accent", size=(0.05, 0.001), pos=(*TARGET, 0))
    decoration(world, "cylinder", "dark", size=(0.06, SHOULDER / 2), pos=(0, 0, SHOULDER / 2))
    body, place = add(world, "body", pos=(0, 0, SHOULDER)), np.array([0.0, 0, SHOULDER])
    for joint in JOINTS:
        body = add(body, "body", name=joint.name, gravcomp=1)
        add(body, "joint", name=joint.name, axis=joint.axis, damping=0.02 * joint.torque, armature=1e-3 * joint.torque)
        capsule(body, (0, 0, 0), joint.way, joint.radius, "shell", mass=joint.mass, **GHOST)
        motor(actuators, joint.name, joint.torque)
        body, place = add(body, "body", pos=joint.way, gravcomp=1), place + joint.way
    for k in range(BEADS):
        angle = 2 * math.pi * k / BEADS
        at = (RING * math.cos(angle), RING * math.sin(angle), RISE)
        add(body, "geom", size=BEAD, pos=at, mass=0.01, material="dark", contype=2, conaffinity=0)
    height = RISE + math.sqrt((RADIUS + BEAD) ** 2 - RING**2)
    ball = add(world, "body", name="ball", pos=tuple(place + (0, 0, height)))
    add(ball, "freejoint")
    add(ball, "geom", name="ball", size=RADIUS, mass=0.05, friction=(0.6, 0, 0), material="accent", contype=1,
        conaffinity=2)  # fmt: skip
    return document(root)


@task_factory
def throw(device: str = "cpu") -> Task:
    model = load(arm_and_ball())
    # Smooth over 2 mm: the ball leaves six beads, one after the other, and each is a kink for a harder surface.
    system = Articulated(model, ContactCompliant(contact_stiffness=5e3, smoothing=2e-3), device=device)

    def flight(run) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The step before each ball lands, or the last; place and velocity there, and the time it still falls [s]."""
        low = run.q[1:, :, 11] < RADIUS + NEAR
        step = np.where(low.any(axis=0), low.argmax(axis=0), len(low))
        worlds = np.arange(run.q.shape[1])
        place, velocity = run.q[step, worlds, 9:12], run.v[step, worlds, 9:12]
        drop = np.maximum(place[:, 2] - RADIUS, 0.0)
        return step, place, velocity, (velocity[:, 2] + np.sqrt(velocity[:, 2] ** 2 + 2 * G * drop)) / G

    def miss(run) -> np.ndarray:
        _, place, velocity, fall = flight(run)
        return (place + velocity * fall[:, None])[:, :2] - TARGET

    def loss(run) -> Loss:
        step, _, velocity, fall = flight(run)
        off = miss(run)
        fall_bar = (off * velocity[:, :2]).sum(axis=1)
        speed = G * fall - velocity[:, 2]  # when it lands, downwards
        q_bar, v_bar = np.zeros_like(run.q), np.zeros_like(run.v)
        worlds = np.arange(len(off))
        q_bar[step, worlds, 9:12] = np.column_stack([off, fall_bar / speed])
        v_bar[step, worlds, 9:12] = np.column_stack([off * fall[:, None], fall_bar * fall / speed])
        return Loss((off**2).sum(axis=1) / 2, {"q_bar": q_bar, "v_bar": v_bar})

    return Task(
        name="throw",
        about="throw a ball with a nine-joint arm so that it lands on a target 1.7 m away",
        system=system,
        start=system.state(),
        find=Controls(
            round(SECONDS / model.timestep), hold=25, scale=np.array([joint.share * joint.torque for joint in JOINTS])
        ),
        loss=loss,
        metric=lambda run: np.linalg.norm(miss(run), axis=1),
        target=0.02,
        unit="m",
        method=LBFGS(first=0.1),
        iterations=60,
        baseline=CMA(spread=0.05),
        baseline_iterations=500,
        camera=Camera(EYE, LOOK),
    )
