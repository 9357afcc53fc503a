"""Steps of MLS-MPM, one phase per launch: for CUDA, where launches follow each other in order.

Each particle has a thread, and adds to the nodes around it by atomic additions, whose order varies: so do the last
digits. In the backward pass a lane takes every lanes-th particle or node, since it has sums of cotangents of its own.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4
from .flavour import DIM
from .kinds import INVERTED, LEFT
from .particle import (
    add_gravity_bar,
    kept_row,
    pull_particle,
    pull_particle_back,
    push_particle,
    push_particle_back,
    settled,
    settled_adjoint,
)
from .structs import Bars, Body, Forward, Grid, Law, Work, vec8

if DIM == 2:
    from .plane import is_inside, place
else:
    from .space import is_inside, place

# The first failure of a world, as one number: the least of 2 particles step + particle for what was turned inside out,
# and particles more for what left the grid, at the end of the step or, of a state that was given, at its beginning.
Failures = wp.array(dtype=wp.int64)


@wp.func
def number_of(b: Body, t: int, kind: int, p: int):
    """Of a failure of particle p at step t."""
    phase = wp.where(kind == INVERTED, 0, 1)
    return wp.int64(2 * t + phase) * wp.int64(b.group.shape[0]) + wp.int64(p)


@wp.kernel(enable_backward=False)
def push(b: Body, g: Grid, m: Law, w: Work, f: Forward, failures: Failures, t: int):
    world, p = wp.tid()
    if failures[world] >= number_of(b, t, INVERTED, 0):
        if is_inside(g, place(g, f.now.x[t % f.ring, world, p])):
            place_of, sound = push_particle(b, g, m, w, f, world * g.covered.shape[0], t, world, p)
            if not sound:
                wp.atomic_min(failures, world, number_of(b, t, INVERTED, p))
        else:
            wp.atomic_min(failures, world, number_of(b, t, LEFT, p))


@wp.kernel(enable_backward=False)
def settle(g: Grid, m: Law, w: Work):
    world, n = wp.tid()
    i = world * g.covered.shape[0] + n
    w.nodes[i] = settled(g, m, w.own[i], g.h * m.gravity[world, 0], n, world)
    w.own[i] = vec4()


@wp.kernel(enable_backward=False)
def pull(b: Body, g: Grid, w: Work, f: Forward, failures: Failures, t: int):
    world, p = wp.tid()
    if failures[world] >= number_of(b, t, LEFT, 0):
        if not pull_particle(g, w, f, world * g.covered.shape[0], kept_row(f, t), t, world, p):
            wp.atomic_min(failures, world, number_of(b, t, LEFT, p))


@wp.kernel(enable_backward=False)
def push_back(b: Body, g: Grid, m: Law, w: Work, r: Bars, t: int):
    world, p = wp.tid()
    if r.running[world] == 1:
        push_particle_back(b, g, m, w, r, world * g.covered.shape[0], world * b.group.shape[0], t, world, p)


@wp.kernel(enable_backward=False)
def settle_back(g: Grid, m: Law, w: Work, r: Bars, lanes: int):
    world, lane = wp.tid()
    place = lane * r.running.shape[0] + world
    fall = g.h * m.gravity[world, 0]
    fall_bar = vec3()
    for n in range(lane, g.covered.shape[0], lanes):
        i = world * g.covered.shape[0] + n
        q, by_fall = settled_adjoint(g, m, r, w.own_bar[i], fall, n, world, place)
        fall_bar += by_fall
        w.nodes_bar[i] = q
        w.own_bar[i] = vec8()
    add_gravity_bar(g, r, fall_bar, place)


@wp.kernel(enable_backward=False)
def pull_back(b: Body, g: Grid, m: Law, w: Work, r: Bars, lanes: int, t: int):
    world, lane = wp.tid()
    if r.running[world] == 1:
        worlds = r.running.shape[0]
        place = lane * worlds + world
        control_place = place % r.controls_bar.shape[1]
        for p in range(lane, b.group.shape[0], lanes):
            offset = world * g.covered.shape[0]
            affine = world * b.group.shape[0]
            active_bar = pull_particle_back(b, g, m, w, r, offset, affine, t, world, place, p)
            muscle = b.muscle[b.group[p]]
            if muscle >= 0 and active_bar != real(0.0):
                control_bar = wp.float64(m.strength[world, muscle] * active_bar)
                wp.atomic_add(r.controls_bar, t, control_place, muscle, control_bar)
                strength_bar = wp.float64(r.controls[t, world, muscle] * active_bar)
                r.law.strength[place, muscle] = r.law.strength[place, muscle] + strength_bar
