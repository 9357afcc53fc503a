"""The base class of Systems whose steps are kernels: arrays on a device, parameters as kernels read them, copies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, checked, full_shape, to_device, to_numbers, to_numpy, zeros
from pullback.core.bars import Bars, of_one_step
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.named_system import NamedSystem
from pullback.core.params import FieldValues
from pullback.core.status import Status
from pullback.core.system import check_inputs
from pullback.core.trees import row


def kept_steps(count: int, keep_every: int) -> np.ndarray:
    """The steps, of ``count``, whose states are kept: 0, every keep_every-th after it, and the last."""
    return np.append(np.arange(0, count, keep_every), count)


def stay(rows: np.ndarray, states: np.ndarray, codes: np.ndarray, kept: np.ndarray) -> None:
    """Sets failed worlds to their last state before the failure, in ``rows``: the states of the steps ``kept``.

    states: those of all steps by number, or a ring buffer of the last ones, with step t in row t % len(states)
    codes:  (worlds, 2) as a Status has them
    """
    for world in map(int, np.flatnonzero(codes[:, 1] >= 0)):
        step = int(codes[world, 1])
        rows[kept > step, world] = states[step % len(states), world]


class KernelSystem(NamedSystem):
    """A System whose steps are kernels, in one precision on one device.

    A derived class has ``_kernel_params_of`` (its parameters as kernels read them), ``_form`` (the shapes of its
    state), ``made_with`` (its constructor arguments) and ``backward_type`` (its backward pass).
    """

    # Constructor arguments, which are attributes of the same names, besides worlds, dtype, device and threads.
    made_with: ClassVar[tuple[str, ...]] = ()
    # The class of the backward pass. Its arguments are those of ``backward``, with held parameters.
    backward_type: ClassVar[Any]
    # The least number of columns that the kernels' array of controls has.
    least_controls: ClassVar[int] = 0
    _threads: int | None

    @abstractmethod
    def _kernel_params_of(self, values: Mapping, like: Any = None) -> FieldValues:
        """All parameters in the form that kernels read, from their values."""

    def _held_of(self, values, like=None):
        return self._kernel_params_of(values, like)

    def _settings(self) -> dict[str, Any]:
        names = (*self.made_with, "worlds", "dtype", "device")
        return {name: getattr(self, name) for name in names} | {"threads": self._threads}

    def _form(self, field: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The shape (worlds, ...) of a field of the state, and the names of its axes."""
        raise NotImplementedError

    def _take_state(self, state, name: str = "") -> Any:
        """A state on the device. With ``name`` it is a cotangent, and fields that are None become zero."""
        kind: Any = self.state_type
        if not isinstance(state, tuple) or len(state) != len(kind._fields):
            which = ".".join([*kind.__module__.split(".")[1:2], kind.__name__])  # such as soft.ParticleState
            raise PullbackError(f"a state is a {which}({', '.join(kind._fields)}): make one with system.state()")
        fields = []
        for field, value in zip(kind._fields, state, strict=True):
            shape, axes = self._form(field)
            value = np.zeros(shape) if name and value is None else value
            fields.append(self._take(value, shape, field + name, axes))
        return kind(*fields)

    def _take_controls(self, controls, hold: int = 1) -> wp.array:
        """Controls (n · hold, worlds, nu), one per step, on the device."""
        steps = len(controls) if hasattr(controls, "__len__") else 0
        shape, axes = (steps, self.worlds, self.nu), ("step", "worlds", "nu")
        if not self._is_here(controls):
            controls = checked(controls, shape, self.dtype, "controls", axes)
            self._refuse_controls(controls)
        if self.nu < self.least_controls:
            return zeros((steps * hold, self.worlds, self.least_controls), self.dtype, self.device)
        if self._is_here(controls):
            taken = self._on_device(controls, shape, "controls")
            return taken if hold == 1 else self._own(np.repeat(taken.numpy(), hold, axis=0))
        return to_device(np.repeat(controls, hold, axis=0) if hold > 1 else controls, self.dtype, self.device)

    def _refuse_controls(self, controls: np.ndarray) -> None:
        """Raises an error for invalid controls (n, worlds, nu)."""

    def _is_here(self, value) -> bool:
        """Whether value is already on this System's GPU, so that it is not copied to the host only to be checked."""
        return isinstance(value, wp.array) and str(value.device) == self.device != "cpu"

    def _on_device(self, value: wp.array, shape: tuple[int, ...], name: str) -> wp.array:
        """A Warp array on CUDA, used without a copy. A value that is not finite is noticed after the first step."""
        dtype = getattr(value.dtype, "_wp_scalar_type_", value.dtype)
        if full_shape(value) != shape or dtype is not PRECISIONS[self.dtype]:
            raise PullbackError(
                f"{name} has shape {full_shape(value)} and dtype {dtype}, but {shape} {self.dtype} is needed"
            )
        return value

    def _take(self, value, shape: tuple[int, ...], name: str, axes: tuple[str, ...]) -> wp.array:
        """A user's array on the device, checked unless it is there already."""
        if self._is_here(value):
            return self._on_device(value, shape, name)
        return to_device(checked(value, shape, self.dtype, name, axes), self.dtype, self.device)

    def _own(self, x) -> wp.array:
        """An array of this System's precision on its device, unchecked."""
        if isinstance(x, wp.array) and x.dtype is PRECISIONS[self.dtype] and str(x.device) == self.device:
            return x
        x = np.ascontiguousarray(to_numpy(x), dtype=self.dtype)
        # The flat reshape in between gives axes of length one the stride that Warp expects.
        return to_device(x.reshape(-1).reshape(x.shape), self.dtype, self.device)

    def _one_control(self, control):
        """The control of a step as the controls of a rollout, (1, worlds, nu); the default control if None."""
        if control is None:
            return self.default_controls(1)
        if self._is_here(control):
            return control.reshape((1, *control.shape))
        return checked(control, (self.worlds, self.nu), self.dtype, "control", ("worlds", "nu"))[None]

    def _one_input(self, inputs: Mapping | None) -> dict | None:
        """The inputs of a step as those of a rollout, (1, worlds, ...) each."""
        if inputs is None:
            return None
        check_kind(inputs, Mapping, "inputs", '{"force": array}')
        return check_inputs(self, {name: to_numbers(x, name)[None] for name, x in inputs.items()}, 1)

    def step(self, state, control=None, params: Any = None, *, inputs: Mapping | None = None):
        """The state after one timestep. control: (worlds, nu), None: the default; inputs: (worlds, ...) by name."""
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
        """Cotangents of the state, control, parameters and inputs, from the cotangent of the next state."""
        controls = self._one_control(control)
        taken = self._one_input(inputs)
        given: dict[str, Any] = {"inputs": taken} if taken else {}
        states = self.steps(state, controls, params=params, **given)
        options = {"params": params, "wants_params": wants_params, **given}
        # The final state is the one that this step led to: the backward pass reads the quaternions in it.
        backward = self.backward(controls, row(states, 1), next_bar, **options)
        backward.through(states, 0, 1)
        return of_one_step(backward.finish(row(states, 0)))

    def backward(
        self,
        controls,
        final,
        final_bar,
        *,
        hold: int = 1,
        params: Any = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
        wants_params: bool = True,
    ):
        given, held = check_inputs(self, inputs, len(controls)), self.hold_params(params)
        return self.backward_type(self, controls, final, final_bar, hold, held, given, status, wants_params)

    def _refuse_failure(self, codes: np.ndarray, reasons: Mapping[int, str], rows, kept: np.ndarray) -> None:
        """Raises a SimulationError for the world that failed first, with the trajectory so far.

        codes: (worlds, 2) as a Status has them; reasons: by world; rows: the states of the steps ``kept``
        """
        world = min(reasons, key=lambda world: codes[world, 1])
        step = int(codes[world, 1])
        so_far = row(rows, slice(int(np.sum(kept <= step))))
        raise SimulationError(reasons[world], world=world, step=step, states=so_far)
