"""Free bodies that carry no joints, under implicitfast: implicit in their gyroscopic force, as in MuJoCo.

Such a body's acceleration a solves (M + h K) a = f, where K is the derivative of its bias force by its velocity. The
other terms of the integrator are symmetric, this one is not, so it is put in afterwards, body by body.

With the body's angular velocity ω, the bias is ω × J ω and ω × (ω × c), where J is the rotational inertia and c the
mass times the centre of mass, both about the body's origin and with all that is welded to it. K acts on the angular
acceleration alone:

    K_la β = β × (ω × c) + ω × (β × c)          K_aa β = β × J ω + ω × J β

    letter  meaning                                                        type
    l, a    rows and columns of the three slides, of the ball
    low     1 / (mass + diagonal) of the slides                            vec3
    N       what is left for the ball when the slides are eliminated       mat33
"""

import warp as wp

from ..spatial.algebra import cross_force, inertia_mul, lin, pack, sym_mul
from ..spatial.scalar import mat33, real, vec3, vec6
from .structs import Params, Tree, Workspace, add_vec3, read_vec3
from .sweeps import inertia_params_adjoint


@wp.func
def skew(x: vec3):
    o = real(0.0)
    return mat33(o, -x[2], x[1], x[2], o, -x[0], -x[1], x[0], o)


@wp.func
def composite(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """Mass, mass times centre of mass, and inertia of the k-th of these bodies with all that is welded to it."""
    mass = real(0.0)
    c = vec3()
    J = vec6()
    for i in range(m.lone_body[k], m.lone_end[k]):
        mass += p.mass[world, i]
        c += s.h[i, slot]
        J += s.J[i, slot]
    return mass, c, J


@wp.func
def bias_slopes(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """h K_la and h K_aa of the k-th of these bodies."""
    _mass, c, J = composite(m, p, s, k, world, slot)
    i = m.lone_body[k]
    d = m.joint_v[m.body_joint[i]]
    R = s.R[i, slot]
    omega = R * read_vec3(s.v, d + 3, slot)
    J_full = mat33(J[0], J[3], J[4], J[3], J[1], J[5], J[4], J[5], J[2])
    K_la = -m.timestep * (skew(wp.cross(omega, c)) + skew(omega) * skew(c)) * R
    K_aa = m.timestep * wp.transpose(R) * (skew(omega) * J_full - skew(sym_mul(J, omega))) * R
    return K_la, K_aa


@wp.func
def blocks(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """low, M_la, h K_la, and N without and with K."""
    mass, c, J = composite(m, p, s, k, world, slot)
    i = m.lone_body[k]
    d = m.joint_v[m.body_joint[i]]
    R = s.R[i, slot]
    J_full = mat33(J[0], J[3], J[4], J[3], J[1], J[5], J[4], J[5], J[2])
    slides = read_vec3(s.diagonal, d, slot)
    ball = read_vec3(s.diagonal, d + 3, slot)
    low = vec3(real(1.0) / (mass + slides[0]), real(1.0) / (mass + slides[1]), real(1.0) / (mass + slides[2]))
    M_la = -skew(c) * R
    M_al = wp.transpose(M_la)
    K_la, K_aa = bias_slopes(m, p, s, k, world, slot)
    N_without = wp.transpose(R) * J_full * R + wp.diag(ball) - M_al * wp.diag(low) * M_la
    return low, M_la, K_la, N_without, N_without + K_aa - M_al * wp.diag(low) * K_la


@wp.func
def write_vec3(x: wp.array2d(dtype=real), i: int, slot: int, y: vec3):
    x[i, slot] = y[0]
    x[i + 1, slot] = y[1]
    x[i + 2, slot] = y[2]


@wp.func
def motion_of(s: Workspace, x: wp.array2d(dtype=real), d: int, slot: int):
    total = vec6()
    for j in range(6):
        total += s.S[d + j, slot] * x[d + j, slot]
    return total


@wp.func
def gyroscopic(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Puts K into joint accelerations s.a and body accelerations s.A that were found without it."""
    for k in range(m.lone_body.shape[0]):
        i = m.lone_body[k]
        d = m.joint_v[m.body_joint[i]]
        low, M_la, K_la, N_without, N = blocks(m, p, s, k, world, slot)
        without = read_vec3(s.a, d + 3, slot)
        turn = wp.inverse(N) * (N_without * without)
        push = read_vec3(s.a, d, slot) - wp.cw_mul(low, M_la * (turn - without) + K_la * turn)
        write_vec3(s.a, d, slot, push)
        write_vec3(s.a, d + 3, slot, turn)
        A = s.c[i, slot] + motion_of(s, s.a, d, slot)
        for j in range(i, m.lone_end[k]):
            s.A[j, slot] = A


@wp.func
def gyroscopic_solve(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """The same for w = (M + h K)⁻ᵀ a_bar, and the virtual motions X under it."""
    for k in range(m.lone_body.shape[0]):
        i = m.lone_body[k]
        d = m.joint_v[m.body_joint[i]]
        low, M_la, K_la, _N_without, N = blocks(m, p, s, k, world, slot)
        push_bar = read_vec3(s.a_bar, d, slot)
        turn_bar = read_vec3(s.a_bar, d + 3, slot)
        turn = wp.inverse(wp.transpose(N)) * (turn_bar - wp.transpose(M_la + K_la) * wp.cw_mul(low, push_bar))
        write_vec3(s.w, d, slot, wp.cw_mul(low, push_bar - M_la * turn))
        write_vec3(s.w, d + 3, slot, turn)
        X = motion_of(s, s.w, d, slot)
        for j in range(i, m.lone_end[k]):
            s.X[j, slot] = X


@wp.func
def bias_slope(c: vec3, J: vec6, x: vec3, y: vec3, b: vec3):
    """Cotangent of ω in x·(K_la β) + y·(K_aa β), where b is β; or that of β, where b is ω."""
    turned = sym_mul(J, wp.cross(y, b)) + wp.cross(sym_mul(J, b), y)
    return turned + wp.cross(c, wp.cross(x, b)) + wp.cross(wp.cross(b, c), x)


@wp.func
def gyroscopic_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """Adds to W of each body, v_bar and p_bar the cotangents of -h wᵀ K a, with a and w held fixed.

    With x = w_l, and the world's y of w_a and β of a_a, that is, summed over the bodies that are welded together,
    -h ([y × β; x × β]ᵀ I [ω; 0] + [y × ω; x × ω]ᵀ I [β; 0]).
    """
    scale = -m.timestep
    for k in range(m.lone_body.shape[0]):
        first = m.lone_body[k]
        d = m.joint_v[m.body_joint[first]]
        R = s.R[first, slot]
        omega = R * read_vec3(s.v, d + 3, slot)
        beta = R * read_vec3(s.a, d + 3, slot)
        x = read_vec3(s.w, d, slot)
        y = R * read_vec3(s.w, d + 3, slot)
        along_omega = pack(omega, vec3())
        along_beta = pack(beta, vec3())
        P = pack(wp.cross(y, beta), wp.cross(x, beta))
        Q = pack(wp.cross(y, omega), wp.cross(x, omega))
        pushed = vec3()
        for i in range(first, m.lone_end[k]):
            mass = p.mass[world, i]
            h = s.h[i, slot]
            J = s.J[i, slot]
            force = -scale * (
                cross_force(P, inertia_mul(mass, h, J, along_omega))
                + cross_force(along_omega, inertia_mul(mass, h, J, P))
                + cross_force(Q, inertia_mul(mass, h, J, along_beta))
                + cross_force(along_beta, inertia_mul(mass, h, J, Q))
            )
            s.W[i, slot] = s.W[i, slot] + force
            pushed += lin(force)
            if wants_params == 1:
                inertia_params_adjoint(p, p_bar, s, world, slot, i, P, along_omega, Q, along_beta, scale)
        _mass, c, J = composite(m, p, s, k, world, slot)
        omega_bar = scale * bias_slope(c, J, x, y, beta)
        beta_bar = scale * bias_slope(c, J, x, y, omega)
        y_bar = scale * (wp.cross(beta, sym_mul(J, omega)) + wp.cross(omega, sym_mul(J, beta)))
        add_vec3(s.v_bar, d + 3, slot, wp.transpose(R) * omega_bar)
        # ω, β and y turn with the body; what moves all of it moves the point that P and Q are taken about too
        turned = wp.cross(omega, omega_bar) + wp.cross(beta, beta_bar) + wp.cross(y, y_bar)
        s.W[first, slot] = s.W[first, slot] + pack(turned, -pushed)
