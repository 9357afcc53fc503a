"""How the steps of Particles are launched: many at once, each core with worlds of its own or a share of every world."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import as_items, require_space
from pullback.core.launch import Crew, launch, shares
from pullback.kernels import specialise
from pullback.kernels.status import HEALTHY

if TYPE_CHECKING:
    from pullback.soft.particles import Particles

# A core that has fewer particles than this waits for the others longer than it works.
LEAST_PARTICLES = 400
# How much a launch does, some tenths of a second: an interrupt is handled between launches. [particles · steps]
PARTICLE_STEPS = 2_000_000


class Stepper:
    """Workspace and launches. ``lanes``: how many sums of cotangents there are to add up."""

    def __init__(self, soft: Particles, cores: int):
        self.soft, self.crew = soft, Crew()
        self.kernels, self.structs = (specialise(soft.flavour, name) for name in ("roll", "structs"))
        self.gate = wp.zeros(1, dtype=wp.int32, device=soft.device)
        self.shares = self._shares(cores)
        self.lanes = len(self.shares)
        self.nodes, self.rows = int(np.prod(soft.cells)), int(np.prod(soft.cells[:-1]))
        self.body, self.grid = self._body(), self._grid()
        self.shape_kind = self._upload([shape.number for shape in soft.shapes], wp.int32)
        self.shape_hold = self._upload([shape.hold for shape in soft.shapes], wp.int32)
        self._work = None

    def _shares(self, cores: int) -> list:
        """Worlds for each core, or a share of every world if there are fewer worlds than cores."""
        worlds = self.soft.worlds
        if worlds >= cores:
            return [self._share(*ends, 0, 1, lane) for lane, ends in enumerate(shares(worlds, cores))]
        cores = max(1, min(cores, self.soft.n // LEAST_PARTICLES))
        return [self._share(0, worlds, core, cores, core) for core in range(cores)]

    def _share(self, *numbers: int):
        share = specialise(self.soft.dtype, "cores").Share()
        for name, number in zip(("first_world", "end_world", "core", "cores", "lane"), numbers, strict=True):
            setattr(share, name, int(number))
        share.threads, share.gate = 1, self.gate
        return share

    def _upload(self, array, dtype) -> wp.array:
        number = wp.dtype_to_numpy(getattr(dtype, "_wp_scalar_type_", dtype))
        return wp.array(np.ascontiguousarray(array, dtype=number), dtype=dtype, device=self.soft.device)

    def _body(self):
        soft, kinds = self.soft, self.structs.Body.vars
        body = self.structs.Body()
        muscle = [-1 if one.muscle is None else soft.muscles.index(one.muscle) for one in soft.bodies]
        fields = {
            "group": soft.group,
            "volume": np.concatenate([one.volume for one in soft.bodies]),
            "kind": [one.material.kind for one in soft.bodies],
            "muscle": muscle,
            "direction": np.reshape([one.direction for one in soft.muscles], (-1, soft.dim)),
        }
        for name, array in fields.items():
            setattr(body, name, self._upload(array, kinds[name].type.dtype))
        return body

    def _grid(self):
        soft, kinds = self.soft, self.structs.Grid.vars
        grid = self.structs.Grid()
        between = (1,) if soft.dim == 2 else ()  # a plane has one row in the middle
        grid.shape = wp.vec3i(*soft.cells[:1], *between, *soft.cells[1:])
        grid.origin = kinds["origin"].type(*soft.origin)
        grid.dx, grid.inverse, grid.affine, grid.h = soft.dx, 1 / soft.dx, 4 / soft.dx**2, soft.dt
        grid.walls = len(soft.walls)
        normals = np.zeros((len(soft.walls), 3))
        for wall, normal in zip(soft.walls, normals, strict=True):
            normal[: soft.dim] = wall.normal
        grid.normals = self._upload(normals, kinds["normals"].type.dtype)
        grid.hold = self._upload([wall.kind for wall in soft.walls], wp.int32)
        grid.covered = self._upload(self._covered(), wp.int32)
        return grid

    def _covered(self) -> np.ndarray:
        """Of every node, the sum of 2^wall over the walls that it lies behind, or on, but for rounding."""
        soft, nodes = self.soft, math.prod(self.soft.cells)
        require_space((nodes,), "float64", soft.device, f"a grid of {nodes} nodes", "use a coarser grid")
        axes = [o + soft.dx * np.arange(count) for o, count in zip(soft.origin, soft.cells, strict=True)]
        covered = np.zeros(soft.cells, dtype=np.int32)
        for k, wall in enumerate(soft.walls):
            outside = sum(
                n * (axis - p).reshape([-1 if i == j else 1 for j in range(soft.dim)])
                for i, (axis, n, p) in enumerate(zip(axes, wall.normal, wall.point, strict=True))
            )
            covered += (outside < 1e-6 * soft.dx) * np.int32(1 << k)
        return covered.ravel()

    @property
    def work(self):
        """The workspace, which is large: made when it is first needed. Memory that nobody touches is not taken."""
        if self._work is None:
            self._work = work = self.structs.Work()
            kinds, n = self.structs.Work.vars, self.soft.n
            sizes = {name: self.lanes * self.nodes for name in ("own", "nodes", "own_bar", "nodes_bar")}
            for name, size in (sizes | {"affine": self.lanes * n}).items():
                dtype = kinds[name].type.dtype
                what = f"a grid of {self.nodes} nodes"
                require_space((size,), dtype, self.soft.device, what, "use a coarser grid, or fewer threads")
                setattr(work, name, as_items(np.zeros((size, *dtype._shape_), self.soft.dtype), dtype, 1))
            work.low = wp.full((self.lanes, self.rows), self.soft.cells[-1], dtype=wp.int32)
            work.high = wp.zeros((self.lanes, self.rows), dtype=wp.int32)
            work.rows = wp.zeros((self.lanes, 2), dtype=wp.int32)
            work.given = wp.zeros((self.lanes, len(self.soft.shapes)), dtype=kinds["given"].type.dtype)
        return self._work

    def state(self, arrays):
        """The kernels' form of a state's arrays (rows, worlds, n, ...): the same memory."""
        struct, vars_ = self.structs.State(), self.structs.State.vars
        for name, array in zip(arrays._fields, arrays, strict=True):
            setattr(struct, name, as_items(array, vars_[name].type.dtype, 3))
        return struct

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """First and end of the steps of each launch."""
        at_once = max(1, PARTICLE_STEPS // (self.soft.worlds * self.soft.n))
        return [(first, min(first + at_once, steps)) for first in range(0, steps, at_once)]

    def forward(self, law, controls: wp.array, shapes, now, rows, keep_every: int) -> np.ndarray:
        """Fills ``rows`` from 1 on, and ``now``, whose rows are those of the last steps in turns. Returns what became
        of each world: a number of ``kernels.status`` or ``kinds``, the step, and the particle."""
        worlds = self.soft.worlds
        forward = self.structs.Forward()
        forward.now, forward.kept = self.state(now), self.state(rows)
        forward.ring, forward.keep_every, forward.steps = len(now.x), keep_every, controls.shape[0]
        forward.controls, forward.shapes = controls, shapes
        forward.status = wp.full((self.lanes, worlds), wp.vec3i(HEALTHY, HEALTHY, HEALTHY), dtype=wp.vec3i)
        with self.crew.lock:
            for first, end in self.launches(controls.shape[0]):
                self._launch(self.kernels.roll, law, forward, first, end)
        found = forward.status.numpy().copy()  # (lanes, worlds, 3)
        # The earliest step, and of that the first particle.
        order = np.where(found[..., 1] < 0, np.iinfo(np.int64).max, found[..., 1].astype(np.int64) * self.soft.n)
        order = np.where(found[..., 1] < 0, order, order + found[..., 2])
        return found[np.argmin(order, axis=0), np.arange(worlds)]

    def backward(self, law, bars, steps: int) -> None:
        """``bars``, the kernels' Bars: from the cotangent of the last of their rows to that of the first."""
        with self.crew.lock:
            for first, end in reversed(self.launches(steps)):
                self._launch(self.kernels.roll_back, law, bars, first, end)

    def _launch(self, kernel: Callable, law, *rest) -> None:
        inputs = ([self.body, self.grid, law.struct, share, self.work, *rest] for share in self.shares)
        self.crew.launch([launch(kernel, 1, x, self.soft.device, record_cmd=True) for x in inputs], self.gate)
