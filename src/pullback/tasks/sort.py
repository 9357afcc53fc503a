"""A rod that touches none of them sorts ten cubes by colour."""

from __future__ import annotations

import numpy as np

from pullback.contact import ContactLongRange
from pullback.core.checks import check_seed
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import Stage, decoration, document
from pullback.plan import CMA, Adam, Receding
from pullback.tasks.distant import COARSE, add_cube, add_rod, at_goals, floor, scattered, standing, with_contact
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Controls

TIMESTEP, STEPS, WINDOW = 0.04, 700, 16  # [s]; of the trajectory, and those that are planned at a time
CUBES, HALF, MASS = 10, 0.05, 0.2  # how many; half a side [m], [kg]
HEIGHT, LENGTH = 0.07, 0.2  # of the rod's lower end over the floor; from end to end [m]
LOW, HIGH = (-0.35, -0.35), (0.35, 0.35)  # where cubes are [m]
BEGIN = 0.2  # its height at the start, over the cubes [m]
SIDE, NEAR = 0.5, 0.3  # the middle of a side along y, and half its width [m]
GAP = 3e-3  # of the contact [m]
ADAM = Adam(rate=0.1, beta1=0.3, beta2=0.5, decay=20)
EYE, LOOK = (-1.9, 0.0, 1.9), (0.0, 0.0, 0.0)  # of the camera [m]


def rod_and_cubes() -> str:
    """An upright rod that is moved by springs, and ten cubes of two colours on the floor. 63 DoF.

    Slides "x", "y" and "z" of the rod have actuators called after them, whose controls are the coordinates that they
    pull to [m]. Cubes with even numbers belong to the left (y > 0), the others to the right.
    """
    root, world, actuators = floor(Stage("sort", TIMESTEP, EYE, LOOK))
    for material, side in (("accent", SIDE), ("blue", -SIDE)):
        decoration(world, "box", material, size=(0.02, NEAR, 0.002), pos=(0.8, side, 0))
    ranges = {"x": (-0.8, 0.8), "y": (-1.0, 1.0), "z": (HEIGHT - BEGIN, 0.1)}
    add_rod(world, actuators, (0, 0, BEGIN), ((0, 0, 0), (0, 0, LENGTH)), ranges, stiffness=100, damping=20)
    for i in range(CUBES):
        add_cube(world, f"cube{i}", HALF, MASS, GAP, ("accent", "blue")[i % 2])
    return document(root)


@task_factory
def sort(device: str = "cpu", seed: int = 0, contact: str = "longrange") -> Task:
    if contact != "longrange":
        return with_contact(sort(device, seed), contact)
    random = np.random.default_rng(check_seed(seed))
    places = scattered(random, CUBES, LOW, HIGH, 3 * HALF)
    cubes = [standing(place, random.uniform(0, np.pi / 2), HALF, GAP) for place in places]
    system = Articulated(
        load(rod_and_cubes()), ContactLongRange(gap=GAP, slip_speed=1e-2, substep_share=COARSE), device=device
    )
    sides = np.where(np.arange(CUBES) % 2, -SIDE, SIDE)[:, None]
    loss, metric = at_goals([[4 + 7 * i] for i in range(CUBES)], sides, 0.8 * NEAR, over=WINDOW)
    return Task(
        name="sort",
        about="sort ten cubes by colour with a rod that touches none of them at first",
        system=system,
        start=system.state(np.concatenate([np.zeros(3), *cubes])),
        find=Controls(STEPS, hold=4, scale=np.array([0.3, 0.3, 0.1])),
        loss=loss,
        metric=metric,
        target=NEAR,
        unit="m",
        method=Receding(ADAM, window=WINDOW, apply=8, iterations=20, ticks=4, guesses=16),
        iterations=22,
        baseline=CMA(spread=1.0),
        baseline_iterations=30,
        camera=Camera(EYE, LOOK),
    )
