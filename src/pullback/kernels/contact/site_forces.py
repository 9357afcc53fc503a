"""Actuators that push at sites, such as thrusters: a wrench that is fixed to a body, with its adjoint.

The wrench W of a unit force is the gear, turned with the site, about o. It does S·W along each degree of freedom that
carries the body; there is no length, and the velocity is V·W.
"""

import warp as wp

from ..spatial.algebra import ang, cross_force, lin, pack, quat_conj, quat_mul, quat_rotate, velocity_at
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.forces import in_range
from ..tree.structs import Params, Tree, Workspace
from .actuators import actuator_force, actuator_force_adjoint, feedback_adjoint, set_feedback
from .flavour import ACTUATORS
from .rows import Rows

if ACTUATORS:
    from .site_pairs import add_pair_forces, pair_forces_adjoint


@wp.func
def site_frame(p: Params, s: Workspace, r: Rows, n: int, world: int, slot: int):
    """The place of the site of actuator n among those here, from o, and its orientation."""
    body = r.sites.body[n]
    at = r.sites.site[n]
    arm = s.pos[body, slot] - s.o[body, slot] + s.R[body, slot] * p.site_pos[world, at]
    return arm, quat_mul(s.quat[body, slot], p.site_quat[world, at])


@wp.func
def unit_wrench(gear: vec6, arm: vec3, quat: vec4):
    """W of a gear, which has its linear part first."""
    force = quat_rotate(quat, ang(gear))
    return pack(quat_rotate(quat, lin(gear)) + wp.cross(arm, force), force)


@wp.func
def add_site_forces(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds to s.actuation the forces of all actuators at sites."""
    for n in range(r.sites.actuator.shape[0]):
        k = r.sites.actuator[n]
        arm, quat = site_frame(p, s, r, n, world, slot)
        W = unit_wrench(p.gear[world, k], arm, quat)
        velocity = wp.dot(W, s.V[r.sites.body[n], slot])
        free_force, slope = actuator_force(m, p, s, r, k, real(0.0), velocity, world, slot)
        force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
        if ACTUATORS:
            if r.actuators.row[k] >= 0:
                for i in range(r.sites.first[n], r.sites.first[n + 1]):
                    r.tendon_J[r.sites.entry[i], slot] = wp.dot(s.S[r.sites.dof[i], slot], W)
                set_feedback(m, r, k, free_force, slope, slot)
        for i in range(r.sites.first[n], r.sites.first[n + 1]):
            d = r.sites.dof[i]
            s.actuation[d, slot] = s.actuation[d, slot] + force * wp.dot(s.S[d, slot], W)
    if ACTUATORS:
        add_pair_forces(m, p, s, r, world, slot)


@wp.func
def site_forces_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Sets the drives' cotangents, and adds to S_bar, V_bar, W and p_bar what these forces have to do with them."""
    for n in range(r.sites.actuator.shape[0]):
        k = r.sites.actuator[n]
        body = r.sites.body[n]
        arm, quat = site_frame(p, s, r, n, world, slot)
        gear = p.gear[world, k]
        W = unit_wrench(gear, arm, quat)
        V = s.V[body, slot]
        velocity = wp.dot(W, V)
        free_force, _slope = actuator_force(m, p, s, r, k, real(0.0), velocity, world, slot)
        force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
        moved = vec6()  # the body's motion under tau_bar, where no joint's range holds the actuation
        for i in range(r.sites.first[n], r.sites.first[n + 1]):
            d = r.sites.dof[i]
            pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
            moved += pull_bar * s.S[d, slot]
            s.S_bar[d, slot] = s.S_bar[d, slot] + force * pull_bar * W
        force_bar = wp.dot(moved, W) * in_range(free_force, m.force_low[k], m.force_high[k])
        slope_bar = real(0.0)
        if ACTUATORS:
            slope_bar = feedback_adjoint(m, r, k, free_force, slot)
        _length_bar, velocity_bar = actuator_force_adjoint(
            m, p, p_bar, s, r, k, real(0.0), velocity, force_bar, slope_bar, world, slot, wants_params
        )
        W_bar = force * moved + velocity_bar * V
        if ACTUATORS:
            if r.actuators.row[k] >= 0:
                for i in range(r.sites.first[n], r.sites.first[n + 1]):
                    d = r.sites.dof[i]
                    J_bar = r.tendon_J_bar[r.sites.entry[i], slot]
                    s.S_bar[d, slot] = s.S_bar[d, slot] + J_bar * W
                    W_bar += J_bar * s.S[d, slot]
        s.V_bar[body, slot] = s.V_bar[body, slot] + velocity_bar * W
        s.W[body, slot] = s.W[body, slot] - cross_force(W_bar, W)  # moving the body by d changes W by d ×* W
        if wants_params == 1:
            push = quat_rotate(quat, ang(gear))
            turn = quat_rotate(quat, lin(gear))
            push_bar = velocity_at(W_bar, arm)
            back = quat_conj(quat)
            p_bar.gear[world, k] = p_bar.gear[world, k] + pack(
                quat_rotate(back, push_bar), quat_rotate(back, ang(W_bar))
            )
            at = r.sites.site[n]
            arm_bar = wp.transpose(s.R[body, slot]) * wp.cross(push, ang(W_bar))
            p_bar.site_pos[world, at] = p_bar.site_pos[world, at] + arm_bar
            turned = quat_rotate(back, wp.cross(push, push_bar) + wp.cross(turn, ang(W_bar)))
            p_bar.site_quat[world, at] = p_bar.site_quat[world, at] + vec4(turned[0], turned[1], turned[2], real(0.0))
    if ACTUATORS:
        pair_forces_adjoint(m, p, p_bar, s, r, world, slot, wants_params)
