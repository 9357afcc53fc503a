"""``step`` and ``rollout`` with their pullbacks, through callbacks to the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock

import jax
import jax.numpy as jnp
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.launch import cores_to_use
from pullback.core.status import Status
from pullback.core.system import System, check_inputs, input_shape
from pullback.core.trees import is_real, is_state, leaf_names, leaves, row, start_of, tree_map, with_leaves
from pullback.rollout import Run, checkpoint_levels

COPIED_LATER = 100 * 1024  # [bytes] arrays from this size on JAX hands to a callback by way of another of its threads

_one_at_a_time = Lock()  # a System's workspace serves one call, but JAX may call back from several threads


def rollout(
    system: System,
    *start_and_controls,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    checkpoint_every: int | str | tuple[int, ...] = 1,
    status: Status | None = None,
):
    """The trajectory from a start under controls: ``rollout(system, state, controls)``, a state of arrays.

    Each of them has the shape of its field in ``state`` with time in front: q (steps + 1, worlds, nq), v (steps + 1,
    worlds, nv). The fields of the start may also be given one by one; then a plain tuple is returned:
    ``q, v = rollout(system, q0, v0, controls)``.

    system:    is closed over, not traced. What ``params`` does not replace is read from it whenever the function runs.
    state:     of arrays: q (worlds, nq) [m, rad, quaternions wxyz] and v (worlds, nv) [m/s, rad/s] for a robot
    controls:  (steps, worlds, nu) [as the actuators take them]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set per world. Their
               gradients take time, wanted or not: constants are better set in ``system.params``.
    inputs:    what acts besides the controls, e.g. {"wrench": (steps, worlds, nbody, 6)}: see :func:`pullback.rollout`
    hold:      timesteps for which each control is held; states are those of control steps
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The rest
               are stepped again in the backward pass; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    status:    a ``pullback.Status()`` to be filled in whenever the function runs: worlds that fail then stay where they
               were and have gradients of zero, as with ``on_failure="mask"`` of :func:`pullback.rollout`. Without one,
               failure is an error.
    """
    _check_precision(system)
    hold = check_whole(hold, "hold")
    start, controls = start_of(system, start_and_controls)
    start = with_leaves(start, _checked_start(system, start))
    controls = _checked(system, "controls", controls, ("steps", "worlds", "nu"), (None, system.worlds, system.nu))
    given = params or {}
    known = {name: system.params[name] for name in given}  # an error for names that the System does not know
    params = {name: _checked(system, f"parameter {name!r}", given[name]) for name in known}
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
    """The state one timestep on, or ``hold`` timesteps: ``step(system, state, control)``, or ``step(system, q, v,
    control)``, which returns a plain tuple. control: (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    *start, control = state_and_control
    control = _checked(system, "control", control, ("worlds", "nu"), (system.worlds, system.nu))
    every = None if inputs is None else {name: jnp.asarray(x)[None] for name, x in inputs.items()}
    states = rollout(system, *start, control[None], params=params, inputs=every, hold=hold, status=status)
    return row(states, 1) if is_state(states) else tuple(x[1] for x in states)


def differentiate(function, arrays: Mapping, system: System) -> tuple[np.ndarray, dict]:
    """Values (worlds,) of a JAX function of named arrays of a System, and its cotangents by each of them."""
    _check_precision(system)
    given = {name: jnp.asarray(to_numpy(array)) for name, array in arrays.items()}
    values, pull = jax.vjp(lambda named: function(**named), given)
    (bars,) = pull(jnp.ones_like(values))
    return np.asarray(values), {name: np.asarray(bar) for name, bar in bars.items()}


def _check_precision(system: System) -> None:
    if system.dtype == "float64" and not jax.config.jax_enable_x64:
        raise PullbackError(
            "the System is float64, but JAX is limited to float32: call "
            'jax.config.update("jax_enable_x64", True) at the start, or make the System with dtype="float32"'
        )


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _rollout(system, pace, start, controls, inputs, params):
    states, _made_by = _forward(system, pace, start, controls, inputs, params)
    return states


def _forward(system, pace, start, controls, inputs, params):
    """Kept states; which version of the System's own parameters made them; and what became of each world.

    pace: timesteps per control, levels of checkpoints, and where failure goes
    """
    rows = 1 + -(-controls.shape[0] // pace[1][0])
    shapes = tree_map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype), start)
    made_by = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((system.worlds, 2), np.int32)
    return _call(_Forward(system, *pace), (shapes, made_by), start, controls, inputs, params)


def _rollout_fwd(system, pace, start, controls, inputs, params):
    states, made_by = _forward(system, pace, start, controls, inputs, params)
    return states, (states, controls, inputs, params, made_by)


def _rollout_bwd(system, pace, kept, bars):
    states, controls, inputs, params, made_by = kept
    # JAX has a type of its own for cotangents of whole numbers, which no callback takes.
    bars = tree_map(lambda bar, x: bar if _is_real(x) else jnp.zeros(x.shape, system.dtype), bars, states)
    like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
    shapes = (tree_map(lambda bar: like(bar[0]), bars), *jax.tree_util.tree_map(like, (controls, inputs, params)))
    start_bar, *others = _call(_Backward(system, *pace), shapes, states, controls, inputs, params, made_by, bars)
    start_bar = tree_map(
        lambda bar, x: bar if _is_real(x) else np.zeros(bar.shape, jax.dtypes.float0), start_bar, states
    )
    return start_bar, *others


def _is_real(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


_rollout.defvjp(_rollout_fwd, _rollout_bwd)


def _call(callback, shapes, *arrays):
    for array in jax.tree_util.tree_leaves(arrays):
        if array.size * array.dtype.itemsize >= COPIED_LATER and _would_hang():
            raise PullbackError(
                "with a single CPU core JAX may wait for ever to hand over an array of this size: call "
                'jax.config.update("jax_cpu_enable_async_dispatch", False) before the first use of JAX'
            )
    return jax.pure_callback(callback, shapes, *arrays, vmap_method="sequential")


def _would_hang() -> bool:
    """Whether JAX's only thread may wait for a callback that waits for that thread to copy an argument."""
    return (
        cores_to_use(None) == 1 and jax.default_backend() == "cpu" and jax.config.read("jax_cpu_enable_async_dispatch")
    )


# --- on the host: NumPy only, since a callback that uses JAX can wait for itself --------------------------------------

# Callbacks are values, so that JAX knows an equal one again and does not compile every call anew.


@dataclass(frozen=True)
class _Forward:
    system: System
    hold: int
    levels: tuple[int, ...]
    status: Status | None

    def __call__(self, start, controls, inputs, params):
        start, controls, inputs, params = _to_host((start, controls, inputs, params))
        with _one_at_a_time:
            held = self.system.hold_params(params)
            keep_every = self.hold * self.levels[0]
            inputs = check_inputs(self.system, inputs, len(controls))
            given = ({"inputs": inputs} if inputs else {}) | ({} if self.status is None else {"status": self.status})
            states = self.system.steps(start, controls, keep_every=keep_every, hold=self.hold, params=held, **given)
            states = tree_map(lambda x, like: to_numpy(x).astype(like.dtype), states, start)
            codes = np.full((self.system.worlds, 2), -1) if self.status is None else to_numpy(self.status.codes)
            return states, (np.int32(_version_of(self.system)), codes.astype(np.int32))


@dataclass(frozen=True)
class _Backward:
    system: System
    hold: int
    levels: tuple[int, ...]
    status: Status | None

    def __call__(self, states, controls, inputs, params, made_by, states_bar):
        version, codes = _to_host(made_by)
        if int(version) != _version_of(self.system):
            raise PullbackError(
                "the System's parameters were changed between the trajectory and its gradient: "
                "pass those that change as params"
            )
        states, controls, inputs, params, states_bar = _to_host((states, controls, inputs, params, states_bar))
        status = None if self.status is None else Status(codes)
        with _one_at_a_time:
            held = self.system.hold_params(params)
            run = Run(self.system, states, controls, self.levels, held, self.hold, inputs, status)
            given = {f"{name}_bar": bar for name, bar in states_bar._asdict().items()}
            bars = run.pullback(**given, wants_params=bool(params))
            params_bar = {
                name: to_numpy(bars.params[name]).astype(x.dtype).reshape(x.shape) for name, x in params.items()
            }
            dtype = self.system.dtype
            state_bar = tree_map(lambda x: to_numpy(x).astype(dtype), bars.state)
            inputs_bar = {name: to_numpy(x) for name, x in bars.inputs.items()}
            return state_bar, to_numpy(bars.controls), inputs_bar, params_bar


def _to_host(arrays):
    return jax.tree_util.tree_map(np.asarray, arrays)


def _version_of(system: System) -> int:
    return getattr(getattr(system, "params", None), "version", 0)


def _checked_start(system: System, start) -> list[jax.Array]:
    """The leaves of a state, each with the shape that the System's own states have, where it has ``state()``."""
    own = leaves(system.state()) if hasattr(system, "state") else [None] * len(leaves(start))
    found = []
    for name, leaf, like in zip(leaf_names(start), leaves(start), own, strict=True):
        leaf = _array(name, leaf)
        if not _is_real(leaf) and (like is None or not is_real(like)):  # a counter
            found.append(leaf)
            continue
        sizes = leaf.shape if like is None else like.shape
        axes = ("worlds", *(f"n{name}" if len(sizes) == 2 else f"axis {i}" for i in range(1, len(sizes))))
        found.append(_checked(system, name, leaf, axes, (system.worlds, *sizes[1:])))
    return found


def _checked_input(system: System, name: str, x, steps: int) -> jax.Array:
    sizes = (steps, system.worlds, *input_shape(system, name))
    axes = ("steps", "worlds", *(f"axis {i}" for i in range(2, len(sizes))))
    return _checked(system, f"input {name!r}", x, axes, sizes)


def _checked(system: System, name: str, x, axes: tuple[str, ...] = (), sizes: tuple = ()) -> jax.Array:
    """x as a JAX array of the System's precision and, where ``axes`` are given, of these sizes (None: any but zero)."""
    x = _array(name, x)
    if x.dtype != system.dtype:
        other = f', or make the System with dtype="{x.dtype}"' if x.dtype in ("float32", "float64") else ""
        raise PullbackError(
            f'{name} is {x.dtype}, but the System is {system.dtype}: convert it with .astype("{system.dtype}"){other}'
        )
    if axes and (
        x.ndim != len(axes)
        or any(n == 0 if size is None else n != size for n, size in zip(x.shape, sizes, strict=True))
    ):
        wanted = ", ".join(axis if size is None else f"{axis}={size}" for axis, size in zip(axes, sizes, strict=True))
        raise PullbackError(f"{name} has shape {x.shape}, but ({wanted}) is needed")
    return x


def _array(name: str, x) -> jax.Array:
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise PullbackError(f"{name} cannot be read as an array of numbers: {error}") from error
