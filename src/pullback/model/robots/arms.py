"""A seven-joint arm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .scene import Stage, Vector, add, capsule, decoration, document, hinge, stage


@dataclass(frozen=True)
class Link:
    """One link and the joint that carries it. At zero angles every link's frame is aligned with the base's."""

    offset: Vector  # joint from the previous joint [m]
    axis: Vector
    low: float  # [rad]
    high: float  # [rad]
    torque: float  # [N·m]
    mass: float  # [kg]
    start: Vector  # the capsule that stands for the link [m]
    end: Vector
    radius: float
    housing: tuple[Vector, Vector, float]  # a darker piece around a joint, to look at [m]


LINKS = (
    Link((0, 0, 0.333), (0, 0, 1), -2.8973, 2.8973, 87, 4.971,
         (0, 0, -0.17), (0, 0, 0), 0.062, ((0, -0.075, 0), (0, 0.075, 0), 0.06)),
    Link((0, 0, 0), (0, 1, 0), -1.7628, 1.7628, 87, 0.647,
         (0, 0, 0), (0, 0, 0.12), 0.059, ((0, 0, 0.165), (0, 0, 0.18), 0.060)),
    Link((0, 0, 0.316), (0, 0, 1), -2.8973, 2.8973, 87, 3.229,
         (0, 0, -0.10), (0.07, 0, 0), 0.056, ((0.0825, -0.07, 0), (0.0825, 0.07, 0), 0.053)),
    Link((0.0825, 0, 0), (0, -1, 0), -3.0718, -0.0698, 87, 3.588,
         (0, 0, 0), (-0.0825, 0, 0.10), 0.053, ((-0.0825, 0, 0.135), (-0.0825, 0, 0.15), 0.053)),
    Link((-0.0825, 0, 0.384), (0, 0, 1), -2.8973, 2.8973, 12, 1.226,
         (0, 0, -0.20), (0, 0, -0.04), 0.048, ((0, -0.06, 0), (0, 0.06, 0), 0.047)),
    Link((0, 0, 0), (0, -1, 0), -0.0175, 3.7525, 12, 1.667,
         (0.01, 0, 0), (0.088, 0, 0.005), 0.046, ((0.088, 0, 0.03), (0.088, 0, 0.045), 0.043)),
    Link((0.088, 0, 0), (0, 0, -1), -2.8973, 2.8973, 12, 0.736,
         (0, 0, -0.02), (0, 0, -0.06), 0.040, ((0.03, 0, -0.075), (0.055, 0, -0.075), 0.018)),
)  # fmt: skip
FLANGE = 0.107  # beyond the last joint's axes' crossing [m]
BASE_MASS = 0.63  # [kg]
HOME = (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4)  # [rad]


def arm() -> str:
    """A seven-joint arm after the Franka Emika Panda, bolted to the floor.

    7 DoF: hinges "joint1" ... "joint7". 7 torque motors, ±87 N·m (the first four) and ±12 N·m. A site "tip" at the
    flange, its z axis out of it. Keyframe "home" is the maker's ready pose.

    Kinematics, joint ranges and torque limits: Franka Emika, Robot and interface specifications. Link masses: Gaz,
    Cognetti, Oliva, Robuffo Giordano and De Luca, "Dynamic identification of the Franka Emika Panda robot", IEEE RA-L
    2019, rounded to a gram. Centres of mass and inertias are those of the uniform capsules drawn here; damping
    (1 N·m·s/rad) and armature (0.1 kg·m²) are our estimates.
    """
    root, world, actuators = stage(Stage("arm", 0.002, (1.3, -1.5, 0.95), (0.15, 0, 0.42)))
    body = add(world, "body", name="base")
    capsule(body, (0, 0, 0.07), (0, 0, 0.09), 0.069, "shell", mass=BASE_MASS)
    decoration(body, "cylinder", "dark", pos=(0, 0, 0.01), size=(0.1, 0.01))
    decoration(body, "box", "shell", pos=(-0.07, 0, 0.055), size=(0.07, 0.06, 0.04))
    for i, link in enumerate(LINKS, start=1):
        body = add(body, "body", name=f"link{i}", pos=link.offset)
        limits = {"range": (link.low, link.high), "damping": 1, "armature": 0.1}
        hinge(body, actuators, f"joint{i}", link.axis, link.torque, **limits)
        capsule(body, link.start, link.end, link.radius, "shell", mass=link.mass)
        start, end, radius = link.housing
        decoration(body, "cylinder", "dark", fromto=(*start, *end), size=radius)
    decoration(body, "cylinder", "accent", pos=(0, 0, 0.006 - FLANGE), size=(0.0315, 0.006))
    add(body, "site", name="tip", pos=(0, 0, -FLANGE), quat=(0, 1, 0, 0), size=0.01)
    return document(root, HOME)
