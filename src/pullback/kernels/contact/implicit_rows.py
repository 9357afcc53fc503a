"""What a step has in the workspace of a world whose matrix is made of velocities of bodies: see ``implicit.py``."""

import warp as wp

from ..spatial.scalar import mat66, vec6


class ImplicitPerBody:
    N: wp.array2d(dtype=mat66)  # h times the slope by velocity of the force it needs; then with all that it carries
    G: wp.array2d(dtype=vec6)  # motion under the joint accelerations as velocities
    E: wp.array2d(dtype=vec6)  # along it, the change of the velocity-product acceleration
    E_bar: wp.array2d(dtype=vec6)


class ImplicitPerDof:
    P: wp.array2d(dtype=vec6)  # S + h T


# As in ``rows.py``: what the arrays are along, and who uses them.
IMPLICIT_PARTS = {"implicit body": (ImplicitPerBody,), "implicit dof": (ImplicitPerDof,)}


@wp.struct
class Implicit:
    """Nothing here is differentiated."""

    # per body, 1: implicit in all that depends on its velocity; 0: but for inertial forces, and symmetric
    exact: wp.array(dtype=int)
