"""Which velocity-dependent forces a model's integrator treats implicitly."""

from __future__ import annotations

from pullback.model.model import Model


def is_implicit(model: Model) -> bool:
    """Whether steps are implicit in joint velocities, for the forces of dampers and actuators."""
    return model.integrator in ("implicitfast", "implicit")


def has_fluid(model: Model) -> bool:
    return bool(model.fluid_density or model.fluid_viscosity)


def depends_on_velocities(model: Model) -> bool:
    """Whether steps are also implicit in body velocities, for fluid forces and inertial forces."""
    return model.integrator == "implicit" or (model.integrator == "implicitfast" and has_fluid(model))
