"""A car brakes: how slippery is the road if it comes to rest at 0.8 m?"""

from __future__ import annotations

import numpy as np

from pullback.contact import ContactImpulse
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import GHOST, SOLID, Stage, add, decoration, document, stage
from pullback.plan import CMA, GaussNewton
from pullback.tasks.residuals import Residuals
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Parameters

SPEED = 1.0  # of the car when it brakes [m/s]
GOAL = 0.8  # where it should come to rest [m]
SECONDS = 2.0
START = 0.002  # coefficient of friction to begin with: sheer ice [1]
SLIPPERIEST, ROUGHEST = 1e-4, 2.0  # [1]
ON_ITS_SIDE = (0.7071067811865476, 0.7071067811865476, 0, 0)  # a cylinder whose axis is y
EYE, LOOK = (0.4, -2.0, 0.8), (0.4, 0, 0)  # of the camera [m]


def car() -> str:
    """A car of 40 cm: chassis, four wheels whose brakes are on, front wheels that steer. 12 DoF.

    Free joint; hinges "steer_left", "steer_right" about z, with servos that hold their angle; hinges of the wheels,
    whose friction loss of 0.5 N·m is the brake. Masses and sizes are made up, in the proportions of a model car.
    """
    root, world, actuators = stage(Stage("racecar", 0.002, EYE, LOOK))
    decoration(world, "box", "accent", size=(0.005, 0.3, 0.001), pos=(GOAL, 0, 0))
    chassis = add(world, "body", name="chassis", pos=(0, 0, 0.065))
    add(chassis, "freejoint")
    add(chassis, "geom", type="box", size=(0.2, 0.07, 0.025), mass=2.5, material="blue", **GHOST)
    add(
        chassis, "geom", type="box", size=(0.07, 0.06, 0.02), pos=(-0.03, 0, 0.045), mass=0.3, material="shell", **GHOST
    )
    for end, x in (("front", 0.13), ("rear", -0.13)):
        for side, y in (("left", 0.1), ("right", -0.1)):
            body = add(chassis, "body", name=f"{end}_{side}", pos=(x, y, -0.02))
            if end == "front":
                add(body, "joint", name=f"steer_{side}", axis=(0, 0, 1), range=(-0.5, 0.5), damping=0.02, armature=1e-3)
                add(body, "geom", size=0.012, mass=0.05, material="steel", **GHOST)
                add(actuators, "position", name=f"steer_{side}", joint=f"steer_{side}", kp=20, ctrlrange=(-0.5, 0.5))
                body = add(body, "body", name=f"wheel_{side}")
            add(body, "joint", name=f"roll_{end}_{side}", axis=(0, 1, 0), frictionloss=0.5, armature=1e-4)
            add(
                body, "geom", type="cylinder", size=(0.045, 0.015), quat=ON_ITS_SIDE, mass=0.2, material="dark", **SOLID
            )
    return document(root)


@task_factory
def racecar(device: str = "cpu") -> Task:
    model = load(car())
    system = Articulated(model, ContactImpulse(), device=device)
    steps = round(SECONDS / model.timestep)
    v = np.zeros(model.nv)
    v[0] = SPEED

    def miss(run) -> np.ndarray:
        return run.q[-1][:, 0] - GOAL

    def loss(run) -> Residuals:
        values = miss(run)[None, :, None]
        along_x = np.zeros((*values.shape, 2 * model.nv))
        along_x[..., 0] = 1.0
        return Residuals(np.array([steps]), values, along_x)

    return Task(
        name="racecar",
        about="find the friction of the road on which a braking car comes to rest at 0.8 m",
        system=system,
        start=system.state(v=v),
        find=Parameters(
            steps, {"friction": (slice(None), 0)}, start={"friction": START}, tied=("friction",), linear=("friction",),
            low=SLIPPERIEST, high=ROUGHEST,
        ),
        loss=loss,
        metric=lambda run: np.abs(miss(run)),
        target=1e-2,
        unit="m",
        method=GaussNewton(),
        iterations=50,
        baseline=CMA(spread=0.05),
        baseline_iterations=100,
        camera=Camera(EYE, LOOK),
    )  # fmt: skip
