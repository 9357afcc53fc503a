"""Explicit steps: on the CPU one launch for many of them and each core, on CUDA two launches a step."""

from __future__ import annotations

import threading

import numpy as np
import warp as wp

from pullback.core.arrays import empty
from pullback.core.launch import launch
from pullback.kernels import specialise

# A core that has fewer elements than this waits for the others longer than it works.
LEAST_ELEMENTS = 400
# Threads that have sums of their own on CUDA, in all worlds together: few enough that these are no burden.
MOST_LANES = 16384


class Explicit:
    """How a Heat System's steps are launched. ``lanes``: how many sums of cotangents there are to add up."""

    def __init__(self, heat, cores: int):
        self.heat = heat
        self.on_cpu = heat.device == "cpu"
        if self.on_cpu:
            self.shares = self._shares(cores)
            self.lanes = self.beam_lanes = len(self.shares)
        else:
            self.lanes, self.beam_lanes = max(1, min(heat.n, MOST_LANES // heat.worlds)), 1
        shapes = ((heat.worlds, heat.n), (heat.worlds, heat.n), (heat.worlds, 8 * len(heat.mesh.elements)))
        self.now, self.nodal, self.slots = (empty(shape, heat.dtype, heat.device) for shape in shapes)

    def _shares(self, cores: int) -> list:
        """Worlds for each core, or a share of every world if there are fewer worlds than cores."""
        heat, share = self.heat, specialise(self.heat.dtype, "heat_lanes").Share
        arrived = wp.zeros(1, dtype=wp.int32, device="cpu")
        if heat.worlds >= cores:
            bounds = np.linspace(0, heat.worlds, cores + 1).astype(int)
            shares = [(a, b, 0, 1) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        else:
            cores = max(1, min(cores, heat.worlds * len(heat.mesh.elements) // LEAST_ELEMENTS))
            shares = [(0, heat.worlds, core, cores) for core in range(cores)]
        result = []
        for lane, numbers in enumerate(shares):
            mine = share()
            mine.first_world, mine.end_world, mine.core, mine.cores = (int(x) for x in numbers)
            mine.lane, mine.arrived = lane, arrived
            result.append(mine)
        return result

    def _on_cores(self, kernel, inputs_of) -> None:
        """The kernel on every core at once; inputs_of(share) are its inputs."""
        commands = [launch(kernel, 1, inputs_of(share), "cpu", record_cmd=True) for share in self.shares]
        self.shares[0].arrived.zero_()
        # Threads of their own, not of a pool: a pool's may be gone after a fork, and the others would wait for ever.
        others = [threading.Thread(target=command.launch) for command in commands[1:]]
        for other in others:
            other.start()
        commands[0].launch()
        for other in others:
            other.join()

    def forward(self, law, trace, start: wp.array, rows: wp.array, keep_every: int) -> None:
        """Fills ``rows`` from 1 on."""
        heat = self.heat
        wp.copy(self.now, start)
        if self.on_cpu:
            kernel = specialise(heat.dtype, "heat_lanes").roll
            after = [trace.beams, trace.live, heat.dt, keep_every, self.nodal, self.slots, self.now, rows]
            self._on_cores(kernel, lambda share: [heat._part, law.struct, share, *after])
            return
        module = specialise(heat.dtype, "heat_phases")
        shape, count = (heat.worlds, heat.n), (heat.worlds, len(heat.mesh.elements))
        wp.launch(module.start, dim=shape, inputs=[law.struct, self.now, self.nodal], device=heat.device)
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
        if self.on_cpu:
            kernel = specialise(heat.dtype, "heat_lanes").roll_back
            after = [trace.live, heat.dt, rows, rows_bar, every_row, wants_params, self.nodal, self.slots, carry]
            self._on_cores(
                kernel,
                lambda share: [heat._part, law.struct, law_bar, share, trace.beams, beams_bar[share.lane], *after],
            )
            return
        module = specialise(heat.dtype, "heat_phases")
        shape, count = (heat.worlds, heat.n), (heat.worlds, len(heat.mesh.elements))
        inputs = [heat._part, law.struct, trace.live, trace.steps, heat.dt, rows, self.nodal, carry]
        wp.launch(module.start_back, dim=shape, inputs=inputs, device=heat.device)
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
        return wp.launch(kernel, dim=dim, inputs=inputs, device=self.heat.device, record_cmd=True)
