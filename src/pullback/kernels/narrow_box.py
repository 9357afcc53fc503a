"""Where boxes touch capsules and other boxes. Functions as in ``narrow``.

Which contacts there are, and in which order, is what MuJoCo finds.
"""

import warp as wp

from .narrow import SMALLEST_LENGTH, axis_z, column, pinned, point_and_box
from .scalar import mat33, real, vec3
from .shapes import CUT, FACE, LINE, PLANE, POINT, Contacts, add_contact, feature

SINGLE = real is wp.float32

# What is meant to be one place, but was computed in two ways, differs by less than this share of a box's size.
SAME_PLACE = wp.constant(real(1e-5 if SINGLE else 1e-10))

# Two boxes: share of their sizes by which a separation is uncertain, sine (squared) below which edges count as
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

polygon = wp.types.matrix((8, 3), real)
tags = wp.types.vector(8, wp.int32)


@wp.func
def sign_of(bits: int, k: int):
    """±1 for bit k set or not."""
    return real(((bits >> k) & 1) * 2 - 1)


@wp.func
def beyond(x: real, limit: real):
    """±1 if x is beyond ±limit, else 0."""
    side = int(0)
    if x > limit:
        side = 1
    elif x < -limit:
        side = -1
    return side


# --- capsule and box -------------------------------------------------------------------------------


@wp.func
def capsule_box(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    """The point of the capsule's axis that is closest to the box, and, if the capsule lies along a face or an edge, one
    more: where the axis, going on from there, ends or leaves the box behind.

    All in the axes of the box. A place on the axis is at + t axis; its end -1 is at t = -half, its end 1 at t = half.
    """
    at = wp.transpose(R2) * (x1 - x2)
    world_axis = axis_z(R1)
    axis = wp.transpose(R2) * world_axis
    half = size1[1]
    radius = size1[0]

    # The closest place: of the two ends, where they are over a face or inside, and of the places nearest to the edges.
    best = real(-1.0)
    t = real(0.0)
    end = int(0)  # -1, 1: the closest place is that end
    face = int(-1)  # axis of the face it is over
    edge = int(-1)  # axis of the edge it is closest to
    u = real(0.0)  # place along this edge
    corner = int(0)  # bits of the signs of this edge's or this corner's coordinates
    at_corner = bool(False)
    ends = int(2)
    axes = int(3)
    edges = int(12)
    for k in range(ends):
        sign = real(2 * k - 1)
        p = at + sign * half * axis
        outside = int(0)
        over = int(-1)
        square = real(0.0)
        for m in range(axes):
            gap_m = wp.abs(p[m]) - size2[m]
            if gap_m > real(0.0):
                outside += 1
                over = m
                square += gap_m * gap_m
        if outside <= 1 and (best < real(0.0) or square < best):
            best = square
            t = sign * half
            end = 2 * k - 1
            face = over
    for k in range(edges):
        j = k // 4
        lo = wp.where(j == 0, 1, 0)
        hi = wp.where(j == 2, 1, 2)
        bits = ((k & 1) << lo) + (((k >> 1) & 1) << hi)
        r = -at  # from the capsule's centre to that of the edge
        r[lo] += sign_of(bits, lo) * size2[lo]
        r[hi] += sign_of(bits, hi) * size2[hi]
        sine2 = axis[lo] * axis[lo] + axis[hi] * axis[hi]
        scale = half * size2[j]
        if sine2 * scale * scale >= SMALLEST_LENGTH:  # not parallel
            tk = (axis[lo] * r[lo] + axis[hi] * r[hi]) / sine2
            uk = axis[j] * tk - r[j]
            tip = beyond(uk, size2[j])
            if tip != 0:
                uk = real(tip) * size2[j]
                tk = wp.dot(axis, r) + axis[j] * uk
            end_k = beyond(tk, half)
            if end_k != 0:
                tk = real(end_k) * half
                uk = axis[j] * tk - r[j]
                # MuJoCo takes it for a corner even if this leads back into the edge.
                again = beyond(uk, size2[j])
                if again != 0:
                    tip = again
                    uk = real(tip) * size2[j]
            r[j] += uk
            r -= tk * axis
            square = wp.dot(r, r)
            if best < real(0.0) or square < best - SMALLEST_LENGTH:
                best = square
                t = tk
                end = end_k
                edge = j
                u = uk
                at_corner = tip != 0
                corner = bits
                if tip > 0:
                    corner += 1 << j

    # Which way along the axis a second contact is, and how far it may go along each axis of the box at most.
    heading = int(0)
    for k in range(axes):
        if axis[k] > real(0.0):
            heading += 1 << k
    go = real(0.0)
    room = vec3()
    if edge < 0:
        if face >= 0:
            go = -real(end)
            p = at + t * axis
            for k in range(axes):
                if k != face:
                    room[k] = size2[k] - wp.sign(go * axis[k]) * p[k]
    elif at_corner:
        # Where the axis differs from the diagonal that ends in this corner: in one direction, or in all but one.
        odd = heading ^ corner
        if odd != 0 and odd != 7:
            go = real(1.0)
            if odd == 3 or odd == 5 or odd == 6:
                go = real(-1.0)
                odd = 7 - odd
            k = odd >> 1
            if axis[k] * axis[k] > real(0.5):  # along the edge
                room[k] = real(2.0) * size2[k]
            else:  # over the face
                go = -go
                room = real(2.0) * size2
                room[k] = real(0.0)
    else:
        odd = (heading ^ corner) & (7 - (1 << edge))
        if odd == 1 or odd == 2 or odd == 4:  # over a face, not across the edge
            k = (edge + 1) % 3
            m = (edge + 2) % 3
            if wp.abs(axis[k]) <= wp.abs(axis[m]):
                k = m
            go = wp.where(((odd >> k) & 1) == 1, real(1.0), real(-1.0))
            room[k] = real(2.0) * size2[k]
            room[edge] = size2[edge] - wp.sign(go * axis[edge]) * u

    contacts = wp.where(go == real(0.0), 1, 2)
    place = t
    cut = int(-1)
    stop = end
    for n in range(contacts):
        if n == 1:
            way = half - go * t
            stop = int(go)
            for k in range(axes):
                if room[k] > real(0.0) and room[k] < way * wp.abs(axis[k]):
                    way = room[k] / wp.abs(axis[k])
                    cut = k
                    stop = 0
            place = t + go * way

        p = at + place * axis
        if cut >= 0 and wp.abs(wp.abs(p[cut]) - size2[cut]) < SAME_PLACE * size2[cut]:
            p[cut] = wp.sign(p[cut]) * size2[cut]  # on the side plane, where rounding must not choose
        dist, direction, kind, pin, free = point_and_box(p, size2)
        feature1 = feature(POINT, vec3(), pinned(real(stop)))
        feature2 = feature(kind, vec3(), pin)
        if kind == LINE:
            feature2.edge = column(R2, free)
        if stop == 0:
            # Some place on the axis. Should none of the cases below apply, as when the axis runs through the box, it
            # is fixed to the capsule: how it slides along the axis is neglected.
            if n == 0 and edge >= 0:
                q = vec3()
                for k in range(axes):
                    q[k] = sign_of(corner, k) * size2[k]
                q[edge] = u
                gap = p + dist * direction - q
                width = size2[0] + size2[1] + size2[2]
                if dist > real(0.0) and wp.dot(gap, gap) < SAME_PLACE * SAME_PLACE * width * width:
                    feature1 = feature(LINE, world_axis, vec3())
                    for k in range(axes):
                        pin[k] = sign_of(corner, k)
                    feature2 = feature(POINT, vec3(), pin)
                    if not at_corner:
                        pin[edge] = real(0.0)
                        feature2 = feature(LINE, column(R2, edge), pin)
            elif n == 1 and kind == PLANE and pin[cut] == real(0.0):
                side = wp.sign(go * axis[cut])
                pin[cut] = side
                feature1 = feature(CUT, world_axis, vec3())
                feature2 = feature(PLANE, side * column(R2, cut), pin)

        normal = R2 * direction
        dist -= radius
        pos = x1 + place * world_axis + (radius + real(0.5) * dist) * normal
        add_contact(c, slot, pair, reach, dist, pos, normal, 0, feature1, feature2)


# --- two boxes -------------------------------------------------------------------------------------


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
def edge_edge(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, R2: mat33, size2: vec3,
    p: vec3, R: mat33, i: int, j: int,
):  # fmt: skip
    """Contact of edge i of box 1 and j of box 2: the nearest points of the two that lie farthest along their axis."""
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
                pin1 = s1
                pin2 = s2

    dist = wp.dot(w2 - w1, n)
    pos = x1 + R1 * (real(0.5) * (w1 + w2))
    add_contact(
        c, slot, pair, reach, dist, pos, R1 * n, 0,
        feature(LINE, column(R1, i), pin1), feature(LINE, column(R2, j), pin2),
    )  # fmt: skip


@wp.func
def clip(corner: polygon, edge: tags, n: int, axis: int, sign: real, limit: real, tag: int):
    """The part of a polygon on one side of a plane; what bounds it there is called ``tag``."""
    tolerance = SAME_PLACE * limit
    left = polygon()
    left_edge = tags()
    m = int(0)
    for k in range(n):
        after = (k + 1) % n
        d = sign * corner[k, axis] - limit
        d_after = sign * corner[after, axis] - limit
        # What rounding alone puts outside is inside: a corner stays a corner.
        inside = d <= tolerance
        inside_after = d_after <= tolerance
        if inside and m < 8:
            for i in range(3):
                left[m, i] = corner[k, i]
            left_edge[m] = edge[k]
            if d >= real(0.0) and not inside_after:
                left_edge[m] = tag
            m += 1
        if m < 8 and ((d < real(0.0) and not inside_after) or (not inside and d_after < real(0.0))):
            t = d / (d - d_after)
            for i in range(3):
                left[m, i] = corner[k, i] + t * (corner[after, i] - corner[k, i])
            left_edge[m] = wp.where(inside, tag, edge[k])
            m += 1
    return left, left_edge, m


@wp.func
def face_face(
    c: Contacts, slot: int, pair: int, reach: real,
    x: vec3, R: mat33, size: vec3, R_other: mat33, size_other: vec3,
    p: vec3, Q: mat33, a: int, swapped: bool,
):  # fmt: skip
    """Contacts of the face across axis a of a box at x and that face of another box which looks at it most.

    The other box is at p with the columns of Q as its axes, seen from the first, and is shape 2 unless swapped. Its
    face is clipped to the prism over the first one's. The corner k of what is left has three numbers (along the next
    two axes and the height over the face), and ``edge`` says what bounds it from there to the next corner: 0-3, an
    edge of the other box, or 4-7, a side plane of the first.
    """
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
    corner = polygon()
    edge = tags()
    n = int(4)
    for k in range(n):
        u = wp.where(k == 0 or k == 3, real(1.0), real(-1.0))
        v = wp.where(k < 2, real(1.0), real(-1.0))
        q = p + side_other * size_other[b] * column(Q, b)
        q += u * size_other[bu] * column(Q, bu) + v * size_other[bv] * column(Q, bv)
        corner[k, 0] = q[ax]
        corner[k, 1] = q[ay]
        corner[k, 2] = side * q[a] - size[a]
        edge[k] = k

    planes = int(4)
    for plane in range(planes):
        sign = real(1 - 2 * (plane % 2))
        limit = wp.where(plane < 2, size[ax], size[ay])
        corner, edge, n = clip(corner, edge, n, plane // 2, sign, limit, 4 + plane)

    normal = side * column(R, a)
    if swapped:
        normal = -normal
    same = SAME_CORNER * (size[ax] * size[ax] + size[ay] * size[ay])
    for k in range(n):
        fresh = corner[k, 2] <= reach
        for m in range(k):
            dx = corner[m, 0] - corner[k, 0]
            dy = corner[m, 1] - corner[k, 1]
            if dx * dx + dy * dy < same and corner[m, 2] <= reach:
                fresh = False
        if fresh:
            height = corner[k, 2]
            q = vec3()
            q[ax] = corner[k, 0]
            q[ay] = corner[k, 1]
            q[a] = side * (size[a] + real(0.5) * height)

            before = edge[(k + n - 1) % n]
            after = edge[k]
            mine = feature(PLANE, vec3(), side * axis_unit(a))
            yours = feature(FACE, side_other * column(R_other, b), side_other * axis_unit(b))
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
                    yours.edge = column(R_other, wp.where(e % 2 == 0, bu, bv))
                    yours.pin[wp.where(e % 2 == 0, bv, bu)] = wp.where(e == 0 or e == 3, real(1.0), real(-1.0))
            if before < 4 and after < 4:
                yours.kind = POINT
                yours.edge = vec3()
            elif before >= 4 and after >= 4:
                mine.edge = vec3()
            first = mine
            second = yours
            if swapped:
                first = yours
                second = mine
            add_contact(c, slot, pair, reach, height, x + R * q, normal, 0, first, second)


@wp.func
def box_box(
    c: Contacts, slot: int, pair: int, reach: real,
    x1: vec3, R1: mat33, size1: vec3, x2: vec3, R2: mat33, size2: vec3,
):  # fmt: skip
    R = wp.transpose(R1) * R2
    p = wp.transpose(R1) * (x2 - x1)
    best = best_axis(p, R, size1, size2, reach)
    if best >= 6:
        edge_edge(c, slot, pair, reach, x1, R1, size1, R2, size2, p, R, (best - 6) // 3, (best - 6) % 3)
    elif best >= 0:
        swapped = best >= 3
        x = x1
        A = R1
        s = size1
        B = R2
        t = size2
        Q = R
        if swapped:
            x = x2
            A = R2
            s = size2
            B = R1
            t = size1
            Q = wp.transpose(R)
            p = wp.transpose(R2) * (x1 - x2)
        face_face(c, slot, pair, reach, x, A, s, B, t, p, Q, best % 3, swapped)
