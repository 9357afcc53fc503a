"""The backward pass of Elastic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import as_items, from_device, zeros
from pullback.core.backward import KernelBackward
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.status import Status
from pullback.core.trees import tree_map
from pullback.soft.carried import Carried

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic
    from pullback.soft.elastic_params import KernelLaw


# Cotangents of a shape's motion in a step: rotation and translation at its beginning, and those at its end.
MOTION = 12


class ElasticBackward(KernelBackward):
    """The backward pass of ``Elastic``. The solve of each step starts from an extrapolation of later solutions."""

    def __init__(
        self,
        elastic: Elastic,
        controls,
        final,
        final_bar,
        hold: int,
        law: KernelLaw,
        inputs: Mapping | None,
        status: Status | None,
        wants_params: bool,
    ):
        super().__init__(elastic, law, hold, status, wants_params)
        self.advice = f"the state there may be one that buckles either way; use a smaller dt (now {elastic.dt:g} s)"
        self.controls_bar = zeros(elastic._take_controls(controls, hold).shape, elastic.dtype, elastic.device)
        self.carry = tree_map(lambda x: wp.clone(x).reshape((1, *x.shape)), elastic._take_state(final_bar, "_bar"))
        self.moving = Carried(elastic, inputs, hold)
        steps = self.controls_bar.shape[0] if self.moving.moves else 0
        self.motion_bar = np.zeros((steps, elastic.worlds, len(elastic.shapes), MOTION))
        self.law_bar = law.zero_bars()
        kind = self._kind("last")
        shape = (elastic.worlds, elastic.n)
        self.guesses = [wp.zeros(shape, dtype=kind, device=elastic.device) for _ in range(2)]

    def _kind(self, name: str):
        """The Warp type of the items of a field of the kernels' Bars."""
        return self.system._stepper.structs.Bars.vars[name].type.dtype

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """Pulls back from step ``end`` to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The rows must include the state at ``end``.
        """
        if first == end:
            return
        elastic = self.system
        bars = elastic._stepper.structs.Bars()
        rows = [elastic._own(x) for x in states]
        rows_bar = rows if states_bar is None else [elastic._own(x) for x in states_bar]
        (bars.rows_x, bars.rows_v), (bars.rows_x_bar, bars.rows_v_bar) = rows[:2], rows_bar[:2]
        bars.carry_x, bars.carry_v = self.carry[:2]
        if elastic.shapes:
            kind = self._kind("carry_impulse")
            bars.carry_impulse, bars.rows_impulse_bar = (
                as_items(self.carry[2][0], kind, 2),
                as_items(rows_bar[2], kind, 3),
            )
        bars.path = self.moving.struct(first, end)
        moved = (end - first if self.moving.moves else 0, elastic.worlds, len(elastic.shapes))
        bars.motion_bar = wp.zeros(moved, dtype=self._kind("motion_bar"), device=elastic.device)
        bars.last, bars.before_last = self.guesses
        bars.every_row, bars.wants_params = int(states_bar is not None), int(self.wants_params)
        bars.controls_bar = zeros((end - first, *self.controls_bar.shape[1:]), elastic.dtype, elastic.device)
        bars.law = self.law_bar
        bars.status = wp.array(self.codes, dtype=wp.int32, device=elastic.device)
        elastic._stepper.backward(self.law, bars, end - first)
        wp.copy(self.controls_bar[first:end], bars.controls_bar)
        if self.moving.moves:
            self.motion_bar[first:end] = bars.motion_bar.numpy()
        self._note(bars.status.numpy(), first)

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        elastic, law = self.system, self.law
        bars = [*self.carry, *(getattr(self.law_bar, name) for name in law.FIELDS)]
        controls_bar = self.controls_bar.numpy()
        others = [x.numpy().reshape(1, elastic.worlds, -1) for x in bars]
        others.append(self.motion_bar.reshape(*self.motion_bar.shape[:2], len(elastic.shapes) * MOTION))
        status = self._clear_failed(controls_bar, others)
        params = law.user_bars(self.law_bar) if self.wants_params else Named()
        state_bar = elastic.state_type(*(from_device(x.reshape(x.shape[1:])) for x in self.carry))
        inputs = self.moving.bars(self.motion_bar) if self.moving.moves else Named()
        bars = Bars(state_bar, self._summed(controls_bar[..., : elastic.nu]), params, inputs, status)
        return refuse_overflow(bars, elastic.dtype, law.per_world)
