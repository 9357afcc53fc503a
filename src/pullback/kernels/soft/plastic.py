"""Materials by singular values: Hencky's elasticity, metal and clay by von Mises, sand by Drucker and Prager, snow.

With F = U s V^T and e = log s, a trial deformation becomes U g V^T, and tau = U t U^T:

    Hencky's       g = s;   t = 2 mu e + lambda tr e, with e of g, also of metal and sand
    von Mises      log g = tr e/d + c dev e,  c = yield/(2 mu |dev e|), where |dev e| is beyond yield/(2 mu)
    sand           log g = tr e/d + c dev e,  c = -q tr e/|dev e|, where |dev e| is beyond -q tr e; g = 1 if tr e >= 0;
                   q = alpha (d lambda + 2 mu)/(2 mu), alpha = sqrt(2/3) 2 sin phi/(3 - sin phi)   (Klar et al. 2016)
    snow           g = s within its limits, Jp' = Jp prod s/g;  mu and lambda times exp(hardening (1 - Jp')), and
                   t = 2 mu (g - 1) g + lambda J (J - 1)                                     (Stomakhin et al. 2013)

The adjoint of Z = U g(s) V^T, with M = U^T Z_bar V, is U K V^T:

    K_ii = sum_j dg_j/ds_i M_jj;   K_ij = a_ij (M_ij + M_ji)/2 + b_ij (M_ij - M_ji)/2
    a_ij = (g_i - g_j)/(s_i - s_j);   b_ij = (g_i + g_j)/(s_i + s_j)

with a_ij in a form that is exact where singular values agree, as all do at rest. Derivatives of U and V, which are
infinite there, do not occur.
"""

import math

import warp as wp

from ..spatial.scalar import real
from .elastic import ONE, SHARE, TWO
from .flavour import DIM, mat, vec
from .kinds import ANGLE, COMPRESSION, HARDENING, LAME, SAND, SHEAR, SNOW, STRETCH, VON_MISES, YIELD
from .rotations import singular_values
from .structs import vecm

AXES = wp.constant(real(DIM))
CONE = wp.constant(real(2 * math.sqrt(2 / 3)))
# Below this the series of x/expm1(x) is exact to rounding: the term left out is x⁴/720.
SMALL = wp.constant(real(1e-3))


@wp.func(inline=True)
def log_slope(x: real):
    """x/expm1(x): the divided difference of the logarithm between a and b = a exp(x), times a."""
    result = ONE - x / TWO + x * x / real(12.0)
    if wp.abs(x) > SMALL:
        t = wp.tanh(x / TWO)
        result = x * (ONE - t) / (TWO * t)
    return result


@wp.func(inline=True)
def composed(U: mat, s: vec, V: mat):
    """U diag(s) V^T"""
    scaled = U
    for i in range(DIM):
        for j in range(DIM):
            scaled[i, j] = U[i, j] * s[j]
    return scaled @ wp.transpose(V)


@wp.func(inline=True)
def total(e: vec):
    result = e[0]
    for i in range(1, DIM):
        result += e[i]
    return result


@wp.func(inline=True)
def logarithms(s: vec):
    e = vec()
    for i in range(DIM):
        e[i] = wp.log(s[i])
    return e


@wp.func(inline=True)
def alpha_of(angle: real):
    sine = wp.sin(angle)
    return CONE * sine / (real(3.0) - sine)


@wp.func(inline=True)
def shrinkage(m: vecm, kind: int, e: vec):
    """The factor c of dev e, 1 where nothing yields; tr e that is left; dev e and its length."""
    t = total(e)
    dev = e - vec(t * SHARE)
    length = wp.length(dev)
    c = ONE
    if kind == VON_MISES:
        largest = m[YIELD] / (TWO * m[SHEAR])
        if length > largest:
            c = largest / length
    if kind == SAND:
        q = alpha_of(m[ANGLE]) * (AXES * m[LAME] + TWO * m[SHEAR]) / (TWO * m[SHEAR])
        if t >= real(0.0):
            c = real(0.0)
            t = real(0.0)
        elif length > -q * t:
            c = -q * t / length
    return c, t, dev, length


@wp.func(inline=True)
def limited(m: vecm, s: vec):
    g = vec()
    for i in range(DIM):
        g[i] = wp.clamp(s[i], ONE - m[COMPRESSION], ONE + m[STRETCH])
    return g


@wp.func(inline=True)
def product(s: vec):
    result = s[0]
    for i in range(1, DIM):
        result *= s[i]
    return result


@wp.func
def plastic_response(m: vecm, kind: int, Ft: mat, Jp: real):
    """F', Jp' and tau."""
    U, s, V = singular_values(Ft)
    F = Ft
    after = Jp
    stress = vec()
    if kind == SNOW:
        g = limited(m, s)
        if wp.length(g - s) > real(0.0):
            F = composed(U, g, V)
            after = Jp * product(s) / product(g)
        J = product(g)
        hard = wp.exp(m[HARDENING] * (ONE - after))
        for i in range(DIM):
            stress[i] = hard * (TWO * m[SHEAR] * (g[i] - ONE) * g[i] + m[LAME] * J * (J - ONE))
    else:
        e = logarithms(s)
        c, t, dev, length = shrinkage(m, kind, e)
        if c < ONE:
            e = vec(t * SHARE) + c * dev
            g = vec()
            for i in range(DIM):
                g[i] = wp.exp(e[i])
            F = composed(U, g, V)
        stress = TWO * m[SHEAR] * e + vec(m[LAME] * t)
    return F, after, composed(U, stress, U)


@wp.func(inline=True)
def by_values(U: mat, V: mat, M: mat, diagonal: vec, a: mat, s: vec, g: vec):
    """U K V^T"""
    K = mat()
    for i in range(DIM):
        K[i, i] = diagonal[i]
        for j in range(DIM):
            if i != j:
                even = a[i, j] * (M[i, j] + M[j, i])
                odd = (g[i] + g[j]) / (s[i] + s[j]) * (M[i, j] - M[j, i])
                K[i, j] = (even + odd) / TWO
    return U @ K @ wp.transpose(V)


@wp.func
def hencky_adjoint(m: vecm, kind: int, s: vec, U: mat, V: mat, F: mat, F_bar: mat, B: mat):
    """Cotangents of Ft and of the parameters, of all but snow."""
    m_bar = vecm()
    e = logarithms(s)
    c, t, dev, length = shrinkage(m, kind, e)
    H = e
    if c < ONE:
        H = vec(t * SHARE) + c * dev
    g = vec()
    p = vec()
    for i in range(DIM):
        g[i] = wp.exp(H[i])
        p[i] = (TWO * m[SHEAR] * H[i] + m[LAME] * t) / g[i]

    # tau = P F'^T with P = U p V^T
    M = wp.transpose(U) @ B @ F @ V
    a = mat()
    diagonal = vec()
    weighted = real(0.0)
    for i in range(DIM):
        weighted += M[i, i] / g[i]
    for i in range(DIM):
        diagonal[i] = (m[LAME] * weighted + (TWO * m[SHEAR] - p[i] * g[i]) * M[i, i] / g[i]) / g[i]
        m_bar[SHEAR] += TWO * H[i] * M[i, i] / g[i]
        for j in range(DIM):
            a[i, j] = (TWO * m[SHEAR] * log_slope(H[i] - H[j]) - p[j] * g[j]) / (g[i] * g[j])
    m_bar[LAME] = t * weighted
    F_bar += wp.transpose(B) @ composed(U, p, V) + by_values(U, V, M, diagonal, a, g, p)

    result = F_bar
    if c < ONE:
        M = wp.transpose(U) @ F_bar @ V
        H_bar = vec()
        for i in range(DIM):
            H_bar[i] = g[i] * M[i, i]
            for j in range(DIM):
                de = e[i] - e[j]
                a[i, j] = c * g[j] / s[j] * log_slope(de) / log_slope(c * de)
        e_bar = vec()
        if length > real(0.0) and (kind == VON_MISES or t < real(0.0)):
            along = wp.dot(H_bar, dev) / length
            even = total(H_bar) * SHARE
            for i in range(DIM):
                n = dev[i] / length
                e_bar[i] = even + c * (H_bar[i] - even - n * along)
            if kind == VON_MISES:
                m_bar[YIELD] = along / (TWO * m[SHEAR])
                m_bar[SHEAR] -= c * length * along / m[SHEAR]
            else:
                alpha = alpha_of(m[ANGLE])
                q_by_alpha = (AXES * m[LAME] + TWO * m[SHEAR]) / (TWO * m[SHEAR])
                q_bar = -t * along
                e_bar -= vec(alpha * q_by_alpha * along)
                sine = wp.sin(m[ANGLE])
                slope = real(3.0) * CONE * wp.cos(m[ANGLE]) / ((real(3.0) - sine) * (real(3.0) - sine))
                m_bar[ANGLE] = q_bar * q_by_alpha * slope
                m_bar[LAME] += q_bar * alpha * AXES / (TWO * m[SHEAR])
                m_bar[SHEAR] -= q_bar * alpha * AXES * m[LAME] / (TWO * m[SHEAR] * m[SHEAR])
        for i in range(DIM):
            diagonal[i] = e_bar[i] / s[i]
        result = by_values(U, V, M, diagonal, a, s, g)
    return result, m_bar


@wp.func
def snow_adjoint(m: vecm, s: vec, U: mat, V: mat, Jp: real, F: mat, F_bar: mat, Jp_bar: real, B: mat):
    """Cotangents of Ft, Jp and the parameters, of snow."""
    m_bar = vecm()
    g = limited(m, s)
    J = product(g)
    pressed = m[LAME] * J * (J - ONE)
    growth = product(s) / J
    after = Jp * growth
    hard = wp.exp(m[HARDENING] * (ONE - after))
    p = vec()
    for i in range(DIM):
        p[i] = hard * (TWO * m[SHEAR] * (g[i] - ONE) + pressed / g[i])

    M = wp.transpose(U) @ B @ F @ V
    a = mat()
    diagonal = vec()
    weighted = real(0.0)
    stretched = real(0.0)
    for i in range(DIM):
        weighted += M[i, i] / g[i]
        stretched += M[i, i] * (g[i] - ONE)
    for i in range(DIM):
        diagonal[i] = hard * (
            TWO * m[SHEAR] * M[i, i] + (m[LAME] * J * (TWO * J - ONE) * weighted - pressed * M[i, i] / g[i]) / g[i]
        )
        for j in range(DIM):
            a[i, j] = hard * (TWO * m[SHEAR] - pressed / (g[i] * g[j]))
    F_bar += wp.transpose(B) @ composed(U, p, V) + by_values(U, V, M, diagonal, a, g, p)
    m_bar[SHEAR] = hard * TWO * stretched
    m_bar[LAME] = hard * J * (J - ONE) * weighted
    work = TWO * m[SHEAR] * stretched + pressed * weighted
    m_bar[HARDENING] = (ONE - after) * hard * work
    Jp_bar -= m[HARDENING] * hard * work

    M = wp.transpose(U) @ F_bar @ V
    for i in range(DIM):
        diagonal[i] = M[i, i]
        g_bar = M[i, i] - Jp_bar * after / g[i]
        if s[i] != g[i]:
            diagonal[i] = Jp_bar * after / s[i]
            if s[i] < g[i]:
                m_bar[COMPRESSION] -= g_bar
            else:
                m_bar[STRETCH] += g_bar
        for j in range(DIM):
            a[i, j] = wp.where(s[i] == g[i], ONE, real(0.0))
            if s[i] != s[j]:
                a[i, j] = (g[i] - g[j]) / (s[i] - s[j])
    return by_values(U, V, M, diagonal, a, s, g), growth * Jp_bar, m_bar


@wp.func
def plastic_adjoint(m: vecm, kind: int, Ft: mat, Jp: real, F: mat, F_bar: mat, Jp_bar: real, B: mat):
    """Cotangents of Ft, Jp and the parameters from those of F', Jp' and tau."""
    U, s, V = singular_values(Ft)
    before_bar = Jp_bar
    if kind == SNOW:
        Ft_bar, before_bar, m_bar = snow_adjoint(m, s, U, V, Jp, F, F_bar, Jp_bar, B)
    else:
        Ft_bar, m_bar = hencky_adjoint(m, kind, s, U, V, F, F_bar, B)
    return Ft_bar, before_bar, m_bar
