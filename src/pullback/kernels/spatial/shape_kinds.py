"""Kinds of shapes that soft bodies touch, as kernels and Systems know them."""

import warp as wp

PLANE = wp.constant(0)
SPHERE = wp.constant(1)
CAPSULE = wp.constant(2)
BOX = wp.constant(3)
CYLINDER = wp.constant(4)
