"""A launch steps every world through a whole trajectory, with a network in front of each step.

The step is that of ``step.py``, given other controls or other forces; robots without networks have their own kernel
there.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..status import HEALTHY, NETWORK_NOT_FINITE
from ..tree.applied import Applied
from ..tree.network import Activations, Drive, Network, Weights, drive_step, remember
from ..tree.state import read_state, write_state
from ..tree.structs import Params, Tree, Workspace
from .rows import Rows
from .step import undo_step, whole_step


@wp.kernel(enable_backward=False)
def driven_rollout(
    m: Tree,
    g: Shapes,
    p: Params,
    n: Network,
    w: Weights,
    s: Workspace,
    c: Contacts,
    r: Rows,
    a: Activations,
    d: Drive,
    controls: wp.array3d(dtype=real),
    given: wp.array3d(dtype=real),
    has_given: int,
    step_controls: wp.array3d(dtype=real),
    f: Applied,
    first_world: int,
    end_world: int,
    first_step: int,
    end_step: int,
    hold: int,
    keep_every: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    memory: wp.array3d(dtype=real),
    status: wp.array2d(dtype=int),
):
    """As ``rollout``. The network is given ``controls``, and the step ``step_controls`` and f, one of which d.push is.

    given: what the network's output is added to
    """
    slot = wp.tid()
    slots = s.q.shape[1]
    remembered = memory.shape[2]
    for world in range(first_world + slot, end_world, slots):
        read_state(m, s, q, v, 0, world, slot)
        for i in range(remembered):
            d.memory[world, i] = memory[0, world, i]
        row = int(0)
        healthy = bool(True)
        for t in range(first_step, end_step):
            if healthy:
                state_of_health = int(NETWORK_NOT_FINITE)
                if drive_step(n, w, a, d, s, controls, given, has_given, t // hold, world, slot):
                    state_of_health = whole_step(m, g, p, s, c, r, step_controls, f, t // hold, world, slot)
                    if state_of_health == HEALTHY:
                        remember(n, d, world)
                    else:
                        undo_step(m, s, r, slot)
                if state_of_health != HEALTHY:
                    healthy = False
                    status[world, 0] = state_of_health
                    status[world, 1] = t
            if (t + 1 - first_step) % keep_every == 0 or t + 1 == end_step:
                row += 1
                write_state(m, s, q, v, row, world, slot)
                for i in range(remembered):
                    memory[row, world, i] = d.memory[world, i]
