"""What the sample robots share: a stage to stand on, a palette, and short ways to write MJCF elements."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import NamedTuple

Vector = tuple[float, float, float]

PALETTE = {  # material: (rgba, specular, shininess)
    "shell": ((0.91, 0.91, 0.89, 1), 0.4, 0.5),
    "dark": ((0.17, 0.19, 0.22, 1), 0.5, 0.4),
    "steel": ((0.55, 0.58, 0.62, 1), 0.7, 0.7),
    "accent": ((0.93, 0.44, 0.13, 1), 0.4, 0.5),
    "blue": ((0.16, 0.40, 0.58, 1), 0.4, 0.5),
}

# How deep feet stand in the floor at home [m]: just touching would be a kink, where rounding decides whether they do.
PRESSED = 1e-4

# Robots touch the floor and not themselves: the floor answers to bit 1, which only robot parts raise.
SOLID = {"contype": 1, "conaffinity": 0}
FLOOR = {"contype": 0, "conaffinity": 1}
GHOST = {"contype": 0, "conaffinity": 0}


class Stage(NamedTuple):
    """How a robot is presented."""

    name: str
    timestep: float  # [s]
    eye: Vector  # where the camera "side" stands [m]
    target: Vector  # what it looks at [m]
    touchable: bool = True  # the floor takes contacts
    integrator: str = ""  # MuJoCo's default if empty


def add(parent: ET.Element, tag: str, **attributes: object) -> ET.Element:
    """Append an element; sequences are written with spaces, and ``class_`` stands for ``class``."""
    return ET.SubElement(parent, tag, {key.rstrip("_"): text(value) for key, value in attributes.items()})


def text(value: object) -> str:
    """An attribute's text. Twelve digits keep a pose to well under a nanometre."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return " ".join(text(item) for item in value)
    return str(value)


def look(eye: Vector, target: Vector) -> tuple[float, ...]:
    """The x and y axes of an upright camera at ``eye`` that looks at ``target``, as MJCF's ``xyaxes``."""
    fx, fy, fz = (b - a for a, b in zip(eye, target, strict=True))
    flat, length = math.hypot(fx, fy), math.hypot(fx, fy, fz)
    right = (fy / flat, -fx / flat, 0.0)
    up = (-fz * fx / (flat * length), -fz * fy / (flat * length), flat / length)
    return right + up


def stage(about: Stage) -> tuple[ET.Element, ET.Element, ET.Element]:
    """The root of a document with floor, light, camera and materials; its worldbody; its actuator list."""
    name, timestep, eye, target, touchable, integrator = about
    root = ET.Element("mujoco", model=name)
    add(root, "compiler", angle="radian", autolimits=True)
    add(root, "option", timestep=timestep, **({"integrator": integrator} if integrator else {}))
    away = math.dist(eye, target)
    add(root, "statistic", center=target, extent=0.6 * away)  # scales haze, shadows and the viewer's start
    _visuals(root)
    world = add(root, "worldbody")
    contact = FLOOR if touchable else GHOST
    lamp = (0.3 * away, 0.4 * away, -1.2 * away)  # from the light to what it shines on
    pos = tuple(a - b for a, b in zip(target, lamp, strict=True))
    add(world, "light", pos=pos, dir=lamp, type="directional", diffuse=(0.55, 0.55, 0.55))
    add(world, "geom", name="floor", type="plane", size=(0, 0, 0.05), material="floor", **contact)
    add(world, "camera", name="side", pos=eye, xyaxes=look(eye, target), fovy=40)
    return root, world, add(root, "actuator")


def _visuals(root: ET.Element) -> None:
    visual = add(root, "visual")
    add(visual, "headlight", ambient=(0.35, 0.35, 0.35), diffuse=(0.35, 0.35, 0.35), specular=(0.1, 0.1, 0.1))
    add(visual, "map", shadowclip=1.5, zfar=60)
    add(visual, "quality", shadowsize=4096)
    add(visual, "rgba", haze=(0.86, 0.90, 0.94, 1))
    add(visual, "global", offwidth=1920, offheight=1080)
    asset = add(root, "asset")
    add(asset, "texture", type="skybox", builtin="gradient", rgb1=(0.62, 0.74, 0.86), rgb2=(0.93, 0.95, 0.97),
        width=256, height=256)  # fmt: skip
    add(asset, "texture", name="checker", type="2d", builtin="checker", rgb1=(0.74, 0.78, 0.82),
        rgb2=(0.66, 0.70, 0.75), width=256, height=256)  # fmt: skip
    add(asset, "material", name="floor", texture="checker", texuniform=True, texrepeat=(1, 1))
    for name, (rgba, specular, shininess) in PALETTE.items():
        add(asset, "material", name=name, rgba=rgba, specular=specular, shininess=shininess)


def capsule(body: ET.Element, start: Vector, end: Vector, radius: float, material: str, **more: object) -> ET.Element:
    """A solid capsule between two points [m]."""
    shape = {"type": "capsule", "fromto": (*start, *end), "size": radius, "material": material}
    return add(body, "geom", **(shape | SOLID | more))


def decoration(body: ET.Element, kind: str, material: str, **shape: object) -> ET.Element:
    """A geom to look at, without mass or contact."""
    return add(body, "geom", type=kind, material=material, mass=0, **GHOST, **shape)


def motor(actuators: ET.Element, joint: str, limit: float, **more: object) -> None:
    """A motor called after its joint, whose control is the torque or force, at most ``limit`` [N·m or N] either way."""
    add(actuators, "motor", **({"name": joint, "joint": joint, "ctrlrange": (-limit, limit)} | more))


def servo(actuators: ET.Element, joint: str, limit: float, kp: float, kv: float, reach: tuple[float, float]) -> None:
    """A position servo called after its joint, whose control is a position; at most ``limit`` [N·m or N]."""
    add(actuators, "position", name=joint, joint=joint, kp=kp, kv=kv, forcerange=(-limit, limit), ctrlrange=reach)


def hinge(body: ET.Element, actuators: ET.Element, name: str, axis: Vector, torque: float, **more: object) -> None:
    """A hinge about an axis of the body, and its motor of at most ``torque`` [N·m]."""
    add(body, "joint", name=name, type="hinge", axis=axis, **more)
    motor(actuators, name, torque)


def document(root: ET.Element, home: Iterable[float] | None = None, *, held: bool = False) -> str:
    """The finished text, with ``home`` (nq,) as the keyframe "home", at rest.

    held:  servos, one per coordinate, hold the robot there; otherwise controls are zero
    """
    if home is not None:
        home = tuple(home)
        add(add(root, "keyframe"), "key", name="home", qpos=home, **({"ctrl": home} if held else {}))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")
