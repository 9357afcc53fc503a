"""The kernels' view of particles, grid and parameters.

Nodes of the grid are four numbers, momentum or velocity and mass, in the plane too; in the backward pass eight. A row
is all nodes along the last axis, which lie one behind the other in memory.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from .flavour import mat, vec

vec8 = wp.types.vector(8, real)
wide6 = wp.types.vector(6, wp.float64)
wide12 = wp.types.vector(12, wp.float64)
# Parameters of a material, in the places of ``kinds``.
vecm = wp.types.vector(10, real)
widem = wp.types.vector(10, wp.float64)

Vectors = wp.array3d(dtype=vec)  # [row, world, particle]
Matrices = wp.array3d(dtype=mat)
Numbers = wp.array3d(dtype=real)
Axes = wp.array3d(dtype=vec3)  # [step, world, shape]


@wp.struct
class Body:
    """The particles, as they are in every world."""

    group: wp.array(dtype=int)  # of each particle
    volume: wp.array(dtype=real)  # at rest [m³], in the plane [m²]
    kind: wp.array(dtype=int)  # material of each group
    muscle: wp.array(dtype=int)  # of each group, -1 for none
    direction: wp.array(dtype=vec)  # of each muscle, at rest; of unit length


@wp.struct
class Grid:
    """Nodes at origin + dx · (i, j, k)."""

    shape: wp.vec3i  # nodes along each axis; in the plane (nx, 1, ny)
    origin: vec
    dx: real  # [m]
    inverse: real  # 1/dx
    affine: real  # 4/dx²: the inverse of what D D^T is on average
    h: real  # timestep [s]
    walls: int
    normals: wp.array(dtype=vec3)  # of each wall, into what is free
    hold: wp.array(dtype=int)  # how, as ``kinds`` has it
    covered: wp.array(dtype=int)  # of each node, one bit per wall that it lies behind


@wp.struct
class Shapes:
    """Shapes that move, or stand where they are: then they have one row for all steps."""

    kind: wp.array(dtype=int)
    hold: wp.array(dtype=int)  # how, as ``kinds`` has it
    moves: int
    rotation: wp.array3d(dtype=mat33)  # [step or 0, world, shape]
    position: Axes
    angular: Axes  # velocities
    linear: Axes


@wp.struct
class Law:
    """Parameters, per world."""

    groups: wp.array2d(dtype=vecm)  # [world, group], in the places of ``kinds``
    gravity: wp.array2d(dtype=vec3)  # [world, 0]
    friction: wp.array2d(dtype=real)  # [world, wall]
    strength: wp.array2d(dtype=real)  # [world, muscle]
    shape_friction: wp.array2d(dtype=real)  # [world, shape]
    shape_size: wp.array2d(dtype=vec3)


@wp.struct
class LawBar:
    """Cotangents, one set per lane and world, in double precision: they are sums over all particles and steps."""

    groups: wp.array2d(dtype=widem)
    gravity: wp.array2d(dtype=wp.vec3d)
    friction: wp.array2d(dtype=wp.float64)
    strength: wp.array2d(dtype=wp.float64)
    shape_friction: wp.array2d(dtype=wp.float64)
    shape_size: wp.array2d(dtype=wp.vec3d)


@wp.struct
class State:
    """[row, world, particle], and of shapes [row, world, shape]"""

    x: Vectors
    v: Vectors
    C: Matrices
    F: Matrices
    Jp: Numbers
    impulse: wp.array3d(dtype=vec6)


@wp.struct
class Work:
    """Workspace. ``own`` holds a grid for each lane, all zero between steps; ``nodes`` what becomes of their sum over
    the cores that share a world, at the first of their lanes.

    Of every row of its grid a lane knows which nodes it has touched, low to high, and which rows, first to end.
    """

    own: wp.array(dtype=vec4)  # momentum and mass [lane · nodes + node]
    nodes: wp.array(dtype=vec4)  # velocity and mass
    own_bar: wp.array(dtype=vec8)  # the same, and the cotangent of the velocity
    nodes_bar: wp.array(dtype=vec8)  # velocity, and the cotangents of momentum and mass
    affine: wp.array(dtype=mat)  # A dx of every particle [lane · particles + particle]
    low: wp.array2d(dtype=int)  # [lane, row]
    high: wp.array2d(dtype=int)
    rows: wp.array2d(dtype=int)  # [lane, first or end]
    given: wp.array2d(dtype=wide6)  # [lane, shape] what each got in a step: of angular momentum, then linear


@wp.struct
class Forward:
    """A forward pass: the state of step t is now[t % ring]; ``kept`` has every keep_every-th, from row 1 on."""

    now: State
    kept: State
    ring: int
    keep_every: int
    steps: int
    controls: Numbers  # [step, world, muscle]
    shapes: Shapes
    status: wp.array2d(
        dtype=wp.vec3i
    )  # [lane, world]: what stopped it, in which step and particle; negative if nothing


@wp.struct
class Bars:
    """A backward pass: what it reads of a trajectory, and where cotangents go."""

    rows: State  # one row more than steps
    rows_bar: State  # cotangents of all rows but the last, if every_row
    every_row: int
    wants_params: int
    controls: Numbers
    controls_bar: wp.array3d(dtype=wp.float64)  # [step, lane · worlds + world, muscle]
    shapes: Shapes
    # [step, lane · worlds + world, shape]: of a turn in the world's axes, a shift, angular and linear velocity
    motion_bar: wp.array3d(dtype=wide12)
    carry: State  # one row: the cotangent of the state that the pass has come to
    law: LawBar
    running: wp.array(dtype=int)  # [world], zero where the trajectory failed
