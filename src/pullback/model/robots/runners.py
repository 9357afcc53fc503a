"""The runners of reinforcement learning: the ant, the hopper and the half-cheetah, as in Gymnasium's MuJoCo tasks."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from .scene import PRESSED, SOLID, Stage, add, capsule, decoration, document, motor, stage

HOPPER_SOLID = {"contype": 1, "conaffinity": 1}  # it touches itself, too

CHEETAH_RADIUS = 0.046  # of every part [m]
CHEETAH_MASS = 14.0  # [kg]
CHEETAH_HEAD = ((0.6, 0.1), 0.87, 0.15)  # as bones below
# Of each leg, from the trunk down: place of the joint in its parent [m], range [rad], stiffness [N·m/rad], damping
# [N·m·s/rad], torque [N·m]; middle of the bone from the joint [m], its turn about y [rad], half its length [m].
CHEETAH_LEGS = {
    "b": (
        ("thigh", (-0.5, 0.0), (-0.52, 1.05), 240, 6.0, 120, (0.1, -0.13), -3.8, 0.145),
        ("shin", (0.16, -0.25), (-0.785, 0.785), 180, 4.5, 90, (-0.14, -0.07), -2.03, 0.15),
        ("foot", (-0.28, -0.14), (-0.4, 0.785), 120, 3.0, 60, (0.03, -0.097), -0.27, 0.094),
    ),
    "f": (
        ("thigh", (0.5, 0.0), (-1.0, 0.7), 180, 4.5, 120, (-0.07, -0.12), 0.52, 0.133),
        ("shin", (-0.14, -0.24), (-1.2, 0.87), 120, 3.0, 60, (0.065, -0.09), -0.6, 0.106),
        ("foot", (0.13, -0.18), (-0.5, 0.5), 60, 1.5, 30, (0.045, -0.07), -0.6, 0.07),
    ),
}


def ant() -> str:
    """A four-legged ant of 0.9 kg whose joints resist as if they were much heavier (armature 1 kg·m²).

    14 DoF: a free base "torso" and, for each of four legs, the hinges "hip_1" (about z) and "ankle_1". 8 motors whose
    control in ±1 is a torque of ±150 N·m; those of leg 4 come first. Keyframe "home" is where Gymnasium's episodes
    start. Its dynamics are those of Gymnasium's Ant-v5 (RK4, 10 ms), after Schulman et al. (2016).
    """
    root, world, actuators = _stage(
        Stage("ant", 0.01, (1.8, -2.6, 1.5), (0, 0, 0.3)),
        integrator="RK4", joint={"armature": 1, "damping": 1},
        geom={"density": 5, "friction": (1, 0.5, 0.5), "margin": 0.01},
    )  # fmt: skip
    torso = add(world, "body", name="torso", pos=(0, 0, 0.75))
    add(torso, "freejoint", name="root")
    add(torso, "geom", name="torso", type="sphere", size=0.25, material="blue", **SOLID)
    for y in (-0.08, 0.08):  # eyes: it looks along x
        decoration(torso, "sphere", "shell", pos=(0.21, y, 0.09), size=0.045)
        decoration(torso, "sphere", "dark", pos=(0.242, y * 1.05, 0.1), size=0.022)
    for leg, x, y in ((1, 1, 1), (2, -1, 1), (3, -1, -1), (4, 1, -1)):
        base = add(torso, "body", name=f"base_{leg}")
        capsule(base, (0, 0, 0), (0.2 * x, 0.2 * y, 0), 0.08, "blue", name=f"base_{leg}")
        upper = add(base, "body", name=f"upper_{leg}", pos=(0.2 * x, 0.2 * y, 0))
        limit = math.radians(30)
        add(upper, "joint", name=f"hip_{leg}", axis=(0, 0, 1), range=(-limit, limit))
        capsule(upper, (0, 0, 0), (0.2 * x, 0.2 * y, 0), 0.08, "shell", name=f"upper_{leg}")
        lower = add(upper, "body", name=f"lower_{leg}", pos=(0.2 * x, 0.2 * y, 0))
        limits = sorted(x * math.radians(degrees) for degrees in (30, 70))
        add(lower, "joint", name=f"ankle_{leg}", axis=(-x * y, 1, 0), range=limits)
        capsule(lower, (0, 0, 0), (0.4 * x, 0.4 * y, 0), 0.08, "accent", name=f"lower_{leg}")
        for joined in (upper, lower):
            decoration(joined, "sphere", "dark", size=0.085)
    for leg in (4, 1, 2, 3):
        for joint in (f"hip_{leg}", f"ankle_{leg}"):
            motor(actuators, joint, 1.0, gear=150)
    return document(root, (0, 0, 0.55, 1, 0, 0, 0, *(0, 1), *(0, -1) * 2, *(0, 1)))


def hopper() -> str:
    """A robot with one leg that hops in the x-z plane, 1.5 m and 15.8 kg.

    6 DoF: "rootx" and "rootz" (the torso's height, 1.25 m standing straight), "rooty", and the hinges "thigh_joint",
    "leg_joint" and "foot_joint", which are negative where bent. 3 motors whose control in ±1 is a torque of ±200 N·m.
    Keyframe "home" has a slightly bent knee, with the foot 0.1 mm in the floor. Its dynamics are those of Gymnasium's
    Hopper-v5 (RK4, 2 ms), after Erez, Tassa and Todorov (2011).
    """
    contact = {"condim": 1, "margin": 0.001, "solimp": (0.8, 0.8, 0.01), "solref": (0.02, 1)}
    root, world, actuators = _stage(
        Stage("hopper", 0.002, (0.9, -3.6, 1.3), (0, 0, 0.75)),
        integrator="RK4", joint={"armature": 1, "damping": 1}, geom=contact,
    )  # fmt: skip
    world.find("geom").set("condim", "3")  # type: ignore[union-attr]
    body = add(world, "body", name="torso", pos=(0, 0, 1.25))
    _planar_root(body, height=1.25)
    capsule(body, (0, 0, -0.2), (0, 0, 0.2), 0.05, "blue", name="torso", friction=0.9, **HOPPER_SOLID)
    decoration(body, "sphere", "shell", pos=(0.03, 0, 0.19), size=0.035)
    bent = (-math.radians(150), 0.0)
    for name, z, limits, end, radius, material in (
        ("thigh", -0.2, bent, -0.45, 0.05, "shell"),
        ("leg", -0.45, bent, -0.5, 0.04, "shell"),
        ("foot", -0.5, (-math.pi / 4, math.pi / 4), None, 0.06, "accent"),
    ):
        body = add(body, "body", name=name, pos=(0, 0, z))
        add(body, "joint", name=f"{name}_joint", axis=(0, -1, 0), range=limits)
        motor(actuators, f"{name}_joint", 1.0, gear=200)
        if end is None:  # the foot lies along x
            capsule(body, (-0.13, 0, 0), (0.26, 0, 0), radius, material, name=name, friction=2.0, **HOPPER_SOLID)
        else:
            capsule(body, (0, 0, 0), (0, 0, end), radius, material, name=name, friction=0.9, **HOPPER_SOLID)
        decoration(body, "sphere", "dark", size=max(radius, 0.05) + 0.004)
    height = 0.2 + 0.45 * math.cos(0.1) + 0.5 * math.cos(0.3) + 0.06 - PRESSED
    return document(root, (0, height, 0, -0.1, -0.2, 0.3))


def half_cheetah() -> str:
    """A two-legged cheetah that runs in the x-z plane, 14 kg.

    9 DoF: "rootx", "rootz" (zero at a height of 0.7 m), "rooty", and the hinges "bthigh", "bshin", "bfoot" of the back
    leg and "fthigh", "fshin", "ffoot" of the front leg, each with a spring. 6 motors whose control in ±1 is a torque of
    ±30 to ±120 N·m. Keyframe "home" stands on the floor. Its dynamics are those of Gymnasium's HalfCheetah-v5 (10 ms),
    after Wawrzyński (2007).
    """
    halves = (0.5, CHEETAH_HEAD[-1], *(part[-1] for parts in CHEETAH_LEGS.values() for part in parts))
    volume = sum(math.pi * CHEETAH_RADIUS**2 * (2 * half + 4 / 3 * CHEETAH_RADIUS) for half in halves)
    geom = {"friction": (0.4, 0.1, 0.1), "solimp": (0, 0.8, 0.01), "solref": (0.02, 1)}
    root, world, actuators = _stage(
        Stage("half_cheetah", 0.01, (0.9, -3.2, 1.1), (0, 0, 0.5)), integrator="Euler",
        joint={"armature": 0.1, "solimplimit": (0, 0.8, 0.03), "solreflimit": (0.02, 1)},
        geom=geom | {"density": CHEETAH_MASS / volume},
    )  # fmt: skip
    torso = add(world, "body", name="torso", pos=(0, 0, 0.7))
    _planar_root(torso)
    capsule(torso, (-0.5, 0, 0), (0.5, 0, 0), CHEETAH_RADIUS, "blue", name="torso")
    _bone(torso, "head", *CHEETAH_HEAD, "blue")
    for leg, parts in CHEETAH_LEGS.items():
        body = torso
        for part, (x, z), limits, stiffness, damping, torque, middle, turn, half in parts:
            name = leg + part
            body = add(body, "body", name=name, pos=(x, 0, z))
            add(body, "joint", name=name, axis=(0, 1, 0), range=limits, stiffness=stiffness, damping=damping)
            motor(actuators, name, 1.0, gear=torque)
            _bone(body, name, middle, turn, half, "accent" if part == "foot" else "shell")
            decoration(body, "sphere", "dark", size=CHEETAH_RADIUS + 0.003)
    settled = (-0.13, 0.05, 0.03, 0.07, -0.01, -0.06, -0.14, -0.13)  # springs and floor carry its weight
    return document(root, (0, *settled))


def _stage(about: Stage, *, integrator: str, joint: dict, geom: dict) -> tuple[ET.Element, ET.Element, ET.Element]:
    """A stage with another integrator, and with defaults of joints and geoms, the floor's included."""
    root, world, actuators = stage(about)
    root.find("option").set("integrator", integrator)  # type: ignore[union-attr]
    default = add(root, "default")
    add(default, "joint", **joint)
    add(default, "geom", **geom)
    return root, world, actuators


def _planar_root(torso: ET.Element, height: float = 0.0) -> None:
    """Joints of a body that moves freely in the x-z plane; ``height`` is the coordinate of its place in the file."""
    free = {"armature": 0, "damping": 0}
    add(torso, "joint", name="rootx", type="slide", axis=(1, 0, 0), **free)
    add(torso, "joint", name="rootz", type="slide", axis=(0, 0, 1), ref=height, **free)
    add(torso, "joint", name="rooty", axis=(0, 1, 0), **free)


def _bone(body: ET.Element, name: str, middle: tuple[float, float], turn: float, half: float, material: str) -> None:
    """A capsule around ``middle`` (x, z), along z but for a turn about y."""
    x, z = middle
    add(body, "geom", name=name, type="capsule", size=(CHEETAH_RADIUS, half), pos=(x, 0, z), euler=(0, turn, 0),
        material=material, **SOLID)  # fmt: skip
