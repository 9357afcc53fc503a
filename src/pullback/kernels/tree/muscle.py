"""Muscles: how much an activation pulls, and what resists being stretched, by length and velocity, with the adjoint.

The curves are MuJoCo's. They know length and velocity of a muscle by how it is stretched between the ends of its range,

    x = (length - shortest) / (longest - shortest)
    L = lo + x (hi - lo)                    V = velocity (hi - lo) / (longest - shortest) / vmax

so that the muscle pulls most at L = 1, and not at all where it shortens with V = -1. Then

    gain = -peak · FL(L) · FV(V)            bias = -peak · fpmax · FP(L)

    number  law                                        number  law
    0, 1    lo, hi: L at both ends of the range        4, 5    lmin, lmax: L between which it pulls
    2       the peak force; if negative ...            6       vmax [1/s]
    3       ... the peak is this over acc0             7       fpmax
                                                       8       fvmax: FV where it is lengthened fast

All curves have a continuous derivative, made of parabolas.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec9
from .activation import SMALLEST


@wp.func
def peak_force(law: vec9, limits: vec3):
    """limits: the shortest and longest length, and acc0, the acceleration that a unit force is worth."""
    return wp.where(law[2] < real(0.0), law[3] / wp.max(limits[2], SMALLEST), law[2])


@wp.func
def add_peak_bar(law: vec9, limits: vec3, law_bar: vec9, peak_bar: real):
    """law_bar with the cotangent of what the peak is made of."""
    if law[2] < real(0.0):
        law_bar[3] += peak_bar / wp.max(limits[2], SMALLEST)
    else:
        law_bar[2] += peak_bar
    return law_bar


@wp.func
def stretch_of_muscle(law: vec9, limits: vec3, length: real):
    """x and L"""
    x = (length - limits[0]) / (limits[1] - limits[0])
    return x, law[0] + x * (law[1] - law[0])


@wp.func
def hat(t: real):
    """From 0 at 0 to 1 at 2, by two parabolas; and its slope."""
    rest = real(2.0) - t
    value = wp.where(t <= real(1.0), real(0.5) * t * t, real(1.0) - real(0.5) * rest * rest)
    return value, wp.where(t <= real(1.0), t, rest)


@wp.func
def pull_by_length(law: vec9, L: real):
    """FL, and its slopes by L, lmin and lmax."""
    value = real(0.0)
    slope = real(0.0)
    by_low = real(0.0)
    by_high = real(0.0)
    half = real(0.5)
    if L >= law[4] and L <= real(1.0):
        width = half * (real(1.0) - law[4])
        t = (L - law[4]) / width
        value, by_t = hat(t)
        slope = by_t / width
        by_low = (half * t - real(1.0)) * slope
    elif L > real(1.0) and L <= law[5]:
        width = half * (law[5] - real(1.0))
        t = (law[5] - L) / width
        value, by_t = hat(t)
        slope = -by_t / width
        by_high = (half * t - real(1.0)) * slope
    return value, slope, by_low, by_high


@wp.func
def pull_by_speed(law: vec9, V: real):
    """FV with its first and second derivative, and the derivatives of FV and of the first by fvmax."""
    y = law[8] - real(1.0)
    value = real(0.0)
    slope = real(0.0)
    bend = real(0.0)
    by_most = real(0.0)
    slope_by_most = real(0.0)
    if V > real(-1.0) and V <= real(0.0):
        value = (V + real(1.0)) * (V + real(1.0))
        slope = real(2.0) * (V + real(1.0))
        bend = real(2.0)
    elif V > real(0.0) and V <= y:
        share = V / y
        value = law[8] - y * (real(1.0) - share) * (real(1.0) - share)
        slope = real(2.0) * (real(1.0) - share)
        bend = -real(2.0) / y
        by_most = share * share
        slope_by_most = real(2.0) * share / y
    elif V > y:
        value = law[8]
        by_most = real(1.0)
    return value, slope, bend, by_most, slope_by_most


@wp.func
def resistance(law: vec9, L: real):
    """FP, and its slopes by L and lmax."""
    width = real(0.5) * (law[5] - real(1.0))
    t = (L - real(1.0)) / width
    value = real(0.0)
    by_t = real(0.0)
    if t > real(1.0):
        value = t - real(0.5)
        by_t = real(1.0)
    elif t > real(0.0):
        value = real(0.5) * t * t
        by_t = t
    return value, by_t / width, -real(0.5) * by_t * t / width


@wp.func
def speed_scale(law: vec9, limits: vec3):
    """V of a velocity of 1."""
    return (law[1] - law[0]) / ((limits[1] - limits[0]) * law[6])


@wp.func
def muscle_gain(law: vec9, limits: vec3, length: real, velocity: real):
    """The gain, and its slope by velocity."""
    _x, L = stretch_of_muscle(law, limits, length)
    scale = speed_scale(law, limits)
    by_length, _slope, _by_low, _by_high = pull_by_length(law, L)
    by_speed, slope, _bend, _by_most, _slope_by_most = pull_by_speed(law, scale * velocity)
    pull = -peak_force(law, limits) * by_length
    return pull * by_speed, pull * slope * scale


@wp.func
def muscle_gain_adjoint(law: vec9, limits: vec3, length: real, velocity: real, gain_bar: real, slope_bar: real):
    """Cotangents of length, velocity and law."""
    x, L = stretch_of_muscle(law, limits, length)
    scale = speed_scale(law, limits)
    peak = peak_force(law, limits)
    FL, slope_l, by_low, by_high = pull_by_length(law, L)
    FV, slope_V, bend, by_most, slope_by_most = pull_by_speed(law, scale * velocity)
    pull = -peak * FL
    pull_bar = gain_bar * FV + slope_bar * slope_V * scale
    FL_bar = -peak * pull_bar
    V_bar = pull * (gain_bar * slope_V + slope_bar * scale * bend)
    scale_bar = pull * slope_bar * slope_V + V_bar * velocity
    l_bar = FL_bar * slope_l
    across = scale_bar * scale / (law[1] - law[0])  # of hi - lo, by way of V
    law_bar = vec9()
    law_bar[0] = l_bar * (real(1.0) - x) - across
    law_bar[1] = l_bar * x + across
    law_bar[4] = FL_bar * by_low
    law_bar[5] = FL_bar * by_high
    law_bar[6] = -scale_bar * scale / law[6]
    law_bar[8] = pull * (gain_bar * by_most + slope_bar * scale * slope_by_most)
    law_bar = add_peak_bar(law, limits, law_bar, -FL * pull_bar)
    length_bar = l_bar * (law[1] - law[0]) / (limits[1] - limits[0])
    return length_bar, V_bar * scale, law_bar


@wp.func
def muscle_bias(law: vec9, limits: vec3, length: real):
    _x, L = stretch_of_muscle(law, limits, length)
    FP, _slope, _by_high = resistance(law, L)
    return -peak_force(law, limits) * law[7] * FP


@wp.func
def muscle_bias_adjoint(law: vec9, limits: vec3, length: real, bias_bar: real):
    """Cotangents of length and law."""
    x, L = stretch_of_muscle(law, limits, length)
    FP, slope_l, by_high = resistance(law, L)
    peak = peak_force(law, limits)
    FP_bar = -peak * law[7] * bias_bar
    l_bar = FP_bar * slope_l
    law_bar = vec9()
    law_bar[0] = l_bar * (real(1.0) - x)
    law_bar[1] = l_bar * x
    law_bar[5] = FP_bar * by_high
    law_bar[7] = -peak * FP * bias_bar
    law_bar = add_peak_bar(law, limits, law_bar, -law[7] * FP * bias_bar)
    return l_bar * (law[1] - law[0]) / (limits[1] - limits[0]), law_bar
