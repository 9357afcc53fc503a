"""Steps that are implicit in forces that depend on velocities of bodies: (M - h D) a = f, where D is the derivative of
forces by velocities. With MuJoCo's integrator ``implicit`` it has inertial forces and fluids; under ``implicitfast``
fluids, of which the symmetric part, and for free bodies that carry no joints all of it.

With velocities V and velocity-product accelerations C of bodies, inertial forces are I C + V ×* I V. Under a change a
of the joint velocities bodies' velocities change by G = Σ S a, and with C = Σ V_before × Σ S v, where V_before and
V_after are before and after the joint,

    δC = Σ T a - V × G,        T = (V_before + V_after) × S

so that a body's force changes by I Σ T a + N G / h, of which

    N = h (V ×* I - I V × + (×* I V) - B)         (×* f) x = x ×* f, B: slope of the fluid's force

Added up over all that both carry, entries of the matrix are S_d · (I P_e + N S_e), with P = S + h T. It is not
symmetric, but zero where M is: it is eliminated from tips to roots without fill, as M would be, with both triangles in
r.H. The terms of joints, actuators and tendons are symmetric, and those of implicitfast.

The adjoint: w solves the transposed system, and what is new in the pairing is -h wᵀ K a, where K a is the derivative of
the bias along a, and h wᵀ B a. With X = Σ S w, E = δC, Y = X × V and Z = X × G

    wᵀ K a = Σ Xᵀ I E + Zᵀ I V + Yᵀ I G

is a sum over bodies like that of the bias itself: see ``docs/design.md``.
"""

import warp as wp

from ..spatial.algebra import cross_force, cross_motion, inertia_mul, sym66_mul
from ..spatial.scalar import SMALLEST_INERTIA, mat66, real, vec3, vec6
from ..tree.fluid_slopes import box_slope, box_slope_adjoint, set_column, unit_motion
from ..tree.structs import Params, Tree, Workspace, dofs
from ..tree.sweeps import accelerations, gathered_inertia, inertia_params_adjoint, pass_inertia, virtual_motions
from .flavour import ELLIPSOIDS, TENDONS
from .mass_matrix import smooth_forces
from .rows import Rows

if ELLIPSOIDS:
    from ..tree.fluid_slopes import ellipsoid_slope, ellipsoid_slope_adjoint


@wp.func
def inertial_slope(mass: real, h: vec3, J: vec6, V: vec6):
    """Derivative of V ×* I V, less I V ×."""
    momentum = inertia_mul(mass, h, J, V)
    K = mat66()
    for k in range(6):
        x = unit_motion(k)
        column = cross_force(V, inertia_mul(mass, h, J, x)) + cross_force(x, momentum)
        K = set_column(K, k, column - inertia_mul(mass, h, J, cross_motion(V, x)))
    return K


@wp.func
def joint_motion(m: Tree, s: Workspace, x: wp.array2d(dtype=real), k: int, slot: int):
    """Σ S x of joint k."""
    total = vec6()
    for j in range(dofs(m.joint_type[k])):
        d = m.joint_v[k] + j
        total += s.S[d, slot] * x[d, slot]
    return total


@wp.func
def velocity_slopes(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """N of each body on its own, and P of each degree of freedom."""
    for i in range(1, m.body_parent.shape[0]):
        exact = r.implicit.exact[i] == 1
        N = mat66()
        if exact:
            N = inertial_slope(p.mass[world, i], s.h[i, slot], s.J[i, slot], s.V[i, slot])
        if m.has_fluid == 1:
            N -= box_slope(m, p, s, i, world, slot)
        r.N[i, slot] = m.timestep * N
        V = s.V[m.body_parent[i], slot]
        for k in range(m.body_joint[i], m.body_joint[i + 1]):
            V_after = V + joint_motion(m, s, s.v, k, slot)
            for j in range(dofs(m.joint_type[k])):
                d = m.joint_v[k] + j
                P = s.S[d, slot]
                if exact:
                    P += m.timestep * cross_motion(V + V_after, P)
                r.P[d, slot] = P
            V = V_after
    if ELLIPSOIDS:
        for k in range(r.ellipsoids.body.shape[0]):
            i = r.ellipsoids.body[k]
            B = ellipsoid_slope(p, s, r.ellipsoids, k, r.implicit.exact[i] == 0, world, slot)
            r.N[i, slot] = r.N[i, slot] - m.timestep * B


@wp.func
def implicit_matrix(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """r.H = M - h D, both triangles."""
    velocity_slopes(m, p, s, r, world, slot)
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        composite = gathered_inertia(m, p, s, i, world, slot)
        N = r.N[i, slot]
        for k in range(m.body_joint[i], m.body_joint[i + 1]):
            for j in range(dofs(m.joint_type[k])):
                d = m.joint_v[k] + j
                S = s.S[d, slot]
                force = sym66_mul(composite, r.P[d, slot]) + N * S
                momentum = sym66_mul(composite, S)
                turned = wp.transpose(N) * S
                r.H[d * m.nv + d, slot] = wp.dot(S, force) + s.diagonal[d, slot]
                e = m.dof_parent[d]
                while e >= 0:
                    r.H[e * m.nv + d, slot] = wp.dot(s.S[e, slot], force)
                    r.H[d * m.nv + e, slot] = wp.dot(r.P[e, slot], momentum) + wp.dot(s.S[e, slot], turned)
                    e = m.dof_parent[e]
        pass_inertia(m, s, i, composite, slot)
        parent = m.body_parent[i]
        if parent > 0:
            r.N[parent, slot] = r.N[parent, slot] + N
    if TENDONS:
        for k in range(r.tendons.pair_tendon.shape[0]):
            i = r.tendons.pair_below[k]
            j = r.tendons.pair_above[k]
            d = r.tendons.dof[i]
            e = r.tendons.dof[j]
            c = r.tendon_inertia[r.tendons.pair_tendon[k], slot] * r.tendon_J[i, slot] * r.tendon_J[j, slot]
            r.H[d * m.nv + e, slot] = r.H[d * m.nv + e, slot] + c
            r.H[e * m.nv + d, slot] = r.H[e * m.nv + d, slot] + c


@wp.func
def eliminate_both(m: Tree, r: Rows, slot: int):
    """Takes every degree of freedom out of those that carry it; pivots are inverted. Returns the first one without
    inertia, or -1."""
    singular = int(-1)
    for back in range(m.nv):
        k = m.nv - 1 - back
        pivot = r.H[k * m.nv + k, slot]
        if not wp.abs(pivot) > SMALLEST_INERTIA and singular < 0:
            singular = k
        inverse = real(1.0) / pivot
        r.H[k * m.nv + k, slot] = inverse
        i = m.dof_parent[k]
        while i >= 0:
            share = r.H[i * m.nv + k, slot] * inverse
            j = m.dof_parent[k]
            while j >= 0:
                r.H[i * m.nv + j, slot] = r.H[i * m.nv + j, slot] - share * r.H[k * m.nv + j, slot]
                j = m.dof_parent[j]
            i = m.dof_parent[i]
    return singular


@wp.func
def solve_both(m: Tree, r: Rows, x: wp.array2d(dtype=real), row: int, column: int, slot: int):
    """x := (M - h D)⁻¹ x after ``eliminate_both``, where entry (i, j) is H[row i + column j]: nv and 1, or 1 and nv for
    the transposed matrix."""
    for back in range(m.nv):
        k = m.nv - 1 - back
        own = x[k, slot] * r.H[k * m.nv + k, slot]
        i = m.dof_parent[k]
        while i >= 0:
            x[i, slot] = x[i, slot] - r.H[row * i + column * k, slot] * own
            i = m.dof_parent[i]
    for k in range(m.nv):
        total = x[k, slot]
        i = m.dof_parent[k]
        while i >= 0:
            total -= r.H[row * k + column * i, slot] * x[i, slot]
            i = m.dof_parent[i]
        x[k, slot] = total * r.H[k * m.nv + k, slot]


@wp.func
def implicit_accelerations(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """s.a and A of each body from s.tau and pA. Returns the first degree of freedom without inertia, or -1."""
    smooth_forces(m, p, s, r, world, slot)
    implicit_matrix(m, p, s, r, world, slot)
    singular = eliminate_both(m, r, slot)
    for d in range(m.nv):
        s.a[d, slot] = r.smooth[d, slot]
    solve_both(m, r, s.a, m.nv, 1, slot)
    accelerations(m, s, slot)
    return singular


@wp.func
def implicit_solve(m: Tree, s: Workspace, r: Rows, slot: int):
    """w = (M - h D)⁻ᵀ a_bar, and the virtual motion X of each body."""
    for d in range(m.nv):
        s.w[d, slot] = s.a_bar[d, slot]
    solve_both(m, r, s.w, 1, m.nv, slot)
    virtual_motions(m, s, slot)


# --- the adjoint -----------------------------------------------------------------------------------


@wp.func
def motions_along(m: Tree, s: Workspace, r: Rows, slot: int):
    """G and E of each body."""
    for i in range(1, m.body_parent.shape[0]):
        parent = m.body_parent[i]
        V = s.V[parent, slot]
        G = r.G[parent, slot]
        E = r.E[parent, slot]
        for k in range(m.body_joint[i], m.body_joint[i + 1]):
            by_v = joint_motion(m, s, s.v, k, slot)
            by_a = joint_motion(m, s, s.a, k, slot)
            E += cross_motion(G, by_v) + cross_motion(V, by_a)
            V += by_v
            G += by_a
        r.G[i, slot] = G
        r.E[i, slot] = E


@wp.func
def inertial_slope_adjoint(
    p: Params, p_bar: Params, s: Workspace, r: Rows, i: int, scale: real, world: int, slot: int, wants_params: int
):
    """Adds to V_bar, X_bar, G_bar and W of body i, and sets E_bar to, the cotangents of its part of scale · wᵀ K a."""
    mass = p.mass[world, i]
    h = s.h[i, slot]
    J = s.J[i, slot]
    X = s.X[i, slot]
    V = s.V[i, slot]
    G = r.G[i, slot]
    E = r.E[i, slot]
    Y = cross_motion(X, V)
    Z = cross_motion(X, G)
    IX = inertia_mul(mass, h, J, X)
    IV = inertia_mul(mass, h, J, V)
    IG = inertia_mul(mass, h, J, G)
    IE = inertia_mul(mass, h, J, E)
    IY = inertia_mul(mass, h, J, Y)
    IZ = inertia_mul(mass, h, J, Z)
    r.E_bar[i, slot] = scale * IX
    s.V_bar[i, slot] = s.V_bar[i, slot] + scale * (IZ - cross_force(X, IG))
    s.G_bar[i, slot] = s.G_bar[i, slot] + scale * (IY - cross_force(X, IV))
    s.X_bar[i, slot] = s.X_bar[i, slot] + scale * (IE + cross_force(V, IG) + cross_force(G, IV))
    s.W[i, slot] = s.W[i, slot] - scale * (
        cross_force(X, IE)
        + cross_force(E, IX)
        + cross_force(Z, IV)
        + cross_force(V, IZ)
        + cross_force(Y, IG)
        + cross_force(G, IY)
    )
    if wants_params == 1:
        inertia_params_adjoint(p, p_bar, s, world, slot, i, X, E, Z, V, scale)
        inertia_params_adjoint(p, p_bar, s, world, slot, i, Y, G, vec6(), vec6(), scale)


@wp.func
def change_of_bias_adjoint(m: Tree, s: Workspace, r: Rows, slot: int):
    """From E_bar of each body, adds to V_bar and G_bar of what carries it, to S_bar and v_bar.

    Reverses E = E_parent + Σ (G_before × Σ S v + V_before × Σ S a), from the tips to the root.
    """
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        V = s.V[i, slot]
        G = r.G[i, slot]
        E_bar = r.E_bar[i, slot]
        V_bar = vec6()  # of the motions before a joint
        G_bar = vec6()
        first = m.body_joint[i]
        last = m.body_joint[i + 1]
        for n in range(first, last):
            k = last - 1 - (n - first)
            by_v = joint_motion(m, s, s.v, k, slot)
            by_a = joint_motion(m, s, s.a, k, slot)
            V -= by_v
            G -= by_a
            by_v_bar = V_bar - cross_force(G, E_bar)
            by_a_bar = G_bar - cross_force(V, E_bar)
            for j in range(dofs(m.joint_type[k])):
                d = m.joint_v[k] + j
                s.S_bar[d, slot] = s.S_bar[d, slot] + s.v[d, slot] * by_v_bar + s.a[d, slot] * by_a_bar
                s.v_bar[d, slot] = s.v_bar[d, slot] + wp.dot(s.S[d, slot], by_v_bar)
            V_bar += cross_force(by_a, E_bar)
            G_bar += cross_force(by_v, E_bar)
        parent = m.body_parent[i]
        if parent > 0:
            s.V_bar[parent, slot] = s.V_bar[parent, slot] + V_bar
            s.G_bar[parent, slot] = s.G_bar[parent, slot] + G_bar
            r.E_bar[parent, slot] = r.E_bar[parent, slot] + E_bar


@wp.func
def implicit_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Adds to V_bar, X_bar and W of each body, to S_bar, v_bar and p_bar the cotangents of h wᵀ D a, with a and w held
    fixed, but for the part of joints; sets G_bar."""
    motions_along(m, s, r, slot)
    for i in range(m.body_parent.shape[0]):
        s.G_bar[i, slot] = vec6()
        r.E_bar[i, slot] = vec6()
    for i in range(1, m.body_parent.shape[0]):
        if r.implicit.exact[i] == 1:
            inertial_slope_adjoint(p, p_bar, s, r, i, -m.timestep, world, slot, wants_params)
        if m.has_fluid == 1:
            box_slope_adjoint(m, p, p_bar, s, i, r.G[i, slot], m.timestep, world, slot, wants_params)
    if ELLIPSOIDS:
        for k in range(r.ellipsoids.body.shape[0]):
            i = r.ellipsoids.body[k]
            ellipsoid_slope_adjoint(
                p, p_bar, s, r.ellipsoids, k, r.G[i, slot], m.timestep, r.implicit.exact[i] == 0,
                world, slot, wants_params,
            )  # fmt: skip
    change_of_bias_adjoint(m, s, r, slot)
