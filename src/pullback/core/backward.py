"""The base class of backward passes by kernels: failed worlds, and held controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import SimulationError
from pullback.core.kernel_system import KernelSystem
from pullback.core.status import Status


class KernelBackward:
    """Pulls back through a trajectory piece by piece, last piece first. A derived class has ``through`` and ``finish``.

    law:     parameters as kernels read them
    status:  that of the forward pass, with on_failure="mask": failures in the backward pass are recorded there too
    """

    # The remedy that the error names where the solver of the gradient did not converge.
    advice = "use a smaller dt"

    def __init__(self, system: KernelSystem, law: Any, hold: int, status: Status | None, wants_params: bool):
        self.system, self.law, self.hold, self.wants_params = system, law, hold, wants_params
        self.is_masked = status is not None
        # As in a Status. ``reasons`` has the messages, so the first column is not read here.
        self.codes = np.full((system.worlds, 2), -1) if status is None else np.array(to_numpy(status.codes))
        self.reasons = {} if status is None else status.reasons

    @property
    def running(self) -> np.ndarray:
        """(worlds,) which worlds have not failed."""
        return self.codes[:, 1] < 0

    def _note(self, codes: np.ndarray, first: int) -> None:
        """Records the worlds whose solver did not converge, by codes (worlds, 2) with steps counted from ``first``."""
        for world in map(int, np.flatnonzero(self.running & (codes[:, 1] >= 0))):
            step = first + int(codes[world, 1])
            self.codes[world] = codes[world, 0], step
            self.reasons[world] = (
                f"the solver of the gradient did not converge in world {world} at step {step}: {self.advice}"
            )
            if not self.is_masked:
                raise SimulationError(self.reasons[world], world=world, step=step)

    def _clear_failed(self, controls_bar: np.ndarray, others: Sequence[np.ndarray]) -> Status | None:
        """With on_failure="mask", sets cotangents to zero in place where a world failed or its gradient is not finite.

        controls_bar: (steps, worlds, nu); others: (any, worlds, any)
        """
        if not self.is_masked:
            return None
        bars = [controls_bar, *others]
        finite = np.all([np.isfinite(x).all(axis=(0, 2)) for x in bars], axis=0)
        for world in map(int, np.flatnonzero(~finite & self.running)):
            step = int(np.max(np.flatnonzero(~np.isfinite(controls_bar[:, world]).all(axis=1)), initial=0))
            self.codes[world, 1] = step
            self.reasons[world] = f"the gradient of world {world} grew beyond {self.system.dtype}, at step {step}"
        for x in bars:
            x[:, ~self.running] = 0.0
        reasons = dict(self.reasons)
        return Status(self.codes.copy(), lambda world, code, step: reasons[world])

    def _summed(self, controls_bar: np.ndarray) -> np.ndarray:
        """Cotangents of the controls of all steps, each summed over the steps for which it is held."""
        steps = len(controls_bar) // self.hold
        return controls_bar.reshape(steps, self.hold, *controls_bar.shape[1:]).sum(axis=1)
