"""The distance of a vertex and a triangle, or of two edges: its derivatives.

The vector between the closest points is r = sum c_a x_a over the four corners, with sum c_a = 0: the corner 0 is the
vertex, or 0 and 1 are an edge. Where the closest points may slide, along an edge or in a triangle, c depends on one or
two free numbers q, linearly, and r is normal to e_q = dr/dq = sum g_qa x_a, g_q = dc/dq. So D = |r|²/2 has

    dD/dx_a = c_a r        d²D/dx_a dx_b = c_a c_b - sum_pq V_ap A⁻¹_pq V_bq^T
    V_aq = g_qa r + c_a e_q        A_pq = e_p·e_q        dq/dx_b = -A⁻¹ V_b^T

whichever of vertex, edge and face the closest points lie on: a number that is not free has g_q = 0.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4

ZERO = wp.constant(real(0.0))
ONE = wp.constant(real(1.0))
TWO = wp.constant(real(2.0))
# Edges whose angle has a sine below the root of this have no point where they are closest. [1]
NO_ANGLE = wp.constant(real(1e-5 if real is wp.float32 else 1e-11))
# Where the square of the sine of their angle is below this, edges push less, so that they may become parallel. [1]
NEARLY_PARALLEL = wp.constant(real(1e-3))


@wp.func
def on_face(x0: vec3, x1: vec3, x2: vec3, x3: vec3):
    """c, and g of the two free numbers, of a vertex x0 and a triangle (Ericson 2004, 5.1.5)."""
    e2 = x2 - x1
    e3 = x3 - x1
    a2 = wp.dot(e2, x0 - x1)
    a3 = wp.dot(e3, x0 - x1)
    b2 = wp.dot(e2, x0 - x2)
    b3 = wp.dot(e3, x0 - x2)
    c2 = wp.dot(e2, x0 - x3)
    c3 = wp.dot(e3, x0 - x3)
    area1 = b2 * c3 - c2 * b3
    area2 = c2 * a3 - a2 * c3
    area3 = a2 * b3 - b2 * a3
    s = ZERO
    t = ZERO
    g0 = vec4()
    g1 = vec4()
    if a2 > ZERO or a3 > ZERO:
        if b2 >= ZERO and b3 <= b2:
            s = ONE
        elif c3 >= ZERO and c2 <= c3:
            t = ONE
        elif area3 <= ZERO and a2 >= ZERO and b2 <= ZERO:
            s = a2 / (a2 - b2)
            g0 = vec4(ZERO, ONE, -ONE, ZERO)
        elif area2 <= ZERO and a3 >= ZERO and c3 <= ZERO:
            t = a3 / (a3 - c3)
            g0 = vec4(ZERO, ONE, ZERO, -ONE)
        elif area1 <= ZERO and b3 >= b2 and c2 >= c3:
            t = (b3 - b2) / ((b3 - b2) + (c2 - c3))
            s = ONE - t
            g0 = vec4(ZERO, ZERO, ONE, -ONE)
        else:
            s = area2 / (area1 + area2 + area3)
            t = area3 / (area1 + area2 + area3)
            g0 = vec4(ZERO, ONE, -ONE, ZERO)
            g1 = vec4(ZERO, ONE, ZERO, -ONE)
    return vec4(ONE, s + t - ONE, -s, -t), g0, g1


@wp.func(inline=True)
def better(r0: vec3, u: vec3, v: vec3, s: real, t: real, best: vec3):
    """(s, t, |r|²), of this or of the best so far."""
    r = r0 + s * u - t * v
    square = wp.dot(r, r)
    found = best
    if square < best[2]:
        found = vec3(s, t, square)
    return found


@wp.func
def on_edges(x0: vec3, x1: vec3, x2: vec3, x3: vec3):
    """The same of two edges."""
    u = x1 - x0
    v = x3 - x2
    r0 = x0 - x2
    uu = wp.dot(u, u)
    vv = wp.dot(v, v)
    uv = wp.dot(u, v)
    ur = wp.dot(u, r0)
    vr = wp.dot(v, r0)
    square = uu * vv - uv * uv
    s = ZERO
    t = ZERO
    inside = bool(False)
    if square > NO_ANGLE * uu * vv:
        s = (uv * vr - ur * vv) / square
        t = (uu * vr - uv * ur) / square
        inside = s > ZERO and s < ONE and t > ZERO and t < ONE
    if not inside:  # at the end of one of them
        t = wp.clamp(vr / vv, ZERO, ONE)
        r = r0 - t * v
        best = vec3(ZERO, t, wp.dot(r, r))
        best = better(r0, u, v, ONE, wp.clamp((uv + vr) / vv, ZERO, ONE), best)
        best = better(r0, u, v, wp.clamp(-ur / uu, ZERO, ONE), ZERO, best)
        best = better(r0, u, v, wp.clamp((uv - ur) / uu, ZERO, ONE), ONE, best)
        s = best[0]
        t = best[1]
    g0 = vec4()
    g1 = vec4()
    if s > ZERO and s < ONE:
        g0 = vec4(-ONE, ONE, ZERO, ZERO)
    if t > ZERO and t < ONE:
        g1 = vec4(ZERO, ZERO, ONE, -ONE)
    return vec4(ONE - s, s, t - ONE, -t), g0, g1


@wp.func
def closest(x0: vec3, x1: vec3, x2: vec3, x3: vec3, parallel: real):
    """c, and g of the two free numbers; parallel is zero for a vertex and a triangle."""
    c = vec4()
    g0 = vec4()
    g1 = vec4()
    if parallel > ZERO:
        c, g0, g1 = on_edges(x0, x1, x2, x3)
    else:
        c, g0, g1 = on_face(x0, x1, x2, x3)
    return c, g0, g1


@wp.func(inline=True)
def weighted(c: vec4, x0: vec3, x1: vec3, x2: vec3, x3: vec3):
    return c[0] * x0 + c[1] * x1 + c[2] * x2 + c[3] * x3


@wp.func(inline=True)
def between(x0: vec3, x1: vec3, x2: vec3, x3: vec3, parallel: real):
    """The distance [m]."""
    c, _g0, _g1 = closest(x0, x1, x2, x3, parallel)
    return wp.length(weighted(c, x0, x1, x2, x3))


@wp.func(inline=True)
def inverse_of_slides(e0: vec3, e1: vec3):
    """A⁻¹ as (A⁻¹_00, A⁻¹_11, A⁻¹_01); a number that is not free has e = 0 and what stands here is of no effect."""
    a = wp.dot(e0, e0)
    b = wp.dot(e1, e1)
    if a == ZERO:
        a = ONE
    if b == ZERO:
        b = ONE
    o = wp.dot(e0, e1)
    det = a * b - o * o
    return vec3(b / det, a / det, -o / det)


@wp.func(inline=True)
def fade(u: vec3, v: vec3, parallel: real):
    """By what two edges push less because they are nearly parallel (Li et al. 2020): m, and dm/dy, d²m/dy², y =
    |u x v|²."""
    m = ONE
    first = ZERO
    second = ZERO
    if parallel > ZERO:
        across = wp.cross(u, v)
        y = wp.dot(across, across) / parallel
        if y < ONE:
            m = y * (TWO - y)
            first = TWO * (ONE - y) / parallel
            second = -TWO / (parallel * parallel)
    return m, first, second


@wp.func(inline=True)
def product_slopes(u: vec3, v: vec3):
    """The gradient of |u x v|² by u and v."""
    uv = wp.dot(u, v)
    return TWO * (wp.dot(v, v) * u - uv * v), TWO * (wp.dot(u, u) * v - uv * u)


@wp.func(inline=True)
def product_bends(u: vec3, v: vec3):
    """The Hessian of |u x v|²: by u twice, by v twice, by u and v."""
    one = wp.identity(n=3, dtype=real)
    uu = TWO * (wp.dot(v, v) * one - wp.outer(v, v))
    vv = TWO * (wp.dot(u, u) * one - wp.outer(u, u))
    uv = TWO * (TWO * wp.outer(u, v) - wp.outer(v, u) - wp.dot(u, v) * one)
    return uu, vv, uv


@wp.func(inline=True)
def edge_sign(a: int):
    """Of the corner a in its edge."""
    return real(2 * (a % 2) - 1)
