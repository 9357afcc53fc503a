"""More machines and more worlds: sums over shards, and sweeps, on processes of this machine or on a Ray cluster."""

from pullback.scale.shards import Shard, Shards
from pullback.scale.spread import Spread, sample
from pullback.scale.sweep import Range, Sweep, sweep

__all__ = ["Range", "Shard", "Shards", "Spread", "Sweep", "sample", "sweep"]
