"""The algorithms of :mod:`pullback.dynamics` in JAX, differentiable by q, v and parameters, through callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.system import System
from pullback.dynamics.bound import bars_of, bind
from pullback.jax.callbacks import (
    as_array,
    call,
    check_precision,
    check_version,
    checked,
    checked_params,
    one_at_a_time,
    params_bar,
    to_host,
    version_of,
)


def _checked_evaluate(algorithm, system: Any, arrays: Mapping, params: Mapping, options: Mapping) -> jax.Array:
    check_precision(system)
    params = checked_params(system, params)
    arrays = {name: as_array(name, x) for name, x in arrays.items()}
    times = arrays["q"].shape[:1] if arrays["q"].ndim == 3 else ()
    for name, x in arrays.items():
        size = sizes_of(system).get(name, ("nv", system.nv))
        axes, sizes = zip(*(("times", n) for n in times), ("worlds", system.worlds), size, strict=True)
        checked(system, name, x, axes, sizes)
    options = {name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}
    # Evaluated once at the home pose, for the shape of the value, and to raise errors about options now.
    home = {name: np.zeros((system.worlds, x.shape[-1]), system.dtype) for name, x in arrays.items()}
    one = algorithm(system, **home | {"q": system.state().q}, **options).value
    which = _Algorithm(algorithm, system, tuple(arrays), tuple(options.items()))
    return _evaluate(which, (*times, *one.shape), tuple(arrays.values()), params)


def sizes_of(system: Any) -> dict[str, tuple[str, int]]:
    """The name and size of the last axis of each array, where that is not nv."""
    return {"q": ("nq", system.nq), "act": ("na", system.na), "control": ("nu", system.nu)}


@dataclass(frozen=True)
class _Algorithm:
    """An algorithm of a System with options. It is hashable, so that JAX recognises equal ones."""

    algorithm: Callable
    system: System
    of: tuple[str, ...]  # names of the arrays
    options: tuple[tuple, ...]

    def evaluate(self, arrays, params):
        return self.algorithm(
            self.system, **dict(zip(self.of, arrays, strict=True)), params=params, **dict(self.options)
        )


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _evaluate(which, shape, arrays, params):
    return _forward(which, shape, arrays, params)[0]


def _forward(which, shape, arrays, params):
    """The value, and the version of the System's own parameters that it was computed with."""
    shapes = jax.ShapeDtypeStruct(shape, which.system.dtype), jax.ShapeDtypeStruct((), np.int32)
    return call(_Forward(which), shapes, arrays, params)


def _evaluate_fwd(which, shape, arrays, params):
    value, version = _forward(which, shape, arrays, params)
    return value, (arrays, params, version)


def _evaluate_bwd(which, shape, kept, bar):
    arrays, params, version = kept
    shapes = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (arrays, params))
    return call(_Backward(which), shapes, arrays, params, version, bar)


_evaluate.defvjp(_evaluate_fwd, _evaluate_bwd)


# --- on the host: NumPy only, since a callback that uses JAX can deadlock ---------------------------------------------


@dataclass(frozen=True)
class _Forward:
    which: _Algorithm

    def __call__(self, arrays, params):
        with one_at_a_time:
            found = self.which.evaluate(*to_host((arrays, params)))
            return to_numpy(found.value), np.int32(version_of(self.which.system))


@dataclass(frozen=True)
class _Backward:
    which: _Algorithm

    def __call__(self, arrays, params, version, bar):
        check_version(self.which.system, version)
        arrays, params, bar = to_host((arrays, params, bar))
        with one_at_a_time:
            bars = self.which.evaluate(arrays, params).pullback(bar, wants_params=bool(params))
            given = bars_of(self.which.algorithm, self.which.of, bars)
            return tuple(map(to_numpy, given)), params_bar(bars.params, params)


(
    kinematics,
    jacobian,
    velocity,
    acceleration,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    momentum,
    inverse_dynamics,
    mass_matrix,
    forward_dynamics,
    sensors,
) = bind(_checked_evaluate)
