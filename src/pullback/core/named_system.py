"""The base class of Systems with records of parameters: parameters held for a run, copies and pickles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from pullback.core.arrays import check_precision
from pullback.core.checks import check_whole
from pullback.core.params import FieldValues, NamedParams
from pullback.core.system import System


class NamedSystem(System):
    """A System whose parameters are records, :class:`~pullback.core.params.NamedParams`.

    A derived class has ``_held_of``, which converts parameter values to the form that its steps use, and ``_settings``,
    its constructor arguments.
    """

    params: NamedParams
    _kept_wide: tuple[int, Any] = (0, None)  # the System of the last Jacobians, and its number of worlds

    @abstractmethod
    def _held_of(self, values: Mapping, like: Any = None) -> FieldValues:
        """All parameters in the form that steps use, from their values: each (*shape) or (worlds, *shape).

        ``like`` is the previous result, if there is any: what did not change can be taken from it.
        """

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Constructor arguments that make this System again, with its initial parameters."""

    def hold_params(self, given: Any = None):
        """Parameters in the form that steps use: the System's own, in which ``given`` replaces some.

        ``given`` may also be held parameters. If another System held them, such as the same robot in another number of
        worlds, only their values are used.
        """
        if isinstance(given, FieldValues):
            places = (given.worlds, given.precision, given.device)
            if given.table is not self.params.table or places != (self.worlds, self.dtype, self.device):
                given = given.values
        return self.params.held(given, self._held_of)

    def in_worlds(self, worlds: int, *, dtype: str | None = None):
        """The same System with another number of worlds, and optionally in another precision.

        It has this System's parameters, except those that differ between worlds: they get their initial values.
        """
        dtype = check_precision(self.dtype if dtype is None else dtype)
        other = self._made_again(worlds=check_whole(worlds, "worlds"), dtype=dtype)
        for name, value in self.params.items() if self.params.version else ():
            if not self.params.is_per_world(name, value):
                other.params[name] = value
        return other

    def _wide(self, copies: int):
        if self._kept_wide[0] != copies:
            self._kept_wide = copies, self.in_worlds(copies)
        return self._kept_wide[1]

    def _made_again(self, *, worlds: int, dtype: str) -> NamedSystem:
        return type(self)(**(self._settings() | {"worlds": worlds, "dtype": dtype}))

    def _copied(self, **changes):
        """A System with this one's parameters and some changed constructor arguments."""
        return _rebuild(type(self), self._settings() | changes, dict(self.params))

    def __reduce__(self):
        """Copies and pickles are independent Systems, made from constructor arguments and parameters."""
        return _rebuild, (type(self), self._settings(), dict(self.params))


def _rebuild(kind: type, settings: dict, params: dict) -> NamedSystem:
    system = kind(**settings)
    for name, value in params.items():
        system.params[name] = value
    return system
