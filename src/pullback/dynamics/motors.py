"""PID controllers, DC motors and orientation servos, as the kernels' structs, and their parameters."""

from __future__ import annotations

from functools import partial

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.core.params import Parameter
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.unsupported import impossible_motor


def motors_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Motors."""
    result, own = specialise(flavour, "rows").Motors(), model.motors
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    number = np.full(model.nu, -1)
    number[own.ids] = np.arange(len(own.ids))
    setpoints = own.control[:, :3]
    slews = np.where(np.any(setpoints >= 0, axis=1), np.argmax(setpoints >= 0, axis=1), -1)
    result.number, result.has_circuit, result.control = ints(number), ints(own.has_circuit), ints(own.control)
    result.state, result.slews, result.wraps = ints(own.state), ints(slews), ints(own.wraps)
    for name, side, beyond in (("low", 0, -np.inf), ("high", 1, np.inf)):
        bounds = np.where(model.force_limited, model.force_range[:, side], beyond)[own.ids].astype(flavour.precision)
        setattr(result, name, wp.array(bounds, dtype=PRECISIONS[flavour.precision], device=device))
    return result


def orientations_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Orientations."""
    result, own = specialise(flavour, "rows").Orientations(), model.orientations
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    result.actuator, result.is_quat = ints(own.ids), ints(own.is_quat)
    result.q, result.dof = ints(model.joint_q[own.joint]), ints(model.joint_v[own.joint])
    result.limit = wp.array(own.limit.astype(flavour.precision), dtype=PRECISIONS[flavour.precision], device=device)
    return result


def motor_parameters(model: Model) -> dict[str, Parameter]:
    """The parameters of DC motors. The values in the file decide which states a motor has; later values do not."""
    own, circuits = model.motors, model.motors.circuits
    if not len(circuits):
        return {}
    names = ("motor_gain", "motor_dynamics", "motor_bias")
    units = (
        "Ω, N·m/A, 1/K, °C, N·m/rad, N·m/(rad·s), N·m·s/rad, V",
        "s, A/s, K/W, J/K, °C, N·m/rad, N·m·s/rad, rad/s, rad·s",
        "N·m, 1, rad, N·m, N·m, rad/s",
    )
    laws = (own.gain, own.dynamics, own.bias)
    return {
        name: Parameter(
            unit,
            ("actuator", "entry"),
            law,
            partial(_are_of_motors, laws, which),
            of=circuits,
            blank=np.zeros((len(own.ids), law.shape[1])),
            at=(np.flatnonzero(own.has_circuit),),
        )
        for which, (name, unit, law) in enumerate(zip(names, units, laws, strict=True))
    }


# Entries of gain and dynamics whose sign must stay as in the file: it decides which states and limits there are.
SWITCHES = ((5, 7), (0, 1, 2, 5, 7, 8), ())


def _are_of_motors(laws: tuple[np.ndarray, ...], which: int, value: np.ndarray) -> tuple[np.ndarray, str]:
    """Checks one law at a time, together with the file's other laws: the order in which they are set is irrelevant."""
    in_file, switches = laws[which], list(SWITCHES[which])
    wrong = np.any((value[..., switches] > 0) != (in_file[:, switches] > 0), axis=-1)
    for k in np.argwhere(np.any(in_file != 0, axis=1) & ~wrong):
        rows = [law[k[-1]] for law in laws]
        rows[which] = value[tuple(k)]
        wrong[tuple(k)] = impossible_motor(*rows)
    return wrong, "is not that of the same motor: states and limits that the file has must stay, and no others begin"
