"""Trajectories through any System, and the check of its gradients."""

from pullback.rollout.check import Report, WrongGradient, check_system
from pullback.rollout.linearize import linearize_run, side_by_side
from pullback.rollout.run import Run, checkpoint_levels, rollout

__all__ = [
    "Report",
    "Run",
    "WrongGradient",
    "check_system",
    "checkpoint_levels",
    "linearize_run",
    "rollout",
    "side_by_side",
]
