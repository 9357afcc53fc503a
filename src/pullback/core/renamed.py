"""Deprecated names: they still work, and warn with the new name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable


def renamed(**now: str):
    """Decorates a dataclass whose arguments and attributes were renamed: ``renamed(old="new")``."""

    def decorate(kind: type) -> type:
        make: Callable = kind.__init__  # type: ignore[misc]

        @functools.wraps(make)
        def init(self, *args, **options):
            for old in now.keys() & options.keys():
                if now[old] in options:
                    raise TypeError(f"{kind.__name__} was given {now[old]!r} and its old name {old!r}")
                _warn(kind, old, now[old])
                options[now[old]] = options.pop(old)
            make(self, *args, **options)

        kind.__init__ = init  # type: ignore[misc]
        for old, new in now.items():
            setattr(kind, old, property(functools.partial(_read, kind, old, new)))
        return kind

    return decorate


def _read(kind: type, old: str, new: str, record):
    _warn(kind, old, new)
    return getattr(record, new)


def _warn(kind: type, old: str, new: str) -> None:
    warnings.warn(f"{old!r} of {kind.__name__} is called {new!r} now", DeprecationWarning, stacklevel=3)
