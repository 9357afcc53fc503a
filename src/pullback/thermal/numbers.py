"""Numbers that a user gives, or an error that names them."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.errors import PullbackError


def a_number(value, name: str, *, above: float | None = 0.0) -> float:
    """A finite number, above a limit if there is one."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.complexfloating)
    if not is_number or not math.isfinite(value) or (above is not None and not value > above):
        limit = "" if above is None else f" above {above:g}"
        raise PullbackError(f"{name} must be a number{limit}, not {value!r}")
    return float(value)


def a_count(value, name: str, *, least: int = 1) -> int:
    """A whole number, not below a limit."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise PullbackError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)
