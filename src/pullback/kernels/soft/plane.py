"""Between a particle and the 9 nodes around it, in the plane."""

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
    low = X[0] >= NEAREST and X[1] >= NEAREST
    return low and X[0] < real(g.shape[0] - 1) - NEAREST and X[1] < real(g.shape[2] - 1) - NEAREST


@wp.func(inline=True)
def around(g: Grid, X: vec):
    """The first row of the nodes around, the first of them in a row, and the place counted from there."""
    i = int(X[0] - real(0.5))
    j = int(X[1] - real(0.5))
    return i, j, X - vec(real(i), real(j))


@wp.func(inline=True)
def touch(g: Grid, w: Work, lane: int, row: int, low: int):
    """Notes that the nodes from ``low`` on in the rows around are in use, and returns the row after the last."""
    for i in range(3):
        w.low[lane, row + i] = wp.min(w.low[lane, row + i], low)
        w.high[lane, row + i] = wp.max(w.high[lane, row + i], low + 3)
    return row + 3


@wp.func(inline=True)
def scatter(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real):
    """Adds w (q + A D) and w mass to the nodes around; D is from the particle to the node, in cells."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    o = real(0.0)
    q4 = vec4(q[0], q[1], o, mass)
    ax = vec4(A[0, 0], A[1, 0], o, o)
    ay = vec4(A[0, 1], A[1, 1], o, o)
    for i in range(3):
        n = offset + (row + i) * g.shape[2] + low
        a = axpy4(mx[i], ax, scaled4(wx[i], q4))
        b = scaled4(wx[i], ay)
        add_row4(w.own, n, wy, my, a, b)


@wp.func(inline=True)
def scatter_both(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real, q_bar: vec, A_bar: mat):
    """The same of momentum, mass, and the cotangent of velocity."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    o = real(0.0)
    q8 = vec8(q[0], q[1], o, mass, q_bar[0], q_bar[1], o, o)
    ax = vec8(A[0, 0], A[1, 0], o, o, A_bar[0, 0], A_bar[1, 0], o, o)
    ay = vec8(A[0, 1], A[1, 1], o, o, A_bar[0, 1], A_bar[1, 1], o, o)
    for i in range(3):
        n = offset + (row + i) * g.shape[2] + low
        a = axpy8(mx[i], ax, scaled8(wx[i], q8))
        b = scaled8(wx[i], ay)
        add_row8(w.own_bar, n, wy, my, a, b)


@wp.func(inline=True)
def gather(g: Grid, w: Work, offset: int, X: vec):
    """The sums of w u and of w u D^T over the nodes around, D in cells."""
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    s = vec4()
    sx = vec4()
    sy = vec4()
    for i in range(3):
        n = offset + (row + i) * g.shape[2] + low
        u0 = load4(w.nodes, n)
        u1 = load4(w.nodes, n + 1)
        u2 = load4(w.nodes, n + 2)
        y = blend4(wy, u0, u1, u2)
        s = axpy4(wx[i], y, s)
        sx = axpy4(mx[i], y, sx)
        sy = axpy4(wx[i], blend4(my, u0, u1, u2), sy)
    return vec(s[0], s[1]), mat(sx[0], sy[0], sx[1], sy[1])


@wp.func(inline=True)
def gather_both(g: Grid, w: Work, offset: int, X: vec, q: vec, A: mat, mass: real, q_bar: vec, A_bar: mat):
    """The sums of w p_bar, w m_bar and w p_bar D^T over the nodes around, and the cotangent of X.

    That is the derivative of the sum of w s, with s = u·(q_bar + A_bar D) + p_bar·(q + A D) + m_bar mass.
    """
    row, low, f = around(g, X)
    wx = weight(f[0])
    wy = weight(f[1])
    dx = slope(f[0])
    dy = slope(f[1])
    mx = moment(f[0], wx)
    my = moment(f[1], wy)
    ex = moment(f[0], dx)
    ey = moment(f[1], dy)
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
    for i in range(3):
        n = offset + (row + i) * g.shape[2] + low
        n0 = load8(w.nodes_bar, n)
        n1 = load8(w.nodes_bar, n + 1)
        n2 = load8(w.nodes_bar, n + 2)
        y = blend8(wy, n0, n1, n2)
        yd = blend8(dy, n0, n1, n2)
        ym = blend8(my, n0, n1, n2)
        ye = blend8(ey, n0, n1, n2)
        s = axpy8(wx[i], y, s)
        s_d = axpy8(dx[i], y, s_d)
        s_m = axpy8(mx[i], y, s_m)
        s_e = axpy8(ex[i], y, s_e)
        d_s = axpy8(wx[i], yd, d_s)
        d_m = axpy8(mx[i], yd, d_m)
        m_s = axpy8(wx[i], ym, m_s)
        m_d = axpy8(dx[i], ym, m_d)
        e_s = axpy8(wx[i], ye, e_s)
    o = real(0.0)
    c = vec8(q_bar[0], q_bar[1], o, o, q[0], q[1], o, mass)
    cx = vec8(A_bar[0, 0], A_bar[1, 0], o, o, A[0, 0], A[1, 0], o, o)
    cy = vec8(A_bar[0, 1], A_bar[1, 1], o, o, A[0, 1], A[1, 1], o, o)
    zero = vec8()
    X_bar = vec(
        sum8(times8(s, -cx, times8(m_d, cy, times8(s_e, cx, times8(s_d, c, zero))))),
        sum8(times8(s, -cy, times8(e_s, cy, times8(d_m, cx, times8(d_s, c, zero))))),
    )
    return vec(s[4], s[5]), s[7], mat(s_m[4], m_s[4], s_m[5], m_s[5]), X_bar
