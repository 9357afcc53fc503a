"""Robots and soft bodies in contact, as one System."""

from pullback.coupled.coupled import Coupled, CoupledState

__all__ = ["Coupled", "CoupledState"]
