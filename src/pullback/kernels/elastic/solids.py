"""Tetrahedra: energy, stress and Hessian of a material, and Kelvin-Voigt viscosity.

F = sum x_a B_a^T with the gradients B_a of the shape functions at rest; P = dW/dF; a corner's force is -V P B_a. With
A = B_a and B = B_b, the block of corners b and a is the second derivative of W along w B^T and u A^T, as a matrix
between w and u. That of det F is skew(F (A x B)), so no derivative of a cofactor is ever needed.

Stable neo-Hookean (Smith et al. 2018), with their moduli written in Lamé's, so that it is Hooke's law where strains are
small:

    W = 2/3 mu (|F|² - 3) - 2/3 mu log((|F|² + 1)/4) + l/2 (J - 1)² - mu (J - 1)        l = lambda + 5/6 mu

Saint Venant-Kirchhoff: W = mu |E|² + lambda/2 (tr E)², E = (F^T F - 1)/2. Viscosity is the dissipation
eta/(2 h) |E' - E|² by the strains after and before the step: no rotation is damped.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .kinds import LAME, NEO_HOOKEAN, SHEAR, VISCOSITY
from .structs import Law, LawBar, Mesh, Step, Vectors, Work, mat43

HALF = wp.constant(real(0.5))
ONE = wp.constant(real(1.0))
TWO_THIRDS = wp.constant(real(2.0 / 3.0))
FOUR_THIRDS = wp.constant(real(4.0 / 3.0))
EIGHT_THIRDS = wp.constant(real(8.0 / 3.0))
FIVE_SIXTHS = wp.constant(real(5.0 / 6.0))
THREE = wp.constant(real(3.0))
QUARTER = wp.constant(real(0.25))


@wp.func(inline=True)
def deformation(g: Mesh, x: Vectors, e: int, world: int):
    """F, of positions; of any vectors at the corners, their gradient."""
    corners = g.tets[e]
    rest = g.tet_rest[e]
    F = wp.outer(x[world, corners[1]] - x[world, corners[0]], rest[1])
    F += wp.outer(x[world, corners[2]] - x[world, corners[0]], rest[2])
    F += wp.outer(x[world, corners[3]] - x[world, corners[0]], rest[3])
    return F


@wp.func(inline=True)
def strain(F: mat33):
    return HALF * (wp.transpose(F) * F - wp.identity(n=3, dtype=real))


@wp.func(inline=True)
def cofactors(F: mat33):
    f0 = vec3(F[0, 0], F[1, 0], F[2, 0])
    f1 = vec3(F[0, 1], F[1, 1], F[2, 1])
    f2 = vec3(F[0, 2], F[1, 2], F[2, 2])
    return wp.matrix_from_cols(wp.cross(f1, f2), wp.cross(f2, f0), wp.cross(f0, f1))


@wp.func(inline=True)
def solid_energy(kind: int, mu: real, lam: real, F: mat33):
    """W [J/m³]"""
    W = real(0.0)
    if kind == NEO_HOOKEAN:
        square = wp.ddot(F, F)
        J = wp.determinant(F)
        bulk = lam + FIVE_SIXTHS * mu
        W = TWO_THIRDS * mu * (square - THREE - wp.log((square + ONE) * QUARTER)) + (HALF * bulk * (J - ONE) - mu) * (
            J - ONE
        )
    else:
        E = strain(F)
        W = mu * wp.ddot(E, E) + HALF * lam * wp.trace(E) * wp.trace(E)
    return W


@wp.func(inline=True)
def solid_stress(kind: int, mu: real, lam: real, F: mat33):
    """P [Pa], linear in both moduli."""
    P = mat33()
    if kind == NEO_HOOKEAN:
        square = wp.ddot(F, F)
        push = (lam + FIVE_SIXTHS * mu) * (wp.determinant(F) - ONE) - mu
        P = FOUR_THIRDS * mu * (square / (square + ONE)) * F + push * cofactors(F)
    else:
        E = strain(F)
        P = F * (real(2.0) * mu * E + lam * wp.trace(E) * wp.identity(n=3, dtype=real))
    return P


@wp.func(inline=True)
def tet_energy(g: Mesh, m: Law, w: Work, s: Step, x: Vectors, e: int, world: int):
    group = g.tet_group[e]
    p = m.solids[world, group]
    F = deformation(g, x, e, world)
    W = solid_energy(g.solid_kind[group], p[SHEAR], p[LAME], F)
    if p[VISCOSITY] > real(0.0):
        D = strain(F) - strain(deformation(g, w.before, e, world))
        W += HALF * p[VISCOSITY] / s.dt * wp.ddot(D, D)
    return g.tet_volume[e] * W


@wp.func(inline=True)
def viscous_stress(g: Mesh, w: Work, s: Step, viscosity: real, F: mat33, e: int, world: int):
    """S [Pa], which is added to the second Piola-Kirchhoff stress."""
    return viscosity / s.dt * (strain(F) - strain(deformation(g, w.before, e, world)))


@wp.func(inline=True)
def add_tet(g: Mesh, m: Law, w: Work, s: Step, e: int, world: int, wants_hessian: int):
    """Adds an element to w.gradient, and to w.blocks if they are wanted, at w.after."""
    group = g.tet_group[e]
    kind = g.solid_kind[group]
    p = m.solids[world, group]
    volume = g.tet_volume[e]
    corners = g.tets[e]
    rest = g.tet_rest[e]
    mu = p[SHEAR]
    lam = p[LAME]
    F = deformation(g, w.after, e, world)
    P = solid_stress(kind, mu, lam, F)
    # S: a stress that acts as F S; its own slope is that of Saint Venant-Kirchhoff with these moduli.
    S = mat33()
    shear = real(0.0)
    bulk = real(0.0)
    if kind != NEO_HOOKEAN:
        E = strain(F)
        S = real(2.0) * mu * E + lam * wp.trace(E) * wp.identity(n=3, dtype=real)
        shear = mu
        bulk = lam
    if p[VISCOSITY] > real(0.0):
        viscous = viscous_stress(g, w, s, p[VISCOSITY], F, e, world)
        P += F * viscous
        S += viscous
        shear += HALF * p[VISCOSITY] / s.dt
    for a in range(4):
        w.gradient[world, corners[a]] += volume * (P * rest[a])
    if wants_hessian > 0:
        square = wp.ddot(F, F)
        J = wp.determinant(F)
        C = cofactors(F)
        stretch = real(0.0)
        length = real(0.0)
        swell = real(0.0)
        push = real(0.0)
        if kind == NEO_HOOKEAN:
            stretch = FOUR_THIRDS * mu * square / (square + ONE)
            length = EIGHT_THIRDS * mu / ((square + ONE) * (square + ONE))
            swell = lam + FIVE_SIXTHS * mu
            push = swell * (J - ONE) - mu
        round = F * wp.transpose(F)
        FB = mat43()
        CB = mat43()
        for a in range(4):
            FB[a] = F * rest[a]
            CB[a] = C * rest[a]
        for a in range(4):
            SA = S * rest[a]
            for b in range(a + 1):
                plain = stretch * wp.dot(rest[a], rest[b]) + wp.dot(SA, rest[b])
                block = plain * wp.identity(n=3, dtype=real)
                block += (length + bulk) * wp.outer(FB[b], FB[a]) + swell * wp.outer(CB[b], CB[a])
                block += shear * (wp.dot(rest[a], rest[b]) * round + wp.outer(FB[a], FB[b]))
                block += push * wp.skew(F * wp.cross(rest[a], rest[b]))
                block = volume * block
                w.blocks[world, g.tet_place[e, 4 * b + a]] += block
                if a != b:
                    w.blocks[world, g.tet_place[e, 4 * a + b]] += wp.transpose(block)


@wp.func(inline=True)
def tet_adjoint(g: Mesh, m: Law, w: Work, s: Step, bar: LawBar, e: int, world: int, wants_params: int):
    """Subtracts the derivatives of lam·gradient, with lam in w.move: by x from w.direction, and by the parameters."""
    group = g.tet_group[e]
    kind = g.solid_kind[group]
    p = m.solids[world, group]
    volume = g.tet_volume[e]
    F = deformation(g, w.after, e, world)
    L = deformation(g, w.move, e, world)
    eta_bar = real(0.0)
    if p[VISCOSITY] > real(0.0) or wants_params == 1:
        A = wp.transpose(F) * L
        A = HALF * volume / s.dt * (A + wp.transpose(A))
        before = deformation(g, w.before, e, world)
        eta_bar = -wp.ddot(A, strain(F) - strain(before))
        pull = p[VISCOSITY] * (before * A)
        corners = g.tets[e]
        rest = g.tet_rest[e]
        for a in range(4):
            w.direction[world, corners[a]] += pull * rest[a]
    if wants_params == 1:
        mu_bar = -volume * wp.ddot(L, solid_stress(kind, ONE, real(0.0), F))
        lam_bar = -volume * wp.ddot(L, solid_stress(kind, real(0.0), ONE, F))
        bars = bar.solids[world, group]
        bars[SHEAR] += wp.float64(mu_bar)
        bars[LAME] += wp.float64(lam_bar)
        bars[VISCOSITY] += wp.float64(eta_bar)
        bar.solids[world, group] = bars
