"""Convex shapes, as the general solver of ``convex_gap`` sees them: how far they reach in a direction, and which
features they show there.

A shape is its *core*, inflated by a radius: spheres and capsules are a point and a segment, all other shapes are their
own core. Everything is in world axes, with positions relative to shape 1 of the pair: differences of places far from
the world's origin would cost digits.

    n       unit vector, outward of the shape in question
    near    sine of the largest error that n may have: features of a polytope that could only be touched if n were
            farther off are not worth a try
    vertex  index of a mesh's corner; for other shapes carried along without meaning
"""

import warp as wp

from ..spatial.algebra import axis_z, column
from ..spatial.scalar import mat33, real, vec3
from .shapes import (
    BOX,
    CAPSULE,
    CIRCLE,
    CYLINDER,
    ELLIPSOID,
    ELLIPSOID_SHAPE,
    LINE,
    MESH,
    PLANE,
    POINT,
    SPHERE,
    Mesh,
    Shape,
    inflation,
)

# A hull with no more corners than this is searched through, a larger one is climbed along its edges.
SMALL_HULL = wp.constant(24)

# Three corners with a smaller sine (squared) than this are on a line: rounding would decide where they face.
SLIVER = wp.constant(real(1e-11 if real is wp.float32 else 1e-26))


@wp.struct
class Core:
    """A feature that may be touched: what ``shapes`` describes, with its place. Absent if its kind is negative."""

    kind: int
    p: vec3  # the point; centre of the circle or the ellipsoid; middle of the edge; any point of the plane
    edge: vec3  # unit: along the line, axis of the circle, outward normal of the plane
    half: real  # half the length of the edge, for a line
    pin: vec3
    vertex: int  # of a mesh: the corner, or one of the edge or face
    end: int  # and the corner at the other end of the edge


@wp.func
def core_radius(s: Shape):
    return inflation(s, POINT)


@wp.func
def is_curved(s: Shape):
    return s.kind == ELLIPSOID_SHAPE or s.kind == CYLINDER


@wp.func
def sign_of(x: real):
    """1 or -1: unlike wp.sign never 0."""
    return wp.where(x < real(0.0), real(-1.0), real(1.0))


@wp.func
def signs(d: vec3):
    return vec3(sign_of(d[0]), sign_of(d[1]), sign_of(d[2]))


@wp.func
def climb(mesh: Mesh, d: vec3, start: int):
    """Corner of a hull that lies farthest along d: on a convex hull who has no higher neighbour is highest."""
    best = int(start)
    top = wp.dot(mesh.vertex[best], d)
    climbing = bool(True)
    while climbing:
        here = best
        for k in range(mesh.first_neighbour[here], mesh.first_neighbour[here + 1]):
            i = mesh.neighbour[k]
            height = wp.dot(mesh.vertex[i], d)
            if height > top:
                top = height
                best = i
        climbing = best != here
    return best


@wp.func
def farthest_corner(mesh: Mesh, s: Shape, d: vec3, start: int):
    """Corner of a hull that lies farthest along d (in its frame), to be sought from corner ``start``."""
    best = int(start)
    if s.end - s.first <= SMALL_HULL:
        top = wp.dot(mesh.vertex[best], d)
        for i in range(s.first, s.end):
            height = wp.dot(mesh.vertex[i], d)
            if height > top:
                top = height
                best = i
    else:
        best = climb(mesh, d, start)
    return best


@wp.func
def support(mesh: Mesh, s: Shape, n: vec3, vertex: int):
    """Point of the core farthest along n, and the corner it is if the shape is a mesh."""
    d = wp.transpose(s.R) * n
    p = vec3()
    corner = vertex
    if s.kind == CAPSULE:
        p[2] = s.size[1] * sign_of(d[2])
    elif s.kind == ELLIPSOID_SHAPE:
        scaled = wp.cw_mul(s.size, d)
        p = wp.cw_mul(s.size, scaled) / wp.sqrt(wp.dot(scaled, scaled))
    elif s.kind == CYLINDER:
        across = wp.sqrt(d[0] * d[0] + d[1] * d[1])
        p[2] = s.size[1] * sign_of(d[2])
        if across > real(0.0):
            p[0] = s.size[0] * d[0] / across
            p[1] = s.size[0] * d[1] / across
    elif s.kind == BOX:
        p = wp.cw_mul(s.size, signs(d))
    elif s.kind == MESH:
        corner = farthest_corner(mesh, s, d, vertex)
        p = mesh.vertex[corner]
    return s.x + s.R * p, corner


# --- features ----------------------------------------------------------------------------------------


@wp.func
def absent():
    f = Core()
    f.kind = -1
    return f


@wp.func
def core(kind: int, s: Shape, local: vec3, edge: vec3, pin: vec3):
    f = Core()
    f.kind = kind
    f.p = s.x + s.R * local
    f.edge = edge
    f.pin = pin
    return f


@wp.func
def feature_count(mesh: Mesh, s: Shape, vertex: int):
    """How many features ``feature_near`` can tell of."""
    count = int(1)
    if s.kind == CAPSULE:
        count = 3
    elif s.kind == CYLINDER:
        count = 4
    elif s.kind == BOX:
        count = 10
    elif s.kind == MESH:
        count = 1 + 3 * (mesh.first_neighbour[vertex + 1] - mesh.first_neighbour[vertex])
    return count


@wp.func
def segment_feature(s: Shape, n: vec3, k: int):
    """Features of a capsule or a cylinder: the end ahead, the cap ahead, the side, the end behind."""
    axis = axis_z(s.R)
    end = sign_of(wp.dot(axis, n))
    kind = POINT
    if s.kind == CYLINDER:
        kind = CIRCLE
    if k == 2:
        kind = LINE
        end = real(0.0)
    elif k == 1:
        kind = PLANE
        axis = end * axis
    elif k == 3:
        end = -end
    pin = vec3(real(0.0), real(0.0), end)
    f = core(kind, s, s.size[1] * pin, axis, pin)
    f.half = s.size[1]
    return f


@wp.func
def box_feature(s: Shape, n: vec3, near: real, k: int):
    """Features of a box: the corner ahead, its three faces, its three edges, the corners at their other ends."""
    d = wp.transpose(s.R) * n
    pin = signs(d)
    role = (k + 2) / 3
    a = (k + 2) % 3
    kind = POINT
    edge = vec3()
    if role > 0:
        edge = column(s.R, a)
        aslant = d[a] * d[a]
        if role == 1:
            kind = PLANE
            edge = pin[a] * edge
            aslant = real(1.0) - aslant
            end = pin[a]
            pin = vec3()
            pin[a] = end
        elif role == 2:
            kind = LINE
            pin[a] = real(0.0)
        else:
            pin[a] = -pin[a]
        if aslant > near * near:
            kind = -1
    f = core(kind, s, wp.cw_mul(s.size, pin), edge, pin)
    f.half = s.size[a]
    return f


@wp.func
def mesh_feature(mesh: Mesh, s: Shape, n: vec3, near: real, vertex: int, k: int):
    """Features of a hull: the corner ahead, the faces and the edges that meet there, the corners at their other ends.

    Faces are read off the corners. The table of faces is not as exact: it joins what is nearly in one plane.
    """
    d = wp.transpose(s.R) * n
    here = mesh.vertex[vertex]
    f = core(POINT, s, here, vec3(), vec3())
    f.vertex = vertex
    if k > 0:
        first = mesh.first_neighbour[vertex]
        end = mesh.first_neighbour[vertex + 1]
        role = (k - 1) / (end - first)
        beyond = mesh.neighbour[first + (k - 1) % (end - first)]
        there = mesh.vertex[beyond]
        edge = there - here
        length2 = wp.dot(edge, edge)
        slope = wp.dot(edge, d)
        if slope * slope > near * near * length2:
            f = absent()
        elif role == 0:
            # The face to the left of this edge, seen from outside: turn a plane about it until no corner is above.
            normal = vec3()
            size2 = real(0.0)
            for j in range(first, end):
                other = mesh.vertex[mesh.neighbour[j]] - here
                if size2 == real(0.0) or wp.dot(normal, other) > real(0.0):
                    turned = wp.cross(edge, other)
                    turned2 = wp.dot(turned, turned)
                    if turned2 > SLIVER * length2 * wp.dot(other, other):
                        normal = turned
                        size2 = turned2
            slant = wp.cross(normal, d)
            if wp.dot(slant, slant) <= near * near * size2 and wp.dot(normal, d) > real(0.0):
                f = core(PLANE, s, here, s.R * normal / wp.sqrt(size2), vec3())
                f.vertex = vertex
            else:
                f = absent()
        elif role == 1:
            length = wp.sqrt(length2)
            f = core(LINE, s, real(0.5) * (here + there), s.R * edge / length, vec3())
            f.half = real(0.5) * length
            f.vertex = vertex
            f.end = beyond
        else:
            f = core(POINT, s, there, vec3(), vec3())
            f.vertex = beyond
    return f


@wp.func
def feature_near(mesh: Mesh, s: Shape, n: vec3, near: real, vertex: int, k: int):
    """Features that may be the one touched if n is nearly the normal there, by number.

    The first is what is touched if nothing is special about n: a POINT, a CIRCLE or an ELLIPSOID.
    """
    f = absent()
    if s.kind == SPHERE:
        f = core(POINT, s, vec3(), vec3(), vec3())
    elif s.kind == ELLIPSOID_SHAPE:
        f = core(ELLIPSOID, s, vec3(), vec3(), vec3())
    elif s.kind == CYLINDER:
        f = segment_feature(s, n, k)
    elif s.kind == CAPSULE:
        f = segment_feature(s, n, wp.where(k > 0, k + 1, k))
    elif s.kind == BOX:
        f = box_feature(s, n, near, k)
    elif s.kind == MESH:
        f = mesh_feature(mesh, s, n, near, vertex, k)
    return f


@wp.func
def is_round(kind: int):
    """Whether every direction singles out one point of this feature."""
    return kind == POINT or kind == CIRCLE or kind == ELLIPSOID


@wp.func
def touch(s: Shape, f: Core, n: vec3):
    """Point of a round feature farthest along n, and how it moves when n does: its derivative by n.

    On the rim of a cylinder that is undefined if n is the axis; then the point is the centre and the derivative zero.
    """
    p = f.p
    H = mat33()
    if f.kind == ELLIPSOID:
        An = s.spread * n
        reach = wp.sqrt(wp.dot(n, An))
        p += An / reach
        H = (s.spread - wp.outer(An, An) / (reach * reach)) / reach
    elif f.kind == CIRCLE:
        # This stays across the axis even if the axis is of unit length but for rounding and n next to it.
        across = wp.cross(f.edge, wp.cross(n, f.edge))
        length = wp.sqrt(wp.dot(across, across))
        if length > real(0.0):
            ahead = across / length
            aside = wp.cross(f.edge, ahead)
            p += s.size[0] * ahead
            H = wp.outer(aside, aside) * (s.size[0] / length)
    return p, H


# --- flat faces and straight edges ---------------------------------------------------------------------


@wp.func
def face_ahead(mesh: Mesh, s: Shape, n: vec3, vertex: int):
    """Number of that flat face of a shape at its farthest corner which looks along n most, or -1, and its normal."""
    d = wp.transpose(s.R) * n
    face = int(-1)
    normal = vec3()
    if s.kind == CYLINDER:
        face = wp.where(d[2] < real(0.0), 1, 0)
        normal[2] = sign_of(d[2])
    elif s.kind == BOX:
        a = int(0)
        for k in range(1, 3):
            if wp.abs(d[k]) > wp.abs(d[a]):
                a = k
        face = 2 * a + wp.where(d[a] < real(0.0), 1, 0)
        normal[a] = sign_of(d[a])
    elif s.kind == MESH:
        most = real(-2.0)
        for k in range(mesh.first_face[vertex], mesh.first_face[vertex + 1]):
            along = wp.dot(mesh.face_normal[mesh.face[k]], d)
            if along > most:
                most = along
                face = mesh.face[k]
                normal = mesh.face_normal[face]
    return face, s.R * normal


@wp.func
def clip(
    point: wp.array(dtype=vec3), bound: wp.array(dtype=int), old: wp.array(dtype=vec3), old_bound: wp.array(dtype=int),
    n: int, o: vec3, side: vec3, tolerance: real, tag: int,
):  # fmt: skip
    """Takes off a polygon of n corners what lies beyond a plane through o with the unit normal ``side``; returns how
    many are left. ``bound`` says what bounds it from each corner to the next; the plane is called ``tag`` there."""
    for i in range(n):
        old[i] = point[i]
        old_bound[i] = bound[i]
    most = point.shape[0]
    m = int(0)
    for i in range(n):
        after = (i + 1) % n
        d = wp.dot(old[i] - o, side)
        d_after = wp.dot(old[after] - o, side)
        # What rounding alone puts outside is inside: a corner stays a corner.
        inside = d <= tolerance
        inside_after = d_after <= tolerance
        if inside and m < most:
            point[m] = old[i]
            bound[m] = wp.where(d >= real(0.0) and not inside_after, tag, old_bound[i])
            m += 1
        if m < most and ((d < real(0.0) and not inside_after) or (not inside and d_after < real(0.0))):
            point[m] = old[i] + (d / (d - d_after)) * (old[after] - old[i])
            bound[m] = wp.where(inside, tag, old_bound[i])
            m += 1
    return m
