"""Reachability maps: where a robot's hand or foot can be, as smooth functions of its pose."""

from pullback.reach.limb import Limb, Solutions, inverse
from pullback.reach.maps import ReachabilityMap
from pullback.reach.sampling import Samples, sample
from pullback.reach.spaces import Space, space

__all__ = ["Limb", "ReachabilityMap", "Samples", "Solutions", "Space", "inverse", "sample", "space"]
