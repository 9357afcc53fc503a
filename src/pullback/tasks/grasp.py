"""Two fingers lift a cube from the floor, by friction alone."""

from __future__ import annotations

import numpy as np

from pullback.contact import ContactCompliant
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import Stage, add, decoration, document, motor, stage
from pullback.plan import CMA, ILQR
from pullback.spatial import quat_exp
from pullback.tasks.paths import through
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.tracking import Tracking
from pullback.tasks.variables import Controls

HALF, MASS, FRICTION = 0.025, 0.1, 0.8  # of the cube: half a side [m], [kg], [1]
TIP, APART = 0.01, 0.015  # radius of a fingertip; how far from the middle of its finger it is [m]
OPEN, FORCE = 0.07, 20.0  # of the fingers: from the middle at first [m]; what moves them at most [N]
GRIP = 0.002  # how deep fingertips press into the cube in the sketch [m]
LIFT = 0.12  # how far the cube should go [m]
TOUCH, GRIPPED, LIFTED, SECONDS = 0.35, 0.55, 1.05, 1.5  # when it happens; of all of it [s]
STILL = 0.2  # for which the cube has to be held still at the end [s]

# What a motion that counts as a lift may be like.
LEAST, ASIDE = 0.1, 0.01  # at least so high, not farther than this from where it stood [m]
SPEED, TURNING, TILT = 0.01, 0.05, 0.05  # [m/s], [rad/s], [rad]
BESIDE = 0.02  # fingertips are at the sides, not below: not farther than this from the middle of the cube [m]

EYE, LOOK = (0.45, -0.45, 0.3), (0, 0, 0.1)  # of the camera [m]


def fingers_and_cube() -> str:
    """Two fingers, each moved along x, y and z, and a cube between them. 12 DoF.

    Slides "left_x" to "right_z" with motors called after them. A finger has two round tips side by side, so that the
    cube cannot turn about the line between the fingers. Springs hold the fingers in place: pushed by forces alone, they
    would give way sideways as soon as they press on something. Their weight is compensated. Sizes and masses are made
    up.
    """
    root, world, actuators = stage(Stage("grasp", 0.005, EYE, LOOK))
    for name, y in (("left", OPEN), ("right", -OPEN)):
        finger = add(world, "body", name=name, pos=(0, y, HALF), gravcomp=1)
        for k, axis in enumerate("xyz"):
            add(
                finger, "joint", name=f"{name}_{axis}", type="slide", axis=tuple(np.eye(3)[k]), stiffness=100, damping=4
            )
            motor(actuators, f"{name}_{axis}", FORCE)
        for x in (-APART, APART):
            add(finger, "geom", size=TIP, pos=(x, 0, 0), mass=0.1, friction=(FRICTION, 0, 0), material="dark",
                contype=2, conaffinity=0)  # fmt: skip
            decoration(finger, "capsule", "blue", size=0.006, fromto=(x, 0, 0, x / 2, 0, 0.15))
    cube = add(world, "body", name="cube", pos=(0, 0, HALF))
    add(cube, "freejoint")
    add(cube, "geom", name="cube", type="box", size=(HALF, HALF, HALF), mass=MASS, friction=(FRICTION, 0, 0),
        material="accent", contype=1, conaffinity=2)  # fmt: skip
    return document(root)


def turned(yaw: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) of turns about the vertical [rad]."""
    return quat_exp(np.multiply.outer(yaw, (0.0, 0.0, 1.0)))


def sketch(place: np.ndarray, yaw: float, t: np.ndarray) -> np.ndarray:
    """What the motion could look like (len(t), 13), by kinematics alone: the fingers close on the cube and go up.

    place: of the cube at first (2,) [m]. The cube is turned straight between the fingers.
    """
    x, y = place
    reach = OPEN - HALF - TIP  # of a finger until it touches
    close = through([0, TOUCH, GRIPPED], [(0.0,), (reach - 0.005,), (reach + GRIP,)], np.zeros((3, 1)), t)[:, 0]
    aside = through([0, TOUCH], [(0, 0), (x, y)], np.zeros((2, 2)), t)
    rise = through([GRIPPED, LIFTED], [(0.0,), (LIFT,)], np.zeros((2, 1)), t)[:, 0]
    turn = through([TOUCH, GRIPPED], [(yaw,), (0.0,)], np.zeros((2, 1)), t)[:, 0]
    left = [aside[:, 0], aside[:, 1] - close, rise]
    right = [aside[:, 0], aside[:, 1] + close, rise]
    cube = [x + 0 * t, y + 0 * t, HALF + rise]
    return np.column_stack([*left, *right, *cube, turned(turn)])


@task_factory
def grasp(device: str = "cpu", seed: int = 0) -> Task:
    model = load(fingers_and_cube())
    # Smooth over 1 mm, so that a finger that is about to touch knows of the cube. Friction that is full from 2 mm/s on
    # lets the cube creep by a fraction of that.
    contact = ContactCompliant(contact_stiffness=2e3, smoothing=1e-3, slip_speed=2e-3)
    system = Articulated(model, contact, device=device)
    random = np.random.default_rng(check_seed(seed))
    place, yaw = random.uniform(-0.01, 0.01, 2), random.uniform(-0.2, 0.2)
    steps, still = round(SECONDS / model.timestep), round(STILL / model.timestep)
    path = sketch(place, yaw, np.arange(steps + 1) * model.timestep)
    start = system.state(path[0])
    speeds = np.gradient(path, model.timestep, axis=0)
    speeds = np.column_stack([speeds[:, :9], np.zeros((steps + 1, 3))])
    # The cube leads; of the fingers it matters little where they are.
    finger, finger_speed = [200.0, 2000.0, 200.0], 3 * [0.05]
    cube, cube_speed = [200.0, 200.0, 200.0, 0.5, 0.5, 0.1], [1.0, 1.0, 1.0, 0.005, 0.005, 0.005]
    weights = np.tile([*finger, *finger, *cube, *finger_speed, *finger_speed, *cube_speed], (steps + 1, 1))
    weights[-still:, 6:12] *= 5
    weights[-still:, 18:] *= 20

    def metric(run) -> np.ndarray:
        """The worst of what is asked for, in terms of what is allowed (worlds,)."""
        q, v = run.q[-still:], run.v[-still:]
        x, y, z = np.moveaxis(q[..., 6:9], -1, 0)
        tilt = 2 * np.arcsin(np.minimum(np.hypot(q[..., 10], q[..., 11]), 1.0))
        asked = (
            1 + (LEAST - (z - HALF)) / 0.01,
            np.hypot(x - place[0], y - place[1]) / ASIDE,
            tilt / TILT,
            np.linalg.norm(v[..., 6:9], axis=-1) / SPEED,
            np.linalg.norm(v[..., 9:], axis=-1) / TURNING,
            np.abs(q[..., [2, 5]] + HALF - z[..., None]).max(axis=-1) / BESIDE,
        )
        return np.max(asked, axis=(0, 1))

    return Task(
        name="grasp",
        about="grasp a cube with two fingers, lift it by friction and hold it still",
        system=system,
        start=start,
        find=Controls(steps, hold=5),
        loss=Tracking(State(path, speeds), weights, 1e-5),
        metric=metric,
        target=1.0,
        unit="times the tolerance",
        method=ILQR(sketch=True),
        iterations=50,
        baseline=CMA(spread=0.1),
        baseline_iterations=2000,
        camera=Camera(EYE, LOOK),
        ghost=path[-1],
    )
