"""Soft bodies and fluids as particles, with gradients. SI units: m, s, kg, Pa."""

from pullback.soft.bodies import Body, Muscle, Wall, block, room
from pullback.soft.materials import Corotated, Hencky, Material, NeoHookean, Sand, Snow, VonMises, Water
from pullback.soft.particles import Particles, ParticleState

__all__ = [
    "Body",
    "Corotated",
    "Hencky",
    "Material",
    "Muscle",
    "NeoHookean",
    "ParticleState",
    "Particles",
    "Sand",
    "Snow",
    "VonMises",
    "Wall",
    "Water",
    "block",
    "room",
]
