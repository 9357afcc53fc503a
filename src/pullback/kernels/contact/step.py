"""One launch steps every world through a whole trajectory."""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import log_jacobian
from ..spatial.scalar import real
from ..status import HEALTHY, NOT_FINITE
from ..tree.advance import advance
from ..tree.applied import Applied
from ..tree.state import keep_state, read_state, take_state, write_state
from ..tree.structs import BALL, RK4, Params, Tree, Workspace, read_vec3
from .accelerate import accelerate, size_of_state
from .flavour import ACTIVATIONS, IMPULSES, POTENTIAL, REFINED
from .refinement import count_substeps
from .rows import Rows

if REFINED:
    from .model import margin
if POTENTIAL:
    from .model import finer, substep_count
if ACTIVATIONS:
    from .activations import (
        enter_stage_activations,
        keep_activations,
        leave_stage_activations,
        leave_step_activations,
        read_activations,
        size_of_activations,
        start_activations,
        take_kept_activations,
        undo_activations,
        write_activations,
    )

# A state larger than this [m, rad, m/s, rad/s] is on its way to infinity: squares of it are lost to rounding.
BLOWN_UP = wp.constant(real(1e15))


@wp.func
def stage_count(integrator: int):
    return wp.where(integrator == RK4, 4, 1)


@wp.func
def stage_weight(stage: int):
    return wp.where(stage == 0 or stage == 3, real(1.0) / real(6.0), real(1.0) / real(3.0))


@wp.func
def stage_node(stage: int):
    """How far into the step a later stage lies, along the derivative of the stage before it."""
    return wp.where(stage == 3, real(1.0), real(0.5))


@wp.func
def enter_stage(m: Tree, s: Workspace, stage: int, slot: int):
    """s.q, s.v of a stage, from the start of the step and the stage before."""
    if stage == 0:
        take_state(m, s, s.q_start, s.v_start, 0, slot)
    else:
        h = m.timestep * stage_node(stage)
        before = (stage - 1) * m.nv
        advance(m, s, s.q_start, s.stage_v, before, h, slot)
        for d in range(m.nv):
            s.v[d, slot] = s.v_start[d, slot] + h * s.stage_a[before + d, slot]
    for d in range(m.nv):
        s.stage_v[stage * m.nv + d, slot] = s.v[d, slot]
    if stage > 0:
        # Rotations of different stages add up only as rates of the rotation vector since the start of the step
        # (Runge-Kutta-Munthe-Kaas); taken as angular velocities they would cost two orders of accuracy.
        for k in range(m.joint_type.shape[0]):
            if m.joint_type[k] == BALL:
                d = m.joint_v[k]
                turned = stage_rotation(m, s, stage, d, slot)
                rate = log_jacobian(turned, read_vec3(s.v, d, slot))
                for j in range(3):
                    s.stage_v[stage * m.nv + d + j, slot] = rate[j]


@wp.func
def stage_rotation(m: Tree, s: Workspace, stage: int, d: int, slot: int):
    """Rotation vector of the ball joint at d from the start of the step to a later stage."""
    return m.timestep * stage_node(stage) * read_vec3(s.stage_v, (stage - 1) * m.nv + d, slot)


@wp.func
def leave_stage(m: Tree, s: Workspace, stage: int, slot: int):
    for d in range(m.nv):
        s.stage_a[stage * m.nv + d, slot] = s.a[d, slot]


@wp.func
def mean_of_stages(x: wp.array2d(dtype=real), d: int, nv: int, slot: int):
    return (
        stage_weight(0) * x[d, slot]
        + stage_weight(1) * x[nv + d, slot]
        + stage_weight(2) * x[2 * nv + d, slot]
        + stage_weight(3) * x[3 * nv + d, slot]
    )


@wp.func
def guess_nothing(m: Tree, r: Rows, slot: int):
    """Nothing is known of the velocity after a substep."""
    for d in range(m.nv):
        r.guess[d, slot] = real(0.0)


@wp.func
def leave_substep(m: Tree, s: Workspace, r: Rows, slot: int):
    """s.q, s.v after a substep, from s.a."""
    for d in range(m.nv):
        s.v[d, slot] = s.v[d, slot] + m.timestep * s.a[d, slot]
    advance(m, s, r.kept_q, s.v, 0, m.timestep, slot)


@wp.func(inline=True)
def substeps(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    t: int,
    world: int,
    slot: int,
):
    """s.q, s.v one timestep on, in as many substeps as the contact model asks for. Returns the status."""
    status = int(HEALTHY)
    keep_state(m, s, s.q_start, s.v_start, 0, slot)
    fine = m
    count = int(substep_count(m, g, p, s, c, world, slot))
    fine.timestep = m.timestep / real(count)
    keep_state(m, s, r.substep_q, r.substep_v, 0, slot)
    substep = int(0)
    while substep < count and status == HEALTHY:
        guess_nothing(m, r, slot)
        status = accelerate(fine, g, p, s, c, r, controls, f, t, world, slot)
        leave_substep(fine, s, r, slot)
        if ACTIVATIONS:
            leave_stage_activations(r, 0, slot)
        substep += 1
        more = finer(g, count, status)
        if more > 0:
            count = more
            fine.timestep = m.timestep / real(count)
            take_state(m, s, r.substep_q, r.substep_v, 0, slot)
            substep = 0
            status = HEALTHY
    return status


@wp.func(inline=True)
def stages(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    t: int,
    world: int,
    slot: int,
):
    """s.q, s.v one timestep on, through the stages of the integrator. Returns the status."""
    status = int(HEALTHY)
    keep_state(m, s, s.q_start, s.v_start, 0, slot)
    for stage in range(stage_count(m.integrator)):
        enter_stage(m, s, stage, slot)
        if ACTIVATIONS:
            enter_stage_activations(m, p, r, stage, stage_node(stage), world, slot)
        found = accelerate(m, g, p, s, c, r, controls, f, t, world, slot)
        leave_stage(m, s, stage, slot)
        if ACTIVATIONS:
            leave_stage_activations(r, stage, slot)
        if status == HEALTHY:
            status = found
    if m.integrator == RK4:
        for d in range(m.nv):
            s.v[d, slot] = mean_of_stages(s.stage_v, d, m.nv, slot)
        advance(m, s, s.q_start, s.v, 0, m.timestep, slot)
        for d in range(m.nv):
            s.v[d, slot] = s.v_start[d, slot] + m.timestep * mean_of_stages(s.stage_a, d, m.nv, slot)
    else:
        for d in range(m.nv):
            s.v[d, slot] = s.v[d, slot] + m.timestep * s.a[d, slot]
        if IMPULSES:
            for d in range(m.nv):
                s.stage_v[d, slot] = s.v[d, slot] - r.late[d, slot] * r.w[d, slot]
            advance(m, s, s.q_start, s.stage_v, 0, m.timestep, slot)
        else:
            advance(m, s, s.q_start, s.v, 0, m.timestep, slot)
    return status


@wp.func(inline=True)
def step(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    t: int,
    world: int,
    slot: int,
):
    """s.q, s.v one timestep on. Returns the status."""
    status = int(HEALTHY)
    if ACTIVATIONS:
        start_activations(r, slot)
    if POTENTIAL:
        status = substeps(m, g, p, s, c, r, controls, f, t, world, slot)
    else:
        status = stages(m, g, p, s, c, r, controls, f, t, world, slot)
    if status == HEALTHY and not size_of_state(m, s, slot) < BLOWN_UP:  # written so that a NaN counts too
        status = NOT_FINITE
    if ACTIVATIONS:
        leave_step_activations(m, p, r, world, slot)
        if status == HEALTHY and not size_of_activations(r, slot) < BLOWN_UP:
            status = NOT_FINITE
    return status


@wp.func(inline=True)
def refined_step(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    t: int,
    world: int,
    slot: int,
):
    """The same in substeps; the state before the step is kept in s.sub_q, s.sub_v."""
    keep_state(m, s, s.sub_q, s.sub_v, 0, slot)
    if ACTIVATIONS:
        keep_activations(r, 0, slot)
    count = count_substeps(m, g, p, s, c, margin(p, world), world, slot)
    fine = m
    fine.timestep = m.timestep / real(count)
    status = int(HEALTHY)
    for _substep in range(count):
        if status == HEALTHY:
            status = step(fine, g, p, s, c, r, controls, f, t, world, slot)
    return status


# What a trajectory is made of.
whole_step = refined_step if REFINED else step


@wp.func
def undo_step(m: Tree, s: Workspace, r: Rows, slot: int):
    """s.q, s.v back to the state before a step."""
    if ACTIVATIONS:
        if REFINED:
            take_kept_activations(r, 0, slot)
        else:
            undo_activations(r, slot)
    if REFINED:
        take_state(m, s, s.sub_q, s.sub_v, 0, slot)
    else:
        take_state(m, s, s.q_start, s.v_start, 0, slot)


@wp.kernel(enable_backward=False)
def rollout(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    first_world: int,
    end_world: int,
    first_step: int,
    end_step: int,
    hold: int,
    keep_every: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    act: wp.array3d(dtype=real),
    status: wp.array2d(dtype=int),
):
    """Steps the worlds from the state in row 0 of q, v and act; every keep_every-th state, and the last, goes to the
    next row.

    A control is held for ``hold`` steps, and so is what is applied: controls[t // hold] acts in step t.
    status[world] = (HEALTHY or what went wrong, the step at which it did); a world that went wrong stays where it was.
    """
    slot = wp.tid()
    slots = s.q.shape[1]
    for world in range(first_world + slot, end_world, slots):
        read_state(m, s, q, v, 0, world, slot)
        if ACTIVATIONS:
            read_activations(r, act, 0, world, slot)
        row = int(0)
        healthy = bool(True)
        for t in range(first_step, end_step):
            if healthy:
                state_of_health = whole_step(m, g, p, s, c, r, controls, f, t // hold, world, slot)
                if state_of_health != HEALTHY:
                    healthy = False
                    status[world, 0] = state_of_health
                    status[world, 1] = t
                    undo_step(m, s, r, slot)
            if (t + 1 - first_step) % keep_every == 0 or t + 1 == end_step:
                row += 1
                write_state(m, s, q, v, row, world, slot)
                if ACTIVATIONS:
                    write_activations(r, act, row, world, slot)
