"""The potential of two meshes of triangles once more, in NumPy, pair of nodes by pair of nodes; and wrong versions."""

from typing import NamedTuple

import numpy as np
from hulls import Hull, evaluate

from pullback.contact.triangles import hierarchy


class Sum(NamedTuple):
    value: float
    push: np.ndarray  # (6,) moment about the origin, and force: the gradient by a motion of mesh 2


class Mesh:
    """Triangles (n, 3, 3) [m] of a shape whose axes are the columns of R and whose origin is x, in the world, and the
    nodes above them."""

    def __init__(self, corners: np.ndarray, R: np.ndarray, x: np.ndarray):
        nodes, _ = hierarchy(corners)
        self.corners, self.centre = corners @ R.T + x, nodes["centre"] @ R.T + x
        self.radius, self.spread = nodes["radius"], nodes["spread"]
        self.share, self.child = nodes["share"], nodes["child"]


def wrench(x: np.ndarray, force: np.ndarray) -> np.ndarray:
    return np.concatenate([np.cross(x, force), force])


def law(distance: float, length: float) -> tuple[float, float]:
    """4 (2 √(L/d) + L/d) and its derivative."""
    x = length / distance
    return 4 * (2 * np.sqrt(x) + x), -4 * (np.sqrt(x) + x) / distance


def quintic(t: float) -> tuple[float, float]:
    t = min(max(t, 0.0), 1.0)
    return t**3 * (10 - 15 * t + 6 * t**2), 30 * t**2 * (1 - t) ** 2


class Reference:
    """P of two meshes. What is blended is noted in ``bands``: near and far of each such pair of nodes.

    slope: whether φ is differentiated; without it the gradient is wrong
    """

    def __init__(self, first: Mesh, second: Mesh, length: float, blend: float, slope: bool = True):
        self.first, self.second, self.length, self.blend, self.slope = first, second, length, blend, slope
        self.bands: list[tuple[float, float]] = []
        n, m = len(first.corners), len(second.corners)
        pairs = [(Hull(second.corners[j], 0.0), Hull(first.corners[i], 0.0)) for i in range(n) for j in range(m)]
        self.exact = evaluate(pairs, length)

    def leaf(self, i: int, j: int) -> Sum:
        """Of two leaves, with T of ``kernels/contact/mesh_pair.py``."""
        s, one, two = self.first.share[i] * self.second.share[j], -1 - self.first.child[i], -1 - self.second.child[j]
        at = one * len(self.second.corners) + two
        z, forces = self.exact.value[at] - 4, self.exact.forces[at][:3]
        push = -sum(wrench(x, f) for x, f in zip(self.second.corners[two], forces, strict=True))
        onset = law(min(0.1 * self.length, (self.first.radius[i] + self.second.radius[j]) / 8), self.length)[0]
        u, more = max(z - onset, 0.0), s**0.25 - s
        base = u**2 + onset**2
        return Sum(s * z + more * u**3 / base, (s + more * u**2 * (u**2 + 3 * onset**2) / base**2) * push)

    def sum(self, i: int = 0, j: int = 0) -> Sum:
        a, b = self.first, self.second
        way = b.centre[j] - a.centre[i]
        r, near_by = np.linalg.norm(way), a.radius[i] + b.radius[j]
        phi, slope = quintic((r - near_by) / (self.blend * near_by)) if r > near_by else (0.0, 0.0)
        slope = self.slope * slope / (self.blend * near_by)
        near = Sum(0.0, np.zeros(6))
        if phi < 1:
            near = self.children(i, j)
        if phi == 0:
            return near
        s, rho = a.share[i] * b.share[j], np.sqrt(r**2 + a.spread[i] + b.spread[j])
        far, fall = law(rho, self.length)
        if phi < 1:
            self.bands.append((near.value, s * far))
        force = (phi * s * fall * r / rho + slope * (s * far - near.value)) * way / r
        value = (1 - phi) * near.value + phi * s * far
        return Sum(value, (1 - phi) * near.push + wrench(b.centre[j], force))

    def children(self, i: int, j: int) -> Sum:
        a, b = self.first, self.second
        if a.child[i] < 0 and b.child[j] < 0:
            return self.leaf(i, j)
        if b.child[j] < 0 or (a.child[i] >= 0 and a.radius[i] >= b.radius[j]):
            parts = [self.sum(a.child[i] + k, j) for k in range(2)]
        else:
            parts = [self.sum(i, b.child[j] + k) for k in range(2)]
        return Sum(parts[0].value + parts[1].value, parts[0].push + parts[1].push)


def is_layered(nodes: dict[str, np.ndarray]) -> np.ndarray:
    """Of each node that is no leaf: whether its ball holds those of its children."""
    inner = np.flatnonzero(nodes["child"] >= 0)
    children = nodes["child"][inner][:, None] + np.arange(2)
    away = np.linalg.norm(nodes["centre"][children] - nodes["centre"][inner][:, None], axis=2)
    return (nodes["radius"][inner] >= (away + nodes["radius"][children]).max(axis=1) * (1 - 1e-12)).astype(bool)


def tight_radii(nodes: dict[str, np.ndarray]) -> np.ndarray:
    """Radii of balls about the same centres that hold no more than the triangles need: wrong, where nodes are blended
    their children may meet."""
    corners = nodes["corners"].reshape(-1, 3, 3)
    radius = np.zeros(len(nodes["child"]))

    def triangles(node: int) -> list[int]:
        child = nodes["child"][node]
        return [-1 - child] if child < 0 else triangles(child) + triangles(child + 1)

    for node in range(len(radius)):
        radius[node] = np.linalg.norm(corners[triangles(node)] - nodes["centre"][node], axis=2).max()
    return radius
