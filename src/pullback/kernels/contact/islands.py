"""Bounces add no energy.

Impulses λ do the work b·λ + ½ λᵀ A λ, where b are velocities less what they aim at without restitution: what undoes
depth is not counted. Without restitution it is never positive. With it, friction at one contact may push where another,
on the same bodies, turns velocities round, and all would be faster than before (Kane's paradox). Then the impulses are
scaled by κ < 1 to where their work is zero: friction stays within its bounds, and what still approaches bounces again
in the next step.

There is one κ for each island: trees of bodies that are joined by contacts. An island goes by the smallest root of its
trees.
"""

import warp as wp

from ..collision.shapes import Contacts
from ..spatial.scalar import real
from ..tree.structs import Tree
from .rows import Rows, contact_count

# Share of the energy in impulses that may be rounding [1]: an elastic impact does no work, and is not held back.
ROUNDING = wp.constant(real(1e-6))

# The least κ [1]: what stops an elastic impact.
LEAST = wp.constant(real(0.5))


@wp.func
def rebounds(c: Contacts, r: Rows, slot: int):
    """Whether restitution has a part in any contact's aim."""
    result = bool(False)
    for k in range(contact_count(c, slot)):
        if r.rebound[k, slot] != real(0.0):
            result = True
    return result


@wp.func
def joined_to(r: Rows, root: int, slot: int):
    """The root that a tree's root is joined to, which goes by itself."""
    d = int(root)
    while r.island[d, slot] != d:
        d = r.island[d, slot]
    return d


@wp.func
def find_islands(m: Tree, r: Rows, blocks: int, slot: int):
    """r.island of each degree of freedom."""
    for d in range(m.nv):
        r.island[d, slot] = d
    for k in range(blocks):
        root = r.root[k, slot]
        if root[0] >= 0:
            one = joined_to(r, root[0], slot)
            other = joined_to(r, root[1], slot)
            r.island[wp.max(one, other), slot] = wp.min(one, other)
    for d in range(m.nv):
        above = m.dof_parent[d]
        r.island[d, slot] = r.island[wp.where(above < 0, r.island[d, slot], above), slot]


@wp.func
def island_of(r: Rows, k: int, slot: int):
    """Of block k; -1 if it moves nothing."""
    root = r.root[k, slot][0]
    return wp.where(root < 0, -1, r.island[wp.max(root, 0), slot])


@wp.func
def stopped(c: Contacts, r: Rows, k: int, slot: int):
    """b of block k without restitution."""
    b = r.b[k, slot]
    if k < contact_count(c, slot):
        b[0] = b[0] + r.rebound[k, slot]
    return b


@wp.func
def share_without_work(linear: real, square: real):
    """κ"""
    share = real(1.0)
    counted = (real(1.0) - ROUNDING) * square
    if linear + real(0.5) * counted > real(0.0):
        share = wp.max(real(-2.0) * linear / counted, LEAST)
    return share


@wp.func
def hold_back(m: Tree, c: Contacts, r: Rows, blocks: int, slot: int):
    """Scales y by r.held; r.linear and r.square of each island: b·λ and λᵀ A λ = |y|²."""
    for d in range(m.nv):
        r.linear[d, slot] = real(0.0)
        r.square[d, slot] = real(0.0)
    for k in range(blocks):
        i = island_of(r, k, slot)
        if i >= 0:
            r.linear[i, slot] = r.linear[i, slot] + wp.dot(stopped(c, r, k, slot), r.force[k, slot])
    for d in range(m.nv):
        i = r.island[d, slot]
        r.square[i, slot] = r.square[i, slot] + r.y[d, slot] * r.y[d, slot]
    for d in range(m.nv):
        i = r.island[d, slot]
        r.held[d, slot] = share_without_work(r.linear[i, slot], r.square[i, slot])
        r.y[d, slot] = r.held[d, slot] * r.y[d, slot]


@wp.func
def hold_back_adjoint(m: Tree, r: Rows, slot: int):
    """r.y_bar goes from after y was scaled to before; r.linear and r.square become their own cotangents."""
    for d in range(m.nv):
        r.held_bar[d, slot] = real(0.0)
    for d in range(m.nv):
        i = r.island[d, slot]
        r.held_bar[i, slot] = r.held_bar[i, slot] + r.y_bar[d, slot] * r.y[d, slot] / r.held[d, slot]
    for d in range(m.nv):
        linear_bar = real(0.0)
        square_bar = real(0.0)
        share = r.held[d, slot]
        if r.island[d, slot] == d and share > LEAST and share < real(1.0):
            linear_bar = r.held_bar[d, slot] * share / r.linear[d, slot]
            square_bar = -r.held_bar[d, slot] * share / r.square[d, slot]
        r.linear[d, slot] = linear_bar
        r.square[d, slot] = square_bar
    for d in range(m.nv):
        share = r.held[d, slot]
        square_bar = r.square[r.island[d, slot], slot]
        r.y_bar[d, slot] = share * r.y_bar[d, slot] + real(2.0) * square_bar * r.y[d, slot] / share
