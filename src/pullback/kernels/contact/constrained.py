"""Going back through accelerations that solve  M a = smooth + Jᵀ f(J a, J v, distance):  contact models with a force.

With H = M + Jᵀ K J, K = -∂f/∂(J a), and the cotangent g_bar of the constraint forces g = Jᵀ f, one solve
H w = -Jᵀ K J g_bar makes the backward pass the gradient of the pairing (g_bar + w)·g + w·(smooth - M a), with a held
fixed. No derivative of the solver is needed, but a must be the solution.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import BALL, Params, Tree, Workspace, read_vec3
from .collide import geometry_adjoint, tree_poses
from .flavour import LINEAR_LOOPS, LOOPS, NOSLIP, ROWS, SPATIAL, TENDONS, TRUE_LOOPS
from .limits import ball_axis_adjoint, limit_adjoint, limit_distance
from .mass_matrix import add_curvature, add_joint_curvature, factorise, solve_factored, start_matrix
from .model import contact_law_adjoint, contact_response, joint_law_adjoint, joint_response
from .rows import (
    LOOP_ROW,
    Rows,
    add_contact_force,
    add_joint_row_force,
    contact_count,
    contact_motion,
    in_world,
    joint_row_motion,
    push_pair,
    rotation_in_world,
)

if LINEAR_LOOPS:
    from .loops import loop_rows_adjoint, residual
if NOSLIP:
    from .noslip_adjoint import row_bars, slip_matrices_adjoint
if TRUE_LOOPS:
    from .loops import loops_adjoint
if TENDONS:
    from .tendon_rows import is_of_tendons, tendon_row_adjoint, tendon_row_distance
    from .tendons import armature_adjoint


@wp.func
def constrained_solve(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """r.w = -H⁻¹ Jᵀ K J g_bar for g_bar = s.w, and s.tau_bar = s.w + r.w."""
    start_matrix(m, r, slot)
    for d in range(m.nv):
        r.w[d, slot] = real(0.0)
    for k in range(contact_count(c, slot)):
        _force, K = contact_response(g, c, r, k, slot)
        add_curvature(m, r, r.H, K, k, slot)
        push = -(K * contact_motion(m, r, s.w, k, slot))
        if NOSLIP:
            push += r.z_bar[k, slot] - K * r.force_bar[k, slot]
        add_contact_force(m, r, r.w, push, k, slot)
    for k in range(r.joint_rows[0, slot]):
        _f, K_row = joint_response(r, k, slot)
        add_joint_curvature(m, g, r, K_row, k, slot)
        row_push = -K_row * joint_row_motion(g, r, s.w, k, slot)
        if NOSLIP:
            start_bar, slip_bar, _bound_bar = row_bars(r, k, slot)
            row_push += slip_bar - K_row * start_bar
        add_joint_row_force(g, r, r.w, row_push, k, slot)
    factorise(m, r, slot)
    solve_factored(m, r, r.w, slot)
    for d in range(m.nv):
        s.tau_bar[d, slot] = s.w[d, slot] + r.w[d, slot]


@wp.func
def push_contact_forces(g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """Adds to X_bar of each body the constraint force that acts on it: the pairing of w with it is X · force."""
    for k in range(contact_count(c, slot)):
        f, _K = contact_response(g, c, r, k, slot)
        n = c.normal[k, slot]
        t1 = r.tangent1[k, slot]
        t2 = r.tangent2[k, slot]
        force = in_world(f, n, t1, t2)
        moment = rotation_in_world(f, n, t1, t2)
        push_pair(g, s, s.X_bar, c.pair[k, slot], c.pos[k, slot], moment, force, slot)


@wp.func
def contact_pairing_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """Cotangents of (J w)·f(J a, J v) of contact k, but for those of w and a: V_bar, G_bar, W, parameters."""
    pair = c.pair[k, slot]
    pos = c.pos[k, slot]
    n = c.normal[k, slot]
    t1 = r.tangent1[k, slot]
    t2 = r.tangent2[k, slot]
    u = contact_motion(m, r, s.tau_bar, k, slot)
    Ja = contact_motion(m, r, r.a, k, slot)
    Jv = contact_motion(m, r, s.v, k, slot)
    force, K = contact_response(g, c, r, k, slot)
    z_bar = -(K * u)
    force_bar = u
    if NOSLIP:
        force_bar = u + r.force_bar[k, slot]
        z_bar = r.z_bar[k, slot] - K * force_bar
    v_bar, x_bar = contact_law_adjoint(m, g, p, p_bar, c, r, k, force_bar, Ja, Jv, world, slot, wants_params)

    # J x = frame · (velocity of body 2 - velocity of body 1 at pos), for x in w, a and v
    spin_w = vec3()
    spin_a = vec3()
    spin_v = vec3()
    for i in range(r.chain_length[k, slot]):
        dof = r.chain[k * m.nv + i, slot]
        S = ang(s.S[dof, slot])
        sign = r.side[k * m.nv + i, slot]
        spin_w += sign * s.tau_bar[dof, slot] * S
        spin_a += sign * r.a[dof, slot] * S
        spin_v += sign * s.v[dof, slot] * S
    w_world = in_world(u, n, t1, t2)
    a_world = in_world(Ja, n, t1, t2)
    v_world = in_world(Jv, n, t1, t2)
    w_force = in_world(force, n, t1, t2)
    a_force = in_world(z_bar, n, t1, t2)
    v_force = in_world(v_bar, n, t1, t2)
    a_moment = rotation_in_world(z_bar, n, t1, t2)
    v_moment = rotation_in_world(v_bar, n, t1, t2)
    n_bar = force[0] * w_world + z_bar[0] * a_world + v_bar[0] * v_world
    t1_bar = force[1] * w_world + z_bar[1] * a_world + v_bar[1] * v_world
    t2_bar = force[2] * w_world + z_bar[2] * a_world + v_bar[2] * v_world
    if ROWS == 6:
        n_bar += force[3] * spin_w + z_bar[3] * spin_a + v_bar[3] * spin_v
        t1_bar += force[4] * spin_w + z_bar[4] * spin_a + v_bar[4] * spin_v
        t2_bar += force[5] * spin_w + z_bar[5] * spin_a + v_bar[5] * spin_v
    pos_bar = wp.cross(w_force, spin_w) + wp.cross(a_force, spin_a) + wp.cross(v_force, spin_v)
    if NOSLIP:
        n_bar += r.n_bar[k, slot]
        t1_bar += r.t1_bar[k, slot]
        t2_bar += r.t2_bar[k, slot]
        pos_bar += r.pos_bar[k, slot]
    push_pair(g, s, s.G_bar, pair, pos, a_moment, a_force, slot)
    push_pair(g, s, s.V_bar, pair, pos, v_moment, v_force, slot)
    poses = tree_poses(s)
    geometry_adjoint(g, p, p_bar, poses, c, k, pos_bar, x_bar, n_bar, t1_bar, t2_bar, world, slot, wants_params)


@wp.func
def row_law_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    r: Rows,
    k: int,
    distance: real,
    world: int,
    slot: int,
    wants_params: int,
):
    """Cotangents of (J w) f(J a, J v, distance) of row k of the joints, but for those of w and a: v_bar, parameters.

    Returns those of J as factors of w, a and v, and that of the distance.
    """
    u = joint_row_motion(g, r, s.tau_bar, k, slot)
    Ja = joint_row_motion(g, r, r.a, k, slot)
    Jv = joint_row_motion(g, r, s.v, k, slot)
    force, K = joint_response(r, k, slot)
    force_bar = u
    a_bar = -K * u
    if NOSLIP:
        start_bar, slip_bar, _bound_bar = row_bars(r, k, slot)
        force_bar = u + start_bar
        a_bar = slip_bar - K * force_bar
    v_bar, x_bar = joint_law_adjoint(m, g, p, p_bar, r, k, force_bar, Ja, Jv, distance, world, slot, wants_params)
    add_joint_row_force(g, r, s.v_bar, v_bar, k, slot)
    return force, a_bar, v_bar, x_bar


@wp.func
def joint_pairing_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    r: Rows,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """All of it for a row of a joint."""
    source = r.joint_source[k, slot]
    distance = real(0.0)
    if source >= 0:
        distance, _J = limit_distance(m, g, p, s, source / 2, source % 2, world, slot)
    force, a_bar, v_bar, x_bar = row_law_adjoint(m, g, p, p_bar, s, r, k, distance, world, slot, wants_params)
    if source >= 0:
        joint = g.limit_joint[source / 2]
        dof = m.joint_v[joint]
        limit_adjoint(m, g, p, p_bar, s, r, k, x_bar, world, slot, wants_params)
        if m.joint_type[joint] == BALL:
            # J is paired with w, a and v
            J_bar = (
                force * read_vec3(s.tau_bar, dof, slot)
                + a_bar * read_vec3(r.a, dof, slot)
                + v_bar * read_vec3(s.v, dof, slot)
            )
            ball_axis_adjoint(m, g, s, r, J_bar, k, slot)


@wp.func
def set_J_bar(g: Shapes, s: Workspace, r: Rows, k: int, force: real, a_bar: real, v_bar: real, slot: int):
    """The cotangent of J of row k, in r.joint_J_bar, from what ``row_law_adjoint`` returns."""
    for i in range(r.joint_length[k, slot]):
        at = k * g.joint_width + i
        d = r.joint_chain[at, slot]
        r.joint_J_bar[at, slot] = force * s.tau_bar[d, slot] + a_bar * r.a[d, slot] + v_bar * s.v[d, slot]


@wp.func
def tendon_pairing_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    r: Rows,
    k: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """The same for a row of a tendon, or an equality of numbers."""
    distance = tendon_row_distance(g, p, r, k, world, slot)
    force, a_bar, v_bar, x_bar = row_law_adjoint(m, g, p, p_bar, s, r, k, distance, world, slot, wants_params)
    set_J_bar(g, s, r, k, force, a_bar, v_bar, slot)
    tendon_row_adjoint(g, p, p_bar, r, k, x_bar, world, slot, wants_params)


@wp.func
def loop_pairings_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """The same for the rows of loops."""
    for e in range(r.loops.rows.shape[0]):
        apart, turned, _size = residual(p, s, r, e, world, slot)
        apart_bar = vec3()
        turned_bar = vec3()
        for i in range(r.loops.rows[e]):
            k = r.loop_row[e, slot] + i
            miss = wp.where(i < 3, apart[i % 3], turned[i % 3])
            force, a_bar, v_bar, x_bar = row_law_adjoint(m, g, p, p_bar, s, r, k, miss, world, slot, wants_params)
            set_J_bar(g, s, r, k, force, a_bar, v_bar, slot)
            if i < 3:
                apart_bar[i] = x_bar
            else:
                turned_bar[i - 3] = x_bar
        loop_rows_adjoint(g, p, p_bar, s, r, e, apart_bar, turned_bar, world, slot, wants_params)


@wp.func
def constraints_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    world: int,
    slot: int,
    wants_params: int,
):
    """Adds the cotangents of Σ (J w)·f, w being s.tau_bar, but for those of w: V_bar, G_bar, W, q_bar, parameters; with
    loops of a law that has J also S_bar."""
    for i in range(m.body_parent.shape[0]):
        s.G_bar[i, slot] = vec6()
    if NOSLIP:
        slip_matrices_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
    for k in range(contact_count(c, slot)):
        contact_pairing_adjoint(m, g, p, p_bar, s, c, r, k, world, slot, wants_params)
    for k in range(r.joint_rows[0, slot]):
        of_joint = bool(True)
        if LOOPS:
            of_joint = r.joint_source[k, slot] < LOOP_ROW
        if TENDONS:
            if of_joint and is_of_tendons(g, r, k, slot):
                of_joint = False
                tendon_pairing_adjoint(m, g, p, p_bar, s, r, k, world, slot, wants_params)
        if of_joint:
            joint_pairing_adjoint(m, g, p, p_bar, s, r, k, world, slot, wants_params)
    if TRUE_LOOPS:
        loops_adjoint(g, p, p_bar, s, r, world, slot, wants_params)
    if LINEAR_LOOPS:
        for d in range(m.nv):
            s.S_bar[d, slot] = vec6()
        loop_pairings_adjoint(m, g, p, p_bar, s, r, world, slot, wants_params)
    if SPATIAL:
        armature_adjoint(p, p_bar, r, r.a, world, slot, wants_params)  # J depends on the pose
    elif TENDONS:
        if wants_params == 1:
            armature_adjoint(p, p_bar, r, r.a, world, slot, wants_params)
    if wants_params == 1:
        for d in range(m.nv):
            p_bar.armature[world, d] = p_bar.armature[world, d] - r.w[d, slot] * r.a[d, slot]
