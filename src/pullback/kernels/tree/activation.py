"""Activations: the states of actuators that have one, each with its adjoint. One number at a time.

In a step an activation ``a`` goes to ``a + share · pull``, clipped to its range. The pull depends on the activation and
on the clamped control ``u``, the share on the time for which it acts:

                  pull                     share
    integrator    u                        h
    filter        u - a                    h / time constant
    filterexact   u - a                    1 - exp(-h / time constant)
    muscle        rate, see muscle_rate    h

A stage of Runge-Kutta is reached by shares of its own, those of a filter for filterexact too, and without the range, as
in MuJoCo. States of motors follow rates that ``contact/motors.py`` finds with their forces: by h, but for an integral
that has limits of its own, a bristle and a current, see ``motor.py``.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from .forces import in_range

# What an actuator does with its control. One without activation is driven by the control itself.
NO_ACTIVATION = wp.constant(0)
INTEGRATOR = wp.constant(1)
FILTER = wp.constant(2)
FILTER_EXACT = wp.constant(3)
MUSCLE = wp.constant(4)
AT_REST = wp.constant(5)  # switched off: nothing moves the activation
# States of motors, from here on.
MOTOR_STATE = wp.constant(6)
MOTOR_INTEGRAL = wp.constant(7)
MOTOR_BRISTLE = wp.constant(8)
MOTOR_CURRENT = wp.constant(9)
# A control of some steps ago, each of which follows the one that came after it.
SAMPLE = wp.constant(10)

# Times and widths below this count as this, or as none [s, 1]: MuJoCo's mjMINVAL.
SMALLEST = wp.constant(real(1e-15))


@wp.func
def smooth_ramp(x: real):
    """From 0 at 0 to 1 at 1 with two continuous derivatives, and its slope."""
    y = wp.clamp(x, real(0.0), real(1.0))
    value = y * y * y * (real(6.0) * y * y - real(15.0) * y + real(10.0))
    return value, real(30.0) * y * y * (y - real(1.0)) * (y - real(1.0))


@wp.func
def muscle_times(law: vec3, act: real, gap: real):
    """Time constant of a muscle, its share of activation against deactivation, the slope of that share by the gap, and
    the factor by which activation slows its own rise."""
    factor = real(0.5) + real(1.5) * wp.clamp(act, real(0.0), real(1.0))
    share = wp.where(gap > real(0.0), real(1.0), real(0.0))
    slope = real(0.0)
    if law[2] >= SMALLEST:
        share, slope = smooth_ramp(gap / law[2] + real(0.5))
        slope /= law[2]
    fall = law[1] / factor
    return wp.max(fall + (law[0] * factor - fall) * share, SMALLEST), share, slope, factor


@wp.func
def muscle_rate(law: vec3, act: real, control: real):
    """How fast the activation of a muscle follows a control between 0 and 1 (Millard et al. 2013).

    law: time constants of activation and of deactivation [s], and the width of the gap between control and activation
         over which one turns into the other, 0 for a sudden change
    """
    gap = wp.clamp(control, real(0.0), real(1.0)) - act
    time, _share, _slope, _factor = muscle_times(law, act, gap)
    return gap / time


@wp.func
def muscle_rate_adjoint(law: vec3, act: real, control: real, rate_bar: real):
    """Cotangents of activation, control and law."""
    gap = wp.clamp(control, real(0.0), real(1.0)) - act
    time, share, slope, factor = muscle_times(law, act, gap)
    rise = law[0] * factor
    fall = law[1] / factor
    time_bar = -rate_bar * gap / (time * time)
    if time <= SMALLEST:
        time_bar = real(0.0)
    share_bar = time_bar * (rise - fall)
    gap_bar = rate_bar / time + share_bar * slope
    factor_bar = time_bar * (share * law[0] - (real(1.0) - share) * fall / factor)
    act_bar = real(1.5) * factor_bar * in_range(act, real(0.0), real(1.0)) - gap_bar
    width_bar = real(0.0)
    if law[2] >= SMALLEST:
        width_bar = -share_bar * slope * gap / law[2]
    law_bar = vec3(time_bar * share * factor, time_bar * (real(1.0) - share) / factor, width_bar)
    return act_bar, gap_bar * in_range(control, real(0.0), real(1.0)), law_bar


@wp.func
def activation_pull(kind: int, law: vec3, act: real, control: real):
    pull = real(0.0)
    if kind == INTEGRATOR:
        pull = control
    elif kind == FILTER or kind == FILTER_EXACT:
        pull = control - act
    elif kind == MUSCLE:
        pull = muscle_rate(law, act, control)
    return pull


@wp.func
def activation_pull_adjoint(kind: int, law: vec3, act: real, control: real, pull_bar: real):
    """Cotangents of activation, control and law."""
    act_bar = real(0.0)
    control_bar = real(0.0)
    law_bar = vec3()
    if kind == INTEGRATOR:
        control_bar = pull_bar
    elif kind == FILTER or kind == FILTER_EXACT:
        control_bar = pull_bar
        act_bar = -pull_bar
    elif kind == MUSCLE:
        act_bar, control_bar, law_bar = muscle_rate_adjoint(law, act, control, pull_bar)
    return act_bar, control_bar, law_bar


@wp.func
def activation_share(kind: int, law: vec3, h: real):
    """How much of its pull an activation follows in the time h, and the slope of that by its time constant."""
    share = wp.where(kind == SAMPLE, real(1.0), h)
    slope = real(0.0)
    if kind == FILTER or kind == FILTER_EXACT:
        time = wp.max(law[0], SMALLEST)
        share = h / time
        slope = -share / time
        if kind == FILTER_EXACT:
            left = wp.exp(-share)
            slope *= left
            share = real(1.0) - left
        slope *= in_range(law[0], SMALLEST, real(wp.inf))
    return share, slope


@wp.func
def stage_share(kind: int, law: vec3, h: real):
    """The same on the way to a stage of Runge-Kutta."""
    exact = kind == FILTER_EXACT
    share, slope = activation_share(wp.where(exact, FILTER, kind), law, h)
    return wp.where(kind == SAMPLE, real(0.0), share), slope
