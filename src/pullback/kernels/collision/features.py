"""How a contact follows the shapes that touch: the adjoint of its position, distance, normal and tangents.

The pairing of a contact's cotangents with its motion is shared out between the two bodies. Each gets a force F at the
contact's position and a moment n × m (n: the normal), and the two shares add up to what the contact gets in total,

    F₁ + F₂ = P  (cotangent of the position)        m₁ + m₂ = N  (cotangent of the normal),

since the contact moves with the bodies if both move as one. Therefore only one share is ever computed, with the other
body held still. It is that of the *tip*; the other shape is the *base*. A feature is a base before others if it says
more of the normal: PLANE before LINE before all the rest, shape 1 if both say the same.

Along the normal either gets half of P, and plus or minus the cotangent of the distance (envelope theorem: how the
touching points slide does not count). Across it, each smooth surface is to second order known by its curvature: let
K be the 2×2 matrix of radii of curvature of the surface parallel to it that passes through the contact. When the body
stands still and the normal turns by δn, the point of that surface with this normal moves by ±K δn. The two surfaces
have this point and the normal in common, hence

    m₂ = K₂ F₂,   -m₁ = K₁ F₁     or     F₂ = P + (K₁ + K₂)⁻¹ (N - K₂ P).

K is (radius + dist/2) plus the second derivative C of the support function of the core. C is zero for a POINT, infinite
along a LINE, infinite all over a PLANE: it is the inverse in this formula that is written for each base. A CIRCLE is
the ellipsoid that has no height.

Clipped points (CUT, FACE, FOOT, FOOT_CUT, SIDE_END, SIDE_CUT) and those of a rim that are not its lowest (CIRCLE_LEFT,
CIRCLE_RIGHT) have a PLANE as their base, which the normal is fixed to. A PLANE does not say where across it a LINE or
another PLANE touches it: the point then is fixed to the tip. A SIDE_END and a SIDE_CUT are taken as fixed to the tip,
too: see ``side_lines``.
"""

import warp as wp

from ..spatial.algebra import axis_z, lin, pack
from ..spatial.scalar import mat33, real, vec3, vec6
from .shapes import (
    BOX,
    CIRCLE,
    CIRCLE_LEFT,
    CIRCLE_RIGHT,
    CUT,
    ELLIPSOID,
    FACE,
    FOOT,
    FOOT_CUT,
    HALF_SQRT3,
    LINE,
    PLANE,
    SIDE_CUT,
    SMALLEST_LENGTH,
    Feature,
    Shape,
    inflation,
    is_inflated,
)

# A difference this much smaller than what it is a difference of is rounding. About a hundred times the precision.
NEGLIGIBLE = wp.constant(real(1e-5 if real is wp.float32 else 1e-13))


# --- tangents --------------------------------------------------------------------------------------


@wp.func
def frame_start(normal: vec3, along: int, R2: mat33):
    """A vector whose part across the normal is along the first tangent, and 1 if it turns with shape 2, else 0.

    As in MuJoCo: axis y or, if the normal is near it, z; or axis z of shape 2. Should that be along the normal, then
    axis x, which MuJoCo takes as the tangent as it is. Where it is no tangent, it is made one here, or that without
    ``along`` is taken.
    """
    half = real(0.5)
    zero = real(0.0)
    one = real(1.0)
    start = vec3(zero, zero, one)
    if wp.abs(normal[1]) < half:
        start = vec3(zero, one, zero)
    turns = zero
    if along == 1:
        axis = axis_z(R2)
        across = axis - wp.dot(normal, axis) * normal
        if wp.dot(across, across) <= NEGLIGIBLE * NEGLIGIBLE:
            if wp.abs(normal[0]) < half:
                start = vec3(one, zero, zero)
        else:
            start = axis
            turns = one
    return start, turns


@wp.func
def contact_frame(normal: vec3, along: int, R2: mat33):
    """Two tangents, right-handed with the normal; ``along`` and R2 (axes of shape 2) see ``shapes.Contacts``."""
    start, _turns = frame_start(normal, along, R2)
    across = start - wp.dot(normal, start) * normal
    t1 = across / wp.sqrt(wp.dot(across, across))
    return t1, wp.cross(normal, t1)


# --- features --------------------------------------------------------------------------------------


@wp.func
def firmness(kind: int):
    """How much a feature says of the normal."""
    result = int(0)
    if kind == LINE:
        result = 1
    if kind == PLANE:
        result = 2
    return result


@wp.func
def is_curved(kind: int):
    around = kind == CIRCLE or kind == CIRCLE_LEFT or kind == CIRCLE_RIGHT
    return around or kind == ELLIPSOID


@wp.func
def turned_back(f: Feature, x: vec3):
    """x as seen from the CIRCLE's own point: turned about the axis by minus what this feature's point is turned."""
    result = x
    if f.kind == CIRCLE_LEFT or f.kind == CIRCLE_RIGHT:
        sine = wp.where(f.kind == CIRCLE_LEFT, -HALF_SQRT3, HALF_SQRT3)
        result = real(1.5) * wp.dot(f.edge, x) * f.edge - real(0.5) * x + sine * wp.cross(f.edge, x)
    return result


@wp.func
def semi_axes(kind: int, size: vec3):
    """Of the ellipsoid that the core is."""
    axes = size
    if kind != ELLIPSOID:
        axes = vec3(size[0], size[0], real(0.0))
    return axes


@wp.func
def pole(R: mat33, axes: vec3, outward: vec3):
    """Where on the unit sphere, whose image the ellipsoid is, the normal is ``outward``; and 1 / (distance of the
    tangent plane from the centre).

    The normal of a rim may be along its axis, up to rounding. Which point of it is farthest out is chance then; it is
    fixed to the rim, as a POINT is: the inverse, by which it would slide when the normal turns, is put to zero.
    """
    y = wp.cw_mul(axes, wp.transpose(R) * outward)
    height = wp.sqrt(wp.dot(y, y))
    widest = wp.max(axes)
    place = vec3(real(1.0), real(0.0), real(0.0))
    inverse = real(0.0)
    if not (height <= SMALLEST_LENGTH * widest):
        place = y / height
    if not (height <= NEGLIGIBLE * widest):
        inverse = real(1.0) / height
    return place, inverse


@wp.func
def slide(s: Shape, f: Feature, normal: vec3, x: vec3):
    """C x: how far the core's touching point slides when the outward normal turns by x.

    Cᵀ x, where that is not the same (CIRCLE_LEFT, CIRCLE_RIGHT).
    """
    result = vec3()
    if is_curved(f.kind):
        axes = semi_axes(f.kind, s.size)
        y, inverse = pole(s.R, axes, normal)
        z = wp.cw_mul(axes, wp.transpose(s.R) * turned_back(f, x))
        result = s.R * (inverse * wp.cw_mul(axes, z - wp.dot(y, z) * y))
    return result


@wp.func
def size_adjoint(s: Shape, f: Feature, outward: vec3, force: vec3, press: real):
    """Cotangent of a shape's sizes, from the force on its core and that on a surface which grows outwards from it."""
    Rt = wp.transpose(s.R)
    local = Rt * force
    swell = wp.where(is_inflated(s, f.kind), press, real(0.0))
    result = vec3(swell + f.pin[0] * local[0] + f.pin[1] * local[1], f.pin[2] * local[2], real(0.0))
    if s.kind == BOX:
        result = wp.cw_mul(f.pin, local)
    if is_curved(f.kind):
        axes = semi_axes(f.kind, s.size)
        y, inverse = pole(s.R, axes, outward)
        x = Rt * turned_back(f, force)
        z = wp.cw_mul(axes, x)
        stretch = wp.cw_mul(x, y) + inverse * wp.cw_mul(Rt * outward, z - wp.dot(y, z) * y)
        if f.kind == ELLIPSOID:
            result = stretch
        else:
            result[0] = stretch[0] + stretch[1]
    return result


# --- the contact -----------------------------------------------------------------------------------


@wp.func
def quotient(x: real, y: real, scale: real):
    """x / y, or nothing if y is lost in rounding of numbers of this scale."""
    result = real(0.0)
    if not (wp.abs(y) <= NEGLIGIBLE * scale + SMALLEST_LENGTH):
        result = x / y
    return result


@wp.func
def tip_share(
    s1: Shape, f1: Feature, s2: Shape, f2: Feature, normal: vec3, tangent: vec3, dist: real,
    pos_bar: vec3, dist_bar: real, normal_bar: vec3,
):  # fmt: skip
    """Share of shape 2, the tip, in the cotangents of a contact: moment and force about it.

    ``normal_bar`` and ``tangent``, any unit vector, are orthogonal to the normal. Where the contact is not determined,
    something has to be said that is finite and keeps the sum of the shares. If the normal is free in some direction
    (two points in one place, parallel lines, a point in a centre of curvature), it is fixed to the base there; if a
    line does not pierce its plane, the point is fixed to the line.
    """
    half = real(0.5)
    one = real(1.0)
    radius1 = inflation(s1, f1.kind)
    radius2 = inflation(s2, f2.kind)
    span = radius1 + dist + radius2  # from core to core
    scale = radius1 + wp.abs(dist) + radius2
    arm = radius2 + half * dist  # from the contact to the core of the tip

    across = pos_bar - wp.dot(normal, pos_bar) * normal
    force = pos_bar + (dist_bar - half * wp.dot(normal, pos_bar)) * normal
    m = vec3()
    spin = vec3()

    if f1.kind == PLANE:
        # A line of one shape pierces a plane of the other: the plane takes of the force what the line cannot.
        if f2.kind == CUT or f2.kind == SIDE_CUT:
            force -= quotient(wp.dot(f2.edge, force), wp.dot(f2.edge, f1.edge), one) * f1.edge
        if f2.kind == FACE:
            force = quotient(wp.dot(normal, force), wp.dot(normal, f2.edge), one) * f2.edge
        if f2.kind == FOOT or f2.kind == FOOT_CUT:
            # A corner or an edge of the base carries the foot along: that takes its part of the force, where it is.
            carried = force - wp.dot(f2.edge, force) * f2.edge
            if f2.kind == FOOT_CUT:
                slope = wp.dot(f1.edge, f2.edge)
                way = f1.edge - slope * f2.edge
                edge = (way + slope * wp.cross(way, f2.edge)) / (one + slope * slope)
                carried = wp.dot(edge, force) * way
            height = quotient(-dist, wp.dot(f2.edge, normal), one)
            force -= carried
            spin = -height * wp.cross(f2.edge, carried)
    else:
        turn = normal_bar - arm * across - slide(s2, f2, normal, across)  # N - K₂ P
        if f1.kind == LINE:
            side = wp.cross(normal, f1.edge)
            if f2.kind == LINE:
                sine = wp.dot(f2.edge, side)
                held = quotient(wp.dot(f2.edge, across), sine, one)
                m = quotient(wp.dot(side, turn) + held * span, sine, one) * f2.edge
                force -= held * side
            else:
                bend = wp.dot(side, slide(s2, f2, normal, side))
                force += quotient(wp.dot(side, turn), span + bend, scale + bend) * side
        else:
            # Principal directions of C₁ + C₂, by a turn whose tangent is t.
            a = tangent
            b = wp.cross(normal, a)
            Ca = slide(s1, f1, normal, a) + slide(s2, f2, normal, a)
            Cb = slide(s1, f1, normal, b) + slide(s2, f2, normal, b)
            aa = wp.dot(a, Ca)
            bb = wp.dot(b, Cb)
            ab = wp.dot(a, Cb)
            root = wp.sqrt((bb - aa) * (bb - aa) + real(4.0) * ab * ab)
            t = quotient(real(2.0) * ab, bb - aa + wp.where(bb < aa, -root, root), real(0.0))
            cosine = one / wp.sqrt(one + t * t)
            bend = aa - t * ab
            u = cosine * (a - t * b)
            force += quotient(wp.dot(u, turn), span + bend, scale + bend) * u
            bend = bb + t * ab
            u = cosine * (b + t * a)
            force += quotient(wp.dot(u, turn), span + bend, scale + bend) * u

    m += arm * force + slide(s2, f2, normal, force)
    return pack(wp.cross(normal, m) + spin, force)


@wp.func(inline=False)
def contact_adjoint(
    s1: Shape, f1: Feature, s2: Shape, f2: Feature, normal: vec3, dist: real, along: int,
    pos_bar: vec3, dist_bar: real, n_bar: vec3, t1_bar: vec3, t2_bar: vec3,
):  # fmt: skip
    """Cotangents of the motion of either body (moment about pos; force) and of the sizes of either shape."""
    start, turns = frame_start(normal, along, s2.R)
    climb = wp.dot(normal, start)
    t1 = start - climb * normal
    length = wp.sqrt(wp.dot(t1, t1))
    t1 = t1 / length
    t2 = wp.cross(normal, t1)

    # Cotangent of a rotation of the whole frame. Its part about the normal acts on the tangents alone. These keep t2
    # orthogonal to ``start``: they are turned by rotations of the normal about t1, and of ``start``.
    moment = wp.cross(normal, n_bar) + wp.cross(t1, t1_bar) + wp.cross(t2, t2_bar)
    spin = wp.dot(normal, moment) * (normal - (climb / length) * t1)
    moment -= spin
    normal_bar = wp.cross(moment, normal)

    total = pack(moment, pos_bar)
    bar1 = vec6()
    bar2 = vec6()
    if firmness(f2.kind) > firmness(f1.kind):
        bar1 = tip_share(s2, f2, s1, f1, -normal, t1, dist, pos_bar, dist_bar, -normal_bar)
        bar2 = total - bar1
    else:
        bar2 = tip_share(s1, f1, s2, f2, normal, t1, dist, pos_bar, dist_bar, normal_bar)
        bar1 = total - bar2

    shift = real(0.5) * wp.dot(normal, pos_bar)
    size1_bar = size_adjoint(s1, f1, normal, lin(bar1), shift - dist_bar)
    size2_bar = size_adjoint(s2, f2, -normal, lin(bar2), -shift - dist_bar)
    return bar1, bar2 + turns * pack(spin, vec3()), size1_bar, size2_bar
