"""The arrays of contact models with impulses, for ``rows.py``.

Blocks are contacts and, after these, rows of joints.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from .flavour import matr, vecr


class PerWorld:
    start_scale: wp.array2d(dtype=real)
    crowded: wp.array2d(dtype=int)  # 1 where there are too many neighbours, and sweeps go by velocity


class PerBlock:
    b: wp.array2d(dtype=vecr)
    reach: wp.array2d(dtype=int)  # length of a block's chain with all below it, down to the root
    root: wp.array2d(dtype=wp.vec2i)  # roots of the trees a block moves, twice the same if there is one
    start_stiffness: wp.array2d(dtype=vecr)
    low: wp.array2d(dtype=real)  # bounds of a block's impulse along its normal, in its first row
    high: wp.array2d(dtype=real)  # beyond this one
    aim: wp.array2d(dtype=real)  # velocity that is given up; infinite for friction loss, which has no more than that
    arm: wp.array2d(dtype=real)  # how much a unit of mass weighs in the row [1, or m² of a joint]
    # unsigned, so that the compiler knows that no index is negative, and leaves out Warp's test for that:
    neighbours: wp.array2d(dtype=wp.uint16)  # how many other blocks move the same trees
    before: wp.array2d(dtype=wp.uint16)  # how many of these have their turn before the block
    own: wp.array2d(dtype=matr)  # how an impulse of the block changes its own velocity
    weight: wp.array2d(dtype=vecr)
    bounced: wp.array2d(dtype=int)
    moment: wp.array2d(dtype=real)
    rebound: wp.array2d(dtype=real)  # what restitution adds to a contact's aim
    force_bar: wp.array2d(dtype=vecr)
    b_bar: wp.array2d(dtype=vecr)
    high_bar: wp.array2d(dtype=real)
    aim_bar: wp.array2d(dtype=real)
    own_bar: wp.array2d(dtype=matr)
    friction_bar: wp.array2d(dtype=real)
    rebound_bar: wp.array2d(dtype=real)
    moment_bar: wp.array2d(dtype=real)
    dist_bar: wp.array2d(dtype=real)
    speed_bar: wp.array2d(dtype=real)
    pos_bar: wp.array2d(dtype=vec3)
    n_bar: wp.array2d(dtype=vec3)
    t1_bar: wp.array2d(dtype=vec3)
    t2_bar: wp.array2d(dtype=vec3)


class PerChain:
    B: wp.array2d(dtype=vecr)  # the whitened Jacobian
    B_bar: wp.array2d(dtype=vecr)


class PerNeighbour:
    """[i, block]"""

    neighbour: wp.array3d(dtype=wp.uint16)  # which ones they are, by turn
    A: wp.array3d(dtype=matr)  # how an impulse of the block changes that neighbour's velocity


class PerSide:
    change: wp.array3d(dtype=vecr)  # [2, block]: velocity by impulses of neighbours before and after it


class PerSweep:
    """[sweep, block]"""

    wish: wp.array3d(dtype=vecr)  # what impulses would have been without bounds


class PerLine:
    """[line, block]: one before each sweep, and one after the last"""

    history: wp.array3d(dtype=vecr)  # impulses
    seen_bar: wp.array3d(dtype=vecr)  # of residuals, those of the sweep before the line and after it


class PerDof:
    y: wp.array2d(dtype=real)  # whitened change of velocity
    swept: wp.array2d(dtype=real)  # the same by the first impulses, or as sweeps by velocity go on
    u_start: wp.array2d(dtype=real)
    late: wp.array2d(dtype=real)
    pushed: wp.array2d(dtype=real)
    free: wp.array2d(dtype=real)  # velocity without impulses
    momentum: wp.array2d(dtype=real)
    island: wp.array2d(dtype=int)
    energy: wp.array2d(dtype=real)  # of islands, at their roots: twice that of r.free
    load: wp.array2d(dtype=real)  # of islands, at their roots: their mass
    linear: wp.array2d(dtype=real)  # of islands, at their roots; see ``islands.py``
    square: wp.array2d(dtype=real)
    held: wp.array2d(dtype=real)
    column: wp.array2d(dtype=real)  # one of the whitening matrix
    swept_bar: wp.array2d(dtype=real)
    energy_bar: wp.array2d(dtype=real)
    held_bar: wp.array2d(dtype=real)
    y_bar: wp.array2d(dtype=real)
    left_bar: wp.array2d(dtype=real)  # of y once it is held back
    late_bar: wp.array2d(dtype=real)
    moved_bar: wp.array2d(dtype=real)  # of the velocity that positions move with


# As in ``rows.py``: what the arrays are along, and who uses them.
PARTS = {
    "world": (PerWorld,),
    "contact": (PerBlock,),
    "chain": (PerChain,),
    "dof": (PerDof,),
    "neighbour": (PerNeighbour,),
    "side": (PerSide,),
    "sweep": (PerSweep,),
    "line": (PerLine,),
}
