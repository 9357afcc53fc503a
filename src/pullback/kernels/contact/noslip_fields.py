"""The arrays of ``noslip.py``, for ``rows.py``. Blocks are contacts and, after these, rows of friction loss."""

import warp as wp

from ..spatial.scalar import real, vec3
from .flavour import matr, vecr


class PerWorld:
    loss_blocks: wp.array2d(dtype=int)  # blocks of friction loss


class PerBlock:
    block_row: wp.array2d(dtype=int)  # the row of joints that a block of friction loss is
    reach: wp.array2d(dtype=int)  # length of a block's chain with all below it, down to the root
    root: wp.array2d(dtype=wp.vec2i)  # roots of the trees a block moves, twice the same if there is one
    own: wp.array2d(dtype=matr)  # how a force of the block changes its own acceleration
    slip: wp.array2d(dtype=vecr)  # z before the sweeps
    bound: wp.array2d(dtype=vecr)  # of each row's force
    force_bar: wp.array2d(
        dtype=vecr
    )  # of forces; in the end of those before the sweeps, less what they have as the last
    z_bar: wp.array2d(dtype=vecr)
    bound_bar: wp.array2d(dtype=vecr)
    own_bar: wp.array2d(dtype=matr)
    friction_bar: wp.array2d(dtype=vecr)
    stiffness_bar: wp.array2d(dtype=real)
    pos_bar: wp.array2d(dtype=vec3)
    n_bar: wp.array2d(dtype=vec3)
    t1_bar: wp.array2d(dtype=vec3)
    t2_bar: wp.array2d(dtype=vec3)


class PerBlockChain:
    B: wp.array2d(dtype=vecr)  # the whitened Jacobian
    B_bar: wp.array2d(dtype=vecr)


class PerSweep:
    """[line, block]: forces before each sweep, and after the last."""

    history: wp.array3d(dtype=vecr)


class PerTurn:
    """Blocks in the order of their turns."""

    order: wp.array2d(dtype=int)


class PerDof:
    swept: wp.array2d(dtype=real)  # whitened change of acceleration
    swept_bar: wp.array2d(dtype=real)
    column: wp.array2d(dtype=real)  # one of the whitening matrix
    island: wp.array2d(dtype=int)  # trees that constraints join, by the smallest of their roots
    gain: wp.array2d(dtype=real)  # of islands, at their roots: by how much a sweep lowered their cost
    load: wp.array2d(dtype=real)  # of islands, at their roots: trace of the mass matrix
    island_sweeps: wp.array2d(dtype=int)  # of islands, at their roots: how many sweeps they had


class PerRow:
    """Rows of joints."""

    row_force: wp.array2d(dtype=real)
    row_block: wp.array2d(dtype=int)  # of friction loss; -1: of another kind


@wp.struct
class NoSlip:
    """MuJoCo's options, and the order in which it visits pairs of shapes: nothing here is differentiated."""

    sweeps: int
    tolerance: real
    by_island: int  # 1: islands end their sweeps on their own, 0: all together
    rank: wp.array(dtype=int)  # per pair


PARTS = {
    "world": (PerWorld,),
    "contact": (PerBlock, PerTurn),
    "chain": (PerBlockChain,),
    "sweep line": (PerSweep,),
    "dof": (PerDof,),
    "joint row": (PerRow,),
}
