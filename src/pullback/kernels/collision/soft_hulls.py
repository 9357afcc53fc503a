"""The potential of ``hull_pair``, softened: bounded and smooth wherever two rounded hulls are, in each other too.

    P = min  4 / (1 - ρ(n))  +  length Σ w b(a)        a = σ ((x - origin)·n + d) - r ρ(n)

In place of |n| there is ρ = √(|n|² + ν²) - ν, smooth at n = 0, which is the plane between hulls with the same middle.
In place of 1/a there is b = 1 / (½ (a + √(a² + 4 s²))), which is 1/a from afar, 1/s at a = 0, and finite for every a.
Both keep the problem strictly convex, on all planes with ρ < 1, so that Newton's method finds its one minimum from
anywhere, and P has derivatives of all orders by points.

    letter  meaning
    ν       BLUNT
    s       softness [m]
    ψ, κ    -length w b', length w b''; of 1/a those of ``hull_pair``
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4
from .hull_pair import add_block, cholesky44, mat44, normal_of, unwhiten, whiten

# Where ρ ceases to be |n|. Forces over more than 1/ν lengths are weaker than those of ``hull_pair``. [1]
BLUNT = wp.constant(real(1e-3))
# Newton's method has converged, but for one more step, when its decrement squared is this small beside P.
DECREMENT = wp.constant(real(1e-9 if real is wp.float32 else 1e-16))
# Below this a full step is taken without a look at P, whose rounding would hide that it falls.
NEAR = wp.constant(real(1e-4 if real is wp.float32 else 1e-8))
# Found: 21 rounds at most.
ROUNDS = wp.constant(60)
SEARCHES = wp.constant(40)
# How long n is at first [1].
FIRST_LENGTH = wp.constant(real(0.5))


@wp.struct
class Core:
    """A rounded hull: of the points x + E y, y being points[first:end], with a radius. x is taken from the origin."""

    x: vec3
    E: mat33
    first: int
    end: int
    radius: real
    sign: real  # σ: 1 for the hull that the normal points to, -1 for the other


@wp.func
def core_point(core: Core, points: wp.array(dtype=vec3), k: int):
    return core.x + core.E * points[k]


@wp.func
def middle_of(core: Core, points: wp.array(dtype=vec3)):
    total = vec3()
    for k in range(core.first, core.end):
        total += core_point(core, points, k)
    return total / real(core.end - core.first)


@wp.func
def blunt(n: vec3):
    """ρ, and √(|n|² + ν²)."""
    root = wp.sqrt(wp.dot(n, n) + BLUNT * BLUNT)
    return root - BLUNT, root


@wp.func
def soft_inverse(a: real, soft: real):
    """b and its first two derivatives."""
    root = wp.sqrt(a * a + real(4.0) * soft * soft)
    b = real(2.0) / (root + wp.abs(a))
    if a < real(0.0):
        b = (root - a) / (real(2.0) * soft * soft)
    return b, -b / root, real(2.0) / (root * root * root)


@wp.func
def core_margin(core: Core, x: vec3, plane: vec4, rho: real):
    """a of a point."""
    return core.sign * (wp.dot(x, normal_of(plane)) + plane[3]) - core.radius * rho


@wp.func
def core_margin_slope(core: Core, x: vec3, u: vec3):
    """Its derivative by the plane, with u that of ρ by n."""
    y = core.sign * x - core.radius * u
    return vec4(y[0], y[1], y[2], core.sign)


@wp.func(inline=False)
def core_value(core: Core, points: wp.array(dtype=vec3), plane: vec4, rho: real, soft: real):
    """Σ w b of one hull."""
    total = real(0.0)
    for k in range(core.first, core.end):
        b, _slope, _curve = soft_inverse(core_margin(core, core_point(core, points, k), plane, rho), soft)
        total += b
    return total / real(core.end - core.first)


@wp.func(inline=False)
def core_curvature(core: Core, points: wp.array(dtype=vec3), plane: vec4, soft: real):
    """Its gradient and Hessian by the plane, but for the curvature of ρ; and the derivative by ρ."""
    rho, root = blunt(normal_of(plane))
    u = normal_of(plane) / root
    gradient = vec4()
    curvature = mat44()
    by_rho = real(0.0)
    for k in range(core.first, core.end):
        x = core_point(core, points, k)
        _b, slope, curve = soft_inverse(core_margin(core, x, plane, rho), soft)
        a_p = core_margin_slope(core, x, u)
        gradient += slope * a_p
        curvature += wp.outer(a_p, curve * a_p)
        by_rho -= slope * core.radius
    weight = real(1.0) / real(core.end - core.first)
    return weight * gradient, weight * curvature, weight * by_rho


@wp.func
def soft_value(one: Core, two: Core, points: wp.array(dtype=vec3), plane: vec4, length: real, soft: real):
    """The sum that P is the minimum of, where ρ < 1."""
    rho, _root = blunt(normal_of(plane))
    both = core_value(one, points, plane, rho, soft) + core_value(two, points, plane, rho, soft)
    return real(4.0) / (real(1.0) - rho) + length * both


@wp.func
def soft_curvature(one: Core, two: Core, points: wp.array(dtype=vec3), plane: vec4, length: real, soft: real):
    """Its gradient by the plane, and P_pp."""
    rho, root = blunt(normal_of(plane))
    u = normal_of(plane) / root
    gradient1, curvature1, by_rho1 = core_curvature(one, points, plane, soft)
    gradient2, curvature2, by_rho2 = core_curvature(two, points, plane, soft)
    rest = real(1.0) / (real(1.0) - rho)
    slope = real(4.0) * rest * rest
    gradient = vec4(slope * u[0], slope * u[1], slope * u[2], real(0.0)) + length * (gradient1 + gradient2)
    uu = wp.outer(u, u)
    bend = (slope + length * (by_rho1 + by_rho2)) / root
    own = (real(2.0) * slope * rest) * uu + bend * (wp.identity(3, real) - uu)
    return gradient, add_block(length * (curvature1 + curvature2), own)


@wp.func(inline=False)
def soft_plane(one: Core, two: Core, points: wp.array(dtype=vec3), length: real, soft: real):
    """The plane of the minimum, by damped Newton steps from the one half-way between the middles of the hulls."""
    middle1 = middle_of(one, points)
    middle2 = middle_of(two, points)
    n = two.sign * (middle2 - middle1)
    n = (FIRST_LENGTH / wp.sqrt(wp.dot(n, n) + soft * soft)) * n
    plane = vec4(n[0], n[1], n[2], real(-0.5) * wp.dot(n, middle1 + middle2))
    value = soft_value(one, two, points, plane, length, soft)
    going = bool(True)
    rounds = int(0)
    while going:
        rounds += 1
        gradient, curvature = soft_curvature(one, two, points, plane, length, soft)
        C = cholesky44(curvature)
        white = whiten(C, gradient)
        decrement = wp.dot(white, white)
        step = -unwhiten(C, white)
        near = decrement <= NEAR * value
        t = real(1.0)
        tries = int(0)
        searching = decrement >= real(0.0)
        going = searching and decrement > DECREMENT * value and rounds < ROUNDS
        while searching:
            trial = plane + t * step
            rho, _root = blunt(normal_of(trial))
            if rho < real(1.0):
                now = soft_value(one, two, points, trial, length, soft)
                if near or now <= value - real(1e-4) * t * decrement:
                    plane = trial
                    value = now
                    searching = False
            t = real(0.5) * t
            tries += 1
            if tries > SEARCHES:
                searching = False
                going = False
    return plane
