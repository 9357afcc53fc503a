"""Along the toolpath: the beam and the number of active elements in every step, and the adjoint."""

import warp as wp

from ..spatial.scalar import PI, real, vec3
from .elements import ABSORPTIVITY, OFFSET, Beam

# Beyond this many radii the beam is less than rounding beside its centre: exp(-3·9) = 2e-12, exp(-3·3.6²) = 1e-17. [1]
REACH = wp.constant(real(3.0 if real is wp.float32 else 3.6))

POWER = wp.constant(0)
SPEED = wp.constant(1)
RADIUS = wp.constant(2)


@wp.struct
class Path:
    """Times are in double precision always: a clock that adds up thousands of steps needs the digits."""

    times: wp.array(dtype=wp.float64)  # (k,) [s]
    points: wp.array(dtype=vec3)  # (k,) [m]
    velocity: wp.array(dtype=vec3)  # (k,) [m/s] of the piece that begins there, the last of none
    on: wp.array(dtype=real)  # (k,), the last zero
    births: wp.array(dtype=wp.float64)  # (elements,) [s], rising


@wp.func
def clock(s: wp.array3d(dtype=real), t: int, world: int):
    """The time on the path [s]: a number, and a second one for what the first has no digits for."""
    return wp.float64(s[t, world, 0]) + wp.float64(s[t, world, 1])


@wp.func
def count_until(sorted: wp.array(dtype=wp.float64), x: wp.float64):
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


@wp.func
def piece_at(path: Path, time: wp.float64):
    """The piece of the path that the laser is on, the seconds since it began, and the share of power there."""
    k = wp.max(count_until(path.times, time) - 1, 0)
    since = wp.max(time - path.times[k], wp.float64(0.0))
    return k, real(since), wp.where(time >= path.times[0], path.on[k], real(0.0))


@wp.kernel(enable_backward=False)
def trace(
    path: Path,
    scalars: wp.array2d(dtype=real),
    controls: wp.array3d(dtype=real),
    first: int,
    dt: wp.float64,
    s: wp.array3d(dtype=real),
    beams: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
):
    """Row t of the results is step first + t of the controls. s[0] is given; the other rows of s are made.

    The beam of a step is that of its middle.
    """
    world = wp.tid()
    for t in range(beams.shape[0]):
        now = clock(s, t, world)  # read as it was kept, so that a run that begins here goes on in the same way
        live[t, world] = count_until(path.births, now)
        power = controls[first + t, world, POWER]
        radius = controls[first + t, world, RADIUS]
        forward = dt * wp.float64(controls[first + t, world, SPEED])
        k, since, share = piece_at(path, now + wp.float64(0.5) * forward)
        place = path.points[k] + since * path.velocity[k]
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
        after = now + forward
        s[t + 1, world, 0] = real(after)
        s[t + 1, world, 1] = real(after - wp.float64(real(after)))
    live[beams.shape[0], world] = count_until(path.births, clock(s, beams.shape[0], world))


@wp.kernel(enable_backward=False)
def trace_adjoint(
    path: Path,
    scalars: wp.array2d(dtype=real),
    controls: wp.array3d(dtype=real),
    first: int,
    dt: wp.float64,
    s: wp.array3d(dtype=real),
    beams_bar: wp.array3d(dtype=Beam),
    s_bar: wp.array3d(dtype=real),
    every_row: int,
    carry: wp.array2d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    scalars_bar: wp.array2d(dtype=wp.float64),
):
    """``carry`` is the cotangent of s after the steps, and then before them. beams_bar: [lane, step, world], summed.

    scalars_bar: [world, which]. With every_row, the states' own cotangents s_bar are added. A step depends on the
    sum of the two numbers of s; the second of those that it makes is rounding, which nothing moves.
    """
    world = wp.tid()
    bar = wp.float64(carry[world, 0])
    steps = beams_bar.shape[1]
    for back in range(steps):
        t = steps - 1 - back
        by_beam = Beam()
        for lane in range(beams_bar.shape[0]):
            by_beam += beams_bar[lane, t, world]
        power = controls[first + t, world, POWER]
        radius = controls[first + t, world, RADIUS]
        middle = clock(s, t, world) + wp.float64(0.5) * dt * wp.float64(controls[first + t, world, SPEED])
        k, _since, share = piece_at(path, middle)
        sharpness = real(3.0) / (radius * radius)
        absorbed = scalars[world, ABSORPTIVITY]
        unit = share * sharpness / PI
        centre_bar = vec3(by_beam[1], by_beam[2], by_beam[3])
        middle_bar = wp.float64(0.0)
        if middle >= path.times[k]:
            middle_bar = wp.float64(wp.dot(centre_bar, path.velocity[k]))
        sharpness_bar = by_beam[4] + by_beam[0] * absorbed * share * power / PI
        controls_bar[first + t, world, POWER] = by_beam[0] * absorbed * unit
        controls_bar[first + t, world, SPEED] = real(dt * (bar + wp.float64(0.5) * middle_bar))
        controls_bar[first + t, world, RADIUS] = -real(2.0) * sharpness / radius * sharpness_bar
        scalars_bar[world, ABSORPTIVITY] += wp.float64(by_beam[0] * unit * power)
        for axis in range(3):
            scalars_bar[world, OFFSET + axis] += wp.float64(centre_bar[axis])
        bar += middle_bar
        carry[world, 1] = real(bar)
        if every_row == 1:
            carry[world, 1] = real(bar + wp.float64(s_bar[t, world, 1]))
            bar += wp.float64(s_bar[t, world, 0])
        carry[world, 0] = real(bar)
