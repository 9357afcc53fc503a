"""Spans of tendons that wrap around geoms, in the file's pose: their part in tendons' Jacobians, and its adjoint."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from pullback.dynamics.ways import CYLINDER, Geoms, find_ways
from pullback.model.tendons import Span
from pullback.spatial import quat_bar_of_tangent, unit, unit_quat_matrix

if TYPE_CHECKING:
    from pullback.dynamics.rest_trees import Trees


class RestWraps:
    """The spans of a :class:`RestInertia` that have a geom. Points are those whose Jacobians it computes.

    spans:   (n,) indices among all spans
    geoms:   the geoms that some span wraps around; their centres are points
    geom:    (n,) the index of each span's geom in ``geoms``
    body:    (n,) the body that each geom is fixed to
    centre:  (n,) the point at the centre of each geom
    ends:    (2, n) the points at both ends of each span
    side:    (n,) the point that sets the side on which each passes the geom; arbitrary if ``has_side`` is False
    """

    def __init__(self, trees: Trees, spans: list[Span], geoms: np.ndarray, sites: np.ndarray):
        m, self.geoms = trees.mujoco, geoms
        first_site, first_geom = trees.nbody, trees.nbody + len(sites)
        self.spans = np.array([n for n, span in enumerate(spans) if span.geom >= 0], int)
        own = [spans[n] for n in self.spans]
        around, side = np.array([span.geom for span in own], int), np.array([span.side for span in own], int)
        self.geom, self.body = np.searchsorted(geoms, around), trees.body_number[m.geom_bodyid[around]]
        self.centre = first_geom + self.geom
        self.ends = first_site + np.searchsorted(sites, np.array([span.sites for span in own], int).reshape(-1, 2)).T
        self.side = np.where(side >= 0, first_site + np.searchsorted(sites, side), 0)
        self.has_side, self.is_cylinder = side >= 0, m.geom_type[around] == CYLINDER

    def forward(
        self, values: Mapping[str, np.ndarray], point: np.ndarray, R: np.ndarray, Jp: np.ndarray, Jr: np.ndarray
    ) -> SimpleNamespace:
        """Whether each span wraps, ``there`` (worlds, n), the gradients ``rows`` (worlds, n, nv) of the lengths, and
        what the adjoint needs."""
        worlds, around = len(point), self.geoms[self.geom]
        quat = unit(values["geom_quat"][:, around]) + np.zeros((worlds, 1, 1))
        radius = values["geom_size"][:, around, 0] + np.zeros((worlds, 1))
        axes = R[:, self.body] @ unit_quat_matrix(quat)
        kinds = {"is_cylinder": self.is_cylinder, "has_side": self.has_side}
        geoms = Geoms(point[:, self.centre], axes, radius, side=point[:, self.side], **kinds)
        x = np.stack([point[:, end] for end in self.ends])
        ways = find_ways(geoms, x, np.zeros_like(x))
        pulls = zip(ways.forces, self.ends, strict=True)
        rows = sum(np.einsum("wsi,wsid->wsd", F, Jp[:, end] - Jp[:, self.centre]) for F, end in pulls)
        rows = rows - np.einsum("wsi,wsid->wsd", ways.moment, Jr[:, self.body])
        return SimpleNamespace(there=ways.there, rows=rows, geoms=geoms, x=x)

    def adjoint(
        self, values: Mapping[str, np.ndarray], kept, pull: np.ndarray, Jp: np.ndarray, Jr: np.ndarray, bars
    ) -> dict[str, np.ndarray]:
        """Cotangents of the geoms' orientations and sizes, from ``pull``, that of ``rows``; zero where none wraps.

        bars:  the cotangents of points (point), their Jacobians (Jp, Jr) and body rotations (spin), which are added to
        """
        move = lambda J: np.einsum("wsid,wsd->wsi", J, pull)  # noqa: E731
        spin, centre = move(Jr[:, self.body]), move(Jp[:, self.centre])
        arms = kept.x - kept.geoms.centre
        v = np.stack([move(Jp[:, end]) for end in self.ends]) - centre - np.cross(spin, arms)
        ways = find_ways(kept.geoms, kept.x, v)
        spread = lambda x: x[..., None] * pull[..., None, :]  # noqa: E731
        add = lambda to, at, x: np.add.at(to, (slice(None), at), x)  # noqa: E731
        for end, F, x_bar in zip(self.ends, ways.forces, ways.moves(spin), strict=True):
            add(bars.Jp, end, spread(F))
            add(bars.Jp, self.centre, -spread(F))
            add(bars.point, end, x_bar)
            add(bars.point, self.centre, -x_bar)
        add(bars.Jr, self.body, -spread(ways.moment))
        add(bars.spin, self.body, ways.turn)
        result = {n: np.zeros((len(pull), *values[n].shape[1:])) for n in ("geom_quat", "geom_size")}
        geoms = self.geoms[self.geom]
        turned = quat_bar_of_tangent(values["geom_quat"][:, geoms], kept.geoms.local(ways.turn))
        add(result["geom_quat"], geoms, turned)
        np.add.at(result["geom_size"], (slice(None), geoms, 0), ways.by_radius_rate)
        return result
