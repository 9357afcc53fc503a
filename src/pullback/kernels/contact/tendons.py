"""Tendons: their lengths, what springs, dampers and actuators do along them, and their inertia, each with its adjoint.

The length of a fixed tendon is L = Σ coef · q, and J = ∂L/∂q; those that go through space are in ``paths.py``.
Everything that acts along one depends on L and L̇ = J v, and pulls with Jᵀ force.

Armature c adds c Jᵀ J to the mass matrix, but as in MuJoCo only where the matrix has entries anyway: between degrees of
freedom of which one carries the other. Under implicitfast so do dampers and actuators that feed back velocity. Where a
tendon has such pairs, joint accelerations come from the factors of the whole matrix; elsewhere all of it is diagonal.

Cotangents of L, L̇, J and c are gathered from all that depends on them; ``tendons_adjoint`` passes them on at the end.
"""

import warp as wp

from ..spatial.scalar import SMALLEST_INERTIA, real, vec6
from ..tree.forces import (
    dampers_adjoint,
    finish_joint_forces,
    in_range,
    inside,
    spring_forces_adjoint,
    start_joint_forces,
    take_controls,
    take_controls_adjoint,
)
from ..tree.structs import IMPLICITFAST, Params, Tree, Workspace
from ..tree.sweeps import accelerations, eliminate, solve, substitute, virtual_motions
from .actuators import actuator_force_adjoint, add_joint_actuator, joint_actuator_adjoint, pull_of_tendon
from .flavour import ACTIVATIONS, ACTUATORS, CURVED, DELAYS, ORIENTATIONS, SITES, SPATIAL
from .mass_matrix import composite_bodies, copy_rows, factorise_rows, smooth_forces, solve_rows
from .rows import Rows

if ACTIVATIONS:
    from .activations import take_activations, take_activations_adjoint
if DELAYS:
    from .delays import take_late_controls, take_late_controls_adjoint
if ACTUATORS:
    from .actuators import hold_tendons, is_held, share_bars
    from .held_weight import hold_weights
if CURVED:
    from .tendon_curves import curved_damping, curved_pull, curved_pull_adjoint
if ORIENTATIONS:
    from .orientations import add_orientations, orientations_adjoint
if SITES:
    from .site_forces import add_site_forces
if SPATIAL:
    from .paths import add_path_bias, find_paths, is_path, paths_adjoint


@wp.func
def tendon_count(r: Rows):
    return r.tendons.first.shape[0] - 1


@wp.func
def has_terms(r: Rows, t: int):
    """Whether tendon t is a sum of joint coordinates with coefficients of its own: no path, and no joint."""
    fixed = t < r.tendons.own
    if SPATIAL:
        fixed = fixed and not is_path(r, t)
    return fixed


@wp.func
def find_tendons(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Length, velocity and Jacobian of each, and what its armature and damper add to the mass matrix."""
    for t in range(tendon_count(r)):
        length = real(0.0)
        velocity = real(0.0)
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            coef = real(1.0)
            if has_terms(r, t):
                coef = p.tendon_coef[world, i]
            length += coef * s.q[r.tendons.q[i], slot]
            velocity += coef * s.v[r.tendons.dof[i], slot]
            r.tendon_J[i, slot] = coef
        inertia = real(0.0)
        if t < r.tendons.own:
            law = p.tendon[world, t]
            inertia = law[2]
            if m.integrator == IMPLICITFAST:
                inertia += m.timestep * law[1]
        r.tendon_length[t, slot] = length
        r.tendon_velocity[t, slot] = velocity
        r.tendon_inertia[t, slot] = inertia
    if SPATIAL:
        find_paths(p, s, r, world, slot)


@wp.func
def tendon_motion(r: Rows, x: wp.array2d(dtype=real), t: int, slot: int):
    """J x"""
    total = real(0.0)
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        total += r.tendon_J[i, slot] * x[r.tendons.dof[i], slot]
    return total


@wp.func
def add_tendon_force(r: Rows, x: wp.array2d(dtype=real), force: real, t: int, slot: int):
    """x += Jᵀ force"""
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        d = r.tendons.dof[i]
        x[d, slot] = x[d, slot] + r.tendon_J[i, slot] * force


@wp.func
def stretch_of(law: vec6, length: real):
    """How far beyond the ends of its dead band a spring is stretched; negative if it is compressed."""
    stretch = real(0.0)
    if length > law[4]:
        stretch = length - law[4]
    elif length < law[3]:
        stretch = length - law[3]
    return stretch


@wp.func
def add_pull(m: Tree, p: Params, s: Workspace, r: Rows, k: int, world: int, slot: int):
    """Adds to s.actuation the force of actuator k, which pulls at a tendon."""
    tendon = r.tendons.actuator[k]
    gear = p.gear[world, k][0]
    free_force, slope_velocity = pull_of_tendon(m, p, s, r, k, world, slot)
    if ACTUATORS:
        free_force *= r.tendon_share[tendon, slot]
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    add_tendon_force(r, s.actuation, gear * force, tendon, slot)
    if m.integrator == IMPLICITFAST:
        slope = inside(free_force, m.force_low[k], m.force_high[k]) * slope_velocity
        if ACTUATORS:
            if is_held(r, tendon, slot):
                slope = real(0.0)
        r.tendon_inertia[tendon, slot] = r.tendon_inertia[tendon, slot] - m.timestep * gear * gear * slope


@wp.func
def all_joint_forces(
    m: Tree, p: Params, s: Workspace, r: Rows, controls: wp.array3d(dtype=real), t: int, world: int, slot: int
):
    """``joint_forces``, with those of tendons; the diagonal has what tendons add to that of the mass matrix."""
    find_tendons(m, p, s, r, world, slot)
    start_joint_forces(m, p, s, world, slot)
    take_controls(m, s, controls, t, world, slot)
    if DELAYS:
        take_late_controls(m, s, r, controls, t, world, slot)
    if ACTIVATIONS:
        take_activations(m, p, s, r, world, slot)
    if ACTUATORS:
        hold_tendons(m, p, s, r, world, slot)
    for k in range(m.actuator_on.shape[0]):
        if r.tendons.actuator[k] == -1:
            add_joint_actuator(m, p, s, r, k, world, slot)
        elif r.tendons.actuator[k] >= 0:
            add_pull(m, p, s, r, k, world, slot)
    if ORIENTATIONS:
        add_orientations(m, p, s, r, world, slot)
    if SITES:
        add_site_forces(m, p, s, r, world, slot)
    if ACTUATORS:
        hold_weights(p, s, r, world, slot)
    finish_joint_forces(m, p, s, world, slot)
    for k in range(r.tendons.own):
        law = p.tendon[world, k]
        stretch = stretch_of(law, r.tendon_length[k, slot])
        pull = -law[0] * stretch - law[1] * r.tendon_velocity[k, slot]
        if CURVED:
            velocity = r.tendon_velocity[k, slot]
            pull += curved_pull(p, k, stretch, velocity, world)
            if m.integrator == IMPLICITFAST:
                slope = curved_damping(p, k, velocity, world)
                r.tendon_inertia[k, slot] = r.tendon_inertia[k, slot] + m.timestep * slope
        add_tendon_force(r, s.tau, pull, k, slot)
    for k in range(r.tendons.inert):
        for i in range(r.tendons.first[k], r.tendons.first[k + 1]):
            d = r.tendons.dof[i]
            J = r.tendon_J[i, slot]
            s.diagonal[d, slot] = s.diagonal[d, slot] + r.tendon_inertia[k, slot] * J * J
    if SPATIAL:
        add_path_bias(m, p, s, r, world, slot)


@wp.func
def pull_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, k: int, world: int, slot: int, wants_params: int
):
    """Of ``add_pull``."""
    tendon = r.tendons.actuator[k]
    gear = p.gear[world, k][0]
    length = gear * r.tendon_length[tendon, slot]
    velocity = gear * r.tendon_velocity[tendon, slot]
    free_force, slope_velocity = pull_of_tendon(m, p, s, r, k, world, slot)
    if ACTUATORS:
        free_force *= r.tendon_share[tendon, slot]
    force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
    moved = real(0.0)  # J tau_bar, where no joint's range holds the actuation
    for i in range(r.tendons.first[tendon], r.tendons.first[tendon + 1]):
        d = r.tendons.dof[i]
        pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        moved += r.tendon_J[i, slot] * pull_bar
        r.tendon_J_bar[i, slot] = r.tendon_J_bar[i, slot] + gear * force * pull_bar
    gear_bar = force * moved
    force_bar = gear * moved * in_range(free_force, m.force_low[k], m.force_high[k])
    slope_bar = real(0.0)
    if m.integrator == IMPLICITFAST:
        inertia_bar = r.tendon_inertia_bar[tendon, slot] * inside(free_force, m.force_low[k], m.force_high[k])
        if ACTUATORS:
            if is_held(r, tendon, slot):
                inertia_bar = real(0.0)
        slope_bar = -m.timestep * gear * gear * inertia_bar
        gear_bar -= real(2.0) * m.timestep * gear * slope_velocity * inertia_bar
    if ACTUATORS:
        force_bar = r.tendon_share[tendon, slot] * force_bar + r.tendon_total_bar[tendon, slot]
    length_bar, velocity_bar = actuator_force_adjoint(
        m, p, p_bar, s, r, k, length, velocity, force_bar, slope_bar, world, slot, wants_params
    )
    r.tendon_length_bar[tendon, slot] = r.tendon_length_bar[tendon, slot] + gear * length_bar
    r.tendon_velocity_bar[tendon, slot] = r.tendon_velocity_bar[tendon, slot] + gear * velocity_bar
    gear_bar += length_bar * r.tendon_length[tendon, slot] + velocity_bar * r.tendon_velocity[tendon, slot]
    if wants_params == 1:
        whole = p_bar.gear[world, k]
        whole[0] += gear_bar
        p_bar.gear[world, k] = whole


@wp.func
def all_joint_forces_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows,
    controls: wp.array3d(dtype=real), controls_bar: wp.array3d(dtype=real),
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of ``all_joint_forces`` but for sites: adds the cotangents of q, v, controls, parameters and of tendons.

    Those of what is in the mass matrix are in r.tendon_*_bar already."""
    dampers_adjoint(m, p, p_bar, s, world, slot, wants_params)
    if ACTUATORS:
        share_bars(m, p, s, r, world, slot)
    for k in range(m.actuator_on.shape[0]):
        if r.tendons.actuator[k] == -1:
            joint_actuator_adjoint(m, p, p_bar, s, r, k, world, slot, wants_params)
        elif r.tendons.actuator[k] >= 0:
            pull_adjoint(m, p, p_bar, s, r, k, world, slot, wants_params)
    if ORIENTATIONS:
        orientations_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
    if ACTIVATIONS:
        take_activations_adjoint(m, p, p_bar, s, r, controls, t, world, slot, wants_params)
    if DELAYS:
        take_late_controls_adjoint(m, s, r, controls_bar, t, world, slot)
    take_controls_adjoint(m, s, controls, controls_bar, t, world, slot)
    spring_forces_adjoint(m, p, p_bar, s, world, slot, wants_params)
    for k in range(r.tendons.own):
        law = p.tendon[world, k]
        length = r.tendon_length[k, slot]
        velocity = r.tendon_velocity[k, slot]
        stretch = stretch_of(law, length)
        moved = tendon_motion(r, s.tau_bar, k, slot)
        stretch_bar = real(0.0)
        if stretch != real(0.0):
            stretch_bar = -law[0] * moved
        r.tendon_length_bar[k, slot] = r.tendon_length_bar[k, slot] + stretch_bar
        r.tendon_velocity_bar[k, slot] = r.tendon_velocity_bar[k, slot] - law[1] * moved
        pull = -law[0] * stretch - law[1] * velocity
        if CURVED:
            pull += curved_pull(p, k, stretch, velocity, world)
            inertia_bar = real(0.0)
            if m.integrator == IMPLICITFAST:
                inertia_bar = m.timestep * r.tendon_inertia_bar[k, slot]
            by_stretch, by_velocity = curved_pull_adjoint(
                p, p_bar, k, stretch, velocity, moved, inertia_bar, world, wants_params
            )
            stretch_bar += by_stretch
            r.tendon_length_bar[k, slot] = r.tendon_length_bar[k, slot] + by_stretch
            r.tendon_velocity_bar[k, slot] = r.tendon_velocity_bar[k, slot] + by_velocity
        for i in range(r.tendons.first[k], r.tendons.first[k + 1]):
            bar = r.tendon_J_bar[i, slot] + pull * s.tau_bar[r.tendons.dof[i], slot]
            r.tendon_J_bar[i, slot] = bar
        if wants_params == 1:
            inertia_bar = r.tendon_inertia_bar[k, slot]
            law_bar = p_bar.tendon[world, k]
            law_bar[0] -= stretch * moved
            law_bar[1] -= velocity * moved
            if m.integrator == IMPLICITFAST:
                law_bar[1] += m.timestep * inertia_bar
            law_bar[2] += inertia_bar
            if stretch > real(0.0):
                law_bar[4] -= stretch_bar
            else:
                law_bar[3] -= stretch_bar
            p_bar.tendon[world, k] = law_bar
    tendons_adjoint(m, p, p_bar, s, r, world, slot, wants_params)


@wp.func
def clear_tendon_bars(r: Rows, slot: int):
    for t in range(tendon_count(r)):
        r.tendon_length_bar[t, slot] = real(0.0)
        r.tendon_velocity_bar[t, slot] = real(0.0)
        r.tendon_inertia_bar[t, slot] = real(0.0)
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            r.tendon_J_bar[i, slot] = real(0.0)


@wp.func
def tendons_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int):
    """Of ``find_tendons``, but for what is added to the mass matrix; with the bias of paths."""
    if SPATIAL:
        paths_adjoint(p, p_bar, s, r, world, slot, wants_params)
    for t in range(tendon_count(r)):
        length_bar = r.tendon_length_bar[t, slot]
        velocity_bar = r.tendon_velocity_bar[t, slot]
        of_joints = bool(True)
        if SPATIAL:
            of_joints = not is_path(r, t)
        if of_joints:
            for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
                d = r.tendons.dof[i]
                J = r.tendon_J[i, slot]
                s.q_bar[d, slot] = s.q_bar[d, slot] + length_bar * J
                s.v_bar[d, slot] = s.v_bar[d, slot] + velocity_bar * J
                if wants_params == 1 and t < r.tendons.own:
                    coef_bar = length_bar * s.q[r.tendons.q[i], slot] + velocity_bar * s.v[d, slot]
                    p_bar.tendon_coef[world, i] = p_bar.tendon_coef[world, i] + coef_bar + r.tendon_J_bar[i, slot]


# --- inertia ---------------------------------------------------------------------------------------


@wp.func
def add_couplings(m: Tree, r: Rows, H: wp.array2d(dtype=real), inertia: wp.array2d(dtype=real), slot: int):
    """H += c Jᵀ J of all tendons, off the diagonal."""
    for k in range(r.tendons.pair_tendon.shape[0]):
        i = r.tendons.pair_below[k]
        j = r.tendons.pair_above[k]
        c = inertia[r.tendons.pair_tendon[k], slot]
        at = r.tendons.dof[i] * m.nv + r.tendons.dof[j]
        H[at, slot] = H[at, slot] + c * r.tendon_J[i, slot] * r.tendon_J[j, slot]


@wp.func
def multiply_couplings(r: Rows, x: wp.array2d(dtype=real), y: wp.array2d(dtype=real), slot: int):
    """y += c Jᵀ J x of all tendons, what ``add_couplings`` adds of it."""
    for k in range(r.tendons.pair_tendon.shape[0]):
        i = r.tendons.pair_below[k]
        j = r.tendons.pair_above[k]
        d = r.tendons.dof[i]
        e = r.tendons.dof[j]
        c = r.tendon_inertia[r.tendons.pair_tendon[k], slot] * r.tendon_J[i, slot] * r.tendon_J[j, slot]
        y[d, slot] = y[d, slot] + c * x[e, slot]
        y[e, slot] = y[e, slot] + c * x[d, slot]


@wp.func
def add_armature(m: Tree, p: Params, r: Rows, world: int, slot: int):
    """Adds the armature of joints and tendons to r.M."""
    for d in range(m.nv):
        at = d * m.nv + d
        r.M[at, slot] = r.M[at, slot] + p.armature[world, d]
    for t in range(r.tendons.own):
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            d = r.tendons.dof[i]
            J = r.tendon_J[i, slot]
            at = d * m.nv + d
            r.M[at, slot] = r.M[at, slot] + p.tendon[world, t][2] * J * J
    for k in range(r.tendons.own_pairs):
        i = r.tendons.pair_below[k]
        j = r.tendons.pair_above[k]
        c = p.tendon[world, r.tendons.pair_tendon[k]][2]
        at = r.tendons.dof[i] * m.nv + r.tendons.dof[j]
        r.M[at, slot] = r.M[at, slot] + c * r.tendon_J[i, slot] * r.tendon_J[j, slot]


@wp.func
def find_accelerations(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """s.a and A of each body from s.tau and pA. Returns the first degree of freedom without inertia, or -1."""
    singular = int(-1)
    if r.tendons.pair_tendon.shape[0] == 0:
        singular = eliminate(m, p, s, world, slot)
        substitute(m, s, slot)
    else:
        smooth_forces(m, p, s, r, world, slot)
        composite_bodies(m, p, s, r, world, slot)
        copy_rows(m.columns, m.columns_count, r.M, r.H, m.nv, slot)
        for d in range(m.nv):
            at = d * m.nv + d
            r.H[at, slot] = r.H[at, slot] + s.diagonal[d, slot]
            s.a[d, slot] = r.smooth[d, slot]
        add_couplings(m, r, r.H, r.tendon_inertia, slot)
        add_armature(m, p, r, world, slot)
        factorise_rows(m.columns, m.columns_count, r.H, m.nv, slot)
        for d in range(m.nv):
            if not r.H[d * m.nv + d, slot] < real(1.0) / SMALLEST_INERTIA and singular < 0:
                singular = d
        solve_rows(m.columns, m.columns_count, r.H, s.a, m.nv, slot)
        accelerations(m, s, slot)
    return singular


@wp.func
def solve_for_motions(m: Tree, s: Workspace, r: Rows, slot: int):
    """w = M⁻¹ a_bar with the factors that ``find_accelerations`` left, and the virtual motion X of each body."""
    if r.tendons.pair_tendon.shape[0] == 0:
        solve(m, s, slot)
    else:
        for d in range(m.nv):
            s.w[d, slot] = s.a_bar[d, slot]
        solve_rows(m.columns, m.columns_count, r.H, s.w, m.nv, slot)
        virtual_motions(m, s, slot)


@wp.func
def inertia_adjoint(r: Rows, w: wp.array2d(dtype=real), a: wp.array2d(dtype=real), slot: int):
    """Cotangents of each c and J in -Σ c (J w)(J a), as far as it is in the mass matrix, to r.tendon_*_bar."""
    for t in range(r.tendons.inert):
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            d = r.tendons.dof[i]
            pair_term(r, t, i, i, -w[d, slot] * a[d, slot], r.tendon_inertia[t, slot], slot)
    for k in range(r.tendons.pair_tendon.shape[0]):
        i = r.tendons.pair_below[k]
        j = r.tendons.pair_above[k]
        d = r.tendons.dof[i]
        e = r.tendons.dof[j]
        t = r.tendons.pair_tendon[k]
        pair_term(r, t, i, j, -w[d, slot] * a[e, slot] - w[e, slot] * a[d, slot], r.tendon_inertia[t, slot], slot)


@wp.func
def pair_term(r: Rows, t: int, i: int, j: int, factor: real, c: real, slot: int):
    """Cotangents of c and J in factor · c · J[i] J[j]."""
    Ji = r.tendon_J[i, slot]
    Jj = r.tendon_J[j, slot]
    r.tendon_inertia_bar[t, slot] = r.tendon_inertia_bar[t, slot] + factor * Ji * Jj
    r.tendon_J_bar[i, slot] = r.tendon_J_bar[i, slot] + factor * c * Jj
    r.tendon_J_bar[j, slot] = r.tendon_J_bar[j, slot] + factor * c * Ji


@wp.func
def armature_adjoint(
    p: Params, p_bar: Params, r: Rows, a: wp.array2d(dtype=real), world: int, slot: int, wants_params: int
):
    """The same of armature alone, with w = r.w; c goes to the parameter itself."""
    for t in range(r.tendons.own):
        c = p.tendon[world, t][2]
        kept = r.tendon_inertia_bar[t, slot]
        r.tendon_inertia_bar[t, slot] = real(0.0)
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            d = r.tendons.dof[i]
            pair_term(r, t, i, i, -r.w[d, slot] * a[d, slot], c, slot)
        for k in range(r.tendons.pair_tendon.shape[0]):
            if r.tendons.pair_tendon[k] == t:
                i = r.tendons.pair_below[k]
                j = r.tendons.pair_above[k]
                d = r.tendons.dof[i]
                e = r.tendons.dof[j]
                pair_term(r, t, i, j, -r.w[d, slot] * a[e, slot] - r.w[e, slot] * a[d, slot], c, slot)
        if wants_params == 1:
            law_bar = p_bar.tendon[world, t]
            law_bar[2] += r.tendon_inertia_bar[t, slot]
            p_bar.tendon[world, t] = law_bar
        r.tendon_inertia_bar[t, slot] = kept


@wp.func
def matrix_armature_adjoint(m: Tree, p: Params, p_bar: Params, r: Rows, world: int, slot: int, wants_params: int):
    """The same of the cotangent of the mass matrix in r.M."""
    for t in range(r.tendons.own):
        c = p.tendon[world, t][2]
        kept = r.tendon_inertia_bar[t, slot]
        r.tendon_inertia_bar[t, slot] = real(0.0)
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            d = r.tendons.dof[i]
            pair_term(r, t, i, i, r.M[d * m.nv + d, slot], c, slot)
        for k in range(r.tendons.pair_tendon.shape[0]):
            if r.tendons.pair_tendon[k] == t:
                i = r.tendons.pair_below[k]
                j = r.tendons.pair_above[k]
                at = r.tendons.dof[i] * m.nv + r.tendons.dof[j]
                pair_term(r, t, i, j, real(2.0) * r.M[at, slot], c, slot)
        if wants_params == 1:
            law_bar = p_bar.tendon[world, t]
            law_bar[2] += r.tendon_inertia_bar[t, slot]
            p_bar.tendon[world, t] = law_bar
        r.tendon_inertia_bar[t, slot] = kept


@wp.func
def matrix_inertia_adjoint(m: Tree, r: Rows, slot: int):
    """From the cotangent in r.M of a matrix with all that tendons add to those of each c and J."""
    for t in range(r.tendons.inert):
        for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
            d = r.tendons.dof[i]
            pair_term(r, t, i, i, r.M[d * m.nv + d, slot], r.tendon_inertia[t, slot], slot)
    for k in range(r.tendons.pair_tendon.shape[0]):
        i = r.tendons.pair_below[k]
        j = r.tendons.pair_above[k]
        t = r.tendons.pair_tendon[k]
        at = r.tendons.dof[i] * m.nv + r.tendons.dof[j]
        pair_term(r, t, i, j, real(2.0) * r.M[at, slot], r.tendon_inertia[t, slot], slot)
