"""MuJoCo's soft constraints: how stiff a row is, what it aims at, and the force it exerts, each with its adjoint.

A row's force is minus the slope of a convex potential of z = J a - reference. With the distance x to the constraint's
margin, the velocity J v, the impedance d(x), and the damping b and stiffness k that solref stands for,

    z = J a + b J v + k d x            stiffness of the row = d / ((1 - d) · inverse weight)

    letter  meaning
    x       distance less margin [m or rad]
    d       impedance, between 0 and 1
    u       J w, what the force is paired with going back
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params
from .flavour import ROWS, matr, vecr

# Bounds that MuJoCo sets: of the impedance, of friction coefficients, and of what is divided by.
LEAST_IMPEDANCE = wp.constant(real(1e-4))
MOST_IMPEDANCE = wp.constant(real(0.9999))
LEAST_FRICTION = wp.constant(real(1e-5))
LEAST = wp.constant(real(1e-15))


@wp.func
def held(x: real, low: real, high: real):
    """x between two bounds, and 1 where it is not held by them."""
    free = real(1.0)
    if x < low or x > high:
        free = real(0.0)
    return wp.clamp(x, low, high), free


@wp.func
def power(x: real, exponent: real):
    result = x
    if exponent == real(2.0):
        result = x * x
    elif exponent != real(1.0):
        result = wp.pow(x, exponent)
    return result


@wp.func(inline=False)
def impedance_shape(solimp: vec6, x: real):
    """y between 0 and 1: how far the impedance has gone from its value at the margin to that at full depth.

    Returns y, its slope by |x|/width, and 1 where it varies at all.
    """
    width = solimp[2]
    middle = wp.clamp(solimp[3], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    exponent = wp.max(real(1.0), solimp[4])
    y = real(0.5)
    slope = real(0.0)
    varies = real(0.0)
    if width > LEAST:
        depth = wp.abs(x) / width
        if depth >= real(1.0):
            y = real(1.0)
        elif depth <= real(0.0):
            y = real(0.0)
        else:
            varies = real(1.0)
            if exponent == real(1.0):
                y = depth
                slope = real(1.0)
            elif depth <= middle:
                y = power(depth, exponent) / power(middle, exponent - real(1.0))
                slope = exponent * y / depth
            else:
                rest = power(real(1.0) - depth, exponent) / power(real(1.0) - middle, exponent - real(1.0))
                y = real(1.0) - rest
                slope = exponent * rest / (real(1.0) - depth)
    return y, slope, varies


@wp.func
def impedance(solimp: vec6, x: real):
    """d, and its slope by x."""
    y, slope, _varies = impedance_shape(solimp, x)
    d0 = wp.clamp(solimp[0], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    d1 = wp.clamp(solimp[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    d_slope = real(0.0)
    if slope != real(0.0):
        d_slope = slope * wp.sign(x) * (d1 - d0) / solimp[2]
    return d0 + y * (d1 - d0), d_slope


@wp.func
def impedance_adjoint(solimp: vec6, x: real, d_bar: real):
    """Cotangent of solimp in d_bar · d."""
    y, slope, varies = impedance_shape(solimp, x)
    d0, free0 = held(solimp[0], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    d1, free1 = held(solimp[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    bar = vec6()
    bar[0] = free0 * (real(1.0) - y) * d_bar
    bar[1] = free1 * y * d_bar
    if varies == real(1.0):
        depth = wp.abs(x) / solimp[2]
        middle, free3 = held(solimp[3], LEAST_IMPEDANCE, MOST_IMPEDANCE)
        exponent = solimp[4]
        y_bar = d_bar * (d1 - d0)
        bar[2] = -y_bar * slope * depth / solimp[2]
        if exponent > real(1.0):
            one = real(1.0)
            if depth <= middle:
                bar[3] = free3 * y_bar * (one - exponent) / middle * y
                bar[4] = y_bar * y * (wp.log(depth) - wp.log(middle))
            else:
                rest = one - y
                bar[3] = free3 * y_bar * (one - exponent) / (one - middle) * rest
                bar[4] = -y_bar * rest * (wp.log(one - depth) - wp.log(one - middle))
    return bar


@wp.func
def spring(solref: vec3, solimp: vec6, shortest_time: real):
    """Stiffness k and damping b of the reference, from solref: (time constant, damping ratio), or -(k, b)."""
    d1 = wp.clamp(solimp[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    k = -solref[0] / wp.max(LEAST, d1 * d1)
    b = -solref[1] / wp.max(LEAST, d1)
    if solref[0] > real(0.0):
        time = wp.max(solref[0], shortest_time)
        k = real(1.0) / wp.max(LEAST, d1 * d1 * time * time * solref[1] * solref[1])
        b = real(2.0) / wp.max(LEAST, d1 * time)
    return k, b


@wp.func
def spring_adjoint(solref: vec3, solimp: vec6, shortest_time: real, k_bar: real, b_bar: real):
    """Cotangents of solref and of solimp[1] in k_bar · k + b_bar · b."""
    d1, free = held(solimp[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    k, b = spring(solref, solimp, shortest_time)
    bar = vec3()
    if solref[0] > real(0.0):
        if solref[0] >= shortest_time:
            bar[0] = -(real(2.0) * k * k_bar + b * b_bar) / solref[0]
        bar[1] = -real(2.0) * k * k_bar / solref[1]
    else:
        bar[0] = -k_bar / (d1 * d1)
        bar[1] = -b_bar / d1
    return bar, -free * (real(2.0) * k * k_bar + b * b_bar) / d1


@wp.func
def row_stiffness(d: real, weight: real):
    """Of a single row with this inverse weight, and its slope by d."""
    regularisation = (real(1.0) - d) / d * weight
    stiffness = real(1.0) / LEAST
    slope = real(0.0)
    if regularisation > LEAST:
        stiffness = real(1.0) / regularisation
        slope = stiffness / (d * (real(1.0) - d))
    return stiffness, slope


@wp.func
def weight_adjoint(p: Params, p_bar: Params, at: int, stiffness: real, slope: real, stiffness_bar: real, world: int):
    """To the inverse weight of a row, whose stiffness goes with one over it; unless that is the largest there is, and
    has no slope by d."""
    if slope > real(0.0):
        p_bar.weight[world, at] = p_bar.weight[world, at] - stiffness_bar * stiffness / p.weight[world, at]


# --- contacts: a pyramid or an elliptic cone -------------------------------------------------------


@wp.func
def cone_stiffness(d: real, tran: real, dim: int, elliptic: int, impratio: real, mu: real):
    """Stiffness of a contact's normal row (of each edge of a pyramid), and its slopes by d and by mu.

    mu is the sliding friction coefficient.
    """
    one = real(1.0)
    weight = tran
    if dim > 1 and elliptic == 0:
        weight = tran * (one + mu * mu)
    stiffness, d_slope = row_stiffness(d, weight)
    mu_slope = real(0.0)
    if dim > 1 and elliptic == 0:
        # the edges of a pyramid together are as stiff against sliding as an elliptic cone
        share = impratio / (real(2.0) * mu * mu)
        if d_slope > real(0.0):  # else it is held at the largest stiffness there is
            mu_slope = -share * stiffness * real(2.0) * mu / (one + mu * mu)
        stiffness *= share
        d_slope *= share
        mu_slope -= real(2.0) * stiffness / mu
    return stiffness, d_slope, mu_slope


@wp.func(inline=False)
def cone_force(z: vecr, dim: int, elliptic: int, impratio: real, stiffness: real, friction: vecr):
    """Force of a contact, and K = minus its derivative by z, positive semidefinite."""
    force = vecr()
    K = matr()
    one = real(1.0)
    if dim == 1:
        if z[0] < real(0.0):
            force[0] = -stiffness * z[0]
            K[0, 0] = stiffness
    elif elliptic == 0:
        for j in range(1, ROWS):
            if j < dim:
                mu = friction[j]
                plus = z[0] + mu * z[j]
                minus = z[0] - mu * z[j]
                both = real(0.0)
                difference = real(0.0)
                if plus < real(0.0):
                    both += one
                    difference += one
                    force[0] = force[0] - stiffness * plus
                    force[j] = force[j] - stiffness * mu * plus
                if minus < real(0.0):
                    both += one
                    difference -= one
                    force[0] = force[0] - stiffness * minus
                    force[j] = force[j] + stiffness * mu * minus
                K[0, 0] = K[0, 0] + stiffness * both
                K[0, j] = stiffness * mu * difference
                K[j, 0] = K[0, j]
                K[j, j] = stiffness * mu * mu * both
    else:
        slide, slip, mu2 = cone_slip(z, dim, impratio, friction)
        if mu2 * z[0] + slide <= real(0.0):  # sticking: every row is a spring
            force[0] = -stiffness * z[0]
            K[0, 0] = stiffness
            for j in range(1, ROWS):
                if j < dim:
                    row = stiffness * impratio * friction[j] * friction[j] / (friction[1] * friction[1])
                    force[j] = -row * z[j]
                    K[j, j] = row
        elif z[0] < slide:  # on the cone
            E = stiffness / (one + mu2)
            depth = z[0] - slide
            force[0] = -E * depth
            K[0, 0] = E
            for j in range(1, ROWS):
                if j < dim:
                    force[j] = E * depth * slip[j]
                    K[0, j] = -E * slip[j]
                    K[j, 0] = K[0, j]
                    for i in range(1, ROWS):
                        if i < dim:
                            K[j, i] = E * slip[j] * slip[i] * (one + depth / slide)
                    K[j, j] = K[j, j] - E * depth / slide * friction[j] * friction[j]
    return force, K


@wp.func
def cone_slip(z: vecr, dim: int, impratio: real, friction: vecr):
    """Length of the slip that friction sees, its gradient by z, and the square of the cone's own coefficient."""
    square = real(0.0)
    slip = vecr()
    for j in range(1, ROWS):
        if j < dim:
            square += friction[j] * friction[j] * z[j] * z[j]
    slide = wp.sqrt(square)
    if slide > real(0.0):
        for j in range(1, ROWS):
            if j < dim:
                slip[j] = friction[j] * friction[j] * z[j] / slide
    return slide, slip, friction[1] * friction[1] / impratio


@wp.func(inline=False)
def cone_force_adjoint(z: vecr, u: vecr, dim: int, elliptic: int, impratio: real, stiffness: real, friction: vecr):
    """Cotangents of the stiffness and of the friction coefficients in u · force, with the stiffness held fixed."""
    friction_bar = vecr()
    stiffness_bar = real(0.0)
    one = real(1.0)
    two = real(2.0)
    if dim == 1:
        if z[0] < real(0.0):
            stiffness_bar = -z[0] * u[0]
    elif elliptic == 0:
        for j in range(1, ROWS):
            if j < dim:
                mu = friction[j]
                plus = z[0] + mu * z[j]
                minus = z[0] - mu * z[j]
                if plus < real(0.0):
                    u_plus = u[0] + mu * u[j]
                    stiffness_bar -= plus * u_plus
                    friction_bar[j] = friction_bar[j] - stiffness * (z[j] * u_plus + plus * u[j])
                if minus < real(0.0):
                    u_minus = u[0] - mu * u[j]
                    stiffness_bar -= minus * u_minus
                    friction_bar[j] = friction_bar[j] + stiffness * (z[j] * u_minus + minus * u[j])
    else:
        slide, slip, mu2 = cone_slip(z, dim, impratio, friction)
        if mu2 * z[0] + slide <= real(0.0):
            stiffness_bar = -z[0] * u[0]
            for j in range(1, ROWS):
                if j < dim:
                    ratio = friction[j] / friction[1]
                    stiffness_bar -= impratio * ratio * ratio * z[j] * u[j]
                    if j > 1:
                        change = two * stiffness * impratio * ratio / friction[1] * z[j] * u[j]
                        friction_bar[j] = friction_bar[j] - change
                        friction_bar[1] = friction_bar[1] + change * ratio
        elif z[0] < slide:
            # u · force = E (z0 - slide) (u · slip - u0)
            E = stiffness / (one + mu2)
            depth = z[0] - slide
            along = real(0.0)
            for j in range(1, ROWS):
                if j < dim:
                    along += slip[j] * u[j]
            pairing = depth * (along - u[0])
            stiffness_bar = pairing / (one + mu2)
            slide_bar = -E * (along - u[0]) - E * depth * along / slide
            for j in range(1, ROWS):
                if j < dim:
                    friction_bar[j] = (
                        friction_bar[j]
                        + slide_bar * friction[j] * z[j] * z[j] / slide
                        + E * depth * two * friction[j] * z[j] * u[j] / slide
                    )
            friction_bar[1] = friction_bar[1] - E * pairing * two * friction[1] / impratio / (one + mu2)
    return stiffness_bar, friction_bar


@wp.func
def sticking_curvature(dim: int, elliptic: int, impratio: real, stiffness: real, friction: vecr):
    """K where the contact sticks: all edges of the pyramid push, or all rows of the cone are springs."""
    K = matr()
    K[0, 0] = stiffness
    if dim > 1:
        if elliptic == 0:
            K[0, 0] = real(2.0) * real(dim - 1) * stiffness
        for j in range(1, ROWS):
            if j < dim:
                if elliptic == 0:
                    K[j, j] = real(2.0) * friction[j] * friction[j] * stiffness
                else:
                    K[j, j] = stiffness * impratio * friction[j] * friction[j] / (friction[1] * friction[1])
    return K


# --- rows of joints --------------------------------------------------------------------------------


@wp.func
def joint_row_force(z: real, stiffness: real, loss: real):
    """Force of a limit (loss 0), which only pushes, or of friction loss, which is at most ``loss`` either way.

    Returns the force, K, and 1 or -1 where it is at its bound.
    """
    force = -stiffness * z
    K = stiffness
    bound = real(0.0)
    if loss > real(0.0):
        if wp.abs(force) > loss:
            bound = wp.sign(force)
            force = bound * loss
            K = real(0.0)
    elif z >= real(0.0):
        force = real(0.0)
        K = real(0.0)
    return force, K, bound
