"""Between a particle and the 27 nodes around it, in space."""

import warp as wp

from ..spatial.scalar import real, vec4
from .flavour import mat, vec
from .splines import moment, slope, weight
from .structs import Grid, Work, vec8


@wp.func(inline=True)
def place(g: Grid, x: vec):
    """A position in units of the grid."""
    return (x - g.origin) * g.inverse


@wp.func(inline=True)
def is_inside(g: Grid, X: vec):
    """Whether all nodes around a place are there; not if it is not finite."""
    h = real(0.5)
    one = real(1.5)
    low = X[0] >= h and X[1] >= h and X[2] >= h
    return low and X[0] < real(g.shape[0]) - one and X[1] < real(g.shape[1]) - one and X[2] < real(g.shape[2]) - one


@wp.func(inline=True)
def around(g: Grid, X: vec):
    """The first row of the nodes around, the first of them in a row, and the place counted from there."""
    i = int(X[0] - real(0.5))
    j = int(X[1] - real(0.5))
    k = int(X[2] - real(0.5))
    return i * g.shape[1] + j, k, X - vec(real(i), real(j), real(k))


@wp.func(inline=True)
def touch(g: Grid, w: Work, lane: int, row: int, low: int):
    """Notes that the nodes from ``low`` on in the rows around are in use, and returns the row after the last."""
    for i in range(3):
        for j in range(3):
            r = row + i * g.shape[1] + j
            w.low[lane, r] = wp.min(w.low[lane, r], low)
            w.high[lane, r] = wp.max(w.high[lane, r], low + 3)
    return row + 2 * g.shape[1] + 3


@wp.func(inline=True)
def scatter(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real):
    """Adds w (q + A D) and w mass to the nodes around; D is from the particle to the node, in cells."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    wz = weight(f[2])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    mz = moment(f[2], wz)
    q4 = vec4(q[0], q[1], q[2], mass)
    ax = vec4(A[0, 0], A[1, 0], A[2, 0], real(0.0))
    ay = vec4(A[0, 1], A[1, 1], A[2, 1], real(0.0))
    az = vec4(A[0, 2], A[1, 2], A[2, 2], real(0.0))
    for i in range(3):
        qi = wx[i] * q4 + mx[i] * ax
        yi = wx[i] * ay
        zi = wx[i] * az
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            a = wy[j] * qi + my[j] * yi
            b = wy[j] * zi
            n0 = w.own[n] + (wz[0] * a + mz[0] * b)
            n1 = w.own[n + 1] + (wz[1] * a + mz[1] * b)
            n2 = w.own[n + 2] + (wz[2] * a + mz[2] * b)
            w.own[n] = n0
            w.own[n + 1] = n1
            w.own[n + 2] = n2


@wp.func(inline=True)
def scatter_both(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real, q_bar: vec, A_bar: mat):
    """The same of momentum, mass, and the cotangent of velocity."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    wz = weight(f[2])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    mz = moment(f[2], wz)
    o = real(0.0)
    q8 = vec8(q[0], q[1], q[2], mass, q_bar[0], q_bar[1], q_bar[2], o)
    ax = vec8(A[0, 0], A[1, 0], A[2, 0], o, A_bar[0, 0], A_bar[1, 0], A_bar[2, 0], o)
    ay = vec8(A[0, 1], A[1, 1], A[2, 1], o, A_bar[0, 1], A_bar[1, 1], A_bar[2, 1], o)
    az = vec8(A[0, 2], A[1, 2], A[2, 2], o, A_bar[0, 2], A_bar[1, 2], A_bar[2, 2], o)
    for i in range(3):
        qi = wx[i] * q8 + mx[i] * ax
        yi = wx[i] * ay
        zi = wx[i] * az
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            a = wy[j] * qi + my[j] * yi
            b = wy[j] * zi
            n0 = w.own_bar[n] + (wz[0] * a + mz[0] * b)
            n1 = w.own_bar[n + 1] + (wz[1] * a + mz[1] * b)
            n2 = w.own_bar[n + 2] + (wz[2] * a + mz[2] * b)
            w.own_bar[n] = n0
            w.own_bar[n + 1] = n1
            w.own_bar[n + 2] = n2


@wp.func(inline=True)
def gather(g: Grid, w: Work, offset: int, X: vec):
    """The sums of w u and of w u D^T over the nodes around, D in cells."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    wz = weight(f[2])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    mz = moment(f[2], wz)
    s = vec4()
    sx = vec4()
    sy = vec4()
    sz = vec4()
    for i in range(3):
        y = vec4()
        yy = vec4()
        yz = vec4()
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            u0 = w.nodes[n]
            u1 = w.nodes[n + 1]
            u2 = w.nodes[n + 2]
            z = wz[0] * u0 + wz[1] * u1 + wz[2] * u2
            zz = mz[0] * u0 + mz[1] * u1 + mz[2] * u2
            y += wy[j] * z
            yy += my[j] * z
            yz += wy[j] * zz
        s += wx[i] * y
        sx += mx[i] * y
        sy += wx[i] * yy
        sz += wx[i] * yz
    return vec(s[0], s[1], s[2]), mat(sx[0], sy[0], sz[0], sx[1], sy[1], sz[1], sx[2], sy[2], sz[2])


@wp.func(inline=True)
def pair(n: vec8, c: vec8):
    return n[0] * c[0] + n[1] * c[1] + n[2] * c[2] + n[3] * c[3] + n[4] * c[4] + n[5] * c[5] + n[6] * c[6] + n[7] * c[7]


@wp.func(inline=True)
def gather_both(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real, q_bar: vec, A_bar: mat):
    """The sums of w p_bar, w m_bar and w p_bar D^T over the nodes around, and the cotangent of X.

    That is the derivative of the sum of w s, with s = u·(q_bar + A_bar D) + p_bar·(q + A D) + m_bar mass.
    """
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    wz = weight(f[2])
    dx = slope(f[0])
    dy = slope(f[1])
    dz = slope(f[2])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    mz = moment(f[2], wz)
    ex = moment(f[0], dx)
    ey = moment(f[1], dy)
    ez = moment(f[2], dz)
    # Sums of products of one factor per axis: weight, d its slope, m weight times distance, e slope times distance.
    s = vec8()
    s_d = vec8()
    s_m = vec8()
    s_e = vec8()
    d_s = vec8()
    d_m = vec8()
    m_s = vec8()
    m_d = vec8()
    e_s = vec8()
    z_s = vec8()
    z_m = vec8()
    z_ym = vec8()
    zm_s = vec8()
    zm_d = vec8()
    zm_yd = vec8()
    ze_s = vec8()
    for i in range(3):
        y = vec8()
        y_d = vec8()
        y_m = vec8()
        y_e = vec8()
        yz_d = vec8()
        yz_md = vec8()
        yz_m = vec8()
        yz_dm = vec8()
        yz_e = vec8()
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            n0 = w.nodes_bar[n]
            n1 = w.nodes_bar[n + 1]
            n2 = w.nodes_bar[n + 2]
            z = wz[0] * n0 + wz[1] * n1 + wz[2] * n2
            zd = dz[0] * n0 + dz[1] * n1 + dz[2] * n2
            zm = mz[0] * n0 + mz[1] * n1 + mz[2] * n2
            ze = ez[0] * n0 + ez[1] * n1 + ez[2] * n2
            y += wy[j] * z
            y_d += dy[j] * z
            y_m += my[j] * z
            y_e += ey[j] * z
            yz_d += wy[j] * zd
            yz_md += my[j] * zd
            yz_m += wy[j] * zm
            yz_dm += dy[j] * zm
            yz_e += wy[j] * ze
        s += wx[i] * y
        s_d += dx[i] * y
        s_m += mx[i] * y
        s_e += ex[i] * y
        d_s += wx[i] * y_d
        d_m += mx[i] * y_d
        m_s += wx[i] * y_m
        m_d += dx[i] * y_m
        e_s += wx[i] * y_e
        z_s += wx[i] * yz_d
        z_m += mx[i] * yz_d
        z_ym += wx[i] * yz_md
        zm_s += wx[i] * yz_m
        zm_d += dx[i] * yz_m
        zm_yd += wx[i] * yz_dm
        ze_s += wx[i] * yz_e
    o = real(0.0)
    c = vec8(q_bar[0], q_bar[1], q_bar[2], o, q[0], q[1], q[2], mass)
    cx = vec8(A_bar[0, 0], A_bar[1, 0], A_bar[2, 0], o, A[0, 0], A[1, 0], A[2, 0], o)
    cy = vec8(A_bar[0, 1], A_bar[1, 1], A_bar[2, 1], o, A[0, 1], A[1, 1], A[2, 1], o)
    cz = vec8(A_bar[0, 2], A_bar[1, 2], A_bar[2, 2], o, A[0, 2], A[1, 2], A[2, 2], o)
    X_bar = vec(
        pair(s_d, c) + pair(s_e, cx) + pair(m_d, cy) + pair(zm_d, cz) - pair(s, cx),
        pair(d_s, c) + pair(d_m, cx) + pair(e_s, cy) + pair(zm_yd, cz) - pair(s, cy),
        pair(z_s, c) + pair(z_m, cx) + pair(z_ym, cy) + pair(ze_s, cz) - pair(s, cz),
    )
    p = vec(s[4], s[5], s[6])
    pD = mat(s_m[4], m_s[4], zm_s[4], s_m[5], m_s[5], zm_s[5], s_m[6], m_s[6], zm_s[6])
    return p, s[7], pD, X_bar
