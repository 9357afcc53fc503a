"""The same particles in Taichi, as DiffTaichi writes them: kernels per phase of a step, their gradients by Taichi.

The grid is computed again in the backward pass, as DiffTaichi's later examples do; the states of all particles are
kept. One thread.
"""

import numpy as np
import taichi as ti

MARGIN = 3  # nodes nearer to the border hold back what moves outwards


def start() -> None:
    ti.init(arch=ti.cpu, default_fp=ti.f32, cpu_max_num_threads=1, offline_cache=False, log_level=ti.ERROR)


@ti.data_oriented
class TaichiParticles:
    """Corotated in the plane, neo-Hookean in space, with muscles along the last axis; mass and volume are one.

    points: (n, d) [m]; muscle: (n,) of each particle, -1 for none; lame: both of Lamé's numbers [Pa]
    """

    def __init__(self, points, muscle, *, cells: int, h: float, steps: int, lame: float, gravity: float, strength=0.0):
        self.n, self.dim = points.shape
        self.cells, self.dx, self.h, self.steps = cells, 1.0 / cells, h, steps
        self.lame, self.gravity, self.strength = lame, gravity, strength
        self.muscles = max(int(muscle.max()) + 1, 1)
        rows, d, grid = (steps + 1, self.n), self.dim, (cells,) * self.dim
        self.x = ti.Vector.field(d, ti.f32, shape=rows, needs_grad=True)
        self.v = ti.Vector.field(d, ti.f32, shape=rows, needs_grad=True)
        self.C = ti.Matrix.field(d, d, ti.f32, shape=rows, needs_grad=True)
        self.F = ti.Matrix.field(d, d, ti.f32, shape=rows, needs_grad=True)
        self.momentum = ti.Vector.field(d, ti.f32, shape=grid, needs_grad=True)
        self.mass = ti.field(ti.f32, shape=grid, needs_grad=True)
        self.flow = ti.Vector.field(d, ti.f32, shape=grid, needs_grad=True)
        self.control = ti.field(ti.f32, shape=(steps, self.muscles), needs_grad=True)
        self.muscle = ti.field(ti.i32, shape=self.n)
        self.muscle.from_numpy(muscle.astype(np.int32))
        self._begin(points.astype(np.float32))

    @ti.kernel
    def _begin(self, points: ti.types.ndarray()):
        for p in range(self.n):
            for k in ti.static(range(self.dim)):
                self.x[0, p][k] = points[p, k]
            self.F[0, p] = ti.Matrix.identity(ti.f32, self.dim)

    @ti.kernel
    def _clear(self):
        for node in ti.grouped(self.mass):
            self.mass[node] = 0.0
            self.mass.grad[node] = 0.0
            self.momentum[node] = ti.Vector.zero(ti.f32, self.dim)
            self.momentum.grad[node] = ti.Vector.zero(ti.f32, self.dim)
            self.flow.grad[node] = ti.Vector.zero(ti.f32, self.dim)

    @ti.kernel
    def _scatter(self, t: ti.i32):
        for p in range(self.n):
            X = self.x[t, p] * self.cells
            base = ti.cast(X - 0.5, ti.i32)
            f = X - ti.cast(base, ti.f32)
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            identity = ti.Matrix.identity(ti.f32, self.dim)
            F = (identity + self.h * self.C[t, p]) @ self.F[t, p]
            self.F[t + 1, p] = F
            J = F.determinant()
            tau = ti.Matrix.zero(ti.f32, self.dim, self.dim)
            if ti.static(self.dim == 2):
                R, S = ti.polar_decompose(F)
                tau = 2 * self.lame * (F - R) @ F.transpose() + identity * (self.lame * (J - 1) * J)
            else:
                tau = self.lame * (F @ F.transpose()) + identity * (self.lame * ti.log(J) - self.lame)
            muscle = self.muscle[p]
            pull = self.control[t, ti.max(0, muscle)] * self.strength
            if muscle == -1:
                pull = 0.0
            along = ti.Matrix.zero(ti.f32, self.dim, self.dim)
            along[self.dim - 1, self.dim - 1] = pull
            tau += F @ along @ F.transpose()
            affine = self.C[t, p] - self.h * 4 * self.cells * self.cells * tau
            for o in ti.static(ti.grouped(ti.ndrange(*((3,) * self.dim)))):
                D = (ti.cast(o, ti.f32) - f) * self.dx
                share = 1.0
                for k in ti.static(range(self.dim)):
                    share *= w[o[k]][k]
                self.momentum[base + o] += share * (self.v[t, p] + affine @ D)
                self.mass[base + o] += share

    @ti.kernel
    def _settle(self):
        for node in ti.grouped(self.mass):
            u = self.momentum[node] / (self.mass[node] + 1e-10)
            u[self.dim - 1] -= self.h * self.gravity
            for k in ti.static(range(self.dim)):
                if node[k] < MARGIN and u[k] < 0:
                    u = ti.Vector.zero(ti.f32, self.dim)
                if node[k] > self.cells - MARGIN and u[k] > 0:
                    u = ti.Vector.zero(ti.f32, self.dim)
            self.flow[node] = u

    @ti.kernel
    def _gather(self, t: ti.i32):
        for p in range(self.n):
            X = self.x[t, p] * self.cells
            base = ti.cast(X - 0.5, ti.i32)
            f = X - ti.cast(base, ti.f32)
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            v = ti.Vector.zero(ti.f32, self.dim)
            C = ti.Matrix.zero(ti.f32, self.dim, self.dim)
            for o in ti.static(ti.grouped(ti.ndrange(*((3,) * self.dim)))):
                share = 1.0
                for k in ti.static(range(self.dim)):
                    share *= w[o[k]][k]
                u = self.flow[base + o]
                v += share * u
                C += 4 * self.cells * share * u.outer_product(ti.cast(o, ti.f32) - f)
            self.v[t + 1, p], self.C[t + 1, p] = v, C
            self.x[t + 1, p] = self.x[t, p] + self.h * v

    def forward(self) -> None:
        for t in range(self.steps):
            self._clear()
            self._scatter(t)
            self._settle()
            self._gather(t)

    def clear_gradients(self) -> None:
        for field in (self.x, self.v, self.C, self.F, self.control):
            field.grad.fill(0)

    def backward(self) -> None:
        """Of minus the mean of x at the end."""
        self.clear_gradients()
        self._minus_mean()
        for t in reversed(range(self.steps)):
            self._clear()
            self._scatter(t)
            self._settle()
            self._gather.grad(t)
            self._settle.grad()
            self._scatter.grad(t)

    @ti.kernel
    def _minus_mean(self):
        for p in range(self.n):
            self.x.grad[self.steps, p][0] = -1.0 / self.n

    def final(self) -> np.ndarray:
        """Places (n, d) at the end."""
        found = np.zeros((self.n, self.dim), dtype=np.float32)
        self._final(found)
        return found

    @ti.kernel
    def _final(self, found: ti.types.ndarray()):
        for p in range(self.n):
            for k in ti.static(range(self.dim)):
                found[p, k] = self.x[self.steps, p][k]

    def first_bar(self) -> np.ndarray:
        """Cotangents of the first velocities (n, d)."""
        found = np.zeros((self.n, self.dim), dtype=np.float32)
        self._first_bar(found)
        return found

    @ti.kernel
    def _first_bar(self, found: ti.types.ndarray()):
        for p in range(self.n):
            for k in ti.static(range(self.dim)):
                found[p, k] = self.v.grad[0, p][k]
