"""A launch pulls cotangents back through a whole trajectory with a network in front of each step.

What the network gave is found again from the state before the step. The adjoint of the step, that of
``step_adjoint.py``, leaves the cotangent of what it was given, and the network's takes it from there to state, control,
memory and weights.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..status import GRADIENT_NOT_FINITE, HEALTHY
from ..tree.applied import Applied
from ..tree.network import Activations, Drive, Network, Weights, drive_step, drive_step_adjoint
from ..tree.state import read_state
from ..tree.structs import Params, Tree, Workspace
from .flavour import POTENTIAL
from .rows import Rows
from .step_adjoint import add_coordinates_bar, is_finite, whole_step_adjoint


@wp.kernel(enable_backward=False)
def driven_rollout_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    n: Network,
    w: Weights,
    w_bar: Weights,
    s: Workspace,
    c: Contacts,
    r: Rows,
    a: Activations,
    d: Drive,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    given: wp.array3d(dtype=real),
    given_bar: wp.array3d(dtype=real),
    has_given: int,
    step_controls: wp.array3d(dtype=real),
    step_controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    first_world: int,
    end_world: int,
    first_step: int,
    end_step: int,
    hold: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    memory: wp.array3d(dtype=real),
    q_bar: wp.array3d(dtype=real),
    v_bar: wp.array3d(dtype=real),
    memory_bar: wp.array3d(dtype=real),
    every_row: int,
    mask: int,
    wants_params: int,
    carry_q: wp.array2d(dtype=real),
    carry_v: wp.array2d(dtype=real),
    status: wp.array2d(dtype=int),
):
    """As ``rollout_adjoint``; d.memory_bar is carried too. The network and the step are given what
    ``driven_rollout`` gives them, and one of step_controls_bar and f_bar is d.push_bar."""
    slot = wp.tid()
    slots = s.q.shape[1]
    remembered = memory.shape[2]
    for world in range(first_world + slot, end_world, slots):
        for i in range(m.nv):
            s.q_bar[i, slot] = carry_q[world, i]
            s.v_bar[i, slot] = carry_v[world, i]
        for back in range(end_step - first_step):
            row = end_step - first_step - 1 - back
            if status[world, 1] < 0:
                read_state(m, s, q, v, row, world, slot)
                for i in range(remembered):
                    d.memory[world, i] = memory[row, world, i]
                if POTENTIAL:
                    for i in range(m.nv):
                        r.after[i, slot] = v[wp.min(row + 1, v.shape[0] - 1), world, i]
                t = (first_step + row) // hold
                drive_step(n, w, a, d, s, controls, given, has_given, t, world, slot)
                for i in range(n.width):
                    d.push_bar[world, i] = real(0.0)
                state_of_health = whole_step_adjoint(
                    m, g, p, p_bar, s, c, r, step_controls, step_controls_bar, f, f_bar, t, world, slot, wants_params
                )
                read_state(m, s, q, v, row, world, slot)
                drive_step_adjoint(
                    n, w, w_bar, a, d, s, controls_bar, given_bar, has_given, t, world, slot, wants_params
                )
                if every_row == 1:
                    # the start is as it was given, no point of the manifold yet: see to_coordinates
                    if first_step + row > 0:
                        add_coordinates_bar(m, s, q, q_bar, row, world, slot)
                    for i in range(m.nv):
                        s.v_bar[i, slot] = s.v_bar[i, slot] + v_bar[row, world, i]
                    for i in range(remembered):
                        d.memory_bar[world, i] = d.memory_bar[world, i] + memory_bar[row, world, i]
                if state_of_health == HEALTHY and mask == 1:
                    total = real(0.0)
                    for i in range(remembered):
                        total += real(0.0) * d.memory_bar[world, i]
                    if total != real(0.0) or not is_finite(m, s, r, slot):
                        state_of_health = GRADIENT_NOT_FINITE
                if state_of_health != HEALTHY:
                    status[world, 0] = state_of_health
                    status[world, 1] = first_step + row
        sound = mask == 0 or status[world, 1] < 0
        for i in range(m.nv):
            carry_q[world, i] = wp.where(sound, s.q_bar[i, slot], real(0.0))
            carry_v[world, i] = wp.where(sound, s.v_bar[i, slot], real(0.0))
        for i in range(remembered):
            d.memory_bar[world, i] = wp.where(sound, d.memory_bar[world, i], real(0.0))
