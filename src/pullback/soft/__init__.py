"""Soft bodies, with gradients. SI units: m, s, kg, Pa."""

from pullback.soft.elastic import Elastic, ElasticState
from pullback.soft.elastic_bodies import Cloth, Shape, Solid, sheet, solid_block
from pullback.soft.elastic_materials import Membrane, StableNeoHookean, StVK, StVKMembrane

__all__ = [
    "Cloth",
    "Elastic",
    "ElasticState",
    "Membrane",
    "Shape",
    "Solid",
    "StVK",
    "StVKMembrane",
    "StableNeoHookean",
    "sheet",
    "solid_block",
]
