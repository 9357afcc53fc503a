"""Cotangents of shapes that are hulls of points."""

import warp as wp

from ..collision.shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID_SHAPE, SPHERE, Contacts, Shapes
from ..spatial.algebra import pack
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params, Workspace
from .collide import shape_adjoint, shape_of, tree_poses


@wp.struct
class HullBar:
    """Cotangents of one hull: of its pose, as a force about o; of what its points are multiplied with; its radius."""

    moment: vec3
    force: vec3
    scale: vec3
    radius: real
    push: vec6  # gradient of P by its pose


@wp.func
def add_point_bar(
    bar: HullBar, g: Shapes, c: Contacts, i: int, k: int, x: vec3, x_bar: vec3, gradient: vec3, slot: int
):
    """With the cotangent of point k of shape i, which is x away from o, and the gradient of P by it."""
    bar.moment += wp.cross(x, x_bar)
    bar.force += x_bar
    bar.scale += wp.cw_mul(g.point[k], wp.transpose(c.R[i, slot]) * x_bar)
    bar.push += pack(wp.cross(x, gradient), gradient)
    return bar


@wp.func
def size_bar_of(kind: int, bar: HullBar):
    size_bar = vec3()
    if kind == BOX or kind == ELLIPSOID_SHAPE:
        size_bar = bar.scale
    elif kind == SPHERE:
        size_bar[0] = bar.radius
    elif kind == CAPSULE:
        size_bar = vec3(bar.radius + bar.scale[0] + bar.scale[1], bar.scale[2], real(0.0))
    elif kind == CYLINDER:
        size_bar = vec3(bar.scale[0] + bar.scale[1], bar.scale[2], real(0.0))
    return size_bar


@wp.func
def hull_bar_adjoint(
    g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, i: int, bar: HullBar, mu: real,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds -μ times the cotangents of shape i to those of its body and its parameters."""
    body = g.body[i]
    s.X_bar[body, slot] = s.X_bar[body, slot] - mu * bar.push
    both = -mu * pack(bar.moment, bar.force)
    shape = shape_of(g, p, c, i, world, slot)
    size_bar = -mu * size_bar_of(g.kind[i], bar)
    o = s.o[body, slot]
    shape_adjoint(p_bar, tree_poses(s), i, body, shape, o, both, size_bar, world, slot, wants_params)
