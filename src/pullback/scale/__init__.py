"""Sums over shards, and sweeps of runs, on processes of this machine or on a Ray cluster."""

from pullback.scale.search import trainable
from pullback.scale.shards import Shard, Shards
from pullback.scale.spread import Spread, sample
from pullback.scale.sweep import Range, Sweep, sweep

__all__ = ["Range", "Shard", "Shards", "Spread", "Sweep", "sample", "sweep", "train", "trainable"]


def __getattr__(name: str):
    """Imports ``train`` on demand, because it needs PyTorch, unlike the rest of the package."""
    if name == "train":
        from pullback.scale.training import train

        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
