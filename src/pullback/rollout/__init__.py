"""Trajectories through any System, and the check of its gradients."""

from pullback.rollout.check import Report, WrongGradient, check_system
from pullback.rollout.run import Run, rollout

__all__ = ["Report", "Run", "WrongGradient", "check_system", "rollout"]
