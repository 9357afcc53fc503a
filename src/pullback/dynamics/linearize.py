"""Jacobians of one step, from as many pullbacks as the state has numbers, all in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pullback.core.arrays import checked, to_numpy
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.system import State
from pullback.model.tangent import coordinates_of_tangent, tangent_of_coordinates

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated


def linearize(
    system: Articulated, state: State, control=None, params: Mapping | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A (worlds, 2nv, 2nv) and B (worlds, 2nv, nu): see :meth:`Articulated.linearize`."""
    nv, rows = system.nv, 2 * system.nv
    if control is None:
        control = np.zeros((system.worlds, system.nu), dtype=system.dtype)
    start = system._take_state(state)
    control = checked(control, (system.worlds, system.nu), system.dtype, "control", ("worlds", "nu"))
    if rows == 0:
        return np.zeros((system.worlds, 0, 0), system.dtype), np.zeros((system.worlds, 0, system.nu), system.dtype)
    wide, held = _wide_system(system, rows, params)
    q, v, u = (np.repeat(to_numpy(x), rows, axis=0) for x in (*start, control))
    states = wide.steps(State(q, v), u[None], params=held)
    after = State(states.q[1], states.v[1])

    # World w·rows + r holds the cotangent that picks row r: of the tangent of q' for r < nv, of v' for the rest.
    picks = np.tile(np.eye(rows, dtype=system.dtype), (system.worlds, 1))
    next_bar = State(coordinates_of_tangent(system.model, to_numpy(after.q), picks[:, :nv]), picks[:, nv:])
    backward = wide.backward(u[None], after, next_bar, params=held, wants_params=False)
    backward.through(State(states.q[:1], states.v[:1]), 0, 1)
    try:
        bars = backward.finish(State(states.q[0], states.v[0]))
    except GradientOverflow as error:  # which counts the copies of worlds
        raise PullbackError("the linearisation is not finite; is the state?") from error
    q_bar = tangent_of_coordinates(system.model, q, to_numpy(bars.state.q))
    A = np.concatenate([q_bar, to_numpy(bars.state.v)], axis=1).reshape(system.worlds, rows, rows)
    B = to_numpy(bars.control).reshape(system.worlds, rows, system.nu)
    return A, B


def _wide_system(system: Articulated, rows: int, params: Mapping | None):
    """A System with ``rows`` copies of each world, and its parameters.

    Both are kept with the System, since making them takes longer than the Jacobians do.
    """
    if system._wide is None:
        system._wide = (system.in_worlds(rows * system.worlds), None, -1)
    wide, held, version = system._wide
    if params or version != system.params.version:
        given = {**system.params, **{name: system.params.check(name, value) for name, value in (params or {}).items()}}
        per_world = {n: np.repeat(x, rows, axis=0) for n, x in given.items() if system.params.is_per_world(n, x)}
        held = wide.hold_params({**given, **per_world})
        if not params:
            system._wide = (wide, held, system.params.version)
    return wide, held
