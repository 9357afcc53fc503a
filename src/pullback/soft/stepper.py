"""Launches of the steps of Particles.

On the CPU one launch does many steps, and each core has worlds of its own, or a part of every world. On CUDA a step is
three launches, with one thread per particle or node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import as_items, as_numbers, require_space, to_numpy
from pullback.core.launch import Crew, launch, shares
from pullback.core.trees import tree_map
from pullback.kernels import specialise
from pullback.kernels.soft import kinds
from pullback.kernels.status import HEALTHY

if TYPE_CHECKING:
    from pullback.soft.particles import Particles

# With fewer particles, a core waits for the others longer than it works.
LEAST_PARTICLES = 400
# Work per launch, some tenths of a second, because interrupts are handled between launches. [particles · steps]
PARTICLE_STEPS = 2_000_000
# Partial sums of cotangents on CUDA, over all worlds: as many as keep a large GPU busy. Those of controls exist for
# every step, so they are fewer, and threads that share one take turns.
MOST_LANES = 131_072
MOST_CONTROL_LANES = 256


def stepper_of(soft: Particles, cores: int) -> Stepper:
    """The stepper of a System: on so many cores of the CPU, or on its GPU."""
    return Stepper(soft, cores) if soft.device == "cpu" else Phases(soft)


class Stepper:
    """Workspace and launches. ``lanes``, ``control_lanes``: the number of partial sums of cotangents."""

    module = "roll"

    def __init__(self, soft: Particles, cores: int):
        self.soft, self.crew = soft, Crew()
        self.kernels, self.structs = (specialise(soft.flavour, name) for name in (self.module, "structs"))
        self.nodes = int(np.prod(soft.cells))
        self.body, self.grid = self._body(), self._grid()
        self.shape_kind = self._upload([shape.number for shape in soft.shapes], wp.int32)
        self.shape_hold = self._upload([shape.hold for shape in soft.shapes], wp.int32)
        self._work = None
        self._share_out(cores)

    def _share_out(self, cores: int) -> None:
        self.gate = wp.zeros(1, dtype=wp.int32, device=self.soft.device)
        self.shares = self._shares(cores)
        self.lanes = self.control_lanes = len(self.shares)

    def _shares(self, cores: int) -> list:
        """The worlds of each core, or its part of every world if there are fewer worlds than cores."""
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
        between = (1,) if soft.dim == 2 else ()  # in two dimensions the middle axis has one node
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
        """For every node, the sum of 2^wall over the walls that it lies on or behind, up to rounding."""
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
        """The workspace. It is large, so it is allocated when it is first needed."""
        if self._work is None:
            self._work = self._workspace(self.lanes)
            lanes, rows, last = self.lanes, int(np.prod(self.soft.cells[:-1])), self.soft.cells[-1]
            self._work.low = wp.full((lanes, rows), last, dtype=wp.int32)
            self._work.high = wp.zeros((lanes, rows), dtype=wp.int32)
            self._work.rows = wp.zeros((lanes, 2), dtype=wp.int32)
            kind = self.structs.Work.vars["given"].type.dtype
            self._work.given = wp.zeros((lanes, len(self.soft.shapes)), dtype=kind)
        return self._work

    def _workspace(self, grids: int):
        """The workspace with so many grids."""
        work = self.structs.Work()
        sizes = {name: grids * self.nodes for name in ("own", "nodes", "own_bar", "nodes_bar")}
        for name, size in (sizes | {"affine": grids * self.soft.n}).items():
            dtype = self.structs.Work.vars[name].type.dtype
            what = f"a grid of {self.nodes} nodes"
            require_space((size,), dtype, self.soft.device, what, "use a coarser grid, or fewer worlds or threads")
            setattr(work, name, self._zeros(size, dtype))
        return work

    def _zeros(self, size: int, dtype) -> wp.array:
        """An array of zeros. On the CPU, memory pages are only allocated when they are used."""
        return as_items(np.zeros((size, *dtype._shape_), self.soft.dtype), dtype, 1)

    def rows(self, count: int, start):
        """States, of which the first is ``start`` and the others are uninitialised."""
        rows = tree_map(lambda x: np.empty((count, *x.shape), self.soft.dtype), start)
        for array, x in zip(rows, start, strict=True):
            array[0] = x
        return rows

    def state(self, arrays):
        """The kernels' struct of a state's arrays (rows, worlds, n, ...), which shares their memory."""
        struct = self.structs.State()
        for name, array in zip(arrays._fields, arrays, strict=True):
            setattr(struct, name, as_items(array, self._item(name), 3))
        return struct

    def taken(self, states):
        """The states of a backward pass (rows, worlds, n, ...), in the form that ``state`` needs."""
        return tree_map(lambda x: np.ascontiguousarray(to_numpy(x), dtype=self.soft.dtype), states)

    def numbers(self, state):
        """A state in the form that users get."""
        return state

    def _item(self, name: str):
        """The Warp type of one particle's part of a field."""
        return self.structs.State.vars[name].type.dtype

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """The first and end step of each launch."""
        at_once = max(1, PARTICLE_STEPS // (self.soft.worlds * self.soft.n))
        return [(first, min(first + at_once, steps)) for first in range(0, steps, at_once)]

    def forward(self, law, controls: wp.array, shapes, now, rows, keep_every: int) -> np.ndarray:
        """Fills ``rows`` from row 1 on, and ``now``, a ring buffer of the last states.

        Returns for each world a code of ``kernels.status`` or ``kinds``, the step, and the particle.
        """
        forward = self.structs.Forward()
        forward.now, forward.kept = self.state(now), self.state(rows)
        forward.ring, forward.keep_every, forward.steps = len(now.x), keep_every, controls.shape[0]
        forward.controls, forward.shapes = controls, shapes
        with self.crew.lock:
            return self._forward(law, forward)

    def _forward(self, law, forward) -> np.ndarray:
        healthy = wp.vec3i(HEALTHY, HEALTHY, HEALTHY)
        forward.status = wp.full((self.lanes, self.soft.worlds), healthy, dtype=wp.vec3i)
        for first, end in self.launches(forward.steps):
            self._launch(self.kernels.roll, law, forward, first, end)
        found = forward.status.numpy().copy()  # (lanes, worlds, 3)
        # The earliest step that failed, and the first particle that failed in it.
        order = np.where(found[..., 1] < 0, np.iinfo(np.int64).max, found[..., 1].astype(np.int64) * self.soft.n)
        order = np.where(found[..., 1] < 0, order, order + found[..., 2])
        return found[np.argmin(order, axis=0), np.arange(self.soft.worlds)]

    def backward(self, law, bars, steps: int) -> None:
        """Runs the backward pass over ``bars``, the kernels' Bars, from the last of their rows to the first."""
        with self.crew.lock:
            self._backward(law, bars, steps)

    def _backward(self, law, bars, steps: int) -> None:
        for first, end in reversed(self.launches(steps)):
            self._launch(self.kernels.roll_back, law, bars, first, end)

    def _launch(self, kernel: Callable, law, *rest) -> None:
        inputs = ([self.body, self.grid, law.struct, share, self.work, *rest] for share in self.shares)
        self.crew.launch([launch(kernel, 1, x, self.soft.device, record_cmd=True) for x in inputs], self.gate)


class Phases(Stepper):
    """Steps of three launches each, with one grid per world. States stay on the GPU."""

    module = "phases"

    def __init__(self, soft: Particles):
        super().__init__(soft, 1)

    def _share_out(self, cores: int) -> None:
        self.lanes = max(1, min(max(self.soft.n, self.nodes), MOST_LANES // self.soft.worlds))
        self.control_lanes = min(self.lanes, MOST_CONTROL_LANES)

    @property
    def work(self):
        if self._work is None:
            self._work = self._workspace(self.soft.worlds)
        return self._work

    def _zeros(self, size: int, dtype) -> wp.array:
        return wp.zeros(size, dtype=dtype, device=self.soft.device)

    def rows(self, count: int, start):
        soft, arrays = self.soft, []
        for name, x in zip(start._fields, start, strict=True):
            item = self._item(name)
            rows = wp.empty((count, soft.worlds, soft.n), dtype=item, device=soft.device)
            first = as_items(x.contiguous(), item, 2) if isinstance(x, wp.array) else self._upload(x, item)
            wp.copy(rows, first, count=soft.worlds * soft.n)
            arrays.append(rows)
        return type(start)(*arrays)

    def taken(self, states):
        def here(x, name: str) -> wp.array:
            return x.contiguous() if self.soft._is_here(x) else self._upload(to_numpy(x), self._item(name))

        return type(states)(*map(here, states, states._fields))

    def numbers(self, state):
        return tree_map(as_numbers, state)

    def _forward(self, law, forward) -> np.ndarray:
        soft, kernels, none = self.soft, self.kernels, np.iinfo(np.int64).max
        failures = wp.full(soft.worlds, none, dtype=wp.int64, device=soft.device)
        particles, nodes = (soft.worlds, soft.n), (soft.worlds, self.nodes)
        push = self._record(kernels.push, particles, self.body, self.grid, law.struct, self.work, forward, failures, 0)
        settle = self._record(kernels.settle, nodes, self.grid, law.struct, self.work)
        pull = self._record(kernels.pull, particles, self.body, self.grid, self.work, forward, failures, 0)
        for t in range(forward.steps):
            push.set_param_at_index(6, t)
            push.launch()
            settle.launch()
            pull.set_param_at_index(5, t)
            pull.launch()
        phase, particle = np.divmod(failures.numpy(), soft.n)
        step, late = np.divmod(phase, 2)
        codes = np.stack([np.where(late, int(kinds.LEFT), int(kinds.INVERTED)), step, particle], axis=1)
        return np.where((failures.numpy() == none)[:, None], HEALTHY, codes)

    def _backward(self, law, bars, steps: int) -> None:
        soft, kernels = self.soft, self.kernels
        particles, lanes = (soft.worlds, soft.n), (soft.worlds, self.lanes)
        first = (self.body, self.grid, law.struct, self.work, bars)
        push = self._record(kernels.push_back, particles, *first, 0)
        settle = self._record(kernels.settle_back, lanes, *first[1:], self.lanes)
        pull = self._record(kernels.pull_back, lanes, *first, self.lanes, 0)
        for t in reversed(range(steps)):
            push.set_param_at_index(5, t)
            push.launch()
            settle.launch()
            pull.set_param_at_index(6, t)
            pull.launch()

    def _record(self, kernel: Callable, dim: tuple[int, int], *inputs) -> wp.Launch:
        return launch(kernel, dim, list(inputs), self.soft.device, record_cmd=True)
