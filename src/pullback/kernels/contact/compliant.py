"""A compliant surface: a smooth spring with dissipation along the normal, and regularised Coulomb friction.

With the depth δ = margin - distance, the velocities v_n and v_t of shape 2 against shape 1, and the smooth ramp below,

    f_n = k ramp(δ; smoothing) · ramp(1 - d v_n; 1/10)            f_t = -μ f_n v_t / sqrt(|v_t|² + slip_speed²)

(the dissipation is Hunt and Crossley's: none at zero depth). Such forces are stiff. They are therefore taken at the end
of the step, to first order: δ - h (v + h a) and v + h a stand for δ and v, so that f = F - C J a with C ≥ 0, and a
solves a linear system (``linear_forces.py``). Runge-Kutta takes them as they are: F is the force, and C zero.

Limits of joints and tendons are springs of the same kind, friction loss is regularised like friction. An equality
constraint that misses by x is a spring and damper that push and pull, f = -k x - c ẋ.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec3, vec4
from ..status import HEALTHY
from ..tree.structs import RK4, Params, Tree, Workspace
from .flavour import LOOPS, TENDONS, vecr
from .limits import add_limit_row, limit_distance, row_velocity, sides
from .linear_forces import contact_response, joint_response, linear_forces
from .materials import mixed_friction, mixed_friction_adjoint
from .rows import (
    LOOP_ROW,
    Rows,
    add_loss_row,
    contact_count,
    contact_jacobian,
    contact_motion,
    joint_row_motion,
)

if LOOPS:
    from .loops import add_loop_rows, residual
if TENDONS:
    from .tendon_rows import add_equality_row, add_tendon_row, equality_sides, first_equality, is_equality, limit_side

__all__ = ["contact_law_adjoint", "contact_response", "forces", "joint_law_adjoint", "joint_response", "margin"]

# Dissipation would make a surface pull once bodies part faster than 1/d; the force fades to zero over the last tenth
# on either side of that.
FADE = wp.constant(real(0.1))


@wp.func
def ramp(x: real, width: real):
    """max(x, 0), rounded off between -width and width so that it has two continuous derivatives.

    Returns it, its first two derivatives by x, and those by width of it and of the first.
    """
    value = real(0.0)
    slope = real(0.0)
    bend = real(0.0)
    value_width = real(0.0)
    slope_width = real(0.0)
    if x >= width:
        value = x
        slope = real(1.0)
    elif x > -width:
        one = real(1.0)
        t = x / width
        up = one + t
        shape = up * up * up * (real(3.0) - t) / real(16.0)
        slope = up * up * (real(2.0) - t) / real(4.0)
        curve = real(0.75) * (one - t * t)
        value = width * shape
        bend = curve / width
        value_width = shape - t * slope
        slope_width = -t * curve / width
    return value, slope, bend, value_width, slope_width


@wp.func
def implicit_time(m: Tree):
    """How far ahead forces are taken [s]."""
    return wp.where(m.integrator == RK4, real(0.0), m.timestep)


@wp.func
def surface(p: Params, g: Shapes, pair: int, world: int):
    """Stiffness of both surfaces in series, and the dissipation of both, each by its share of the depth."""
    b1 = p.surface[world, g.pair_first[pair]]
    b2 = p.surface[world, g.pair_second[pair]]
    share = b2[0] / (b1[0] + b2[0])
    return share * b1[0], share * b1[1] + (real(1.0) - share) * b2[1]


@wp.func
def surface_adjoint(p: Params, p_bar: Params, g: Shapes, pair: int, k_bar: real, d_bar: real, world: int):
    i = g.pair_first[pair]
    j = g.pair_second[pair]
    b1 = p.surface[world, i]
    b2 = p.surface[world, j]
    total = b1[0] + b2[0]
    share = b2[0] / total
    rest = real(1.0) - share
    share_bar = k_bar * b1[0] + d_bar * (b1[1] - b2[1])
    bar1 = vec3(k_bar * share - share_bar * share / total, d_bar * share, real(0.0))
    bar2 = vec3(share_bar * rest / total, d_bar * rest, real(0.0))
    p_bar.surface[world, i] = p_bar.surface[world, i] + bar1
    p_bar.surface[world, j] = p_bar.surface[world, j] + bar2


@wp.func
def spring_force(depth: real, speed: real, k: real, d: real, smoothing: real, h: real):
    """Force of a spring at a = 0 and what it loses by the acceleration; and without looking ahead.

    ``speed`` is that of parting.
    """
    R, R1, _R2, _Rw, _R1w = ramp(depth, smoothing)
    G, G1, _G2, _Gw, _G1w = ramp(real(1.0) - d * speed, FADE)
    now = k * R * G
    return now - h * k * R1 * G * speed, h * k * (h * R1 * G + R * d * G1), now


@wp.func
def spring_force_adjoint(
    depth: real, speed: real, k: real, d: real, smoothing: real, h: real, u: real, a: real, now_bar: real
):
    """Cotangents of depth, speed, k, d and smoothing in u · (F - C a) + now_bar · now."""
    R, R1, R2, Rw, R1w = ramp(depth, smoothing)
    G, G1, G2, _Gw, _G1w = ramp(real(1.0) - d * speed, FADE)
    ahead = speed + h * a
    f_bar = u + now_bar
    k_bar = f_bar * R * G - h * u * (R1 * G * ahead + d * R * G1 * a)
    R_bar = f_bar * k * G - h * u * k * d * G1 * a
    R1_bar = -h * u * k * G * ahead
    G_bar = f_bar * k * R - h * u * k * R1 * ahead
    G1_bar = -h * u * k * d * R * a
    e_bar = G_bar * G1 + G1_bar * G2
    d_bar = -h * u * k * R * G1 * a - e_bar * speed
    speed_bar = -e_bar * d - h * u * k * R1 * G
    return R_bar * R1 + R1_bar * R2, speed_bar, k_bar, d_bar, R_bar * Rw + R1_bar * R1w


@wp.func
def drag(coefficient: real, speed2: real, slip_speed: real):
    """Force per unit of velocity."""
    return coefficient / wp.sqrt(speed2 + slip_speed * slip_speed)


@wp.func
def compliant_rows(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    h = implicit_time(m)
    law = p.compliance[world, 0]
    r.coupled[0, slot] = 0
    for k in range(contact_count(c, slot)):
        contact_jacobian(m, g, s, c, r, k, slot)
        pair = c.pair[k, slot]
        v = contact_motion(m, r, s.v, k, slot)
        stiffness, dissipation = surface(p, g, pair, world)
        depth = g.pair_margin[pair] - c.dist[k, slot]
        F_n, C_n, now = spring_force(depth, v[0], stiffness, dissipation, law[0], h)
        F = vecr()
        C = vecr()
        F[0] = F_n
        C[0] = C_n
        if g.pair_dim[pair] > 1:
            friction = mixed_friction(p, g, pair, world)
            c_t = drag(friction[1] * now, v[1] * v[1] + v[2] * v[2], law[1])
            F[1] = -c_t * v[1]
            F[2] = -c_t * v[2]
            C[1] = h * c_t
            C[2] = h * c_t
        r.free_force[k, slot] = F
        r.softening[k, slot] = C
    r.joint_rows[0, slot] = 0
    for k in range(g.loss_dof.shape[0]):
        dof = g.loss_dof[k]
        v_dof = s.v[dof, slot]
        c_loss = drag(p.loss[world, k], v_dof * v_dof, law[3])
        row = add_loss_row(g, r, k, slot)
        set_force(r, row, -c_loss * v_dof, h * c_loss, slot)
    for k in range(g.limit_joint.shape[0]):
        joint = g.limit_joint[k]
        for side in range(sides(m, joint)):
            distance, J = limit_distance(m, g, p, s, k, side, world, slot)
            depth_limit = g.limit_margin[k] - distance
            if depth_limit > -law[2]:
                spring = p.limit_spring[world, k]
                F_l, C_l, _now = spring_force(
                    depth_limit, row_velocity(m, s, joint, J, slot), spring[0], spring[1], law[2], h
                )
                row_l = add_limit_row(m, g, r, k, side, J, slot)
                set_force(r, row_l, F_l, C_l, slot)
    if TENDONS:
        tendon_springs(g, p, s, r, h, world, slot)
    if LOOPS:
        loop_springs(g, p, s, r, h, world, slot)


@wp.func
def set_force(r: Rows, row: int, F: real, C: real, slot: int):
    """Of a row of the joints: its force at a = 0, and what it loses by the acceleration."""
    r.joint_free_force[row, slot] = F
    r.joint_softening[row, slot] = C


@wp.func
def hold(x: real, speed: real, k: real, c: real, h: real):
    """F and C of a spring and damper that push and pull."""
    return -k * (x + h * speed) - c * speed, h * (h * k + c)


@wp.func
def tendon_springs(g: Shapes, p: Params, s: Workspace, r: Rows, h: real, world: int, slot: int):
    """The rows of tendons, and of equalities of numbers."""
    law = p.compliance[world, 0]
    for k in range(r.tendons.loss.shape[0]):
        at = g.loss_dof.shape[0] + k
        t = r.tendons.loss[k]
        speed = r.tendon_velocity[t, slot]
        c_loss = drag(p.loss[world, at], speed * speed, law[3])
        row = add_tendon_row(g, r, -1 - at, t, real(1.0), slot)
        set_force(r, row, -c_loss * speed, h * c_loss, slot)
    for k in range(r.tendons.limit.shape[0]):
        limit = g.limit_joint.shape[0] + k
        t = r.tendons.limit[k]
        for side in range(2):
            distance, sign = limit_side(p, r, limit, t, side, world, slot)
            depth = g.limit_margin[limit] - distance
            if depth > -law[2]:
                spring = p.limit_spring[world, limit]
                F, C, _now = spring_force(depth, sign * r.tendon_velocity[t, slot], spring[0], spring[1], law[2], h)
                row = add_tendon_row(g, r, 2 * limit + side, t, sign, slot)
                set_force(r, row, F, C, slot)
    for e in range(r.tendons.equality_one.shape[0]):
        x, _y, slope, _bend = equality_sides(p, r, e, world, slot)
        held = p.equality_spring[world, e]
        row = add_equality_row(g, r, e, slope, slot)
        F, C = hold(x, joint_row_motion(g, r, s.v, row, slot), held[0], held[2], h)
        set_force(r, row, F, C, slot)


@wp.func
def loop_springs(g: Shapes, p: Params, s: Workspace, r: Rows, h: real, world: int, slot: int):
    """The rows of connects and welds."""
    for e in range(r.loops.rows.shape[0]):
        held = p.equality_spring[world, r.loops.first_law + e]
        apart, turned, _size = residual(p, s, r, e, world, slot)
        first = add_loop_rows(g, p, s, r, e, world, slot)
        for i in range(r.loops.rows[e]):
            speed = joint_row_motion(g, r, s.v, first + i, slot)
            F = real(0.0)
            C = real(0.0)
            if i < 3:
                F, C = hold(apart[i], speed, held[0], held[2], h)
            else:
                F, C = hold(turned[i - 3], speed, held[1], held[3], h)
            set_force(r, first + i, F, C, slot)


@wp.func
def margin(p: Params, world: int):
    """How far beyond the margins of a file there are forces [m]: they begin a little before surfaces touch."""
    return p.compliance[world, 0][0]


@wp.func
def forces(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    """Adds the constraint forces to s.tau. After outward, joint_forces, bias_forces and the detection of contacts."""
    compliant_rows(m, g, p, s, c, r, world, slot)
    linear_forces(m, g, p, s, c, r, world, slot)
    return HEALTHY


# --- the adjoint of the law -------------------------------------------------------------------------


@wp.func
def contact_law_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    c: Contacts,
    r: Rows,
    k: int,
    u: vecr,
    Ja: vecr,
    Jv: vecr,
    world: int,
    slot: int,
    wants_params: int,
):
    """Cotangents of J v and of the distance in u · force, and of the parameters."""
    h = implicit_time(m)
    law = p.compliance[world, 0]
    pair = c.pair[k, slot]
    stiffness, dissipation = surface(p, g, pair, world)
    depth = g.pair_margin[pair] - c.dist[k, slot]
    v_bar = vecr()
    now_bar = real(0.0)
    slip_bar = real(0.0)
    if g.pair_dim[pair] > 1:
        _F, _C, now = spring_force(depth, Jv[0], stiffness, dissipation, law[0], h)
        friction = mixed_friction(p, g, pair, world)
        speed2 = Jv[1] * Jv[1] + Jv[2] * Jv[2] + law[1] * law[1]
        a_unit = drag(friction[1], Jv[1] * Jv[1] + Jv[2] * Jv[2], law[1])
        c_t = a_unit * now
        c_bar = -(u[1] * (Jv[1] + h * Ja[1]) + u[2] * (Jv[2] + h * Ja[2]))
        now_bar = c_bar * a_unit
        for j in range(1, 3):
            v_bar[j] = -c_t * u[j] - c_bar * c_t * Jv[j] / speed2
        slip_bar = -c_bar * c_t * law[1] / speed2
        if wants_params == 1:
            friction_bar = vecr()
            friction_bar[1] = c_bar * now * drag(real(1.0), Jv[1] * Jv[1] + Jv[2] * Jv[2], law[1])
            mixed_friction_adjoint(p, p_bar, g, pair, friction_bar, world)
    depth_bar, speed_bar, k_bar, d_bar, smoothing_bar = spring_force_adjoint(
        depth, Jv[0], stiffness, dissipation, law[0], h, u[0], Ja[0], now_bar
    )
    v_bar[0] = speed_bar
    if wants_params == 1:
        surface_adjoint(p, p_bar, g, pair, k_bar, d_bar, world)
        bar = vec4(smoothing_bar, slip_bar, real(0.0), real(0.0))
        p_bar.compliance[world, 0] = p_bar.compliance[world, 0] + bar
    return v_bar, -depth_bar


@wp.func
def joint_law_adjoint(
    m: Tree,
    g: Shapes,
    p: Params,
    p_bar: Params,
    r: Rows,
    k: int,
    u: real,
    Ja: real,
    Jv: real,
    distance: real,
    world: int,
    slot: int,
    wants_params: int,
):
    """The same for a row of a joint or tendon, or of an equality; that of friction loss has no distance."""
    h = implicit_time(m)
    law = p.compliance[world, 0]
    source = r.joint_source[k, slot]
    v_bar = real(0.0)
    x_bar = real(0.0)
    equality = int(-1)
    turns = int(0)
    if LOOPS:
        if source >= LOOP_ROW:
            equality = r.loops.first_law + (source - LOOP_ROW) / 6
            turns = wp.where((source - LOOP_ROW) % 6 < 3, 0, 1)
    if TENDONS:
        if is_equality(g, r, k, slot):
            equality = source - first_equality(g, r)
    if equality >= 0:
        held = p.equality_spring[world, equality]
        ahead = Jv + h * Ja
        x_bar = -held[turns] * u
        v_bar = h * x_bar - held[2 + turns] * u
        if wants_params == 1:
            held_bar = p_bar.equality_spring[world, equality]
            held_bar[turns] -= u * (distance + h * ahead)
            held_bar[2 + turns] -= u * ahead
            p_bar.equality_spring[world, equality] = held_bar
    elif source < 0:
        loss = -1 - source
        speed2 = Jv * Jv + law[3] * law[3]
        a_unit = drag(real(1.0), Jv * Jv, law[3])
        c_loss = a_unit * p.loss[world, loss]
        c_bar = -u * (Jv + h * Ja)
        v_bar = -c_loss * u - c_bar * c_loss * Jv / speed2
        if wants_params == 1:
            p_bar.loss[world, loss] = p_bar.loss[world, loss] + c_bar * a_unit
            slip_bar = -c_bar * c_loss * law[3] / speed2
            bar = vec4(real(0.0), real(0.0), real(0.0), slip_bar)
            p_bar.compliance[world, 0] = p_bar.compliance[world, 0] + bar
    else:
        limit = source / 2
        spring = p.limit_spring[world, limit]
        depth_bar, speed_bar, k_bar, d_bar, smoothing_bar = spring_force_adjoint(
            g.limit_margin[limit] - distance, Jv, spring[0], spring[1], law[2], h, u, Ja, real(0.0)
        )
        v_bar = speed_bar
        x_bar = -depth_bar
        if wants_params == 1:
            p_bar.limit_spring[world, limit] = p_bar.limit_spring[world, limit] + vec3(k_bar, d_bar, real(0.0))
            bar = vec4(real(0.0), real(0.0), smoothing_bar, real(0.0))
            p_bar.compliance[world, 0] = p_bar.compliance[world, 0] + bar
    return v_bar, x_bar
