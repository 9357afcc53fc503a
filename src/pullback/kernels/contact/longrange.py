"""ContactLongRange, as a step calls it: the velocity after the step minimises E of ``potential.py``.

Newton's method with the exact Hessian, whose pivots are replaced where they are not positive. A step of the solver
leaves half of every gap along a direction that is fixed in the world or in one of the two shapes, or near to one that
is, so that nothing passes through anything, and the plane between two shapes is always known. Its length is accepted by
the approximate Wolfe conditions of Hager and Zhang, which look at slopes: differences of energies drown in rounding.

Between bodies that were driven close together such steps are short. If there are too many, the solver starts again with
a potential that is stronger, which keeps them apart, and weakens it by and by.
"""

import warp as wp

from ..collision.features import contact_frame
from ..collision.hull_pair import hull_value, normal_of
from ..collision.shapes import SPHERE, Contacts, Shapes
from ..spatial.algebra import ang, velocity_at
from ..spatial.scalar import real, vec3, vec6
from ..status import BEYOND_LIMIT, HEALTHY, NOT_CONVERGED, OVERLAP
from ..tree.structs import Params, Tree, Workspace
from ..tree.sweeps import outward
from .collide import bounding_radius, place_shapes, tree_poses
from .drag import add_drag_curvature, drag_energy, drag_force, keep_old
from .drag_adjoint import drag_adjoint
from .flavour import TRIANGLES, vecr
from .longrange_adjoint import descend_adjoint
from .mass_matrix import solve_factored
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

if TRIANGLES:
    from .mesh_contact import note_mesh_contact
    from .mesh_pair import is_mesh_pair

__all__ = ["descend", "descend_adjoint", "drag_adjoint", "finer", "substep_count"]

# The solver ends when its step is this small beside the velocity without contact and a millimetre per second [1] ...
SMALL_STEP = wp.constant(real(1e-11))
SLOW = wp.constant(real(1e-3))
# ... or when all terms of the gradient cancel to this share of them ...
BALANCED = wp.constant(real(1e-14))
# ... or to this one, and a step does not reduce the decrement, step · gradient, as Newton's do, by a factor at least:
# what is left is rounding.
NEARLY_BALANCED = wp.constant(real(1e-8))
REDUCED = wp.constant(real(0.25))
# After so many trials the potential is made stronger at first (``attempt_boost``), and then weaker by a factor, each
# time that the gradient is balanced to a share. So many more trials are made with each of these attempts.
FEW_TRIALS = wp.constant(60)
MORE_TRIALS = wp.constant(250)
ATTEMPTS = wp.constant(2)
WEAKER = wp.constant(real(0.1))
ROUGHLY_BALANCED = wp.constant(real(0.1))
# A pivot of H that is less than this share of the mass there is not taken as it is [1].
SMALLEST_PIVOT = wp.constant(real(1e-6))
# A step of the solver that is shortened so much leads nowhere [1].
SHORTEST = wp.constant(real(1e-12))
# Hager and Zhang's: energies may grow by this share, slopes by that.
ENERGY_SHARE = wp.constant(real(1e-9))
SLOPE_SHARE = wp.constant(real(0.8))
# A step that was not solved is done in so many times as many substeps [1].
FINER = wp.constant(4)


@wp.func
def swing(g: Shapes, p: Params, i: int, V: vec6, world: int):
    """The speed at which the rotation of a body moves the surface of its shape i, at most."""
    speed = wp.length(ang(V)) * bounding_radius(g, i, p.shape_size[world, i])
    return wp.where(g.kind[i] == SPHERE, real(0.0), speed)


@wp.func
def shape_velocity(g: Shapes, s: Workspace, c: Contacts, i: int, slot: int):
    body = g.body[i]
    V = s.V[body, slot]
    return velocity_at(V, c.x[i, slot] - s.o[body, slot])


@wp.func
def nearest(x: vec3, velocity: vec3, time: real):
    """The least distance from the origin of a point that starts at x, in so much time."""
    square = wp.length_sq(velocity)
    at = real(0.0)
    if square > real(0.0):
        at = wp.clamp(-wp.dot(x, velocity) / square, real(0.0), time)
    return wp.length(x + at * velocity)


@wp.func
def substep_count(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, world: int, slot: int):
    """In how many substeps a step from s.q and s.v is done."""
    outward(m, p, s, world, slot)
    place_shapes(g, p, tree_poses(s), c, world, slot)
    count = real(1.0)
    for pair in range(g.plane_pairs, g.pair_first.shape[0]):
        i = g.pair_first[pair]
        j = g.pair_second[pair]
        turning = swing(g, p, i, s.V[g.body[i], slot], world) + swing(g, p, j, s.V[g.body[j], slot], world)
        velocity = shape_velocity(g, s, c, i, slot) - shape_velocity(g, s, c, j, slot)
        radii = bounding_radius(g, i, p.shape_size[world, i]) + bounding_radius(g, j, p.shape_size[world, j])
        if nearest(c.x[i, slot] - c.x[j, slot], velocity, m.timestep) < radii + m.timestep * turning:
            way = m.timestep * (wp.length(velocity) + turning)
            count = wp.max(count, way / (g.substep_share * wp.min(g.inner_radius[i], g.inner_radius[j])))
    return wp.clamp(int(wp.ceil(wp.min(count, real(1e6)))), 1, g.max_substeps)


@wp.func
def finer(g: Shapes, count: int, status: int):
    """How many substeps a step is done in next, that had this status when it was done in ``count``; 0: no other."""
    more = int(0)
    if status == NOT_CONVERGED and count < g.max_substeps:
        more = wp.min(FINER * count, g.max_substeps)
    return more


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


@wp.func(inline=False)
def factorise_positive(
    columns: wp.array2d(dtype=int),
    count: wp.array2d(dtype=int),
    M: wp.array2d(dtype=real),
    H: wp.array2d(dtype=real),
    nv: int,
    slot: int,
):
    """``factorise_rows``, with pivots that are not positive replaced by ones that are."""
    for back in range(nv):
        k = nv - 1 - back
        row = k * nv
        length = count[k, slot]
        pivot = H[row + k, slot]
        if not pivot > SMALLEST_PIVOT * M[row + k, slot]:
            pivot = wp.max(wp.abs(pivot), M[row + k, slot])
        inverse = real(1.0) / pivot
        for a in range(length):
            i = columns[row + a, slot]
            share = H[row + i, slot] * inverse
            for b in range(a, length):
                j = columns[row + b, slot]
                H[i * nv + j, slot] = H[i * nv + j, slot] - share * H[row + j, slot]
            H[row + i, slot] = share
        H[row + k, slot] = inverse


@wp.func
def find_step(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """r.step = -H⁻¹ gradient. Returns its largest entry."""
    assemble(m, g, p, s, c, r, world, slot)
    add_drag_curvature(m, g, p, r, world, slot)
    if r.coupled[0, slot] == 1:
        factorise_positive(r.columns, r.columns_count, r.M, r.H, m.nv, slot)
    else:
        factorise_positive(m.columns, m.columns_count, r.M, r.H, m.nv, slot)
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
def stand_still(m: Tree, r: Rows, slot: int):
    """The solver begins with no motion at all, which is always safe."""
    for d in range(m.nv):
        r.v[d, slot] = real(0.0)
        r.best[d, slot] = real(0.0)
        r.step[d, slot] = real(0.0)


@wp.func
def attempt_boost(attempt: int):
    """How strong the potential is at first in an attempt: 1, 10⁴, 10⁸."""
    return wp.where(attempt == 0, real(1.0), wp.where(attempt == 1, real(1e4), real(1e8)))


@wp.func
def overlap_status(g: Shapes, share: real):
    """From what ``find_gaps`` says of an overlap."""
    what = int(-share) - 1
    status = OVERLAP - what
    if what >= g.pair_first.shape[0]:
        status = BEYOND_LIMIT - (what - g.pair_first.shape[0])
    return status


@wp.func
def slope_along(m: Tree, r: Rows, slot: int):
    slope = real(0.0)
    for d in range(m.nv):
        slope += r.gradient[d, slot] * r.step[d, slot]
    return slope


@wp.func
def descend(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """s.a such that s.v + h s.a minimises E; from s.a without contact. Returns the status.

    r.guess is tried first, if E falls towards it.

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
        fastest = wp.max(fastest, wp.abs(free))
    couple_all(m, g, r, slot)
    stand_still(m, r, slot)
    r.boost[0, slot] = attempt_boost(0)
    status = int(NOT_CONVERGED)
    first = int(1)  # no plane between shapes is known
    sure = int(1)  # what comes next is taken as it is
    last = int(0)  # and is the solution
    t = real(1.0)
    E_start = real(0.0)
    slope_start = real(0.0)
    slope_before = real(-1e300)
    attempt = int(0)
    trials = int(0)
    end_of_attempt = int(FEW_TRIALS)
    going = bool(True)
    while going:
        trials += 1
        place_everything(m, g, p, s, c, r, world, slot)
        share = find_gaps(m, g, p, s, c, r, first, world, slot)
        accepted = bool(False)
        if share <= real(0.0):
            status = overlap_status(g, share)
            going = False
        elif share < real(1.0):
            t = share * t
        else:
            E, found = energy(m, g, p, s, c, r, world, slot)
            if trials == 1:
                keep_old(m, g, s, r, slot)
            E += drag_energy(m, g, p, r, world, slot)
            slope = slope_along(m, r, slot)
            falls = E <= E_start + ENERGY_SHARE * wp.abs(E_start) and slope <= -SLOPE_SHARE * slope_start
            accepted = found == 1 and (sure == 1 or falls)
            if accepted:
                E_start = E
            elif slope > real(0.0):
                t = t * wp.clamp(slope_start / (slope_start - slope), real(0.1), real(0.7))
            else:
                t = real(0.5) * t
        if accepted and last == 1:
            status = HEALTHY
            going = False
        elif accepted:
            for d in range(m.nv):
                r.best[d, slot] = r.v[d, slot]
            keep_gaps(m, g, p, s, c, r, world, slot)
            guessing = first == 1 and attempt == 0
            first = 0
            sure = 0
            t = real(1.0)
            off = imbalance(m, r, slot)
            if r.boost[0, slot] > real(1.0) and off <= ROUGHLY_BALANCED:
                r.boost[0, slot] = wp.max(real(1.0), WEAKER * r.boost[0, slot])
                for d in range(m.nv):
                    r.step[d, slot] = real(0.0)
                sure = 1
            else:
                largest = real(0.0)
                if guessing:
                    for d in range(m.nv):
                        r.step[d, slot] = r.guess[d, slot]
                    slope_start = slope_along(m, r, slot)
                    guessing = slope_start < real(0.0)
                if not guessing:
                    largest = find_step(m, g, p, s, c, r, world, slot)
                    slope_start = slope_along(m, r, slot)
                if r.boost[0, slot] == real(1.0) and not guessing:
                    rounded = off <= NEARLY_BALANCED and slope_start < REDUCED * slope_before
                    if largest <= SMALL_STEP * (SLOW + fastest) or off <= BALANCED or rounded:
                        last = 1
                        sure = 1
                    slope_before = slope_start
        if going and (trials >= end_of_attempt + last or t < SHORTEST):
            attempt += 1
            if attempt > ATTEMPTS:
                going = False
            else:
                stand_still(m, r, slot)
                r.boost[0, slot] = attempt_boost(attempt)
                end_of_attempt = trials + MORE_TRIALS
                first = 1
                sure = 1
                last = 0
                t = real(1.0)
        if going:
            for d in range(m.nv):
                r.v[d, slot] = r.best[d, slot] + t * r.step[d, slot]
    for d in range(m.nv):
        s.a[d, slot] = (r.v[d, slot] - s.v[d, slot]) / m.timestep
    if status == HEALTHY:
        note_contacts(g, p, s, c, r, world, slot)
    return status


@wp.func
def note_contacts(g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """A contact for every pair of shapes, for people to look at: the one force that all pushes at points add up to, and
    the sum of their friction."""
    c.count[0, slot] = g.pair_first.shape[0]
    for pair in range(g.pair_first.shape[0]):
        if TRIANGLES:
            if is_mesh_pair(g, pair):
                note_mesh_contact(g, p, s, c, r, pair, strength(g, p, pair, world), world, slot)
                continue
        h = hulls_of(g, p, r, pair, world, slot)
        plane = r.plane[pair, slot]
        n = wp.normalize(normal_of(plane))
        gap = r.trial_gap[pair, slot]
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
        drag = drag_force(g, p, r, pair, world, slot)
        r.force[pair, slot] = vecr(force + wp.dot(n, drag), wp.dot(t1, drag), wp.dot(t2, drag))
