"""A small network in front of a step: what it reads, a perceptron, and what it gives; with its adjoint.

It is evaluated once per *row*: a row is the world, or each of its joints. The units of a layer stand side by side in
vectors of WIDE lanes, a cache line, so that each number of the layer before is multiplied with a vector of weights; four
vectors at a time keep their sums in registers. Lanes beyond the last unit have weights of zero. The slope of an
activation is found from its value, so that values are all that is kept for the way back.
"""

import numpy as np
import warp as wp

from ..spatial.algebra import quat_matrix
from ..spatial.scalar import real, vec3
from .structs import Workspace, add_vec3, read_quat

WIDE = 16 if real is wp.float32 else 8
lanes = wp.types.vector(WIDE, real)

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
    blocks: int  # vectors that the units of all layers of a row take, features among them
    units: wp.array(dtype=int)  # (layers + 1,): features, units of each layer, outputs
    first: wp.array(dtype=int)  # (layers + 1,): the first vector of each in a row
    bend: wp.array(dtype=int)  # (layers,): the activation behind a layer
    bend_size: wp.array(dtype=real)  # (layers,): alpha of an ELU
    down: wp.array(dtype=int)  # (layers,): the first vector of weights, by the unit they come from
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
    """``[world, vector]``. The same struct holds cotangents, which have no ``down``."""

    down: wp.array2d(dtype=lanes)
    up: wp.array2d(dtype=lanes)
    bias: wp.array2d(dtype=lanes)


@wp.struct
class Activations:
    """Of the world that a thread works on, as vectors and number by number: the same memory."""

    value: wp.array(dtype=lanes)  # (rows · blocks,)
    number: wp.array(dtype=real)
    bar: wp.array(dtype=lanes)
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
    n: Network, d: Drive, s: Workspace, controls: wp.array3d(dtype=real), row: int, i: int, t: int, world: int, slot: int
):
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


@wp.func
def evaluate_layer(n: Network, w: Weights, a: Activations, row: int, layer: int, world: int):
    inputs = n.units[layer]
    vectors = (n.units[layer + 1] + wp.static(WIDE - 1)) // wp.static(WIDE)
    x = (row * n.blocks + n.first[layer]) * wp.static(WIDE)
    y = row * n.blocks + n.first[layer + 1]
    down = n.down[layer]
    bias = n.bias[layer]
    kind = n.bend[layer]
    size = n.bend_size[layer]
    fours = vectors // 4
    for four in range(fours):
        b = 4 * four
        y0 = w.bias[world, bias + b]
        y1 = w.bias[world, bias + b + 1]
        y2 = w.bias[world, bias + b + 2]
        y3 = w.bias[world, bias + b + 3]
        for j in range(inputs):
            h = a.number[x + j]
            at = down + j * vectors + b
            y0 += h * w.down[world, at]
            y1 += h * w.down[world, at + 1]
            y2 += h * w.down[world, at + 2]
            y3 += h * w.down[world, at + 3]
        a.value[y + b] = bent(y0, kind, size)
        a.value[y + b + 1] = bent(y1, kind, size)
        a.value[y + b + 2] = bent(y2, kind, size)
        a.value[y + b + 3] = bent(y3, kind, size)
    for b in range(4 * fours, vectors):
        z = w.bias[world, bias + b]
        for j in range(inputs):
            z += a.number[x + j] * w.down[world, down + j * vectors + b]
        a.value[y + b] = bent(z, kind, size)


@wp.func
def weights_adjoint(n: Network, w_bar: Weights, a: Activations, layer: int, world: int):
    """Adds the cotangents of a layer's weights from a.bar of what it gives before its activation, of all rows."""
    outputs = n.units[layer + 1]
    vectors = (n.units[layer] + wp.static(WIDE - 1)) // wp.static(WIDE)
    x = n.first[layer]
    y = n.first[layer + 1]
    up = n.up[layer]
    for b in range((outputs + wp.static(WIDE - 1)) // wp.static(WIDE)):
        total = w_bar.bias[world, n.bias[layer] + b]
        for row in range(n.rows):
            total += a.bar[row * n.blocks + y + b]
        w_bar.bias[world, n.bias[layer] + b] = total
    fours = vectors // 4
    for i in range(outputs):
        for four in range(fours):
            b = 4 * four
            at = up + i * vectors + b
            t0 = w_bar.up[world, at]
            t1 = w_bar.up[world, at + 1]
            t2 = w_bar.up[world, at + 2]
            t3 = w_bar.up[world, at + 3]
            for row in range(n.rows):
                bar = a.bar_number[(row * n.blocks + y) * wp.static(WIDE) + i]
                h = row * n.blocks + x + b
                t0 += bar * a.value[h]
                t1 += bar * a.value[h + 1]
                t2 += bar * a.value[h + 2]
                t3 += bar * a.value[h + 3]
            w_bar.up[world, at] = t0
            w_bar.up[world, at + 1] = t1
            w_bar.up[world, at + 2] = t2
            w_bar.up[world, at + 3] = t3
        for b in range(4 * fours, vectors):
            total = w_bar.up[world, up + i * vectors + b]
            for row in range(n.rows):
                bar = a.bar_number[(row * n.blocks + y) * wp.static(WIDE) + i]
                total += bar * a.value[row * n.blocks + x + b]
            w_bar.up[world, up + i * vectors + b] = total


@wp.func
def layer_adjoint(n: Network, w: Weights, a: Activations, row: int, layer: int, world: int):
    """a.bar of what a layer is given, from that of what it gives before its activation."""
    outputs = n.units[layer + 1]
    vectors = (n.units[layer] + wp.static(WIDE - 1)) // wp.static(WIDE)
    x = row * n.blocks + n.first[layer]
    y = (row * n.blocks + n.first[layer + 1]) * wp.static(WIDE)
    up = n.up[layer]
    fours = vectors // 4
    for four in range(fours):
        b = 4 * four
        x0 = lanes()
        x1 = lanes()
        x2 = lanes()
        x3 = lanes()
        for i in range(outputs):
            bar = a.bar_number[y + i]
            at = up + i * vectors + b
            x0 += bar * w.up[world, at]
            x1 += bar * w.up[world, at + 1]
            x2 += bar * w.up[world, at + 2]
            x3 += bar * w.up[world, at + 3]
        a.bar[x + b] = x0
        a.bar[x + b + 1] = x1
        a.bar[x + b + 2] = x2
        a.bar[x + b + 3] = x3
    for b in range(4 * fours, vectors):
        total = lanes()
        for i in range(outputs):
            total += a.bar_number[y + i] * w.up[world, up + i * vectors + b]
        a.bar[x + b] = total


# --- all of it -------------------------------------------------------------------------------------


@wp.func
def drive_step(
    n: Network, w: Weights, a: Activations, d: Drive, s: Workspace, controls: wp.array3d(dtype=real),
    given: wp.array3d(dtype=real), has_given: int, t: int, world: int, slot: int,
):  # fmt: skip
    """Sets d.push from the state s.q, s.v, controls[t, world] and the memory. Whether it is finite."""
    for row in range(n.rows):
        x = row * n.blocks * wp.static(WIDE)
        for i in range(n.units[0]):
            value = feature_value(n, d, s, controls, row, i, t, world, slot)
            a.number[x + i] = n.feature_scale[i] * (value - n.feature_centre[i])
    for layer in range(n.layers):
        for row in range(n.rows):
            evaluate_layer(n, w, a, row, layer, world)
    note_pairs(n, d, s, controls, t, world, slot)
    for k in range(n.width):
        d.push[world, k] = real(0.0)
        if has_given == 1:
            d.push[world, k] = given[t, world, k]
    total = real(0.0)
    for row in range(n.rows):
        y = (row * n.blocks + n.first[n.layers]) * wp.static(WIDE)
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
        y = (row * n.blocks + n.first[n.layers]) * wp.static(WIDE)
        for i in range(n.units[n.layers]):
            added = n.scale[i] * a.number[y + i]
            passes = wp.where(added >= -n.limit and added <= n.limit, n.scale[i], real(0.0))
            a.bar_number[y + i] = passes * d.push_bar[world, n.place[row, i]]
    for back in range(n.layers):
        layer = n.layers - 1 - back
        for row in range(n.rows):
            y = row * n.blocks + n.first[layer + 1]
            for b in range((n.units[layer + 1] + wp.static(WIDE - 1)) // wp.static(WIDE)):
                slope = slope_of(a.value[y + b], n.bend[layer], n.bend_size[layer])
                a.bar[y + b] = wp.cw_mul(a.bar[y + b], slope)
            layer_adjoint(n, w, a, row, layer, world)
        if wants_params == 1:
            weights_adjoint(n, w_bar, a, layer, world)
    for row in range(n.rows):
        x = row * n.blocks * wp.static(WIDE)
        for i in range(n.units[0]):
            bar = n.feature_scale[i] * a.bar_number[x + i]
            feature_adjoint(n, d, s, controls_bar, row, i, bar, t, world, slot)
