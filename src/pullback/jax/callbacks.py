"""Checks of traced JAX arrays, and callbacks to the host."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

import jax
import jax.numpy as jnp
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.launch import cores_to_use
from pullback.core.system import System

COPIED_LATER = 100 * 1024  # [bytes] arrays of this size or more are copied for a callback by another of JAX's threads

one_at_a_time = Lock()  # a System has one workspace, but JAX may call back from several threads


def check_precision(system: System) -> None:
    if system.dtype == "float64" and not jax.config.jax_enable_x64:
        raise PullbackError(
            "the System is float64, but JAX is limited to float32: call "
            'jax.config.update("jax_enable_x64", True) at the start, or make the System with dtype="float32"'
        )


def checked(system: System, name: str, x, axes: tuple[str, ...] = (), sizes: tuple = ()) -> jax.Array:
    """x as a JAX array of the System's precision and, if ``axes`` are given, of these sizes (None: any except zero)."""
    x = as_array(name, x)
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


def as_array(name: str, x) -> jax.Array:
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise PullbackError(f"{name} cannot be read as an array of numbers: {error}") from error


def checked_params(system: System, params: Mapping) -> dict[str, jax.Array]:
    """Parameters, checked to have the System's precision; an error for unknown names."""
    known = {name: system.params[name] for name in params}
    return {name: checked(system, f"parameter {name!r}", params[name]) for name in known}


def is_floating(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def call(callback, shapes, *arrays):
    for array in jax.tree_util.tree_leaves(arrays):
        if array.size * array.dtype.itemsize >= COPIED_LATER and _would_hang():
            raise PullbackError(
                "with a single CPU core JAX may wait for ever to hand over an array of this size: call "
                'jax.config.update("jax_cpu_enable_async_dispatch", False) before the first use of JAX'
            )
    return jax.pure_callback(callback, shapes, *arrays, vmap_method="sequential")


def _would_hang() -> bool:
    """Whether JAX has a single thread, which would wait for a callback that waits for it to copy an argument."""
    return (
        cores_to_use(None) == 1 and jax.default_backend() == "cpu" and jax.config.read("jax_cpu_enable_async_dispatch")
    )


def to_host(arrays):
    return jax.tree_util.tree_map(np.asarray, arrays)


def version_of(system: System) -> int:
    return getattr(getattr(system, "params", None), "version", 0)


def check_version(system: System, version) -> None:
    """Raises an error if the System's own parameters have changed since the forward pass."""
    if int(to_host(version)) != version_of(system):
        raise PullbackError(
            "the System's parameters were changed between the trajectory and its gradient: "
            "pass those that change as params"
        )


def params_bar(bars: Mapping, params: Mapping) -> dict[str, np.ndarray]:
    """Cotangents of the given parameters, in their shapes and precision."""
    return {name: to_numpy(bars[name]).astype(x.dtype).reshape(x.shape) for name, x in params.items()}
