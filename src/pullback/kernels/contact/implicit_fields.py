"""What a step has in the workspace of a world whose matrix is made of velocities of bodies: see ``implicit.py``."""

import warp as wp

from ..spatial.scalar import mat66, real, vec6


class PerDof:
    smooth: wp.array2d(dtype=real)  # joint forces less the bias


class PerTreeBody:
    N: wp.array2d(dtype=mat66)  # h times the slope by velocity of the force it needs; then with all that it carries
    G: wp.array2d(dtype=vec6)  # motion under the joint accelerations as velocities
    E: wp.array2d(dtype=vec6)  # along it, the change of the velocity-product acceleration
    E_bar: wp.array2d(dtype=vec6)


class PerTreeDof:
    P: wp.array2d(dtype=vec6)  # S + h T


@wp.struct
class Implicit:
    """Nothing here is differentiated."""

    # per body, 1: implicit in all that depends on its velocity; 0: but for inertial forces, and symmetric
    exact: wp.array(dtype=int)


PARTS = {"dof": (PerDof,), "tree body": (PerTreeBody,), "tree dof": (PerTreeDof,)}
