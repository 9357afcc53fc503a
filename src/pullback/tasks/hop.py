"""A hopper with one leg jumps over a gap and comes to stand on the other side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pullback.contact import ContactCompliant
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.model.robots.scene import FLOOR, GHOST, Stage, add, capsule, document, motor, stage
from pullback.plan import CMA, ILQR
from pullback.tasks.paths import through
from pullback.tasks.task import Camera, Task
from pullback.tasks.tracking import Tracking
from pullback.tasks.variables import Controls

TOP, EDGE, GAP = 0.3, 0.15, 0.4  # height of the platforms, where the near one ends, how far the other is [m]
LEG, ANKLE = 0.25, 0.06  # length of thigh and of shank; height of the ankle over the sole [m]
HEEL, TOE, RADIUS = -0.06, 0.11, 0.02  # of the foot, from the ankle [m]
BEND = 0.9  # of the knee when it stands [rad]
LANDING = EDGE + GAP + 0.12  # where the ankle should come down [m]
TAKE_OFF, FLIGHT, SECONDS = 0.65, 0.36, 1.7  # when it leaves the ground, for how long, and of all of it [s]
MOTORS = {"hip": 80, "knee": 100, "ankle": 60}  # [N·m]
HARNESS = {"x": 100, "z": 200, "pitch": 50}  # [N], [N], [N·m]
EFFORT = 1e-5  # what a squared newton metre costs
PRICES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of the harness, from hardly anything to so much that it hangs loose
STILL = 0.1  # for which it has to stand at the end [s]
G = 9.81  # [m/s²]

# What a motion that counts as a hop may be off by.
PLACE, TILT, SPEED, TURNING = 0.05, 0.1, 0.2, 0.5  # [m], [rad], [m/s], [rad/s]
CLEARANCE = 0.01  # by which the foot must be above the platforms where it is over the gap [m]

EYE, LOOK = (0.35, -2.6, 1.0), (0.35, 0, 0.6)  # of the camera [m]


def hopper(harness: bool = False) -> str:
    """A torso of 6 kg on one leg of 2.7 kg, and two platforms. 6 DoF, in a plane.

    Slides "x" and "z" and hinge "pitch" of the torso; hinges "hip", "knee" and "ankle" with motors called after them.
    Springs and dampers at the joints let it stand without control. Only the foot touches. In a harness, motors "x", "z"
    and "pitch" hold the torso. Sizes and masses are made up.
    """
    root, world, actuators = stage(Stage("hop", 0.004, EYE, LOOK))
    rough = {"friction": (0.9, 0.005, 0.0001)}
    for name, x in (("near", EDGE - 0.75), ("far", EDGE + GAP + 0.75)):
        add(world, "geom", name=name, type="box", size=(0.75, 0.25, TOP / 2), pos=(x, 0, TOP / 2), material="steel",
            **rough, **FLOOR)  # fmt: skip
    torso = add(world, "body", name="torso")
    add(torso, "joint", name="x", type="slide", axis=(1, 0, 0))
    add(torso, "joint", name="z", type="slide", axis=(0, 0, 1))
    add(torso, "joint", name="pitch", axis=(0, 1, 0))
    capsule(torso, (0, 0, 0.05), (0, 0, 0.3), 0.07, "shell", mass=6, **GHOST)
    thigh = _link(torso, "hip", 0, rest=-0.45, damping=3)
    capsule(thigh, (0, 0, 0), (0, 0, -LEG), 0.04, "blue", mass=1.5, **GHOST)
    shank = _link(thigh, "knee", -LEG, rest=0.85, damping=3)
    capsule(shank, (0, 0, 0), (0, 0, -LEG), 0.03, "blue", mass=0.8, **GHOST)
    foot = _link(shank, "ankle", -LEG, rest=-0.45, damping=2)
    capsule(foot, (HEEL, 0, RADIUS - ANKLE), (TOE, 0, RADIUS - ANKLE), RADIUS, "accent", mass=0.4, **rough)
    for name, strength in (MOTORS | HARNESS if harness else MOTORS).items():
        motor(actuators, name, strength)
    return document(root)


def _link(parent, name: str, z: float, *, rest: float, damping: float):
    body = add(parent, "body", name=name, pos=(0, 0, z))
    add(body, "joint", name=name, axis=(0, 1, 0), stiffness=100, springref=rest, damping=damping, armature=0.02)
    return body


def stretched(hip: np.ndarray, ankle: np.ndarray) -> np.ndarray:
    """Coordinates (..., 6) with an upright torso and a level foot, from places (..., 2) of hip and ankle [m]."""
    x, z = np.moveaxis(ankle - hip, -1, 0)
    knee = 2 * np.arccos(np.minimum(np.hypot(x, z) / (2 * LEG), 1.0))
    turn = np.arctan2(-x, -z)  # of the line from hip to ankle
    return np.stack([hip[..., 0], hip[..., 1], 0 * x, turn - knee / 2, knee, -turn - knee / 2], axis=-1)


def standing(x: float, bend: float) -> np.ndarray:
    """Coordinates (6,) with the hip above the ankle."""
    ankle = np.array([x, TOP + ANKLE])
    return stretched(ankle + [0, 2 * LEG * np.cos(bend / 2)], ankle)


def sketch(start: np.ndarray, t: np.ndarray) -> np.ndarray:
    """What the motion could look like (len(t), 6), by kinematics alone: crouch, push off, fly, yield, stand.

    The hip flies on a parabola, so that no force is needed that there is not.
    """
    x, z = start[:2]
    height = standing(0, BEND)[1]
    lean, rise = 0.13, G * FLIGHT / 2  # of the hip before the ankle when the foot leaves the ground; its speed upwards
    speed = (LANDING - x - 2 * lean) / FLIGHT
    land = TAKE_OFF + FLIGHT
    times = [0, 0.4, TAKE_OFF, land, land + 0.25, SECONDS - 2 * STILL]
    hip = through(
        times,
        [(x, z), (x + 0.03, height - 0.1), (x + lean, height + 0.02), (LANDING - lean, height + 0.02),
         (LANDING, height - 0.06), (LANDING, height)],
        [(0, 0), (0.2, 0), (speed, rise), (speed, -rise), (0, 0), (0, 0)],
        t,
    )  # fmt: skip
    low, high = TOP + ANKLE, TOP + ANKLE + 0.12
    ankle = through(
        [0, TAKE_OFF, (TAKE_OFF + land) / 2, land, SECONDS],
        [(x, low), (x, low), ((x + LANDING) / 2, high), (LANDING, low), (LANDING, low)],
        [(0, 0), (0, 0), (1.5 * (LANDING - x) / FLIGHT, 0), (0, 0), (0, 0)],
        t,
    )
    return stretched(hip, ankle)


def sole(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the middle of the foot is along the ground, and its lowest point [m], from coordinates (..., 6)."""
    x, z = q[..., 0], q[..., 1]
    angles = np.cumsum(q[..., 2:6], axis=-1)  # of torso, thigh, shank and foot in the world
    x = x - LEG * np.sin(angles[..., 1:3]).sum(axis=-1)
    z = z - LEG * np.cos(angles[..., 1:3]).sum(axis=-1)
    turn, deep = angles[..., 3], RADIUS - ANKLE
    ends = [z - way * np.sin(turn) + deep * np.cos(turn) - RADIUS for way in (HEEL, TOE)]
    return x + (HEEL + TOE) / 2 * np.cos(turn) + deep * np.sin(turn), np.minimum(*ends)


def metric(run) -> np.ndarray:
    """The worst of what is asked for, in terms of what is allowed (worlds,)."""
    still = round(STILL / run.system.model.timestep)
    q, v = run.q[-still:], run.v[-still:]
    off = np.abs(q - standing(LANDING, BEND))
    middle, low = sole(run.q)
    over = (middle > EDGE) & (middle < EDGE + GAP)
    clear = np.where(over, low - TOP, np.inf).min(axis=0)
    asked = (
        off[..., :2].max(axis=(0, 2)) / PLACE,
        off[..., 2].max(axis=0) / TILT,
        np.abs(v[..., :2]).max(axis=(0, 2)) / SPEED,
        np.abs(v[..., 2:]).max(axis=(0, 2)) / TURNING,
        2 - clear / CLEARANCE,
    )
    return np.max(asked, axis=0)


def hop(device: str = "cpu", seed: int = 0) -> Task:
    # Smooth over 2 mm: a foot that meets a harder surface with its edge is a kink in the motion.
    contact = ContactCompliant(contact_stiffness=3e4, smoothing=2e-3, slip_speed=0.02)
    system, helped = (Articulated(load(hopper(harness)), contact, device=device) for harness in (False, True))
    dt = system.model.timestep
    random = np.random.default_rng(check_seed(seed))
    start = standing(random.uniform(-0.1, 0.0), BEND + random.uniform(-0.2, 0.2))
    goal = standing(LANDING, BEND)
    steps, still = round(SECONDS / dt), round(STILL / dt)
    path = sketch(start, np.arange(steps + 1) * dt)
    speeds = np.gradient(path, dt, axis=0)
    # Hip and torso lead; the leg is free to find its own way.
    weights = np.tile([2, 2, 0.5, 0.01, 0.01, 0.01, 0.02, 0.02, 0.002, *(3 * [3e-5])], (steps + 1, 1))
    weights[-still:] = [20, 20, 10, 2, 2, 2, 2, 2, 1, 0.1, 0.1, 0.1]
    motion = State(path, speeds)

    task = Task(
        name="hop",
        about="hop over a gap on one leg, from standing to standing",
        system=system,
        start=system.state(start),
        find=Controls(steps, hold=5),
        loss=Tracking(motion, weights, EFFORT),
        metric=metric,
        target=1.0,
        unit="times the tolerance",
        method=ILQR(),
        iterations=50,
        baseline=CMA(spread=0.1),
        baseline_iterations=2000,
        camera=Camera(EYE, LOOK),
        ghost=goal,
    )
    easier = replace(task, system=helped, iterations=3)
    prices = [Tracking(motion, weights, np.repeat([EFFORT, price], 3)) for price in PRICES]
    first = easier.but(loss=prices[0], method=ILQR(sketch=True))
    return task.but(easier=(first, *(easier.but(loss=loss) for loss in prices[1:])))
