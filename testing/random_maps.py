"""Reachability maps that nobody fitted, and poses to evaluate them at."""

import numpy as np

from pullback.reach import ReachabilityMap, space
from pullback.reach.network import Network
from pullback.reach.svm import SupportVectors


def poses_of(name: str, n: int, seed: int = 0) -> np.ndarray:
    """(n, size) random poses of a space, within a metre."""
    s = space(name)
    box = np.stack([-np.ones(s.dimensions), np.ones(s.dimensions)])
    return s.random(n, box, np.random.default_rng(seed))


def random_map(name: str, kind: str, dtype: str = "float64", device: str = "cpu") -> ReachabilityMap:
    """A map that nobody fitted, of sizes that do not fit the kernels' fours."""
    rng = np.random.default_rng(3)
    size = space(name).feature_size
    if kind == "svm":
        held = SupportVectors(rng.normal(size=(7, size)), rng.normal(size=7), 0.3, 0.1)
    else:
        sizes = (size, 5, 9, 1)
        weights = tuple(rng.normal(size=(b, a)) / np.sqrt(a) for a, b in zip(sizes[:-1], sizes[1:], strict=True))
        held = Network(weights, tuple(rng.normal(size=b) for b in sizes[1:]))
    rmap = ReachabilityMap(name, kind, dtype=dtype, device=device)
    rmap._hold(held)
    return rmap
