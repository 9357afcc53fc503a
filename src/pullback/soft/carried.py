"""Shapes that move with constant velocity within a step, and the adjoint. After k substeps of length h,

p_k = p + k h u,    R_k = exp(k h ω) R
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pullback.core.arrays import as_items
from pullback.core.bars import Named
from pullback.soft.moving import Moving
from pullback.spatial import (
    log_jacobian,
    quat_bar_of_tangent,
    quat_conj,
    quat_exp,
    quat_mul,
    tangent_of_quat_bar,
    unit_quat_matrix,
)

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic


def carry_on(pose: np.ndarray, twist: np.ndarray, h: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Poses (count, worlds, shapes, 7) and twists at the beginning of each substep, from those of the whole step."""
    passed = h * np.arange(count).reshape(-1, 1, 1, 1)
    turned = quat_mul(quat_exp(passed * twist[..., :3]), pose[..., 3:])
    poses = np.concatenate([pose[..., :3] + passed * twist[..., 3:], turned], axis=-1)
    return poses, np.broadcast_to(twist, (count, *twist.shape))


def carry_on_adjoint(
    pose: np.ndarray, twist: np.ndarray, h: float, poses_bar: np.ndarray, twists_bar: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cotangents of pose and twist, from those at all substeps."""
    passed = h * np.arange(len(poses_bar)).reshape(-1, 1, 1, 1)
    turn = quat_exp(passed * twist[..., :3])
    quat_bar = quat_mul(quat_conj(turn), poses_bar[..., 3:])
    pose_bar = np.concatenate([poses_bar[..., :3], quat_bar], axis=-1).sum(axis=0)
    d_bar = tangent_of_quat_bar(turn, quat_mul(poses_bar[..., 3:], quat_conj(pose[..., 3:])))
    # d = J φ with the right Jacobian J of rotations, whose inverse is log_jacobian
    to_vector = np.linalg.inv(log_jacobian(passed * twist[..., :3])).swapaxes(-1, -2)
    spin_bar = passed * (to_vector @ d_bar[..., None])[..., 0]
    twist_bar = twists_bar + np.concatenate([spin_bar, passed * poses_bar[..., :3]], axis=-1)
    return pose_bar, twist_bar.sum(axis=0)


class Carried(Moving):
    """The poses of shapes at the beginning and the end of every step. They move with their twist, also through steps
    for which inputs are held.

    starts, ends:  (timesteps, worlds, shapes, 7), or one row for shapes that do not move
    """

    def __init__(self, soft: Elastic, inputs: Mapping | None, hold: int):
        super().__init__(soft, inputs, hold if inputs else 1)
        self.poses = self._split(carry_on(*self._flat(), soft.dt, self.hold + 1)[0])  # (rows, hold + 1, ...)
        self.starts, self.ends = (self._timesteps(x) for x in (self.poses[:, :-1], self.poses[:, 1:]))

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Poses and twists (rows · worlds, ...), so that all rows are handled as one step."""
        pose, twist = self.pose.astype(float), self.twist.astype(float)
        return self._timesteps(pose), self._timesteps(twist)

    def _split(self, x: np.ndarray) -> np.ndarray:
        """(count, rows · worlds, ...) as (rows, count, worlds, ...)."""
        return np.swapaxes(x.reshape(len(x), len(self.pose), self.soft.worlds, *x.shape[2:]), 0, 1)

    @staticmethod
    def _timesteps(x: np.ndarray) -> np.ndarray:
        """An array with its first two axes merged."""
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    def struct(self, first: int = 0, end: int | None = None):
        """The kernels' Path, from timestep ``first`` to ``end``."""
        structs = self.soft._stepper.structs
        struct, kinds = structs.Path(), structs.Path.vars
        struct.moves = int(self.moves)
        for prefix, poses in (("", self.starts), ("end_", self.ends)):
            poses = poses[first:end] if self.moves else poses
            quat = poses[..., 3:] / np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
            for name, array in (("position", poses[..., :3]), ("rotation", unit_quat_matrix(quat))):
                array = np.ascontiguousarray(array, dtype=self.soft.dtype)
                setattr(struct, prefix + name, as_items(array, kinds[prefix + name].type.dtype, 3))
        return struct

    def bars(self, motion_bar: np.ndarray) -> Named:
        """Cotangents of the given inputs, from motion_bar (timesteps, worlds, shapes, 12): rotation in world axes and
        translation, at the beginning and at the end of steps."""
        bar = motion_bar.reshape(-1, self.hold, *motion_bar.shape[1:])
        moved = np.zeros((*self.poses.shape[:-1], 6))
        moved[:, :-1] += bar[..., :6]
        moved[:, 1:] += bar[..., 6:]
        quat = self.poses[..., 3:]
        turns = unit_quat_matrix(quat / np.linalg.norm(quat, axis=-1, keepdims=True))
        local = np.einsum("...ji,...j->...i", turns, moved[..., :3])
        poses_bar = np.concatenate([moved[..., 3:], quat_bar_of_tangent(quat, local)], axis=-1)
        flat = np.swapaxes(poses_bar, 0, 1)
        flat = flat.reshape(len(flat), -1, *flat.shape[3:])
        nothing = np.zeros((*flat.shape[:-1], 6))
        pose_bar, twist_bar = carry_on_adjoint(*self._flat(), self.soft.dt, flat, nothing)
        found = {"pose": pose_bar.reshape(self.pose.shape), "twist": twist_bar.reshape(self.twist.shape)}
        return Named({name: found[name].astype(self.soft.dtype) for name in self.given})
