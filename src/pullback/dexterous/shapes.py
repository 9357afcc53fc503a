"""Convex shapes as functions of a point: how far it is, which way is out, and how far it sticks out.

Sizes may have leading axes that broadcast against those of the points, so that every sample of a batch has a size of
its own. All derivatives are exact away from the kinks of a shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import mujoco
import numpy as np

from pullback.core.errors import PullbackError

TINY = 1e-12  # a length below which a direction is not known [m]
_Kind = mujoco.mjtGeom


class Shape(ABC):
    """A convex body about the origin of its own frame."""

    @abstractmethod
    def distance(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of points x (..., 3) from the surface (...) [m], negative inside, and its gradient (..., 3)."""

    @abstractmethod
    def normal(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The outward normal (..., 3) of the piece of surface that x (..., 3) belongs to, and by x (..., 3, 3)."""

    @abstractmethod
    def outside(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From the nearest point of the shape to x (..., 3) [m], zero inside, and by x (..., 3, 3)."""

    def rim(self, x: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
        """How far x (..., 3) is in the rim of its face (..., 3) [m], which is so wide [m], and by x (..., 3, 3). Zero
        where faces have no edges."""
        return np.zeros_like(x), np.zeros((*x.shape, 3))

    @abstractmethod
    def balls(self) -> tuple[np.ndarray, np.ndarray]:
        """Centres (..., n, 3) [m] and radii (..., n) [m] of balls whose hull is the shape, or nearly."""

    def surface_towards(self, direction: np.ndarray) -> np.ndarray:
        """The point (3,) [m] where a ray from the centre along a direction (3,) leaves a shape of one size."""
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.distance(middle * direction)[0] < 0 else (low, middle)
        return low * direction


@dataclass(frozen=True)
class Ball(Shape):
    """radius: (...) [m]"""

    radius: np.ndarray | float

    def distance(self, x):
        length, along = _direction(x)
        return length - self.radius, along

    def normal(self, x):
        length, along = _direction(x)
        return along, _across(along) / length[..., None, None]

    def outside(self, x):
        return _beyond(x, np.asarray(self.radius))

    def balls(self):
        radius = np.asarray(self.radius, dtype=float)
        return np.zeros((*radius.shape, 1, 3)), radius[..., None]


@dataclass(frozen=True)
class Box(Shape):
    """half: (..., 3) half edges [m]"""

    half: np.ndarray

    POWER = 16

    def distance(self, x):
        half = np.broadcast_to(np.asarray(self.half, dtype=float), x.shape)
        over = np.abs(x) - half
        beyond = np.maximum(over, 0.0)
        out = np.linalg.norm(beyond, axis=-1)
        is_out = out > 0
        face = over.argmax(-1)
        sign = np.where(x < 0, -1.0, 1.0)
        inner = sign * (np.arange(3) == face[..., None])
        outer = sign * beyond / np.where(is_out, out, 1.0)[..., None]
        return np.where(is_out, out, over.max(-1)), np.where(is_out[..., None], outer, inner)

    def normal(self, x):
        """Of a box whose edges are a little round: that of the level sets of Σ (x/half)^16.

        With sharp edges a proposed force would have to jump where its point moves over an edge, which stops training.
        """
        half, power = np.asarray(self.half, dtype=float), self.POWER - 1
        share = np.abs(x) / half
        share = share / np.maximum(share.max(-1, keepdims=True), TINY)
        length, along = _direction(np.where(x < 0, -1.0, 1.0) * share**power / half)
        most = np.maximum((np.abs(x) / half).max(-1, keepdims=True), TINY)
        bend = power * share ** (power - 1) / (half**2 * most)
        return along, _across(along) / length[..., None, None] * bend[..., None, :]

    def outside(self, x):
        beyond = np.abs(x) - self.half > 0
        return np.where(beyond, x - np.sign(x) * self.half, 0.0), beyond[..., None] * np.eye(3)

    def rim(self, x, width):
        half = np.asarray(self.half, dtype=float)
        aside = np.arange(3) != (np.abs(x) - half).argmax(-1)[..., None]
        over = (np.abs(x) - half + width) * aside
        return np.maximum(over, 0.0) * np.sign(x), (over > 0)[..., None] * np.eye(3)

    def balls(self):
        corners = np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3, indexing="ij"), axis=-1).reshape(8, 3)
        half = np.asarray(self.half, dtype=float)
        return half[..., None, :] * corners, np.zeros((*half.shape[:-1], 8))


@dataclass(frozen=True)
class Capsule(Shape):
    """radius, half: (...) [m]; along z, and half of the length without the caps"""

    radius: np.ndarray | float
    half: np.ndarray | float

    SPACING = (
        0.5  # of balls along the axis, in radii: between two of them the hull is 3 % of the radius too thin at most
    )

    def _off_axis(self, x):
        """From the nearest point of the axis (..., 3), and its derivative, a diagonal (..., 3)."""
        z = x[..., 2]
        beyond = np.abs(z) > self.half
        off = np.stack([x[..., 0], x[..., 1], np.where(beyond, z - np.sign(z) * self.half, 0.0)], axis=-1)
        return off, np.stack([np.ones_like(z), np.ones_like(z), beyond.astype(float)], axis=-1)

    def distance(self, x):
        length, along = _direction(self._off_axis(x)[0])
        return length - self.radius, along

    def normal(self, x):
        off, kept = self._off_axis(x)
        length, along = _direction(off)
        return along, _across(along) / length[..., None, None] * kept[..., None, :]

    def outside(self, x):
        off, kept = self._off_axis(x)
        e, de = _beyond(off, np.asarray(self.radius))
        return e, de * kept[..., None, :]

    def balls(self):
        radius, half = np.asarray(self.radius, dtype=float), np.asarray(self.half, dtype=float)
        count = 1 + max(1, int(np.ceil(np.max(2 * half / (self.SPACING * radius)))))
        z = half[..., None] * np.linspace(-1, 1, count)
        return np.stack([0 * z, 0 * z, z], axis=-1), np.broadcast_to(radius[..., None], z.shape)


@dataclass(frozen=True)
class Cylinder(Shape):
    """radius, half: (...) [m]; along z, and half of the length"""

    radius: np.ndarray | float
    half: np.ndarray | float

    RIM = 16  # points on each rim that stand for it

    def _split(self, x):
        """Distance from the axis (...), the way from it (..., 3), over the side (...) and over an end (...) [m]."""
        flat = np.stack([x[..., 0], x[..., 1], np.zeros_like(x[..., 2])], axis=-1)
        reach, away = _direction(flat)
        return reach, away, reach - self.radius, np.abs(x[..., 2]) - self.half

    def distance(self, x):
        _, away, side, end = self._split(x)
        up = np.where(x[..., 2] < 0, -1.0, 1.0)[..., None] * np.array([0.0, 0.0, 1.0])
        a, b = np.maximum(side, 0.0), np.maximum(end, 0.0)
        out = np.hypot(a, b)
        scale = np.where(out > 0, out, 1.0)[..., None]
        corner = (a[..., None] * away + b[..., None] * up) / scale
        inner = np.where((side > end)[..., None], away, up)
        return np.where(out > 0, out, np.maximum(side, end)), np.where((out > 0)[..., None], corner, inner)

    def normal(self, x):
        """Of a cylinder whose rims are a little round, as the edges of a box: the level sets of (ρ/radius)^16 +
        (z/half)^16."""
        reach, away, _, _ = self._split(x)
        radius, half, power = np.asarray(self.radius), np.asarray(self.half), Box.POWER - 1
        sign, up = np.where(x[..., 2] < 0, -1.0, 1.0), np.array([0.0, 0.0, 1.0])
        aside, tall = reach / radius, np.abs(x[..., 2]) / half
        most = np.maximum(np.maximum(aside, tall), TINY)
        out, high = (aside / most) ** power / radius, sign * (tall / most) ** power / half
        length, along = _direction(out[..., None] * away + high[..., None] * up)
        bend_out = power * (aside / most) ** (power - 1) / (radius**2 * most)
        bend_high = power * (tall / most) ** (power - 1) / (half**2 * most)
        ring = np.diag([1.0, 1.0, 0.0]) - away[..., :, None] * away[..., None, :]
        slope = (
            bend_out[..., None, None] * away[..., :, None] * away[..., None, :]
            + (out / reach)[..., None, None] * ring
            + bend_high[..., None, None] * np.diag(up)
        )
        return along, _across(along) / length[..., None, None] @ slope

    def outside(self, x):
        reach, away, side, end = self._split(x)
        flat = np.array([1.0, 1.0, 0.0])
        e, de = _beyond(reach[..., None] * away, np.asarray(self.radius))
        over = (end > 0)[..., None]
        up = np.array([0.0, 0.0, 1.0])
        tall = np.where(x[..., 2:] < 0, -1.0, 1.0) * end[..., None] * up
        return e + np.where(over, tall, 0.0), de * flat + over[..., None] * np.diag(up)

    def rim(self, x, width):
        reach, away, side, end = self._split(x)
        at_side = (side > end)[..., None]
        tall = np.maximum(end + width, 0.0)[..., None] * np.where(x[..., 2:] < 0, -1.0, 1.0) * np.array([0.0, 0.0, 1.0])
        by_tall = ((end + width) > 0)[..., None, None] * np.diag([0.0, 0.0, 1.0])
        wide, by_wide = _beyond(reach[..., None] * away, np.asarray(self.radius) - width)
        return np.where(at_side, tall, wide), np.where(at_side[..., None], by_tall, by_wide * np.array([1.0, 1.0, 0.0]))

    def balls(self):
        radius, half = np.asarray(self.radius, dtype=float), np.asarray(self.half, dtype=float)
        angle = np.linspace(0, 2 * np.pi, self.RIM, endpoint=False)
        rim = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1) * radius[..., None, None]
        tall = np.array([0.0, 0.0, 1.0]) * half[..., None, None]
        centres = np.concatenate([rim + tall, rim - tall], axis=-2)
        return centres, np.zeros(centres.shape[:-1])


@dataclass(frozen=True)
class Placed(Shape):
    """A shape somewhere else.

    shape, at, turn: the shape, the place of its origin (3,) [m], and its rotation matrix (3, 3)
    """

    shape: Shape
    at: np.ndarray
    turn: np.ndarray

    def _in(self, x):
        return (x - self.at) @ self.turn

    def distance(self, x):
        d, g = self.shape.distance(self._in(x))
        return d, g @ self.turn.T

    def normal(self, x):
        n, dn = self.shape.normal(self._in(x))
        return n @ self.turn.T, self.turn @ dn @ self.turn.T

    def outside(self, x):
        e, de = self.shape.outside(self._in(x))
        return e @ self.turn.T, self.turn @ de @ self.turn.T

    def rim(self, x, width):
        e, de = self.shape.rim(self._in(x), width)
        return e @ self.turn.T, self.turn @ de @ self.turn.T

    def balls(self):
        centres, radii = self.shape.balls()
        return self.at + centres @ self.turn.T, radii


@dataclass(frozen=True)
class Union(Shape):
    """Several shapes: a point belongs to the nearest."""

    shapes: tuple[Shape, ...]

    def _nearest(self, x, name, *more):
        if len(self.shapes) == 1:
            return getattr(self.shapes[0], name)(x, *more)
        nearest = np.argmin([shape.distance(x)[0] for shape in self.shapes], axis=0)
        value, slope = getattr(self.shapes[0], name)(x, *more)
        for k, shape in enumerate(self.shapes[1:], start=1):
            other, its_slope = getattr(shape, name)(x, *more)
            chosen = nearest == k
            value = np.where(chosen.reshape(chosen.shape + (1,) * (value.ndim - chosen.ndim)), other, value)
            slope = np.where(chosen.reshape(chosen.shape + (1,) * (slope.ndim - chosen.ndim)), its_slope, slope)
        return value, slope

    def distance(self, x):
        return self._nearest(x, "distance")

    def normal(self, x):
        return self._nearest(x, "normal")

    def outside(self, x):
        return self._nearest(x, "outside")

    def rim(self, x, width):
        return self._nearest(x, "rim", width)

    def balls(self):
        parts = [shape.balls() for shape in self.shapes]
        return tuple(
            np.concatenate(part, axis=-1 - k) for part, k in zip(zip(*parts, strict=True), (1, 0), strict=True)
        )


@dataclass(frozen=True)
class Assorted(Shape):
    """To each sample its own shape. Points have the samples as the last axis before their three numbers.

    kind:    which of the shapes (samples,)
    shapes:  all of them, with sizes for every sample (samples, ...)
    """

    kind: np.ndarray
    shapes: tuple[Shape, ...]

    def _own(self, x, name, *more):
        value, slope = getattr(self.shapes[0], name)(x, *more)
        for k, shape in enumerate(self.shapes[1:], start=1):
            other, its_slope = getattr(shape, name)(x, *more)
            chosen = np.broadcast_to(self.kind == k, x.shape[:-1])
            value = np.where(chosen.reshape(chosen.shape + (1,) * (value.ndim - chosen.ndim)), other, value)
            slope = np.where(chosen.reshape(chosen.shape + (1,) * (slope.ndim - chosen.ndim)), its_slope, slope)
        return value, slope

    def distance(self, x):
        return self._own(x, "distance")

    def normal(self, x):
        return self._own(x, "normal")

    def outside(self, x):
        return self._own(x, "outside")

    def rim(self, x, width):
        return self._own(x, "rim", width)

    def balls(self):
        """Where one shape has fewer than another, its last ball is there several times."""
        parts = [shape.balls() for shape in self.shapes]
        most = max(radii.shape[-1] for _, radii in parts)
        centres, radii = np.zeros((len(self.kind), most, 3)), np.zeros((len(self.kind), most))
        for k, (c, r) in enumerate(parts):
            which = np.minimum(np.arange(most), r.shape[-1] - 1)
            own = self.kind == k
            centres[own], radii[own] = c[own][:, which], r[own][:, which]
        return centres, radii


@dataclass(frozen=True)
class HalfSpace(Shape):
    """All that lies below a height [m]: the top of a table."""

    height: float = 0.0

    UP = np.array([0.0, 0.0, 1.0])

    def distance(self, x):
        return x[..., 2] - self.height, np.broadcast_to(self.UP, x.shape)

    def normal(self, x):
        return np.broadcast_to(self.UP, x.shape), np.zeros((*x.shape, 3))

    def outside(self, x):
        above = (x[..., 2:] > self.height).astype(float)
        return above * (x[..., 2:] - self.height) * self.UP, above[..., None] * np.diag(self.UP)

    def balls(self):
        raise PullbackError("a half-space has no end: balls cannot fill it")


def shape_of(mj_model: mujoco.MjModel, geom: int) -> Shape:
    """A geom of a compiled file, where it is in its body."""
    kind, size = _Kind(mj_model.geom_type[geom]), mj_model.geom_size[geom]
    made = {
        _Kind.mjGEOM_SPHERE: lambda: Ball(size[0]),
        _Kind.mjGEOM_BOX: lambda: Box(size.copy()),
        _Kind.mjGEOM_CAPSULE: lambda: Capsule(size[0], size[1]),
        _Kind.mjGEOM_CYLINDER: lambda: Cylinder(size[0], size[1]),
    }.get(kind)
    if made is None:
        name = mj_model.geom(geom).name or geom
        raise PullbackError(
            f"geom {name!r} is a {kind.name.removeprefix('mjGEOM_').lower()}: contacts are proposed on spheres, boxes, "
            "capsules and cylinders; build other bodies, convex or not, from several of these"
        )
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, mj_model.geom_quat[geom])
    return Placed(made(), mj_model.geom_pos[geom].copy(), turn.reshape(3, 3))


def _direction(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length (...), at least TINY, and unit vector (..., 3) of x (..., 3)."""
    length = np.maximum(np.linalg.norm(x, axis=-1), TINY)
    return length, x / length[..., None]


def _across(along: np.ndarray) -> np.ndarray:
    """The projection (..., 3, 3) across a unit vector (..., 3)."""
    return np.eye(3) - along[..., :, None] * along[..., None, :]


def _beyond(off: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much a vector (..., 3) is longer than a radius (...): a vector along it, and its derivative."""
    length, along = _direction(off)
    over = np.maximum(length - radius, 0.0)
    slope = (over / length)[..., None, None] * _across(along)
    return over[..., None] * along, slope + (over > 0)[..., None, None] * along[..., :, None] * along[..., None, :]
