"""What Systems whose steps are kernels have in common: arrays on a device, parameters as kernels read them, copies."""

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
    """The steps whose states are kept, of so many: every keep_every-th from the start on, and the end."""
    return np.append(np.arange(0, count, keep_every), count)


def stay(rows: np.ndarray, states: np.ndarray, codes: np.ndarray, kept: np.ndarray) -> None:
    """Sets worlds that failed, in rows that are those of the steps ``kept``, to the last state before they did.

    states: of all steps by their number, or the last of them, step t in row t % len(states)
    """
    for world in map(int, np.flatnonzero(codes[:, 1] >= 0)):
        step = int(codes[world, 1])
        rows[kept > step, world] = states[step % len(states), world]


class KernelSystem(NamedSystem):
    """A System whose steps are kernels, in one precision on one device.

    A derived class says how kernels read its parameters, ``_kernel_params_of``, of what arrays its states are,
    ``_form``, with what it is made again, ``made_with``, and what pulls back, ``backward_type``.
    """

    # Arguments that make this System again, which are attributes of the same names, besides those of every one.
    made_with: ClassVar[tuple[str, ...]] = ()
    # The Backward, made of what ``backward`` is given, with parameters that are held.
    backward_type: ClassVar[Any]
    # Columns of controls that kernels get at least.
    least_controls: ClassVar[int] = 0
    _threads: int | None

    @abstractmethod
    def _kernel_params_of(self, values: Mapping, like: Any = None) -> FieldValues:
        """Values of all parameters as kernels read them."""

    def _held_of(self, values, like=None):
        return self._kernel_params_of(values, like)

    def _settings(self) -> dict[str, Any]:
        names = (*self.made_with, "worlds", "dtype", "device")
        return {name: getattr(self, name) for name in names} | {"threads": self._threads}

    def _form(self, field: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The shape (worlds, ...) of a field of the state, and what its axes are called."""
        raise NotImplementedError

    def _take_state(self, state, name: str = "") -> Any:
        """A state on the device, or with ``name`` a cotangent, of which a part may be left out."""
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
        """Refuses controls (n, worlds, nu) that mean nothing."""

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
        # Where a state has quaternions, only those that this step led to enter.
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
        """A SimulationError for the world that failed first, with the states so far: rows, of which ``kept`` are the
        steps.

        codes: (worlds, 2) as a Status has them; reasons: by world
        """
        world = min(reasons, key=lambda world: codes[world, 1])
        step = int(codes[world, 1])
        so_far = row(rows, slice(int(np.sum(kept <= step))))
        raise SimulationError(reasons[world], world=world, step=step, states=so_far)
