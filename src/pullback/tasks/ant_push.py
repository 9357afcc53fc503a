"""An ant that stands still, away from a box, learns to walk into it and to push it to its goal."""

from __future__ import annotations

import math

import numpy as np

from pullback.contact import ContactLongRange
from pullback.core.checks import check_seed
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import SOLID, Stage, add, capsule, decoration, document
from pullback.plan import CMA, Adam
from pullback.tasks.distant import COARSE, add_cube, at_goals, floor, standing, with_contact
from pullback.tasks.schedules import Waves
from pullback.tasks.task import Camera, Task, task_factory

TIMESTEP, STEPS = 0.02, 240  # [s], of the trajectory
TORSO, HEIGHT = 0.15, 0.3  # radius of the ant's torso, and where its middle is over the floor [m]
THIGH, SHIN, THICK = 0.2, 0.36, 0.04  # lengths of a leg's parts, and their radius [m]
HALF, MASS = 0.15, 0.5  # of the box: half a side [m], [kg]
GAP = 5e-3  # of the contact [m]
NEAR = 0.1  # the box is at its goal: its middle is no farther away [m]
FREQUENCIES = (1.0, 2.0)  # of the controls [Hz]
EYE, LOOK = (0.3, -2.8, 1.8), (0.5, 0.0, 0.1)  # of the camera [m]


def ant_and_box(goal: np.ndarray = (1.0, 0.0)) -> str:
    """An ant with four legs and a box on the floor. 20 DoF.

    A leg has the hinges "hip1" to "hip4", about the vertical, and "knee1" to "knee4", with actuators called after them,
    whose controls are the angles that damped springs pull to [rad]. Its links touch the floor and the box, not each
    other.
    """
    root, world, actuators = floor(Stage("ant-push", TIMESTEP, EYE, LOOK))
    decoration(world, "cylinder", "accent", size=(NEAR, 0.002), pos=(*goal, 0))
    torso = add(world, "body", name="torso", pos=(0, 0, HEIGHT))
    add(torso, "freejoint", name="root")
    add(torso, "geom", name="torso", size=TORSO, mass=2, material="blue", **SOLID)
    drop = math.asin((HEIGHT - THICK) / SHIN)  # of the shin, so that the foot is on the floor
    for leg in range(1, 5):
        angle = math.radians(90 * leg - 45)
        out, across = (math.cos(angle), math.sin(angle), 0), (-math.sin(angle), math.cos(angle), 0)
        hip = add(torso, "body", name=f"thigh{leg}", pos=tuple(TORSO * 0.7 * x for x in out))
        add(hip, "joint", name=f"hip{leg}", axis=(0, 0, 1), damping=0.1, armature=0.01)
        knee = tuple(THIGH * x for x in out)
        capsule(hip, (0, 0, 0), knee, THICK, "shell", mass=0.2)
        shin = add(hip, "body", name=f"shin{leg}", pos=knee)
        add(shin, "joint", name=f"knee{leg}", axis=across, damping=0.1, armature=0.01)
        foot = (*(SHIN * math.cos(drop) * x for x in out[:2]), -SHIN * math.sin(drop))
        capsule(shin, (0, 0, 0), foot, THICK, "accent", mass=0.2, friction=(1, 0, 0))
        for joint in (f"hip{leg}", f"knee{leg}"):
            add(actuators, "position", name=joint, joint=joint, kp=30, kv=2)
    add_cube(world, "box", HALF, MASS, GAP, "accent")
    return document(root)


@task_factory
def ant_push(device: str = "cpu", seed: int = 0, contact: str = "longrange") -> Task:
    if contact != "longrange":
        return with_contact(ant_push(device, seed), contact)
    random = np.random.default_rng(check_seed(seed))
    angle, far = random.uniform(0, 2 * np.pi), random.uniform(0.85, 0.95)
    place = far * np.array([np.cos(angle), np.sin(angle)])
    way = angle + random.uniform(-1, 1) * np.pi / 6
    goal = place + random.uniform(0.3, 0.4) * np.array([np.cos(way), np.sin(way)])
    system = Articulated(load(ant_and_box(goal)), ContactLongRange(gap=GAP, substep_share=COARSE), device=device)
    loss, metric = at_goals([[15, 16]], goal, NEAR / 2)
    ant = np.array([0, 0, HEIGHT + GAP, 1, 0, 0, 0, *np.zeros(8)])
    box = standing(place, random.uniform(0, np.pi / 2), HALF, GAP)
    return Task(
        name="ant-push",
        about="find a gait with which an ant walks into a box and pushes it to a goal",
        system=system,
        start=system.state(np.concatenate([ant, box])),
        find=Waves(STEPS, (0.0,) * 8, TIMESTEP, FREQUENCIES, scale=0.5),
        loss=loss,
        metric=metric,
        target=NEAR,
        unit="m",
        method=Adam(rate=0.03, beta1=0.3, beta2=0.5),
        iterations=150,
        baseline=CMA(spread=0.3),
        baseline_iterations=100,
        camera=Camera(EYE, LOOK),
    )
