"""Soft bodies and fluids as particles, with gradients. SI units: m, s, kg, Pa."""

from pullback.soft.bodies import Body, Muscle, Wall, block, room
from pullback.soft.materials import Corotated, Material, NeoHookean, Water
from pullback.soft.particles import Particles, ParticleState

__all__ = [
    "Body",
    "Corotated",
    "Material",
    "Muscle",
    "NeoHookean",
    "ParticleState",
    "Particles",
    "Wall",
    "Water",
    "block",
    "room",
]
