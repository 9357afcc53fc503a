"""The textbook algorithms one at a time, each with its adjoint: two kernels for all of them, so that the sweeps they
share are compiled once. Both run along a trajectory: a thread takes a world through all of its times, so that the
cotangents of parameters are summed in a fixed order.

    mode          value, (times, worlds, rows, columns)
    KINEMATICS    frames × [pos, quat]
    JACOBIAN      6 rows per frame [angular; linear at the frame], world axes × nv
    VELOCITY      frames × [angular; linear at the frame], world axes
    ACCELERATION  frames × [angular; linear at the frame], world axes, for joint accelerations x
    COM           centre of mass of everything
    COM_VELOCITY  its velocity
    ENERGY        [potential, kinetic]
    MOMENTUM      [angular about the centre of mass; linear]
    RNEA          M x + bias, for joint accelerations x
    CRBA          the mass matrix M
    ABA           M⁻¹ (x - bias), for joint forces x
"""

import warp as wp

from ..spatial.algebra import (
    ang,
    coordinates_of_tangent,
    cross_force,
    inertia_mul,
    lin,
    log_jacobian_transposed,
    pack,
    sym66_mul,
)
from ..spatial.scalar import real, vec3, vec4, vec6
from .curved import curved_energy, curved_energy_adjoint
from .forces import ball_stretch
from .frames import (
    FrameBars,
    Frames,
    clear_bars,
    frame_accelerations,
    frame_accelerations_adjoint,
    frame_jacobian_adjoint,
    frame_jacobians,
    frame_poses,
    frame_poses_adjoint,
    frame_velocities,
    frame_velocities_adjoint,
    point_velocity,
    point_velocity_adjoint,
    push_at,
    read_row,
    write_row,
)
from .structs import BALL, Params, Tree, Workspace, add_vec3, read_vec3
from .sweeps import (
    accelerations,
    bias_forces,
    eliminate,
    gathered_inertia,
    inertia_params_adjoint,
    inverse_dynamics,
    inverse_dynamics_adjoint,
    inward_adjoint,
    outward,
    pass_inertia,
    solve,
    substitute,
    virtual_motions,
)

KINEMATICS = wp.constant(0)
JACOBIAN = wp.constant(1)
COM = wp.constant(2)
ENERGY = wp.constant(3)
MOMENTUM = wp.constant(4)
RNEA = wp.constant(5)
CRBA = wp.constant(6)
ABA = wp.constant(7)
VELOCITY = wp.constant(8)
COM_VELOCITY = wp.constant(9)
ACCELERATION = wp.constant(10)


@wp.func
def body_com(p: Params, s: Workspace, world: int, i: int, slot: int):
    return s.pos[i, slot] + s.R[i, slot] * p.com[world, i]


@wp.func
def total_mass(m: Tree, p: Params, world: int):
    mass = real(0.0)
    for i in range(1, m.body_parent.shape[0]):
        mass += p.mass[world, i]
    return mass


@wp.func
def center_of_mass(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    sum = vec3()
    for i in range(1, m.body_parent.shape[0]):
        sum += p.mass[world, i] * body_com(p, s, world, i, slot)
    return sum / total_mass(m, p, world)


@wp.func
def center_of_mass_velocity(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    sum = vec3()
    for i in range(1, m.body_parent.shape[0]):
        sum += p.mass[world, i] * point_velocity(s, i, body_com(p, s, world, i, slot), slot)
    return sum / total_mass(m, p, world)


@wp.func
def momentum_about_world(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    total = vec6()
    for i in range(1, m.body_parent.shape[0]):
        h = inertia_mul(p.mass[world, i], s.h[i, slot], s.J[i, slot], s.V[i, slot])
        total += pack(ang(h) + wp.cross(s.o[i, slot], lin(h)), lin(h))
    return total


@wp.func
def load_state(
    m: Tree, p: Params, s: Workspace,
    q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), x: wp.array2d(dtype=real),
    mode: int, world: int, slot: int,
):  # fmt: skip
    """The state of a world, what joints do besides, and poses and velocities of all bodies."""
    for i in range(m.nq):
        s.q[i, slot] = q[world, i]
    for d in range(m.nv):
        s.v[d, slot] = wp.where(mode == CRBA, real(0.0), v[world, d])  # the mass matrix knows no velocity
        s.a[d, slot] = x[world, d]
        s.tau[d, slot] = x[world, d]
        s.w[d, slot] = real(0.0)
    outward(m, p, s, world, slot)


@wp.func
def run_aba(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    for d in range(m.nv):
        s.diagonal[d, slot] = p.armature[world, d]
    bias_forces(m, p, s, world, slot)
    eliminate(m, p, s, world, slot)
    substitute(m, s, slot)


@wp.func
def energies(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Potential, of weight and springs, and kinetic, of bodies and armature."""
    potential = real(0.0)
    kinetic = real(0.0)
    for i in range(1, m.body_parent.shape[0]):
        mass = p.mass[world, i]
        V = s.V[i, slot]
        potential -= mass * wp.dot(p.gravity[world, 0], body_com(p, s, world, i, slot))
        kinetic += real(0.5) * wp.dot(V, inertia_mul(mass, s.h[i, slot], s.J[i, slot], V))
    for d in range(m.nv):
        kinetic += real(0.5) * p.armature[world, d] * s.v[d, slot] * s.v[d, slot]
    for k in range(m.joint_type.shape[0]):
        qi = m.joint_q[k]
        if m.joint_type[k] == BALL:
            stretch = ball_stretch(p, s, qi, world, slot)
            potential += real(0.5) * p.stiffness[world, k] * wp.dot(stretch, stretch)
        else:
            stretched = s.q[qi, slot] - p.spring_ref[world, qi]
            potential += real(0.5) * p.stiffness[world, k] * stretched * stretched
    return potential + curved_energy(m, p, s, world, slot), kinetic


@wp.func
def mass_matrix(m: Tree, p: Params, s: Workspace, value: wp.array3d(dtype=real), world: int, slot: int):
    """By composite rigid bodies, with the armature."""
    for back in range(1, m.body_parent.shape[0]):
        i = m.body_parent.shape[0] - back
        composite = gathered_inertia(m, p, s, i, world, slot)
        for d in range(m.body_dof[i], m.body_dof[i + 1]):
            F = sym66_mul(composite, s.S[d, slot])
            above = int(i)
            while above > 0:
                for e in range(m.body_dof[above], m.body_dof[above + 1]):
                    entry = wp.dot(s.S[e, slot], F)
                    value[world, d, e] = entry
                    value[world, e, d] = entry
                above = m.body_parent[above]
        pass_inertia(m, s, i, composite, slot)
    for d in range(m.nv):
        value[world, d, d] = value[world, d, d] + p.armature[world, d]


@wp.kernel(enable_backward=False)
def evaluate(
    m: Tree,
    p: Params,
    s: Workspace,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    first_world: int,
    end_world: int,
    mode: int,
    f: Frames,
    x: wp.array3d(dtype=real),
    values: wp.array4d(dtype=real),
):
    slot = wp.tid()
    for world in range(first_world + slot, end_world, s.q.shape[1]):
        for t in range(q.shape[0]):
            value = values[t]
            load_state(m, p, s, q[t], v[t], x[t], mode, world, slot)
            if mode == KINEMATICS:
                frame_poses(f, s, value, world, slot)
            elif mode == JACOBIAN:
                frame_jacobians(m, f, s, value, world, slot)
            elif mode == VELOCITY:
                frame_velocities(f, s, value, world, slot)
            elif mode == ACCELERATION:
                accelerations(m, s, slot)
                frame_accelerations(f, s, value, world, slot)
            elif mode == COM:
                write_row(value, world, 0, 0, center_of_mass(m, p, s, world, slot))
            elif mode == COM_VELOCITY:
                write_row(value, world, 0, 0, center_of_mass_velocity(m, p, s, world, slot))
            elif mode == ENERGY:
                potential, kinetic = energies(m, p, s, world, slot)
                value[world, 0, 0] = potential
                value[world, 0, 1] = kinetic
            elif mode == MOMENTUM:
                h = momentum_about_world(m, p, s, world, slot)
                spin = ang(h) - wp.cross(center_of_mass(m, p, s, world, slot), lin(h))
                write_row(value, world, 0, 0, spin)
                write_row(value, world, 0, 3, lin(h))
            elif mode == RNEA:
                inverse_dynamics(m, p, s, world, slot)
                for d in range(m.nv):
                    value[world, 0, d] = s.tau[d, slot]
            elif mode == CRBA:
                mass_matrix(m, p, s, value, world, slot)
            elif mode == ABA:
                run_aba(m, p, s, world, slot)
                for d in range(m.nv):
                    value[world, 0, d] = s.a[d, slot]


@wp.func
def center_of_mass_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, c_bar: vec3, wants_params: int
):
    mass = total_mass(m, p, world)
    c = center_of_mass(m, p, s, world, slot)
    for i in range(1, m.body_parent.shape[0]):
        share = p.mass[world, i] / mass
        at = body_com(p, s, world, i, slot)
        push_at(s, i, at, share * c_bar, slot)
        if wants_params == 1:
            p_bar.mass[world, i] = p_bar.mass[world, i] + wp.dot(c_bar, at - c) / mass
            p_bar.com[world, i] = p_bar.com[world, i] + share * (wp.transpose(s.R[i, slot]) * c_bar)


@wp.func
def center_of_mass_velocity_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, u_bar: vec3, wants_params: int
):
    mass = total_mass(m, p, world)
    u = center_of_mass_velocity(m, p, s, world, slot)
    for i in range(1, m.body_parent.shape[0]):
        share = p.mass[world, i] / mass
        at = body_com(p, s, world, i, slot)
        point_velocity_adjoint(s, i, at, share * u_bar, slot)
        if wants_params == 1:
            p_bar.mass[world, i] = p_bar.mass[world, i] + wp.dot(u_bar, point_velocity(s, i, at, slot) - u) / mass
            at_bar = share * wp.cross(u_bar, ang(s.V[i, slot]))
            p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(s.R[i, slot]) * at_bar


@wp.func
def armature_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, scale: real, wants: int):
    """Of scale · wᵀ diag(armature) a, where s.a_bar holds the cotangents of a so far."""
    for d in range(m.nv):
        s.a_bar[d, slot] = s.a_bar[d, slot] + scale * p.armature[world, d] * s.w[d, slot]
        if wants == 1:
            p_bar.armature[world, d] = p_bar.armature[world, d] + scale * s.w[d, slot] * s.a[d, slot]


@wp.func
def energies_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace,
    potential_bar: real, kinetic_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Sets V_bar and W of each body; adds to q_bar, v_bar and parameters."""
    g = p.gravity[world, 0]
    for i in range(1, m.body_parent.shape[0]):
        mass = p.mass[world, i]
        V = s.V[i, slot]
        IV = inertia_mul(mass, s.h[i, slot], s.J[i, slot], V)
        at = body_com(p, s, world, i, slot)
        s.V_bar[i, slot] = kinetic_bar * IV
        s.W[i, slot] = -kinetic_bar * cross_force(V, IV)
        push_at(s, i, at, -potential_bar * mass * g, slot)
        if wants_params == 1:
            inertia_params_adjoint(p, p_bar, s, world, slot, i, V, V, vec6(), vec6(), real(0.5) * kinetic_bar)
            p_bar.mass[world, i] = p_bar.mass[world, i] - potential_bar * wp.dot(g, at)
            p_bar.gravity[world, 0] = p_bar.gravity[world, 0] - potential_bar * mass * at
            p_bar.com[world, i] = p_bar.com[world, i] - potential_bar * mass * (wp.transpose(s.R[i, slot]) * g)
    for d in range(m.nv):
        speed = s.v[d, slot]
        s.v_bar[d, slot] = s.v_bar[d, slot] + kinetic_bar * p.armature[world, d] * speed
        if wants_params == 1:
            p_bar.armature[world, d] = p_bar.armature[world, d] + real(0.5) * kinetic_bar * speed * speed
    for k in range(m.joint_type.shape[0]):
        qi = m.joint_q[k]
        d = m.joint_v[k]
        stiff_bar = potential_bar * p.stiffness[world, k]
        if m.joint_type[k] == BALL:
            stretch = ball_stretch(p, s, qi, world, slot)
            add_vec3(s.q_bar, d, slot, log_jacobian_transposed(stretch, stiff_bar * stretch))
            if wants_params == 1:
                rest_bar = log_jacobian_transposed(-stretch, -stiff_bar * stretch)
                half_square = real(0.5) * wp.dot(stretch, stretch)
                p_bar.stiffness[world, k] = p_bar.stiffness[world, k] + potential_bar * half_square
                for j in range(3):
                    p_bar.spring_ref[world, qi + j] = p_bar.spring_ref[world, qi + j] + rest_bar[j]
        else:
            stretched = s.q[qi, slot] - p.spring_ref[world, qi]
            s.q_bar[d, slot] = s.q_bar[d, slot] + stiff_bar * stretched
            if wants_params == 1:
                half_of_square = real(0.5) * stretched * stretched
                p_bar.stiffness[world, k] = p_bar.stiffness[world, k] + potential_bar * half_of_square
                p_bar.spring_ref[world, qi] = p_bar.spring_ref[world, qi] - stiff_bar * stretched
    curved_energy_adjoint(m, p, p_bar, s, potential_bar, world, slot, wants_params)


@wp.func
def momentum_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace,
    spin_bar: vec3, push_bar: vec3, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Sets V_bar and W of each body; adds to parameters."""
    c = center_of_mass(m, p, s, world, slot)
    h = momentum_about_world(m, p, s, world, slot)
    center_of_mass_adjoint(m, p, p_bar, s, world, slot, wp.cross(spin_bar, lin(h)), wants_params)
    for i in range(1, m.body_parent.shape[0]):
        mass = p.mass[world, i]
        V = s.V[i, slot]
        # the pairing of the momentum with the cotangent is that with a rigid motion Y of everything
        Y = pack(spin_bar, push_bar + wp.cross(spin_bar, s.o[i, slot] - c))
        IV = inertia_mul(mass, s.h[i, slot], s.J[i, slot], V)
        IY = inertia_mul(mass, s.h[i, slot], s.J[i, slot], Y)
        s.V_bar[i, slot] = IY
        s.W[i, slot] = s.W[i, slot] - cross_force(Y, IV) - cross_force(V, IY)
        if wants_params == 1:
            inertia_params_adjoint(p, p_bar, s, world, slot, i, Y, V, vec6(), vec6(), real(1.0))


@wp.func
def store_coordinates_bar(
    m: Tree, s: Workspace, q: wp.array2d(dtype=real), q_bar: wp.array2d(dtype=real), world: int, slot: int
):
    """From the tangent s.q_bar to the cotangent of the stored coordinates q[world]."""
    for k in range(m.joint_type.shape[0]):
        qi = m.joint_q[k]
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            stored = vec4(q[world, qi], q[world, qi + 1], q[world, qi + 2], q[world, qi + 3])
            stored_bar = coordinates_of_tangent(stored, read_vec3(s.q_bar, d, slot))
            for j in range(4):
                q_bar[world, qi + j] = stored_bar[j]
        else:
            q_bar[world, qi] = s.q_bar[d, slot]


@wp.kernel(enable_backward=False)
def evaluate_adjoint(
    m: Tree,
    p: Params,
    p_bar: Params,
    s: Workspace,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    first_world: int,
    end_world: int,
    mode: int,
    f: Frames,
    f_bar: FrameBars,
    x: wp.array3d(dtype=real),
    bars: wp.array4d(dtype=real),
    wants_params: int,
    q_bar: wp.array3d(dtype=real),
    v_bar: wp.array3d(dtype=real),
    x_bar: wp.array3d(dtype=real),
):
    """From the cotangents ``bars`` of the values, those of q (stored coordinates), v, x and the parameters."""
    slot = wp.tid()
    for world in range(first_world + slot, end_world, s.q.shape[1]):
        for t in range(q.shape[0]):
            bar = bars[t]
            load_state(m, p, s, q[t], v[t], x[t], mode, world, slot)
            for d in range(m.nv):
                s.q_bar[d, slot] = real(0.0)
                s.v_bar[d, slot] = real(0.0)
            clear_bars(m, s, slot)
            for i in range(m.body_parent.shape[0]):
                s.X[i, slot] = vec6()
            # Jacobians and the mass matrix are differentiated row by row and column by column, by the same sweeps.
            sweeps = int(1)
            if mode == JACOBIAN:
                sweeps = 6 * f.body.shape[0]
            if mode == CRBA:
                sweeps = m.nv
            for sweep in range(sweeps):
                if mode == KINEMATICS:
                    frame_poses_adjoint(f, f_bar, s, bar, world, slot)
                elif mode == JACOBIAN:
                    frame_jacobian_adjoint(m, f, f_bar, s, bar, sweep, world, slot)
                elif mode == VELOCITY:
                    frame_velocities_adjoint(f, f_bar, s, bar, world, slot)
                elif mode == ACCELERATION:
                    accelerations(m, s, slot)
                    frame_accelerations_adjoint(f, f_bar, s, bar, world, slot)
                elif mode == COM:
                    center_of_mass_adjoint(m, p, p_bar, s, world, slot, read_row(bar, world, 0, 0), wants_params)
                elif mode == COM_VELOCITY:
                    u_bar = read_row(bar, world, 0, 0)
                    center_of_mass_velocity_adjoint(m, p, p_bar, s, world, slot, u_bar, wants_params)
                elif mode == ENERGY:
                    energies_adjoint(m, p, p_bar, s, bar[world, 0, 0], bar[world, 0, 1], world, slot, wants_params)
                elif mode == MOMENTUM:
                    spin_bar = read_row(bar, world, 0, 0)
                    push_bar = read_row(bar, world, 0, 3)
                    momentum_adjoint(m, p, p_bar, s, spin_bar, push_bar, world, slot, wants_params)
                elif mode == ABA:
                    run_aba(m, p, s, world, slot)
                    for d in range(m.nv):
                        s.a_bar[d, slot] = bar[world, 0, d]
                    solve(m, s, slot)
                else:  # RNEA, or a column of the mass matrix: inverse dynamics of a unit acceleration
                    for d in range(m.nv):
                        s.w[d, slot] = bar[world, 0, d]
                        if mode == CRBA:
                            s.w[d, slot] = bar[world, d, sweep]
                            s.a[d, slot] = wp.where(d == sweep, real(1.0), real(0.0))
                    virtual_motions(m, s, slot)
                    accelerations(m, s, slot)
                dynamic = mode == RNEA or mode == CRBA or mode == ABA
                scale = wp.where(mode == ABA, real(-1.0), real(1.0))
                if dynamic:
                    with_gravity = wp.where(mode == CRBA, real(0.0), real(1.0))
                    inverse_dynamics_adjoint(m, p, p_bar, s, world, slot, scale, with_gravity, wants_params)
                inward_adjoint(m, p, p_bar, s, world, slot, 0, 0, wants_params)
                if dynamic:
                    armature_adjoint(m, p, p_bar, s, world, slot, scale, wants_params)
            for d in range(m.nv):
                v_bar[t, world, d] = wp.where(mode == CRBA, real(0.0), s.v_bar[d, slot])
                if mode == RNEA or mode == ACCELERATION:
                    x_bar[t, world, d] = s.a_bar[d, slot]
                elif mode == ABA:
                    x_bar[t, world, d] = s.w[d, slot]
            store_coordinates_bar(m, s, q[t], q_bar[t], world, slot)
