"""Rows of tendons: limits, friction loss, and equality constraints on joints and tendons; with their adjoint.

They stand among the rows of joints, after these. An equality says  y1 = P(y2), where the y are lengths less those in
the file's pose, and P is a polynomial of fourth degree; its row has J = J1 - P'(y2) J2, and MuJoCo leaves out that J
turns with y2. Its force has no bound.

Every contact model has the same rows, and its own law for them. That of MuJoCo for equalities is here too.
"""

import warp as wp

from ..collision.shapes import Shapes
from ..spatial.scalar import real, vec6
from ..tree.structs import Params, Workspace
from .law import impedance, impedance_adjoint, joint_row_force, row_stiffness, spring, spring_adjoint, weight_adjoint
from .rows import LOOP_ROW, UNBOUNDED, Rows, joint_row_motion, set_row_law


@wp.func
def limit_count(g: Shapes, r: Rows):
    """Of joints and tendons."""
    return g.limit_joint.shape[0] + r.tendons.limit.shape[0]


@wp.func
def is_of_tendons(g: Shapes, r: Rows, k: int, slot: int):
    """Whether row k of the joints is one of those here."""
    source = r.joint_source[k, slot]
    return (source >= 2 * g.limit_joint.shape[0] and source < LOOP_ROW) or -1 - source >= g.loss_dof.shape[0]


@wp.func
def first_equality(g: Shapes, r: Rows):
    """The source of the first one."""
    return 2 * limit_count(g, r)


@wp.func
def is_equality(g: Shapes, r: Rows, k: int, slot: int):
    """Whether it is an equality of numbers."""
    source = r.joint_source[k, slot]
    return source >= first_equality(g, r) and source < LOOP_ROW


@wp.func
def add_tendon_row(g: Shapes, r: Rows, source: int, t: int, sign: real, slot: int):
    """A row whose Jacobian is sign times that of a tendon. Returns its number."""
    k = r.joint_rows[0, slot]
    r.joint_rows[0, slot] = k + 1
    r.joint_source[k, slot] = source
    first = r.tendons.first[t]
    length = r.tendons.first[t + 1] - first
    r.joint_length[k, slot] = length
    for i in range(length):
        r.joint_chain[k * g.joint_width + i, slot] = r.tendons.dof[first + i]
        r.joint_J[k * g.joint_width + i, slot] = sign * r.tendon_J[first + i, slot]
    if r.tendons.coupled == 1:
        r.coupled[0, slot] = 1
    return k


@wp.func
def limit_side(p: Params, r: Rows, limit: int, t: int, side: int, world: int, slot: int):
    """How far a tendon is from one end of its range, and the sign of its Jacobian in that."""
    distance = r.tendon_length[t, slot] - p.limit[world, limit][0]
    sign = real(1.0)
    if side == 1:
        distance = p.limit[world, limit][1] - r.tendon_length[t, slot]
        sign = real(-1.0)
    return distance, sign


@wp.func
def polynomial(c: vec6, y: real):
    """P(y), P'(y) and P''(y)"""
    value = c[0] + y * (c[1] + y * (c[2] + y * (c[3] + y * c[4])))
    slope = c[1] + y * (real(2.0) * c[2] + y * (real(3.0) * c[3] + y * real(4.0) * c[4]))
    bend = real(2.0) * c[2] + y * (real(6.0) * c[3] + y * real(12.0) * c[4])
    return value, slope, bend


@wp.func
def equality_sides(p: Params, r: Rows, e: int, world: int, slot: int):
    """The residual y1 - P(y2) of equality e, y2, and the first two derivatives of P; those are zero without y2."""
    c = p.equality[world, e]
    two = r.tendons.equality_two[e]
    x = r.tendon_length[r.tendons.equality_one[e], slot] - r.tendons.equality_rest[e, 0] - c[0]
    y = real(0.0)
    slope = real(0.0)
    bend = real(0.0)
    if two >= 0:
        y = r.tendon_length[two, slot] - r.tendons.equality_rest[e, 1]
        value, slope, bend = polynomial(c, y)
        x -= value - c[0]
    return x, y, slope, bend


@wp.func
def add_equality_row(g: Shapes, r: Rows, e: int, slope: real, slot: int):
    """The row J1 - slope · J2 of equality e. Returns its number."""
    k = r.joint_rows[0, slot]
    r.joint_rows[0, slot] = k + 1
    r.joint_source[k, slot] = first_equality(g, r) + e
    first = r.tendons.equality_first[e]
    length = r.tendons.equality_first[e + 1] - first
    r.joint_length[k, slot] = length
    for i in range(length):
        J = real(0.0)
        one = r.tendons.equality_entry_one[first + i]
        two = r.tendons.equality_entry_two[first + i]
        if one >= 0:
            J += r.tendon_J[one, slot]
        if two >= 0:
            J -= slope * r.tendon_J[two, slot]
        r.joint_chain[k * g.joint_width + i, slot] = r.tendons.equality_dof[first + i]
        r.joint_J[k * g.joint_width + i, slot] = J
    if r.tendons.coupled == 1:
        r.coupled[0, slot] = 1
    return k


@wp.func
def tendon_constraint_rows(g: Shapes, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Adds the rows of tendons to those of joints, with MuJoCo's law."""
    for k in range(r.tendons.loss.shape[0]):
        at = g.loss_dof.shape[0] + k
        loss = p.loss[world, at]
        if loss > real(0.0):
            t = r.tendons.loss[k]
            solimp = g.loss_solimp[at]
            d, _slope = impedance(solimp, real(0.0))
            _k, damp = spring(g.loss_solref[at], solimp, g.shortest_time)
            stiffness, _s = row_stiffness(d, p.weight[world, g.loss_weight[at]])
            row = add_tendon_row(g, r, -1 - at, t, real(1.0), slot)
            set_row_law(r, row, damp * r.tendon_velocity[t, slot], stiffness, loss, slot)
    joints = g.limit_joint.shape[0]
    for k in range(r.tendons.limit.shape[0]):
        t = r.tendons.limit[k]
        limit = joints + k
        for side in range(2):
            distance, sign = limit_side(p, r, limit, t, side, world, slot)
            x = distance - g.limit_margin[limit]
            if x < real(0.0):
                solimp = p.limit_solimp[world, limit]
                d, _slope = impedance(solimp, x)
                stiff, damp = spring(p.limit_solref[world, limit], solimp, g.shortest_time)
                stiffness, _s = row_stiffness(d, p.weight[world, g.limit_weight[limit]])
                z = damp * sign * r.tendon_velocity[t, slot] + stiff * d * x
                row = add_tendon_row(g, r, 2 * limit + side, t, sign, slot)
                set_row_law(r, row, z, stiffness, real(0.0), slot)
    for e in range(r.tendons.equality_one.shape[0]):
        x, _y, slope, _bend = equality_sides(p, r, e, world, slot)
        solimp = p.equality_solimp[world, e]
        d, _slope = impedance(solimp, x)
        stiff, damp = spring(p.equality_solref[world, e], solimp, g.shortest_time)
        stiffness, _s = row_stiffness(d, p.weight[world, r.tendons.equality_weight[e]])
        row = add_equality_row(g, r, e, slope, slot)
        set_row_law(r, row, damp * joint_row_motion(g, r, s.v, row, slot) + stiff * d * x, stiffness, UNBOUNDED, slot)


# --- the adjoint -----------------------------------------------------------------------------------


@wp.func
def tendon_row_distance(g: Shapes, p: Params, r: Rows, k: int, world: int, slot: int):
    """How far row k is from its limit, or what an equality misses; friction loss has no distance."""
    source = r.joint_source[k, slot]
    x = real(0.0)
    if is_equality(g, r, k, slot):
        miss, _y, _slope, _bend = equality_sides(p, r, source - first_equality(g, r), world, slot)
        x = miss
    elif source >= 0:
        limit = source / 2
        t = r.tendons.limit[limit - g.limit_joint.shape[0]]
        distance, _sign = limit_side(p, r, limit, t, source % 2, world, slot)
        x = distance
    return x


@wp.func
def add_J_bar(g: Shapes, r: Rows, t: int, sign: real, k: int, slot: int):
    """Adds sign times the cotangent of row k's J, at all entries of a tendon, to that of the tendon's."""
    first = r.tendons.first[t]
    for i in range(r.tendons.first[t + 1] - first):
        bar = r.joint_J_bar[k * g.joint_width + i, slot]
        r.tendon_J_bar[first + i, slot] = r.tendon_J_bar[first + i, slot] + sign * bar


@wp.func
def tendon_row_adjoint(
    g: Shapes, p: Params, p_bar: Params, r: Rows, k: int, x_bar: real, world: int, slot: int, wants_params: int
):
    """From the cotangents of row k's J, in r.joint_J_bar, and of its distance to those of tendons and of parameters."""
    source = r.joint_source[k, slot]
    if is_equality(g, r, k, slot):
        e = source - first_equality(g, r)
        one = r.tendons.equality_one[e]
        two = r.tendons.equality_two[e]
        _x, y, slope, bend = equality_sides(p, r, e, world, slot)
        first = r.tendons.equality_first[e]
        slope_bar = real(0.0)
        for i in range(r.tendons.equality_first[e + 1] - first):
            bar = r.joint_J_bar[k * g.joint_width + i, slot]
            entry = r.tendons.equality_entry_one[first + i]
            other = r.tendons.equality_entry_two[first + i]
            if entry >= 0:
                r.tendon_J_bar[entry, slot] = r.tendon_J_bar[entry, slot] + bar
            if other >= 0:
                r.tendon_J_bar[other, slot] = r.tendon_J_bar[other, slot] - slope * bar
                slope_bar -= bar * r.tendon_J[other, slot]
        r.tendon_length_bar[one, slot] = r.tendon_length_bar[one, slot] + x_bar
        if two >= 0:
            y_bar = bend * slope_bar - slope * x_bar
            r.tendon_length_bar[two, slot] = r.tendon_length_bar[two, slot] + y_bar
        if wants_params == 1:
            c_bar = p_bar.equality[world, e]
            c_bar[0] -= x_bar
            if two >= 0:
                power = real(1.0)  # y^(n - 1)
                for n in range(1, 5):
                    c_bar[n] += power * (real(n) * slope_bar - y * x_bar)
                    power *= y
            p_bar.equality[world, e] = c_bar
    elif source < 0:
        add_J_bar(g, r, r.tendons.loss[-1 - source - g.loss_dof.shape[0]], real(1.0), k, slot)
    else:
        limit = source / 2
        t = r.tendons.limit[limit - g.limit_joint.shape[0]]
        _distance, sign = limit_side(p, r, limit, t, source % 2, world, slot)
        r.tendon_length_bar[t, slot] = r.tendon_length_bar[t, slot] + sign * x_bar
        add_J_bar(g, r, t, sign, k, slot)
        if wants_params == 1:
            limits_bar = p_bar.limit[world, limit]
            if source % 2 == 1:
                limits_bar[1] += x_bar
            else:
                limits_bar[0] -= x_bar
            p_bar.limit[world, limit] = limits_bar


@wp.func
def equality_law_adjoint(
    g: Shapes,
    p: Params,
    p_bar: Params,
    r: Rows,
    k: int,
    u: real,
    z_bar: real,
    Jv: real,
    x: real,
    world: int,
    slot: int,
    wants_params: int,
):
    """Of MuJoCo's law: cotangents of J v and x in u · force, z_bar being that of z, and of the law's parameters."""
    e = r.joint_source[k, slot] - first_equality(g, r)
    z = r.joint_z[k, slot]
    _force, K, _bound = joint_row_force(z, r.joint_stiffness[k, slot], r.joint_loss[k, slot])
    stiffness_bar = real(0.0)
    if K > real(0.0):
        stiffness_bar = -z * u
    solref = p.equality_solref[world, e]
    solimp = p.equality_solimp[world, e]
    stiff, damp = spring(solref, solimp, g.shortest_time)
    d, d_slope = impedance(solimp, x)
    row, stiffness_d = row_stiffness(d, p.weight[world, r.tendons.equality_weight[e]])
    d_bar = z_bar * stiff * x + stiffness_bar * stiffness_d
    if wants_params == 1:
        weight_adjoint(p, p_bar, r.tendons.equality_weight[e], row, stiffness_d, stiffness_bar, world)
        solimp_bar = impedance_adjoint(solimp, x, d_bar)
        solref_bar, d1_bar = spring_adjoint(solref, solimp, g.shortest_time, z_bar * d * x, z_bar * Jv)
        solimp_bar[1] = solimp_bar[1] + d1_bar
        p_bar.equality_solref[world, e] = p_bar.equality_solref[world, e] + solref_bar
        p_bar.equality_solimp[world, e] = p_bar.equality_solimp[world, e] + solimp_bar
    return damp * z_bar, z_bar * stiff * d + d_bar * d_slope
