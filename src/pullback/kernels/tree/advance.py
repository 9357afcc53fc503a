"""Configurations that move for a time at given velocities, with the adjoint."""

import warp as wp

from ..spatial.algebra import exp_jacobian_transposed, quat_exp, quat_mul, quat_rotate, quat_unit
from ..spatial.scalar import real, vec3, vec4
from .structs import BALL, Tree, Workspace, add_vec3, read_vec3


@wp.func
def advance(
    m: Tree, s: Workspace, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), first: int, h: real, slot: int
):
    """s.q = q moved for the time h at the velocities v[first:]."""
    for k in range(m.joint_type.shape[0]):
        qi = m.joint_q[k]
        d = first + m.joint_v[k]
        if m.joint_type[k] == BALL:
            quat = quat_unit(vec4(q[qi, slot], q[qi + 1, slot], q[qi + 2, slot], q[qi + 3, slot]))
            quat = quat_mul(quat, quat_exp(h * vec3(v[d, slot], v[d + 1, slot], v[d + 2, slot])))
            for j in range(4):
                s.q[qi + j, slot] = quat[j]
        else:
            s.q[qi, slot] = q[qi, slot] + h * v[d, slot]


@wp.func
def advance_adjoint(
    m: Tree,
    v: wp.array2d(dtype=real),
    first: int,
    h: real,
    q_bar: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
    slot: int,
):
    """Through q' = q ⊕ h v[first:]: q_bar, that of q', becomes that of q; v_bar[first:] is added to."""
    for k in range(m.joint_type.shape[0]):
        d = m.joint_v[k]
        if m.joint_type[k] == BALL:
            phi = h * read_vec3(v, first + d, slot)
            after = read_vec3(q_bar, d, slot)
            add_vec3(v_bar, first + d, slot, h * exp_jacobian_transposed(phi, after))
            before = quat_rotate(quat_exp(phi), after)
            for j in range(3):
                q_bar[d + j, slot] = before[j]
        else:
            v_bar[first + d, slot] = v_bar[first + d, slot] + h * q_bar[d, slot]
