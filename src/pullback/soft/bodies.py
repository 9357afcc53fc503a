"""Bodies of particles, muscles and walls: the parts of a :class:`pullback.soft.Particles`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_friction, check_kind, check_number, check_wholes
from pullback.core.errors import PullbackError
from pullback.kernels.soft import kinds
from pullback.soft.materials import Material


@dataclass(frozen=True, eq=False)
class Muscle:
    """Fibres along a direction (d,) of the body at rest. A control of one contracts them with ``strength`` [Pa]:
    tau += strength · control · F d d^T F^T. Bodies with the same Muscle share its control."""

    direction: Sequence[float]
    strength: float = 1.0

    def __post_init__(self):
        direction = to_numbers(self.direction, "the direction of a Muscle").astype(float)
        length = np.linalg.norm(direction)
        if direction.shape not in ((2,), (3,)) or not 0 < length < math.inf:
            raise PullbackError(f"the direction of a Muscle is a vector of 2 or 3 numbers, not {self.direction!r}")
        object.__setattr__(self, "direction", direction / length)
        check_number(self.strength, "the strength of a Muscle", above=None)


@dataclass(frozen=True, eq=False)
class Body:
    """Particles of one material.

    points:  (n, 2) or (n, 3) positions at rest [m]
    volume:  of each particle, one number or (n,) [m³], in the plane [m²]
    muscle:  the Muscle whose fibres run through the body, or None
    name:    for messages
    """

    points: np.ndarray
    material: Material
    volume: float | np.ndarray
    muscle: Muscle | None = None
    name: str = ""

    def __post_init__(self):
        points = to_numbers(self.points, "points").astype(float)
        if points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points) or not np.isfinite(points).all():
            raise PullbackError(f"points of a Body must be finite, of shape (n, 2) or (n, 3), not {points.shape}")
        volume = to_numbers(self.volume, "volume").astype(float)
        if volume.shape not in ((), (len(points),)) or not np.all((volume > 0) & np.isfinite(volume)):
            raise PullbackError("the volume of a Body's particles must be positive, one number or one per point")
        check_kind(self.material, Material, "material", "soft.NeoHookean(young=1e5, density=1e3)")
        if self.muscle is not None:
            check_kind(self.muscle, Muscle, "muscle")
            if len(self.muscle.direction) != points.shape[1]:
                raise PullbackError("the direction of a Muscle must have as many numbers as the points of its Body")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "volume", np.broadcast_to(volume, len(points)))


def block(low, high, counts, material: Material, *, muscle: Muscle | None = None, name: str = "") -> Body:
    """A :class:`Body` that fills the box from ``low`` to ``high`` (d,) [m]; counts (d,): particles along each axis."""
    low, high = (to_numbers(x, name).astype(float) for x, name in ((low, "low"), (high, "high")))
    counts = check_wholes(counts, "counts")
    if low.shape != (len(counts),) or high.shape != low.shape or not np.all(low < high):
        raise PullbackError("low, high and counts of a block must have one number per axis, and low be below high")
    spacing = (high - low) / counts
    axes = [a + (np.arange(count) + 0.5) * s for a, s, count in zip(low, spacing, counts, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(counts))
    return Body(points, material, float(np.prod(spacing)), muscle, name)


@dataclass(frozen=True, eq=False)
class Wall:
    """A half space that material cannot enter: it acts on the grid nodes on and behind its surface.

    point, normal:  (d,) a point on its surface [m], and the direction into the free half space
    friction:       Coulomb's coefficient; 0: frictionless; math.inf: sticky, without sliding while in contact
    clamped:        whether nothing behind it moves at all, not even away from it
    """

    point: Sequence[float]
    normal: Sequence[float]
    friction: float = 0.0
    clamped: bool = False

    def __post_init__(self):
        point, normal = (to_numbers(x, f"the {n} of a Wall").astype(float) for x, n in (
            (self.point, "point"), (self.normal, "normal")))  # fmt: skip
        length = np.linalg.norm(normal)
        right = 0 < length < math.inf and np.isfinite(point).all()
        if point.shape != normal.shape or point.shape not in ((2,), (3,)) or not right:
            raise PullbackError("point and normal of a Wall are vectors of 2 or 3 finite numbers, the normal not zero")
        check_friction(self.friction, "the friction of a Wall")
        check_kind(self.clamped, bool, "clamped of a Wall")
        object.__setattr__(self, "point", point)
        object.__setattr__(self, "normal", normal / length)

    @property
    def kind(self) -> int:
        """The number of its boundary condition in the kernels."""
        return int(kinds.CLAMPED if self.clamped else kinds.STICKS if self.friction == math.inf else kinds.RUBS)


def room(low, high, *, friction: float = 0.0) -> list[Wall]:
    """Walls all around the box from ``low`` to ``high`` (d,) [m]."""
    low, high = (to_numbers(x, name).astype(float) for x, name in ((low, "low"), (high, "high")))
    if low.shape != high.shape or low.shape not in ((2,), (3,)) or not np.all(low < high):
        raise PullbackError("low and high of a room must be corners of 2 or 3 numbers, and low be below high")
    inwards = np.eye(len(low))
    return [Wall(p, s * n, friction) for n in inwards for p, s in ((low, 1.0), (high, -1.0))]
