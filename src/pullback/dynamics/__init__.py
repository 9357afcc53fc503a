"""Articulated bodies: the System, and the textbook algorithms."""

from pullback.dynamics.algorithms import (
    Evaluation,
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
    velocity,
)
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.sensors import sensors

__all__ = [
    "Articulated",
    "Evaluation",
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
    "sensors",
    "velocity",
]
