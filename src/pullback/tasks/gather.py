"""A bent rod that touches none of them gathers ten cubes."""

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

TIMESTEP, STEPS, WINDOW = 0.04, 300, 32  # [s]; of the trajectory, and those that are planned at a time
CUBES, HALF, MASS = 10, 0.05, 0.2  # how many; half a side [m], [kg]
HEIGHT, HALF_WIDTH, AHEAD = 0.06, 0.45, 0.25  # of the rod: over the floor; its ends, aside and ahead of its middle [m]
LOW, HIGH = (0.35, -0.25), (0.9, 0.25)  # where cubes are [m]; the rod is at the origin
GOAL, NEAR = (1.3, 0.0), 0.35  # the region, and its radius [m]
GAP = 3e-3  # of the contact [m]
ADAM = Adam(rate=0.1, beta1=0.3, beta2=0.5, decay=15)
EYE, LOOK = (-0.4, -1.6, 1.7), (0.65, 0.0, 0.0)  # of the camera [m]


def rod_and_cubes() -> str:
    """A bent rod that is moved, and turned about the vertical, by springs, and ten cubes on the floor. 64 DoF.

    Slides "x", "y", "z" and the hinge "rz" of the rod have actuators called after them, whose controls are the
    coordinates that they pull to [m, rad].
    """
    root, world, actuators = floor(Stage("gather", TIMESTEP, EYE, LOOK))
    decoration(world, "cylinder", "shell", size=(NEAR, 0.002), pos=(*GOAL, 0))
    corners = (AHEAD, -HALF_WIDTH, 0), (0, 0, 0), (AHEAD, HALF_WIDTH, 0)
    ranges = {"x": (-0.2, 1.6), "y": (-0.3, 0.3), "z": (-0.005, 0.03), "rz": (-0.6, 0.6)}
    add_rod(world, actuators, (0, 0, HEIGHT), corners, ranges, stiffness=100, damping=20)
    for i in range(CUBES):
        add_cube(world, f"cube{i}", HALF, MASS, GAP, "accent")
    return document(root)


@task_factory
def gather(device: str = "cpu", seed: int = 0, contact: str = "longrange") -> Task:
    if contact != "longrange":
        return with_contact(gather(device, seed), contact)
    random = np.random.default_rng(check_seed(seed))
    places = scattered(random, CUBES, LOW, HIGH, 3 * HALF)
    cubes = [standing(place, random.uniform(0, np.pi / 2), HALF, GAP) for place in places]
    system = Articulated(
        load(rod_and_cubes()), ContactLongRange(gap=GAP, slip_speed=1e-2, substep_share=COARSE), device=device
    )
    loss, metric = at_goals([[4 + 7 * i, 5 + 7 * i] for i in range(CUBES)], np.array(GOAL), 0.8 * NEAR, over=WINDOW)
    return Task(
        name="gather",
        about="gather ten cubes in a region with a rod that touches none of them at first",
        system=system,
        start=system.state(np.concatenate([np.zeros(4), *cubes])),
        find=Controls(STEPS, hold=8, scale=np.array([0.3, 0.2, 0.02, 0.3])),
        loss=loss,
        metric=metric,
        target=NEAR,
        unit="m",
        method=Receding(ADAM, window=WINDOW, apply=16, iterations=15, ticks=2),
        iterations=20,
        baseline=CMA(spread=1.0),
        baseline_iterations=30,
        camera=Camera(EYE, LOOK),
    )
