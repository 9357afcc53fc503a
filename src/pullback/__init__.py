"""Differentiable simulation in robotics: systems that step, and step back."""

from pullback.core.errors import PullbackError
from pullback.core.system import Bars, State, System
from pullback.dynamics import Articulated
from pullback.model import Model, load
from pullback.rollout import Run, rollout

__version__ = "0.1.0"

__all__ = ["Articulated", "Bars", "Model", "PullbackError", "Run", "State", "System", "load", "rollout"]
