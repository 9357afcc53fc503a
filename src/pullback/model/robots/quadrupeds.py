"""A four-legged robot."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from .scene import PRESSED, SOLID, Stage, add, capsule, decoration, document, hinge, stage

LEGS = (("FR", 1, -1), ("FL", 1, 1), ("RR", -1, -1), ("RL", -1, 1))  # name, towards the front, towards the left

TRUNK = (0.5616, 0.172, 0.1875)  # length, width, height [m]
HIP_X, HIP_Y = 0.21935, 0.0875  # abduction axis from the trunk's centre [m]
THIGH_Y = 0.037  # flexion axis outwards from the abduction axis [m]
THIGH = CALF = 0.25  # [m]
FOOT_RADIUS = 0.0265  # [m]

TRUNK_MASS, HIP_MASS, THIGH_MASS, CALF_MASS, FOOT_MASS = 13.733, 1.096, 1.528, 0.241, 0.06  # [kg]

JOINTS = {  # range for a left leg [rad], torque [N·m]
    "hip": (math.radians(-50), math.radians(60), 18.954),
    "thigh": (math.radians(-30), math.radians(225), 40.0),
    "calf": (math.radians(-159), math.radians(-35), 40.0),
}

CROUCH = 0.65  # thigh angle at home; with the knee at minus twice that the foot is right below the hip [rad]


def quadruped() -> str:
    """A four-legged robot after the Unitree Laikago, 25 kg, on a floor.

    18 DoF: a free base "trunk" and, for each of the legs FR, FL, RR, RL, the hinges "_hip" (abduction, about x),
    "_thigh" and "_calf" (about y). 12 torque motors: ±18.954 N·m at the hips, ±40 N·m elsewhere. Sites "imu" and, at
    the centre of each foot's sphere, "FR_foot" and so on. Keyframe "home" stands with the feet 0.1 mm in the floor.

    Dimensions, masses, joint ranges, torque limits, and the inertia of trunk, hips and thighs (principal part): Unitree
    Robotics, laikago_description. Calves and feet are uniform primitives. Damping (0.1 N·m·s/rad), armature
    (0.01 kg·m²) and friction are our estimates.
    """
    height = (THIGH + CALF) * math.cos(CROUCH) + FOOT_RADIUS - PRESSED
    root, world, actuators = stage(Stage("quadruped", 0.002, (0.8, -1.4, 0.62), (0, 0, 0.25)))
    trunk = add(world, "body", name="trunk", pos=(0, 0, height))
    add(trunk, "freejoint", name="root")
    add(trunk, "inertial", pos=(0.0023, 0, 0.0252), mass=TRUNK_MASS, diaginertia=(0.0733, 0.2507, 0.2545))
    _trunk_looks(trunk)
    add(trunk, "site", name="imu", size=0.01)
    for name, front, left in LEGS:
        _leg(trunk, actuators, name, front, left)
    return document(root, (0, 0, height, 1, 0, 0, 0, *(0, CROUCH, -2 * CROUCH) * 4))


def _trunk_looks(trunk: ET.Element) -> None:
    x, y, z = (size / 2 for size in TRUNK)
    add(trunk, "geom", name="trunk", type="box", size=(x - 0.04, y - 0.03, 0.06), pos=(0, 0, 0.015), material="dark",
        **SOLID)  # fmt: skip
    decoration(trunk, "capsule", "shell", fromto=(0.1 - x, 0, 0.045, x - 0.1, 0, 0.045), size=0.062)
    for side in (-1, 1):
        decoration(trunk, "capsule", "accent", size=(0.009, 0.11), pos=(0, side * 0.058, 0.055), zaxis=(1, 0, 0))
        decoration(trunk, "cylinder", "steel", pos=(side * (x - 0.035), 0, 0.015), size=(0.055, 0.012), zaxis=(1, 0, 0))
    decoration(trunk, "box", "shell", pos=(x - 0.01, 0, 0.035), size=(0.03, 0.045, 0.028))
    decoration(trunk, "box", "accent", pos=(x + 0.0205, 0, 0.035), size=(0.001, 0.03, 0.008))


def _leg(trunk: ET.Element, actuators: ET.Element, name: str, front: int, left: int) -> None:
    """One leg; ``front`` and ``left`` are +1 or -1."""
    hip = add(trunk, "body", name=f"{name}_hip", pos=(front * HIP_X, left * HIP_Y, 0))
    _joint(hip, actuators, name, "hip", (1, 0, 0), mirrored=left < 0)
    add(hip, "inertial", pos=(-0.0016 * front, -0.0081 * left, 0.0009), mass=HIP_MASS,
        diaginertia=(0.00082, 0.00098, 0.00086))  # fmt: skip
    decoration(hip, "cylinder", "dark", size=(0.041, 0.04), zaxis=(1, 0, 0))

    thigh = add(hip, "body", name=f"{name}_thigh", pos=(0, left * THIGH_Y, 0))
    _joint(thigh, actuators, name, "thigh", (0, 1, 0))
    add(thigh, "inertial", pos=(-0.0005, 0.020 * left, -0.032), mass=THIGH_MASS,
        diaginertia=(0.00992, 0.00928, 0.00178))  # fmt: skip
    decoration(thigh, "cylinder", "shell", pos=(0, left * 0.02, 0), size=(0.046, 0.022), zaxis=(0, 1, 0))
    decoration(thigh, "cylinder", "accent", pos=(0, left * 0.043, 0), size=(0.03, 0.002), zaxis=(0, 1, 0))
    capsule(thigh, (0, 0, -0.02), (0, 0, -THIGH), 0.022, "shell", name=f"{name}_thigh")

    calf = add(thigh, "body", name=f"{name}_calf", pos=(0, 0, -THIGH))
    _joint(calf, actuators, name, "calf", (0, 1, 0))
    decoration(calf, "cylinder", "dark", size=(0.026, 0.024), zaxis=(0, 1, 0))
    capsule(calf, (0, 0, 0), (0, 0, 0.02 - CALF), 0.012, "dark", name=f"{name}_calf", mass=CALF_MASS)
    add(calf, "geom", name=f"{name}_foot", type="sphere", size=FOOT_RADIUS, pos=(0, 0, -CALF), mass=FOOT_MASS,
        material="accent", friction=(0.8, 0.02, 0.001), **SOLID)  # fmt: skip
    add(calf, "site", name=f"{name}_foot", pos=(0, 0, -CALF), size=0.01)


def _joint(
    body: ET.Element, actuators: ET.Element, leg: str, kind: str, axis: tuple[int, int, int], mirrored: bool = False
) -> None:
    low, high, torque = JOINTS[kind]
    limits = (-high, -low) if mirrored else (low, high)
    hinge(body, actuators, f"{leg}_{kind}", axis, torque, range=limits, damping=0.1, armature=0.01)
