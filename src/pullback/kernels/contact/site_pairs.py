"""Actuators between two sites, with the adjoint: at a site against a reference, and slider-cranks.

Each has a length, and pulls with a force F and a torque T at either site. With places x and rotations R of the sites,
w = x1 - x2, the gear in its linear and its angular part, and a, the third axis of R2, along which the crank slides:

    reference      length = F1 · w + angular · log(R2ᵀ R1)        F1 = R2 linear, T1 = R2 angular; F2, T2 are opposite
    slider-crank   length = gear (c - √Δ),  c = a · w,            F1 = gear (κ a + σ w) = -F2, T1 = 0,
                   Δ = c² + rod² - |w|²                           T2 = gear κ a × w, with σ = 1/√Δ and κ = 1 - c σ

Where the rod is too short, Δ <= 0, the length of a crank is gear · c. What a reference's actuator does is not the
derivative of its length: as in MuJoCo, that R2 turns is left out. What carries both sites feels nothing.
"""

import warp as wp

from ..spatial.algebra import (
    ang,
    lin,
    log_jacobian_transposed,
    pack,
    quat_conj,
    quat_log,
    quat_mul,
    quat_rotate,
    velocity_at,
)
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.forces import in_range
from ..tree.structs import Params, Tree, Workspace
from .actuators import (
    actuator_force,
    actuator_force_adjoint,
    feedback_adjoint,
    set_feedback,
    wrap_drive,
    wrap_drive_adjoint,
)
from .rows import Rows, push_body


@wp.func
def frame_of_pair(p: Params, s: Workspace, r: Rows, n: int, side: int, world: int, slot: int):
    """Place and orientation of a site of the n-th of these actuators."""
    body = r.site_pairs.body[n, side]
    at = r.site_pairs.site[n, side]
    place = s.pos[body, slot] + s.R[body, slot] * p.site_pos[world, at]
    return place, quat_mul(s.quat[body, slot], p.site_quat[world, at])


@wp.func
def slide_axis(quat: vec4):
    return quat_rotate(quat, vec3(real(0.0), real(0.0), real(1.0)))


@wp.func
def crank_shape(rod: real, a: vec3, w: vec3):
    """Length for a gear of 1, κ and σ."""
    c = wp.dot(a, w)
    gap = c * c + rod * rod - wp.dot(w, w)
    length = c
    kappa = real(1.0)
    sigma = real(0.0)
    if gap > real(0.0):
        root = wp.sqrt(gap)
        sigma = real(1.0) / root
        length = c - root
        kappa = real(1.0) - c * sigma
    return length, kappa, sigma


@wp.func
def pair_pull(p: Params, r: Rows, n: int, w: vec3, quat1: vec4, quat2: vec4, gear: vec6, world: int):
    """Length, and [T; F] of a unit force at the first and the second site."""
    length = real(0.0)
    pull1 = vec6()
    pull2 = vec6()
    crank = r.site_pairs.crank[n]
    if crank >= 0:
        a = slide_axis(quat2)
        shape, kappa, sigma = crank_shape(p.crank[world, crank], a, w)
        force = gear[0] * (kappa * a + sigma * w)
        length = gear[0] * shape
        pull1 = pack(vec3(), force)
        pull2 = pack(gear[0] * kappa * wp.cross(a, w), -force)
    else:
        push = quat_rotate(quat2, ang(gear))
        turned = quat_log(quat_mul(quat_conj(quat2), quat1))
        length = wp.dot(push, w) + wp.dot(lin(gear), turned)
        pull1 = pack(quat_rotate(quat2, lin(gear)), push)
        pull2 = -pull1
    return length, pull1, pull2


@wp.func
def about(pull: vec6, arm: vec3):
    """A force and a torque at ``arm``, about o."""
    return pack(ang(pull) + wp.cross(arm, lin(pull)), lin(pull))


@wp.func
def motion_along(s: Workspace, r: Rows, n: int, side: int, x: wp.array2d(dtype=real), slot: int):
    """The motion of the body under joint velocities x, against what carries both."""
    total = vec6()
    for i in range(r.site_pairs.first[2 * n + side], r.site_pairs.first[2 * n + side + 1]):
        d = r.site_pairs.dof[i]
        total += x[d, slot] * s.S[d, slot]
    return total


@wp.func
def push_chain(s: Workspace, r: Rows, n: int, side: int, W: vec6, slot: int):
    for i in range(r.site_pairs.first[2 * n + side], r.site_pairs.first[2 * n + side + 1]):
        d = r.site_pairs.dof[i]
        s.actuation[d, slot] = s.actuation[d, slot] + wp.dot(s.S[d, slot], W)


@wp.func
def set_moments(s: Workspace, r: Rows, n: int, side: int, W: vec6, slot: int):
    """The moment of one side, as the Jacobian of a row among tendons."""
    for i in range(r.site_pairs.first[2 * n + side], r.site_pairs.first[2 * n + side + 1]):
        r.tendon_J[r.site_pairs.entry[i], slot] = wp.dot(s.S[r.site_pairs.dof[i], slot], W)


@wp.func
def add_pair_forces(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds to s.actuation the forces of all of them."""
    for n in range(r.site_pairs.actuator.shape[0]):
        k = r.site_pairs.actuator[n]
        x1, quat1 = frame_of_pair(p, s, r, n, 0, world, slot)
        x2, quat2 = frame_of_pair(p, s, r, n, 1, world, slot)
        length, pull1, pull2 = pair_pull(p, r, n, x1 - x2, quat1, quat2, p.gear[world, k], world)
        W1 = about(pull1, x1 - s.o[r.site_pairs.body[n, 0], slot])
        W2 = about(pull2, x2 - s.o[r.site_pairs.body[n, 1], slot])
        velocity = wp.dot(W1, motion_along(s, r, n, 0, s.v, slot)) + wp.dot(W2, motion_along(s, r, n, 1, s.v, slot))
        wrap_drive(p, s, r, k, length, world, slot)
        free_force, slope = actuator_force(m, p, s, r, k, length, velocity, world, slot)
        force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
        push_chain(s, r, n, 0, force * W1, slot)
        push_chain(s, r, n, 1, force * W2, slot)
        if r.actuators.row[k] >= 0:
            set_moments(s, r, n, 0, W1, slot)
            set_moments(s, r, n, 1, W2, slot)
            set_feedback(m, r, k, free_force, slope, slot)


@wp.func
def chain_adjoint(
    m: Tree, s: Workspace, r: Rows, n: int, side: int, W: vec6, force: real, velocity_bar: real, slot: int
):
    """Adds the cotangents of S and v, and returns that of the wrench W on one side."""
    W_bar = vec6()
    for i in range(r.site_pairs.first[2 * n + side], r.site_pairs.first[2 * n + side + 1]):
        d = r.site_pairs.dof[i]
        pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        moment_bar = force * pull_bar + velocity_bar * s.v[d, slot]
        if r.site_pairs.entry[i] >= 0:
            moment_bar += r.tendon_J_bar[r.site_pairs.entry[i], slot]
        s.v_bar[d, slot] = s.v_bar[d, slot] + velocity_bar * wp.dot(s.S[d, slot], W)
        s.S_bar[d, slot] = s.S_bar[d, slot] + moment_bar * W
        W_bar += moment_bar * s.S[d, slot]
    return W_bar


@wp.func
def virtual_motion(m: Tree, s: Workspace, r: Rows, n: int, side: int, slot: int):
    """The motion of the body under tau_bar, where no joint's range holds the actuation."""
    total = vec6()
    for i in range(r.site_pairs.first[2 * n + side], r.site_pairs.first[2 * n + side + 1]):
        d = r.site_pairs.dof[i]
        pull_bar = s.tau_bar[d, slot] * in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        total += pull_bar * s.S[d, slot]
    return total


@wp.func
def site_of_pair_adjoint(
    p_bar: Params, s: Workspace, r: Rows, n: int, side: int, arm: vec3, quat: vec4, x_bar: vec3, turn_bar: vec3,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """To the pose of the body and the site's place in it; turn_bar is that of a small rotation, in the world."""
    body = r.site_pairs.body[n, side]
    push_body(s.W, body, arm, turn_bar, x_bar, real(1.0), slot)
    if wants_params == 1:
        at = r.site_pairs.site[n, side]
        p_bar.site_pos[world, at] = p_bar.site_pos[world, at] + wp.transpose(s.R[body, slot]) * x_bar
        local = quat_rotate(quat_conj(quat), turn_bar)
        p_bar.site_quat[world, at] = p_bar.site_quat[world, at] + vec4(local[0], local[1], local[2], real(0.0))


@wp.func
def pair_forces_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Sets the drives' cotangents, and adds to S_bar, v_bar, W and p_bar what these forces have to do with them."""
    for n in range(r.site_pairs.actuator.shape[0]):
        k = r.site_pairs.actuator[n]
        crank = r.site_pairs.crank[n]
        gear = p.gear[world, k]
        x1, quat1 = frame_of_pair(p, s, r, n, 0, world, slot)
        x2, quat2 = frame_of_pair(p, s, r, n, 1, world, slot)
        w = x1 - x2
        arm1 = x1 - s.o[r.site_pairs.body[n, 0], slot]
        arm2 = x2 - s.o[r.site_pairs.body[n, 1], slot]
        length, pull1, pull2 = pair_pull(p, r, n, w, quat1, quat2, gear, world)
        W1 = about(pull1, arm1)
        W2 = about(pull2, arm2)
        velocity = wp.dot(W1, motion_along(s, r, n, 0, s.v, slot)) + wp.dot(W2, motion_along(s, r, n, 1, s.v, slot))
        free_force, _slope = actuator_force(m, p, s, r, k, length, velocity, world, slot)
        force = wp.clamp(free_force, m.force_low[k], m.force_high[k])
        force_bar = wp.dot(virtual_motion(m, s, r, n, 0, slot), W1) + wp.dot(virtual_motion(m, s, r, n, 1, slot), W2)
        force_bar *= in_range(free_force, m.force_low[k], m.force_high[k])
        slope_bar = feedback_adjoint(m, r, k, free_force, slot)
        length_bar, velocity_bar = actuator_force_adjoint(
            m, p, p_bar, s, r, k, length, velocity, force_bar, slope_bar, world, slot, wants_params
        )
        wrap_drive_adjoint(p, p_bar, s, r, k, world, slot, wants_params)
        W1_bar = chain_adjoint(m, s, r, n, 0, W1, force, velocity_bar, slot)
        W2_bar = chain_adjoint(m, s, r, n, 1, W2, force, velocity_bar, slot)
        push1_bar = velocity_at(W1_bar, arm1)
        push2_bar = velocity_at(W2_bar, arm2)
        x1_bar = wp.cross(lin(pull1), ang(W1_bar))
        x2_bar = wp.cross(lin(pull2), ang(W2_bar))
        turn1_bar = vec3()
        turn2_bar = vec3()
        gear_bar = vec6()
        push_bar = push1_bar - push2_bar
        if crank >= 0:
            a = slide_axis(quat2)
            rod = p.crank[world, crank]
            shape, kappa, sigma = crank_shape(rod, a, w)
            twist_bar = ang(W2_bar)
            across = wp.cross(a, w)
            gear_bar[0] = (
                length_bar * shape + wp.dot(push_bar, kappa * a + sigma * w) + kappa * wp.dot(twist_bar, across)
            )
            g = gear[0]
            kappa_bar = g * (wp.dot(push_bar, a) + wp.dot(twist_bar, across))
            sigma_bar = g * wp.dot(push_bar, w) - kappa_bar * wp.dot(a, w)
            gap_bar = -real(0.5) * sigma * sigma * sigma * sigma_bar
            c_bar = real(2.0) * wp.dot(a, w) * gap_bar - kappa_bar * sigma
            a_bar = g * kappa * (push_bar + wp.cross(w, twist_bar) + length_bar * w) + c_bar * w
            w_bar = g * (sigma * push_bar + kappa * wp.cross(twist_bar, a)) + length_bar * lin(pull1)
            w_bar += c_bar * a - (real(2.0) * gap_bar) * w
            x1_bar += w_bar
            x2_bar -= w_bar
            turn2_bar = wp.cross(a, a_bar)
            if wants_params == 1:
                rod_bar = real(2.0) * rod * gap_bar - length_bar * g * rod * sigma
                p_bar.crank[world, crank] = p_bar.crank[world, crank] + rod_bar
        else:
            twist_bar = ang(W1_bar) - ang(W2_bar)
            push_bar += length_bar * w
            x1_bar += length_bar * lin(pull1)
            x2_bar -= length_bar * lin(pull1)
            turned = quat_log(quat_mul(quat_conj(quat2), quat1))
            turn1_bar = quat_rotate(quat1, log_jacobian_transposed(turned, length_bar * lin(gear)))
            turn2_bar = wp.cross(lin(pull1), push_bar) + wp.cross(ang(pull1), twist_bar) - turn1_bar
            back = quat_conj(quat2)
            gear_bar = pack(quat_rotate(back, push_bar), quat_rotate(back, twist_bar) + length_bar * turned)
        site_of_pair_adjoint(p_bar, s, r, n, 0, arm1, quat1, x1_bar, turn1_bar, world, slot, wants_params)
        site_of_pair_adjoint(p_bar, s, r, n, 1, arm2, quat2, x2_bar, turn2_bar, world, slot, wants_params)
        if wants_params == 1:
            p_bar.gear[world, k] = p_bar.gear[world, k] + gear_bar
