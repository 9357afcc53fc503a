"""MuJoCo's soft convex contact, with joint limits and friction loss: solved to convergence, differentiated there.

The accelerations a minimise  ½ (a - a0)ᵀ M (a - a0) + Σ potential(J a - reference),  a0 being those without
constraints. This is strictly convex; Newton's method with an exact line search finds the one solution, whatever the
starting point. At the solution

    M a = smooth + Jᵀ f(J a - reference)

The backward pass is in ``constrained.py``.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..status import HEALTHY, NOT_CONVERGED
from ..tree.structs import Params, Tree, Workspace
from .armature import all_armature
from .flavour import LOOPS, NOSLIP, SHARES, TENDONS, vecr
from .law import (
    cone_force,
    cone_force_adjoint,
    cone_stiffness,
    impedance,
    impedance_adjoint,
    joint_row_force,
    row_stiffness,
    spring,
    spring_adjoint,
    sticking_curvature,
    weight_adjoint,
)
from .limits import add_limit_row, limit_distance, row_velocity, sides
from .mass_matrix import (
    add_curvature,
    add_joint_curvature,
    composite_bodies,
    factorise,
    find_columns,
    multiply_mass,
    smooth_forces,
    solve_factored,
    start_matrix,
)
from .materials import (
    friction_damping,
    mixed_friction,
    mixed_friction_adjoint,
    mixed_solimp,
    mixed_solimp_adjoint,
    mixed_solref,
    mixed_solref_adjoint,
)
from .refinement import closed_share
from .rows import (
    Rows,
    add_contact_force,
    add_joint_row_force,
    add_loss_row,
    contact_count,
    contact_jacobian,
    contact_motion,
    has_rows,
    joint_row_motion,
    set_row_law,
)

if LOOPS:
    from .loops import loop_rows
if NOSLIP:
    from .noslip import stop_slip
    from .noslip_adjoint import row_bars
if TENDONS:
    from .tendon_rows import equality_law_adjoint, is_equality, tendon_constraint_rows

# The solver goes on until the forces at every joint balance to this share of themselves, which is a little above what
# rounding leaves; where it comes no nearer, it stops, and the share it has reached is looked at.
BALANCED = wp.constant(real(1e-5 if real is wp.float32 else 1e-13))
# A residual above this share is an error: the derivative at the solution would be that of another point.
CONVERGED = wp.constant(real(1e-3 if real is wp.float32 else 1e-8))
ROUNDING = wp.constant(real(2e-7 if real is wp.float32 else 4e-16))
MOST_ITERATIONS = wp.constant(100)
MOST_SEARCHES = wp.constant(30)
# The line search ends when the slope is this share of what it was at the start; the last steps of Newton's method are
# exact without any search.
SLOPE_SHARE = wp.constant(real(0.01))


# --- rows ------------------------------------------------------------------------------------------


@wp.func
def law_distance(x: real):
    """The distance that the law of a row sees which acts before shapes touch."""
    return wp.min(x, real(0.0))


@wp.func
def contact_rows(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Jacobian, stiffness and reference of every contact."""
    r.coupled[0, slot] = 0
    for k in range(contact_count(c, slot)):
        contact_jacobian(m, g, s, c, r, k, slot)
        pair = c.pair[k, slot]
        x = c.dist[k, slot] - g.pair_margin[pair]
        friction = mixed_friction(p, g, pair, world)
        solimp = mixed_solimp(p, g, pair, world)
        stiff, damp = spring(mixed_solref(p, g, pair, world), solimp, g.shortest_time)
        if SHARES:
            moving = contact_motion(m, r, s.v, k, slot)
            share, _x, _v = closed_share(m, x, moving[0])
            x = law_distance(x)
        d, _slope = impedance(solimp, x)
        acting = d
        if SHARES:
            acting = share * d
        weight = p.weight[world, g.pair_weight[pair]]
        stiffness, _d, _mu = cone_stiffness(acting, weight, g.pair_dim[pair], g.elliptic, g.impratio, friction[1])
        velocity = contact_motion(m, r, s.v, k, slot)
        z = friction_damping(g, solimp, damp, pair) * velocity
        z[0] = damp * velocity[0] + stiff * d * x
        r.z_free[k, slot] = z
        r.stiffness[k, slot] = stiffness
        r.friction[k, slot] = friction


@wp.func
def joint_constraint_rows(m: Tree, g: Shapes, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Rows of the limits that are reached and of all friction loss."""
    r.joint_rows[0, slot] = 0
    for k in range(g.loss_dof.shape[0]):
        loss = p.loss[world, k]
        if loss > real(0.0):
            dof = g.loss_dof[k]
            solimp = g.loss_solimp[k]
            d, _slope = impedance(solimp, real(0.0))
            _k, damp = spring(g.loss_solref[k], solimp, g.shortest_time)
            stiffness, _s = row_stiffness(d, p.weight[world, g.loss_weight[k]])
            row = add_loss_row(g, r, k, slot)
            set_row_law(r, row, damp * s.v[dof, slot], stiffness, loss, slot)
    for k in range(g.limit_joint.shape[0]):
        joint = g.limit_joint[k]
        for side in range(sides(m, joint)):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            x = distance - g.limit_margin[k]
            acts = x < real(0.0)
            if SHARES:
                share, _x, _v = closed_share(m, x, row_velocity(m, s, joint, J, slot))
                acts = share > real(0.0)
                x = law_distance(x)
            if acts:
                solimp = p.limit_solimp[world, k]
                d, _slope = impedance(solimp, x)
                acting = d
                if SHARES:
                    acting = share * d
                stiff, damp = spring(p.limit_solref[world, k], solimp, g.shortest_time)
                stiffness, _s = row_stiffness(acting, p.weight[world, g.limit_weight[k]])
                z = damp * row_velocity(m, s, joint, J, slot) + stiff * d * x
                row = add_limit_row(m, g, r, k, side, J, slot)
                set_row_law(r, row, z, stiffness, real(0.0), slot)


# --- Newton's method -------------------------------------------------------------------------------


@wp.func
def contact_force(g: Shapes, c: Contacts, r: Rows, z: vecr, k: int, slot: int):
    return cone_force(z, g.pair_dim[c.pair[k, slot]], g.elliptic, g.impratio, r.stiffness[k, slot], r.friction[k, slot])


@wp.func
def curvature(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """H = M + Jᵀ K J at the present z, factorised."""
    start_matrix(m, r, slot)
    for k in range(contact_count(c, slot)):
        _force, K = contact_force(g, c, r, r.z[k, slot], k, slot)
        add_curvature(m, r, r.H, K, k, slot)
    for k in range(r.joint_rows[0, slot]):
        _f, K_row, _bound = joint_row_force(r.joint_z[k, slot], r.joint_stiffness[k, slot], r.joint_loss[k, slot])
        add_joint_curvature(m, g, r, K_row, k, slot)
    factorise(m, r, slot)


@wp.func
def start_sticking(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """The accelerations if every contact stuck and every limit pushed: for a robot that stands, the solution."""
    start_matrix(m, r, slot)
    for d in range(m.nv):
        r.a[d, slot] = r.smooth[d, slot]
    for k in range(contact_count(c, slot)):
        pair = c.pair[k, slot]
        K = sticking_curvature(g.pair_dim[pair], g.elliptic, g.impratio, r.stiffness[k, slot], r.friction[k, slot])
        add_curvature(m, r, r.H, K, k, slot)
        add_contact_force(m, r, r.a, -(K * r.z_free[k, slot]), k, slot)
    for k in range(r.joint_rows[0, slot]):
        stiffness = r.joint_stiffness[k, slot]
        add_joint_curvature(m, g, r, stiffness, k, slot)
        add_joint_row_force(g, r, r.a, -stiffness * r.joint_z_free[k, slot], k, slot)
    factorise(m, r, slot)
    solve_factored(m, r, r.a, slot)


@wp.func
def evaluate(m: Tree, g: Shapes, c: Contacts, r: Rows, start: int, t: real, slot: int):
    """z and the gradient M a - smooth - Jᵀ f at r.a. Returns how far the forces are from balance.

    After the start, z follows the steps t · r.step: made anew from a, it would carry the rounding of J a, which stiff
    rows magnify.
    """
    for d in range(m.nv):
        own = r.a[d, slot]
        total = r.M[d * m.nv + d, slot] * own
        size = wp.abs(total)
        e = m.dof_parent[d]
        while e >= 0:
            entry = r.M[d * m.nv + e, slot]
            above = entry * r.a[e, slot]
            below = entry * own
            total += above
            size += wp.abs(above)
            r.gradient[e, slot] = r.gradient[e, slot] + below
            r.scale[e, slot] = r.scale[e, slot] + wp.abs(below)
            e = m.dof_parent[e]
        r.gradient[d, slot] = total - r.smooth[d, slot]
        r.scale[d, slot] = size + wp.abs(r.smooth[d, slot])
    for k in range(contact_count(c, slot)):
        z = r.z[k, slot] + t * r.z_step[k, slot]
        if start == 1:
            z = contact_motion(m, r, r.a, k, slot) + r.z_free[k, slot]
        force, _K = contact_force(g, c, r, z, k, slot)
        r.z[k, slot] = z
        r.force[k, slot] = force
        whole = wp.length(force)  # rows of friction are differences of edges' forces: rounding is by the whole
        for i in range(r.chain_length[k, slot]):
            d = r.chain[k * m.nv + i, slot]
            column = r.J[k * m.nv + i, slot]
            r.gradient[d, slot] = r.gradient[d, slot] - wp.dot(column, force)
            r.scale[d, slot] = r.scale[d, slot] + whole * wp.length(column)
    for k in range(r.joint_rows[0, slot]):
        z_row = r.joint_z[k, slot] + t * r.joint_z_step[k, slot]
        if start == 1:
            z_row = joint_row_motion(g, r, r.a, k, slot) + r.joint_z_free[k, slot]
        r.joint_z[k, slot] = z_row
        row_force, _k, _bound = joint_row_force(z_row, r.joint_stiffness[k, slot], r.joint_loss[k, slot])
        for i in range(r.joint_length[k, slot]):
            d = r.joint_chain[k * g.joint_width + i, slot]
            joint_force = r.joint_J[k * g.joint_width + i, slot] * row_force
            r.gradient[d, slot] = r.gradient[d, slot] - joint_force
            r.scale[d, slot] = r.scale[d, slot] + wp.abs(joint_force)
    # What is left of forces in balance is the rounding of the largest among them, anywhere in the world; roots of
    # inertias make translations and rotations, light and heavy bodies comparable.
    largest = real(0.0)
    for d in range(m.nv):
        largest = wp.max(largest, r.scale[d, slot] * r.scale[d, slot] / r.M[d * m.nv + d, slot])
    rounding = ROUNDING * wp.sqrt(largest)
    residual = real(0.0)
    for d in range(m.nv):
        excess = wp.abs(r.gradient[d, slot]) - rounding * wp.sqrt(r.M[d * m.nv + d, slot])
        if not excess <= real(0.0):  # written so that a NaN counts, and added so that it stays
            residual += excess / r.scale[d, slot]
    return residual


@wp.func
def slope_along(g: Shapes, c: Contacts, r: Rows, t: real, slope0: real, bend: real, slot: int):
    """Slope and curvature of the objective at r.a + t · r.step; those of its quadratic part are slope0 + t bend."""
    slope = slope0 + t * bend
    curve = bend
    for k in range(contact_count(c, slot)):
        step = r.z_step[k, slot]
        force, K = contact_force(g, c, r, r.z[k, slot] + t * step, k, slot)
        slope -= wp.dot(force, step)
        curve += wp.dot(step, K * step)
    for k in range(r.joint_rows[0, slot]):
        row_step = r.joint_z_step[k, slot]
        row_force, K_row, _bound = joint_row_force(
            r.joint_z[k, slot] + t * row_step, r.joint_stiffness[k, slot], r.joint_loss[k, slot]
        )
        slope -= row_force * row_step
        curve += K_row * row_step * row_step
    return slope, curve


@wp.func
def search(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """How far to go along r.step: to where the slope of the convex objective vanishes. 1 at once near the solution."""
    multiply_mass(m, r, r.step, r.w, slot)
    bend = real(0.0)
    start = real(0.0)
    for d in range(m.nv):
        bend += r.step[d, slot] * r.w[d, slot]
        start += r.step[d, slot] * r.gradient[d, slot]
    slope0 = start  # of the quadratic part: of all of it, less that of the rows
    for k in range(contact_count(c, slot)):
        step = contact_motion(m, r, r.step, k, slot)
        r.z_step[k, slot] = step
        slope0 += wp.dot(r.force[k, slot], step)
    for k in range(r.joint_rows[0, slot]):
        row_step = joint_row_motion(g, r, r.step, k, slot)
        r.joint_z_step[k, slot] = row_step
        row_force, _K, _bound = joint_row_force(r.joint_z[k, slot], r.joint_stiffness[k, slot], r.joint_loss[k, slot])
        slope0 += row_force * row_step
    low = real(0.0)
    high = real(-1.0)  # not known yet
    t = real(1.0)
    searching = bool(True)
    for _count in range(MOST_SEARCHES):
        if searching:
            slope, curve = slope_along(g, c, r, t, slope0, bend, slot)
            if wp.abs(slope) <= SLOPE_SHARE * wp.abs(start):
                searching = False
            else:
                if slope < real(0.0):
                    low = t
                else:
                    high = t
                better = t
                if curve > real(0.0):
                    better = t - slope / curve
                if high < real(0.0):
                    if better <= low:
                        better = real(2.0) * t
                elif better <= low or better >= high:
                    better = real(0.5) * (low + high)
                t = better
    return t


@wp.func
def solve_constraints(m: Tree, g: Shapes, c: Contacts, r: Rows, slot: int):
    """r.a, and with it z and the forces of all rows. Returns the residual."""
    start_sticking(m, g, c, r, slot)
    residual = real(0.0)
    best = real(0.0)
    t = real(0.0)
    going = bool(True)
    for iteration in range(MOST_ITERATIONS):
        if going:
            # As near as it need come, or as rounding lets it.
            residual = evaluate(m, g, c, r, wp.where(iteration == 0, 1, 0), t, slot)
            if residual <= BALANCED or (iteration > 0 and residual < CONVERGED and residual > real(0.25) * best):
                going = False
            else:
                best = residual
                curvature(m, g, c, r, slot)
                for d in range(m.nv):
                    r.step[d, slot] = -r.gradient[d, slot]
                solve_factored(m, r, r.step, slot)
                t = search(m, g, c, r, slot)
                for d in range(m.nv):
                    r.a[d, slot] = r.a[d, slot] + t * r.step[d, slot]
    return residual


@wp.func
def margin(p: Params, world: int):
    """How far beyond the margins of a file there are forces [m]."""
    return real(0.0)


@wp.func
def forces(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Adds the constraint forces to s.tau. After outward, joint_forces, bias_forces and the detection of contacts."""
    status = int(HEALTHY)
    contact_rows(m, g, p, s, c, r, world, slot)
    joint_constraint_rows(m, g, p, s, r, world, slot)
    if TENDONS:
        tendon_constraint_rows(g, p, s, r, world, slot)
    if LOOPS:
        loop_rows(m, g, p, s, r, world, slot)
    if has_rows(c, r, slot):
        smooth_forces(m, p, s, r, world, slot)
        composite_bodies(m, p, s, r, world, slot)
        find_columns(m, g, c, r, slot)
        all_armature(m, p, r, world, slot)
        residual = solve_constraints(m, g, c, r, slot)
        if not residual <= CONVERGED:  # written so that a NaN counts too
            status = NOT_CONVERGED
        if NOSLIP:
            stop_slip(m, g, c, r, slot)
        for k in range(contact_count(c, slot)):
            add_contact_force(m, r, s.tau, r.force[k, slot], k, slot)
        for k in range(r.joint_rows[0, slot]):
            force, _K, _bound = joint_row_force(r.joint_z[k, slot], r.joint_stiffness[k, slot], r.joint_loss[k, slot])
            if NOSLIP:
                force = r.row_force[k, slot]
            add_joint_row_force(g, r, s.tau, force, k, slot)
    return status


# --- the law at the solution, and its adjoint ------------------------------------------------------


@wp.func
def contact_response(g: Shapes, c: Contacts, r: Rows, k: int, slot: int):
    """Force of contact k, and K = minus its derivative by J a."""
    return contact_force(g, c, r, r.z[k, slot], k, slot)


@wp.func
def joint_response(r: Rows, k: int, slot: int):
    force, K, _bound = joint_row_force(r.joint_z[k, slot], r.joint_stiffness[k, slot], r.joint_loss[k, slot])
    return force, K


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
    pair = c.pair[k, slot]
    dim = g.pair_dim[pair]
    z = r.z[k, slot]
    _force, K = contact_force(g, c, r, z, k, slot)
    z_bar = -(K * u)
    if NOSLIP:
        z_bar += r.z_bar[k, slot]
    friction = r.friction[k, slot]

    # z = J a + b J v + k d x, and the stiffness depends on d
    x = c.dist[k, slot] - g.pair_margin[pair]
    solref = mixed_solref(p, g, pair, world)
    solimp = mixed_solimp(p, g, pair, world)
    stiff, damp = spring(solref, solimp, g.shortest_time)
    if SHARES:
        touches = x < real(0.0)
        share, share_x, share_v = closed_share(m, x, Jv[0])
        x = law_distance(x)
    d, d_slope = impedance(solimp, x)
    acting = d
    if SHARES:
        acting = share * d
    _stiffness, stiffness_d, stiffness_mu = cone_stiffness(
        acting, p.weight[world, g.pair_weight[pair]], dim, g.elliptic, g.impratio, friction[1]
    )
    stiffness_bar, friction_bar = cone_force_adjoint(z, u, dim, g.elliptic, g.impratio, r.stiffness[k, slot], friction)
    if NOSLIP:
        stiffness_bar += r.stiffness_bar[k, slot]
        friction_bar += r.friction_bar[k, slot]
    if wants_params == 1:
        weight_adjoint(p, p_bar, g.pair_weight[pair], r.stiffness[k, slot], stiffness_d, stiffness_bar, world)
    if SHARES:
        share_bar = stiffness_bar * stiffness_d * d
        stiffness_d *= share
    d_bar = z_bar[0] * stiff * x + stiffness_bar * stiffness_d
    x_bar = z_bar[0] * stiff * d + d_bar * d_slope
    v_bar = friction_damping(g, solimp, damp, pair) * z_bar
    v_bar[0] = damp * z_bar[0]
    if SHARES:
        x_bar = wp.where(touches, x_bar, real(0.0)) + share_bar * share_x
        v_bar[0] = v_bar[0] + share_bar * share_v
    if wants_params == 1:
        friction_bar[1] = friction_bar[1] + stiffness_bar * stiffness_mu
        mixed_friction_adjoint(p, p_bar, g, pair, friction_bar, world)
        damp_bar = z_bar[0] * Jv[0]
        slide_damp_bar = wp.dot(z_bar, Jv) - z_bar[0] * Jv[0]
        solimp_bar = impedance_adjoint(solimp, x, d_bar)
        own = g.pair_solref_friction[pair]
        if g.elliptic == 1 and (own[0] != real(0.0) or own[1] != real(0.0)):
            _own_bar, own_solimp_bar = spring_adjoint(own, solimp, g.shortest_time, real(0.0), slide_damp_bar)
            solimp_bar[1] = solimp_bar[1] + own_solimp_bar
        else:
            damp_bar += slide_damp_bar
        solref_bar, d1_bar = spring_adjoint(solref, solimp, g.shortest_time, z_bar[0] * d * x, damp_bar)
        solimp_bar[1] = solimp_bar[1] + d1_bar
        mixed_solref_adjoint(p, p_bar, g, pair, solref_bar, world)
        mixed_solimp_adjoint(p_bar, g, pair, solimp_bar, world)
    return v_bar, x_bar


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
    """The same for a row of a joint or a tendon, or an equality of numbers; that of friction loss has no distance."""
    z = r.joint_z[k, slot]
    _force, K, bound = joint_row_force(z, r.joint_stiffness[k, slot], r.joint_loss[k, slot])
    z_bar = -K * u
    loss_bar = bound * u
    if NOSLIP:
        _start_bar, slip_bar, bound_bar = row_bars(r, k, slot)
        z_bar += slip_bar
        loss_bar += bound_bar
    source = r.joint_source[k, slot]
    v_bar = real(0.0)
    x_bar = real(0.0)
    of_numbers = bool(False)
    if TENDONS:
        of_numbers = is_equality(g, r, k, slot)
    if of_numbers:
        if TENDONS:
            v_bar, x_bar = equality_law_adjoint(g, p, p_bar, r, k, u, z_bar, Jv, distance, world, slot, wants_params)
    elif source < 0:
        loss = -1 - source
        _k, damp = spring(g.loss_solref[loss], g.loss_solimp[loss], g.shortest_time)
        v_bar = damp * z_bar
        if wants_params == 1:
            if K > real(0.0):
                d_loss, _slope = impedance(g.loss_solimp[loss], real(0.0))
                stiffness, slope = row_stiffness(d_loss, p.weight[world, g.loss_weight[loss]])
                weight_adjoint(p, p_bar, g.loss_weight[loss], stiffness, slope, -z * u, world)
            p_bar.loss[world, loss] = p_bar.loss[world, loss] + loss_bar
    else:
        limit = source / 2
        x = distance - g.limit_margin[limit]
        solref = p.limit_solref[world, limit]
        solimp = p.limit_solimp[world, limit]
        stiff, damp_limit = spring(solref, solimp, g.shortest_time)
        if SHARES:
            touches = x < real(0.0)
            share, share_x, share_v = closed_share(m, x, Jv)
            x = law_distance(x)
        d, d_slope = impedance(solimp, x)
        acting = d
        if SHARES:
            acting = share * d
        row, stiffness_d = row_stiffness(acting, p.weight[world, g.limit_weight[limit]])
        stiffness_bar = real(0.0)
        if K > real(0.0):
            stiffness_bar = -z * u
        if wants_params == 1:
            weight_adjoint(p, p_bar, g.limit_weight[limit], row, stiffness_d, stiffness_bar, world)
        if SHARES:
            share_bar = stiffness_bar * stiffness_d * d
            stiffness_d *= share
        d_bar = z_bar * stiff * x + stiffness_bar * stiffness_d
        x_bar = z_bar * stiff * d + d_bar * d_slope
        v_bar = damp_limit * z_bar
        if SHARES:
            x_bar = wp.where(touches, x_bar, real(0.0)) + share_bar * share_x
            v_bar += share_bar * share_v
        if wants_params == 1:
            solimp_bar = impedance_adjoint(solimp, x, d_bar)
            solref_bar, d1_bar = spring_adjoint(solref, solimp, g.shortest_time, z_bar * d * x, z_bar * Jv)
            solimp_bar[1] = solimp_bar[1] + d1_bar
            p_bar.limit_solref[world, limit] = p_bar.limit_solref[world, limit] + solref_bar
            p_bar.limit_solimp[world, limit] = p_bar.limit_solimp[world, limit] + solimp_bar
    return v_bar, x_bar
