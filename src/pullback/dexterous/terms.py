"""The residuals of physical consistency, each with its derivatives by the few numbers that it is made of.

A proposed contact is five vectors, in the frame of the object where nothing else is said:

    d   from the point on the object to the point on what touches it [m]
    w   velocity of what touches against that of the object, there [m/s]
    f   force on the object [N]
    p   the point on the object [m]
    s   the point on what touches, in its own frame [m]

Contact and force exclude each other softly: a force may be large or a distance, and not both (Mordatch, Popović and
Todorov, 2012). All residuals are zero where they are satisfied, but for the regularisers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.dexterous.shapes import Shape
from pullback.spatial import cross_matrix, log_jacobian, quat_conj, quat_log, quat_mul


@dataclass(frozen=True)
class Rows:
    """Residuals of a batch, and how they move.

    value:   (..., m)
    slopes:  by each of the vectors that they depend on, by name: (..., m, its length)
    """

    value: np.ndarray
    slopes: Mapping[str, np.ndarray]

    def __mul__(self, weight: float | np.ndarray) -> Rows:
        """The same, weighted by a number, or one per entry of the batch (...)."""
        weight = np.asarray(weight, dtype=float)[..., None]
        return Rows(self.value * weight, {name: x * weight[..., None] for name, x in self.slopes.items()})

    def jvp(self, tangents: Mapping[str, np.ndarray]) -> np.ndarray:
        """J d (..., m) of tangents (..., n) by name; what is not named stays."""
        return sum(
            (_times(self.slopes[name], d) for name, d in tangents.items() if name in self.slopes),
            np.zeros_like(self.value),
        )

    def vjp(self, bar: np.ndarray) -> dict[str, np.ndarray]:
        """Jᵀ bar by name, of a cotangent (..., m)."""
        return {name: _times(np.swapaxes(slope, -1, -2), bar) for name, slope in self.slopes.items()}


def times_force(distance: np.ndarray, f: np.ndarray, name: str) -> Rows:
    """All nine products of a distance ("d") or a slip ("w"), (..., 3), and a force (..., 3)."""
    eye = np.eye(3)
    by_first = (eye[:, None, :] * f[..., None, :, None]).reshape(*f.shape[:-1], 9, 3)
    by_force = (distance[..., :, None, None] * eye).reshape(*f.shape[:-1], 9, 3)
    return Rows((distance[..., :, None] * f[..., None, :]).reshape(*f.shape[:-1], 9), {name: by_first, "f": by_force})


def dissipation(w: np.ndarray, f: np.ndarray) -> Rows:
    """The power that a contact would put in (...) [W], which friction cannot: it may slide, but against its force."""
    power = -np.sum(w * f, axis=-1)
    on = (power > 0)[..., None]
    return Rows(on * power[..., None], {"w": (on * -f)[..., None, :], "f": (on * -w)[..., None, :]})


def within(shape: Shape, x: np.ndarray, name: str) -> Rows:
    """By how much a point (..., 3) leaves its shape, as a vector [m]."""
    value, slope = shape.outside(x)
    return Rows(value, {name: slope})


def off_edges(shape: Shape, x: np.ndarray, name: str, width: float) -> Rows:
    """How far a point (..., 3) is in the rim of its face [m], where a fingertip would slip off."""
    value, slope = shape.rim(x, width)
    return Rows(value, {name: slope})


def cone(f: np.ndarray, inward: np.ndarray, bend: Mapping[str, np.ndarray], friction: float) -> Rows:
    """How far a force (..., 3) is from the cone of friction about a unit normal (..., 3), as one number [N].

    inward:  the normal into the object
    bend:    how it moves with what it depends on, by name (..., 3, 3)
    """
    scale = np.hypot(1.0, friction)
    normal = np.sum(f * inward, axis=-1)
    across = f - normal[..., None] * inward
    t, size = np.linalg.norm(across, axis=-1), np.linalg.norm(f, axis=-1)
    beyond = (t - friction * normal) / scale
    behind = friction * t <= -normal  # the nearest point of the cone is its tip
    safe = np.maximum(t, 1e-300)[..., None]
    by_f = (across / safe - friction * inward) / scale
    by_normal = -((normal / safe[..., 0] + friction) / scale)[..., None] * f
    by_f = np.where(behind[..., None], f / np.maximum(size, 1e-300)[..., None], by_f)
    by_normal = np.where(behind[..., None], 0.0, by_normal)
    on = ((beyond > 0) & (size > 0))[..., None]
    value = np.where(on, np.where(behind, size, beyond)[..., None], 0.0)
    slopes = {name: (on * by_normal)[..., None, :] @ slope for name, slope in bend.items()}
    return Rows(value, {"f": (on * by_f)[..., None, :], **slopes})


def grip(f: np.ndarray, inward: np.ndarray, bend: Mapping[str, np.ndarray], least: np.ndarray | float) -> Rows:
    """What a force (..., 3) lacks of a normal force [N]."""
    lacks = least - np.sum(f * inward, axis=-1)
    on = (lacks > 0)[..., None]
    slopes = {name: -(on * f)[..., None, :] @ slope for name, slope in bend.items()}
    return Rows(np.where(on, lacks[..., None], 0.0), {"f": -(on * inward)[..., None, :], **slopes})


def untwisted(p: Sequence[np.ndarray], normals: Sequence[tuple[np.ndarray, np.ndarray]]) -> Rows:
    """The torque (..., 3) of equal forces along the normals of all contacts, per newton [m].

    p:        the points (..., 3), "p0", "p1", ...
    normals:  unit vectors (..., 3), and by their points (..., 3, 3)
    """
    value = sum(np.cross(point, normal) for point, (normal, _) in zip(p, normals, strict=True))
    slopes = {
        f"p{k}": cross_matrix(point) @ bend - cross_matrix(normal)
        for k, (point, (normal, bend)) in enumerate(zip(p, normals, strict=True))
    }
    return Rows(value, slopes)


def closer(distance: np.ndarray, slopes: Mapping[str, np.ndarray], margin: float) -> Rows:
    """By how much distances (..., m) are less than a margin [m]: penetration with 0, avoidance with more."""
    on = distance < margin
    return Rows(np.where(on, margin - distance, 0.0), {name: on[..., None] * -x for name, x in slopes.items()})


def slip_near(w: np.ndarray, d: np.ndarray, margin: float) -> Rows:
    """Slip (..., 3) where the points are closer than a margin, with the share of it that is left [m/s]."""
    length = np.maximum(np.linalg.norm(d, axis=-1, keepdims=True), 1e-12)
    share = np.maximum(1 - length / margin, 0.0)
    by_d = (share > 0)[..., None] * -w[..., :, None] * (d / (length * margin))[..., None, :]
    return Rows(share * w, {"w": share[..., None] * np.eye(3), "d": by_d})


def limits(q: np.ndarray, low: np.ndarray, high: np.ndarray) -> Rows:
    """By how much joints (..., n) are beyond their limits (n,) [rad or m]."""
    off = q - np.clip(q, low, high)
    return Rows(off, {"q": (off != 0)[..., None] * np.eye(q.shape[-1])})


def place(x: np.ndarray, goal: np.ndarray) -> Rows:
    """A position (..., 3) against its goal [m]."""
    return Rows(x - goal, {"x": np.broadcast_to(np.eye(3), (*x.shape, 3))})


def turned(quat: np.ndarray, goal: np.ndarray) -> Rows:
    """The rotation vector (..., 3) from a goal (..., 4) to a rotation (..., 4), by turns in the frame of the latter.

    It is never zero but at the goal: the skew part of the rotation matrix, which is often taken, is zero at 180° too.
    """
    phi = quat_log(quat_mul(quat_conj(goal), quat))
    return Rows(phi, {"turn": log_jacobian(phi)})


def near(x: np.ndarray, usual: np.ndarray | float, name: str) -> Rows:
    """A regulariser: a vector (..., n) against what it usually is."""
    return Rows(x - usual, {name: np.broadcast_to(np.eye(x.shape[-1]), (*x.shape, x.shape[-1]))})


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[..., None])[..., 0]
