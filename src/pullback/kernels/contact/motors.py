"""PID controllers and DC motors: forces and rates of their states, with the adjoint.

The law of a DC motor is in ``tree/motor.py``. A PID controller pulls with

    kp (u_pos - length) + kv (u_vel - velocity) + ki x + u_ff + b₀

where b = (b₀, -kp, -kv) is its bias and ki its gain. Its activation law has the limit of the integral x and the rate at
which u_pos may slew. On a rotation errors are wrapped around the circle, as those of servos are.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4
from ..tree.forces import in_range
from ..tree.motor import INTEGRAL, SLEW, dc_motor, dc_motor_adjoint, vec5, wound_gate
from ..tree.structs import Params, Tree, Workspace
from .activations import follow, follow_adjoint
from .periods import add_period_bar, period_of, round_away
from .rows import Rows


@wp.func
def read_setpoints(s: Workspace, r: Rows, n: int, slot: int):
    """Of motor n: clamped controls, and zeros where it has none."""
    u = vec4()
    for i in range(4):
        if r.motors.control[n, i] >= 0:
            u[i] = s.drive[r.motors.control[n, i], slot]
    return u


@wp.func
def read_states(r: Rows, n: int, slot: int):
    act = vec5()
    for i in range(5):
        if r.motors.state[n, i] >= 0:
            act[i] = r.act[r.motors.state[n, i], slot]
    return act


@wp.func
def read_rate_bars(r: Rows, n: int, slot: int):
    bars = vec5()
    for i in range(5):
        if r.motors.state[n, i] >= 0:
            bars[i] = r.pull_bar[r.motors.state[n, i], slot]
    return bars


@wp.func
def nearest(x: real, to: real, period: real):
    """By how many periods x is beyond the one of its likes that is nearest to another number."""
    turns = real(0.0)
    if period > real(0.0):
        turns = round_away((x - to) / period)
    return turns


@wp.func
def pid_setpoint(m: Tree, p: Params, r: Rows, n: int, k: int, u: real, act: vec5, period: real, world: int):
    """Position that the controller aims at, by how many turns less it goes there, and what is left before it slews."""
    turns = real(0.0)
    gap = real(0.0)
    if r.motors.state[n, SLEW] >= 0:
        turns = nearest(u, act[SLEW], period)
        gap = u - period * turns - act[SLEW]
        reach = p.activation[world, k][1] * m.timestep
        u = act[SLEW] + wp.clamp(gap, -reach, reach)
    return u, turns, gap


@wp.func
def pid_gate(p: Params, r: Rows, n: int, k: int, act: vec5, error: real, world: int):
    """1 where the controller has an integral of the error that is not at its limit."""
    gate = real(0.0)
    if r.motors.state[n, INTEGRAL] >= 0:
        gate = wound_gate(act[INTEGRAL], error, p.activation[world, k][0])
    return gate


@wp.func
def pid_integral(m: Tree, p: Params, r: Rows, n: int, act: vec5, rate: real, world: int, slot: int):
    """x, or what it is after the step where the file says so."""
    x = act[INTEGRAL]
    i = r.motors.state[n, INTEGRAL]
    if i >= 0:
        if r.activations.early[i] == 1:
            x = follow(p, r, i, x, rate, m.timestep, world, slot)
    return x


@wp.func
def pid_force(
    m: Tree, p: Params, s: Workspace, r: Rows, n: int, k: int, length: real, velocity: real, world: int, slot: int
):
    """The force, its slope by velocity, and the rates of states."""
    bias = p.bias[world, k]
    u = read_setpoints(s, r, n, slot)
    act = read_states(r, n, slot)
    period = period_of(r.motors.wraps[n], p.gear[world, k])
    aim, _turns, _gap = pid_setpoint(m, p, r, n, k, u[0], act, period, world)
    error = aim - length
    error -= period * nearest(error, real(0.0), period)
    rates = vec5()
    rates[SLEW] = (aim - act[SLEW]) / m.timestep
    rates[INTEGRAL] = error * pid_gate(p, r, n, k, act, error, world)
    x = pid_integral(m, p, r, n, act, rates[INTEGRAL], world, slot)
    force = bias[0] - bias[1] * error - bias[2] * (u[1] - velocity) + u[2] + p.gain[world, k][0] * x
    return force, bias[2], rates


@wp.func
def pid_force_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, n: int, k: int, length: real, velocity: real,
    force_bar: real, slope_bar: real, rates_bar: vec5, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Cotangents of length, velocity, setpoints and states; adds those of parameters."""
    bias = p.bias[world, k]
    gain = p.gain[world, k]
    u = read_setpoints(s, r, n, slot)
    act = read_states(r, n, slot)
    act_bar = vec5()
    u_bar = vec4()
    period = period_of(r.motors.wraps[n], p.gear[world, k])
    aim, turns, gap = pid_setpoint(m, p, r, n, k, u[0], act, period, world)
    error = aim - length
    wound = nearest(error, real(0.0), period)
    error -= period * wound
    gate = pid_gate(p, r, n, k, act, error, world)
    rate = error * gate
    x = pid_integral(m, p, r, n, act, rate, world, slot)
    x_bar = gain[0] * force_bar
    rate_bar = rates_bar[INTEGRAL]
    i = r.motors.state[n, INTEGRAL]
    if i >= 0:
        if r.activations.early[i] == 1:
            x_bar, early_bar = follow_adjoint(
                p, p_bar, r, i, act[INTEGRAL], rate, m.timestep, x_bar, world, slot, wants_params
            )
            rate_bar += early_bar
        act_bar[INTEGRAL] = x_bar
    error_bar = -bias[1] * force_bar + rate_bar * gate
    length_bar = -error_bar
    aim_bar = error_bar
    period_bar = -wound * error_bar
    reach_bar = real(0.0)
    if r.motors.state[n, SLEW] >= 0:
        aim_bar += rates_bar[SLEW] / m.timestep
        reach = p.activation[world, k][1] * m.timestep
        passes = in_range(gap, -reach, reach)
        act_bar[SLEW] = aim_bar * (real(1.0) - passes) - rates_bar[SLEW] / m.timestep
        reach_bar = aim_bar * (real(1.0) - passes) * wp.sign(gap)
        aim_bar *= passes
        period_bar -= turns * aim_bar
    u_bar[0] = aim_bar
    u_bar[1] = -bias[2] * force_bar
    u_bar[2] = force_bar
    if wants_params == 1:
        p_bar.bias[world, k] = p_bar.bias[world, k] + vec3(
            force_bar, -error * force_bar, slope_bar - (u[1] - velocity) * force_bar
        )
        p_bar.gain[world, k] = p_bar.gain[world, k] + vec3(x * force_bar, real(0.0), real(0.0))
        if reach_bar != real(0.0):
            p_bar.activation[world, k] = p_bar.activation[world, k] + vec3(real(0.0), reach_bar * m.timestep, real(0.0))
        add_period_bar(p, p_bar, r.motors.wraps[n], k, period_bar, world)
    return length_bar, bias[2] * force_bar, u_bar, act_bar


@wp.func
def motor_force(
    m: Tree, p: Params, s: Workspace, r: Rows, n: int, k: int, length: real, velocity: real, world: int, slot: int
):
    """The force of motor n, which is actuator k, and its slope by velocity; keeps what its states need for a step."""
    force = real(0.0)
    slope = real(0.0)
    rates = vec5()
    if r.motors.has_circuit[n] == 1:
        force, slope, rates = dc_motor(
            p.motor_gain[world, n], p.motor_dynamics[world, n], p.motor_bias[world, n],
            read_setpoints(s, r, n, slot), read_states(r, n, slot), r.motors.slews[n], length, velocity,
            r.motors.low[n], r.motors.high[n], m.timestep,
        )  # fmt: skip
    else:
        force, slope, rates = pid_force(m, p, s, r, n, k, length, velocity, world, slot)
    for i in range(5):
        if r.motors.state[n, i] >= 0:
            r.pull[r.motors.state[n, i], slot] = rates[i]
    r.motor_speed[n, slot] = velocity
    return force, slope


@wp.func
def motor_force_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, n: int, k: int, length: real, velocity: real,
    force_bar: real, slope_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Cotangents of length and velocity; sets those of the drives, and adds those of activations and parameters."""
    length_bar = real(0.0)
    velocity_bar = real(0.0)
    u_bar = vec4()
    act_bar = vec5()
    rates_bar = read_rate_bars(r, n, slot)
    if r.motors.has_circuit[n] == 1:
        length_bar, velocity_bar, u_bar, act_bar, gain_bar, dynamics_bar, bias_bar = dc_motor_adjoint(
            p.motor_gain[world, n], p.motor_dynamics[world, n], p.motor_bias[world, n],
            read_setpoints(s, r, n, slot), read_states(r, n, slot), r.motors.slews[n], length, velocity,
            r.motors.low[n], r.motors.high[n], m.timestep, force_bar, slope_bar, rates_bar,
        )  # fmt: skip
        if wants_params == 1:
            p_bar.motor_gain[world, n] = p_bar.motor_gain[world, n] + gain_bar
            p_bar.motor_dynamics[world, n] = p_bar.motor_dynamics[world, n] + dynamics_bar
            p_bar.motor_bias[world, n] = p_bar.motor_bias[world, n] + bias_bar
    else:
        length_bar, velocity_bar, u_bar, act_bar = pid_force_adjoint(
            m, p, p_bar, s, r, n, k, length, velocity, force_bar, slope_bar, rates_bar, world, slot, wants_params
        )
    for i in range(5):
        at = r.motors.state[n, i]
        if at >= 0:
            r.act_bar[at, slot] = r.act_bar[at, slot] + act_bar[i]
    for i in range(4):
        if r.motors.control[n, i] >= 0:
            s.drive_bar[r.motors.control[n, i], slot] = u_bar[i]
    return length_bar, velocity_bar + r.motor_speed_bar[n, slot]
