"""What is compiled in: the axes of space, whether materials yield, and whether shapes move."""

import warp as wp

from ..spatial.scalar import real
from . import compiled_for

DIM = wp.constant(compiled_for.dim)
YIELDS = wp.constant(compiled_for.yields)
SHAPES = wp.constant(compiled_for.shapes)

vec = wp.types.vector(compiled_for.dim, real)
mat = wp.types.matrix((compiled_for.dim, compiled_for.dim), real)
