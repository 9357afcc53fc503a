"""Arms of seven and of six joints, bare and as what carries a hand."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from .scene import Stage, Vector, add, capsule, decoration, document, motor, servo, stage


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


PANDA = (
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

# A UR5, stretched out along x at zero angles.
UR5 = (
    Link((0, 0, 0.089159), (0, 0, 1), -2 * math.pi, 2 * math.pi, 150, 3.7,
         (0, 0, -0.02), (0, 0.02, 0), 0.06, ((0, 0.075, 0), (0, 0.066, 0), 0.06)),
    Link((0, 0.13585, 0), (0, 1, 0), -2 * math.pi, 2 * math.pi, 150, 8.393,
         (0, 0, 0), (0.425, 0, 0), 0.054, ((0, -0.06, 0), (0, 0.06, 0), 0.058)),
    Link((0.425, -0.1197, 0), (0, 1, 0), -math.pi, math.pi, 150, 2.275,
         (0, 0, 0), (0.39225, 0, 0), 0.042, ((0, -0.05, 0), (0, 0.07, 0), 0.048)),
    Link((0.39225, 0, 0), (0, 1, 0), -2 * math.pi, 2 * math.pi, 28, 1.219,
         (0, 0, 0), (0, 0.093, 0), 0.038, ((0, -0.045, 0), (0, -0.05, 0), 0.038)),
    Link((0, 0.093, 0), (0, 0, -1), -2 * math.pi, 2 * math.pi, 28, 1.219,
         (0, 0, 0), (0, 0, -0.09465), 0.038, ((0, 0, 0.045), (0, 0, 0.05), 0.038)),
    Link((0, 0, -0.09465), (0, 1, 0), -2 * math.pi, 2 * math.pi, 28, 0.1879,
         (0, 0.03, 0), (0, 0.05, 0), 0.032, ((0, 0.0723, 0), (0, 0.0823, 0), 0.0315)),
)  # fmt: skip
UR5_BASE = 4.0  # [kg]

# Servos of an arm per N·m of its torque limit, as stiff as industrial arms are: a load of a tenth
# of what a joint can bear moves it by 2 mrad.
STIFFNESS, DAMPING = 50.0, 4.0  # [N·m/rad], [N·m·s/rad] per N·m
ARMATURE = 0.1  # of the joints of an arm [kg·m²]


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
    body = panda(world, actuators)
    add(body, "site", name="tip", pos=(0, 0, -FLANGE), quat=(0, 1, 0, 0), size=0.01)
    return document(root, HOME)


def panda(world: ET.Element, actuators: ET.Element, *, servos: bool = False) -> ET.Element:
    """The last link of a Panda on the floor, moved by motors, or by servos, which carry its weight."""
    body = add(world, "body", name="base")
    capsule(body, (0, 0, 0.07), (0, 0, 0.09), 0.069, "shell", mass=BASE_MASS)
    decoration(body, "cylinder", "dark", pos=(0, 0, 0.01), size=(0.1, 0.01))
    decoration(body, "box", "shell", pos=(-0.07, 0, 0.055), size=(0.07, 0.06, 0.04))
    body = _links(body, actuators, PANDA, [f"joint{i}" for i in range(1, 8)], servos)
    decoration(body, "cylinder", "accent", pos=(0, 0, 0.006 - FLANGE), size=(0.0315, 0.006))
    return body


def ur5(world: ET.Element, actuators: ET.Element) -> ET.Element:
    """The last link of a UR5 with servos, on the floor. Its flange is 82.3 mm along its y axis."""
    body = add(world, "body", name="base")
    capsule(body, (0, 0, 0.062), (0, 0, 0.065), 0.06, "shell", mass=UR5_BASE)
    decoration(body, "cylinder", "dark", pos=(0, 0, 0.01), size=(0.075, 0.01))
    names = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
    return _links(body, actuators, UR5, names, True)


def _links(body: ET.Element, actuators: ET.Element, links: Sequence[Link], names: Sequence[str], servos: bool):
    for i, (link, name) in enumerate(zip(links, names, strict=True), start=1):
        body = add(body, "body", name=f"link{i}", pos=link.offset, **({"gravcomp": 1} if servos else {}))
        limits = {"range": (link.low, link.high), "damping": 1, "armature": ARMATURE}
        add(body, "joint", name=name, type="hinge", axis=link.axis, **limits)
        if servos:
            servo(actuators, name, link.torque, STIFFNESS * link.torque, DAMPING * link.torque, (link.low, link.high))
        else:
            motor(actuators, name, link.torque)
        capsule(body, link.start, link.end, link.radius, "shell", mass=link.mass)
        start, end, radius = link.housing
        decoration(body, "cylinder", "dark", fromto=(*start, *end), size=radius)
    return body
