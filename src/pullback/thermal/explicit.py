"""Explicit steps: on the CPU one launch for many of them and each core, on CUDA two launches a step."""

from __future__ import annotations

import warp as wp

from pullback.core.arrays import empty
from pullback.core.launch import launch
from pullback.kernels import specialise
from pullback.thermal.cores import launches_of, on_cores, shares_of

THREADS = 256  # a block on CUDA
# How much a launch does on the CPU, some tenths of a second.
ELEMENT_STEPS = 5_000_000
# Threads that have sums of their own on CUDA, in all worlds together: few enough that these are no burden.
MOST_LANES = 16384


class Explicit:
    """How a Heat System's steps are launched. ``lanes``: how many sums of cotangents there are to add up."""

    def __init__(self, heat, cores: int, *, by_phases: bool | None = None):
        """by_phases: a launch for each phase of a step; None for CUDA, where it has to be so."""
        self.heat = heat
        self.by_phases = heat.device != "cpu" if by_phases is None else by_phases
        if not self.by_phases:
            self.shares = shares_of(heat.dtype, heat.worlds, len(heat.mesh.elements), cores)
            self.lanes = self.beam_lanes = len(self.shares)
        else:
            self.lanes, self.beam_lanes = max(1, min(heat.n, MOST_LANES // heat.worlds)), 1
        shapes = ((heat.worlds, heat.n), (heat.worlds, heat.n), (heat.worlds, 8 * len(heat.mesh.elements)))
        self.now, self.nodal, self.slots = (empty(shape, heat.dtype, heat.device) for shape in shapes)

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """First and end of some steps at a time: an interrupt is looked at between launches."""
        return launches_of(steps, ELEMENT_STEPS // (self.heat.worlds * len(self.heat.mesh.elements)))

    def forward(self, law, trace, start: wp.array, rows: wp.array, keep_every: int) -> None:
        """Fills ``rows`` from 1 on."""
        heat = self.heat
        wp.copy(self.now, start)
        if not self.by_phases:
            kernel = specialise(heat.dtype, "heat.lanes").roll
            before, after = [trace.beams, trace.live, heat.dt], [keep_every, self.nodal, self.slots, self.now, rows]
            for first, end in self.launches(trace.steps):
                on_cores(
                    kernel,
                    self.shares,
                    lambda share, first=first, end=end: [heat._part, law.struct, share, *before, first, end, *after],
                )
            return
        module = specialise(heat.dtype, "heat.phases")
        shape, count = (heat.worlds, heat.n), (heat.worlds, len(heat.mesh.elements))
        launch(module.start, shape, [law.struct, self.now, self.nodal], heat.device, block_dim=THREADS)
        elements = self._record(module.elements, count, [heat._part, trace.live, 0, self.nodal, self.slots])
        inputs = [
            heat._part,
            law.struct,
            trace.beams,
            trace.live,
            0,
            0,
            heat.dt,
            self.nodal,
            self.slots,
            self.now,
            rows,
        ]
        nodes = self._record(module.nodes, shape, inputs)
        for t in range(trace.steps):
            kept = (t + 1) % keep_every == 0 or t + 1 == trace.steps
            elements.set_param_at_index(2, t)
            elements.launch()
            nodes.set_param_at_index(4, t)
            nodes.set_param_at_index(5, t // keep_every + 1 if kept else 0)
            nodes.launch()

    def backward(self, law, law_bar, trace, beams_bar, rows, rows_bar, every_row, wants_params, carry) -> None:
        """``carry`` (worlds, n), the cotangent of the last of rows, becomes that of the first."""
        heat = self.heat
        if not self.by_phases:
            kernel = specialise(heat.dtype, "heat.lanes").roll_back
            after = [rows, rows_bar, every_row, wants_params, self.nodal, self.slots, carry]

            def inputs_of(share, first, end):
                beams = [trace.beams, beams_bar[share.lane], trace.live]
                return [heat._part, law.struct, law_bar, share, *beams, heat.dt, first, end, *after]

            for first, end in reversed(self.launches(trace.steps)):
                on_cores(kernel, self.shares, lambda share, first=first, end=end: inputs_of(share, first, end))
            return
        module = specialise(heat.dtype, "heat.phases")
        shape, count = (heat.worlds, heat.n), (heat.worlds, len(heat.mesh.elements))
        inputs = [heat._part, law.struct, trace.live, trace.steps, heat.dt, rows, self.nodal, carry]
        launch(module.start_back, shape, inputs, heat.device, block_dim=THREADS)
        elements = self._record(module.elements, count, [heat._part, trace.live, 0, self.nodal, self.slots])
        inputs = [heat._part, law.struct, law_bar, trace.beams, beams_bar[0], trace.live, 0, heat.dt, rows, rows_bar]
        inputs += [every_row, wants_params, self.lanes, self.nodal, self.slots, carry]
        nodes = self._record(module.nodes_back, (heat.worlds, self.lanes), inputs)
        for t in reversed(range(trace.steps)):
            elements.set_param_at_index(2, t)
            elements.launch()
            nodes.set_param_at_index(6, t)
            nodes.launch()

    def _record(self, kernel, dim, inputs: list) -> wp.Launch:
        return launch(kernel, dim, inputs, self.heat.device, block_dim=THREADS, record_cmd=True)
