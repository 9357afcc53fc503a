"""A few particles of any material at any wall, moving in all ways: for checks of gradients."""

import math

import numpy as np

from pullback import soft

SOLID = {"young": 6.0, "poisson": 0.25, "density": 1.3, "viscosity": 0.02}
KINDS = {
    "neo-Hookean": soft.NeoHookean(**SOLID),
    "corotated": soft.Corotated(**SOLID),
    "water": soft.Water(bulk=5.0, density=1.1, exponent=7.0, viscosity=0.03),
    "Hencky": soft.Hencky(**SOLID),
    "von Mises": soft.VonMises(**SOLID, yield_stress=0.7),
    "sand": soft.Sand(**SOLID, friction_angle=0.4),
    "snow": soft.Snow(**SOLID, compression=0.1, stretch=0.1, hardening=3.0),
}
WALLS = ("free", "slip", "Coulomb", "sticky", "clamped")


def walls(dim: int, kind: str) -> list[soft.Wall]:
    """Two that overlap in a corner, or one, or none."""
    up, across = np.eye(dim)[-1], np.eye(dim)[0]
    second = soft.Wall([0.55] * dim, -across, 0.1)
    return {
        "free": [],
        "slip": [soft.Wall([0.3] * dim, up + 0.2 * across, 0.0)],
        "Coulomb": [soft.Wall([0.3] * dim, up + 0.2 * across, 0.4), second],
        "sticky": [soft.Wall([0.3] * dim, up, math.inf), second],
        "clamped": [soft.Wall([0.3] * dim, up, clamped=True), second],
    }[kind]


def crowd(dim: int, material: soft.Material, wall: str, **options) -> soft.Particles:
    """Particles that share cells, some of them of another kind and without muscle; some behind walls."""
    points = np.random.default_rng(0).uniform(0.3, 0.6, (10, dim)) - 0.12 * np.eye(dim)[-1]
    muscle = soft.Muscle(np.arange(1, dim + 1), 0.7)
    other = soft.NeoHookean(young=5.0, poisson=0.3, density=1.0)
    bodies = [soft.Body(points[:7], material, 0.02, muscle), soft.Body(points[7:], other, 0.015)]
    settings = {"dx": 1 / 16, "cells": (16,) * dim, "dt": 1e-2, "walls": walls(dim, wall), "worlds": 4 - dim}
    return soft.Particles(bodies, **settings | options)


def motion(system: soft.Particles, seed: int = 0) -> tuple[soft.ParticleState, np.ndarray]:
    """Into walls, along them, and away; and controls."""
    random = np.random.default_rng(seed)
    shape = (system.worlds, system.n, system.dim)
    v = 0.5 * random.normal(size=shape) - 0.8 * np.eye(system.dim)[-1]
    C = random.normal(size=(*shape, system.dim))
    F = np.eye(system.dim) + 0.1 * random.normal(size=C.shape)
    return system.state(v=v, C=C, F=F), random.normal(size=(system.worlds, system.nu))


def rest(system: soft.Particles, material: str) -> soft.ParticleState:
    """Where all singular values agree, and nothing moves. Sand at rest is at the tip of its cone, which is a kink: it
    is pressed."""
    return system.state(F=(0.97 if material == "sand" else 1.0) * np.eye(system.dim))
