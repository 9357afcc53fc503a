"""The algorithms as functions of other libraries of arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator

from pullback.dynamics.algorithms import (
    center_of_mass,
    center_of_mass_velocity,
    energy,
    forward_dynamics,
    inverse_dynamics,
    jacobian,
    kinematics,
    mass_matrix,
    momentum,
    velocity,
)
from pullback.dynamics.sensors import sensors

ALGORITHMS = (
    kinematics,
    jacobian,
    velocity,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    momentum,
    inverse_dynamics,
    mass_matrix,
    forward_dynamics,
    sensors,
)


def bind(evaluate: Callable) -> Iterator[Callable]:
    """All ALGORITHMS, in order, for another library of arrays: they return ``evaluate(algorithm, system, arrays,
    params, options)`` in place of an Evaluation.

    arrays:  by name, those that the algorithm has cotangents for: q, v and x of Gradients, in that order
    params:  that were given, by name
    options: the other keywords
    """
    for algorithm in ALGORITHMS:
        yield _bound(algorithm, evaluate)


def _bound(algorithm: Callable, evaluate: Callable) -> Callable:
    form = inspect.signature(algorithm)
    names = [each.name for each in form.parameters.values() if each.kind is not each.KEYWORD_ONLY][1:]

    @functools.wraps(algorithm)
    def bound(*args, **kwargs):
        given = form.bind(*args, **kwargs).arguments
        system, params = given.pop("system"), given.pop("params", None) or {}
        arrays = {name: given.pop(name) for name in names}
        return evaluate(algorithm, system, arrays, params, given)

    bound.__signature__ = form.replace(return_annotation=form.empty)
    return bound
