"""The arrays of contact models whose step is the minimum of a potential, for ``rows.py``."""

import warp as wp

from ..collision.hull_pair import mat66
from ..spatial.scalar import mat33, real, vec3, vec4, vec6
from .flavour import TRIANGLES

# Length, and radius and three sizes of a shape that is no mesh.
vec5 = wp.types.vector(5, real)


class PerWorld:
    boost: wp.array2d(dtype=real)  # of the potential, while the solver is on its way [1]


class PerCoordinate:
    kept_q: wp.array2d(dtype=real)  # before the step


class PerSubstep:
    """Coordinates, or velocities, before each substep: substep · nq + coordinate."""

    substep_q: wp.array2d(dtype=real)
    substep_v: wp.array2d(dtype=real)


class PerPoint:
    point: wp.array2d(dtype=vec3)  # of all shapes, in the world
    old_point: wp.array2d(dtype=vec3)  # before the step


class PerPair:
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


class PerLimit:
    """Two places per limited joint."""

    room: wp.array2d(dtype=real)  # distance from the limit where the last step of the solver led


class PerBody:
    old_o: wp.array2d(dtype=vec3)  # before the step
    drift: wp.array2d(dtype=vec6)  # motion under the velocity that is tried, where the body was before the step
    drag: wp.array2d(dtype=vec6)  # gradient of friction by that; then of all that the body carries
    push: wp.array2d(dtype=vec6)  # gradient of the potential by the pose; then of all that the body carries


class PerEntry:
    kept_H: wp.array2d(dtype=real)  # before it is factorised


class PerDof:
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


# As in ``rows.py``: what the arrays are along, and who uses them.
PARTS = {
    "world": (PerWorld,),
    "dof": (PerDof,),
    "entry": (PerEntry,),
    "coordinate": (PerCoordinate,),
    "point": (PerPoint,),
    "pair": (PerPair,),
    "limit": (PerLimit,),
    "body": (PerBody,),
    "substep": (PerSubstep,),
}
if TRIANGLES:
    PARTS["pair"] += (TrianglesPerPair,)
    PARTS |= {"shape": (TrianglesPerShape,), "visit": (TrianglesPerVisit,), "blend": (TrianglesPerBlend,)}
