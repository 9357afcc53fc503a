"""Wrapping of tendons around geoms, on the host in float64, for the inverse weights and the sensors. It calls the
functions of the kernels (``kernels/spatial/wrapping.py``) at given positions and velocities."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import warp as wp

from pullback.core.launch import launch
from pullback.kernels import specialise

CYLINDER = int(mujoco.mjtGeom.mjGEOM_CYLINDER)


@dataclass(frozen=True)
class Geoms:
    """Poses and sizes of n geoms that tendons wrap around, in the world.

    centre, axes:  (rows, n, 3) and (rows, n, 3, 3)
    radius:        (rows, n)
    is_cylinder:   (n,)
    side, has_side: (rows, n, 3) points on the side where a tendon passes its geom, and (n,) whether there is one
    """

    centre: np.ndarray
    axes: np.ndarray
    radius: np.ndarray
    is_cylinder: np.ndarray
    side: np.ndarray
    has_side: np.ndarray

    def local(self, x: np.ndarray) -> np.ndarray:
        """Vectors in world axes, expressed in the frames of the geoms."""
        return np.einsum("rnji,...rnj->...rni", self.axes, x)

    def world(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("rnij,...rnj->...rni", self.axes, x)


@dataclass(frozen=True)
class Ways:
    """Paths from x[0] to x[1] around geoms. The ends move with v (2, rows, n, 3) relative to the geoms' bodies.

    there:           (rows, n) whether a path wraps; the other fields are zero where it does not
    length, rate:    (rows, n) length of the path, and its time derivative
    forces, rates:   (2, rows, n, 3) derivatives of length and rate by x, the latter at constant v
    by_radius, by_radius_rate: (rows, n) derivatives of length and rate by the radius
    """

    arms: np.ndarray
    v: np.ndarray
    there: np.ndarray
    length: np.ndarray
    forces: np.ndarray
    rates: np.ndarray
    by_radius: np.ndarray
    by_radius_rate: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        return np.sum(self.forces * self.v, axis=(0, -1))

    @property
    def moment(self) -> np.ndarray:
        """The derivative of the length with respect to a rotation of the ends about the centre of the geom."""
        return np.cross(self.arms, self.forces).sum(axis=0)

    @property
    def turn(self) -> np.ndarray:
        """The derivative of the rate with respect to a rotation of the geom, at a constant v in the world."""
        return (np.cross(self.forces, self.v) - np.cross(self.arms, self.rates)).sum(axis=0)

    def moves(self, spin: np.ndarray) -> np.ndarray:
        """The derivative of the rate by the positions of both ends, if the body turns with ``spin`` (rows, n, 3)."""
        return self.rates - np.cross(self.forces, spin)


def find_ways(geoms: Geoms, x: np.ndarray, v: np.ndarray) -> Ways:
    """The paths for positions and velocities (2, rows, n, 3) of both ends."""
    kernels, shape = specialise("float64", "spatial.wrapping"), v.shape[1:3]
    vectors = lambda x: wp.array(np.ascontiguousarray(x), dtype=kernels.vec3, device="cpu")  # noqa: E731
    ints = lambda x: wp.array(np.asarray(x, np.int32), dtype=wp.int32, device="cpu")  # noqa: E731
    arms = x - geoms.centre
    given = [*map(vectors, geoms.local(arms)), wp.array(geoms.radius, dtype=wp.float64, device="cpu")]
    given += [ints(geoms.is_cylinder), ints(geoms.has_side), vectors(geoms.local(geoms.side - geoms.centre))]
    given += map(vectors, geoms.local(v))
    there, numbers = wp.zeros(shape, dtype=wp.int32, device="cpu"), (wp.float64,) * 3
    found = [wp.zeros(shape, dtype=dtype, device="cpu") for dtype in (*(kernels.vec3,) * 4, *numbers)]
    launch(kernels.find_bends, shape, [*given, there, *found], "cpu")
    force0, force1, rate0, rate1, length, by_radius, by_radius_rate = (each.numpy() for each in found)
    forces, rates = geoms.world(np.stack([force0, force1])), geoms.world(np.stack([rate0, rate1]))
    return Ways(arms, v, there.numpy() == 1, length, forces, rates, by_radius, by_radius_rate)
