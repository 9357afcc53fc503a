"""Maps between the stored coordinates of a model (nq) and its tangent space (nv)."""

from __future__ import annotations

import numpy as np

from pullback.model.model import BALL, FREE, Model
from pullback.spatial import (
    log_jacobian,
    quat_bar_of_tangent,
    quat_conj,
    quat_exp,
    quat_log,
    quat_mul,
    tangent_of_quat_bar,
)


def rotations(model: Model) -> list[tuple[int, int]]:
    """For each quaternion, its first index in q, and the first index of its rotation in v."""
    return [
        (int(q) + 3 * (kind == FREE), int(v) + 3 * (kind == FREE))
        for kind, q, v in zip(model.joint_type, model.joint_q, model.joint_v, strict=True)
        if kind in (FREE, BALL)
    ]


def scalars(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Indices in q, and in v, of the coordinates that are not part of a quaternion."""
    in_q, in_v = np.ones(model.nq, bool), np.ones(model.nv, bool)
    for i, d in rotations(model):
        in_q[i : i + 4] = False
        in_v[d : d + 3] = False
    return np.flatnonzero(in_q), np.flatnonzero(in_v)


def integrate(model: Model, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """q moved by the tangent dq: (..., nq) and (..., nv)."""
    q = np.array(q, dtype=float)
    plain_q, plain_v = scalars(model)
    q[..., plain_q] += dq[..., plain_v]
    for i, d in rotations(model):
        unit = q[..., i : i + 4] / np.linalg.norm(q[..., i : i + 4], axis=-1, keepdims=True)
        q[..., i : i + 4] = quat_mul(unit, quat_exp(dq[..., d : d + 3]))
    return q


def difference(model: Model, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The tangent (..., nv) at ``start`` that leads to ``end``, (..., nq) each: the inverse of :func:`integrate`."""
    start, end = np.broadcast_arrays(np.asarray(start, dtype=float), np.asarray(end, dtype=float))
    tangent = np.zeros((*end.shape[:-1], model.nv))
    plain_q, plain_v = scalars(model)
    tangent[..., plain_v] = end[..., plain_q] - start[..., plain_q]
    for i, d in rotations(model):  # quaternions may have any length: the logarithm depends on direction only
        tangent[..., d : d + 3] = quat_log(quat_mul(quat_conj(start[..., i : i + 4]), end[..., i : i + 4]))
    return tangent


def difference_jacobian(model: Model, apart: np.ndarray) -> np.ndarray:
    """The derivative (..., nv, nv) of a difference (..., nv) with respect to a tangent at its end."""
    result = np.broadcast_to(np.eye(model.nv), (*apart.shape, model.nv)).copy()
    for _, d in rotations(model):
        result[..., d : d + 3, d : d + 3] = log_jacobian(apart[..., d : d + 3])
    return result


def coordinates_of_tangent(model: Model, q: np.ndarray, tangent_bar: np.ndarray) -> np.ndarray:
    """Cotangents of the stored coordinates (..., nq) from those of the tangent space (..., nv)."""
    q_bar = np.zeros(q.shape, dtype=tangent_bar.dtype)
    plain_q, plain_v = scalars(model)
    q_bar[..., plain_q] = tangent_bar[..., plain_v]
    for i, d in rotations(model):
        q_bar[..., i : i + 4] = quat_bar_of_tangent(q[..., i : i + 4], tangent_bar[..., d : d + 3])
    return q_bar


def tangent_of_move(model: Model, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """The tangent (..., nv) that corresponds to a change dq (..., nq) of the stored coordinates. Quaternions may have
    any length; changes of it are ignored. The transpose of :func:`coordinates_of_tangent`."""
    tangent = np.zeros((*q.shape[:-1], model.nv), dtype=dq.dtype)
    plain_q, plain_v = scalars(model)
    tangent[..., plain_v] = dq[..., plain_q]
    for i, d in rotations(model):
        quat = q[..., i : i + 4]
        turn = quat_mul(quat_conj(quat), dq[..., i : i + 4])[..., 1:]
        tangent[..., d : d + 3] = 2.0 * turn / np.sum(quat * quat, axis=-1, keepdims=True)
    return tangent


def tangent_of_coordinates(model: Model, q: np.ndarray, q_bar: np.ndarray) -> np.ndarray:
    """Cotangents of the tangent space (..., nv) from those of the stored coordinates (..., nq)."""
    tangent_bar = np.zeros((*q.shape[:-1], model.nv), dtype=q_bar.dtype)
    plain_q, plain_v = scalars(model)
    tangent_bar[..., plain_v] = q_bar[..., plain_q]
    for i, d in rotations(model):
        tangent_bar[..., d : d + 3] = tangent_of_quat_bar(q[..., i : i + 4], q_bar[..., i : i + 4])
    return tangent_bar
