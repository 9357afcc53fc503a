"""Launching one kernel for a range of worlds, cheaply, many times."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import warp as wp

# Warp loads a kernel's module at its first launch, and not safely from several threads at once.
_loading = threading.Lock()


# CUDA threads a block. A thread works on a world of its own for a long time, so what counts is that the blocks of some
# ten thousand worlds are spread over all multiprocessors.
BLOCK = 64


def launch(kernel, dim: int, inputs: list, device: str, **options) -> wp.Launch | None:
    """wp.launch, one at a time in the whole process."""
    with _loading:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=device, block_dim=BLOCK, **options)


@dataclass
class Lane:
    """A range of worlds and the workspace they take turns in. On the CPU there is one a thread, on CUDA one in all."""

    first: int
    end: int
    slots: int
    workspace: Any
    contacts: Any
    rows: Any
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
