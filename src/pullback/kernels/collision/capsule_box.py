"""Where a capsule touches a box, and the adjoint of the places on its axis where it does. Functions as in ``narrow``.

Which contacts there are, and in which order, is what MuJoCo finds. A place on the capsule's axis is at + t axis, all in
the axes of the box; its end -1 is at t = -half, its end 1 at t = half. ``size`` is that of the box.
"""

import warp as wp

from ..spatial.algebra import axis_z, column, pack
from ..spatial.scalar import real, vec3
from .narrow import SAME_PLACE, add_ball, beyond, pinned, point_and_box
from .shapes import LINE, NEXT_PLACE, PLACE, SMALLEST_LENGTH, Contacts, Pair, Shape, corner, feature


@wp.func
def sign_of(bits: int, k: int):
    """±1 for bit k set or not."""
    return real(((bits >> k) & 1) * 2 - 1)


@wp.struct
class Place:
    """The place on the axis that is closest to the box, and what of the box it is closest to."""

    t: real
    end: int  # -1, 1: it is that end
    face: int  # axis of the face it is over, or -1
    edge: int  # axis of the edge it is closest to, or -1
    u: real  # place along this edge
    corner: int  # bits of the signs of this edge's or this corner's coordinates
    at_corner: bool


@wp.func(inline=False)
def nearest_place(at: vec3, axis: vec3, half: real, size: vec3):
    """Of the two ends, where they are over a face or inside, and of the places nearest to the edges."""
    best = real(-1.0)
    found = Place()
    found.face = -1
    found.edge = -1
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
            gap_m = wp.abs(p[m]) - size[m]
            if gap_m > real(0.0):
                outside += 1
                over = m
                square += gap_m * gap_m
        if outside <= 1 and (best < real(0.0) or square < best):
            best = square
            found.t = sign * half
            found.end = 2 * k - 1
            found.face = over
    for k in range(edges):
        j = k // 4
        lo = wp.where(j == 0, 1, 0)
        hi = wp.where(j == 2, 1, 2)
        bits = ((k & 1) << lo) + (((k >> 1) & 1) << hi)
        r = -at  # from the capsule's centre to that of the edge
        r[lo] += sign_of(bits, lo) * size[lo]
        r[hi] += sign_of(bits, hi) * size[hi]
        sine2 = axis[lo] * axis[lo] + axis[hi] * axis[hi]
        scale = half * size[j]
        if sine2 * scale * scale >= SMALLEST_LENGTH:  # not parallel
            tk = (axis[lo] * r[lo] + axis[hi] * r[hi]) / sine2
            uk = axis[j] * tk - r[j]
            tip = beyond(uk, size[j])
            if tip != 0:
                uk = real(tip) * size[j]
                tk = wp.dot(axis, r) + axis[j] * uk
            end_k = beyond(tk, half)
            if end_k != 0:
                tk = real(end_k) * half
                uk = axis[j] * tk - r[j]
                # MuJoCo takes it for a corner even if this leads back into the edge.
                again = beyond(uk, size[j])
                if again != 0:
                    tip = again
                    uk = real(tip) * size[j]
            r[j] += uk
            r -= tk * axis
            square = wp.dot(r, r)
            if best < real(0.0) or square < best - SMALLEST_LENGTH:
                best = square
                found.t = tk
                found.end = end_k
                found.edge = j
                found.u = uk
                found.at_corner = tip != 0
                found.corner = bits
                if tip > 0:
                    found.corner = bits + (1 << j)
    return found


@wp.func
def clearance(at: vec3, axis: vec3, size: vec3, from_place: Place):
    """Which way along the axis a second contact is, or zero, and how far it may go along each axis of the box."""
    axes = int(3)
    t = from_place.t
    edge = from_place.edge
    corner = from_place.corner
    heading = int(0)
    for k in range(axes):
        if axis[k] > real(0.0):
            heading += 1 << k
    go = real(0.0)
    clear = vec3()
    if edge < 0:
        if from_place.face >= 0:
            go = -real(from_place.end)
            p = at + t * axis
            for k in range(axes):
                if k != from_place.face:
                    clear[k] = size[k] - wp.sign(go * axis[k]) * p[k]
    elif from_place.at_corner:
        # Where the axis differs from the diagonal that ends in this corner: in one direction, or in all but one.
        odd = heading ^ corner
        if odd != 0 and odd != 7:
            go = real(1.0)
            if odd == 3 or odd == 5 or odd == 6:
                go = real(-1.0)
                odd = 7 - odd
            k = odd >> 1
            if axis[k] * axis[k] > real(0.5):  # along the edge
                clear[k] = real(2.0) * size[k]
            else:  # over the face
                go = -go
                clear = real(2.0) * size
                clear[k] = real(0.0)
    else:
        odd = (heading ^ corner) & (7 - (1 << edge))
        if odd == 1 or odd == 2 or odd == 4:  # over a face, not across the edge
            k = (edge + 1) % 3
            m = (edge + 2) % 3
            if wp.abs(axis[k]) <= wp.abs(axis[m]):
                k = m
            go = wp.where(((odd >> k) & 1) == 1, real(1.0), real(-1.0))
            clear[k] = real(2.0) * size[k]
            clear[edge] = size[edge] - wp.sign(go * axis[edge]) * from_place.u
    return go, clear


@wp.func
def next_place(axis: vec3, half: real, t: real, go: real, clear: vec3):
    """Where the axis, going on from t, ends or leaves the box behind; the axis of the box that decides this, or -1."""
    way = half - go * t
    cut = int(-1)
    axes = int(3)
    for k in range(axes):
        if clear[k] > real(0.0) and clear[k] < way * wp.abs(axis[k]):
            way = clear[k] / wp.abs(axis[k])
            cut = k
    return t + go * way, cut


@wp.func
def capsule_box(c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The point of the capsule's axis that is closest to the box, and, if the capsule lies along a face or an edge, one
    more: where the axis, going on from there, ends or leaves the box behind."""
    size = s2.size
    at = wp.transpose(s2.R) * (s1.x - s2.x)
    world_axis = axis_z(s1.R)
    axis = wp.transpose(s2.R) * world_axis
    half = s1.size[1]
    first = nearest_place(at, axis, half, size)
    go, clear = clearance(at, axis, size, first)

    contacts = wp.where(go == real(0.0), 1, 2)
    place = first.t
    stop = first.end
    cut = int(-1)
    for n in range(contacts):
        if n == 1:
            place, cut = next_place(axis, half, first.t, go, clear)
            stop = wp.where(cut < 0, int(go), 0)

        p = at + place * axis
        if cut >= 0 and wp.abs(wp.abs(p[cut]) - size[cut]) < SAME_PLACE * size[cut]:
            p[cut] = wp.sign(p[cut]) * size[cut]  # on the side plane, where rounding must not choose
        dist, direction, feature2 = point_and_box(p, s2)
        feature1 = corner(pinned(real(stop)))
        if stop == 0:
            feature1.kind = wp.where(n == 0, PLACE, NEXT_PLACE)
            if n == 0 and first.edge >= 0:
                # Unless the axis runs through the box, what it is closest to is what the place is closest to.
                pin = vec3(sign_of(first.corner, 0), sign_of(first.corner, 1), sign_of(first.corner, 2))
                q = wp.cw_mul(pin, size)
                q[first.edge] = first.u
                gap = p + dist * direction - q
                width = size[0] + size[1] + size[2]
                if dist > real(0.0) and wp.dot(gap, gap) < SAME_PLACE * SAME_PLACE * width * width:
                    feature1 = feature(LINE, world_axis, vec3())
                    feature2 = corner(pin)
                    if not first.at_corner:
                        pin[first.edge] = real(0.0)
                        feature2 = feature(LINE, column(s2.R, first.edge), pin)
        add_ball(c, pair, s1, s1.x + place * world_axis, dist, s2.R * direction, feature1, feature2)


@wp.func(inline=False)
def place_adjoint(s1: Shape, s2: Shape, pos: vec3, second: bool, t_bar: real):
    """From the cotangent of a PLACE or NEXT_PLACE along the axis to that of the capsule's motion (moment about pos;
    force), which is minus that of the box's, and those of both sizes."""
    at = wp.transpose(s2.R) * (s1.x - s2.x)
    world_axis = axis_z(s1.R)
    axis = wp.transpose(s2.R) * world_axis
    at_bar = vec3()
    axis_bar = vec3()
    size1_bar = vec3()
    size2_bar = vec3()
    first = nearest_place(at, axis, s1.size[1], s2.size)
    first_bar = t_bar
    if second:
        go, clear = clearance(at, axis, s2.size, first)
        t, k = next_place(axis, s1.size[1], first.t, go, clear)
        if k < 0:  # an end, should rounding have it so
            size1_bar[1] = go * t_bar
            first_bar = real(0.0)
        else:
            # first.t + go clear / |axis|, where clear is twice the size, or what is left of the way to a side plane.
            clear_bar = go * t_bar / wp.abs(axis[k])
            axis_bar[k] = (first.t - t) * t_bar / axis[k]
            if first.edge < 0 or (k == first.edge and not first.at_corner):
                side_bar = -wp.sign(go * axis[k]) * clear_bar
                size2_bar[k] = clear_bar
                at_bar[k] = side_bar
                axis_bar[k] += first.t * side_bar
                first_bar = real(0.0)
            else:
                size2_bar[k] = real(2.0) * clear_bar
    if first.end != 0:
        size1_bar[1] += real(first.end) * first_bar
    elif first.edge >= 0:
        # The place closest to an edge, across it, or to a corner: axis · r / axis², with r the way to it.
        across = axis
        if not first.at_corner:
            across[first.edge] = real(0.0)
        w = first_bar / wp.dot(across, across)
        for k in range(3):
            sign = sign_of(first.corner, k)
            size2_bar[k] += w * across[k] * sign
            if first.at_corner or k != first.edge:
                axis_bar[k] += w * (sign * s2.size[k] - at[k] - real(2.0) * first.t * axis[k])
        at_bar -= w * across
    force = s2.R * at_bar
    moment = wp.cross(s1.x - pos, force) + wp.cross(world_axis, s2.R * axis_bar)
    return pack(moment, force), size1_bar, size2_bar
