"""Steps of backward Euler: Newton's method with conjugate gradients; and the backward pass by one solve.

    R(x') = dPsi/dx' = 0        v' = (x' - x)/h

with Psi of potential.py. The Hessian H is exact, also where it is not convex. If conjugate gradients meet a direction
of negative curvature, the step is done with a Hessian in which compressed cloth is slack; if they still do, they end
there, with the best direction so far, down which the line search goes. Near a minimum the exact H is convex: it is what
Newton's method converges with, and what the backward pass solves with, where

    H lam = x'_bar + v'_bar/h        v_bar = m lam/h        p_bar = -(dR/dp)^T lam
    x_bar = -(dR/dx)^T lam - v'_bar/h

is solved to rounding, and the residual is formed again and looked at. Vertices that are held move with the velocity of
their handle: for them the equation is x' = x + h u, and what pulls at them goes to u and x.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from ..status import NOT_CONVERGED, OVERLAP
from .contact import carried_along, give_impulse, impulse_adjoint, is_outside, longest_move, place_shapes
from .flavour import SELF_CONTACT
from .kinds import BEFORE
from .potential import differentiate, energy_at, gradient_adjoint, weigh
from .structs import Bars, Law, Mesh, Scene, States, Step, Work, read, wide12, write

if SELF_CONTACT:
    from .broad_phase import entangled, safe_share
    from .self_contact import is_calm, move_handles_on, retrace, set_out, touch_product

SINGLE = real is wp.float32
# By how much conjugate gradients reduce the residual: at most and at least in a Newton step, and backwards. [1]
CG_LOOSE = wp.constant(wp.float64(0.1))
CG_TIGHT = wp.constant(wp.float64(1e-4 if SINGLE else 1e-8))
CG_ENOUGH = wp.constant(wp.float64(0.1))  # against what is left to do [1]
STAGNANT = wp.constant(wp.float64(0.3))  # a residual that is not reduced by more is rounding [1]
CG_ADJOINT = wp.constant(wp.float64(1e-6 if SINGLE else 5e-11))
# A residual of the backward pass larger than this is an error, and until it is this small the solver starts again. [1]
ADJOINT_SOLVED = wp.constant(wp.float64(1e-4 if SINGLE else 1e-10))
ADJOINT_STARTS = wp.constant(4)
ARMIJO = wp.constant(wp.float64(1e-4))  # of the descent that the slope promises, so much is enough
ENERGY_ROUNDING = wp.constant(wp.float64(1e-6 if SINGLE else 1e-14))
SHORTEST = wp.constant(real(1e-10))  # a step this short is not halved again


@wp.func(inline=True)
def multiply(g: Mesh, w: Work, i: int, world: int):
    """A row of the Hessian times w.direction."""
    sum = vec3()
    for b in range(g.first[i], g.first[i + 1]):
        sum += w.blocks[world, b] * w.direction[world, g.column[b]]
    if SELF_CONTACT:
        sum += touch_product(w.touch, w.direction, i, world)
    return sum


@wp.func
def conjugate_gradients(g: Mesh, w: Work, most: int, close: wp.float64, least: wp.float64, exact: int, world: int):
    """Adds H^-1 w.residual to w.move, until the residual is reduced by ``close`` or its square is ``least``.

    Returns iterations, and whether no direction of negative curvature was met.
    """
    n = g.handle.shape[0]
    size = wp.float64(0.0)
    for i in range(n):
        r = w.residual[world, i]
        z = w.inverse[world, i] * r
        w.direction[world, i] = z
        size += wp.float64(wp.dot(r, z))
    enough = wp.max(close * close * size, least)
    iterations = int(0)
    convex = bool(True)
    going = bool(size > enough)
    while going:
        iterations += 1
        bend = wp.float64(0.0)
        for i in range(n):
            image = multiply(g, w, i, world)
            w.image[world, i] = image
            bend += wp.float64(wp.dot(image, w.direction[world, i]))
        if exact == 0 and not bend > wp.float64(0.0):
            if iterations == 1:
                for i in range(n):
                    w.move[world, i] = w.direction[world, i]
            going = False
            convex = False
        else:
            length = real(size / bend)
            next_size = wp.float64(0.0)
            for i in range(n):
                w.move[world, i] = w.move[world, i] + length * w.direction[world, i]
                r = w.residual[world, i] - length * w.image[world, i]
                w.residual[world, i] = r
                w.image[world, i] = w.inverse[world, i] * r
                next_size += wp.float64(wp.dot(r, w.image[world, i]))
            turn = real(next_size / size)
            size = next_size
            for i in range(n):
                w.direction[world, i] = w.image[world, i] + turn * w.direction[world, i]
            going = size > enough and iterations < most
    return iterations, convex


@wp.func(inline=True)
def is_held(g: Mesh, i: int):
    return g.handle[i] != -1


@wp.func
def begin(g: Mesh, c: Scene, m: Law, w: Work, s: Step, x: States, t: int, world: int):
    """A first guess in w.after: where vertices go by themselves, if that is better than where they are, or where
    shapes that move push them to.

    Returns a vertex that is not outside of a shape, or for which shapes leave no room, or -1; after all vertices,
    where a trajectory begins, see ``entangled``.
    """
    place_shapes(c, x.path, t, world)
    n = g.handle.shape[0]
    turn = t % 2
    inside = int(-1)
    for i in range(n):
        here = read(x.now_x, turn, world, i)
        speed = read(x.now_v, turn, world, i)
        w.before[world, i] = here
        w.velocity[world, i] = speed
        handle = g.handle[i]
        move = vec3()
        w.moved[world, i] = move
        if handle == -1:
            pushed, there_is_room = carried_along(c, here, world)
            if not (there_is_room and is_outside(c, BEFORE, here, world)):
                inside = i
            w.moved[world, i] = pushed
            w.after[world, i] = here + pushed
            move = s.dt * speed - pushed
            move = pushed + longest_move(c, here + pushed, move, world) * move
        else:
            if handle >= 0:
                for k in range(3):
                    move[k] = s.dt * x.controls[t, world, 3 * handle + k]
            w.moved[world, i] = move
            w.after[world, i] = here + move
        w.move[world, i] = move
        w.trial[world, i] = here + move
    if SELF_CONTACT:
        if t == 0 and inside < 0:
            tangle = entangled(w.touch, g.tets, w.before, world)
            if tangle >= 0:
                inside = n + tangle
        set_out(g, c, m, w, world)
    here_energy, _size = energy_at(g, c, m, w, s, w.after, world)
    there_energy, _size2 = energy_at(g, c, m, w, s, w.trial, world)
    if there_energy < here_energy:
        for i in range(n):
            w.moved[world, i] = w.move[world, i]
            w.after[world, i] = w.trial[world, i]
    return inside


@wp.func
def unsolved(g: Mesh, w: Work, s: Step, world: int):
    """The vertex with the largest residual, relative to stiffness times size; that residual, and the size of all."""
    worst = wp.float64(-1.0)
    vertex = int(0)
    sum = wp.float64(0.0)
    for i in range(g.handle.shape[0]):
        if g.handle[i] == -1:
            r = w.gradient[world, i]
            H = w.blocks[world, g.diagonal[i]]
            share = wp.float64(wp.length(r) / wp.sqrt(wp.ddot(H, H)) / s.size)
            sum += wp.float64(wp.dot(r, w.inverse[world, i] * r))
            if not share <= worst:
                worst = share
                vertex = i
    return vertex, worst, wp.sqrt(sum)


@wp.func
def search(g: Mesh, c: Scene, m: Law, w: Work, s: Step, energy: wp.float64, size: wp.float64, world: int):
    """Goes from w.after along w.move, as far as the potential falls. Returns it there, and its size."""
    n = g.handle.shape[0]
    slope = wp.float64(0.0)
    share = real(1.0)
    for i in range(n):
        slope += wp.float64(wp.dot(w.gradient[world, i], w.move[world, i]))
        if g.handle[i] == -1:
            share = wp.min(share, longest_move(c, w.after[world, i], w.move[world, i], world))
    if SELF_CONTACT:
        share = wp.min(share, safe_share(w, w.after, w.move, c.gap, world))
    now = energy
    now_size = size
    searching = bool(True)
    while searching:
        for i in range(n):
            w.trial[world, i] = w.after[world, i] + share * w.move[world, i]
        now, now_size = energy_at(g, c, m, w, s, w.trial, world)
        limit = energy + ARMIJO * wp.float64(share) * slope + ENERGY_ROUNDING * size
        if now <= limit or share < SHORTEST:
            searching = False
        else:
            share = real(0.5) * share
    for i in range(n):
        moved = w.moved[world, i] + share * w.move[world, i]
        w.moved[world, i] = moved
        w.after[world, i] = w.before[world, i] + moved
    return now, now_size


@wp.func(inline=True)
def downhill(g: Mesh, w: Work, world: int):
    """What conjugate gradients begin with in a Newton step."""
    for i in range(g.handle.shape[0]):
        w.move[world, i] = vec3()
        w.residual[world, i] = -w.gradient[world, i]


@wp.func
def newton(g: Mesh, c: Scene, m: Law, w: Work, s: Step, world: int):
    """w.after, from a first guess there. Returns a vertex that is not solved, or -1, and what it took.

    A number after all vertices says that there was no room for what touches.
    """
    energy, size = energy_at(g, c, m, w, s, w.after, world)
    close = CG_LOOSE
    before = wp.float64(0.0)
    tries = int(0)
    iterations = int(0)
    going = bool(True)
    vertex = int(-1)
    while going:
        differentiate(g, c, m, w, s, world, 1)
        vertex, worst, residual = unsolved(g, w, s, world)
        if SELF_CONTACT:
            calm = bool(False)
            if w.touch.arrived[world] == 0:
                calm = worst <= s.solved or is_calm(w.touch, residual, world)
                worst = wp.max(worst, wp.float64(1.0))
            if w.touch.overflow[world] == 1:
                tries = s.most_newton
        rounding = tries > 0 and residual > STAGNANT * before
        if worst <= s.finest or (worst <= s.solved and rounding):
            going = False
            vertex = -1
        elif tries >= s.most_newton:
            going = False
        else:
            if tries > 0:  # Eisenstat and Walker: as exact as the last step was good
                close = wp.clamp((residual / before) * (residual / before), CG_TIGHT, CG_LOOSE)
            close = wp.clamp(CG_ENOUGH * s.finest / worst, close, CG_LOOSE)
            before = residual
            tries += 1
            downhill(g, w, world)
            more, convex = conjugate_gradients(g, w, s.most_iterations, close, wp.float64(0.0), 0, world)
            iterations += more
            if not convex and (SELF_CONTACT or g.triangles.shape[0] > 0):
                differentiate(g, c, m, w, s, world, 2)
                downhill(g, w, world)
                more, convex = conjugate_gradients(g, w, s.most_iterations, close, wp.float64(0.0), 0, world)
                iterations += more
            energy, size = search(g, c, m, w, s, energy, size, world)
            if SELF_CONTACT:
                if calm:
                    move_handles_on(g, c, w, world)
                    energy, size = energy_at(g, c, m, w, s, w.after, world)
    if SELF_CONTACT:
        if w.touch.overflow[world] == 1:
            vertex = g.handle.shape[0]
    return vertex, tries, iterations


@wp.func(inline=True)
def is_kept(x: States, t: int):
    """Whether the state after step t is."""
    return (t + 1) % x.keep_every == 0 or t + 1 == x.steps


@wp.func(inline=True)
def row_of(x: States, t: int):
    return (t + x.keep_every) / x.keep_every


@wp.func(inline=True)
def settle(w: Work, s: Step, x: States, t: int, i: int, world: int):
    """Writes the state after step t, and keeps it if it is to be kept."""
    after = w.after[world, i]
    speed = w.moved[world, i] / s.dt
    write(x.now_x, (t + 1) % 2, world, i, after)
    write(x.now_v, (t + 1) % 2, world, i, speed)
    if is_kept(x, t):
        write(x.rows_x, row_of(x, t), world, i, after)
        write(x.rows_v, row_of(x, t), world, i, speed)


@wp.kernel(enable_backward=False)
def roll(g: Mesh, c: Scene, m: Law, w: Work, s: Step, x: States, first_world: int, first: int, end: int):
    """Steps from ``first`` to ``end``, one thread per world. A world stops at a step that is not solved."""
    world = first_world + wp.tid()
    weigh(g, m, w, world)
    for shape in range(c.kind.shape[0]):
        w.impulse[world, shape] = x.now_impulse[world, shape]
    for t in range(first, end):
        if x.status[world, 1] < 0:
            inside = begin(g, c, m, w, s, x, t, world)
            if inside >= 0:
                x.status[world, 0] = OVERLAP
                x.status[world, 1] = t
                x.culprit[world] = inside
            else:
                worst, tries, iterations = newton(g, c, m, w, s, world)
                x.counts[world, 0] = x.counts[world, 0] + tries
                x.counts[world, 1] = x.counts[world, 1] + iterations
                if worst >= 0:
                    x.status[world, 0] = NOT_CONVERGED
                    x.status[world, 1] = t
                    x.culprit[world] = worst
                else:
                    for i in range(g.handle.shape[0]):
                        if g.handle[i] == -1:
                            give_impulse(c, m, w, s, i, world)
                        settle(w, s, x, t, i, world)
                    if is_kept(x, t):
                        for shape in range(c.kind.shape[0]):
                            x.rows_impulse[row_of(x, t), world, shape] = w.impulse[world, shape]
    for shape in range(c.kind.shape[0]):
        x.now_impulse[world, shape] = w.impulse[world, shape]


@wp.func
def solve_adjoint(g: Mesh, w: Work, s: Step, b: Bars, world: int):
    """w.move = H^-1 w.trial where vertices are free; w.residual what is left. Returns iterations, success."""
    n = g.handle.shape[0]
    wanted = wp.float64(0.0)
    for i in range(n):
        r = w.trial[world, i]
        wanted += wp.float64(wp.dot(r, w.inverse[world, i] * r))
        # Backwards in time lam is a wave too: it goes on as it did in the steps after this one.
        guess = real(2.0) * b.last[world, i] - b.before_last[world, i]
        w.move[world, i] = guess
        w.direction[world, i] = guess
    for i in range(n):
        w.residual[world, i] = w.trial[world, i] - multiply(g, w, i, world)
    least = CG_ADJOINT * CG_ADJOINT * wanted
    iterations = int(0)
    starts = int(0)
    good = bool(False)
    while not good and starts < ADJOINT_STARTS:
        starts += 1
        more, _convex = conjugate_gradients(g, w, s.most_iterations, wp.float64(0.0), least, 1, world)
        iterations += more
        left = wp.float64(0.0)
        for i in range(n):
            w.direction[world, i] = w.move[world, i]
        for i in range(n):
            r = w.trial[world, i] - multiply(g, w, i, world)
            w.residual[world, i] = r
            left += wp.float64(wp.dot(r, w.inverse[world, i] * r))
        good = left <= ADJOINT_SOLVED * ADJOINT_SOLVED * wanted
    return iterations, good


@wp.kernel(enable_backward=False)
def roll_back(g: Mesh, c: Scene, m: Law, w: Work, s: Step, b: Bars, first_world: int, first: int, end: int):
    """Carries cotangents from row ``end`` to row ``first``. A world that is not solved has none from there on."""
    world = first_world + wp.tid()
    weigh(g, m, w, world)
    n = g.handle.shape[0]
    for shape in range(c.kind.shape[0]):
        w.impulse[world, shape] = b.carry_impulse[world, shape]
    for back in range(end - first):
        t = end - 1 - back
        if b.status[world, 1] < 0:
            place_shapes(c, b.path, t, world)
            for shape in range(c.kind.shape[0]):
                w.motion_bar[world, shape] = wide12()
            for i in range(n):
                w.before[world, i] = read(b.rows_x, t, world, i)
                w.velocity[world, i] = read(b.rows_v, t, world, i)
                w.after[world, i] = read(b.rows_x, t + 1, world, i)
                w.moved[world, i] = s.dt * read(b.rows_v, t + 1, world, i)
                speed_bar = read(b.carry_v, 0, world, i)
                w.trial[world, i] = read(b.carry_x, 0, world, i) + speed_bar / s.dt
                if g.handle[i] == -1:
                    w.trial[world, i] = w.trial[world, i] + impulse_adjoint(c, m, w, s, i, world)
            if SELF_CONTACT:
                retrace(c, m, w, world)
            differentiate(g, c, m, w, s, world, 1)
            iterations, good = solve_adjoint(g, w, s, b, world)
            b.counts[world, 0] = b.counts[world, 0] + 1
            b.counts[world, 1] = b.counts[world, 1] + iterations
            if not good:
                b.status[world, 0] = NOT_CONVERGED
                b.status[world, 1] = t
            else:
                gradient_adjoint(g, c, m, w, s, b.law, world, b.wants_params)
                for i in range(n):
                    b.before_last[world, i] = b.last[world, i]
                    b.last[world, i] = w.move[world, i]
                    x_bar = w.direction[world, i] - read(b.carry_v, 0, world, i) / s.dt
                    if is_held(g, i):
                        pull = w.residual[world, i]
                        x_bar += pull
                        handle = g.handle[i]
                        if handle >= 0:
                            for k in range(3):
                                b.controls_bar[t, world, 3 * handle + k] += s.dt * pull[k]
                    v_bar = w.mass[world, i] / s.dt * w.move[world, i]
                    if b.every_row == 1:
                        x_bar += read(b.rows_x_bar, t, world, i)
                        v_bar += read(b.rows_v_bar, t, world, i)
                    write(b.carry_x, 0, world, i, x_bar)
                    write(b.carry_v, 0, world, i, v_bar)
                for shape in range(c.kind.shape[0]):
                    if b.path.moves == 1:
                        b.motion_bar[t, world, shape] = w.motion_bar[world, shape]
                    if b.every_row == 1:
                        w.impulse[world, shape] = w.impulse[world, shape] + b.rows_impulse_bar[t, world, shape]
    for shape in range(c.kind.shape[0]):
        b.carry_impulse[world, shape] = w.impulse[world, shape]
