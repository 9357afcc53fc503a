"""The textbook algorithms as functions of another array library, torch or JAX."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator

from pullback.dynamics import algorithms
from pullback.dynamics.sensors import sensors

ALGORITHMS = (
    algorithms.kinematics,
    algorithms.jacobian,
    algorithms.velocity,
    algorithms.acceleration,
    algorithms.center_of_mass,
    algorithms.center_of_mass_velocity,
    algorithms.energy,
    algorithms.momentum,
    algorithms.inverse_dynamics,
    algorithms.mass_matrix,
    algorithms.forward_dynamics,
    sensors,
)


def bind(evaluate: Callable) -> Iterator[Callable]:
    """All ALGORITHMS, in order, as functions of another array library.

    They return ``evaluate(algorithm, system, arrays, params, options)`` instead of an Evaluation.

    arrays:  by name, the given arguments that have cotangents; see ``bars_of``
    params:  the given parameters, by name
    options: the other keywords
    """
    for algorithm in ALGORITHMS:
        yield _bound(algorithm, evaluate)


def array_names(algorithm: Callable) -> list[str]:
    """The arguments of an algorithm that have cotangents, in the order of its Gradients."""
    form = inspect.signature(algorithm).parameters.values()
    return [each.name for each in form if each.kind is not each.KEYWORD_ONLY][1:]


def bars_of(algorithm: Callable, arrays: Iterable[str], found: tuple) -> list:
    """The cotangents of these arrays, from the Gradients ``found``."""
    names = array_names(algorithm)
    return [found[names.index(name)] for name in arrays]


def _bound(algorithm: Callable, evaluate: Callable) -> Callable:
    form = inspect.signature(algorithm)
    names = array_names(algorithm)

    @functools.wraps(algorithm)
    def bound(*args, **kwargs):
        given = form.bind(*args, **kwargs).arguments
        system, params = given.pop("system"), given.pop("params", None) or {}
        arrays = {name: x for name in names if (x := given.pop(name, None)) is not None}
        return evaluate(algorithm, system, arrays, params, given)

    bound.__signature__ = form.replace(return_annotation=form.empty)
    return bound
