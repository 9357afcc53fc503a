"""The backward pass of Particles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import to_device, to_numpy
from pullback.core.backward import KernelBackward
from pullback.core.status import Status
from pullback.core.system import Bars, Named, refuse_overflow
from pullback.core.trees import leaves, tree_map

if TYPE_CHECKING:
    from pullback.soft.moving import Moving
    from pullback.soft.params import KernelLaw
    from pullback.soft.particles import Particles


# Cotangents of how a shape moves: of a turn, a shift, angular and linear velocity.
MOTION = 12


class ParticlesBackward(KernelBackward):
    """The backward pass of ``Particles``."""

    def __init__(
        self,
        soft: Particles,
        controls,
        moving: Moving,
        final_bar,
        hold: int,
        law: KernelLaw,
        status: Status | None,
        wants_params: bool,
    ):
        super().__init__(soft, law, hold, status, wants_params)
        self.controls = soft._take_controls(controls, hold)
        self.controls_bar = np.zeros(self.controls.shape)
        self.moving = moving
        steps = self.controls.shape[0] if moving.moves else 0
        self.motion_bar = np.zeros((steps, soft.worlds, len(soft.shapes), MOTION))
        self.carry = tree_map(lambda x: x[None].copy(), soft._take_state(final_bar, "_bar"))
        for x in self.carry:
            x[:, ~self.running] = 0.0
        lanes, kinds = soft._stepper.lanes * soft.worlds, soft._stepper.structs.LawBar.vars
        self.law_bar = soft._stepper.structs.LawBar()
        for name in law.FIELDS:
            items = getattr(law.struct, name).shape[1]
            setattr(self.law_bar, name, wp.zeros((lanes, items), dtype=kinds[name].type.dtype))

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """From step ``end`` back to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The state at ``end`` must be among them.
        """
        if first == end:
            return
        soft, stepper = self.system, self.system._stepper
        rows = tree_map(self._contiguous, states)
        bars = stepper.structs.Bars()
        bars.rows, bars.carry = stepper.state(rows), stepper.state(self.carry)
        own_bar = rows if states_bar is None else tree_map(self._contiguous, states_bar)
        bars.rows_bar = stepper.state(own_bar)
        bars.every_row, bars.wants_params = int(states_bar is not None), int(self.wants_params)
        bars.controls = to_device(to_numpy(self.controls)[first:end], soft.dtype, soft.device)
        lanes = stepper.lanes * soft.worlds
        bars.controls_bar = wp.zeros((end - first, lanes, self.controls.shape[2]), dtype=wp.float64)
        bars.law = self.law_bar
        bars.shapes, shapes = self.moving.struct(first, end), len(soft.shapes)
        kind = stepper.structs.Bars.vars["motion_bar"].type.dtype
        bars.motion_bar = wp.zeros((end - first if self.moving.moves else 0, lanes, shapes), dtype=kind)
        bars.running = wp.array(self.running.astype(np.int32), dtype=wp.int32)
        stepper.backward(self.law, bars, end - first)
        self.controls_bar[first:end] = self._over_lanes(bars.controls_bar.numpy(), axis=1)
        if self.moving.moves:
            self.motion_bar[first:end] = self._over_lanes(bars.motion_bar.numpy(), axis=1)

    def _contiguous(self, x) -> np.ndarray:
        return np.ascontiguousarray(to_numpy(x), dtype=self.system.dtype)

    def _over_lanes(self, array: np.ndarray, axis: int) -> np.ndarray:
        """The sum over lanes of an axis (lanes · worlds)."""
        shape = array.shape
        return array.reshape(*shape[:axis], -1, self.system.worlds, *shape[axis + 1 :]).sum(axis=axis)

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        soft, law = self.system, self.law
        sums = {name: self._over_lanes(getattr(self.law_bar, name).numpy(), axis=0) for name in law.FIELDS}
        state_bar = tree_map(lambda x: x[0], self.carry)
        controls_bar = self.controls_bar[..., : soft.nu].astype(soft.dtype)
        others = [x.reshape(1, soft.worlds, -1) for x in (*leaves(state_bar), *sums.values())]
        others.append(self.motion_bar.reshape(*self.motion_bar.shape[:2], len(soft.shapes) * MOTION))
        status = self._clear_failed(controls_bar, others)
        params = law.user_bars(sums) if self.wants_params else Named()
        inputs = self.moving.bars(self.motion_bar) if self.moving.moves else Named()
        bars = Bars(state_bar, self._summed(controls_bar), params, inputs, status)
        return refuse_overflow(bars, soft.dtype, law.per_world)
