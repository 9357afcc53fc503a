"""Soft bodies, cloth and fluids, with gradients. SI units: m, s, kg, Pa."""

from pullback.soft.bodies import Body, Muscle, Wall, block, room
from pullback.soft.elastic import Elastic, ElasticState, ShapedElasticState
from pullback.soft.elastic_bodies import Cloth, Solid, sheet, solid_block
from pullback.soft.elastic_materials import Membrane, StableNeoHookean, StVK, StVKMembrane
from pullback.soft.materials import Corotated, Hencky, Material, NeoHookean, Sand, Snow, VonMises, Water
from pullback.soft.particles import Particles, ParticleState, ShapedState
from pullback.soft.shapes import Shape

__all__ = [
    "Body",
    "Cloth",
    "Corotated",
    "Elastic",
    "ElasticState",
    "Hencky",
    "Material",
    "Membrane",
    "Muscle",
    "NeoHookean",
    "ParticleState",
    "Particles",
    "Sand",
    "Shape",
    "ShapedElasticState",
    "ShapedState",
    "Snow",
    "Solid",
    "StVK",
    "StVKMembrane",
    "StableNeoHookean",
    "VonMises",
    "Wall",
    "Water",
    "block",
    "room",
    "sheet",
    "solid_block",
]
