"""How the force of a fluid changes with a body's velocity, for steps that are implicit in it, with the adjoint.

A force F(V) on a body moves its joints by Jᵀ F(J v), so that its slope B = ∂F/∂V, 6 × 6, adds -h Jᵀ B J to the matrix
of such a step. Of an ellipsoid B is not symmetric; MuJoCo's implicitfast takes ½ (B + Bᵀ). The adjoint is that of
x · B y, for the virtual motion x of the body and its motion y under the accelerations.
"""

import warp as wp

from ..spatial.algebra import ang, cross_force, lin, pack, quat_matrix, quat_mul
from ..spatial.scalar import PI, mat66, real, vec3, vec6
from .ellipsoids import STILL, Ellipsoids, ellipsoid_force_adjoint, ellipsoid_place, projection
from .forces import box_drag_shape, box_drag_slope, box_params_adjoint, into_box, out_of_box
from .structs import Params, Tree, Workspace, com_from_o


@wp.func
def unit_motion(k: int):
    x = vec6()
    x[k] = real(1.0)
    return x


@wp.func
def set_column(K: mat66, k: int, x: vec6):
    """K with another column."""
    for j in range(6):
        K[j, k] = x[j]
    return K


# --- the box that stands for a body ----------------------------------------------------------------


@wp.func
def box_place(m: Tree, p: Params, s: Workspace, i: int, world: int, slot: int):
    """The axes of body i's box, and its centre from o."""
    return quat_matrix(quat_mul(s.quat[i, slot], m.fluid_quat[i])), com_from_o(p, s, i, world, slot)


@wp.func
def box_slope(m: Tree, p: Params, s: Workspace, i: int, world: int, slot: int):
    """B of body i, about o."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    axes, c = box_place(m, p, s, i, world, slot)
    V = into_box(axes, c, s.V[i, slot] - wind)
    slope = box_drag_slope(V, p.fluid_box[world, i], fluid[0], fluid[1])
    B = mat66()
    for k in range(6):
        B = set_column(B, k, out_of_box(axes, c, wp.cw_mul(slope, into_box(axes, c, unit_motion(k)))))
    return B


@wp.func
def add_slope_bars(s: Workspace, i: int, V: vec6, V_bar: vec6, X: vec6, X_bar: vec6, y: vec6, y_bar: vec6, slot: int):
    """Adds to V_bar, X_bar, G_bar and W of body i. Moving it by d is, seen from it, moving V, X and y by -d."""
    s.V_bar[i, slot] = s.V_bar[i, slot] + V_bar
    s.X_bar[i, slot] = s.X_bar[i, slot] + X_bar
    s.G_bar[i, slot] = s.G_bar[i, slot] + y_bar
    s.W[i, slot] = s.W[i, slot] - cross_force(V, V_bar) - cross_force(X, X_bar) - cross_force(y, y_bar)


@wp.func
def box_slope_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, i: int, y: vec6, scale: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds to V_bar, X_bar, G_bar, that of y, and W of body i the cotangents of scale · X · B y."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    axes, c = box_place(m, p, s, i, world, slot)
    V = s.V[i, slot] - wind
    X = s.X[i, slot]
    box = p.fluid_box[world, i]
    V_local = into_box(axes, c, V)
    X_local = scale * into_box(axes, c, X)
    y_local = into_box(axes, c, y)
    slope = box_drag_slope(V_local, box, fluid[0], fluid[1])
    turn, push, _edge = box_drag_shape(box)
    w = ang(V_local)
    v = lin(V_local)
    # what is quadratic in V has twice its |V| as slope
    ww = real(2.0) * wp.cw_mul(ang(X_local), ang(y_local))
    vv = real(2.0) * wp.cw_mul(lin(X_local), lin(y_local))
    by_V = -fluid[0] * pack(wp.cw_mul(turn, wp.cw_mul(ww, wp.sign(w))), wp.cw_mul(push, wp.cw_mul(vv, wp.sign(v))))
    V_bar = out_of_box(axes, c, by_V)
    X_bar = scale * out_of_box(axes, c, wp.cw_mul(slope, y_local))
    y_bar = out_of_box(axes, c, wp.cw_mul(slope, X_local))
    add_slope_bars(s, i, V, V_bar, X, X_bar, y, y_bar, slot)
    if wants_params == 1:
        box_bar, density_bar, viscosity_bar = box_params_adjoint(
            box, fluid[0], fluid[1], wp.cw_mul(ww, wp.abs(w)), wp.cw_mul(vv, wp.abs(v)),
            wp.dot(ang(X_local), ang(y_local)), wp.dot(lin(X_local), lin(y_local)),
        )  # fmt: skip
        c_bar = wp.cross(lin(V_bar), ang(V)) + wp.cross(lin(X_bar), ang(X)) + wp.cross(lin(y_bar), ang(y))
        p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(s.R[i, slot]) * c_bar
        p_bar.fluid_box[world, i] = p_bar.fluid_box[world, i] + box_bar
        p_bar.fluid[world, 0] = p_bar.fluid[world, 0] + vec3(density_bar, viscosity_bar, real(0.0))
        p_bar.fluid[world, 1] = p_bar.fluid[world, 1] - lin(V_bar)


# --- ellipsoids ------------------------------------------------------------------------------------


@wp.func
def local_slope(e: Ellipsoids, k: int, coef: vec6, rho: real, beta: real, velocity: vec6):
    """B of ellipsoid k in its axes, transposed: its columns are the gradients of the force's entries."""
    B = mat66()
    for j in range(6):
        row, _coef, _rho, _beta = ellipsoid_force_adjoint(e, k, coef, rho, beta, velocity, unit_motion(j))
        B = set_column(B, j, row)
    return B


@wp.func
def ellipsoid_slope(p: Params, s: Workspace, e: Ellipsoids, k: int, symmetric: bool, world: int, slot: int):
    """B of ellipsoid k about o, or its symmetric part."""
    i = e.body[k]
    fluid = p.fluid[world, 0]
    axes, c = ellipsoid_place(e, s, k, slot)
    V = into_box(axes, c, s.V[i, slot] - pack(vec3(), p.fluid[world, 1]))
    transposed = local_slope(e, k, p.fluid_coef[world, k], fluid[0], fluid[1], V)
    local = wp.transpose(transposed)
    if symmetric:
        local = real(0.5) * (local + transposed)
    B = mat66()
    for j in range(6):
        B = set_column(B, j, out_of_box(axes, c, local * into_box(axes, c, unit_motion(j))))
    return B


@wp.func
def ellipsoid_slope_adjoint(
    p: Params, p_bar: Params, s: Workspace, e: Ellipsoids, k: int, y: vec6, scale: real, symmetric: bool,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds to V_bar, X_bar, G_bar, that of y, and W of its body the cotangents of scale · X · B y of ellipsoid k."""
    i = e.body[k]
    fluid = p.fluid[world, 0]
    coef = p.fluid_coef[world, k]
    axes, c = ellipsoid_place(e, s, k, slot)
    V = s.V[i, slot] - pack(vec3(), p.fluid[world, 1])
    X = s.X[i, slot]
    V_local = into_box(axes, c, V)
    X_local = into_box(axes, c, X)
    y_local = into_box(axes, c, y)
    transposed = local_slope(e, k, coef, fluid[0], fluid[1], V_local)
    local = wp.transpose(transposed)
    share = scale
    if symmetric:
        share = real(0.5) * scale
    by_V, coef_bar, rho_bar, beta_bar = gradient_slope(
        e, k, coef, fluid[0], fluid[1], V_local, share * X_local, y_local
    )
    if symmetric:
        by_V2, coef_bar2, rho_bar2, beta_bar2 = gradient_slope(
            e, k, coef, fluid[0], fluid[1], V_local, share * y_local, X_local
        )
        by_V += by_V2
        coef_bar += coef_bar2
        rho_bar += rho_bar2
        beta_bar += beta_bar2
        local = real(0.5) * (local + transposed)
    V_bar = out_of_box(axes, c, by_V)
    X_bar = scale * out_of_box(axes, c, local * y_local)
    y_bar = scale * out_of_box(axes, c, wp.transpose(local) * X_local)
    add_slope_bars(s, i, V, V_bar, X, X_bar, y, y_bar, slot)
    if wants_params == 1:
        p_bar.fluid_coef[world, k] = p_bar.fluid_coef[world, k] + coef_bar
        p_bar.fluid[world, 0] = p_bar.fluid[world, 0] + vec3(rho_bar, beta_bar, real(0.0))
        p_bar.fluid[world, 1] = p_bar.fluid[world, 1] - lin(V_bar)


@wp.func
def gradient_slope(e: Ellipsoids, k: int, coef: vec6, rho: real, beta: real, velocity: vec6, x: vec6, y: vec6):
    """Cotangents of velocity, coefficients, density and viscosity in x · B y, in the axes of ellipsoid k.

    They are the derivatives, along the velocity y, of what ``ellipsoid_force_adjoint`` returns: dX is that of X.
    """
    u = lin(velocity)
    w = ang(velocity)
    du = lin(y)
    dw = ang(y)
    xu = lin(x)
    xw = ang(x)
    a = e.sides[k]
    au = wp.cw_mul(a, u)
    dau = wp.cw_mul(a, du)
    largest = e.largest[k]
    N, Q, n, area, cos = projection(a, largest[0], u)
    dN = real(0.0)
    dQ = real(0.0)
    dn = real(0.0)
    darea = real(0.0)
    dcos = real(0.0)
    if n > STILL:
        dN = real(2.0) * wp.dot(au, du)
        dQ = real(2.0) * wp.dot(au, dau)
        dn = wp.dot(u, du) / n
        darea = real(0.5) * area * (dQ / Q - dN / N)
        dcos = cos * (dN / N - dn / n - dQ / Q)
    dcoef_bar = vec6()

    # added mass
    mu = wp.cw_mul(e.mass[k], u)
    Iw = wp.cw_mul(e.inertia[k], w)
    dmu = wp.cw_mul(e.mass[k], du)
    dIw = wp.cw_mul(e.inertia[k], dw)
    P_bar = wp.cross(w, xu) + wp.cross(u, xw)
    L_bar = wp.cross(w, xw)
    dP_bar = wp.cross(dw, xu) + wp.cross(du, xw)
    dL_bar = wp.cross(dw, xw)
    du_bar = rho * (wp.cross(xw, dmu) + wp.cw_mul(e.mass[k], dP_bar))
    dw_bar = rho * (wp.cross(xu, dmu) + wp.cross(xw, dIw) + wp.cw_mul(e.inertia[k], dL_bar))
    drho_bar = wp.dot(dP_bar, mu) + wp.dot(P_bar, dmu) + wp.dot(dL_bar, Iw) + wp.dot(L_bar, dIw)

    # Magnus
    volume = e.volume[k]
    dspun = volume * wp.dot(xu, wp.cross(dw, u) + wp.cross(w, du))
    dcoef_bar[4] = rho * dspun
    drho_bar += coef[4] * dspun
    dw_bar += (coef[4] * rho * volume) * wp.cross(du, xu)
    du_bar += (coef[4] * rho * volume) * wp.cross(xu, dw)

    # Kutta
    C = wp.cross(au, u)
    dC = wp.cross(dau, u) + wp.cross(au, du)
    dseen = dcos * area + cos * darea
    lift = coef[3] * rho * cos * area
    dlift = coef[3] * rho * dseen
    lift_bar = wp.dot(xu, wp.cross(C, u))
    dlift_bar = wp.dot(xu, wp.cross(dC, u) + wp.cross(C, du))
    C_bar = lift * wp.cross(u, xu)
    dC_bar = dlift * wp.cross(u, xu) + lift * wp.cross(du, xu)
    du_bar += dlift * wp.cross(xu, C) + lift * wp.cross(xu, dC)
    du_bar += wp.cw_mul(a, wp.cross(du, C_bar) + wp.cross(u, dC_bar)) + wp.cross(dC_bar, au) + wp.cross(C_bar, dau)
    lifted = dlift_bar * cos * area + lift_bar * dseen
    dcoef_bar[3] = rho * lifted
    drho_bar += coef[3] * lifted
    cos_bar = lift_bar * coef[3] * rho * area
    area_bar = lift_bar * coef[3] * rho * cos
    dcos_bar = coef[3] * rho * (dlift_bar * area + lift_bar * darea)
    darea_bar = coef[3] * rho * (dlift_bar * cos + lift_bar * dcos)

    # drag by translation
    D = largest[2]
    blocked = coef[0] * area + coef[1] * (largest[0] - area)
    dblocked = (coef[0] - coef[1]) * darea
    pushed = -wp.dot(xu, u)
    dpushed = -wp.dot(xu, du)
    du_bar -= rho * (dn * blocked + n * dblocked) * xu
    dbeta_bar = real(3.0) * PI * D * dpushed
    drho_bar += dpushed * n * blocked + pushed * (dn * blocked + n * dblocked)
    n_bar = pushed * rho * blocked
    dn_bar = rho * (dpushed * blocked + pushed * dblocked)
    blocked_bar = pushed * rho * n
    dblocked_bar = rho * (dpushed * n + pushed * dn)
    dcoef_bar[0] = dblocked_bar * area + blocked_bar * darea
    dcoef_bar[1] = dblocked_bar * (largest[0] - area) - blocked_bar * darea
    area_bar += blocked_bar * (coef[0] - coef[1])
    darea_bar += dblocked_bar * (coef[0] - coef[1])

    # what is seen along u
    if n > STILL:
        half = real(0.5) * area_bar * area
        dhalf = real(0.5) * (darea_bar * area + area_bar * darea)
        slant = cos_bar / (n * Q)
        dslant = dcos_bar / (n * Q) - slant * (dn / n + dQ / Q)
        leant = cos_bar * cos
        dleant = dcos_bar * cos + cos_bar * dcos
        N_bar = slant - half / N
        dN_bar = dslant - (dhalf - half * dN / N) / N
        Q_bar = (half - leant) / Q
        dQ_bar = (dhalf - dleant - Q_bar * dQ) / Q
        along = (n_bar - leant / n) / n
        dalong = (dn_bar - (dleant - leant * dn / n) / n - along * dn) / n
        du_bar += real(2.0) * (dN_bar * au + N_bar * dau + dQ_bar * wp.cw_mul(a, au) + Q_bar * wp.cw_mul(a, dau))
        du_bar += dalong * u + along * du

    # drag by rotation
    rest = vec3(largest[1], largest[1], largest[1]) - e.drag[k]
    moments = coef[2] * e.drag[k] + coef[1] * rest
    z = wp.cw_mul(w, moments)
    dz = wp.cw_mul(dw, moments)
    size = wp.length(z)
    turned = -wp.dot(xw, w)
    dturned = -wp.dot(xw, dw)
    dbeta_bar += PI * D * D * D * dturned
    drho_bar += dturned * size
    if size > real(0.0):
        dsize = wp.dot(z, dz) / size
        drho_bar += turned * dsize
        dw_bar -= (rho * dsize) * xw
        z_bar = (turned * rho / size) * z
        dz_bar = (rho * (dturned - turned * dsize / size) / size) * z + (turned * rho / size) * dz
        dw_bar += wp.cw_mul(moments, dz_bar)
        dmoments_bar = wp.cw_mul(dw, z_bar) + wp.cw_mul(w, dz_bar)
        dcoef_bar[2] = wp.dot(dmoments_bar, e.drag[k])
        dcoef_bar[1] = dcoef_bar[1] + wp.dot(dmoments_bar, rest)
    return pack(dw_bar, du_bar), dcoef_bar, drho_bar, dbeta_bar
