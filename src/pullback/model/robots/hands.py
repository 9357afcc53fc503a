"""Grippers and hands that hold things, with position servos: their controls are joint positions.

Weights are carried by the servos (``gravcomp``), as the controllers of real arms do. Fingers touch the floor and what
they hold, but nothing of their own robot.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import NamedTuple

from .arms import FLANGE, panda, ur5
from .scene import SOLID, Stage, Vector, add, capsule, decoration, document, servo, stage, text

TIP_RADIUS, TIP_MASS = 0.01, 0.02  # [m], [kg]
TIP_STIFFNESS, TIP_DAMPING = 200.0, 4.0  # [N/m], [N·s/m]: twice the critical damping of a tip
TIP_RANGE = 0.25  # of each slide, either way [m]
TIP_CIRCLE, TIP_HEIGHT = 0.075, 0.08  # where tips are at home [m]


def fingertips(count: int = 3, turn: float = 0.0) -> str:
    """Fingertips without a hand: balls on three slides each, which position servos hold, free of gravity.

    3 DoF per tip: slides "tip1_x", "tip1_y", "tip1_z", ..., measured from the middle of the floor. Servos of 200 N/m
    and 4 N·s/m, of the same names. Balls of 10 mm and 20 g, bodies "tip1", ..., which touch the floor. Keyframe
    "home": on a circle of 75 mm radius, 80 mm above the floor, the first at -x, or turned from there about the vertical
    by ``turn`` [rad].
    """
    root, world, actuators = stage(Stage("fingertips", 0.002, (0.32, -0.42, 0.28), (0, 0, 0.06)))
    home = []
    for i in range(count):
        angle = 2 * math.pi * i / count + math.pi + turn
        home += [TIP_CIRCLE * math.cos(angle), TIP_CIRCLE * math.sin(angle), TIP_HEIGHT]
        name = f"tip{i + 1}"
        body = add(world, "body", name=name, gravcomp=1)
        for axis, along in zip("xyz", ((1, 0, 0), (0, 1, 0), (0, 0, 1)), strict=True):
            add(body, "joint", name=f"{name}_{axis}", type="slide", axis=along, range=(-TIP_RANGE, TIP_RANGE))
            add(actuators, "position", name=f"{name}_{axis}", joint=f"{name}_{axis}", kp=TIP_STIFFNESS, kv=TIP_DAMPING,
                ctrlrange=(-TIP_RANGE, TIP_RANGE))  # fmt: skip
        add(body, "geom", type="sphere", size=TIP_RADIUS, mass=TIP_MASS, material="accent", **SOLID)
        decoration(body, "cylinder", "dark", pos=(0, 0, 0.018), size=(0.004, 0.014))
    return document(root, home)


# --- two fingers ------------------------------------------------------------------------------------------------------

JAW_OPEN, JAW_FORCE = 0.04, 70.0  # of each finger [m], [N]
JAW_STIFFNESS, JAW_DAMPING = 5000.0, 50.0  # [N/m], [N·s/m]
JAW_AT, JAW_TIP = 0.0584, 0.1034  # from the flange: where fingers slide, where they end [m]
JAW_CASE, JAW_FINGER = 0.73, 0.015  # [kg]
PANDA_ABOVE = (0.0, 0.20, 0.0, -2.35, 0.0, 2.55, math.pi / 4)  # looks straight down at the floor in front [rad]


def gripper() -> str:
    """A two-finger gripper on a seven-joint arm, after the Franka Hand on a Panda. 9 DoF.

    Hinges "joint1" ... "joint7" and slides "finger1", "finger2", 0 to 40 mm each, with servos of the same names, whose
    forces are at most those of the maker: 87 and 12 N·m, 70 N. Bodies "finger1" and "finger2" have a flat pad each.
    Keyframe "home": above the floor, pointing down, nearly open.

    Lengths, stroke, force and the mass of 0.73 kg: Franka Emika, Hand product manual. The arm is that of ``arm``.
    Shapes and the gains of servos are our estimates.
    """
    root, world, actuators = _stage("gripper", (1.25, -1.15, 0.75), (0.3, 0, 0.33))
    body = _on_panda(world, actuators)
    box = {"type": "box", "material": "shell", **SOLID}
    add(body, "geom", pos=(0, 0, -0.033), size=(0.03, 0.1, 0.033), mass=JAW_CASE, **box)
    for name, side in (("finger1", 1), ("finger2", -1)):
        finger = add(body, "body", name=name, pos=(0, 0, -JAW_AT), gravcomp=1)
        add(finger, "joint", name=name, type="slide", axis=(0, side, 0), range=(0, JAW_OPEN), armature=0.1,
            damping=1)  # fmt: skip
        servo(actuators, name, JAW_FORCE, JAW_STIFFNESS, JAW_DAMPING, (0, JAW_OPEN))
        decoration(finger, "box", "dark", pos=(0, 0.014 * side, -0.014), size=(0.010, 0.012, 0.014))
        pad = {"type": "box", "material": "accent", **SOLID}
        length = (JAW_TIP - JAW_AT - 0.027) / 2
        add(finger, "geom", pos=(0, 0.006 * side, length + JAW_AT - JAW_TIP), size=(0.009, 0.006, length), **pad,
            mass=JAW_FINGER)  # fmt: skip
    return document(root, (*PANDA_ABOVE, 0.9 * JAW_OPEN, 0.9 * JAW_OPEN), held=True)


# --- three fingers ----------------------------------------------------------------------------------------------------

BARRETT_SPREAD, BARRETT_HEIGHT = 0.025, 0.0754  # from the middle of the palm to a finger's root [m]
BARRETT_LINKS = (0.05, 0.07, 0.058)  # from the spread to the inner link, the inner and the outer link [m]
BARRETT_BENT = math.radians(42)  # of the outer link when it is open [rad]
BARRETT_RANGES = {"spread": (0.0, math.pi), "inner": (0.0, math.radians(140)), "outer": (0.0, math.radians(48))}
BARRETT_MASS, BARRETT_TORQUE = 0.98, 2.0  # [kg], [N·m]: about 15 N at a fingertip
BARRETT_RADIUS = 0.008  # of fingers [m]


def three_finger() -> str:
    """A three-finger gripper on a seven-joint arm, after the BarrettHand BH8-282 on a Panda. 15 DoF.

    Hinges "joint1" ... "joint7", "spread1", "spread2", which turn two of the fingers about the palm, and "inner1",
    "outer1", ..., with servos of the same names. In the real hand one motor turns both spreads, and one moves both
    joints of a finger; here every joint has a servo of its own. Bodies "outer1", "outer2", "outer3" end in round tips.
    Keyframe "home": above the floor, pointing down, open.

    Lengths of the links, ranges, the mass of 0.98 kg: Barrett Technology, BH8-282 specifications. How the mass is
    divided (a tenth of it per finger), shapes and the gains of servos are our estimates.
    """
    root, world, actuators = _stage("three_finger", (1.2, -1.1, 0.75), (0.3, 0, 0.33))
    hand = _on_panda(world, actuators)
    share = BARRETT_MASS / 10
    add(hand, "geom", type="cylinder", pos=(0, 0, -BARRETT_HEIGHT / 2), size=(0.045, BARRETT_HEIGHT / 2),
        mass=BARRETT_MASS - 3 * share, material="dark", **SOLID)  # fmt: skip
    out, up = (BARRETT_LINKS[0], 0, 0), BARRETT_HEIGHT
    roots = {1: ((0, -BARRETT_SPREAD, -up), -1), 2: ((0, BARRETT_SPREAD, -up), 1), 3: ((0, 0, -up), 0)}
    home = [*PANDA_ABOVE]
    for i, (root_at, turns) in roots.items():
        body, pos = hand, (-BARRETT_LINKS[0], 0, -up)
        if turns:  # the third finger does not spread, and stands opposite of the others
            body = add(hand, "body", name=f"knuckle{i}", pos=root_at, gravcomp=1)
            _finger_joint(body, actuators, f"spread{i}", (0, 0, turns), BARRETT_RANGES["spread"], BARRETT_TORQUE)
            capsule(body, (0, 0, 0.006), (0.04, 0, 0.006), 0.012, "shell", mass=share / 3)
            pos = out
            home.append(0.0)
        else:
            capsule(hand, (-0.01, 0, 0.006 - up), (-0.04, 0, 0.006 - up), 0.012, "shell", mass=share / 3)
        towards = 1 if turns else -1  # away from the middle of the palm, where fingers point when they are open
        inner = add(body, "body", name=f"inner{i}", pos=pos, gravcomp=1)
        _finger_joint(inner, actuators, f"inner{i}", (0, towards, 0), BARRETT_RANGES["inner"], BARRETT_TORQUE)
        end = (towards * BARRETT_LINKS[1], 0, 0)
        capsule(inner, (0, 0, 0), end, BARRETT_RADIUS, "shell", mass=share / 3)
        outer = add(inner, "body", name=f"outer{i}", pos=end, gravcomp=1)
        _finger_joint(outer, actuators, f"outer{i}", (0, towards, 0), BARRETT_RANGES["outer"], BARRETT_TORQUE)
        reach = BARRETT_LINKS[2] - BARRETT_RADIUS
        tip = (towards * reach * math.cos(BARRETT_BENT), 0, -reach * math.sin(BARRETT_BENT))
        capsule(outer, (0, 0, 0), tip, BARRETT_RADIUS, "accent", mass=share / 3)
        home += [0.6, 0.2]
    return document(root, home, held=True)


# --- five fingers -----------------------------------------------------------------------------------------------------


class Phalanx(NamedTuple):
    """One link of the five-finger hand and the joint that carries it, in the frame of the palm: x to the thumb's side,
    the palm looks along -y, z along the fingers."""

    name: str
    pos: Vector  # of the joint from the one before [m]
    joint: str
    axis: Vector
    low: float  # [degrees]
    high: float
    torque: float  # [N·m]
    mass: float  # [kg]
    length: float  # of its capsule along z; a ball if zero [m]
    radius: float  # [m]


KNUCKLES = {"FF": (0.033, 0, 0.095), "MF": (0.011, 0, 0.099), "RF": (-0.011, 0, 0.095), "LF": (0, 0, 0.06579)}
METACARPAL = Phalanx(
    "lf_metacarpal", (-0.033, 0, 0.02071), "LFJ5", (0.573576, 0, 0.819152), 0, 45, 1, 0.030, 0.05, 0.011
)
THUMB_AT, THUMB_TURN = (0.034, -0.00858, 0.029), math.radians(45)  # about y
THUMB = (
    Phalanx("th_base", THUMB_AT, "THJ5", (0, 0, -1), -60, 60, 3, 0.010, 0, 0.013),
    Phalanx("th_proximal", (0, 0, 0), "THJ4", (1, 0, 0), 0, 70, 2, 0.040, 0.036, 0.0105),
    Phalanx("th_hub", (0, 0, 0.038), "THJ3", (1, 0, 0), -12, 12, 1, 0.005, 0, 0.011),
    Phalanx("th_middle", (0, 0, 0), "THJ2", (0, -1, 0), -40, 40, 1, 0.020, 0.030, 0.010),
    Phalanx("th_distal", (0, 0, 0.032), "THJ1", (0, -1, 0), -15, 90, 1, 0.017, 0.0195, 0.008),
)
FOREARM_MASS, WRIST_MASS, PALM_MASS = 3.0, 0.1, 0.3  # [kg]
FOREARM, PALM = 0.21301, 0.034  # from the flange to the wrist, between the two axes of the wrist [m]
FINGER_STIFFNESS, FINGER_DAMPING = 2.0, 0.05  # [N·m/rad], [N·m·s/rad]: about 200 N/m at a fingertip
HAND_HOME = {  # [rad]; what is not named is straight
    "shoulder_lift": -1.67, "elbow": 1.65, "wrist_1": 0.72, "wrist_2": math.pi / 2, "wrist_3": math.pi,
    "THJ5": 0.6, "THJ4": 0.7, **{f"{name}J3": 0.4 for name in ("FF", "MF", "RF", "LF")},
}  # fmt: skip


def _finger(name: str) -> list[Phalanx]:
    side = -1 if name in ("FF", "MF") else 1  # the outer fingers spread the other way
    low = name.lower()
    return [
        Phalanx(f"{low}_knuckle", KNUCKLES[name], f"{name}J4", (0, side, 0), -20, 20, 1, 0.008, 0, 0.009),
        Phalanx(f"{low}_proximal", (0, 0, 0), f"{name}J3", (1, 0, 0), -15, 90, 1, 0.030, 0.045, 0.009),
        Phalanx(f"{low}_middle", (0, 0, 0.045), f"{name}J2", (1, 0, 0), 0, 90, 1, 0.017, 0.025, 0.0085),
        Phalanx(f"{low}_distal", (0, 0, 0.025), f"{name}J1", (1, 0, 0), 0, 90, 1, 0.013, 0.018, 0.008),
    ]


def hand() -> str:
    """A five-finger hand on a six-joint arm, after the Shadow Dexterous Hand on a UR5. 30 DoF.

    The arm: hinges "shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3". The hand, a right one: 24
    hinges as its maker names them, "WRJ2", "WRJ1", then "FFJ4" ... "FFJ1" of the first finger and so on, "LFJ5" of the
    little finger's metacarpal, and "THJ5" ... "THJ1" of the thumb. Servos of the same names. In the real hand a tendon
    moves the last two joints of a finger together; here each has its own servo. Bodies "ff_distal", "mf_distal",
    "rf_distal", "lf_distal" and "th_distal" end in round tips. Keyframe "home": over the floor, palm down.

    Lengths, masses and torque limits of the arm: Universal Robots, Parameters for calculations of kinematics and
    dynamics. Lengths, ranges and masses of the hand: Shadow Robot Company, Dexterous Hand E series, technical
    specification, and its description in URDF. Shapes and the gains of servos are our estimates.
    """
    root, world, actuators = _stage("hand", (1.35, -1.25, 0.85), (0.3, 0.05, 0.3))
    flange = ur5(world, actuators)
    forearm = add(flange, "body", name="forearm", pos=(0, 0.0823, 0), gravcomp=1)
    forearm.set("quat", _turned(-math.pi / 2, "x"))  # the hand's z is the flange's y
    capsule(forearm, (0, 0, 0.04), (0, 0, 0.15), 0.045, "dark", mass=FOREARM_MASS)
    wrist = Phalanx("wrist", (0, 0, FOREARM), "WRJ2", (0, 1, 0), -30, 10, 10, WRIST_MASS, 0.02, 0.016)
    palm = Phalanx("palm", (0, 0, PALM), "WRJ1", (1, 0, 0), -40, 28, 5, 0, 0, 0)
    body = _phalanx(_phalanx(forearm, actuators, wrist), actuators, palm)
    box = {"type": "box", "material": "shell", **SOLID}
    add(body, "geom", pos=(0.011, 0.002, 0.042), size=(0.033, 0.011, 0.045), mass=0.8 * PALM_MASS, **box)
    add(body, "geom", pos=(-0.032, 0.002, 0.012), size=(0.011, 0.011, 0.018), mass=0.2 * PALM_MASS, **box)
    add(body, "site", name="palm", pos=(0, -0.009, 0.05), size=0.005)
    for name in KNUCKLES:
        link = _phalanx(body, actuators, METACARPAL) if name == "LF" else body
        for phalanx in _finger(name):
            link = _phalanx(link, actuators, phalanx)
    link = body
    for phalanx in THUMB:
        link = _phalanx(link, actuators, phalanx)
        if phalanx.name == "th_base":
            link.set("quat", _turned(THUMB_TURN, "y"))
    names = [joint.get("name") for joint in root.iter("joint")]
    return document(root, [HAND_HOME.get(name, 0.0) for name in names], held=True)


def _stage(name: str, eye: Vector, target: Vector):
    """Steps that take the damping of servos implicitly, which light links at stiff servos need."""
    return stage(Stage(name, 0.002, eye, target, integrator="implicitfast"))


def _on_panda(world: ET.Element, actuators: ET.Element) -> ET.Element:
    """What carries fingers, at the flange of a Panda, turned by 45 degrees as its maker's hand is."""
    hand = add(panda(world, actuators, servos=True), "body", name="hand", pos=(0, 0, -FLANGE), gravcomp=1)
    hand.set("quat", _turned(math.pi / 4, "z"))
    return hand


def _turned(angle: float, axis: str) -> str:
    """A quaternion about one of the axes, as MJCF writes it."""
    sine = math.sin(angle / 2)
    return text((math.cos(angle / 2), *(sine * (axis == one) for one in "xyz")))


def _phalanx(parent: ET.Element, actuators: ET.Element, link: Phalanx) -> ET.Element:
    body = add(parent, "body", name=link.name, pos=link.pos, gravcomp=1)
    reach = (math.radians(link.low), math.radians(link.high))
    _finger_joint(body, actuators, link.joint, link.axis, reach, link.torque)
    if link.length:
        material = "accent" if link.name.endswith("distal") else "shell"
        capsule(body, (0, 0, 0), (0, 0, link.length), link.radius, material, mass=link.mass)
    elif link.mass:
        add(body, "geom", type="sphere", size=link.radius, mass=link.mass, material="steel", **SOLID)
    return body


def _finger_joint(body: ET.Element, actuators: ET.Element, name: str, axis: Vector, reach, torque: float) -> None:
    """A hinge of a hand and its servo, as stiff as its torque is large."""
    add(body, "joint", name=name, type="hinge", axis=axis, range=reach, armature=0.0005, damping=0.005)
    servo(actuators, name, torque, FINGER_STIFFNESS * torque, FINGER_DAMPING * torque, reach)
