"""How the steps of a Heat System are launched.

On the CPU one launch does many steps, and each core has worlds of its own, or a share of every world. On CUDA a block
of threads does many implicit steps of a world; an explicit step is two launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import empty
from pullback.core.launch import BLOCK, Crew, launch, shares
from pullback.kernels import specialise
from pullback.kernels.status import HEALTHY

if TYPE_CHECKING:
    from pullback.thermal.heat import Heat

THREADS = 256  # per block on CUDA
# A core that has fewer elements than this waits for the others longer than it works.
LEAST_ELEMENTS = 400
# How much a launch does, some tenths of a second: an interrupt is handled between launches. An implicit step takes
# some tens of passes over the elements.
ELEMENT_STEPS = {"explicit": 5_000_000, "implicit": 200_000}
KERNELS = {"explicit": "heat.lanes", "implicit": "heat.implicit"}
# Threads that have sums of their own on CUDA, in all worlds together: few enough that these are no burden.
MOST_LANES = 16384


def stepper_of(heat: Heat, cores: int) -> Stepper:
    """What launches the steps of a System on so many cores of the CPU, or on its GPU."""
    return Phases(heat) if heat.device != "cpu" and heat.method == "explicit" else Stepper(heat, cores)


class Stepper:
    """Many steps per launch. ``lanes`` and ``beam_lanes``: how many sums of cotangents there are to add up."""

    def __init__(self, heat: Heat, cores: int):
        self.heat, self.crew = heat, Crew()
        self.module = specialise(heat.dtype, KERNELS[heat.method])
        self.work = self._workspace(self.module.Work)
        self.gate = wp.zeros(1, dtype=wp.int32, device=heat.device)
        if heat.device == "cpu":
            self.shares = self._shares(cores)
            self.lanes = self.beam_lanes = len(self.shares)
        else:
            self.shares = [self._share(0, heat.worlds, 0, THREADS, 0, THREADS)]
            self.lanes, self.beam_lanes = THREADS, 1
        places = self.lanes if heat.device == "cpu" else THREADS * heat.worlds
        sums = wp.zeros((2, places), dtype=wp.float64, device=heat.device)
        for share in self.shares:
            share.sums = sums

    def _workspace(self, kind):
        """What kernels work in, and ``now``: the state of step t is now[t % 2]."""
        heat, work = self.heat, kind()
        self.now = empty((2, heat.worlds, heat.n), heat.dtype, heat.device)
        for name in kind.vars:
            size = 8 * len(heat.mesh.elements) if name == "slots" else heat.n
            setattr(work, name, empty((heat.worlds, size), heat.dtype, heat.device))
        return work

    def _shares(self, cores: int) -> list:
        """Worlds for each core, or a share of every world if there are fewer worlds than cores."""
        worlds = self.heat.worlds
        if worlds >= cores:
            return [self._share(*ends, 0, 1, core, 1) for core, ends in enumerate(shares(worlds, cores))]
        cores = max(1, min(cores, worlds * len(self.heat.mesh.elements) // LEAST_ELEMENTS))
        return [self._share(0, worlds, core, cores, core, 1) for core in range(cores)]

    def _share(self, *numbers: int):
        share = specialise(self.heat.dtype, "cores").Share()
        names = ("first_world", "end_world", "core", "cores", "lane", "threads")
        for name, number in zip(names, numbers, strict=True):
            setattr(share, name, int(number))
        share.gate = self.gate
        return share

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """First and end of the steps of each launch."""
        heat = self.heat
        at_once = max(1, ELEMENT_STEPS[heat.method] // (heat.worlds * len(heat.mesh.elements)))
        return [(first, min(first + at_once, steps)) for first in range(0, steps, at_once)]

    def forward(self, law, trace, start: wp.array, rows: wp.array, keep_every: int):
        """Fills ``rows`` from 1 on. Returns what became of each world, (worlds, 2) numbers of ``kernels.status`` and
        steps, and if one failed also ``now``, which has the states before and after that step."""
        heat = self.heat
        states = specialise(heat.dtype, "heat.elements").States()
        states.now, states.rows, states.keep_every = self.now, rows, keep_every
        states.status = wp.full((heat.worlds, 2), HEALTHY, dtype=wp.int32, device=heat.device)
        with self.crew.lock:
            wp.copy(self.now, start, count=start.size)
            self._forward(law.struct, trace, states)
            codes = states.status.numpy()
            return codes, self.now.numpy().copy() if np.any(codes[:, 1] >= 0) else None

    def _forward(self, law, trace, states) -> None:
        for first, end in self.launches(trace.steps):
            self._launch(self.module.roll, law, trace, states, first, end)

    def backward(self, law, trace, bars) -> None:
        """``bars``, the kernels' Bars: from the cotangent of the last of their rows to that of the first."""
        with self.crew.lock:
            self._backward(law.struct, trace, bars)

    def _backward(self, law, trace, bars) -> None:
        for first, end in reversed(self.launches(trace.steps)):
            self._launch(self.module.roll_back, law, trace, bars, first, end)

    def _launch(self, kernel, law, trace, *rest) -> None:
        heat = self.heat
        dim, block = (1, BLOCK) if heat.device == "cpu" else (heat.worlds * THREADS, THREADS)
        inputs = ([heat._part, law, share, self.work, trace.struct, *rest] for share in self.shares)
        commands = [launch(kernel, dim, x, heat.device, block_dim=block, record_cmd=True) for x in inputs]
        self.crew.launch(commands, self.gate)


class Phases(Stepper):
    """Explicit steps by two launches each, one thread per element and then one per node."""

    def __init__(self, heat: Heat):
        self.heat, self.crew = heat, Crew()
        self.module = specialise(heat.dtype, "heat.phases")
        self.work = self._workspace(self.module.Work)
        self.lanes, self.beam_lanes = max(1, min(heat.n, MOST_LANES // heat.worlds)), 1
        self.nodes, self.elements = (heat.worlds, heat.n), (heat.worlds, len(heat.mesh.elements))

    def _forward(self, law, trace, states) -> None:
        part, path, module = self.heat._part, trace.struct, self.module
        self._record(module.start, self.nodes, law, self.work, states).launch()
        elements = self._record(module.elements, self.elements, part, self.work, path, 0)
        nodes = self._record(module.nodes, self.nodes, part, law, self.work, path, states, 0)
        for t in range(trace.steps):
            elements.set_param_at_index(3, t)
            elements.launch()
            nodes.set_param_at_index(5, t)
            nodes.launch()

    def _backward(self, law, trace, bars) -> None:
        part, path, module = self.heat._part, trace.struct, self.module
        self._record(module.start_back, self.nodes, part, law, self.work, path, bars, trace.steps).launch()
        elements = self._record(module.elements, self.elements, part, self.work, path, 0)
        lanes = (self.heat.worlds, self.lanes)
        nodes = self._record(module.nodes_back, lanes, part, law, self.work, path, bars, 0, self.lanes)
        for t in reversed(range(trace.steps)):
            elements.set_param_at_index(3, t)
            elements.launch()
            nodes.set_param_at_index(5, t)
            nodes.launch()

    def _record(self, kernel, dim, *inputs) -> wp.Launch:
        return launch(kernel, dim, list(inputs), self.heat.device, block_dim=THREADS, record_cmd=True)
