"""What a step of a model is implicit in."""

from __future__ import annotations

from pullback.model.model import Model


def is_implicit(model: Model) -> bool:
    """Whether steps are implicit in the velocities of joints that dampers and actuators feel."""
    return model.integrator in ("implicitfast", "implicit")


def has_fluid(model: Model) -> bool:
    return bool(model.fluid_density or model.fluid_viscosity)


def depends_on_velocities(model: Model) -> bool:
    """Whether they are in those of bodies too, that a fluid feels and inertial forces are made of."""
    return model.integrator == "implicit" or (model.integrator == "implicitfast" and has_fluid(model))
