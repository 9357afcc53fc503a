"""Differentiable simulation in robotics: systems that step, and step back."""

from pullback import reach, thermal
from pullback.contact import ContactCompliant, ContactConvex, ContactImpulse
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.system import Bars, State, System
from pullback.dynamics import Articulated
from pullback.model import Model, load, robots
from pullback.rollout import Run, check_system, rollout
from pullback.version import __version__

__all__ = [
    "Articulated",
    "Bars",
    "ContactCompliant",
    "ContactConvex",
    "ContactImpulse",
    "Model",
    "PullbackError",
    "Run",
    "SimulationError",
    "State",
    "System",
    "__version__",
    "check_system",
    "load",
    "reach",
    "robots",
    "rollout",
    "thermal",
]
