"""ContactLongRange, as a step calls it: the velocity after the step minimises E of ``potential.py``.

Newton's method with the exact Hessian, or, where that is not positive definite, with a part of it that is. A step of
the solver leaves half of every gap along a direction that is fixed in the world or in one of the two shapes, so that
nothing passes through anything, and the plane between two shapes is always known. Its length is accepted by the
approximate Wolfe conditions of Hager and Zhang, which look at slopes: differences of energies drown in rounding.
"""

import warp as wp

from ..collision.features import contact_frame
from ..collision.hull_pair import hull_value, normal_of
from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec3
from ..status import BEYOND_LIMIT, HEALTHY, NOT_CONVERGED, OVERLAP
from ..tree.structs import Params, Tree, Workspace
from .flavour import vecr
from .longrange_adjoint import descend_adjoint
from .mass_matrix import factorise, solve_factored
from .potential import (
    assemble,
    energy,
    find_gaps,
    half_space_value,
    hulls_of,
    is_half_space,
    keep_gaps,
    place_everything,
    strength,
)
from .rows import Rows

__all__ = ["descend", "descend_adjoint"]

# The solver ends when its step is this small beside the velocity without contact and a millimetre per second [1] ...
SMALL_STEP = wp.constant(real(1e-11))
SLOW = wp.constant(real(1e-3))
# ... or when all terms of the gradient cancel to this share of them.
BALANCED = wp.constant(real(1e-14))
# How far from balance the solution may be.
NEARLY_BALANCED = wp.constant(real(1e-7))
MOST_TRIALS = wp.constant(1000)
# Hager and Zhang's: energies may grow by this share, slopes by that.
ENERGY_SHARE = wp.constant(real(1e-9))
SLOPE_SHARE = wp.constant(real(0.8))


@wp.func
def couple_all(m: Tree, g: Shapes, r: Rows, slot: int):
    """If shapes push each other, everything depends on everything: all columns of H may be nonzero."""
    r.coupled[0, slot] = 0
    if g.pair_first.shape[0] > g.plane_pairs:
        r.coupled[0, slot] = 1
        for d in range(m.nv):
            r.columns_count[d, slot] = d
            for e in range(d):
                r.columns[d * m.nv + e, slot] = d - 1 - e


@wp.func
def is_definite(m: Tree, r: Rows, slot: int):
    """Whether all pivots that ``factorise`` left are positive."""
    definite = bool(True)
    for d in range(m.nv):
        inverse = r.H[d * m.nv + d, slot]
        definite = definite and inverse > real(0.0) and inverse < real(1e30)
    return definite


@wp.func
def find_step(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """r.step = -H⁻¹ gradient. Returns its largest entry."""
    exact = int(1)
    searching = bool(True)
    while searching:
        assemble(m, g, p, s, c, r, exact, world, slot)
        factorise(m, r, slot)
        searching = exact == 1 and not is_definite(m, r, slot)
        exact = 0
    largest = real(0.0)
    for d in range(m.nv):
        r.step[d, slot] = -r.gradient[d, slot]
    solve_factored(m, r, r.step, slot)
    for d in range(m.nv):
        largest = wp.max(largest, wp.abs(r.step[d, slot]))
    return largest


@wp.func
def imbalance(m: Tree, r: Rows, slot: int):
    """The largest entry of the gradient beside the largest of the terms that it is the sum of."""
    largest = real(0.0)
    scale = real(1e-300)
    for d in range(m.nv):
        largest = wp.max(largest, wp.abs(r.gradient[d, slot]))
        scale = wp.max(scale, r.scale[d, slot])
    return largest / scale


@wp.func
def descend(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """s.a such that s.v + h s.a minimises E; from s.a without contact. Returns the status.

    Bodies, shapes and points are left where the step leads, and r.v is the velocity there.
    """
    fastest = real(0.0)
    for i in range(m.nq):
        r.kept_q[i, slot] = s.q[i, slot]
    for d in range(m.nv):
        at = d * m.nv + d
        r.M[at, slot] = r.M[at, slot] + s.diagonal[d, slot]
        free = s.v[d, slot] + m.timestep * s.a[d, slot]
        r.free[d, slot] = free
        r.v[d, slot] = real(0.0)
        r.best[d, slot] = real(0.0)
        r.step[d, slot] = real(0.0)
        fastest = wp.max(fastest, wp.abs(free))
    couple_all(m, g, r, slot)
    status = int(NOT_CONVERGED)
    first = int(1)
    last = int(0)
    t = real(1.0)
    E_start = real(0.0)
    slope_start = real(0.0)
    trials = int(0)
    going = bool(True)
    while going:
        trials += 1
        place_everything(m, g, p, s, c, r, world, slot)
        share = find_gaps(m, g, p, s, c, r, first, world, slot)
        accepted = bool(False)
        E = real(0.0)
        if share <= real(0.0):
            what = int(-share) - 1
            status = OVERLAP - what
            if what >= g.pair_first.shape[0]:
                status = BEYOND_LIMIT - (what - g.pair_first.shape[0])
            going = False
        elif share < real(1.0):
            t = share * t
        else:
            E, found = energy(m, g, p, s, c, r, world, slot)
            slope = real(0.0)
            for d in range(m.nv):
                slope += r.gradient[d, slot] * r.step[d, slot]
            falls = E <= E_start + ENERGY_SHARE * wp.abs(E_start) and slope <= -SLOPE_SHARE * slope_start
            accepted = found == 1 and (first == 1 or last == 1 or falls)
            if slope > real(0.0) and not accepted:
                t = t * wp.clamp(slope_start / (slope_start - slope), real(0.1), real(0.7))
            else:
                t = real(0.5) * t
        if accepted:
            keep_gaps(m, g, p, s, c, r, world, slot)
            for d in range(m.nv):
                r.best[d, slot] = r.v[d, slot]
            if last == 1:
                if imbalance(m, r, slot) <= NEARLY_BALANCED:
                    status = HEALTHY
                going = False
            else:
                first = 0
                largest = find_step(m, g, p, s, c, r, world, slot)
                if largest <= SMALL_STEP * (SLOW + fastest) or imbalance(m, r, slot) <= BALANCED:
                    last = 1
                E_start = E
                slope_start = real(0.0)
                for d in range(m.nv):
                    slope_start += r.gradient[d, slot] * r.step[d, slot]
                t = real(1.0)
        if trials > MOST_TRIALS or t < real(1e-14):
            going = False
        if going:
            for d in range(m.nv):
                r.v[d, slot] = r.best[d, slot] + t * r.step[d, slot]
    for d in range(m.nv):
        s.a[d, slot] = (r.v[d, slot] - s.v[d, slot]) / m.timestep
    if status == HEALTHY:
        note_contacts(g, p, c, r, world, slot)
    return status


@wp.func
def note_contacts(g: Shapes, p: Params, c: Contacts, r: Rows, world: int, slot: int):
    """A contact for every pair of shapes, for people to look at: the one force that all forces at points add up to."""
    c.count[0, slot] = g.pair_first.shape[0]
    for pair in range(g.pair_first.shape[0]):
        h = hulls_of(g, p, c, pair, world, slot)
        plane = r.plane[pair, slot]
        n = wp.normalize(normal_of(plane))
        gap = r.gap[pair, slot]
        force = strength(g, p, pair, world)
        pos = vec3()
        if is_half_space(g, pair):
            _value, on = half_space_value(h, r.point, n, slot)
            x = on.first / on.total
            pos = h.origin + x - wp.dot(x, n) * n + real(0.5) * gap * n
            force = force * on.total
        else:
            _value_hulls, ahead, behind = hull_value(h, r.point, plane, slot)
            x = ahead.first / ahead.total - h.ahead_radius * n
            y = behind.first / behind.total + h.behind_radius * n
            pos = h.origin + real(0.5) * (x + y)
            force = force * ahead.total * wp.length(normal_of(plane))
        c.pair[pair, slot] = pair
        c.pos[pair, slot] = pos
        c.normal[pair, slot] = n
        c.dist[pair, slot] = gap
        t1, t2 = contact_frame(n, 0, c.R[g.pair_second[pair], slot])
        r.tangent1[pair, slot] = t1
        r.tangent2[pair, slot] = t2
        r.force[pair, slot] = vecr(force, real(0.0), real(0.0))
