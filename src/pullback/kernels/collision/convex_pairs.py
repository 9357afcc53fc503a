"""Where two convex shapes touch: contacts of any pair that has no closed answer of its own.

What is nearest is found by ``convex_gap``; shapes are as there. Where a flat face at what is touched of one shape is
nearly parallel to a face or an edge of the other, there are several contacts, made by clipping, as MuJoCo makes them:
the same ones in the same order (``faces``). The normal is then that of the face, of two that of shape 2.
"""

import warp as wp

from ..spatial.algebra import unit
from ..spatial.scalar import real, vec3
from .convex_gap import nearest
from .faces import (
    MOST_CORNERS,
    Side,
    candidate_edge,
    candidate_face,
    corner_count,
    cut_off,
    dimension,
    drop_distant,
    edge_count,
    face_corner,
    face_count,
    face_pin,
    farthest_apart,
    halo,
    has_faces,
    side_of,
    side_plane,
    spread_out,
)
from .feature_gap import Touch, place
from .shapes import (
    CAPSULE,
    CUT,
    CYLINDER,
    ELLIPSOID_SHAPE,
    FOOT,
    FOOT_CUT,
    PLANE,
    SIDE_CUT,
    SIDE_END,
    SPHERE,
    Approach,
    Contacts,
    Feature,
    Mesh,
    Pair,
    Shape,
    Shapes,
    add_contact,
    add_contact_of,
    bare,
    corner,
    feature,
)
from .support import core_radius

# Two faces are parallel if the cosine of the angle between their normals is beyond this, a face and an edge if its sine
# is below this: 5.1 degrees. A face must be turned to the other shape by as much.
PARALLEL_FACES = wp.constant(real(0.996))
PARALLEL_EDGE = wp.constant(real(0.0888))
# For an edge it need only be turned to the other shape at all.
TURNED = wp.constant(real(1e-15))
# Edges with a smaller sine (squared) do not cross but lie along each other.
ALONG = wp.constant(real(1e-10 if real is wp.float32 else 1e-24))


@wp.func
def approach_of(origin: vec3, s1: Shape, s2: Shape, t: Touch):
    """The one point where the features of two shapes are nearest to each other."""
    near = Approach()
    near.pos = origin + place(s1, s2, t)
    near.normal = t.n
    near.dist = t.gap - core_radius(s1) - core_radius(s2)
    near.feature1 = feature(t.core1.kind, t.core1.edge, t.core1.pin)
    near.feature2 = feature(t.core2.kind, t.core2.edge, t.core2.pin)
    return near


@wp.func
def add_on_face(
    c: Contacts, pair: Pair, origin: vec3, swapped: bool,
    normal: vec3, dist: real, point: vec3, mine: Feature, yours: Feature,
):  # fmt: skip
    """Contact of a face and a point on the surface of the other shape, which is shape 2 unless swapped."""
    add_contact_of(c, pair, swapped, dist, origin + point - real(0.5) * dist * normal, normal, mine, yours)


@wp.func
def face_on_face(
    c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, tip: Shape, tip_face: int, tip_normal: vec3, base: Shape,
    base_face: int, normal: vec3,
):  # fmt: skip
    """Contacts of two faces that look at each other: of the face of shape 2, the base, what the tip has above it.

    What bounds this part from one of its corners to the next is an edge of the base's face (0, 1, ...) or a side of the
    prism over the tip's (-1, -2, ...). The corners are projected on the tip's face along its normal, and the points
    found there on the base's face along the normal of that. Of a face with more corners than the arrays hold, some are
    taken in turn.
    """
    point = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    bound = wp.zeros(shape=MOST_CORNERS, dtype=int)
    old = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    before = wp.zeros(shape=MOST_CORNERS, dtype=int)
    corners = corner_count(mesh, base, base_face)
    some = wp.min(corners, MOST_CORNERS / 2)
    for i in range(some):
        p, _pin = face_corner(mesh, base, base_face, i * corners / some)
        point[i] = p
        bound[i] = i
    n = int(some)
    sides = corner_count(mesh, tip, tip_face)
    o = vec3()
    for k in range(sides):
        p, inward, _pin = side_plane(mesh, tip, tip_face, tip_normal, k, sides)
        if k == 0:
            o = p
        n = cut_off(point, bound, old, before, n, p, inward, -1 - k)
    n = drop_distant(point, bound, before, n, o, tip_normal, pair.reach)
    keep = spread_out(point, n)
    for j in range(wp.min(n, 4)):
        i = keep[j]
        first = before[i]
        second = bound[i]
        height = wp.dot(point[i] - o, tip_normal)
        foot = point[i] - height * tip_normal
        dist = wp.dot(foot - point[i], normal)
        mine = feature(PLANE, vec3(), vec3())
        yours = bare(FOOT)
        if first >= 0 and second >= 0:
            _p, pin = face_corner(mesh, base, base_face, second * corners / some)
            mine.pin = pin
            yours = feature(FOOT, tip_normal, face_pin(mesh, tip, tip_face))
        elif first >= 0 or second >= 0:
            # The foot is on an edge of the tip's face, and slides along it as the base's edge moves.
            e = wp.max(first, second)
            p, pin_p = face_corner(mesh, base, base_face, e * corners / some)
            q, pin_q = face_corner(mesh, base, base_face, ((e + 1) % some) * corners / some)
            _o, inward, pin = side_plane(mesh, tip, tip_face, tip_normal, -1 - wp.min(first, second), sides)
            edge = wp.cross(tip_normal, inward)
            across = wp.dot(q - p, inward)
            slope = real(0.0)
            if across * across > ALONG * wp.dot(q - p, q - p):
                slope = wp.dot(q - p, edge) / across
            mine.edge = edge + slope * (tip_normal - inward)
            mine.pin = real(0.5) * (pin_p + pin_q)
            yours = feature(FOOT_CUT, tip_normal, pin)
        else:
            # The corner between two sides.
            k = -1 - second
            if (k + 1) % sides == -1 - first:
                k = -1 - first
            _p, pin = face_corner(mesh, tip, tip_face, k)
            mine.pin = face_pin(mesh, base, base_face)
            yours = corner(pin)
        add_on_face(c, pair, origin, True, normal, dist, foot, mine, yours)


@wp.func(inline=False)
def edge_on_face(
    c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, swapped: bool, base: Side, face: int, normal: vec3,
    tip: Side, e: int, near: Approach,
):  # fmt: skip
    """Contacts of a face and a straight edge that lies along it: the ends of what is over the face.

    The tip is shape 2 unless swapped.
    """
    point = wp.zeros(shape=8, dtype=vec3)
    bound = wp.zeros(shape=8, dtype=int)
    old = wp.zeros(shape=8, dtype=vec3)
    before = wp.zeros(shape=8, dtype=int)
    a, b, pin_a, pin_b = candidate_edge(mesh, tip, e, pair.reach)
    point[0] = a
    point[1] = b
    bound[1] = 1
    n = int(2)
    sides = corner_count(mesh, base.s, face)
    o = vec3()
    for k in range(sides):
        p, inward, _pin = side_plane(mesh, base.s, face, normal, k, sides)
        if k == 0:
            o = p
        n = cut_off(point, bound, old, before, n, p, inward, -1 - k)
    back = halo(tip.s, pair.reach)
    n = drop_distant(point, bound, before, n, o, normal, pair.reach - back)
    first, second = farthest_apart(point, n)
    round = tip.s.kind == CAPSULE or tip.s.kind == CYLINDER
    for m in range(wp.min(n, 2)):
        i = wp.where(m == 0, first, second)
        mine = feature(PLANE, vec3(), face_pin(mesh, base.s, face))
        k = -1 - wp.min(before[i], bound[i])
        yours = corner(wp.where(bound[i] == 0, pin_a, pin_b))
        if k >= 0:
            _p, inward, pin = side_plane(mesh, base.s, face, normal, k, sides)
            mine.edge = inward
            mine.pin = pin
            yours = feature(CUT, unit(b - a), real(0.5) * (pin_a + pin_b))
        if round:
            yours.kind = wp.where(k >= 0, SIDE_CUT, SIDE_END)
            yours.edge = unit(b - a)
        dist = wp.dot(point[i] - o, normal) + back
        noted = c.count[0, pair.slot]
        add_on_face(c, pair, origin, swapped, normal, dist, point[i] + back * normal, mine, yours)
        if c.count[0, pair.slot] > noted and noted < c.approach.shape[0]:
            near.halo = back
            c.approach[noted, pair.slot] = near


@wp.func
def edges_on_faces(
    c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, swapped: bool, base: Side, tip: Side, near: Approach
):
    """The first edge at what is touched of the tip that lies along a face at what is touched of the base, if any.

    Where a cylinder's cap is touched, MuJoCo takes any line on its side, which has nothing above the face.
    """
    searching = bool(True)
    for j in range(face_count(mesh, base)):
        face, normal = candidate_face(mesh, base, j)
        if face >= 0 and wp.dot(normal, base.n) > TURNED:
            for e in range(edge_count(mesh, tip)):
                if searching:
                    a, b, _pin_a, _pin_b = candidate_edge(mesh, tip, e, pair.reach)
                    if wp.abs(wp.dot(unit(b - a), normal)) < PARALLEL_EDGE:
                        searching = False
                        if not (tip.s.kind == CYLINDER and tip.core.kind == PLANE):
                            edge_on_face(c, pair, mesh, origin, swapped, base, face, normal, tip, e, near)
    return not searching


@wp.func
def faces_on_faces(c: Contacts, pair: Pair, mesh: Mesh, origin: vec3, side1: Side, side2: Side):
    """The two faces that are most nearly parallel."""
    face1 = int(-1)
    face2 = int(-1)
    normal1 = vec3()
    normal2 = vec3()
    least = -PARALLEL_FACES
    for i in range(face_count(mesh, side1)):
        f1, n1 = candidate_face(mesh, side1, i)
        if f1 >= 0 and wp.dot(n1, side1.n) > PARALLEL_EDGE:
            for j in range(face_count(mesh, side2)):
                f2, n2 = candidate_face(mesh, side2, j)
                if f2 >= 0 and wp.dot(n2, side2.n) > PARALLEL_EDGE and wp.dot(n1, n2) < least:
                    least = wp.dot(n1, n2)
                    face1 = f1
                    face2 = f2
                    normal1 = n1
                    normal2 = n2
    if face1 >= 0:
        face_on_face(c, pair, mesh, origin, side1.s, face1, normal1, side2.s, face2, normal2)
    return face1 >= 0


@wp.func
def may_be_flat(s: Shape):
    return s.kind != SPHERE and s.kind != ELLIPSOID_SHAPE


@wp.func
def convex_pair(c: Contacts, pair: Pair, shapes: Shapes, s1: Shape, s2: Shape):
    """The contacts of two convex shapes: where faces and edges make none, there is one where they are nearest."""
    mesh = shapes.mesh
    origin = s1.x
    s1.x = vec3()
    s2.x -= origin
    best, in_reach = nearest(mesh, s1, s2, pair.reach)
    near = approach_of(origin, s1, s2, best)
    if in_reach and near.dist < pair.reach:
        before = c.count[0, pair.slot]
        if shapes.one_contact == 0 and may_be_flat(s1) and may_be_flat(s2):
            side1 = side_of(s1, best.n, best.core1)
            side2 = side_of(s2, -best.n, best.core2)
            if not faces_on_faces(c, pair, mesh, origin, side1, side2):
                dim1 = dimension(side1)
                dim2 = dimension(side2)
                swapped = not ((dim2 < dim1 or not has_faces(side2)) and dim2 != 3 and has_faces(side1))
                found = bool(False)
                for _ in range(2):
                    if not found:
                        base = side1
                        tip = side2
                        if swapped:
                            base = side2
                            tip = side1
                        found = edges_on_faces(c, pair, mesh, origin, swapped, base, tip, near)
                        swapped = not swapped
        if c.count[0, pair.slot] == before:
            add_contact(c, pair, near.dist, near.pos, near.normal, 0, near.feature1, near.feature2)
