"""Implicit steps: Newton's method with conjugate gradients, without a matrix; and the way back with one solve.

With everything at the end of the step, and the elements that are there then:

    R = density (V' (H(T') - H(T)) - (V' - V) (H(ambient) - H(T))) + dt (K theta(T') + losses(T') - beam) = 0

By theta, the derivative of R is symmetric and positive definite, B = (density V' c + dt losses')/k + dt K, and R is the
gradient of a convex function. So Newton's method finds the solution from anywhere, if a step that goes too far along
its direction is halved. On the way back, mu = B^-1 (T'_bar / k) solves the transposed system:

    T_bar = mu density V c(T)        heat_bar = dt mu        everything else from -mu times the derivative of R
"""

import warp as wp

from ..spatial.scalar import real
from .cores import BLOCK, Crew, Share, meet, total
from .elements import (
    AMBIENT,
    DENSITY,
    Beam,
    Law,
    LawBar,
    Part,
    beam_on,
    beam_on_adjoint,
    capacity_at,
    conduct,
    conductivity_at,
    enthalpy_difference,
    gather,
    is_near,
    losses,
    losses_adjoint,
    losses_slope,
    piece_of,
    potential,
    potential_adjoint,
    slot_after,
    stored_adjoint,
)

SINGLE = real is wp.float32
# What may be left of R, against what a change of all temperatures by themselves makes of it: rounding. [1]
BALANCED = wp.constant(wp.float64(3e-6 if SINGLE else 3e-14))
# How far conjugate gradients go for a step of Newton's, and for a gradient, against where they start. [1]
ROUGHLY = wp.constant(wp.float64(1e-4 if SINGLE else 1e-8))
CLOSELY = wp.constant(wp.float64(1e-6 if SINGLE else 1e-13))
NEWTON_STEPS = wp.constant(400)  # with the halved ones; some are enough but where latent heat is spread over 1 K
HALVED = wp.constant(real(1e-3))  # shorter steps are taken as they are
MOST_ITERATIONS = wp.constant(4000)  # of conjugate gradients
HEALTHY = wp.constant(-1)


@wp.struct
class Work:
    """Scratch of every node, [world, node]."""

    after: wp.array2d(dtype=real)  # T' so far
    move: wp.array2d(dtype=real)  # of theta, what conjugate gradients look for
    residual: wp.array2d(dtype=real)
    direction: wp.array2d(dtype=real)
    image: wp.array2d(dtype=real)  # B times direction
    diagonal: wp.array2d(dtype=real)  # of B, without conduction
    whole: wp.array2d(dtype=real)  # of B, with it
    conductivity: wp.array2d(dtype=real)
    slots: wp.array2d(dtype=real)


@wp.func(inline=True)
def linearise(g: Part, m: Law, w: Work, live_next: int, dt: real, T: real, i: int, world: int):
    """The diagonal of B at a temperature. Returns where the node's tables are, and 0 for one that is not there."""
    j = slot_after(g, live_next, g.node_first[i], i)
    diagonal = real(1.0)
    whole = real(1.0)
    k = real(1.0)
    if j > g.node_first[i]:
        p = piece_of(m, T)
        x = T - m.anchor[p]
        k = conductivity_at(m.conductivity[world, p], x)
        c = capacity_at(m.capacity[world, p], x)
        loss = g.area[j + i] * losses_slope(m, T, world)
        diagonal = (m.scalars[world, DENSITY] * g.volume[j + i] * c + dt * loss) / k
        whole = diagonal + dt * g.self_stiffness[j + i]
    w.diagonal[world, i] = diagonal
    w.whole[world, i] = whole
    w.conductivity[world, i] = k
    return wp.where(j > g.node_first[i], j + i, int(0))


@wp.func(inline=True)
def imbalance(
    g: Part, m: Law, w: Work, beam: Beam, live: int, live_next: int, dt: real, T: real, after: real, i: int, world: int
):
    """R of a node that is there; w.slots hold -K theta(T')."""
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
def conduct_share(
    g: Part,
    crew: Crew,
    count: int,
    x: wp.array2d(dtype=real),
    slots: wp.array2d(dtype=real),
    meetings: int,
    world: int,
):
    """slots = -K x of all elements that are there, one core's share. Meets once; returns the meetings so far."""
    for e in range(count * crew.core / crew.cores, count * (crew.core + 1) / crew.cores):
        conduct(g, x, slots, e, world)
    meet(crew.arrived, crew.cores, meetings + 1)
    return meetings + 1


@wp.func(inline=True)
def conjugate_gradients(
    g: Part, w: Work, crew: Crew, count: int, dt: real, close: wp.float64, meetings: int, n: int, world: int
):
    """w.move = B^-1 w.residual, which is used up.

    Returns the product of the two, the number of meetings so far, and whether what is left is small enough.
    """
    meeting = int(meetings)
    product = wp.float64(0.0)
    mine = wp.float64(0.0)
    for block in range(crew.core * crew.block, n, crew.cores * crew.block):
        for i in range(block, wp.min(block + crew.block, n)):
            r = w.residual[world, i]
            z = r / w.whole[world, i]
            w.move[world, i] = real(0.0)
            w.direction[world, i] = z
            mine += wp.float64(r * z)
    meeting += 1
    size = total(crew, mine, meeting)
    enough = close * close * size
    iterations = int(0)
    while size > enough and iterations < MOST_ITERATIONS:
        iterations += 1
        meeting = conduct_share(g, crew, count, w.direction, w.slots, meeting, world)
        mine = wp.float64(0.0)
        for block in range(crew.core * crew.block, n, crew.cores * crew.block):
            for i in range(block, wp.min(block + crew.block, n)):
                p = w.direction[world, i]
                flow, _j = gather(g, w.slots, count, i, world)
                image = w.diagonal[world, i] * p - dt * flow
                w.image[world, i] = image
                mine += wp.float64(p * image)
        meeting += 1
        length = size / total(crew, mine, meeting)
        product += length * size
        share = real(length)
        mine = wp.float64(0.0)
        for block in range(crew.core * crew.block, n, crew.cores * crew.block):
            for i in range(block, wp.min(block + crew.block, n)):
                w.move[world, i] = w.move[world, i] + share * w.direction[world, i]
                r = w.residual[world, i] - share * w.image[world, i]
                w.residual[world, i] = r
                mine += wp.float64(r * r / w.whole[world, i])
        meeting += 1
        next_size = total(crew, mine, meeting)
        turn = real(next_size / size)
        size = next_size
        for block in range(crew.core * crew.block, n, crew.cores * crew.block):
            for i in range(block, wp.min(block + crew.block, n)):
                w.direction[world, i] = w.residual[world, i] / w.whole[world, i] + turn * w.direction[world, i]
        meeting += 1
        meet(crew.arrived, crew.cores, meeting)
    return product, meeting, size <= enough  # not so if it is not a number


@wp.func(inline=True)
def newton(
    g: Part,
    m: Law,
    w: Work,
    crew: Crew,
    beam: Beam,
    live: int,
    count: int,
    dt: real,
    now: wp.array2d(dtype=real),
    meetings: int,
    n: int,
    world: int,
):
    """w.after = T'. Returns the number of meetings so far, negative if no balance was found."""
    meeting = int(meetings)
    step = real(0.0)
    descent = wp.float64(0.0)
    found = bool(False)
    tries = int(0)
    for block in range(crew.core * crew.block, n, crew.cores * crew.block):
        for i in range(block, wp.min(block + crew.block, n)):
            w.after[world, i] = now[world, i]
            w.move[world, i] = real(0.0)
            w.conductivity[world, i] = real(1.0)
    while not found and tries < NEWTON_STEPS:
        tries += 1
        for block in range(crew.core * crew.block, n, crew.cores * crew.block):
            for i in range(block, wp.min(block + crew.block, n)):
                trial = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                w.direction[world, i] = potential(m, trial, world)
        meeting += 1
        meet(crew.arrived, crew.cores, meeting)
        meeting = conduct_share(g, crew, count, w.direction, w.slots, meeting, world)
        slope = wp.float64(0.0)
        for block in range(crew.core * crew.block, n, crew.cores * crew.block):
            for i in range(block, wp.min(block + crew.block, n)):
                R = real(0.0)
                j = g.node_first[i]
                if j < g.node_first[i + 1]:
                    if g.slot_element[j] < count:
                        trial = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                        R = imbalance(g, m, w, beam, live, count, dt, now[world, i], trial, i, world)
                w.residual[world, i] = -R
                slope += wp.float64(R * w.move[world, i])
        meeting += 1
        slope = total(crew, slope, meeting)
        if slope > wp.float64(0.5) * descent and step > HALVED:
            step = real(0.5) * step
        else:
            bad = wp.float64(0.0)
            for block in range(crew.core * crew.block, n, crew.cores * crew.block):
                for i in range(block, wp.min(block + crew.block, n)):
                    T = w.after[world, i] + step * w.move[world, i] / w.conductivity[world, i]
                    w.after[world, i] = T
                    linearise(g, m, w, count, dt, T, i, world)
                    scale = w.whole[world, i] * w.conductivity[world, i] * wp.abs(T)
                    if not wp.float64(wp.abs(w.residual[world, i])) <= BALANCED * wp.float64(scale):
                        bad += wp.float64(1.0)
            meeting += 1
            bad = total(crew, bad, meeting)
            if bad == wp.float64(0.0):
                found = True
            else:
                # the slope of the convex function along the move, at its start, is minus this
                descent, meeting, _close = conjugate_gradients(g, w, crew, count, dt, ROUGHLY, meeting, n, world)
                step = real(1.0)
    return meeting, found


@wp.func(inline=True)
def retreat_implicitly(
    g: Part,
    m: Law,
    bar: LawBar,
    w: Work,
    beam: Beam,
    beam_bar: wp.array2d(dtype=Beam),
    beam_row: int,
    live: int,
    live_next: int,
    dt: real,
    T: real,
    after: real,
    after_bar: real,
    i: int,
    world: int,
    place: int,
    wants_params: int,
):
    """The cotangent of a node's temperature before a step. w.move is mu, w.slots hold -K dt mu."""
    theta_bar, j = gather(g, w.slots, live_next, i, world)
    before = slot_after(g, live, g.node_first[i], i)
    T_bar = after_bar
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
                beam_bar[beam_row, world] += beam_on_adjoint(g, beam, live_next, i, dt * mu)
            if wants_params == 1:
                losses_adjoint(m, bar, place, after, dt * mu * area, world)
        if wants_params == 1:
            p = piece_of(m, after)
            potential_adjoint(bar, place, p, after - m.anchor[p], theta_bar)
            stored_adjoint(m, bar, place, T, after, real(1.0) - old, lam, world)
    return T_bar


@wp.func(inline=True)
def crew_of(share: Share, sums: wp.array2d(dtype=wp.float64), threads: int, thread: int):
    """On the CPU a core is its share; on CUDA a block of ``threads`` is the crew of a world."""
    crew = Crew()
    crew.core = share.core + thread % threads
    crew.cores = share.cores
    crew.base = share.lane - share.core + thread - thread % threads
    crew.block = wp.where(threads > 1, 1, BLOCK)
    crew.arrived = share.arrived
    crew.sums = sums
    return crew


@wp.kernel(enable_backward=False)
def roll(
    g: Part,
    m: Law,
    share: Share,
    threads: int,
    w: Work,
    sums: wp.array2d(dtype=wp.float64),
    beams: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    dt: real,
    first: int,
    end: int,
    keep_every: int,
    now: wp.array2d(dtype=real),
    rows: wp.array3d(dtype=real),
    status: wp.array(dtype=int),
):
    """Steps ``now`` (worlds, n) in place from step ``first`` to ``end``.

    Of all steps, every keep_every-th state and the last go into ``rows`` from 1 on.
    status: (worlds,) the first step that was not solved, or HEALTHY; a world stops there.
    """
    thread = wp.tid()
    crew = crew_of(share, sums, threads, thread)
    n = now.shape[1]
    steps = beams.shape[0]
    meeting = int(0)
    start = share.first_world + thread / threads
    for world in range(start, wp.where(threads > 1, start + 1, share.end_world)):
        solved = bool(True)
        for t in range(first, end):
            if solved:
                row = int(0)
                if (t + 1) % keep_every == 0 or t + 1 == steps:
                    row = t / keep_every + 1
                meeting, solved = newton(
                    g, m, w, crew, beams[t, world], live[t, world], live[t + 1, world], dt, now, meeting, n, world
                )
                if not solved and crew.core == 0:
                    status[world] = t
                for block in range(crew.core * crew.block, n, crew.cores * crew.block):
                    for i in range(block, wp.min(block + crew.block, n)):
                        T = w.after[world, i]
                        now[world, i] = T
                        if row > 0:
                            rows[row, world, i] = T


@wp.kernel(enable_backward=False)
def roll_back(
    g: Part,
    m: Law,
    bar: LawBar,
    share: Share,
    threads: int,
    w: Work,
    sums: wp.array2d(dtype=wp.float64),
    beams: wp.array2d(dtype=Beam),
    beams_bar: wp.array2d(dtype=Beam),
    live: wp.array2d(dtype=int),
    dt: real,
    first: int,
    end: int,
    rows: wp.array3d(dtype=real),
    rows_bar: wp.array3d(dtype=real),
    every_row: int,
    wants_params: int,
    carry: wp.array2d(dtype=real),
    status: wp.array(dtype=int),
):
    """``carry`` (worlds, n) is the cotangent of the state at ``end``, a row, and then of that at ``first``.

    With every_row, the states' own cotangents rows_bar join on the way, but for the last one's. status as in ``roll``.
    """
    thread = wp.tid()
    crew = crew_of(share, sums, threads, thread)
    place = share.lane + thread % threads
    n = carry.shape[1]
    worlds = carry.shape[0]
    meeting = int(0)
    start = share.first_world + thread / threads
    for world in range(start, wp.where(threads > 1, start + 1, share.end_world)):
        for back in range(end - first):
            t = end - 1 - back
            count = live[t + 1, world]
            for block in range(crew.core * crew.block, n, crew.cores * crew.block):
                for i in range(block, wp.min(block + crew.block, n)):
                    there = linearise(g, m, w, count, dt, rows[t + 1, world, i], i, world)
                    w.residual[world, i] = wp.where(there > 0, carry[world, i] / w.conductivity[world, i], real(0.0))
            _product, meeting, close = conjugate_gradients(g, w, crew, count, dt, CLOSELY, meeting, n, world)
            if not close and crew.core == 0:
                status[world] = t
            for block in range(crew.core * crew.block, n, crew.cores * crew.block):
                for i in range(block, wp.min(block + crew.block, n)):
                    w.direction[world, i] = dt * w.move[world, i]
            meeting += 1
            meet(crew.arrived, crew.cores, meeting)
            meeting = conduct_share(g, crew, count, w.direction, w.slots, meeting, world)
            for block in range(crew.core * crew.block, n, crew.cores * crew.block):
                for i in range(block, wp.min(block + crew.block, n)):
                    T_bar = retreat_implicitly(
                        g, m, bar, w, beams[t, world], beams_bar, t, live[t, world], count, dt, rows[t, world, i],
                        rows[t + 1, world, i], carry[world, i], i, world, place * worlds + world, wants_params,
                    )  # fmt: skip
                    if every_row == 1:
                        T_bar += rows_bar[t, world, i]
                    carry[world, i] = T_bar
