"""Geoms that a fluid meets as ellipsoids, MuJoCo's second model of a fluid, with the adjoint.

In the axes of the geom, moving with u (at its centre) and w against the fluid, of density ρ and viscosity β, with
semi-axes s, a = (s₂²s₃², s₃²s₁², s₁²s₂²) over the largest of these, and coefficients blunt, slender, angular, kutta and
magnus:

    added mass   P × w,  P × u + L × w                   P = ρ m̃ u, L = ρ Ĩ w; no force by acceleration
    Magnus       magnus ρ volume w × u
    Kutta        kutta ρ cos A ((a u) × u) × u           A = A_max √(Q/N), cos = N/(|u| Q), N = Σ a u², Q = Σ a² u²
    drag         -(3πβD + ρ |u| (blunt A + slender (A_max - A))) u                                   D = ⅔ Σ s
                 -(πβD³ + ρ |w (angular I + slender (I_max - I))|) w

Force and torque act at the centre.
"""

import warp as wp

from ..spatial.algebra import ang, cross_force, lin, pack, quat_matrix, quat_mul
from ..spatial.scalar import PI, real, vec3, vec4, vec6
from .forces import into_box, out_of_box
from .structs import Params, Workspace

# A geom that is slower [m/s] shows no side to the fluid.
STILL = wp.constant(real(1e-15))


@wp.struct
class Ellipsoids:
    """Nothing here is differentiated."""

    body: wp.array(dtype=int)
    pos: wp.array(dtype=vec3)  # in its frame
    quat: wp.array(dtype=vec4)
    sides: wp.array(dtype=vec3)  # a, see above
    volume: wp.array(dtype=real)
    mass: wp.array(dtype=vec3)  # added mass and inertia, per density
    inertia: wp.array(dtype=vec3)
    drag: wp.array(dtype=vec3)  # moments I, see above
    largest: wp.array(dtype=vec3)  # A_max, I_max, D


@wp.func
def projection(a: vec3, most: real, u: vec3):
    """N, Q, |u|, the area A that is seen along u, and cos."""
    au = wp.cw_mul(a, u)
    N = wp.dot(au, u)
    Q = wp.dot(au, au)
    n = wp.length(u)
    area = real(0.0)
    cos = real(0.0)
    if n > STILL:
        area = most * wp.sqrt(Q / N)
        cos = N / (n * Q)
    return N, Q, n, area, cos


@wp.func
def ellipsoid_force(e: Ellipsoids, k: int, coef: vec6, rho: real, beta: real, velocity: vec6):
    """Torque and force at the centre of ellipsoid k, in its axes."""
    u = lin(velocity)
    w = ang(velocity)
    a = e.sides[k]
    largest = e.largest[k]
    _N, _Q, n, area, cos = projection(a, largest[0], u)
    P = rho * wp.cw_mul(e.mass[k], u)
    L = rho * wp.cw_mul(e.inertia[k], w)
    force = wp.cross(P, w) + coef[4] * rho * e.volume[k] * wp.cross(w, u)
    force += coef[3] * rho * cos * area * wp.cross(wp.cross(wp.cw_mul(a, u), u), u)
    D = largest[2]
    force -= (real(3.0) * PI * beta * D + rho * n * (coef[0] * area + coef[1] * (largest[0] - area))) * u
    moments = coef[2] * e.drag[k] + coef[1] * (vec3(largest[1], largest[1], largest[1]) - e.drag[k])
    torque = wp.cross(P, u) + wp.cross(L, w)
    torque -= (PI * beta * D * D * D + rho * wp.length(wp.cw_mul(w, moments))) * w
    return pack(torque, force)


@wp.func
def ellipsoid_force_adjoint(e: Ellipsoids, k: int, coef: vec6, rho: real, beta: real, velocity: vec6, x: vec6):
    """Cotangents of velocity, coefficients, density and viscosity in x · ellipsoid_force(...)."""
    u = lin(velocity)
    w = ang(velocity)
    xu = lin(x)
    xw = ang(x)
    a = e.sides[k]
    au = wp.cw_mul(a, u)
    largest = e.largest[k]
    N, Q, n, area, cos = projection(a, largest[0], u)
    coef_bar = vec6()

    # added mass
    mu = wp.cw_mul(e.mass[k], u)
    Iw = wp.cw_mul(e.inertia[k], w)
    P_bar = wp.cross(w, xu) + wp.cross(u, xw)
    L_bar = wp.cross(w, xw)
    u_bar = rho * wp.cross(xw, mu) + rho * wp.cw_mul(e.mass[k], P_bar)
    w_bar = rho * (wp.cross(xu, mu) + wp.cross(xw, Iw)) + rho * wp.cw_mul(e.inertia[k], L_bar)
    rho_bar = wp.dot(P_bar, mu) + wp.dot(L_bar, Iw)

    # Magnus
    volume = e.volume[k]
    spun = volume * wp.dot(xu, wp.cross(w, u))
    coef_bar[4] = rho * spun
    rho_bar += coef[4] * spun
    w_bar += (coef[4] * rho * volume) * wp.cross(u, xu)
    u_bar += (coef[4] * rho * volume) * wp.cross(xu, w)

    # Kutta
    C = wp.cross(au, u)
    lift = coef[3] * rho * cos * area
    lift_bar = wp.dot(xu, wp.cross(C, u))
    C_bar = lift * wp.cross(u, xu)
    u_bar += lift * wp.cross(xu, C) + wp.cw_mul(a, wp.cross(u, C_bar)) + wp.cross(C_bar, au)
    coef_bar[3] = lift_bar * rho * cos * area
    rho_bar += lift_bar * coef[3] * cos * area
    cos_bar = lift_bar * coef[3] * rho * area
    area_bar = lift_bar * coef[3] * rho * cos

    # drag by translation
    D = largest[2]
    blocked = coef[0] * area + coef[1] * (largest[0] - area)
    pushed = -wp.dot(xu, u)
    u_bar -= (real(3.0) * PI * beta * D + rho * n * blocked) * xu
    beta_bar = real(3.0) * PI * D * pushed
    rho_bar += pushed * n * blocked
    n_bar = pushed * rho * blocked
    blocked_bar = pushed * rho * n
    coef_bar[0] = blocked_bar * area
    coef_bar[1] = blocked_bar * (largest[0] - area)
    area_bar += blocked_bar * (coef[0] - coef[1])

    # what is seen along u
    if n > STILL:
        N_bar = cos_bar / (n * Q) - real(0.5) * area_bar * area / N
        Q_bar = (real(0.5) * area_bar * area - cos_bar * cos) / Q
        u_bar += real(2.0) * (N_bar * au + Q_bar * wp.cw_mul(a, au)) + ((n_bar - cos_bar * cos / n) / n) * u

    # drag by rotation
    rest = vec3(largest[1], largest[1], largest[1]) - e.drag[k]
    moments = coef[2] * e.drag[k] + coef[1] * rest
    y = wp.cw_mul(w, moments)
    size = wp.length(y)
    turned = -wp.dot(xw, w)
    w_bar -= (PI * beta * D * D * D + rho * size) * xw
    beta_bar += PI * D * D * D * turned
    rho_bar += turned * size
    if size > real(0.0):
        y_bar = (turned * rho / size) * y
        w_bar += wp.cw_mul(moments, y_bar)
        moments_bar = wp.cw_mul(w, y_bar)
        coef_bar[2] = wp.dot(moments_bar, e.drag[k])
        coef_bar[1] = coef_bar[1] + wp.dot(moments_bar, rest)
    return pack(w_bar, u_bar), coef_bar, rho_bar, beta_bar


@wp.func
def ellipsoid_place(e: Ellipsoids, s: Workspace, k: int, slot: int):
    """The axes of ellipsoid k, and its centre from o."""
    i = e.body[k]
    centre = s.pos[i, slot] - s.o[i, slot] + s.R[i, slot] * e.pos[k]
    return quat_matrix(quat_mul(s.quat[i, slot], e.quat[k])), centre


@wp.func
def ellipsoid_forces(p: Params, s: Workspace, e: Ellipsoids, world: int, slot: int):
    """Takes these forces from the bias force pA of each body."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for k in range(e.body.shape[0]):
        i = e.body[k]
        B, c = ellipsoid_place(e, s, k, slot)
        V = into_box(B, c, s.V[i, slot] - wind)
        force = ellipsoid_force(e, k, p.fluid_coef[world, k], fluid[0], fluid[1], V)
        s.pA[i, slot] = s.pA[i, slot] - out_of_box(B, c, force)


@wp.func
def ellipsoid_forces_adjoint(
    p: Params, p_bar: Params, s: Workspace, e: Ellipsoids, world: int, slot: int, wants_params: int
):
    """Adds to V_bar, X_bar and W of each body the cotangents of Σ X · force."""
    fluid = p.fluid[world, 0]
    wind = pack(vec3(), p.fluid[world, 1])
    for k in range(e.body.shape[0]):
        i = e.body[k]
        B, c = ellipsoid_place(e, s, k, slot)
        V = s.V[i, slot] - wind
        X = s.X[i, slot]
        V_local = into_box(B, c, V)
        coef = p.fluid_coef[world, k]
        V_local_bar, coef_bar, rho_bar, beta_bar = ellipsoid_force_adjoint(
            e, k, coef, fluid[0], fluid[1], V_local, into_box(B, c, X)
        )
        V_bar = out_of_box(B, c, V_local_bar)
        X_bar = out_of_box(B, c, ellipsoid_force(e, k, coef, fluid[0], fluid[1], V_local))
        s.V_bar[i, slot] = s.V_bar[i, slot] + V_bar
        s.X_bar[i, slot] = s.X_bar[i, slot] + X_bar
        # Moving the body by d is, seen from the body, moving V and X by -d.
        s.W[i, slot] = s.W[i, slot] - cross_force(V, V_bar) - cross_force(X, X_bar)
        if wants_params == 1:
            p_bar.fluid_coef[world, k] = p_bar.fluid_coef[world, k] + coef_bar
            p_bar.fluid[world, 0] = p_bar.fluid[world, 0] + vec3(rho_bar, beta_bar, real(0.0))
            p_bar.fluid[world, 1] = p_bar.fluid[world, 1] - lin(V_bar)
