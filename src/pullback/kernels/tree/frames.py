"""Frames that are fixed to bodies: their poses, Jacobians, velocities and accelerations, each with its adjoint."""

import warp as wp

from ..spatial.algebra import (
    acceleration_at,
    ang,
    lin,
    pack,
    quat_mul,
    quat_rotate,
    tangent_of_coordinates,
    velocity_at,
)
from ..spatial.scalar import real, vec3, vec4, vec6
from .structs import Tree, Workspace
from .sweeps import virtual_motions


@wp.struct
class Frames:
    """Things fixed to bodies."""

    body: wp.array(dtype=int)
    pos: wp.array2d(dtype=vec3)  # [world, frame]
    quat: wp.array2d(dtype=vec4)


@wp.struct
class FrameBars:
    """Cotangents of their places in bodies: in the axes of the body, and as rotations in those of the frame."""

    pos: wp.array2d(dtype=vec3)  # [world, frame]
    turn: wp.array2d(dtype=vec3)


@wp.func
def read_row(x: wp.array3d(dtype=real), world: int, row: int, first: int):
    return vec3(x[world, row, first], x[world, row, first + 1], x[world, row, first + 2])


@wp.func
def write_row(x: wp.array3d(dtype=real), world: int, row: int, first: int, y: vec3):
    for j in range(3):
        x[world, row, first + j] = y[j]


@wp.func
def frame_position(f: Frames, s: Workspace, k: int, world: int, slot: int):
    i = f.body[k]
    return s.pos[i, slot] + s.R[i, slot] * f.pos[world, k]


@wp.func
def add_place_bar(f: Frames, f_bar: FrameBars, s: Workspace, k: int, at_bar: vec3, world: int, slot: int):
    """Adds to the cotangent of a frame's place from that of its position in the world."""
    f_bar.pos[world, k] = f_bar.pos[world, k] + wp.transpose(s.R[f.body[k], slot]) * at_bar


@wp.func
def point_velocity(s: Workspace, i: int, at: vec3, slot: int):
    """Velocity of a point fixed to body i."""
    return velocity_at(s.V[i, slot], at - s.o[i, slot])


@wp.func
def point_acceleration(s: Workspace, i: int, at: vec3, slot: int):
    """Acceleration of a point fixed to body i, gravity not included."""
    return acceleration_at(s.V[i, slot], s.A[i, slot], at - s.o[i, slot])


@wp.func
def frame_poses(f: Frames, s: Workspace, value: wp.array3d(dtype=real), world: int, slot: int):
    """Position and quaternion of every frame."""
    for k in range(f.body.shape[0]):
        quat = quat_mul(s.quat[f.body[k], slot], f.quat[world, k])
        write_row(value, world, k, 0, frame_position(f, s, k, world, slot))
        for j in range(4):
            value[world, k, 3 + j] = quat[j]


@wp.func
def frame_jacobians(m: Tree, f: Frames, s: Workspace, value: wp.array3d(dtype=real), world: int, slot: int):
    """Columns of every frame's Jacobian, for the degrees of freedom that carry it; the others stay zero."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        arm = frame_position(f, s, k, world, slot)
        while i > 0:
            for d in range(m.body_dof[i], m.body_dof[i + 1]):
                S = s.S[d, slot]
                moved = velocity_at(S, arm - s.o[i, slot])
                for row in range(3):
                    value[world, 6 * k + row, d] = S[row]
                    value[world, 6 * k + 3 + row, d] = moved[row]
            i = m.body_parent[i]


@wp.func
def frame_velocities(f: Frames, s: Workspace, value: wp.array3d(dtype=real), world: int, slot: int):
    """Angular velocity of every frame, and the velocity of its origin."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        spin = ang(s.V[i, slot])
        moved = point_velocity(s, i, frame_position(f, s, k, world, slot), slot)
        for j in range(3):
            value[world, k, j] = spin[j]
            value[world, k, 3 + j] = moved[j]


@wp.func
def frame_accelerations(f: Frames, s: Workspace, value: wp.array3d(dtype=real), world: int, slot: int):
    """Angular acceleration of every frame, and the acceleration of its origin."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        write_row(value, world, k, 0, ang(s.A[i, slot]))
        write_row(value, world, k, 3, point_acceleration(s, i, frame_position(f, s, k, world, slot), slot))


@wp.func
def clear_bars(m: Tree, s: Workspace, slot: int):
    for i in range(m.body_parent.shape[0]):
        s.V_bar[i, slot] = vec6()
        s.A_bar[i, slot] = vec6()
        s.X_bar[i, slot] = vec6()
        s.W[i, slot] = vec6()


@wp.func
def push_at(s: Workspace, i: int, at: vec3, force: vec3, slot: int):
    """Adds the cotangent of a point fixed to body i to that of the body's pose."""
    s.W[i, slot] = s.W[i, slot] + pack(wp.cross(at - s.o[i, slot], force), force)


@wp.func
def point_velocity_adjoint(s: Workspace, i: int, at: vec3, u_bar: vec3, slot: int):
    """Adds to V_bar and W of body i, for a point fixed to it whose velocity has the cotangent u_bar."""
    s.V_bar[i, slot] = s.V_bar[i, slot] + pack(wp.cross(at - s.o[i, slot], u_bar), u_bar)
    push_at(s, i, at, wp.cross(u_bar, ang(s.V[i, slot])), slot)


@wp.func
def frame_velocities_adjoint(
    f: Frames, f_bar: FrameBars, s: Workspace, bar: wp.array3d(dtype=real), world: int, slot: int
):
    """Adds to V_bar and W of the bodies that frames are fixed to, and to the cotangents of places."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        spin_bar = vec3(bar[world, k, 0], bar[world, k, 1], bar[world, k, 2])
        s.V_bar[i, slot] = s.V_bar[i, slot] + pack(spin_bar, vec3())
        u_bar = vec3(bar[world, k, 3], bar[world, k, 4], bar[world, k, 5])
        point_velocity_adjoint(s, i, frame_position(f, s, k, world, slot), u_bar, slot)
        add_place_bar(f, f_bar, s, k, wp.cross(u_bar, ang(s.V[i, slot])), world, slot)


@wp.func
def frame_accelerations_adjoint(
    f: Frames, f_bar: FrameBars, s: Workspace, bar: wp.array3d(dtype=real), world: int, slot: int
):
    """Adds to A_bar, V_bar and W of the bodies that frames are fixed to, and to the cotangents of places."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        spin = ang(s.V[i, slot])
        at = frame_position(f, s, k, world, slot)
        arm = at - s.o[i, slot]
        u_bar = read_row(bar, world, k, 3)
        # u = lin(A) + ang(A) × arm + spin × velocity, and the velocity of the point is lin(V) + spin × arm
        velocity_bar = wp.cross(u_bar, spin)
        spin_bar = wp.cross(point_velocity(s, i, at, slot), u_bar) + wp.cross(arm, velocity_bar)
        at_bar = wp.cross(u_bar, ang(s.A[i, slot])) + wp.cross(velocity_bar, spin)
        s.A_bar[i, slot] = s.A_bar[i, slot] + pack(read_row(bar, world, k, 0) + wp.cross(arm, u_bar), u_bar)
        s.V_bar[i, slot] = s.V_bar[i, slot] + pack(spin_bar, velocity_bar)
        push_at(s, i, at, at_bar, slot)
        add_place_bar(f, f_bar, s, k, at_bar, world, slot)


@wp.func
def frame_poses_adjoint(f: Frames, f_bar: FrameBars, s: Workspace, bar: wp.array3d(dtype=real), world: int, slot: int):
    """Adds to W of the bodies that frames are fixed to, and to the cotangents of places."""
    for k in range(f.body.shape[0]):
        i = f.body[k]
        at_bar = read_row(bar, world, k, 0)
        push_at(s, i, frame_position(f, s, k, world, slot), at_bar, slot)
        add_place_bar(f, f_bar, s, k, at_bar, world, slot)
        quat = quat_mul(s.quat[i, slot], f.quat[world, k])
        quat_bar = vec4(bar[world, k, 3], bar[world, k, 4], bar[world, k, 5], bar[world, k, 6])
        turn = tangent_of_coordinates(quat, quat_bar)
        f_bar.turn[world, k] = f_bar.turn[world, k] + turn
        s.W[i, slot] = s.W[i, slot] + pack(quat_rotate(quat, turn), vec3())


@wp.func
def frame_jacobian_adjoint(
    m: Tree, f: Frames, f_bar: FrameBars, s: Workspace, bar: wp.array3d(dtype=real), sweep: int, world: int, slot: int
):
    """Sets X_bar and W to the cotangents of row ``sweep`` of all Jacobians, six of which belong to a frame, and adds to
    the cotangent of the frame's place.

    A row against the cotangents w of its entries is one component of the frame's velocity under joint velocities w.
    """
    k = sweep // 6
    row = sweep % 6
    i = f.body[k]
    for d in range(m.nv):
        s.w[d, slot] = bar[world, sweep, d]
    virtual_motions(m, s, slot)
    clear_bars(m, s, slot)
    unit = vec6()
    unit[row] = real(1.0)
    at = frame_position(f, s, k, world, slot)
    s.X_bar[i, slot] = pack(ang(unit) + wp.cross(at - s.o[i, slot], lin(unit)), lin(unit))
    at_bar = wp.cross(lin(unit), ang(s.X[i, slot]))
    push_at(s, i, at, at_bar, slot)
    add_place_bar(f, f_bar, s, k, at_bar, world, slot)
