"""The shortest way from one point to another around a sphere or a cylinder, as MuJoCo takes it, with two derivatives.

It lies in the plane of both points and the centre of a sphere; around a cylinder, which is endless, in the plane across
its axis, along which it climbs evenly. In this plane the points are at the distances l0 and l1 from the centre, along
the unit vectors e0 and e1, and the way turns by ``winding``. It leaves both points along lines that pass the centre at
the distance h:

    outside   h = radius; both lines touch the circle, with an arc between them
    inside    h = radius · sin ψ; they meet at a point of the circle, with the angle ψ from its radius on either side:
              asin(h / l0) + asin(h / l1) - 2 ψ + winding = 0

The length P of such a way is stationary, so its derivative by a point is the unit vector of the line there, and that by
the winding is h. As points move, a line turns with its point, by e0, and against it, by the angle asin(h / l0) between
them. Around a cylinder the whole is as long as √(P² + Z²), with the height Z between the points.

All is in the frame of the sphere or cylinder, whose axis is z.
"""

import warp as wp

from .algebra import unit
from .scalar import PI, real, vec3

# What MuJoCo takes for nothing.
NOTHING = wp.constant(real(1e-15))
# Newton's method for ψ comes from above without a turn, quadratically.
MOST_STEPS = wp.constant(50)


@wp.struct
class Bend:
    """A way around something: its length and derivatives, and what those depend on."""

    there: int  # 0: the way is a straight line, and nothing else is known here
    length: real
    force0: vec3  # derivatives of the length: by both points ...
    force1: vec3
    by_radius: real  # ... and by the radius
    # in the plane
    flat: real  # length
    flat_by_radius: real
    away0: vec3  # derivatives of this length by both points
    away1: vec3
    e0: vec3
    e1: vec3
    normal: vec3  # about which e0 turns to e1 by less than half a turn
    sense: real  # 1 where the way turns like this, -1 where it takes the other way round
    l0: real
    l1: real
    h: real
    h_slope: real  # change of h, and of the derivative by the radius, for what the winding has too much
    radius_slope: real
    # along the axis
    is_cylinder: int
    height: real


@wp.func
def flattened(x: vec3, is_cylinder: int):
    """The part of a vector across the axis of a cylinder."""
    result = x
    if is_cylinder == 1:
        result[2] = real(0.0)
    return result


@wp.func
def some_normal(e: vec3):
    """Across a unit vector; the one that MuJoCo takes where the centre is on the line of both points."""
    other = vec3(real(1.0), real(1.0), real(1.0))
    most = int(0)
    if wp.abs(e[1]) > wp.abs(e[0]):
        if wp.abs(e[1]) > wp.abs(e[2]):
            most = 1
    if wp.abs(e[2]) > wp.abs(e[0]):
        if wp.abs(e[2]) > wp.abs(e[1]):
            most = 2
    other[most] = real(0.0)
    return unit(wp.cross(e, other))


@wp.func
def angle_about(normal: vec3, a: vec3, b: vec3):
    """From a to b in the plane of the normal, in which one of both is."""
    return wp.atan2(wp.dot(normal, wp.cross(a, b)), wp.dot(a, b))


@wp.func
def catheter(long: real, short: real):
    """The other side of a right triangle."""
    return wp.sqrt(wp.max((long - short) * (long + short), real(0.0)))


@wp.func
def inverse_or_zero(x: real):
    result = real(0.0)
    if x >= NOTHING:
        result = real(1.0) / x
    return result


@wp.func
def meets_disc(d0: vec3, d1: vec3, radius: real):
    """Whether the straight line between two points outside of a circle passes through it."""
    apart = d1 - d0
    squared = wp.dot(apart, apart)
    meets = bool(False)
    if squared > NOTHING:
        share = -wp.dot(apart, d0) / squared
        if share > real(0.0):
            if share < real(1.0):
                nearest = d0 + share * apart
                meets = wp.dot(nearest, nearest) <= radius * radius
    return meets


@wp.func
def angle_of_incidence(a: real, b: real, winding: real):
    """ψ of asin(a sin ψ) + asin(b sin ψ) - 2 ψ + winding = 0, for a, b < 1.

    The left side is concave and falls, and is negative at a quarter turn.
    """
    psi = real(0.5) * PI
    going = bool(True)
    steps = int(0)
    while going:
        sine = wp.sin(psi)
        cosine = wp.cos(psi)
        value = wp.asin(a * sine) + wp.asin(b * sine) - real(2.0) * psi + winding
        slope = a * cosine / catheter(real(1.0), a * sine) + b * cosine / catheter(real(1.0), b * sine) - real(2.0)
        next_psi = psi - value / slope
        steps += 1
        going = next_psi < psi and next_psi > real(0.0) and steps < MOST_STEPS
        if going:
            psi = next_psi
    return psi


@wp.func
def find_bend(p0: vec3, p1: vec3, radius: real, is_cylinder: int, has_side: int, side: vec3):
    """The way from p0 to p1.

    side: a point that says on which side the way passes, or, if it is nearer to the centre than the radius, that it
    passes inside
    """
    b = Bend()
    b.there = 0
    d0 = flattened(p0, is_cylinder)
    d1 = flattened(p1, is_cylinder)
    l0 = wp.length(d0)
    l1 = wp.length(d1)
    if radius >= NOTHING and l0 >= radius and l1 >= radius:
        b.is_cylinder = is_cylinder
        b.l0 = l0
        b.l1 = l1
        b.e0 = d0 / l0
        b.e1 = d1 / l1
        across = wp.cross(d0, d1)
        if is_cylinder == 1:
            b.normal = vec3(real(0.0), real(0.0), wp.where(across[2] < real(0.0), real(-1.0), real(1.0)))
        elif wp.length(across) < NOTHING:
            b.normal = some_normal(b.e0)
        else:
            b.normal = unit(across)
        winding = wp.atan2(wp.length(across), wp.dot(d0, d1))
        b.sense = real(1.0)
        if has_side == 1 and wp.length(side) < radius:
            if l0 > radius and l1 > radius and not meets_disc(d0, d1, radius):
                b.there = 1
                psi = angle_of_incidence(radius / l0, radius / l1, winding)
                b.h = radius * wp.sin(psi)
                c0 = catheter(l0, b.h)
                c1 = catheter(l1, b.h)
                chord = radius * wp.cos(psi)
                b.flat = c0 + c1 - real(2.0) * chord
                b.flat_by_radius = real(-2.0) * wp.cos(psi)
                turning = real(1.0) / (real(2.0) - chord * (real(1.0) / c0 + real(1.0) / c1))
                b.h_slope = chord * turning
                b.radius_slope = real(2.0) * wp.sin(psi) * turning
        else:
            if has_side == 1:
                beside = side - wp.dot(side, b.normal) * b.normal
                if wp.length(beside) < NOTHING:
                    beside = wp.where(is_cylinder == 1, vec3(real(1.0), real(0.0), real(0.0)), b.e0)
                turn = angle_about(b.normal, d0, beside) + angle_about(b.normal, beside, d1)
                b.sense = wp.where(turn < real(0.0), real(-1.0), real(1.0))
                winding = wp.abs(turn)
            c0 = catheter(l0, radius)
            c1 = catheter(l1, radius)
            arc = winding - wp.atan2(c0, radius) - wp.atan2(c1, radius)
            if arc > real(0.0):
                b.there = 1
                b.h = radius
                b.flat = c0 + c1 + radius * arc
                b.flat_by_radius = arc
                b.h_slope = real(0.0)
                b.radius_slope = real(1.0)
    if b.there == 1:
        b.away0 = (catheter(l0, b.h) * b.e0 - b.sense * b.h * wp.cross(b.normal, b.e0)) / l0
        b.away1 = (catheter(l1, b.h) * b.e1 + b.sense * b.h * wp.cross(b.normal, b.e1)) / l1
        b.length = b.flat
        b.force0 = b.away0
        b.force1 = b.away1
        b.by_radius = b.flat_by_radius
        if is_cylinder == 1:
            b.height = p1[2] - p0[2]
            b.length = wp.sqrt(b.flat * b.flat + b.height * b.height)
            share = b.flat / b.length
            climb = vec3(real(0.0), real(0.0), b.height / b.length)
            b.force0 = share * b.away0 - climb
            b.force1 = share * b.away1 + climb
            b.by_radius = share * b.flat_by_radius
    return b


@wp.func
def bend_rate(b: Bend, v0: vec3, v1: vec3):
    """How fast both forces and the derivative by the radius change while the points move with the velocities v."""
    u0 = flattened(v0, b.is_cylinder)
    u1 = flattened(v1, b.is_cylinder)
    t0 = wp.cross(b.normal, b.e0)
    t1 = wp.cross(b.normal, b.e1)
    spin0 = wp.dot(t0, u0) / b.l0  # of e0 and e1, in the plane
    spin1 = wp.dot(t1, u1) / b.l1
    out0 = wp.dot(b.e0, u0)  # of l0 and l1
    out1 = wp.dot(b.e1, u1)
    inverse0 = inverse_or_zero(catheter(b.l0, b.h))
    inverse1 = inverse_or_zero(catheter(b.l1, b.h))
    excess = b.sense * (spin1 - spin0) - b.h * (out0 / b.l0 * inverse0 + out1 / b.l1 * inverse1)
    h_rate = b.h_slope * excess
    lean0 = (h_rate - b.h / b.l0 * out0) * inverse0  # of the angle between line and point
    lean1 = (h_rate - b.h / b.l1 * out1) * inverse1
    rate0 = (spin0 - b.sense * lean0) * wp.cross(b.normal, b.away0)
    rate1 = (spin1 + b.sense * lean1) * wp.cross(b.normal, b.away1)
    by_radius = b.radius_slope * excess
    if b.is_cylinder == 1:
        flat = wp.dot(b.away0, v0) + wp.dot(b.away1, v1)
        height = v1[2] - v0[2]
        length = (b.flat * flat + b.height * height) / b.length
        share = b.flat / b.length
        share_rate = (flat - share * length) / b.length
        climb = vec3(real(0.0), real(0.0), (height - b.height / b.length * length) / b.length)
        rate0 = share_rate * b.away0 + share * rate0 - climb
        rate1 = share_rate * b.away1 + share * rate1 + climb
        by_radius = share_rate * b.flat_by_radius + share * by_radius
    else:
        # The plane turns about e0 as the other point leaves it, and the other way round.
        sine = wp.dot(t0, b.e1)
        cosine = wp.dot(b.e0, b.e1)
        lift0 = wp.dot(b.normal, u0) / b.l0
        lift1 = wp.dot(b.normal, u1) / b.l1
        inverse = inverse_or_zero(sine)
        tilt0 = (cosine * lift0 - lift1) * inverse
        tilt1 = (lift0 - cosine * lift1) * inverse
        rate0 += (wp.dot(b.e0, b.away0) * lift0 + b.sense * b.h / b.l0 * tilt0) * b.normal
        rate1 += (wp.dot(b.e1, b.away1) * lift1 - b.sense * b.h / b.l1 * tilt1) * b.normal
    return rate0, rate1, by_radius


@wp.kernel(enable_backward=False)
def find_bends(
    p0: wp.array2d(dtype=vec3), p1: wp.array2d(dtype=vec3), radius: wp.array2d(dtype=real),
    is_cylinder: wp.array(dtype=int), has_side: wp.array(dtype=int), side: wp.array2d(dtype=vec3),
    v0: wp.array2d(dtype=vec3), v1: wp.array2d(dtype=vec3),
    there: wp.array2d(dtype=int),
    force0: wp.array2d(dtype=vec3), force1: wp.array2d(dtype=vec3),
    rate0: wp.array2d(dtype=vec3), rate1: wp.array2d(dtype=vec3), length: wp.array2d(dtype=real),
    by_radius: wp.array2d(dtype=real), by_radius_rate: wp.array2d(dtype=real),
):  # fmt: skip
    """Many of them [row, way]: lengths, derivatives, and how fast these change with the velocities v."""
    row, way = wp.tid()
    b = find_bend(p0[row, way], p1[row, way], radius[row, way], is_cylinder[way], has_side[way], side[row, way])
    there[row, way] = b.there
    if b.there == 1:
        force0[row, way] = b.force0
        force1[row, way] = b.force1
        length[row, way] = b.length
        by_radius[row, way] = b.by_radius
        a0, a1, faster = bend_rate(b, v0[row, way], v1[row, way])
        rate0[row, way] = a0
        rate1[row, way] = a1
        by_radius_rate[row, way] = faster
