"""What acts on the bodies that a piece of a tendon joins: forces along it, with the adjoint of the work they do."""

import warp as wp

from ..spatial.algebra import pack
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params, Workspace
from .rows import Rows, push_body


@wp.func
def end_point(p: Params, s: Workspace, r: Rows, n: int, side: int, world: int, slot: int):
    """The site where span n begins (side 0) or ends, in the world."""
    body = r.spans.body[n, side]
    return s.pos[body, slot] + s.R[body, slot] * p.site_pos[world, r.spans.site[n, side]]


@wp.func
def add_moment_arms(s: Workspace, r: Rows, n: int, side: int, arm: vec3, force: vec3, slot: int):
    """Adds to J what a force on one body of span n does along the degrees of freedom that move it."""
    W = pack(wp.cross(arm, force), force)
    at = 3 * n + side
    for k in range(r.spans.moved_first[at], r.spans.moved_first[at + 1]):
        i = r.spans.moved[k]
        r.tendon_J[i, slot] = r.tendon_J[i, slot] + wp.dot(s.S[r.tendons.dof[i], slot], W)


@wp.func
def motion_of_end(s: Workspace, r: Rows, n: int, side: int, slot: int):
    """Y of one body of span n, for y = r.tendon_J_bar."""
    Y = vec6()
    at = 3 * n + side
    for k in range(r.spans.moved_first[at], r.spans.moved_first[at + 1]):
        i = r.spans.moved[k]
        Y += r.tendon_J_bar[i, slot] * s.S[r.tendons.dof[i], slot]
    return Y


@wp.func
def moment_arms_adjoint(s: Workspace, r: Rows, n: int, side: int, arm: vec3, force: vec3, slot: int):
    """Adds the cotangents of S in Σ y J, y = r.tendon_J_bar."""
    W = pack(wp.cross(arm, force), force)
    at = 3 * n + side
    for k in range(r.spans.moved_first[at], r.spans.moved_first[at + 1]):
        i = r.spans.moved[k]
        d = r.tendons.dof[i]
        s.S_bar[d, slot] = s.S_bar[d, slot] + r.tendon_J_bar[i, slot] * W


@wp.func
def end_point_adjoint(
    p_bar: Params, s: Workspace, r: Rows, n: int, side: int, x_bar: vec3, arm: vec3, world: int, slot: int,
    wants_params: int,
):  # fmt: skip
    """To the pose of the body, and the site's place in it."""
    body = r.spans.body[n, side]
    push_body(s.W, body, arm, vec3(), x_bar, real(1.0), slot)
    if wants_params == 1:
        site = r.spans.site[n, side]
        p_bar.site_pos[world, site] = p_bar.site_pos[world, site] + wp.transpose(s.R[body, slot]) * x_bar
