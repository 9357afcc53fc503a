"""The spans of spatial tendons, as the kernels' struct."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.dynamics.tendons import TendonLayout
from pullback.dynamics.ways import CYLINDER
from pullback.kernels import Flavour, specialise


def spans_struct(layout: TendonLayout, flavour: Flavour, device: str):
    """The kernels' Spans."""
    m, real = layout.mujoco, PRECISIONS[flavour.precision]
    result = specialise(flavour, "spans").Spans()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    spans = [span for of_one in layout.spans for span in of_one]
    counts = [len(of_one) for of_one in layout.spans] + [0] * (len(layout.dofs) - len(layout.spans))
    result.first = ints(np.concatenate([[0], np.cumsum(counts)]))
    bodies = np.zeros((len(spans), 3), int)
    for row, span in zip(bodies, spans, strict=True):
        row[: len(span.bodies(m))] = span.bodies(m)
    sites = np.array([span.sites for span in spans], int)
    result.body, result.site = ints(bodies), ints(np.searchsorted(layout.sites, sites))
    geoms, sides = (np.array([getattr(span, of) for span in spans], int) for of in ("geom", "side"))
    number = {int(geom): shape for shape, geom in enumerate(layout.shapes)}
    result.geom = ints([number.get(int(geom), -1) for geom in geoms])
    result.is_cylinder = ints((geoms >= 0) & (m.geom_type[geoms] == CYLINDER))
    result.side = ints(np.where(sides >= 0, np.searchsorted(layout.sites, sides), -1))
    result.side_body = ints(np.where(sides >= 0, m.site_bodyid[sides], 0))
    result.weight = wp.array(np.array([span.weight for span in spans], flavour.precision), dtype=real, device=device)
    moved, first = [], [0]
    for number, of_one in enumerate(layout.spans):
        dofs, start = layout.dofs[number], int(layout.first[number])
        for span in of_one:
            chains = span.chains(m)
            for chain in (*chains, *[[]] * (3 - len(chains))):
                moved += [start + dofs.index(d) for d in chain]
                first.append(len(moved))
    result.moved, result.moved_first = ints(moved), ints(first)
    return result
