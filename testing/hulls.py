"""Random pairs of rounded hulls, their contact potential by kernels, and by mpmath with 50 digits."""

from functools import cache
from typing import NamedTuple

import mpmath as mp
import numpy as np
import warp as wp

from pullback.kernels import specialise

KINDS = ("sphere", "capsule", "triangle", "box", "cylinder", "mesh")


class Hull(NamedTuple):
    points: np.ndarray  # (n, 3) [m]
    radius: float  # [m]


class Found(NamedTuple):
    """What kernels say of each pair."""

    origin: np.ndarray  # (n, 3) half-way between the hulls [m]
    gap: np.ndarray  # (n,) along the first normal [m]
    plane: np.ndarray  # (n, 4), of ``x - origin``
    found: np.ndarray  # (n,)
    value: np.ndarray  # (n,)
    forces: list  # per pair (points, 3): minus the gradient
    hessian: (
        np.ndarray
    )  # (n, 12, 12) by rigid motions [angular; linear] about ``centre_of``, of the ahead and the behind


def hull(rng, kind: str, size: float = 1.0) -> Hull:
    """A shape of about the given size around the origin, in a random place and pose."""
    if kind == "sphere":
        points, radius = np.zeros((1, 3)), rng.uniform(0.3, 1.0)
    elif kind == "capsule":
        points, radius = np.array([[0, 0, -1], [0, 0, 1.0]]) * rng.uniform(0.3, 1), rng.uniform(0.1, 0.5)
    elif kind == "triangle":
        points, radius = rng.normal(size=(3, 3)), 0.0
    elif kind == "box":
        corners = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), -1).reshape(8, 3)
        points, radius = corners * rng.uniform(0.1, 1.0, 3), 0.0
    elif kind == "cylinder":
        turn = 2 * np.pi * np.arange(12) / 12
        ring = np.stack([np.cos(turn), np.sin(turn)], -1) * rng.uniform(0.2, 1)
        height = rng.uniform(0.2, 1)
        points = np.concatenate([np.c_[ring, np.full(12, z)] for z in (-height, height)])
        radius = 0.0
    else:
        points, radius = rng.normal(size=(20, 3)) * rng.uniform(0.3, 1.0, 3), 0.0
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return Hull(size * points @ rotation.T, size * radius)


def face_normal(kind: str, hull: Hull) -> np.ndarray | None:
    """Of a flat side, where the shape has one."""
    x = hull.points
    if kind == "box":
        return x[1] - x[0]
    if kind == "cylinder":
        return x[12] - x[0]
    return np.cross(x[1] - x[0], x[2] - x[0]) if kind == "triangle" else None


def separated(rng, kinds: tuple[str, str], gap: float, size: float = 1.0) -> tuple[Hull, Hull]:
    """Two hulls at exactly this distance: corner to corner, or, every other time, to a face where there is one."""
    ahead, behind = (hull(rng, kind, size) for kind in kinds)
    n = face_normal(kinds[1], behind) if rng.uniform() < 0.5 else None
    n = rng.normal(size=3) if n is None else n
    n = n / np.linalg.norm(n)

    def touching(points, heights):
        """A point of what is lowest, at random."""
        weights = rng.uniform(size=len(points)) * (heights <= heights.min() + 1e-9 * size)
        return weights @ points / weights.sum()

    low, high = touching(ahead.points, ahead.points @ n), touching(behind.points, -(behind.points @ n))
    return Hull(ahead.points + high - low + (gap + ahead.radius + behind.radius) * n, ahead.radius), behind


@cache
def kernels():
    module, scalar = specialise("float64", "collision.hull_pair"), specialise("float64", "spatial.scalar")
    real, vec3, vec4 = scalar.real, scalar.vec3, scalar.vec4
    HullPair, mat44, mat64, mat66 = module.HullPair, module.mat44, module.mat64, module.mat66
    hull_normal, best_plane, hull_value = module.hull_normal, module.best_plane, module.hull_value
    middle_along = module.middle_along
    plane_curvature, hull_curvature, cholesky44 = module.plane_curvature, module.hull_curvature, module.cholesky44

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        points: wp.array2d(dtype=vec3),
        count: wp.array2d(dtype=int),
        radius: wp.array2d(dtype=real),
        length: real,
        centre: wp.array(dtype=vec3),
        origin: wp.array(dtype=vec3),
        gap: wp.array(dtype=real),
        plane: wp.array(dtype=vec4),
        found: wp.array(dtype=int),
        value: wp.array(dtype=real),
        K: wp.array2d(dtype=mat66),
        B: wp.array2d(dtype=mat64),
        C: wp.array(dtype=mat44),
    ):
        i = wp.tid()
        h = HullPair()
        h.ahead_end = count[0, i]
        h.behind = count[0, i]
        h.behind_end = count[0, i] + count[1, i]
        h.ahead_radius = radius[0, i]
        h.behind_radius = radius[1, i]
        h.length = length
        n, apart = hull_normal(h, points, i)
        h.origin = middle_along(h, points, n, i)
        origin[i] = h.origin
        gap[i] = apart
        if apart > real(0.0):
            p, ok = best_plane(h, points, n, i)
            plane[i] = p
            found[i] = ok
            P, _ahead, _behind = hull_value(h, points, p, i)
            value[i] = P
            _gradient, Ppp = plane_curvature(h, points, p, i)
            C[i] = cholesky44(Ppp)
            K0, B0, _f0 = hull_curvature(h, points, p, real(1.0), centre[i], i)
            K1, B1, _f1 = hull_curvature(h, points, p, real(-1.0), centre[i], i)
            K[0, i] = K0
            K[1, i] = K1
            B[0, i] = B0
            B[1, i] = B1

    return module, evaluate


def centre_of(ahead: Hull, behind: Hull) -> np.ndarray:
    return 0.5 * (ahead.points.mean(axis=0) + behind.points.mean(axis=0))


def evaluate(pairs: list[tuple[Hull, Hull]], length: float) -> Found:
    module, kernel = kernels()
    n, most = len(pairs), max(len(a.points) + len(b.points) for a, b in pairs)
    points = np.zeros((most, n, 3))
    for i, (a, b) in enumerate(pairs):
        points[: len(a.points) + len(b.points), i] = np.concatenate([a.points, b.points])
    centre = np.array([centre_of(*pair) for pair in pairs])
    count = np.array([[len(a.points), len(b.points)] for a, b in pairs]).T
    radius = np.array([[a.radius, b.radius] for a, b in pairs]).T
    out = {
        "origin": wp.zeros(n, dtype=module.vec3),
        "gap": wp.zeros(n, dtype=wp.float64),
        "plane": wp.zeros(n, dtype=module.vec4),
        "found": wp.zeros(n, dtype=int),
        "value": wp.zeros(n, dtype=wp.float64),
        "K": wp.zeros((2, n), dtype=module.mat66),
        "B": wp.zeros((2, n), dtype=module.mat64),
        "C": wp.zeros(n, dtype=module.mat44),
    }
    given = [
        wp.array(points, dtype=module.vec3),
        wp.array(count.astype(np.int32), dtype=int),
        wp.array(radius, dtype=wp.float64),
        length,
        wp.array(centre, dtype=module.vec3),
    ]
    wp.launch(kernel, dim=n, inputs=[*given, *out.values()], device="cpu")
    origin, gap, plane, found, value, K, B, C = (x.numpy() for x in out.values())
    forces, hessian = [], np.zeros((n, 12, 12))
    for i, (a, b) in enumerate(pairs):
        normal, m = plane[i, :3], np.linalg.norm(plane[i, :3])
        if not gap[i] > 0:  # there is no plane between them
            forces.append(np.full((len(a.points) + len(b.points), 3), np.nan))
            continue
        each = []
        for h, sign in ((a, 1), (b, -1)):
            margin = sign * ((h.points - origin[i]) @ normal + plane[i, 3]) - h.radius * m
            each.append(sign * length / len(h.points) / margin[:, None] ** 2 * normal)
        forces.append(np.concatenate(each))
        white = np.linalg.solve(C[i], np.concatenate([B[0, i], B[1, i]]).T)
        hessian[i, :6, :6], hessian[i, 6:, 6:] = K[0, i], K[1, i]
        hessian[i] -= white.T @ white
    return Found(origin, gap, plane, found, value, forces, hessian)


# --- with 50 digits ---------------------------------------------------------------------------------


def exact_plane(ahead: list, behind: list, radii, length, origin, plane):
    """The minimum of the sum and its value, by Newton's method in mpmath from a plane that is nearly right."""
    p = mp.matrix([mp.mpf(float(x)) for x in plane])
    sides = [(x, 1, radii[0], mp.mpf(1) / len(ahead)) for x in ahead]
    sides += [(x, -1, radii[1], mp.mpf(1) / len(behind)) for x in behind]
    for _ in range(40):
        n = p[:3]
        m = mp.sqrt(sum(x * x for x in n))
        u = [x / m for x in n]
        value = 4 / (1 - m)
        gradient = mp.zeros(4, 1)
        H = mp.zeros(4, 4)
        T = [[(i == j) - u[i] * u[j] for j in range(3)] for i in range(3)]
        for i in range(3):
            gradient[i] = 4 / (1 - m) ** 2 * u[i]
            for j in range(3):
                H[i, j] = 8 / (1 - m) ** 3 * u[i] * u[j] + 4 / (1 - m) ** 2 / m * T[i][j]
        for x, sign, radius, weight in sides:
            y = [x[i] - origin[i] for i in range(3)]
            a = sign * (sum(y[i] * n[i] for i in range(3)) + p[3]) - radius * m
            assert a > 0
            slope = [sign * y[i] - radius * u[i] for i in range(3)] + [mp.mpf(sign)]
            value += length * weight / a
            for i in range(4):
                gradient[i] -= length * weight / a**2 * slope[i]
                for j in range(4):
                    H[i, j] += 2 * length * weight / a**3 * slope[i] * slope[j]
            for i in range(3):
                for j in range(3):
                    H[i, j] += length * weight / a**2 * radius * T[i][j] / m
        step = mp.lu_solve(H, -gradient)
        p = p + step
        if mp.norm(step) < mp.mpf(10) ** -40 * mp.norm(p):
            return p, value
    raise AssertionError("Newton's method did not converge")


def exact_value(pair: tuple[Hull, Hull], length: float, origin, plane, moved=None) -> mp.mpf:
    """P with 50 digits; ``moved`` takes the points of both hulls and ``centre_of`` them, and returns others."""
    origin, centre = ([mp.mpf(float(x)) for x in point] for point in (origin, centre_of(*pair)))
    points = [[[mp.mpf(float(x)) for x in row] for row in h.points] for h in pair]
    if moved is not None:
        points = moved(points, centre)
    radii = [mp.mpf(float(h.radius)) for h in pair]
    _, value = exact_plane(*points, radii, mp.mpf(length), origin, plane)
    return value
