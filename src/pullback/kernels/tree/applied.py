"""Forces that somebody applies from outside, along degrees of freedom and on bodies, with their adjoint; and the poses
of bodies that are moved from outside, of which ``mocap.py`` knows."""

import warp as wp

from ..spatial.algebra import ang, lin, pack, velocity_at
from ..spatial.scalar import real, vec6
from .structs import Params, Tree, Workspace, com_from_o

vec7 = wp.types.vector(7, real)


@wp.struct
class Applied:
    """``[step, world, item]``; the same struct holds their cotangents."""

    force: wp.array3d(dtype=real)  # along each degree of freedom
    wrench: wp.array3d(dtype=vec6)  # on each body: torque, and force at the centre of mass, in world axes
    mocap: wp.array3d(dtype=vec7)  # pose of each mocap body: position, quaternion
    has_force: int
    has_wrench: int
    has_mocap: int


@wp.func
def wrench_about_o(p: Params, s: Workspace, f: Applied, t: int, i: int, world: int, slot: int):
    wrench = f.wrench[t, world, i]
    return pack(ang(wrench) + wp.cross(com_from_o(p, s, i, world, slot), lin(wrench)), lin(wrench))


@wp.func
def applied_forces(m: Tree, p: Params, s: Workspace, f: Applied, t: int, world: int, slot: int):
    """Adds what acts along degrees of freedom to tau, and takes what acts on bodies from their bias force pA."""
    if f.has_force == 1:
        for d in range(m.nv):
            s.tau[d, slot] = s.tau[d, slot] + f.force[t, world, d]
    if f.has_wrench == 1:
        for i in range(1, m.body_parent.shape[0]):
            s.pA[i, slot] = s.pA[i, slot] - wrench_about_o(p, s, f, t, i, world, slot)


@wp.func
def applied_wrenches_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, f: Applied, f_bar: Applied,
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds to X_bar and W of each body, and to the wrenches' own, the cotangents of Σ X·wrench."""
    for i in range(1, m.body_parent.shape[0]):
        c = com_from_o(p, s, i, world, slot)
        X = s.X[i, slot]
        c_bar = wp.cross(lin(f.wrench[t, world, i]), ang(X))  # the force is applied where the centre of mass goes
        f_bar.wrench[t, world, i] = f_bar.wrench[t, world, i] + pack(ang(X), velocity_at(X, c))
        s.X_bar[i, slot] = s.X_bar[i, slot] + wrench_about_o(p, s, f, t, i, world, slot)
        s.W[i, slot] = s.W[i, slot] + pack(wp.cross(c, c_bar), c_bar)
        if wants_params == 1:
            p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(s.R[i, slot]) * c_bar


@wp.func
def applied_joint_forces_adjoint(m: Tree, s: Workspace, f_bar: Applied, t: int, world: int, slot: int):
    for d in range(m.nv):
        f_bar.force[t, world, d] = f_bar.force[t, world, d] + s.tau_bar[d, slot]
