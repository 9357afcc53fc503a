"""The armature of joints, and of tendons where there are any."""

import warp as wp

from ..tree.structs import Params, Tree
from .flavour import TENDONS
from .rows import Rows

if TENDONS:
    from .tendons import add_armature


@wp.func
def all_armature(m: Tree, p: Params, r: Rows, world: int, slot: int):
    """Adds armature to r.M."""
    if TENDONS:
        add_armature(m, p, r, world, slot)
    else:
        for d in range(m.nv):
            at = d * m.nv + d
            r.M[at, slot] = r.M[at, slot] + p.armature[world, d]
