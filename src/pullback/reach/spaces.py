"""Task spaces that poses live in: how a pose is stored, what a map sees of it, and how it moves.

    name  a pose                          features                  a tangent step
    R2    x, y                            x, y                      dx, dy
    SO2   angle                           rotation matrix, 4        change of the angle
    SE2   x, y, yaw                       x, y, rotation matrix     dx, dy, change of the angle
    R3    x, y, z                         x, y, z                   dx, dy, dz
    SO3   quaternion                      rotation matrix, 9        rotation vector in the body's own axes
    SE3   x, y, z, quaternion             x, y, z, rotation matrix  dx, dy, dz, rotation vector in the body's own axes

Positions are in metres, angles in radians, quaternions wxyz of any length but zero, matrices row by row. Steps of the
position are along the axes of the frame that the pose is given in, as for MuJoCo's free joint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.errors import PullbackError
from pullback.spatial import cross_matrix, quat_conj, quat_exp, quat_log, quat_matrix, quat_mul

# A quaternion shorter than this has no direction. [1]
SHORTEST_QUATERNION = 1e-12
# Squares of larger numbers are no numbers in single precision any more. [m, rad, 1]
LARGEST = 1e9


@dataclass(frozen=True)
class Space:
    """One of the six spaces; get one by :func:`space`. All functions take arrays of any leading shape."""

    name: str
    dimensions: int  # of the position: 0, 2 or 3
    rotation: str  # "none", "angle" or "quaternion"

    def __repr__(self) -> str:
        return f"Space({self.name})"

    @property
    def sample_size(self) -> int:
        return self.dimensions + {"none": 0, "angle": 1, "quaternion": 4}[self.rotation]

    @property
    def feature_size(self) -> int:
        return self.dimensions + {"none": 0, "angle": 4, "quaternion": 9}[self.rotation]

    @property
    def tangent_size(self) -> int:
        return self.dimensions + {"none": 0, "angle": 1, "quaternion": 3}[self.rotation]

    def check(self, poses, name: str = "poses") -> np.ndarray:
        """Poses as a float64 array (n, sample size), or an error that names the row that cannot be used."""
        array = np.asarray(to_numbers(poses, name), dtype=float)
        if array.ndim != 2 or array.shape[1] != self.sample_size:
            raise PullbackError(
                f"{name} has shape {array.shape}, but (n, {self.sample_size}) is needed for poses in {self.name}"
            )
        bad = np.flatnonzero(~(np.abs(array) <= LARGEST).all(axis=1))
        if len(bad):
            raise PullbackError(f"row {bad[0]} of {name} is not finite, or beyond {LARGEST:g}: {array[bad[0]]}")
        if self.rotation == "quaternion":
            length = np.linalg.norm(array[:, self.dimensions :], axis=1)
            bad = np.flatnonzero(length < SHORTEST_QUATERNION)
            if len(bad):
                raise PullbackError(f"the quaternion in row {bad[0]} of {name} has no length; no rotation is 1 0 0 0")
        return array

    # --- what a map sees ---------------------------------------------------------------------------

    def rotation_matrix(self, poses: np.ndarray) -> np.ndarray:
        """Rotation matrices (..., 2, 2) or (..., 3, 3) of poses."""
        rotation = poses[..., self.dimensions :]
        if self.rotation == "quaternion":
            return quat_matrix(rotation)
        c, s = np.cos(rotation[..., 0]), np.sin(rotation[..., 0])
        return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)

    def features(self, poses) -> np.ndarray:
        """Position [m] and the entries of the rotation matrix, (..., feature size): smooth in every direction."""
        poses = np.asarray(poses, dtype=float)
        position = poses[..., : self.dimensions]
        if self.rotation == "none":
            return position.copy()
        matrix = self.rotation_matrix(poses)
        return np.concatenate([position, matrix.reshape(*matrix.shape[:-2], -1)], axis=-1)

    # --- how poses move ----------------------------------------------------------------------------

    def integrate(self, poses, steps) -> np.ndarray:
        """Poses (..., sample size) moved by tangent steps (..., tangent size) [m, rad]."""
        poses, steps = np.asarray(poses, dtype=float), np.asarray(steps, dtype=float)
        n = self.dimensions
        parts = [poses[..., :n] + steps[..., :n]]
        if self.rotation == "angle":
            parts.append(poses[..., n:] + steps[..., n:])
        elif self.rotation == "quaternion":
            unit = poses[..., n:] / np.linalg.norm(poses[..., n:], axis=-1, keepdims=True)
            parts.append(quat_mul(unit, quat_exp(steps[..., n:])))
        return np.concatenate(parts, axis=-1)

    def difference(self, start, end) -> np.ndarray:
        """The tangent step (..., tangent size) that leads from ``start`` to ``end``: the inverse of integrate."""
        start, end = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
        n = self.dimensions
        parts = [end[..., :n] - start[..., :n]]
        if self.rotation == "angle":
            parts.append(shortest_angle(end[..., n:] - start[..., n:]))
        elif self.rotation == "quaternion":
            parts.append(quat_log(quat_mul(quat_conj(start[..., n:]), end[..., n:])))
        return np.concatenate(parts, axis=-1)

    def compose(self, base, poses) -> np.ndarray:
        """``poses`` as seen from the poses ``base``, in the frame that those are given in: base · poses."""
        base, poses = np.broadcast_arrays(np.asarray(base, dtype=float), np.asarray(poses, dtype=float))
        n = self.dimensions
        if self.rotation == "none":
            return base + poses
        position = base[..., :n]
        if n:
            position = position + np.einsum("...ij,...j->...i", self.rotation_matrix(base), poses[..., :n])
        add = np.add if self.rotation == "angle" else quat_mul
        return np.concatenate([position, add(base[..., n:], poses[..., n:])], axis=-1)

    def relative(self, base, poses) -> np.ndarray:
        """``poses`` as seen from the poses ``base``, both given in one frame: base⁻¹ · poses."""
        base, poses = np.asarray(base, dtype=float), np.asarray(poses, dtype=float)
        n = self.dimensions
        apart = poses[..., :n] - base[..., :n]
        if self.rotation == "none":
            return apart
        if n:
            apart = np.einsum("...ji,...j->...i", self.rotation_matrix(base), apart)
        if self.rotation == "angle":
            rotation = shortest_angle(poses[..., n:] - base[..., n:])
        else:
            rotation = quat_mul(quat_conj(base[..., n:]), poses[..., n:])
            rotation = rotation / np.linalg.norm(rotation, axis=-1, keepdims=True)
        return np.concatenate([apart, rotation], axis=-1)

    def relative_jacobians(self, base, poses) -> tuple[np.ndarray, np.ndarray]:
        """How relative(base, poses) moves with steps of ``base`` and with steps of ``poses``: (..., tangent, tangent).

        All three steps are tangent steps; the relative pose's are along the axes of ``base``.
        """
        base, poses = np.asarray(base, dtype=float), np.asarray(poses, dtype=float)
        n, size = self.dimensions, self.tangent_size
        seen = self.relative(base, poses)
        by_base, by_poses = (np.zeros((*seen.shape[:-1], size, size)) for _ in range(2))
        if self.rotation == "none":
            by_base[...], by_poses[...] = -np.eye(size), np.eye(size)
            return by_base, by_poses
        back = np.swapaxes(self.rotation_matrix(base), -1, -2)
        if n:
            by_base[..., :n, :n], by_poses[..., :n, :n] = -back, back
        by_poses[..., n:, n:] = np.eye(size - n)
        if self.rotation == "angle":
            by_base[..., n, n] = -1.0
            if n:  # rotating the base by d moves what it sees by -d × p
                by_base[..., 0, n], by_base[..., 1, n] = seen[..., 1], -seen[..., 0]
        else:
            by_base[..., n:, n:] = -np.swapaxes(self.rotation_matrix(seen), -1, -2)
            if n:
                by_base[..., :n, n:] = cross_matrix(seen[..., :n])
        return by_base, by_poses

    # --- boxes of poses ----------------------------------------------------------------------------

    def bounds(self, poses, pad: float = 1.0) -> np.ndarray:
        """The box (2, dimensions) [m] that positions of poses (n, sample size) lie in, grown by ``pad`` in all."""
        position = np.asarray(poses, dtype=float)[:, : self.dimensions]
        low, high = position.min(axis=0), position.max(axis=0)
        middle, half = (low + high) / 2, pad * (high - low) / 2
        return np.stack([middle - half, middle + half])

    def random(self, n: int, bounds, rng: np.random.Generator) -> np.ndarray:
        """n poses (n, sample size): positions uniform in a box (2, dimensions) [m], rotations uniform."""
        low, high = np.asarray(bounds, dtype=float).reshape(2, self.dimensions)
        parts = [rng.uniform(low, high, (n, self.dimensions))]
        if self.rotation == "angle":
            parts.append(rng.uniform(-np.pi, np.pi, (n, 1)))
        elif self.rotation == "quaternion":
            quat = rng.standard_normal((n, 4))
            parts.append(quat / np.linalg.norm(quat, axis=1, keepdims=True))
        return np.concatenate(parts, axis=1)

    def grid(self, at, axes: tuple[int, int], ranges, counts: tuple[int, int]) -> np.ndarray:
        """Poses (counts[0], counts[1], sample size): the pose ``at`` moved along two axes of the tangent space.

        ranges: (2, 2) [m or rad], from and to of each axis; a position is where it says, a rotation is relative to
        ``at``.
        """
        at = np.asarray(at, dtype=float)
        steps = np.zeros((*counts, self.tangent_size))
        for side, (axis, (low, high), count) in enumerate(zip(axes, ranges, counts, strict=True)):
            values = np.linspace(low, high, count) - (at[axis] if axis < self.dimensions else 0.0)
            steps[..., axis] = values[:, None] if side == 0 else values[None, :]
        return self.integrate(at, steps)


SPACES = {
    "R2": Space("R2", 2, "none"),
    "SO2": Space("SO2", 0, "angle"),
    "SE2": Space("SE2", 2, "angle"),
    "R3": Space("R3", 3, "none"),
    "SO3": Space("SO3", 0, "quaternion"),
    "SE3": Space("SE3", 3, "quaternion"),
}


def space(name: str | Space) -> Space:
    """The space of that name: R2, SO2, SE2, R3, SO3 or SE3."""
    if isinstance(name, Space):
        return name
    if not isinstance(name, str) or name not in SPACES:
        raise PullbackError(f"there is no space {name!r}; there are {', '.join(SPACES)}")
    return SPACES[name]


def shortest_angle(angle: np.ndarray) -> np.ndarray:
    """The same rotation by an angle in (-π, π] [rad]."""
    return np.pi - np.mod(np.pi - angle, 2 * np.pi)
