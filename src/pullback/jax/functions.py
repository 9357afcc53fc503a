"""``step`` and ``rollout`` with their pullbacks, through callbacks to the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_whole
from pullback.core.status import Status
from pullback.core.system import System, check_inputs, input_shape
from pullback.core.trees import is_real, is_state, leaf_names, leaves, row, start_of, tree_map, with_leaves
from pullback.jax.callbacks import (
    as_array,
    call,
    check_precision,
    check_version,
    checked,
    checked_params,
    is_floating,
    one_at_a_time,
    params_bar,
    to_host,
    version_of,
)
from pullback.rollout import Run, checkpoint_levels


def rollout(
    system: System,
    *start_and_controls,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    checkpoint_every: int | str | tuple[int, ...] = 1,
    status: Status | None = None,
):
    """The trajectory from an initial state under controls: ``rollout(system, state, controls)``, a state of arrays.

    Each array has the shape of its field in ``state`` with time in front: q (steps + 1, worlds, nq), v (steps + 1,
    worlds, nv). The fields of the initial state may also be given one by one; then a plain tuple is returned:
    ``q, v = rollout(system, q0, v0, controls)``.

    system:    is closed over, not traced. Its own parameters are read whenever the function runs.
    state:     of arrays: q (worlds, nq) [m, rad, quaternions wxyz] and v (worlds, nv) [m/s, rad/s] for a robot
    controls:  (steps, worlds, nu) [in the actuators' units]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set per world. Their
               gradients take time, wanted or not: set constants in ``system.params`` instead.
    inputs:    inputs besides the controls, e.g. {"wrench": (steps, worlds, nbody, 6)}: see :func:`pullback.rollout`
    hold:      timesteps for which each control is held; states are those of control steps
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The
               backward pass recomputes the others; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    status:    a ``pullback.Status()`` to be filled in whenever the function runs: worlds that fail then keep their last
               state and have zero gradients, as with ``on_failure="mask"`` of :func:`pullback.rollout`. Without one,
               failure is an error.
    """
    check_precision(system)
    hold = check_whole(hold, "hold")
    start, controls = start_of(system, start_and_controls)
    start = with_leaves(start, _checked_start(system, start))
    controls = checked(system, "controls", controls, ("steps", "worlds", "nu"), (None, system.worlds, system.nu))
    params = checked_params(system, params or {})
    inputs = {name: _checked_input(system, name, x, controls.shape[0]) for name, x in (inputs or {}).items()}
    levels = checkpoint_levels(checkpoint_every, controls.shape[0])
    states = _rollout(system, (hold, levels, status), start, controls, inputs, params)
    return states if is_state(start_and_controls[0]) else tuple(states)


def step(
    system: System,
    *state_and_control,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    status: Status | None = None,
):
    """The state after one control step of ``hold`` timesteps: ``step(system, state, control)``, or ``step(system, q, v,
    control)``, which returns a plain tuple. control: (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    *start, control = state_and_control
    control = checked(system, "control", control, ("worlds", "nu"), (system.worlds, system.nu))
    every = None if inputs is None else {name: jnp.asarray(x)[None] for name, x in inputs.items()}
    states = rollout(system, *start, control[None], params=params, inputs=every, hold=hold, status=status)
    return row(states, 1) if is_state(states) else tuple(x[1] for x in states)


def differentiate(function, arrays: Mapping, system: System) -> tuple[np.ndarray, dict]:
    """Values (worlds,) of a JAX function of a System's named arrays, and the cotangents of these arrays."""
    check_precision(system)
    given = {name: jnp.asarray(to_numpy(array)) for name, array in arrays.items()}
    values, pull = jax.vjp(lambda named: function(**named), given)
    (bars,) = pull(jnp.ones_like(values))
    return np.asarray(values), {name: np.asarray(bar) for name, bar in bars.items()}


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _rollout(system, pace, start, controls, inputs, params):
    states, _made_by = _forward(system, pace, start, controls, inputs, params)
    return states


def _forward(system, pace, start, controls, inputs, params):
    """The kept states, the version of the System's own parameters that they were computed with, and the status codes.

    pace: timesteps per control, levels of checkpoints, and the status or None
    """
    rows = 1 + -(-controls.shape[0] // pace[1][0])
    shapes = tree_map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype), start)
    made_by = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((system.worlds, 2), np.int32)
    return call(_Forward(system, *pace), (shapes, made_by), start, controls, inputs, params)


def _rollout_fwd(system, pace, start, controls, inputs, params):
    states, made_by = _forward(system, pace, start, controls, inputs, params)
    return states, (states, controls, inputs, params, made_by)


def _rollout_bwd(system, pace, kept, bars):
    states, controls, inputs, params, made_by = kept
    # JAX has a special type for cotangents of whole numbers, which callbacks do not accept.
    bars = tree_map(lambda bar, x: bar if is_floating(x) else jnp.zeros(x.shape, system.dtype), bars, states)
    like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
    shapes = (tree_map(lambda bar: like(bar[0]), bars), *jax.tree_util.tree_map(like, (controls, inputs, params)))
    start_bar, *others = call(_Backward(system, *pace), shapes, states, controls, inputs, params, made_by, bars)
    start_bar = tree_map(
        lambda bar, x: bar if is_floating(x) else np.zeros(bar.shape, jax.dtypes.float0), start_bar, states
    )
    return start_bar, *others


_rollout.defvjp(_rollout_fwd, _rollout_bwd)


# --- on the host: NumPy only, since a callback that uses JAX can deadlock ---------------------------------------------

# Callbacks are hashable dataclasses, so that JAX recognises equal ones and does not compile every call again.


@dataclass(frozen=True)
class _Forward:
    system: System
    hold: int
    levels: tuple[int, ...]
    status: Status | None

    def __call__(self, start, controls, inputs, params):
        start, controls, inputs, params = to_host((start, controls, inputs, params))
        with one_at_a_time:
            held = self.system.hold_params(params)
            keep_every = self.hold * self.levels[0]
            inputs = check_inputs(self.system, inputs, len(controls))
            given = ({"inputs": inputs} if inputs else {}) | ({} if self.status is None else {"status": self.status})
            states = self.system.steps(start, controls, keep_every=keep_every, hold=self.hold, params=held, **given)
            states = tree_map(lambda x, like: to_numpy(x).astype(like.dtype), states, start)
            codes = np.full((self.system.worlds, 2), -1) if self.status is None else to_numpy(self.status.codes)
            return states, (np.int32(version_of(self.system)), codes.astype(np.int32))


@dataclass(frozen=True)
class _Backward:
    system: System
    hold: int
    levels: tuple[int, ...]
    status: Status | None

    def __call__(self, states, controls, inputs, params, made_by, states_bar):
        version, codes = to_host(made_by)
        check_version(self.system, version)
        states, controls, inputs, params, states_bar = to_host((states, controls, inputs, params, states_bar))
        status = None if self.status is None else Status(codes)
        with one_at_a_time:
            held = self.system.hold_params(params)
            run = Run(self.system, states, controls, self.levels, held, self.hold, inputs, status)
            given = {f"{name}_bar": bar for name, bar in states_bar._asdict().items()}
            bars = run.pullback(**given, wants_params=bool(params))
            dtype = self.system.dtype
            state_bar = tree_map(lambda x: to_numpy(x).astype(dtype), bars.state)
            inputs_bar = {name: to_numpy(x) for name, x in bars.inputs.items()}
            return state_bar, to_numpy(bars.controls), inputs_bar, params_bar(bars.params, params)


def _checked_start(system: System, start) -> list[jax.Array]:
    """The leaves of a state, checked against the shapes of the System's own states if it has ``state()``."""
    own = leaves(system.state()) if hasattr(system, "state") else [None] * len(leaves(start))
    found = []
    for name, leaf, like in zip(leaf_names(start), leaves(start), own, strict=True):
        leaf = as_array(name, leaf)
        if not is_floating(leaf) and (like is None or not is_real(like)):  # a counter
            found.append(leaf)
            continue
        sizes = leaf.shape if like is None else like.shape
        axes = ("worlds", *(f"n{name}" if len(sizes) == 2 else f"axis {i}" for i in range(1, len(sizes))))
        found.append(checked(system, name, leaf, axes, (system.worlds, *sizes[1:])))
    return found


def _checked_input(system: System, name: str, x, steps: int) -> jax.Array:
    sizes = (steps, system.worlds, *input_shape(system, name))
    axes = ("steps", "worlds", *(f"axis {i}" for i in range(2, len(sizes))))
    return checked(system, f"input {name!r}", x, axes, sizes)
