"""Servos that hold the orientation of a ball joint, with the adjoint.

The torque is kp log(q⁻¹ target) + b₀ + b₂ ω, in the frame of what the joint carries, and its length is held to a limit.
Controls are the rotation vector of the target, or its quaternion, of any length; of none it is no rotation.
"""

import warp as wp

from ..spatial.algebra import (
    coordinates_of_tangent,
    exp_jacobian_transposed,
    log_jacobian_transposed,
    quat_conj,
    quat_exp,
    quat_log,
    quat_mul,
    quat_unit,
)
from ..spatial.scalar import real, vec3, vec4
from ..tree.activation import SMALLEST
from ..tree.structs import IMPLICITFAST, Params, Tree, Workspace, add_vec3, read_quat, read_vec3
from .rows import Rows


@wp.func
def read_drives(s: Workspace, k: int, slot: int):
    return vec4(s.drive[k, slot], s.drive[k + 1, slot], s.drive[k + 2, slot], s.drive[k + 3, slot])


@wp.func
def target_of(s: Workspace, r: Rows, n: int, slot: int):
    k = r.orientations.actuator[n]
    target = vec4(real(1.0), real(0.0), real(0.0), real(0.0))
    if r.orientations.is_quat[n] == 1:
        given = read_drives(s, k, slot)
        if not wp.length(given) < SMALLEST:
            target = quat_unit(given)
    else:
        target = quat_exp(read_vec3(s.drive, k, slot))
    return target


@wp.func
def wanted_torque(p: Params, s: Workspace, r: Rows, n: int, world: int, slot: int):
    """Before its limit; and the rotation that is left."""
    k = r.orientations.actuator[n]
    current = read_quat(s, r.orientations.q[n], slot)
    error = quat_log(quat_mul(quat_conj(current), target_of(s, r, n, slot)))
    bias = p.bias[world, k]
    omega = read_vec3(s.v, r.orientations.dof[n], slot)
    return p.gain[world, k][0] * error + bias[2] * omega + vec3(bias[0], bias[0], bias[0]), error


@wp.func
def add_orientations(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds their torques to s.actuation, and what is implicit of them to the diagonal."""
    for n in range(r.orientations.actuator.shape[0]):
        d = r.orientations.dof[n]
        torque, _error = wanted_torque(p, s, r, n, world, slot)
        size = wp.length(torque)
        limit = r.orientations.limit[n]
        if size > limit:
            torque *= limit / size
        add_vec3(s.actuation, d, slot, torque)
        if m.integrator == IMPLICITFAST and size < limit:
            for j in range(3):
                slope = p.bias[world, r.orientations.actuator[n]][2]
                s.diagonal[d + j, slot] = s.diagonal[d + j, slot] - m.timestep * slope


@wp.func
def orientations_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of q, v and parameters from s.tau_bar and s.diagonal_bar, and sets those of the drives."""
    for n in range(r.orientations.actuator.shape[0]):
        d = r.orientations.dof[n]
        k = r.orientations.actuator[n]
        torque, error = wanted_torque(p, s, r, n, world, slot)
        size = wp.length(torque)
        limit = r.orientations.limit[n]
        bar = read_vec3(s.tau_bar, d, slot)
        if size > limit:
            along = torque / size
            bar = (limit / size) * (bar - wp.dot(along, bar) * along)
        error_bar = p.gain[world, k][0] * bar
        add_vec3(s.q_bar, d, slot, log_jacobian_transposed(-error, -error_bar))
        add_vec3(s.v_bar, d, slot, p.bias[world, k][2] * bar)
        turn_bar = log_jacobian_transposed(error, error_bar)
        if r.orientations.is_quat[n] == 1:
            given = read_drives(s, k, slot)
            quat_bar = vec4()
            if not wp.length(given) < SMALLEST:
                quat_bar = coordinates_of_tangent(given, turn_bar)
            for j in range(4):
                s.drive_bar[k + j, slot] = quat_bar[j]
        else:
            vector_bar = exp_jacobian_transposed(read_vec3(s.drive, k, slot), turn_bar)
            for j in range(3):
                s.drive_bar[k + j, slot] = vector_bar[j]
        if wants_params == 1:
            slope_bar = wp.dot(bar, read_vec3(s.v, d, slot))
            if m.integrator == IMPLICITFAST and size < limit:
                for j in range(3):
                    slope_bar -= m.timestep * s.diagonal_bar[d + j, slot]
            p_bar.gain[world, k] = p_bar.gain[world, k] + vec3(wp.dot(bar, error), real(0.0), real(0.0))
            p_bar.bias[world, k] = p_bar.bias[world, k] + vec3(bar[0] + bar[1] + bar[2], real(0.0), slope_bar)
