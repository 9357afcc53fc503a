"""Maps that are small neural networks, trained by torch and evaluated by kernels of our own.

Layers z = W h + b with h = (z + sqrt(z² + 4)) / 2, a smooth ramp: far from all samples it goes on rising or falling, so
that a planner that starts out there is led back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.errors import PullbackError
from pullback.core.threads import one_torch_thread
from pullback.reach.progress import progress_bar
from pullback.reach.spaces import Space

HIDDEN = (64, 64)
STEPS = 15_000
LEAST_STEPS = 20  # of fewer none would be the first tenth
BATCH = 1024
RATE = 1e-2  # the largest of Adam; it rises for the first tenth of the steps and then falls to zero


@dataclass(frozen=True)
class Network:
    """A trained map, as plain arrays."""

    weights: tuple[np.ndarray, ...]  # a layer: (units, units or features before it)
    biases: tuple[np.ndarray, ...]  # (units,)

    def arrays(self) -> dict[str, np.ndarray]:
        named = {f"weight{i}": weight for i, weight in enumerate(self.weights)}
        return named | {f"bias{i}": bias for i, bias in enumerate(self.biases)}

    @classmethod
    def of_arrays(cls, arrays, space: Space) -> Network:
        """From what a file holds, or a ValueError."""
        count = sum(name.startswith("weight") for name in arrays)
        weights, biases = (tuple(arrays[f"{what}{i}"] for i in range(count)) for what in ("weight", "bias"))
        if any(bias.ndim != 1 for bias in biases):
            raise ValueError(f"offsets have shapes {[bias.shape for bias in biases]}")
        sizes = (space.feature_size, *(len(bias) for bias in biases))
        if count < 2 or sizes[-1] != 1 or [w.shape for w in weights] != list(zip(sizes[1:], sizes[:-1], strict=True)):
            raise ValueError(f"layers have shapes {[w.shape for w in weights]}")
        return cls(weights, biases)

    def kernel(self, space: Space) -> tuple[str, list, int]:
        """Its name, inputs after the poses, and rows of workspace."""
        # The kernel works on four rows at a time: features and units are padded with weights of zero.
        sizes = [-(-space.feature_size // 4) * 4, *(-(-len(b) // 4) * 4 for b in self.biases[:-1]), 1]
        first = np.cumsum([0, *sizes[:-1]])
        units, widest = sum(sizes), max(sizes)
        weight, transposed = np.zeros((units - sizes[0], widest)), np.zeros((units - 1, widest))
        bias = np.zeros(units - sizes[0])
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            row = first[i + 1] - sizes[0]
            weight[row : row + w.shape[0], : w.shape[1]] = w
            transposed[first[i] : first[i] + w.shape[1], : w.shape[0]] = w.T
            bias[row : row + len(b)] = b
        return "NETWORK", [first, weight, transposed, bias], 3 * units


def fit_network(
    features: np.ndarray, reachable: np.ndarray, *, hidden: tuple[int, ...], steps: int, seed: int, progress: bool
) -> Network:
    """Logistic regression by Adam on random batches."""
    try:
        import torch
    except ImportError:
        raise PullbackError("training a network needs torch: pip install 'pullback[torch]'") from None
    middle, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
    x = torch.tensor((features - middle) / spread, dtype=torch.float32)
    y = torch.tensor(reachable, dtype=torch.float32)
    bar = progress_bar("training a map", steps, progress)
    with torch.random.fork_rng(), one_torch_thread(), bar as advance:
        torch.manual_seed(seed)
        layers = _train(torch, x, y, hidden, steps, advance)
    weights = [layer.weight.detach().numpy().astype(float) for layer in layers]
    biases = [layer.bias.detach().numpy().astype(float) for layer in layers]
    # The network learnt from features of unit spread; from here on it takes them as they are.
    weights[0] = weights[0] / spread
    biases[0] = biases[0] - weights[0] @ middle
    return Network(tuple(weights), tuple(biases))


def _train(torch, x, y, hidden: tuple[int, ...], steps: int, advance) -> list:
    sizes = (x.shape[1], *hidden, 1)
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        some = torch.randint(0, len(x), (BATCH,))
        h = x[some]
        for layer in layers[:-1]:
            z = layer(h)
            h = 0.5 * (z + torch.sqrt(z * z + 4.0))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(layers[-1](h)[:, 0], y[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 49:
            advance(50)
    return layers
