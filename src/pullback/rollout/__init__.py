"""Trajectories through any System, and the check of its gradients."""

from pullback.rollout.run import Run, rollout

__all__ = ["Run", "rollout"]
