"""States as trees: NamedTuples whose fields are arrays, or NamedTuples again.

A **leaf** is an array of a state, (worlds, ...) of any rank; along a trajectory it has one more axis in front, time.
Real leaves have cotangents and move in the tangent space; whole numbers, such as counters, do neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp

from pullback.core.arrays import checked, first_not_finite, to_numbers, to_numpy
from pullback.core.errors import PullbackError


def is_state(x) -> bool:
    """Whether x is a NamedTuple: a state, or a part of one."""
    return isinstance(x, tuple) and hasattr(x, "_fields")


def leaves(state) -> list:
    """The arrays of a state, in order."""
    return [leaf for field in state for leaf in (leaves(field) if is_state(field) else [field])]


def leaf_names(state) -> list[str]:
    """The names of the leaves: "q", or "robot.q" inside a field "robot"."""
    pairs = zip(state._fields, state, strict=True)
    return [f"{n}.{inner}" if inner else n for n, x in pairs for inner in (leaf_names(x) if is_state(x) else [""])]


def tree_map(function: Callable[..., Any], state, *others):
    """A state of the same form whose leaves are function(leaf, *corresponding leaves of the others)."""
    fields = zip(state, *others, strict=True)
    return type(state)(*(tree_map(function, *x) if is_state(x[0]) else function(*x) for x in fields))


def with_leaves(like, values: Iterable):
    """A state of the form of ``like`` with the leaves ``values``."""
    values = iter(values)
    return tree_map(lambda leaf: next(values), like)


def start_of(system, given: tuple) -> tuple:
    """(state, controls) from the arguments of a binding: that pair, or the fields of the state and the controls."""
    *fields, controls = given
    if len(fields) == 1 and is_state(fields[0]):
        return fields[0], controls
    if len(fields) != len(system.state_type._fields):
        names = ", ".join(system.state_type._fields)
        raise PullbackError(f"give (state, controls), or ({names}, controls), not {len(given)} arrays")
    return system.state_type(*fields), controls


def where(worlds, chosen, other, *, select: Callable = np.where):
    """A state with the leaves of ``chosen`` where the mask ``worlds`` (worlds,) is true, and of ``other`` elsewhere.

    select: np.where, or its equivalent in another array library
    """
    return tree_map(lambda x, y: select(worlds.reshape(-1, *(1,) * (np.ndim(y) - 1)), x, y), chosen, other)


def world_mask(worlds, count: int) -> np.ndarray:
    """A mask of ``count`` worlds, from a mask or from indices of worlds."""
    given = to_numbers(worlds, "worlds")
    if given.dtype == bool and given.shape == (count,):
        return given
    if given.dtype == bool or given.ndim > 1 or (given.size and given.dtype.kind not in "iu"):
        raise PullbackError(
            f"worlds must be booleans of shape ({count},) or numbers of worlds, not {given.dtype} {given.shape}"
        )
    if np.any((given < 0) | (given >= count)):
        raise PullbackError(f"worlds are numbered from 0 to {count - 1}, but {worlds} was given")
    mask = np.zeros(count, dtype=bool)
    mask[given.astype(int)] = True
    return mask


def row(states, index):
    """The state at an index along the first axis, or the states of a slice."""
    return tree_map(lambda leaf: leaf[index], states)


def stack(states: Sequence):
    """A sequence of states, stacked along a new first axis."""
    return tree_map(lambda *rows: np.stack([to_numpy(x) for x in rows]), *states)


def is_real(leaf) -> bool:
    """Whether a leaf holds real numbers, and so has a cotangent."""
    dtype = leaf.dtype
    if isinstance(leaf, wp.array):
        return getattr(dtype, "_wp_scalar_type_", dtype) in (wp.float32, wp.float64)
    return np.issubdtype(dtype, np.floating)


def numbers(state, leading: int = 1) -> np.ndarray:
    """The real numbers of a state, flattened to (..., n). The ``leading`` axes stay: worlds, or time and worlds."""
    real = [x for x in map(to_numpy, leaves(state)) if is_real(x)]
    return np.concatenate([x.reshape(*x.shape[:leading], math.prod(x.shape[leading:])) for x in real], axis=-1)


def from_numbers(rows: np.ndarray, like):
    """The inverse of :func:`numbers`: (..., n) in the form of ``like``, with zeros in leaves of whole numbers."""
    leading, at = rows.ndim - 1, 0

    def take(leaf):
        nonlocal at
        shape = np.shape(leaf)[leading:]
        if not is_real(to_numpy(leaf)):
            return np.zeros((*rows.shape[:-1], *shape), dtype=rows.dtype)
        size = math.prod(shape)
        at += size
        return rows[..., at - size : at].reshape(*rows.shape[:-1], *shape)

    return tree_map(take, like)


def checked_state(state, worlds: int, precision: str):
    """A state with NumPy leaves of this precision and a leading axis of worlds, or an error that names the field."""
    if not is_state(state):
        raise PullbackError(f"a state is a NamedTuple of arrays (worlds, ...), not {type(state).__name__}")
    names = with_leaves(state, leaf_names(state))
    return tree_map(lambda leaf, name: _checked_leaf(leaf, name, worlds, precision), state, names)


def _checked_leaf(leaf, name: str, worlds: int, precision: str) -> np.ndarray:
    array = to_numbers(leaf, name)
    if array.shape[:1] != (worlds,):
        raise PullbackError(f"{name} has shape {array.shape}, but its first axis must be worlds={worlds}")
    if not is_real(array):
        return array
    axes = ("world", *(f"axis {i}" for i in range(1, array.ndim)))
    return checked(array, array.shape, precision, name, axes)


def check_like(state, like, what: str) -> None:
    """Raises a PullbackError unless ``state`` has the fields and the shapes of ``like``."""
    if type(state) is not type(like) and getattr(state, "_fields", None) != like._fields:
        raise PullbackError(f"{what} must be a {type(like).__name__}, not {type(state).__name__}")
    for name, mine, other in zip(like._fields, state, like, strict=True):
        if is_state(other):
            check_like(mine, other, f"{name} of {what}")
        elif tuple(np.shape(mine)) != tuple(np.shape(other)):
            raise PullbackError(f"{name} of {what} has shape {np.shape(mine)}, but {np.shape(other)} is needed")


def first_bad_leaf(state) -> tuple[str, tuple[int, ...]] | None:
    """Name and index of the first number that is not finite, in the real leaves of a state."""
    for name, leaf in zip(leaf_names(state), leaves(state), strict=True):
        bad = first_not_finite(leaf) if is_real(leaf) else None
        if bad is not None:
            return name, bad
    return None
