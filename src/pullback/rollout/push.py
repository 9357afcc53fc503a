"""Forward sensitivities: tangents of every state of a run, from tangents of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.core.arrays import first_not_finite, to_numbers
from pullback.core.checks import check_kind
from pullback.core.errors import GradientOverflow, PullbackError


def pushforward(run, state=None, controls=None, params: Mapping | None = None) -> np.ndarray:
    """See :meth:`Run.pushforward`. Exact: S' = A S + B U + P, with the Jacobians of every step from its pullbacks."""
    refuse_inputs(run, "pushforward")
    if run.hold > 1:
        spread = None if controls is None else np.repeat(to_numbers(controls, "the tangent of controls"), run.hold, 0)
        return pushforward(run.timesteps(), state, spread, params)[:: run.hold]
    system = run.system
    size = system.difference(run.final, run.final).shape[-1]
    given: dict[str, tuple[Any, tuple[int, ...]]] = {}
    given |= {} if state is None else {"state": (state, (system.worlds, size))}
    given |= {} if controls is None else {"controls": (controls, (run.steps, system.worlds, system.nu))}
    if params is not None:
        check_kind(params, Mapping, "params", '{"mass": tangents}')
    for name, tangent in (params or {}).items():
        given[name] = tangent, (system.worlds, *_own_shape(run, name))
    if not given:
        raise PullbackError("give the tangents of at least one of state, controls and params")
    count = np.shape(next(iter(given.values()))[0])[-1:]
    tangents = {name: _checked(name, value, shape, count) for name, (value, shape) in given.items()}

    names = tuple(params or {})
    result = np.zeros((run.steps + 1, system.worlds, size, *count))
    result[0] = tangents.get("state", 0.0)
    for part in system.jacobians(run.every_state(), run.controls, run.params, names):
        driven = np.zeros((*part.A.shape[:2], size, *count))
        if controls is not None:
            driven += part.B @ tangents["controls"][part.first : part.first + len(part.A)]
        for name in names:
            by = part.params[name].reshape(*part.A.shape[:2], size, -1)
            driven += by @ tangents[name].reshape(system.worlds, -1, *count)
        for t in range(len(part.A)):
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is found below
                result[part.first + t + 1] = part.A[t] @ result[part.first + t] + driven[t]
    if run.status is not None:
        result[:, run.status.failed] = 0.0
    bad = first_not_finite(result)
    if bad is not None:
        raise GradientOverflow(
            f"sensitivities grew beyond the precision in world {bad[1]} at step {bad[0]}",
            world=bad[1],
            worlds=np.unique(np.argwhere(~np.isfinite(result))[:, 1]),
        )
    return result


def refuse_inputs(run, what: str) -> None:
    """Raises an error if a run has inputs besides the controls: there are no Jacobians of steps by those."""
    if run.inputs:
        raise PullbackError(f"{what} of a run with inputs ({', '.join(run.inputs)}) is not supported: use run.pullback")


def _own_shape(run, name: str) -> tuple[int, ...]:
    """The shape of a parameter in one world."""
    values = run.system.params
    shape = np.shape(values[name])
    return shape[1:] if values.is_per_world(name, values[name]) else shape


def _checked(name: str, value, shape: tuple[int, ...], count: tuple[int, ...]) -> np.ndarray:
    value = to_numbers(value, f"the tangent of {name}").astype(float)
    if value.shape not in ((*shape, *count), (*shape[1:], *count)) or not count:
        raise PullbackError(f"the tangent of {name} has shape {value.shape}, but {shape} and one more axis is needed")
    return np.broadcast_to(value, (*shape, *count))
