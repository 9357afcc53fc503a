"""Failure as data: which worlds of a rollout failed, when and why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import warp as wp

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError


class Status:
    """Which worlds of a rollout with ``on_failure="mask"`` failed, in the rollout or in its gradient.

    failed:   (worlds,) whether the world failed: it keeps its last state, and its cotangents are zero
    step:     (worlds,) the timestep that failed, or -1
    reasons:  by failed world, what happened

    On CUDA it is copied from the device only when one of these is read.
    """

    def __init__(
        self, codes: np.ndarray | wp.array | None = None, describe: Callable[[int, int, int], str] | None = None
    ):
        self.set(codes, describe or _nothing)

    def set(self, codes: np.ndarray | wp.array | None, describe: Callable[[int, int, int], str]) -> None:
        """Fills in the status.

        codes: (worlds, 2), a code for the kind of failure and the timestep, which is negative without a failure
        describe(world, code, step): returns the reason in words
        """
        self.codes, self._describe = codes, describe

    def _read(self) -> np.ndarray:
        if self.codes is None:
            raise PullbackError("this Status is not filled in: pass it to a rollout first")
        return to_numpy(self.codes)

    @property
    def failed(self) -> np.ndarray:
        return self._read()[:, 1] >= 0

    @property
    def step(self) -> np.ndarray:
        return np.maximum(self._read()[:, 1], -1)

    @property
    def reasons(self) -> dict[int, str]:
        codes, failed = self._read(), np.flatnonzero(self.failed)
        return {int(world): self._describe(int(world), *map(int, codes[world])) for world in failed}

    def __repr__(self) -> str:
        if self.codes is None:
            return "Status(not filled in)"
        return f"Status({self.failed.sum()} of {len(self.failed)} worlds failed)"

    def __reduce__(self):
        return (Status, ()) if self.codes is None else (_restored, (to_numpy(self.codes), self.reasons))


def _nothing(world: int, code: int, step: int) -> str:
    return ""


def _restored(codes: np.ndarray, reasons: dict[int, str]) -> Status:
    return Status(codes, lambda world, code, step: reasons[world])
