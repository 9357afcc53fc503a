"""Value and gradient of reachability maps, for batches of poses.

A thread takes a block of poses at a time, one per *lane* of a vector x = (x_0, x_1, ...): each weight is read once for
all of them, and on the CPU an operation on all lanes is one or two instructions. On CUDA, where threads are lanes
already, there is one lane. A launch evaluates the poses from ``first`` to ``end``.

The workspace of a thread, ``[row, slot]``, is seen in two ways: as vectors of lanes (``work``), and number by number
(``cells``, the same memory), where poses are read and gradients written, one lane at a time.

    support vectors   value = Σ_i a_i exp(-g |φ_i - φ|²) - ρ, with exponents written as s_i·φ - c_i - g |φ|², where
                      s_i = 2 g φ_i and c_i = g |φ_i|²: a product of matrices
    network           layers z = W h + b, h = (z + sqrt(z² + 4)) / 2, which is smooth and needs no exponential;
                      the last layer has one row and stays as it is
"""

from typing import Any

import numpy as np
import warp as wp

from ..spatial.algebra import quat_matrix, quat_unit
from ..spatial.scalar import real, vec3, vec4

# exp(-t) is p(-t/2⁸) squared eight times: no branches, no tables. Beyond the largest exponent it is as good as zero.
SQUARINGS = 8
LARGEST_EXPONENT = wp.constant(real(256.0))
EXPONENT_SCALE = wp.constant(real(-1.0 / 256.0))
# p is exp on [-1, 0] to a relative error that, 256 times larger, is still close to rounding.
DEGREE = 6 if real is wp.float32 else 11


def _exp_coefficients(degree: int) -> list[float]:
    """Of the polynomial through exp at Chebyshev's points of [-1, 0], highest power first."""
    fit = np.polynomial.Chebyshev.interpolate(np.exp, degree, domain=[-1.0, 0.0])
    return fit.convert(kind=np.polynomial.Polynomial).coef[::-1].tolist()


vec_powers = wp.types.vector(DEGREE + 1, real)
POWERS = wp.constant(vec_powers(*_exp_coefficients(DEGREE)))

ANGLE = wp.constant(1)
QUATERNION = wp.constant(2)


@wp.struct
class PoseFormat:
    """How poses are stored."""

    dimensions: int  # of the position
    rotation: int  # 0, ANGLE or QUATERNION
    features: int


# --- poses -----------------------------------------------------------------------------------------


@wp.func
def pose_rotation(poses: wp.array2d(dtype=real), n: int, at: int):
    return quat_matrix(quat_unit(vec4(poses[n, at], poses[n, at + 1], poses[n, at + 2], poses[n, at + 3])))


@wp.func
def write_features(
    form: PoseFormat, poses: wp.array2d(dtype=real), n: int, cells: wp.array2d(dtype=real), row: int, cell: int
):
    """Position and rotation matrix of a pose, from ``row`` on."""
    at = form.dimensions
    for k in range(at):
        cells[row + k, cell] = poses[n, k]
    if form.rotation == ANGLE:
        c = wp.cos(poses[n, at])
        s = wp.sin(poses[n, at])
        cells[row + at, cell] = c
        cells[row + at + 1, cell] = -s
        cells[row + at + 2, cell] = s
        cells[row + at + 3, cell] = c
    elif form.rotation == QUATERNION:
        R = pose_rotation(poses, n, at)
        for i in range(3):
            for j in range(3):
                cells[row + at + 3 * i + j, cell] = R[i, j]


@wp.func
def write_gradient(
    form: PoseFormat,
    poses: wp.array2d(dtype=real),
    n: int,
    cells: wp.array2d(dtype=real),
    row: int,
    cell: int,
    gradient: wp.array2d(dtype=real),
):
    """From the cotangent of a pose's features to that of its tangent: R moves to R (1 + [rotation]×)."""
    at = form.dimensions
    for k in range(at):
        gradient[n, k] = cells[row + k, cell]
    if form.rotation == ANGLE:
        c = wp.cos(poses[n, at])
        s = wp.sin(poses[n, at])
        along_c = cells[row + at + 2, cell] - cells[row + at + 1, cell]
        along_s = cells[row + at, cell] + cells[row + at + 3, cell]
        gradient[n, at] = c * along_c - s * along_s
    elif form.rotation == QUATERNION:
        R = pose_rotation(poses, n, at)
        rotation = vec3()
        for i in range(3):
            r = vec3(R[i, 0], R[i, 1], R[i, 2])
            first = row + at + 3 * i
            rotation += wp.cross(vec3(cells[first, cell], cells[first + 1, cell], cells[first + 2, cell]), r)
        for k in range(3):
            gradient[n, at + k] = rotation[k]


@wp.func
def read_block(
    form: PoseFormat,
    poses: wp.array2d(dtype=real),
    start: int,
    end: int,
    lanes: int,
    cells: wp.array2d(dtype=real),
    slot: int,
):
    """Features of the poses from ``start`` on into the first rows; lanes beyond the last pose repeat it."""
    for lane in range(lanes):
        n = wp.min(start + lane, end - 1)
        write_features(form, poses, n, cells, 0, slot * lanes + lane)


@wp.func
def write_block(
    form: PoseFormat,
    poses: wp.array2d(dtype=real),
    start: int,
    end: int,
    lanes: int,
    cells: wp.array2d(dtype=real),
    value_row: int,
    bar_row: int,
    slot: int,
    value: wp.array(dtype=real),
    gradient: wp.array2d(dtype=real),
):
    for lane in range(lanes):
        n = start + lane
        if n < end:
            value[n] = cells[value_row, slot * lanes + lane]
            if gradient.shape[0] > 0:
                write_gradient(form, poses, n, cells, bar_row, slot * lanes + lane, gradient)


# --- support vectors -------------------------------------------------------------------------------


@wp.func
def exp_of_minus(t: Any):
    """exp(-t) of every lane, t >= 0."""
    one = type(t)(real(1.0))
    y = wp.min(t, LARGEST_EXPONENT * one) * EXPONENT_SCALE
    p = POWERS[0] * one
    for k in range(1, wp.static(DEGREE + 1)):
        p = wp.cw_mul(p, y) + POWERS[k] * one
    for _ in range(wp.static(SQUARINGS)):
        p = wp.cw_mul(p, p)
    return p


@wp.kernel(enable_backward=False)
def evaluate_support_vectors(
    form: PoseFormat,
    poses: wp.array2d(dtype=real),
    support: wp.array2d(dtype=real),  # (a multiple of four, features): s
    offset: wp.array(dtype=real),  # c
    weight: wp.array(dtype=real),  # a
    gamma: real,
    rho: real,
    work: wp.array2d(dtype=Any),  # (2 features + 1, slots): φ, Σ a k s, value
    cells: wp.array2d(dtype=real),
    first: int,
    end: int,
    value: wp.array(dtype=real),  # (poses,)
    gradient: wp.array2d(dtype=real),  # (poses, tangent), or empty
):
    slot = wp.tid()
    lanes = len(work[0, slot])
    F = form.features
    wants_gradient = gradient.shape[0] > 0
    for start in range(first + slot * lanes, end, work.shape[1] * lanes):
        read_block(form, poses, start, end, lanes, cells, slot)
        total = type(work[0, slot])()
        norm = type(work[0, slot])()
        for f in range(F):
            x = work[f, slot]
            norm += wp.cw_mul(x, x)
            work[F + f, slot] = total
        norm = gamma * norm
        one = type(norm)(real(1.0))
        # Four at a time: each feature of the poses is then read, and each sum written, a quarter as often.
        for quarter in range(support.shape[0] // 4):
            i = 4 * quarter
            t0 = norm + offset[i] * one
            t1 = norm + offset[i + 1] * one
            t2 = norm + offset[i + 2] * one
            t3 = norm + offset[i + 3] * one
            for f in range(F):
                x = work[f, slot]
                t0 -= support[i, f] * x
                t1 -= support[i + 1, f] * x
                t2 -= support[i + 2, f] * x
                t3 -= support[i + 3, f] * x
            k0 = weight[i] * exp_of_minus(t0)
            k1 = weight[i + 1] * exp_of_minus(t1)
            k2 = weight[i + 2] * exp_of_minus(t2)
            k3 = weight[i + 3] * exp_of_minus(t3)
            total += k0 + k1 + k2 + k3
            if wants_gradient:
                for f in range(F):
                    work[F + f, slot] = (
                        work[F + f, slot]
                        + support[i, f] * k0
                        + support[i + 1, f] * k1
                        + support[i + 2, f] * k2
                        + support[i + 3, f] * k3
                    )
        # of exp(s·φ - c - g |φ|²) by φ: (s - 2 g φ) exp(...)
        for f in range(F):
            work[F + f, slot] = work[F + f, slot] - real(2.0) * gamma * wp.cw_mul(work[f, slot], total)
        work[2 * F, slot] = total - rho * one
        write_block(form, poses, start, end, lanes, cells, 2 * F, F, slot, value, gradient)


# --- networks --------------------------------------------------------------------------------------


@wp.func
def matrix_rows(
    weight: wp.array2d(dtype=real), row: int, columns: int, work: wp.array2d(dtype=Any), at: int, slot: int
):
    """Four rows of a matrix, from ``row`` on, times the vectors of the workspace from ``at`` on."""
    y0 = type(work[0, slot])()
    y1 = type(work[0, slot])()
    y2 = type(work[0, slot])()
    y3 = type(work[0, slot])()
    for j in range(columns):
        x = work[at + j, slot]
        y0 += weight[row, j] * x
        y1 += weight[row + 1, j] * x
        y2 += weight[row + 2, j] * x
        y3 += weight[row + 3, j] * x
    return y0, y1, y2, y3


@wp.func
def activate(z: Any, work: wp.array2d(dtype=Any), at: int, slope_at: int, slot: int):
    """h = (z + r) / 2 with r = sqrt(z² + 4), and its slope h / r."""
    h = type(z)()
    slope = type(z)()
    for lane in range(len(z)):
        r = wp.sqrt(z[lane] * z[lane] + real(4.0))
        y = real(0.5) * (z[lane] + r)
        h[lane] = y
        slope[lane] = y / r
    work[at, slot] = h
    work[slope_at, slot] = slope


@wp.kernel(enable_backward=False)
def evaluate_network(
    form: PoseFormat,
    poses: wp.array2d(dtype=real),
    begin: wp.array(dtype=int),  # (layers + 2,): of the units of a layer; features (in fours) first, output last
    weight: wp.array2d(dtype=real),  # (units beyond the features, most columns), by the unit it leads to
    transposed: wp.array2d(dtype=real),  # (features and units, most columns), by the unit it comes from
    bias: wp.array(dtype=real),  # (units beyond the features,)
    work: wp.array2d(dtype=Any),  # features, units, output; their slopes; their cotangents
    cells: wp.array2d(dtype=real),
    first: int,
    end: int,
    value: wp.array(dtype=real),
    gradient: wp.array2d(dtype=real),
):
    slot = wp.tid()
    lanes = len(work[0, slot])
    layers = begin.shape[0] - 2  # hidden layers, of a multiple of four units each
    F = begin[1]
    output = begin[layers + 1]
    units = output + 1
    one = type(work[0, slot])(real(1.0))
    for start in range(first + slot * lanes, end, work.shape[1] * lanes):
        read_block(form, poses, start, end, lanes, cells, slot)
        for layer in range(layers):
            at = begin[layer]
            columns = begin[layer + 1] - at
            for quarter in range((begin[layer + 2] - begin[layer + 1]) // 4):
                unit = begin[layer + 1] + 4 * quarter
                y0, y1, y2, y3 = matrix_rows(weight, unit - F, columns, work, at, slot)
                activate(y0 + bias[unit - F] * one, work, unit, units + unit, slot)
                activate(y1 + bias[unit + 1 - F] * one, work, unit + 1, units + unit + 1, slot)
                activate(y2 + bias[unit + 2 - F] * one, work, unit + 2, units + unit + 2, slot)
                activate(y3 + bias[unit + 3 - F] * one, work, unit + 3, units + unit + 3, slot)
        last = begin[layers]
        total = bias[output - F] * one
        for j in range(output - last):
            total += weight[output - F, j] * work[last + j, slot]
        work[output, slot] = total
        if gradient.shape[0] > 0:
            # Cotangents of z, from the last layer to the first; those of the features have no slope.
            for j in range(output - last):
                work[2 * units + last + j, slot] = weight[output - F, j] * work[units + last + j, slot]
            for back in range(layers):
                layer = layers - 1 - back
                at = begin[layer + 1]
                columns = begin[layer + 2] - at
                for quarter in range((begin[layer + 1] - begin[layer]) // 4):
                    unit = begin[layer] + 4 * quarter
                    y0, y1, y2, y3 = matrix_rows(transposed, unit, columns, work, 2 * units + at, slot)
                    if layer > 0:
                        y0 = wp.cw_mul(y0, work[units + unit, slot])
                        y1 = wp.cw_mul(y1, work[units + unit + 1, slot])
                        y2 = wp.cw_mul(y2, work[units + unit + 2, slot])
                        y3 = wp.cw_mul(y3, work[units + unit + 3, slot])
                    work[2 * units + unit, slot] = y0
                    work[2 * units + unit + 1, slot] = y1
                    work[2 * units + unit + 2, slot] = y2
                    work[2 * units + unit + 3, slot] = y3
        write_block(form, poses, start, end, lanes, cells, output, 2 * units, slot, value, gradient)


# --- kernels by the number of lanes ----------------------------------------------------------------

# One on CUDA; on the CPU those that fill a cache line. Named here, so that all are compiled at once.
WIDE = 16 if real is wp.float32 else 8


def _by_lanes(kernel) -> dict:
    return {n: wp.overload(kernel, {"work": wp.array2d(dtype=wp.types.vector(n, real))}) for n in (1, WIDE)}


SUPPORT_VECTORS = _by_lanes(evaluate_support_vectors)
NETWORK = _by_lanes(evaluate_network)
