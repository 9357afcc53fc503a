"""Spatial algebra and rotations.

Motions and forces are 6-vectors [angular; linear] in *world axes about one fixed point* ``o`` per tree: nothing needs
transforming between links, and sums over a subtree are plain sums.

    letter  meaning                                              type
    m x     motion: angular velocity, linear velocity at o       vec6
    f       force: moment about o, linear force                  vec6
    q       unit quaternion, wxyz                                vec4
    phi     rotation vector                                      vec3 [rad]
"""

import warp as wp

from .scalar import SMALL_ANGLE_SQUARED, mat33, real, sym66, vec3, vec4, vec6

# A quaternion whose length is one to this much [1] is not brought to unit length again; the same bound MuJoCo uses.
UNIT_LENGTH = wp.constant(real(1e-15))

# --- 3-vectors -------------------------------------------------------------------------------------


@wp.func
def unit(v: vec3):
    return v / wp.sqrt(wp.dot(v, v))


@wp.func
def column(R: mat33, k: int):
    return vec3(R[0, k], R[1, k], R[2, k])


@wp.func
def axis_z(R: mat33):
    return column(R, 2)


# --- 6-vectors -------------------------------------------------------------------------------------


@wp.func
def ang(x: vec6):
    return vec3(x[0], x[1], x[2])


@wp.func
def lin(x: vec6):
    return vec3(x[3], x[4], x[5])


@wp.func
def pack(a: vec3, b: vec3):
    return vec6(a[0], a[1], a[2], b[0], b[1], b[2])


@wp.func
def velocity_at(V: vec6, p: vec3):
    """Of the point p (relative to o) under the motion V."""
    return lin(V) + wp.cross(ang(V), p)


@wp.func
def acceleration_at(V: vec6, A: vec6, p: vec3):
    """Of a point of a body that is at p (relative to o)."""
    return lin(A) + wp.cross(ang(A), p) + wp.cross(ang(V), velocity_at(V, p))


@wp.func
def cross_motion(a: vec6, b: vec6):
    """a × b: rate of a motion b carried along by a."""
    return pack(wp.cross(ang(a), ang(b)), wp.cross(ang(a), lin(b)) + wp.cross(lin(a), ang(b)))


@wp.func
def cross_force(a: vec6, f: vec6):
    """a ×* f: rate of a force f carried along by a. Minus the transpose of a ×."""
    return pack(wp.cross(ang(a), ang(f)) + wp.cross(lin(a), lin(f)), wp.cross(ang(a), lin(f)))


@wp.func
def moment_about(f: vec6, p: vec3):
    """Moment of f about the point p (relative to o). Also: cotangent of a rotation about p."""
    return ang(f) - wp.cross(p, lin(f))


# --- symmetric 3×3 matrices as [xx yy zz xy xz yz] -------------------------------------------------


@wp.func
def sym_mul(J: vec6, x: vec3):
    return vec3(
        J[0] * x[0] + J[3] * x[1] + J[4] * x[2],
        J[3] * x[0] + J[1] * x[1] + J[5] * x[2],
        J[4] * x[0] + J[5] * x[1] + J[2] * x[2],
    )


@wp.func
def sym_outer(a: vec3, b: vec3):
    """Cotangent of J in aᵀ J b."""
    return vec6(
        a[0] * b[0],
        a[1] * b[1],
        a[2] * b[2],
        a[0] * b[1] + a[1] * b[0],
        a[0] * b[2] + a[2] * b[0],
        a[1] * b[2] + a[2] * b[1],
    )


@wp.func
def sym_rotate(R: mat33, J: vec6):
    """R J Rᵀ"""
    T = R * mat33(J[0], J[3], J[4], J[3], J[1], J[5], J[4], J[5], J[2])
    r0 = vec3(R[0, 0], R[0, 1], R[0, 2])
    r1 = vec3(R[1, 0], R[1, 1], R[1, 2])
    r2 = vec3(R[2, 0], R[2, 1], R[2, 2])
    t0 = vec3(T[0, 0], T[0, 1], T[0, 2])
    t1 = vec3(T[1, 0], T[1, 1], T[1, 2])
    t2 = vec3(T[2, 0], T[2, 1], T[2, 2])
    return vec6(wp.dot(t0, r0), wp.dot(t1, r1), wp.dot(t2, r2), wp.dot(t0, r1), wp.dot(t0, r2), wp.dot(t1, r2))


# --- rigid-body inertia: mass, h = mass × centre of mass, J about o --------------------------------


@wp.func
def inertia_about_origin(R: mat33, J_com: vec6, mass: real, c: vec3):
    """Rotational inertia about o of a body whose centre of mass is at c; J_com is about c in the body's axes."""
    J = sym_rotate(R, J_com)
    cc = wp.dot(c, c)
    return J + mass * vec6(
        cc - c[0] * c[0], cc - c[1] * c[1], cc - c[2] * c[2], -c[0] * c[1], -c[0] * c[2], -c[1] * c[2]
    )


@wp.func
def inertia_mul(mass: real, h: vec3, J: vec6, m: vec6):
    """I m: momentum of the motion m."""
    return pack(sym_mul(J, ang(m)) + wp.cross(h, lin(m)), mass * lin(m) - wp.cross(h, ang(m)))


@wp.func
def inertia_matrix(mass: real, h: vec3, J: vec6):
    o = real(0.0)
    return sym66(
        J[0], J[3], J[4], o, -h[2], h[1],
        J[1], J[5], h[2], o, -h[0],
        J[2], -h[1], h[0], o,
        mass, o, o,
        mass, o,
        mass,
    )  # fmt: skip


@wp.func
def sym66_mul(B: sym66, m: vec6):
    return vec6(
        B[0] * m[0] + B[1] * m[1] + B[2] * m[2] + B[3] * m[3] + B[4] * m[4] + B[5] * m[5],
        B[1] * m[0] + B[6] * m[1] + B[7] * m[2] + B[8] * m[3] + B[9] * m[4] + B[10] * m[5],
        B[2] * m[0] + B[7] * m[1] + B[11] * m[2] + B[12] * m[3] + B[13] * m[4] + B[14] * m[5],
        B[3] * m[0] + B[8] * m[1] + B[12] * m[2] + B[15] * m[3] + B[16] * m[4] + B[17] * m[5],
        B[4] * m[0] + B[9] * m[1] + B[13] * m[2] + B[16] * m[3] + B[18] * m[4] + B[19] * m[5],
        B[5] * m[0] + B[10] * m[1] + B[14] * m[2] + B[17] * m[3] + B[19] * m[4] + B[20] * m[5],
    )


@wp.func
def sym66_outer(U: vec6, scale: real):
    """scale · U Uᵀ"""
    T = scale * U
    return sym66(
        T[0] * U[0], T[0] * U[1], T[0] * U[2], T[0] * U[3], T[0] * U[4], T[0] * U[5],
        T[1] * U[1], T[1] * U[2], T[1] * U[3], T[1] * U[4], T[1] * U[5],
        T[2] * U[2], T[2] * U[3], T[2] * U[4], T[2] * U[5],
        T[3] * U[3], T[3] * U[4], T[3] * U[5],
        T[4] * U[4], T[4] * U[5],
        T[5] * U[5],
    )  # fmt: skip


# --- rotations -------------------------------------------------------------------------------------


@wp.func
def quat_mul(a: vec4, b: vec4):
    return vec4(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@wp.func
def quat_conj(q: vec4):
    return vec4(q[0], -q[1], -q[2], -q[3])


@wp.func
def quat_vec(q: vec4):
    return vec3(q[1], q[2], q[3])


@wp.func
def quat_unit(q: vec4):
    """q brought to unit length. Unlike wp.normalize it hands a NaN on, and makes one of a quaternion of zero length.

    One that is of unit length to rounding stays as it is, to the last bit, as in MuJoCo.
    """
    length = wp.sqrt(wp.dot(q, q))
    unit = q
    if not wp.abs(length - real(1.0)) <= UNIT_LENGTH:
        unit = q / length
    return unit


@wp.func
def quat_rotate(q: vec4, x: vec3):
    t = real(2.0) * wp.cross(quat_vec(q), x)
    return x + q[0] * t + wp.cross(quat_vec(q), t)


@wp.func
def quat_matrix(q: vec4):
    """Rotation matrix of a unit quaternion.

    By MuJoCo's sums, so that rounding is the same: a quarter turn has zeros where 1 - 2 x² would leave 1e-16, and what
    stands exactly on the floor there does so here.
    """
    two = real(2.0)
    ww = q[0] * q[0]
    wx = q[0] * q[1]
    wy = q[0] * q[2]
    wz = q[0] * q[3]
    xx = q[1] * q[1]
    xy = q[1] * q[2]
    xz = q[1] * q[3]
    yy = q[2] * q[2]
    yz = q[2] * q[3]
    zz = q[3] * q[3]
    return mat33(
        ww + xx - yy - zz, two * (xy - wz), two * (xz + wy),
        two * (xy + wz), ww - xx + yy - zz, two * (yz - wx),
        two * (xz - wy), two * (yz + wx), ww - xx - yy + zz,
    )  # fmt: skip


@wp.func
def quat_axis_angle(axis: vec3, angle: real):
    half = real(0.5) * angle
    s = wp.sin(half)
    return vec4(wp.cos(half), axis[0] * s, axis[1] * s, axis[2] * s)


@wp.func
def sinc(x2: real):
    """sin(x)/x from x²."""
    result = real(1.0) - x2 * (real(1.0) / real(6.0) - x2 * (real(1.0) / real(120.0) - x2 * real(1.0) / real(5040.0)))
    if x2 > SMALL_ANGLE_SQUARED:
        x = wp.sqrt(x2)
        result = wp.sin(x) / x
    return result


@wp.func
def one_minus_sinc(x2: real):
    """(1 - sin(x)/x) / x² from x²."""
    result = real(1.0) / real(6.0) - x2 * (
        real(1.0) / real(120.0) - x2 * (real(1.0) / real(5040.0) - x2 * real(1.0) / real(362880.0))
    )
    if x2 > SMALL_ANGLE_SQUARED:
        x = wp.sqrt(x2)
        result = (real(1.0) - wp.sin(x) / x) / x2
    return result


@wp.func
def quat_exp(phi: vec3):
    """Quaternion of the rotation vector phi."""
    quarter = real(0.25) * wp.dot(phi, phi)
    s = real(0.5) * sinc(quarter)
    return vec4(wp.cos(wp.sqrt(quarter)), phi[0] * s, phi[1] * s, phi[2] * s)


@wp.func
def quat_log(q: vec4):
    """Rotation vector of q, of length at most π."""
    u = quat_vec(q)
    w = q[0]
    if w < real(0.0):  # q and -q are the same rotation; take the short way
        u = -u
        w = -w
    n2 = wp.dot(u, u)
    scale = real(2.0)
    if n2 > real(0.0):
        n = wp.sqrt(n2)
        scale = real(2.0) * wp.atan2(n, w) / n
    return scale * u


@wp.func
def exp_jacobian(phi: vec3, x: vec3):
    """Jr(phi) x: exp(phi + d) = exp(phi) exp(Jr(phi) d) to first order in d."""
    x2 = wp.dot(phi, phi)
    half = sinc(real(0.25) * x2)
    cx = wp.cross(phi, x)
    return x - real(0.5) * half * half * cx + one_minus_sinc(x2) * wp.cross(phi, cx)


@wp.func
def exp_jacobian_slopes(x2: real):
    """Derivatives by x² of (1 - cos(x)) / x² and of (1 - sin(x)/x) / x², from x²."""
    one = real(1.0)
    a = -one / real(24.0) + x2 * (one / real(360.0) - x2 / real(13440.0))
    b = -one / real(120.0) + x2 * (one / real(2520.0) - x2 / real(120960.0))
    if x2 > SMALL_ANGLE_SQUARED:
        x = wp.sqrt(x2)
        ratio = wp.sin(x) / x
        a = (real(0.5) * ratio - (one - wp.cos(x)) / x2) / x2
        b = (real(0.5) * (ratio - wp.cos(x)) - (one - ratio)) / (x2 * x2)
    return a, b


@wp.func
def left_jacobian_slope(phi: vec3, x: vec3, d: vec3):
    """Derivative of Jr(-phi) x along d: of exp(phi + x) = exp(Jr(-phi) x) exp(phi), to first order in x."""
    x2 = wp.dot(phi, phi)
    half = sinc(real(0.25) * x2)
    a_slope, b_slope = exp_jacobian_slopes(x2)
    cx = wp.cross(phi, x)
    dx = wp.cross(d, x)
    return (
        real(0.5) * half * half * dx
        + one_minus_sinc(x2) * (wp.cross(d, cx) + wp.cross(phi, dx))
        + real(2.0) * wp.dot(phi, d) * (a_slope * cx + b_slope * wp.cross(phi, cx))
    )


@wp.func
def exp_jacobian_transposed(phi: vec3, x: vec3):
    """Jr(phi)ᵀ x = Jr(-phi) x"""
    return exp_jacobian(-phi, x)


@wp.func
def log_jacobian_coefficient(x2: real):
    """k = (1 - (x/2) cot(x/2)) / x² and its derivative by x², from x²."""
    one = real(1.0)
    k = one / real(12.0) + x2 * (one / real(720.0) + x2 / real(30240.0))
    slope = one / real(720.0) + x2 * (one / real(15120.0) + x2 / real(403200.0))
    if x2 > SMALL_ANGLE_SQUARED:
        half = real(0.5) * wp.sqrt(x2)
        cot = wp.cos(half) / wp.sin(half)
        k = (one - half * cot) / x2
        slope = ((half * (one + cot * cot) - cot) / (real(8.0) * half) - k) / x2
    return k, slope


@wp.func
def log_jacobian(phi: vec3, x: vec3):
    """Jr(phi)⁻¹ x: log(exp(phi) exp(d)) = phi + Jr(phi)⁻¹ d to first order in d."""
    k, _slope = log_jacobian_coefficient(wp.dot(phi, phi))
    cx = wp.cross(phi, x)
    return x + real(0.5) * cx + k * wp.cross(phi, cx)


@wp.func
def log_jacobian_adjoint(phi: vec3, x: vec3, y: vec3):
    """Cotangent of phi in y·Jr(phi)⁻¹ x."""
    x2 = wp.dot(phi, phi)
    k, slope = log_jacobian_coefficient(x2)
    px = wp.dot(phi, x)
    py = wp.dot(phi, y)
    xy = wp.dot(x, y)
    return (
        real(0.5) * wp.cross(x, y)
        + k * (py * x + px * y - real(2.0) * xy * phi)
        + real(2.0) * slope * (px * py - x2 * xy) * phi
    )


@wp.func
def log_jacobian_transposed(phi: vec3, x: vec3):
    """Jr(phi)⁻ᵀ x = Jr(-phi)⁻¹ x"""
    return log_jacobian(-phi, x)


@wp.func
def tangent_of_coordinates(q: vec4, q_bar: vec4):
    """Cotangent of a body-frame rotation d in q exp(d), from that of the four stored numbers."""
    return real(0.5) * quat_vec(quat_mul(quat_conj(q), q_bar))


@wp.func
def coordinates_of_tangent(q: vec4, d_bar: vec3):
    """Cotangent of the four stored numbers of q, which need not be of unit length, from that of a rotation d."""
    return (real(2.0) / wp.dot(q, q)) * quat_mul(q, vec4(real(0.0), d_bar[0], d_bar[1], d_bar[2]))
