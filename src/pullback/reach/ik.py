"""What the solvers of inverse kinematics share, that of a chain and that of a whole robot: limits, starts, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_whole
from pullback.model import BALL, Model
from pullback.model.model import JOINT_COORDINATES, JOINT_DOFS
from pullback.spatial import quat_exp, quat_log

AT_LIMIT = 1e-9  # so near a limit a joint is at it [rad, m]


class Solutions(NamedTuple):
    """What inverse kinematics found for n poses."""

    q: np.ndarray  # (n, nq) coordinates of the model, at home but for the joints between base and tip
    reached: np.ndarray  # (n,) bool: within the limits, near enough, and free of collisions
    error: np.ndarray  # (n,) [m and rad, together] of the best that was found


def from_starts(
    q: np.ndarray, error: np.ndarray, starts: int, search: Callable[[int, np.ndarray], Solutions]
) -> Solutions:
    """Repeats a search for those of n poses that are not reached yet, and keeps the best result of each.

    q, error:  (n, nq) and (n,): the results to begin with, none of them reached
    search:    from the start of this number, for the poses of these indices
    """
    reached = np.zeros(len(q), bool)
    for start in range(check_whole(starts, "starts")):
        left = np.flatnonzero(~reached)
        if not len(left):
            break
        found = search(start, left)
        better = found.reached | (found.error < error[left])
        q[left[better]], error[left[better]] = found.q[better], found.error[better]
        reached[left] = found.reached
    return Solutions(q, reached, error)


class Joints:
    """Some joints of a model and their limits. Coordinates q (n, nq) and steps (n, nv) are of these joints alone.

    low, high:  (joints,) [rad, m], infinite where there is no limit; of a ball, ``high`` is the largest rotation
    """

    def __init__(self, model: Model, joints: Sequence[int]):
        self.model, self.joints = model, np.asarray(joints, int)
        self.kinds, mj = model.joint_type[self.joints], model.mujoco
        limited = mj.jnt_limited[self.joints].astype(bool)
        low, high = mj.jnt_range[self.joints].T
        self.low, self.high = np.where(limited, low, -np.inf), np.where(limited, high, np.inf)
        sizes, dofs = (np.array([of[int(kind)] for kind in self.kinds], int) for of in (JOINT_COORDINATES, JOINT_DOFS))
        self.nq, self.nv = int(sizes.sum()), int(dofs.sum())
        self.first_q, self.first_v = np.cumsum(sizes) - sizes, np.cumsum(dofs) - dofs
        in_model = [np.arange(q, q + n) for q, n in zip(model.joint_q[self.joints], sizes, strict=True)]
        self.in_model = np.concatenate([np.zeros(0, int), *in_model])  # where these coordinates are in the model's q
        self._plain = sizes == 1  # hinges and slides
        self._balls = np.flatnonzero((self.kinds == BALL) & np.isfinite(self.high))

    def random(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Coordinates (n, nq), uniform within the limits; a hinge without any turns all the way round."""
        columns = []
        for j, kind, low, high in zip(self.joints, self.kinds, self.low, self.high, strict=True):
            if kind == BALL:
                columns.append(random_rotations(n, min(high, np.pi), rng))
            else:
                q0 = self.model.q0[self.model.joint_q[j]]
                low, high = (q0 - np.pi, q0 + np.pi) if np.isinf(low) else (low, high)
                columns.append(rng.uniform(low, high, (n, 1)))
        return np.concatenate(columns, axis=1)

    def clamp(self, q: np.ndarray) -> np.ndarray:
        """Moves coordinates (n, nq) to within their limits, in place."""
        at = self.first_q[self._plain]
        q[:, at] = np.clip(q[:, at], self.low[self._plain], self.high[self._plain])
        for j in self._balls:
            part = slice(self.first_q[j], self.first_q[j] + 4)
            rotation = quat_log(q[:, part])
            angle = np.linalg.norm(rotation, axis=1, keepdims=True)
            q[:, part] = quat_exp(rotation * np.minimum(1.0, self.high[j] / np.maximum(angle, 1e-12)))
        return q

    def blocked(self, q: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Degrees of freedom (n, nv) of hinges and slides that are at a limit and pushed (n, nv) against it."""
        blocked = np.zeros(force.shape, bool)
        at, pushed = q[:, self.first_q[self._plain]], force[:, self.first_v[self._plain]]
        low, high = self.low[self._plain] + AT_LIMIT, self.high[self._plain] - AT_LIMIT
        blocked[:, self.first_v[self._plain]] = ((at <= low) & (pushed < 0)) | ((at >= high) & (pushed > 0))
        return blocked


def random_rotations(n: int, largest: float, rng: np.random.Generator) -> np.ndarray:
    """Quaternions (n, 4), uniform among the rotations by at most ``largest`` [rad]."""
    # The density of the angle is proportional to 1 - cos(angle): sampled by the inverse of its integral.
    angles = np.linspace(0.0, largest, 4097)
    share = angles - np.sin(angles)
    angle = np.interp(rng.uniform(0.0, share[-1], n), share, angles)[:, None]
    axis = rng.standard_normal((n, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), np.sin(angle / 2) * axis], axis=1)
