"""Springs and dampers of tendons that are not linear: what quadratic and cubic terms add, with the adjoint.

A spring stretched by x beyond its dead band pulls with -x (k + k₂ x + k₃ x²), a damper with -v (b + b₂ |v| + b₃ v²),
as in ``tree/curved.py``. The linear terms are in ``tendons.py``.
"""

import warp as wp

from ..spatial.scalar import real, vec4
from ..tree.structs import Params


@wp.func
def curved_pull(p: Params, k: int, stretch: real, velocity: real, world: int):
    law = p.tendon_poly[world, k]
    pull = -stretch * stretch * (law[0] + law[1] * stretch)
    pull -= velocity * (law[2] * wp.abs(velocity) + law[3] * velocity * velocity)
    return pull


@wp.func
def curved_damping(p: Params, k: int, velocity: real, world: int):
    """Minus the slope of the pull by velocity."""
    law = p.tendon_poly[world, k]
    return real(2.0) * law[2] * wp.abs(velocity) + real(3.0) * law[3] * velocity * velocity


@wp.func
def curved_pull_adjoint(
    p: Params, p_bar: Params, k: int, stretch: real, velocity: real, pull_bar: real, damping_bar: real,
    world: int, wants_params: int,
):  # fmt: skip
    """Cotangents of stretch and velocity."""
    law = p.tendon_poly[world, k]
    speed = wp.abs(velocity)
    square = velocity * velocity
    stretch_bar = -pull_bar * stretch * (real(2.0) * law[0] + real(3.0) * law[1] * stretch)
    velocity_bar = -pull_bar * (real(2.0) * law[2] * speed + real(3.0) * law[3] * square)
    velocity_bar += damping_bar * (real(2.0) * law[2] * wp.sign(velocity) + real(6.0) * law[3] * velocity)
    if wants_params == 1:
        p_bar.tendon_poly[world, k] = p_bar.tendon_poly[world, k] + vec4(
            -pull_bar * stretch * stretch,
            -pull_bar * stretch * stretch * stretch,
            real(2.0) * damping_bar * speed - pull_bar * velocity * speed,
            real(3.0) * damping_bar * square - pull_bar * velocity * square,
        )
    return stretch_bar, velocity_bar
