"""Tendons that are paths through space: their lengths and Jacobians, with the adjoint.

The length of a path is L = Σ weight · |x1 - x0| over its spans, from a site at x0 to the next one at x1. Its derivative
by the poses of bodies is a pull of one unit along the path: u at x1 and -u at x0, with the unit vector u from x0 to x1.
So J is S · W, with W this force on all that a degree of freedom carries.

The adjoint needs the second derivative. A cotangent y of J is paired with it as a motion of the joints: each body moves
by Y = Σ S y, and Σ y J is the rate u · (y1 - y0) of the length under these motions of its ends. As these ends move, so
does u, by what is across it over the length; and S moves, whose cotangent is y W.

The second time derivative of the length, for given V and A, is u · (a1 - a0) + |across u of v1 - v0|² / |x1 - x0|. What
of it is there without joint accelerations, J̇ v, loads armature: as in MuJoCo, c J̇ v is part of the bias. A path that
wraps around geoms (``wraps.py``) has no armature, as in MuJoCo.
"""

import warp as wp

from ..spatial.algebra import acceleration_at, ang, velocity_at
from ..spatial.scalar import real, vec3
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import accelerations
from .flavour import WRAPS
from .rows import Rows, push_body
from .span_ends import (
    add_moment_arms,
    end_point,
    end_point_adjoint,
    moment_arms_adjoint,
    motion_of_end,
)

if WRAPS:
    from .wraps import add_wrap_arms, find_wrap, wrap_adjoint

# The direction of a line shorter than this [m] is rounding: MuJoCo's is x, and does not turn.
SHORTEST = wp.constant(real(1e-15))


@wp.func
def is_path(r: Rows, t: int):
    """Whether tendon t goes through space."""
    return r.spans.first[t] < r.spans.first[t + 1]


@wp.func
def straight(x0: vec3, x1: vec3):
    """Length and direction of a line, and one over the length; zero if it is too short to have a direction."""
    apart = x1 - x0
    length = wp.sqrt(wp.dot(apart, apart))
    u = vec3(real(1.0), real(0.0), real(0.0))
    inverse = real(0.0)
    if length >= SHORTEST:
        inverse = real(1.0) / length
        u = inverse * apart
    return length, u, inverse


@wp.func
def find_paths(p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Length, Jacobian and velocity of each."""
    for t in range(r.tendons.own):
        if is_path(r, t):
            length = real(0.0)
            velocity = real(0.0)
            for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
                r.tendon_J[i, slot] = real(0.0)
            for n in range(r.spans.first[t], r.spans.first[t + 1]):
                x0 = end_point(p, s, r, n, 0, world, slot)
                x1 = end_point(p, s, r, n, 1, world, slot)
                weight = r.spans.weight[n]
                distance, u, _inverse = straight(x0, x1)
                force0 = -weight * u
                force1 = weight * u
                if WRAPS:
                    bend, R = find_wrap(p, s, r, n, x0, x1, world, slot)
                    if bend.there == 1:
                        distance = bend.length
                        force0 = weight * (R * bend.force0)
                        force1 = weight * (R * bend.force1)
                        add_wrap_arms(s, r, n, x0, x1, force0, force1, slot)
                length += weight * distance
                add_moment_arms(s, r, n, 0, x0 - s.o[r.spans.body[n, 0], slot], force0, slot)
                add_moment_arms(s, r, n, 1, x1 - s.o[r.spans.body[n, 1], slot], force1, slot)
            for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
                velocity += r.tendon_J[i, slot] * s.v[r.tendons.dof[i], slot]
            r.tendon_length[t, slot] = length
            r.tendon_velocity[t, slot] = velocity


@wp.func
def path_adjoint(p: Params, p_bar: Params, s: Workspace, r: Rows, t: int, world: int, slot: int, wants_params: int):
    """From the cotangents of length, velocity and J of a tendon, adds those of S, poses, v and places of sites."""
    length_bar = r.tendon_length_bar[t, slot]
    velocity_bar = r.tendon_velocity_bar[t, slot]
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        d = r.tendons.dof[i]
        s.v_bar[d, slot] = s.v_bar[d, slot] + velocity_bar * r.tendon_J[i, slot]
        r.tendon_J_bar[i, slot] = r.tendon_J_bar[i, slot] + velocity_bar * s.v[d, slot]
    for n in range(r.spans.first[t], r.spans.first[t + 1]):
        x0 = end_point(p, s, r, n, 0, world, slot)
        x1 = end_point(p, s, r, n, 1, world, slot)
        wrapped = bool(False)
        if WRAPS:
            bend, R = find_wrap(p, s, r, n, x0, x1, world, slot)
            if bend.there == 1:
                wrapped = True
                wrap_adjoint(p, p_bar, s, r, n, bend, R, x0, x1, length_bar, world, slot, wants_params)
        if not wrapped:
            line_adjoint(p_bar, s, r, n, x0, x1, length_bar, world, slot, wants_params)


@wp.func
def line_adjoint(
    p_bar: Params, s: Workspace, r: Rows, n: int, x0: vec3, x1: vec3, length_bar: real, world: int, slot: int,
    wants_params: int,
):  # fmt: skip
    """Of a straight span in ``path_adjoint``."""
    arm0 = x0 - s.o[r.spans.body[n, 0], slot]
    arm1 = x1 - s.o[r.spans.body[n, 1], slot]
    Y0 = motion_of_end(s, r, n, 0, slot)
    Y1 = motion_of_end(s, r, n, 1, slot)
    _distance, u, inverse = straight(x0, x1)
    pull = r.spans.weight[n] * u
    apart = velocity_at(Y1, arm1) - velocity_at(Y0, arm0)
    turn = (r.spans.weight[n] * inverse) * (apart - wp.dot(u, apart) * u) + length_bar * pull
    moment_arms_adjoint(s, r, n, 0, arm0, -pull, slot)
    moment_arms_adjoint(s, r, n, 1, arm1, pull, slot)
    end_point_adjoint(p_bar, s, r, n, 0, -turn - wp.cross(pull, ang(Y0)), arm0, world, slot, wants_params)
    end_point_adjoint(p_bar, s, r, n, 1, turn + wp.cross(pull, ang(Y1)), arm1, world, slot, wants_params)


# --- J̇ v ------------------------------------------------------------------------------------------


@wp.func
def path_acceleration(p: Params, s: Workspace, r: Rows, t: int, world: int, slot: int):
    """The second time derivative of the length, with the velocities V and accelerations A that bodies have."""
    total = real(0.0)
    for n in range(r.spans.first[t], r.spans.first[t + 1]):
        body0 = r.spans.body[n, 0]
        body1 = r.spans.body[n, 1]
        x0 = end_point(p, s, r, n, 0, world, slot)
        x1 = end_point(p, s, r, n, 1, world, slot)
        arm0 = x0 - s.o[body0, slot]
        arm1 = x1 - s.o[body1, slot]
        V0 = s.V[body0, slot]
        V1 = s.V[body1, slot]
        _distance, u, inverse = straight(x0, x1)
        moving = velocity_at(V1, arm1) - velocity_at(V0, arm0)
        speeding = acceleration_at(V1, s.A[body1, slot], arm1) - acceleration_at(V0, s.A[body0, slot], arm0)
        across = moving - wp.dot(u, moving) * u
        total += r.spans.weight[n] * (wp.dot(u, speeding) + inverse * wp.dot(across, across))
    return total


@wp.func
def has_armature(r: Rows, p: Params, t: int, world: int):
    return is_path(r, t) and p.tendon[world, t][2] != real(0.0)


@wp.func
def add_path_bias(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Takes c Jᵀ J̇ v of all armature c from s.tau. Sets s.a to zero, and A to what velocities make."""
    moving = bool(False)
    for t in range(r.tendons.own):
        moving = moving or has_armature(r, p, t, world)
    if moving:
        for d in range(m.nv):
            s.a[d, slot] = real(0.0)
        accelerations(m, s, slot)
        for t in range(r.tendons.own):
            if has_armature(r, p, t, world):
                bias = p.tendon[world, t][2] * path_acceleration(p, s, r, t, world, slot)
                for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
                    d = r.tendons.dof[i]
                    s.tau[d, slot] = s.tau[d, slot] - r.tendon_J[i, slot] * bias


@wp.func
def path_bias_adjoint(
    p: Params, p_bar: Params, s: Workspace, r: Rows, t: int, world: int, slot: int, wants_params: int
):
    """From s.tau_bar, adds the cotangents of V, A, poses, J, armature and places of sites.

    J̇ v is the acceleration of the length less J a, for any a: here for that which the bodies have.
    """
    c = p.tendon[world, t][2]
    moved = real(0.0)  # J tau_bar
    bias = path_acceleration(p, s, r, t, world, slot)
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        d = r.tendons.dof[i]
        moved += r.tendon_J[i, slot] * s.tau_bar[d, slot]
        bias -= r.tendon_J[i, slot] * s.a[d, slot]
    bias_bar = -c * moved
    for i in range(r.tendons.first[t], r.tendons.first[t + 1]):
        d = r.tendons.dof[i]
        bar = -c * bias * s.tau_bar[d, slot] - bias_bar * s.a[d, slot]
        r.tendon_J_bar[i, slot] = r.tendon_J_bar[i, slot] + bar
    if wants_params == 1:
        law_bar = p_bar.tendon[world, t]
        law_bar[2] -= bias * moved
        p_bar.tendon[world, t] = law_bar
    if bias_bar != real(0.0):
        for n in range(r.spans.first[t], r.spans.first[t + 1]):
            span_acceleration_adjoint(p, p_bar, s, r, n, r.spans.weight[n] * bias_bar, world, slot, wants_params)


@wp.func
def span_acceleration_adjoint(
    p: Params, p_bar: Params, s: Workspace, r: Rows, n: int, bar: real, world: int, slot: int, wants_params: int
):
    """Of one span in ``path_acceleration``; bar is the cotangent of the acceleration of its length."""
    body0 = r.spans.body[n, 0]
    body1 = r.spans.body[n, 1]
    x0 = end_point(p, s, r, n, 0, world, slot)
    x1 = end_point(p, s, r, n, 1, world, slot)
    arm0 = x0 - s.o[body0, slot]
    arm1 = x1 - s.o[body1, slot]
    V0 = s.V[body0, slot]
    V1 = s.V[body1, slot]
    A0 = s.A[body0, slot]
    A1 = s.A[body1, slot]
    _distance, u, inverse = straight(x0, x1)
    v0 = velocity_at(V0, arm0)
    v1 = velocity_at(V1, arm1)
    along = wp.dot(u, v1 - v0)
    across = v1 - v0 - along * u
    speeding = acceleration_at(V1, A1, arm1) - acceleration_at(V0, A0, arm0)
    pull = bar * u  # the cotangent of a1 - a0
    swing = (real(2.0) * bar * inverse) * across  # and of v1 - v0, but for what it has in a1 - a0
    drive0 = -wp.cross(pull, ang(V0)) - swing
    drive1 = wp.cross(pull, ang(V1)) + swing
    turn = (bar * inverse) * (
        speeding - wp.dot(u, speeding) * u - inverse * (real(2.0) * along * across + wp.dot(across, across) * u)
    )
    zero = vec3()
    push_body(s.A_bar, body0, arm0, zero, pull, real(-1.0), slot)
    push_body(s.A_bar, body1, arm1, zero, pull, real(1.0), slot)
    push_body(s.V_bar, body0, arm0, -wp.cross(v0, pull), drive0, real(1.0), slot)
    push_body(s.V_bar, body1, arm1, wp.cross(v1, pull), drive1, real(1.0), slot)
    x0_bar = -turn - wp.cross(pull, ang(A0)) + wp.cross(drive0, ang(V0))
    x1_bar = turn + wp.cross(pull, ang(A1)) + wp.cross(drive1, ang(V1))
    end_point_adjoint(p_bar, s, r, n, 0, x0_bar, arm0, world, slot, wants_params)
    end_point_adjoint(p_bar, s, r, n, 1, x1_bar, arm1, world, slot, wants_params)


@wp.func
def paths_adjoint(p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int):
    """Of ``find_paths`` and ``add_path_bias``: all that is known of the cotangents of tendons goes on to S_bar, V_bar,
    A_bar and W of the bodies, before they are swept inward."""
    for t in range(r.tendons.own):
        if is_path(r, t):
            if wants_params == 1 or has_armature(r, p, t, world):
                path_bias_adjoint(p, p_bar, s, r, t, world, slot, wants_params)
            path_adjoint(p, p_bar, s, r, t, world, slot, wants_params)
