"""Joint accelerations, from the state, the controls and the forces applied."""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real
from ..status import HEALTHY, TOO_MANY_CONTACTS
from ..tree.applied import Applied, applied_forces
from ..tree.curved import add_curved_forces
from ..tree.ellipsoids import ellipsoid_forces
from ..tree.forces import fluid_forces, joint_forces
from ..tree.gyroscopic import gyroscopic
from ..tree.mocap import place_mocap
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import bias_forces, eliminate, outward, substitute
from .collide import detect, tree_poses
from .flavour import (
    ADHESION,
    CURVED,
    ELLIPSOIDS,
    FLEXES,
    FORCES,
    IMPLICIT,
    IMPULSES,
    MOCAP,
    POTENTIAL,
    SHARES,
    TENDONS,
    TIED,
)
from .refinement import keep_closed, step_reach
from .rows import Rows

if FORCES:
    from .model import forces, margin
if IMPULSES:
    from .model import impulses, margin
if POTENTIAL:
    from .mass_matrix import composite_bodies
    from .model import descend
if IMPLICIT:
    from .implicit import implicit_accelerations
if TENDONS:
    from .tendons import all_joint_forces, find_accelerations
if ADHESION:
    from .adhesion import add_adhesion, set_gap_apart
if TIED:
    from .tied_bodies import tied_gyroscopic
if FLEXES:
    from .flexes import flex_forces

# In a state larger than this, inertias that vanish are rounding, and the fault is the motion's.
FLOWN_AWAY = wp.constant(real(1e6))


@wp.func
def size_of_state(m: Tree, s: Workspace, slot: int):
    total = real(0.0)
    for d in range(m.nv):
        total += wp.abs(s.v[d, slot])
    for i in range(m.nq):
        total += wp.abs(s.q[i, slot])
    return total


@wp.func
def accelerate(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    t: int,
    world: int,
    slot: int,
):
    """Joint accelerations s.a from s.q, s.v, controls[t, world] and the forces applied.

    What the adjoint needs stays in s, c and r. Returns the status.
    """
    outward(m, p, s, world, slot)
    if MOCAP:
        if f.has_mocap == 1:
            place_mocap(m, p, s, f, t, world, slot)
    if TENDONS:
        all_joint_forces(m, p, s, r, controls, t, world, slot)
    else:
        joint_forces(m, p, s, controls, t, world, slot)
    if CURVED:
        add_curved_forces(m, p, s, world, slot)
    bias_forces(m, p, s, world, slot)
    if m.has_fluid == 1:
        fluid_forces(m, p, s, world, slot)
    if ELLIPSOIDS:
        ellipsoid_forces(p, s, r.ellipsoids, world, slot)
    if FLEXES:
        flex_forces(m, p, s, r, world, slot)
    applied_forces(m, p, s, f, t, world, slot)
    status = int(HEALTHY)
    if FORCES:
        reach = margin(p, world)
        if SHARES:
            reach += step_reach(m, g, p, s, world, slot)
        detect(g, p, tree_poses(s), c, reach, world, slot)
        if ADHESION:
            set_gap_apart(g, c, r, reach, slot)
            add_adhesion(m, g, p, s, c, r, world, slot)
        if SHARES:
            keep_closed(m, g, s, c, slot)
        status = forces(m, g, p, s, c, r, world, slot)
    if POTENTIAL:
        composite_bodies(m, p, s, r, world, slot)
    singular = int(-1)
    if IMPLICIT:
        singular = implicit_accelerations(m, p, s, r, world, slot)
    elif TENDONS:
        singular = find_accelerations(m, p, s, r, world, slot)
    else:
        singular = eliminate(m, p, s, world, slot)
        substitute(m, s, slot)
    if IMPLICIT:
        pass  # was found with all that is implicit
    elif TIED:
        tied_gyroscopic(m, p, s, r, world, slot)
    else:
        gyroscopic(m, p, s, world, slot)
    if IMPULSES:
        detect(g, p, tree_poses(s), c, margin(p, world), world, slot)
        impulses(m, g, p, s, c, r, world, slot)
    if POTENTIAL:
        status = descend(m, g, p, s, c, r, world, slot)
    if FORCES or IMPULSES:
        if c.count[0, slot] > c.pair.shape[0]:
            status = TOO_MANY_CONTACTS
    if singular >= 0 and size_of_state(m, s, slot) < FLOWN_AWAY:
        status = singular
    return status
