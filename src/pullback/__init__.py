"""Differentiable simulation in robotics: systems that step, and step back."""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from pullback.contact import ContactCompliant, ContactConvex, ContactImpulse, ContactLongRange, Far
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.status import Status
from pullback.core.system import Bars, State, System
from pullback.dynamics import Articulated
from pullback.model import Model, load, robots
from pullback.rollout import Run, check_system, rollout
from pullback.version import __version__

if TYPE_CHECKING:
    from pullback import envs, learn, reach, soft, thermal  # noqa: F401

__all__ = [
    "Articulated",
    "Bars",
    "ContactCompliant",
    "ContactConvex",
    "ContactImpulse",
    "ContactLongRange",
    "Far",
    "Model",
    "PullbackError",
    "Run",
    "SimulationError",
    "State",
    "Status",
    "System",
    "__version__",
    "check_system",
    "load",
    "reach",
    "robots",
    "rollout",
    "soft",
    "thermal",
]


def __getattr__(name: str):
    """Packages that not everybody needs are imported when they are first used."""
    if name in ("envs", "learn", "reach", "soft", "thermal"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # Those that need PyTorch are not in __all__: "from pullback import *" works without it.
    return sorted({*globals(), *__all__, *(("envs", "learn") if importlib.util.find_spec("torch") else ())})
