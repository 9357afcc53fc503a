"""What a particle's material does in a step: the trial deformation, what the material makes of it, and the stress.

Ft = (I + h C) F;   F', Jp' = what is left of it after yielding;   tau = tau(F', Jp') + muscle + viscosity
"""

import warp as wp

from ..spatial.scalar import real
from .elastic import ONE, SHARE, cofactors, elastic_stress, elastic_stress_adjoint
from .flavour import DIM, YIELDS, mat, vec
from .kinds import HENCKY, VISCOSITY, WATER
from .structs import vecm

if YIELDS:
    from .plastic import plastic_adjoint, plastic_response
else:

    @wp.func(inline=True)
    def plastic_response(m: vecm, kind: int, Ft: mat, Jp: real):
        return Ft, Jp, mat()

    @wp.func(inline=True)
    def plastic_adjoint(m: vecm, kind: int, Ft: mat, Jp: real, F: mat, F_bar: mat, Jp_bar: real, B: mat):
        return F_bar, Jp_bar, vecm()


@wp.func(inline=True)
def trial(kind: int, F: mat, C: mat, h: real):
    """Of water only the volume counts, and it changes as that of the flow: a rotation changes nothing."""
    if kind == WATER:
        Ft = wp.pow(ONE + h * wp.trace(C), SHARE) * F
    else:
        Ft = F + h * (C @ F)
    return Ft


@wp.func(inline=True)
def trial_adjoint(kind: int, F: mat, C: mat, h: real, Ft_bar: mat):
    if kind == WATER:
        growth = ONE + h * wp.trace(C)
        root = wp.pow(growth, SHARE)
        F_bar = root * Ft_bar
        C_bar = wp.ddot(Ft_bar, F) * h * SHARE * root / growth * wp.identity(n=DIM, dtype=real)
    else:
        F_bar = Ft_bar + h * (wp.transpose(C) @ Ft_bar)
        C_bar = h * (Ft_bar @ wp.transpose(F))
    return F_bar, C_bar


@wp.func(inline=True)
def respond(m: vecm, kind: int, Ft: mat, Jp: real, C: mat, active: real, direction: vec):
    """F', Jp' and tau. ``active`` is the stress of a muscle along ``direction`` [Pa]."""
    F = Ft
    after = Jp
    if YIELDS and kind >= HENCKY:
        F, after, tau = plastic_response(m, kind, Ft, Jp)
    else:
        if kind == WATER:
            F = wp.pow(wp.determinant(Ft), SHARE) * wp.identity(n=DIM, dtype=real)
        tau = elastic_stress(m, kind, F)
    if active != real(0.0):
        fibre = F * direction
        tau += active * wp.outer(fibre, fibre)
    if m[VISCOSITY] > real(0.0):
        tau += m[VISCOSITY] * wp.determinant(F) * (C + wp.transpose(C))
    return F, after, tau


@wp.func(inline=True)
def respond_adjoint(
    m: vecm, kind: int, Ft: mat, Jp: real, C: mat, active: real, direction: vec, F: mat, F_bar: mat, Jp_bar: real,
    B: mat, wants_params: int
):  # fmt: skip
    """Cotangents of Ft, Jp, C, the muscle's stress and the parameters, from those of F', Jp' and tau."""
    fibre = F * direction
    active_bar = wp.dot(fibre, B * fibre)
    if active != real(0.0):
        F_bar += active * wp.outer((B + wp.transpose(B)) * fibre, direction)
    C_bar = mat()
    viscous_bar = real(0.0)
    if m[VISCOSITY] > real(0.0) or wants_params == 1:
        J = wp.determinant(F)
        viscous_bar = J * wp.ddot(B, C + wp.transpose(C))
        C_bar = m[VISCOSITY] * J * (B + wp.transpose(B))
        F_bar += m[VISCOSITY] / J * viscous_bar * cofactors(F)
    if YIELDS and kind >= HENCKY:
        Ft_bar, before_bar, m_bar = plastic_adjoint(m, kind, Ft, Jp, F, F_bar, Jp_bar, B)
    else:
        by_stress, m_bar = elastic_stress_adjoint(m, kind, F, B)
        Ft_bar = F_bar + by_stress
        before_bar = Jp_bar
        if kind == WATER:  # F' = J^(1/d) I
            J = wp.determinant(Ft)
            Ft_bar = wp.trace(Ft_bar) * SHARE * wp.pow(J, SHARE - ONE) * cofactors(Ft)
    m_bar[VISCOSITY] = viscous_bar
    return Ft_bar, before_bar, C_bar, active_bar, m_bar
