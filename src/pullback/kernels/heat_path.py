"""Along the toolpath: where the beam is in every step and how much of the part is there, and the way back."""

import warp as wp

from .heat import ABSORPTIVITY, OFFSET, Beam
from .scalar import PI, real, vec3

# Beyond this many radii the beam is less than rounding beside its centre: exp(-3·9) = 2e-12, exp(-3·3.6²) = 1e-17. [1]
REACH = wp.constant(real(3.0 if real is wp.float32 else 3.6))

POWER = wp.constant(0)
SPEED = wp.constant(1)
RADIUS = wp.constant(2)


@wp.struct
class Path:
    times: wp.array(dtype=real)  # (k,) [s]
    points: wp.array(dtype=vec3)  # (k,) [m]
    velocity: wp.array(dtype=vec3)  # (k,) [m/s] of the piece that begins there, the last of none
    on: wp.array(dtype=real)  # (k,), the last zero
    births: wp.array(dtype=real)  # (elements,) [s], rising


@wp.func
def count_until(sorted: wp.array(dtype=real), x: real):
    """How many entries are not above x."""
    low = int(0)
    high = sorted.shape[0]
    while low < high:
        middle = (low + high) / 2
        if sorted[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low


@wp.kernel(enable_backward=False)
def trace(
    path: Path,
    scalars: wp.array2d(dtype=real),
    controls: wp.array3d(dtype=real),
    first: int,
    dt: real,
    s: wp.array2d(dtype=real),
    beams: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
):
    """Row t of the results is step first + t of the controls. s[0] is given; the other rows of s are made.

    The beam of a step is that of its middle.
    """
    world = wp.tid()
    progress = s[0, world]
    for t in range(beams.shape[0]):
        live[t, world] = count_until(path.births, progress)
        power = controls[first + t, world, POWER]
        radius = controls[first + t, world, RADIUS]
        forward = dt * controls[first + t, world, SPEED]
        middle = progress + real(0.5) * forward
        k = wp.max(count_until(path.times, middle) - 1, 0)
        place = path.points[k] + wp.max(middle - path.times[k], real(0.0)) * path.velocity[k]
        share = wp.where(middle >= path.times[0], path.on[k], real(0.0))
        sharpness = real(3.0) / (radius * radius)
        strength = scalars[world, ABSORPTIVITY] * share * power * sharpness / PI
        beams[t, world] = Beam(
            strength,
            place[0] + scalars[world, OFFSET],
            place[1] + scalars[world, OFFSET + 1],
            place[2] + scalars[world, OFFSET + 2],
            sharpness,
            wp.where(share > real(0.0), REACH * radius, real(0.0)),
        )
        progress += forward
        s[t + 1, world] = progress
    live[beams.shape[0], world] = count_until(path.births, progress)


@wp.kernel(enable_backward=False)
def trace_adjoint(
    path: Path,
    scalars: wp.array2d(dtype=real),
    controls: wp.array3d(dtype=real),
    first: int,
    dt: real,
    s: wp.array3d(dtype=real),
    beams_bar: wp.array3d(dtype=Beam),
    s_bar: wp.array3d(dtype=real),
    every_row: int,
    carry: wp.array2d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    scalars_bar: wp.array2d(dtype=wp.float64),
):
    """``carry`` is the cotangent of s after the steps, and then before them. beams_bar: [lane, step, world], summed.

    scalars_bar: [world, which]. With every_row, the states' own cotangents s_bar join on the way.
    """
    world = wp.tid()
    bar = carry[world, 0]
    steps = beams_bar.shape[1]
    for back in range(steps):
        t = steps - 1 - back
        by_beam = Beam()
        for lane in range(beams_bar.shape[0]):
            by_beam += beams_bar[lane, t, world]
        power = controls[first + t, world, POWER]
        radius = controls[first + t, world, RADIUS]
        middle = s[t, world, 0] + real(0.5) * dt * controls[first + t, world, SPEED]
        k = wp.max(count_until(path.times, middle) - 1, 0)
        share = wp.where(middle >= path.times[0], path.on[k], real(0.0))
        sharpness = real(3.0) / (radius * radius)
        absorbed = scalars[world, ABSORPTIVITY]
        unit = share * sharpness / PI
        centre_bar = vec3(by_beam[1], by_beam[2], by_beam[3])
        middle_bar = wp.where(middle >= path.times[k], wp.dot(centre_bar, path.velocity[k]), real(0.0))
        sharpness_bar = by_beam[4] + by_beam[0] * absorbed * share * power / PI
        controls_bar[first + t, world, POWER] = by_beam[0] * absorbed * unit
        controls_bar[first + t, world, SPEED] = dt * (bar + real(0.5) * middle_bar)
        controls_bar[first + t, world, RADIUS] = -real(2.0) * sharpness / radius * sharpness_bar
        scalars_bar[world, ABSORPTIVITY] += wp.float64(by_beam[0] * unit * power)
        for axis in range(3):
            scalars_bar[world, OFFSET + axis] += wp.float64(centre_bar[axis])
        bar += middle_bar
        if every_row == 1:
            bar += s_bar[t, world, 0]
    carry[world, 0] = bar
