"""What Systems whose steps are kernels have in common: arrays on a device, parameters as kernels read them, copies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, checked, full_shape, to_device, to_numbers, to_numpy
from pullback.core.bars import Bars
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.named_system import NamedSystem
from pullback.core.params import FieldValues
from pullback.core.system import check_inputs
from pullback.core.trees import row


class KernelSystem(NamedSystem):
    """A System whose steps are kernels, in one precision on one device.

    A derived class says how kernels read its parameters, ``_kernel_params_of``, and with what it is made again,
    ``_settings``.
    """

    @abstractmethod
    def _kernel_params_of(self, values: Mapping, like: Any = None) -> FieldValues:
        """Values of all parameters as kernels read them."""

    def _held_of(self, values, like=None):
        return self._kernel_params_of(values, like)

    def _is_here(self, value) -> bool:
        """Whether value lies on this System's GPU, from where it is not brought back just to be looked at."""
        return isinstance(value, wp.array) and str(value.device) == self.device != "cpu"

    def _on_device(self, value: wp.array, shape: tuple[int, ...], name: str) -> wp.array:
        """A Warp array on CUDA is taken as it is; what is not finite in it shows after the first step."""
        dtype = getattr(value.dtype, "_wp_scalar_type_", value.dtype)
        if full_shape(value) != shape or dtype is not PRECISIONS[self.dtype]:
            raise PullbackError(
                f"{name} has shape {full_shape(value)} and dtype {dtype}, but {shape} {self.dtype} is needed"
            )
        return value

    def _take(self, value, shape: tuple[int, ...], name: str, axes: tuple[str, ...]) -> wp.array:
        """What a caller gave, on the device; checked, unless it is there already."""
        if self._is_here(value):
            return self._on_device(value, shape, name)
        return to_device(checked(value, shape, self.dtype, name, axes), self.dtype, self.device)

    def _own(self, x) -> wp.array:
        """An array of this System's precision on its device, unchecked."""
        if isinstance(x, wp.array) and x.dtype is PRECISIONS[self.dtype] and str(x.device) == self.device:
            return x
        x = np.ascontiguousarray(to_numpy(x), dtype=self.dtype)
        # Flattened in between, which gives an axis of length one the stride that Warp expects of it.
        return to_device(x.reshape(-1).reshape(x.shape), self.dtype, self.device)

    def _one_control(self, control):
        """The control of a step as the controls of a rollout, (1, worlds, nu); the usual one if None."""
        if control is None:
            return self.default_controls(1)
        if self._is_here(control):
            return control.reshape((1, *control.shape))
        return checked(control, (self.worlds, self.nu), self.dtype, "control", ("worlds", "nu"))[None]

    def _one_input(self, inputs: Mapping | None) -> dict | None:
        """The inputs of a step as those of a rollout, (1, worlds, ...)."""
        if inputs is None:
            return None
        check_kind(inputs, Mapping, "inputs", '{"force": array}')
        return check_inputs(self, {name: to_numbers(x, name)[None] for name, x in inputs.items()}, 1)

    def step(self, state, control=None, params: Any = None, *, inputs: Mapping | None = None):
        """The state one timestep on. control: (worlds, nu), the usual one if None; inputs: (worlds, ...) by name."""
        taken = self._one_input(inputs)
        given: dict[str, Any] = {"inputs": taken} if taken else {}
        return row(self.steps(state, self._one_control(control), params=params, **given), 1)

    def pullback(
        self,
        state,
        control,
        next_bar,
        params: Any = None,
        *,
        inputs: Mapping | None = None,
        wants_params: bool = True,
    ) -> Bars:
        """Cotangents of state, control, parameters and inputs from that of the next state."""
        controls = self._one_control(control)
        taken = self._one_input(inputs)
        given: dict[str, Any] = {"inputs": taken} if taken else {}
        states = self.steps(state, controls, params=params, **given)
        options = {"params": params, "wants_params": wants_params, **given}
        backward = self.backward(controls, row(states, 1), next_bar, **options)
        backward.through(states, 0, 1)
        bars = backward.finish(state)
        return Bars(bars.state, bars.control[0], bars.params, {name: x[0] for name, x in bars.inputs.items()})

    def _refuse_failure(self, codes: np.ndarray, reasons: Mapping[int, str], rows, kept: np.ndarray) -> None:
        """A SimulationError for the world that failed first, with the states so far: rows, of which ``kept`` are the
        steps.

        codes: (worlds, 2) as a Status has them; reasons: by world
        """
        world = min(reasons, key=lambda world: codes[world, 1])
        step = int(codes[world, 1])
        so_far = row(rows, slice(int(np.sum(kept <= step))))
        raise SimulationError(reasons[world], world=world, step=step, states=so_far)
