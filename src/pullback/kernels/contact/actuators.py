"""The force of an actuator, whatever it acts on, and what acts at joints; each with its adjoint.

It is gain · drive + bias, as in ``tree/forces.py``. A Flavour with more kinds of actuators has

- muscles, which add gain and bias of their own; their other kind is zero;
- PID controllers and DC motors, whose forces and states are in ``motors.py``;
- servos on rotations: their drive is moved by as many turns as bring it nearest to the length;
- feedback of velocity that implicitfast treats implicitly, of what is no hinge, slide or tendon: -h slope momentᵀ
  moment is added to the mass matrix, as that of a tendon whose Jacobian is the moment;
- limits of the force that all actuators of a tendon have together: where it is beyond, each gets the same share.
"""

import warp as wp

from ..spatial.scalar import SMALLEST_SHARE, real
from ..tree.forces import (
    actuator_length_velocity,
    actuator_moment,
    affine_force,
    affine_force_adjoint,
    in_range,
    inside,
    joint_transmission_adjoint,
    push_joint,
    push_joint_adjoint,
)
from ..tree.structs import Params, Tree, Workspace
from .flavour import ACTUATORS, MOTORS
from .periods import add_period_bar, period_of, round_away
from .rows import Rows

if ACTUATORS:
    from ..tree.muscle import muscle_bias, muscle_bias_adjoint, muscle_gain, muscle_gain_adjoint
if MOTORS:
    from .motors import motor_force, motor_force_adjoint


@wp.func
def actuator_force(
    m: Tree, p: Params, s: Workspace, r: Rows, k: int, length: real, velocity: real, world: int, slot: int
):
    """The force of actuator k, and its slope by velocity."""
    force, slope = affine_force(p, s, k, length, velocity, world, slot)
    if MOTORS:
        if r.motors.number[k] >= 0:
            force, slope = motor_force(m, p, s, r, r.motors.number[k], k, length, velocity, world, slot)
    if ACTUATORS:
        n = r.actuators.muscle[k]
        if n >= 0:
            drive = s.drive[k, slot]
            if r.actuators.pulls[n] == 1:
                gain, steepness = muscle_gain(p.muscle_gain[world, n], r.actuators.limits[n], length, velocity)
                force += gain * drive
                slope += steepness * drive
            if r.actuators.resists[n] == 1:
                force += muscle_bias(p.muscle_bias[world, n], r.actuators.limits[n], length)
    return force, slope


@wp.func
def actuator_force_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, k: int, length: real, velocity: real,
    force_bar: real, slope_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Cotangents of length and velocity; sets that of the drive, and adds those of parameters."""
    length_bar = real(0.0)
    velocity_bar = real(0.0)
    affine = bool(True)
    if MOTORS:
        affine = r.motors.number[k] < 0
        if not affine:
            length_bar, velocity_bar = motor_force_adjoint(
                m, p, p_bar, s, r, r.motors.number[k], k, length, velocity, force_bar, slope_bar, world, slot,
                wants_params,
            )  # fmt: skip
    if affine:
        length_bar, velocity_bar = affine_force_adjoint(
            p, p_bar, s, k, length, velocity, force_bar, slope_bar, world, slot, wants_params
        )
    if ACTUATORS:
        n = r.actuators.muscle[k]
        if n >= 0:
            drive = s.drive[k, slot]
            limits = r.actuators.limits[n]
            if r.actuators.pulls[n] == 1:
                law = p.muscle_gain[world, n]
                gain, steepness = muscle_gain(law, limits, length, velocity)
                s.drive_bar[k, slot] = s.drive_bar[k, slot] + force_bar * gain + slope_bar * steepness
                by_length, by_velocity, gain_bar = muscle_gain_adjoint(
                    law, limits, length, velocity, force_bar * drive, slope_bar * drive
                )
                length_bar += by_length
                velocity_bar += by_velocity
                if wants_params == 1:
                    p_bar.muscle_gain[world, n] = p_bar.muscle_gain[world, n] + gain_bar
            if r.actuators.resists[n] == 1:
                by_length_too, bias_bar = muscle_bias_adjoint(p.muscle_bias[world, n], limits, length, force_bar)
                length_bar += by_length_too
                if wants_params == 1:
                    p_bar.muscle_bias[world, n] = p_bar.muscle_bias[world, n] + bias_bar
    return length_bar, velocity_bar


# --- servos on rotations ---------------------------------------------------------------------------


@wp.func
def wrap_drive(p: Params, s: Workspace, r: Rows, k: int, length: real, world: int, slot: int):
    """Moves the drive of actuator k by whole turns to within half a turn of its length, if it is such a servo."""
    turns = real(0.0)
    period = period_of(r.actuators.wraps[k], p.gear[world, k])
    if period > real(0.0):
        turns = round_away((s.drive[k, slot] - length) / period)
        s.drive[k, slot] = s.drive[k, slot] - period * turns
    r.turns[k, slot] = turns
    r.servo_length[k, slot] = length


@wp.func
def wrap_drive_adjoint(
    p: Params, p_bar: Params, s: Workspace, r: Rows, k: int, world: int, slot: int, wants_params: int
):
    """Of ``wrap_drive``, by the gear alone: the cotangent of the drive passes unchanged."""
    if wants_params == 1:
        add_period_bar(p, p_bar, r.actuators.wraps[k], k, -s.drive_bar[k, slot] * r.turns[k, slot], world)


# --- feedback of velocity that is implicit -----------------------------------------------------------


@wp.func
def set_feedback(m: Tree, r: Rows, k: int, free_force: real, slope_velocity: real, slot: int):
    """What actuator k adds to the mass matrix per unit of its moment, unless it is held."""
    slope = inside(free_force, m.force_low[k], m.force_high[k]) * slope_velocity
    r.tendon_inertia[r.actuators.row[k], slot] = -m.timestep * slope


@wp.func
def feedback_adjoint(m: Tree, r: Rows, k: int, free_force: real, slot: int):
    """The cotangent of its slope by velocity."""
    slope_bar = real(0.0)
    if r.actuators.row[k] >= 0:
        held = inside(free_force, m.force_low[k], m.force_high[k])
        slope_bar = -m.timestep * held * r.tendon_inertia_bar[r.actuators.row[k], slot]
    return slope_bar


# --- at joints -------------------------------------------------------------------------------------


@wp.func
def add_joint_actuator(m: Tree, p: Params, s: Workspace, r: Rows, k: int, world: int, slot: int):
    """Adds to s.actuation the force of actuator k, which acts on a joint."""
    moment, count, quat = actuator_moment(m, p, s, k, world, slot)
    length, velocity = actuator_length_velocity(m, s, k, moment, count, quat, slot)
    if ACTUATORS:
        wrap_drive(p, s, r, k, length, world, slot)
    free_force, slope_velocity = actuator_force(m, p, s, r, k, length, velocity, world, slot)
    push_joint(m, s, k, moment, count, free_force, slope_velocity, slot)
    if ACTUATORS:
        row = r.actuators.row[k]
        if row >= 0:
            for j in range(6):
                if j < count:
                    r.tendon_J[r.tendons.first[row] + count - 1 - j, slot] = moment[j]
            set_feedback(m, r, k, free_force, slope_velocity, slot)


@wp.func
def joint_actuator_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, k: int, world: int, slot: int, wants_params: int
):
    """Of ``add_joint_actuator``."""
    moment, count, quat = actuator_moment(m, p, s, k, world, slot)
    length, velocity = actuator_length_velocity(m, s, k, moment, count, quat, slot)
    free_force, slope_velocity = actuator_force(m, p, s, r, k, length, velocity, world, slot)
    moment_bar, force_bar, slope_bar = push_joint_adjoint(m, s, k, moment, count, free_force, slope_velocity, slot)
    if ACTUATORS:
        row = r.actuators.row[k]
        if row >= 0:
            for j in range(6):
                if j < count:
                    moment_bar[j] += r.tendon_J_bar[r.tendons.first[row] + count - 1 - j, slot]
            slope_bar += feedback_adjoint(m, r, k, free_force, slot)
    length_bar, velocity_bar = actuator_force_adjoint(
        m, p, p_bar, s, r, k, length, velocity, force_bar, slope_bar, world, slot, wants_params
    )
    if ACTUATORS:
        wrap_drive_adjoint(p, p_bar, s, r, k, world, slot, wants_params)
    joint_transmission_adjoint(
        m, p_bar, s, k, moment, count, quat, moment_bar, length_bar, velocity_bar, world, slot, wants_params
    )


# --- tendons whose actuators' force is limited ---------------------------------------------------------


@wp.func
def pull_of_tendon(m: Tree, p: Params, s: Workspace, r: Rows, k: int, world: int, slot: int):
    """The force of actuator k, which pulls at a tendon, before any limit; and its slope by velocity."""
    tendon = r.tendons.actuator[k]
    gear = p.gear[world, k][0]
    length = gear * r.tendon_length[tendon, slot]
    velocity = gear * r.tendon_velocity[tendon, slot]
    force, slope = actuator_force(m, p, s, r, k, length, velocity, world, slot)
    return force, slope


@wp.func
def hold_tendons(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """The share of their force that actuators of tendons with a limit keep, and what is left of it in their ranges."""
    for t in range(r.tendons.own):
        r.tendon_total[t, slot] = real(0.0)
        r.tendon_kept[t, slot] = real(0.0)
    for n in range(r.actuators.held.shape[0]):
        k = r.actuators.held[n]
        t = r.tendons.actuator[k]
        force, _slope = pull_of_tendon(m, p, s, r, k, world, slot)
        r.tendon_total[t, slot] = r.tendon_total[t, slot] + force
    for t in range(r.tendons.own):
        total = r.tendon_total[t, slot]
        share = real(1.0)
        if total < r.actuators.hold_low[t]:
            share = r.actuators.hold_low[t] / total
        elif total > r.actuators.hold_high[t]:
            share = r.actuators.hold_high[t] / total
        r.tendon_share[t, slot] = share
    for n in range(r.actuators.held.shape[0]):
        k = r.actuators.held[n]
        t = r.tendons.actuator[k]
        raw, _steepness = pull_of_tendon(m, p, s, r, k, world, slot)
        kept = wp.clamp(r.tendon_share[t, slot] * raw, m.force_low[k], m.force_high[k])
        r.tendon_kept[t, slot] = r.tendon_kept[t, slot] + kept


@wp.func
def is_held(r: Rows, t: int, slot: int):
    """Whether what is left of the force on tendon t is at its limit, where MuJoCo leaves out its actuators' slopes: by
    their own ranges it may be below."""
    low = r.actuators.hold_low[t]
    high = r.actuators.hold_high[t]
    kept = r.tendon_kept[t, slot]
    return kept <= low + SMALLEST_SHARE * wp.abs(low) or kept >= high - SMALLEST_SHARE * wp.abs(high)


@wp.func
def share_bars(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Sets r.tendon_total_bar: what the share of each tendon has to do with its total, from s.tau_bar."""
    for t in range(r.tendons.own):
        r.tendon_total_bar[t, slot] = real(0.0)
    for n in range(r.actuators.held.shape[0]):
        k = r.actuators.held[n]
        t = r.tendons.actuator[k]
        share = r.tendon_share[t, slot]
        if share != real(1.0):
            free_force, _slope = pull_of_tendon(m, p, s, r, k, world, slot)
            passed = in_range(share * free_force, m.force_low[k], m.force_high[k])
            bar = p.gear[world, k][0] * passed * moved_by_tendon(m, s, r, t, slot)
            less = free_force * bar * share / r.tendon_total[t, slot]
            r.tendon_total_bar[t, slot] = r.tendon_total_bar[t, slot] - less


@wp.func
def moved_by_tendon(m: Tree, s: Workspace, r: Rows, t: int, slot: int):
    """J tau_bar, where no joint's range holds the actuation."""
    moved = real(0.0)
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        d = r.tendons.dof[i]
        pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        moved += r.tendon_J[i, slot] * pull_bar
    return moved
