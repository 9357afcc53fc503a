"""The adjoint of what the integrator does after its stages, and between them."""

import warp as wp

from ..spatial.algebra import log_jacobian_adjoint, log_jacobian_transposed
from ..spatial.scalar import real
from ..tree.advance import advance_adjoint
from ..tree.structs import BALL, RK4, Tree, Workspace, add_vec3, read_vec3
from .flavour import IMPULSES
from .rows import Rows
from .step import mean_of_stages, stage_node, stage_rotation, stage_weight


@wp.func
def rotation_rates_adjoint(m: Tree, s: Workspace, stage: int, slot: int):
    """Through the rates of rotation vectors of a stage, to its angular velocities and to the stage before."""
    for k in range(m.joint_type.shape[0]):
        if m.joint_type[k] == BALL:
            d = m.joint_v[k]
            turned = stage_rotation(m, s, stage, d, slot)
            rate_bar = read_vec3(s.v_bar, d, slot)
            v_bar = log_jacobian_transposed(turned, rate_bar)
            for j in range(3):
                s.v_bar[d + j, slot] = v_bar[j]
            turned_bar = log_jacobian_adjoint(turned, read_vec3(s.v, d, slot), rate_bar)
            add_vec3(s.stage_v_bar, (stage - 1) * m.nv + d, slot, m.timestep * stage_node(stage) * turned_bar)


@wp.func
def leave_step_adjoint(m: Tree, s: Workspace, r: Rows, slot: int):
    """From the cotangents after the step, those of its start and of its stages' velocities and accelerations."""
    h = m.timestep
    if m.integrator == RK4:
        # q' = q ⊕ h mean(v), v' = v + h mean(a)
        for d in range(m.nv):
            s.w[d, slot] = mean_of_stages(s.stage_v, d, m.nv, slot)  # w is free until the solve
            s.v_start_bar[d, slot] = s.v_bar[d, slot]
            s.a_bar[d, slot] = h * s.v_bar[d, slot]
            s.v_bar[d, slot] = real(0.0)
        advance_adjoint(m, s.w, 0, h, s.q_bar, s.v_bar, slot)
        for d in range(m.nv):
            s.q_start_bar[d, slot] = s.q_bar[d, slot]
            for stage in range(4):
                s.stage_v_bar[stage * m.nv + d, slot] = stage_weight(stage) * s.v_bar[d, slot]
                s.stage_a_bar[stage * m.nv + d, slot] = stage_weight(stage) * s.a_bar[d, slot]
    else:
        # v' = v + h a, q' = q ⊕ h v'
        for d in range(m.nv):
            s.stage_v[d, slot] = s.v[d, slot] + h * s.a[d, slot]
        if IMPULSES:
            # q' = q ⊕ h (v' - late w)
            for d in range(m.nv):
                s.stage_v[d, slot] = s.stage_v[d, slot] - r.late[d, slot] * r.w[d, slot]
                r.moved_bar[d, slot] = real(0.0)
            advance_adjoint(m, s.stage_v, 0, h, s.q_bar, r.moved_bar, slot)
            for d in range(m.nv):
                s.v_bar[d, slot] = s.v_bar[d, slot] + r.moved_bar[d, slot]
        else:
            advance_adjoint(m, s.stage_v, 0, h, s.q_bar, s.v_bar, slot)
        for d in range(m.nv):
            s.q_start_bar[d, slot] = s.q_bar[d, slot]
            s.v_start_bar[d, slot] = s.v_bar[d, slot]
            s.stage_v_bar[d, slot] = real(0.0)
            s.stage_a_bar[d, slot] = h * s.v_bar[d, slot]
