"""Which shapes touch, and where: poses of shapes, a broad phase, and the narrow phase for each kind of pair."""

import warp as wp

from ..collision import narrow
from ..collision.box_box import box_box, edge_end_adjoint
from ..collision.capsule_box import capsule_box, place_adjoint
from ..collision.convex_pairs import convex_pair
from ..collision.features import contact_adjoint
from ..collision.height_field import height_field_pair
from ..collision.shapes import (
    BOX,
    CAPSULE,
    CYLINDER,
    EDGE_END,
    ELLIPSOID_SHAPE,
    HEIGHT_FIELD,
    LINE,
    MESH,
    NEXT_PLACE,
    PLACE,
    PLANE_SHAPE,
    SPHERE,
    Approach,
    Contacts,
    Feature,
    Pair,
    Poses,
    Shape,
    Shapes,
    is_side,
    shape,
)
from ..collision.side_lines import side_adjoint
from ..spatial.algebra import ang, axis_z, lin, pack, quat_matrix, quat_mul
from ..spatial.scalar import real, vec3, vec4, vec6
from ..tree.structs import Params, Workspace
from .flavour import ADHESION, ALL_SHAPES


@wp.func
def tree_poses(s: Workspace):
    """The poses of a tree's bodies, after ``outward``; its W takes their cotangents."""
    poses = Poses()
    poses.pos = s.pos
    poses.quat = s.quat
    poses.R = s.R
    poses.o = s.o
    poses.W = s.W
    return poses


@wp.func
def place_shapes(g: Shapes, p: Params, poses: Poses, c: Contacts, world: int, slot: int):
    for i in range(g.kind.shape[0]):
        body = g.body[i]
        c.x[i, slot] = poses.pos[body, slot] + poses.R[body, slot] * p.shape_pos[world, i]
        c.R[i, slot] = quat_matrix(quat_mul(poses.quat[body, slot], p.shape_quat[world, i]))


@wp.func
def bounding_radius(g: Shapes, i: int, size: vec3):
    kind = g.kind[i]
    radius = size[0]
    if kind == CAPSULE:
        radius = size[0] + size[1]
    elif kind == ELLIPSOID_SHAPE:
        radius = wp.max(size)
    elif kind == CYLINDER:
        radius = wp.sqrt(size[0] * size[0] + size[1] * size[1])
    elif kind == BOX:
        radius = wp.sqrt(wp.dot(size, size))
    elif kind == MESH or kind == HEIGHT_FIELD:
        radius = g.radius[i]
    return radius


@wp.func
def reach_of(g: Shapes, pair: int, more: real):
    """Within which distance the contacts of a pair are found."""
    reach = g.pair_margin[pair] + more
    if ADHESION:
        reach += g.pair_gap[pair]
    return reach


@wp.func
def may_touch(g: Shapes, p: Params, c: Contacts, pair: int, more: real, world: int, slot: int):
    """Whether bounding spheres, or a plane and a bounding sphere, are within reach."""
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    reach = reach_of(g, pair, more) + bounding_radius(g, j, p.shape_size[world, j])
    offset = c.x[j, slot] - c.x[i, slot]
    near = bool(False)
    if g.kind[i] == PLANE_SHAPE:
        near = wp.dot(axis_z(c.R[i, slot]), offset) <= reach
    else:
        reach += bounding_radius(g, i, p.shape_size[world, i])
        near = wp.dot(offset, offset) <= reach * reach
    return near


@wp.func
def shape_of(g: Shapes, p: Params, c: Contacts, i: int, world: int, slot: int):
    return shape(
        g.kind[i], c.x[i, slot], c.R[i, slot], p.shape_size[world, i], g.first_vertex[i], g.first_vertex[i + 1]
    )


@wp.func
def collide_pair(g: Shapes, p: Params, c: Contacts, number: int, more: real, world: int, slot: int):
    """Notes the contacts of one pair."""
    s1 = shape_of(g, p, c, g.pair_first[number], world, slot)
    s2 = shape_of(g, p, c, g.pair_second[number], world, slot)
    pair = Pair()
    pair.number = number
    pair.slot = slot
    pair.reach = reach_of(g, number, more)
    if s1.kind == PLANE_SHAPE:
        if s2.kind == SPHERE:
            narrow.plane_sphere(c, pair, s1, s2)
        elif s2.kind == CAPSULE:
            narrow.plane_capsule(c, pair, s1, s2)
        elif s2.kind == ELLIPSOID_SHAPE:
            narrow.plane_ellipsoid(c, pair, s1, s2)
        elif s2.kind == CYLINDER:
            narrow.plane_cylinder(c, pair, s1, s2)
        elif s2.kind == BOX:
            narrow.plane_box(c, pair, s1, s2)
        else:
            narrow.plane_mesh(c, pair, g.mesh, s1, s2)
    elif s1.kind == SPHERE and s2.kind == SPHERE:
        narrow.sphere_sphere(c, pair, s1, s2)
    elif s1.kind == SPHERE and s2.kind == CAPSULE:
        narrow.sphere_capsule(c, pair, s1, s2)
    elif s1.kind == SPHERE and s2.kind == CYLINDER:
        narrow.sphere_cylinder(c, pair, s1, s2)
    elif s1.kind == SPHERE and s2.kind == BOX:
        narrow.sphere_box(c, pair, s1, s2)
    elif s1.kind == CAPSULE and s2.kind == CAPSULE:
        narrow.capsule_capsule(c, pair, s1, s2)
    elif ALL_SHAPES:
        collide_flat_or_curved(g, c, pair, s1, s2)


@wp.func
def collide_flat_or_curved(g: Shapes, c: Contacts, pair: Pair, s1: Shape, s2: Shape):
    """The pairs that take more than a few lines."""
    if s1.kind == HEIGHT_FIELD:
        height_field_pair(c, pair, g, g.pair_first[pair.number], s1, s2)
    elif s1.kind == CAPSULE and s2.kind == BOX:
        capsule_box(c, pair, s1, s2)
    elif s1.kind == BOX and s2.kind == BOX:
        box_box(c, pair, s1, s2)
    else:
        convex_pair(c, pair, g, s1, s2)


@wp.func
def sweep_axis(g: Shapes, c: Contacts, slot: int):
    """The axis of the world along which the shapes are spread out most."""
    total = vec3()
    squares = vec3()
    for i in range(g.kind.shape[0]):
        if g.kind[i] != PLANE_SHAPE:
            x = c.x[i, slot] - c.x[g.kind.shape[0] - 1, slot]  # shapes far from the origin lose nothing
            total += x
            squares += wp.cw_mul(x, x)
    spread = real(g.kind.shape[0]) * squares - wp.cw_mul(total, total)
    axis = int(0)
    if spread[1] > spread[axis]:
        axis = 1
    if spread[2] > spread[axis]:
        axis = 2
    return axis


@wp.func
def comes_before(c: Contacts, i: int, j: int, slot: int):
    """In the order of the sweep: where shapes begin, and by number where they begin alike."""
    return c.low[i, slot] < c.low[j, slot] or (c.low[i, slot] == c.low[j, slot] and i < j)


@wp.func
def sort_shapes(g: Shapes, p: Params, c: Contacts, more: real, world: int, slot: int):
    """c.order, by insertion: it hardly changes from step to step. The result does not depend on the order before."""
    count = g.kind.shape[0]
    axis = sweep_axis(g, c, slot)
    for i in range(count):
        reach = bounding_radius(g, i, p.shape_size[world, i]) + g.fence[i] + real(0.5) * more
        c.low[i, slot] = c.x[i, slot][axis] - reach
        c.high[i, slot] = c.x[i, slot][axis] + reach
    if c.order[0, slot] == c.order[count - 1, slot]:  # not set yet
        for i in range(count):
            c.order[i, slot] = i
    for a in range(1, count):
        i = c.order[a, slot]
        b = int(a)
        going = bool(True)
        while going:
            going = False
            if b > 0:
                j = c.order[b - 1, slot]
                if comes_before(c, i, j, slot):
                    c.order[b, slot] = j
                    b -= 1
                    going = True
        c.order[b, slot] = i


@wp.func
def detect(g: Shapes, p: Params, poses: Poses, c: Contacts, more: real, world: int, slot: int):
    """All contacts of one world, from the poses of its bodies: pairs within their margin and ``more``.

    Planes are tried with everything; other shapes with those that they overlap along one axis (sweep and prune).
    """
    place_shapes(g, p, poses, c, world, slot)
    c.count[0, slot] = 0
    pairs = g.pair_first.shape[0]
    count = g.kind.shape[0]
    swept = pairs > g.plane_pairs
    if swept:
        sort_shapes(g, p, c, more, world, slot)
    # One loop over plane pairs, then over neighbours in the sweep, so that ``collide_pair`` stands in the code once.
    a = int(0)
    b = int(0)
    going = bool(True)
    while going:
        pair = int(-1)
        if a < g.plane_pairs:
            pair = a
            a += 1
            b = a - g.plane_pairs + 1
        else:
            first = a - g.plane_pairs
            if not swept or first >= count - 1:
                going = False
            elif b >= count:
                a += 1
                b = first + 2
            else:
                i = c.order[first, slot]
                j = c.order[b, slot]
                b += 1
                if c.low[j, slot] > c.high[i, slot]:
                    a += 1
                    b = first + 2
                else:
                    pair = g.pair_of[i, j]
        if pair >= 0:
            if may_touch(g, p, c, pair, more, world, slot):
                collide_pair(g, p, c, pair, more, world, slot)


@wp.func
def pair_adjoint(
    s1: Shape, f1: Feature, s2: Shape, f2: Feature, near: Approach, pos: vec3, normal: vec3, dist: real, along: int,
    pos_bar: vec3, dist_bar: real, n_bar: vec3, t1_bar: vec3, t2_bar: vec3,
):  # fmt: skip
    """``contact_adjoint``, and what features do not say of a contact: the motion of points along an edge, an axis, or
    around it."""
    g1 = f1
    g2 = f2
    rest_bar = pos_bar
    passing = bool(False)
    if ALL_SHAPES:
        passing = f1.kind == EDGE_END or f2.kind == EDGE_END
        if passing:
            g1.kind = LINE
            g2.kind = LINE
            rest_bar = vec3()
    bar1, bar2, size1_bar, size2_bar = contact_adjoint(
        s1, g1, s2, g2, normal, dist, along, rest_bar, dist_bar, n_bar, t1_bar, t2_bar
    )
    if ALL_SHAPES:
        if passing:
            more1, more2, grow1, grow2 = edge_end_adjoint(s1, f1, s2, f2, pos, normal, dist, pos_bar, dist_bar)
            bar1 += more1
            bar2 += more2
            size1_bar += grow1
            size2_bar += grow2
        if f1.kind == PLACE or f1.kind == NEXT_PLACE:
            along_axis = wp.dot(lin(bar1), axis_z(s1.R))
            more, grow1, grow2 = place_adjoint(s1, s2, pos, f1.kind == NEXT_PLACE, along_axis)
            bar1 += more
            bar2 -= more
            size1_bar += grow1
            size2_bar += grow2
        if is_side(f1.kind) or is_side(f2.kind):
            around1, around2, swell1, swell2 = side_adjoint(s1, f1, s2, pos, normal, near, bar1, bar2)
            bar1 += around1
            bar2 += around2
            size1_bar += swell1
            size2_bar += swell2
    return bar1, bar2, size1_bar, size2_bar


@wp.func
def shape_adjoint(
    p_bar: Params, poses: Poses, i: int, body: int, s: Shape, pos: vec3, bar: vec6, size_bar: vec3,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds the cotangent of a shape's motion (moment about pos; force) to those of its body and its parameters."""
    force = lin(bar)
    poses.W[body, slot] = poses.W[body, slot] + pack(ang(bar) + wp.cross(pos - poses.o[body, slot], force), force)
    if wants_params == 1:
        p_bar.shape_size[world, i] = p_bar.shape_size[world, i] + size_bar
        p_bar.shape_pos[world, i] = p_bar.shape_pos[world, i] + wp.transpose(poses.R[body, slot]) * force
        turn = wp.transpose(s.R) * (ang(bar) + wp.cross(pos - s.x, force))
        p_bar.shape_quat[world, i] = p_bar.shape_quat[world, i] + vec4(turn[0], turn[1], turn[2], real(0.0))


@wp.func
def geometry_adjoint(
    g: Shapes, p: Params, p_bar: Params, poses: Poses, c: Contacts, k: int,
    pos_bar: vec3, dist_bar: real, n_bar: vec3, t1_bar: vec3, t2_bar: vec3,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From the cotangents of a contact's point, distance and frame to the poses of the bodies and the shapes' sizes."""
    pair = c.pair[k, slot]
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    s1 = shape_of(g, p, c, i, world, slot)
    s2 = shape_of(g, p, c, j, world, slot)
    pos = c.pos[k, slot]
    near = Approach()
    if ALL_SHAPES:
        if k < c.approach.shape[0]:
            near = c.approach[k, slot]
    bar1, bar2, size1_bar, size2_bar = pair_adjoint(
        s1, c.feature1[k, slot], s2, c.feature2[k, slot], near, pos, c.normal[k, slot], c.dist[k, slot],
        c.along[k, slot], pos_bar, dist_bar, n_bar, t1_bar, t2_bar,
    )  # fmt: skip
    shape_adjoint(p_bar, poses, i, g.body[i], s1, pos, bar1, size1_bar, world, slot, wants_params)
    shape_adjoint(p_bar, poses, j, g.body[j], s2, pos, bar2, size2_bar, world, slot, wants_params)
