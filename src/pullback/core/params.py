"""Named, differentiable parameters of a System: shapes, units, bounds, and how they enter the kernels.

A :class:`Parameter` is the complete record of one parameter, and a System lists its records in a table, by name. This
module works on any such table: it checks values, computes the kernels' fields from them, and returns cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import EllipsisType

import numpy as np

from pullback.core.arrays import checked, to_numbers
from pullback.core.checks import unknown
from pullback.core.errors import PullbackError, UnknownName

# --- bounds: (where a value is invalid: a mask (..., item) or of the value's shape; the reason, with {} for the number)


def anything(value: np.ndarray) -> tuple[np.ndarray, str]:
    return np.zeros((), bool), ""


def positive(value: np.ndarray) -> tuple[np.ndarray, str]:
    return value <= 0, "must be positive, but is {:g}"


def not_negative(value: np.ndarray) -> tuple[np.ndarray, str]:
    return value < 0, "must not be negative, but is {:g}"


def up_to_one(value: np.ndarray) -> tuple[np.ndarray, str]:
    return (value < 0) | (value > 1), "must be between 0 and 1, but is {:g}"


def has_direction(value: np.ndarray) -> tuple[np.ndarray, str]:
    return np.linalg.norm(value, axis=-1) < 1e-12, "has no direction: it is of zero length"


# --- forms: pairs of a function, value -> field, and its adjoint, (value, cotangent of the field) -> cotangent of value


def unchanged(value: np.ndarray) -> np.ndarray:
    return value


def unchanged_adjoint(value: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """The kernels' vectors may have more entries than the value; those in excess are dropped."""
    return bar[..., : value.shape[-1]]


def linear(table: np.ndarray) -> tuple[Callable, Callable]:
    """The form field = table · value, summed over all axes of the value. The table's leading axes are the field's."""
    return partial(_product, table), partial(_product_adjoint, table)


def _product(table: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The sum by einsum, whose result has the same bits for any number of worlds."""
    world, axes = table.ndim, list(range(table.ndim))
    field = axes[: table.ndim - value.ndim + 1]
    return np.einsum(value, [world, *axes[len(field) :]], table, axes, [world, *field])


def _product_adjoint(table: np.ndarray, value: np.ndarray, bar: np.ndarray) -> np.ndarray:
    world, axes = table.ndim, list(range(table.ndim))
    field = axes[: table.ndim - value.ndim + 1]
    bar = bar[..., : table.shape[len(field) - 1]]
    return np.einsum(bar, [world, *field], table, axes, [world, *axes[len(field) :]])


@dataclass(frozen=True)
class Parameter:
    """The record of one parameter, a named array. Its value has this record's shape, or (worlds, *shape).

    unit:   of its numbers
    axes:   what its axes count, e.g. ("body", "axis")
    value:  its initial value
    check:  its bounds
    field:  the kernels' array that it enters; by default the one of the same name. If several parameters enter a field,
            the field is their sum
    of:     the items of the value that enter the field, as an index without repeats; all by default
    form:   the function from the value's numbers to the field's, and its adjoint
    blank:  the field (items, ...) before the numbers are put into it; None: the numbers are the field
    at:     the index in the field where the numbers are put
    """

    unit: str
    axes: tuple[str, ...]
    value: np.ndarray
    check: Callable[[np.ndarray], tuple[np.ndarray, str]] = anything
    field: str = ""
    of: np.ndarray | EllipsisType = ...
    form: tuple[Callable, Callable] = (unchanged, unchanged_adjoint)
    blank: np.ndarray | None = None
    at: tuple = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def enter(self, value: np.ndarray) -> np.ndarray:
        """The contribution of a value (1 or worlds, *shape) to its field (1 or worlds, items, ...)."""
        numbers = self.form[0](value[:, self.of])
        if self.blank is None:
            return numbers
        field = np.repeat(self.blank[None], len(value), axis=0)
        field[:, *self.at] = numbers
        return field

    def leave(self, value: np.ndarray, field_bar: np.ndarray) -> np.ndarray:
        """The cotangent of a value from that of its field; both have a leading axis of 1 or worlds."""
        bar = np.zeros(value.shape, field_bar.dtype)
        bar[:, self.of] = self.form[1](value[:, self.of], field_bar[:, *self.at])
        return bar


@dataclass(frozen=True)
class Derived:
    """A field of the kernels that is a function of several parameters together.

    of:       the names of these parameters
    value:    the function from their values, {name: (1 or worlds, *shape)}, to the field (1 or worlds, items)
    adjoint:  the function from these values and the field's cotangent to their cotangents, {name: (worlds, *shape)}
    """

    of: tuple[str, ...]
    value: Callable[[dict[str, np.ndarray]], np.ndarray]
    adjoint: Callable[[dict[str, np.ndarray], np.ndarray], dict[str, np.ndarray]]


class NamedParams(Mapping):
    """``system.params``: the parameters by name. Read one as an array, or set it: ``system.params["mass"] = new_mass``.

    Arrays are read-only; set a changed copy, or one number for all entries. An array with a leading axis of size
    ``worlds`` gives each world its own value. ``names`` has the names of the items along an axis, for error messages.
    """

    def __init__(self, table: dict[str, Parameter], worlds: int, names: Mapping | None = None):
        self._table, self._worlds, self._names = table, worlds, names or {}
        self._values = {name: frozen(np.array(entry.value, dtype=np.float64)) for name, entry in table.items()}
        self._held: dict[bool, FieldValues] = {}  # last results of ``held`` without (False) and with (True) ``given``
        self.version = 0  # counts changes

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[self._known(name)]

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._table:
            raise AttributeError(unknown("parameter", name, self._table))
        return self[name]

    def __setattr__(self, name: str, value) -> None:
        if name.startswith("_") or name == "version":
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __setitem__(self, name: str, value) -> None:
        shape = self._table[self._known(name)].shape
        # Only here: a parameter that is given to a rollout has a gradient of its own shape.
        if shape and np.ndim(to_numbers(value, f"parameter {name!r}")) == 0:
            value = np.full(shape, to_numbers(value, f"parameter {name!r}"))
        self._values[name] = self.check(name, value)
        self.version += 1

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        rows = (f"  {n}: {self._values[n].shape} [{e.unit}]" for n, e in self._table.items())
        return "Params(\n" + "\n".join(rows) + "\n)"

    @property
    def table(self) -> dict[str, Parameter]:
        """The records, by name."""
        return self._table

    @property
    def item_names(self) -> Mapping:
        """Names of the items along an axis, by the name of the axis."""
        return self._names

    def unit(self, name: str) -> str:
        return self._table[self._known(name)].unit

    def axes(self, name: str) -> tuple[str, ...]:
        """The names of what this parameter's axes count, without the axis of worlds, e.g. ("body", "axis")."""
        return self._table[self._known(name)].axes

    def is_per_world(self, name: str, value) -> bool:
        """Whether a value of this parameter has a leading axis of worlds."""
        shape = self._table[self._known(name)].shape
        return to_numbers(value, f"parameter {name!r}").ndim > len(shape)

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self._table:
            raise UnknownName(unknown("parameter", str(name), self._table))
        return name

    def check(self, name: str, value) -> np.ndarray:
        """The value as a read-only array, or an error if it is invalid for this parameter."""
        entry = self._table[self._known(name)]
        shape, axes = entry.shape, entry.axes
        if self.is_per_world(name, value):
            shape, axes = (self._worlds, *shape), ("worlds", *axes)
        array = checked(value, shape, "float64", f"parameter {name!r}", axes).copy()
        wrong, why = entry.check(array)
        if np.any(wrong):
            self._refuse(name, array, wrong, why)
        return frozen(array)

    def held(self, given: Mapping | FieldValues | None, make: Callable[[dict, FieldValues | None], FieldValues]):
        """``make(values, like)`` of the current values, in which ``given`` replaces some.

        ``make`` is called only if a value differs from the last call. ``like`` is then the last result; values that did
        not change are the same array objects as in it. ``given`` may also be such a result, which is returned.
        """
        if isinstance(given, FieldValues):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise PullbackError(f"params must map names to arrays, not {type(given).__name__}")
        like = self._held.get(bool(given)) or self._held.get(not given)
        values = dict(self._values)
        for name, value in (given or {}).items():
            known = None if like is None else like.values.get(name)
            if known is None or not np.array_equal(known, to_numbers(value, f"parameter {name!r}")):
                known = self.check(name, value)
            values[name] = known
        if like is self._held.get(bool(given)) and like and all(x is like.values[name] for name, x in values.items()):
            return like
        self._held[bool(given)] = made = make(values, like)
        return made

    def _refuse(self, name: str, array: np.ndarray, wrong: np.ndarray, why: str) -> None:
        """Raises an error that names the first place where ``wrong`` is true."""
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        axes, index = self.axes(name), first
        world, where, worlds = "", "", np.zeros(0, int)
        if array.ndim > len(axes):
            world, index, worlds = f" in world {index[0]}", index[1:], np.unique(np.argwhere(wrong)[:, 0])
        if axes:
            names = self._names.get(axes[0], ())
            where = f" of {names[index[0]]!r}" if len(names) else f" at {axes[0]} {index[0]}"
        raise PullbackError(f"parameter {name!r}{where}{world} {why.format(array[first])}", worlds=worlds)


class FieldValues:
    """Values of all parameters of a table, shared by all worlds or one per world, and the kernels' fields of them.

    derived:  fields that are functions of several parameters, by name; no parameter enters such a field otherwise
    """

    precision: str
    device: str

    def __init__(
        self,
        table: Mapping[str, Parameter],
        values: Mapping,
        worlds: int,
        derived: Mapping[str, Derived] | None = None,
    ):
        self.table, self.values, self.worlds, self.derived = table, dict(values), worlds, derived or {}
        self.per_world = {name: np.ndim(value) > len(table[name].shape) for name, value in self.values.items()}
        self.entering: dict[str, list[str]] = {}  # by field, the parameters that enter it
        for name, entry in table.items():
            self.entering.setdefault(entry.field or name, []).append(name)
        self.entering |= {name: list(entry.of) for name, entry in self.derived.items()}

    def _batched(self, name: str) -> np.ndarray:
        """The value with a leading axis of 1 or worlds."""
        value = np.asarray(self.values[name], dtype=np.float64)
        return value if self.per_world[name] else value[None]

    def field(self, name: str) -> np.ndarray:
        """A field (1 or worlds, items, ...); a single zero if no parameter enters it."""
        if name in self.derived:
            return self.derived[name].value(self._of(self.derived[name]))
        parts = [self.table[n].enter(self._batched(n)) for n in self.entering.get(name, ())]
        return sum(parts[1:], start=parts[0]) if parts else np.zeros((1, 1))

    def _of(self, entry: Derived) -> dict[str, np.ndarray]:
        return {name: self._batched(name) for name in entry.of}

    def bars(self, field_bar: Callable[[str, bool], np.ndarray], precision: str) -> dict[str, np.ndarray]:
        """Cotangents of the parameters, in the shapes of their values.

        field_bar(field, per_world): the cotangent of a field, (worlds, items, ...) if per_world, else its sum over
        worlds, (1, items, ...)
        """
        found = {}
        for name, entry in self.table.items():
            value, field = self._batched(name), entry.field or name
            found[name] = np.zeros(value.shape)
            if field not in self.derived:
                found[name] = entry.leave(value, field_bar(field, self.per_world[name]))
        for field, derived in self.derived.items():
            if derived.of:
                bar = field_bar(field, any(self.per_world[name] for name in derived.of))
                for name, more in derived.adjoint(self._of(derived), bar).items():
                    found[name] = found[name] + (more if self.per_world[name] else more.sum(axis=0, keepdims=True))
        return {n: np.asarray(bar if self.per_world[n] else bar[0], dtype=precision) for n, bar in found.items()}


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array
