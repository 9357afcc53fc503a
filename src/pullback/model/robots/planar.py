"""Robots that move in the x-z plane: pendulums and chains, the cart-pole, the acrobot. No contacts, no limits."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import mujoco

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError

from .scene import GHOST, Stage, add, capsule, decoration, document, hinge, motor, stage

# MuJoCo's XML reader refuses elements nested more than 500 deep.
DEEPEST_XML = 400  # links
# MuJoCo's compiler refuses bodies more than 1023 below the world.
DEEPEST_TREE = 1023  # links

LINK = 0.5  # length of a pendulum's link [m]
LINK_MASS = 1.0  # [kg]
LINK_RADIUS = 0.02  # [m]
LINK_TORQUE = 10.0  # [N·m]


def rod_inertia(mass: float, length: float, radius: float) -> tuple[float, float, float]:
    """Of a thin uniform rod along z about its middle; the radius only keeps the axial entry positive [kg·m²]."""
    across = mass * length**2 / 12
    return across, across, mass * radius**2 / 2


def pendulum(n: int = 1) -> str:
    """A pendulum of ``n`` links that hangs from a fixed hub.

    n DoF: hinges "joint0" ... about y, zero when hanging. n motors, ±10 N·m. Each link is a thin uniform rod of 0.5 m
    and 1 kg (inertia m·l²/12 about its middle). No damping, no armature: energy is conserved. A site "tip" at the end.
    Textbook dimensions of our own. At most 400 links; use :func:`chain` for more.
    """
    if check_whole(n, "the number of links") > DEEPEST_XML:
        raise PullbackError(f"pendulum: {n} links nest too deep for XML, use chain(n) beyond {DEEPEST_XML}")
    root, body, actuators = _pendulum_stage(n)
    for i in range(n):
        body = add(body, "body", name=f"link{i}", pos=(0, 0, _link_height(i, n)))
        hinge(body, actuators, f"joint{i}", (0, 1, 0), LINK_TORQUE)
        _rod(body, LINK, LINK_MASS, rod_inertia(LINK_MASS, LINK, LINK_RADIUS), LINK_RADIUS, _link_material(i))
    add(body, "site", name="tip", pos=(0, 0, -LINK), size=0.01)
    return document(root)


def chain(n: int) -> mujoco.MjSpec:
    """The same robot as :func:`pendulum`, for up to 1023 links (MuJoCo's deepest tree); for :func:`pullback.load`.

    n DoF, n motors of ±10 N·m, links of 0.5 m and 1 kg.
    """
    if check_whole(n, "the number of links") > DEEPEST_TREE:
        raise PullbackError(f"chain: {n} links, MuJoCo compiles at most {DEEPEST_TREE} in a row")
    root, _, _ = _pendulum_stage(n)
    spec = mujoco.MjSpec.from_string(document(root))
    body = spec.worldbody
    for i in range(n):
        body = body.add_body(name=f"link{i}", pos=(0, 0, _link_height(i, n)), explicitinertial=True, mass=LINK_MASS)
        body.ipos = (0, 0, -LINK / 2)
        body.inertia = rod_inertia(LINK_MASS, LINK, LINK_RADIUS)
        body.add_joint(name=f"joint{i}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 1, 0))
        rod = {"fromto": (0, 0, 0, 0, 0, -LINK), "size": (LINK_RADIUS, 0, 0), "material": _link_material(i)}
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, **rod, **GHOST)
        spec.add_actuator(name=f"joint{i}", target=f"joint{i}", trntype=mujoco.mjtTrn.mjTRN_JOINT,
                          ctrlrange=(-LINK_TORQUE, LINK_TORQUE))  # fmt: skip
    body.add_site(name="tip", pos=(0, 0, -LINK), size=(0.01, 0.01, 0.01))
    return spec


def cartpole() -> str:
    """A cart on a rail with a pole that hangs from it, to be swung up.

    2 DoF: "slide" along x, "hinge" about y (zero hanging down, π upright). 1 motor: force on the cart, ±10 N. A site
    "tip" at the pole's end. Dimensions of Barto, Sutton and Anderson (1983): cart 1 kg; pole 0.1 kg and 1 m long, a
    uniform rod. No damping; the rail has no end.
    """
    height = 1.25  # of the rail, so that the hanging pole clears the floor [m]
    root, world, actuators = stage(Stage("cartpole", 0.005, (0, -4.0, 1.5), (0, 0, 1.15), touchable=False))
    decoration(world, "capsule", "steel", name="rail", fromto=(-20, 0, height, 20, 0, height), size=0.015)
    cart = add(world, "body", name="cart", pos=(0, 0, height))
    add(cart, "inertial", pos=(0, 0, 0), mass=1, diaginertia=(0.005, 0.01, 0.01))  # about 0.3 m x 0.15 m x 0.15 m
    add(cart, "joint", name="slide", type="slide", axis=(1, 0, 0))
    decoration(cart, "box", "blue", size=(0.15, 0.06, 0.06))
    for x in (-0.1, 0.1):
        for y in (-0.055, 0.055):
            decoration(cart, "cylinder", "dark", pos=(x, y, -0.05), size=(0.035, 0.012), zaxis=(0, 1, 0))
    pole = add(cart, "body", name="pole", pos=(0, -0.085, 0))  # in front of the cart
    add(pole, "joint", name="hinge", type="hinge", axis=(0, 1, 0))
    _rod(pole, 1.0, 0.1, rod_inertia(0.1, 1.0, 0.02), 0.02, "accent")
    add(pole, "site", name="tip", pos=(0, 0, -1), size=0.01)
    motor(actuators, "slide", 10.0)
    return document(root)


def acrobot() -> str:
    """A double pendulum driven only at its elbow.

    2 DoF: hinges "shoulder" and "elbow" about y, zero hanging. 1 motor: torque at the elbow, ±1 N·m. Dimensions of
    Sutton and Barto, Reinforcement Learning (section 11.3 of the first edition): both links 1 m and 1 kg, centre of
    mass at 0.5 m, moment of inertia 1 kg·m² about it. No damping. A site "tip" at the end.
    """
    height = 2.3  # of the shoulder [m]
    root, world, actuators = stage(Stage("acrobot", 0.01, (0, -6.8, 2.6), (0, 0, 2.1), touchable=False))
    _hub(world, height)
    body = world
    for name, joint, z, material in (("upper", "shoulder", height, "blue"), ("lower", "elbow", -1.0, "accent")):
        body = add(body, "body", name=name, pos=(0, 0, z))
        add(body, "joint", name=joint, type="hinge", axis=(0, 1, 0))
        _rod(body, 1.0, 1.0, (1.0, 1.0, 0.01), 0.04, material)
    decoration(body, "cylinder", "dark", size=(0.055, 0.05), zaxis=(0, 1, 0))
    add(body, "site", name="tip", pos=(0, 0, -1), size=0.01)
    motor(actuators, "elbow", 1.0)
    return document(root)


def _pendulum_stage(n: int) -> tuple[ET.Element, ET.Element, ET.Element]:
    height = _link_height(0, n)
    away = 0.8 + 3.0 * LINK * n  # far enough to see the pendulum upside down too
    root, world, actuators = stage(Stage("pendulum", 0.005, (0, -away, height + 0.1), (0, 0, height), touchable=False))
    _hub(world, height)
    return root, world, actuators


def _link_height(i: int, n: int) -> float:
    """Of a link's joint over its parent: the first stands in the world, high enough to clear the floor [m]."""
    return LINK * n + 0.3 if i == 0 else -LINK


def _link_material(i: int) -> str:
    return ("blue", "accent")[i % 2]


def _hub(world: ET.Element, height: float) -> None:
    decoration(world, "cylinder", "dark", name="hub", pos=(0, 0.02, height), size=(0.05, 0.06), zaxis=(0, 1, 0))


def _rod(
    body: ET.Element, length: float, mass: float, inertia: tuple[float, float, float], radius: float, material: str
) -> None:
    add(body, "inertial", pos=(0, 0, -length / 2), mass=mass, diaginertia=inertia)
    capsule(body, (0, 0, 0), (0, 0, -length), radius, material, **GHOST)
