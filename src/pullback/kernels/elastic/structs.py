"""The kernels' view of meshes, parameters, states and workspace."""

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from .flavour import SELF_CONTACT

if SELF_CONTACT:
    from .touch import Touch

vec8 = wp.types.vector(8, real)
wide8 = wp.types.vector(8, wp.float64)
wide12 = wp.types.vector(12, wp.float64)
mat43 = wp.types.matrix((4, 3), real)  # a vector for each corner of a tetrahedron
mat22 = wp.types.matrix((2, 2), real)

Vectors = wp.array2d(dtype=vec3)  # [world, vertex]
Matrices = wp.array2d(dtype=mat33)
Trajectory = wp.array4d(dtype=real)  # [row, world, vertex, axis]


@wp.struct
class Mesh:
    """Vertices, elements and where their blocks of the Hessian are; the same in all worlds.

    Blocks are stored row by row: those of vertex i are from ``first[i]`` to ``first[i + 1]``.
    """

    handle: wp.array(
        dtype=int
    )  # of each vertex: -1 is free, -2 fixed, else the number of the handle that it is part of

    tets: wp.array(dtype=wp.vec4i)
    tet_rest: wp.array(dtype=mat43)  # gradients of the four shape functions at rest [1/m]
    tet_volume: wp.array(dtype=real)  # [m³]
    tet_group: wp.array(dtype=int)
    tet_place: wp.array2d(dtype=int)  # [element, 4 a + b]: block of corners a and b
    solid_kind: wp.array(dtype=int)  # material, by group

    triangles: wp.array(dtype=wp.vec3i)
    triangle_rest: wp.array(dtype=mat22)  # gradients of the last two shape functions in the plane at rest [1/m]
    triangle_area: wp.array(dtype=real)  # [m²]
    triangle_group: wp.array(dtype=int)
    triangle_place: wp.array2d(dtype=int)  # [element, 3 a + b]
    cloth_kind: wp.array(dtype=int)

    hinges: wp.array(dtype=wp.vec4i)  # ends of the edge, and the vertices across
    hinge_weights: wp.array(dtype=vec4)  # the mean curvature at the edge is a sum of vertices, times these
    hinge_group: wp.array(dtype=int)
    hinge_place: wp.array2d(dtype=int)

    first: wp.array(dtype=int)
    column: wp.array(dtype=int)
    diagonal: wp.array(dtype=int)  # the block of each vertex with itself


@wp.struct
class Scene:
    """Shapes, where they are in the step that a world is at, and how near contact begins."""

    kind: wp.array(dtype=int)
    size: wp.array(dtype=vec3)
    position: wp.array3d(dtype=vec3)  # [before the step or after it, world, shape]
    rotation: wp.array3d(dtype=mat33)
    gap: real  # below this distance a shape pushes [m]
    slip: real  # below this velocity friction is weaker, so that it has a derivative [m/s]


@wp.struct
class Path:
    """Where shapes are at the beginning and at the end of steps: [step, world, shape]."""

    position: wp.array3d(dtype=vec3)
    rotation: wp.array3d(dtype=mat33)
    end_position: wp.array3d(dtype=vec3)
    end_rotation: wp.array3d(dtype=mat33)
    moves: int  # 0 if they stand still: then there is one row


@wp.struct
class Law:
    solids: wp.array2d(dtype=vec8)  # [world, group], in the places of kinds.py
    cloths: wp.array2d(dtype=vec8)
    around: wp.array2d(dtype=vec8)  # [world, 0]
    friction: wp.array2d(dtype=real)  # [world, shape]


@wp.struct
class LawBar:
    solids: wp.array2d(dtype=wide8)
    cloths: wp.array2d(dtype=wide8)
    around: wp.array2d(dtype=wide8)
    friction: wp.array2d(dtype=wp.float64)


@wp.struct
class Work:
    """Workspace of a step."""

    mass: wp.array2d(dtype=real)  # [kg]
    mass_bar: wp.array2d(dtype=real)
    before: Vectors  # x
    velocity: Vectors  # v
    moved: Vectors  # x' - x so far: it has digits that x' has no room for, and the velocity needs them
    after: Vectors  # x' so far
    trial: Vectors
    gradient: Vectors  # of the potential by x'
    move: Vectors  # the unknown of conjugate gradients
    residual: Vectors
    direction: Vectors
    image: Vectors  # Hessian times direction
    inverse: Matrices  # of the Hessian's diagonal blocks: the preconditioner, zero for vertices that are held
    blocks: Matrices  # of the Hessian
    impulse: wp.array2d(dtype=vec6)  # that shapes got, [world, shape]; on the way back its cotangent
    motion_bar: wp.array2d(dtype=wide12)  # of a turn and a shift of a shape before the step, and of those after it
    if SELF_CONTACT:
        touch: Touch


@wp.struct
class Step:
    """Numbers of the implicit solver."""

    dt: real
    solved: wp.float64  # a residual this small, relative to stiffness times size, is a solution [1]
    finest: wp.float64  # and is made smaller until it is this small, or until rounding keeps it from that [1]
    size: real  # of the whole [m]
    most_newton: int
    most_iterations: int


@wp.struct
class States:
    """A trajectory while it is made. The state of step t is in row t % 2 of ``now``."""

    now_x: Trajectory
    now_v: Trajectory
    rows_x: Trajectory
    rows_v: Trajectory
    now_impulse: wp.array2d(dtype=vec6)
    rows_impulse: wp.array3d(dtype=vec6)
    path: Path
    controls: wp.array3d(dtype=real)
    keep_every: int
    steps: int
    status: wp.array2d(dtype=int)
    culprit: wp.array(dtype=int)
    counts: wp.array2d(dtype=int)  # of Newton steps, and of iterations of conjugate gradients


@wp.struct
class Bars:
    """A piece of a trajectory, and cotangents on their way back through it."""

    rows_x: Trajectory
    rows_v: Trajectory
    rows_x_bar: Trajectory
    rows_v_bar: Trajectory
    carry_x: Trajectory  # [0, world, vertex, axis]
    carry_v: Trajectory
    rows_impulse_bar: wp.array3d(dtype=vec6)
    carry_impulse: wp.array2d(dtype=vec6)
    path: Path
    motion_bar: wp.array3d(dtype=wide12)  # [step, world, shape]
    last: Vectors  # lam of the step that was gone back through last, and of the one before: a first guess
    before_last: Vectors
    controls_bar: wp.array3d(dtype=real)
    law: LawBar
    every_row: int
    wants_params: int
    status: wp.array2d(dtype=int)
    counts: wp.array2d(dtype=int)


@wp.func(inline=True)
def read(x: Trajectory, row: int, world: int, i: int):
    return vec3(x[row, world, i, 0], x[row, world, i, 1], x[row, world, i, 2])


@wp.func(inline=True)
def write(x: Trajectory, row: int, world: int, i: int, value: vec3):
    x[row, world, i, 0] = value[0]
    x[row, world, i, 1] = value[1]
    x[row, world, i, 2] = value[2]
