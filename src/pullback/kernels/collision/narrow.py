"""Where two simple shapes touch: all pairs of them that have a closed answer, but for the edges of boxes
(``box_box``, ``capsule_box``).

Which contacts there are, and in which order, is what MuJoCo finds. Every function takes

    c, slot, pair, reach    where to note contacts, of which world and pair, and how far apart they may be
    x1, R1, size1           shape 1: position, axes (the columns of R1), sizes as MuJoCo has them
    x2, R2, size2           shape 2

and notes for each contact what is touched of either shape, see ``shapes``.
"""

import math

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .shapes import (
    CIRCLE,
    CIRCLE_LEFT,
    CIRCLE_RIGHT,
    ELLIPSOID,
    LINE,
    PLANE,
    POINT,
    Contacts,
    Feature,
    Mesh,
    add_contact,
    feature,
)

# Shorter than this is no direction; the same bound MuJoCo uses.
SMALLEST_LENGTH = wp.constant(real(1e-15))

# Capsules are taken as parallel below this sine (squared) of the angle between them, and touch in two points.
PARALLEL = wp.constant(real(1e-8))

# A cylinder stands upright below this sine of its tilt: which point of its rim is lowest is lost in rounding.
UPRIGHT = wp.constant(real(1e-6 if real is wp.float32 else 1e-14))

# What is meant to be one place, but was computed in two ways, differs by less than this share of a box's size.
SAME_PLACE = wp.constant(real(1e-5 if real is wp.float32 else 1e-10))

HALF_SQRT3 = wp.constant(real(math.sqrt(3.0) / 2.0))


@wp.func
def column(R: mat33, k: int):
    return vec3(R[0, k], R[1, k], R[2, k])


@wp.func
def axis_z(R: mat33):
    return column(R, 2)


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
def bare(kind: int):
    """A feature that needs no edge and does not grow."""
    return feature(kind, vec3(), vec3())


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
def add_round(
    c: Contacts,
    slot: int,
    pair: int,
    reach: real,
    p1: vec3,
    radius1: real,
    p2: vec3,
    radius2: real,
    R1: mat33,
    R2: mat33,
    feature1: Feature,
    feature2: Feature,
):
    """Contact of two balls, to which most pairs come down in the end."""
    normal, length = towards(p2 - p1, R1, R2)
    dist = length - radius1 - radius2
    pos = p1 + (radius1 + real(0.5) * dist) * normal
    add_contact(c, slot, pair, reach, dist, pos, normal, 0, feature1, feature2)


@wp.func
def add_on_plane(
    c: Contacts,
    slot: int,
    pair: int,
    reach: real,
    x1: vec3,
    normal: vec3,
    point: vec3,
    radius: real,
    along: int,
    feature2: Feature,
):
    """Contact of a plane and a point, perhaps with a ball around it."""
    height = wp.dot(point - x1, normal)
    dist = height - radius
    pos = point - (radius + real(0.5) * dist) * normal
    add_contact(c, slot, pair, reach, dist, pos, normal, along, bare(PLANE), feature2)


@wp.func
def along_segment(axis: vec3, coordinate: real, half: real):
    """What a segment -half .. half of its axis z shows at a coordinate: its inside or one of its ends."""
    f = feature(LINE, axis, vec3())
    if coordinate >= half:
        f = feature(POINT, vec3(), pinned(real(1.0)))
    elif coordinate <= -half:
        f = feature(POINT, vec3(), pinned(real(-1.0)))
    return f


# --- planes ----------------------------------------------------------------------------------------


@wp.func
def plane_sphere(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    add_on_plane(c, slot, pair, reach, x1, axis_z(R1), x2, size2[0], 0, bare(POINT))


@wp.func
def plane_capsule(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """Each end for itself; friction is aligned with the capsule."""
    normal = axis_z(R1)
    half = size2[1] * axis_z(R2)
    sign = real(1.0)
    ends = int(2)
    for _ in range(ends):
        end = feature(POINT, vec3(), pinned(sign))
        add_on_plane(c, slot, pair, reach, x1, normal, x2 + sign * half, size2[0], 1, end)
        sign = -sign


@wp.func
def plane_box(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The first four corners that are within reach and below the box's centre."""
    normal = axis_z(R1)
    centre = wp.dot(x2 - x1, normal)
    found = int(0)
    corners = int(8)
    for i in range(corners):
        pin = vec3(real(2 * (i & 1) - 1), real((i & 2) - 1), real((i & 4) // 2 - 1))
        corner = R2 * wp.cw_mul(pin, size2)
        below = wp.dot(corner, normal)
        if below <= real(0.0) and centre + below <= reach and found < 4:
            found += 1
            add_on_plane(
                c, slot, pair, reach, x1, normal, x2 + corner, real(0.0), 0, feature(POINT, vec3(), pin)
            )  # fmt: skip


@wp.func
def plane_ellipsoid(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The point whose tangent plane is parallel to the plane."""
    normal = axis_z(R1)
    scaled = wp.cw_mul(wp.transpose(R2) * normal, size2)
    lowest = wp.cw_mul(scaled, size2) / wp.sqrt(wp.dot(scaled, scaled))
    add_on_plane(c, slot, pair, reach, x1, normal, x2 - R2 * lowest, real(0.0), 0, bare(ELLIPSOID))


@wp.func
def plane_cylinder(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The lowest point, the one opposite to it on the other cap, and two more that make a triangle on the lower cap."""
    normal = axis_z(R1)
    axis = axis_z(R2)
    radius = size2[0]
    cosine = wp.dot(normal, axis)
    side = real(1.0)  # of the cap next to the plane
    if cosine > real(0.0):
        side = real(-1.0)
    cap = side * size2[1] * axis

    # Towards the lowest point of the rim. At a small tilt the first difference is not orthogonal to the axis.
    out = cosine * axis - normal
    out -= wp.dot(out, axis) * axis
    tilt = wp.sqrt(wp.dot(out, out))
    upright = tilt < UPRIGHT
    if upright:
        out = column(R2, 0)
    else:
        out = out / tilt
    sideways = HALF_SQRT3 * wp.cross(axis, out)

    if wp.dot(x2 + cap + radius * out - x1, normal) <= reach:
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
                out2 = wp.transpose(R2) * on_rim
                f = feature(POINT, vec3(), vec3(out2[0], out2[1], sign))
            point = x2 + sign * side * cap + radius * on_rim
            add_on_plane(c, slot, pair, reach, x1, normal, point, real(0.0), 0, f)


@wp.func
def farthest_corner(mesh: Mesh, first: int, direction: vec3):
    """The corner of a convex hull that is farthest along a direction, found by climbing from corner to corner."""
    best = int(first)
    height = wp.dot(mesh.vertex[best], direction)
    climbing = bool(True)
    while climbing:
        here = best
        for k in range(mesh.first_neighbour[here], mesh.first_neighbour[here + 1]):
            other = mesh.neighbour[k]
            h = wp.dot(mesh.vertex[other], direction)
            if h > height:
                height = h
                best = other
        climbing = best != here
    return best


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
def plane_mesh(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
    mesh: Mesh, first: int, end: int,
):  # fmt: skip
    """The lowest corner and up to three more of that face around it which is turned to the plane most."""
    normal = axis_z(R1)
    up = wp.transpose(R2) * normal
    lowest = farthest_corner(mesh, first, -up)
    point = x2 + R2 * mesh.vertex[lowest]
    if wp.dot(point - x1, normal) <= reach:
        add_on_plane(c, slot, pair, reach, x1, normal, point, real(0.0), 0, bare(POINT))

        face = int(-1)
        slope = real(1.0)
        for k in range(mesh.first_face[lowest], mesh.first_face[lowest + 1]):
            s = wp.dot(mesh.face_normal[mesh.face[k]], up)
            if s < slope:
                slope = s
                face = mesh.face[k]
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
                point = R2 * mesh.vertex[mesh.corner[begin + i]]
                if wp.dot(point, normal) <= real(0.0):
                    add_on_plane(c, slot, pair, reach, x1, normal, x2 + point, real(0.0), 0, bare(POINT))
                i = j
                j = k


# --- spheres and capsules --------------------------------------------------------------------------


@wp.func
def sphere_sphere(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    add_round(c, slot, pair, reach, x1, size1[0], x2, size2[0], R1, R2, bare(POINT), bare(POINT))


@wp.func
def sphere_capsule(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    axis = axis_z(R2)
    half = size2[1]
    t = wp.clamp(wp.dot(x1 - x2, axis), -half, half)
    add_round(
        c, slot, pair, reach, x1, size1[0], x2 + t * axis, size2[0], R1, R2, bare(POINT), along_segment(axis, t, half)
    )  # fmt: skip


@wp.func
def capsule_capsule(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The closest points of the two axes; if these are parallel, what is closest to each end of capsule 1."""
    a1 = axis_z(R1)
    a2 = axis_z(R2)
    h1 = size1[1]
    h2 = size2[1]
    r = x1 - x2
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
        add_round(
            c, slot, pair, reach, x1 + s * a1, size1[0], x2 + t * a2, size2[0], R1, R2,
            along_segment(a1, s, h1), along_segment(a2, t, h2),
        )  # fmt: skip
        s = h1


# --- spheres and solids ----------------------------------------------------------------------------


@wp.func
def sphere_cylinder(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    axis = axis_z(R2)
    radius = size2[0]
    r = x1 - x2
    along = wp.dot(r, axis)
    across = r - along * axis
    width = wp.sqrt(wp.dot(across, across))
    side = real(-1.0)
    if along > real(0.0):
        side = real(1.0)

    beside = wp.abs(along) < size2[1]
    above = width < radius
    if beside and above:  # the centre is inside the cylinder: the way out is through what is nearer
        above = size2[1] - wp.abs(along) < radius - width
        beside = not above

    if beside:
        add_round(
            c, slot, pair, reach, x1, size1[0], x2 + along * axis, radius, R1, R2,
            bare(POINT), feature(LINE, axis, vec3()),
        )  # fmt: skip
    elif above:
        normal = -side * axis
        dist = side * along - size2[1] - size1[0]
        pos = x1 + (size1[0] + real(0.5) * dist) * normal
        add_contact(
            c, slot, pair, reach, dist, pos, normal, 0, bare(POINT), feature(PLANE, vec3(), pinned(side))
        )  # fmt: skip
    else:
        corner = x2 + side * size2[1] * axis + (radius / width) * across
        add_round(
            c, slot, pair, reach, x1, size1[0], corner, real(0.0), R1, R2,
            bare(POINT), feature(CIRCLE, axis, pinned(side)),
        )  # fmt: skip


@wp.func
def point_and_box(p: vec3, size: vec3):
    """What of a box is nearest to p, all in the box's axes: distance, direction to the box, feature, its free axis.

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
        side = real(0.0)
        if p[k] > size[k]:
            side = real(1.0)
        elif p[k] < -size[k]:
            side = real(-1.0)
        pin[k] = side
        q[k] = p[k]
        if side == real(0.0):
            free = k
        else:
            q[k] = side * size[k]
            clamped += 1
        room = size[k] - wp.abs(p[k])
        if k == 0 or room < depth:
            depth = room
            inner = k

    gap = q - p
    dist = wp.sqrt(wp.dot(gap, gap))
    direction = vec3()
    kind = POINT
    if dist > SMALLEST_LENGTH:
        direction = gap / dist
        if clamped == 1:
            kind = PLANE
        elif clamped == 2:
            kind = LINE
    else:
        kind = PLANE
        dist = -depth
        pin = vec3()
        pin[inner] = real(-1.0)  # should both sides be equally near
        if p[inner] > real(0.0):
            pin[inner] = real(1.0)
        direction = -pin
    return dist, direction, kind, pin, free


@wp.func
def sphere_box(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    dist, direction, kind, pin, free = point_and_box(wp.transpose(R2) * (x1 - x2), size2)
    dist -= size1[0]
    normal = R2 * direction
    pos = x1 + (size1[0] + real(0.5) * dist) * normal
    edge = vec3()
    if kind == LINE:
        edge = column(R2, free)
    add_contact(c, slot, pair, reach, dist, pos, normal, 0, bare(POINT), feature(kind, edge, pin))
