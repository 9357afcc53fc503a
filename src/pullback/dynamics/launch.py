"""Launching one kernel for a range of worlds, cheaply, many times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import warp as wp

from pullback.core.launch import launch


@dataclass
class Lane:
    """A range of worlds and the workspace they take turns in. On the CPU there is one a thread, on CUDA one in all."""

    first: int
    end: int
    slots: int
    workspace: Any
    contacts: Any = None
    rows: Any = None
    _recorded: dict = field(default_factory=dict)  # kernel: (command, the inputs it holds)

    def record(self, kernel, inputs: tuple, device: str) -> wp.Launch:
        """A launch with one thread a slot, kept for the next time: starting it again costs a fifth of a new one."""
        if kernel in self._recorded:
            command, held = self._recorded[kernel]
            for i, (new, old) in enumerate(zip(inputs, held, strict=True)):
                if new is not old:
                    command.set_param_at_index(i, new)
        else:
            command = launch(kernel, self.slots, list(inputs), device, record_cmd=True)
        self._recorded[kernel] = (command, inputs)
        return command
