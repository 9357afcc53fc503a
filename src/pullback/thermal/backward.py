"""The backward pass of Heat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import empty, from_device, to_device, to_numpy, zeros
from pullback.core.backward import KernelBackward
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.launch import launch
from pullback.core.status import Status
from pullback.kernels import specialise

if TYPE_CHECKING:
    from pullback.thermal.heat import Heat
    from pullback.thermal.params import KernelLaw


class Trace:
    """The beam and the number of elements that are born, in the steps from ``first`` to ``end`` of the controls."""

    def __init__(self, heat: Heat, law: KernelLaw, controls: wp.array, first: int, end: int, s: wp.array):
        steps, worlds, device = end - first, heat.worlds, heat.device
        self.steps = steps
        self.s = empty((steps + 1, worlds, 2), heat.dtype, device)
        wp.copy(self.s, s, count=2 * worlds)
        kernels = specialise(heat.dtype, "heat.elements")
        self.struct = kernels.Trace()
        self.struct.beams = wp.empty((steps, worlds), dtype=kernels.Beam, device=device)
        self.struct.live = wp.empty((steps + 1, worlds), dtype=wp.int32, device=device)
        self.struct.dt = heat.dt
        inputs = [heat._path, law.struct.scalars, controls, first, heat.dt, self.s, self.struct.beams, self.struct.live]
        launch(specialise(heat.dtype, "heat.path").trace, worlds, inputs, device)


class HeatBackward(KernelBackward):
    """The backward pass of ``Heat``."""

    def __init__(
        self,
        heat: Heat,
        controls,
        final,
        final_bar,
        hold: int,
        law: KernelLaw,
        inputs: None,
        status: Status | None,
        wants_params: bool,
    ):
        super().__init__(heat, law, hold, status, wants_params)
        self.advice = f"use a smaller dt (now {heat.dt:g} s), or look at the power [W] and radius [m] of the laser"
        self.controls = heat._take_controls(controls, hold)
        self.controls_bar = zeros(self.controls.shape, heat.dtype, heat.device)
        self.carry = heat.state_type(*(wp.clone(x) for x in heat._take_state(final_bar, "_bar")))
        self.law_bar = law.zero_bars(heat._stepper.lanes)
        self.path_bar = wp.zeros((heat.worlds, law.scalars.shape[1]), dtype=wp.float64, device=heat.device)

    def through(self, states, first: int, end: int, states_bar=None) -> None:
        """From step ``end`` back to ``first``. Row r of states, and of states_bar, is the state at first + r.

        The state at ``end`` must be among them.
        """
        heat, law = self.system, self.law
        T, s = (heat._own(x) for x in states)
        T_bar, s_bar = (T, s) if states_bar is None else (heat._own(x) for x in states_bar)
        trace = Trace(heat, law, self.controls, first, end, s[0])
        kernels = specialise(heat.dtype, "heat.elements")
        bars = kernels.Bars()
        bars.rows, bars.rows_bar, bars.carry, bars.law = T, T_bar, self.carry.T, self.law_bar
        bars.every_row, bars.wants_params = int(states_bar is not None), int(self.wants_params)
        shape = (heat._stepper.beam_lanes, end - first, heat.worlds)
        bars.beams = wp.zeros(shape, dtype=kernels.Beam, device=heat.device)
        bars.status = wp.array(self.codes, dtype=wp.int32, device=heat.device)
        heat._stepper.backward(law, trace, bars)
        inputs = [heat._path, law.struct.scalars, self.controls, first, heat.dt, s, bars.beams, s_bar, bars.every_row]
        inputs += [self.carry.s, self.controls_bar, self.path_bar]
        launch(specialise(heat.dtype, "heat.path").trace_adjoint, heat.worlds, inputs, heat.device)
        self._note(bars.status.numpy(), first)

    def finish(self, start) -> Bars:
        """The cotangents at the start of the trajectory."""
        heat, law, bar = self.system, self.law, self.law_bar
        arrays = [self.controls_bar, *self.carry, self.path_bar, bar.capacity, bar.conductivity, bar.scalars]
        status = None
        if self.is_masked:
            controls_bar, *others = found = [x.numpy() for x in arrays]
            status = self._clear_failed(controls_bar, [x.reshape(-1, heat.worlds, x[0].size) for x in others])
            if heat.device != "cpu" and not np.all(self.running):
                for array, x in zip(arrays, found, strict=True):
                    array.assign(x)
        params = law.user_bars(bar, self.path_bar) if self.wants_params else Named()
        state_bar = heat.state_type(*(from_device(x) for x in self.carry))
        controls_bar = from_device(self.controls_bar)
        if self.hold > 1:
            controls_bar = from_device(to_device(self._summed(to_numpy(controls_bar)), heat.dtype, heat.device))
        return refuse_overflow(Bars(state_bar, controls_bar, params, status=status), heat.dtype, law.per_world)
