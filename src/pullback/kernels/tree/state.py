"""Copies of states: in the workspace, and to and from trajectories."""

import warp as wp

from ..spatial.scalar import real
from .structs import Tree, Workspace


@wp.func
def keep_state(m: Tree, s: Workspace, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), copy: int, slot: int):
    """s.q, s.v to a copy of q, v."""
    for i in range(m.nq):
        q[copy * m.nq + i, slot] = s.q[i, slot]
    for d in range(m.nv):
        v[copy * m.nv + d, slot] = s.v[d, slot]


@wp.func
def take_state(m: Tree, s: Workspace, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), copy: int, slot: int):
    """s.q, s.v from a copy of q, v."""
    for i in range(m.nq):
        s.q[i, slot] = q[copy * m.nq + i, slot]
    for d in range(m.nv):
        s.v[d, slot] = v[copy * m.nv + d, slot]


@wp.func(inline=True)
def read_state(
    m: Tree, s: Workspace, q: wp.array3d(dtype=real), v: wp.array3d(dtype=real), row: int, world: int, slot: int
):
    """s.q, s.v from a row of the trajectory."""
    for i in range(m.nq):
        s.q[i, slot] = q[row, world, i]
    for d in range(m.nv):
        s.v[d, slot] = v[row, world, d]


@wp.func(inline=True)
def write_state(
    m: Tree, s: Workspace, q: wp.array3d(dtype=real), v: wp.array3d(dtype=real), row: int, world: int, slot: int
):
    """s.q, s.v to a row of the trajectory."""
    for i in range(m.nq):
        q[row, world, i] = s.q[i, slot]
    for d in range(m.nv):
        v[row, world, d] = s.v[d, slot]
