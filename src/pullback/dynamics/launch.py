"""A range of worlds, and where kernels work on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullback.core.launch import Recorder


@dataclass
class Lane:
    """Worlds and the workspace they take turns in. On the CPU there is one per thread, on CUDA a single one."""

    first: int
    end: int
    slots: int
    workspace: Any
    contacts: Any = None
    rows: Any = None
    launches: Recorder = field(default_factory=Recorder)  # with one thread per slot
