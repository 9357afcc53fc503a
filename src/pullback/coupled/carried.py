"""Shapes that bodies of a robot carry: where they are during a step, what the bodies get of them, and the adjoints.

A step of the robot lasts n substeps of h. Between them a shape moves on with the velocity it had at the beginning,

    p_k = p + k h u,    R_k = exp(k h ω) R,

and the impulse (L, P) that it got in all of them, about the world's origin, acts on its body during the whole step, at
the centre of mass c of the beginning: torque (L - c × P)/(n h), force P/(n h). So robot and particles together keep
their momentum, about the origin too: a step of the robot adds exactly n h times the wrench at the c where it began.
"""

from __future__ import annotations

import numpy as np

from pullback.spatial import log_jacobian, quat_conj, quat_exp, quat_mul, tangent_of_quat_bar


def carry_on(pose: np.ndarray, twist: np.ndarray, h: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Poses (count, worlds, shapes, 7) and twists at the beginning of each substep, from those of the step."""
    passed = h * np.arange(count).reshape(-1, 1, 1, 1)
    turned = quat_mul(quat_exp(passed * twist[..., :3]), pose[..., 3:])
    poses = np.concatenate([pose[..., :3] + passed * twist[..., 3:], turned], axis=-1)
    return poses, np.broadcast_to(twist, (count, *twist.shape))


def carry_on_adjoint(
    pose: np.ndarray, twist: np.ndarray, h: float, poses_bar: np.ndarray, twists_bar: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cotangents of pose and twist from those of all substeps."""
    passed = h * np.arange(len(poses_bar)).reshape(-1, 1, 1, 1)
    turn = quat_exp(passed * twist[..., :3])
    quat_bar = quat_mul(quat_conj(turn), poses_bar[..., 3:])
    pose_bar = np.concatenate([poses_bar[..., :3], quat_bar], axis=-1).sum(axis=0)
    d_bar = tangent_of_quat_bar(turn, quat_mul(poses_bar[..., 3:], quat_conj(pose[..., 3:])))
    # d = J φ with the right Jacobian J, whose inverse is log_jacobian
    to_vector = np.linalg.inv(log_jacobian(passed * twist[..., :3])).swapaxes(-1, -2)
    spin_bar = passed * (to_vector @ d_bar[..., None])[..., 0]
    twist_bar = twists_bar + np.concatenate([spin_bar, passed * poses_bar[..., :3]], axis=-1)
    return pose_bar, twist_bar.sum(axis=0)


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
