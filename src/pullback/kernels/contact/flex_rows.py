"""What flexes have in the workspace of a world, and what they are made of."""

import warp as wp

from ..spatial.scalar import mat33, mat66, real, vec3, vec6

mat44 = wp.types.matrix((4, 4), real)


class PerFlexVertex:
    flex_x: wp.array2d(dtype=vec3)
    flex_v: wp.array2d(dtype=vec3)
    flex_force: wp.array2d(dtype=vec3)
    flex_xi: wp.array2d(dtype=vec3)  # virtual velocity
    flex_x_bar: wp.array2d(dtype=vec3)
    flex_v_bar: wp.array2d(dtype=vec3)


class PerFlexEdge:
    flex_stretch: wp.array2d(dtype=real)
    flex_pull: wp.array2d(dtype=real)
    flex_stretch_bar: wp.array2d(dtype=real)
    flex_pull_bar: wp.array2d(dtype=real)


# As in ``rows.py``: what the arrays are along, and who uses them.
FLEX_PARTS = {"flex vertex": (PerFlexVertex,), "flex edge": (PerFlexEdge,)}


@wp.struct
class Flexes:
    """Vertices on bodies, and what holds them together: nothing here is differentiated."""

    body: wp.array(dtype=int)  # per vertex
    place: wp.array(dtype=vec3)  # in the frame of its body
    edge: wp.array(dtype=wp.vec2i)  # both vertices
    edge_flex: wp.array(dtype=int)
    rest: wp.array(dtype=real)  # length
    triangle_flex: wp.array(dtype=int)
    triangle_edge: wp.array2d(dtype=int)
    triangle_A: wp.array(dtype=mat33)
    triangle_b: wp.array(dtype=vec3)
    solid_flex: wp.array(dtype=int)  # per tetrahedron
    solid_edge: wp.array2d(dtype=int)
    solid_A: wp.array(dtype=mat66)
    solid_b: wp.array(dtype=vec6)
    hinge: wp.array(dtype=wp.vec4i)  # both vertices of an edge, and those opposite to it in its two triangles
    hinge_flex: wp.array(dtype=int)
    hinge_Q: wp.array(dtype=mat44)
    hinge_curve: wp.array(dtype=real)
