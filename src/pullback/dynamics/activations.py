"""Activations and delays of actuators, as the kernels' structs."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.activations import AT_REST, SAMPLE

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
        SAMPLE: laws.SAMPLE,
        "slew": laws.MOTOR_STATE,
        "integral": laws.MOTOR_STATE,  # of a PID controller; that of a DC motor has a kind of its own, see below
        "heat": laws.MOTOR_STATE,
        "bristle": laws.MOTOR_BRISTLE,
        "current": laws.MOTOR_CURRENT,
    }
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    result, own = specialise(flavour, "rows").Activations(), model.activations
    kinds = [int(numbers[kind]) for kind in own.kind]
    wound = (own.actuator[i] in model.motors.circuits and kind == "integral" for i, kind in enumerate(own.kind))
    kinds = [int(laws.MOTOR_INTEGRAL) if is_so else kind for kind, is_so in zip(kinds, wound, strict=True)]
    result.kind, result.actuator, result.early = ints(kinds), ints(own.actuator), ints(own.early)
    for name, side in (("low", 0), ("high", 1)):
        bounds = own.range[:, side].astype(flavour.precision)
        setattr(result, name, wp.array(bounds, dtype=PRECISIONS[flavour.precision], device=device))
    return result


def delays_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Delays."""
    result, own = specialise(flavour, "rows").Delays(), model.delays
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    number, first = np.full(model.nu, -1), model.na - own.weight.shape[1] + np.cumsum(own.count) - own.count
    number[own.ids] = np.arange(len(own.ids))
    result.actuator, result.number = ints(own.ids), ints(number)
    result.first, result.end = ints(first), ints(first + own.count)
    weight = np.pad(own.weight, ((0, 0), (model.na - own.weight.shape[1], 0))).astype(flavour.precision)
    result.weight = wp.array(weight, dtype=PRECISIONS[flavour.precision], device=device)
    return result


def activation_sizes(model: Model, substeps: int) -> dict[str, tuple[int, ...]]:
    """The lengths of the arrays of ``kernels/contact/activation_rows.py``."""
    return {
        "activation": (model.na,),
        "activation stage": (STAGES * model.na,),
        "actuator": (model.nu,),
        "motor": (len(model.motors.ids),),
        "activation substep": (substeps * model.na,),
    }
