"""Contacts as data for users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ContactPoints:
    """All contacts of one world at one moment, in the world's axes. A contact's normal points from its first geom to
    its second; force and moment act on the second, and their opposites on the first.
    """

    geoms: tuple[tuple[str, str], ...]  # names of the two geoms
    geom_ids: np.ndarray  # (n, 2)
    pos: np.ndarray  # (n, 3) half-way between the surfaces [m]
    normal: np.ndarray  # (n, 3)
    dist: np.ndarray  # (n,) negative where they overlap [m]
    force: np.ndarray  # (n, 3) [N]
    moment: np.ndarray  # (n, 3) of torsional and rolling friction [N·m]

    def __len__(self) -> int:
        return len(self.geoms)
