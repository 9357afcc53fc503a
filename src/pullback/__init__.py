"""Differentiable simulation in robotics: systems that step, and step back."""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from pullback.contact import ContactCompliant, ContactConvex, ContactImpulse, ContactLongRange, Far
from pullback.core.bars import Bars
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.status import Status
from pullback.core.system import ActivatedState, State, System
from pullback.dynamics import Articulated
from pullback.model import Model, load, robots
from pullback.rollout import Run, check_system, rollout
from pullback.version import __version__

if TYPE_CHECKING:
    from pullback import coupled, dexterous, envs, learn, neural, reach, scale, soft, thermal  # noqa: F401
    from pullback.coupled import Coupled

# Packages that not everybody needs: imported when they are first used.
WITH_TORCH = ("envs", "learn")
CLASSES_LATER = {"Coupled": "coupled"}
LATER = ("coupled", "dexterous", "neural", "reach", "scale", "soft", "thermal", *WITH_TORCH)

__all__ = [
    "ActivatedState",
    "Articulated",
    "Bars",
    "ContactCompliant",
    "ContactConvex",
    "ContactImpulse",
    "ContactLongRange",
    "Coupled",
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
    "coupled",
    "dexterous",
    "load",
    "neural",
    "reach",
    "robots",
    "rollout",
    "scale",
    "soft",
    "thermal",
]


def __getattr__(name: str):
    if name in LATER:
        return importlib.import_module(f"{__name__}.{name}")
    if name in CLASSES_LATER:
        return getattr(importlib.import_module(f"{__name__}.{CLASSES_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # WITH_TORCH is not in __all__: "from pullback import *" works without it.
    return sorted({*globals(), *__all__, *(WITH_TORCH if importlib.util.find_spec("torch") else ())})
