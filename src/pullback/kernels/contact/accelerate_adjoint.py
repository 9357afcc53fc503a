"""The adjoint of joint accelerations.

That of a = M⁻¹ (tau - bias) needs no derivative of a factorisation: with w = M⁻¹ a_bar, the cotangent of tau is w, and
those of everything inside M and the bias are the gradient of -wᵀ ID(q, v, a) with a held fixed.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec6
from ..status import HEALTHY
from ..tree.applied import Applied, applied_joint_forces_adjoint, applied_wrenches_adjoint
from ..tree.curved import curved_forces_adjoint
from ..tree.ellipsoids import ellipsoid_forces_adjoint
from ..tree.forces import fluid_forces_adjoint, joint_forces_adjoint
from ..tree.gyroscopic import gyroscopic_adjoint, gyroscopic_solve
from ..tree.mocap import place_mocap_adjoint
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import accelerations, inverse_dynamics_adjoint, inward_adjoint, solve, virtual_motions
from .flavour import (
    ACTUATORS,
    ADHESION,
    CURVED,
    ELLIPSOIDS,
    FAR,
    FIXED_TENDONS,
    FLEXES,
    FORCES,
    IMPLICIT,
    IMPULSES,
    LINEAR_LOOPS,
    MOCAP,
    NOSLIP,
    PLACED_FORCES,
    POTENTIAL,
    SITES,
    SPATIAL,
    TENDONS,
    TIED,
    TRUE_LOOPS,
)
from .rows import Rows, has_rows

if FORCES:
    from .constrained import constrained_solve, constraints_adjoint, push_contact_forces
if IMPULSES:
    from .model import approach_adjoint, rows_adjoint, sweeps_adjoint
if POTENTIAL:
    from .model import descend_adjoint, drag_adjoint
if IMPLICIT:
    from .implicit import implicit_adjoint, implicit_solve
if TRUE_LOOPS:
    from .loops import push_loop_forces
if NOSLIP:
    from .noslip_adjoint import stop_slip_adjoint
if SITES:
    from .site_forces import site_forces_adjoint
if ACTUATORS:
    from .held_weight import hold_weights_adjoint
if TENDONS:
    from .tendons import all_joint_forces_adjoint, clear_tendon_bars, inertia_adjoint, solve_for_motions
if ADHESION:
    from .adhesion import adhesion_adjoint, push_adhesion
if TIED:
    from .tied_bodies import tied_gyroscopic_solve
if FLEXES:
    from .flexes import flex_forces_adjoint
if FAR:
    from .far import far_adjoint


@wp.func(inline=True)
def accelerate_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    controls_bar: wp.array3d(dtype=real),
    f: Applied,
    f_bar: Applied,
    t: int,
    world: int,
    slot: int,
    wants_params: int,
):
    """From s.a_bar, add to s.q_bar, s.v_bar, controls_bar, f_bar, p_bar. Right after ``accelerate`` there.

    Returns the status.
    """
    status = int(HEALTHY)
    for d in range(m.nv):
        s.diagonal_bar[d, slot] = real(0.0)
    if IMPULSES:
        if has_rows(c, r, slot):
            sweeps_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
        for d in range(m.nv):
            s.a[d, slot] = r.kept_a[d, slot]
        accelerations(m, s, slot)
    if POTENTIAL:
        status = descend_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
    elif IMPLICIT:
        if TENDONS:
            clear_tendon_bars(r, slot)
        implicit_solve(m, s, r, slot)
    elif TENDONS:
        clear_tendon_bars(r, slot)
        solve_for_motions(m, s, r, slot)
        if TIED:
            tied_gyroscopic_solve(m, p, s, r, world, slot)
        else:
            gyroscopic_solve(m, p, s, world, slot)
    else:
        solve(m, s, slot)
        gyroscopic_solve(m, p, s, world, slot)
    for d in range(m.nv):
        s.tau_bar[d, slot] = s.w[d, slot]
        s.diagonal_bar[d, slot] = s.diagonal_bar[d, slot] - s.w[d, slot] * s.a[d, slot]
    passes = int(1)
    if FORCES:
        if has_rows(c, r, slot):
            if NOSLIP:
                stop_slip_adjoint(m, g, s, c, r, slot)
            constrained_solve(m, g, s, c, r, slot)
            passes = 2
    for sweep in range(passes):
        first = passes == 2 and sweep == 0
        if FORCES:
            # Constraint forces are found with accelerations of their own, before implicit damping: the pairing has a
            # second part, w·(smooth - M a), which goes back by the same sweeps.
            if passes == 2:
                for d in range(m.nv):
                    if sweep == 0:
                        r.kept_w[d, slot] = s.w[d, slot]
                        r.kept_a[d, slot] = s.a[d, slot]
                        s.w[d, slot] = r.w[d, slot]
                        s.a[d, slot] = r.a[d, slot]
                    else:
                        s.w[d, slot] = r.kept_w[d, slot]
                        s.a[d, slot] = r.kept_a[d, slot]
                virtual_motions(m, s, slot)
                accelerations(m, s, slot)
        inverse_dynamics_adjoint(m, p, p_bar, s, world, slot, real(-1.0), real(1.0), wants_params)
        if IMPLICIT:
            pass  # below, since it adds to S_bar
        elif not first:
            gyroscopic_adjoint(m, p, p_bar, s, world, slot, wants_params)
        if m.has_fluid == 1:
            fluid_forces_adjoint(m, p, p_bar, s, world, slot, wants_params)
        if ELLIPSOIDS:
            ellipsoid_forces_adjoint(p, p_bar, s, r.ellipsoids, world, slot, wants_params)
        if FLEXES:
            flex_forces_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
        if f.has_wrench == 1:
            applied_wrenches_adjoint(m, p, p_bar, s, f, f_bar, t, world, slot, wants_params)
        if FORCES:
            if passes == 2:
                push_contact_forces(g, s, c, r, slot)
                if TRUE_LOOPS:
                    push_loop_forces(p, s, r, world, slot)
                if sweep == 0:
                    constraints_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
        if ADHESION:
            push_adhesion(g, s, c, r, slot)
            if not first:
                adhesion_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
        with_G = wp.where(first, 1, 0)
        with_S = int(0)
        if NOSLIP:
            if first:
                with_S = 1
        if LINEAR_LOOPS:
            if first:
                with_S = 1
        if PLACED_FORCES or IMPLICIT:
            if not first:
                for d in range(m.nv):
                    s.S_bar[d, slot] = vec6()
                with_S = 1
        if IMPLICIT:
            if not first:
                implicit_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
                with_G = 1
        if IMPULSES:
            if has_rows(c, r, slot):
                rows_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
                approach_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
                with_G = 1
                with_S = 1
        if TENDONS:
            if not first:
                inertia_adjoint(r, s.w, s.a, slot)
        if SITES:
            if not first:
                site_forces_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
        if SPATIAL:
            if not first:
                all_joint_forces_adjoint(m, p, p_bar, s, r, controls, controls_bar, t, world, slot, wants_params)
        if POTENTIAL:
            drag_adjoint(m, g, p, p_bar, s, c, r, world, slot, wants_params)
            with_S = 1
        if MOCAP:
            if f.has_mocap == 1:
                place_mocap_adjoint(m, p_bar, s, f, f_bar, t, world, slot, wants_params)
        if ACTUATORS:
            if not first:
                hold_weights_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
        inward_adjoint(m, p, p_bar, s, world, slot, with_G, with_S, wants_params)
    if FIXED_TENDONS:
        all_joint_forces_adjoint(m, p, p_bar, s, r, controls, controls_bar, t, world, slot, wants_params)
    elif SPATIAL:
        pass  # was done before the sweep
    else:
        joint_forces_adjoint(m, p, p_bar, s, controls, controls_bar, t, world, slot, wants_params)
    if CURVED:
        curved_forces_adjoint(m, p, p_bar, s, world, slot, wants_params)
    if f.has_force == 1:
        applied_joint_forces_adjoint(m, s, f_bar, t, world, slot)
    if FAR:
        far_adjoint(m, g, p, p_bar, s, c, world, slot, wants_params)
    return status
