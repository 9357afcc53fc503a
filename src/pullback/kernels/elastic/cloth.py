"""Cloth: triangles that resist stretch and catch the wind, and edges that resist bending.

F = sum x_a B_a^T is 3 × 2 with columns f0, f1, and the energy is a function of the metric, c = (f0·f0, f1·f1, f0·f1).
With its first derivatives w1 and second w2, and the three vectors c_a that take a motion u of corner a to dc = c_a·u,

    gradient at a = sum_i w1_i c_a[i]        block of b and a = (B_b·S B_a) 1 + sum_ij w2_ij c_b[i] c_a[j]^T

S being w1 as a matrix, twice its diagonal. The neo-Hookean membrane is mu/2 (|F|² - 2) - mu (J - 1) + (lambda + mu)/2
(J - 1)², J = sqrt(det F^T F): Hooke's law of plane stress where strains are small.

Bending is that of Bergou et al. (2006): k/2 sum |sum_a K_a x_a|², the mean curvature at each edge as a sum of vertices.
It is quadratic, and its rest shape is flat.

The air pushes a triangle along its normal n at the start of the step: c A n n·(wind - velocity), the gradient of a
dissipation, with the velocity of the step. Cloth before the wind cannot be made unstable by it.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .kinds import BENDING, DRAG, LAME, NEO_HOOKEAN, SHEAR, VISCOSITY, WIND
from .solids import HALF, ONE, QUARTER
from .structs import Law, LawBar, Mesh, Step, Vectors, Work

TWO = wp.constant(real(2.0))
THIRD = wp.constant(real(1.0 / 3.0))


@wp.func(inline=True)
def spread(g: Mesh, x: Vectors, e: int, world: int):
    """The columns of F, as rows."""
    corners = g.triangles[e]
    rest = g.triangle_rest[e]
    d1 = x[world, corners[1]] - x[world, corners[0]]
    d2 = x[world, corners[2]] - x[world, corners[0]]
    return rest[0, 0] * d1 + rest[1, 0] * d2, rest[0, 1] * d1 + rest[1, 1] * d2


@wp.func(inline=True)
def metric(f0: vec3, f1: vec3):
    return vec3(wp.dot(f0, f0), wp.dot(f1, f1), wp.dot(f0, f1))


@wp.func(inline=True)
def hooke_energy(mu: real, lam: real, d: vec3):
    """Of a change d of the metric: twice the strain."""
    trace = d[0] + d[1]
    return QUARTER * mu * (d[0] * d[0] + d[1] * d[1] + TWO * d[2] * d[2]) + real(0.125) * lam * trace * trace


@wp.func(inline=True)
def hooke_first(mu: real, lam: real, d: vec3):
    trace = QUARTER * lam * (d[0] + d[1])
    return vec3(HALF * mu * d[0] + trace, HALF * mu * d[1] + trace, mu * d[2])


@wp.func(inline=True)
def hooke_second(mu: real, lam: real):
    a = HALF * mu + QUARTER * lam
    b = QUARTER * lam
    o = real(0.0)
    return mat33(a, b, o, b, a, o, o, o, mu)


@wp.func(inline=True)
def growth(c: vec3):
    """J, the area against that at rest, and its derivatives by the metric."""
    J = wp.sqrt(c[0] * c[1] - c[2] * c[2])
    return J, vec3(HALF * c[1] / J, HALF * c[0] / J, -c[2] / J)


@wp.func(inline=True)
def cloth_energy(kind: int, mu: real, lam: real, c: vec3):
    """[J/m²]"""
    W = real(0.0)
    if kind == NEO_HOOKEAN:
        J = wp.sqrt(c[0] * c[1] - c[2] * c[2])
        W = HALF * mu * (c[0] + c[1] - TWO) + (HALF * (lam + mu) * (J - ONE) - mu) * (J - ONE)
    else:
        W = hooke_energy(mu, lam, c - vec3(ONE, ONE, real(0.0)))
    return W


@wp.func(inline=True)
def cloth_first(kind: int, mu: real, lam: real, c: vec3):
    """The energy's derivatives by the metric, linear in both moduli."""
    w1 = vec3()
    if kind == NEO_HOOKEAN:
        J, J1 = growth(c)
        w1 = HALF * mu * vec3(ONE, ONE, real(0.0)) + ((lam + mu) * (J - ONE) - mu) * J1
    else:
        w1 = hooke_first(mu, lam, c - vec3(ONE, ONE, real(0.0)))
    return w1


@wp.func(inline=True)
def cloth_second(kind: int, mu: real, lam: real, c: vec3):
    w2 = mat33()
    if kind == NEO_HOOKEAN:
        J, J1 = growth(c)
        h = HALF
        o = real(0.0)
        J2 = mat33(o, h, o, h, o, o, o, o, -ONE)
        push = (lam + mu) * (J - ONE) - mu
        w2 = (lam + mu) * wp.outer(J1, J1) + push / J * (J2 - wp.outer(J1, J1))
    else:
        w2 = hooke_second(mu, lam)
    return w2


@wp.func(inline=True)
def corner_gradient(g: Mesh, e: int, a: int):
    """B_a of a corner."""
    rest = g.triangle_rest[e]
    A0 = -rest[0, 0] - rest[1, 0]
    A1 = -rest[0, 1] - rest[1, 1]
    if a == 1:
        A0 = rest[0, 0]
        A1 = rest[0, 1]
    if a == 2:
        A0 = rest[1, 0]
        A1 = rest[1, 1]
    return A0, A1


@wp.func(inline=True)
def stretched(f0: vec3, f1: vec3, A0: real, A1: real):
    """How the metric changes with the motion of a corner: dc = rows · u."""
    return wp.matrix_from_rows(TWO * A0 * f0, TWO * A1 * f1, A1 * f0 + A0 * f1)


@wp.func(inline=True)
def area_vector(g: Mesh, x: Vectors, e: int, world: int):
    corners = g.triangles[e]
    x0 = x[world, corners[0]]
    return HALF * wp.cross(x[world, corners[1]] - x0, x[world, corners[2]] - x0)


@wp.func(inline=True)
def middle(g: Mesh, x: Vectors, e: int, world: int):
    corners = g.triangles[e]
    return THIRD * (x[world, corners[0]] + x[world, corners[1]] + x[world, corners[2]])


@wp.func(inline=True)
def wind_of(m: Law, world: int):
    p = m.around[world, 0]
    return vec3(p[WIND], p[WIND + 1], p[WIND + 2])


@wp.func(inline=True)
def airflow(g: Mesh, m: Law, w: Work, s: Step, x: Vectors, e: int, world: int):
    """Of the air against a triangle on its way to x."""
    return wind_of(m, world) - (middle(g, x, e, world) - middle(g, w.before, e, world)) / s.dt


@wp.func(inline=True)
def triangle_energy(g: Mesh, m: Law, w: Work, s: Step, x: Vectors, e: int, world: int):
    group = g.triangle_group[e]
    p = m.cloths[world, group]
    f0, f1 = spread(g, x, e, world)
    c = metric(f0, f1)
    W = cloth_energy(g.cloth_kind[group], p[SHEAR], p[LAME], c)
    if p[VISCOSITY] > real(0.0):
        b0, b1 = spread(g, w.before, e, world)
        W += hooke_energy(HALF * p[VISCOSITY] / s.dt, real(0.0), c - metric(b0, b1))
    W = g.triangle_area[e] * W
    if p[DRAG] > real(0.0):
        a = area_vector(g, w.before, e, world)
        flow = wp.dot(a, airflow(g, m, w, s, x, e, world))
        W += HALF * p[DRAG] * s.dt / wp.length(a) * flow * flow
    return W


@wp.func(inline=True)
def tension(w1: vec3):
    """w1 without what it has of compression: half of the positive part of S."""
    middle = w1[0] + w1[1]
    apart = w1[0] - w1[1]
    radius = wp.sqrt(apart * apart + w1[2] * w1[2])
    low = middle - radius  # of the eigenvalues of S
    high = middle + radius
    part = w1
    if low < real(0.0):
        part = vec3()
        if high > real(0.0):
            share = high / (TWO * radius)
            part = share * vec3(w1[0] - HALF * low, w1[1] - HALF * low, w1[2])
    return part


@wp.func(inline=True)
def add_triangle(g: Mesh, m: Law, w: Work, s: Step, e: int, world: int, wants_hessian: int):
    """Adds an element to w.gradient, and to w.blocks if they are wanted, at w.after; see ``differentiate``."""
    group = g.triangle_group[e]
    kind = g.cloth_kind[group]
    p = m.cloths[world, group]
    area = g.triangle_area[e]
    corners = g.triangles[e]
    f0, f1 = spread(g, w.after, e, world)
    c = metric(f0, f1)
    w1 = cloth_first(kind, p[SHEAR], p[LAME], c)
    w2 = mat33()
    if wants_hessian > 0:
        w2 = cloth_second(kind, p[SHEAR], p[LAME], c)
    if p[VISCOSITY] > real(0.0):
        b0, b1 = spread(g, w.before, e, world)
        shear = HALF * p[VISCOSITY] / s.dt
        w1 += hooke_first(shear, real(0.0), c - metric(b0, b1))
        if wants_hessian > 0:
            w2 += hooke_second(shear, real(0.0))
    push = vec3()
    drag = mat33()
    if p[DRAG] > real(0.0):
        a = area_vector(g, w.before, e, world)
        share = p[DRAG] / wp.length(a)
        push = -THIRD * share * wp.dot(a, airflow(g, m, w, s, w.after, e, world)) * a
        drag = THIRD * THIRD * share / s.dt * wp.outer(a, a)
    pull = w1
    if wants_hessian == 2:
        pull = tension(w1)
    for k in range(3):
        A0, A1 = corner_gradient(g, e, k)
        CA = stretched(f0, f1, A0, A1)
        w.gradient[world, corners[k]] += area * (wp.transpose(CA) * w1) + push
        if wants_hessian > 0:
            SA0 = TWO * pull[0] * A0 + pull[2] * A1
            SA1 = pull[2] * A0 + TWO * pull[1] * A1
            slope = w2 * CA
            for j in range(k + 1):
                B0, B1 = corner_gradient(g, e, j)
                CB = stretched(f0, f1, B0, B1)
                block = wp.transpose(CB) * slope
                block += (B0 * SA0 + B1 * SA1) * wp.identity(n=3, dtype=real)
                block = area * block + drag
                w.blocks[world, g.triangle_place[e, 3 * j + k]] += block
                if j != k:
                    w.blocks[world, g.triangle_place[e, 3 * k + j]] += wp.transpose(block)


@wp.func(inline=True)
def triangle_adjoint(g: Mesh, m: Law, w: Work, s: Step, bar: LawBar, e: int, world: int, wants_params: int):
    """Subtracts the derivatives of lam·gradient, with lam in w.move: by x from w.direction, and by the parameters."""
    group = g.triangle_group[e]
    kind = g.cloth_kind[group]
    p = m.cloths[world, group]
    area = g.triangle_area[e]
    corners = g.triangles[e]
    f0, f1 = spread(g, w.after, e, world)
    c = metric(f0, f1)
    l0, l1 = spread(g, w.move, e, world)
    along = vec3(TWO * wp.dot(f0, l0), TWO * wp.dot(f1, l1), wp.dot(f0, l1) + wp.dot(f1, l0))
    bars = bar.cloths[world, group]
    if wants_params == 1:
        bars[SHEAR] += wp.float64(-area * wp.dot(along, cloth_first(kind, ONE, real(0.0), c)))
        bars[LAME] += wp.float64(-area * wp.dot(along, cloth_first(kind, real(0.0), ONE, c)))
    if p[VISCOSITY] > real(0.0) or wants_params == 1:
        b0, b1 = spread(g, w.before, e, world)
        shear = HALF * area / s.dt
        bars[VISCOSITY] += wp.float64(-wp.dot(along, hooke_first(shear, real(0.0), c - metric(b0, b1))))
        by_metric = hooke_first(p[VISCOSITY] * shear, real(0.0), along)
        for k in range(3):
            A0, A1 = corner_gradient(g, e, k)
            w.direction[world, corners[k]] += wp.transpose(stretched(b0, b1, A0, A1)) * by_metric
    if p[DRAG] > real(0.0) or wants_params == 1:
        a = area_vector(g, w.before, e, world)
        length = wp.length(a)
        flow = airflow(g, m, w, s, w.after, e, world)
        lam = middle(g, w.move, e, world)
        # lam·gradient = -c (a·flow) (a·lam)/|a|
        af = wp.dot(a, flow)
        al = wp.dot(a, lam)
        bars[DRAG] += wp.float64(af * al / length)
        share = p[DRAG] / length
        flow_bar = share * al * a
        a_bar = share * (al * flow + af * lam - af * al / (length * length) * a)
        if wants_params == 1:
            around = bar.around[world, 0]
            for k in range(3):
                around[WIND + k] += wp.float64(flow_bar[k])
            bar.around[world, 0] = around
        moved = THIRD / s.dt * flow_bar
        e1 = w.before[world, corners[1]] - w.before[world, corners[0]]
        e2 = w.before[world, corners[2]] - w.before[world, corners[0]]
        e1_bar = HALF * wp.cross(e2, a_bar)
        e2_bar = HALF * wp.cross(a_bar, e1)
        w.direction[world, corners[0]] += moved - e1_bar - e2_bar
        w.direction[world, corners[1]] += moved + e1_bar
        w.direction[world, corners[2]] += moved + e2_bar
    bar.cloths[world, group] = bars


# --- bending -----------------------------------------------------------------------------------------


@wp.func(inline=True)
def curvature(g: Mesh, x: Vectors, e: int, world: int):
    ends = g.hinges[e]
    k = g.hinge_weights[e]
    total = k[0] * x[world, ends[0]] + k[1] * x[world, ends[1]]
    return total + k[2] * x[world, ends[2]] + k[3] * x[world, ends[3]]


@wp.func(inline=True)
def hinge_energy(g: Mesh, m: Law, x: Vectors, e: int, world: int):
    p = m.cloths[world, g.hinge_group[e]]
    bend = curvature(g, x, e, world)
    return HALF * p[BENDING] * wp.dot(bend, bend)


@wp.func(inline=True)
def add_hinge(g: Mesh, m: Law, w: Work, e: int, world: int, wants_hessian: int):
    p = m.cloths[world, g.hinge_group[e]]
    ends = g.hinges[e]
    k = g.hinge_weights[e]
    pull = p[BENDING] * curvature(g, w.after, e, world)
    for a in range(4):
        w.gradient[world, ends[a]] += k[a] * pull
        if wants_hessian > 0:
            for b in range(4):
                w.blocks[world, g.hinge_place[e, 4 * a + b]] += p[BENDING] * k[a] * k[b] * wp.identity(n=3, dtype=real)


@wp.func(inline=True)
def hinge_adjoint(g: Mesh, w: Work, bar: LawBar, e: int, world: int):
    group = g.hinge_group[e]
    bars = bar.cloths[world, group]
    bars[BENDING] -= wp.float64(wp.dot(curvature(g, w.move, e, world), curvature(g, w.after, e, world)))
    bar.cloths[world, group] = bars
