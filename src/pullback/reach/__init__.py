"""Reachability maps: where a robot's hand or foot can be, as smooth functions of its pose; and plans made with them."""

from pullback.reach.footsteps import Footsteps
from pullback.reach.humanoid import Check, Humanoid, Maps, check_plan, humanoid_maps, sample_humanoid
from pullback.reach.ik import Solutions
from pullback.reach.limb import Limb, inverse
from pullback.reach.locomanip import Door, LocoManipulation
from pullback.reach.maps import ReachabilityMap
from pullback.reach.multicontact import MultiContact
from pullback.reach.obstacles import Block, Disc, Obstacle, Wall
from pullback.reach.placement import Place, Placement, check_place
from pullback.reach.sampling import Samples, sample
from pullback.reach.spaces import Space, space
from pullback.reach.walking import Plan, Stance
from pullback.reach.whole_body import Postures, find_postures

__all__ = [
    "Block",
    "Check",
    "Disc",
    "Door",
    "Footsteps",
    "Humanoid",
    "Limb",
    "LocoManipulation",
    "Maps",
    "MultiContact",
    "Obstacle",
    "Place",
    "Placement",
    "Plan",
    "Postures",
    "ReachabilityMap",
    "Samples",
    "Solutions",
    "Space",
    "Stance",
    "Wall",
    "check_place",
    "check_plan",
    "find_postures",
    "humanoid_maps",
    "inverse",
    "sample",
    "sample_humanoid",
    "space",
]
