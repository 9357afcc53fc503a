"""Single control steps on the CPU, forward and backward, in arrays that are made once.

A policy in the loop needs one step at a time, and then making the arrays around a kernel costs as much as the kernel:
10 to 20 µs per array. Here arrays are made once, and launches are recorded once; a step copies its data in and out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from pullback.core.arrays import checked, to_device
from pullback.core.bars import Bars, Named, refuse_overflow
from pullback.core.launch import Crew
from pullback.core.system import RobotState
from pullback.kernels import specialise
from pullback.kernels.status import HEALTHY

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated
    from pullback.dynamics.params import KernelParams


def is_single(system: Articulated, controls, inputs: Mapping | None) -> bool:
    """Whether this is a single control step on the CPU without inputs."""
    return system.device == "cpu" and len(controls) == 1 and not inputs


class SingleSteps:
    """The arrays of one control step of all worlds: for NumPy in ``self.arrays``, for kernels in ``self.views``.

    hold:  timesteps per control step

    If a world fails there is no result: the System then repeats the step in the general way, to find the reason.
    """

    def __init__(self, system: Articulated, hold: int):
        self.hold = hold
        worlds, nq, nv, nu = system.worlds, system.nq, system.nv, system.nu
        self.fields = tuple(system._sizes)
        shapes = {name: (hold + 1, worlds, size) for name, size in system._sizes.items()}
        shapes |= dict.fromkeys(("controls", "controls_bar"), (1, worlds, nu))
        shapes |= dict.fromkeys(("final_q", "final_q_bar", "q_bar", "own_bar"), (worlds, nq))  # own_bar stays zero
        shapes |= {"carry_q": (worlds, nv)}
        shapes |= {f"carry_{name}": (worlds, system._sizes[name]) for name in self.fields[1:]}
        self.arrays = {name: np.zeros(shape, system.dtype) for name, shape in shapes.items()}
        self.views = {name: to_device(x, system.dtype, "cpu") for name, x in self.arrays.items()}
        # The state before the step, for kernels that take a single state.
        self.views["start_q"] = to_device(self.arrays["q"][0], system.dtype, "cpu")
        self.codes = np.zeros((worlds, 2), np.int32)
        self.views["codes"] = wp.array(self.codes, dtype=wp.int32, device="cpu", copy=False)
        self.crew = Crew()  # used for its lock, which is renewed after a fork

    def step(self, system: Articulated, start: RobotState, controls, params: KernelParams) -> Any:
        """States (hold + 1, worlds, ...) from before to after the control step; None if a world failed."""
        arrays, views = self.arrays, self.views
        with self.crew.lock:
            for name, x in zip(self.fields, start, strict=True):
                arrays[name][0] = x
            arrays["controls"][:] = controls
            self.codes[:] = HEALTHY
            system._launch(
                specialise(system._flavour, "step").rollout,
                (system._tree, system._shapes, params.struct),
                (views["controls"], system._nothing_applied),
                (0, self.hold, self.hold, 1, *self.states(system), views["codes"]),
                with_contacts=True,
            )
            if (self.codes[:, 0] != HEALTHY).any():
                return None
            return system.state_type(*(arrays[name].copy() for name in self.fields))

    def states(self, system: Articulated) -> tuple:
        """The arrays of states, as kernels take them."""
        return system._kernel_state([self.views[name] for name in self.fields])

    def healthy(self) -> np.ndarray:
        """The codes (worlds, 2) of a step in which no world failed."""
        return np.full_like(self.codes, HEALTHY)

    def pullback(
        self,
        system: Articulated,
        states: RobotState,
        controls,
        final: RobotState,
        final_bar: RobotState,
        params: KernelParams,
    ) -> Bars | None:
        """Cotangents of the first state, and of the controls (1, worlds, nu); None if a world failed.

        states: (hold, worlds, ...) before each timestep
        """
        arrays, views = self.arrays, self.views
        fields = zip(final_bar, system._sizes.items(), strict=True)
        bars = [checked(x, (system.worlds, n), system.dtype, f"{s}_bar", ("worlds", f"n{s}")) for x, (s, n) in fields]
        kernels = specialise(system._adjoint_flavour, "step_adjoint")
        nothing, none = system._nothing_applied, params.no_bars
        carry = [views[f"carry_{name}"] for name in self.fields] + ([] if system.na else [system._no_act[2]])
        with self.crew.lock:
            for name, before, after in zip(self.fields, states, final, strict=True):
                arrays[name][:-1], arrays[name][-1] = before, after
            for name, bar in zip(self.fields[1:], bars[1:], strict=True):
                arrays[f"carry_{name}"][:] = bar
            arrays["controls"][:], arrays["final_q"][:], arrays["final_q_bar"][:] = controls, final.q, bars[0]
            arrays["controls_bar"][:], self.codes[:] = 0.0, HEALTHY
            to_tangent = (views["final_q"], views["final_q_bar"], views["carry_q"])
            system._launch_worlds(kernels.to_tangent, system._tree, *to_tangent)
            system._launch(
                kernels.rollout_adjoint,
                (system._tree, system._shapes, params.struct, none),
                (views["controls"], views["controls_bar"], nothing, nothing),
                (0, self.hold, self.hold, *self.states(system), *self.states(system), 0, 0, 0, *carry, views["codes"]),
                with_contacts=True,
            )
            if (self.codes[:, 0] != HEALTHY).any():
                return None
            to_coordinates = (views["start_q"], views["carry_q"], views["own_bar"], views["q_bar"])
            system._launch_worlds(kernels.to_coordinates, system._tree, *to_coordinates)
            others = (arrays[f"carry_{name}"].copy() for name in self.fields[1:])
            state_bar = system.state_type(arrays["q_bar"].copy(), *others)
            bars = Bars(state_bar, arrays["controls_bar"].copy(), Named())
        return refuse_overflow(bars, system.dtype, params.per_world)
