"""Named, differentiable parameters of a System: shapes, units, checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import checked, to_numbers
from pullback.core.errors import UnknownName


@dataclass(frozen=True)
class Parameter:
    """One named array. Its value has this shape, or (worlds, *shape)."""

    unit: str
    axes: tuple[str, ...]
    value: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


class NamedParams(Mapping):
    """``system.params``: read an array by name, or set one: ``system.params["mass"] = new_mass``.

    Arrays are read-only; set a changed copy, or one number for all entries. An array with a leading axis of size
    ``worlds`` gives each world its own. A System derives its own, with ``check_value``.
    """

    def __init__(self, table: dict[str, Parameter], worlds: int):
        self._table, self._worlds = table, worlds
        self._values = {name: frozen(np.array(entry.value, dtype=np.float64)) for name, entry in table.items()}
        self.version = 0  # counts changes, so that derived arrays know when they are stale

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[self._known(name)]

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name not in self._table:
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value) -> None:
        if name.startswith("_") or name == "version":
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __setitem__(self, name: str, value) -> None:
        shape = self._table[self._known(name)].shape
        # Here alone: a parameter that is given to a rollout has a gradient of its own shape.
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

    def unit(self, name: str) -> str:
        return self._table[self._known(name)].unit

    def axes(self, name: str) -> tuple[str, ...]:
        """What the axes of this parameter count, without that of worlds, e.g. ("body", "axis")."""
        return self._table[self._known(name)].axes

    def is_per_world(self, name: str, value) -> bool:
        """Whether a value of this parameter has an axis for worlds."""
        shape = self._table[self._known(name)].shape
        return to_numbers(value, f"parameter {name!r}").ndim > len(shape)

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self._table:
            raise UnknownName(f"there is no parameter {name!r}; there are {', '.join(self._table)}")
        return name

    def check(self, name: str, value) -> np.ndarray:
        """The value as a read-only array, if the System could have it."""
        entry = self._table[self._known(name)]
        shape, axes = entry.shape, entry.axes
        if self.is_per_world(name, value):
            shape, axes = (self._worlds, *shape), ("worlds", *axes)
        array = checked(value, shape, "float64", f"parameter {name!r}", axes).copy()
        self.check_value(name, array)
        return frozen(array)

    def check_value(self, name: str, array: np.ndarray) -> None:
        """Raises a PullbackError for a value that the System cannot have."""


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, read-only from now on."""
    array.setflags(write=False)
    return array
