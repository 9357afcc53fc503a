"""Heat conduction in hexahedra: what one element and one node do in a step, and in the backward pass.

A step is two phases. Elements: the heat that flows into each corner, from the conduction potentials of its nodes.
Nodes: the sum of what flows in, and the temperature at which the material has that enthalpy. Every element has a place
of its own for each corner (a *slot*, sorted by node), so that no two threads write to the same number and sums have a
fixed order.

    theta(T): integral of the conductivity       flow = -K theta, K the stiffness of a unit conductivity, symmetric
    H(T): integral of the capacity               V' H(T') = V H(T) + (V' - V) H(ambient) + dt/density · heat
                                                 heat = flow + beam - losses

V and V' are the volumes that belong to a node before and after the births of the step; new material comes at ambient
temperature. With the next temperature T' known, the backward pass computes nothing of a step again:

    lambda = T'_bar / c(T')                      heat_bar = dt lambda / (density V')
    theta_bar = -K heat_bar                      T_bar = lambda c(T) V / V' + k(T) theta_bar - heat_bar losses'(T)

An element is *active* from its birth on. Elements are sorted by birth, so the first ``live`` of them are active.

Functions are inlined: a call would copy the descriptions of all arrays, which takes longer than most of them.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4
from ..status import NOT_FINITE

vec8 = wp.types.vector(8, real)
vec8i = wp.types.vector(8, wp.int32)
mat43 = wp.types.matrix((4, 3), real)
wide4 = wp.types.vector(4, wp.float64)
# Intensity at the centre [W/m²], centre [m], 3/radius² [1/m²], how far it reaches [m]: zero while it is off.
Beam = wp.types.vector(6, real)

# Kinds of arrays that are passed around.
Nodal = wp.array2d(dtype=real)  # [world, node], or [world, slot]
Rows = wp.array3d(dtype=real)  # [step or row, world, node]
Beams = wp.array2d(dtype=Beam)  # [step, world]
Counts = wp.array2d(dtype=int)  # [step, world]: active elements before the step; one row more than steps
Codes = wp.array2d(dtype=int)  # [world]: what stopped it, and in which step; both negative while nothing did

STEFAN_BOLTZMANN = wp.constant(real(5.670374419e-8))  # [W/m²/K⁴]

# Places in ``scalars``, the parameters that are one number.
DENSITY = wp.constant(0)
CONVECTION = wp.constant(1)
EMISSIVITY = wp.constant(2)
ABSORPTIVITY = wp.constant(3)
AMBIENT = wp.constant(4)
OFFSET = wp.constant(5)  # and the two after it

# A world with a temperature above this, or below zero, has blown up. [K]
HOTTEST = wp.constant(1e6)

# Newton's method converges quadratically: once a relative change is this small, the next is rounding. [1]
CONVERGED = wp.constant(real(1e-4 if real is wp.float32 else 1e-9))
NEWTON_STEPS = wp.constant(30)


@wp.struct
class Part:
    """The mesh: elements in order of birth, nodes as the user gave them."""

    element_nodes: wp.array(dtype=vec8i)
    element_slots: wp.array(dtype=vec8i)
    element_shape: wp.array(dtype=int)  # elements of the same shape and size share a stiffness
    stiffness: wp.array2d(dtype=vec8)  # [shape, column], of a unit conductivity [m]
    node_first: wp.array(dtype=int)  # slots of node i are node_first[i] .. node_first[i + 1]
    slot_element: wp.array(dtype=int)  # increasing within a node
    # Of a node whose elements before slot j are active, at j + node: volume [m³], area of exposed faces [m²], and entry
    # on the diagonal of the stiffness [m].
    volume: wp.array(dtype=real)
    area: wp.array(dtype=real)
    self_stiffness: wp.array(dtype=real)
    # Upward-facing faces, listed per node: entries of node i are lit_first[i] .. lit_first[i + 1].
    lit_first: wp.array(dtype=int)
    lit_face: wp.array(dtype=int)
    lit_from: wp.array(dtype=int)  # the face exists once this element is active,
    lit_until: wp.array(dtype=int)  # and is exposed until this one is
    lit_weight: wp.array(dtype=vec4)  # share of the node in the horizontal area at each Gauss point [m²]
    face_points: wp.array(dtype=mat43)  # Gauss points [m]
    node_place: wp.array(dtype=vec4)  # [m], and how far the Gauss points of its faces are; negative if there are none


@wp.struct
class Law:
    """The material law: pieces of the temperature axis, on each of which capacity and conductivity are a parabola."""

    bounds: wp.array(dtype=real)  # [K], of piece p from bounds[p] to bounds[p + 1]
    anchor: wp.array(dtype=real)  # [K], where x of piece p is zero
    bins: wp.array(dtype=int)  # the first piece that a bin of equal width touches
    bins_first: real  # [K]
    bins_last: real  # [K]
    bins_a_kelvin: real
    capacity: wp.array2d(dtype=vec3)  # [world, piece]: c = c0 + c1 x + c2 x² [J/kg/K]
    conductivity: wp.array2d(dtype=vec4)  # [world, piece]: theta(0) [W/m], then k = k1 + k2 x + k3 x² [W/m/K]
    scalars: wp.array2d(dtype=real)  # [world, which]


@wp.struct
class LawBar:
    """Cotangents, one set per lane and world, always in double precision: they are sums over all nodes and steps."""

    capacity: wp.array2d(dtype=wide4)  # the first three
    conductivity: wp.array2d(dtype=wide4)
    scalars: wp.array2d(dtype=wp.float64)


@wp.struct
class Trace:
    """Along the toolpath, [step, world]."""

    beams: Beams
    live: Counts
    dt: real  # [s]


@wp.struct
class Work:
    """Workspace of an explicit step."""

    nodal: Nodal  # conduction potential, or the cotangent of the heat into a node
    slots: Nodal  # what conduction makes of it


@wp.struct
class States:
    """A forward pass: where states go."""

    now: Rows  # of two rows: the state of step t is now[t % 2]
    rows: Rows  # what is kept: every keep_every-th state and the last, from row 1 on
    keep_every: int
    status: Codes  # a world that was stopped keeps the state before that step


@wp.struct
class Bars:
    """A backward pass: what it reads of a trajectory, and where cotangents go."""

    rows: Rows  # temperatures, one row more than steps
    rows_bar: Rows  # cotangents of all rows but the last, if every_row
    every_row: int
    wants_params: int
    carry: Nodal  # cotangent of the state that the pass has come to
    beams: wp.array3d(dtype=Beam)  # cotangents [lane, step, world]
    law: LawBar
    status: Codes  # why a world has no cotangents, and from which step on


# --- the material -----------------------------------------------------------------------------------------------------


@wp.func(inline=True)
def piece_of(m: Law, T: real):
    p = int(0)
    if T >= m.bins_first:
        p = m.anchor.shape[0] - 1
        if T < m.bins_last:  # so that NaN never becomes an index
            p = m.bins[int((T - m.bins_first) * m.bins_a_kelvin)]
            while T >= m.bounds[p + 1]:
                p += 1
    return p


@wp.func(inline=True)
def capacity_at(c: vec3, x: real):
    return c[0] + x * (c[1] + x * c[2])


@wp.func(inline=True)
def enthalpy_between(c: vec3, x: real, d: real):
    """From x to x + d on one piece [J/kg], in terms of d, so that small differences keep their digits."""
    return d * (capacity_at(c, x) + d * (real(0.5) * c[1] + x * c[2] + d * c[2] / real(3.0)))


@wp.func(inline=True)
def conductivity_at(k: vec4, x: real):
    return k[1] + x * (k[2] + x * k[3])


@wp.func(inline=True)
def potential_at(k: vec4, x: real):
    """theta [W/m]"""
    return k[0] + x * (k[1] + x * (real(0.5) * k[2] + x * k[3] / real(3.0)))


@wp.func(inline=True)
def potential(m: Law, T: real, world: int):
    p = piece_of(m, T)
    return potential_at(m.conductivity[world, p], T - m.anchor[p])


@wp.func(inline=True)
def heated(m: Law, start: real, energy: real, world: int):
    """The temperature whose enthalpy differs by ``energy`` [J/kg] from that at ``start``."""
    last = m.anchor.shape[0] - 1
    p = piece_of(m, start)
    T = start
    e = energy
    reach = real(0.0)
    inside = bool(False)
    # The outermost pieces have no end; nothing but a piece's bounds ever limits a temperature.
    while not inside and wp.where(e > real(0.0), p < last, p > 0):
        end = wp.where(e > real(0.0), m.bounds[p + 1], m.bounds[p])
        reach = end - T
        left = enthalpy_between(m.capacity[world, p], T - m.anchor[p], reach)
        if wp.abs(e) > wp.abs(left):
            e -= left
            T = end
            p = wp.where(e > real(0.0), p + 1, p - 1)
        else:
            inside = True
    c = m.capacity[world, p]
    x = T - m.anchor[p]
    here = capacity_at(c, x)
    d = e / here  # which is the answer where the capacity is constant, as in the outermost pieces
    if inside:
        half_slope = real(0.5) * c[1] + x * c[2]
        third = c[2] / real(3.0)
        for _ in range(NEWTON_STEPS):
            excess = d * (here + d * (half_slope + d * third)) - e
            change = excess / (here + d * (real(2.0) * half_slope + d * c[2]))
            d = wp.clamp(d - change, wp.min(reach, real(0.0)), wp.max(reach, real(0.0)))
            if not wp.abs(change) > CONVERGED * wp.abs(d):
                break
    return T + d


@wp.func(inline=True)
def enthalpy_difference(m: Law, start: real, end: real, world: int):
    """H(end) - H(start) [J/kg]"""
    p = piece_of(m, start)
    last = piece_of(m, end)
    T = start
    total = real(0.0)
    while p != last:
        edge = wp.where(p < last, m.bounds[p + 1], m.bounds[p])
        total += enthalpy_between(m.capacity[world, p], T - m.anchor[p], edge - T)
        T = edge
        p = wp.where(p < last, p + 1, p - 1)
    return total + enthalpy_between(m.capacity[world, p], T - m.anchor[p], end - T)


@wp.func(inline=True)
def add_enthalpy_bar(bar: LawBar, place: int, p: int, x: real, d: real, weight: real):
    y = x + d
    # differences of squares and cubes, without cancellation
    first = d * (x + y) * real(0.5)
    second = d * (x * x + x * y + y * y) / real(3.0)
    bar.capacity[place, p] += wide4(
        wp.float64(weight * d), wp.float64(weight * first), wp.float64(weight * second), wp.float64(0.0)
    )


@wp.func(inline=True)
def enthalpy_difference_adjoint(m: Law, bar: LawBar, place: int, start: real, end: real, weight: real):
    """Of weight·(H(end) - H(start)), by the capacity."""
    p = piece_of(m, start)
    last = piece_of(m, end)
    T = start
    while p != last:
        edge = wp.where(p < last, m.bounds[p + 1], m.bounds[p])
        add_enthalpy_bar(bar, place, p, T - m.anchor[p], edge - T, weight)
        T = edge
        p = wp.where(p < last, p + 1, p - 1)
    add_enthalpy_bar(bar, place, p, T - m.anchor[p], end - T, weight)


# --- elements ---------------------------------------------------------------------------------------------------------


@wp.func(inline=True)
def conduct(g: Part, x: Nodal, slots: Nodal, e: int, world: int):
    """slots = -K x at the corners of an element. K is symmetric: the adjoint is the same."""
    nodes = g.element_nodes[e]
    shape = g.element_shape[e]
    flow = vec8()
    for c in range(8):
        flow -= g.stiffness[shape, c] * x[world, nodes[c]]
    places = g.element_slots[e]
    for c in range(8):
        slots[world, places[c]] = flow[c]


# --- nodes ------------------------------------------------------------------------------------------------------------


@wp.func(inline=True)
def slot_after(g: Part, live: int, first: int, i: int):
    """The slot after those of a node's active elements, searched from ``first`` on."""
    j = int(first)
    while j < g.node_first[i + 1] and g.slot_element[j] < live:
        j += 1
    return j


@wp.func(inline=True)
def gather(g: Part, slots: Nodal, live: int, i: int, world: int):
    """The sum over the slots of a node's active elements, and the slot after them."""
    j = g.node_first[i]
    total = real(0.0)
    while j < g.node_first[i + 1] and g.slot_element[j] < live:
        total += slots[world, j]
        j += 1
    return total, j


@wp.func(inline=True)
def losses(m: Law, T: real, world: int):
    """Through an exposed face [W/m²]."""
    ambient = m.scalars[world, AMBIENT]
    fourth = T * T * T * T - ambient * ambient * ambient * ambient
    return m.scalars[world, CONVECTION] * (T - ambient) + STEFAN_BOLTZMANN * m.scalars[world, EMISSIVITY] * fourth


@wp.func(inline=True)
def losses_slope(m: Law, T: real, world: int):
    """Derivative by the surface temperature or, with the opposite sign, by the ambient one [W/m²/K]."""
    return m.scalars[world, CONVECTION] + real(4.0) * STEFAN_BOLTZMANN * m.scalars[world, EMISSIVITY] * T * T * T


@wp.func(inline=True)
def losses_adjoint(m: Law, bar: LawBar, place: int, T: real, weight: real, world: int):
    """Of -weight·losses, by the parameters."""
    ambient = m.scalars[world, AMBIENT]
    fourth = T * T * T * T - ambient * ambient * ambient * ambient
    bar.scalars[place, CONVECTION] -= wp.float64(weight * (T - ambient))
    bar.scalars[place, EMISSIVITY] -= wp.float64(weight * STEFAN_BOLTZMANN * fourth)
    bar.scalars[place, AMBIENT] += wp.float64(weight * losses_slope(m, ambient, world))


@wp.func(inline=True)
def potential_adjoint(bar: LawBar, place: int, p: int, x: real, weight: real):
    """Of weight·theta, by the conductivity, at x on a piece."""
    bar.conductivity[place, p] += wide4(
        wp.float64(weight),
        wp.float64(weight * x),
        wp.float64(weight * x * x * real(0.5)),
        wp.float64(weight * x * x * x / real(3.0)),
    )


@wp.func(inline=True)
def stored_adjoint(m: Law, bar: LawBar, place: int, T: real, after: real, new: real, weight: real, world: int):
    """Of -weight·(H(after) - H(T) - new (H(ambient) - H(T))), by the parameters; ``new`` is the share of new volume.

    That is the enthalpy that a node gains in a step, per unit of mass.
    """
    ambient = m.scalars[world, AMBIENT]
    taken = enthalpy_difference(m, T, after, world)
    enthalpy_difference_adjoint(m, bar, place, T, after, -weight)
    if new > real(0.0):
        taken -= new * enthalpy_difference(m, T, ambient, world)
        enthalpy_difference_adjoint(m, bar, place, T, ambient, weight * new)
        p = piece_of(m, ambient)
        there = capacity_at(m.capacity[world, p], ambient - m.anchor[p])
        bar.scalars[place, AMBIENT] += wp.float64(weight * new * there)
    bar.scalars[place, DENSITY] -= wp.float64(weight * taken / m.scalars[world, DENSITY])


@wp.func(inline=True)
def is_near(g: Part, beam: Beam, i: int):
    """Whether the beam reaches the faces of a node. Also with zero power, whose gradient is not zero."""
    place = g.node_place[i]
    x = place[0] - beam[1]
    y = place[1] - beam[2]
    z = place[2] - beam[3]
    reach = place[3] + beam[5]
    return place[3] >= real(0.0) and beam[5] > real(0.0) and x * x + y * y + z * z < reach * reach


@wp.func(inline=True)
def beam_on(g: Part, beam: Beam, live: int, i: int):
    """Power that a node absorbs from the beam [W]."""
    total = real(0.0)
    for j in range(g.lit_first[i], g.lit_first[i + 1]):
        if g.lit_from[j] < live and live <= g.lit_until[j]:
            points = g.face_points[g.lit_face[j]]
            weight = g.lit_weight[j]
            for q in range(4):
                x = points[q, 0] - beam[1]
                y = points[q, 1] - beam[2]
                z = points[q, 2] - beam[3]
                total += weight[q] * wp.exp(-beam[4] * (x * x + y * y + z * z))
    return total * beam[0]


@wp.func(inline=True)
def beam_on_adjoint(g: Part, beam: Beam, live: int, i: int, bar: real):
    """Cotangents of the beam's intensity, centre and 3/radius², from that of the power that the node absorbs."""
    by_beam = Beam()
    for j in range(g.lit_first[i], g.lit_first[i + 1]):
        if g.lit_from[j] < live and live <= g.lit_until[j]:
            points = g.face_points[g.lit_face[j]]
            weight = g.lit_weight[j]
            for q in range(4):
                x = points[q, 0] - beam[1]
                y = points[q, 1] - beam[2]
                z = points[q, 2] - beam[3]
                square = x * x + y * y + z * z
                share = bar * weight[q] * wp.exp(-beam[4] * square)
                turn = real(2.0) * beam[0] * beam[4] * share
                by_beam += Beam(share, turn * x, turn * y, turn * z, -beam[0] * share * square, real(0.0))
    return by_beam


@wp.func(inline=True)
def advance(g: Part, m: Law, w: Work, beam: Beam, live: int, live_next: int, dt: real, T: real, i: int, world: int):
    """The temperature of a node one step on."""
    heat, before = gather(g, w.slots, live, i, world)
    j = slot_after(g, live_next, before, i)
    volume = g.volume[j + i]
    after = T
    if volume > real(0.0):
        area = g.area[before + i]
        if area > real(0.0):
            heat -= area * losses(m, T, world)
            if is_near(g, beam, i):
                heat += beam_on(g, beam, live, i)
        energy = dt * heat / m.scalars[world, DENSITY]
        if j > before:
            energy += (volume - g.volume[before + i]) * enthalpy_difference(m, T, m.scalars[world, AMBIENT], world)
        after = heated(m, T, energy / volume, world)
    return after


@wp.func(inline=True)
def flow_bar_of(g: Part, m: Law, live_next: int, dt: real, after: real, after_bar: real, i: int, world: int):
    """Cotangent of the heat that flows into a node in a step, from that of its temperature after it."""
    volume = g.volume[slot_after(g, live_next, g.node_first[i], i) + i]
    result = real(0.0)
    if volume > real(0.0):
        p = piece_of(m, after)
        c = capacity_at(m.capacity[world, p], after - m.anchor[p])
        result = dt * after_bar / (c * m.scalars[world, DENSITY] * volume)
    return result


@wp.func(inline=True)
def retreat(
    g: Part, m: Law, w: Work, b: Bars, beam: Beam, live: int, live_next: int, dt: real, t: int, i: int, world: int,
    lane: int, place: int
):  # fmt: skip
    """Carries the cotangent of a node's temperature back over step t. ``lane`` and ``place`` are where sums go.

    Before and after, w.nodal is the cotangent of the heat into the node; w.slots hold -K times that of the step.
    """
    theta_bar, before = gather(g, w.slots, live, i, world)
    volume = g.volume[slot_after(g, live_next, before, i) + i]
    flow_bar = w.nodal[world, i]
    T = b.rows[t, world, i]
    T_bar = b.carry[world, i]
    if volume > real(0.0):
        old = g.volume[before + i] / volume
        lam = flow_bar * m.scalars[world, DENSITY] * volume / dt  # T_bar after the step / c there
        p = piece_of(m, T)
        x = T - m.anchor[p]
        T_bar = lam * capacity_at(m.capacity[world, p], x) * old
        T_bar += conductivity_at(m.conductivity[world, p], x) * theta_bar
        weight = flow_bar * g.area[before + i]
        if g.area[before + i] > real(0.0):
            T_bar -= weight * losses_slope(m, T, world)
            if is_near(g, beam, i):
                b.beams[lane, t, world] += beam_on_adjoint(g, beam, live, i, flow_bar)
            if b.wants_params == 1:
                losses_adjoint(m, b.law, place, T, weight, world)
        if b.wants_params == 1:
            potential_adjoint(b.law, place, p, x, theta_bar)
            stored_adjoint(m, b.law, place, T, b.rows[t + 1, world, i], real(1.0) - old, lam, world)
    if b.every_row == 1:
        T_bar += b.rows_bar[t, world, i]
    b.carry[world, i] = T_bar
    w.nodal[world, i] = flow_bar_of(g, m, live, dt, T, T_bar, i, world)


# --- what becomes of a world ------------------------------------------------------------------------------------------


@wp.func(inline=True)
def is_running(status: Codes, t: int, world: int):
    """Whether no step before t failed. In step t itself another thread may just have noted that it does."""
    return status[world, 1] < 0 or status[world, 1] >= t


@wp.func(inline=True)
def row_of(t: int, steps: int, keep_every: int):
    """Where the state after step t is kept; 0 if it is not."""
    return wp.where((t + 1) % keep_every == 0 or t + 1 == steps, t / keep_every + 1, 0)


@wp.func(inline=True)
def settle(x: States, T: real, t: int, row: int, i: int, world: int):
    """Puts the temperature of a node after step t in its places, and notes one that is out of bounds."""
    x.now[(t + 1) % 2, world, i] = T
    if row > 0:
        x.rows[row, world, i] = T
    if not (T > real(0.0) and T < real(HOTTEST)):
        x.status[world, 0] = NOT_FINITE
        x.status[world, 1] = t
