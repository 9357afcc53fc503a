"""What shapes are as rounded hulls of points, how the potential depends on a distance, and which moves are safe."""

import warp as wp

from ..collision.shapes import CAPSULE, CYLINDER, MESH, SPHERE
from ..spatial.algebra import ang, pack, velocity_at
from ..spatial.scalar import real, vec3, vec6

# A step of the solver leaves at least this share of every gap; and aims at a little more.
KEPT_SHARE = wp.constant(real(0.5))
AIMED_SHARE = wp.constant(real(0.6))
# Cosine of the angle that the direction of a gap may turn by in such a step.
NOT_FAR = wp.constant(real(0.7))


@wp.func
def hull_scale(kind: int, size: vec3):
    """What the points of a shape are multiplied with, axis by axis."""
    scale = size
    if kind == MESH:
        scale = vec3(real(1.0), real(1.0), real(1.0))
    elif kind == CAPSULE or kind == CYLINDER:
        scale = vec3(size[0], size[0], size[1])
    return scale


@wp.func
def hull_radius(kind: int, size: vec3):
    return wp.where(kind == SPHERE or kind == CAPSULE, size[0], real(0.0))


@wp.func
def distance_law(distance: real, length: real):
    """2 √(L/d) + L/d, minus its derivative, and its second derivative."""
    x = length / distance
    root = wp.sqrt(x)
    slope = (root + x) / distance
    return real(2.0) * root + x, slope, (real(1.5) * root + real(2.0) * x) / (distance * distance)


@wp.func
def allowed_share(now: real, before: real):
    """1 where enough is left of a distance; else the share of the way to here after which there would be."""
    share = real(1.0)
    if not now >= KEPT_SHARE * before:  # written so that a NaN counts too
        share = wp.clamp((real(1.0) - AIMED_SHARE) * before / (before - now), real(0.05), real(0.9))
    return share


@wp.func
def about(motion: vec6, o: vec3, x: vec3):
    """A motion about o as one about x."""
    return pack(ang(motion), velocity_at(motion, x - o))
