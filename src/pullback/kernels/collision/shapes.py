"""Shapes that can touch, and the record of a contact between two of them.

A contact has a point half-way between the two surfaces, a unit normal from shape 1 to shape 2 and a signed distance, as
in MuJoCo: the surface of shape 1 is at pos - dist/2 · normal, that of shape 2 at pos + dist/2 · normal.

How these move when the shapes move or grow depends on which *feature* of each shape is touched. A feature is a simple
thing fixed to its shape (its core), which may be inflated by a radius:

    kind       core                   the normal             ``edge``          used by
    POINT      a point                is free                -                 sphere, end of a capsule, corner
    LINE       a straight line        is orthogonal to it    unit, along it    side of a capsule or cylinder, edge
    PLANE      a plane                is that of the plane   -                 plane, face, cap of a cylinder
    CIRCLE     the rim of a cylinder  is free                unit axis         cylinder
    ELLIPSOID  a whole ellipsoid      is free                -                 ellipsoid

Where flat lies on flat, more points are made by clipping a face or an edge against a face. The face that gives the
normal is a PLANE; its partner is one of

    CUT        where an edge of this shape pierces a side plane of the PLANE's shape: ``edge`` is along it, and the
               PLANE's own ``edge`` is the unit normal of the side plane
    FACE       a face of this shape, met by the line that leaves a corner of the PLANE's shape along the normal:
               ``edge`` is the unit normal of the face, and the PLANE's ``pin`` that of the corner
    FOOT       a face of this shape, met by the perpendicular to it through a corner of the PLANE's shape: as FACE
    FOOT_CUT   as FOOT, through the place where an edge of the PLANE's shape passes over an edge of this face. With unit
               vectors n, its normal, s into the face and l = n × s along its edge, the PLANE's ``edge`` is
               l + slope · (n - s): when its own edge moves by d, the foot moves along l by d · (l - slope · s). The
               PLANE's ``pin`` is that of its edge
    SIDE_END   an end of the line on the surface of a capsule or a cylinder that is parallel to its axis and passes
               through what is nearest to the other shape; ``edge`` is along the axis
    SIDE_CUT   where this line pierces a side plane of the PLANE's shape: as CUT

The core lies inside the surface by the radius: that of a sphere and a capsule always but for the last two, that of a
cylinder if the feature is a LINE, else nothing (``inflation``). The last two move when the normal does where shapes are
nearest, which is not that of the contact: it is noted beside them (``Approach``).

``pin`` says how the core grows with the shape's sizes: its component along local axis k is the derivative, by the size
that belongs to this axis, of the local coordinate k of the core (of the face and of the side plane, for a PLANE with
CUT; of the corner, with FACE and FOOT; of the edge, with FOOT_CUT). Box: axis k has size k. Capsule: axis z has size 1.
Cylinder: axes x and y have size 0, axis z has size 1. Meshes have no sizes. A CIRCLE's radius and the sizes of an
ELLIPSOID are not pins.

A cylinder's cap is clipped as a polygon: its corners are POINTs with pins along their radius, its edges are CUT.
"""

import math

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4, vec6

# Shorter than this [m] is no direction; the same bound MuJoCo uses.
SMALLEST_LENGTH = wp.constant(real(1e-15))

HALF_SQRT3 = wp.constant(real(math.sqrt(0.75)))

# Types of shapes, as MuJoCo numbers them; a contact's shape 1 has the lower number.
PLANE_SHAPE = wp.constant(0)
HEIGHT_FIELD = wp.constant(1)
SPHERE = wp.constant(2)
CAPSULE = wp.constant(3)
ELLIPSOID_SHAPE = wp.constant(4)
CYLINDER = wp.constant(5)
BOX = wp.constant(6)
MESH = wp.constant(7)

# Features.
POINT = wp.constant(0)
LINE = wp.constant(1)
PLANE = wp.constant(2)
CIRCLE = wp.constant(3)
ELLIPSOID = wp.constant(4)
CUT = wp.constant(5)
FACE = wp.constant(6)
# Points of a rim a third of a turn away from the CIRCLE's: turned about ``edge`` by +120° (LEFT) and by -120° (RIGHT),
# counted by the right-hand rule. The CIRCLE's own point is the one farthest along minus the normal, for shape 2.
CIRCLE_LEFT = wp.constant(7)
CIRCLE_RIGHT = wp.constant(8)
# Places on the axis of a capsule that slide along it: the one closest to an edge or a corner of a box that touches it,
# and where the axis, going on from there, leaves the box behind. Points in all else; see ``capsule_box``.
PLACE = wp.constant(10)
NEXT_PLACE = wp.constant(11)
# An end of a LINE: of a box's edge that the edge of another passes by, whose normal is orthogonal to both.
EDGE_END = wp.constant(12)
FOOT = wp.constant(13)
FOOT_CUT = wp.constant(14)
SIDE_END = wp.constant(15)
SIDE_CUT = wp.constant(16)


@wp.struct
class Feature:
    """What is touched of one shape."""

    kind: int
    edge: vec3
    pin: vec3


@wp.struct
class Mesh:
    """Corners of the convex hulls of all meshes, one after the other, in their shapes' frames."""

    vertex: wp.array(dtype=vec3)
    # Corners that share an edge with corner i are neighbour[first_neighbour[i]] .. neighbour[first_neighbour[i + 1]].
    first_neighbour: wp.array(dtype=int)
    neighbour: wp.array(dtype=int)
    # Faces that meet in corner i are face[first_face[i]] .. face[first_face[i + 1]].
    first_face: wp.array(dtype=int)
    face: wp.array(dtype=int)
    # The corners of face i are, in turn, corner[first_corner[i]] .. corner[first_corner[i + 1]].
    face_normal: wp.array(dtype=vec3)
    first_corner: wp.array(dtype=int)
    corner: wp.array(dtype=int)


@wp.struct
class Balls:
    """Meshes as triangles in a hierarchy of balls, in their shapes' frames (``pullback.contact.triangles``)."""

    root: wp.array(dtype=int)  # per shape: a node, or -1
    centre: wp.array(dtype=vec3)  # per node
    radius: wp.array(dtype=real)
    spread: wp.array(dtype=real)
    share: wp.array(dtype=real)
    child: wp.array(dtype=int)  # the first of two; of a leaf -1 less the number of its triangle
    corners: wp.array(dtype=vec3)  # three per triangle
    blend: real  # over how much of the distance of two nodes they become one each [1]


@wp.struct
class Shapes:
    """Shapes and the pairs of them that may touch: nothing here is differentiated."""

    kind: wp.array(dtype=int)  # per shape
    body: wp.array(dtype=int)
    first_vertex: wp.array(dtype=int)  # of a mesh's hull; the next entry is its end
    mesh: Mesh

    radius: wp.array(dtype=real)  # of a mesh or height field: how far it reaches from the shape's origin

    # Per shape, of a height field: points along y and x, and half its width along x and y, its depth [m]. Its corners
    # are those of prisms, six each, from the prism's centre; see ``height_field``.
    grid: wp.array(dtype=wp.vec2i)
    grid_size: wp.array(dtype=vec3)

    fence: wp.array(dtype=real)  # half of the largest margin among a shape's pairs
    pair_of: wp.array2d(dtype=int)  # the pair of two shapes that are no planes, or -1
    plane_pairs: int  # pairs with a plane come first
    one_contact: int  # 1: pairs without a collider of their own make one contact, even flat on flat

    pair_first: wp.array(dtype=int)  # per pair: shape 1 and shape 2, of which shape 1 has the lower type
    pair_second: wp.array(dtype=int)
    pair_dim: wp.array(dtype=int)  # 1: no friction, 3: sliding, 4: and torsion, 6: and rolling
    pair_margin: wp.array(dtype=real)  # only contacts nearer than this [m] exert forces
    pair_gap: wp.array(dtype=real)  # how much farther apart they are still found, where there is adhesion
    pair_material1: wp.array(dtype=int)  # the materials that are mixed
    pair_material2: wp.array(dtype=int)
    pair_share1: wp.array(dtype=real)  # the first one's share in solref and solimp
    pair_weight: wp.array(dtype=int)  # which of the inverse weights it has: that of both bodies together
    pair_solref_friction: wp.array(dtype=vec3)  # zero: friction has the solref of the normal direction

    joint_width: int  # degrees of freedom in a row of joints, at most
    limit_joint: wp.array(dtype=int)  # joints that are limited; the next two have tendons after these
    limit_margin: wp.array(dtype=real)
    limit_weight: wp.array(dtype=int)  # which of the inverse weights it has
    limit_arm: wp.array(dtype=real)  # inertia of what the joint carries over its mass, in the file's pose [m² or 1]
    loss_dof: wp.array(dtype=int)  # degrees of freedom with friction loss; the next three have tendons after these
    loss_weight: wp.array(dtype=int)  # likewise
    loss_solref: wp.array(dtype=vec3)
    loss_solimp: wp.array(dtype=vec6)

    # Shapes as hulls of points: those of shape i are first_point[i] .. first_point[i + 1], each times the sizes of its
    # shape (``hull_scale``, ``core_scale``).
    first_point: wp.array(dtype=int)
    point: wp.array(dtype=vec3)
    inner_radius: wp.array(dtype=real)  # of a ball inside of each shape, in the file [m]
    max_substeps: int
    substep_share: real  # of the smaller inner radius, by which shapes that could meet move in a substep [1]
    has_friction: int  # 1: some pair has
    pair_mass: wp.array(dtype=real)  # of each pair: m₁ m₂ / (m₁ + m₂) of the trees that the two belong to [kg]
    balls: Balls

    # long range in the backward pass alone
    far_strength: wp.array(dtype=real)  # of each pair: μ [J]
    far_inset: wp.array(dtype=real)  # of each shape: how far its surface is moved inwards [m]
    far_length: real  # [m]

    sweeps: int  # of the impulse solver
    rest_speed: real  # bodies that meet slower than this do not bounce
    root_mass: wp.array(dtype=real)  # of degrees of freedom at the root of a tree: its mass in the file; others zero
    elliptic: int  # 1: elliptic friction cones, 0: pyramids
    impratio: real
    shortest_time: real  # [s] solref's time constants are not taken shorter


@wp.struct
class Shape:
    """A shape in its place."""

    kind: int
    x: vec3  # position
    R: mat33  # its axes are the columns
    size: vec3  # as MuJoCo has it
    first: int  # corner of a mesh's hull ...
    end: int  # ... and where its corners end
    spread: mat33  # of an ellipsoid, R diag(size²) Rᵀ: it reaches √(nᵀ spread n) far along n


@wp.struct
class Pair:
    """Two shapes that are tried: where their contacts are noted."""

    number: int
    slot: int
    reach: real  # only contacts nearer than this [m] are noted


@wp.struct
class Poses:
    """Where bodies are, ``[body, slot]``, and the cotangents of that: of a tree, or of anything else that can touch."""

    pos: wp.array2d(dtype=vec3)
    quat: wp.array2d(dtype=vec4)
    R: wp.array2d(dtype=mat33)
    o: wp.array2d(dtype=vec3)  # the point that W is taken about
    W: wp.array2d(dtype=vec6)  # moment and force: moving the body by the motion d changes the pairing by W·d


@wp.struct
class Approach:
    """Where two shapes are nearest: a contact as it would be without faces and edges that make others."""

    pos: vec3
    normal: vec3
    dist: real
    feature1: Feature
    feature2: Feature
    halo: real  # how far the line of a SIDE_END or SIDE_CUT lies outside of a capsule's surface [m]


@wp.struct
class Contacts:
    """The shapes and contacts of one world, ``[item, slot]``."""

    x: wp.array2d(dtype=vec3)  # poses of the shapes
    R: wp.array2d(dtype=mat33)

    # the broad phase: shapes in the order of where they begin along an axis, and where they end
    order: wp.array2d(dtype=int)
    low: wp.array2d(dtype=real)
    high: wp.array2d(dtype=real)

    count: wp.array2d(dtype=int)  # one item: how many were found, which may be more than the arrays hold
    pair: wp.array2d(dtype=int)
    pos: wp.array2d(dtype=vec3)
    normal: wp.array2d(dtype=vec3)
    dist: wp.array2d(dtype=real)
    along: wp.array2d(dtype=int)  # 1: the first tangent lies along axis z of shape 2, else it follows from the normal
    feature1: wp.array2d(dtype=Feature)
    feature2: wp.array2d(dtype=Feature)
    approach: wp.array2d(dtype=Approach)  # of contacts with a SIDE_END or SIDE_CUT; empty where no pair has them


@wp.func
def feature(kind: int, edge: vec3, pin: vec3):
    f = Feature()
    f.kind = kind
    f.edge = edge
    f.pin = pin
    return f


@wp.func
def bare(kind: int):
    """A feature that needs no edge and does not grow."""
    return feature(kind, vec3(), vec3())


@wp.func
def corner(pin: vec3):
    """A point that grows with the sizes of its shape."""
    return feature(POINT, vec3(), pin)


@wp.func
def shape(kind: int, x: vec3, R: mat33, size: vec3, first: int, end: int):
    s = Shape()
    s.kind = kind
    s.x = x
    s.R = R
    s.size = size
    s.first = first
    s.end = end
    if kind == ELLIPSOID_SHAPE:
        E = R * wp.diag(size)
        s.spread = E * wp.transpose(E)
    return s


@wp.func
def is_side(kind: int):
    return kind == SIDE_END or kind == SIDE_CUT


@wp.func
def is_inflated(s: Shape, kind: int):
    """Whether the surface lies outside the core of a feature of this kind: by the shape's first size."""
    round = s.kind == SPHERE or (s.kind == CAPSULE and not is_side(kind))
    return round or (s.kind == CYLINDER and kind == LINE)


@wp.func
def inflation(s: Shape, kind: int):
    """How far it does."""
    return wp.where(is_inflated(s, kind), s.size[0], real(0.0))


@wp.func
def add_contact(
    c: Contacts, pair: Pair, dist: real, pos: vec3, normal: vec3, along: int, feature1: Feature, feature2: Feature
):
    """Notes a contact, unless it is out of reach; exactly at its reach it is out, as in MuJoCo."""
    if dist < pair.reach:
        slot = pair.slot
        k = c.count[0, slot]
        c.count[0, slot] = k + 1
        if k < c.pair.shape[0]:
            c.pair[k, slot] = pair.number
            c.pos[k, slot] = pos
            c.normal[k, slot] = normal
            c.dist[k, slot] = dist
            c.along[k, slot] = along
            c.feature1[k, slot] = feature1
            c.feature2[k, slot] = feature2


@wp.func
def add_contact_of(
    c: Contacts, pair: Pair, swapped: bool, dist: real, pos: vec3, normal: vec3, mine: Feature, yours: Feature
):
    """The same, where ``mine`` is of shape 1 unless swapped; the normal leads from ``mine`` to ``yours``."""
    n = normal
    first = mine
    second = yours
    if swapped:
        n = -normal
        first = yours
        second = mine
    add_contact(c, pair, dist, pos, n, 0, first, second)
