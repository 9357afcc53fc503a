"""A System as a module with learnable physical parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.torch.functions import rollout


class Simulator(torch.nn.Module):
    """Rolls a System out, with some of its physical parameters as ``torch.nn.Parameter`` of the same names.

    Their initial values are those in ``system.params``; the System itself is not changed. If an optimiser steps to an
    invalid value, such as a negative mass, a PullbackError names the body.

        simulator = Simulator(system, learn=("mass", "damping"))
        q, v = simulator(q0, v0, controls)
        simulator.mass.grad
    """

    def __init__(self, system: System, learn: Sequence[str] = ()):
        super().__init__()
        self.system = system
        self.learn = (learn,) if isinstance(learn, str) else tuple(learn)
        if len(set(self.learn)) < len(self.learn):
            raise PullbackError(f"learn names a parameter twice: {', '.join(self.learn)}")
        for name in self.learn:
            value = torch.tensor(system.params[name], dtype=getattr(torch, system.dtype), device=system.device)
            self.register_parameter(name, torch.nn.Parameter(value))

    @property
    def params(self) -> dict[str, torch.nn.Parameter]:
        """The learnable parameters by name, as :func:`step` and :func:`rollout` take them."""
        return {name: getattr(self, name) for name in self.learn}

    def forward(self, *start_and_controls, hold: int = 1, checkpoint_every: int | str | tuple[int, ...] = 1):
        """``simulator(state, controls)`` or ``simulator(q0, v0, controls)``: see :func:`pullback.torch.rollout`."""
        return rollout(
            self.system, *start_and_controls, params=self.params, hold=hold, checkpoint_every=checkpoint_every
        )

    def extra_repr(self) -> str:
        return f"{self.system}, learn={self.learn}"
