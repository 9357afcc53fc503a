"""What kernels know of adhesion, and what it has in the workspace of a world."""

import warp as wp

from ..spatial.scalar import real


class AdhesionPerWorld:
    near_count: wp.array2d(dtype=int)  # contacts, those in the gap too


class AdhesionPerContact:
    stick: wp.array2d(dtype=real)  # pull along the normal; negative where it holds bodies together
    stick_bar: wp.array2d(dtype=real)


# As in ``rows.py``: what the arrays are along, and who uses them.
ADHESION_PARTS = {"world": (AdhesionPerWorld,), "contact": (AdhesionPerContact,)}


@wp.struct
class Adhesion:
    """Nothing here is differentiated."""

    actuator: wp.array(dtype=int)
    body: wp.array(dtype=int)  # which it holds
