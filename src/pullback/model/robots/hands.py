"""Grippers and hands that hold things, with position servos: their controls are joint positions."""

from __future__ import annotations

import math

from .scene import SOLID, Stage, add, decoration, document, stage

TIP_RADIUS, TIP_MASS = 0.01, 0.02  # [m], [kg]
TIP_STIFFNESS, TIP_DAMPING = 200.0, 4.0  # [N/m], [N·s/m]: twice the critical damping of a tip
TIP_RANGE = 0.25  # of each slide, either way [m]
TIP_CIRCLE, TIP_HEIGHT = 0.075, 0.08  # where tips are at home [m]


def fingertips(count: int = 3) -> str:
    """Fingertips without a hand: balls on three slides each, which position servos hold, free of gravity.

    3 DoF per tip: slides "tip1_x", "tip1_y", "tip1_z", ..., measured from the middle of the floor. Servos of 200 N/m
    and 4 N·s/m, of the same names. Balls of 10 mm and 20 g, bodies "tip1", ..., which touch the floor. Keyframe
    "home": on a circle of 75 mm radius, 80 mm above the floor.
    """
    root, world, actuators = stage(Stage("fingertips", 0.002, (0.32, -0.42, 0.28), (0, 0, 0.06)))
    home = []
    for i in range(count):
        angle = 2 * math.pi * i / count + math.pi
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
