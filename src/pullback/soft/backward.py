"""The backward pass of Particles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import from_device, to_device, to_numpy
from pullback.core.backward import KernelBackward
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.status import Status
from pullback.core.trees import leaves, row, tree_map, where
from pullback.soft.moving import Standing

if TYPE_CHECKING:
    from pullback.soft.params import KernelLaw
    from pullback.soft.particles import Particles


# Cotangents of the motion of a shape: rotation, translation, angular and linear velocity.
MOTION = 12


class ParticlesBackward(KernelBackward):
    """The backward pass of ``Particles``."""

    def __init__(
        self,
        soft: Particles,
        controls,
        final,
        final_bar,
        hold: int,
        law: KernelLaw,
        inputs: Mapping | None,
        status: Status | None,
        wants_params: bool,
    ):
        super().__init__(soft, law, hold, status, wants_params)
        self.controls = soft._take_controls(controls, hold)
        self.controls_bar = np.zeros(self.controls.shape)
        self.moving = Standing(soft, inputs, hold)
        steps = self.controls.shape[0] if self.moving.moves else 0
        self.motion_bar = np.zeros((steps, soft.worlds, len(soft.shapes), MOTION))
        taken = soft._take_state(final_bar, "_bar")
        if not np.all(self.running):
            here = tree_map(to_numpy, taken)
            taken = where(self.running, here, tree_map(np.zeros_like, here))
        self.carry = soft._stepper.rows(1, taken)
        lanes, kinds = soft._stepper.lanes * soft.worlds, soft._stepper.structs.LawBar.vars
        self.law_bar = soft._stepper.structs.LawBar()
        for name in law.FIELDS:
            items = getattr(law.struct, name).shape[1]
            setattr(self.law_bar, name, wp.zeros((lanes, items), kinds[name].type.dtype, device=soft.device))

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """Pulls back from step ``end`` to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The rows must include the state at ``end``.
        """
        if first == end:
            return
        soft, stepper = self.system, self.system._stepper
        bars = stepper.structs.Bars()
        bars.rows, bars.carry = stepper.state(stepper.taken(states)), stepper.state(self.carry)
        bars.rows_bar = bars.rows if states_bar is None else stepper.state(stepper.taken(states_bar))
        bars.every_row, bars.wants_params = int(states_bar is not None), int(self.wants_params)
        bars.controls = to_device(to_numpy(self.controls)[first:end], soft.dtype, soft.device)
        shape = (end - first, stepper.control_lanes * soft.worlds, self.controls.shape[2])
        bars.controls_bar = wp.zeros(shape, dtype=wp.float64, device=soft.device)
        bars.law = self.law_bar
        bars.shapes = self.moving.struct(first, end)
        kind, steps = stepper.structs.Bars.vars["motion_bar"].type.dtype, end - first if self.moving.moves else 0
        shape = (steps, stepper.lanes * soft.worlds, len(soft.shapes))
        bars.motion_bar = wp.zeros(shape, dtype=kind, device=soft.device)
        bars.running = wp.array(self.running.astype(np.int32), dtype=wp.int32, device=soft.device)
        stepper.backward(self.law, bars, end - first)
        self.controls_bar[first:end] = self._over_lanes(bars.controls_bar.numpy(), axis=1)
        if self.moving.moves:
            self.motion_bar[first:end] = self._over_lanes(bars.motion_bar.numpy(), axis=1)

    def _over_lanes(self, array: np.ndarray, axis: int) -> np.ndarray:
        """The sum over lanes of an axis (lanes · worlds)."""
        shape = array.shape
        return array.reshape(*shape[:axis], -1, self.system.worlds, *shape[axis + 1 :]).sum(axis=axis)

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        soft, law, stepper = self.system, self.law, self.system._stepper
        sums = {name: self._over_lanes(getattr(self.law_bar, name).numpy(), axis=0) for name in law.FIELDS}
        controls_bar = self.controls_bar[..., : soft.nu].astype(soft.dtype)
        state_bar, status = stepper.numbers(row(self.carry, 0)), None
        if self.is_masked:
            here = tree_map(lambda x: np.array(to_numpy(x)), state_bar)
            others = [x.reshape(1, soft.worlds, -1) for x in (*leaves(here), *sums.values())]
            others.append(self.motion_bar.reshape(*self.motion_bar.shape[:2], len(soft.shapes) * MOTION))
            status = self._clear_failed(controls_bar, others)
            state_bar = tree_map(lambda x: from_device(to_device(x, soft.dtype, soft.device)), here)
        params = law.user_bars(sums) if self.wants_params else Named()
        controls_bar = from_device(to_device(self._summed(controls_bar), soft.dtype, soft.device))
        inputs = self.moving.bars(self.motion_bar) if self.moving.moves else Named()
        bars = Bars(state_bar, controls_bar, params, inputs, status)
        return refuse_overflow(bars, soft.dtype, law.per_world)
