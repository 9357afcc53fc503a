"""Jacobians of steps, by one pullback per row, many of them in one launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pullback.core.arrays import checked, to_numpy
from pullback.core.bars import Jacobians
from pullback.core.errors import GradientOverflow
from pullback.core.system import RobotState
from pullback.core.trees import row, stack, tree_map
from pullback.dynamics.params import KernelParams

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated

# The most pullbacks in one launch: each has cotangents of all parameters, some 10 KB for a quadruped.
LAUNCH = 4096
# Wide Systems that are cached: one for single steps, and one for trajectories.
WIDE_SYSTEMS = 2


def linearize(
    system: Articulated, state: RobotState, control=None, params: Mapping | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A (worlds, 2nv, 2nv) and B (worlds, 2nv, nu): see :meth:`Articulated.linearize`."""
    if control is None:
        control = np.zeros((system.worlds, system.nu), dtype=system.dtype)
    control = checked(control, (system.worlds, system.nu), system.dtype, "control", ("worlds", "nu"))
    held = system.hold_params(params)
    states = system.steps(state, control[None], params=held)
    (found,) = jacobians(system, states, control[None], held)
    return found.A[0], found.B[0]


def jacobians(
    system: Articulated, states: RobotState, controls, held: KernelParams, names: tuple[str, ...] = ()
) -> Iterator[Jacobians]:
    """Yields the :class:`Jacobians` of the steps along states (steps + 1, worlds, ...), in chunks of steps."""
    rows, worlds = _tangent_size(system), system.worlds
    states, controls = tree_map(to_numpy, states), to_numpy(controls)
    steps = len(controls)
    if rows == 0:
        shapes = {name: (steps, worlds, 0, *_shape(held, name)) for name in names}
        none = np.zeros((steps, worlds, 0, 0), system.dtype)
        yield Jacobians(0, none, np.zeros((steps, worlds, 0, system.nu)), {n: np.zeros(s) for n, s in shapes.items()})
        return
    chunk = min(steps, max(1, LAUNCH // (worlds * rows)))
    wide, wide_held = _wide_system(system, chunk, held, names)
    # Copy (t·worlds + w)·rows + r holds the cotangent that picks row r of the tangent of the state after the step.
    picks = np.tile(np.eye(rows, dtype=system.dtype), (chunk * worlds, 1))
    for first in range(0, steps, chunk):
        taken = np.minimum(np.arange(first, first + chunk), steps - 1)  # the last chunk repeats its last step
        spread = lambda x: np.repeat(x.reshape(chunk * worlds, -1), rows, axis=0)  # noqa: E731
        before, after = (tree_map(spread, row(states, steps_of)) for steps_of in (taken, taken + 1))
        next_bar = wide.state_bar(after, picks)
        backward = wide.backward(
            spread(controls[taken])[None], after, next_bar, params=wide_held, wants_params=bool(names)
        )
        backward.through(stack([before, after]), 0, 1)
        try:
            bars = backward.finish(before)
        except GradientOverflow as error:  # its message would count the copies of worlds
            raise GradientOverflow("the linearisation is not finite; is the state?") from error
        found = {name: bars.params[name] for name in names}
        found |= {"A": wide.tangent_bar(before, bars.state), "B": to_numpy(bars.control)[0]}
        left = min(chunk, steps - first)
        found = {n: x.reshape(chunk, worlds, rows, *x.shape[1:])[:left] for n, x in found.items()}
        yield Jacobians(first, found.pop("A"), found.pop("B"), found)


def _tangent_size(system: Articulated) -> int:
    """The dimension of the tangent space of a state."""
    return 2 * system.nv + system.na


def _shape(held: KernelParams, name: str) -> tuple[int, ...]:
    shape = np.shape(held.values[name])
    return shape[1:] if held.per_world[name] else shape


def _wide_system(system: Articulated, steps: int, held: KernelParams, names: tuple[str, ...]):
    """A System with 2nv + na copies of each world for each step, and its held parameters.

    Each copy has its own value of the parameters in ``names``. Both are cached in the System, since making them takes
    longer than the Jacobians.
    """
    rows = _tangent_size(system)
    copies = steps * system.worlds * rows
    wide, wide_held, known = system._wide_systems.pop(copies, (None, None, None))
    if wide is None:
        wide = system.in_worlds(copies)
    if known is None or known[0] is not held or known[1] != names:
        values = dict(held.values)
        for name, value in values.items():
            if name in names and not held.per_world[name]:
                value = np.repeat(value[None], system.worlds, axis=0)
            if name in names or held.per_world[name]:
                values[name] = np.tile(np.repeat(value, rows, axis=0), (steps, *(1,) * (value.ndim - 1)))
        wide_held = wide._kernel_params_of(values)  # checked when they were held
    system._wide_systems = dict(
        [*system._wide_systems.items(), (copies, (wide, wide_held, (held, names)))][-WIDE_SYSTEMS:]
    )
    return wide, wide_held
