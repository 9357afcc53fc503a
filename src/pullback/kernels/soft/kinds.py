"""Numbers that kernels and Systems share: kinds of materials, places of parameters, and what stops a world.

Not of any precision: Systems import it as ``pullback.kernels.soft.kinds``.
"""

import warp as wp

# Materials.
NEO_HOOKEAN = wp.constant(0)
COROTATED = wp.constant(1)
WATER = wp.constant(2)
HENCKY = wp.constant(3)
VON_MISES = wp.constant(4)
SAND = wp.constant(5)
SNOW = wp.constant(6)

# Places in a group's parameters.
SHEAR = wp.constant(0)  # Lamé's mu [Pa]
LAME = wp.constant(1)  # Lamé's lambda; of water its bulk modulus [Pa]
DENSITY = wp.constant(2)  # [kg/m³], in the plane [kg/m²]
VISCOSITY = wp.constant(3)  # [Pa·s]
YIELD = wp.constant(4)  # von Mises: largest |dev tau| [Pa]
ANGLE = wp.constant(5)  # sand: friction angle [rad]
HARDENING = wp.constant(6)  # snow: by how much it stiffens with its plastic compression [1]
EXPONENT = wp.constant(7)  # water: of Tait's law [1]
COMPRESSION = wp.constant(8)  # snow: by how much it can be compressed before it yields [1]
STRETCH = wp.constant(9)  # and stretched
PLACES = wp.constant(10)

# How walls and shapes hold what moves into them.
RUBS = wp.constant(0)  # by friction
STICKS = wp.constant(1)
CLAMPED = wp.constant(2)  # also what moves away

# What stopped a world, in ``status``.
INVERTED = wp.constant(-10)
LEFT = wp.constant(-11)
