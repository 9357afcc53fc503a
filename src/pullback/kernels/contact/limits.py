"""Limits of joints: their rows, how far a joint is from them, and the adjoint of that."""

import warp as wp

from ..collision.shapes import Shapes
from ..spatial.algebra import log_jacobian_transposed, quat_log
from ..spatial.scalar import real, vec3
from ..tree.structs import BALL, Params, Tree, Workspace, add_vec3, dofs, read_quat, read_vec3
from .rows import Rows

# A ball joint turned by less than this [rad] has no axis.
NO_ANGLE = wp.constant(real(1e-15))


@wp.func
def add_limit_row(m: Tree, g: Shapes, r: Rows, limit: int, side: int, J: vec3, slot: int):
    """A row for one side of a limit, J being the gradient of its distance. Returns its number."""
    joint = g.limit_joint[limit]
    k = r.joint_rows[0, slot]
    r.joint_rows[0, slot] = k + 1
    r.joint_source[k, slot] = 2 * limit + side
    length = dofs(m.joint_type[joint])
    r.joint_length[k, slot] = length
    for i in range(length):
        r.joint_chain[k * g.joint_width + i, slot] = m.joint_v[joint] + length - 1 - i
        r.joint_J[k * g.joint_width + i, slot] = J[length - 1 - i]
    return k


@wp.func
def limit_gradient(g: Shapes, r: Rows, k: int, slot: int):
    """J of row k, a limit, as ``limit_distance`` gave it."""
    J = vec3()
    length = r.joint_length[k, slot]
    for i in range(length):
        J[length - 1 - i] = r.joint_J[k * g.joint_width + i, slot]
    return J


@wp.func
def limit_distance(m: Tree, g: Shapes, p: Params, s: Workspace, k: int, side: int, world: int, slot: int):
    """How far a joint is from its limit (side 0: low, 1: high), and the gradient of that by its coordinates."""
    joint = g.limit_joint[k]
    limits = p.limit[world, k]
    J = vec3()
    distance = real(0.0)
    if m.joint_type[joint] == BALL:
        turn = quat_log(read_quat(s, m.joint_q[joint], slot))
        angle = wp.sqrt(wp.dot(turn, turn))
        distance = wp.max(limits[0], limits[1]) - angle
        J = vec3(real(-1.0), real(0.0), real(0.0))  # MuJoCo's choice where there is no axis
        if angle > NO_ANGLE:
            J = -turn / angle
    elif side == 0:
        distance = s.q[m.joint_q[joint], slot] - limits[0]
        J[0] = real(1.0)
    else:
        distance = limits[1] - s.q[m.joint_q[joint], slot]
        J[0] = real(-1.0)
    return distance, J


@wp.func
def sides(m: Tree, joint: int):
    """A ball joint has one limit, of its angle."""
    return wp.where(m.joint_type[joint] == BALL, 1, 2)


@wp.func
def row_velocity(m: Tree, s: Workspace, joint: int, J: vec3, slot: int):
    """J v of a joint's limit."""
    d = m.joint_v[joint]
    result = J[0] * s.v[d, slot]
    if m.joint_type[joint] == BALL:
        result = wp.dot(J, read_vec3(s.v, d, slot))
    return result


@wp.func
def limit_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    s: Workspace,
    r: Rows,
    k: int,
    x_bar: real,
    world: int,
    slot: int,
    wants_params: int,
):
    """Adds the cotangent x_bar of a limit's distance to those of the coordinates and of the limit."""
    source = r.joint_source[k, slot]
    joint = g.limit_joint[source / 2]
    d = m.joint_v[joint]
    J = limit_gradient(g, r, k, slot)
    is_ball = m.joint_type[joint] == BALL
    if is_ball:
        phi = quat_log(read_quat(s, m.joint_q[joint], slot))
        add_vec3(s.q_bar, d, slot, log_jacobian_transposed(phi, x_bar * J))
    else:
        s.q_bar[d, slot] = s.q_bar[d, slot] + x_bar * J[0]
    if wants_params == 1:
        limits = p.limit[world, source / 2]
        bar = p_bar.limit[world, source / 2]
        if source % 2 == 1 or (is_ball and limits[1] >= limits[0]):
            bar[1] = bar[1] + x_bar
        elif is_ball:
            bar[0] = bar[0] + x_bar
        else:
            bar[0] = bar[0] - x_bar
        p_bar.limit[world, source / 2] = bar


@wp.func
def ball_axis_adjoint(m: Tree, g: Shapes, s: Workspace, r: Rows, J_bar: vec3, k: int, slot: int):
    """Adds the cotangent of J = -phi / |phi| of a ball joint's limit to that of the coordinates."""
    joint = g.limit_joint[r.joint_source[k, slot] / 2]
    J = limit_gradient(g, r, k, slot)
    phi = quat_log(read_quat(s, m.joint_q[joint], slot))
    angle = wp.sqrt(wp.dot(phi, phi))
    if angle > NO_ANGLE:
        phi_bar = -(J_bar - J * wp.dot(J, J_bar)) / angle
        add_vec3(s.q_bar, m.joint_v[joint], slot, log_jacobian_transposed(phi, phi_bar))
