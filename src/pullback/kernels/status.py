"""How a world is after a step: the number that kernels write and Systems read.

Not of any precision: kernels import it like all other modules, Systems as ``pullback.kernels.status``.
"""

import warp as wp

HEALTHY = wp.constant(-2)
NOT_FINITE = wp.constant(-1)  # one that is not negative is the degree of freedom whose inertia vanished
TOO_MANY_CONTACTS = wp.constant(-3)
NOT_CONVERGED = wp.constant(-4)
GRADIENT_NOT_FINITE = wp.constant(-5)
NETWORK_NOT_FINITE = wp.constant(-6)
OVERLAP = wp.constant(-1000)  # less the number of the pair of shapes
BEYOND_LIMIT = wp.constant(-1000000000)  # less the number of the limit
