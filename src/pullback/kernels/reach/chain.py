"""Forward and inverse kinematics of one chain of joints, for many poses.

A chain is a product of fixed transforms F and joint transforms J, from its base to its tip:

    F_0 J_0(q) F_1 J_1(q) ... F_n

A joint that is passed against its direction, on the path up from the base, has ``sign`` -1 and moves inversely. Poses
are positions and unit quaternions in the frame of the base. Coordinates q are those of the model: ball joints have
quaternions. The workspace is indexed ``[item, slot]``.
"""

import warp as wp

from ..spatial.algebra import (
    ang,
    lin,
    pack,
    quat_axis_angle,
    quat_conj,
    quat_exp,
    quat_log,
    quat_mul,
    quat_rotate,
    quat_unit,
)
from ..spatial.scalar import mat66, real, vec3, vec4, vec6
from ..tree.structs import BALL, HINGE, SLIDE

# Levenberg-Marquardt: damping at the start, its least and largest, and its factors. It is added to J Jᵀ. [m², rad²]
DAMPING = wp.constant(real(1e-2))
LEAST_DAMPING = wp.constant(real(1e-6))
LARGEST_DAMPING = wp.constant(real(10.0))
EASE = wp.constant(real(0.2))
TIGHTEN = wp.constant(real(5.0))
# The longest step of a joint, within which the linearisation is of use. [rad, m]
LONGEST_STEP = wp.constant(real(0.7))
# A search that has not come this much nearer in PATIENCE steps is at a local minimum. [1]
PROGRESS = wp.constant(real(0.8))
PATIENCE = wp.constant(4)
# How often a step is computed anew because a joint is at the end of its range.
MOST_PASSES = wp.constant(3)
# Weight of a rotation, squared, beside a distance, squared, when a start is chosen. [m²/rad²]
ROTATION_WEIGHT = wp.constant(real(0.1))


@wp.struct
class Chain:
    kind: wp.array(dtype=int)  # of each joint: SLIDE, HINGE or BALL
    sign: wp.array(dtype=real)
    axis: wp.array(dtype=vec3)  # unit
    pos: wp.array(dtype=vec3)  # the fixed transform before a joint; one more at the end, after the last
    quat: wp.array(dtype=vec4)
    q: wp.array(dtype=int)  # first coordinate, and first degree of freedom
    v: wp.array(dtype=int)
    q0: wp.array(dtype=real)  # the coordinate at which a hinge or slide does nothing
    low: wp.array(dtype=real)  # limits; of a ball, ``high`` is the largest rotation
    high: wp.array(dtype=real)
    nq: int
    nv: int
    wants_position: int  # 1: the position of the tip is a target
    wants_orientation: int  # 1: so is its orientation


@wp.struct
class ChainWorkspace:
    q: wp.array2d(dtype=real)
    trial: wp.array2d(dtype=real)
    step: wp.array2d(dtype=real)
    S: wp.array2d(dtype=vec6)  # Jacobian column of a degree of freedom: rotation and translation of the tip
    trial_S: wp.array2d(dtype=vec6)


@wp.func
def joint_quat(q: wp.array2d(dtype=real), i: int, slot: int):
    return quat_unit(vec4(q[i, slot], q[i + 1, slot], q[i + 2, slot], q[i + 3, slot]))


@wp.func
def forward(c: Chain, q: wp.array2d(dtype=real), S: wp.array2d(dtype=vec6), slot: int):
    """Pose of the tip; S is left with the axis and the anchor of each degree of freedom, which ``finish`` needs."""
    pos = vec3()
    quat = vec4(real(1.0), real(0.0), real(0.0), real(0.0))
    for j in range(c.kind.shape[0]):
        pos += quat_rotate(quat, c.pos[j])
        quat = quat_mul(quat, c.quat[j])
        d = c.v[j]
        if c.kind[j] == BALL:
            rotation = joint_quat(q, c.q[j], slot)
            if c.sign[j] > real(0.0):
                quat = quat_mul(quat, rotation)
            for k in range(3):  # the axes of the body that the joint carries, in its model
                axis = vec3()
                axis[k] = c.sign[j]
                S[d + k, slot] = pack(quat_rotate(quat, axis), pos)
            if c.sign[j] < real(0.0):
                quat = quat_mul(quat, quat_conj(rotation))
        else:
            axis = quat_rotate(quat, c.axis[j]) * c.sign[j]
            move = q[c.q[j], slot] - c.q0[j]
            if c.kind[j] == HINGE:
                S[d, slot] = pack(axis, pos)
                quat = quat_mul(quat, quat_axis_angle(c.axis[j], move * c.sign[j]))
            else:
                S[d, slot] = pack(vec3(), axis)
                pos += axis * move
    last = c.kind.shape[0]
    pos += quat_rotate(quat, c.pos[last])
    quat = quat_mul(quat, c.quat[last])
    return pos, quat


@wp.func
def finish(c: Chain, S: wp.array2d(dtype=vec6), pos: vec3, slot: int):
    """From axes and anchors to Jacobian columns at the tip; what is no target has zeros."""
    for j in range(c.kind.shape[0]):
        n = int(1)
        if c.kind[j] == BALL:
            n = 3
        for d in range(c.v[j], c.v[j] + n):
            axis = ang(S[d, slot])
            move = lin(S[d, slot])
            if c.kind[j] != SLIDE:
                move = wp.cross(axis, pos - move)
            S[d, slot] = pack(axis * real(c.wants_orientation), move * real(c.wants_position))


@wp.func
def residual(c: Chain, pos: vec3, quat: vec4, target_pos: vec3, target_quat: vec4):
    """The residual to the target: [rotation; translation] in the axes of the base."""
    rotation = quat_log(quat_mul(target_quat, quat_conj(quat)))
    return pack(rotation * real(c.wants_orientation), (target_pos - pos) * real(c.wants_position))


@wp.func
def solve_spd(A: mat66, b: vec6):
    """x of A x = b, A symmetric and positive definite, by Cholesky's factors, written into A."""
    for j in range(6):
        d = A[j, j]
        for k in range(j):
            d -= A[j, k] * A[j, k]
        d = wp.sqrt(d)
        A[j, j] = d
        for i in range(j + 1, 6):
            x = A[i, j]
            for k in range(j):
                x -= A[i, k] * A[j, k]
            A[i, j] = x / d
    y = vec6()
    for i in range(6):
        x = b[i]
        for k in range(i):
            x -= A[i, k] * y[k]
        y[i] = x / A[i, i]
    for back in range(6):
        i = 5 - back
        x = y[i]
        for k in range(i + 1, 6):
            x -= A[k, i] * y[k]
        y[i] = x / A[i, i]
    return y


@wp.func
def block(c: Chain, s: ChainWorkspace, j: int, slot: int):
    """Takes a joint that would leave its range out of the Jacobian; 1 if it was in there."""
    q = s.q[c.q[j], slot]
    move = s.step[c.v[j], slot]
    blocked = int(0)
    if (q <= c.low[j] and move < real(0.0)) or (q >= c.high[j] and move > real(0.0)):
        s.S[c.v[j], slot] = vec6()
        blocked = 1
    return blocked


@wp.func
def propose(c: Chain, s: ChainWorkspace, error: vec6, damping: real, slot: int):
    """s.step = Jᵀ (J Jᵀ + damping)⁻¹ error, without the joints that it would push out of their ranges."""
    passes = int(0)
    blocked = int(1)
    while blocked > 0 and passes < MOST_PASSES:
        A = mat66()
        for i in range(6):
            A[i, i] = damping
        for d in range(c.nv):
            x = s.S[d, slot]
            for i in range(6):
                for k in range(i + 1):
                    A[i, k] += x[i] * x[k]
        y = solve_spd(A, error)
        for d in range(c.nv):
            s.step[d, slot] = wp.dot(s.S[d, slot], y)
        blocked = int(0)
        for j in range(c.kind.shape[0]):
            if c.kind[j] != BALL:
                blocked += block(c, s, j, slot)
        passes += 1
    largest = real(0.0)
    for d in range(c.nv):
        largest = wp.max(largest, wp.abs(s.step[d, slot]))
    if largest > LONGEST_STEP:
        for d in range(c.nv):
            s.step[d, slot] = s.step[d, slot] * (LONGEST_STEP / largest)


@wp.func
def advance(c: Chain, s: ChainWorkspace, slot: int):
    """s.trial = s.q moved by s.step, within the limits."""
    for j in range(c.kind.shape[0]):
        i = c.q[j]
        d = c.v[j]
        if c.kind[j] == BALL:
            rotation = vec3(s.step[d, slot], s.step[d + 1, slot], s.step[d + 2, slot])
            whole = quat_log(quat_mul(joint_quat(s.q, i, slot), quat_exp(rotation)))
            size = wp.sqrt(wp.dot(whole, whole))
            if size > c.high[j]:
                whole = whole * (c.high[j] / size)
            quat = quat_exp(whole)
            for k in range(4):
                s.trial[i + k, slot] = quat[k]
        else:
            s.trial[i, slot] = wp.clamp(s.q[i, slot] + s.step[d, slot], c.low[j], c.high[j])


@wp.func
def search(
    c: Chain, s: ChainWorkspace, target_pos: vec3, target_quat: vec4, tolerance: real, iterations: int, slot: int
):
    """Levenberg-Marquardt from s.q, which is updated; the remaining error."""
    pos, quat = forward(c, s.q, s.S, slot)
    finish(c, s.S, pos, slot)
    error = residual(c, pos, quat, target_pos, target_quat)
    size = wp.length(error)
    damping = DAMPING
    mark = size
    since = int(0)
    going = bool(True)
    count = int(0)
    while going and size > tolerance and count < iterations:
        count += 1
        propose(c, s, error, damping, slot)
        advance(c, s, slot)
        pos, quat = forward(c, s.trial, s.trial_S, slot)
        trial_error = residual(c, pos, quat, target_pos, target_quat)
        trial_size = wp.length(trial_error)
        if trial_size < size:
            finish(c, s.trial_S, pos, slot)
            for i in range(c.nq):
                s.q[i, slot] = s.trial[i, slot]
            for d in range(c.nv):
                s.S[d, slot] = s.trial_S[d, slot]
            error = trial_error
            size = trial_size
            damping = wp.max(damping * EASE, LEAST_DAMPING)
        else:
            damping = damping * TIGHTEN
            going = damping < LARGEST_DAMPING
        since += 1
        if size < PROGRESS * mark:
            mark = size
            since = 0
        going = going and since < PATIENCE
    return size


@wp.func
def target_position(target: wp.array2d(dtype=real), n: int):
    return vec3(target[n, 0], target[n, 1], target[n, 2])


@wp.func
def target_orientation(target: wp.array2d(dtype=real), n: int):
    return quat_unit(vec4(target[n, 3], target[n, 4], target[n, 5], target[n, 6]))


@wp.func
def nearest(c: Chain, poses: wp.array2d(dtype=real), pos: vec3, quat: vec4):
    """Index of the nearest of the known poses."""
    best = int(0)
    least = real(1e30)
    for k in range(poses.shape[0]):
        off = target_position(poses, k) - pos
        same = wp.dot(vec4(poses[k, 3], poses[k, 4], poses[k, 5], poses[k, 6]), quat)
        far = real(c.wants_position) * wp.dot(off, off)
        far += real(c.wants_orientation) * ROTATION_WEIGHT * real(4.0) * (real(1.0) - same * same)
        if far < least:
            least = far
            best = k
    return best


@wp.kernel(enable_backward=False)
def chain_poses(
    c: Chain,
    q: wp.array2d(dtype=real),
    s: ChainWorkspace,
    first: int,
    end: int,
    poses: wp.array2d(dtype=real),
):
    """Poses (n, 7) of the tip at joint coordinates q (n, nq)."""
    slot = wp.tid()
    for n in range(first + slot, end, s.q.shape[1]):
        for i in range(c.nq):
            s.q[i, slot] = q[n, i]
        pos, quat = forward(c, s.q, s.S, slot)
        for k in range(3):
            poses[n, k] = pos[k]
        for k in range(4):
            poses[n, 3 + k] = quat[k]


@wp.kernel(enable_backward=False)
def chain_inverse(
    c: Chain,
    target: wp.array2d(dtype=real),  # (n, 7)
    known_q: wp.array2d(dtype=real),  # joint coordinates ...
    known_poses: wp.array2d(
        dtype=real
    ),  # ... and the poses they lead to, quaternions unit; empty: start n is known_q[n]
    tolerance: real,
    iterations: int,
    s: ChainWorkspace,
    first: int,
    end: int,
    q: wp.array2d(dtype=real),  # (n, nq)
    error: wp.array(dtype=real),
):
    slot = wp.tid()
    for n in range(first + slot, end, s.q.shape[1]):
        pos = target_position(target, n)
        quat = target_orientation(target, n)
        start = int(n)
        if known_poses.shape[0] > 0:
            start = nearest(c, known_poses, pos, quat)
        for i in range(c.nq):
            s.q[i, slot] = known_q[start, i]
        error[n] = search(c, s, pos, quat, tolerance, iterations, slot)
        for i in range(c.nq):
            q[n, i] = s.q[i, slot]
