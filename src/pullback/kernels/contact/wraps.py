"""Pieces of tendons that wrap around spheres and cylinders: from a site to the next one, past a geom of a third body.

Where such a piece touches its geom, its length is a function of where its two sites are in the frame of the geom
(``spatial/wrapping.py``), and its derivative by their places is a pair of forces. Each acts on the body of its site,
and against the body of the geom, at the place of the site.

For the adjoint, a cotangent y of J is paired with J as a motion of the joints, and Σ y J is Σ F · v, with v the motion
of a site against the geom's body. F turns with the geom, and the cotangent of a site's place is the rate of F for these
v, since second derivatives are symmetric.
"""

import warp as wp

from ..spatial.algebra import ang, quat_matrix, quat_mul, velocity_at
from ..spatial.scalar import mat33, real, vec3, vec4
from ..spatial.wrapping import Bend, bend_rate, find_bend
from ..tree.structs import Params, Workspace
from .rows import Rows, push_body
from .span_ends import add_moment_arms, end_point_adjoint, moment_arms_adjoint, motion_of_end

# Of the geom, among the bodies of a span.
AROUND = wp.constant(2)


@wp.func
def geom_frame(p: Params, s: Workspace, r: Rows, n: int, world: int, slot: int):
    """Centre and axes of the geom that span n may wrap around, in the world."""
    body = r.spans.body[n, AROUND]
    at = r.spans.geom[n]
    centre = s.pos[body, slot] + s.R[body, slot] * p.shape_pos[world, at]
    return centre, quat_matrix(quat_mul(s.quat[body, slot], p.shape_quat[world, at]))


@wp.func
def find_wrap(p: Params, s: Workspace, r: Rows, n: int, x0: vec3, x1: vec3, world: int, slot: int):
    """The way of span n in the frame of its geom, and the axes of this frame; none if it has no geom."""
    bend = Bend()
    bend.there = 0
    R = mat33()
    if r.spans.geom[n] >= 0:
        centre, R = geom_frame(p, s, r, n, world, slot)
        back = wp.transpose(R)
        side = vec3()
        has_side = int(0)
        site = r.spans.side[n]
        if site >= 0:
            body = r.spans.side_body[n]
            has_side = 1
            side = back * (s.pos[body, slot] + s.R[body, slot] * p.site_pos[world, site] - centre)
        radius = p.shape_size[world, r.spans.geom[n]][0]
        bend = find_bend(back * (x0 - centre), back * (x1 - centre), radius, r.spans.is_cylinder[n], has_side, side)
    return bend, R


@wp.func
def add_wrap_arms(s: Workspace, r: Rows, n: int, x0: vec3, x1: vec3, force0: vec3, force1: vec3, slot: int):
    """Adds to J what both forces do against the body of the geom."""
    o = s.o[r.spans.body[n, AROUND], slot]
    add_moment_arms(s, r, n, AROUND, x0 - o, -force0, slot)
    add_moment_arms(s, r, n, AROUND, x1 - o, -force1, slot)


@wp.func
def wrap_adjoint(
    p: Params, p_bar: Params, s: Workspace, r: Rows, n: int, bend: Bend, R: mat33, x0: vec3, x1: vec3,
    length_bar: real, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of a span that wraps, in ``path_adjoint``: adds the cotangents of S, poses, places of sites and the geom."""
    body = r.spans.body[n, AROUND]
    weight = r.spans.weight[n]
    arm0 = x0 - s.o[r.spans.body[n, 0], slot]
    arm1 = x1 - s.o[r.spans.body[n, 1], slot]
    held0 = x0 - s.o[body, slot]
    held1 = x1 - s.o[body, slot]
    Y0 = motion_of_end(s, r, n, 0, slot)
    Y1 = motion_of_end(s, r, n, 1, slot)
    Y = motion_of_end(s, r, n, AROUND, slot)
    v0 = velocity_at(Y0, arm0) - velocity_at(Y, held0)
    v1 = velocity_at(Y1, arm1) - velocity_at(Y, held1)
    force0 = weight * (R * bend.force0)
    force1 = weight * (R * bend.force1)
    rate0, rate1, radius_rate = bend_rate(bend, wp.transpose(R) * v0, wp.transpose(R) * v1)
    push0 = weight * (R * rate0) + length_bar * force0  # the cotangents of both places in the frame of the geom
    push1 = weight * (R * rate1) + length_bar * force1
    turn = wp.cross(force0, v0) + wp.cross(force1, v1)
    moment_arms_adjoint(s, r, n, 0, arm0, force0, slot)
    moment_arms_adjoint(s, r, n, 1, arm1, force1, slot)
    moment_arms_adjoint(s, r, n, AROUND, held0, -force0, slot)
    moment_arms_adjoint(s, r, n, AROUND, held1, -force1, slot)
    x0_bar = push0 + wp.cross(force0, ang(Y0) - ang(Y))
    x1_bar = push1 + wp.cross(force1, ang(Y1) - ang(Y))
    end_point_adjoint(p_bar, s, r, n, 0, x0_bar, arm0, world, slot, wants_params)
    end_point_adjoint(p_bar, s, r, n, 1, x1_bar, arm1, world, slot, wants_params)
    push_body(s.W, body, held0, -turn, push0, real(-1.0), slot)
    push_body(s.W, body, held1, vec3(), push1, real(-1.0), slot)
    if wants_params == 1:
        at = r.spans.geom[n]
        centre, _R = geom_frame(p, s, r, n, world, slot)
        pos_bar = wp.transpose(s.R[body, slot]) * (push0 + push1)
        p_bar.shape_pos[world, at] = p_bar.shape_pos[world, at] - pos_bar
        moment = wp.transpose(R) * (turn - wp.cross(x0 - centre, push0) - wp.cross(x1 - centre, push1))
        p_bar.shape_quat[world, at] = p_bar.shape_quat[world, at] + vec4(moment[0], moment[1], moment[2], real(0.0))
        size_bar = p_bar.shape_size[world, at]
        size_bar[0] += weight * (radius_rate + length_bar * bend.by_radius)
        p_bar.shape_size[world, at] = size_bar
