"""Where two simple shapes touch: all pairs of them that have a closed answer, but for the edges of boxes
(``box_box``, ``capsule_box``).

Which contacts there are, and in which order, is what MuJoCo finds. Every function takes c and pair, where contacts are
noted, and both shapes; it notes for each contact what is touched of either, see ``shapes``.
"""

import warp as wp

from ..spatial.algebra import axis_z, column
from ..spatial.scalar import mat33, real, vec3
from .shapes import (
    CAPSULE,
    CIRCLE,
    CIRCLE_LEFT,
    CIRCLE_RIGHT,
    ELLIPSOID,
    HALF_SQRT3,
    LINE,
    PLANE,
    POINT,
    SMALLEST_LENGTH,
    Contacts,
    Feature,
    Mesh,
    Pair,
    Shape,
    add_contact,
    bare,
    corner,
    feature,
    inflation,
)
from .support import climb, face_ahead

# Capsules are taken as parallel below this sine (squared) of the angle between them, and touch in two points.
PARALLEL = wp.constant(real(1e-8))

# A cylinder stands upright below this sine of its tilt: which point of its rim is lowest is lost in rounding.
UPRIGHT = wp.constant(real(1e-6 if real is wp.float32 else 1e-14))

# What is meant to be one place, but was computed in two ways, differs by less than this share of a box's size.
SAME_PLACE = wp.constant(real(1e-5 if real is wp.float32 else 1e-10))


@wp.func
def beyond(x: real, limit: real):
    """±1 if x is beyond ±limit, else 0."""
    side = int(0)
    if x > limit:
        side = 1
    elif x < -limit:
        side = -1
    return side


@wp.func
def pinned(sign: real):
    """Pin to one end of axis z."""
    return vec3(real(0.0), real(0.0), sign)


@wp.func
def towards(v: vec3, R1: mat33, R2: mat33):
    """Unit vector along v, and its length. If there is none, one across both z axes, if there is one, else axis x."""
    length = wp.sqrt(wp.dot(v, v))
    direction = v
    measure = length
    if length < SMALLEST_LENGTH:
        direction = wp.cross(axis_z(R1), axis_z(R2))
        measure = wp.sqrt(wp.dot(direction, direction))
        if measure < SMALLEST_LENGTH:
            direction = vec3(real(1.0), real(0.0), real(0.0))
            measure = real(1.0)
    return direction / measure, length


@wp.func
def add_round(c: Contacts, pair: Pair, s1: Shape, p1: vec3, f1: Feature, s2: Shape, p2: vec3, f2: Feature):
    """Contact of two balls, or points, to which most pairs come down in the end."""
    radius1 = inflation(s1, f1.kind)
    normal, length = towards(p2 - p1, s1.R, s2.R)
    dist = length - radius1 - inflation(s2, f2.kind)
    pos = p1 + (radius1 + real(0.5) * dist) * normal
    add_contact(c, pair, dist, pos, normal, 0, f1, f2)


@wp.func
def add_ball(
    c: Contacts, pair: Pair, s1: Shape, centre: vec3, height: real, normal: vec3, feature1: Feature, feature2: Feature
):
    """Contact of a ball of shape 1, whose centre is at a height above shape 2."""
    radius = s1.size[0]
    dist = height - radius
    pos = centre + (radius + real(0.5) * dist) * normal
    add_contact(c, pair, dist, pos, normal, 0, feature1, feature2)


@wp.func
def add_on_plane(c: Contacts, pair: Pair, s1: Shape, s2: Shape, point: vec3, feature2: Feature):
    """Contact of a plane and a point, perhaps with a ball around it; friction is aligned with a capsule."""
    normal = axis_z(s1.R)
    radius = inflation(s2, feature2.kind)
    dist = wp.dot(point - s1.x, normal) - radius
    pos = point - (radius + real(0.5) * dist) * normal
    add_contact(c, pair, dist, pos, normal, wp.where(s2.kind == CAPSULE, 1, 0), bare(PLANE), feature2)


@wp.func
def along_segment(s: Shape, coordinate: real):
    """What the segment that is a capsule's core shows at a coordinate of its axis: its inside or one of its ends."""
    f = feature(LINE, axis_z(s.R), vec3())
    if coordinate >= s.size[1]:
        f = corner(pinned(real(1.0)))
    elif coordinate <= -s.size[1]:
        f = corner(pinned(real(-1.0)))
    return f


# --- planes ----------------------------------------------------------------------------------------


@wp.func
def plane_sphere(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    add_on_plane(c, pair, s1, s2, s2.x, bare(POINT))


@wp.func
def plane_capsule(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """Each end for itself."""
    half = s2.size[1] * axis_z(s2.R)
    sign = real(1.0)
    ends = int(2)
    for _ in range(ends):
        add_on_plane(c, pair, s1, s2, s2.x + sign * half, corner(pinned(sign)))
        sign = -sign


@wp.func
def plane_box(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The first four corners that are within reach and below the box's centre."""
    normal = axis_z(s1.R)
    centre = wp.dot(s2.x - s1.x, normal)
    found = int(0)
    corners = int(8)
    for i in range(corners):
        pin = vec3(real(2 * (i & 1) - 1), real((i & 2) - 1), real((i & 4) // 2 - 1))
        arm = s2.R * wp.cw_mul(pin, s2.size)
        below = wp.dot(arm, normal)
        if below <= real(0.0) and centre + below <= pair.reach and found < 4:
            found += 1
            add_on_plane(c, pair, s1, s2, s2.x + arm, corner(pin))


@wp.func
def plane_ellipsoid(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The point whose tangent plane is parallel to the plane."""
    scaled = wp.cw_mul(wp.transpose(s2.R) * axis_z(s1.R), s2.size)
    lowest = wp.cw_mul(scaled, s2.size) / wp.sqrt(wp.dot(scaled, scaled))
    add_on_plane(c, pair, s1, s2, s2.x - s2.R * lowest, bare(ELLIPSOID))


@wp.func
def plane_cylinder(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The lowest point, the one opposite to it on the other cap, and two more that make a triangle on the lower cap."""
    normal = axis_z(s1.R)
    axis = axis_z(s2.R)
    radius = s2.size[0]
    cosine = wp.dot(normal, axis)
    side = wp.where(cosine > real(0.0), real(-1.0), real(1.0))  # of the cap next to the plane
    cap = side * s2.size[1] * axis

    # Towards the lowest point of the rim. At a small tilt the first difference is not orthogonal to the axis.
    out = cosine * axis - normal
    out -= wp.dot(out, axis) * axis
    tilt = wp.sqrt(wp.dot(out, out))
    upright = tilt < UPRIGHT
    if upright:
        out = column(s2.R, 0)
    else:
        out = out / tilt
    sideways = HALF_SQRT3 * wp.cross(axis, out)

    if wp.dot(s2.x + cap + radius * out - s1.x, normal) <= pair.reach:
        contacts = int(4)
        for k in range(contacts):
            on_rim = out
            sign = side
            kind = CIRCLE
            if k == 1:
                sign = -side
            elif k > 1:
                # MuJoCo goes to the right first, looking along the axis at the plane.
                turn = real(1.0)
                kind = CIRCLE_LEFT
                if (side > real(0.0)) == (k == 2):
                    turn = real(-1.0)
                    kind = CIRCLE_RIGHT
                on_rim = turn * sideways - real(0.5) * out
            f = feature(kind, axis, pinned(sign))
            if upright:
                out2 = wp.transpose(s2.R) * on_rim
                f = corner(vec3(out2[0], out2[1], sign))
            add_on_plane(c, pair, s1, s2, s2.x + sign * side * cap + radius * on_rim, f)


@wp.func
def quadrilateral(mesh: Mesh, begin: int, i: int, j: int, k: int, m: int):
    """Twice the area of the quadrilateral of four corners of the face whose list of corners begins there."""
    d1 = mesh.vertex[mesh.corner[begin + i]] - mesh.vertex[mesh.corner[begin + k]]
    d2 = mesh.vertex[mesh.corner[begin + j]] - mesh.vertex[mesh.corner[begin + m]]
    n = wp.cross(d1, d2)
    return wp.sqrt(wp.dot(n, n))


@wp.func
def spread_out(mesh: Mesh, begin: int, n: int, i: int):
    """Three more corners of a face that make a large quadrilateral with its corner i.

    From four neighbours on, the last is moved on for as long as the area grows, and the third and the second after it.
    """
    j = (i + 1) % n
    k = (i + 2) % n
    m = (i + 3) % n
    area = quadrilateral(mesh, begin, i, j, k, m)
    growing = bool(n > 4)
    mover = int(2)
    while growing:
        j2 = j
        k2 = k
        m2 = m
        if mover == 2:
            m2 = (m + 1) % n
        elif mover == 1:
            k2 = (k + 1) % n
        else:
            j2 = (j + 1) % n
        larger = quadrilateral(mesh, begin, i, j2, k2, m2)
        if larger > area:
            area = larger
            j = j2
            k = k2
            m = m2
            if mover == 2:
                mover = 1
        else:
            growing = mover != 2
            mover = (mover + 2) % 3
    return j, k, m


@wp.func
def plane_mesh(c: Contacts, pair: Pair, mesh: Mesh, s1: Shape, s2: Shape):
    """The lowest corner and up to three more of that face around it which is turned to the plane most."""
    normal = axis_z(s1.R)
    lowest = climb(mesh, -(wp.transpose(s2.R) * normal), s2.first)
    point = s2.x + s2.R * mesh.vertex[lowest]
    if wp.dot(point - s1.x, normal) <= pair.reach:
        add_on_plane(c, pair, s1, s2, point, bare(POINT))
        face, _normal = face_ahead(mesh, s2, -normal, lowest)
        if face >= 0:
            begin = mesh.first_corner[face]
            n = mesh.first_corner[face + 1] - begin
            at = int(0)
            for k in range(n):
                if mesh.corner[begin + k] == lowest:
                    at = k
            i, j, k = spread_out(mesh, begin, n, at)
            others = wp.min(n, 4) - 1
            for _ in range(others):
                arm = s2.R * mesh.vertex[mesh.corner[begin + i]]
                if wp.dot(arm, normal) <= real(0.0):
                    add_on_plane(c, pair, s1, s2, s2.x + arm, bare(POINT))
                i = j
                j = k


# --- spheres and capsules --------------------------------------------------------------------------


@wp.func
def sphere_sphere(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    add_round(c, pair, s1, s1.x, bare(POINT), s2, s2.x, bare(POINT))


@wp.func
def sphere_capsule(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    axis = axis_z(s2.R)
    t = wp.clamp(wp.dot(s1.x - s2.x, axis), -s2.size[1], s2.size[1])
    add_round(c, pair, s1, s1.x, bare(POINT), s2, s2.x + t * axis, along_segment(s2, t))


@wp.func
def capsule_capsule(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The closest points of the two axes; if these are parallel, what is closest to each end of capsule 1."""
    a1 = axis_z(s1.R)
    a2 = axis_z(s2.R)
    h1 = s1.size[1]
    h2 = s2.size[1]
    r = s1.x - s2.x
    r1 = wp.dot(r, a1)
    r2 = wp.dot(r, a2)
    across = wp.cross(a1, a2)
    sine2 = wp.dot(across, across)
    cosine = wp.dot(a1, a2)

    s = -h1
    contacts = int(2)
    if sine2 > PARALLEL:
        contacts = 1
        # By cross products: 1 - cosine² would cancel at small angles.
        s = wp.clamp(wp.dot(across, wp.cross(a2, r)) / sine2, -h1, h1)
    for _ in range(contacts):
        t = cosine * s + r2
        if wp.abs(t) > h2:
            t = wp.clamp(t, -h2, h2)
            s = wp.clamp(cosine * t - r1, -h1, h1)
        add_round(c, pair, s1, s1.x + s * a1, along_segment(s1, s), s2, s2.x + t * a2, along_segment(s2, t))
        s = h1


# --- spheres and solids ----------------------------------------------------------------------------


@wp.func
def sphere_cylinder(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    axis = axis_z(s2.R)
    radius = s2.size[0]
    half = s2.size[1]
    r = s1.x - s2.x
    along = wp.dot(r, axis)
    across = r - along * axis
    width = wp.sqrt(wp.dot(across, across))
    side = wp.where(along > real(0.0), real(1.0), real(-1.0))

    beside = wp.abs(along) < half
    above = width < radius
    if beside and above:  # the centre is inside the cylinder: the way out is through what is nearer
        above = half - wp.abs(along) < radius - width
        beside = not above

    if above:
        cap = feature(PLANE, vec3(), pinned(side))
        add_ball(c, pair, s1, s1.x, side * along - half, -side * axis, bare(POINT), cap)
    else:
        point = s2.x + along * axis
        f = feature(LINE, axis, vec3())
        if not beside:
            point = s2.x + side * half * axis + (radius / width) * across
            f = feature(CIRCLE, axis, pinned(side))
        add_round(c, pair, s1, s1.x, bare(POINT), s2, point, f)


@wp.func
def point_and_box(p: vec3, s: Shape):
    """What of a box is nearest to p, in the box's axes: distance, direction to the box; and the feature.

    For a point inside that is the nearest face, the distance is negative and the direction is into the box.
    """
    q = vec3()
    pin = vec3()
    free = int(0)
    clamped = int(0)
    inner = int(0)
    depth = real(0.0)
    axes = int(3)
    for k in range(axes):
        side = real(beyond(p[k], s.size[k]))
        pin[k] = side
        q[k] = p[k]
        if side == real(0.0):
            free = k
        else:
            q[k] = side * s.size[k]
            clamped += 1
        inside = s.size[k] - wp.abs(p[k])
        if k == 0 or inside < depth:
            depth = inside
            inner = k

    gap = q - p
    dist = wp.sqrt(wp.dot(gap, gap))
    direction = vec3()
    f = corner(pin)
    if dist > SMALLEST_LENGTH:
        direction = gap / dist
        if clamped == 1:
            f.kind = PLANE
        elif clamped == 2:
            f = feature(LINE, column(s.R, free), pin)
    else:
        dist = -depth
        pin = vec3()
        pin[inner] = wp.where(p[inner] > real(0.0), real(1.0), real(-1.0))  # -1, should both sides be equally near
        direction = -pin
        f = feature(PLANE, vec3(), pin)
    return dist, direction, f


@wp.func
def sphere_box(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    dist, direction, f = point_and_box(wp.transpose(s2.R) * (s1.x - s2.x), s2)
    add_ball(c, pair, s1, s1.x, dist, s2.R * direction, bare(POINT), f)
