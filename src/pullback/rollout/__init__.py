"""Trajectories through any System, and the check of its gradients."""

from pullback.rollout.check import Report, WrongGradient, check_system
from pullback.rollout.linearize import gaps, linearize_run
from pullback.rollout.run import Run, rollout

__all__ = ["Report", "Run", "WrongGradient", "check_system", "gaps", "linearize_run", "rollout"]
