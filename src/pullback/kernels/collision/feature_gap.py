"""The gap of two convex shapes exactly, from a rough direction, and the features of either that make it.

Whatever features the shapes show near the rough direction are paired, and each pair's own direction of the largest gap
is computed, in closed form or by Newton's method. No pair's direction can have too large a gap, so the one with the
largest gap is right, and the features come with it. Shapes are as in ``gjk``.
"""

import warp as wp

from ..spatial.algebra import unit
from ..spatial.scalar import mat33, real, vec3
from .gjk import SINGLE, across, difference, extremes
from .shapes import CYLINDER, LINE, PLANE, Mesh, Shape, inflation
from .support import Core, core_radius, feature_count, feature_near, is_round, touch

# Newton's method: ends after a step smaller than this [rad]; larger ones than the second must not make things worse,
# and none is larger than the third.
LAST_STEP = wp.constant(real(1e-6 if SINGLE else 1e-11))
SURE_STEP = wp.constant(real(2e-3 if SINGLE else 1e-6))
LONGEST_STEP = wp.constant(real(0.5))
NEWTON_ROUNDS = wp.constant(40)

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
def downhill_step(n: vec3, edge: vec3, on_line: bool, F: real, slope: vec3, H: mat33):
    """Newton's step from the direction n for a function F with this slope and second derivative, in the plane across n,
    or across ``edge`` in it."""
    t1 = wp.cross(n, edge)
    if not on_line:
        t1 = unit(across(n))
    t2 = wp.cross(n, t1)
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
    return ((a22 * b1 - a12 * b2) * t1 + (a11 * b2 - a12 * b1) * t2) / det


@wp.func(inline=False)
def newton(s1: Shape, s2: Shape, core1: Core, core2: Core, start: vec3, edge: vec3, noise: real):
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
            step = downhill_step(n, edge, on_line, F, slope, H1 + H2)
            size = wp.sqrt(wp.dot(step, step))
            if size > LONGEST_STEP:
                step = step * (LONGEST_STEP / size)
                size = LONGEST_STEP
        if rounds >= NEWTON_ROUNDS:
            searching = False
        trial = unit(n + step)
        if on_line:
            trial = unit(trial - wp.dot(trial, edge) * edge)
    return n, settled


@wp.func
def direction_of(s1: Shape, s2: Shape, core1: Core, core2: Core, start: vec3, noise: real):
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
def place(s1: Shape, s2: Shape, t: Touch):
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
        pos = p1 + (inflation(s1, LINE) + half) * t.n
    return pos


@wp.func
def own_gap(s1: Shape, s2: Shape, core1: Core, core2: Core, n: vec3):
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
def towards(s: Shape, point: vec3, n: vec3):
    """Unit vector across n that leads from a shape's centre to a point, or zero."""
    v = point - s.x
    v -= wp.dot(v, n) * n
    size2 = wp.dot(v, v)
    if size2 > real(0.0):
        v = v / wp.sqrt(size2)
    return v


@wp.func(inline=False)
def pair_features(mesh: Mesh, s1: Shape, s2: Shape, start: vec3, near: real, noise: real):
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
