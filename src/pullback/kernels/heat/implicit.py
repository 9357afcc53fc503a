"""Implicit steps: Newton's method with conjugate gradients, matrix-free; and the backward pass with one solve.

With everything at the end of the step, and the elements that are active then:

    R = density (V' (H(T') - H(T)) - (V' - V) (H(ambient) - H(T))) + dt (K theta(T') + losses(T') - beam) = 0

By theta, the derivative of R is symmetric and positive definite, B = (density V' c + dt losses')/k + dt K, and R is the
gradient of a convex function. So Newton's method finds the solution from anywhere, if a step that goes too far along
its direction is halved. In the backward pass, mu = B^-1 (T'_bar / k) solves the transposed system:

    T_bar = mu density V c(T)        heat_bar = dt mu        everything else from -mu times the derivative of R
"""

import warp as wp

from ..cores import Share, Team, meet, team_of, total
from ..spatial.scalar import real
from ..status import NOT_CONVERGED
from .elements import (
    AMBIENT,
    DENSITY,
    Bars,
    Beam,
    Law,
    Nodal,
    Part,
    Rows,
    States,
    Trace,
    beam_on,
    beam_on_adjoint,
    capacity_at,
    conduct,
    conductivity_at,
    enthalpy_difference,
    gather,
    is_near,
    is_running,
    losses,
    losses_adjoint,
    losses_slope,
    piece_of,
    potential,
    potential_adjoint,
    row_of,
    settle,
    slot_after,
    stored_adjoint,
)

SINGLE = real is wp.float32
# A residual this small, relative to the diagonal of B times the temperature, is rounding. [1]
SOLVED = wp.constant(wp.float64(3e-6 if SINGLE else 3e-14))
# By how much conjugate gradients reduce the residual, in a Newton step and in the backward pass. [1]
CG_NEWTON = wp.constant(wp.float64(1e-4 if SINGLE else 1e-8))
CG_ADJOINT = wp.constant(wp.float64(1e-6 if SINGLE else 1e-13))
NEWTON_STEPS = wp.constant(400)  # halved ones included; a few suffice, unless latent heat is spread over 1 K only
SHORTEST = wp.constant(real(1e-3))  # a step this short is not halved again
MOST_ITERATIONS = wp.constant(4000)  # of conjugate gradients


@wp.struct
class Work:
    """Workspace of an implicit step."""

    after: Nodal  # T' so far
    move: Nodal  # change of theta, the unknown of conjugate gradients
    residual: Nodal
    direction: Nodal
    image: Nodal  # B times direction
    diagonal: Nodal  # of B, without conduction
    full_diagonal: Nodal  # of B, with conduction: the preconditioner
    conductivity: Nodal
    slots: Nodal


@wp.func(inline=True)
def linearise(g: Part, m: Law, w: Work, live_next: int, dt: real, T: real, i: int, world: int):
    """The diagonal of B at a temperature. Returns where the node's tables are, 0 for one without active elements."""
    j = slot_after(g, live_next, g.node_first[i], i)
    diagonal = real(1.0)
    full_diagonal = real(1.0)
    k = real(1.0)
    if j > g.node_first[i]:
        p = piece_of(m, T)
        x = T - m.anchor[p]
        k = conductivity_at(m.conductivity[world, p], x)
        c = capacity_at(m.capacity[world, p], x)
        loss = g.area[j + i] * losses_slope(m, T, world)
        diagonal = (m.scalars[world, DENSITY] * g.volume[j + i] * c + dt * loss) / k
        full_diagonal = diagonal + dt * g.self_stiffness[j + i]
    w.diagonal[world, i] = diagonal
    w.full_diagonal[world, i] = full_diagonal
    w.conductivity[world, i] = k
    return wp.where(j > g.node_first[i], j + i, int(0))


@wp.func(inline=True)
def residual_of(
    g: Part, m: Law, w: Work, beam: Beam, live: int, live_next: int, dt: real, T: real, after: real, i: int, world: int
):
    """R of a node with active elements; w.slots hold -K theta(T')."""
    heat, j = gather(g, w.slots, live_next, i, world)
    before = slot_after(g, live, g.node_first[i], i)
    area = g.area[j + i]
    if area > real(0.0):
        heat -= area * losses(m, after, world)
        if is_near(g, beam, i):
            heat += beam_on(g, beam, live_next, i)
    volume = g.volume[j + i]
    taken = volume * enthalpy_difference(m, T, after, world)
    if j > before:
        taken -= (volume - g.volume[before + i]) * enthalpy_difference(m, T, m.scalars[world, AMBIENT], world)
    return m.scalars[world, DENSITY] * taken - dt * heat


@wp.func(inline=True)
def conduct_share(g: Part, team: Team, count: int, x: Nodal, slots: Nodal, meetings: int, world: int):
    """slots = -K x of all active elements, one core's share. Meets once; returns the meetings so far."""
    for e in range(count * team.core / team.cores, count * (team.core + 1) / team.cores):
        conduct(g, x, slots, e, world)
    meet(team.gate, team.cores, meetings + 1)
    return meetings + 1


@wp.func(inline=True)
def conjugate_gradients(
    g: Part, w: Work, team: Team, count: int, dt: real, close: wp.float64, meetings: int, n: int, world: int
):
    """w.move = B^-1 w.residual, which is used up.

    Returns the product of the two, the number of meetings so far, and whether the residual is small enough.
    """
    meeting = int(meetings)
    product = wp.float64(0.0)
    mine = wp.float64(0.0)
    for block in range(team.core * team.block, n, team.cores * team.block):
        for i in range(block, wp.min(block + team.block, n)):
            r = w.residual[world, i]
            z = r / w.full_diagonal[world, i]
            w.move[world, i] = real(0.0)
            w.direction[world, i] = z
            mine += wp.float64(r * z)
    meeting += 1
    size = total(team, mine, meeting)
    enough = close * close * size
    iterations = int(0)
    while size > enough and iterations < MOST_ITERATIONS:
        iterations += 1
        meeting = conduct_share(g, team, count, w.direction, w.slots, meeting, world)
        mine = wp.float64(0.0)
        for block in range(team.core * team.block, n, team.cores * team.block):
            for i in range(block, wp.min(block + team.block, n)):
                p = w.direction[world, i]
                flow, _j = gather(g, w.slots, count, i, world)
                image = w.diagonal[world, i] * p - dt * flow
                w.image[world, i] = image
                mine += wp.float64(p * image)
        meeting += 1
        length = size / total(team, mine, meeting)
        product += length * size
        share = real(length)
        mine = wp.float64(0.0)
        for block in range(team.core * team.block, n, team.cores * team.block):
            for i in range(block, wp.min(block + team.block, n)):
                w.move[world, i] = w.move[world, i] + share * w.direction[world, i]
                r = w.residual[world, i] - share * w.image[world, i]
                w.residual[world, i] = r
                mine += wp.float64(r * r / w.full_diagonal[world, i])
        meeting += 1
        next_size = total(team, mine, meeting)
        turn = real(next_size / size)
        size = next_size
        for block in range(team.core * team.block, n, team.cores * team.block):
            for i in range(block, wp.min(block + team.block, n)):
                w.direction[world, i] = w.residual[world, i] / w.full_diagonal[world, i] + turn * w.direction[world, i]
        meeting += 1
        meet(team.gate, team.cores, meeting)
    return product, meeting, size <= enough  # not so if it is not a number


@wp.func(inline=True)
def newton(g: Part, m: Law, w: Work, team: Team, trace: Trace, t: int, now: Rows, meetings: int, n: int, world: int):
    """w.after = T', from now[t % 2]. Returns the number of meetings so far, and whether it was found."""
    beam = trace.beams[t, world]
    live = trace.live[t, world]
    count = trace.live[t + 1, world]
    dt = trace.dt
    turn = t % 2
    meeting = int(meetings)
    step = real(0.0)
    descent = wp.float64(0.0)
    found = bool(False)
    tries = int(0)
    for block in range(team.core * team.block, n, team.cores * team.block):
        for i in range(block, wp.min(block + team.block, n)):
            w.after[world, i] = now[turn, world, i]
            w.move[world, i] = real(0.0)
            w.conductivity[world, i] = real(1.0)
    while not found and tries < NEWTON_STEPS:
        tries += 1
        for block in range(team.core * team.block, n, team.cores * team.block):
            for i in range(block, wp.min(block + team.block, n)):
                trial = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                w.direction[world, i] = potential(m, trial, world)
        meeting += 1
        meet(team.gate, team.cores, meeting)
        meeting = conduct_share(g, team, count, w.direction, w.slots, meeting, world)
        slope = wp.float64(0.0)
        for block in range(team.core * team.block, n, team.cores * team.block):
            for i in range(block, wp.min(block + team.block, n)):
                R = real(0.0)
                j = g.node_first[i]
                if j < g.node_first[i + 1]:
                    if g.slot_element[j] < count:
                        trial = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                        R = residual_of(g, m, w, beam, live, count, dt, now[turn, world, i], trial, i, world)
                w.residual[world, i] = -R
                slope += wp.float64(R * w.move[world, i])
        meeting += 1
        slope = total(team, slope, meeting)
        if slope > wp.float64(0.5) * descent and step > SHORTEST:
            step = real(0.5) * step
        else:
            bad = wp.float64(0.0)
            for block in range(team.core * team.block, n, team.cores * team.block):
                for i in range(block, wp.min(block + team.block, n)):
                    T = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                    w.after[world, i] = T
                    linearise(g, m, w, count, dt, T, i, world)
                    scale = w.full_diagonal[world, i] * w.conductivity[world, i] * wp.abs(T)
                    if not wp.float64(wp.abs(w.residual[world, i])) <= SOLVED * wp.float64(scale):
                        bad += wp.float64(1.0)
            meeting += 1
            bad = total(team, bad, meeting)
            if bad == wp.float64(0.0):
                found = True
            else:
                # the slope of the convex function along the move, at its start, is minus this
                descent, meeting, _close = conjugate_gradients(g, w, team, count, dt, CG_NEWTON, meeting, n, world)
                step = real(1.0)
    return meeting, found


@wp.func(inline=True)
def retreat_implicit(
    g: Part, m: Law, w: Work, b: Bars, beam: Beam, live: int, live_next: int, dt: real, t: int, i: int, world: int,
    lane: int, place: int
):  # fmt: skip
    """Carries the cotangent of a node's temperature back over step t. w.move is mu, w.slots hold -K dt mu."""
    theta_bar, j = gather(g, w.slots, live_next, i, world)
    before = slot_after(g, live, g.node_first[i], i)
    T = b.rows[t, world, i]
    after = b.rows[t + 1, world, i]
    T_bar = b.carry[world, i]
    if j > g.node_first[i]:
        volume = g.volume[j + i]
        old = g.volume[before + i] / volume
        mu = w.move[world, i]
        lam = mu * m.scalars[world, DENSITY] * volume
        p = piece_of(m, T)
        T_bar = lam * old * capacity_at(m.capacity[world, p], T - m.anchor[p])
        area = g.area[j + i]
        if area > real(0.0):
            if is_near(g, beam, i):
                b.beams[lane, t, world] += beam_on_adjoint(g, beam, live_next, i, dt * mu)
            if b.wants_params == 1:
                losses_adjoint(m, b.law, place, after, dt * mu * area, world)
        if b.wants_params == 1:
            p = piece_of(m, after)
            potential_adjoint(b.law, place, p, after - m.anchor[p], theta_bar)
            stored_adjoint(m, b.law, place, T, after, real(1.0) - old, lam, world)
    if b.every_row == 1:
        T_bar += b.rows_bar[t, world, i]
    b.carry[world, i] = T_bar


@wp.kernel(enable_backward=False)
def roll(g: Part, m: Law, share: Share, w: Work, trace: Trace, x: States, first: int, end: int):
    """As in lanes.py. A world also stops at a step that is not solved."""
    if not meet(share.gate, share.cores, 1):
        return
    thread = wp.tid()
    team = team_of(share, thread)
    n = x.now.shape[2]
    steps = trace.beams.shape[0]
    meeting = int(1)
    start = share.first_world + thread / share.threads
    for world in range(start, wp.where(share.threads > 1, start + 1, share.end_world)):
        for t in range(first, end):
            meeting += 1
            meet(team.gate, team.cores, meeting)  # after which everybody knows what became of the step before
            if is_running(x.status, t, world):
                row = row_of(t, steps, x.keep_every)
                meeting, solved = newton(g, m, w, team, trace, t, x.now, meeting, n, world)
                if solved:
                    for block in range(team.core * team.block, n, team.cores * team.block):
                        for i in range(block, wp.min(block + team.block, n)):
                            settle(x, w.after[world, i], t, row, i, world)
                elif team.core == 0:
                    x.status[world, 0] = NOT_CONVERGED
                    x.status[world, 1] = t


@wp.kernel(enable_backward=False)
def roll_back(g: Part, m: Law, share: Share, w: Work, trace: Trace, b: Bars, first: int, end: int):
    """As in lanes.py. A world whose equations are not solved in a step has no cotangents from there on."""
    if not meet(share.gate, share.cores, 1):
        return
    thread = wp.tid()
    team = team_of(share, thread)
    place = (share.lane + thread % share.threads) * b.carry.shape[0]
    n = b.carry.shape[1]
    dt = trace.dt
    meeting = int(1)
    start = share.first_world + thread / share.threads
    for world in range(start, wp.where(share.threads > 1, start + 1, share.end_world)):
        close = b.status[world, 1] < 0
        for back in range(end - first):
            t = end - 1 - back
            count = trace.live[t + 1, world]
            if close:
                for block in range(team.core * team.block, n, team.cores * team.block):
                    for i in range(block, wp.min(block + team.block, n)):
                        there = linearise(g, m, w, count, dt, b.rows[t + 1, world, i], i, world)
                        right = b.carry[world, i] / w.conductivity[world, i]
                        w.residual[world, i] = wp.where(there > 0, right, real(0.0))
                _product, meeting, close = conjugate_gradients(g, w, team, count, dt, CG_ADJOINT, meeting, n, world)
                if not close and team.core == 0:
                    b.status[world, 0] = NOT_CONVERGED
                    b.status[world, 1] = t
            if close:
                for block in range(team.core * team.block, n, team.cores * team.block):
                    for i in range(block, wp.min(block + team.block, n)):
                        w.direction[world, i] = dt * w.move[world, i]
                meeting += 1
                meet(team.gate, team.cores, meeting)
                meeting = conduct_share(g, team, count, w.direction, w.slots, meeting, world)
                beam = trace.beams[t, world]
                live = trace.live[t, world]
                for block in range(team.core * team.block, n, team.cores * team.block):
                    for i in range(block, wp.min(block + team.block, n)):
                        retreat_implicit(g, m, w, b, beam, live, count, dt, t, i, world, share.lane, place + world)
