"""Does a robot touch itself? The shapes of a file that overlap, for many configurations."""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import outward
from .collide import detect, tree_poses
from .rows import Rows


@wp.kernel(enable_backward=False)
def deepest_overlap(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    q: wp.array2d(dtype=real),
    first_world: int,
    end_world: int,
    counts: wp.array(dtype=int),  # per pair: 1 if it counts
    depth: wp.array(dtype=real),  # of the pair that overlaps most, zero if none does [m]
    pair: wp.array(dtype=int),  # which it is, or -1
):
    slot = wp.tid()
    for world in range(first_world + slot, end_world, s.q.shape[1]):
        for i in range(m.nq):
            s.q[i, slot] = q[world, i]
        for d in range(m.nv):
            s.v[d, slot] = real(0.0)
        outward(m, p, s, world, slot)
        detect(g, p, tree_poses(s), c, real(0.0), world, slot)
        deepest = real(0.0)
        which = int(-1)
        for k in range(wp.min(c.count[0, slot], c.pair.shape[0])):
            if counts[c.pair[k, slot]] == 1 and -c.dist[k, slot] > deepest:
                deepest = -c.dist[k, slot]
                which = c.pair[k, slot]
        depth[world] = deepest
        pair[world] = which
