"""Walls: what they make of the velocity of a node behind them, and the adjoint.

A node that moves away from a wall is free. One that moves into it keeps no velocity at a sticky wall, and else loses
the normal part, and of the tangential one as much as Coulomb's friction takes. A wall that clamps lets nothing move.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from .kinds import CLAMPED, RUBS
from .structs import Grid, Law, LawBar


@wp.func(inline=True)
def friction_share(mu: real, normal: real, speed: real):
    """How much of a tangential velocity a wall leaves, 1 or less; zero or less where the node sticks."""
    share = real(1.0)
    if mu > real(0.0):
        share = real(-1.0)
        if speed > real(0.0):
            share = real(1.0) + mu * normal / speed
    return share


@wp.func(inline=True)
def stopped(g: Grid, m: Law, wall: int, v: vec3, world: int):
    """A velocity as one wall leaves it."""
    n = g.normals[wall]
    normal = wp.dot(v, n)
    result = v
    if normal < real(0.0) or g.hold[wall] == CLAMPED:
        result = vec3()
        if g.hold[wall] == RUBS:
            tangential = v - normal * n
            share = friction_share(m.friction[world, wall], normal, wp.length(tangential))
            if share > real(0.0):
                result = share * tangential
    return result


@wp.func
def walled(g: Grid, m: Law, covered: int, v: vec3, world: int):
    """A velocity as all walls that cover the node leave it, one after the other."""
    for wall in range(g.walls):
        if (covered >> wall) & 1 == 1:
            v = stopped(g, m, wall, v, world)
    return v


@wp.func
def walled_adjoint(
    g: Grid, m: Law, bar: LawBar, wants_params: int, covered: int, v: vec3, v_bar: vec3, world: int, place: int
):
    """The cotangent of a velocity from that of what all walls leave of it."""
    for back in range(g.walls):
        last = g.walls - 1 - back
        if (covered >> last) & 1 == 1:
            before = v
            for wall in range(last):
                if (covered >> wall) & 1 == 1:
                    before = stopped(g, m, wall, before, world)
            n = g.normals[last]
            normal = wp.dot(before, n)
            if normal < real(0.0) or g.hold[last] == CLAMPED:
                given = v_bar
                v_bar = vec3()
                if g.hold[last] == RUBS:
                    mu = m.friction[world, last]
                    tangential = before - normal * n
                    speed = wp.length(tangential)
                    share = friction_share(mu, normal, speed)
                    if share > real(0.0):
                        v_bar = share * (given - wp.dot(given, n) * n)
                        if mu > real(0.0):
                            along = tangential / speed
                            pull = wp.dot(along, given)
                            v_bar += mu * pull * (n - normal / speed * along)
                        if wants_params == 1 and speed > real(0.0):
                            by_friction = wp.float64(normal / speed * wp.dot(tangential, given))
                            bar.friction[place, last] = bar.friction[place, last] + by_friction
    return v_bar
