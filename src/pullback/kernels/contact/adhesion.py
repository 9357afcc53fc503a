"""Adhesion: actuators that press a body against what it touches, with the adjoint.

Such an actuator shares out its force f over all n contacts of its body: each pulls both bodies together with f/n along
its normal. Contacts in the gap, beyond the margin within which a contact exerts forces of its own, count too. The pulls
are among the forces that the contact model is given: it knows nothing of them.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3
from ..tree.forces import affine_force, affine_force_adjoint, in_range
from ..tree.structs import Params, Tree, Workspace
from .collide import geometry_adjoint, tree_poses
from .flavour import ALL_SHAPES
from .rows import Rows, contact_count, contact_jacobian, contact_motion, push_pair


@wp.func
def swap_contacts(c: Contacts, k: int, other: int, slot: int):
    pair = c.pair[k, slot]
    pos = c.pos[k, slot]
    normal = c.normal[k, slot]
    dist = c.dist[k, slot]
    along = c.along[k, slot]
    feature1 = c.feature1[k, slot]
    feature2 = c.feature2[k, slot]
    c.pair[k, slot] = c.pair[other, slot]
    c.pos[k, slot] = c.pos[other, slot]
    c.normal[k, slot] = c.normal[other, slot]
    c.dist[k, slot] = c.dist[other, slot]
    c.along[k, slot] = c.along[other, slot]
    c.feature1[k, slot] = c.feature1[other, slot]
    c.feature2[k, slot] = c.feature2[other, slot]
    c.pair[other, slot] = pair
    c.pos[other, slot] = pos
    c.normal[other, slot] = normal
    c.dist[other, slot] = dist
    c.along[other, slot] = along
    c.feature1[other, slot] = feature1
    c.feature2[other, slot] = feature2
    if ALL_SHAPES:
        if other < c.approach.shape[0]:
            near = c.approach[k, slot]
            c.approach[k, slot] = c.approach[other, slot]
            c.approach[other, slot] = near


@wp.func
def set_gap_apart(g: Shapes, c: Contacts, r: Rows, reach: real, slot: int):
    """Puts the contacts of the gap behind the others, which keep their order, and counts these alone."""
    found = contact_count(c, slot)
    r.near_count[0, slot] = found
    if c.count[0, slot] == found:  # else there are too many, which is an error
        close = int(0)
        for k in range(found):
            if c.dist[k, slot] < g.pair_margin[c.pair[k, slot]] + reach:
                for back in range(k - close):
                    swap_contacts(c, k - back - 1, k - back, slot)
                close += 1
        c.count[0, slot] = close


@wp.func
def touches(g: Shapes, c: Contacts, k: int, body: int, slot: int):
    pair = c.pair[k, slot]
    return g.body[g.pair_first[pair]] == body or g.body[g.pair_second[pair]] == body


@wp.func
def count_touching(g: Shapes, c: Contacts, r: Rows, body: int, slot: int):
    count = int(0)
    for k in range(r.near_count[0, slot]):
        if touches(g, c, k, body, slot):
            count += 1
    return count


@wp.func
def add_adhesion(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Takes the pulls of all actuators from the bias forces pA of bodies, and keeps them in r.stick."""
    for k in range(r.near_count[0, slot]):
        r.stick[k, slot] = real(0.0)
    for n in range(r.adhesion.actuator.shape[0]):
        i = r.adhesion.actuator[n]
        body = r.adhesion.body[n]
        free_force, _slope = affine_force(p, s, i, real(0.0), real(0.0), world, slot)
        force = wp.clamp(free_force, m.force_low[i], m.force_high[i])
        count = count_touching(g, c, r, body, slot)
        for k in range(r.near_count[0, slot]):
            if touches(g, c, k, body, slot):
                r.stick[k, slot] = r.stick[k, slot] - force / real(count)
    for k in range(r.near_count[0, slot]):
        pull = -r.stick[k, slot] * c.normal[k, slot]
        push_pair(g, s, s.pA, c.pair[k, slot], c.pos[k, slot], vec3(), pull, slot)


@wp.func
def push_adhesion(g: Shapes, s: Workspace, c: Contacts, r: Rows, slot: int):
    """Adds these forces to X_bar of each body: the pairing of w with them is X · force."""
    for k in range(r.near_count[0, slot]):
        push = r.stick[k, slot] * c.normal[k, slot]
        push_pair(g, s, s.X_bar, c.pair[k, slot], c.pos[k, slot], vec3(), push, slot)


@wp.func
def adhesion_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int,
    wants_params: int,
):  # fmt: skip
    """The rest of the cotangents of Σ stick (J w), w being s.tau_bar: of drives, points, normals and parameters."""
    for k in range(r.near_count[0, slot]):
        if k >= contact_count(c, slot):
            contact_jacobian(m, g, s, c, r, k, slot)
        stick = r.stick[k, slot]
        closing = contact_motion(m, r, s.tau_bar, k, slot)
        r.stick_bar[k, slot] = closing[0]
        if stick != real(0.0):
            n = c.normal[k, slot]
            motion = closing[0] * n + closing[1] * r.tangent1[k, slot] + closing[2] * r.tangent2[k, slot]
            spin = vec3()
            for i in range(r.chain_length[k, slot]):
                at = k * m.nv + i
                d = r.chain[at, slot]
                spin += r.side[at, slot] * s.tau_bar[d, slot] * ang(s.S[d, slot])
            geometry_adjoint(
                g, p, p_bar, tree_poses(s), c, k, wp.cross(stick * n, spin), real(0.0), stick * motion, vec3(), vec3(),
                world, slot, wants_params,
            )  # fmt: skip
    for n in range(r.adhesion.actuator.shape[0]):
        i = r.adhesion.actuator[n]
        body = r.adhesion.body[n]
        free_force, _slope = affine_force(p, s, i, real(0.0), real(0.0), world, slot)
        count = count_touching(g, c, r, body, slot)
        force_bar = real(0.0)
        for k in range(r.near_count[0, slot]):
            if touches(g, c, k, body, slot):
                force_bar -= r.stick_bar[k, slot] / real(count)
        force_bar *= in_range(free_force, m.force_low[i], m.force_high[i])
        affine_force_adjoint(p, p_bar, s, i, real(0.0), real(0.0), force_bar, real(0.0), world, slot, wants_params)
