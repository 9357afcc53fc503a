"""Robots and soft bodies that touch each other, as one System."""

from pullback.coupled.coupled import Coupled, CoupledState

__all__ = ["Coupled", "CoupledState"]
