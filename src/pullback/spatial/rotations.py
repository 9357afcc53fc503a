"""Quaternions over arrays of any leading shape."""

from __future__ import annotations

import numpy as np

UNIT_LENGTH = 1e-15  # what differs less from one [1] is of unit length; the same bound MuJoCo uses


def quat_mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b: first b, then a. (..., 4)"""
    aw, ax, ay, az = np.moveaxis(np.asarray(a), -1, 0)
    bw, bx, by, bz = np.moveaxis(np.asarray(b), -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def quat_conj(q: np.ndarray) -> np.ndarray:
    """The inverse of a unit quaternion. (..., 4)"""
    return np.asarray(q) * np.array([1.0, -1.0, -1.0, -1.0])


def quat_exp(phi: np.ndarray) -> np.ndarray:
    """Quaternion (..., 4) of the rotation vector phi (..., 3) [rad]."""
    phi = np.asarray(phi, dtype=float)
    angle = np.linalg.norm(phi, axis=-1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), 0.5 * np.sinc(angle / (2 * np.pi)) * phi], axis=-1)


def quat_log(q: np.ndarray) -> np.ndarray:
    """Rotation vector (..., 3) [rad] of q (..., 4), of length at most π."""
    q = np.asarray(q, dtype=float)
    q = np.where(q[..., :1] < 0, -q, q)
    length = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    scale = np.where(length > 0, 2 * np.arctan2(length, q[..., :1]) / np.where(length > 0, length, 1), 2.0)
    return scale * q[..., 1:]


def log_jacobian(phi: np.ndarray) -> np.ndarray:
    """How quat_log(q exp(d)) moves with d about d = 0, (..., 3, 3), where phi (..., 3) is quat_log(q)."""
    phi = np.asarray(phi, dtype=float)
    angle = np.linalg.norm(phi, axis=-1)[..., None, None]
    cross = cross_matrix(phi)
    half = angle / 2
    # (1 - half cot half) / angle², and below a milliradian its series, which is exact to rounding there
    safe = np.where(half > 5e-4, half, 1.0)
    second = np.where(half > 5e-4, (1 - safe / np.tan(safe)) / (4 * safe**2), 1 / 12 + half**2 / 180)
    return np.eye(3) + cross / 2 + second * (cross @ cross)


def cross_matrix(x: np.ndarray) -> np.ndarray:
    """[x]× (..., 3, 3): its product with y is x × y."""
    a, b, c = np.moveaxis(x, -1, 0)
    zero = np.zeros_like(a)
    return np.stack([np.stack(row, -1) for row in ((zero, -c, b), (c, zero, -a), (-b, a, zero))], -2)


def unit(x: np.ndarray) -> np.ndarray:
    """x (..., n) over its length. What is of unit length to rounding stays as it is, to the last bit, as in MuJoCo."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(abs(length - 1.0) <= UNIT_LENGTH, x, x / length)


def unit_adjoint(x: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """Cotangent (..., n) of x of any length from that of unit(x)."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    along = x / length
    return (bar - along * np.sum(along * bar, axis=-1, keepdims=True)) / length


def quat_matrix(q: np.ndarray) -> np.ndarray:
    """Rotation matrix (..., 3, 3) of q (..., 4) of any length."""
    return unit_quat_matrix(np.asarray(q) / np.linalg.norm(q, axis=-1, keepdims=True))


def unit_quat_matrix(q: np.ndarray) -> np.ndarray:
    """The same of q of length one, which is taken as it is, to the last bit."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quat_bar_of_tangent(q: np.ndarray, turn_bar: np.ndarray) -> np.ndarray:
    """Cotangent (..., 4) of a quaternion of any length from that of a rotation (..., 3) in its frame.

    More numbers behind those three, where kernels have them in the place of a quaternion, are not looked at.
    """
    turn = np.concatenate([np.zeros_like(turn_bar[..., :1]), turn_bar[..., :3]], axis=-1)
    return 2.0 / np.sum(q * q, axis=-1, keepdims=True) * quat_mul(q, turn)


def tangent_of_quat_bar(q: np.ndarray, q_bar: np.ndarray) -> np.ndarray:
    """Cotangent (..., 3) of a rotation in the frame of q from that of the four numbers of q (..., 4)."""
    return 0.5 * quat_mul(quat_conj(q), q_bar)[..., 1:]
