"""The rotation in a matrix, R of F = R S, with its adjoint, and singular values."""

import warp as wp

from ..spatial.scalar import real, vec3
from .flavour import DIM, mat, vec

# A relative change this small is rounding. [1]
ROUNDING = wp.constant(real(1e-7 if real is wp.float32 else 2e-16))
# Newton's iteration for the rotation, and Jacobi's for singular values, need four to eight.
MOST_ROUNDS = wp.constant(30)

if DIM == 2:

    @wp.func(inline=True)
    def rotation(F: mat):
        a = F[0, 0] + F[1, 1]
        b = F[1, 0] - F[0, 1]
        length = wp.sqrt(a * a + b * b)
        a /= length
        b /= length
        return mat(a, -b, b, a)

    @wp.func(inline=True)
    def rotation_adjoint(F: mat, R: mat, R_bar: mat):
        """Of F from that of its rotation. Only where the two singular values add up to zero there is none."""
        a = F[0, 0] + F[1, 1]
        b = F[1, 0] - F[0, 1]
        turn = R_bar[0, 0] * R[0, 1] - R_bar[0, 1] * R[0, 0] + R_bar[1, 0] * R[1, 1] - R_bar[1, 1] * R[1, 0]
        t = turn / (a * a + b * b)
        return mat(-b * t, -a * t, a * t, -b * t)

else:

    @wp.func(inline=True)
    def rotation(F: mat):
        """By Newton's iteration R <- (R + R^-T)/2, which converges quadratically from any F with a positive
        determinant."""
        R = F
        change = real(1.0)
        rounds = int(0)
        while change > ROUNDING and rounds < MOST_ROUNDS:
            following = real(0.5) * (R + wp.transpose(wp.inverse(R)))
            off = following - R
            change = wp.ddot(off, off)  # squared: the error after it is as small
            R = following
            rounds += 1
        return R

    @wp.func(inline=True)
    def rotation_adjoint(F: mat, R: mat, R_bar: mat):
        """Of F from that of its rotation. Only where two singular values add up to zero there is none."""
        S = wp.transpose(R) @ F
        G = wp.transpose(R) @ R_bar
        w = vec3(G[2, 1] - G[1, 2], G[0, 2] - G[2, 0], G[1, 0] - G[0, 1])
        y = wp.inverse(wp.trace(S) * wp.identity(n=3, dtype=real) - S) * w
        o = real(0.0)
        return R @ mat(o, -y[2], y[1], y[2], o, -y[0], -y[1], y[0], o)


@wp.func
def singular_values(F: mat):
    """U, s and V of F = U diag(s) V^T, by one-sided Jacobi rotations: columns of F V become orthogonal. V is a
    rotation, and where the determinant of F is positive, so is U. The singular values are in no order."""
    B = F
    V = wp.identity(n=DIM, dtype=real)
    rounds = int(0)
    turned = int(1)
    while turned == 1 and rounds < MOST_ROUNDS:
        turned = int(0)
        rounds += 1
        for p in range(DIM - 1):
            for q in range(p + 1, DIM):
                alpha = real(0.0)
                beta = real(0.0)
                gamma = real(0.0)
                for i in range(DIM):
                    alpha += B[i, p] * B[i, p]
                    beta += B[i, q] * B[i, q]
                    gamma += B[i, p] * B[i, q]
                if wp.abs(gamma) > ROUNDING * wp.sqrt(alpha * beta):
                    turned = int(1)
                    zeta = (beta - alpha) / (real(2.0) * gamma)
                    t = wp.where(zeta < real(0.0), real(-1.0), real(1.0)) / (
                        wp.abs(zeta) + wp.sqrt(real(1.0) + zeta * zeta)
                    )
                    c = real(1.0) / wp.sqrt(real(1.0) + t * t)
                    s = c * t
                    for i in range(DIM):
                        b = B[i, p]
                        B[i, p] = c * b - s * B[i, q]
                        B[i, q] = s * b + c * B[i, q]
                        v = V[i, p]
                        V[i, p] = c * v - s * V[i, q]
                        V[i, q] = s * v + c * V[i, q]
    values = vec()
    for p in range(DIM):
        square = real(0.0)
        for i in range(DIM):
            square += B[i, p] * B[i, p]
        values[p] = wp.sqrt(square)
        for i in range(DIM):
            B[i, p] = B[i, p] / values[p]
    return B, values, V
