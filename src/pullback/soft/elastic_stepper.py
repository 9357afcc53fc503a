"""Launches of the steps of an Elastic System: each core has worlds of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import as_items, empty, upload
from pullback.core.launch import Crew, launch, shares
from pullback.kernels import specialise
from pullback.kernels.status import HEALTHY
from pullback.soft.self_contact import touch_of

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic

# Residuals that may be rounding, and that certainly are, relative to stiffness times size. [1]
ROUNDING = {"float64": (1e-12, 1e-16), "float32": (1e-5, 1e-7)}
MOST_NEWTON = 200  # Newton steps; a few suffice
MOST_ITERATIONS = 10000  # conjugate-gradient iterations per Newton step
# Work per launch, some tenths of a second, because interrupts are handled between launches. [vertices · steps]
VERTEX_STEPS = 20_000


class ElasticStepper:
    """Launches of many steps each. ``counts`` (worlds, 2): Newton steps and conjugate-gradient iterations of the last
    trajectory, or piece of one."""

    def __init__(self, elastic: Elastic, cores: int):
        self.elastic, self.crew = elastic, Crew()
        self.module = specialise(elastic.flavour, "implicit")
        self.structs = specialise(elastic.flavour, "structs")
        arrays = elastic.mesh.arrays
        self.mesh = upload(self.structs.Mesh, arrays | {"handle": elastic.handle}, elastic.device)
        self.scene = self._scene()
        self.work = self._workspace(len(arrays["column"]))
        self.step = self._step()
        self.shares = shares(elastic.worlds, min(cores, elastic.worlds))
        self.counts = np.zeros((elastic.worlds, 2), np.int32)

    def _scene(self):
        shapes, places = self.elastic.shapes, (2, self.elastic.worlds, len(self.elastic.shapes))
        scene = upload(
            self.structs.Scene,
            {
                "kind": np.array([shape.number for shape in shapes], np.int32),
                "size": np.array([shape.size for shape in shapes]).reshape(-1, 3),
                "position": np.zeros((*places, 3)),
                "rotation": np.zeros((*places, 3, 3)),
            },
            self.elastic.device,
        )
        scene.gap, scene.slip = self.elastic.gap, self.elastic.slip
        return scene

    def _workspace(self, blocks: int):
        elastic, work = self.elastic, self.structs.Work()
        if elastic.self_contact:
            work.touch = touch_of(elastic, self.structs)
        sizes = {"blocks": blocks, "impulse": len(elastic.shapes), "motion_bar": len(elastic.shapes)}
        for name, field in self.structs.Work.vars.items():
            if name == "touch":
                continue
            shape = (elastic.worlds, sizes.get(name, elastic.n))
            setattr(work, name, wp.zeros(shape, dtype=field.type.dtype, device=elastic.device))
        shapes = [(2, elastic.worlds, elastic.n, 3)] * 2 + [(1, elastic.worlds, len(elastic.shapes), 6)]
        self.now = [empty(shape, elastic.dtype, elastic.device) for shape in shapes]
        return work

    def _step(self):
        elastic, step = self.elastic, self.structs.Step()
        points = elastic.mesh.points
        step.dt = elastic.dt
        tolerance = elastic.tolerance
        step.solved, step.finest = ROUNDING[elastic.dtype] if tolerance is None else (tolerance, tolerance)
        step.size = float(np.linalg.norm(np.ptp(points, axis=0)))
        step.most_newton, step.most_iterations = MOST_NEWTON, MOST_ITERATIONS
        return step

    def _launches(self, steps: int) -> list[tuple[int, int]]:
        """The first and end step of each launch."""
        at_once = max(1, VERTEX_STEPS // (self.elastic.worlds * self.elastic.n))
        return [(first, min(first + at_once, steps)) for first in range(0, steps, at_once)]

    def forward(self, law, controls: wp.array, path, start, rows, keep_every: int):
        """Fills ``rows`` with the kept states.

        Returns (worlds, 2) codes of ``kernels.status`` and steps, the vertex that failed in each world, and, if a world
        failed, the last states: the state before step t is in row t % 2, or in the only row.
        """
        elastic, states = self.elastic, self.structs.States()
        steps, device = controls.shape[0], elastic.device
        states.now_x, states.now_v, impulse = self.now
        states.rows_x, states.rows_v = rows[:2]
        if elastic.shapes:
            kind = self.structs.States.vars["now_impulse"].type.dtype
            states.now_impulse, states.rows_impulse = as_items(impulse[0], kind, 2), as_items(rows[2], kind, 3)
        states.path, states.controls, states.keep_every, states.steps = path, controls, keep_every, steps
        states.status = wp.full((elastic.worlds, 2), HEALTHY, dtype=wp.int32, device=device)
        states.culprit = wp.zeros(elastic.worlds, dtype=wp.int32, device=device)
        states.counts = wp.zeros((elastic.worlds, 2), dtype=wp.int32, device=device)
        with self.crew.lock:
            for x, now, row in zip(start, self.now[: len(start)], rows, strict=True):
                wp.copy(now, x, count=x.size)
                wp.copy(row, x, count=x.size)
            for first, end in self._launches(steps):
                self._launch(self.module.roll, law, states, first, end)
            codes = states.status.numpy()
            self.counts = states.counts.numpy()
            now = [x.numpy().copy() for x in self.now[: len(start)]] if np.any(codes[:, 1] >= 0) else []
        return codes, states.culprit.numpy(), now

    def backward(self, law, bars, steps: int) -> None:
        """Runs the backward pass over ``bars``, the kernels' Bars, from the last of their rows to the first."""
        bars.counts = wp.zeros((self.elastic.worlds, 2), dtype=wp.int32, device=self.elastic.device)
        with self.crew.lock:
            for first, end in reversed(self._launches(steps)):
                self._launch(self.module.roll_back, law, bars, first, end)
            self.counts = bars.counts.numpy()

    def _launch(self, kernel, law, *rest) -> None:
        commands = []
        for first, end in self.shares:
            inputs = [self.mesh, self.scene, law.struct, self.work, self.step, *rest[:1], first, *rest[1:]]
            commands.append(launch(kernel, end - first, inputs, self.elastic.device, record_cmd=True))
        self.crew.launch(commands)
