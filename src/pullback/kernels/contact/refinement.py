"""Substeps where contacts move, and contacts that act for the share of a substep in which they are closed.

MuJoCo's force jumps as shapes meet. With fixed steps the jump comes with the next step, whenever the shapes met, so the
derivative of a step knows nothing of the time of impact; smaller steps do not change that. Here a contact acts in
proportion to the share of the substep for which it is closed, if it moves on as it does now: then the time of impact
and its derivative are those of the trajectory, to first order. The same ramp is never narrower than the tolerance, so
that a contact which would come and go from substep to substep acts with a share that balances.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.algebra import ang
from ..spatial.scalar import real, vec3, vec6
from ..tree.frames import point_velocity
from ..tree.structs import RK4, Params, Tree, Workspace
from ..tree.sweeps import outward
from .collide import bounding_radius, detect, tree_poses
from .flavour import SHARES
from .law import spring
from .limits import limit_distance, row_velocity, sides
from .materials import mixed_solimp, mixed_solref
from .rows import contact_count

# Substeps of a step, at most: their states are kept while the step is pulled back through.
MOST_SUBSTEPS = wp.constant(64)
# Of the tolerance: how far contacts move in a substep, so that several substeps see a contact set in.
FINE = wp.constant(real(0.25))
# Of the tolerance: what moves by less in a step stands still. A difference of integrals would be rounding.
STILL = wp.constant(real(1e-4))


@wp.func
def onset(x: real, tolerance: real):
    """How far contact has set in at the distance x, from 0 to 1 over the tolerance, and the integral from x onwards."""
    inside = wp.clamp(real(0.5) * tolerance - x, real(0.0), tolerance)
    beyond = wp.max(-x - real(0.5) * tolerance, real(0.0))
    return inside / tolerance, inside * inside / (real(2.0) * tolerance) + beyond


@wp.func
def closed_share(m: Tree, x: real, speed: real):
    """Mean of the onset over a step, of shapes at the distance x that part at ``speed``; its slopes by x and speed.

    Euler looks at the step ahead; a stage of Runge-Kutta stands for the half steps before and after it.
    """
    back = wp.where(m.integrator == RK4, real(-0.5), real(0.0)) * m.timestep
    ahead = back + m.timestep
    first, first_integral = onset(x + back * speed, m.tolerance)
    last, last_integral = onset(x + ahead * speed, m.tolerance)
    moved = m.timestep * speed
    share = real(0.5) * (first + last)
    by_first = real(0.0)
    by_last = real(0.0)
    if wp.abs(moved) > STILL * m.tolerance:
        share = (first_integral - last_integral) / moved
        by_first = (share - first) / moved
        by_last = (last - share) / moved
    elif first > real(0.0) and first < real(1.0):
        by_first = -real(0.5) / m.tolerance
        by_last = by_first
    return share, by_first + by_last, back * by_first + ahead * by_last


@wp.func
def contact_velocity(g: Shapes, s: Workspace, c: Contacts, k: int, slot: int):
    """Of shape 2 against shape 1, where they touch."""
    pair = c.pair[k, slot]
    one = g.body[g.pair_first[pair]]
    other = g.body[g.pair_second[pair]]
    pos = c.pos[k, slot]
    return point_velocity(s, other, pos, slot) - point_velocity(s, one, pos, slot)


@wp.func
def step_reach(m: Tree, g: Shapes, p: Params, s: Workspace, world: int, slot: int):
    """How far apart shapes may be that touch for a share of the step [m], beyond their margin. After outward."""
    fastest = real(0.0)
    for i in range(g.kind.shape[0]):
        body = g.body[i]
        x = s.pos[body, slot] + s.R[body, slot] * p.shape_pos[world, i]
        turning = wp.length(ang(s.V[body, slot])) * bounding_radius(g, i, p.shape_size[world, i])
        fastest = wp.max(fastest, wp.length(point_velocity(s, body, x, slot)) + turning)
    return real(2.0) * fastest * m.timestep + m.tolerance


@wp.func
def closes(m: Tree, x: real, speed: real):
    """Whether a contact is closed at some time that the step which begins now looks at; see ``closed_share``."""
    beyond = wp.where(m.integrator == RK4, real(0.5), real(0.0)) * m.timestep
    nearest = wp.min(x - beyond * speed, x + (m.timestep + beyond) * speed)
    return nearest < real(0.5) * m.tolerance


@wp.func
def keep_closed(m: Tree, g: Shapes, s: Workspace, c: Contacts, slot: int):
    """Of the contacts that were found, keeps those that are closed for a share of the step."""
    kept = int(0)
    if c.count[0, slot] <= c.pair.shape[0]:  # more are an error
        for k in range(c.count[0, slot]):
            x = c.dist[k, slot] - g.pair_margin[c.pair[k, slot]]
            share, _x, _v = closed_share(m, x, wp.dot(c.normal[k, slot], contact_velocity(g, s, c, k, slot)))
            if share > real(0.0):
                c.pair[kept, slot] = c.pair[k, slot]
                c.pos[kept, slot] = c.pos[k, slot]
                c.normal[kept, slot] = c.normal[k, slot]
                c.dist[kept, slot] = c.dist[k, slot]
                c.along[kept, slot] = c.along[k, slot]
                c.feature1[kept, slot] = c.feature1[k, slot]
                c.feature2[kept, slot] = c.feature2[k, slot]
                if k < c.approach.shape[0]:
                    c.approach[kept, slot] = c.approach[k, slot]
                kept += 1
        c.count[0, slot] = kept


@wp.func
def rebound_speed(solref: vec3, solimp: vec6, shortest_time: real, x: real):
    """With which a contact that is x < 0 deep and at rest would spring back, without damping."""
    stiffness, _damping = spring(solref, solimp, shortest_time)
    return -wp.min(x, real(0.0)) * wp.sqrt(stiffness)


@wp.func
def contact_speed(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, more: real, world: int, slot: int):
    """The largest velocity at a contact or joint limit that is closed at some time in the step [m/s or rad/s].

    Of MuJoCo's contact that with which it springs back is added: at its deepest a contact does not move.
    """
    outward(m, p, s, world, slot)
    detect(g, p, tree_poses(s), c, more + step_reach(m, g, p, s, world, slot), world, slot)
    fastest = real(0.0)
    for k in range(contact_count(c, slot)):
        x = c.dist[k, slot] - g.pair_margin[c.pair[k, slot]]
        velocity = contact_velocity(g, s, c, k, slot)
        if closes(m, x, wp.dot(c.normal[k, slot], velocity)):
            speed = wp.length(velocity)
            if SHARES:
                pair = c.pair[k, slot]
                solref = mixed_solref(p, g, pair, world)
                speed += rebound_speed(solref, mixed_solimp(p, g, pair, world), g.shortest_time, x)
            fastest = wp.max(fastest, speed)
    for k in range(g.limit_joint.shape[0]):
        joint = g.limit_joint[k]
        for side in range(sides(m, joint)):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            x = distance - g.limit_margin[k]
            speed = row_velocity(m, s, joint, J, slot)
            if closes(m, x, speed):
                speed = wp.abs(speed)
                if SHARES:
                    speed += rebound_speed(p.limit_solref[world, k], p.limit_solimp[world, k], g.shortest_time, x)
                fastest = wp.max(fastest, speed)
    return fastest


@wp.func
def count_substeps(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, more: real, world: int, slot: int):
    """In how many substeps to do a step: in each of them contacts move by no more than a share of the tolerance."""
    moved = m.timestep * contact_speed(m, g, p, s, c, more, world, slot) / (FINE * m.tolerance)
    return int(wp.clamp(wp.ceil(moved), real(1.0), real(MOST_SUBSTEPS)))
