"""Materials without singular values: Kirchhoff stress tau = J sigma of the deformation gradient F, and its adjoint."""

import warp as wp

from ..spatial.scalar import real
from .flavour import DIM, mat
from .kinds import COROTATED, EXPONENT, LAME, NEO_HOOKEAN, SHEAR, WATER
from .rotations import rotation, rotation_adjoint
from .structs import vecm

SHARE = wp.constant(real(1.0 / DIM))  # of an axis in the volume
TWO = wp.constant(real(2.0))
ONE = wp.constant(real(1.0))


@wp.func(inline=True)
def cofactors(F: mat):
    return wp.determinant(F) * wp.transpose(wp.inverse(F))


@wp.func(inline=True)
def pressure_work(m: vecm, J: real):
    """J p of water, by Tait's law p = K/g (J^-g - 1)."""
    return m[LAME] / m[EXPONENT] * (wp.pow(J, ONE - m[EXPONENT]) - J)


@wp.func(inline=True)
def elastic_stress(m: vecm, kind: int, F: mat):
    identity = wp.identity(n=DIM, dtype=real)
    J = wp.determinant(F)
    tau = mat()
    if kind == NEO_HOOKEAN:
        tau = m[SHEAR] * (F @ wp.transpose(F)) + (m[LAME] * wp.log(J) - m[SHEAR]) * identity
    if kind == COROTATED:
        tau = TWO * m[SHEAR] * ((F - rotation(F)) @ wp.transpose(F)) + m[LAME] * J * (J - ONE) * identity
    if kind == WATER:
        tau = -pressure_work(m, J) * identity
    return tau


@wp.func(inline=True)
def elastic_stress_adjoint(m: vecm, kind: int, F: mat, B: mat):
    """Cotangents of F and of the parameters from B, that of tau."""
    J = wp.determinant(F)
    F_bar = mat()
    m_bar = vecm()
    if kind == NEO_HOOKEAN:
        F_bar = m[SHEAR] * ((B + wp.transpose(B)) @ F) + m[LAME] * wp.trace(B) * wp.transpose(wp.inverse(F))
        m_bar[SHEAR] = wp.ddot(B, F @ wp.transpose(F)) - wp.trace(B)
        m_bar[LAME] = wp.trace(B) * wp.log(J)
    if kind == COROTATED:
        R = rotation(F)
        BF = B @ F
        F_bar = TWO * m[SHEAR] * (BF + wp.transpose(B) @ (F - R) - rotation_adjoint(F, R, BF))
        F_bar += m[LAME] * (TWO * J - ONE) * wp.trace(B) * cofactors(F)
        m_bar[SHEAR] = TWO * wp.ddot(B, (F - R) @ wp.transpose(F))
        m_bar[LAME] = wp.trace(B) * J * (J - ONE)
    if kind == WATER:
        g = m[EXPONENT]
        slope = m[LAME] / g * (ONE - (ONE - g) * wp.pow(J, -g))
        F_bar = wp.trace(B) * slope * cofactors(F)
        m_bar[LAME] = -wp.trace(B) * pressure_work(m, J) / m[LAME]
    return F_bar, m_bar
