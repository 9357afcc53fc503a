"""Full turns: the lengths of actuators on rotations are the same after one."""

import warp as wp

from ..spatial.algebra import ang, lin, pack
from ..spatial.scalar import PI, real, vec3, vec6
from ..tree.structs import Params


@wp.func
def round_away(x: real):
    """The nearest whole number; half is rounded away from zero."""
    size = wp.floor(wp.abs(x) + real(0.5))
    return wp.where(x < real(0.0), -size, size)


@wp.func
def turning_gear(wraps: int, gear: vec6):
    """What of the gear acts on rotations: the first half at a ball joint (1), the second at a site (2); else zero."""
    part = vec6()
    if wraps == 1:
        part = pack(ang(gear), vec3())
    elif wraps == 2:
        part = pack(vec3(), lin(gear))
    return part


@wp.func
def period_of(wraps: int, gear: vec6):
    """The length of a full turn; zero where nothing is wrapped."""
    part = turning_gear(wraps, gear)
    return real(2.0) * PI * wp.sqrt(wp.dot(part, part))


@wp.func
def add_period_bar(p: Params, p_bar: Params, wraps: int, k: int, period_bar: real, world: int):
    """To the cotangent of actuator k's gear that of the period."""
    if period_bar != real(0.0):
        gear = p.gear[world, k]
        scale = period_bar * real(4.0) * PI * PI / period_of(wraps, gear)
        p_bar.gear[world, k] = p_bar.gear[world, k] + scale * turning_gear(wraps, gear)
