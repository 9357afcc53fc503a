"""A range of worlds and its workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullback.core.launch import Recorder


@dataclass
class Lane:
    """A range of worlds, and the workspace that they use in turn. On the CPU there is one per thread; on CUDA, one."""

    first: int
    end: int
    slots: int
    workspace: Any
    contacts: Any = None
    rows: Any = None
    launches: Recorder = field(default_factory=Recorder)  # with one thread per slot
