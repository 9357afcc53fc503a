"""The number type of this precision, and the small vectors and matrices made of it."""

import math

import warp as wp

from .. import compiled_for

real = wp.float32 if compiled_for == "float32" else wp.float64
vec3 = wp.types.vector(3, real)
vec4 = wp.types.vector(4, real)  # quaternion, wxyz
vec6 = wp.types.vector(6, real)  # motion or force [angular; linear], or symmetric matrix [xx yy zz xy xz yz]
vec9 = wp.types.vector(9, real)  # the numbers of a muscle
mat33 = wp.types.matrix((3, 3), real)
mat66 = wp.types.matrix((6, 6), real)
sym66 = wp.types.vector(21, real)  # symmetric 6×6 matrix: its upper triangle, row by row

# Literals such as 1.0/6.0 are float32 inside a kernel; constants of full precision are made out here.
PI = wp.constant(real(math.pi))

# Below this angle (squared) the closed forms of sin(x)/x and its relatives cancel and their Taylor series are exact to
# rounding. The next omitted term is of relative size x⁶/4e5: 1e-17 and 1e-8.
SMALL_ANGLE_SQUARED = wp.constant(real(1e-2 if real is wp.float32 else 1e-4))

# A joint-space inertia below this [kg·m² or kg] cannot be divided by; the same bound MuJoCo uses.
SMALLEST_INERTIA = wp.constant(real(1e-15))

# Nor can one that is this much smaller than it was before the other joints of its body were taken out of it: what is
# left is rounding. About a hundred times the precision.
SMALLEST_SHARE = wp.constant(real(1e-5 if real is wp.float32 else 1e-13))
