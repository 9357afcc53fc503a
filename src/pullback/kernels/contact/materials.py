"""How the parameters of two shapes in contact are mixed, each with its adjoint."""

import warp as wp

from ..collision.shapes import Shapes
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params
from .flavour import ROWS, vecr
from .law import LEAST_FRICTION, spring


@wp.func
def mixed_friction(p: Params, g: Shapes, pair: int, world: int):
    """Coefficients of each row of a contact: the larger of the two materials'. That of the normal is not used."""
    f1 = p.friction[world, g.pair_material1[pair]]
    f2 = p.friction[world, g.pair_material2[pair]]
    friction = vecr()
    for j in range(1, ROWS):
        friction[j] = wp.max(wp.max(f1[j - 1], f2[j - 1]), LEAST_FRICTION)
    return friction


@wp.func
def mixed_friction_adjoint(p: Params, p_bar: Params, g: Shapes, pair: int, friction_bar: vecr, world: int):
    """To the material with the larger coefficient; half each where they are the same, the mean of both sides."""
    a = g.pair_material1[pair]
    b = g.pair_material2[pair]
    f1 = p.friction[world, a]
    f2 = p.friction[world, b]
    bar1 = vec6()
    bar2 = vec6()
    for j in range(1, ROWS):
        share = real(0.5)
        if f1[j - 1] > f2[j - 1]:
            share = real(1.0)
        elif f1[j - 1] < f2[j - 1]:
            share = real(0.0)
        if wp.max(f1[j - 1], f2[j - 1]) >= LEAST_FRICTION:
            bar1[j - 1] = share * friction_bar[j]
            bar2[j - 1] = (real(1.0) - share) * friction_bar[j]
    p_bar.friction[world, a] = p_bar.friction[world, a] + bar1
    p_bar.friction[world, b] = p_bar.friction[world, b] + bar2


@wp.func
def mixed_solref(p: Params, g: Shapes, pair: int, world: int):
    """The materials' solref, weighted; the smaller of each number if one is given directly (negative)."""
    r1 = p.solref[world, g.pair_material1[pair]]
    r2 = p.solref[world, g.pair_material2[pair]]
    share = g.pair_share1[pair]
    result = share * r1 + (real(1.0) - share) * r2
    if r1[0] <= real(0.0) or r2[0] <= real(0.0):
        result = wp.min(r1, r2)
    return result


@wp.func
def mixed_solref_adjoint(p: Params, p_bar: Params, g: Shapes, pair: int, bar: vec3, world: int):
    a = g.pair_material1[pair]
    b = g.pair_material2[pair]
    r1 = p.solref[world, a]
    r2 = p.solref[world, b]
    share = g.pair_share1[pair]
    bar1 = share * bar
    bar2 = (real(1.0) - share) * bar
    if r1[0] <= real(0.0) or r2[0] <= real(0.0):
        for j in range(2):
            first = real(0.5)
            if r1[j] < r2[j]:
                first = real(1.0)
            elif r1[j] > r2[j]:
                first = real(0.0)
            bar1[j] = first * bar[j]
            bar2[j] = (real(1.0) - first) * bar[j]
    p_bar.solref[world, a] = p_bar.solref[world, a] + bar1
    p_bar.solref[world, b] = p_bar.solref[world, b] + bar2


@wp.func
def mixed_solimp(p: Params, g: Shapes, pair: int, world: int):
    share = g.pair_share1[pair]
    return (
        share * p.solimp[world, g.pair_material1[pair]] + (real(1.0) - share) * p.solimp[world, g.pair_material2[pair]]
    )


@wp.func
def mixed_solimp_adjoint(p_bar: Params, g: Shapes, pair: int, bar: vec6, world: int):
    share = g.pair_share1[pair]
    a = g.pair_material1[pair]
    b = g.pair_material2[pair]
    p_bar.solimp[world, a] = p_bar.solimp[world, a] + share * bar
    p_bar.solimp[world, b] = p_bar.solimp[world, b] + (real(1.0) - share) * bar


@wp.func
def friction_damping(g: Shapes, solimp: vec6, b: real, pair: int):
    """Damping of the rows of friction: that of the normal, unless the pair says otherwise."""
    own = g.pair_solref_friction[pair]
    result = b
    if g.elliptic == 1 and (own[0] != real(0.0) or own[1] != real(0.0)):
        _k, result = spring(own, solimp, g.shortest_time)
    return result
