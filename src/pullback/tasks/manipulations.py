"""Objects that are moved by hands whose policies propose their contacts: see :mod:`pullback.dexterous`."""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import numpy as np

from pullback.core.checks import unknown
from pullback.core.errors import PullbackError
from pullback.dexterous import (
    Along,
    Assortment,
    GripFrom,
    Manipulation,
    Scattered,
    Scene,
    To,
    Weights,
    with_object,
)
from pullback.model.robots import HANDS, fingertips
from pullback.tasks.task import Camera

CUBE, CUBE_MASS = 0.03, 0.01  # half edge [m], [kg]: a cube of 60 mm and 10 g, as in Ruppel, Hendrich and Zhang
WHEEL, WHEEL_HALF, WHEEL_MASS = 0.04, 0.03, 0.1  # radius, half height [m], [kg]
BASE_AT, BASE_MASS = (0.0, 0.12, CUBE), 0.1  # where the lower block of a stack stands [m], [kg]
EYE = Camera((0.30, -0.36, 0.24), (0.0, 0.0, 0.06))


def _cube(tips: int, dt: float, turn: float = 0.0) -> Scene:
    half = (CUBE, CUBE, CUBE)
    model = with_object(fingertips(tips, turn), mujoco.mjtGeom.mjGEOM_BOX, half, CUBE_MASS, (0.0, 0.0, CUBE), "cube")
    return Scene(model, [f"tip{i + 1}" for i in range(tips)], dt=dt)


class Held(NamedTuple):
    """How a cube is given to a hand with an arm.

    tips:  of the hand that propose contacts
    at:    where the cube lies at home [m]
    half:  half of its edge [m]
    lower: how far the tips are brought down from the robot's own home, to hover over the cube [m]
    """

    tips: tuple[str, ...]
    at: tuple[float, float]
    half: float
    lower: float = 0.0


HELD = {
    "gripper": Held(("finger1", "finger2"), (0.514, 0.0), 0.02, 0.09),
    "three_finger": Held(("outer1", "outer2", "outer3"), (0.514, 0.0), CUBE),
    "hand": Held(("th_distal", "ff_distal", "mf_distal"), (0.615, 0.13), 0.025, 0.03),
}
HELD_MASS = 0.05  # [kg]


def grasp_cube(hand: str = "fingertips") -> Manipulation:
    """Three fingertips lift a cube by 10 cm, wherever it lies and however it is turned; or a hand on an arm does.

    hand:  one of ``pb.robots.HANDS``
    """
    if hand != "fingertips":
        return _grasp_by(hand)
    scene = _cube(3, 0.03)
    return Manipulation(
        name="grasp-cube",
        about="lift a cube with three fingertips that propose their contacts",
        scene=scene,
        frames=24,
        starts=Scattered(scene, spread=0.01, yaw=math.pi / 4),
        wanted=Along(shift=(0.0, 0.0, 0.1), wait=0.42, arrive=0.95),
        least_grip=GripFrom(0.38, 0.7),
        camera=EYE,
    )


def _grasp_by(hand: str) -> Manipulation:
    if hand not in HELD:
        raise PullbackError(unknown("hand", hand, HANDS))
    held = HELD[hand]
    cube = mujoco.mjtGeom.mjGEOM_BOX, (held.half,) * 3, HELD_MASS, (*held.at, held.half), "cube"
    away = Scene(with_object(HANDS[hand](), *cube), held.tips, dt=0.03).hand
    over = away.shifted(away.home, np.array([0.0, 0.0, -held.lower]))
    scene = Scene(with_object(HANDS[hand](), *cube, home=over), held.tips, dt=0.03)
    return Manipulation(
        name=f"grasp-cube-{hand}",
        about=f"lift a cube with the {hand} on its arm, which proposes its contacts",
        scene=scene,
        frames=32,
        starts=Scattered(scene, spread=0.01, yaw=0.3),
        wanted=Along(shift=(0.0, 0.0, 0.1), wait=0.5, arrive=0.95),
        least_grip=GripFrom(0.47, 0.7),
        weights=Weights(place=0.1),
        iterations=160,
        ramp=60,
        camera=Camera((held.at[0] + 0.45, held.at[1] - 0.55, 0.35), (*held.at, 0.12)),
    )


def push_cube() -> Manipulation:
    """Three fingertips move a cube along the table by 10 cm."""
    scene = _cube(3, 0.03)
    return Manipulation(
        name="push-cube",
        about="push a cube along the table with three fingertips that propose their contacts",
        scene=scene,
        frames=30,
        starts=Scattered(scene, spread=0.01, yaw=math.pi / 4),
        wanted=Along(shift=(0.0, 0.1, 0.0), wait=0.35, arrive=0.85),
        weights=Weights(place=0.1, edge=0.03, balance=0.03),
        tries=3,
        camera=EYE,
    )


def turn_wheel() -> Manipulation:
    """Three fingertips turn a wheel by a third of a turn, wherever its axis stands.

    By half a turn both ways round are equally far, and training may take the wrong one.
    """
    model = with_object(
        fingertips(3), mujoco.mjtGeom.mjGEOM_CYLINDER, (WHEEL, WHEEL_HALF, 0.0), WHEEL_MASS, (0.0, 0.0, 0.05), "wheel",
        hinge=(0.0, 0.0, 1.0),
    )  # fmt: skip
    scene = Scene(model, ["tip1", "tip2", "tip3"], dt=0.03, table=False, force=0.1)
    return Manipulation(
        name="turn-wheel",
        about="turn a wheel, whose position varies, by 120 degrees with three fingertips that propose their contacts",
        scene=scene,
        frames=40,
        starts=Scattered(scene, spread=0.02),
        wanted=Along(turn=(0.0, 0.0, 2 * math.pi / 3), wait=0.3, arrive=0.9),
        camera=EYE,
    )


def reorient() -> Manipulation:
    """Two fingertips turn a cube on the table by 60 degrees."""
    scene = _cube(2, 0.03)
    return Manipulation(
        name="reorient",
        about="turn a cube by 60 degrees with two fingertips that propose their contacts",
        scene=scene,
        frames=30,
        starts=Scattered(scene, spread=0.01, yaw=0.3),
        wanted=Along(turn=(0.0, 0.0, math.pi / 3), wait=0.35, arrive=0.85),
        least_grip=GripFrom(0.32, 0.5),
        target=0.6,
        camera=EYE,
    )


def grasp_any() -> Manipulation:
    """Three fingertips lift a box, a cylinder or a capsule of any size by 10 cm."""
    robot = fingertips(3)
    nominal = (mujoco.mjtGeom.mjGEOM_BOX, (CUBE, CUBE, CUBE), CUBE_MASS, (0.0, 0.0, CUBE), "object")
    scene = Scene(with_object(robot, *nominal), ["tip1", "tip2", "tip3"], dt=0.03)
    return Manipulation(
        name="grasp-any",
        about="lift boxes, cylinders and capsules of random size with three fingertips that propose their contacts",
        scene=scene,
        frames=24,
        starts=Scattered(scene, spread=0.01, yaw=math.pi / 4),
        things=Assortment(robot, CUBE_MASS),
        wanted=Along(shift=(0.0, 0.0, 0.1), wait=0.42, arrive=0.95),
        least_grip=GripFrom(0.38, 0.7),
        iterations=160,
        samples=48,
        ramp=80,
        camera=EYE,
    )


def flip() -> Manipulation:
    """Three fingertips tip a cube over about its x axis, onto its side."""
    return _flip("flip", "x", ((0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (1.0, 0.0, 0.0)), turn=-math.pi / 2)


def flip_y() -> Manipulation:
    """The same about its y axis."""
    return _flip("flip-y", "y", ((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 1.0, 0.0)))


def flip_z() -> Manipulation:
    """A quarter of a turn about the vertical, through the air."""
    return _flip("flip-z", "z", None)


def _flip(name: str, axis: str, facing, turn: float = 0.0) -> Manipulation:
    """A quarter of a turn about one of a cube's own axes, on an arc above the table.

    facing:  which faces the tips take: two on the axis, and one that comes to lie on top
    turn:    of the tips at home [rad], so that each begins on its own side of the cube
    """
    scene = _cube(3, 0.03, turn)
    return Manipulation(
        name=name,
        about=f"turn a cube over by 90 degrees about its {axis} axis with three fingertips that propose their contacts",
        scene=scene,
        frames=48,
        starts=Scattered(scene, spread=0.01, yaw=0.3),
        wanted=Along(
            turn=tuple(math.pi / 2 * (axis == one) for one in "xyz"), wait=0.3, arrive=0.92, lift=0.08, own=True
        ),
        least_grip=GripFrom(0.27, 0.7),
        facing=facing,
        weights=Weights(place=0.1, turn=0.2, edge=0.05, balance=0.05),
        iterations=200,
        ramp=80,
        tries=3,
        camera=EYE,
    )


def stack() -> Manipulation:
    """Three fingertips put a cube onto another, and let it go."""
    model = with_object(
        fingertips(3), mujoco.mjtGeom.mjGEOM_BOX, (CUBE, CUBE, CUBE), CUBE_MASS, (0.0, 0.0, CUBE), "cube",
        base=((CUBE, CUBE, CUBE), BASE_MASS, BASE_AT),
    )  # fmt: skip
    scene = Scene(model, ["tip1", "tip2", "tip3"], dt=0.03, base="base")
    return Manipulation(
        name="stack",
        about="put a cube onto another with three fingertips that propose their contacts, and let go",
        scene=scene,
        frames=56,
        starts=Scattered(scene, spread=0.01, yaw=0.3),
        wanted=To((*BASE_AT[:2], 3 * CUBE), wait=0.22, arrive=0.75, lift=0.06),
        least_grip=GripFrom(0.2, 0.7, until=0.75),
        let_go=0.86,
        camera=EYE,
    )
