"""DC motors: a controller, a circuit, heat and friction, with the adjoint. The laws are MuJoCo's.

With length l and velocity ω of what the motor drives, and setpoints u of position, velocity and torque, the controller
asks for a torque and the terminals have a voltage

    torque = kp (u_pos - l) + kd (u_vel - ω) + ki x + u_ff        V = (R/K) torque + K ω  within ±Vmax,  + u_voltage

The winding has the resistance Rt = R (1 + α (T + ambient - T0)), and its current goes to (V - K ω) / Rt at once, or in
the time te, no faster than the rate allows. Then the force is K · current, held to the motor's range, and beyond it

    amplitude sin(poles l + phase) - σ0 z - σ1 ż        ż = ω - σ0 |ω| z / g,    g = FC + (FS - FC) exp(-(ω / vS)²)

are cogging and the friction of bristles (LuGre). A motor has up to five states, in this order:

    slew        the first setpoint, which follows the control at a limited rate
    integral    x, of the error in position; it stops beyond ±Imax
    heat        T above the ambient, Ṫ = (Rt current² - T / Rth) / C
    bristle     z
    current

The numbers of the laws, as in MuJoCo's gainprm, dynprm and biasprm:

    number  gain                number  dynamics                                   number  bias
    0       R                   0, 1    te, largest rate of the current            0, 1    amplitude, poles
    1       K                   2, 3    Rth, C: resistance and capacity of heat    2       phase
    2, 3    α, T0               4       ambient temperature                        3, 4    FC, FS
    4, 5, 6 kp, ki, kd          5, 6    σ0, σ1                                     5       vS
    7       Vmax                7, 8    rate of slew, Imax

A state is there if ki, te, Rth, σ0 or the rate of slew is positive; Vmax, Imax and rates of zero are no limits. The
slope by velocity, which implicitfast uses, is zero where a limit holds, and leaves out, as in MuJoCo, that a bristle
forgets faster at a higher speed.
"""

import warp as wp

from ..spatial.scalar import real, vec4, vec6, vec9
from .activation import SMALLEST
from .forces import in_range, inside

vec5 = wp.types.vector(5, real)  # one number for each state

# Places among states and setpoints.
SLEW = wp.constant(0)
INTEGRAL = wp.constant(1)
HEAT = wp.constant(2)
BRISTLE = wp.constant(3)
CURRENT = wp.constant(4)
POSITION = wp.constant(0)
VELOCITY = wp.constant(1)
TORQUE = wp.constant(2)
VOLTAGE = wp.constant(3)

# Below this the closed form of the exponential's second difference cancels, and two terms of its series are exact.
SMALL_DECAY = wp.constant(real(1e-2 if real is wp.float32 else 1e-4))


@wp.func
def within(x: real, limit: real):
    """1 where a limit, if there is one, passes a number on."""
    return wp.where(limit > real(0.0), in_range(x, -limit, limit), real(1.0))


@wp.func
def limited(x: real, limit: real):
    return wp.where(limit > real(0.0), wp.clamp(x, -limit, limit), x)


@wp.func
def wound_gate(x: real, error: real, limit: real):
    """0 where an integral is beyond its limit and would go further."""
    out = limit > real(0.0) and ((x >= limit and error > real(0.0)) or (x <= -limit and error < real(0.0)))
    return wp.where(out, real(0.0), real(1.0))


# --- bristles --------------------------------------------------------------------------------------


@wp.func
def bristle_decay(dynamics: vec9, bias: vec6, velocity: real):
    """a in ż = a z + ω"""
    ratio = velocity / wp.max(SMALLEST, bias[5])
    level = bias[3] + (bias[4] - bias[3]) * wp.exp(-ratio * ratio)
    return -dynamics[5] * wp.abs(velocity) / wp.max(SMALLEST, level)


@wp.func
def bristle_decay_adjoint(dynamics: vec9, bias: vec6, velocity: real, a_bar: real):
    """Cotangents of velocity, of σ0, and of the numbers of the bias."""
    width = wp.max(SMALLEST, bias[5])
    ratio = velocity / width
    bump = wp.exp(-ratio * ratio)
    level = wp.max(SMALLEST, bias[3] + (bias[4] - bias[3]) * bump)
    share = wp.abs(velocity) / level
    level_bar = a_bar * dynamics[5] * share / level
    ratio_bar = -real(2.0) * ratio * bump * (bias[4] - bias[3]) * level_bar
    bias_bar = vec6()
    bias_bar[3] = level_bar * (real(1.0) - bump)
    bias_bar[4] = level_bar * bump
    bias_bar[5] = -ratio_bar * ratio / width
    velocity_bar = ratio_bar / width - a_bar * dynamics[5] * wp.sign(velocity) / level
    return velocity_bar, -a_bar * share, bias_bar


@wp.func
def decay_shares(a: real, h: real):
    """exp(a h), (exp(a h) - 1) / a, and the slope of the latter by a."""
    left = wp.exp(a * h)
    share = h
    slope = h * h * (real(0.5) + a * h / real(3.0))
    if wp.abs(a) > SMALLEST:
        share = (left - real(1.0)) / a
        if wp.abs(a * h) > SMALL_DECAY:
            slope = (h * left - share) / a
    return left, share, slope


@wp.func
def bristle_after(dynamics: vec9, bias: vec6, z: real, velocity: real, h: real):
    """z after the time h at this velocity."""
    left, share, _slope = decay_shares(bristle_decay(dynamics, bias, velocity), h)
    return left * z + share * velocity


@wp.func
def bristle_after_adjoint(dynamics: vec9, bias: vec6, z: real, velocity: real, h: real, after_bar: real):
    """Cotangents of z and velocity, of σ0, and of the numbers of the bias."""
    left, share, slope = decay_shares(bristle_decay(dynamics, bias, velocity), h)
    a_bar = after_bar * (h * left * z + slope * velocity)
    velocity_bar, stiffness_bar, bias_bar = bristle_decay_adjoint(dynamics, bias, velocity, a_bar)
    return after_bar * left, velocity_bar + after_bar * share, stiffness_bar, bias_bar


# --- the motor -------------------------------------------------------------------------------------


@wp.func
def current_share(te: real, h: real):
    """For how long the rate of a current acts in the time h, and the slope of that by te."""
    left = wp.exp(-h / te)
    return te * (real(1.0) - left), real(1.0) - left - h / te * left


@wp.func
def slewed(u: vec4, first: int, slew: real, reach: real):
    """Setpoints of which the first stays within reach of where it was."""
    u[first] = wp.clamp(u[first], slew - reach, slew + reach)
    return u


@wp.func
def hot_resistance(gain: vec9, dynamics: vec9, T: real):
    """Rt, and its slope by R, or 0 where it is held."""
    share = real(1.0)
    if dynamics[2] > real(0.0):
        share += gain[2] * (T + dynamics[4] - gain[3])
    resistance = gain[0] * share
    return wp.max(SMALLEST, resistance), wp.where(resistance > SMALLEST, share, real(0.0))


@wp.func
def asked_torque(gain: vec9, u: vec4, x: real, length: real, velocity: real):
    return gain[4] * (u[0] - length) + gain[6] * (u[1] - velocity) + gain[5] * x + u[2]


@wp.func
def asked_voltage(gain: vec9, u: vec4, x: real, length: real, velocity: real):
    """Of a controller, before its limit."""
    return gain[0] / gain[1] * asked_torque(gain, u, x, length, velocity) + gain[1] * velocity


@wp.func
def dc_motor(
    gain: vec9, dynamics: vec9, bias: vec6, u: vec4, act: vec5, first: int, length: real, velocity: real,
    low: real, high: real, h: real,
):  # fmt: skip
    """The force, its slope by velocity, and the rates of all states.

    first:      the setpoint that slews; -1: there is no controller
    low, high:  the range of K · current
    """
    rates = vec5()
    given = u
    if dynamics[7] > real(0.0):
        given = slewed(u, first, act[SLEW], dynamics[7] * h)
        rates[SLEW] = (given[first] - act[SLEW]) / h
    error = given[POSITION] - length
    if gain[5] > real(0.0):
        rates[INTEGRAL] = error * wound_gate(act[INTEGRAL], error, dynamics[8])
    voltage = given[VOLTAGE]
    leans = -gain[1]  # the slope of V - K ω
    if first >= 0:
        asked = asked_voltage(gain, given, act[INTEGRAL], length, velocity)
        voltage += limited(asked, gain[7])
        if within(asked, gain[7]) == real(1.0):
            leans = -gain[0] * gain[6] / gain[1]
    resistance, _share = hot_resistance(gain, dynamics, act[HEAT])
    current = (voltage - gain[1] * velocity) / resistance
    slope = gain[1] / resistance * leans
    flows = current
    if dynamics[0] > real(0.0):
        wanted = (current - act[CURRENT]) / dynamics[0]
        rates[CURRENT] = limited(wanted, dynamics[1])
        share, _by_te = current_share(dynamics[0], h)
        current = act[CURRENT] + rates[CURRENT] * share
        slope *= within(wanted, dynamics[1]) * share / dynamics[0]
        flows = act[CURRENT]
    if dynamics[2] > real(0.0):
        rates[HEAT] = (resistance * flows * flows - act[HEAT] / dynamics[2]) / dynamics[3]
    electric = gain[1] * current
    force = wp.clamp(electric, low, high) + bias[0] * wp.sin(bias[1] * length + bias[2])
    slope *= inside(electric, low, high)
    if dynamics[5] > real(0.0):
        rates[BRISTLE] = bristle_decay(dynamics, bias, velocity) * act[BRISTLE] + velocity
        force -= dynamics[5] * act[BRISTLE] + dynamics[6] * rates[BRISTLE]
        slope -= dynamics[6]
    return force, slope, rates


@wp.func
def dc_motor_adjoint(
    gain: vec9, dynamics: vec9, bias: vec6, u: vec4, act: vec5, first: int, length: real, velocity: real,
    low: real, high: real, h: real, force_bar: real, slope_bar: real, rates_bar: vec5,
):  # fmt: skip
    """Cotangents of length, velocity, setpoints, states, and the three laws."""
    gain_bar = vec9()
    dynamics_bar = vec9()
    bias_bar = vec6()
    act_bar = vec5()
    two = real(2.0)

    # forward again
    given = u
    if dynamics[7] > real(0.0):
        given = slewed(u, first, act[SLEW], dynamics[7] * h)
    asked = real(0.0)
    free = real(0.0)  # 1 where the controller's voltage is within its limit
    voltage = given[VOLTAGE]
    leans = -gain[1]
    if first >= 0:
        asked = asked_voltage(gain, given, act[INTEGRAL], length, velocity)
        voltage += limited(asked, gain[7])
        free = within(asked, gain[7])
        if free == real(1.0):
            leans = -gain[0] * gain[6] / gain[1]
    resistance, heated = hot_resistance(gain, dynamics, act[HEAT])
    steady = (voltage - gain[1] * velocity) / resistance
    current = steady
    flows = steady
    wanted = real(0.0)
    rate = real(0.0)
    share = real(0.0)
    share_by_te = real(0.0)
    passes = real(1.0)
    lag = real(1.0)
    if dynamics[0] > real(0.0):
        wanted = (steady - act[CURRENT]) / dynamics[0]
        rate = limited(wanted, dynamics[1])
        passes = within(wanted, dynamics[1])
        share, share_by_te = current_share(dynamics[0], h)
        current = act[CURRENT] + rate * share
        flows = act[CURRENT]
        lag = passes * share / dynamics[0]
    electric = gain[1] * current

    # cogging and bristles
    angle = bias[1] * length + bias[2]
    bias_bar[0] = force_bar * wp.sin(angle)
    angle_bar = force_bar * bias[0] * wp.cos(angle)
    bias_bar[1] = angle_bar * length
    bias_bar[2] = angle_bar
    length_bar = angle_bar * bias[1]
    velocity_bar = real(0.0)
    if dynamics[5] > real(0.0):
        z = act[BRISTLE]
        a = bristle_decay(dynamics, bias, velocity)
        z_rate_bar = rates_bar[BRISTLE] - dynamics[6] * force_bar
        by_velocity, by_stiffness, by_bias = bristle_decay_adjoint(dynamics, bias, velocity, z_rate_bar * z)
        act_bar[BRISTLE] = z_rate_bar * a - dynamics[5] * force_bar
        velocity_bar += z_rate_bar + by_velocity
        dynamics_bar[5] = by_stiffness - force_bar * z
        dynamics_bar[6] = -force_bar * (a * z + velocity) - slope_bar
        bias_bar += by_bias

    # the slope: K / Rt · leans · lag
    steep_bar = slope_bar * inside(electric, low, high)
    leans_bar = steep_bar * gain[1] / resistance * lag
    resistance_bar = -steep_bar * gain[1] / (resistance * resistance) * leans * lag
    gain_bar[1] = steep_bar / resistance * leans * lag
    if free == real(1.0):
        gain_bar[0] = -leans_bar * gain[6] / gain[1]
        gain_bar[6] = -leans_bar * gain[0] / gain[1]
        gain_bar[1] -= leans_bar * leans / gain[1]
    else:
        gain_bar[1] -= leans_bar

    # current
    electric_bar = force_bar * in_range(electric, low, high)
    gain_bar[1] += electric_bar * current
    flows_bar = real(0.0)
    if dynamics[2] > real(0.0):
        T = act[HEAT]
        heat_bar = rates_bar[HEAT] / dynamics[3]
        flows_bar = two * heat_bar * resistance * flows
        resistance_bar += heat_bar * flows * flows
        act_bar[HEAT] = -heat_bar / dynamics[2]
        dynamics_bar[2] = heat_bar * T / (dynamics[2] * dynamics[2])
        dynamics_bar[3] = -heat_bar * (resistance * flows * flows - T / dynamics[2]) / dynamics[3]
    steady_bar = electric_bar * gain[1]
    if dynamics[0] > real(0.0):
        after_bar = steady_bar
        rate_bar = rates_bar[CURRENT] + after_bar * share
        share_bar = after_bar * rate
        lag_bar = steep_bar * gain[1] / resistance * leans * passes
        share_bar += lag_bar / dynamics[0]
        wanted_bar = rate_bar * passes
        if passes == real(0.0):
            dynamics_bar[1] = rate_bar * wp.sign(wanted)
        steady_bar = wanted_bar / dynamics[0]
        act_bar[CURRENT] = after_bar + flows_bar - steady_bar
        dynamics_bar[0] = share_bar * share_by_te - steady_bar * wanted - lag_bar * share / (dynamics[0] * dynamics[0])
    else:
        steady_bar += flows_bar

    # resistance and voltage
    voltage_bar = steady_bar / resistance
    gain_bar[1] -= voltage_bar * velocity
    velocity_bar -= voltage_bar * gain[1]
    resistance_bar -= voltage_bar * steady
    gain_bar[0] += resistance_bar * heated
    if dynamics[2] > real(0.0) and heated != real(0.0):
        share_of_heat_bar = resistance_bar * gain[0]
        gain_bar[2] = share_of_heat_bar * (act[HEAT] + dynamics[4] - gain[3])
        gain_bar[3] = -share_of_heat_bar * gain[2]
        dynamics_bar[4] = share_of_heat_bar * gain[2]
        act_bar[HEAT] = act_bar[HEAT] + share_of_heat_bar * gain[2]
    given_bar = vec4()
    given_bar[VOLTAGE] = voltage_bar
    if first >= 0:
        if free == real(0.0):
            gain_bar[7] = voltage_bar * wp.sign(asked)
        asked_bar = voltage_bar * free
        torque = asked_torque(gain, given, act[INTEGRAL], length, velocity)
        torque_bar = asked_bar * gain[0] / gain[1]
        gain_bar[0] += asked_bar * torque / gain[1]
        gain_bar[1] += asked_bar * (velocity - gain[0] * torque / (gain[1] * gain[1]))
        velocity_bar += asked_bar * gain[1] - gain[6] * torque_bar
        gain_bar[4] = torque_bar * (given[POSITION] - length)
        gain_bar[5] = torque_bar * act[INTEGRAL]
        gain_bar[6] += torque_bar * (given[VELOCITY] - velocity)
        given_bar[POSITION] = gain[4] * torque_bar
        given_bar[VELOCITY] = gain[6] * torque_bar
        given_bar[TORQUE] = torque_bar
        length_bar -= gain[4] * torque_bar
        act_bar[INTEGRAL] = gain[5] * torque_bar

    # setpoints
    if gain[5] > real(0.0):
        error = given[POSITION] - length
        error_bar = rates_bar[INTEGRAL] * wound_gate(act[INTEGRAL], error, dynamics[8])
        given_bar[POSITION] = given_bar[POSITION] + error_bar
        length_bar -= error_bar
    if dynamics[7] > real(0.0):
        bar = given_bar[first] + rates_bar[SLEW] / h
        reach = dynamics[7] * h
        gap = u[first] - act[SLEW]
        held = real(1.0) - in_range(gap, -reach, reach)
        given_bar[first] = bar * (real(1.0) - held)
        act_bar[SLEW] = bar * held - rates_bar[SLEW] / h
        dynamics_bar[7] = bar * held * wp.sign(gap) * h
    return length_bar, velocity_bar, given_bar, act_bar, gain_bar, dynamics_bar, bias_bar
