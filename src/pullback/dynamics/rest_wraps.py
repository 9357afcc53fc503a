"""Pieces of tendons that wrap around geoms, in the pose of the file: their part of the Jacobians of tendons there, with
its adjoint. The geometry is that of the kernels (``kernels/spatial/wrapping.py``), in float64."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import mujoco
import numpy as np
import warp as wp

from pullback.core.launch import launch
from pullback.kernels import specialise
from pullback.model import Model
from pullback.model.tendons import Span
from pullback.spatial import quat_bar_of_tangent, unit, unit_quat_matrix

CYLINDER = int(mujoco.mjtGeom.mjGEOM_CYLINDER)


class RestWraps:
    """The spans that have a geom, of all spans of a :class:`RestInertia`, which has Jacobians of points.

    spans:   their numbers (n,)
    geoms:   those that any wraps around, whose centres are points
    geom:    the number of each span's among these (n,)
    body:    that each geom is fixed to (n,)
    centre:  the point at the centre of each geom (n,)
    ends:    the points at both ends of each (2, n)
    side:    the point that says on which side each is (n,), any if ``has_side`` is 0
    """

    def __init__(self, model: Model, spans: list[Span], geoms: np.ndarray, sites: np.ndarray):
        m, self.geoms = model.mujoco, geoms
        first_site, first_geom = model.nbody, model.nbody + len(sites)
        self.spans = np.array([n for n, span in enumerate(spans) if span.geom >= 0], int)
        own = [spans[n] for n in self.spans]
        around, side = np.array([span.geom for span in own], int), np.array([span.side for span in own], int)
        self.geom, self.body = np.searchsorted(geoms, around), m.geom_bodyid[around]
        self.centre = first_geom + self.geom
        self.ends = first_site + np.searchsorted(sites, np.array([span.sites for span in own], int).reshape(-1, 2)).T
        self.side = np.where(side >= 0, first_site + np.searchsorted(sites, side), 0)
        self.has_side, self.is_cylinder = side >= 0, m.geom_type[around] == CYLINDER

    def forward(
        self, values: Mapping[str, np.ndarray], point: np.ndarray, R: np.ndarray, Jp: np.ndarray, Jr: np.ndarray
    ):
        """Which of them wrap (worlds, n), the gradients ``rows`` (worlds, n, nv) of their lengths, and what the adjoint
        needs."""
        worlds = len(point)
        quat = unit(values["geom_quat"][:, self.geoms[self.geom]]) + np.zeros((worlds, 1, 1))
        axes = R[:, self.body] @ unit_quat_matrix(quat)
        local = lambda x: np.einsum("wsji,wsj->wsi", axes, x - point[:, self.centre])  # noqa: E731
        radius = values["geom_size"][:, self.geoms[self.geom], 0] + np.zeros((worlds, 1))
        places = *(local(point[:, end]) for end in self.ends), radius, local(point[:, self.side])
        found = self._bends(places, np.zeros((2, worlds, len(self.spans), 3)))
        forces = np.einsum("wsij,kwsj->kwsi", axes, found.forces)
        levers = point[:, self.ends].swapaxes(0, 1) - point[:, self.centre]
        moment = np.cross(levers, forces).sum(axis=0)
        pulls = zip(forces, self.ends, strict=True)
        rows = sum(np.einsum("wsi,wsid->wsd", F, Jp[:, end] - Jp[:, self.centre]) for F, end in pulls)
        rows = rows - np.einsum("wsi,wsid->wsd", moment, Jr[:, self.body])
        return SimpleNamespace(there=found.there, rows=rows, axes=axes, places=places, forces=forces, levers=levers)

    def adjoint(
        self, values: Mapping[str, np.ndarray], kept, pull: np.ndarray, Jp: np.ndarray, Jr: np.ndarray, bars
    ) -> dict[str, np.ndarray]:
        """Those of orientations and sizes of geoms, from that of ``rows``, which is zero where none wraps.

        bars:  Jp, Jr, point and spin, the cotangents of points, their Jacobians and of rotations of bodies: added to
        """
        move = lambda J: np.einsum("wsid,wsd->wsi", J, pull)  # noqa: E731
        spin, centre = move(Jr[:, self.body]), move(Jp[:, self.centre])
        sides = list(zip(self.ends, kept.forces, kept.levers, strict=True))
        v = np.stack([move(Jp[:, end]) - centre - np.cross(spin, arm) for end, _, arm in sides])
        found = self._bends(kept.places, np.einsum("wsji,kwsj->kwsi", kept.axes, v))
        push = np.einsum("wsij,kwsj->kwsi", kept.axes, found.rates)
        spread = lambda x: x[..., None] * pull[..., None, :]  # noqa: E731
        add = lambda to, at, x: np.add.at(to, (slice(None), at), x)  # noqa: E731
        for (end, F, arm), x_bar in zip(sides, push, strict=True):
            add(bars.Jp, end, spread(F))
            add(bars.Jp, self.centre, -spread(F))
            add(bars.Jr, self.body, -spread(np.cross(arm, F)))
            moved = x_bar - np.cross(F, spin)
            add(bars.point, end, moved)
            add(bars.point, self.centre, -moved)
        turn = (np.cross(kept.forces, v) - np.cross(kept.levers, push)).sum(axis=0)
        add(bars.spin, self.body, turn)
        result = {n: np.zeros((len(pull), *values[n].shape[1:])) for n in ("geom_quat", "geom_size")}
        own, geoms = np.einsum("wsji,wsj->wsi", kept.axes, turn), self.geoms[self.geom]
        add(result["geom_quat"], geoms, quat_bar_of_tangent(values["geom_quat"][:, geoms], own))
        np.add.at(result["geom_size"], (slice(None), geoms, 0), found.by_radius)
        return result

    def _bends(self, places: tuple, velocities: np.ndarray):
        """Forces, and their rates for the velocities (2, worlds, n, 3) of both ends; in the frames of geoms."""
        kernels, shape = specialise("float64", "spatial.wrapping"), velocities.shape[1:3]
        vectors = lambda x: wp.array(np.ascontiguousarray(x), dtype=kernels.vec3, device="cpu")  # noqa: E731
        ints = lambda x: wp.array(x.astype(np.int32), dtype=wp.int32, device="cpu")  # noqa: E731
        p0, p1, radius, side = places
        given = [vectors(p0), vectors(p1), wp.array(radius, dtype=wp.float64, device="cpu")]
        given += [ints(self.is_cylinder), ints(self.has_side), vectors(side), *map(vectors, velocities)]
        there = wp.zeros(shape, dtype=wp.int32, device="cpu")
        found = [wp.zeros(shape, dtype=kernels.vec3, device="cpu") for _ in range(4)]
        by_radius = wp.zeros(shape, dtype=wp.float64, device="cpu")
        launch(kernels.find_bends, shape, [*given, there, *found, by_radius], "cpu")
        F0, F1, rate0, rate1 = (x.numpy() for x in found)
        return SimpleNamespace(
            there=there.numpy() == 1,
            forces=np.stack([F0, F1]),
            rates=np.stack([rate0, rate1]),
            by_radius=by_radius.numpy(),
        )
