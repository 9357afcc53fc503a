"""Where two convex shapes touch: contacts of any pair that has no closed answer of its own.

What is nearest is found by ``convex_gap``; shapes are as there. Where a flat face of one shape lies along a face or an
edge of the other, there are several contacts, made by clipping. Which these are is much what MuJoCo finds, but for
three things: a face must be turned to the other shape where they touch, within 5 degrees (MuJoCo also takes faces that
are not, and returns their normals, which can be anything); of two faces the points of one lie exactly along the normal
of the other; and of polygons with more than four corners, or of several faces and edges that would do, it may choose
others.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .convex_gap import FLUSH, nearest
from .feature_gap import Touch, place
from .gjk import difference, unit
from .shapes import (
    CIRCLE,
    CIRCLE_CUT,
    CUT,
    CYLINDER,
    ELLIPSOID_SHAPE,
    FACE,
    LINE,
    PLANE,
    POINT,
    SPHERE,
    Contacts,
    Feature,
    Mesh,
    Shapes,
    add_contact,
    feature,
)
from .support import Convex, Core, convex, core_radius, corner_count, face_ahead, face_corner, straight_edge

# Flat on flat: a face counts as touched if its normal is within this cosine of the contact's, and another face as
# parallel to it likewise; an edge lies along it below this sine. About 5 degrees, as in MuJoCo.
FACING = wp.constant(real(0.996))
LYING = wp.constant(real(0.0888))
MOST_CORNERS = wp.constant(40)


@wp.func
def add_touch(c: Contacts, slot: int, pair: int, reach: real, x1: vec3, s1: Convex, s2: Convex, t: Touch):
    """The one point where the features of two shapes are nearest to each other."""
    dist = t.gap - core_radius(s1) - core_radius(s2)
    add_contact(
        c, slot, pair, reach, dist, x1 + place(s1, s2, t), t.n, 0,
        feature(t.core1.kind, t.core1.edge, t.core1.pin),
        feature(t.core2.kind, t.core2.edge, t.core2.pin),
    )  # fmt: skip


@wp.func
def add_on_face(
    c: Contacts, slot: int, pair: int, reach: real, x1: vec3, normal: vec3, swapped: bool,
    height: real, radius: real, point: vec3, mine: Feature, yours: Feature,
):  # fmt: skip
    """Contact of a face and a point of the core of another shape, which is shape 2 unless swapped."""
    dist = height - radius
    pos = x1 + point - (real(0.5) * dist + radius) * normal
    n = normal
    first = mine
    second = yours
    if swapped:
        n = -normal
        first = yours
        second = mine
    add_contact(c, slot, pair, reach, dist, pos, n, 0, first, second)


@wp.func(inline=False)
def side_plane(mesh: Mesh, s: Convex, face: int, normal: vec3, k: int, count: int):
    """Side k of the prism over a face: a point of it, its outward normal and pin."""
    p, pin = face_corner(mesh, s, face, k)
    q, pin2 = face_corner(mesh, s, face, (k + 1) % count)
    return p, unit(wp.cross(q - p, normal)), real(0.5) * (pin + pin2)


@wp.func
def face_pin(mesh: Mesh, s: Convex, face: int):
    """What the pins of opposite corners of a face have in common."""
    _p, pin = face_corner(mesh, s, face, 0)
    _p2, pin2 = face_corner(mesh, s, face, corner_count(mesh, s, face) / 2)
    return real(0.5) * (pin + pin2)


@wp.func(inline=False)
def edge_on_face(
    c: Contacts, slot: int, pair: int, reach: real, x1: vec3, mesh: Mesh, swapped: bool,
    s: Convex, face: int, normal: vec3, other: Convex, vertex: int, f: Core, n: vec3,
):  # fmt: skip
    """Contacts of a face and a straight edge of another shape that lies along it: the ends of what is over the face.

    The edge is that of the feature f, or the one of those at its corner which is most nearly parallel to the face; n is
    the outward normal of the other shape where it is touched. The other shape is shape 2 unless swapped.
    """
    across = normal
    if f.kind == LINE and other.kind != CYLINDER:
        across = n
    a, b, pin_a, pin_b, sine = straight_edge(mesh, other, n, vertex, across, -normal)
    direction = unit(b - a)
    if sine < LYING and wp.abs(wp.dot(direction, normal)) < LYING:
        # What is left of the edge, from 0 to 1, and the sides of the prism that it ends at.
        begin = real(0.0)
        end = real(1.0)
        begin_side = int(-1)
        end_side = int(-1)
        count = corner_count(mesh, s, face)
        same = FLUSH * wp.sqrt(wp.dot(b - a, b - a))
        o = vec3()
        for k in range(count):
            p, side, _pin = side_plane(mesh, s, face, normal, k, count)
            o = p
            out_a = wp.dot(a - p, side)
            out_b = wp.dot(b - p, side)
            if out_a > same and out_b > same:
                end = real(-1.0)
            elif out_a > same or out_b > same:
                t = out_a / (out_a - out_b)
                if out_b > same and t < end:
                    end = t
                    end_side = k
                elif out_a > same and t > begin:
                    begin = t
                    begin_side = k
        if begin < end:
            for m in range(2):
                t = wp.where(m == 0, begin, end)
                k = wp.where(m == 0, begin_side, end_side)
                mine = feature(PLANE, vec3(), face_pin(mesh, s, face))
                yours = feature(POINT, vec3(), wp.where(m == 0, pin_a, pin_b))
                if other.kind == CYLINDER:
                    yours.kind = CIRCLE
                    yours.edge = direction
                if k >= 0:
                    _p, side, pin = side_plane(mesh, s, face, normal, k, count)
                    mine.edge = side
                    mine.pin = pin
                    kind = wp.where(other.kind == CYLINDER, CIRCLE_CUT, CUT)
                    yours = feature(kind, direction, real(0.5) * (pin_a + pin_b))
                point = a + t * (b - a)
                height = wp.dot(point - o, normal)
                add_on_face(
                    c, slot, pair, reach, x1, normal, swapped, height, core_radius(other), point, mine, yours
                )  # fmt: skip


@wp.func
def spread_out(corner: wp.array(dtype=vec3), n: int, normal: vec3, same: real):
    """Numbers of four corners of a polygon, if it has more: the lowest, the one farthest from it, and the farthest on
    either side of the line between these. Where there is none on one side, the corner that adds most to the triangle of
    the other three; corners in one place are named again."""
    keep = wp.vec4i(0, 1, 2, 3)
    if n > 4:
        a = int(0)
        for i in range(1, n):
            if wp.dot(corner[i] - corner[a], normal) < -same:
                a = i
        c = int(a)
        far = real(0.0)
        for i in range(n):
            r = corner[i] - corner[a]
            if wp.dot(r, r) > far + same * same:
                far = wp.dot(r, r)
                c = i
        across = wp.cross(normal, corner[c] - corner[a])
        slack = same * wp.sqrt(far)
        b = int(a)
        d = int(a)
        for i in range(n):
            if wp.dot(corner[i] - corner[b], across) > slack:
                b = i
            if wp.dot(corner[i] - corner[d], across) < -slack:
                d = i
        if b == a or d == a:
            tip = b + d - a  # the one that is not a
            turn = wp.where(b == a, real(-1.0), real(1.0))
            beyond_a = turn * wp.cross(corner[a] - corner[tip], normal)
            beyond_c = turn * wp.cross(corner[tip] - corner[c], normal)
            fourth = int(a)
            most = slack
            for i in range(n):
                r = corner[i] - corner[tip]
                gain = wp.max(wp.dot(r, beyond_a), wp.dot(r, beyond_c))
                if gain > most + slack:
                    most = gain
                    fourth = i
            if b == a:
                b = fourth
            else:
                d = fourth
        keep = wp.vec4i(a, b, c, d)
    return keep


@wp.func
def face_on_face(
    c: Contacts, slot: int, pair: int, reach: real, x1: vec3, mesh: Mesh, swapped: bool,
    s: Convex, face: int, normal: vec3, other: Convex, other_face: int, other_normal: vec3,
):  # fmt: skip
    """Contacts of a face and one of another shape that looks at it: corners of what the latter has over the former.

    What bounds this part from one of its corners to the next is an edge of the other face (0, 1, ...) or a side of the
    prism over the first (-1, -2, ...). Of a face with more corners than there is room for, some are taken in turn. The
    other shape is shape 2 unless swapped.
    """
    corner = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    bound = wp.zeros(shape=MOST_CORNERS, dtype=int)
    old = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    old_bound = wp.zeros(shape=MOST_CORNERS, dtype=int)
    sides = corner_count(mesh, s, face)
    corners = corner_count(mesh, other, other_face)
    some = wp.min(corners, MOST_CORNERS / 2)
    for i in range(some):
        p, _pin = face_corner(mesh, other, other_face, i * corners / some)
        corner[i] = p
        bound[i] = i
    n = int(some)
    origin, _pin0 = face_corner(mesh, s, face, 0)
    same = FLUSH * wp.sqrt(wp.dot(corner[1] - corner[0], corner[1] - corner[0]))
    for k in range(sides):
        o, side, _pin = side_plane(mesh, s, face, normal, k, sides)
        for i in range(n):
            old[i] = corner[i]
            old_bound[i] = bound[i]
        m = int(0)
        for i in range(n):
            after = (i + 1) % n
            d = wp.dot(old[i] - o, side)
            d_after = wp.dot(old[after] - o, side)
            # What rounding alone puts outside is inside: a corner stays a corner.
            inside = d <= same
            inside_after = d_after <= same
            if inside and m < MOST_CORNERS:
                corner[m] = old[i]
                bound[m] = wp.where(d >= real(0.0) and not inside_after, -1 - k, old_bound[i])
                m += 1
            if m < MOST_CORNERS and ((d < real(0.0) and not inside_after) or (not inside and d_after < real(0.0))):
                corner[m] = old[i] + (d / (d - d_after)) * (old[after] - old[i])
                bound[m] = wp.where(inside, -1 - k, old_bound[i])
                m += 1
        n = m

    keep = spread_out(corner, n, normal, same)
    count = wp.min(n, 4)
    for j in range(count):
        i = keep[j]
        fresh = bool(True)
        for earlier in range(j):
            fresh = fresh and keep[earlier] != i
        before = bound[(i + n - 1) % n]
        after = bound[i]
        mine = feature(PLANE, vec3(), face_pin(mesh, s, face))
        yours = feature(POINT, vec3(), vec3())
        if before >= 0 and after >= 0:
            _p, pin = face_corner(mesh, other, other_face, after * corners / some)
            yours.pin = pin
        elif before >= 0 or after >= 0:
            e = wp.max(before, after)
            p, pin_p = face_corner(mesh, other, other_face, e * corners / some)
            q, pin_q = face_corner(mesh, other, other_face, ((e + 1) % some) * corners / some)
            _o, side, pin = side_plane(mesh, s, face, normal, -1 - wp.min(before, after), sides)
            mine.edge = side
            mine.pin = pin
            yours = feature(CUT, unit(q - p), real(0.5) * (pin_p + pin_q))
        else:
            # The corner between two sides.
            k = -1 - after
            if (k + 1) % sides == -1 - before:
                k = -1 - before
            _o, pin = face_corner(mesh, s, face, k)
            mine.pin = pin
            yours = feature(FACE, other_normal, face_pin(mesh, other, other_face))
        height = wp.dot(corner[i] - origin, normal)
        if fresh:
            add_on_face(c, slot, pair, reach, x1, normal, swapped, height, real(0.0), corner[i], mine, yours)


@wp.func
def convex_touch(
    c: Contacts, slot: int, pair: int, reach: real, shapes: Shapes,
    kind1: int, first1: int, end1: int, x1: vec3, R1: mat33, size1: vec3,
    kind2: int, first2: int, end2: int, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The one contact of two convex shapes, of which ``first`` to ``end`` are the hull's corners if it is a mesh."""
    s1 = convex(kind1, first1, end1, vec3(), R1, size1)
    s2 = convex(kind2, first2, end2, x2 - x1, R2, size2)
    best, in_reach = nearest(shapes.mesh, s1, s2, reach)
    if in_reach:
        add_touch(c, slot, pair, reach, x1, s1, s2, best)


@wp.func
def convex_pair(
    c: Contacts, slot: int, pair: int, reach: real, shapes: Shapes,
    kind1: int, first1: int, end1: int, x1: vec3, R1: mat33, size1: vec3,
    kind2: int, first2: int, end2: int, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The contacts of two convex shapes: several if a flat face of one nearly lies along a face or edge of the other.

    Then the normal is that of the face; if there are two, that of shape 2. Else as ``convex_touch``.
    """
    mesh = shapes.mesh
    s1 = convex(kind1, first1, end1, vec3(), R1, size1)
    s2 = convex(kind2, first2, end2, x2 - x1, R2, size2)
    best, in_reach = nearest(mesh, s1, s2, reach)
    if in_reach and best.gap - core_radius(s1) - core_radius(s2) < reach:
        n = best.n
        _w, vertex1, vertex2 = difference(mesh, s1, s2, n, s1.first, s2.first)
        face1, normal1 = face_ahead(mesh, s1, n, vertex1)
        face2, normal2 = face_ahead(mesh, s2, -n, vertex2)
        several = shapes.one_contact == 0
        near1 = several and face1 >= 0 and wp.dot(normal1, n) > FACING
        near2 = several and face2 >= 0 and wp.dot(normal2, n) < -FACING
        before = c.count[0, slot]
        if near1 and near2 and wp.dot(normal1, normal2) < -FACING:
            face_on_face(c, slot, pair, reach, x1, mesh, True, s2, face2, normal2, s1, face1, normal1)
        for k in range(2):
            # An edge of shape 1 on a face of shape 2; then, should there be none, the other way round.
            s = s2
            other = s1
            face = face2
            normal = normal2
            vertex = vertex1
            f = best.core1
            out = n
            near = near2
            if k == 1:
                s = s1
                other = s2
                face = face1
                normal = normal1
                vertex = vertex2
                f = best.core2
                out = -n
                near = near1
            straight = other.kind != SPHERE and other.kind != ELLIPSOID_SHAPE and f.kind != PLANE
            if near and straight and c.count[0, slot] == before:
                edge_on_face(c, slot, pair, reach, x1, mesh, k == 0, s, face, normal, other, vertex, f, out)
        if c.count[0, slot] == before:
            add_touch(c, slot, pair, reach, x1, s1, s2, best)
