"""Rotations and tangent spaces in NumPy; the kernels have their own in ``kernels/spatial/algebra.py``.

Quaternions are ``wxyz``. A tangent rotates in the body's frame: q exp(d).
"""

from pullback.spatial.rotations import (
    cross_matrix,
    log_jacobian,
    quat_bar_of_tangent,
    quat_conj,
    quat_exp,
    quat_log,
    quat_matrix,
    quat_mul,
    tangent_of_quat_bar,
    unit,
    unit_adjoint,
    unit_quat_matrix,
)

__all__ = [
    "cross_matrix",
    "log_jacobian",
    "quat_bar_of_tangent",
    "quat_conj",
    "quat_exp",
    "quat_log",
    "quat_matrix",
    "quat_mul",
    "tangent_of_quat_bar",
    "unit",
    "unit_adjoint",
    "unit_quat_matrix",
]
