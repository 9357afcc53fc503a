"""From the cotangents of ``impulse_adjoint.py`` to what its rows are made of: mass matrix, Jacobians, distances.

Cotangents: of B in r.B_bar, which become those of J; of J v* in r.b_bar; of J v alone in r.speed_bar; of distances in
r.dist_bar.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.structs import Params, Tree, Workspace, read_vec3
from .collide import geometry_adjoint, tree_poses
from .composites import composite_bodies_adjoint
from .flavour import LOOPS, TENDONS
from .impulse_couplings import couplings_adjoint, rest_aim_adjoint
from .impulse_sweeps import block_count
from .limits import ball_axis_adjoint, limit_adjoint, limit_distance
from .rows import Rows, add_joint_row_force, contact_count, contact_motion, in_world, push_pair
from .whitening import add_products, contact_jacobian_adjoint, jacobian_bar, mass_bar

if LOOPS:
    from .impulse_couplings import loop_blocks_adjoint
if TENDONS:
    from .tendons import matrix_inertia_adjoint


@wp.func
def limits_a_ball(g: Shapes, r: Rows, row: int, slot: int):
    """Whether a row of the joints is the limit of a ball joint."""
    source = r.joint_source[row, slot]
    return source >= 0 and source < 2 * g.limit_joint.shape[0] and r.joint_length[row, slot] == 3


@wp.func
def rows_adjoint(
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
    """From B_bar back to the mass matrix and the Jacobians: adds to S_bar, W, q_bar and parameters.

    Cotangents of each contact's point and frame are left in r.pos_bar, r.n_bar, r.t1_bar, r.t2_bar.
    """
    contacts = contact_count(c, slot)
    # The change of velocity is made like a row: c = W w_bar is its B, and y its cotangent.
    for d in range(m.nv):
        s.S_bar[d, slot] = vec6()
        above = int(d)
        while above >= 0:
            r.M[d * m.nv + above, slot] = real(0.5) * r.y[above, slot] * r.left_bar[d, slot]
            above = m.dof_parent[above]
    for k in range(block_count(c, r, slot)):
        add_products(m, r, k, slot)
        jacobian_bar(m, r, k, slot)
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            d = r.chain[at, slot]
            r.B_bar[at, slot] = (
                r.B_bar[at, slot] + r.u_start[d, slot] * r.force_bar[k, slot] + r.w[d, slot] * r.force[k, slot]
            )
        if k < contacts:
            contact_jacobian_adjoint(m, s, c, r, k, slot)
        elif limits_a_ball(g, r, k - contacts, slot):  # its J turns
            at = k * m.nv
            J_bar = vec3(r.B_bar[at + 2, slot][0], r.B_bar[at + 1, slot][0], r.B_bar[at, slot][0])
            ball_axis_adjoint(m, g, s, r, J_bar, k - contacts, slot)
    mass_bar(m, r, slot)
    for e in range(m.nv):
        d = int(e)
        energy_bar = r.energy_bar[r.island[e, slot], slot]
        while d >= 0:
            at = e * m.nv + d
            r.M[at, slot] = r.M[at, slot] - real(0.5) * (
                r.w[d, slot] * r.u_start[e, slot] + r.w[e, slot] * r.u_start[d, slot]
            )
            r.M[at, slot] = r.M[at, slot] + energy_bar * r.free[e, slot] * r.free[d, slot]
            d = m.dof_parent[d]
    for d in range(m.nv):
        s.diagonal_bar[d, slot] = s.diagonal_bar[d, slot] + r.M[d * m.nv + d, slot]
    if TENDONS:
        matrix_inertia_adjoint(m, r, slot)
    composite_bodies_adjoint(m, p, p_bar, s, r, world, slot, wants_params)


@wp.func
def approach_adjoint(
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
    """Adds cotangents of Σ b_bar · (J v + h J a) + speed_bar J v + dist_bar distance to V_bar, G_bar, W, q_bar, p_bar.

    s.a is free.
    """
    h = m.timestep
    poses = tree_poses(s)
    for i in range(m.body_parent.shape[0]):
        s.G_bar[i, slot] = vec6()
    for k in range(contact_count(c, slot)):
        pair = c.pair[k, slot]
        b_bar = r.b_bar[k, slot]
        n = c.normal[k, slot]
        t1 = r.tangent1[k, slot]
        t2 = r.tangent2[k, slot]
        pos = c.pos[k, slot]
        Jv = contact_motion(m, r, s.v, k, slot)
        Ja = contact_motion(m, r, s.a, k, slot)
        speed_bar = r.speed_bar[k, slot]
        dist_bar = r.dist_bar[k, slot]
        v_force = in_world(b_bar, n, t1, t2)
        a_force = h * v_force
        v_force += speed_bar * n
        v_world = in_world(Jv, n, t1, t2)
        whole = v_world + h * in_world(Ja, n, t1, t2)
        spin_v = vec3()
        spin_a = vec3()
        for i in range(r.chain_length[k, slot]):
            d = r.chain[k * m.nv + i, slot]
            S = r.side[k * m.nv + i, slot] * ang(s.S[d, slot])
            spin_v += s.v[d, slot] * S
            spin_a += s.a[d, slot] * S
        push_pair(g, s, s.V_bar, pair, pos, vec3(), v_force, slot)
        push_pair(g, s, s.G_bar, pair, pos, vec3(), a_force, slot)
        pos_bar = r.pos_bar[k, slot] + wp.cross(v_force, spin_v) + wp.cross(a_force, spin_a)
        n_bar = r.n_bar[k, slot] + b_bar[0] * whole + speed_bar * v_world
        t1_bar = r.t1_bar[k, slot] + b_bar[1] * whole
        t2_bar = r.t2_bar[k, slot] + b_bar[2] * whole
        geometry_adjoint(g, p, p_bar, poses, c, k, pos_bar, dist_bar, n_bar, t1_bar, t2_bar, world, slot, wants_params)
    for k in range(r.joint_rows[0, slot]):
        row_bar = r.b_bar[contact_count(c, slot) + k, slot][0]
        aim_bar = r.aim_bar[contact_count(c, slot) + k, slot]
        add_joint_row_force(g, r, s.v_bar, row_bar, k, slot)
        source = r.joint_source[k, slot]
        if not couplings_adjoint(m, g, p, p_bar, s, c, r, k, world, slot, wants_params) and source >= 0:
            d = m.joint_v[g.limit_joint[source / 2]]
            if limits_a_ball(g, r, k, slot):
                ball_axis_adjoint(
                    m, g, s, r, row_bar * (read_vec3(s.v, d, slot) + h * read_vec3(s.a, d, slot)), k, slot
                )
            erp = p.impulse[world, 0][0]
            distance, _J = limit_distance(m, g, p, s, source / 2, source % 2, world, slot)
            x_bar, _slop_bar, erp_bar = rest_aim_adjoint(distance, real(0.0), erp, h, aim_bar - row_bar)
            limit_adjoint(m, g, p, p_bar, s, r, k, x_bar, world, slot, wants_params)
            if wants_params == 1:
                bar = vec4(erp_bar, real(0.0), real(0.0), real(0.0))
                p_bar.impulse[world, 0] = p_bar.impulse[world, 0] + bar
    if LOOPS:
        loop_blocks_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
