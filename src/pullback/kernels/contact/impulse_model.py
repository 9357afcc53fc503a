"""ContactImpulse, as a step calls it. What a contact model has to offer is in ``docs/extending.md``."""

import warp as wp

from ..spatial.scalar import real
from ..tree.structs import Params
from .impulse import impulses
from .impulse_adjoint import sweeps_adjoint
from .impulse_rows_adjoint import approach_adjoint, rows_adjoint

__all__ = ["approach_adjoint", "impulses", "margin", "rows_adjoint", "sweeps_adjoint"]


@wp.func
def margin(p: Params, world: int):
    """How far beyond the margins of a file there are impulses [m]."""
    return real(0.0)
