"""Numbers and things that a user gives, or an error that names them."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.errors import PullbackError

# What kernels can count to.
MOST = 2**31 - 1


def shown(value) -> str:
    """What somebody gave, on one line and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def a_number(value, name: str, *, above: float | None = 0.0, least: float | None = None) -> float:
    """A finite number, above a limit, or at least as large, if there is one."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.complexfloating)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.inf
    if least is not None:
        above, limit, fits = None, f" of at least {least:g}", number >= least
    else:
        limit, fits = "" if above is None else f" above {above:g}", above is None or number > above
    if not math.isfinite(number) or not fits:
        raise PullbackError(f"{name} must be a number{limit}, not {shown(value)}")
    return number


def a_count(value, name: str, *, least: int = 1) -> int:
    """A whole number, not below a limit."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= MOST:
        upper = f", at most {MOST}" if isinstance(value, int | np.integer) and value > MOST else ""
        raise PullbackError(f"{name} must be a whole number of at least {least}{upper}, not {shown(value)}")
    return int(value)


def require(value, kind: type, name: str) -> None:
    """That value is of a class of this package."""
    if not isinstance(value, kind):
        raise PullbackError(f"{name} must be a thermal.{kind.__name__}, not {type(value).__name__}")


def birth_times(born, elements: int) -> np.ndarray:
    """When each element is laid down (e,) [s]; -inf for all, which are there from the start, if None."""
    if born is None:
        return np.full(elements, -np.inf)
    born = to_numbers(born, "born").astype(float)
    if born.shape != (elements,):
        raise PullbackError(f"born has shape {born.shape}, but (elements={elements},) is needed")
    if np.any(np.isnan(born)):
        raise PullbackError(f"the birth of element {int(np.argmax(np.isnan(born)))} is not a number")
    return born
