"""Numbers that kernels and Systems share: kinds of materials, and places of parameters.

Not of any precision: Systems import it as ``pullback.kernels.elastic.kinds``.
"""

import warp as wp

# Materials, of solids and of cloth.
NEO_HOOKEAN = wp.constant(0)
SAINT_VENANT = wp.constant(1)

# Places in the parameters of a solid, or of a cloth, where stress is by length and density by area.
SHEAR = wp.constant(0)  # Lamé's mu [Pa or N/m]
LAME = wp.constant(1)  # Lamé's lambda [Pa or N/m]
DENSITY = wp.constant(2)  # [kg/m³ or kg/m²]
VISCOSITY = wp.constant(3)  # [Pa·s or N·s/m]
BENDING = wp.constant(4)  # cloth: flexural rigidity [N·m]
DRAG = wp.constant(5)  # cloth: force of the air by area and normal velocity [N·s/m³]

# Where shapes are: before a step and after it.
BEFORE = wp.constant(0)
AFTER = wp.constant(1)

# Places in the parameters of the surroundings.
GRAVITY = wp.constant(0)  # and two more [m/s²]
WIND = wp.constant(3)  # and two more [m/s]
DAMPING = wp.constant(6)  # [1/s]
STIFFNESS = wp.constant(7)  # of contacts [N/m]
