"""The sweeps of ``noslip.py`` backwards.

Let g_bar be the cotangent of the constraint forces Jᵀ f. The last forces have J g_bar, and the sweeps are reversed with
y, which is taken back by subtracting what each update added. What they leave are the cotangents of the convex problem's
own forces f_start and of z; ``constrained.py`` goes on from there, with f_start in place of f:

    r.force_bar   cotangent of f_start, less J g_bar, which that adds itself
    r.z_bar       cotangent of z beside that
    r.B_bar       cotangent of B; later of J, with (f - f_start) g_bar, which no pairing with f_start has
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec6
from ..tree.structs import Params, Tree, Workspace
from .armature import all_armature
from .composites import composite_bodies_adjoint
from .flavour import ROWS, TENDONS, matr, vecr
from .mass_matrix import composite_bodies
from .noslip import (
    INSIDE,
    LEAST_CURVATURE,
    ON_THE_CONE,
    UNDONE,
    block_count,
    cone_problem,
    cone_update,
    edges,
    factor_of_mass,
    first_of,
    sweeps_of,
    tangents_solve,
)
from .rows import Rows, contact_count, contact_motion
from .whitening import add_products, contact_jacobian_adjoint, jacobian_bar, mass_bar, whitened_motion

if TENDONS:
    from .tendons import matrix_armature_adjoint


@wp.func
def cone_update_adjoint(own: matr, friction: vecr, old: vecr, miss: vecr, bar: vecr, n: int):
    """Cotangents of old, miss, A, friction and the radius in bar · new, tangents alone.

    With B = A + multiplier, p = B⁻¹ v_bar and q = B⁻¹ v, those of b are -(p - s q), where s keeps |v| at the radius.
    """
    new, v, L, what, _fell = cone_update(own, friction, old, miss, n)
    old_bar = vecr()
    miss_bar = vecr()
    own_bar = matr()
    friction_bar = vecr()
    radius_bar = real(0.0)
    if what == UNDONE:
        old_bar = bar
        old_bar[0] = real(0.0)
    if what == INSIDE or what == ON_THE_CONE:
        _A, _b, plain = cone_problem(own, friction, old, miss, n)
        v_bar = vecr()
        for j in range(1, ROWS):
            if j <= n:
                v_bar[j] = friction[j] * bar[j]
        h = tangents_solve(L, v_bar, n)
        if what == ON_THE_CONE:
            turned = tangents_solve(L, v, n)
            share = wp.dot(h, v) / wp.dot(turned, v)
            h -= share * turned
            radius_bar = share * wp.length(v)
        for j in range(1, ROWS):
            if j <= n:
                miss_bar[j] = -friction[j] * h[j]
                friction_bar[j] = v[j] * bar[j] - h[j] * plain[j]
        for j in range(1, ROWS):
            if j <= n:
                for i in range(1, ROWS):
                    if i <= n:
                        both = -h[j] * v[i]
                        own_bar[j, i] = friction[j] * friction[i] * both - miss_bar[j] * old[i]
                        friction_bar[j] = friction_bar[j] + both * friction[i] * own[j, i]
                        friction_bar[i] = friction_bar[i] + both * friction[j] * own[j, i]
                        old_bar[i] = old_bar[i] - own[j, i] * miss_bar[j]
    return old_bar, miss_bar, own_bar, friction_bar, radius_bar


@wp.func
def update_pyramid_adjoint(own: matr, friction: vecr, bound: vecr, old: vecr, new: vecr, bar: vecr, n: int):
    """Cotangents of old, miss, A and the bounds in bar · new, tangents alone."""
    old_bar = vecr()
    miss_bar = vecr()
    own_bar = matr()
    bound_bar = vecr()
    change_bar = vecr()
    for back in range(1, ROWS):
        j = ROWS - back
        if j <= n:
            new_bar = bar[j] + change_bar[j]
            wish_bar = real(0.0)
            if wp.abs(new[j]) < bound[j]:
                wish_bar = new_bar
            elif new[j] != real(0.0):
                bound_bar[j] = wp.sign(new[j]) * new_bar
            if real(4.0) * friction[j] * friction[j] * own[j, j] < LEAST_CURVATURE:
                wish_bar = real(0.0)
            old_bar[j] = wish_bar - change_bar[j]
            residual_bar = -wish_bar / wp.max(own[j, j], LEAST_CURVATURE)
            miss_bar[j] = residual_bar
            # wish - old = -residual / A_jj
            own_bar[j, j] = residual_bar * (new[j] - old[j])
            for i in range(1, j):
                own_bar[j, i] = residual_bar * (new[i] - old[i])
                change_bar[i] = change_bar[i] + residual_bar * own[j, i]
    return old_bar, miss_bar, own_bar, bound_bar


@wp.func
def update_block_adjoint(
    g: Shapes, c: Contacts, r: Rows, old: vecr, new: vecr, miss: vecr, bar: vecr, k: int, slot: int
):
    """Cotangents of the old forces and of miss in bar · new; those of A, bounds and friction are added up."""
    own = r.own[k, slot]
    old_bar = vecr()
    miss_bar = vecr()
    if k >= contact_count(c, slot):
        if wp.abs(new[0]) < r.bound[k, slot][0]:
            share = wp.max(own[0, 0], LEAST_CURVATURE)
            miss_bar[0] = -bar[0] / share
            old_bar[0] = bar[0]
            own_bar = matr()
            own_bar[0, 0] = miss_bar[0] * (new[0] - old[0])
            r.own_bar[k, slot] = r.own_bar[k, slot] + own_bar
        else:
            r.bound_bar[k, slot] = r.bound_bar[k, slot] + first_of(wp.sign(new[0]) * bar[0])
    else:
        n = g.pair_dim[c.pair[k, slot]] - 1
        old_bar = bar
        if n > 0:
            friction = r.friction[k, slot]
            if g.elliptic == 0:
                old_bar, miss_bar, own_bar, bound_bar = update_pyramid_adjoint(
                    own, friction, r.bound[k, slot], old, new, bar, n
                )
                r.own_bar[k, slot] = r.own_bar[k, slot] + own_bar
                r.bound_bar[k, slot] = r.bound_bar[k, slot] + bound_bar
            else:
                old_bar, miss_bar, own_bar, friction_bar, radius_bar = cone_update_adjoint(
                    own, friction, old, miss, bar, n
                )
                r.own_bar[k, slot] = r.own_bar[k, slot] + own_bar
                r.friction_bar[k, slot] = r.friction_bar[k, slot] + friction_bar
                r.bound_bar[k, slot] = r.bound_bar[k, slot] + first_of(radius_bar)
            old_bar[0] = bar[0]
    return old_bar, miss_bar


@wp.func
def edges_adjoint(g: Shapes, c: Contacts, r: Rows, k: int, slot: int):
    """Bounds of a pyramid's tangents, and the radius of an elliptic cone, go to what they are made of."""
    dim = g.pair_dim[c.pair[k, slot]]
    bar = r.bound_bar[k, slot]
    stiffness = r.stiffness[k, slot]
    r.stiffness_bar[k, slot] = real(0.0)
    if dim > 1 and g.elliptic == 1:
        r.force_bar[k, slot] = r.force_bar[k, slot] + first_of(bar[0])
    elif dim > 1:
        z = r.z[k, slot]
        friction = r.friction[k, slot]
        z_bar = vecr()
        friction_bar = vecr()
        for j in range(1, ROWS):
            if j < dim:
                mu = friction[j]
                plus, minus = edges(z, stiffness, mu, j)
                both_bar = mu * bar[j]
                slope = vecr()
                if plus > real(0.0):
                    slope[0] = slope[0] - stiffness
                    slope[j] = slope[j] - stiffness
                if minus > real(0.0):
                    slope[0] = slope[0] - stiffness
                    slope[j] = slope[j] + stiffness
                z_bar[0] = z_bar[0] + both_bar * slope[0]
                z_bar[j] = z_bar[j] + both_bar * mu * slope[j]
                friction_bar[j] = (plus + minus) * bar[j] + both_bar * z[j] * slope[j]
                r.stiffness_bar[k, slot] = r.stiffness_bar[k, slot] + both_bar * (plus + minus) / stiffness
        r.z_bar[k, slot] = r.z_bar[k, slot] + z_bar
        r.friction_bar[k, slot] = r.friction_bar[k, slot] + friction_bar


@wp.func
def stop_slip_adjoint(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """From g_bar in s.w; right after ``stop_slip``."""
    count = block_count(c, r, slot)
    for d in range(m.nv):
        r.swept_bar[d, slot] = real(0.0)
    for k in range(count):
        r.force_bar[k, slot] = contact_motion(m, r, s.w, k, slot)
        r.z_bar[k, slot] = vecr()
        r.bound_bar[k, slot] = vecr()
        r.friction_bar[k, slot] = vecr()
        r.own_bar[k, slot] = matr()
        for i in range(r.reach[k, slot]):
            r.B_bar[k * m.nv + i, slot] = vecr()
    for back_sweep in range(r.noslip.sweeps):
        sweep = r.noslip.sweeps - 1 - back_sweep
        for back in range(count):
            k = r.order[count - 1 - back, slot]
            if sweep < sweeps_of(r, k, slot):
                old = r.history[sweep, k, slot]
                new = r.history[sweep + 1, k, slot]
                change = new - old
                change_bar = whitened_motion(m, r, r.swept_bar, k, slot)
                at = k * m.nv
                end = at + r.reach[k, slot]
                while at < end:
                    d = r.chain[at, slot]
                    r.swept[d, slot] = r.swept[d, slot] - wp.dot(r.B[at, slot], change)
                    at += 1
                miss = r.slip[k, slot] + whitened_motion(m, r, r.swept, k, slot)
                bar = r.force_bar[k, slot] + change_bar
                old_bar, miss_bar = update_block_adjoint(g, c, r, old, new, miss, bar, k, slot)
                r.force_bar[k, slot] = old_bar - change_bar
                r.z_bar[k, slot] = r.z_bar[k, slot] + miss_bar
                at = k * m.nv
                while at < end:
                    d = r.chain[at, slot]
                    y_bar = r.swept_bar[d, slot]
                    r.B_bar[at, slot] = r.B_bar[at, slot] + y_bar * change + r.swept[d, slot] * miss_bar
                    r.swept_bar[d, slot] = y_bar + wp.dot(r.B[at, slot], miss_bar)
                    at += 1
    for k in range(count):
        own_bar = r.own_bar[k, slot] + wp.transpose(r.own_bar[k, slot])
        for i in range(r.reach[k, slot]):
            at = k * m.nv + i
            r.B_bar[at, slot] = r.B_bar[at, slot] + own_bar * r.B[at, slot]
        r.force_bar[k, slot] = r.force_bar[k, slot] - contact_motion(m, r, s.w, k, slot)
        if k < contact_count(c, slot):
            edges_adjoint(g, c, r, k, slot)


@wp.func
def row_bars(r: Rows, row: int, slot: int):
    """Of a row of joints: the cotangent of its first force beside J g_bar, that of z, and that of its bound."""
    force_bar = real(0.0)
    z_bar = real(0.0)
    bound_bar = real(0.0)
    k = r.row_block[row, slot]
    if k >= 0:
        force_bar = r.force_bar[k, slot][0]
        z_bar = r.z_bar[k, slot][0]
        bound_bar = r.bound_bar[k, slot][0]
    return force_bar, z_bar, bound_bar


@wp.func
def slip_matrices_adjoint(
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
    """From r.B_bar to S_bar, which this sets, W and parameters, by way of Jacobians and the mass matrix.

    g_bar is in r.kept_w. Cotangents of each contact's point and frame are left in r.pos_bar, r.n_bar, r.t1_bar and
    r.t2_bar.
    """
    composite_bodies(m, p, s, r, world, slot)
    all_armature(m, p, r, world, slot)
    factor_of_mass(m, r, slot)
    for d in range(m.nv):
        s.S_bar[d, slot] = vec6()
        above = int(d)
        while above >= 0:
            r.M[d * m.nv + above, slot] = real(0.0)
            above = m.dof_parent[above]
    contacts = contact_count(c, slot)
    for k in range(block_count(c, r, slot)):
        add_products(m, r, k, slot)
        jacobian_bar(m, r, k, slot)
        change = r.history[sweeps_of(r, k, slot), k, slot] - r.history[0, k, slot]
        for i in range(r.chain_length[k, slot]):
            at = k * m.nv + i
            r.B_bar[at, slot] = r.B_bar[at, slot] + r.kept_w[r.chain[at, slot], slot] * change
        if k < contacts:
            contact_jacobian_adjoint(m, s, c, r, k, slot)
        elif TENDONS:
            loss_jacobian_adjoint(m, g, r, k, slot)
    mass_bar(m, r, slot)
    if TENDONS:
        matrix_armature_adjoint(m, p, p_bar, r, world, slot, wants_params)
    if wants_params == 1:
        for d in range(m.nv):
            p_bar.armature[world, d] = p_bar.armature[world, d] + r.M[d * m.nv + d, slot]
    composite_bodies_adjoint(m, p, p_bar, s, r, world, slot, wants_params)


@wp.func
def loss_jacobian_adjoint(m: Tree, g: Shapes, r: Rows, k: int, slot: int):
    """From J_bar of block k, if it is a tendon's friction loss."""
    at = -1 - r.joint_source[r.block_row[k, slot], slot] - g.loss_dof.shape[0]
    if at >= 0:
        entry = r.tendons.first[r.tendons.loss[at]]
        end = r.tendons.first[r.tendons.loss[at] + 1]
        for i in range(r.chain_length[k, slot]):
            if entry < end:
                if r.tendons.dof[entry] == r.chain[k * m.nv + i, slot]:
                    r.tendon_J_bar[entry, slot] = r.tendon_J_bar[entry, slot] + r.B_bar[k * m.nv + i, slot][0]
                    entry += 1
