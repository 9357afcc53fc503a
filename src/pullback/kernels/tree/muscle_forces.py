"""Forces of muscles as functions of length, velocity and drive, with their adjoint: what their sensors read."""

import warp as wp

from ..spatial.scalar import real, vec3, vec9
from .muscle import muscle_bias, muscle_bias_adjoint, muscle_gain, muscle_gain_adjoint


@wp.kernel(enable_backward=False)
def muscle_forces(
    gain: wp.array(dtype=vec9),
    bias: wp.array(dtype=vec9),
    limits: vec3,
    pulls: int,
    resists: int,
    felt: wp.array(dtype=vec3),
    force: wp.array(dtype=real),
):
    """felt: length, velocity and drive; pulls, resists: 1 if gain, or bias, is that of a muscle."""
    i = wp.tid()
    total = real(0.0)
    if pulls == 1:
        pull, _slope = muscle_gain(gain[i], limits, felt[i][0], felt[i][1])
        total += pull * felt[i][2]
    if resists == 1:
        total += muscle_bias(bias[i], limits, felt[i][0])
    force[i] = total


@wp.kernel(enable_backward=False)
def muscle_forces_adjoint(
    gain: wp.array(dtype=vec9),
    bias: wp.array(dtype=vec9),
    limits: vec3,
    pulls: int,
    resists: int,
    felt: wp.array(dtype=vec3),
    force_bar: wp.array(dtype=real),
    felt_bar: wp.array(dtype=vec3),
    gain_bar: wp.array(dtype=vec9),
    bias_bar: wp.array(dtype=vec9),
):
    i = wp.tid()
    bar = force_bar[i]
    length_bar = real(0.0)
    velocity_bar = real(0.0)
    drive_bar = real(0.0)
    if pulls == 1:
        pull, _slope = muscle_gain(gain[i], limits, felt[i][0], felt[i][1])
        by_length, by_velocity, by_gain = muscle_gain_adjoint(
            gain[i], limits, felt[i][0], felt[i][1], bar * felt[i][2], real(0.0)
        )
        length_bar += by_length
        velocity_bar += by_velocity
        drive_bar += bar * pull
        gain_bar[i] = by_gain
    if resists == 1:
        by_length_too, by_bias = muscle_bias_adjoint(bias[i], limits, felt[i][0], bar)
        length_bar += by_length_too
        bias_bar[i] = by_bias
    felt_bar[i] = vec3(length_bar, velocity_bar, drive_bar)
