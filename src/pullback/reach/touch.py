"""Which configurations of a robot are free of collisions."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.contact import ContactConvex
from pullback.core.arrays import PRECISIONS, checked, to_device, to_numpy
from pullback.dynamics import Articulated
from pullback.kernels import specialise
from pullback.model import FREE
from pullback.reach.chain import Chain, ancestors

# Shapes that overlap by less than this touch, as neighbours in a well-fitting robot do. [m]
TOUCH = 1e-3
# Configurations looked at in one launch.
BATCH = 4096


class SelfCollision:
    """Shapes that the joints of a chain can bring together, by the file's own rules of what may touch.

    The world's shapes, such as a floor, count where the robot is fixed to the world, since they are then where the
    chain's base is. Where it floats they do not.
    """

    def __init__(self, chain: Chain):
        self.chain = chain
        self.counts = np.zeros(0, bool)
        self.system = None
        if not any(line.startswith("contact") for line in chain.model.constraints):
            return
        system = Articulated(chain.model, contact=ContactConvex(), worlds=BATCH, dtype=chain.dtype, device=chain.device)
        self.counts = self._pairs(system)
        if self.counts.any():
            self.system = system

    def _pairs(self, system: Articulated) -> np.ndarray:
        """(pairs,) of the scene: those with a joint of the chain between them and no free joint."""
        model, scene = self.chain.model, system._scene
        carried = [set(ancestors(model, int(body))) - {0} for body in scene.body]
        jointed = {int(model.joint_body[j]) for j in self.chain.joints}
        free = {int(model.joint_body[j]) for j in np.flatnonzero(model.joint_type == FREE)}
        between = [carried[a] ^ carried[b] for a, b in scene.pair_shapes]
        return np.array([bool(bodies & jointed) and not bodies & free for bodies in between], bool)

    def depth(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much shapes overlap at joint coordinates q (n, nq) of the chain (n,) [m], and which pair does."""
        depth, pair = np.zeros(len(q)), np.full(len(q), -1)
        if self.system is None:
            return depth, pair
        for first in range(0, len(q), BATCH):
            some = q[first : first + BATCH]
            depth[first : first + BATCH], pair[first : first + BATCH] = (x[: len(some)] for x in self._depth(some))
        return depth, pair

    def _depth(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        system = self.system
        full = np.tile(self.chain.model.home.q, (BATCH, 1))
        full[: len(q)] = self.chain.whole(q)
        real, device = system.dtype, system.device
        given = to_device(checked(full, (BATCH, system.nq), real, "q", ("worlds", "nq")), real, device)
        counts = wp.array(self.counts.astype(np.int32), dtype=wp.int32, device=device)
        depth = wp.zeros(BATCH, dtype=PRECISIONS[real], device=device)
        pair = wp.zeros(BATCH, dtype=wp.int32, device=device)
        system._launch(
            specialise(system._flavour, "overlap").deepest_overlap,
            (system._tree, system._shapes, system.hold_params().struct),
            (given,),
            (counts, depth, pair),
            with_contacts=True,
        )
        return to_numpy(depth), to_numpy(pair)

    def names(self, pair: int) -> tuple[str, str]:
        """The geoms of a pair."""
        scene, geoms = self.system._scene, self.chain.model.geoms.names
        first, second = (geoms[scene.geoms[shape]] for shape in scene.pair_shapes[pair])
        return first, second

    def are_free(self, q: np.ndarray) -> np.ndarray:
        """(n,) bool: nothing overlaps."""
        return self.depth(q)[0] < TOUCH
