"""What bodies of a robot get of the shapes that they carry, and the adjoint.

A step of the robot lasts n substeps of h. The impulse (L, P) that a shape got in all of them, about the world's origin,
acts on its body during the whole step, at the centre of mass c of the beginning: torque (L - c × P)/(n h), force
P/(n h). So robot and soft body together keep their momentum, about the origin too: a step of the robot adds exactly n h
times the wrench at the c where it began.
"""

from __future__ import annotations

import numpy as np


def wrenches(impulse: np.ndarray, com: np.ndarray, body: np.ndarray, count: int, duration: float) -> np.ndarray:
    """On each of ``count`` bodies (worlds, count, 6), torque and force at its centre of mass.

    impulse:   (worlds, shapes, 6) that each shape got, about the world's origin
    com, body: (worlds, shapes, 3) centre of mass of the body that carries it, and its number (shapes,)
    """
    spin, push = impulse[..., :3], impulse[..., 3:]
    found = np.zeros((len(impulse), count, 6), impulse.dtype)
    np.add.at(found, (slice(None), body), np.concatenate([spin - np.cross(com, push), push], axis=-1) / duration)
    return found


def wrenches_adjoint(
    impulse: np.ndarray, com: np.ndarray, body: np.ndarray, duration: float, bar: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cotangents of impulses and centres of mass."""
    spin_bar, push_bar = np.split(bar[:, body] / duration, 2, axis=-1)
    impulse_bar = np.concatenate([spin_bar, push_bar - np.cross(spin_bar, com)], axis=-1)
    return impulse_bar, -np.cross(impulse[..., 3:], spin_bar)
