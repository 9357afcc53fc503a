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
from pullback.core.errors import PullbackError
from pullback.core.launch import cores_to_use
from pullback.core.system import System
from pullback.rollout import Run, checkpoint_levels
from pullback.rollout import rollout as roll

COPIED_LATER = 100 * 1024  # [bytes] arrays from this size on JAX hands to a callback by way of another of its threads

_one_at_a_time = Lock()  # a System's workspace serves one call, but JAX may call back from several threads


def rollout(
    system: System,
    q0: jax.Array,
    v0: jax.Array,
    controls: jax.Array,
    params: Mapping | None = None,
    checkpoint_every: int | str | tuple[int, ...] = 1,
) -> tuple[jax.Array, jax.Array]:
    """The trajectory from (q0, v0) under ``controls``: q (steps + 1, worlds, nq), v (steps + 1, worlds, nv).

    Of another System than a robot, q and v are the two fields of its state, such as T and s of heat.

    system:    is closed over, not traced. What ``params`` does not replace is read from it whenever the function runs.
    q0:        (worlds, nq) [m, rad, quaternions wxyz]
    v0:        (worlds, nv) [m/s, rad/s]
    controls:  (steps, worlds, nu) [as the actuators take them]
    params:    replaces some of the System's parameters, e.g. {"mass": mass}, shared or one set a world. Their gradients
               take time, wanted or not: constants are better set in ``system.params``.
    checkpoint_every: k > 1 keeps, and returns, only every k-th state and the last: rows 0, k, 2k, ..., steps. The rest
               are stepped again in the backward pass; the gradient is the same in about 1/k of the memory. "sqrt" and
               levels as in :func:`pullback.rollout`.
    """
    if system.dtype == "float64" and not jax.config.jax_enable_x64:
        raise PullbackError(
            "the System is float64, but JAX is limited to float32: call "
            'jax.config.update("jax_enable_x64", True) at the start, or make the System with dtype="float32"'
        )
    nq, nv = system.state_sizes
    q0 = _checked(system, "q0", q0, ("worlds", "nq"), (system.worlds, nq))
    v0 = _checked(system, "v0", v0, ("worlds", "nv"), (system.worlds, nv))
    controls = _checked(system, "controls", controls, ("steps", "worlds", "nu"), (None, system.worlds, system.nu))
    known = {name: system.params[name] for name in params or {}}  # an error for names that the System does not know
    params = {name: _checked(system, f"parameter {name!r}", params[name]) for name in known}
    levels = checkpoint_levels(checkpoint_every, controls.shape[0])
    return _rollout(system, levels, q0, v0, controls, params)


def step(
    system: System, q: jax.Array, v: jax.Array, control: jax.Array, params: Mapping | None = None
) -> tuple[jax.Array, jax.Array]:
    """The state one timestep on: q (worlds, nq), v (worlds, nv), from the same and control (worlds, nu).

    Many steps whose controls are known beforehand are much faster in one :func:`rollout`.
    """
    control = _checked(system, "control", control, ("worlds", "nu"), (system.worlds, system.nu))
    q, v = rollout(system, q, v, control[None], params)
    return q[1], v[1]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _rollout(system, levels, q0, v0, controls, params):
    q, v, _version = _forward(system, levels, q0, v0, controls, params)
    return q, v


def _forward(system, levels, q0, v0, controls, params):
    """Kept states, and which version of the System's own parameters made them."""
    rows = 1 + -(-controls.shape[0] // levels[0])
    shapes = tuple(jax.ShapeDtypeStruct((rows, *x.shape), x.dtype) for x in (q0, v0))
    version = jax.ShapeDtypeStruct((), np.int32)
    return _call(_Forward(system, levels), (*shapes, version), q0, v0, controls, params)


def _rollout_fwd(system, levels, q0, v0, controls, params):
    q, v, version = _forward(system, levels, q0, v0, controls, params)
    return (q, v), (q, v, controls, params, version)


def _rollout_bwd(system, levels, kept, bars):
    q, v, controls, params, version = kept
    shapes = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (q[0], v[0], controls, params))
    return _call(_Backward(system, levels), shapes, q, v, controls, params, version, *bars)


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
    levels: tuple[int, ...]

    def __call__(self, q0, v0, controls, params):
        q0, v0, controls = (np.asarray(x) for x in (q0, v0, controls))
        params = {name: np.asarray(x) for name, x in params.items()}
        with _one_at_a_time:
            start = self.system.state_type(q0, v0)
            run = roll(self.system, start, controls, checkpoint_every=self.levels, params=params)
            return *(to_numpy(x) for x in run.states), np.int32(_version_of(self.system))


@dataclass(frozen=True)
class _Backward:
    system: System
    levels: tuple[int, ...]

    def __call__(self, q, v, controls, params, version, q_bar, v_bar):
        if int(version) != _version_of(self.system):
            raise PullbackError(
                "the System's parameters were changed between the motion and its gradient: "
                "pass those that change as params"
            )
        q, v, controls, q_bar, v_bar = (np.asarray(x) for x in (q, v, controls, q_bar, v_bar))
        params = {name: np.asarray(x) for name, x in params.items()}
        with _one_at_a_time:
            kept = self.system.state_type(q, v)
            run = Run(self.system, kept, controls, self.levels, params)
            given = {f"{name}_bar": bar for name, bar in zip(kept._fields, (q_bar, v_bar), strict=True)}
            bars = run.pullback(**given, wants_params=bool(params))
            params_bar = {
                name: to_numpy(bars.params[name]).astype(x.dtype).reshape(x.shape) for name, x in params.items()
            }
            return *(to_numpy(x) for x in bars.state), to_numpy(bars.controls), params_bar


def _version_of(system: System) -> int:
    return getattr(getattr(system, "params", None), "version", 0)


def _checked(system: System, name: str, x, axes: tuple[str, ...] = (), sizes: tuple = ()) -> jax.Array:
    """x as a JAX array of the System's precision and, where ``axes`` are given, of these sizes (None: any but zero)."""
    try:
        x = jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise PullbackError(f"{name} cannot be read as an array of numbers: {error}") from error
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
