"""Systems in JAX: steps and rollouts as functions that JAX can compile and differentiate.

    import pullback.jax as pbj

    q, v = pbj.rollout(system, q0, v0, controls, params={"mass": mass})
    jax.jit(jax.grad(loss))(controls)

They work under ``jit``, ``grad`` and ``vmap`` (which is sequential: batch by ``worlds`` instead). JAX calls the System
back on the host, and an error there is part of the error that JAX raises.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError('pullback.jax needs JAX: pip install "pullback[jax]"') from error

from pullback.jax.algorithms import (
    acceleration,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    forward_dynamics,
    inverse_dynamics,
    jacobian,
    kinematics,
    mass_matrix,
    momentum,
    sensors,
    velocity,
)
from pullback.jax.functions import rollout, step

__all__ = [
    "acceleration",
    "center_of_mass",
    "center_of_mass_velocity",
    "energy",
    "forward_dynamics",
    "inverse_dynamics",
    "jacobian",
    "kinematics",
    "mass_matrix",
    "momentum",
    "rollout",
    "sensors",
    "step",
    "velocity",
]
