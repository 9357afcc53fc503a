"""Quadratic B-splines: the share of each of three nodes along an axis.

f is the place of the particle, counted from the first of them in units of the grid: from 1/2 to 3/2.
"""

import warp as wp

from ..spatial.scalar import real, vec3

# How near to the first node and to the last but one a particle may come, in cells: half of one, and room for rounding,
# so that what is inside for kernels is inside for whoever looks at the state that they made.
NEAREST = wp.constant(real(0.51))


@wp.func(inline=True)
def weight(f: real):
    a = real(1.5) - f
    b = f - real(1.0)
    c = f - real(0.5)
    return vec3(real(0.5) * a * a, real(0.75) - b * b, real(0.5) * c * c)


@wp.func(inline=True)
def slope(f: real):
    """Of the weights."""
    return vec3(f - real(1.5), real(-2.0) * (f - real(1.0)), f - real(0.5))


@wp.func(inline=True)
def moment(f: real, w: vec3):
    """Weights, or slopes, times the distance from the particle to the node."""
    return vec3(-f * w[0], (real(1.0) - f) * w[1], (real(2.0) - f) * w[2])
