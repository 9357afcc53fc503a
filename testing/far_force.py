"""The force from afar that ``pb.Far`` differentiates, in NumPy, with kinematics by MuJoCo: an oracle."""

import mujoco
import numpy as np

import pullback as pb
from pullback.contact import Scene

BLUNT = 1e-3  # where the softened length of a plane's normal ceases to be its length [1]
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7


def soft_inverse(a: np.ndarray, soft: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1 / (½ (a + √(a² + 4 s²))) and its first two derivatives."""
    root = np.sqrt(a * a + 4 * soft**2)
    value = (root - a) / (2 * soft**2)
    value = np.where(a > 0, 2 / (root + np.abs(a)), value)
    return value, -value / root, 2 / root**3


class Hulls:
    """Points x (n, 3) [m] of two rounded hulls, with their signs, radii and weights (n,)."""

    def __init__(self, first: tuple[np.ndarray, float], second: tuple[np.ndarray, float], length: float, soft: float):
        (one, radius1), (two, radius2) = first, second
        self.x = np.concatenate([one, two])
        self.sign = np.repeat([-1.0, 1.0], [len(one), len(two)])
        self.radius = np.repeat([radius1, radius2], [len(one), len(two)])
        self.weight = np.repeat([1 / len(one), 1 / len(two)], [len(one), len(two)])
        self.length, self.soft = length, soft

    def terms(self, plane: np.ndarray):
        """The sum over a plane (4,), its gradient and Hessian by the plane, and b' of each point."""
        n, d = plane[:3], plane[3]
        root = np.sqrt(n @ n + BLUNT**2)
        rho, u = root - BLUNT, n / root
        a = self.sign * (self.x @ n + d) - self.radius * rho
        b, slope, curve = soft_inverse(a, self.soft)
        a_p = np.column_stack([self.sign[:, None] * self.x - self.radius[:, None] * u, self.sign])
        rest = 1 / (1 - rho)
        value = 4 * rest + self.length * self.weight @ b if rho < 1 else np.inf
        gradient = np.append(4 * rest**2 * u, 0) + self.length * (self.weight * slope) @ a_p
        hessian = self.length * (a_p.T * (self.weight * curve)) @ a_p
        bend = 4 * rest**2 - self.length * np.sum(self.weight * slope * self.radius)
        hessian[:3, :3] += 8 * rest**3 * np.outer(u, u) + bend / root * (np.eye(3) - np.outer(u, u))
        return value, gradient, hessian, slope

    def minimum(self) -> tuple[float, np.ndarray]:
        """P, and its gradient by points (n, 3); by Newton's method from no plane at all."""
        plane = np.zeros(4)
        for _ in range(200):
            value, gradient, hessian, _slope = self.terms(plane)
            step = -np.linalg.solve(hessian, gradient)
            t = 1.0
            while -gradient @ step > 1e-8 * value and not self.terms(plane + t * step)[0] < value:
                t /= 2
            plane = plane + t * step
            if -gradient @ step < 1e-28 * value:
                break
        value, _gradient, _hessian, slope = self.terms(plane)
        return value, (self.length * self.weight * slope * self.sign)[:, None] * plane[:3]


def half_space(x: np.ndarray, radius: float, normal: np.ndarray, place: np.ndarray, length: float, soft: float):
    """The same for a hull over a plane."""
    distance = (x - place) @ normal - radius
    inverse, slope, _curve = soft_inverse(distance, soft)
    value = 4 * np.mean(2 * np.sqrt(length * inverse) + length * inverse)
    by_inverse = np.sqrt(length / inverse) + length
    return value, (4 / len(x) * by_inverse * slope)[:, None] * normal


def core(model: mujoco.MjModel, data: mujoco.MjData, geom: int, inset: float) -> tuple[np.ndarray, float]:
    """Points (n, 3) and radius of a geom whose surface is moved inwards."""
    kind, size, radius = int(model.geom_type[geom]), model.geom_size[geom], 0.0
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)
    if kind == SPHERE:
        local, radius = np.zeros((1, 3)), size[0] - inset
    elif kind == CAPSULE:
        local, radius = np.array([[0, 0, -size[1]], [0, 0, size[1]]]), size[0] - inset
    elif kind == ELLIPSOID:
        local = np.concatenate([np.diag(size - inset), -np.diag(size - inset)])
    elif kind == CYLINDER:
        angle = 2 * np.pi * np.arange(12) / 12
        rim = (size[0] - inset) * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(12)])
        local = np.concatenate([rim + [0, 0, z] for z in (inset - size[1], size[1] - inset)])
    elif kind == BOX:
        local = signs * (size - inset)
    else:
        middle, half = model.geom_aabb[geom].reshape(2, 3)
        local = middle + signs * (half - inset)
    return data.geom_xpos[geom] + local @ data.geom_xmat[geom].reshape(3, 3).T, radius


def far_energy_and_force(model: pb.Model, far: pb.Far, q: np.ndarray) -> tuple[float, np.ndarray]:
    """U = Σ μ P [J] of a configuration (nq,), and F = -∂U/∂q (nv,) [N·m or N]."""
    m, scene = model.mujoco, Scene.of(model)
    data = mujoco.MjData(m)
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    mujoco.mj_comPos(m, data)
    length = far.length or np.median([m.geom_rbound[g] for g in scene.geoms if m.geom_type[g] != PLANE])
    gap = far.gap or length / 1000
    inverse = np.where(m.body_weldid != 0, 1 / np.maximum(m.body_subtreemass[m.body_rootid], 1e-15), 0.0)
    energy, force = 0.0, np.zeros(m.nv)
    for pair in scene.geoms[scene.pair_shapes]:
        bodies = m.geom_bodyid[pair]
        mu = 9.81 * gap**2 / (2 * length) / inverse[bodies].sum()
        insets = [0.0 if m.geom_type[g] == PLANE else far.inset * m.geom_aabb[g, 3:].min() for g in pair]
        soft = max(sum(insets) / 8, length / 100)
        two = core(m, data, pair[1], insets[1])
        if m.geom_type[pair[0]] == PLANE:
            normal = data.geom_xmat[pair[0]].reshape(3, 3)[:, 2]
            value, gradient = half_space(*two, normal, data.geom_xpos[pair[0]], length, soft)
            places = [(two[0], bodies[1])]
        else:
            one = core(m, data, pair[0], insets[0])
            value, gradient = Hulls(one, two, length, soft).minimum()
            places = [(one[0], bodies[0]), (two[0], bodies[1])]
        energy += mu * value
        points = [(x, body) for where, body in places for x in where]
        for (x, body), slope in zip(points, gradient, strict=True):
            jacobian = np.zeros((3, m.nv))
            mujoco.mj_jac(m, data, jacobian, None, x, int(body))
            force -= mu * slope @ jacobian
    return energy, force


def far_stiffness(model: pb.Model, far: pb.Far, q: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """∂F/∂q (nv, nv) in the tangent space, by central differences of fourth order."""
    columns = []
    for d in range(model.nv):
        moved = {}
        for k in (-2, -1, 1, 2):
            away = np.array(q, dtype=float)
            mujoco.mj_integratePos(model.mujoco, away, k * step * np.eye(model.nv)[d], 1.0)
            moved[k] = far_energy_and_force(model, far, away)[1]
        columns.append((8 * (moved[1] - moved[-1]) - (moved[2] - moved[-2])) / (12 * step))
    return np.column_stack(columns)
