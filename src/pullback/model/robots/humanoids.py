"""A person-sized robot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import NamedTuple

from .scene import PRESSED, Stage, Vector, add, capsule, decoration, document, hinge, motor, stage

STATURE = 1.741  # [m]
MASS = 73.0  # [kg]


class Segment(NamedTuple):
    """A row of de Leva's table 4 (males)."""

    length: float  # [m]
    mass: float  # share of the whole [1]
    com: float  # from the upper end (feet: the heel), as a share of the length [1]
    gyration: Vector  # radii about the sagittal (x), transverse (y), longitudinal (z) axes, shares of the length [1]

    @property
    def kilograms(self) -> float:
        return self.mass * MASS

    @property
    def inertia(self) -> Vector:
        """About the centre of mass, [kg·m²]."""
        x, y, z = (self.kilograms * (radius * self.length) ** 2 for radius in self.gyration)
        return x, y, z


SEGMENTS = {
    "head": Segment(0.2429, 0.0694, 0.5002, (0.303, 0.315, 0.261)),  # vertex to cervicale
    "chest": Segment(0.1707, 0.1596, 0.2999, (0.716, 0.454, 0.659)),  # suprasternale to xiphion
    "belly": Segment(0.2155, 0.1633, 0.4502, (0.482, 0.383, 0.468)),  # xiphion to omphalion
    "pelvis": Segment(0.1457, 0.1117, 0.6115, (0.615, 0.551, 0.587)),  # omphalion to between the hip joints
    "upper_arm": Segment(0.2817, 0.0271, 0.5772, (0.285, 0.269, 0.158)),
    "forearm": Segment(0.2689, 0.0162, 0.4574, (0.276, 0.265, 0.121)),
    "hand": Segment(0.0862, 0.0061, 0.7900, (0.628, 0.513, 0.401)),  # wrist to third metacarpal
    "thigh": Segment(0.4222, 0.1416, 0.4095, (0.329, 0.329, 0.149)),
    "shank": Segment(0.4340, 0.0433, 0.4459, (0.255, 0.249, 0.103)),  # knee to lateral malleolus
    # The foot lies along x: its longitudinal radius is about x, its sagittal one about z.
    "foot": Segment(0.2581, 0.0137, 0.4415, (0.124, 0.245, 0.257)),
}

ANKLE = 0.039 * STATURE  # height of the ankle over the sole, Winter [m]
HIPS = SEGMENTS["shank"].length + SEGMENTS["thigh"].length + ANKLE  # height of the hip joints, standing [m]
CERVICALE = 0.2421  # height over the xiphion, de Leva [m]
SHOULDER = 0.818 * STATURE - HIPS - SEGMENTS["pelvis"].length - SEGMENTS["belly"].length  # over the xiphion, Winter [m]
SHOULDER_Y, HIP_Y = 0.19, 0.09  # joint centres from the middle [m]
HEEL = -0.06  # behind the ankle [m]
SOLE = 0.022  # radius of the sole's two capsules [m]

# Ranges [rad] and torques [N·m]: rounded values for a strong adult. Signs are alike on both sides of the body.
LUMBAR = (
    ("lumbar_twist", (0, 0, 1), (-0.6, 0.6), 80),
    ("lumbar_bend", (1, 0, 0), (-0.5, 0.5), 150),
    ("lumbar_flexion", (0, 1, 0), (-0.4, 1.0), 200),
)
HIP = (
    ("hip_flexion", (0, -1, 0), (-0.35, 2.1), 200),
    ("hip_abduction", (1, 0, 0), (-0.4, 0.8), 120),
    ("hip_rotation", (0, 0, 1), (-0.6, 0.8), 60),
)
KNEE = (("knee_flexion", (0, 1, 0), (0.0, 2.5), 200),)
FOOT = (
    ("ankle_dorsiflexion", (0, -1, 0), (-0.8, 0.4), 150),
    ("ankle_eversion", (1, 0, 0), (-0.4, 0.4), 40),
)
ELBOW = (("elbow_flexion", (0, -1, 0), (0.0, 2.5), 60),)
SHOULDER_SWING = 2.6  # largest turn from hanging [rad]
SHOULDER_TORQUE = 70  # [N·m]


def humanoid() -> str:
    """A person-sized robot, 1.74 m and 73 kg, on a floor.

    29 DoF: a free base "pelvis"; three hinges in the lumbar spine, all on the body "belly"; for each side ("left_",
    "right_") three hinges on one body at the hip, one at the knee, two at the ankle, a ball joint at the shoulder and a
    hinge at the elbow. Hands and head are fixed to forearms and chest. nq = 32. 23 torque motors, three for each
    shoulder (about the x, y and z axes of the upper arm). Sites "head", "left_hand", "left_foot" (on the sole) and so
    on. Keyframe "home" stands upright with the arms down, soles 0.1 mm in the floor; every joint coordinate is zero.

    Segment lengths, masses, centres of mass and radii of gyration: P. de Leva, "Adjustments to Zatsiorsky-Seluyanov's
    segment inertia parameters", J. Biomechanics 1996, table 4, males. Heights of ankle and shoulder: D. A. Winter,
    Biomechanics and Motor Control of Human Movement, after Drillis and Contini. Joint breadths, ranges, torques,
    damping (1 N·m·s/rad, arms 0.3) and armature (0.01 kg·m²) are our estimates.
    """
    root, world, actuators = stage(Stage("humanoid", 0.002, (1.9, -2.3, 1.25), (0, 0, 0.88)))
    pelvis = add(world, "body", name="pelvis", pos=(0, 0, HIPS))
    add(pelvis, "freejoint", name="root")
    _inertial(pelvis, "pelvis", hangs=False)
    capsule(pelvis, (0, -0.07, 0.01), (0, 0.07, 0.01), 0.085, "dark", name="pelvis")
    capsule(pelvis, (0, -0.05, 0.10), (0, 0.05, 0.10), 0.075, "dark", name="waist")
    _torso(pelvis, actuators)
    for side in ("left", "right"):
        _leg(pelvis, actuators, side)
    return document(root, (0, 0, HIPS - PRESSED, 1, 0, 0, 0, *(0,) * 3, *(1, 0, 0, 0, 0) * 2, *(0,) * 12))


def _torso(pelvis: ET.Element, actuators: ET.Element) -> None:
    belly = add(pelvis, "body", name="belly", pos=(0, 0, SEGMENTS["pelvis"].length))
    _hinges(belly, actuators, "", LUMBAR)
    _inertial(belly, "belly", hangs=False)
    capsule(belly, (0, -0.055, 0.07), (0, 0.055, 0.07), 0.08, "blue", name="belly")
    capsule(belly, (0, -0.07, 0.17), (0, 0.07, 0.17), 0.088, "blue", name="ribs")

    chest = add(belly, "body", name="chest", pos=(0, 0, SEGMENTS["belly"].length))
    _inertial(chest, "chest", hangs=False)
    capsule(chest, (0, -0.09, 0.08), (0, 0.09, 0.08), 0.098, "blue", name="chest")
    capsule(chest, (0, -0.08, 0.16), (0, 0.08, 0.16), 0.06, "blue", name="collar")
    decoration(chest, "ellipsoid", "accent", pos=(0.085, 0, 0.09), size=(0.018, 0.045, 0.03))

    head = add(chest, "body", name="head", pos=(0, 0, CERVICALE))
    # The line from cervicale to vertex leans forward; upright it takes up what is left of the stature.
    rise = STATURE - HIPS - SEGMENTS["pelvis"].length - SEGMENTS["belly"].length - CERVICALE
    share = SEGMENTS["head"]
    add(head, "inertial", pos=(0.01, 0, (1 - share.com) * rise), mass=share.kilograms, diaginertia=share.inertia)
    decoration(head, "capsule", "dark", fromto=(0, 0, -0.04, 0.005, 0, 0.03), size=0.045)
    capsule(head, (0.015, 0, rise - 0.14), (0.01, 0, rise - 0.082), 0.082, "shell", name="head")
    decoration(head, "ellipsoid", "dark", pos=(0.068, 0, rise - 0.1), size=(0.035, 0.058, 0.028))
    add(head, "site", name="head", pos=(0.01, 0, rise), size=0.01)
    for side in ("left", "right"):
        _arm(chest, actuators, side)


def _arm(chest: ET.Element, actuators: ET.Element, side: str) -> None:
    upper, fore, palm = SEGMENTS["upper_arm"].length, SEGMENTS["forearm"].length, SEGMENTS["hand"].length
    arm = add(chest, "body", name=f"{side}_upper_arm", pos=(0, _sign(side) * SHOULDER_Y, SHOULDER))
    shoulder = f"{side}_shoulder"
    add(arm, "joint", name=shoulder, type="ball", range=(0, SHOULDER_SWING), damping=0.3, armature=0.01)
    for axis, gear in (("x", (1, 0, 0, 0, 0, 0)), ("y", (0, 1, 0, 0, 0, 0)), ("z", (0, 0, 1, 0, 0, 0))):
        motor(actuators, shoulder, SHOULDER_TORQUE, name=f"{shoulder}_{axis}", gear=gear)
    _inertial(arm, "upper_arm")
    decoration(arm, "sphere", "dark", size=0.056)
    capsule(arm, (0, 0, -0.03), (0, 0, 0.01 - upper), 0.043, "shell", name=f"{side}_upper_arm")

    forearm = add(arm, "body", name=f"{side}_forearm", pos=(0, 0, -upper))
    _hinges(forearm, actuators, side, ELBOW, damping=0.3)
    _inertial(forearm, "forearm")
    decoration(forearm, "sphere", "dark", size=0.042)
    capsule(forearm, (0, 0, -0.03), (0, 0, 0.02 - fore), 0.034, "shell", name=f"{side}_forearm")

    hand = add(forearm, "body", name=f"{side}_hand", pos=(0, 0, -fore))
    _inertial(hand, "hand")
    capsule(hand, (0, 0, -0.03), (0, 0, -0.12), 0.032, "dark", name=f"{side}_hand")
    add(hand, "site", name=f"{side}_hand", pos=(0, 0, -palm), size=0.01)


def _leg(pelvis: ET.Element, actuators: ET.Element, side: str) -> None:
    thigh_length, shank_length = SEGMENTS["thigh"].length, SEGMENTS["shank"].length
    thigh = add(pelvis, "body", name=f"{side}_thigh", pos=(0, _sign(side) * HIP_Y, 0))
    _hinges(thigh, actuators, side, HIP)
    _inertial(thigh, "thigh")
    capsule(thigh, (0, 0, -0.04), (0, 0, 0.03 - thigh_length), 0.068, "shell", name=f"{side}_thigh")

    shank = add(thigh, "body", name=f"{side}_shank", pos=(0, 0, -thigh_length))
    _hinges(shank, actuators, side, KNEE)
    _inertial(shank, "shank")
    decoration(shank, "sphere", "dark", size=0.062)
    capsule(shank, (0, 0, -0.04), (0, 0, 0.02 - shank_length), 0.046, "shell", name=f"{side}_shank")

    foot = add(shank, "body", name=f"{side}_foot", pos=(0, 0, -shank_length))
    _hinges(foot, actuators, side, FOOT)
    share = SEGMENTS["foot"]
    add(foot, "inertial", pos=(HEEL + share.com * share.length, 0, -ANKLE / 2), mass=share.kilograms,
        diaginertia=share.inertia)  # fmt: skip
    decoration(foot, "sphere", "dark", size=0.044)
    decoration(foot, "ellipsoid", "blue", pos=(0.05, 0, -0.045), size=(0.115, 0.045, 0.03))
    toe = HEEL + share.length - SOLE
    for name, y, reach in (("inner", -0.024, toe), ("outer", 0.024, toe - 0.02)):
        start, end = (HEEL + SOLE, _sign(side) * y, SOLE - ANKLE), (reach, _sign(side) * y * 1.2, SOLE - ANKLE)
        capsule(foot, start, end, SOLE, "accent", name=f"{side}_sole_{name}", friction=(0.8, 0.02, 0.001))
    add(foot, "site", name=f"{side}_foot", pos=(0, 0, -ANKLE), size=0.01)


def _sign(side: str) -> int:
    return 1 if side == "left" else -1


def _hinges(body: ET.Element, actuators: ET.Element, side: str, joints: tuple, damping: float = 1.0) -> None:
    """Hinges on one body, in order. On the right, turns about x and z change sign, so that like means like."""
    for name, (x, y, z), limits, torque in joints:
        axis = (-x, y, -z) if side == "right" else (x, y, z)
        full = f"{side}_{name}" if side else name
        hinge(body, actuators, full, axis, torque, range=limits, damping=damping, armature=0.01)


def _inertial(body: ET.Element, segment: str, hangs: bool = True) -> None:
    """A segment whose frame is at its upper end (``hangs``) or, for the trunk's, at its lower end."""
    share = SEGMENTS[segment]
    z = -share.com * share.length if hangs else (1 - share.com) * share.length
    add(body, "inertial", pos=(0, 0, z), mass=share.kilograms, diaginertia=share.inertia)
