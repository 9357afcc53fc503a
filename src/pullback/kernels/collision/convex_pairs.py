"""Where two convex shapes touch: contacts of any pair that has no closed answer of its own.

What is nearest is found by ``convex_gap``; shapes are as there. Where a flat face of one shape lies along a face or an
edge of the other, there are several contacts, made by clipping. Which these are is much what MuJoCo finds, but for
three things: a face must be turned to the other shape where they touch, within 5 degrees (MuJoCo also takes faces that
are not, and returns their normals, which can be anything); of two faces the points of one lie exactly along the normal
of the other; and of polygons with more than four corners, or of several faces and edges that would do, it may choose
others.
"""

import warp as wp

from ..spatial.algebra import unit
from ..spatial.scalar import real, vec3
from .convex_gap import FLUSH, nearest
from .feature_gap import Touch, place
from .gjk import difference
from .shapes import (
    CIRCLE,
    CIRCLE_CUT,
    CUT,
    CYLINDER,
    ELLIPSOID_SHAPE,
    FACE,
    LINE,
    PLANE,
    SPHERE,
    Contacts,
    Feature,
    Mesh,
    Pair,
    Shape,
    Shapes,
    add_contact,
    add_contact_of,
    corner,
    feature,
)
from .support import Core, clip, core_radius, corner_count, face_ahead, face_corner, straight_edge

# Flat on flat: a face counts as touched if its normal is within this cosine of the contact's, and another face as
# parallel to it likewise; an edge lies along it below this sine. About 5 degrees, as in MuJoCo.
FACING = wp.constant(real(0.996))
LYING = wp.constant(real(0.0888))
MOST_CORNERS = wp.constant(40)


@wp.struct
class Side:
    """One of two shapes where they touch."""

    s: Shape
    n: vec3  # its outward normal there
    core: Core  # what is touched
    vertex: int  # its corner farthest along n, if it is a mesh
    face: int  # the flat face at this corner which looks along n most, or -1
    normal: vec3  # of this face
    is_flat: bool  # whether the face is turned to the other shape there


@wp.func
def side_of(mesh: Mesh, s: Shape, n: vec3, core: Core, vertex: int):
    side = Side()
    side.s = s
    side.n = n
    side.core = core
    side.vertex = vertex
    face, normal = face_ahead(mesh, s, n, vertex)
    side.face = face
    side.normal = normal
    side.is_flat = face >= 0 and wp.dot(normal, n) > FACING
    return side


@wp.func
def add_touch(c: Contacts, pair: Pair, origin: vec3, s1: Shape, s2: Shape, t: Touch):
    """The one point where the features of two shapes are nearest to each other."""
    dist = t.gap - core_radius(s1) - core_radius(s2)
    feature1 = feature(t.core1.kind, t.core1.edge, t.core1.pin)
    feature2 = feature(t.core2.kind, t.core2.edge, t.core2.pin)
    add_contact(c, pair, dist, origin + place(s1, s2, t), t.n, 0, feature1, feature2)


@wp.func
def add_on_face(
    c: Contacts, pair: Pair, origin: vec3, swapped: bool,
    normal: vec3, height: real, other: Shape, point: vec3, mine: Feature, yours: Feature,
):  # fmt: skip
    """Contact of a face and a point of the core of another shape, which is shape 2 unless swapped."""
    radius = core_radius(other)
    dist = height - radius
    pos = origin + point - (real(0.5) * dist + radius) * normal
    add_contact_of(c, pair, swapped, dist, pos, normal, mine, yours)


@wp.func(inline=False)
def side_plane(mesh: Mesh, s: Shape, face: int, normal: vec3, k: int, count: int):
    """Side k of the prism over a face: a point of it, its outward normal and pin."""
    p, pin = face_corner(mesh, s, face, k)
    q, pin2 = face_corner(mesh, s, face, (k + 1) % count)
    return p, unit(wp.cross(q - p, normal)), real(0.5) * (pin + pin2)


@wp.func
def face_pin(mesh: Mesh, s: Shape, face: int):
    """What the pins of opposite corners of a face have in common."""
    _p, pin = face_corner(mesh, s, face, 0)
    _p2, pin2 = face_corner(mesh, s, face, corner_count(mesh, s, face) / 2)
    return real(0.5) * (pin + pin2)


@wp.func
def has_edge(side: Side):
    """Whether a straight edge may be touched."""
    return side.s.kind != SPHERE and side.s.kind != ELLIPSOID_SHAPE and side.core.kind != PLANE


@wp.func(inline=False)
def edge_on_face(c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, swapped: bool, base: Side, tip: Side):
    """Contacts of a face and a straight edge of another shape that lies along it: the ends of what is over the face.

    The edge is what is touched of the tip, or the one of those at its corner which is most nearly parallel to the face.
    The tip is shape 2 unless swapped.
    """
    s = base.s
    face = base.face
    normal = base.normal
    other = tip.s
    across = normal
    if tip.core.kind == LINE and other.kind != CYLINDER:
        across = tip.n
    a, b, pin_a, pin_b, sine = straight_edge(mesh, other, tip.n, tip.vertex, across, -normal)
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
                yours = corner(wp.where(m == 0, pin_a, pin_b))
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
                add_on_face(c, pair, origin, swapped, normal, height, other, point, mine, yours)


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
def face_on_face(c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, swapped: bool, base: Side, tip: Side):
    """Contacts of a face and one of another shape that looks at it: corners of what the latter has over the former.

    What bounds this part from one of its corners to the next is an edge of the other face (0, 1, ...) or a side of the
    prism over the first (-1, -2, ...). Of a face with more corners than the arrays hold, some are taken in turn. The
    tip is shape 2 unless swapped.
    """
    s = base.s
    face = base.face
    normal = base.normal
    other = tip.s
    other_face = tip.face
    point = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    bound = wp.zeros(shape=MOST_CORNERS, dtype=int)
    old = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    old_bound = wp.zeros(shape=MOST_CORNERS, dtype=int)
    sides = corner_count(mesh, s, face)
    corners = corner_count(mesh, other, other_face)
    some = wp.min(corners, MOST_CORNERS / 2)
    for i in range(some):
        p, _pin = face_corner(mesh, other, other_face, i * corners / some)
        point[i] = p
        bound[i] = i
    n = int(some)
    start, _pin0 = face_corner(mesh, s, face, 0)
    same = FLUSH * wp.sqrt(wp.dot(point[1] - point[0], point[1] - point[0]))
    for k in range(sides):
        o, side, _pin = side_plane(mesh, s, face, normal, k, sides)
        n = clip(point, bound, old, old_bound, n, o, side, same, -1 - k)

    keep = spread_out(point, n, normal, same)
    count = wp.min(n, 4)
    for j in range(count):
        i = keep[j]
        fresh = bool(True)
        for earlier in range(j):
            fresh = fresh and keep[earlier] != i
        before = bound[(i + n - 1) % n]
        after = bound[i]
        mine = feature(PLANE, vec3(), face_pin(mesh, s, face))
        yours = corner(vec3())
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
            yours = feature(FACE, tip.normal, face_pin(mesh, other, other_face))
        height = wp.dot(point[i] - start, normal)
        if fresh:
            add_on_face(c, pair, origin, swapped, normal, height, other, point[i], mine, yours)


@wp.func
def convex_pair(c: Contacts, pair: Pair, shapes: Shapes, s1: Shape, s2: Shape):
    """The contacts of two convex shapes: several if a flat face of one nearly lies along a face or edge of the other.

    Then the normal is that of the face; if there are two, that of shape 2. Else there is one, where they are nearest.
    """
    mesh = shapes.mesh
    origin = s1.x
    s1.x = vec3()
    s2.x -= origin
    best, in_reach = nearest(mesh, s1, s2, pair.reach)
    if in_reach and best.gap - core_radius(s1) - core_radius(s2) < pair.reach:
        before = c.count[0, pair.slot]
        if shapes.one_contact == 0:
            _w, vertex1, vertex2 = difference(mesh, s1, s2, best.n, s1.first, s2.first)
            side1 = side_of(mesh, s1, best.n, best.core1, vertex1)
            side2 = side_of(mesh, s2, -best.n, best.core2, vertex2)
            if side1.is_flat and side2.is_flat and wp.dot(side1.normal, side2.normal) < -FACING:
                face_on_face(c, pair, mesh, origin, True, side2, side1)
            if c.count[0, pair.slot] == before and side2.is_flat and has_edge(side1):
                edge_on_face(c, pair, mesh, origin, True, side2, side1)
            if c.count[0, pair.slot] == before and side1.is_flat and has_edge(side2):
                edge_on_face(c, pair, mesh, origin, False, side1, side2)
        if c.count[0, pair.slot] == before:
            add_touch(c, pair, origin, s1, s2, best)
