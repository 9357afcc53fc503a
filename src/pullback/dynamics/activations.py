"""Actuators with activations, as kernels read them."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.activations import AT_REST

STAGES = 4  # of Runge-Kutta


def activations_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Activations."""
    laws = specialise(flavour.precision, "tree.activation")
    numbers = {
        "": laws.NO_ACTIVATION,
        "integrator": laws.INTEGRATOR,
        "filter": laws.FILTER,
        "filterexact": laws.FILTER_EXACT,
        "muscle": laws.MUSCLE,
        AT_REST: laws.AT_REST,
    }
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    result, own = specialise(flavour, "rows").Activations(), model.activations
    result.kind, result.at = ints([int(numbers[kind]) for kind in own.kind]), ints(own.index)
    result.early = ints(own.early)
    for name, side, beyond in (("low", 0, -np.inf), ("high", 1, np.inf)):
        bounds = np.where(own.limited, own.range[:, side], beyond).astype(flavour.precision)
        setattr(result, name, wp.array(bounds, dtype=PRECISIONS[flavour.precision], device=device))
    return result


def activation_sizes(model: Model, substeps: int) -> dict[str, tuple[int, ...]]:
    """How long the arrays of ``kernels/contact/activation_rows.py`` are."""
    return {
        "activation": (model.na,),
        "actuator": (model.nu,),
        "actuator stage": (STAGES * model.nu,),
        "activation substep": (substeps * model.na,),
    }
