"""Bodies that somebody moves from outside (MuJoCo's mocap): their poses are inputs, and they have no velocity.

They stand on the world and have no joints, nor does what is welded to them. So nothing but their own frames depends on
their poses, and ``outward`` need not know: their frames are put in place after it. The cotangent of a pose is the force
W that constraints leave on the body, which is taken away before the sweep inward.
"""

import warp as wp

from ..spatial.algebra import lin, moment_about, quat_matrix, quat_mul, quat_unit
from ..spatial.scalar import real, vec3, vec4, vec6
from .applied import Applied
from .structs import Params, Tree, Workspace
from .sweeps import unrotate


@wp.func
def mocap_quat(f: Applied, t: int, k: int, world: int):
    """As it is given, of any length."""
    pose = f.mocap[t, world, k]
    return vec4(pose[3], pose[4], pose[5], pose[6])


@wp.func
def place_mocap(m: Tree, p: Params, s: Workspace, f: Applied, t: int, world: int, slot: int):
    """Poses of these bodies. After ``outward``."""
    for n in range(m.mocap_body.shape[0]):
        i = m.mocap_body[n]
        k = m.mocap_number[n]
        parent = m.body_parent[i]
        pos = vec3()
        quat = vec4()
        if k >= 0:
            pose = f.mocap[t, world, k]
            pos = vec3(pose[0], pose[1], pose[2])
            quat = quat_unit(mocap_quat(f, t, k, world))
        else:
            pos = s.pos[parent, slot] + s.R[parent, slot] * p.body_pos[world, i]
            quat = quat_mul(s.quat[parent, slot], p.body_quat[world, i])
        s.pos[i, slot] = pos
        s.quat[i, slot] = quat
        s.R[i, slot] = quat_matrix(quat)


@wp.func
def place_mocap_adjoint(
    m: Tree, p_bar: Params, s: Workspace, f: Applied, f_bar: Applied, t: int, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of poses, and takes W from these bodies. Before ``inward_adjoint``."""
    for back in range(m.mocap_body.shape[0]):
        n = m.mocap_body.shape[0] - 1 - back
        i = m.mocap_body[n]
        k = m.mocap_number[n]
        parent = m.body_parent[i]
        W = s.W[i, slot]
        turn_bar = unrotate(s.quat[i, slot], moment_about(W, s.pos[i, slot] - s.o[i, slot]))
        if k >= 0:
            # the four numbers of a quaternion q from a rotation d in its frame: 2 q (0, d) / |q|²
            quat = mocap_quat(f, t, k, world)
            quat_bar = quat_mul(quat, vec4(real(0.0), turn_bar[0], turn_bar[1], turn_bar[2]))
            quat_bar *= real(2.0) / wp.dot(quat, quat)
            bar = f_bar.mocap[t, world, k]
            for j in range(3):
                bar[j] += lin(W)[j]
            for j in range(4):
                bar[3 + j] += quat_bar[j]
            f_bar.mocap[t, world, k] = bar
        else:
            if wants_params == 1:
                pos_bar = wp.transpose(s.R[parent, slot]) * lin(W)
                p_bar.body_pos[world, i] = p_bar.body_pos[world, i] + pos_bar
                p_bar.body_quat[world, i] = p_bar.body_quat[world, i] + vec4(
                    turn_bar[0], turn_bar[1], turn_bar[2], real(0.0)
                )
            s.W[parent, slot] = s.W[parent, slot] + W
        s.W[i, slot] = vec6()
