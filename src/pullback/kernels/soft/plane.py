"""Between a particle and the 9 nodes around it, in the plane."""

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
    low = X[0] >= real(0.5) and X[1] >= real(0.5)
    return low and X[0] < real(g.shape[0]) - real(1.5) and X[1] < real(g.shape[2]) - real(1.5)


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
        a = wx[i] * q4 + mx[i] * ax
        b = wx[i] * ay
        n0 = w.own[n] + (wy[0] * a + my[0] * b)
        n1 = w.own[n + 1] + (wy[1] * a + my[1] * b)
        n2 = w.own[n + 2] + (wy[2] * a + my[2] * b)
        w.own[n] = n0
        w.own[n + 1] = n1
        w.own[n + 2] = n2


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
        a = wx[i] * q8 + mx[i] * ax
        b = wx[i] * ay
        n0 = w.own_bar[n] + (wy[0] * a + my[0] * b)
        n1 = w.own_bar[n + 1] + (wy[1] * a + my[1] * b)
        n2 = w.own_bar[n + 2] + (wy[2] * a + my[2] * b)
        w.own_bar[n] = n0
        w.own_bar[n + 1] = n1
        w.own_bar[n + 2] = n2


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
        u0 = w.nodes[n]
        u1 = w.nodes[n + 1]
        u2 = w.nodes[n + 2]
        y = wy[0] * u0 + wy[1] * u1 + wy[2] * u2
        s += wx[i] * y
        sx += mx[i] * y
        sy += wx[i] * (my[0] * u0 + my[1] * u1 + my[2] * u2)
    return vec(s[0], s[1]), mat(sx[0], sy[0], sx[1], sy[1])


@wp.func(inline=True)
def pair(n: vec8, c: vec8):
    return n[0] * c[0] + n[1] * c[1] + n[4] * c[4] + n[5] * c[5] + n[7] * c[7]


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
        n0 = w.nodes_bar[n]
        n1 = w.nodes_bar[n + 1]
        n2 = w.nodes_bar[n + 2]
        y = wy[0] * n0 + wy[1] * n1 + wy[2] * n2
        yd = dy[0] * n0 + dy[1] * n1 + dy[2] * n2
        ym = my[0] * n0 + my[1] * n1 + my[2] * n2
        ye = ey[0] * n0 + ey[1] * n1 + ey[2] * n2
        s += wx[i] * y
        s_d += dx[i] * y
        s_m += mx[i] * y
        s_e += ex[i] * y
        d_s += wx[i] * yd
        d_m += mx[i] * yd
        m_s += wx[i] * ym
        m_d += dx[i] * ym
        e_s += wx[i] * ye
    o = real(0.0)
    c = vec8(q_bar[0], q_bar[1], o, o, q[0], q[1], o, mass)
    cx = vec8(A_bar[0, 0], A_bar[1, 0], o, o, A[0, 0], A[1, 0], o, o)
    cy = vec8(A_bar[0, 1], A_bar[1, 1], o, o, A[0, 1], A[1, 1], o, o)
    X_bar = vec(
        pair(s_d, c) + pair(s_e, cx) + pair(m_d, cy) - pair(s, cx),
        pair(d_s, c) + pair(d_m, cx) + pair(e_s, cy) - pair(s, cy),
    )
    return vec(s[4], s[5]), s[7], mat(s_m[4], m_s[4], s_m[5], m_s[5]), X_bar
