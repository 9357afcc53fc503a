"""Actuators that have a state: what it does in a step, through the stages of the integrator, and the adjoint.

A simple activation depends on itself and on the control alone; its laws are in ``tree/activation.py``. Of states of
motors the rates come from ``motors.py``, with the forces. The functions here do for activations what those of
``step.py`` do for q and v.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from ..tree.activation import (
    FILTER,
    FILTER_EXACT,
    INTEGRATOR,
    MOTOR_BRISTLE,
    MOTOR_CURRENT,
    MOTOR_INTEGRAL,
    MOTOR_STATE,
    NO_ACTIVATION,
    activation_pull,
    activation_pull_adjoint,
    activation_share,
    stage_share,
)
from ..tree.forces import in_range
from ..tree.structs import RK4, Params, Tree, Workspace
from .flavour import ACTUATORS, DELAYS, MOTORS
from .rows import Rows

if ACTUATORS:
    from .periods import add_period_bar, period_of, round_away
if DELAYS:
    from .delays import late_control
if MOTORS:
    from ..tree.motor import bristle_after, bristle_after_adjoint, current_share

# --- within one evaluation of accelerations ----------------------------------------------------------


@wp.func
def is_simple(kind: int):
    """Whether the pull on an activation is that of ``tree/activation.py``, and not found elsewhere."""
    return kind != NO_ACTIVATION and kind < MOTOR_STATE


@wp.func
def share_of(p: Params, r: Rows, i: int, h: real, world: int):
    """How much of its pull activation i follows in the time h, and the slope of that by its time constant."""
    k = r.activations.actuator[i]
    share, slope = activation_share(r.activations.kind[i], p.activation[world, k], h)
    if MOTORS:
        if r.activations.kind[i] == MOTOR_CURRENT:
            share, slope = current_share(p.motor_dynamics[world, r.motors.number[k]][0], h)
    return share, slope


@wp.func
def range_of(p: Params, r: Rows, i: int, world: int):
    low = r.activations.low[i]
    high = r.activations.high[i]
    if MOTORS:
        if r.activations.kind[i] == MOTOR_INTEGRAL:
            limit = p.motor_dynamics[world, r.motors.number[r.activations.actuator[i]]][8]
            if limit > real(0.0):
                low = -limit
                high = limit
    return low, high


@wp.func
def unlimited(p: Params, r: Rows, i: int, start: real, pull: real, h: real, world: int, slot: int):
    """Activation i after the time h, from where it started, before its range."""
    share, _slope = share_of(p, r, i, h, world)
    after = start + share * pull
    if MOTORS:
        if r.activations.kind[i] == MOTOR_BRISTLE:
            n = r.motors.number[r.activations.actuator[i]]
            after = bristle_after(p.motor_dynamics[world, n], p.motor_bias[world, n], start, r.first_speed[n, slot], h)
    return after


@wp.func
def follow(p: Params, r: Rows, i: int, start: real, pull: real, h: real, world: int, slot: int):
    """Activation i after the time h, from where it started."""
    low, high = range_of(p, r, i, world)
    return wp.clamp(unlimited(p, r, i, start, pull, h, world, slot), low, high)


@wp.func
def follow_adjoint(
    p: Params, p_bar: Params, r: Rows, i: int, start: real, pull: real, h: real, after_bar: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Cotangents of start and pull; adds those of the law."""
    k = r.activations.actuator[i]
    low, high = range_of(p, r, i, world)
    after = unlimited(p, r, i, start, pull, h, world, slot)
    share, slope = share_of(p, r, i, h, world)
    bar = after_bar * in_range(after, low, high)
    start_bar = bar
    pull_bar = bar * share
    if MOTORS:
        kind = r.activations.kind[i]
        n = r.motors.number[k]
        if kind == MOTOR_BRISTLE:
            start_bar, speed_bar, stiffness_bar, bias_bar = bristle_after_adjoint(
                p.motor_dynamics[world, n], p.motor_bias[world, n], start, r.first_speed[n, slot], h, bar
            )
            pull_bar = real(0.0)
            r.first_speed_bar[n, slot] = speed_bar
            if wants_params == 1:
                p_bar.motor_bias[world, n] = p_bar.motor_bias[world, n] + bias_bar
                law_bar = p_bar.motor_dynamics[world, n]
                law_bar[5] += stiffness_bar
                p_bar.motor_dynamics[world, n] = law_bar
        elif wants_params == 1 and kind == MOTOR_CURRENT:
            law_bar = p_bar.motor_dynamics[world, n]
            law_bar[0] += bar * pull * slope
            p_bar.motor_dynamics[world, n] = law_bar
        elif wants_params == 1 and kind == MOTOR_INTEGRAL:
            law_bar = p_bar.motor_dynamics[world, n]
            law_bar[8] += (after_bar - bar) * wp.sign(after)
            p_bar.motor_dynamics[world, n] = law_bar
    if wants_params == 1 and is_simple(r.activations.kind[i]):
        p_bar.activation[world, k] = p_bar.activation[world, k] + vec3(bar * pull * slope, real(0.0), real(0.0))
    return start_bar, pull_bar


@wp.func
def turns_to_follow(p: Params, r: Rows, i: int, act: real, control: real, world: int):
    """How many turns lie between a filter of a servo on a rotation and the control, which it follows the short way."""
    k = r.activations.actuator[i]
    kind = r.activations.kind[i]
    turns = real(0.0)
    if r.actuators.wraps[k] > 0 and (kind == FILTER or kind == FILTER_EXACT):
        turns = round_away((control - act) / period_of(r.actuators.wraps[k], p.gear[world, k]))
    return turns


@wp.func
def take_activations(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Drives of actuators with a simple activation, and the pull on it, from r.act and the clamped controls in
    s.drive."""
    for i in range(r.activations.kind.shape[0]):
        kind = r.activations.kind[i]
        if is_simple(kind):
            k = r.activations.actuator[i]
            act = r.act[i, slot]
            control = s.drive[k, slot]
            if ACTUATORS:
                control -= turns_to_follow(p, r, i, act, control, world) * period_of(
                    r.actuators.wraps[k], p.gear[world, k]
                )
            pull = activation_pull(kind, p.activation[world, k], act, control)
            r.pull[i, slot] = pull
            s.drive[k, slot] = act
            if r.activations.early[i] == 1:
                s.drive[k, slot] = follow(p, r, i, act, pull, m.timestep, world, slot)


@wp.func
def take_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, controls: wp.array3d(dtype=real),
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From the cotangents of drives and pulls, adds to r.act_bar; s.drive_bar becomes that of the clamped controls."""
    for i in range(r.activations.kind.shape[0]):
        kind = r.activations.kind[i]
        if is_simple(kind):
            k = r.activations.actuator[i]
            act = r.act[i, slot]
            act_bar = s.drive_bar[k, slot]
            pull_bar = r.pull_bar[i, slot]
            if r.activations.early[i] == 1:
                act_bar, early_bar = follow_adjoint(
                    p, p_bar, r, i, act, r.pull[i, slot], m.timestep, act_bar, world, slot, wants_params
                )
                pull_bar += early_bar
            control = controls[t, world, k]
            if DELAYS:
                if r.delays.number[k] >= 0:
                    control = late_control(r, r.delays.number[k], slot)
            control = wp.clamp(control, m.control_low[k], m.control_high[k])
            turns = real(0.0)
            if ACTUATORS:
                turns = turns_to_follow(p, r, i, act, control, world)
                control -= turns * period_of(r.actuators.wraps[k], p.gear[world, k])
            by_act, control_bar, law_bar = activation_pull_adjoint(kind, p.activation[world, k], act, control, pull_bar)
            r.act_bar[i, slot] = r.act_bar[i, slot] + act_bar + by_act
            s.drive_bar[k, slot] = control_bar
            if wants_params == 1:
                p_bar.activation[world, k] = p_bar.activation[world, k] + law_bar
                if ACTUATORS:
                    add_period_bar(p, p_bar, r.actuators.wraps[k], k, -turns * control_bar, world)


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
    if DELAYS:
        r.node[0, slot] = wp.where(stage == 0, 0, wp.where(stage == 3, 2, 1))
    if stage > 0:
        before = (stage - 1) * r.pull.shape[0]
        for i in range(r.activations.kind.shape[0]):
            kind = r.activations.kind[i]
            if kind != NO_ACTIVATION:
                law = p.activation[world, r.activations.actuator[i]]
                share, _slope = stage_share(kind, law, node * m.timestep)
                r.act[i, slot] = r.act[i, slot] + share * r.stage_pull[before + i, slot]


@wp.func
def leave_stage_activations(r: Rows, stage: int, slot: int):
    count = r.pull.shape[0]
    for i in range(count):
        r.stage_pull[stage * count + i, slot] = r.pull[i, slot]
    if stage == 0:
        if ACTUATORS:
            for k in range(r.servo_length.shape[0]):
                r.first_length[k, slot] = r.servo_length[k, slot]
        if MOTORS:
            for n in range(r.motor_speed.shape[0]):
                r.first_speed[n, slot] = r.motor_speed[n, slot]


@wp.func
def mean_pull(m: Tree, r: Rows, i: int, slot: int):
    """Of the stages that were left."""
    count = r.pull.shape[0]
    pull = r.stage_pull[i, slot]
    if m.integrator == RK4:
        pull += real(2.0) * (r.stage_pull[count + i, slot] + r.stage_pull[2 * count + i, slot])
        pull = (pull + r.stage_pull[3 * count + i, slot]) / real(6.0)
    return pull


@wp.func
def turns_of_activation(p: Params, r: Rows, i: int, act: real, world: int, slot: int):
    """By how many turns the activation of a servo on a rotation is beyond the length."""
    k = r.activations.actuator[i]
    kind = r.activations.kind[i]
    turns = real(0.0)
    if r.actuators.wraps[k] > 0 and (kind == INTEGRATOR or kind == FILTER or kind == FILTER_EXACT):
        turns = round_away((act - r.first_length[k, slot]) / period_of(r.actuators.wraps[k], p.gear[world, k]))
    return turns


@wp.func
def leave_step_activations(m: Tree, p: Params, r: Rows, world: int, slot: int):
    """r.act one timestep on."""
    undo_activations(r, slot)
    for i in range(r.activations.kind.shape[0]):
        if r.activations.kind[i] != NO_ACTIVATION:
            act = follow(p, r, i, r.act_start[i, slot], mean_pull(m, r, i, slot), m.timestep, world, slot)
            if ACTUATORS:
                k = r.activations.actuator[i]
                turns = turns_of_activation(p, r, i, act, world, slot)
                if turns != real(0.0):
                    act -= turns * period_of(r.actuators.wraps[k], p.gear[world, k])
            r.act[i, slot] = act


@wp.func
def leave_step_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, r: Rows, world: int, slot: int, wants_params: int
):
    """From r.act_bar after the step, r.act_start_bar and the cotangents of the pull in each stage."""
    count = r.pull.shape[0]
    for i in range(count):
        r.act_start_bar[i, slot] = r.act_bar[i, slot]
        pull_bar = real(0.0)
        if r.activations.kind[i] != NO_ACTIVATION:
            start = r.act_start[i, slot]
            pull = mean_pull(m, r, i, slot)
            if ACTUATORS:
                if wants_params == 1:
                    k = r.activations.actuator[i]
                    act = follow(p, r, i, start, pull, m.timestep, world, slot)
                    turns = turns_of_activation(p, r, i, act, world, slot)
                    add_period_bar(p, p_bar, r.actuators.wraps[k], k, -turns * r.act_bar[i, slot], world)
            start_bar, pull_bar = follow_adjoint(
                p, p_bar, r, i, start, pull, m.timestep, r.act_bar[i, slot], world, slot, wants_params
            )
            r.act_start_bar[i, slot] = start_bar
        if m.integrator == RK4:
            r.stage_pull_bar[i, slot] = pull_bar / real(6.0)
            r.stage_pull_bar[count + i, slot] = pull_bar / real(3.0)
            r.stage_pull_bar[2 * count + i, slot] = pull_bar / real(3.0)
            r.stage_pull_bar[3 * count + i, slot] = pull_bar / real(6.0)
        else:
            r.stage_pull_bar[i, slot] = pull_bar


@wp.func
def clear_pull_bars(r: Rows, slot: int):
    for i in range(r.pull.shape[0]):
        r.stage_pull_bar[i, slot] = real(0.0)


@wp.func
def start_stage_activations_adjoint(r: Rows, stage: int, slot: int):
    """r.pull_bar of a stage, and nothing yet in r.act_bar."""
    count = r.pull.shape[0]
    for i in range(count):
        r.act_bar[i, slot] = real(0.0)
        r.pull_bar[i, slot] = r.stage_pull_bar[stage * count + i, slot]
    if MOTORS:
        for n in range(r.motor_speed.shape[0]):
            r.motor_speed_bar[n, slot] = wp.where(stage == 0, r.first_speed_bar[n, slot], real(0.0))


@wp.func
def enter_stage_activations_adjoint(
    m: Tree, p: Params, p_bar: Params, r: Rows, stage: int, node: real, world: int, slot: int, wants_params: int
):
    """Of ``enter_stage_activations``: from r.act_bar of a stage to r.act_start_bar and the stage before."""
    for i in range(r.act.shape[0]):
        r.act_start_bar[i, slot] = r.act_start_bar[i, slot] + r.act_bar[i, slot]
    if stage > 0:
        before = (stage - 1) * r.pull.shape[0]
        for i in range(r.activations.kind.shape[0]):
            kind = r.activations.kind[i]
            if kind != NO_ACTIVATION:
                k = r.activations.actuator[i]
                bar = r.act_bar[i, slot]
                share, slope = stage_share(kind, p.activation[world, k], node * m.timestep)
                r.stage_pull_bar[before + i, slot] = r.stage_pull_bar[before + i, slot] + share * bar
                if wants_params == 1:
                    time_bar = vec3(bar * r.stage_pull[before + i, slot] * slope, real(0.0), real(0.0))
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
