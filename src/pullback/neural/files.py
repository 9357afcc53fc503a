"""Files of learned parameters and of the ranges of networks. They contain arrays only, and no code."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.checks import check_kind, check_path, unknown
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.core.system import System
from pullback.core.wrapper import Wrapper
from pullback.neural.features import Ranges


def save(path, system: System) -> None:
    """Writes all parameters of a System, weights and physical ones, and the ranges of its networks, to an .npz file."""
    check_kind(system, System, "system", "neural.Residual(system, (32, 32))")
    arrays = {f"params/{name}": np.asarray(value) for name, value in system.params.items()}
    for layer, one in enumerate(_layers(system)):
        ranges = getattr(one, "ranges", None)
        for each in fields(ranges) if ranges is not None else ():
            arrays[f"ranges/{layer}/{each.name}"] = getattr(ranges, each.name)
    with whole_file(check_path(path)) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def load(path, system: System) -> System:
    """A System with the parameters and ranges of a file; ``system`` must be made like the saved one."""
    check_kind(system, System, "system", "neural.Residual(system, (32, 32))")
    path = check_path(path)
    try:
        arrays = read_arrays(path)
    except Exception as error:  # a broken archive can raise anything
        raise PullbackError(f"{str(path)!r} cannot be read as parameters: {error}") from error
    values = {name.removeprefix("params/"): x for name, x in arrays.items() if name.startswith("params/")}
    for name in values:
        if name not in system.params:
            raise PullbackError(f"{str(path)!r} is of another System: {unknown('parameter', name, system.params)}")
    if missing := [name for name in system.params if name not in values]:
        raise PullbackError(f"{str(path)!r} is of another System: it has no parameter {missing[0]!r}")
    system = _with_ranges(system, arrays, 0)
    for name, value in values.items():
        system.params[name] = value
    return system


def _layers(system: System) -> list[System]:
    """The System, its inner System, and so on."""
    found = [system]
    while isinstance(found[-1], Wrapper):
        found.append(found[-1].system)
    return found


def _with_ranges(system: System, arrays: dict, layer: int) -> System:
    if not isinstance(system, Wrapper):
        return system.in_worlds(system.worlds)
    changes = {"system": _with_ranges(system.system, arrays, layer + 1)}
    kept = {f.name: arrays.get(f"ranges/{layer}/{f.name}") for f in fields(Ranges)}
    if kept["low"] is not None:
        changes["ranges"] = Ranges(**kept)
    return system._copied(**changes)
