"""Springs and dampers of joints that are not linear: what quadratic and cubic terms add, with the adjoint.

A spring stretched by x pulls back by x (k + k₂ x + k₃ x²), where x has a sign on hinges and slides; on a ball joint it
is the angle from rest, and on a free joint's position the distance. A damper resists with v (b + b₂ |v| + b₃ v²). The
linear terms are in ``forces.py``.
"""

import warp as wp

from ..spatial.algebra import log_jacobian_transposed
from ..spatial.scalar import real, vec3
from .forces import ball_stretch
from .structs import BALL, Params, Tree, Workspace, add_vec3, read_vec3


@wp.func
def slide_stretch(m: Tree, p: Params, s: Workspace, k: int, world: int, slot: int):
    """How far the three slides of a free joint, of which k is the first, are from where its spring rests."""
    qi = m.joint_q[k]
    return read_vec3(s.q, qi, slot) - vec3(
        p.spring_ref[world, qi], p.spring_ref[world, qi + 1], p.spring_ref[world, qi + 2]
    )


@wp.func
def stretch_vector(m: Tree, p: Params, s: Workspace, i: int, world: int, slot: int):
    """Of curved spring i; on a hinge or slide in its first number."""
    k = m.curved_spring[i]
    qi = m.joint_q[k]
    stretch = vec3(s.q[qi, slot] - p.spring_ref[world, qi], real(0.0), real(0.0))
    if m.joint_type[k] == BALL:
        stretch = ball_stretch(p, s, qi, world, slot)
    elif m.curved_is_free[i] == 1:
        stretch = slide_stretch(m, p, s, k, world, slot)
    return stretch


@wp.func
def stretched_by(m: Tree, i: int, stretch: vec3):
    """x, and whether it has a sign."""
    x = stretch[0]
    is_vector = m.joint_type[m.curved_spring[i]] == BALL or m.curved_is_free[i] == 1
    if is_vector:
        x = wp.length(stretch)
    return x, is_vector


@wp.func
def add_curved_forces(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """Adds these forces to tau, and the slopes of dampers to the diagonal. After ``joint_forces``."""
    for i in range(m.curved_spring.shape[0]):
        d = m.joint_v[m.curved_spring[i]]
        law = p.stiffness_poly[world, i]
        stretch = stretch_vector(m, p, s, i, world, slot)
        x, is_vector = stretched_by(m, i, stretch)
        pull = -(law[0] * x + law[1] * x * x) * stretch
        if is_vector:
            add_vec3(s.tau, d, slot, pull)
        else:
            s.tau[d, slot] = s.tau[d, slot] + pull[0]
    for i in range(m.curved_damper.shape[0]):
        d = m.curved_damper[i]
        law = p.damping_poly[world, i]
        v = s.v[d, slot]
        speed = wp.abs(v)
        s.tau[d, slot] = s.tau[d, slot] - v * (law[0] * speed + law[1] * v * v)
        if m.implicit_damping == 1:
            slope = real(2.0) * law[0] * speed + real(3.0) * law[1] * v * v
            s.diagonal[d, slot] = s.diagonal[d, slot] + m.timestep * slope


@wp.func
def pull_stretch(
    m: Tree, p_bar: Params, s: Workspace, k: int, stretch: vec3, stretch_bar: vec3, is_vector: bool,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents of q and of the pose at rest from that of the stretch of joint k."""
    qi = m.joint_q[k]
    d = m.joint_v[k]
    if m.joint_type[k] == BALL:
        add_vec3(s.q_bar, d, slot, log_jacobian_transposed(stretch, stretch_bar))
        if wants_params == 1:
            rest_bar = log_jacobian_transposed(-stretch, -stretch_bar)
            for j in range(3):
                p_bar.spring_ref[world, qi + j] = p_bar.spring_ref[world, qi + j] + rest_bar[j]
    else:
        for j in range(3):
            if j == 0 or is_vector:
                s.q_bar[d + j, slot] = s.q_bar[d + j, slot] + stretch_bar[j]
                if wants_params == 1:
                    p_bar.spring_ref[world, qi + j] = p_bar.spring_ref[world, qi + j] - stretch_bar[j]


@wp.func
def curved_spring_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, i: int, stretch: vec3, x: real, is_vector: bool,
    along: real, direct: vec3, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangents in (k₂ x + k₃ x²) · ``along``, a number whose gradient by the stretch is ``direct``."""
    law = p.stiffness_poly[world, i]
    bend = law[0] * x + law[1] * x * x
    slope = law[0] + real(2.0) * law[1] * x
    outward = vec3(real(1.0), real(0.0), real(0.0))  # the gradient of x
    if is_vector:
        outward = vec3()
        if x > real(0.0):
            outward = stretch / x
    stretch_bar = bend * direct + along * slope * outward
    if wants_params == 1:
        p_bar.stiffness_poly[world, i] = p_bar.stiffness_poly[world, i] + along * vec3(x, x * x, real(0.0))
    pull_stretch(m, p_bar, s, m.curved_spring[i], stretch, stretch_bar, is_vector, world, slot, wants_params)


@wp.func
def curved_forces_adjoint(m: Tree, p: Params, p_bar: Params, s: Workspace, world: int, slot: int, wants_params: int):
    """Adds the cotangents of q, v and parameters from tau_bar and diagonal_bar."""
    for i in range(m.curved_spring.shape[0]):
        stretch = stretch_vector(m, p, s, i, world, slot)
        x, is_vector = stretched_by(m, i, stretch)
        d = m.joint_v[m.curved_spring[i]]
        w = vec3(s.tau_bar[d, slot], real(0.0), real(0.0))
        if is_vector:
            w = read_vec3(s.tau_bar, d, slot)
        # -(w · stretch) (k₂ x + k₃ x²)
        curved_spring_adjoint(
            m, p, p_bar, s, i, stretch, x, is_vector, -wp.dot(w, stretch), -w, world, slot, wants_params
        )
    for i in range(m.curved_damper.shape[0]):
        d = m.curved_damper[i]
        law = p.damping_poly[world, i]
        v = s.v[d, slot]
        speed = wp.abs(v)
        tau_bar = s.tau_bar[d, slot]
        v_bar = -tau_bar * (real(2.0) * law[0] * speed + real(3.0) * law[1] * v * v)
        law_bar = -tau_bar * vec3(v * speed, v * v * v, real(0.0))
        if m.implicit_damping == 1:
            slope_bar = m.timestep * s.diagonal_bar[d, slot]
            v_bar += slope_bar * (real(2.0) * law[0] * wp.sign(v) + real(6.0) * law[1] * v)
            law_bar += slope_bar * vec3(real(2.0) * speed, real(3.0) * v * v, real(0.0))
        s.v_bar[d, slot] = s.v_bar[d, slot] + v_bar
        if wants_params == 1:
            p_bar.damping_poly[world, i] = p_bar.damping_poly[world, i] + law_bar


@wp.func
def curved_energy(m: Tree, p: Params, s: Workspace, world: int, slot: int):
    """What these springs hold: k₂ x³/3 + k₃ x⁴/4 each."""
    energy = real(0.0)
    for i in range(m.curved_spring.shape[0]):
        law = p.stiffness_poly[world, i]
        x, _is_vector = stretched_by(m, i, stretch_vector(m, p, s, i, world, slot))
        energy += x * x * x * (law[0] / real(3.0) + law[1] * x / real(4.0))
    return energy


@wp.func
def curved_energy_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, energy_bar: real, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of q and parameters."""
    for i in range(m.curved_spring.shape[0]):
        law = p.stiffness_poly[world, i]
        stretch = stretch_vector(m, p, s, i, world, slot)
        x, is_vector = stretched_by(m, i, stretch)
        k = m.curved_spring[i]
        stretch_bar = energy_bar * (law[0] * x + law[1] * x * x) * stretch
        if wants_params == 1:
            cube = energy_bar * x * x * x
            law_bar = cube * vec3(real(1.0) / real(3.0), x / real(4.0), real(0.0))
            p_bar.stiffness_poly[world, i] = p_bar.stiffness_poly[world, i] + law_bar
        pull_stretch(m, p_bar, s, k, stretch, stretch_bar, is_vector, world, slot, wants_params)
