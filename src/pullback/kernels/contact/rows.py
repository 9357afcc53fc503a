"""Constraint rows: the Jacobians of contacts, and the rows of joint limits and friction loss.

A contact between bodies 1 and 2 moves only the degrees of freedom between each body and the last ancestor that both
have: its chain. Its Jacobian is stored as one column per degree of freedom of the chain, all rows of the contact in a
vector: the relative velocity of body 2 against body 1 at the contact, along the normal and two tangents, then its
rotation.
"""

import warp as wp

from ..collision.features import contact_frame
from ..collision.hull_pair import mat66
from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang, lin, pack
from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from ..tree.ellipsoids import Ellipsoids
from ..tree.structs import Tree, Workspace, dofs
from .activation_rows import ACTIVATION_PARTS, Activations
from .actuator_rows import ACTUATOR_PARTS, Actuators, SitePairs
from .adhesion_rows import ADHESION_PARTS, Adhesion
from .flavour import (
    ACTIVATIONS,
    ACTUATORS,
    ADHESION,
    ELLIPSOIDS,
    FLEXES,
    FORCES,
    IMPULSES,
    LOOPS,
    MOTORS,
    NOSLIP,
    POTENTIAL,
    ROWS,
    SITES,
    SPATIAL,
    TENDONS,
    TRIANGLES,
    matr,
    vecr,
)
from .flex_rows import FLEX_PARTS, Flexes
from .motor_rows import MOTOR_PARTS, Motors
from .spans import Spans

if NOSLIP:
    from . import noslip_fields

# The largest force of an equality: rows with a largest force push and pull.
UNBOUNDED = wp.constant(real(wp.inf))
# The source of row i of loop e is this and 6 e + i.
LOOP_ROW = wp.constant(1 << 30)

# Length, and radius and three sizes of a shape that is no mesh.
vec5 = wp.types.vector(5, real)


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


class CoupledPerJointChain:
    joint_J_bar: wp.array2d(dtype=real)


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


class ImpulsesPerWorld:
    start_scale: wp.array2d(dtype=real)
    crowded: wp.array2d(dtype=int)  # 1 where there are too many neighbours, and sweeps go by velocity


class ImpulsesPerBlock:
    """Contact models with impulses, and their cotangents. Blocks are contacts and, after these, rows of joints."""

    b: wp.array2d(dtype=vecr)
    reach: wp.array2d(dtype=int)  # length of a block's chain with all below it, down to the root
    root: wp.array2d(dtype=wp.vec2i)  # roots of the trees a block moves, twice the same if there is one
    start_stiffness: wp.array2d(dtype=vecr)
    low: wp.array2d(dtype=real)  # bounds of a block's impulse along its normal, in its first row
    high: wp.array2d(dtype=real)  # beyond this one
    aim: wp.array2d(dtype=real)  # velocity that is given up; infinite for friction loss, which has no more than that
    arm: wp.array2d(dtype=real)  # how much a unit of mass weighs in the row [1, or m² of a joint]
    # unsigned, so that the compiler knows that no index is negative, and leaves out Warp's test for that:
    neighbours: wp.array2d(dtype=wp.uint16)  # how many other blocks move the same trees
    before: wp.array2d(dtype=wp.uint16)  # how many of these have their turn before the block
    own: wp.array2d(dtype=matr)  # how an impulse of the block changes its own velocity
    weight: wp.array2d(dtype=vecr)
    bounced: wp.array2d(dtype=int)
    moment: wp.array2d(dtype=real)
    rebound: wp.array2d(dtype=real)  # what restitution adds to a contact's aim
    force_bar: wp.array2d(dtype=vecr)
    b_bar: wp.array2d(dtype=vecr)
    high_bar: wp.array2d(dtype=real)
    aim_bar: wp.array2d(dtype=real)
    own_bar: wp.array2d(dtype=matr)
    friction_bar: wp.array2d(dtype=real)
    rebound_bar: wp.array2d(dtype=real)
    moment_bar: wp.array2d(dtype=real)
    dist_bar: wp.array2d(dtype=real)
    speed_bar: wp.array2d(dtype=real)
    pos_bar: wp.array2d(dtype=vec3)
    n_bar: wp.array2d(dtype=vec3)
    t1_bar: wp.array2d(dtype=vec3)
    t2_bar: wp.array2d(dtype=vec3)


class ImpulsesPerChain:
    B: wp.array2d(dtype=vecr)  # the whitened Jacobian
    B_bar: wp.array2d(dtype=vecr)


class ImpulsesPerNeighbour:
    """[i, block]"""

    neighbour: wp.array3d(dtype=wp.uint16)  # which ones they are, by turn
    A: wp.array3d(dtype=matr)  # how an impulse of the block changes that neighbour's velocity


class ImpulsesPerSide:
    change: wp.array3d(dtype=vecr)  # [2, block]: velocity by impulses of neighbours before and after it


class ImpulsesPerSweep:
    """[sweep, block]"""

    wish: wp.array3d(dtype=vecr)  # what impulses would have been without bounds


class ImpulsesPerLine:
    """[line, block]: one before each sweep, and one after the last"""

    history: wp.array3d(dtype=vecr)  # impulses
    seen_bar: wp.array3d(dtype=vecr)  # of residuals, those of the sweep before the line and after it


class ImpulsesPerDof:
    y: wp.array2d(dtype=real)  # whitened change of velocity
    swept: wp.array2d(dtype=real)  # the same by the first impulses, or as sweeps by velocity go on
    u_start: wp.array2d(dtype=real)
    late: wp.array2d(dtype=real)
    pushed: wp.array2d(dtype=real)
    free: wp.array2d(dtype=real)  # velocity without impulses
    momentum: wp.array2d(dtype=real)
    island: wp.array2d(dtype=int)
    energy: wp.array2d(dtype=real)  # of islands, at their roots: twice that of r.free
    load: wp.array2d(dtype=real)  # of islands, at their roots: their mass
    linear: wp.array2d(dtype=real)  # of islands, at their roots; see ``islands.py``
    square: wp.array2d(dtype=real)
    held: wp.array2d(dtype=real)
    column: wp.array2d(dtype=real)  # one of the whitening matrix
    swept_bar: wp.array2d(dtype=real)
    energy_bar: wp.array2d(dtype=real)
    held_bar: wp.array2d(dtype=real)
    y_bar: wp.array2d(dtype=real)
    left_bar: wp.array2d(dtype=real)  # of y once it is held back
    late_bar: wp.array2d(dtype=real)
    moved_bar: wp.array2d(dtype=real)  # of the velocity that positions move with


class PotentialPerWorld:
    boost: wp.array2d(dtype=real)  # of the potential, while the solver is on its way [1]


class PotentialPerCoordinate:
    kept_q: wp.array2d(dtype=real)  # before the step


class PotentialPerSubstep:
    """Coordinates, or velocities, before each substep: substep · nq + coordinate."""

    substep_q: wp.array2d(dtype=real)
    substep_v: wp.array2d(dtype=real)


class PotentialPerPoint:
    point: wp.array2d(dtype=vec3)  # of all shapes, in the world
    old_point: wp.array2d(dtype=vec3)  # before the step


class PotentialPerPair:
    plane: wp.array2d(dtype=vec4)  # of the potential's minimum, about the origin
    origin: wp.array2d(dtype=vec3)  # half-way between the shapes
    old_plane: wp.array2d(dtype=vec4)  # before the step
    old_origin: wp.array2d(dtype=vec3)
    trial_normal: wp.array2d(dtype=vec3)  # unit vector along which the shapes are apart
    trial_gap: wp.array2d(dtype=real)
    normal: wp.array2d(dtype=vec3)  # where the last step of the solver led: in the world ...
    normal1: wp.array2d(dtype=vec3)  # ... and in the frames of both shapes
    normal2: wp.array2d(dtype=vec3)
    gap: wp.array2d(dtype=real)


class PotentialPerLimit:
    """Two places per limited joint."""

    room: wp.array2d(dtype=real)  # distance from the limit where the last step of the solver led


class PotentialPerBody:
    old_o: wp.array2d(dtype=vec3)  # before the step
    drift: wp.array2d(dtype=vec6)  # motion under the velocity that is tried, where the body was before the step
    drag: wp.array2d(dtype=vec6)  # gradient of friction by that; then of all that the body carries
    push: wp.array2d(dtype=vec6)  # gradient of the potential by the pose; then of all that the body carries


class PotentialPerEntry:
    kept_H: wp.array2d(dtype=real)  # before it is factorised


class PotentialPerDof:
    free: wp.array2d(dtype=real)  # velocity after the step without contact
    guess: wp.array2d(dtype=real)  # and with it, as it may be
    after: wp.array2d(dtype=real)  # in the backward pass, velocity after all substeps
    v: wp.array2d(dtype=real)  # that which is tried
    best: wp.array2d(dtype=real)  # that which the last step of the solver led to
    step: wp.array2d(dtype=real)
    gradient: wp.array2d(dtype=real)
    scale: wp.array2d(dtype=real)  # how large the terms are whose sum the gradient is
    motion: wp.array2d(dtype=vec6)  # of what the degree of freedom carries at the end of the step, by its velocity
    link: wp.array2d(dtype=int)  # degrees of freedom that a pair of shapes moves against each other
    link_side: wp.array2d(dtype=real)  # 1: moves body 2, -1: moves body 1
    link_push: wp.array2d(dtype=vec6)
    link_white: wp.array2d(dtype=vec4)
    link_moment: wp.array2d(dtype=vec3)
    link_motion: wp.array2d(dtype=vec6)
    old_S: wp.array2d(dtype=vec6)  # before the step


class TrianglesPerShape:
    kept_x: wp.array2d(dtype=vec3)  # poses of the shapes where the last step of the solver led
    kept_R: wp.array2d(dtype=mat33)


class TrianglesPerPair:
    """Fields of pairs with meshes: see ``mesh_pair.py``."""

    mesh_push: wp.array2d(dtype=vec6)
    mesh_lever: wp.array2d(dtype=mat33)
    mesh_curvature: wp.array2d(dtype=mat66)


class TrianglesPerVisit:
    visits: wp.array2d(dtype=wp.vec2i)  # pairs of nodes that a walk through two hierarchies has yet to visit


class TrianglesPerBlend:
    """Pairs of nodes of which the walk visits the children, and which are blended with what it finds there."""

    blend_nodes: wp.array2d(dtype=wp.vec2i)
    blend_share: wp.array2d(dtype=real)  # of what is found in the whole
    blend_value: wp.array2d(dtype=real)  # sums of what was found: potential, gradient ...
    blend_push: wp.array2d(dtype=vec6)
    blend_slope: wp.array2d(dtype=real)  # ... derivative along a motion, and those of both by parameters
    blend_value_by: wp.array2d(dtype=vec5)
    blend_slope_by: wp.array2d(dtype=vec5)


class PerTendon:
    tendon_length: wp.array2d(dtype=real)
    tendon_velocity: wp.array2d(dtype=real)
    tendon_inertia: wp.array2d(
        dtype=real
    )  # c in the c Jᵀ J that it adds to the mass matrix: armature, implicit damping
    tendon_length_bar: wp.array2d(dtype=real)
    tendon_velocity_bar: wp.array2d(dtype=real)
    tendon_inertia_bar: wp.array2d(dtype=real)


class PerTendonEntry:
    """One place per degree of freedom of each tendon."""

    tendon_J: wp.array2d(dtype=real)
    tendon_J_bar: wp.array2d(dtype=real)


class PerLoop:
    loop_row: wp.array2d(dtype=int)  # the first of its rows


class TendonsPerDof:
    smooth: wp.array2d(dtype=real)  # joint forces less the bias


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
if FORCES:
    PARTS["contact"] += (ForcesPerContact,)
    PARTS["joint row"] += (ForcesPerJointRow,)
    PARTS["dof"] += (ForcesPerDof,)
if IMPULSES:
    PARTS["world"] += (ImpulsesPerWorld,)
    PARTS["contact"] += (ImpulsesPerBlock,)
    PARTS["chain"] += (ImpulsesPerChain,)
    PARTS["dof"] += (ImpulsesPerDof,)
    PARTS |= {"neighbour": (ImpulsesPerNeighbour,), "side": (ImpulsesPerSide,)}
    PARTS |= {"sweep": (ImpulsesPerSweep,), "line": (ImpulsesPerLine,)}
if POTENTIAL:
    PARTS["world"] += (PotentialPerWorld,)
    PARTS["dof"] += (PotentialPerDof,)
    PARTS["entry"] += (PotentialPerEntry,)
    PARTS |= {"coordinate": (PotentialPerCoordinate,), "point": (PotentialPerPoint,), "pair": (PotentialPerPair,)}
    PARTS |= {"limit": (PotentialPerLimit,), "body": (PotentialPerBody,), "substep": (PotentialPerSubstep,)}
if TRIANGLES:
    PARTS["pair"] += (TrianglesPerPair,)
    PARTS |= {"shape": (TrianglesPerShape,), "visit": (TrianglesPerVisit,), "blend": (TrianglesPerBlend,)}
if TENDONS:
    PARTS |= {"tendon": (PerTendon,), "tendon entry": (PerTendonEntry,)}
    if not FORCES:
        PARTS["dof"] += (TendonsPerDof,)
if TENDONS or LOOPS:
    PARTS["joint chain"] += (CoupledPerJointChain,)
if LOOPS:
    PARTS |= {"loop": (PerLoop,)}
if NOSLIP:
    PARTS |= {along: (*PARTS.get(along, ()), *parts) for along, parts in noslip_fields.PARTS.items()}
if ACTIVATIONS:
    PARTS |= ACTIVATION_PARTS
if ACTUATORS:
    PARTS |= {along: (*PARTS.get(along, ()), *parts) for along, parts in ACTUATOR_PARTS.items()}
if MOTORS:
    PARTS |= MOTOR_PARTS
if ADHESION:
    PARTS |= {along: (*PARTS.get(along, ()), *parts) for along, parts in ADHESION_PARTS.items()}
if FLEXES:
    PARTS |= FLEX_PARTS
ALONG = {name: along for along, parts in PARTS.items() for part in parts for name in part.__annotations__}
ARRAYS = {name: array for parts in PARTS.values() for part in parts for name, array in part.__annotations__.items()}


@wp.struct
class Tendons:
    """Which tendons there are, and what acts along them: nothing here is differentiated.

    Entries are the degrees of freedom of each tendon, the last one first. A joint that an equality constrains is a
    tendon of one joint, of coefficient 1.
    """

    own: int  # tendons of the file; what follows are joints
    own_pairs: int  # how many of the pairs below are theirs; those come first
    inert: int  # those that may add to the mass matrix: after these tendons, actuators whose feedback is implicit
    first: wp.array(dtype=int)  # entries of tendon t are first[t] .. first[t + 1]
    dof: wp.array(dtype=int)  # per entry
    q: wp.array(dtype=int)
    # pairs of entries of one tendon of which the second carries the first: MuJoCo couples no others by inertia
    pair_tendon: wp.array(dtype=int)
    pair_below: wp.array(dtype=int)
    pair_above: wp.array(dtype=int)
    actuator: wp.array(dtype=int)  # per actuator: the tendon that it pulls; -1: it acts on a joint, -2: at a site;
    # -3: it is one more control of the actuator before, -4: it is adhesion
    limit: wp.array(dtype=int)  # tendons that are limited; what else there is to limits stands after that of joints
    loss: wp.array(dtype=int)  # tendons with friction loss, likewise
    equality_one: wp.array(dtype=int)  # per equality constraint: the tendon that follows ...
    equality_two: wp.array(dtype=int)  # ... another, or -1
    equality_rest: wp.array2d(dtype=real)  # lengths of both in the file's pose
    equality_weight: wp.array(dtype=int)
    equality_first: wp.array(dtype=int)  # its degrees of freedom, the last one first
    equality_dof: wp.array(dtype=int)
    equality_entry_one: wp.array(dtype=int)  # the entries of both tendons for these, or -1
    equality_entry_two: wp.array(dtype=int)
    coupled: int  # 1: a row of a tendon couples different branches


@wp.struct
class Loops:
    """Equality constraints that hold points or frames of two bodies together: nothing here is differentiated."""

    rows: wp.array(dtype=int)  # per loop: 3 for points, 6 for frames
    body: wp.array2d(dtype=int)  # per loop and side
    weight: wp.array2d(dtype=int)  # which of the inverse weights it has, for translation and for rotation
    first: wp.array(dtype=int)  # the degrees of freedom of loop e, the last one first, are first[e] .. first[e + 1]
    dof: wp.array(dtype=int)
    moves: wp.array2d(dtype=real)  # 1 where it carries body 1, body 2
    first_law: int  # where its solref and solimp stand among those of all equalities
    coupled: int  # 1: a loop couples different branches


@wp.struct
class Sites:
    """The actuators that push at sites: nothing here is differentiated."""

    actuator: wp.array(dtype=int)
    site: wp.array(dtype=int)  # its number among the sites that are pushed at
    body: wp.array(dtype=int)
    first: wp.array(dtype=int)  # the degrees of freedom that carry it are first[n] .. first[n + 1]
    dof: wp.array(dtype=int)
    entry: wp.array(dtype=int)  # of its row among tendons for each of these; -1: it has no row


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
            ("actuators", Actuators, ACTUATORS),
            ("motors", Motors, MOTORS),
            ("adhesion", Adhesion, ADHESION),
            ("site_pairs", SitePairs, ACTUATORS and SITES),
            ("flexes", Flexes, FLEXES),
            ("ellipsoids", Ellipsoids, ELLIPSOIDS),
        )
        if there
    }
    if NOSLIP:
        __annotations__ |= {"noslip": noslip_fields.NoSlip}


@wp.func
def contact_column(s: Workspace, d: int, o: vec3, pos: vec3, n: vec3, t1: vec3, t2: vec3, sign: real, slot: int):
    """Rows of a contact for one degree of freedom of body 2 (sign 1) or body 1 (sign -1)."""
    S = s.S[d, slot]
    velocity = lin(S) + wp.cross(ang(S), pos - o)
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
