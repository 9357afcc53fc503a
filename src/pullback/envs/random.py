"""Random numbers of a batch of worlds, whose state can be kept."""

from __future__ import annotations

import torch

from pullback.core.checks import check_seed


class Random:
    """Tensors of random numbers with one row per world."""

    def __init__(self, seed: int, worlds: int, dtype: torch.dtype, device: torch.device):
        self.worlds, self.dtype, self.device = worlds, dtype, device
        self.generator = torch.Generator(device).manual_seed(check_seed(seed))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        """(worlds, *shape), between low and high."""
        return low + (high - low) * torch.rand(self.worlds, *shape, **self._options).to(self.dtype)

    def normal(self, *shape: int) -> torch.Tensor:
        """(worlds, *shape), of mean 0 and deviation 1."""
        return torch.randn(self.worlds, *shape, **self._options).to(self.dtype)

    def rotation(self, angle: float) -> torch.Tensor:
        """Quaternions (worlds, 4), wxyz: turned by at most ``angle`` [rad] about a random axis."""
        axis = torch.nn.functional.normalize(self.normal(3), dim=1)
        half = self.uniform(1, low=-angle, high=angle) / 2
        return torch.cat([half.cos(), half.sin() * axis], dim=1)

    @property
    def _options(self) -> dict:
        # The same numbers in every precision: a policy is evaluated from the same starts in float32 and in float64.
        return {"generator": self.generator, "dtype": torch.float64, "device": self.device}
