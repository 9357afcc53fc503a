"""Flat faces and straight edges where two convex shapes touch, and the clipping of one by another.

Which faces and edges are candidates, the order of their corners, and how a polygon is clipped and pruned are MuJoCo's
(its option multiccd), so that contacts are the same and in the same order. A feature that is touched has a few faces: a
POINT all that meet there, a LINE the two along it, a PLANE itself; of a cylinder, the cap unless its side is touched.
"""

import warp as wp

from ..spatial.algebra import axis_z, column, unit
from ..spatial.scalar import real, vec3
from .shapes import BOX, CAPSULE, CYLINDER, LINE, MESH, PLANE, POINT, Mesh, Shape
from .support import Core, face_ahead

vec16 = wp.types.vector(16, real)
vec6i = wp.types.vector(6, int)

# Corners of a polygon that is clipped. Of a face with more than half of it, some corners are taken in turn.
MOST_CORNERS = wp.constant(40)

# The cap of a cylinder has sixteen corners, rounded to fifteen digits as in MuJoCo: this decides which are farther out.
CAP_CORNERS = wp.constant(16)
_ARC = (1.0, 0.923879532511287, 0.707106781186548, 0.38268343236509, 0.0, -0.38268343236509, -0.707106781186547)
_COSINES = (*_ARC, -0.923879532511287)
_SINES = (0.0, 0.38268343236509, 0.707106781186547, _ARC[1], *_ARC[:4])
CAP_COSINES = wp.constant(vec16(*_COSINES, *(-x for x in _COSINES)))
CAP_SINES = wp.constant(vec16(*_SINES, *(-x for x in _SINES)))

# Corners of a box's faces +x -x +y -y +z -z, clockwise seen from outside: two bits each, set where the coordinate along
# the first and the second of the other two axes is positive.
BOX_CORNERS = wp.constant(vec6i(135, 45, 180, 30, 30, 75))

# What is not larger by this factor is as large: rounding shall not decide between corners.
GROWTH = wp.constant(real(1.0 + 1e-5 if real is wp.float32 else 1.0 + 1e-12))

# A corner is inside of a plane if it is no farther beyond it than this [m].
INSIDE = wp.constant(real(1e-7 if real is wp.float32 else 1e-15))


@wp.struct
class Side:
    """One of two shapes where they are nearest: its outward normal there, and what is touched of it."""

    s: Shape
    n: vec3
    core: Core


@wp.func
def side_of(s: Shape, n: vec3, core: Core):
    side = Side()
    side.s = s
    side.n = n
    side.core = core
    return side


@wp.func
def face_count(mesh: Mesh, side: Side):
    """How many faces ``candidate_face`` is to be asked for."""
    count = int(0)
    if side.s.kind == BOX:
        count = 3
    elif side.s.kind == CYLINDER:
        count = 1
    elif side.s.kind == MESH:
        count = mesh.first_face[side.core.vertex + 1] - mesh.first_face[side.core.vertex]
    return count


@wp.func
def candidate_face(mesh: Mesh, side: Side, k: int):
    """Face k of those at what is touched, -1 if there is none, and its outward normal."""
    s = side.s
    face = int(-1)
    normal = vec3()
    if s.kind == BOX:
        end = side.core.pin[k]
        if end != real(0.0):
            face = 2 * k + wp.where(end < real(0.0), 1, 0)
            normal = end * column(s.R, k)
    elif s.kind == CYLINDER:
        if side.core.kind != LINE:
            face = wp.where(side.core.pin[2] < real(0.0), 1, 0)
            normal = side.core.pin[2] * axis_z(s.R)
    elif s.kind == MESH:
        vertex = side.core.vertex
        i = mesh.face[mesh.first_face[vertex] + k]
        if side.core.kind == LINE:
            for m in range(mesh.first_corner[i], mesh.first_corner[i + 1]):
                if mesh.corner[m] == side.core.end:
                    face = i
        elif side.core.kind == PLANE:
            ahead, _normal = face_ahead(mesh, s, side.n, vertex)
            if ahead == i:
                face = i
        else:
            face = i
        normal = s.R * mesh.face_normal[i]
    return face, normal


@wp.func
def has_faces(side: Side):
    return side.s.kind == BOX or side.s.kind == MESH or (side.s.kind == CYLINDER and side.core.kind != LINE)


@wp.func
def dimension(side: Side):
    """How many points span what is touched, as MuJoCo's search sees it. Of a cylinder it knows the ends of the axis."""
    count = int(1)
    if side.s.kind != CAPSULE:
        if side.core.kind == LINE:
            count = 2
        elif side.core.kind == PLANE and side.s.kind != CYLINDER:
            count = 3
    return count


@wp.func
def corner_count(mesh: Mesh, s: Shape, face: int):
    count = int(4)
    if s.kind == CYLINDER:
        count = CAP_CORNERS
    elif s.kind == MESH:
        count = mesh.first_corner[face + 1] - mesh.first_corner[face]
    return count


@wp.func(inline=False)
def face_corner(mesh: Mesh, s: Shape, face: int, i: int):
    """Corner i of a face, counted clockwise seen from outside, and its pin."""
    p = vec3()
    pin = vec3()
    if s.kind == CYLINDER:
        end = real(1 - 2 * face)
        pin = vec3(CAP_COSINES[i], -end * CAP_SINES[i], end)
        p = wp.cw_mul(vec3(s.size[0], s.size[0], s.size[1]), pin)
    elif s.kind == BOX:
        a = face / 2
        bits = BOX_CORNERS[face] >> (2 * i)
        b = wp.where(a == 0, 1, 0)
        pin[a] = real(1 - 2 * (face % 2))
        pin[b] = real(2 * (bits & 1) - 1)
        pin[3 - a - b] = real((bits & 2) - 1)
        p = wp.cw_mul(s.size, pin)
    else:
        p = mesh.vertex[mesh.corner[mesh.first_corner[face + 1] - 1 - i]]
    return s.x + s.R * p, pin


@wp.func
def face_pin(mesh: Mesh, s: Shape, face: int):
    """What the pins of opposite corners of a face have in common."""
    _p, pin = face_corner(mesh, s, face, 0)
    _p2, pin2 = face_corner(mesh, s, face, corner_count(mesh, s, face) / 2)
    return real(0.5) * (pin + pin2)


@wp.func(inline=False)
def side_plane(mesh: Mesh, s: Shape, face: int, normal: vec3, k: int, count: int):
    """Side k of the prism over a face: a point of it, its inward normal and pin."""
    p, pin = face_corner(mesh, s, face, k)
    q, pin2 = face_corner(mesh, s, face, (k + 1) % count)
    return p, unit(wp.cross(q - p, normal)), real(0.5) * (pin + pin2)


# --- straight edges --------------------------------------------------------------------------------


@wp.func
def edge_count(mesh: Mesh, side: Side):
    """How many edges begin at what is touched: none at a face."""
    count = int(0)
    if side.s.kind == CAPSULE or side.s.kind == CYLINDER:
        count = 1
    elif side.core.kind == LINE:
        count = 1
    elif side.core.kind == POINT:
        count = 3
        if side.s.kind == MESH:
            count = face_count(mesh, side)
    return count


@wp.func
def halo(s: Shape, reach: real):
    """How far the line on the surface of a capsule is moved outwards, and its contacts back along the face's normal: as
    in MuJoCo, where the former is along the normal where shapes are nearest."""
    return wp.where(s.kind == CAPSULE, real(0.5) * reach, real(0.0))


@wp.func
def surface_arm(s: Shape, n: vec3, reach: real):
    """Across the axis of a capsule or a cylinder, from there to its surface where its normal is n."""
    axis = axis_z(s.R)
    across = n - wp.dot(n, axis) * axis
    length = wp.sqrt(wp.dot(across, across))
    arm = (s.size[0] + halo(s, reach)) * across
    if s.kind == CYLINDER and length > real(0.0):
        arm = (s.size[0] / length) * across
    return arm


@wp.func
def candidate_edge(mesh: Mesh, side: Side, k: int, reach: real):
    """Edge k of those at what is touched: its two ends and their pins.

    The edge of a capsule or a cylinder is the line on its surface, parallel to its axis, through what is touched.
    """
    s = side.s
    core = side.core
    a = vec3()
    b = vec3()
    pin_a = vec3()
    pin_b = vec3()
    if s.kind == CAPSULE or s.kind == CYLINDER:
        end = real(-1.0)
        if s.kind == CYLINDER and core.pin[2] >= real(0.0):
            end = real(1.0)
        pin_a[2] = end
        pin_b[2] = -end
        arm = surface_arm(s, side.n, reach)
        a = arm + (end * s.size[1]) * axis_z(s.R)
        b = arm - (end * s.size[1]) * axis_z(s.R)
    elif s.kind == BOX:
        pin_a = core.pin
        pin_b = core.pin
        if core.kind == LINE:
            for m in range(3):
                if core.pin[m] == real(0.0):
                    pin_a[m] = real(-1.0)
                    pin_b[m] = real(1.0)
        else:
            pin_b[k] = -pin_b[k]
        a = s.R * wp.cw_mul(s.size, pin_a)
        b = s.R * wp.cw_mul(s.size, pin_b)
    else:
        # Either end may be the one that was found first: the order is that of the corners.
        vertex = wp.min(core.vertex, core.end)
        end_vertex = wp.max(core.vertex, core.end)
        if core.kind != LINE:
            vertex = core.vertex
            # The corner before this one in the order of the face, as the file has it.
            face = mesh.face[mesh.first_face[core.vertex] + k]
            first = mesh.first_corner[face]
            last = mesh.first_corner[face + 1] - 1
            end_vertex = mesh.corner[last]
            for m in range(first + 1, last + 1):
                if mesh.corner[m] == core.vertex:
                    end_vertex = mesh.corner[m - 1]
        a = s.R * mesh.vertex[vertex]
        b = s.R * mesh.vertex[end_vertex]
    return s.x + a, s.x + b, pin_a, pin_b


# --- polygons --------------------------------------------------------------------------------------


@wp.func
def cut_off(
    point: wp.array(dtype=vec3), bound: wp.array(dtype=int), old: wp.array(dtype=vec3), old_bound: wp.array(dtype=int),
    n: int, o: vec3, inward: vec3, tag: int,
):  # fmt: skip
    """Takes off a polygon of n corners what lies beyond a plane through o; returns how many corners are left.

    ``bound`` says what bounds it from each corner to the next; the plane is called ``tag`` there. The polygon then
    begins with what was its second corner.
    """
    for i in range(n):
        old[i] = point[i]
        old_bound[i] = bound[i]
    most = point.shape[0]
    m = int(0)
    for i in range(n):
        after = wp.where(i + 1 < n, i + 1, 0)
        d = wp.dot(old[i] - o, inward)
        d_after = wp.dot(old[after] - o, inward)
        inside = d > -INSIDE
        inside_after = d_after > -INSIDE
        if inside != inside_after and m < most:
            point[m] = old[i] + (d / (d - d_after)) * (old[after] - old[i])
            bound[m] = wp.where(inside, tag, old_bound[i])
            m += 1
        if inside_after and m < most:
            point[m] = old[after]
            bound[m] = old_bound[after]
            m += 1
    return m


@wp.func
def drop_distant(
    point: wp.array(dtype=vec3), bound: wp.array(dtype=int), before: wp.array(dtype=int),
    n: int, o: vec3, normal: vec3, reach: real,
):  # fmt: skip
    """Leaves out corners higher above a plane than the reach; returns how many are left. ``before`` becomes what bounds
    the polygon on the way to each corner."""
    for i in range(n):
        before[i] = bound[wp.where(i > 0, i - 1, n - 1)]
    m = int(0)
    for i in range(n):
        if wp.dot(point[i] - o, normal) <= reach:
            point[m] = point[i]
            bound[m] = bound[i]
            before[m] = before[i]
            m += 1
    return m


@wp.func
def area(point: wp.array(dtype=vec3), a: int, b: int, c: int, d: int):
    """Twice that of a quadrilateral."""
    return wp.length(wp.cross(point[a] - point[c], point[b] - point[d]))


@wp.func
def spread_out(point: wp.array(dtype=vec3), n: int):
    """Numbers of four corners of a polygon, if it has more, that make a large quadrilateral, not always the largest.

    From each first corner the others are moved on for as long as the area grows.
    """
    keep = wp.vec4i(0, 1, 2, 3)
    if n > 4:
        b = int(1)
        c = int(2)
        d = int(3)
        largest = area(point, 0, 1, 2, 3)
        a = int(0)
        mover = int(2)  # the last corner; then, if that grew, the third and the second for as long as it grows
        while a < n:
            next_b = wp.where(mover == 0, (b + 1) % n, b)
            next_c = wp.where(mover == 1, (c + 1) % n, c)
            next_d = wp.where(mover == 2, (d + 1) % n, d)
            found = area(point, a, next_b, next_c, next_d)
            if found > GROWTH * largest:
                largest = found
                b = next_b
                c = next_c
                d = next_d
                mover = wp.where(mover == 2, 1, mover)
                keep = wp.vec4i(a, b, c, d)
            elif mover == 2:
                if b == a:
                    b = (b + 1) % n
                    if c == b:
                        c = (c + 1) % n
                        if d == c:
                            d = (d + 1) % n
                a += 1
            else:
                mover = (mover + 2) % 3
    return keep


@wp.func
def farthest_apart(point: wp.array(dtype=vec3), n: int):
    """Numbers of the two corners that are."""
    first = int(0)
    second = wp.min(n - 1, 1)
    if n > 2:
        most = real(0.0)
        for i in range(n):
            for j in range(i + 1, n):
                r = point[j] - point[i]
                if wp.dot(r, r) > GROWTH * most:
                    most = wp.dot(r, r)
                    first = i
                    second = j
    return first, second
