"""Shapes that soft bodies touch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_friction, check_kind, check_number, unknown
from pullback.core.errors import PullbackError
from pullback.drawing.drawing import turns_from_z
from pullback.kernels.soft import kinds
from pullback.kernels.spatial import shape_kinds
from pullback.spatial import unit_quat_matrix

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
SIZES = {"plane": 0, "sphere": 1, "capsule": 2, "cylinder": 2, "box": 3}  # how many entries of ``size`` are used


@dataclass(frozen=True, eq=False)
class Shape:
    """A rigid shape that soft bodies cannot enter. Made by ``plane``, ``sphere``, ``capsule``, ``box`` and
    ``cylinder``.

    friction:  Coulomb's coefficient [1]; math.inf: sticky, without sliding while in contact
    clamped:   whether material inside does not move relative to the shape at all, not even away from it
    """

    kind: str
    size: np.ndarray  # (radius,), (radius, half length) or half sizes, padded with zeros to (3,) [m]
    position: np.ndarray
    quat: np.ndarray  # wxyz; the third axis is a plane's normal, or the axis of a capsule or cylinder
    friction: float = 0.0
    clamped: bool = False

    def __post_init__(self):
        if self.kind not in SIZES:
            raise PullbackError(unknown("kind of Shape", str(self.kind), SIZES))
        for name, count in (("size", 3), ("position", 3), ("quat", 4)):
            value = to_numbers(getattr(self, name), f"{name} of a Shape").astype(float)
            if value.shape != (count,) or not np.isfinite(value).all():
                raise PullbackError(f"{name} of a Shape must be {count} finite numbers, not of shape {value.shape}")
        if not np.all(np.asarray(self.size)[: SIZES[self.kind]] > 0) or not np.linalg.norm(self.quat) > 0:
            raise PullbackError(f"a {self.kind} needs sizes above zero, and a quaternion that is not zero")
        if abs(np.linalg.norm(self.quat) - 1) > 1e-12:
            object.__setattr__(self, "quat", self.quat / np.linalg.norm(self.quat))
        check_friction(self.friction, "the friction of a Shape")
        check_kind(self.clamped, bool, "clamped of a Shape")

    @classmethod
    def plane(cls, point, normal, *, friction: float = 0.0, clamped: bool = False) -> Shape:
        """A half space; the normal (3,) points out of it."""
        place = vector(point, "point"), turned(vector(normal, "normal"))
        return cls("plane", np.zeros(3), *place, friction, clamped)

    @classmethod
    def sphere(cls, centre, radius: float, *, friction: float = 0.0, clamped: bool = False) -> Shape:
        size = np.array([check_number(radius, "radius"), 0.0, 0.0])
        return cls("sphere", size, vector(centre, "centre"), np.array(UPRIGHT), friction, clamped)

    @classmethod
    def capsule(cls, start, end, radius: float, *, friction: float = 0.0, clamped: bool = False) -> Shape:
        """All points that are nearer to the segment from start to end than the radius."""
        return cls("capsule", *_along(start, end, radius), friction, clamped)

    @classmethod
    def cylinder(cls, start, end, radius: float, *, friction: float = 0.0, clamped: bool = False) -> Shape:
        """A cylinder with flat ends at ``start`` and ``end`` (3,) [m]."""
        return cls("cylinder", *_along(start, end, radius), friction, clamped)

    @classmethod
    def box(cls, centre, half, *, quat=UPRIGHT, friction: float = 0.0, clamped: bool = False) -> Shape:
        """half: half sizes (3,) [m]; quat: orientation (4,) wxyz."""
        half, quat = vector(half, "half"), to_numbers(quat, "quat").astype(float)
        if not np.all(half > 0) or quat.shape != (4,) or not np.linalg.norm(quat) > 0:
            raise PullbackError("a box needs three half sizes above zero, and a quaternion of four numbers")
        return cls("box", half, vector(centre, "centre"), quat / np.linalg.norm(quat), friction, clamped)

    @property
    def rotation(self) -> np.ndarray:
        """The rotation matrix, whose columns are the shape's axes."""
        return unit_quat_matrix(self.quat)

    def moved_to(self, pose: np.ndarray) -> Shape:
        """The same shape at another pose (7,): position and quaternion."""
        return replace(self, position=np.array(pose[:3]), quat=np.array(pose[3:]))

    @property
    def number(self) -> int:
        """The number of its kind in the kernels."""
        return int(getattr(shape_kinds, self.kind.upper()))

    @property
    def hold(self) -> int:
        """The number of its boundary condition for particles in the kernels."""
        return int(kinds.CLAMPED if self.clamped else kinds.STICKS if self.friction == math.inf else kinds.RUBS)

    def distance(self, points: np.ndarray) -> np.ndarray:
        """The distance of points (..., 3) from the surface (...) [m]; zero or less inside."""
        p = (points - self.position) @ self.rotation
        if self.kind == "plane":
            return p[..., 2]
        if self.kind == "cylinder":
            radial = np.linalg.norm(p[..., :2], axis=-1) - self.size[0]
            faces = np.stack([radial, np.abs(p[..., 2]) - self.size[1]], axis=-1)
            return np.linalg.norm(np.maximum(faces, 0), axis=-1)
        half = self.size if self.kind == "box" else np.array([0.0, 0.0, self.size[1]])
        away = np.linalg.norm(p - np.clip(p, -half, half), axis=-1)
        return away if self.kind == "box" else away - self.size[0]


def _along(start, end, radius: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Size, position and quaternion of a capsule or cylinder along a segment."""
    start, end = vector(start, "start"), vector(end, "end")
    size = np.array([check_number(radius, "radius"), float(np.linalg.norm(end - start)) / 2, 0.0])
    return size, (start + end) / 2, turned(end - start)


def vector(x, name: str) -> np.ndarray:
    x = to_numbers(x, name).astype(float)
    if x.shape != (3,) or not np.isfinite(x).all():
        raise PullbackError(f"{name} must be three finite numbers, not of shape {x.shape}")
    return x


def turned(z: np.ndarray) -> np.ndarray:
    """A quaternion that turns the z axis into the direction z."""
    length = np.linalg.norm(z)
    if not length > 0:
        raise PullbackError("the direction of a shape must not be zero")
    return turns_from_z(z[None] / length)[0]
