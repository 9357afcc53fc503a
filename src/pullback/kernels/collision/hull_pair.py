"""The contact potential of two rounded convex hulls, infinite where they touch and nowhere without a force (Ye, Wu, Pan
and Komura, 2026, generalised from triangles).

A hull is that of some points, inflated by a radius: one point is a sphere, two are a capsule, eight are a box. Over all
planes p = (n, d) between two hulls, with n not normalised,

    P = min  4 / (1 - |n|)  +  length Σ w_k / a_k        a_k = σ_k ((x_k - origin)·n + d) - r_k |n|

σ is 1 for the hull that the normal points to, "ahead", and -1 for the other, "behind"; the weights w of each hull add
up to one. The problem is strictly convex with one minimum, so P is smooth as long as the hulls are apart, and
differentiated there: with P_pp its Hessian by the plane, the Hessian by points is P_xx - P_xp P_pp⁻¹ P_px.

    letter  meaning
    ψ       length w / a², the force at a point over |n|
    κ       2 length w / a³
    m       |n|

Points are [point, slot], in world axes.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from .gjk import TOUCHING, Simplex, encloses, nearest_part

mat44 = wp.types.matrix((4, 4), real)
mat64 = wp.types.matrix((6, 4), real)
mat66 = wp.types.matrix((6, 6), real)

# The weight of the plane's own term: (√1 + √1)², as both hulls weigh one.
OWN_WEIGHT = wp.constant(real(4.0))
# Newton's method has converged, but for one more step, when its decrement squared is this small beside P.
DECREMENT = wp.constant(real(1e-9 if real is wp.float32 else 1e-16))
# Below this a full step is taken without a look at P, whose rounding would hide that it falls.
NEAR = wp.constant(real(1e-4 if real is wp.float32 else 1e-8))
# It must come at least this near.
ROUGHLY = wp.constant(real(1e-6 if real is wp.float32 else 1e-11))
PLANE_ROUNDS = wp.constant(100)
SEARCHES = wp.constant(60)
NORMAL_ROUNDS = wp.constant(200)
INFINITE = wp.constant(real(1e30))


@wp.struct
class HullPair:
    """Two hulls: where their points are, their radii [m], and the length scale of the potential [m]."""

    ahead: int
    ahead_end: int
    behind: int
    behind_end: int
    ahead_radius: real
    behind_radius: real
    length: real
    origin: vec3


@wp.struct
class HullForce:
    """Σ ψ and Σ ψ (x - origin) of one hull: the gradient of P by its points is -σ ψ n each."""

    total: real
    first: vec3


@wp.func
def normal_of(p: vec4):
    return vec3(p[0], p[1], p[2])


@wp.func
def extreme(points: wp.array2d(dtype=vec3), first: int, end: int, n: vec3, sign: real, slot: int):
    """The point farthest along sign · n."""
    best = points[first, slot]
    height = sign * wp.dot(best, n)
    for k in range(first + 1, end):
        x = points[k, slot]
        if sign * wp.dot(x, n) > height:
            height = sign * wp.dot(x, n)
            best = x
    return best


@wp.func
def gap_along(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, slot: int):
    """How far the hulls are apart along the unit vector n, negative where they overlap; and the offset d of the plane
    half-way between them."""
    low = wp.dot(extreme(points, h.ahead, h.ahead_end, n, real(-1.0), slot) - h.origin, n) - h.ahead_radius
    high = wp.dot(extreme(points, h.behind, h.behind_end, n, real(1.0), slot) - h.origin, n) + h.behind_radius
    return low - high, real(-0.5) * (low + high)


@wp.func
def middle_along(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, slot: int):
    """Half-way between the points of the two hulls that are nearest to each other along the unit vector n.

    As the origin it makes small gaps differences of small numbers.
    """
    low = extreme(points, h.ahead, h.ahead_end, n, real(-1.0), slot) - h.ahead_radius * n
    high = extreme(points, h.behind, h.behind_end, n, real(1.0), slot) + h.behind_radius * n
    return real(0.5) * (low + high)


@wp.func(inline=False)
def hull_normal(h: HullPair, points: wp.array2d(dtype=vec3), slot: int):
    """A unit vector along which the hulls are apart, from "behind" to "ahead", and by how much; not positive if none
    was found. By the algorithm of Gilbert, Johnson and Keerthi, which stops as soon as it is most of the distance."""
    n = vec3(real(1.0), real(0.0), real(0.0))
    nearest = points[h.ahead, slot] - points[h.behind, slot]
    y = Simplex()
    y[0] = nearest
    count = int(1)
    dist = wp.length(nearest)
    largest = real(dist)
    radii = h.ahead_radius + h.behind_radius
    best = -INFINITE
    searching = bool(True)
    rounds = int(0)
    while searching:
        rounds += 1
        if dist <= TOUCHING * real(1e-4) * largest or rounds > NORMAL_ROUNDS:
            searching = False
        else:
            way = nearest / dist
            w = extreme(points, h.ahead, h.ahead_end, way, real(-1.0), slot) - extreme(
                points, h.behind, h.behind_end, way, real(1.0), slot
            )
            gap = wp.dot(w, way) - radii
            largest = wp.max(largest, wp.length(w))
            if gap > best:
                best = gap
                n = way
            if gap > real(0.9) * (dist - radii):
                searching = False
            else:
                known = bool(False)
                for i in range(count):
                    known = known or (y[i, 0] == w[0] and y[i, 1] == w[1] and y[i, 2] == w[2])
                if known:
                    searching = False
                else:
                    y[count] = w
                    count += 1
                    if count == 4 and encloses(y[0], y[1], y[2], y[3]):
                        searching = False
                    else:
                        y, count, nearest = nearest_part(y, count)
                        now = wp.length(nearest)
                        if now >= dist:
                            searching = False
                        dist = now
    return n, best


@wp.func
def margin_of(h: HullPair, x: vec3, p: vec4, m: real, sign: real, radius: real):
    """a of a point."""
    return sign * (wp.dot(x - h.origin, normal_of(p)) + p[3]) - radius * m


@wp.func
def margin_slope(h: HullPair, x: vec3, n_unit: vec3, sign: real, radius: real):
    """Its derivative by the plane."""
    y = sign * (x - h.origin) - radius * n_unit
    return vec4(y[0], y[1], y[2], sign)


@wp.func
def side_of(h: HullPair, k: int):
    """Of the k-th point of both hulls, those ahead first: its place, σ, radius, weight."""
    count = h.ahead_end - h.ahead
    at = h.ahead + k
    sign = real(1.0)
    radius = h.ahead_radius
    weight = real(1.0) / real(count)
    if k >= count:
        at = h.behind + k - count
        sign = real(-1.0)
        radius = h.behind_radius
        weight = real(1.0) / real(h.behind_end - h.behind)
    return at, sign, radius, weight


@wp.func
def point_count(h: HullPair):
    return h.ahead_end - h.ahead + h.behind_end - h.behind


@wp.func(inline=False)
def inverse_margins(h: HullPair, points: wp.array2d(dtype=vec3), p: vec4, slot: int):
    """length Σ w / a, and 1 if the plane is between the hulls."""
    m = wp.length(normal_of(p))
    total = real(0.0)
    between = int(1)
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        a = margin_of(h, points[at, slot], p, m, sign, radius)
        if a > real(0.0):
            total += weight / a
        else:
            between = 0
    return h.length * total, between


@wp.func
def own_term(m: real):
    return OWN_WEIGHT / (real(1.0) - m)


@wp.func
def best_scale(m: real, total: real):
    """The s that minimises 4 / (1 - s m) + total / s."""
    root = wp.sqrt(total)
    return root / (wp.sqrt(OWN_WEIGHT * m) + m * root)


@wp.func
def across_normal(n: vec3):
    return wp.identity(3, real) - wp.outer(n, n)


@wp.func
def add_block(A: mat44, B: mat33):
    result = A
    for i in range(3):
        for j in range(3):
            result[i, j] += B[i, j]
    return result


@wp.func(inline=False)
def plane_curvature(h: HullPair, points: wp.array2d(dtype=vec3), p: vec4, slot: int):
    """The gradient of the sum by the plane, and P_pp."""
    n = normal_of(p)
    m = wp.length(n)
    u = n / m
    T = across_normal(u)
    rest = real(1.0) / (real(1.0) - m)
    slope = OWN_WEIGHT * rest * rest
    gradient = vec4(slope * u[0], slope * u[1], slope * u[2], real(0.0))
    curvature = add_block(mat44(), (real(2.0) * slope * rest) * wp.outer(u, u) + (slope / m) * T)
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        x = points[at, slot]
        a = margin_of(h, x, p, m, sign, radius)
        a_p = margin_slope(h, x, u, sign, radius)
        psi = h.length * weight / (a * a)
        gradient -= psi * a_p
        curvature += wp.outer(a_p, (real(2.0) * psi / a) * a_p)
        if radius > real(0.0):
            curvature = add_block(curvature, (psi * radius / m) * T)
    return gradient, curvature


@wp.func
def cholesky44(A: mat44):
    """The lower triangle C of A = C Cᵀ."""
    C = mat44()
    for i in range(4):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= C[i, k] * C[j, k]
            if i == j:
                C[i, i] = wp.sqrt(total)
            else:
                C[i, j] = total / C[j, j]
    return C


@wp.func
def whiten(C: mat44, b: vec4):
    """C⁻¹ b"""
    x = vec4()
    for i in range(4):
        total = b[i]
        for k in range(i):
            total -= C[i, k] * x[k]
        x[i] = total / C[i, i]
    return x


@wp.func
def unwhiten(C: mat44, b: vec4):
    """C⁻ᵀ b"""
    x = vec4()
    for j in range(4):
        i = 3 - j
        total = b[i]
        for k in range(i + 1, 4):
            total -= C[k, i] * x[k]
        x[i] = total / C[i, i]
    return x


@wp.func(inline=False)
def best_plane(h: HullPair, points: wp.array2d(dtype=vec3), n: vec3, slot: int):
    """The plane of the minimum, from a unit vector along which the hulls are apart; and 1 if it was found.

    Newton's method, damped so that the plane stays between the hulls. Before every step the plane is scaled by the best
    factor, which has a closed form.
    """
    gap, offset = gap_along(h, points, n, slot)
    p = vec4(n[0], n[1], n[2], offset)
    found = int(0)
    going = gap > real(0.0)
    rounds = int(0)
    while going:
        rounds += 1
        total, _between = inverse_margins(h, points, p, slot)
        scale = best_scale(wp.length(normal_of(p)), total)
        p = scale * p
        value = own_term(wp.length(normal_of(p))) + total / scale
        gradient, curvature = plane_curvature(h, points, p, slot)
        C = cholesky44(curvature)
        white = whiten(C, gradient)
        decrement = wp.dot(white, white)
        step = -unwhiten(C, white)
        t = real(1.0)
        taken = int(0)
        tries = int(0)
        if not decrement >= real(0.0):
            going = False
        while going and taken == 0:
            tries += 1
            trial = p + t * step
            m = wp.length(normal_of(trial))
            if m < real(1.0):
                more, between = inverse_margins(h, points, trial, slot)
                enough = own_term(m) + more <= value - real(1e-4) * t * decrement
                if between == 1 and (enough or decrement <= NEAR * value):
                    p = trial
                    taken = 1
            t = real(0.5) * t
            if tries > SEARCHES:
                going = False
        if going and decrement <= DECREMENT * value:
            found = 1
            going = False
        if rounds > PLANE_ROUNDS:
            going = False
        if decrement <= ROUGHLY * value and not going and taken == 1:
            found = 1
    return p, found


@wp.func(inline=False)
def hull_value(h: HullPair, points: wp.array2d(dtype=vec3), p: vec4, slot: int):
    """P, and the forces of both hulls: ahead, behind."""
    m = wp.length(normal_of(p))
    ahead = HullForce()
    behind = HullForce()
    total = real(0.0)
    for k in range(point_count(h)):
        at, sign, radius, weight = side_of(h, k)
        x = points[at, slot]
        a = margin_of(h, x, p, m, sign, radius)
        psi = h.length * weight / (a * a)
        total += weight / a
        if sign > real(0.0):
            ahead.total += psi
            ahead.first += psi * (x - h.origin)
        else:
            behind.total += psi
            behind.first += psi * (x - h.origin)
    return own_term(m) + h.length * total, ahead, behind


@wp.func
def wrench_at(x: vec3, n: vec3):
    """A force n at x, with its moment about where x is taken from."""
    moment = wp.cross(x, n)
    return vec6(moment[0], moment[1], moment[2], n[0], n[1], n[2])


@wp.func(inline=False)
def hull_curvature(h: HullPair, points: wp.array2d(dtype=vec3), p: vec4, sign: real, o: vec3, slot: int):
    """Of the hull with the given σ, moved as a rigid body about o: P_xx (6, 6), P_xp (6, 4), Σ ψ and Σ ψ (x - o)."""
    n = normal_of(p)
    m = wp.length(n)
    u = n / m
    first = h.ahead
    end = h.ahead_end
    radius = h.ahead_radius
    if sign < real(0.0):
        first = h.behind
        end = h.behind_end
        radius = h.behind_radius
    weight = real(1.0) / real(end - first)
    K = mat66()
    B = mat64()
    f = HullForce()
    for k in range(first, end):
        x = points[k, slot]
        a = margin_of(h, x, p, m, sign, radius)
        psi = h.length * weight / (a * a)
        N = wrench_at(x - o, n)
        a_p = margin_slope(h, x, u, sign, radius)
        kN = (real(2.0) * psi / a) * N
        K += wp.outer(kN, N)
        B += wp.outer(sign * kN, a_p)
        f.total += psi
        f.first += psi * (x - o)
    moment = f.first
    for j in range(3):
        B[3 + j, j] -= sign * f.total
    B[0, 1] += sign * moment[2]
    B[0, 2] -= sign * moment[1]
    B[1, 0] -= sign * moment[2]
    B[1, 2] += sign * moment[0]
    B[2, 0] += sign * moment[1]
    B[2, 1] -= sign * moment[0]
    return K, B, f
