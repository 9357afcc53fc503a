"""Wrenches on the bodies of a robot from the impulses of their shapes, and the adjoint.

A step of the robot consists of n substeps of length h. The impulse (L, P) that a shape received in all of them, about
the world's origin, acts on its body during the whole step, at the body's centre of mass c at the beginning: torque
(L - c × P)/(n h), force P/(n h). This conserves the momentum of robot and soft bodies together, also the angular one
about the origin: a step of the robot adds exactly n h times the wrench at the initial c.
"""

from __future__ import annotations

import numpy as np


def wrenches(impulse: np.ndarray, com: np.ndarray, body: np.ndarray, count: int, duration: float) -> np.ndarray:
    """The torque and force on each of ``count`` bodies at its centre of mass (worlds, count, 6).

    impulse:   (worlds, shapes, 6) received by each shape, about the world's origin
    com, body: centre of mass (worlds, shapes, 3) and index (shapes,) of the body that each shape is fixed to
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
