"""What Systems with records of parameters have in common: parameters held for a run, and copies."""

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

    A derived class says what it makes of values of its parameters, ``_held_of``, and with what it is made again,
    ``_settings``.
    """

    params: NamedParams
    _kept_wide: tuple[int, Any] = (0, None)  # by how many worlds it has: a System for Jacobians

    @abstractmethod
    def _held_of(self, values: Mapping, like: Any = None) -> FieldValues:
        """Values of all parameters, each of its shape or (worlds, *shape), as steps need them.

        ``like`` is what was made last, if there is any: what stayed the same need not be made again.
        """

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Arguments that make this System again, with the parameters that it began with."""

    def hold_params(self, given: Any = None):
        """Parameters as steps need them: the System's own with those given in place of some, or what was held.

        Of what another System held, such as the same robot in other worlds, the values are taken.
        """
        if isinstance(given, FieldValues):
            places = (given.worlds, given.precision, given.device)
            if given.table is not self.params.table or places != (self.worlds, self.dtype, self.device):
                given = given.values
        return self.params.held(given, self._held_of)

    def in_worlds(self, worlds: int, *, dtype: str | None = None):
        """The same System in another number of worlds, and maybe another precision.

        It has this one's parameters, but for those that differ between worlds, which are as at first.
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
        """A System with this one's parameters, made with other arguments."""
        return _rebuild(type(self), self._settings() | changes, dict(self.params))

    def __reduce__(self):
        """Copies and pickles are Systems of their own: what this one was made from, and its parameters."""
        return _rebuild, (type(self), self._settings(), dict(self.params))


def _rebuild(kind: type, settings: dict, params: dict) -> NamedSystem:
    system = kind(**settings)
    for name, value in params.items():
        system.params[name] = value
    return system
