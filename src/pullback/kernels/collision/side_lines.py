"""Contacts on the line along the side of a capsule or a cylinder that passes through what is nearest to the other
shape: how they follow when that is another line, because the shapes have turned.
"""

import warp as wp

from ..spatial.algebra import ang, axis_z, lin, pack
from ..spatial.scalar import real, vec3, vec6
from .features import contact_adjoint, quotient
from .shapes import CYLINDER, Approach, Feature, Shape, is_side


@wp.func
def moved(bar: vec6, from_pos: vec3, to_pos: vec3):
    """Moment and force about another point."""
    return pack(ang(bar) + wp.cross(from_pos - to_pos, lin(bar)), lin(bar))


@wp.func(inline=False)
def side_adjoint(s1: Shape, f1: Feature, s2: Shape, pos: vec3, normal: vec3, near: Approach, bar1: vec6, bar2: vec6):
    """What is to be added to the cotangents of the motion of either body (moment about pos; force) and of the sizes of
    either shape, which those of a line that is fixed to its shape leave out.

    The line is at ``radius · across`` from the axis, where ``across`` is the part across the axis of the shape's
    outward normal where the shapes are nearest, of a cylinder as a unit vector. For a capsule the radius includes the
    halo, by which contacts are moved back along the normal of the face.
    """
    first = is_side(f1.kind)
    sign = wp.where(first, real(1.0), real(-1.0))
    axis = axis_z(s2.R)
    force = lin(bar2)
    radius = s2.size[0] + near.halo
    cylinder = s2.kind == CYLINDER
    if first:
        axis = axis_z(s1.R)
        force = lin(bar1)
        radius = s1.size[0] + near.halo
        cylinder = s1.kind == CYLINDER
    outward = sign * near.normal
    across = outward - wp.dot(outward, axis) * axis
    outward_bar = radius * (force - wp.dot(force, axis) * axis)
    if cylinder:
        length = wp.sqrt(wp.dot(across, across))
        aside = wp.cross(axis, across)
        share = quotient(wp.dot(aside, force), length * length * length, real(1.0))
        outward_bar = (radius * share) * aside
        across = quotient(real(1.0), length, real(1.0)) * across

    zero = vec3()
    more1, more2, size1_bar, size2_bar = contact_adjoint(
        s1, near.feature1, s2, near.feature2, near.normal, near.dist, 0, zero, real(0.0), sign * outward_bar, zero, zero
    )
    more1 = moved(more1, near.pos, pos)
    more2 = moved(more2, near.pos, pos)
    # Turning with the shape, the normal does not move the line on it.
    still = pack(-wp.cross(outward, outward_bar), zero)
    back = pack((near.halo * sign) * wp.cross(normal, force), zero)
    swell = vec3(wp.dot(across, force), real(0.0), real(0.0))
    if first:
        more1 += still + back
        more2 -= back
        size1_bar += swell
    else:
        more2 += still + back
        more1 -= back
        size2_bar += swell
    return more1, more2, size1_bar, size2_bar
