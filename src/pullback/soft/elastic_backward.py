"""The backward pass of Elastic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import from_device, to_device, to_numpy, zeros
from pullback.core.errors import SimulationError
from pullback.core.status import Status
from pullback.core.system import Bars, Named, refuse_overflow
from pullback.core.trees import tree_map
from pullback.kernels.status import GRADIENT_NOT_FINITE, HEALTHY

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic
    from pullback.soft.elastic_params import KernelLaw


class ElasticBackward:
    """Pulls back through a trajectory piece by piece, last piece first."""

    def __init__(
        self,
        elastic: Elastic,
        controls,
        final_bar,
        hold: int,
        law: KernelLaw,
        status: Status | None,
        wants_params: bool,
    ):
        self.elastic, self.hold, self.law, self.wants_params = elastic, hold, law, wants_params
        self.is_masked = status is not None
        self.codes = np.full((elastic.worlds, 2), HEALTHY) if status is None else np.array(to_numpy(status.codes))
        self.reasons = {} if status is None else status.reasons
        self.controls_bar = zeros(elastic._take_controls(controls, hold).shape, elastic.dtype, elastic.device)
        self.carry = tree_map(lambda x: wp.clone(x).reshape((1, *x.shape)), elastic._take_state(final_bar, "_bar"))
        self.law_bar = law.zero_bars()

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """From step ``end`` back to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The state at ``end`` must be among them.
        """
        if first == end:
            return
        elastic = self.elastic
        bars = elastic._stepper.structs.Bars()
        bars.rows_x, bars.rows_v = rows = [elastic._own(x) for x in states]
        bars.rows_x_bar, bars.rows_v_bar = rows if states_bar is None else [elastic._own(x) for x in states_bar]
        bars.carry_x, bars.carry_v = self.carry
        bars.every_row, bars.wants_params = int(states_bar is not None), int(self.wants_params)
        bars.controls_bar = zeros((end - first, *self.controls_bar.shape[1:]), elastic.dtype, elastic.device)
        bars.law = self.law_bar
        bars.status = wp.array(self.codes, dtype=wp.int32, device=elastic.device)
        elastic._stepper.backward(self.law, bars, end - first)
        wp.copy(self.controls_bar[first:end], bars.controls_bar)
        self._note(bars.status.numpy(), first)

    def _note(self, codes: np.ndarray, first: int) -> None:
        """Which worlds the solver gave up in; their steps are counted from ``first``."""
        for world in map(int, np.flatnonzero((self.codes[:, 1] < 0) & (codes[:, 1] >= 0))):
            step = first + int(codes[world, 1])
            self.codes[world] = codes[world, 0], step
            self.reasons[world] = (
                f"the solver of the gradient did not converge in world {world} at step {step}: the state there may be "
                f"one that buckles either way; use a smaller dt (now {self.elastic.dt:g} s)"
            )
            if not self.is_masked:
                raise SimulationError(self.reasons[world], world=world, step=step)

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        status = self._clear_failed() if self.is_masked else None
        params = self.law.user_bars(self.law_bar) if self.wants_params else Named()
        shape = (self.elastic.worlds, self.elastic.n, 3)
        state_bar = self.elastic.state_type(*(from_device(x.reshape(shape)) for x in self.carry))
        bars = Bars(state_bar, self._summed_controls_bar(), params, status=status)
        return refuse_overflow(bars, self.elastic.dtype, self.law.per_world)

    def _clear_failed(self) -> Status:
        """Sets the cotangents of worlds that failed, or whose gradient is not finite, to zero."""
        worlds = self.elastic.worlds
        arrays = [self.controls_bar, *self.carry, *(getattr(self.law_bar, name) for name in self.law.FIELDS)]
        found = [x.numpy() for x in arrays]
        steps = self.controls_bar.shape[0]
        views = [found[0].reshape(steps, worlds, found[0].shape[-1]), *(x.reshape(1, worlds, -1) for x in found[1:])]
        finite = np.all([np.isfinite(x).all(axis=(0, 2)) for x in views], axis=0)
        for world in map(int, np.flatnonzero(~finite & (self.codes[:, 1] < 0))):
            self.codes[world] = GRADIENT_NOT_FINITE, 0
            self.reasons[world] = f"the gradient of world {world} grew beyond {self.elastic.dtype}"
        failed = self.codes[:, 1] >= 0
        if np.any(failed):
            for array, x, view in zip(arrays, found, views, strict=True):
                view[:, failed] = 0.0
                if self.elastic.device != "cpu":
                    array.assign(x)
        reasons = dict(self.reasons)
        return Status(self.codes.copy(), lambda world, code, step: reasons[world])

    def _summed_controls_bar(self):
        """Cotangents of the controls, each summed over the steps for which it is held."""
        every = self.controls_bar.numpy()[..., : self.elastic.nu]
        summed = every.reshape(len(every) // self.hold, self.hold, *every.shape[1:]).sum(axis=1)
        return from_device(to_device(np.ascontiguousarray(summed), self.elastic.dtype, self.elastic.device))
