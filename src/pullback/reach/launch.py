"""Kernels over batches of poses, by the lanes and the crew that Systems have; and the kernel of a fitted map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, empty, from_device, to_device
from pullback.core.launch import Crew, cores_to_use, shares
from pullback.dynamics.launch import Lane
from pullback.kernels import specialise
from pullback.reach.spaces import Space

ROTATIONS = {"none": 0, "angle": 1, "quaternion": 2}
MOST_SLOTS = 1 << 16  # threads at most on CUDA; more poses take turns
# Poses of a map per core, below which one core does all: a thread would cost more than it saves.
MAP_POSES = 128


class Batches:
    """Runs kernels over the poses of a batch: on the CPU one lane per core, on CUDA one lane of many slots.

    workspace:  of so many slots, as a tuple of kernel arguments
    least:      poses per lane, below which one lane does all
    """

    def __init__(self, workspace: Callable[[int], tuple], device: str, *, least: int = 1):
        self.workspace, self.device, self.least = workspace, device, least
        self._crew, self._lanes = Crew(), []

    def run(self, kernel, n: int, before: tuple, after: tuple) -> None:
        """A kernel over n poses: (*before, *workspace, first, end, *after)."""
        if not n:
            return
        with self._crew.lock:
            lanes = self._lanes_for(n)
            commands = []
            for lane, (first, end) in zip(lanes, shares(n, len(lanes)), strict=True):
                inputs = (*before, *lane.workspace, first, end, *after)
                commands.append(lane.launches.record(kernel, lane.slots, inputs, self.device))
            self._crew.launch(commands)

    def _lanes_for(self, n: int) -> list[Lane]:
        """On CUDA the workspace grows with the largest batch, by factors of two."""
        on_cpu = self.device == "cpu"
        slots = 1 if on_cpu else min(1 << (n - 1).bit_length(), MOST_SLOTS)
        if not self._lanes or self._lanes[0].slots < slots:
            count = cores_to_use(None) if on_cpu else 1
            self._lanes = [Lane(0, 0, slots, self.workspace(slots)) for _ in range(count)]
        return self._lanes if n >= self.least * len(self._lanes) else self._lanes[:1]


class Evaluator:
    """One kernel of ``kernels/reach/map.py`` with the arrays of a fitted map, on one device in one precision."""

    def __init__(self, kernel: str, inputs: list, rows: int, space: Space, *, dtype: str, device: str):
        """
        kernel:  SUPPORT_VECTORS or NETWORK
        inputs:  NumPy arrays and numbers, as the kernel takes them after the poses
        rows:    of the workspace it needs
        """
        self.space, self.dtype, self.device, self.rows = space, dtype, device, rows
        kernels = specialise(dtype, "reach.map")
        self.lanes = kernels.WIDE if device == "cpu" else 1
        self.kernel = getattr(kernels, kernel)[self.lanes]
        self.form = kernels.PoseFormat()
        self.form.dimensions, self.form.rotation = space.dimensions, ROTATIONS[space.rotation]
        self.form.features = space.feature_size
        self.inputs = [self._put(x) for x in inputs]
        self.batches = Batches(self._workspace, device, least=MAP_POSES)

    def _put(self, x: np.ndarray | float):
        if not isinstance(x, np.ndarray):
            return PRECISIONS[self.dtype](x)
        if x.dtype.kind == "i":
            return wp.array(np.asarray(x, np.int32), dtype=wp.int32, device=self.device)
        return to_device(np.array(x, self.dtype, order="C"), self.dtype, self.device)

    def _workspace(self, slots: int) -> tuple[wp.array, wp.array]:
        """The same memory as vectors of lanes and as numbers."""
        real = PRECISIONS[self.dtype]
        cells = wp.zeros((self.rows, slots * self.lanes), dtype=real, device=self.device)
        vectors = wp.types.vector(self.lanes, real)
        return wp.array(ptr=cells.ptr, dtype=vectors, shape=(self.rows, slots), device=self.device), cells

    def __call__(self, poses: np.ndarray, *, wants_gradient: bool = True):
        """Value (n,) and gradient (n, tangent size) at checked poses (n, sample size)."""
        n = len(poses)
        value = empty((n,), self.dtype, self.device)
        gradient = empty((n if wants_gradient else 0, self.space.tangent_size), self.dtype, self.device)
        given = to_device(np.ascontiguousarray(poses, self.dtype), self.dtype, self.device)
        self.batches.run(self.kernel, n, (self.form, given, *self.inputs), (value, gradient))
        return from_device(value), from_device(gradient)
