"""The kernels of a contact model: a linear spring along the normal, without friction, limits or friction loss.

Loaded by ``pullback.kernels`` next to its own: relative imports are from ``kernels/contact``.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec4
from ..status import HEALTHY
from ..tree.structs import Params, Tree, Workspace
from .flavour import vecr
from .linear_forces import contact_response, joint_response, linear_forces
from .rows import Rows, contact_count, contact_jacobian

__all__ = ["contact_law_adjoint", "contact_response", "forces", "joint_law_adjoint", "joint_response", "margin"]


@wp.func
def margin(p: Params, world: int):
    return real(0.0)


@wp.func
def forces(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    r.coupled[0, slot] = 0
    r.joint_rows[0, slot] = 0
    for k in range(contact_count(c, slot)):
        contact_jacobian(m, g, s, c, r, k, slot)
        force = vecr()
        force[0] = -p.custom[world, 0][0] * c.dist[k, slot]
        r.free_force[k, slot] = force
        r.softening[k, slot] = vecr()
    linear_forces(m, g, p, s, c, r, world, slot)
    return HEALTHY


@wp.func
def contact_law_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    c: Contacts,
    r: Rows,
    k: int,
    u: vecr,
    Ja: vecr,
    Jv: vecr,
    world: int,
    slot: int,
    wants_params: int,
):
    """Cotangents of J v and of the distance in u · force, and of the parameters."""
    if wants_params == 1:
        bar = vec4(-u[0] * c.dist[k, slot], real(0.0), real(0.0), real(0.0))
        p_bar.custom[world, 0] = p_bar.custom[world, 0] + bar
    return vecr(), -p.custom[world, 0][0] * u[0]


@wp.func
def joint_law_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    r: Rows,
    k: int,
    u: real,
    Ja: real,
    Jv: real,
    distance: real,
    world: int,
    slot: int,
    wants_params: int,
):
    return real(0.0), real(0.0)
