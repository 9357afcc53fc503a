"""More machines and more worlds: sums over shards, and sweeps, on processes of this machine or on a Ray cluster."""

from pullback.scale.shards import Shard, Shards

__all__ = ["Shard", "Shards"]
