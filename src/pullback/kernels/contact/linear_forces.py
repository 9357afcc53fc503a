"""Forces that are linear in the acceleration, f = F - C J a row by row: what a contact model may reduce its own to.

It fills in F and C; then a solves  (M + Jᵀ C J) a = smooth + Jᵀ F.

    letter  meaning                              kept in
    F       force at a = 0                       r.free_force, r.joint_free_force
    C       what it loses by J a, row by row     r.softening, r.joint_softening
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..tree.structs import Params, Tree, Workspace
from .armature import all_armature
from .flavour import matr, vecr
from .mass_matrix import (
    add_curvature,
    add_joint_curvature,
    composite_bodies,
    factorise,
    find_columns,
    smooth_forces,
    solve_factored,
    start_matrix,
)
from .rows import (
    Rows,
    add_contact_force,
    add_joint_row_force,
    contact_count,
    contact_motion,
    has_rows,
    joint_row_motion,
)


@wp.func
def linear_forces(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Adds the forces of all rows to s.tau; r.a are the accelerations under them."""
    if has_rows(c, r, slot):
        smooth_forces(m, p, s, r, world, slot)
        composite_bodies(m, p, s, r, world, slot)
        find_columns(m, g, c, r, slot)
        all_armature(m, p, r, world, slot)
        for d in range(m.nv):
            r.a[d, slot] = r.smooth[d, slot]
        start_matrix(m, r, slot)
        for k in range(contact_count(c, slot)):
            add_curvature(m, r, r.H, diagonal(r.softening[k, slot]), k, slot)
            add_contact_force(m, r, r.a, r.free_force[k, slot], k, slot)
        for k in range(r.joint_rows[0, slot]):
            add_joint_curvature(m, g, r, r.joint_softening[k, slot], k, slot)
            add_joint_row_force(g, r, r.a, r.joint_free_force[k, slot], k, slot)
        factorise(m, r, slot)
        solve_factored(m, r, r.a, slot)
        for k in range(contact_count(c, slot)):
            r.z[k, slot] = contact_motion(m, r, r.a, k, slot)
            force, _K = contact_response(g, c, r, k, slot)
            r.force[k, slot] = force
            add_contact_force(m, r, s.tau, force, k, slot)
        for k in range(r.joint_rows[0, slot]):
            r.joint_z[k, slot] = joint_row_motion(g, r, r.a, k, slot)
            row_force, _k = joint_response(r, k, slot)
            add_joint_row_force(g, r, s.tau, row_force, k, slot)


@wp.func
def diagonal(x: vecr):
    K = matr()
    for i in range(3):
        K[i, i] = x[i]
    return K


@wp.func
def contact_response(g: Shapes, c: Contacts, r: Rows, k: int, slot: int):
    """Force of contact k, and K = minus its derivative by J a."""
    C = r.softening[k, slot]
    return r.free_force[k, slot] - wp.cw_mul(C, r.z[k, slot]), diagonal(C)


@wp.func
def joint_response(r: Rows, k: int, slot: int):
    C = r.joint_softening[k, slot]
    return r.joint_free_force[k, slot] - C * r.joint_z[k, slot], C
