"""Rotations in torch. Quaternions are wxyz."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize


def up_and_heading(quat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of bodies with orientations quat (worlds, 4): how far their z points up, and their x along the world's x."""
    w, x, y, z = normalize(quat, dim=1).unbind(1)
    return 1 - 2 * (x * x + y * y), 1 - 2 * (y * y + z * z)


def into_body(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """A vector (worlds, 3) of the world in the axes of bodies with orientations quat (worlds, 4)."""
    quat = normalize(quat, dim=1)
    w, axis = quat[:, :1], -quat[:, 1:]
    t = 2 * torch.linalg.cross(axis, vector)
    return vector + w * t + torch.linalg.cross(axis, t)
