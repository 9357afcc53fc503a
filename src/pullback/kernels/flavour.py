"""The contact model that is compiled in: compile-time switches, taken from the package's name."""

import warp as wp

from .scalar import real

_, contact, shapes = (__package__.rpartition(".")[2].split("_") + ["", ""])[:3]

HAS_CONTACT = wp.constant(contact != "")
CONVEX = wp.constant(contact.startswith("convex"))
IMPULSE = wp.constant(contact == "impulse")
COMPLIANT = wp.constant(contact == "compliant")

# Every kind of pair, or only those with a closed form of a few lines.
ALL_SHAPES = wp.constant(shapes != "round")

# Rows of a contact: normal, two tangents and, for torsional and rolling friction, rotations about these three.
ROWS = wp.constant(6 if contact == "convex6" else 3)
vecr = wp.types.vector(ROWS, real)
matr = wp.types.matrix((ROWS, ROWS), real)
