"""Checks of single values that users give; those of arrays are in ``arrays``."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pullback.core.errors import PullbackError

# The largest count that kernels can represent.
COUNTABLE = 2**31 - 1


def shown(value) -> str:
    """A user's value for an error message: on one line, at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_whole(number, name: str, least: int = 1, most: int = COUNTABLE) -> int:
    """A whole number between ``least`` and ``most``."""
    is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_whole or not least <= number <= most:
        limit = f"at most {most}" if is_whole and number > most else f"at least {least}"
        raise PullbackError(f"{name} must be a whole number of {limit}, not {shown(number)}")
    return int(number)


def check_number(number, name: str, *, above: float | None = 0.0, least: float | None = None) -> float:
    """A finite number, > above or >= least; any finite number if both are None."""
    number = number[()] if isinstance(number, np.ndarray) and number.ndim == 0 else number  # as np.load gives them
    is_number = isinstance(number, int | float | np.number) and not isinstance(number, bool | np.complexfloating)
    try:
        value = float(number) if is_number else math.nan
    except OverflowError:
        value = math.inf
    if least is not None:
        limit, fits = f" of at least {least:g}", value >= least
    else:
        limit, fits = "" if above is None else f" above {above:g}", above is None or value > above
    if not math.isfinite(value) or not fits:
        raise PullbackError(f"{name} must be a number{limit}, not {shown(number)}")
    return value


def check_friction(number, name: str) -> float:
    """A coefficient of friction: at least zero, or infinity for contacts that never slip."""
    if isinstance(number, float | np.floating) and number == math.inf:
        return math.inf
    return check_number(number, name, least=0.0)


def check_kind(thing, kind: type, name: str, example: str = "") -> None:
    """Raises an error unless ``thing`` is a ``kind``; ``example`` shows in the message how to make one."""
    if not isinstance(thing, kind):
        such = f", such as {example}" if example else ""
        raise PullbackError(f"{name} must be a {kind.__name__}{such}, not {type(thing).__name__}")


def check_several(given, kind: type, name: str, example: str = "") -> tuple:
    """One object of a kind, or several, as a tuple; ``name`` is the singular for messages."""
    if isinstance(given, kind):
        return (given,)
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = (given,)
    several = tuple(given)
    for thing in several:
        check_kind(thing, kind, name, example)
    return several


def check_wholes(given, name: str, least: int = 1) -> tuple[int, ...]:
    """Several whole numbers, as a tuple."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PullbackError(f"{name} must be some whole numbers, such as (8, 8), not {shown(given)}")
    return tuple(check_whole(number, name, least) for number in given)


def check_word(given, name: str, words: Iterable[str]) -> str:
    """One of the given words."""
    words = list(words)
    if not isinstance(given, str) or given not in words:
        those = " or ".join(map(repr, words)) if len(words) == 2 else f"one of {', '.join(words)}"
        raise PullbackError(f"{name} is {those}, not {shown(given)}")
    return given


def check_names(given, name: str) -> tuple[str, ...]:
    """A name or several, as a tuple."""
    several = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(one, str) for one in several):
        raise PullbackError(f"{name} must be one name or several, not {shown(given)}")
    return several


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message that there is no such name, with the closest known name, or all known ones."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no {what} {name!r}; {hint}"


def counted(number: int, thing: str, things: str = "") -> str:
    """ "1 action", "2 actions"; ``things`` is the plural if it is not formed with an "s"."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def check_path(path, name: str = "path") -> Path:
    """The path of a file, which need not exist."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise PullbackError(f"{name} must be a path, not {shown(path)}")
    return Path(path)


def check_seed(seed) -> int:
    """A seed for random number generators, NumPy's or torch's."""
    return check_whole(seed, "seed", 0, 2**63 - 1)
