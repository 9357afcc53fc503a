"""Surfaces that may touch each other: what they are, and the workspace for it."""

import warp as wp

from ..spatial.scalar import mat33, real, vec3, vec4

Boxes = wp.array2d(dtype=vec3)  # [world, node]


@wp.struct
class Touch:
    """Corners, faces and edges of all surfaces, the same in all worlds, and the pairs of them that are close.

    A tree is a list of nodes, each before all those below it: ``skip`` is the node after them, and ``item`` what a leaf
    holds, or -1. Faces and edges are numbered as leaves are, so that those of a node come one after the other.
    """

    vertices: wp.array(dtype=int)
    faces: wp.array(dtype=wp.vec3i)
    face_skip: wp.array(dtype=int)
    face_item: wp.array(dtype=int)
    edges: wp.array(dtype=wp.vec2i)
    edge_length: wp.array(dtype=real)  # at rest [m]
    edge_skip: wp.array(dtype=int)
    edge_item: wp.array(dtype=int)
    edge_last: wp.array(dtype=int)  # the last edge of a node
    within: wp.array(dtype=wp.vec3i)  # a vertex of each piece of surface, and from where to where its body's are
    widest: real  # how far vertices may go before pairs are looked for again, at most [m]

    face_low: Boxes
    face_high: Boxes
    edge_low: Boxes
    edge_high: Boxes

    # Pairs closer than the gap and twice the margin when they were looked for, of a vertex and a face, then of edges.
    origin: wp.array2d(dtype=vec3)  # where vertices were then [m]
    margin: wp.array(dtype=real)  # [world]: as long as no vertex goes further than this, no other pair touches [m]
    pair_count: wp.array(dtype=int)
    corners: wp.array2d(dtype=wp.vec4i)  # [world, pair]
    parallel: wp.array2d(dtype=real)  # below it, the square of the product of edges says that they are [m⁴]; 0: a face
    apart: wp.array2d(dtype=real)  # the distance then [m]

    active_count: wp.array(dtype=int)
    active: wp.array2d(dtype=int)  # those of them that may touch where the solver is

    # Friction, of the pairs that touch before the step.
    rub_count: wp.array(dtype=int)
    rub_corners: wp.array2d(dtype=wp.vec4i)
    rub_parallel: wp.array2d(dtype=real)
    rub_weights: wp.array2d(dtype=vec4)
    rub_normal: wp.array2d(dtype=vec3)
    rub_force: wp.array2d(dtype=real)  # [N]

    # Blocks of the Hessian that the mesh has none for: a list for each row.
    block_count: wp.array(dtype=int)
    block_head: wp.array2d(dtype=int)  # [world, vertex]: the row's first, or -1
    block_next: wp.array2d(dtype=int)
    block_column: wp.array2d(dtype=int)
    block: wp.array2d(dtype=mat33)

    target: wp.array2d(dtype=vec3)  # of the motion of handles [m]
    arrived: wp.array(dtype=int)  # whether handles are where the step moves them
    unrest: wp.array(dtype=wp.float64)  # the residual when they moved last, or 0
    overflow: wp.array(dtype=int)  # whether there was no room for something of the above
