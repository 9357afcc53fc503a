"""Meshes of triangles in the energy that a step minimises: its gradient and Hessian, and which moves are safe.

P of a pair depends on the motion of shape 2 against shape 1 alone, so what ``mesh_field`` says of the motions of shape
2 about o says all. With f its gradient by points, let M(motion) = Σ (motion at x) × f: moving shape 2 along e, and then
turning it and e's axis by ω, has the second derivative ω·M(e) besides that of P. Moving shape 1 is moving shape 2 the
other way, in the other order.
"""

import warp as wp

from ..collision.features import contact_frame
from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang, lin, pack
from ..spatial.scalar import mat33, real, vec3, vec6
from ..tree.structs import Params, Tree, Workspace
from .flavour import vecr
from .mesh_pair import is_mesh_pair, mesh_distance, mesh_field, mesh_overlaps, mesh_share
from .rows import Rows
from .shape_hulls import about


@wp.func
def mesh_gaps(g: Shapes, p: Params, c: Contacts, r: Rows, first: int, world: int, slot: int):
    """As ``find_gaps``, of pairs with meshes of triangles."""
    share = real(1.0)
    for pair in range(g.plane_pairs, g.pair_first.shape[0]):
        if is_mesh_pair(g, pair) and share > real(0.0):
            if first == 0:
                share = wp.min(share, mesh_share(g, p, c, r, pair, world, slot))
            elif mesh_overlaps(g, p, c, r, pair, world, slot):
                share = real(-1 - pair)
    return share


@wp.func
def keep_poses(g: Shapes, c: Contacts, r: Rows, slot: int):
    """From now on moves of meshes are measured against where they are."""
    for i in range(g.kind.shape[0]):
        r.kept_x[i, slot] = c.x[i, slot]
        r.kept_R[i, slot] = c.R[i, slot]


@wp.func
def opposite_at(push: vec6, o: vec3, x: vec3):
    """Minus a moment and force about o, about x."""
    return -pack(ang(push) + wp.cross(o - x, lin(push)), lin(push))


@wp.func
def mesh_energy(g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, pair: int, mu: real, world: int, slot: int):
    """μ P of a pair, its field in r, its gradient added to the bodies'; and 1 if all planes were found."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    o = s.o[body2, slot]
    field = mesh_field(g, p, c, r, pair, o, world, slot)
    r.mesh_push[pair, slot] = field.push
    r.mesh_lever[pair, slot] = field.lever
    r.mesh_curvature[pair, slot] = field.curvature
    push = mu * field.push
    r.push[body2, slot] = r.push[body2, slot] + push
    r.push[body1, slot] = r.push[body1, slot] + opposite_at(push, o, s.o[body1, slot])
    return mu * field.value, field.found


@wp.func
def path_moment_of(motion: vec6, force: vec3, lever: mat33):
    """M, with Σ f and Σ f ⊗ (x - o)."""
    turn = ang(motion)
    return wp.cross(lin(motion), force) + wp.transpose(lever) * turn - wp.trace(lever) * turn


@wp.func
def add_mesh_side(m: Tree, s: Workspace, r: Rows, body: int, pair: int, o: vec3, sign: real, count: int, slot: int):
    """The degrees of freedom of a body join those that move a pair's shapes. Returns how many there are now."""
    last = int(count)
    for d in range(m.body_dof[body], m.body_dof[body + 1]):
        motion = about(r.motion[d, slot], s.o[body, slot], o)
        r.link[last, slot] = d
        r.link_side[last, slot] = sign
        r.link_motion[last, slot] = motion
        r.link_push[last, slot] = r.mesh_curvature[pair, slot] * motion
        r.link_moment[last, slot] = path_moment_of(motion, lin(r.mesh_push[pair, slot]), r.mesh_lever[pair, slot])
        last += 1
    return last


@wp.func
def add_mesh_curvature(m: Tree, g: Shapes, s: Workspace, r: Rows, pair: int, mu: real, slot: int):
    """Adds to r.H the Hessian of a pair by the degrees of freedom that move its shapes against each other."""
    body1 = g.body[g.pair_first[pair]]
    body2 = g.body[g.pair_second[pair]]
    o = s.o[body2, slot]
    count = int(0)
    while body1 != body2:
        if body2 > body1:
            count = add_mesh_side(m, s, r, body2, pair, o, real(1.0), count, slot)
            body2 = m.body_parent[body2]
        else:
            count = add_mesh_side(m, s, r, body1, pair, o, real(-1.0), count, slot)
            body1 = m.body_parent[body1]
    for a in range(count):
        for b in range(a + 1):
            inner = int(a)  # the one that carries the other, if they are of one side
            outer = int(b)
            if r.link[a, slot] > r.link[b, slot]:
                inner = b
                outer = a
            turns = int(inner)  # the one that comes after the other
            moves = int(outer)
            sign = r.link_side[a, slot] * r.link_side[b, slot]
            if sign < real(0.0):
                if r.link_side[inner, slot] > real(0.0):
                    turns = outer
                    moves = inner
            elif r.link_side[a, slot] < real(0.0):
                turns = outer
                moves = inner
            total = wp.dot(r.link_motion[a, slot], r.link_push[b, slot])
            total += wp.dot(ang(r.link_motion[turns, slot]), r.link_moment[moves, slot])
            at = r.link[outer, slot] * m.nv + r.link[inner, slot]
            r.H[at, slot] = r.H[at, slot] + (mu * sign) * total


@wp.func
def note_mesh_contact(
    g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, pair: int, mu: real, world: int, slot: int
):
    """The one force that all pushes add up to, where its line is nearest to half-way between the shapes' origins."""
    middle = real(0.5) * (c.x[g.pair_first[pair], slot] + c.x[g.pair_second[pair], slot])
    push = opposite_at(r.mesh_push[pair, slot], s.o[g.body[g.pair_second[pair]], slot], middle)
    force = lin(push)
    size = wp.length(force)
    n = force / size
    c.pair[pair, slot] = pair
    c.pos[pair, slot] = middle + wp.cross(force, ang(push)) / (size * size)
    c.normal[pair, slot] = n
    c.dist[pair, slot] = mesh_distance(g, p, c, r, pair, world, slot)
    t1, t2 = contact_frame(n, 0, c.R[g.pair_second[pair], slot])
    r.tangent1[pair, slot] = t1
    r.tangent2[pair, slot] = t2
    r.force[pair, slot] = vecr(mu * size, real(0.0), real(0.0))
