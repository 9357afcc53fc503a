"""Articulated bodies: the System, and the algorithms it is made of."""

from pullback.dynamics.articulated import Articulated

__all__ = ["Articulated"]
