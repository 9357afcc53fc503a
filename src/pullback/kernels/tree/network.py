"""A small network in front of a step: what it reads, a perceptron, and what it gives; with its adjoint.

It is evaluated once per *row*: a row is the world, or each of its joints. The units of a layer stand side by side in
vectors of WIDE lanes, and four vectors are a *group*: numbers of the layer before, four at a time, are multiplied with
groups of weights, whose sums stay in registers. An index costs as much as a product, so that as much as possible is
read by one. Units beyond the last have weights of zero. The slope of an activation is found from its value, so that
values are all that is kept for the way back.
"""

import numpy as np
import warp as wp

from ..spatial.algebra import quat_matrix
from ..spatial.scalar import real, vec3, vec4
from .structs import Workspace, add_vec3, read_quat

WIDE = 8
GROUP = 4 * WIDE
lanes = wp.types.vector(WIDE, real)
lanes4 = wp.types.matrix((4, WIDE), real)
THIN = wp.constant(8)  # units

# What a feature is of state, control and memory.
COORDINATE = wp.constant(0)
SINE = wp.constant(1)
COSINE = wp.constant(2)
ROTATION = wp.constant(3)  # an entry of a rotation's matrix, column by column
VELOCITY = wp.constant(4)
CONTROL = wp.constant(5)
ERROR = wp.constant(6)  # a control less a coordinate
MEMORY = wp.constant(7)

# Activations.
LINEAR = wp.constant(0)
TANH = wp.constant(1)
SOFTSIGN = wp.constant(2)
ELU = wp.constant(3)
RELU = wp.constant(4)

# tanh(x) from a polynomial at x / 2⁶, doubled six times as a fraction: tanh(2x) = 2 n d / (d² + n²) of tanh(x) = n / d.
# All terms have one sign, so that the result is exact to a few roundings of its own size, however small.
DOUBLINGS = 6
LARGEST = wp.constant(real(20.0))  # beyond, tanh is one
SMALLEST_PART = wp.constant(real(2.0**-DOUBLINGS))
DEGREE = 4 if real is wp.float32 else 8


def _tanh_coefficients(degree: int) -> list[float]:
    """Of the polynomial in x² through tanh(x) / x at Chebyshev's points of [0, (20 / 2⁶)²], highest power first."""
    most = (20.0 * 2.0**-DOUBLINGS) ** 2

    def ratio(square):
        x = np.sqrt(np.maximum(square, 1e-300))
        return np.tanh(x) / x

    fit = np.polynomial.Chebyshev.interpolate(ratio, degree, domain=[0.0, most])
    return fit.convert(kind=np.polynomial.Polynomial).coef[::-1].tolist()


vec_powers = wp.types.vector(DEGREE + 1, real)
TANH_POWERS = wp.constant(vec_powers(*_tanh_coefficients(DEGREE)))


@wp.struct
class Network:
    """Sizes and wiring: nothing here is differentiated."""

    rows: int
    layers: int
    groups: int  # that the units of all layers of a row take, features among them
    units: wp.array(dtype=int)  # (layers + 1,): features, units of each layer, outputs
    first: wp.array(dtype=int)  # (layers + 1,): the first group of each in a row
    bend: wp.array(dtype=int)  # (layers,): the activation behind a layer
    bend_size: wp.array(dtype=real)  # (layers,): alpha of an ELU
    down: wp.array(dtype=int)  # (layers,): the first group of weights, by the unit they come from
    up: wp.array(dtype=int)  # likewise by the unit they lead to
    bias: wp.array(dtype=int)
    feature: wp.array2d(dtype=int)  # (rows, features): which kind
    feature_at: wp.array2d(dtype=int)  # place in q, v, the control or the memory
    feature_dof: wp.array2d(dtype=int)  # degree of freedom, the first of a rotation
    feature_with: wp.array2d(dtype=int)  # entry of a rotation; the control of an error
    feature_centre: wp.array(dtype=real)  # (features,): the network is given (x - centre) · scale
    feature_scale: wp.array(dtype=real)
    place: wp.array2d(dtype=int)  # (rows, outputs): where in what is corrected an output goes
    scale: wp.array(dtype=real)  # (outputs,)
    limit: real  # of what is added
    width: int  # numbers of what is corrected, in a world
    pair_q: wp.array(dtype=int)  # per joint whose error and velocity are remembered: its coordinate ...
    pair_v: wp.array(dtype=int)  # ... and degree of freedom
    times: int  # how many pairs are remembered of each


@wp.struct
class Weights:
    """``[world, group]``. The same struct holds cotangents, which are in one of ``down`` and ``up``."""

    down: wp.array2d(dtype=lanes4)
    up: wp.array2d(dtype=lanes4)
    bias: wp.array2d(dtype=lanes4)


@wp.struct
class Activations:
    """Of the world that a thread works on, as groups, vectors, fours and numbers: the same memory."""

    value: wp.array(dtype=lanes4)  # (rows · groups,)
    vector: wp.array(dtype=lanes)
    four: wp.array(dtype=vec4)
    number: wp.array(dtype=real)
    bar: wp.array(dtype=lanes4)
    bar_vector: wp.array(dtype=lanes)
    bar_four: wp.array(dtype=vec4)
    bar_number: wp.array(dtype=real)


@wp.struct
class Drive:
    """What stands between network and step, ``[world, item]``."""

    push: wp.array2d(dtype=real)  # what the step is given: controls, forces or wrenches
    push_bar: wp.array2d(dtype=real)
    now: wp.array2d(dtype=real)  # error and velocity of each joint that is remembered
    memory: wp.array2d(dtype=real)  # [world, (joint · times + time) · 2 + which]
    memory_bar: wp.array2d(dtype=real)


# --- features --------------------------------------------------------------------------------------


@wp.func
def feature_value(
    n: Network, d: Drive, s: Workspace, controls: wp.array3d(dtype=real),
    row: int, i: int, t: int, world: int, slot: int,
):  # fmt: skip
    kind = n.feature[row, i]
    at = n.feature_at[row, i]
    x = real(0.0)
    if kind == COORDINATE:
        x = s.q[at, slot]
    elif kind == SINE:
        x = wp.sin(s.q[at, slot])
    elif kind == COSINE:
        x = wp.cos(s.q[at, slot])
    elif kind == ROTATION:
        entry = n.feature_with[row, i]
        R = quat_matrix(read_quat(s, at, slot))
        x = R[entry % 3, entry // 3]
    elif kind == VELOCITY:
        x = s.v[at, slot]
    elif kind == CONTROL:
        x = controls[t, world, at]
    elif kind == ERROR:
        x = controls[t, world, n.feature_with[row, i]] - s.q[at, slot]
    else:
        x = d.memory[world, at]
    return x


@wp.func
def feature_adjoint(
    n: Network, d: Drive, s: Workspace, controls_bar: wp.array3d(dtype=real),
    row: int, i: int, bar: real, t: int, world: int, slot: int,
):  # fmt: skip
    """Adds the cotangents of q, v, control and memory."""
    kind = n.feature[row, i]
    at = n.feature_at[row, i]
    dof = n.feature_dof[row, i]
    if kind == COORDINATE:
        s.q_bar[dof, slot] = s.q_bar[dof, slot] + bar
    elif kind == SINE:
        s.q_bar[dof, slot] = s.q_bar[dof, slot] + wp.cos(s.q[at, slot]) * bar
    elif kind == COSINE:
        s.q_bar[dof, slot] = s.q_bar[dof, slot] - wp.sin(s.q[at, slot]) * bar
    elif kind == ROTATION:
        # turning the body by e, in its own axes, changes R to R (1 + [e]×)
        entry = n.feature_with[row, i]
        R = quat_matrix(read_quat(s, at, slot))
        r = vec3(R[entry % 3, 0], R[entry % 3, 1], R[entry % 3, 2])
        r_bar = vec3()
        r_bar[entry // 3] = bar
        add_vec3(s.q_bar, dof, slot, wp.cross(r_bar, r))
    elif kind == VELOCITY:
        s.v_bar[at, slot] = s.v_bar[at, slot] + bar
    elif kind == CONTROL:
        controls_bar[t, world, at] = controls_bar[t, world, at] + bar
    elif kind == ERROR:
        k = n.feature_with[row, i]
        controls_bar[t, world, k] = controls_bar[t, world, k] + bar
        s.q_bar[dof, slot] = s.q_bar[dof, slot] - bar
    else:
        d.memory_bar[world, at] = d.memory_bar[world, at] + bar


@wp.func
def note_pairs(n: Network, d: Drive, s: Workspace, controls: wp.array3d(dtype=real), t: int, world: int, slot: int):
    """What is going to be remembered of now: the state is another after the step."""
    if n.times > 0:
        for j in range(n.pair_q.shape[0]):
            d.now[world, 2 * j] = controls[t, world, j] - s.q[n.pair_q[j], slot]
            d.now[world, 2 * j + 1] = s.v[n.pair_v[j], slot]


@wp.func
def remember(n: Network, d: Drive, world: int):
    """Every pair is one timestep older."""
    for j in range(n.pair_q.shape[0]):
        first = 2 * j * n.times
        for back in range(1, n.times):
            k = first + 2 * (n.times - back)
            d.memory[world, k] = d.memory[world, k - 2]
            d.memory[world, k + 1] = d.memory[world, k - 1]
        if n.times > 0:
            d.memory[world, first] = d.now[world, 2 * j]
            d.memory[world, first + 1] = d.now[world, 2 * j + 1]


@wp.func
def remember_adjoint(
    n: Network, d: Drive, s: Workspace, controls_bar: wp.array3d(dtype=real), t: int, world: int, slot: int
):
    """memory_bar of the memory after the step becomes that before it; adds what the newest pair has to do with now."""
    if n.times > 0:
        for j in range(n.pair_q.shape[0]):
            first = 2 * j * n.times
            error_bar = d.memory_bar[world, first]
            dof = n.pair_v[j]
            controls_bar[t, world, j] = controls_bar[t, world, j] + error_bar
            s.q_bar[dof, slot] = s.q_bar[dof, slot] - error_bar
            s.v_bar[dof, slot] = s.v_bar[dof, slot] + d.memory_bar[world, first + 1]
            for i in range(2 * (n.times - 1)):
                d.memory_bar[world, first + i] = d.memory_bar[world, first + i + 2]
            d.memory_bar[world, first + 2 * n.times - 2] = real(0.0)
            d.memory_bar[world, first + 2 * n.times - 1] = real(0.0)


# --- activations -----------------------------------------------------------------------------------


@wp.func
def tanh_fraction(z: lanes):
    """n and d > 0 of tanh(z) = n / d."""
    one = lanes(real(1.0))
    x = SMALLEST_PART * wp.max(wp.min(z, LARGEST * one), -LARGEST * one)
    square = wp.cw_mul(x, x)
    p = TANH_POWERS[0] * one
    for k in range(1, wp.static(DEGREE + 1)):
        p = wp.cw_mul(p, square) + TANH_POWERS[k] * one
    above = wp.cw_mul(p, x)
    below = one
    for _ in range(wp.static(DOUBLINGS)):
        product = wp.cw_mul(above, below)
        below = wp.cw_mul(below, below) + wp.cw_mul(above, above)
        above = product + product
    return above, below


@wp.func
def bent(z: lanes, kind: int, size: real):
    """The activation of every lane."""
    one = lanes(real(1.0))
    y = z
    if kind == TANH:
        above, below = tanh_fraction(z)
        y = wp.cw_div(above, below)
    elif kind == SOFTSIGN:
        y = wp.cw_div(z, one + wp.abs(z))
    elif kind == ELU:
        # exp(z) - 1 = 2 n / (d - n) of tanh(z / 2) = n / d
        zero = lanes()
        above, below = tanh_fraction(real(0.5) * wp.min(z, zero))
        y = wp.max(z, zero) + (real(2.0) * size) * wp.cw_div(above, below - above)
    elif kind == RELU:
        y = wp.max(z, lanes())
    return y


@wp.func
def slope_of(y: lanes, kind: int, size: real):
    """The slope of an activation, from its value."""
    one = lanes(real(1.0))
    slope = one
    if kind == TANH:
        slope = one - wp.cw_mul(y, y)
    elif kind == SOFTSIGN:
        rest = one - wp.abs(y)
        slope = wp.cw_mul(rest, rest)
    elif kind == ELU:
        for lane in range(wp.static(WIDE)):
            slope[lane] = wp.where(y[lane] > real(0.0), real(1.0), y[lane] + size)
    elif kind == RELU:
        for lane in range(wp.static(WIDE)):
            slope[lane] = wp.where(y[lane] > real(0.0), real(1.0), real(0.0))
    return slope


# --- the perceptron --------------------------------------------------------------------------------
#
# Lanes run along the wider side of a layer: a side of THIN units at most is summed over, or stepped along, one by one.


@wp.func(inline=True)
def combine(
    rows: wp.array2d(dtype=lanes4), at: int, count: int, groups: int, group: int, x: wp.array(dtype=vec4), x_at: int,
    start: lanes4, world: int,
):  # fmt: skip
    """start + Σ_i x_i · rows[i, group], over ``count`` fours of rows."""
    y0 = start[0]
    y1 = start[1]
    y2 = start[2]
    y3 = start[3]
    for four in range(count):
        h = x[x_at + four]
        first = at + 4 * four * groups + group
        a = rows[world, first]
        b = rows[world, first + groups]
        c = rows[world, first + 2 * groups]
        d = rows[world, first + 3 * groups]
        y0 += h[0] * a[0] + h[1] * b[0] + h[2] * c[0] + h[3] * d[0]
        y1 += h[0] * a[1] + h[1] * b[1] + h[2] * c[1] + h[3] * d[1]
        y2 += h[0] * a[2] + h[1] * b[2] + h[2] * c[2] + h[3] * d[2]
        y3 += h[0] * a[3] + h[1] * b[3] + h[2] * c[3] + h[3] * d[3]
    return y0, y1, y2, y3


@wp.func(inline=True)
def product(rows: wp.array2d(dtype=lanes4), at: int, groups: int, x: wp.array(dtype=lanes4), x_at: int, world: int):
    """One row times all of x."""
    y = lanes()
    for group in range(groups):
        a = rows[world, at + group]
        h = x[x_at + group]
        y += wp.cw_mul(a[0], h[0]) + wp.cw_mul(a[1], h[1]) + wp.cw_mul(a[2], h[2]) + wp.cw_mul(a[3], h[3])
    total = real(0.0)
    for lane in range(wp.static(WIDE)):
        total += y[lane]
    return total


@wp.func(inline=True)
def add_outer(
    rows: wp.array2d(dtype=lanes4), at: int, count: int, groups: int, x: wp.array(dtype=vec4), x_at: int,
    y: wp.array(dtype=lanes4), y_at: int, repeats: int, stride: int, world: int,
):  # fmt: skip
    """Adds x_i · y to rows[i], for ``count`` fours of rows, summed over all rows of the network, ``stride`` apart."""
    for four in range(count):
        for group in range(groups):
            first = at + 4 * four * groups + group
            a = rows[world, first]
            b = rows[world, first + groups]
            c = rows[world, first + 2 * groups]
            d = rows[world, first + 3 * groups]
            for row in range(repeats):
                h = x[x_at + four + row * stride * wp.static(WIDE)]
                k = y[y_at + group + row * stride]
                a += h[0] * k
                b += h[1] * k
                c += h[2] * k
                d += h[3] * k
            rows[world, first] = a
            rows[world, first + groups] = b
            rows[world, first + 2 * groups] = c
            rows[world, first + 3 * groups] = d


@wp.func
def groups_of(units: int):
    return (units + wp.static(GROUP - 1)) // wp.static(GROUP)


@wp.func(inline=True)
def evaluate_layer(n: Network, w: Weights, a: Activations, layer: int, world: int):
    """What a layer gives in all rows."""
    inputs = n.units[layer]
    outputs = n.units[layer + 1]
    kind = n.bend[layer]
    size = n.bend_size[layer]
    for row in range(n.rows):
        x = row * n.groups + n.first[layer]
        y = row * n.groups + n.first[layer + 1]
        if outputs <= THIN:
            k = groups_of(inputs)
            for i in range(outputs):
                a.number[y * wp.static(GROUP) + i] = product(w.up, n.up[layer] + i * k, k, a.value, x, world)
            start = w.bias[world, n.bias[layer]]
            a.vector[4 * y] = bent(start[0] + a.vector[4 * y], kind, size)
        else:
            for group in range(groups_of(outputs)):
                y0, y1, y2, y3 = combine(
                    w.down, n.down[layer], (inputs + 3) // 4, groups_of(outputs), group, a.four, x * wp.static(WIDE),
                    w.bias[world, n.bias[layer] + group], world,
                )  # fmt: skip
                at = 4 * (y + group)
                a.vector[at] = bent(y0, kind, size)
                a.vector[at + 1] = bent(y1, kind, size)
                a.vector[at + 2] = bent(y2, kind, size)
                a.vector[at + 3] = bent(y3, kind, size)


@wp.func(inline=True)
def weights_adjoint(n: Network, w_bar: Weights, a: Activations, layer: int, world: int):
    """Adds the cotangents of a layer's weights from a.bar of what it gives before its activation, of all rows.

    They are where the layer's wider side runs along lanes: w_bar.down or w_bar.up.
    """
    inputs = n.units[layer]
    outputs = n.units[layer + 1]
    x = n.first[layer]
    y = n.first[layer + 1]
    for group in range(groups_of(outputs)):
        total = w_bar.bias[world, n.bias[layer] + group]
        for row in range(n.rows):
            total += a.bar[row * n.groups + y + group]
        w_bar.bias[world, n.bias[layer] + group] = total
    if inputs <= THIN:
        add_outer(
            w_bar.down, n.down[layer], (inputs + 3) // 4, groups_of(outputs), a.four, x * wp.static(WIDE), a.bar, y,
            n.rows, n.groups, world,
        )  # fmt: skip
    else:
        add_outer(
            w_bar.up, n.up[layer], (outputs + 3) // 4, groups_of(inputs), a.bar_four, y * wp.static(WIDE), a.value, x,
            n.rows, n.groups, world,
        )  # fmt: skip


@wp.func(inline=True)
def layer_adjoint(n: Network, w: Weights, a: Activations, layer: int, world: int):
    """a.bar of what a layer is given, in all rows, from that of what it gives before its activation."""
    inputs = n.units[layer]
    outputs = n.units[layer + 1]
    for row in range(n.rows):
        x = row * n.groups + n.first[layer]
        y = row * n.groups + n.first[layer + 1]
        if inputs <= THIN:
            k = groups_of(outputs)
            for j in range(inputs):
                a.bar_number[x * wp.static(GROUP) + j] = product(w.down, n.down[layer] + j * k, k, a.bar, y, world)
        else:
            for group in range(groups_of(inputs)):
                y0, y1, y2, y3 = combine(
                    w.up, n.up[layer], (outputs + 3) // 4, groups_of(inputs), group, a.bar_four, y * wp.static(WIDE),
                    lanes4(), world,
                )  # fmt: skip
                at = 4 * (x + group)
                a.bar_vector[at] = y0
                a.bar_vector[at + 1] = y1
                a.bar_vector[at + 2] = y2
                a.bar_vector[at + 3] = y3


@wp.func(inline=True)
def bend_adjoint(n: Network, a: Activations, layer: int):
    """a.bar of what a layer gives, in all rows, becomes that of what it gives before its activation."""
    kind = n.bend[layer]
    size = n.bend_size[layer]
    for row in range(n.rows):
        first = 4 * (row * n.groups + n.first[layer + 1])
        for k in range((n.units[layer + 1] + wp.static(WIDE - 1)) // wp.static(WIDE)):
            slope = slope_of(a.vector[first + k], kind, size)
            a.bar_vector[first + k] = wp.cw_mul(a.bar_vector[first + k], slope)


# --- all of it -------------------------------------------------------------------------------------


@wp.func
def drive_step(
    n: Network, w: Weights, a: Activations, d: Drive, s: Workspace, controls: wp.array3d(dtype=real),
    given: wp.array3d(dtype=real), has_given: int, t: int, world: int, slot: int,
):  # fmt: skip
    """Sets d.push from the state s.q, s.v, controls[t, world] and the memory. Whether it is finite."""
    for row in range(n.rows):
        x = row * n.groups * wp.static(GROUP)
        for i in range(n.units[0]):
            value = feature_value(n, d, s, controls, row, i, t, world, slot)
            a.number[x + i] = n.feature_scale[i] * (value - n.feature_centre[i])
    for layer in range(n.layers):
        evaluate_layer(n, w, a, layer, world)
    note_pairs(n, d, s, controls, t, world, slot)
    for k in range(n.width):
        d.push[world, k] = real(0.0)
        if has_given == 1:
            d.push[world, k] = given[t, world, k]
    total = real(0.0)
    for row in range(n.rows):
        y = (row * n.groups + n.first[n.layers]) * wp.static(GROUP)
        for i in range(n.units[n.layers]):
            added = n.scale[i] * a.number[y + i]
            total += real(0.0) * added
            k = n.place[row, i]
            d.push[world, k] = d.push[world, k] + wp.clamp(added, -n.limit, n.limit)
    return total == real(0.0)


@wp.func
def drive_step_adjoint(
    n: Network, w: Weights, w_bar: Weights, a: Activations, d: Drive, s: Workspace,
    controls_bar: wp.array3d(dtype=real), given_bar: wp.array3d(dtype=real), has_given: int,
    t: int, world: int, slot: int, wants_params: int,
):  # fmt: skip
    """Adds to s.q_bar, s.v_bar, controls_bar, given_bar, d.memory_bar and w_bar, from d.push_bar and d.memory_bar.

    Right after ``drive_step`` in the same state, but for what the step does to s.
    """
    remember_adjoint(n, d, s, controls_bar, t, world, slot)
    if has_given == 1:
        for k in range(n.width):
            given_bar[t, world, k] = given_bar[t, world, k] + d.push_bar[world, k]
    for row in range(n.rows):
        y = (row * n.groups + n.first[n.layers]) * wp.static(GROUP)
        for i in range(n.units[n.layers]):
            added = n.scale[i] * a.number[y + i]
            passes = wp.where(added >= -n.limit and added <= n.limit, n.scale[i], real(0.0))
            a.bar_number[y + i] = passes * d.push_bar[world, n.place[row, i]]
    for back in range(n.layers):
        layer = n.layers - 1 - back
        bend_adjoint(n, a, layer)
        layer_adjoint(n, w, a, layer, world)
        if wants_params == 1:
            weights_adjoint(n, w_bar, a, layer, world)
    for row in range(n.rows):
        x = row * n.groups * wp.static(GROUP)
        for i in range(n.units[0]):
            bar = n.feature_scale[i] * a.bar_number[x + i]
            feature_adjoint(n, d, s, controls_bar, row, i, bar, t, world, slot)
