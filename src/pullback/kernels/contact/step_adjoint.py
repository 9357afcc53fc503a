"""One launch pulls cotangents back through a whole trajectory, from its states and controls alone."""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import coordinates_of_tangent, tangent_of_coordinates
from ..spatial.scalar import real, vec3, vec4
from ..status import GRADIENT_NOT_FINITE, HEALTHY
from ..tree.advance import advance_adjoint
from ..tree.applied import Applied
from ..tree.state import keep_state, read_state, take_state
from ..tree.structs import BALL, Params, Tree, Workspace, add_vec3
from .accelerate import accelerate
from .accelerate_adjoint import accelerate_adjoint
from .flavour import ACTIVATIONS, POTENTIAL, REFINED
from .integrator_adjoint import leave_step_adjoint, rotation_rates_adjoint
from .refinement import count_substeps
from .rows import Rows
from .step import enter_stage, leave_stage, stage_count, stage_node, step

if REFINED:
    from .model import margin
if POTENTIAL:
    from .model import finer, substep_count
    from .step import guess_nothing, leave_substep
if ACTIVATIONS:
    from .activations import (
        clear_pull_bars,
        enter_stage_activations,
        enter_stage_activations_adjoint,
        keep_activations,
        leave_stage_activations,
        leave_stages_activations_adjoint,
        leave_step_activations_adjoint,
        read_activations,
        start_activations,
        start_stage_activations_adjoint,
        take_kept_activations,
    )


@wp.func(inline=True)
def stages_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    t: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """``step_adjoint`` through the stages of the integrator."""
    status = int(HEALTHY)
    h = m.timestep
    last = stage_count(m.integrator) - 1
    keep_state(m, s, s.q_start, s.v_start, 0, slot)
    if ACTIVATIONS:
        start_activations(r, slot)
    # Once out through the stages, and back from the last. One loop does both, so that ``accelerate`` stands in the code
    # once and is inlined: a call would copy every array's description.
    for visit in range(2 * last + 1):
        stage = last - wp.abs(visit - last)
        enter_stage(m, s, stage, slot)
        if ACTIVATIONS:
            enter_stage_activations(m, p, r, stage, stage_node(stage), world, slot)
        found = accelerate(m, g, p, s, c, r, controls, f, t, world, slot)
        if ACTIVATIONS:
            leave_stage_activations(r, stage, slot)
        if status == HEALTHY:
            status = found
        if visit < last:
            leave_stage(m, s, stage, slot)
        else:
            if visit == last:
                leave_step_adjoint(m, s, r, slot)
                if ACTIVATIONS:
                    leave_step_activations_adjoint(m, p, p_bar, r, world, slot, wants_params)
            if ACTIVATIONS:
                start_stage_activations_adjoint(r, stage, slot)
            for d in range(m.nv):
                s.q_bar[d, slot] = real(0.0)
                s.v_bar[d, slot] = s.stage_v_bar[stage * m.nv + d, slot]
                s.a_bar[d, slot] = s.stage_a_bar[stage * m.nv + d, slot]
            if stage > 0:
                rotation_rates_adjoint(m, s, stage, slot)
            solved = accelerate_adjoint(
                m, g, p, p_bar, s, c, r, controls, controls_bar, f, f_bar, t, world, slot, wants_params
            )
            if status == HEALTHY:
                status = solved
            if ACTIVATIONS:
                enter_stage_activations_adjoint(m, p, p_bar, r, stage, stage_node(stage), world, slot, wants_params)
            if stage > 0:
                node = h * stage_node(stage)
                before = (stage - 1) * m.nv
                advance_adjoint(m, s.stage_v, before, node, s.q_bar, s.stage_v_bar, slot)
                for d in range(m.nv):
                    s.stage_a_bar[before + d, slot] = s.stage_a_bar[before + d, slot] + node * s.v_bar[d, slot]
            for d in range(m.nv):
                s.q_start_bar[d, slot] = s.q_start_bar[d, slot] + s.q_bar[d, slot]
                s.v_start_bar[d, slot] = s.v_start_bar[d, slot] + s.v_bar[d, slot]
    for d in range(m.nv):
        s.q_bar[d, slot] = s.q_start_bar[d, slot]
        s.v_bar[d, slot] = s.v_start_bar[d, slot]
    if ACTIVATIONS:
        leave_stages_activations_adjoint(r, slot)
    return status


@wp.func
def guess_known(m: Tree, r: Rows, substep: int, count: int, slot: int):
    """On the way back the velocity after a substep is known."""
    for d in range(m.nv):
        if substep == count - 1:
            r.guess[d, slot] = r.after[d, slot]
        else:
            r.guess[d, slot] = r.substep_v[(substep + 1) * m.nv + d, slot]


@wp.func(inline=True)
def substeps_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    t: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """``step_adjoint`` through the substeps that the contact model asks for: once out, and back from the last."""
    status = int(HEALTHY)
    fine = m
    keep_state(m, s, s.q_start, s.v_start, 0, slot)
    if ACTIVATIONS:
        start_activations(r, slot)
    count = int(substep_count(m, g, p, s, c, world, slot))
    fine.timestep = m.timestep / real(count)
    visit = int(0)
    while visit < 2 * count - 1:
        substep = count - 1 - wp.abs(visit - count + 1)
        if visit < count:
            keep_state(m, s, r.substep_q, r.substep_v, substep, slot)
        else:
            take_state(m, s, r.substep_q, r.substep_v, substep, slot)
        guess_nothing(m, r, slot)
        if visit >= count - 1:
            guess_known(m, r, substep, count, slot)
        found = accelerate(fine, g, p, s, c, r, controls, f, t, world, slot)
        visit += 1
        more = finer(g, count, found)
        if more > 0:
            count = more
            fine.timestep = m.timestep / real(count)
            take_state(m, s, r.substep_q, r.substep_v, 0, slot)
            visit = 0
        elif visit < count:
            if status == HEALTHY:
                status = found
            leave_substep(fine, s, r, slot)
        else:
            if status == HEALTHY:
                status = found
            leave_step_adjoint(fine, s, r, slot)
            if ACTIVATIONS:
                # over a step, and not a substep, activations follow what pulls at them
                leave_stage_activations(r, 0, slot)
                if visit == count:
                    leave_step_activations_adjoint(m, p, p_bar, r, world, slot, wants_params)
                else:
                    clear_pull_bars(r, slot)
                start_stage_activations_adjoint(r, 0, slot)
            for d in range(m.nv):
                s.q_bar[d, slot] = real(0.0)
                s.v_bar[d, slot] = real(0.0)
                s.a_bar[d, slot] = s.stage_a_bar[d, slot]
            solved = accelerate_adjoint(
                fine, g, p, p_bar, s, c, r, controls, controls_bar, f, f_bar, t, world, slot, wants_params
            )
            if status == HEALTHY:
                status = solved
            if ACTIVATIONS:
                enter_stage_activations_adjoint(m, p, p_bar, r, 0, real(0.0), world, slot, wants_params)
            for d in range(m.nv):
                s.q_bar[d, slot] = s.q_bar[d, slot] + s.q_start_bar[d, slot]
                s.v_bar[d, slot] = s.v_bar[d, slot] + s.v_start_bar[d, slot]
    if ACTIVATIONS:
        leave_stages_activations_adjoint(r, slot)
    return status


# s.q, s.v hold the state before the step; s.q_bar, s.v_bar the cotangents after it, and then before it. Each of these
# functions returns the status.
step_adjoint = substeps_adjoint if POTENTIAL else stages_adjoint


@wp.func(inline=True)
def refined_step_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    t: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """The same through a step in substeps: once forward, to have the states before each, and back through them."""
    count = count_substeps(m, g, p, s, c, margin(p, world), world, slot)
    fine = m
    fine.timestep = m.timestep / real(count)
    status = int(HEALTHY)
    keep_state(m, s, s.sub_q, s.sub_v, 0, slot)
    if ACTIVATIONS:
        keep_activations(r, 0, slot)
    for substep in range(1, count):
        step(fine, g, p, s, c, r, controls, f, t, world, slot)
        keep_state(m, s, s.sub_q, s.sub_v, substep, slot)
        if ACTIVATIONS:
            keep_activations(r, substep, slot)
    for back in range(count):
        take_state(m, s, s.sub_q, s.sub_v, count - 1 - back, slot)
        if ACTIVATIONS:
            take_kept_activations(r, count - 1 - back, slot)
        found = step_adjoint(fine, g, p, p_bar, s, c, r, controls, controls_bar, f, f_bar, t, world, slot, wants_params)
        if status == HEALTHY:
            status = found
    return status


whole_step_adjoint = refined_step_adjoint if REFINED else step_adjoint


@wp.func
def add_coordinates_bar(
    m: Tree, s: Workspace, q: wp.array3d(dtype=real), q_bar: wp.array3d(dtype=real), row: int, world: int, slot: int
):
    """Adds the cotangent q_bar[row, world] of the stored coordinates q[row, world] to the tangent s.q_bar."""
    for k in range(m.joint_type.shape[0]):
        i = m.joint_q[k]
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            quat = vec4(q[row, world, i], q[row, world, i + 1], q[row, world, i + 2], q[row, world, i + 3])
            bar = vec4(
                q_bar[row, world, i], q_bar[row, world, i + 1], q_bar[row, world, i + 2], q_bar[row, world, i + 3]
            )
            add_vec3(s.q_bar, d, slot, tangent_of_coordinates(quat, bar))
        else:
            s.q_bar[d, slot] = s.q_bar[d, slot] + q_bar[row, world, i]


@wp.func
def is_finite(m: Tree, s: Workspace, r: Rows, slot: int):
    """Whether the cotangents of the state are."""
    total = real(0.0)
    for d in range(m.nv):
        total += real(0.0) * s.q_bar[d, slot] + real(0.0) * s.v_bar[d, slot]
    if ACTIVATIONS:
        for i in range(r.act.shape[0]):
            total += real(0.0) * r.act_bar[i, slot]
    return total == real(0.0)


@wp.kernel(enable_backward=False)
def rollout_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    first_world: int,
    end_world: int,
    first_step: int,
    end_step: int,
    hold: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    act: wp.array3d(dtype=real),
    q_bar: wp.array3d(dtype=real),
    v_bar: wp.array3d(dtype=real),
    act_bar: wp.array3d(dtype=real),
    every_row: int,
    mask: int,
    wants_params: int,
    carry_q: wp.array2d(dtype=real),
    carry_v: wp.array2d(dtype=real),
    carry_act: wp.array2d(dtype=real),
    status: wp.array2d(dtype=int),
):
    """Pulls the tangent cotangents carry_q, carry_v, carry_act of the state at end_step back to first_step, in place.

    Row r of q, v and act is the state at first_step + r. With every_row, so are those of their bars, and each state's
    own cotangent joins on the way, except the last one's, which the caller has put into the carry. The state at
    end_step, if it is there, spares contact models with a potential some of their search. hold and status as
    in ``rollout``: a step whose constraints were not solved has no derivative. A world that failed before, or whose
    cotangents are not finite, carries zero.
    """
    slot = wp.tid()
    slots = s.q.shape[1]
    for world in range(first_world + slot, end_world, slots):
        for d in range(m.nv):
            s.q_bar[d, slot] = carry_q[world, d]
            s.v_bar[d, slot] = carry_v[world, d]
        if ACTIVATIONS:
            for i in range(carry_act.shape[1]):
                r.act_bar[i, slot] = carry_act[world, i]
        for back in range(end_step - first_step):
            row = end_step - first_step - 1 - back
            if status[world, 1] < 0:
                read_state(m, s, q, v, row, world, slot)
                if ACTIVATIONS:
                    read_activations(r, act, row, world, slot)
                if POTENTIAL:
                    for d in range(m.nv):
                        r.after[d, slot] = v[wp.min(row + 1, v.shape[0] - 1), world, d]
                t = (first_step + row) // hold
                state_of_health = whole_step_adjoint(
                    m, g, p, p_bar, s, c, r, controls, controls_bar, f, f_bar, t, world, slot, wants_params
                )
                if every_row == 1:
                    # the start is as it was given, no point of the manifold yet: see to_coordinates
                    if first_step + row > 0:
                        add_coordinates_bar(m, s, q, q_bar, row, world, slot)
                    for d in range(m.nv):
                        s.v_bar[d, slot] = s.v_bar[d, slot] + v_bar[row, world, d]
                    if ACTIVATIONS:
                        for i in range(act_bar.shape[2]):
                            r.act_bar[i, slot] = r.act_bar[i, slot] + act_bar[row, world, i]
                if state_of_health == HEALTHY and mask == 1 and not is_finite(m, s, r, slot):
                    state_of_health = GRADIENT_NOT_FINITE
                if state_of_health != HEALTHY:
                    status[world, 0] = state_of_health
                    status[world, 1] = first_step + row
        sound = mask == 0 or status[world, 1] < 0
        for d in range(m.nv):
            carry_q[world, d] = wp.where(sound, s.q_bar[d, slot], real(0.0))
            carry_v[world, d] = wp.where(sound, s.v_bar[d, slot], real(0.0))
        if ACTIVATIONS:
            for i in range(carry_act.shape[1]):
                carry_act[world, i] = wp.where(sound, r.act_bar[i, slot], real(0.0))


@wp.kernel(enable_backward=False)
def clear_failed(status: wp.array2d(dtype=int), x: wp.array3d(dtype=real)):
    """x[:, world] = 0 in worlds that failed."""
    world = wp.tid()
    if status[world, 1] >= 0:
        for t in range(x.shape[0]):
            for i in range(x.shape[2]):
                x[t, world, i] = real(0.0)


@wp.kernel(enable_backward=False)
def to_tangent(m: Tree, q: wp.array2d(dtype=real), q_bar: wp.array2d(dtype=real), tangent: wp.array2d(dtype=real)):
    """Cotangents of stored coordinates to cotangents of the tangent space."""
    world = wp.tid()
    for k in range(m.joint_type.shape[0]):
        i = m.joint_q[k]
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            quat = vec4(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3])
            bar = vec4(q_bar[world, i], q_bar[world, i + 1], q_bar[world, i + 2], q_bar[world, i + 3])
            turn = tangent_of_coordinates(quat, bar)
            for j in range(3):
                tangent[world, d + j] = turn[j]
        else:
            tangent[world, d] = q_bar[world, i]


@wp.kernel(enable_backward=False)
def to_coordinates(
    m: Tree,
    q: wp.array2d(dtype=real),
    tangent: wp.array2d(dtype=real),
    own: wp.array2d(dtype=real),
    q_bar: wp.array2d(dtype=real),
):
    """Cotangents of the tangent space to cotangents of stored coordinates, which get their ``own`` on top."""
    world = wp.tid()
    for k in range(m.joint_type.shape[0]):
        i = m.joint_q[k]
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            quat = vec4(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3])
            bar = coordinates_of_tangent(quat, vec3(tangent[world, d], tangent[world, d + 1], tangent[world, d + 2]))
            for j in range(4):
                q_bar[world, i + j] = own[world, i + j] + bar[j]
        else:
            q_bar[world, i] = own[world, i] + tangent[world, d]
