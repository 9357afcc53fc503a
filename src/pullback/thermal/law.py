"""Tables over temperature as smooth functions, and their integrals.

A table's straight lines meet in corners, where a gradient would jump. Here every corner is rounded: within ``ROUNDED``
of the nearer neighbour's distance, the straight lines are replaced by their average over that range, a parabola. So the
slope is continuous, no value lies outside what the table says nearby, and all is linear in the table's entries.

The latent heat is spread over the melting interval as a quadratic B-spline, which is as smooth. Both are parabolas on
pieces of the temperature axis; their integrals (enthalpy, conduction potential) are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# How far the rounding of a corner reaches, against the distance to the nearer entry of the table. [1]
ROUNDED = 0.25
# Where the outermost pieces end, a number in single precision too. [K]
FAR = 1e30
# Bins of equal width in which a piece is looked up.
BINS = 256


@dataclass(frozen=True)
class Pieces:
    """Parabolas a + b x + c x² on P pieces of the temperature axis, x counted from ``anchor``.

    bounds:  (P + 1,) [K]
    anchor:  (P,) [K]
    table:   (P, 3, m) from the m entries of a table to the parabolas
    latent:  (P, 3) of a latent heat of one, [1/K] and so on
    """

    bounds: np.ndarray
    anchor: np.ndarray
    table: np.ndarray
    latent: np.ndarray

    @classmethod
    def of(cls, temperatures: np.ndarray, solidus: float, liquidus: float) -> Pieces:
        half = _roundings(temperatures)
        thirds = np.linspace(solidus, liquidus, 4)
        inner = np.unique(np.concatenate([temperatures - half, temperatures + half, thirds]))
        bounds = np.concatenate([[-FAR], inner, [FAR]])
        anchor = np.concatenate([inner[:1], inner])
        middle = np.concatenate([inner[:1] - 1.0, (inner[1:] + inner[:-1]) / 2, inner[-1:] + 1.0])
        return cls(
            bounds,
            anchor,
            _about(anchor - middle, _table_at(middle, temperatures, half)),
            _about(anchor - middle, _bump_at(middle, thirds)[..., None])[..., 0],
        )

    @property
    def potential(self) -> np.ndarray:
        """(P, 4, m): the integral of a table at each anchor, counted from the first bound, and its parabolas."""
        width = np.diff(self.anchor)
        powers = np.stack([width, width**2 / 2, width**3 / 3], axis=-1)
        across = np.einsum("pk,pkm->pm", powers, self.table[:-1])
        across[0] = 0.0  # the first two pieces have the same anchor
        start = np.concatenate([np.zeros_like(across[:1]), np.cumsum(across, axis=0)])
        return np.concatenate([start[:, None], self.table], axis=1)

    @property
    def bins(self) -> np.ndarray:
        """A piece to look from, upwards, for each bin; and one bin more, for what rounding makes of the last bound."""
        edges = np.linspace(self.bounds[1], self.bounds[-2], BINS + 1)
        # One piece too early, so that a bin that is wrong by rounding does no harm.
        return np.clip(np.searchsorted(self.bounds, edges, side="right") - 2, 0, len(self.anchor) - 2)

    def at(self, temperature, parabolas: np.ndarray) -> np.ndarray:
        """The value of (P, 3) parabolas at some temperatures (...)."""
        p = np.searchsorted(self.bounds, temperature, side="right") - 1
        x = temperature - self.anchor[p]
        return parabolas[p, 0] + x * (parabolas[p, 1] + x * parabolas[p, 2])

    def integral(self, temperature, parabolas: np.ndarray) -> np.ndarray:
        """Of (P, 3) parabolas, from the first bound to some temperatures (...)."""
        width = np.diff(self.anchor)
        across = np.einsum("pk,pk->p", np.stack([width, width**2 / 2, width**3 / 3], axis=-1), parabolas[:-1])
        start = np.concatenate([[0.0], np.cumsum(across)])
        p = np.searchsorted(self.bounds, temperature, side="right") - 1
        x = temperature - self.anchor[p]
        a, b, c = parabolas[p].T if np.ndim(p) == 0 else np.moveaxis(parabolas[p], -1, 0)
        return start[p] + x * (a + x * (b / 2 + x * c / 3))


def _roundings(temperatures: np.ndarray) -> np.ndarray:
    """Half widths (m,) [K] of the rounded corners."""
    if len(temperatures) == 1:
        return np.ones(1)  # a table of one entry has no corner
    gaps = np.diff(temperatures)
    return ROUNDED * np.minimum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))


def _table_at(T: np.ndarray, temperatures: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Value, slope and half the curvature (P, 3, m) at T (P,), by the entries of the table."""
    m = len(temperatures)
    slopes = np.zeros((m + 1, m))  # of each straight line, by the entries; level before the first and after the last
    for j in range(m - 1):
        slopes[j + 1, j + 1] = 1.0 / (temperatures[j + 1] - temperatures[j])
        slopes[j + 1, j] = -slopes[j + 1, j + 1]
    x = T[:, None] - temperatures
    inside, above = np.abs(x) <= half, x > half
    ramp = np.stack(
        [
            np.where(inside, (x + half) ** 2 / (4 * half), np.where(above, x, 0.0)),
            np.where(inside, (x + half) / (2 * half), np.where(above, 1.0, 0.0)),
            np.where(inside, 1 / (4 * half), 0.0),
        ],
        axis=1,
    )
    result = ramp @ np.diff(slopes, axis=0)
    result[:, 0, 0] += 1.0
    return result


def _bump_at(T: np.ndarray, thirds: np.ndarray) -> np.ndarray:
    """The same of a quadratic B-spline of unit area (P, 3)."""
    w = thirds[1] - thirds[0]
    x = (T - thirds[0]) / w
    value = np.select([x < 0, x < 1, x < 2, x < 3], [0, x**2, -2 * x**2 + 6 * x - 3, (3 - x) ** 2], 0) / (2 * w)
    slope = np.select([x < 0, x < 1, x < 2, x < 3], [0, x, -2 * x + 3, x - 3], 0) / w**2
    curve = np.select([x < 0, x < 1, x < 2, x < 3], [0, 0.5, -1.0, 0.5], 0) / w**3
    return np.stack([value, slope, curve], axis=1)


def _about(shift: np.ndarray, parabola: np.ndarray) -> np.ndarray:
    """Parabolas (P, 3, m) about a point ``shift`` (P,) further on."""
    a, b, c = np.moveaxis(parabola, 1, 0)
    s = shift[:, None]
    return np.stack([a + s * (b + s * c), b + 2 * s * c, c], axis=1)
