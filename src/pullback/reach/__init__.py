"""Reachability maps: where a robot's hand or foot can be, as smooth functions of its pose."""

from pullback.reach.maps import ReachabilityMap
from pullback.reach.spaces import Space, space

__all__ = ["ReachabilityMap", "Space", "space"]
