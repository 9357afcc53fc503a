"""Actuators that have a state: what it does in a step, through the stages of the integrator, and the adjoint.

An activation depends on itself and on the control alone, and needs nothing of the mechanics; its laws are in
``tree/activation.py``. The functions here do for activations what those of ``step.py`` do for q and v.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from ..tree.activation import (
    NO_ACTIVATION,
    activation_pull,
    activation_pull_adjoint,
    activation_share,
    stage_share,
)
from ..tree.forces import in_range
from ..tree.structs import RK4, Params, Tree, Workspace
from .rows import Rows

# --- within one evaluation of accelerations ----------------------------------------------------------


@wp.func
def follow(p: Params, r: Rows, k: int, start: real, pull: real, h: real, world: int):
    """The activation of actuator k after the time h, from where it started."""
    share, _slope = activation_share(r.activations.kind[k], p.activation[world, k], h)
    return wp.clamp(start + share * pull, r.activations.low[k], r.activations.high[k])


@wp.func
def follow_adjoint(
    p: Params, p_bar: Params, r: Rows, k: int, start: real, pull: real, h: real, after_bar: real,
    world: int, wants_params: int,
):  # fmt: skip
    """Cotangents of start and pull; adds that of the time constant."""
    share, slope = activation_share(r.activations.kind[k], p.activation[world, k], h)
    bar = after_bar * in_range(start + share * pull, r.activations.low[k], r.activations.high[k])
    if wants_params == 1:
        time_bar = vec3(bar * pull * slope, real(0.0), real(0.0))
        p_bar.activation[world, k] = p_bar.activation[world, k] + time_bar
    return bar, bar * share


@wp.func
def take_activations(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Drives of actuators with activation, and the pull on it, from r.act and the clamped controls in s.drive."""
    for k in range(r.activations.kind.shape[0]):
        kind = r.activations.kind[k]
        if kind != NO_ACTIVATION:
            act = r.act[r.activations.at[k], slot]
            pull = activation_pull(kind, p.activation[world, k], act, s.drive[k, slot])
            r.pull[k, slot] = pull
            s.drive[k, slot] = act
            if r.activations.early[k] == 1:
                s.drive[k, slot] = follow(p, r, k, act, pull, m.timestep, world)


@wp.func
def take_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, controls: wp.array3d(dtype=real),
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From the cotangents of drives and pulls, adds to r.act_bar; s.drive_bar becomes that of the clamped controls."""
    for k in range(r.activations.kind.shape[0]):
        kind = r.activations.kind[k]
        if kind != NO_ACTIVATION:
            at = r.activations.at[k]
            act = r.act[at, slot]
            act_bar = s.drive_bar[k, slot]
            pull_bar = r.pull_bar[k, slot]
            if r.activations.early[k] == 1:
                act_bar, early_bar = follow_adjoint(
                    p, p_bar, r, k, act, r.pull[k, slot], m.timestep, act_bar, world, wants_params
                )
                pull_bar += early_bar
            control = wp.clamp(controls[t, world, k], m.control_low[k], m.control_high[k])
            by_act, control_bar, law_bar = activation_pull_adjoint(kind, p.activation[world, k], act, control, pull_bar)
            r.act_bar[at, slot] = r.act_bar[at, slot] + act_bar + by_act
            s.drive_bar[k, slot] = control_bar
            if wants_params == 1:
                p_bar.activation[world, k] = p_bar.activation[world, k] + law_bar


# --- through a step ----------------------------------------------------------------------------------


@wp.func
def read_activations(r: Rows, act: wp.array3d(dtype=real), row: int, world: int, slot: int):
    for i in range(act.shape[2]):
        r.act[i, slot] = act[row, world, i]


@wp.func
def write_activations(r: Rows, act: wp.array3d(dtype=real), row: int, world: int, slot: int):
    for i in range(act.shape[2]):
        act[row, world, i] = r.act[i, slot]


@wp.func
def size_of_activations(r: Rows, slot: int):
    total = real(0.0)
    for i in range(r.act.shape[0]):
        total += wp.abs(r.act[i, slot])
    return total


@wp.func
def start_activations(r: Rows, slot: int):
    for i in range(r.act.shape[0]):
        r.act_start[i, slot] = r.act[i, slot]


@wp.func
def undo_activations(r: Rows, slot: int):
    for i in range(r.act.shape[0]):
        r.act[i, slot] = r.act_start[i, slot]


@wp.func
def enter_stage_activations(m: Tree, p: Params, r: Rows, stage: int, node: real, world: int, slot: int):
    """r.act of a stage, at ``node`` of the step along the pull of the stage before."""
    undo_activations(r, slot)
    if stage > 0:
        before = (stage - 1) * r.pull.shape[0]
        for k in range(r.activations.kind.shape[0]):
            kind = r.activations.kind[k]
            if kind != NO_ACTIVATION:
                share, _slope = stage_share(kind, p.activation[world, k], node * m.timestep)
                at = r.activations.at[k]
                r.act[at, slot] = r.act[at, slot] + share * r.stage_pull[before + k, slot]


@wp.func
def leave_stage_activations(r: Rows, stage: int, slot: int):
    count = r.pull.shape[0]
    for k in range(count):
        r.stage_pull[stage * count + k, slot] = r.pull[k, slot]


@wp.func
def mean_pull(m: Tree, r: Rows, k: int, slot: int):
    """Of the stages that were left."""
    count = r.pull.shape[0]
    pull = r.stage_pull[k, slot]
    if m.integrator == RK4:
        pull += real(2.0) * (r.stage_pull[count + k, slot] + r.stage_pull[2 * count + k, slot])
        pull = (pull + r.stage_pull[3 * count + k, slot]) / real(6.0)
    return pull


@wp.func
def leave_step_activations(m: Tree, p: Params, r: Rows, world: int, slot: int):
    """r.act one timestep on."""
    undo_activations(r, slot)
    for k in range(r.activations.kind.shape[0]):
        if r.activations.kind[k] != NO_ACTIVATION:
            at = r.activations.at[k]
            r.act[at, slot] = follow(p, r, k, r.act_start[at, slot], mean_pull(m, r, k, slot), m.timestep, world)


@wp.func
def leave_step_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, r: Rows, world: int, slot: int, wants_params: int
):
    """From r.act_bar after the step, r.act_start_bar and the cotangents of the pull in each stage."""
    count = r.pull.shape[0]
    for i in range(r.act.shape[0]):
        r.act_start_bar[i, slot] = r.act_bar[i, slot]
    for k in range(count):
        pull_bar = real(0.0)
        if r.activations.kind[k] != NO_ACTIVATION:
            at = r.activations.at[k]
            start_bar, pull_bar = follow_adjoint(
                p, p_bar, r, k, r.act_start[at, slot], mean_pull(m, r, k, slot), m.timestep, r.act_bar[at, slot],
                world, wants_params,
            )  # fmt: skip
            r.act_start_bar[at, slot] = start_bar
        if m.integrator == RK4:
            r.stage_pull_bar[k, slot] = pull_bar / real(6.0)
            r.stage_pull_bar[count + k, slot] = pull_bar / real(3.0)
            r.stage_pull_bar[2 * count + k, slot] = pull_bar / real(3.0)
            r.stage_pull_bar[3 * count + k, slot] = pull_bar / real(6.0)
        else:
            r.stage_pull_bar[k, slot] = pull_bar


@wp.func
def clear_pull_bars(r: Rows, slot: int):
    for k in range(r.pull.shape[0]):
        r.stage_pull_bar[k, slot] = real(0.0)


@wp.func
def start_stage_activations_adjoint(r: Rows, stage: int, slot: int):
    """r.pull_bar of a stage, and nothing yet in r.act_bar."""
    count = r.pull.shape[0]
    for i in range(r.act.shape[0]):
        r.act_bar[i, slot] = real(0.0)
    for k in range(count):
        r.pull_bar[k, slot] = r.stage_pull_bar[stage * count + k, slot]


@wp.func
def enter_stage_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, r: Rows, stage: int, node: real, world: int, slot: int, wants_params: int
):
    """Of ``enter_stage_activations``: from r.act_bar of a stage to r.act_start_bar and the stage before."""
    for i in range(r.act.shape[0]):
        r.act_start_bar[i, slot] = r.act_start_bar[i, slot] + r.act_bar[i, slot]
    if stage > 0:
        before = (stage - 1) * r.pull.shape[0]
        for k in range(r.activations.kind.shape[0]):
            kind = r.activations.kind[k]
            if kind != NO_ACTIVATION:
                bar = r.act_bar[r.activations.at[k], slot]
                share, slope = stage_share(kind, p.activation[world, k], node * m.timestep)
                r.stage_pull_bar[before + k, slot] = r.stage_pull_bar[before + k, slot] + share * bar
                if wants_params == 1:
                    time_bar = vec3(bar * r.stage_pull[before + k, slot] * slope, real(0.0), real(0.0))
                    p_bar.activation[world, k] = p_bar.activation[world, k] + time_bar


@wp.func
def leave_stages_activations_adjoint(r: Rows, slot: int):
    """r.act_bar before the step."""
    for i in range(r.act.shape[0]):
        r.act_bar[i, slot] = r.act_start_bar[i, slot]


# --- where steps are refined: the activations before each substep --------------------------------------


@wp.func
def keep_activations(r: Rows, substep: int, slot: int):
    count = r.act.shape[0]
    for i in range(count):
        r.sub_act[substep * count + i, slot] = r.act[i, slot]


@wp.func
def take_kept_activations(r: Rows, substep: int, slot: int):
    count = r.act.shape[0]
    for i in range(count):
        r.act[i, slot] = r.sub_act[substep * count + i, slot]
