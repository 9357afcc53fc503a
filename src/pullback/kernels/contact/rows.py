"""Constraint rows: the Jacobians of contacts, and the rows of joint limits and friction loss.

A contact between bodies 1 and 2 moves only the degrees of freedom between each body and the last ancestor that both
have: its chain. Its Jacobian is stored as one column per degree of freedom of the chain, all rows of the contact in a
vector: the relative velocity of body 2 against body 1 at the contact, along the normal and two tangents, then its
rotation.
"""

import warp as wp

from ..collision.features import contact_frame
from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang, pack, velocity_at
from ..spatial.scalar import real, vec3, vec6
from ..tree.ellipsoids import Ellipsoids
from ..tree.structs import Tree, Workspace, dofs
from . import implicit_fields, impulse_fields, noslip_fields, potential_fields
from .activation_rows import ACTIVATION_PARTS, Activations, Delays
from .actuator_rows import ACTUATOR_PARTS, Actuators, SitePairs
from .adhesion_rows import ADHESION_PARTS, Adhesion
from .flavour import (
    ACTIVATIONS,
    ACTUATORS,
    ADHESION,
    DELAYS,
    ELLIPSOIDS,
    FLEXES,
    FORCES,
    IMPLICIT,
    IMPULSES,
    LOOPS,
    MOTORS,
    NOSLIP,
    ORIENTATIONS,
    POTENTIAL,
    ROWS,
    SITES,
    SPATIAL,
    TENDONS,
    vecr,
)
from .flex_rows import FLEX_PARTS, Flexes
from .motor_rows import MOTOR_PARTS, Motors
from .orientation_rows import Orientations
from .spans import Spans
from .tendon_fields import COUPLED_PARTS, LOOP_PARTS, TENDON_PARTS, Loops, Sites, Tendons

# The largest force of an equality: rows with a largest force push and pull.
UNBOUNDED = wp.constant(real(wp.inf))
# The source of row i of loop e is this and 6 e + i.
LOOP_ROW = wp.constant(1 << 30)


class PerWorld:
    joint_rows: wp.array2d(dtype=int)  # how many there are now
    coupled: wp.array2d(dtype=int)  # 1 where a contact couples different branches


class PerContact:
    tangent1: wp.array2d(dtype=vec3)
    tangent2: wp.array2d(dtype=vec3)
    chain_length: wp.array2d(dtype=int)
    force: wp.array2d(dtype=vecr)
    friction: wp.array2d(dtype=vecr)  # coefficient of each row; that of the normal is not used


class PerChain:
    """nv places per contact."""

    chain: wp.array2d(dtype=int)  # degrees of freedom, the last one first
    side: wp.array2d(dtype=real)  # 1: moves body 2, -1: moves body 1
    J: wp.array2d(dtype=vecr)


class PerJointRow:
    """Limits and friction loss of joints and tendons, and equality constraints."""

    # Limit k: 2 k + side, friction loss k: -1 - k, with joints before tendons; equalities come after all limits.
    joint_source: wp.array2d(dtype=int)
    joint_length: wp.array2d(dtype=int)


class PerJointChain:
    """g.joint_width places per row of joints: as many as the longest chain has."""

    joint_chain: wp.array2d(dtype=int)  # degrees of freedom, the last one first
    joint_J: wp.array2d(dtype=real)


class PerDof:
    w: wp.array2d(dtype=real)
    kept_a: wp.array2d(dtype=real)
    scratch: wp.array2d(dtype=int)
    columns_count: wp.array2d(dtype=int)


class PerEntry:
    """Matrices of nv × nv."""

    columns: wp.array2d(dtype=int)  # where coupled, of each row of H, those that may be nonzero, the last one first
    M: wp.array2d(dtype=real)  # lower triangles
    H: wp.array2d(dtype=real)


class ForcesPerContact:
    """Contact models with forces. Those of ContactConvex depend on z."""

    z: wp.array2d(dtype=vecr)  # J a less its reference; with ContactCompliant J a
    z_free: wp.array2d(dtype=vecr)  # the same at a = 0
    z_step: wp.array2d(dtype=vecr)  # J times the solver's step
    stiffness: wp.array2d(dtype=real)
    free_force: wp.array2d(dtype=vecr)  # at a = 0
    softening: wp.array2d(dtype=vecr)  # what the force loses by J a, row by row


class ForcesPerJointRow:
    """The same for limits and friction loss."""

    joint_z: wp.array2d(dtype=real)
    joint_z_free: wp.array2d(dtype=real)
    joint_z_step: wp.array2d(dtype=real)
    joint_stiffness: wp.array2d(dtype=real)
    joint_loss: wp.array2d(dtype=real)  # the largest force of friction loss; a limit has none
    joint_free_force: wp.array2d(dtype=real)
    joint_softening: wp.array2d(dtype=real)


class ForcesPerDof:
    a: wp.array2d(dtype=real)  # accelerations under constraints
    smooth: wp.array2d(dtype=real)  # joint forces without constraints: tau less the bias
    gradient: wp.array2d(dtype=real)
    scale: wp.array2d(dtype=real)  # how large the terms are whose sum the gradient is
    step: wp.array2d(dtype=real)
    kept_w: wp.array2d(dtype=real)


# What the arrays of Rows are along, and who uses them; arrays are [item, slot], or [line, item, slot].
PARTS = {
    "world": (PerWorld,),
    "contact": (PerContact,),
    "chain": (PerChain,),
    "joint row": (PerJointRow,),
    "joint chain": (PerJointChain,),
    "dof": (PerDof,),
    "entry": (PerEntry,),
}
FORCES_PARTS = {"contact": (ForcesPerContact,), "joint row": (ForcesPerJointRow,), "dof": (ForcesPerDof,)}
for there, more in (
    (FORCES, FORCES_PARTS),
    (IMPULSES, impulse_fields.PARTS),
    (POTENTIAL, potential_fields.PARTS),
    (TENDONS, TENDON_PARTS),
    (TENDONS or LOOPS, COUPLED_PARTS),
    (LOOPS, LOOP_PARTS),
    (NOSLIP, noslip_fields.PARTS),
    (ACTIVATIONS, ACTIVATION_PARTS),
    (ACTUATORS, ACTUATOR_PARTS),
    (MOTORS, MOTOR_PARTS),
    (ADHESION, ADHESION_PARTS),
    (FLEXES, FLEX_PARTS),
    (IMPLICIT, implicit_fields.PARTS),
):
    if there:
        PARTS |= {along: (*PARTS.get(along, ()), *parts) for along, parts in more.items()}
ALONG = {name: along for along, parts in PARTS.items() for part in parts for name in part.__annotations__}
ARRAYS = {name: array for parts in PARTS.values() for part in parts for name, array in part.__annotations__.items()}


@wp.struct
class Rows:
    """Constraints of one world: the arrays of all parts."""

    __annotations__ = ARRAYS | {
        name: struct
        for name, struct, there in (
            ("tendons", Tendons, TENDONS),
            ("spans", Spans, SPATIAL),
            ("sites", Sites, SITES),
            ("loops", Loops, LOOPS),
            ("activations", Activations, ACTIVATIONS),
            ("delays", Delays, DELAYS),
            ("actuators", Actuators, ACTUATORS),
            ("motors", Motors, MOTORS),
            ("adhesion", Adhesion, ADHESION),
            ("orientations", Orientations, ORIENTATIONS),
            ("site_pairs", SitePairs, ACTUATORS and SITES),
            ("flexes", Flexes, FLEXES),
            ("ellipsoids", Ellipsoids, ELLIPSOIDS),
            ("noslip", noslip_fields.NoSlip, NOSLIP),
            ("implicit", implicit_fields.Implicit, IMPLICIT),
        )
        if there
    }


@wp.func
def contact_column(s: Workspace, d: int, o: vec3, pos: vec3, n: vec3, t1: vec3, t2: vec3, sign: real, slot: int):
    """Rows of a contact for one degree of freedom of body 2 (sign 1) or body 1 (sign -1)."""
    S = s.S[d, slot]
    velocity = velocity_at(S, pos - o)
    column = vecr()
    column[0] = sign * wp.dot(n, velocity)
    column[1] = sign * wp.dot(t1, velocity)
    column[2] = sign * wp.dot(t2, velocity)
    if ROWS == 6:
        column[3] = sign * wp.dot(n, ang(S))
        column[4] = sign * wp.dot(t1, ang(S))
        column[5] = sign * wp.dot(t2, ang(S))
    return column


@wp.func
def contact_jacobian(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, k: int, slot: int):
    """Tangents, chain and columns of contact k."""
    pair = c.pair[k, slot]
    second = g.pair_second[pair]
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[second]
    n = c.normal[k, slot]
    t1, t2 = contact_frame(n, c.along[k, slot], c.R[second, slot])
    pos = c.pos[k, slot]
    r.tangent1[k, slot] = t1
    r.tangent2[k, slot] = t2
    length = int(0)
    moves1 = bool(False)
    moves2 = bool(False)
    while body1 != body2:
        body = wp.max(body1, body2)
        sign = wp.where(body1 > body2, real(-1.0), real(1.0))
        o = s.o[body, slot]
        first = m.body_joint[body]
        last = m.body_joint[body + 1]
        for j in range(first, last):
            joint = last - 1 - (j - first)
            count = dofs(m.joint_type[joint])
            for i in range(count):
                d = m.joint_v[joint] + count - 1 - i
                r.chain[k * m.nv + length, slot] = d
                moves1 = moves1 or sign < real(0.0)
                moves2 = moves2 or sign > real(0.0)
                r.side[k * m.nv + length, slot] = sign
                r.J[k * m.nv + length, slot] = contact_column(s, d, o, pos, n, t1, t2, sign, slot)
                length += 1
        if body1 == body:
            body1 = m.body_parent[body1]
        if body2 == body:
            body2 = m.body_parent[body2]
    r.chain_length[k, slot] = length
    if moves1 and moves2:
        r.coupled[0, slot] = 1


@wp.func
def contact_count(c: Contacts, slot: int):
    return wp.min(c.count[0, slot], c.pair.shape[0])


@wp.func
def contact_motion(m: Tree, r: Rows, x: wp.array2d(dtype=real), k: int, slot: int):
    """J x of contact k."""
    total = vecr()
    for i in range(r.chain_length[k, slot]):
        total += r.J[k * m.nv + i, slot] * x[r.chain[k * m.nv + i, slot], slot]
    return total


@wp.func
def add_contact_force(m: Tree, r: Rows, x: wp.array2d(dtype=real), force: vecr, k: int, slot: int):
    """x += Jᵀ force"""
    for i in range(r.chain_length[k, slot]):
        d = r.chain[k * m.nv + i, slot]
        x[d, slot] = x[d, slot] + wp.dot(r.J[k * m.nv + i, slot], force)


@wp.func
def joint_row_motion(g: Shapes, r: Rows, x: wp.array2d(dtype=real), k: int, slot: int):
    """J x of row k of the joints."""
    total = real(0.0)
    for i in range(r.joint_length[k, slot]):
        at = k * g.joint_width + i
        total += r.joint_J[at, slot] * x[r.joint_chain[at, slot], slot]
    return total


@wp.func
def add_joint_row_force(g: Shapes, r: Rows, x: wp.array2d(dtype=real), force: real, k: int, slot: int):
    """x += Jᵀ force of row k of the joints."""
    for i in range(r.joint_length[k, slot]):
        at = k * g.joint_width + i
        d = r.joint_chain[at, slot]
        x[d, slot] = x[d, slot] + r.joint_J[at, slot] * force


@wp.func
def add_loss_row(g: Shapes, r: Rows, loss: int, slot: int):
    """A row for a friction loss. Returns its number."""
    k = r.joint_rows[0, slot]
    r.joint_rows[0, slot] = k + 1
    r.joint_source[k, slot] = -1 - loss
    r.joint_length[k, slot] = 1
    r.joint_chain[k * g.joint_width, slot] = g.loss_dof[loss]
    r.joint_J[k * g.joint_width, slot] = real(1.0)
    return k


@wp.func
def set_row_law(r: Rows, k: int, z_free: real, stiffness: real, bound: real, slot: int):
    """The law of a row of joints: its z without accelerations, its stiffness and the largest force, if it has one."""
    r.joint_z_free[k, slot] = z_free
    r.joint_stiffness[k, slot] = stiffness
    r.joint_loss[k, slot] = bound


@wp.func
def has_rows(c: Contacts, r: Rows, slot: int):
    return contact_count(c, slot) > 0 or r.joint_rows[0, slot] > 0


@wp.func(inline=True)
def in_world(x: vecr, n: vec3, t1: vec3, t2: vec3):
    """The first three rows of a contact as a vector in the world's axes."""
    return x[0] * n + x[1] * t1 + x[2] * t2


@wp.func(inline=True)
def rotation_in_world(x: vecr, n: vec3, t1: vec3, t2: vec3):
    """The same for the rows of torsion and rolling; zero where contacts have none."""
    turn = vec3()
    if ROWS == 6:
        turn = x[3] * n + x[4] * t1 + x[5] * t2
    return turn


@wp.func
def push_body(W: wp.array2d(dtype=vec6), i: int, arm: vec3, moment: vec3, force: vec3, sign: real, slot: int):
    """Adds a force and a moment at a point ``arm`` away from o to what acts on body i."""
    W[i, slot] = W[i, slot] + sign * pack(moment + wp.cross(arm, force), force)


@wp.func
def push_pair(
    g: Shapes,
    s: Workspace,
    W: wp.array2d(dtype=vec6),
    pair: int,
    pos: vec3,
    moment: vec3,
    force: vec3,
    slot: int,
):
    """Adds a force at pos to body 2 of a pair, and its opposite to body 1."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    push_body(W, body2, pos - s.o[body2, slot], moment, force, real(1.0), slot)
    push_body(W, body1, pos - s.o[body1, slot], moment, force, real(-1.0), slot)
