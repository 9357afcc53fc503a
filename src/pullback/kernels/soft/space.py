"""Between a particle and the 27 nodes around it, in space."""

import warp as wp

from ..spatial.scalar import real, vec4
from .flavour import mat, vec
from .lanes import add_row4, add_row8, axpy4, axpy8, blend4, blend8, load4, load8, scaled4, scaled8, sum8, times8
from .splines import NEAREST, moment, slope, weight
from .structs import Grid, Work, vec8


@wp.func(inline=True)
def place(g: Grid, x: vec):
    """A position in units of the grid."""
    return (x - g.origin) * g.inverse


@wp.func(inline=True)
def is_inside(g: Grid, X: vec):
    """Whether all nodes around a place are there, with some room for rounding; not if it is not finite."""
    inside = X[0] >= NEAREST and X[1] >= NEAREST and X[2] >= NEAREST
    for k in range(3):
        inside = inside and X[k] < real(g.shape[k] - 1) - NEAREST
    return inside


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
        qi = axpy4(mx[i], ax, scaled4(wx[i], q4))
        yi = scaled4(wx[i], ay)
        zi = scaled4(wx[i], az)
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            a = axpy4(my[j], yi, scaled4(wy[j], qi))
            b = scaled4(wy[j], zi)
            add_row4(w.own, n, wz, mz, a, b)


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
        qi = axpy8(mx[i], ax, scaled8(wx[i], q8))
        yi = scaled8(wx[i], ay)
        zi = scaled8(wx[i], az)
        for j in range(3):
            n = offset + (row + i * g.shape[1] + j) * g.shape[2] + low
            a = axpy8(my[j], yi, scaled8(wy[j], qi))
            b = scaled8(wy[j], zi)
            add_row8(w.own_bar, n, wz, mz, a, b)


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
            u0 = load4(w.nodes, n)
            u1 = load4(w.nodes, n + 1)
            u2 = load4(w.nodes, n + 2)
            z = blend4(wz, u0, u1, u2)
            zz = blend4(mz, u0, u1, u2)
            y = axpy4(wy[j], z, y)
            yy = axpy4(my[j], z, yy)
            yz = axpy4(wy[j], zz, yz)
        s = axpy4(wx[i], y, s)
        sx = axpy4(mx[i], y, sx)
        sy = axpy4(wx[i], yy, sy)
        sz = axpy4(wx[i], yz, sz)
    return vec(s[0], s[1], s[2]), mat(sx[0], sy[0], sz[0], sx[1], sy[1], sz[1], sx[2], sy[2], sz[2])


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
            n0 = load8(w.nodes_bar, n)
            n1 = load8(w.nodes_bar, n + 1)
            n2 = load8(w.nodes_bar, n + 2)
            z = blend8(wz, n0, n1, n2)
            zd = blend8(dz, n0, n1, n2)
            zm = blend8(mz, n0, n1, n2)
            ze = blend8(ez, n0, n1, n2)
            y = axpy8(wy[j], z, y)
            y_d = axpy8(dy[j], z, y_d)
            y_m = axpy8(my[j], z, y_m)
            y_e = axpy8(ey[j], z, y_e)
            yz_d = axpy8(wy[j], zd, yz_d)
            yz_md = axpy8(my[j], zd, yz_md)
            yz_m = axpy8(wy[j], zm, yz_m)
            yz_dm = axpy8(dy[j], zm, yz_dm)
            yz_e = axpy8(wy[j], ze, yz_e)
        s = axpy8(wx[i], y, s)
        s_d = axpy8(dx[i], y, s_d)
        s_m = axpy8(mx[i], y, s_m)
        s_e = axpy8(ex[i], y, s_e)
        d_s = axpy8(wx[i], y_d, d_s)
        d_m = axpy8(mx[i], y_d, d_m)
        m_s = axpy8(wx[i], y_m, m_s)
        m_d = axpy8(dx[i], y_m, m_d)
        e_s = axpy8(wx[i], y_e, e_s)
        z_s = axpy8(wx[i], yz_d, z_s)
        z_m = axpy8(mx[i], yz_d, z_m)
        z_ym = axpy8(wx[i], yz_md, z_ym)
        zm_s = axpy8(wx[i], yz_m, zm_s)
        zm_d = axpy8(dx[i], yz_m, zm_d)
        zm_yd = axpy8(wx[i], yz_dm, zm_yd)
        ze_s = axpy8(wx[i], yz_e, ze_s)
    o = real(0.0)
    c = vec8(q_bar[0], q_bar[1], q_bar[2], o, q[0], q[1], q[2], mass)
    cx = vec8(A_bar[0, 0], A_bar[1, 0], A_bar[2, 0], o, A[0, 0], A[1, 0], A[2, 0], o)
    cy = vec8(A_bar[0, 1], A_bar[1, 1], A_bar[2, 1], o, A[0, 1], A[1, 1], A[2, 1], o)
    cz = vec8(A_bar[0, 2], A_bar[1, 2], A_bar[2, 2], o, A[0, 2], A[1, 2], A[2, 2], o)
    zero = vec8()
    X_bar = vec(
        sum8(times8(s, -cx, times8(zm_d, cz, times8(m_d, cy, times8(s_e, cx, times8(s_d, c, zero)))))),
        sum8(times8(s, -cy, times8(zm_yd, cz, times8(e_s, cy, times8(d_m, cx, times8(d_s, c, zero)))))),
        sum8(times8(s, -cz, times8(ze_s, cz, times8(z_ym, cy, times8(z_m, cx, times8(z_s, c, zero)))))),
    )
    p = vec(s[4], s[5], s[6])
    pD = mat(s_m[4], m_s[4], zm_s[4], s_m[5], m_s[5], zm_s[5], s_m[6], m_s[6], zm_s[6])
    return p, s[7], pD, X_bar
