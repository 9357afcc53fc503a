"""The variables of a fit: factors of physical parameters, and weights, as one vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_kind, shown, unknown
from pullback.core.errors import PullbackError
from pullback.core.system import System

SUM = "sum"
MOST = 1e3  # the largest factor; the smallest is one over it


class Part(NamedTuple):
    """Some entries of a parameter: a mask of its shape, and their values (count,) before the fit."""

    name: str
    mask: np.ndarray
    base: np.ndarray


@dataclass(frozen=True)
class Group:
    """Entries of parameters that share a variable: a factor, or an offset if all are zero or if it is requested."""

    label: str
    parts: tuple[Part, ...]
    is_factor: bool

    def value(self, part: Part, x: float) -> np.ndarray:
        """The entries of a part for a value of the variable."""
        return part.base * np.exp(x) if self.is_factor else part.base + x

    def slope(self, part: Part, x: float) -> np.ndarray:
        """The derivative of the entries by the variable."""
        return self.value(part, x) if self.is_factor else np.ones_like(part.base)


class Unknowns:
    """A vector of variables: one per group of physical parameters, logarithms of factors, then all weights.

    physics:  by label, a parameter and an index of the entries that share a factor: {"mass": ("mass", 1)}; or a list of
              such pairs. Entries that are all zero, or given as ("com", 1, "sum"), share an offset
    weights:  names of parameters that are fitted entry by entry
    """

    def __init__(self, system: System, physics: Mapping | None, weights: tuple[str, ...]):
        check_kind({} if physics is None else physics, Mapping, "physics", '{"mass": ("mass", 1)}')
        self.system, self.weights = system, weights
        self.groups = tuple(self._group(label, given) for label, given in (physics or {}).items())
        self.sizes = [system.params[name].size for name in weights]
        self.first = np.concatenate(
            [np.zeros(len(self.groups)), *(np.ravel(system.params[name]) for name in weights)]
        ).astype(float)  # fmt: skip
        if not len(self.first):
            raise PullbackError("there is nothing to fit: name physical parameters, or use a System with a network")

    def _group(self, label: str, given) -> Group:
        pairs = given if isinstance(given, list) else [given]
        fits = [isinstance(pair, tuple) and len(pair) in (2, 3) and pair[2:] in ((), (SUM,)) for pair in pairs]
        if not fits or not all(fits):
            raise PullbackError(
                f"{label!r} must be a pair such as ('mass', 1) or ('com', 1, 'sum'), or a list of them, not "
                f"{shown(given)}"
            )
        parts = tuple(self._part(label, *pair[:2]) for pair in pairs)
        return Group(label, parts, all(len(pair) == 2 for pair in pairs) and any(np.any(p.base) for p in parts))

    def _part(self, label: str, name: str, index) -> Part:
        if name not in self.system.params:
            raise PullbackError(unknown("parameter", str(name), self.system.params))
        value = np.asarray(self.system.params[name], dtype=float)
        mask = np.zeros(value.shape, dtype=bool)
        try:
            mask[index] = True
        except IndexError:
            raise PullbackError(f"{index!r} is no index of {name!r}, which has shape {mask.shape}") from None
        if not mask.any():
            raise PullbackError(f"{label!r} has no entries")
        return Part(name, mask, value[mask])

    @property
    def count(self) -> int:
        """The number of physical variables."""
        return len(self.groups)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the variables (n,): factors stay between a thousandth and a thousand."""
        most = np.full(len(self.first), np.inf)
        most[: self.count] = [np.log(MOST) if group.is_factor else np.inf for group in self.groups]
        return -most, most

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fitted parameters."""
        return tuple(dict.fromkeys([*(part.name for group in self.groups for part in group.parts), *self.weights]))

    def params(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters at a point (n,)."""
        found = {name: np.array(self.system.params[name], dtype=float) for name in self.names}
        for group, value in zip(self.groups, x, strict=False):
            for part in group.parts:
                found[part.name][part.mask] = group.value(part, float(value))
        pieces = np.split(x[self.count :], np.cumsum(self.sizes)[:-1]) if self.weights else []
        for name, piece in zip(self.weights, pieces, strict=True):
            found[name] = piece.reshape(found[name].shape)
        return found

    def pull(self, x: np.ndarray, bars: Mapping) -> np.ndarray:
        """The gradient (..., n), from cotangents of the parameters (..., *shape)."""
        columns = []
        for group, value in zip(self.groups, x, strict=False):
            moved = (np.asarray(bars[p.name])[..., p.mask] @ group.slope(p, float(value)) for p in group.parts)
            columns.append(sum(moved)[..., None])
        for name in self.weights:
            bar, shape = np.asarray(bars[name]), self.system.params[name].shape
            columns.append(bar.reshape(*bar.shape[: bar.ndim - len(shape)], -1))
        return np.concatenate(columns, axis=-1)

    def natural(self, x: np.ndarray) -> np.ndarray:
        """The physical variables (count,) in natural units: the first entry of each group."""
        return np.array(
            [group.value(group.parts[0], float(value))[0] for group, value in zip(self.groups, x, strict=False)]
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(group.label for group in self.groups)
