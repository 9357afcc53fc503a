"""How far two convex shapes are apart, and what of them is nearest: any pair that has no closed answer of its own.

The signed distance of two convex shapes is the largest *gap* over all directions n,

    gap(n) = min {x·n: x in shape 2} - max {x·n: x in shape 1},

if they are apart (then it is concave, and has one maximum) and if they overlap (then it has several). It is found in
two steps. First roughly: by GJK if the shapes are apart, else by EPA; both work with points of the *difference*, the
set of all x1 - x2, whose distance from the origin is sought. Then exactly: whatever features either shape shows near
the rough direction are paired, and each pair's own direction is computed, in closed form or by Newton's method. No
pair's direction can have too large a gap, so the one with the largest gap is right, and the features come with it.

Shapes here are cores without their radius (``support``), in world axes, relative to the centre of shape 1. Nothing is
kept from one step to the next. Where several directions are equally good, as for concentric shapes, the answer is one
of them, always the same.

Functions that are large and called in several places are kept from being inlined: a CUDA compiler would take minutes.
"""

import warp as wp

from .scalar import real, vec3
from .shapes import CYLINDER, LINE, PLANE, Mesh, feature, inflation
from .support import (
    SLIVER,
    Convex,
    Core,
    core_radius,
    feature_count,
    feature_near,
    is_curved,
    is_round,
    support,
    touch,
)

Simplex = wp.types.matrix((4, 3), real)

SINGLE = real is wp.float32

# GJK: ends when the distance is known this well, relative to the points of the difference that it has seen. The
# direction is known by the square root of this.
ROUGH = wp.constant(real(1e-5 if SINGLE else 1e-10))
# Less distance than this, likewise relative, has no certain direction: such shapes are taken as overlapping.
TOUCHING = wp.constant(real(1e-4 if SINGLE else 1e-8))
# A tetrahedron of less volume (squared), relative to its edges, is flat.
FLAT = wp.constant(real(1e-12 if SINGLE else 1e-26))
GJK_ROUNDS = wp.constant(60)

# EPA: ends when the depth is known this well, relative to the width of the difference: between polytopes, which it
# describes completely in the end, and if there is a curved shape, when it need only tell one hollow from another.
EXACT = wp.constant(real(1e-5 if SINGLE else 1e-9))
COARSE = wp.constant(real(3e-4))
# A point that is no higher than this above a face, likewise relative, lies in its plane.
FLUSH = wp.constant(real(2e-6 if SINGLE else 1e-10))
# Rounding of a gap, likewise relative.
NOISE = wp.constant(real(4e-7 if SINGLE else 1e-15))
CORNERS = wp.constant(64)
FACES = wp.constant(124)
EDGES = wp.constant(64)
# How far shapes are taken apart to look at where they touch, likewise relative, and how straight this is (1 - cosine).
APART = wp.constant(real(1e-2))
STRAIGHT = wp.constant(real(1e-4 if SINGLE else 1e-10))
# Two directions with a greater cosine lead to the same hollow.
SAME = wp.constant(real(0.9999))

# Newton's method: ends after a step smaller than this [rad]; larger ones than the second must not make things worse.
LAST_STEP = wp.constant(real(1e-6 if SINGLE else 1e-11))
SURE_STEP = wp.constant(real(2e-3 if SINGLE else 1e-6))
NEWTON_ROUNDS = wp.constant(40)

# Sine of the error that a rough direction can have: by GJK, or if EPA has described a polytope; and else.
SURE = wp.constant(real(3e-2 if SINGLE else 1e-3))
NEAR = wp.constant(real(0.1))

# Rounds of pairing features, and by how much directions are tilted in between: no more than rounding demands.
PAIRINGS = wp.constant(4)
TILT = wp.constant(real(1e-4 if SINGLE else 1e-7))

# Sine (squared) of the angle below which lines are parallel.
PARALLEL = wp.constant(real(1e-10 if SINGLE else 1e-20))


# How far from the mark, in units of rounding, the features of a pair may be that is taken as settled.
SLACK = wp.constant(real(300.0 if SINGLE else 1e5))
UNKNOWN = wp.constant(real(-1e30))


@wp.struct
class Touch:
    """The best direction found so far, what it is good for, and the features it belongs to."""

    gap: real
    score: real  # the gap, less a penalty if the features are not certain
    n: vec3
    core1: Core
    core2: Core


@wp.func
def unit(v: vec3):
    return v / wp.sqrt(wp.dot(v, v))


@wp.func
def across(n: vec3):
    """Some vector orthogonal to the unit vector n."""
    u = vec3(real(0.0), -n[2], n[1])
    if wp.abs(n[0]) > real(0.6):
        u = vec3(n[2], real(0.0), -n[0])
    return u


@wp.func(inline=False)
def extremes(mesh: Mesh, s1: Convex, s2: Convex, n1: vec3, n2: vec3, vertex1: int, vertex2: int):
    """Points of shape 1 farthest along n1 and of shape 2 farthest along n2: their difference, and their corners."""
    p1, v1 = support(mesh, s1, n1, vertex1)
    p2, v2 = support(mesh, s2, n2, vertex2)
    return p1 - p2, v1, v2


@wp.func
def difference(mesh: Mesh, s1: Convex, s2: Convex, n: vec3, vertex1: int, vertex2: int):
    """Point of the difference farthest along n; the gap is minus its height."""
    return extremes(mesh, s1, s2, n, -n, vertex1, vertex2)


# --- shapes apart: GJK -------------------------------------------------------------------------------


@wp.func
def nearest_on_segment(a: vec3, b: vec3):
    """Weight of b in the point of a segment nearest to the origin."""
    ab = b - a
    length2 = wp.dot(ab, ab)
    t = real(0.0)
    if length2 > real(0.0):
        t = wp.clamp(-wp.dot(a, ab) / length2, real(0.0), real(1.0))
    return t


@wp.func
def nearest_on_triangle(a: vec3, b: vec3, c: vec3):
    """Weights of the corners in the point of a triangle nearest to the origin. Corners may coincide."""
    ab = b - a
    ac = c - a
    normal = wp.cross(ab, ac)
    weights = vec3(
        wp.dot(wp.cross(b, c), normal),
        wp.dot(wp.cross(c, a), normal),
        wp.dot(wp.cross(a, b), normal),
    )
    solid = wp.dot(normal, normal) > SLIVER * wp.dot(ab, ab) * wp.dot(ac, ac)
    if solid and wp.min(weights) >= real(0.0):
        weights = weights / (weights[0] + weights[1] + weights[2])
    else:
        t = nearest_on_segment(a, b)
        weights = vec3(real(1.0) - t, t, real(0.0))
        p = a + t * (b - a)
        least = wp.dot(p, p)
        t = nearest_on_segment(b, c)
        p = b + t * (c - b)
        if wp.dot(p, p) < least:
            weights = vec3(real(0.0), real(1.0) - t, t)
            least = wp.dot(p, p)
        t = nearest_on_segment(c, a)
        p = c + t * (a - c)
        if wp.dot(p, p) < least:
            weights = vec3(t, real(0.0), real(1.0) - t)
    return weights


@wp.func
def encloses(a: vec3, b: vec3, c: vec3, d: vec3):
    """Whether the origin lies in a tetrahedron; in a flat one it does not."""
    ab = b - a
    ac = c - a
    ad = d - a
    volume = wp.dot(wp.cross(ab, ac), ad)
    va = wp.dot(wp.cross(b, c), d) * volume
    vb = -wp.dot(wp.cross(c, d), a) * volume
    vc = wp.dot(wp.cross(d, a), b) * volume
    vd = -wp.dot(wp.cross(a, b), c) * volume
    solid = volume * volume > FLAT * wp.dot(ab, ab) * wp.dot(ac, ac) * wp.dot(ad, ad)
    return solid and wp.min(wp.min(va, vb), wp.min(vc, vd)) > real(0.0)


@wp.func(inline=False)
def gjk(mesh: Mesh, s1: Convex, s2: Convex, start: vec3, out_of_reach: real):
    """Direction of the gap between two shapes, roughly; 1 if they are apart, 0 if not, -1 if farther than that; and the
    largest distance between points of them that has come up."""
    n = start
    vertex1 = int(s1.first)
    vertex2 = int(s2.first)
    y0, vertex1, vertex2 = difference(mesh, s1, s2, n, vertex1, vertex2)
    # The simplex: corners y[0] to y[count - 1].
    y = Simplex()
    y[0] = y0
    count = int(1)
    nearest = y0
    state = int(1)
    dist = wp.sqrt(wp.dot(nearest, nearest))
    gap = real(0.0)
    largest = real(dist)
    rounds = int(0)
    searching = bool(True)
    while searching:
        rounds += 1
        if dist <= TOUCHING * largest:
            state = 0
            searching = False
        else:
            n = -nearest / dist
            w, vertex1, vertex2 = difference(mesh, s1, s2, n, vertex1, vertex2)
            gap = -wp.dot(w, n)
            largest = wp.max(largest, wp.sqrt(wp.dot(w, w)))
            known = bool(False)
            for i in range(count):
                known = known or (y[i, 0] == w[0] and y[i, 1] == w[1] and y[i, 2] == w[2])
            if gap > out_of_reach:
                state = -1
                searching = False
            elif known or dist - gap <= ROUGH * largest or rounds >= GJK_ROUNDS:
                searching = False
            else:
                y[count] = w
                count += 1
                if count == 4 and encloses(y[0], y[1], y[2], y[3]):
                    state = 0
                    searching = False
                else:
                    # The nearest face, or the whole of what is no tetrahedron yet, without the corners not needed.
                    least = real(1e30)
                    keep = wp.vec3i()
                    weights = vec3()
                    faces = wp.where(count == 4, 4, 1)
                    for k in range(faces):
                        i0 = wp.where(k == 0, 0, count - 1)
                        i1 = wp.where(k == 1, 0, wp.min(1, count - 1))
                        i2 = wp.where(k == 2, 0, wp.min(2, count - 1))
                        wk = nearest_on_triangle(y[i0], y[i1], y[i2])
                        p = wk[0] * y[i0] + wk[1] * y[i1] + wk[2] * y[i2]
                        d2 = wp.dot(p, p)
                        if d2 < least:
                            least = d2
                            keep = wp.vec3i(i0, i1, i2)
                            weights = wk
                            nearest = p
                    old = y
                    count = 0
                    for k in range(3):
                        if weights[k] > real(0.0):
                            y[count] = old[keep[k]]
                            count += 1
                    now = wp.sqrt(least)
                    if now >= dist:
                        searching = False
                    dist = now
    if state > 0 and gap <= real(0.0):
        state = 0
    return n, state, largest


# --- the exact direction -----------------------------------------------------------------------------


@wp.func(inline=False)
def newton(s1: Convex, s2: Convex, core1: Core, core2: Core, start: vec3, edge: vec3, noise: real):
    """Direction of the largest gap between two features, of which one may be a line along ``edge``, else zero. Second,
    whether it was found: features that are not the ones touched need not have a largest gap.

    Minus the gap is a function F of n with gradient x1 - x2, where x are the points touched. On the sphere of
    directions its second derivative is that of F less F itself.
    """
    on_line = wp.dot(edge, edge) > real(0.0)
    settled = bool(False)
    n = unit(start - wp.dot(start, edge) * edge)
    trial = n
    step = vec3()
    size = real(0.0)
    worth = real(1e30)
    rounds = int(0)
    searching = bool(True)
    while searching:
        rounds += 1
        x1, H1 = touch(s1, core1, trial)
        x2, H2 = touch(s2, core2, -trial)
        slope = x1 - x2
        if on_line:
            slope -= wp.dot(slope, edge) * edge
        F = wp.dot(slope, trial)
        if size > SURE_STEP and F > worth:
            size = real(0.25) * size
            step = real(0.25) * step
        else:
            n = trial
            worth = F
            if rounds > 1 and size <= LAST_STEP:
                rest = slope - F * n
                settled = wp.dot(rest, rest) <= SLACK * SLACK * noise * noise
                searching = False
            t1 = wp.cross(n, edge)
            if not on_line:
                t1 = unit(across(n))
            t2 = wp.cross(n, t1)
            H = H1 + H2
            Ht1 = H * t1
            a11 = wp.dot(t1, Ht1) - F
            a12 = wp.dot(t2, Ht1)
            a22 = wp.dot(t2, H * t2) - F
            b1 = -wp.dot(slope, t1)
            b2 = -wp.dot(slope, t2)
            if on_line:
                a12 = real(0.0)
                a22 = a11
                b2 = real(0.0)
            # Where the second derivative is not positive, Newton's step would lead uphill: make it so.
            mean = real(0.5) * (a11 + a22)
            half = real(0.5) * (a11 - a22)
            spread = wp.sqrt(half * half + a12 * a12)
            least = mean - spread
            most = wp.max(wp.abs(mean) + spread, real(1e-30))
            if least < real(1e-9) * most:
                shift = wp.abs(least) - least + real(1e-3) * most
                a11 += shift
                a22 += shift
            det = a11 * a22 - a12 * a12
            step = ((a22 * b1 - a12 * b2) * t1 + (a11 * b2 - a12 * b1) * t2) / det
            size = wp.sqrt(wp.dot(step, step))
            if size > real(0.5):
                step = step * (real(0.5) / size)
                size = real(0.5)
        if rounds >= NEWTON_ROUNDS:
            searching = False
        trial = unit(n + step)
        if on_line:
            trial = unit(trial - wp.dot(trial, edge) * edge)
    return n, settled


@wp.func
def direction_of(s1: Convex, s2: Convex, core1: Core, core2: Core, start: vec3, noise: real):
    """Direction of the largest gap between two features, near another one, and whether it was found."""
    n = start
    settled = bool(True)
    e1 = core1.edge
    e2 = core2.edge
    if core1.kind == PLANE:
        n = e1
    elif core2.kind == PLANE:
        n = -e2
    elif core1.kind == LINE and core2.kind == LINE:
        n = wp.cross(e1, e2)
        size2 = wp.dot(n, n)
        if size2 <= PARALLEL:
            n = core2.p - core1.p
            n -= wp.dot(n, e1) * e1
            size2 = wp.dot(n, n)
            if size2 == real(0.0):
                n = start - wp.dot(start, e1) * e1
                size2 = wp.dot(n, n)
        n = n / wp.sqrt(size2)
        if wp.dot(n, start) < real(0.0):
            n = -n
    else:
        edge = vec3()
        if core1.kind == LINE:
            edge = e1
        elif core2.kind == LINE:
            edge = e2
        n, settled = newton(s1, s2, core1, core2, start, edge, noise)
    return n, settled


@wp.func
def are_parallel(core1: Core, core2: Core):
    """Whether two features are parallel lines."""
    u = wp.cross(core1.edge, core2.edge)
    return core1.kind == LINE and core2.kind == LINE and wp.dot(u, u) <= PARALLEL


@wp.func
def nearest_of_lines(core1: Core, core2: Core):
    """Point of line 1 nearest to line 2; if they are parallel, the middle of where the edges are side by side."""
    r = core2.p - core1.p
    along = wp.dot(r, core1.edge)
    t = real(0.0)
    if are_parallel(core1, core2):
        begin = wp.max(-core1.half, along - core2.half)
        t = real(0.5) * (begin + wp.min(core1.half, along + core2.half))
    else:
        u = wp.cross(core1.edge, core2.edge)
        t = (along - wp.dot(core1.edge, core2.edge) * wp.dot(r, core2.edge)) / wp.dot(u, u)
    return core1.p + t * core1.edge


@wp.func
def place(s1: Convex, s2: Convex, t: Touch):
    """The point half-way between both surfaces. Where one feature does not single out a point, the other one's does."""
    radius1 = core_radius(s1)
    radius2 = core_radius(s2)
    half = real(0.5) * (t.gap - radius1 - radius2)
    p1, _H1 = touch(s1, t.core1, t.n)
    p2, _H2 = touch(s2, t.core2, -t.n)
    pos = vec3()
    if is_round(t.core1.kind) and is_round(t.core2.kind):
        pos = real(0.5) * (p1 + p2 + (radius1 - radius2) * t.n)
    elif is_round(t.core1.kind):
        pos = p1 + (radius1 + half) * t.n
    elif is_round(t.core2.kind):
        pos = p2 - (radius2 + half) * t.n
    else:
        p1 = nearest_of_lines(t.core1, t.core2)
        pos = p1 + (inflation(s1.kind, feature(LINE, vec3(), vec3()), s1.size) + half) * t.n
    return pos


@wp.func
def own_gap(s1: Convex, s2: Convex, core1: Core, core2: Core, n: vec3):
    """Gap of two features. It is that of their shapes if they are what these show in this direction, else larger."""
    p1, _H1 = touch(s1, core1, n)
    p2, _H2 = touch(s2, core2, -n)
    gap = wp.dot(p2 - p1, n)
    if s1.kind == CYLINDER and core1.kind == LINE:
        gap -= s1.size[0]
    if s2.kind == CYLINDER and core2.kind == LINE:
        gap -= s2.size[0]
    if core1.kind == PLANE or core2.kind == PLANE:
        gap = UNKNOWN
    return gap


@wp.func
def towards(s: Convex, point: vec3, n: vec3):
    """Unit vector across n that leads from a shape's centre to a point, or zero."""
    v = point - s.x
    v -= wp.dot(v, n) * n
    size2 = wp.dot(v, v)
    if size2 > real(0.0):
        v = v / wp.sqrt(size2)
    return v


@wp.func(inline=False)
def pair_features(mesh: Mesh, s1: Convex, s2: Convex, start: vec3, near: real, noise: real):
    """The largest gap near a direction, with the features that make it.

    A plane or a line may have been preferred for want of something better near by: it is touched outside of the face or
    edge that it is part of. To see that, features are sought once more, with the direction tilted a little towards the
    point touched, so that it shows the corner of the face, or the place on the rim, that is next to this point.
    """
    best = Touch()
    best.score = UNKNOWN
    best.n = start
    n1 = start
    n2 = -start
    from_n = start
    vertex1 = int(s1.first)
    vertex2 = int(s2.first)
    rounds = int(0)
    searching = bool(True)
    while searching:
        rounds += 1
        before = best.score
        _w, vertex1, vertex2 = extremes(mesh, s1, s2, n1, n2, vertex1, vertex2)
        count1 = feature_count(mesh, s1, vertex1)
        count2 = feature_count(mesh, s2, vertex2)
        for i in range(count1):
            core1 = feature_near(mesh, s1, n1, near, vertex1, i)
            # A plane has its direction, whatever the other's feature: that is found when the plane has won.
            partners = count2
            if core1.kind == PLANE:
                partners = 1
            elif core1.kind < 0:
                partners = 0
            for j in range(partners):
                core2 = feature_near(mesh, s2, n2, near, vertex2, j)
                if core2.kind >= 0 and (core2.kind != PLANE or i == 0):
                    n, settled = direction_of(s1, s2, core1, core2, from_n, noise)
                    w, _v1, _v2 = difference(mesh, s1, s2, n, vertex1, vertex2)
                    gap = -wp.dot(w, n)
                    # Features that are not the ones touched may have the right direction by chance, or because
                    # Newton's method gave up before it left it: let the right ones win.
                    score = gap
                    if not (settled and own_gap(s1, s2, core1, core2, n) - gap <= SLACK * noise):
                        score -= SLACK * noise
                    # One end of an edge that lies along another has the same gap as the edge itself.
                    if are_parallel(core1, core2):
                        score += SLACK * noise
                    if score > best.score + noise:
                        best.score = score
                        best.gap = gap
                        best.n = n
                        best.core1 = core1
                        best.core2 = core2
        if best.score > before:
            n1 = best.n
            n2 = -best.n
            _w2, vertex1, vertex2 = extremes(mesh, s1, s2, n1, n2, vertex1, vertex2)
            if best.core1.kind == PLANE:
                best.core2 = feature_near(mesh, s2, n2, near, vertex2, 0)
            elif best.core2.kind == PLANE:
                best.core1 = feature_near(mesh, s1, n1, near, vertex1, 0)
            pos = place(s1, s2, best)
            n1 += TILT * towards(s1, pos, best.n)
            n2 += TILT * towards(s2, pos, best.n)
            from_n = best.n
            if best.core1.kind == PLANE:
                from_n = n1
            elif best.core2.kind == PLANE:
                from_n = -n2
        searching = best.score > before + real(4.0) * noise and rounds < PAIRINGS
    return best


# --- shapes overlapping: EPA -------------------------------------------------------------------------


@wp.func
def face_plane(a: vec3, b: vec3, c: vec3):
    """Outward normal of a face of the polytope and its height; a face without an area has no normal, and is high up."""
    ab = b - a
    ac = c - a
    normal = wp.cross(ab, ac)
    size2 = wp.dot(normal, normal)
    height = real(1e30)
    if size2 > SLIVER * wp.dot(ab, ab) * wp.dot(ac, ac):
        normal = normal / wp.sqrt(size2)
        height = wp.dot(normal, a)
    return normal, height


@wp.func
def settle(mesh: Mesh, s1: Convex, s2: Convex, start: vec3, near: real, noise: real, width: real):
    """The largest gap near a direction, for shapes that overlap.

    If the shapes are taken apart along the direction found, by so much that they no longer overlap, GJK tells whether
    they touch where they should; if not, its direction has a larger gap.
    """
    best = pair_features(mesh, s1, s2, start, near, noise)
    rounds = int(0)
    searching = bool(not (is_round(best.core1.kind) and is_round(best.core2.kind)))
    while searching:
        rounds += 1
        s2.x += (APART * width - best.gap) * best.n
        n, _state, _largest = gjk(mesh, s1, s2, best.n, real(1e30))
        s2.x -= (APART * width - best.gap) * best.n
        searching = False
        if wp.dot(n, best.n) < real(1.0) - STRAIGHT:
            found = pair_features(mesh, s1, s2, n, near, noise)
            if found.score > best.score + real(4.0) * noise:
                best = found
                searching = rounds < 4
    return best


@wp.func
def overlap(mesh: Mesh, s1: Convex, s2: Convex, start: vec3):
    """The largest gap of shapes that overlap, or nearly touch.

    A polytope inside the difference is grown where it comes nearest to the origin. If its capacity does not suffice, or
    if a shape is curved, several of its faces may hide a larger gap than the largest one seen: all these are tried.
    The origin may lie outside of the polytope, by however much, since faces know their outside by their turn.
    """
    corner = wp.zeros(shape=CORNERS, dtype=vec3)
    face = wp.zeros(shape=FACES, dtype=wp.vec3i)
    normal = wp.zeros(shape=FACES, dtype=vec3)
    height = wp.zeros(shape=FACES, dtype=real)
    edge = wp.zeros(shape=EDGES, dtype=wp.vec2i)
    v1 = int(s1.first)
    v2 = int(s2.first)

    # A tetrahedron: two points far apart, one far from their line, one far from the plane of these.
    a, v1, v2 = difference(mesh, s1, s2, start, v1, v2)
    b, v1, v2 = difference(mesh, s1, s2, -start, v1, v2)
    ab = unit(b - a)
    u = unit(across(ab))
    c, v1, v2 = difference(mesh, s1, s2, u, v1, v2)
    other, v1, v2 = difference(mesh, s1, s2, -u, v1, v2)
    if wp.dot(other - a, u) < -wp.dot(c - a, u):
        c = other
    u = unit(wp.cross(ab, c - a))
    d, v1, v2 = difference(mesh, s1, s2, u, v1, v2)
    other, v1, v2 = difference(mesh, s1, s2, -u, v1, v2)
    if wp.dot(other - a, u) < -wp.dot(d - a, u):
        # Turn over: d is to lie above the triangle a b c.
        d = other
        other = a
        a = b
        b = other
    width = wp.sqrt(wp.max(wp.dot(b - a, b - a), wp.max(wp.dot(c - a, c - a), wp.dot(d - a, d - a))))
    corner[0] = a
    corner[1] = b
    corner[2] = c
    corner[3] = d
    corners = int(4)
    face[0] = wp.vec3i(0, 2, 1)
    face[1] = wp.vec3i(0, 1, 3)
    face[2] = wp.vec3i(1, 2, 3)
    face[3] = wp.vec3i(2, 0, 3)
    faces = int(4)
    for i in range(4):
        f = face[i]
        nf, hf = face_plane(corner[f[0]], corner[f[1]], corner[f[2]])
        normal[i] = nf
        height[i] = hf

    tolerance = EXACT * width
    near = SURE
    if is_curved(s1) or is_curved(s2):
        tolerance = COARSE * width
        near = NEAR
    noise = NOISE * width
    flush = FLUSH * width
    depth = real(1e30)
    n = start
    growing = bool(True)
    while growing:
        lowest = int(0)
        for i in range(1, faces):
            if height[i] < height[lowest]:
                lowest = i
        w, v1, v2 = difference(mesh, s1, s2, normal[lowest], v1, v2)
        top = wp.dot(w, normal[lowest])
        if top < depth:
            depth = top
            n = normal[lowest]
        if depth - height[lowest] <= tolerance or top - height[lowest] <= flush or corners == CORNERS:
            growing = False
        else:
            # Take off all faces that the new corner can see; what bounds them are the edges with no counterpart.
            corner[corners] = w
            kept = int(0)
            edges = int(0)
            for i in range(faces):
                f = face[i]
                if i == lowest or wp.dot(normal[i], w) > height[i] + flush:
                    for k in range(3):
                        e = wp.vec2i(f[k], f[(k + 1) % 3])
                        twin = int(-1)
                        for m in range(edges):
                            if edge[m][0] == e[1] and edge[m][1] == e[0]:
                                twin = m
                        if twin >= 0:
                            edges -= 1
                            edge[twin] = edge[edges]
                        elif edges < EDGES:
                            edge[edges] = e
                            edges += 1
                else:
                    face[kept] = f
                    normal[kept] = normal[i]
                    height[kept] = height[i]
                    kept += 1
            faces = kept
            for m in range(edges):
                if faces < FACES:
                    e = edge[m]
                    nf, hf = face_plane(corner[e[0]], corner[e[1]], w)
                    face[faces] = wp.vec3i(e[0], e[1], corners)
                    normal[faces] = nf
                    height[faces] = hf
                    faces += 1
            corners += 1

    best = settle(mesh, s1, s2, n, near, noise, width)
    for i in range(faces):
        if height[i] < -best.gap - real(100.0) * noise and wp.dot(normal[i], best.n) < SAME:
            found = settle(mesh, s1, s2, normal[i], near, noise, width)
            if found.score > best.score:
                best = found
    return best


# --- either ------------------------------------------------------------------------------------------


@wp.func
def nearest(mesh: Mesh, s1: Convex, s2: Convex, reach: real):
    """Where two shapes are nearest to each other, or overlap least, and whether they are in reach."""
    start = s2.x
    if wp.dot(start, start) > real(0.0):
        start = unit(start)
    else:
        start = vec3(real(0.0), real(0.0), real(1.0))
    best = Touch()
    n, state, width = gjk(mesh, s1, s2, start, reach + core_radius(s1) + core_radius(s2))
    if state > 0:
        best = pair_features(mesh, s1, s2, n, SURE, NOISE * width)
    elif state == 0:
        best = overlap(mesh, s1, s2, start)
    return best, state >= 0
