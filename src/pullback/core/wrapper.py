"""Systems made of other Systems: one table for the parameters of all parts, and a System that wraps another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.core.named_system import NamedSystem
from pullback.core.params import FieldValues, NamedParams, Parameter
from pullback.core.system import System
from pullback.core.trees import is_real


def table_of(system: System, prefix: str = "") -> dict[str, Parameter]:
    """Records of the real parameters of any System, with its current values as initial values."""
    params = getattr(system, "params", None) or {}
    if isinstance(params, NamedParams):
        return {prefix + name: record for name, record in params.table.items()}
    reals = {name: np.asarray(value) for name, value in params.items() if is_real(np.asarray(value))}
    return {
        prefix + name: Parameter("", tuple(f"axis {i}" for i in range(value.ndim)), value.copy())
        for name, value in reals.items()
    }


def joined_params(parts: Mapping[str, System], own: Mapping[str, Parameter], worlds: int) -> NamedParams:
    """The parameters of several Systems at their current values, and ``own`` ones, in one table.

    parts: Systems by the prefix that their parameters' names get
    """
    table: dict[str, Parameter] = {}
    items: dict[str, Any] = {}
    for prefix, part in parts.items():
        table |= table_of(part, prefix)
        items |= getattr(getattr(part, "params", None), "item_names", None) or {}
    joined = NamedParams({**table, **own}, worlds, items)
    for prefix, part in parts.items():
        params = getattr(part, "params", None)
        if isinstance(params, NamedParams) and params.version:
            for name, value in params.items():
                joined[prefix + name] = value
    return joined


class HeldParts(FieldValues):
    """Parameter values of a System made of others, and the held parameters of each part.

    parts:  Systems by the prefix of their parameters' names
    """

    def __init__(self, table: Mapping, values: Mapping, parts: Mapping[str, System], whole: System):
        super().__init__(table, values, whole.worlds)
        self.precision, self.device = whole.dtype, whole.device
        self.parts: dict[str, Any] = {}
        self.made: dict[str, Any] = {}  # cache of what the whole computed from its own parameters
        for prefix, part in parts.items():
            own = {name: values[prefix + name] for name in table_of(part)}
            self.parts[prefix] = part.hold_params(own)

    def __getstate__(self) -> dict:
        return self.__dict__ | {"made": {}}


class Wrapper(NamedSystem):
    """A System around another one, ``system``: it has the states, inputs and parameters of that, and some of its own.

    Its parameters start at the current values of the inner System's, and are set and differentiated here. Attributes
    that are not defined here, such as ``model`` or ``dt``, are looked up in the inner System.

    A derived class has ``step``, ``pullback_between``, ``_settings`` (its constructor arguments), and ``inside`` (the
    same motion as a run of the inner System).
    """

    def __init__(self, system: System, own: Mapping[str, Parameter]):
        check_kind(system, System, "system", "pb.Articulated(model)")
        self.system = system
        self.worlds, self.nu, self.dtype = system.worlds, system.nu, system.dtype
        self.device, self.state_type, self.inputs = system.device, system.state_type, system.inputs
        self.has_jacobians, self.surrogate = system.has_jacobians, system.surrogate
        if system.drawing is not None:
            self.drawing = self._drawn_inside
        inner = table_of(system)
        for name in own:
            if name in inner:
                raise PullbackError(
                    f"{type(self).__name__} cannot have a parameter {name!r}: the System has one already"
                )
        self.params = joined_params({"": system}, own, self.worlds)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "system" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.system, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.system!r})"

    def _held_of(self, values, like=None) -> HeldParts:
        return HeldParts(self.params.table, values, {"": self.system}, self)

    def _made_again(self, *, worlds, dtype):
        return type(self)(**self._settings() | {"system": self.system.in_worlds(worlds, dtype=dtype)})

    def exact(self):
        return self if self.surrogate is None else self._copied(system=self.system.exact())

    def default_controls(self, steps: int) -> np.ndarray:
        return self.system.default_controls(steps)

    def pullback(self, state, control, next_bar, params=None, *, inputs=None, wants_params=True):
        held = self.hold_params(params)
        given = {"inputs": inputs} if inputs else {}
        after = self.step(state, control, held, **given)
        return self.pullback_between(state, control, after, next_bar, held, wants_params=wants_params, **given)

    def started(self, state):
        """The state of the whole from one of the innermost System, at the start of a motion, without any history."""
        return self.system.started(state) if isinstance(self.system, Wrapper) else state

    @abstractmethod
    def inside(self, run):
        """The same motion as a run of the inner System."""

    def _drawn_inside(self, run, *, ghost=None, bars: Mapping | None = None):
        """The drawing of the inner System. ``bars`` are not drawn: they are not those of the inner System's run."""
        return self.system.drawing(self.inside(run), ghost=ghost)

    # --- the tangent space is that of the inner System ----------------------------------------------------------------

    def difference(self, start, end, *, leading: int = 1) -> np.ndarray:
        return self.system.difference(start, end, leading=leading)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        return self.system.difference_jacobian(apart)

    def state_bar(self, state, tangent_bar: np.ndarray):
        return self.system.state_bar(state, tangent_bar)

    def tangent_bar(self, state, bars) -> np.ndarray:
        return self.system.tangent_bar(state, bars)
