"""What couples joints, as blocks of ``impulse.py``: limits and friction loss of tendons, and equality constraints.

Each row is a block of its own, with one impulse. That of an equality pushes and pulls, and brings the velocity to
-erp x / h, where x is what the equality misses. Its sign is such that this aim is not negative: like that of a limit it
is given up where meeting it would take too much, as in a loop that cannot close.

Blocks are whitened along chains that go up to the root, and a tendon may leave out joints between its own: here a chain
has all degrees of freedom that carry one of them, and J is zero at the others.
"""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec3, vec4
from ..tree.structs import Params, Tree, Workspace
from .flavour import LOOPS, TENDONS
from .impulse_sweeps import NO_BOUND, only_normal
from .rows import LOOP_ROW, Rows, contact_count, contact_motion

if LOOPS:
    from .loops import add_loop_rows, loop_rows_adjoint, residual
if TENDONS:
    from .tendon_rows import (
        add_equality_row,
        add_tendon_row,
        equality_sides,
        is_equality,
        is_of_tendons,
        limit_side,
        tendon_row_adjoint,
        tendon_row_distance,
    )

# How stiff rows are for the first guess, against their inverse weight [1]: stiff enough to be near, soft enough for
# single precision.
START_STIFFNESS = wp.constant(real(1e3))


@wp.func
def rest_aim(x: real, slop: real, erp: real, h: real):
    """Velocity along the normal: what undoes a share of the depth beyond ``slop``, and closes a gap, if there is one.

    Bodies come to rest at the depth ``slop``, well away from the kink where surfaces touch.
    """
    target = -erp * (wp.min(x, real(0.0)) + slop) / h
    if x > real(0.0):
        target -= x / h
    return target


@wp.func
def rest_aim_adjoint(x: real, slop: real, erp: real, h: real, bar: real):
    """Cotangents of x, slop and erp in bar · target."""
    x_bar = wp.where(x > real(0.0), -bar / h, -erp * bar / h)
    return x_bar, -erp * bar / h, -(wp.min(x, real(0.0)) + slop) * bar / h


@wp.func
def finish_block(m: Tree, s: Workspace, r: Rows, target: real, inverse_weight: real, k: int, slot: int):
    """What is left of block k once its chain and J are known: a row, whose tangents stay zero."""
    v_free = contact_motion(m, r, s.v, k, slot) + m.timestep * contact_motion(m, r, s.a, k, slot)
    r.b[k, slot] = v_free - only_normal(target)
    r.friction[k, slot] = only_normal(real(0.0))
    r.start_stiffness[k, slot] = only_normal(START_STIFFNESS / inverse_weight)


@wp.func
def couple_block(
    m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, row: int, sign: real, target: real,
    inverse_weight: real, slot: int,
):  # fmt: skip
    """A row of the joints, with this sign, becomes a block. Returns its number."""
    k = contact_count(c, slot) + row
    mass = real(0.0)
    for d in range(m.nv):
        r.scratch[d, slot] = 0
    first = row * g.joint_width
    length = r.joint_length[row, slot]
    for i in range(length):
        r.scratch[r.joint_chain[first + i, slot], slot] = 1
    own = int(0)
    count = int(0)
    for back in range(m.nv):
        d = m.nv - 1 - back
        if r.scratch[d, slot] == 1:
            J = real(0.0)
            if own < length:
                if r.joint_chain[first + own, slot] == d:
                    J = sign * r.joint_J[first + own, slot]
                    r.joint_J[first + own, slot] = J
                    own += 1
            r.chain[k * m.nv + count, slot] = d
            r.J[k * m.nv + count, slot] = only_normal(J)
            count += 1
            mass = wp.max(mass, g.root_mass[d])
            if m.dof_parent[d] >= 0:
                r.scratch[m.dof_parent[d], slot] = 1
    r.chain_length[k, slot] = count
    r.arm[k, slot] = real(1.0) / (inverse_weight * mass)
    finish_block(m, s, r, target, inverse_weight, k, slot)
    return k


@wp.func
def towards(x: real):
    """The sign of a row whose velocity is to undo x."""
    return wp.where(x > real(0.0), real(-1.0), real(1.0))


@wp.func
def equality_block(
    m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, row: int, x: real, weight: int,
    world: int, slot: int,
):  # fmt: skip
    """A row of the joints that is an equality which misses by x."""
    aim = p.impulse[world, 0][0] * wp.abs(x) / m.timestep
    k = couple_block(m, g, s, c, r, row, towards(x), aim, p.weight[world, weight], slot)
    r.low[k, slot] = -NO_BOUND
    r.aim[k, slot] = aim


@wp.func
def tendon_blocks(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    h = m.timestep
    for i in range(r.tendons.loss.shape[0]):
        at = g.loss_dof.shape[0] + i
        row = add_tendon_row(g, r, -1 - at, r.tendons.loss[i], real(1.0), slot)
        k = couple_block(m, g, s, c, r, row, real(1.0), real(0.0), p.weight[world, g.loss_weight[at]], slot)
        r.low[k, slot] = -h * p.loss[world, at]
        r.high[k, slot] = h * p.loss[world, at]
        r.aim[k, slot] = NO_BOUND
    for i in range(r.tendons.limit.shape[0]):
        limit = g.limit_joint.shape[0] + i
        t = r.tendons.limit[i]
        for side in range(2):
            distance, sign = limit_side(p, r, limit, t, side, world, slot)
            if distance < g.limit_margin[limit]:
                row = add_tendon_row(g, r, 2 * limit + side, t, sign, slot)
                aim = rest_aim(distance, real(0.0), p.impulse[world, 0][0], h)
                k = couple_block(m, g, s, c, r, row, real(1.0), aim, p.weight[world, g.limit_weight[limit]], slot)
                r.low[k, slot] = real(0.0)
                r.aim[k, slot] = wp.max(aim, real(0.0))
    for e in range(r.tendons.equality_one.shape[0]):
        x, _y, slope, _bend = equality_sides(p, r, e, world, slot)
        row = add_equality_row(g, r, e, slope, slot)
        equality_block(m, g, p, s, c, r, row, x, r.tendons.equality_weight[e], world, slot)


@wp.func
def arm_of_loop(p: Params, r: Rows, e: int, world: int):
    """How long the levers are at which a loop turns its bodies, in the file's pose [m]; infinite if they only slide."""
    turns = p.weight[world, r.loops.weight[e, 1]]
    result = NO_BOUND
    if turns > real(0.0):
        result = wp.sqrt(p.weight[world, r.loops.weight[e, 0]] / turns)
    return result


@wp.func
def near(x: real, p: Params, r: Rows, e: int, world: int):
    """As much of a gap of loop e as is closed at once: one that is wider than its levers would turn them too fast."""
    arm = arm_of_loop(p, r, e, world)
    return wp.clamp(x, -arm, arm)


@wp.func
def loop_blocks(m: Tree, g: Shapes, p: Params, s: Workspace, c: Contacts, r: Rows, world: int, slot: int):
    for e in range(r.loops.rows.shape[0]):
        apart, turned, _size = residual(p, s, r, e, world, slot)
        first = add_loop_rows(g, p, s, r, e, world, slot)
        for i in range(r.loops.rows[e]):
            x = wp.where(i < 3, near(apart[i % 3], p, r, e, world), turned[i % 3])
            equality_block(m, g, p, s, c, r, first + i, x, r.loops.weight[e, i / 3], world, slot)


# --- the adjoint -----------------------------------------------------------------------------------


@wp.func
def gather_J_bar(m: Tree, g: Shapes, s: Workspace, c: Contacts, r: Rows, row: int, sign: real, slot: int):
    """r.joint_J_bar of a row, from that of its block in r.B_bar and from b = J (v + h a) - target."""
    k = contact_count(c, slot) + row
    row_bar = r.b_bar[k, slot][0]
    first = row * g.joint_width
    own = int(0)
    for i in range(r.chain_length[k, slot]):
        d = r.chain[k * m.nv + i, slot]
        if own < r.joint_length[row, slot]:
            if r.joint_chain[first + own, slot] == d:
                moved = s.v[d, slot] + m.timestep * s.a[d, slot]
                r.joint_J_bar[first + own, slot] = sign * (r.B_bar[k * m.nv + i, slot][0] + row_bar * moved)
                own += 1


@wp.func
def equality_aim_adjoint(
    m: Tree, p: Params, p_bar: Params, r: Rows, k: int, x: real, world: int, slot: int, wants_params: int
):
    """The cotangent of what the equality of block k misses, in b_bar · b + aim_bar · aim."""
    share = (r.aim_bar[k, slot] - r.b_bar[k, slot][0]) / m.timestep
    if wants_params == 1:
        p_bar.impulse[world, 0] = p_bar.impulse[world, 0] + vec4(share * wp.abs(x), real(0.0), real(0.0), real(0.0))
    return -towards(x) * p.impulse[world, 0][0] * share


@wp.func
def tendon_block_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, row: int,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """From J_bar, b_bar and aim_bar of a row of a tendon, or of an equality of numbers, to tendons and parameters."""
    k = contact_count(c, slot) + row
    x = tendon_row_distance(g, p, r, row, world, slot)
    x_bar = real(0.0)
    sign = real(1.0)
    if is_equality(g, r, row, slot):
        sign = towards(x)
        x_bar = equality_aim_adjoint(m, p, p_bar, r, k, x, world, slot, wants_params)
    elif r.joint_source[row, slot] >= 0:
        bar = r.aim_bar[k, slot] - r.b_bar[k, slot][0]
        limit_bar, _slop_bar, erp_bar = rest_aim_adjoint(x, real(0.0), p.impulse[world, 0][0], m.timestep, bar)
        x_bar = limit_bar
        if wants_params == 1:
            p_bar.impulse[world, 0] = p_bar.impulse[world, 0] + vec4(erp_bar, real(0.0), real(0.0), real(0.0))
    gather_J_bar(m, g, s, c, r, row, sign, slot)
    tendon_row_adjoint(g, p, p_bar, r, row, x_bar, world, slot, wants_params)


@wp.func
def loop_blocks_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """The same for the rows of loops: to S_bar, W and parameters."""
    for e in range(r.loops.rows.shape[0]):
        apart, turned, _size = residual(p, s, r, e, world, slot)
        apart_bar = vec3()
        turned_bar = vec3()
        for i in range(r.loops.rows[e]):
            row = r.loop_row[e, slot] + i
            k = contact_count(c, slot) + row
            x = wp.where(i < 3, near(apart[i % 3], p, r, e, world), turned[i % 3])
            gather_J_bar(m, g, s, c, r, row, towards(x), slot)
            x_bar = equality_aim_adjoint(m, p, p_bar, r, k, x, world, slot, wants_params)
            if i < 3:
                if x == apart[i]:
                    apart_bar[i] = x_bar
            else:
                turned_bar[i - 3] = x_bar
        loop_rows_adjoint(g, p, p_bar, s, r, e, apart_bar, turned_bar, world, slot, wants_params)


@wp.func
def couplings_adjoint(
    m: Tree, g: Shapes, p: Params, p_bar: Params, s: Workspace, c: Contacts, r: Rows, row: int,
    world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Of a row of the joints, if it is one of those here. Returns whether it is."""
    coupled = bool(False)
    if LOOPS:
        coupled = r.joint_source[row, slot] >= LOOP_ROW  # which come all at once
    if TENDONS:
        if is_of_tendons(g, r, row, slot):
            tendon_block_adjoint(m, g, p, p_bar, s, c, r, row, world, slot, wants_params)
            coupled = True
    return coupled
