"""Forces of contacts and joint limits as functions of q, v and the joint accelerations a, with their adjoint.

This is the law of MuJoCo's contact, f(J a, J v, distance), without its solver: at the accelerations that the solver
finds, the forces are those of the solver.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3, vec6
from ..tree.algorithms import store_coordinates_bar
from ..tree.frames import clear_bars
from ..tree.state import read_state
from ..tree.structs import BALL, Params, Tree, Workspace, read_vec3
from ..tree.sweeps import inward_adjoint, outward
from .collide import detect, geometry_adjoint, tree_poses
from .convex import (
    contact_law_adjoint,
    contact_response,
    contact_rows,
    joint_constraint_rows,
    joint_law_adjoint,
    joint_response,
    margin,
)
from .flavour import ADHESION, ROWS, vecr
from .limits import ball_axis_adjoint, limit_adjoint, limit_distance
from .rows import (
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

if ADHESION:
    from .adhesion import set_gap_apart


@wp.struct
class Felt:
    """[time, world, contact], and [time, world, side of a limit]. The same struct holds their cotangents."""

    pos: wp.array3d(dtype=vec3)  # points of contact
    force: wp.array3d(dtype=vec3)  # on the second shape of the pair, in the world's axes
    moment: wp.array3d(dtype=vec3)
    load: wp.array3d(dtype=real)  # along the normal
    limit: wp.array3d(dtype=vec3)  # distance beyond the margin, velocity and force of limits that act; 0 of others


@wp.func
def evaluate_laws(
    m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows,
    q: wp.array3d(dtype=real), v: wp.array3d(dtype=real), a: wp.array3d(dtype=real), t: int, world: int, slot: int,
):  # fmt: skip
    """All rows and their z in a state; what the adjoint needs stays in s, c and r."""
    read_state(m, s, q, v, t, world, slot)
    for d in range(m.nv):
        s.a[d, slot] = a[t, world, d]
        s.w[d, slot] = real(0.0)
    outward(m, p, s, world, slot)
    detect(g, p, tree_poses(s), c, margin(p, world), world, slot)
    if ADHESION:
        set_gap_apart(g, c, r, margin(p, world), slot)
    contact_rows(m, g, p, s, c, r, world, slot)
    joint_constraint_rows(m, g, p, s, r, world, slot)
    for k in range(contact_count(c, slot)):
        r.z[k, slot] = contact_motion(m, r, s.a, k, slot) + r.z_free[k, slot]
    for k in range(r.joint_rows[0, slot]):
        r.joint_z[k, slot] = joint_row_motion(g, r, s.a, k, slot) + r.joint_z_free[k, slot]


@wp.kernel(enable_backward=False)
def feel(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    first_world: int,
    end_world: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    a: wp.array3d(dtype=real),
    felt: Felt,
    normal: wp.array3d(dtype=vec3),
    pair: wp.array3d(dtype=int),
    count: wp.array2d(dtype=int),
):
    """Forces in all states; pair and normal of each contact, and how many there are."""
    slot = wp.tid()
    for world in range(first_world + slot, end_world, s.q.shape[1]):
        for t in range(q.shape[0]):
            evaluate_laws(m, g, p, s, c, r, q, v, a, t, world, slot)
            count[t, world] = c.count[0, slot]
            for k in range(contact_count(c, slot)):
                f, _K = contact_response(g, c, r, k, slot)
                n = c.normal[k, slot]
                t1 = r.tangent1[k, slot]
                t2 = r.tangent2[k, slot]
                pair[t, world, k] = c.pair[k, slot]
                normal[t, world, k] = n
                felt.pos[t, world, k] = c.pos[k, slot]
                felt.force[t, world, k] = in_world(f, n, t1, t2)
                felt.moment[t, world, k] = rotation_in_world(f, n, t1, t2)
                felt.load[t, world, k] = f[0]
            for k in range(r.joint_rows[0, slot]):
                source = r.joint_source[k, slot]
                if source >= 0:
                    f_row, _K_row = joint_response(r, k, slot)
                    distance, _J = limit_distance(m, g, p, s, source / 2, source % 2, world, slot)
                    velocity = joint_row_motion(g, r, s.v, k, slot)
                    felt.limit[t, world, source] = vec3(distance - g.limit_margin[source / 2], velocity, f_row)


@wp.func
def contact_felt_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, bar: Felt,
    t: int, k: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of contact k: adds to a_bar, which is in r.w, V_bar, G_bar, W and parameters."""
    pos = c.pos[k, slot]
    n = c.normal[k, slot]
    t1 = r.tangent1[k, slot]
    t2 = r.tangent2[k, slot]
    force_bar = bar.force[t, world, k]
    moment_bar = bar.moment[t, world, k]
    f, K = contact_response(g, c, r, k, slot)
    u = vecr()
    u[0] = wp.dot(n, force_bar) + bar.load[t, world, k]
    u[1] = wp.dot(t1, force_bar)
    u[2] = wp.dot(t2, force_bar)
    n_bar = f[0] * force_bar
    t1_bar = f[1] * force_bar
    t2_bar = f[2] * force_bar
    if ROWS == 6:
        u[3] = wp.dot(n, moment_bar)
        u[4] = wp.dot(t1, moment_bar)
        u[5] = wp.dot(t2, moment_bar)
        n_bar += f[3] * moment_bar
        t1_bar += f[4] * moment_bar
        t2_bar += f[5] * moment_bar
    Ja = contact_motion(m, r, s.a, k, slot)
    Jv = contact_motion(m, r, s.v, k, slot)
    z_bar = -(K * u)
    v_bar, x_bar = contact_law_adjoint(m, g, p, p_bar, c, r, k, u, Ja, Jv, world, slot, wants_params)
    add_contact_force(m, r, r.w, z_bar, k, slot)
    # J x = frame · (velocity of body 2 - velocity of body 1 at pos), for x in a and v
    spin_a = vec3()
    spin_v = vec3()
    for i in range(r.chain_length[k, slot]):
        dof = r.chain[k * m.nv + i, slot]
        S = r.side[k * m.nv + i, slot] * ang(s.S[dof, slot])
        spin_a += s.a[dof, slot] * S
        spin_v += s.v[dof, slot] * S
    a_world = in_world(Ja, n, t1, t2)
    v_world = in_world(Jv, n, t1, t2)
    n_bar += z_bar[0] * a_world + v_bar[0] * v_world
    t1_bar += z_bar[1] * a_world + v_bar[1] * v_world
    t2_bar += z_bar[2] * a_world + v_bar[2] * v_world
    if ROWS == 6:
        n_bar += z_bar[3] * spin_a + v_bar[3] * spin_v
        t1_bar += z_bar[4] * spin_a + v_bar[4] * spin_v
        t2_bar += z_bar[5] * spin_a + v_bar[5] * spin_v
    a_force = in_world(z_bar, n, t1, t2)
    v_force = in_world(v_bar, n, t1, t2)
    pos_bar = bar.pos[t, world, k] + wp.cross(a_force, spin_a) + wp.cross(v_force, spin_v)
    pair = c.pair[k, slot]
    push_pair(g, s, s.G_bar, pair, pos, rotation_in_world(z_bar, n, t1, t2), a_force, slot)
    push_pair(g, s, s.V_bar, pair, pos, rotation_in_world(v_bar, n, t1, t2), v_force, slot)
    geometry_adjoint(g, p, p_bar, tree_poses(s), c, k, pos_bar, x_bar, n_bar, t1_bar, t2_bar, world, slot, wants_params)


@wp.func
def limit_felt_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, r: Rows, bar: Felt,
    t: int, k: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of row k of the joints, if it is a limit: adds to a_bar, which is in r.w, q_bar, v_bar and parameters."""
    source = r.joint_source[k, slot]
    if source >= 0:
        own = bar.limit[t, world, source]
        distance, _J = limit_distance(m, g, p, s, source / 2, source % 2, world, slot)
        _f, K = joint_response(r, k, slot)
        z_bar = -K * own[2]
        Ja = joint_row_motion(g, r, s.a, k, slot)
        Jv = joint_row_motion(g, r, s.v, k, slot)
        v_bar, x_bar = joint_law_adjoint(m, g, p, p_bar, r, k, own[2], Ja, Jv, distance, world, slot, wants_params)
        v_bar += own[1]
        limit_adjoint(m, g, p, p_bar, s, r, k, x_bar + own[0], world, slot, wants_params)
        joint = g.limit_joint[source / 2]
        if m.joint_type[joint] == BALL:
            d = m.joint_v[joint]
            J_bar = z_bar * read_vec3(s.a, d, slot) + v_bar * read_vec3(s.v, d, slot)
            ball_axis_adjoint(m, g, s, r, J_bar, k, slot)
        add_joint_row_force(g, r, s.v_bar, v_bar, k, slot)
        add_joint_row_force(g, r, r.w, z_bar, k, slot)


@wp.kernel(enable_backward=False)
def feel_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    first_world: int,
    end_world: int,
    q: wp.array3d(dtype=real),
    v: wp.array3d(dtype=real),
    a: wp.array3d(dtype=real),
    bar: Felt,
    wants_params: int,
    q_bar: wp.array3d(dtype=real),
    v_bar: wp.array3d(dtype=real),
    a_bar: wp.array3d(dtype=real),
):
    """From the cotangents of what ``feel`` finds, those of q (stored coordinates), v, a and the parameters."""
    slot = wp.tid()
    for world in range(first_world + slot, end_world, s.q.shape[1]):
        for t in range(q.shape[0]):
            evaluate_laws(m, g, p, s, c, r, q, v, a, t, world, slot)
            for d in range(m.nv):
                s.q_bar[d, slot] = real(0.0)
                s.v_bar[d, slot] = real(0.0)
                r.w[d, slot] = real(0.0)
            clear_bars(m, s, slot)
            for i in range(m.body_parent.shape[0]):
                s.G_bar[i, slot] = vec6()
            for k in range(contact_count(c, slot)):
                contact_felt_adjoint(m, g, p, p_bar, s, c, r, bar, t, k, world, slot, wants_params)
            for k in range(r.joint_rows[0, slot]):
                limit_felt_adjoint(m, g, p, p_bar, s, r, bar, t, k, world, slot, wants_params)
            inward_adjoint(m, p, p_bar, s, world, slot, 1, 0, wants_params)
            for d in range(m.nv):
                v_bar[t, world, d] = s.v_bar[d, slot]
                a_bar[t, world, d] = r.w[d, slot]
            store_coordinates_bar(m, s, q[t], q_bar[t], world, slot)
