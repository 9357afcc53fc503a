"""Where two boxes touch, and the adjoint of the ends of edges that do. Functions as in ``narrow``.

Which contacts there are, and in which order, is what MuJoCo finds.
"""

import warp as wp

from ..spatial.algebra import column, lin, pack
from ..spatial.scalar import mat33, real, vec3, vec6
from .features import quotient
from .narrow import SAME_PLACE, beyond
from .shapes import (
    CUT,
    EDGE_END,
    FACE,
    LINE,
    PLANE,
    POINT,
    SMALLEST_LENGTH,
    Contacts,
    Feature,
    Pair,
    Shape,
    add_contact,
    add_contact_of,
    feature,
)
from .support import clip

SINGLE = real is wp.float32

# Share of the boxes' sizes by which a separation is uncertain, sine (squared) below which edges count as
# parallel, component of an axis below which its sign is uncertain, distance (squared, as a share of the face) below
# which two corners are one.
SEPARATION = wp.constant(real(1e-6 if SINGLE else 1e-13))
PARALLEL_EDGES = wp.constant(real(1e-7 if SINGLE else 1e-16))
UNCERTAIN_SIGN = wp.constant(real(1e-5 if SINGLE else 1e-9))
SAME_CORNER = wp.constant(real(1e-10 if SINGLE else 1e-14))

# An edge axis must separate better than a face by this share to be taken at all, and by the larger one if it is nearly
# parallel to the face's normal: faces touch in several points, which holds them better.
EDGE_HANDICAP = wp.constant(real(1e-6))
EDGE_HANDICAP_NEAR_FACE = wp.constant(real(0.05))
NEAR_FACE = wp.constant(real(0.99))

MOST_CORNERS = wp.constant(8)


@wp.func
def edge_axis(R: mat33, i: int, j: int):
    """Axis i of box 1 × axis j of box 2, in the axes of box 1, where R has those of box 2 as columns. Not unit."""
    n = vec3()
    n[(i + 1) % 3] = -R[(i + 2) % 3, j]
    n[(i + 2) % 3] = R[(i + 1) % 3, j]
    return n


@wp.func
def half_width(n: vec3, size: vec3):
    return wp.abs(n[0]) * size[0] + wp.abs(n[1]) * size[1] + wp.abs(n[2]) * size[2]


@wp.func
def best_axis(p: vec3, R: mat33, size1: vec3, size2: vec3, reach: real):
    """The axis along which two boxes are farthest apart, or overlap least.

    Box 2 is at p with the columns of R as its axes. 0-2: a face of box 1, 3-5: of box 2, 6 + 3 i + j: edge i of box 1
    and j of box 2, -1: they are out of reach.
    """
    Rt = wp.transpose(R)
    p2 = Rt * p
    limit = reach + SEPARATION * (size1[0] + size1[1] + size1[2] + size2[0] + size2[1] + size2[2])
    best = int(-1)
    gap = real(0.0)
    apart = bool(False)
    sides = int(6)
    for k in range(sides):
        separation = real(0.0)
        if k < 3:
            separation = wp.abs(p[k]) - size1[k] - half_width(Rt * axis_unit(k), size2)
        else:
            separation = wp.abs(p2[k - 3]) - size2[k - 3] - half_width(column(R, k - 3), size1)
        apart = apart or separation > limit
        if best < 0 or separation > gap:
            best = k
            gap = separation
    face = best
    face_gap = gap

    edges = int(9)
    for k in range(edges):
        n = edge_axis(R, k // 3, k % 3)
        sine2 = wp.dot(n, n)
        if sine2 >= PARALLEL_EDGES:
            n = n / wp.sqrt(sine2)
            separation = wp.abs(wp.dot(n, p)) - half_width(n, size1) - half_width(Rt * n, size2)
            apart = apart or separation > limit
            if separation - EDGE_HANDICAP * wp.abs(separation) > gap and separation > face_gap:
                best = 6 + k
                gap = separation

    if best >= 6:
        n = edge_axis(R, (best - 6) // 3, (best - 6) % 3)
        cosine = real(0.0)
        if face < 3:
            cosine = n[face]
        else:
            cosine = wp.dot(n, column(R, face - 3))
        near = wp.abs(cosine) > NEAR_FACE * wp.sqrt(wp.dot(n, n))
        if near and gap < face_gap + EDGE_HANDICAP_NEAR_FACE * wp.abs(face_gap) + SMALLEST_LENGTH:
            best = face
    if apart:
        best = -1
    return best


@wp.func
def axis_unit(k: int):
    n = vec3()
    n[k] = real(1.0)
    return n


@wp.func
def edge_edge(c: Contacts, pair: Pair, box1: Shape, box2: Shape, p: vec3, R: mat33, i: int, j: int):
    """Contact of edge i of box 1 and j of box 2: the nearest points of the two that lie farthest along their axis."""
    size1 = box1.size
    size2 = box2.size
    n = edge_axis(R, i, j)
    n = n / wp.sqrt(wp.dot(n, n))
    if wp.dot(n, p) < real(0.0):
        n = -n
    n2 = wp.transpose(R) * n
    d = column(R, j)
    cosine = d[i]
    sine2 = real(1.0) - cosine * cosine

    # A component without a clear sign leaves it open which of two edges it is: try both.
    open1 = int(-1)
    open2 = int(-1)
    for k in range(2):
        if wp.abs(n[(i + 2 - k) % 3]) < UNCERTAIN_SIGN:
            open1 = (i + 2 - k) % 3
        if wp.abs(n2[(j + 2 - k) % 3]) < UNCERTAIN_SIGN:
            open2 = (j + 2 - k) % 3
    best = real(-1.0)
    w1 = vec3()
    w2 = vec3()
    pin1 = vec3()
    pin2 = vec3()
    tries = int(4)
    for k in range(tries):
        if (k < 2 or open1 >= 0) and (k % 2 == 0 or open2 >= 0):
            s1 = vec3()
            s2 = vec3()
            for m in range(3):
                s1[m] = wp.where(n[m] >= real(0.0), real(1.0), real(-1.0))
                s2[m] = wp.where(n2[m] >= real(0.0), real(-1.0), real(1.0))
            s1[i] = real(0.0)
            s2[j] = real(0.0)
            if k >= 2:
                s1[open1] = -s1[open1]
            if k % 2 == 1:
                s2[open2] = -s2[open2]
            q1 = wp.cw_mul(s1, size1)
            q2 = p + R * wp.cw_mul(s2, size2)
            r = q2 - q1
            r2 = wp.dot(d, r)
            s = real(0.0)
            if sine2 >= SMALLEST_LENGTH:
                s = wp.clamp((r[i] - cosine * r2) / sine2, -size1[i], size1[i])
            t = wp.clamp(cosine * s - r2, -size2[j], size2[j])
            s = wp.clamp(r[i] + cosine * t, -size1[i], size1[i])
            q1[i] = s
            q2 += t * d
            square = wp.dot(q2 - q1, q2 - q1)
            if best < real(0.0) or square < best:
                best = square
                w1 = q1
                w2 = q2
                s1[i] = real(beyond(s, (real(1.0) - SAME_PLACE) * size1[i]))
                s2[j] = real(beyond(t, (real(1.0) - SAME_PLACE) * size2[j]))
                pin1 = s1
                pin2 = s2

    dist = wp.dot(w2 - w1, n)
    pos = box1.x + box1.R * (real(0.5) * (w1 + w2))
    feature1 = feature(wp.where(pin1[i] == real(0.0), LINE, EDGE_END), column(box1.R, i), pin1)
    feature2 = feature(wp.where(pin2[j] == real(0.0), LINE, EDGE_END), column(box2.R, j), pin2)
    add_contact(c, pair, dist, pos, box1.R * n, 0, feature1, feature2)


@wp.func(inline=False)
def edge_end_adjoint(
    s1: Shape, f1: Feature, s2: Shape, f2: Feature,
    pos: vec3, normal: vec3, dist: real, pos_bar: vec3, dist_bar: real,
):  # fmt: skip
    """From the cotangent of the position of a contact with an EDGE_END to those of both motions (moment about pos;
    force) and sizes. The distance is that of the lines where they are closest, not at pos: its moment is here too.

    An end is fixed to its box. The point of the other edge is the one closest to it, or an end as well.
    """
    half = real(0.5)
    total = pack(vec3(), pos_bar)
    w = s2.x + s2.R * wp.cw_mul(f2.pin, s2.size)
    share2 = vec6()
    if f2.kind == EDGE_END:
        force = half * pos_bar
        if f1.kind == LINE:
            force += half * wp.dot(f1.edge, pos_bar) * f1.edge
        share2 = pack(wp.cross(w - pos, force), force)
    else:
        w = real(2.0) * pos - s1.x - s1.R * wp.cw_mul(f1.pin, s1.size)
        force = half * (pos_bar + wp.dot(f2.edge, pos_bar) * f2.edge)
        share2 = total - pack(wp.cross(pos - w, force), force)
    share1 = total - share2

    # From pos, which is half-way between the two edges' points, to where the lines are closest.
    passing = w - pos - half * dist * normal
    side = wp.cross(normal, f1.edge)
    offset = passing - quotient(real(2.0) * wp.dot(passing, side), wp.dot(f2.edge, side), real(1.0)) * f2.edge
    turn = pack(dist_bar * wp.cross(offset, normal), vec3())
    size1_bar = wp.cw_mul(f1.pin, wp.transpose(s1.R) * lin(share1))
    size2_bar = wp.cw_mul(f2.pin, wp.transpose(s2.R) * lin(share2))
    return share1 - turn, share2 + turn, size1_bar, size2_bar


@wp.func
def face_face(c: Contacts, pair: Pair, box: Shape, other: Shape, p: vec3, Q: mat33, a: int, swapped: bool):
    """Contacts of the face across axis a of a box and that face of another box which looks at it most.

    The other box is at p with the columns of Q as its axes, seen from the first, and is shape 2 unless swapped. Its
    face is clipped to the prism over the first one's. The corner k of what is left has three numbers (along the next
    two axes and the height over the face), and ``edge`` says what bounds it from there to the next corner: 0-3, an
    edge of the other box, or 4-7, a side plane of the first.
    """
    R = box.R
    size = box.size
    ax = (a + 1) % 3
    ay = (a + 2) % 3
    side = wp.where(p[a] >= real(0.0), real(1.0), real(-1.0))
    b = int(0)
    for k in range(1, 3):
        if wp.abs(Q[a, k]) > wp.abs(Q[a, b]):
            b = k
    side_other = wp.where(side * Q[a, b] > real(0.0), real(-1.0), real(1.0))
    bu = (b + 1) % 3
    bv = (b + 2) % 3

    # Corners in turn: (+, +), (-, +), (-, -), (+, -) along axes bu and bv; edge k leads from corner k to the next.
    corner = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    edge = wp.zeros(shape=MOST_CORNERS, dtype=int)
    old = wp.zeros(shape=MOST_CORNERS, dtype=vec3)
    old_edge = wp.zeros(shape=MOST_CORNERS, dtype=int)
    n = int(4)
    for k in range(n):
        u = wp.where(k == 0 or k == 3, real(1.0), real(-1.0))
        v = wp.where(k < 2, real(1.0), real(-1.0))
        q = p + side_other * other.size[b] * column(Q, b)
        q += u * other.size[bu] * column(Q, bu) + v * other.size[bv] * column(Q, bv)
        corner[k] = vec3(q[ax], q[ay], side * q[a] - size[a])
        edge[k] = k

    planes = int(4)
    for plane in range(planes):
        limit = wp.where(plane < 2, size[ax], size[ay])
        out = real(1 - 2 * (plane % 2)) * axis_unit(plane // 2)
        n = clip(corner, edge, old, old_edge, n, limit * out, out, SAME_PLACE * limit, 4 + plane)

    same = SAME_CORNER * (size[ax] * size[ax] + size[ay] * size[ay])
    for k in range(n):
        here = corner[k]
        height = here[2]
        fresh = height <= pair.reach
        for m in range(k):
            r = corner[m] - here
            if r[0] * r[0] + r[1] * r[1] < same and corner[m][2] <= pair.reach:
                fresh = False
        if fresh:
            q = vec3()
            q[ax] = here[0]
            q[ay] = here[1]
            q[a] = side * (size[a] + real(0.5) * height)

            before = edge[(k + n - 1) % n]
            after = edge[k]
            mine = feature(PLANE, vec3(), side * axis_unit(a))
            yours = feature(FACE, side_other * column(other.R, b), side_other * axis_unit(b))
            # The edges and side planes that meet here.
            for m in range(2):
                e = wp.where(m == 0, before, after)
                if e >= 4:
                    across = wp.where(e < 6, ax, ay)
                    sign = real(1 - 2 * (e % 2))
                    mine.pin[across] = sign
                    mine.edge = sign * column(R, across)
                else:
                    yours.kind = CUT
                    yours.edge = column(other.R, wp.where(e % 2 == 0, bu, bv))
                    yours.pin[wp.where(e % 2 == 0, bv, bu)] = wp.where(e == 0 or e == 3, real(1.0), real(-1.0))
            if before < 4 and after < 4:
                yours.kind = POINT
                yours.edge = vec3()
            elif before >= 4 and after >= 4:
                mine.edge = vec3()
            add_contact_of(c, pair, swapped, height, box.x + R * q, side * column(R, a), mine, yours)


@wp.func
def box_box(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    R = wp.transpose(s1.R) * s2.R
    p = wp.transpose(s1.R) * (s2.x - s1.x)
    best = best_axis(p, R, s1.size, s2.size, pair.reach)
    if best >= 6:
        edge_edge(c, pair, s1, s2, p, R, (best - 6) // 3, (best - 6) % 3)
    elif best >= 0:
        swapped = best >= 3
        box = s1
        other = s2
        if swapped:
            box = s2
            other = s1
            R = wp.transpose(R)
            p = wp.transpose(s2.R) * (s1.x - s2.x)
        face_face(c, pair, box, other, p, R, best % 3, swapped)
