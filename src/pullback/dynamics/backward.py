"""The backward pass of robots through a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import warp as wp

from pullback.core.arrays import as_reals, empty, from_device, to_numpy, zeros
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.errors import PullbackError
from pullback.core.launch import launch
from pullback.core.status import Status
from pullback.core.system import RobotState
from pullback.dynamics.health import check_health, set_status
from pullback.dynamics.params import Cotangents, KernelParams
from pullback.kernels import specialise
from pullback.model.tangent import coordinates_of_tangent, tangent_of_coordinates

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated


class FusedBackward:
    """Pulls back through a trajectory piece by piece, last piece first, with one launch per piece.

    The cotangent is carried between pieces in the tangent space, so that the result is the same to the last bit for any
    division into pieces.
    """

    def __init__(
        self,
        system: Articulated,
        controls,
        final: RobotState,
        final_bar: RobotState,
        hold: int,
        params: KernelParams,
        inputs: Mapping | None,
        status: Status | None,
        wants_params: bool,
    ):
        self.system, self.hold, self.params = system, hold, params
        self.controls = self._take_controls(controls)
        self.controls_bar = zeros(self.controls.shape, system.dtype, system.device)
        self.applied = system._take_inputs(inputs)
        self.inputs_bar = {name: zeros(x.shape, system.dtype, system.device) for name, x in (inputs or {}).items()}
        self.applied_bar = system._take_inputs(self.inputs_bar)
        self.params_bar = Cotangents(params, wanted=wants_params)
        self.kernels = specialise(system._adjoint_flavour, "step_adjoint")
        sizes = system._sizes
        if not isinstance(final_bar, tuple) or len(final_bar) != len(sizes):
            named = ", ".join(f"{name}_bar" for name in sizes)
            what = f"the cotangent of a state is a pullback.{system.state_type.__name__}({named})"
            raise PullbackError(f"{what}; each may be None")
        final_q = self.system._own(final[0])
        carry_q = empty((system.worlds, system.nv), system.dtype, system.device)
        q_bar, *others = (self._bar(x, n, s) for x, (s, n) in zip(final_bar, sizes.items(), strict=True))
        system._launch_worlds(self.kernels.to_tangent, system._tree, final_q, q_bar, carry_q)
        self.carry = [carry_q, *map(wp.clone, others)]  # [tangent of q, v, activations if there are any]
        self.mask = status is not None
        # Failed worlds, which the backward pass skips, and later those whose cotangents fail.
        self.codes = system._healthy() if status is None else self._copied(status.codes)
        self.first = None  # the first step of the last piece that was pulled back through
        self.first_bar = None  # the cotangent given for the stored q of that step, if every state has one

    def _take_controls(self, controls) -> wp.array:
        return self.system._take_controls(controls)

    def _copied(self, codes) -> wp.array:
        """A copy of another status' codes, on the device."""
        if self.system._is_here(codes):
            return wp.clone(codes)
        return wp.array(to_numpy(codes), dtype=int, device=self.system.device)

    def _bar(self, x, size: int, name: str) -> wp.array:
        system = self.system
        if x is None:
            return zeros((system.worlds, size), system.dtype, system.device)
        return system._take(x, (system.worlds, size), f"{name}_bar", ("worlds", f"n{name}"))

    def through(self, states: RobotState, first: int, end: int, states_bar: RobotState | None = None) -> None:
        """Pulls back from step ``end`` to ``first``. Row r of states, and of states_bar, is the state at first + r."""
        system = self.system
        own = [system._own(x) for x in states]
        self.first, self.first_bar = first, None if states_bar is None else system._own(states_bar[0][0])
        own_bars = own if states_bar is None else [system._own(x) for x in states_bar]
        carry = self.carry if system.na else [*self.carry, system._no_act[2]]
        flags = (int(states_bar is not None), int(self.mask), int(self.params_bar.wanted))
        system._launch(
            self.kernels.rollout_adjoint,
            (system._tree, system._shapes, self.params.struct, self.params_bar.struct),
            (self.controls, self.controls_bar, self.applied, self.applied_bar),
            (first, end, self.hold, *system._kernel_state(own), *system._kernel_state(own_bars), *flags, *carry)
            + (self.codes,),
            with_contacts=True,
        )

    def _not_carried(self, q) -> wp.array:
        """The part of the cotangent given for q (worlds, nq) that is not carried in the tangent space.

        For the initial state that is all of it; for a later state, the part along its quaternions, on which no step
        depends.
        """
        system = self.system
        if self.first_bar is None:
            return zeros((system.worlds, system.nq), system.dtype, system.device)
        if self.first == 0:
            return self.first_bar
        q, bar = to_numpy(q), to_numpy(self.first_bar)
        tangent = tangent_of_coordinates(system.model, q, bar)
        return self.system._own(bar - coordinates_of_tangent(system.model, q, tangent))

    def finish(self, start: RobotState) -> Bars:
        """The cotangents at the first state of the last piece, in stored coordinates."""
        system = self.system
        if system.contact is not None and not self.mask:
            check_health(system, self.codes, self.controls, hold=self.hold)
        q_bar = empty((system.worlds, system.nq), system.dtype, system.device)
        inputs = (system._tree, self.system._own(start[0]), self.carry[0], self._not_carried(start[0]), q_bar)
        system._launch_worlds(self.kernels.to_coordinates, *inputs)
        status = self._clear_failed(q_bar)
        inputs = Named({name: from_device(x) for name, x in self.inputs_bar.items()})
        state_bar = system.state_type(*map(from_device, (q_bar, *self.carry[1:])))
        params = self.params_bar.named()
        bars = Bars(state_bar, from_device(self.controls_bar), params, inputs, status)
        if self.mask and not self.params_bar.wanted:
            return bars  # cotangents that are not finite are zero by now; a check would wait for the device
        return refuse_overflow(bars, system.dtype, self.params.per_world)

    def _clear_failed(self, q_bar: wp.array) -> Status | None:
        """With on_failure="mask", sets the cotangents of failed worlds to zero, and returns the new status."""
        if not self.mask:
            return None
        system = self.system
        self.params_bar.clear_failed(self.kernels.clear_failed, self.codes)
        each = (self.controls_bar, *self.inputs_bar.values())  # [step, world, item]
        for steps, bar in ((1, q_bar), *((1, bar) for bar in self.carry[1:]), *((bar.shape[0], bar) for bar in each)):
            if bar.size:
                inputs = [self.codes, as_reals(bar, steps, system.worlds, system.dtype)]
                launch(self.kernels.clear_failed, system.worlds, inputs, system.device)
        status = Status()
        set_status(system, status, self.codes, self.controls, None, self.hold)
        return status
