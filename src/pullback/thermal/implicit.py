"""Implicit steps: one launch for many of them; each core has a share, on CUDA each world has a block of threads."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import empty
from pullback.core.errors import SimulationError
from pullback.core.launch import launch
from pullback.kernels import specialise
from pullback.thermal.cores import launches_of, on_cores, shares_of

THREADS = 256  # a block on CUDA
# How much a launch does, some tenths of a second; a step takes some tens of passes over the elements.
ELEMENT_STEPS = 200_000
HEALTHY = -1  # as in kernels/heat/implicit.py


class Implicit:
    """How a Heat System's steps are launched. ``lanes``: how many sums of cotangents there are to add up."""

    def __init__(self, heat, cores: int):
        self.heat, self.on_cpu = heat, heat.device == "cpu"
        self.module = specialise(heat.dtype, "heat.implicit")
        elements = len(heat.mesh.elements)
        if self.on_cpu:
            self.shares, self.threads = shares_of(heat.dtype, heat.worlds, elements, cores), 1
            self.lanes = self.beam_lanes = len(self.shares)
        else:
            self.shares, self.threads = shares_of(heat.dtype, heat.worlds, elements, 1, heat.device), THREADS
            self.shares[0].cores = THREADS
            self.lanes, self.beam_lanes = THREADS, 1
        self.now = empty((heat.worlds, heat.n), heat.dtype, heat.device)
        self.work = self.module.Work()
        for name in self.module.Work.vars:
            size = 8 * elements if name == "slots" else heat.n
            setattr(self.work, name, empty((heat.worlds, size), heat.dtype, heat.device))
        places = self.lanes if self.on_cpu else THREADS * heat.worlds
        self.sums = wp.zeros((2, places), dtype=wp.float64, device=heat.device)

    def forward(self, law, trace, start: wp.array, rows: wp.array, keep_every: int) -> None:
        """Fills ``rows`` from 1 on."""
        heat = self.heat
        wp.copy(self.now, start)
        status = self._no_trouble()
        before, after = [trace.beams, trace.live, heat.dt], [keep_every, self.now, rows, status]
        for first, end in self.launches(trace.steps):
            self._launch(
                self.module.roll,
                lambda share: [heat._part, law.struct, share],
                lambda share, first=first, end=end: [*before, first, end, *after],
            )
            self._refuse(status, trace.first, "a balance of heat")

    def backward(self, law, law_bar, trace, beams_bar, rows, rows_bar, every_row, wants_params, carry) -> None:
        """``carry`` (worlds, n), the cotangent of the last of rows, becomes that of the first."""
        heat = self.heat
        status = self._no_trouble()
        after = [rows, rows_bar, every_row, wants_params, carry, status]

        def rest_of(share, first, end):
            return [trace.beams, beams_bar[share.lane], trace.live, heat.dt, first, end, *after]

        for first, end in reversed(self.launches(trace.steps)):
            self._launch(
                self.module.roll_back,
                lambda share: [heat._part, law.struct, law_bar, share],
                lambda share, first=first, end=end: rest_of(share, first, end),
            )
            self._refuse(status, trace.first, "the gradient")

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """First and end of some steps at a time: an interrupt is looked at between launches."""
        return launches_of(steps, ELEMENT_STEPS // (self.heat.worlds * len(self.heat.mesh.elements)))

    def _no_trouble(self) -> wp.array:
        return wp.full(self.heat.worlds, HEALTHY, dtype=wp.int32, device=self.heat.device)

    def _launch(self, kernel, before_of, after_of) -> None:
        def inputs_of(share):
            return [*before_of(share), self.threads, self.work, self.sums, *after_of(share)]

        if self.on_cpu:
            on_cores(kernel, self.shares, inputs_of)
            return
        dim, device = self.heat.worlds * THREADS, self.heat.device
        launch(kernel, dim, inputs_of(self.shares[0]), device, block_dim=THREADS)

    def _refuse(self, status: wp.array, first: int, what: str) -> None:
        found = status.numpy()
        if np.any(found != HEALTHY):
            sick = np.flatnonzero(found != HEALTHY)
            world = int(sick[np.argmin(found[sick])])
            step = first + int(found[world])
            raise SimulationError(
                f"{what} was not found in step {step} of world {world}: use a smaller dt "
                f"(now {self.heat.dt:g} s), or look at the power [W] and radius [m] of the laser",
                world=world,
                step=step,
            )
