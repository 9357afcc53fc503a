"""What maps need to run on a device: arrays, the room that kernels work in, and the launch."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, empty, from_device, to_device
from pullback.core.launch import launch
from pullback.kernels import specialise
from pullback.reach.spaces import Space

ROTATIONS = {"none": 0, "angle": 1, "quaternion": 2}
# Threads at most on CUDA; more poses take turns.
MOST_SLOTS = 1 << 16


class Evaluator:
    """One kernel of ``kernels/reach/map.py`` with the arrays of a fitted map, on one device in one precision."""

    def __init__(self, kernel: str, space: Space, inputs: list, rows: int, *, dtype: str, device: str):
        """
        kernel:  SUPPORT_VECTORS or NETWORK
        inputs:  NumPy arrays and numbers, as the kernel takes them after the poses
        rows:    of the room it needs
        """
        self.space, self.dtype, self.device, self.rows = space, dtype, device, rows
        kernels = specialise(dtype, "reach.map")
        self.lanes = kernels.WIDE if device == "cpu" else 1
        self.kernel = getattr(kernels, kernel)[self.lanes]
        self.layout = kernels.Layout()
        self.layout.dimensions, self.layout.rotation = space.dimensions, ROTATIONS[space.rotation]
        self.layout.features = space.feature_size
        self.inputs = [self._put(x) for x in inputs]
        self.rooms: dict[int, tuple[wp.array, wp.array]] = {}

    def _put(self, x: np.ndarray | float):
        if not isinstance(x, np.ndarray):
            return PRECISIONS[self.dtype](x)
        if x.dtype.kind == "i":
            return wp.array(np.asarray(x, np.int32), dtype=wp.int32, device=self.device)
        return to_device(np.array(x, self.dtype, order="C"), self.dtype, self.device)

    def _room(self, slots: int) -> tuple[wp.array, wp.array]:
        """The same memory as vectors of lanes and as numbers."""
        if slots not in self.rooms:
            real = PRECISIONS[self.dtype]
            cells = wp.zeros((self.rows, slots * self.lanes), dtype=real, device=self.device)
            vectors = wp.types.vector(self.lanes, real)
            room = wp.array(ptr=cells.ptr, dtype=vectors, shape=(self.rows, slots), device=self.device)
            self.rooms = {slots: (room, cells)}  # one at a time, or batches of all sizes would add up
        return self.rooms[slots]

    def __call__(self, poses: np.ndarray, *, wants_gradient: bool = True):
        """Value (n,) and gradient (n, tangent size) at checked poses (n, sample size)."""
        n = len(poses)
        value = empty((n,), self.dtype, self.device)
        gradient = empty((n if wants_gradient else 0, self.space.tangent_size), self.dtype, self.device)
        if n:
            slots = 1 if self.device == "cpu" else min(n, MOST_SLOTS)
            given = to_device(np.ascontiguousarray(poses, self.dtype), self.dtype, self.device)
            inputs = [self.layout, given, *self.inputs, *self._room(slots), value, gradient]
            launch(self.kernel, slots, inputs, self.device)
        return from_device(value), from_device(gradient)
