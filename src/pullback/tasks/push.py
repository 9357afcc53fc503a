"""A rod that has not touched it yet pushes a box to its goal."""

from __future__ import annotations

import numpy as np

from pullback.contact import ContactLongRange
from pullback.core.checks import check_seed
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import Stage, decoration, document
from pullback.plan import CMA, Adam, Receding
from pullback.tasks.distant import COARSE, add_cube, add_rod, at_goals, floor, standing, with_contact
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Controls

TIMESTEP, STEPS, WINDOW = 0.04, 200, 48  # [s]; of the trajectory, and those that are planned at a time
HALF, MASS = 0.1, 0.5  # of the box: half a side [m], [kg]
HEIGHT, LENGTH = 0.1, 0.4  # of the rod's middle over the floor; from end to end [m]
GAP = 3e-3  # of the contact [m]
NEAR = 0.05  # the box is at its goal: its middle is no farther away [m]
ADAM = Adam(rate=0.1, beta1=0.3, beta2=0.5)
EYE, LOOK = (-0.6, -2.6, 2.2), (0.0, 0.0, 0.0)  # of the camera [m]


def rod_and_box(goal: np.ndarray = (1.0, 0.0)) -> str:
    """A rod that is moved and turned by springs, and a box on the floor. 12 DoF.

    Slides "x", "y", "z" and hinges "rx", "ry", "rz" of the rod have actuators called after them, whose controls are the
    coordinates that they pull to [m, rad].
    """
    root, world, actuators = floor(Stage("push", TIMESTEP, EYE, LOOK))
    world.find("geom").set("friction", "0.4 0 0")  # type: ignore[union-attr]
    decoration(world, "cylinder", "accent", size=(NEAR, 0.002), pos=(*goal, 0))
    ends = (0, -LENGTH / 2, 0), (0, LENGTH / 2, 0)
    ranges = {"x": (-2, 2), "y": (-2, 2), "z": (-0.04, 0.5)} | {f"r{axis}": (-3, 3) for axis in "xyz"}
    add_rod(world, actuators, (0, 0, HEIGHT), ends, ranges, stiffness=40, damping=60)
    add_cube(world, "box", HALF, MASS, GAP, "accent")
    return document(root)


@task_factory
def push(device: str = "cpu", seed: int = 0, contact: str = "longrange") -> Task:
    if contact != "longrange":
        return with_contact(push(device, seed), contact)
    random = np.random.default_rng(check_seed(seed))
    angle, far = random.uniform(0, 2 * np.pi), random.uniform(0.5, 0.8)
    place = far * np.array([np.cos(angle), np.sin(angle)])
    way, length = angle + random.uniform(-1, 1) * np.pi / 3, random.uniform(0.4, 0.7)
    goal = place + length * np.array([np.cos(way), np.sin(way)])
    model = load(rod_and_box(goal))
    system = Articulated(model, ContactLongRange(gap=GAP, substep_share=COARSE), device=device)
    loss, metric = at_goals([[6, 7]], goal, NEAR / 2, over=WINDOW)
    return Task(
        name="push",
        about="push a box to a goal with a rod that starts half a metre away from it",
        system=system,
        start=system.state([*np.zeros(6), *standing(place, random.uniform(0, 2 * np.pi), HALF, GAP)]),
        find=Controls(STEPS, hold=8, scale=np.array([0.3, 0.3, 0.1, 0.5, 0.5, 0.5])),
        loss=loss,
        metric=metric,
        target=NEAR,
        unit="m",
        method=Receding(ADAM, window=WINDOW, apply=16, iterations=50, guesses=16),
        iterations=20,
        baseline=CMA(spread=1.0),
        baseline_iterations=100,
        camera=Camera(EYE, LOOK),
    )
