"""Maps of support vectors: f = Σ a_i exp(-g |φ_i - φ|²) - ρ, fitted by scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.errors import PullbackError
from pullback.reach.launch import Evaluator
from pullback.reach.spaces import Space


@dataclass(frozen=True)
class SupportVectors:
    """A fitted map, as plain arrays."""

    centres: np.ndarray  # (m, feature size)
    weights: np.ndarray  # (m,)
    gamma: float  # [1/m²]
    rho: float

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "centres": self.centres,
            "weights": self.weights,
            "gamma": np.array(self.gamma),
            "rho": np.array(self.rho),
        }

    @classmethod
    def of_arrays(cls, arrays) -> SupportVectors:
        return cls(arrays["centres"], arrays["weights"], float(arrays["gamma"]), float(arrays["rho"]))

    def evaluator(self, space: Space, *, dtype: str, device: str) -> Evaluator:
        missing = -len(self.weights) % 4  # the kernel takes four at a time; those without weight change nothing
        centres = np.pad(self.centres, ((0, missing), (0, 0)))
        weights = np.pad(self.weights, (0, missing))
        inputs = [
            2 * self.gamma * centres,
            self.gamma * np.sum(centres**2, axis=1),
            weights,
            self.gamma,
            self.rho,
        ]
        rows = 2 * space.feature_size + 1
        return Evaluator("evaluate_support_vectors", space, inputs, rows, dtype=dtype, device=device)


def fit_support_vectors(features: np.ndarray, reachable: np.ndarray | None, gamma: float, nu: float) -> SupportVectors:
    """A one-class SVM where all poses are reachable, else a ν-SVC."""
    try:
        from sklearn.svm import NuSVC, OneClassSVM
    except ImportError:
        raise PullbackError("fitting support vectors needs scikit-learn: pip install 'pullback[reach]'") from None
    settings = {"kernel": "rbf", "gamma": gamma, "nu": nu, "cache_size": 1000}
    if reachable is None:
        machine = OneClassSVM(**settings).fit(features)
    else:
        machine = NuSVC(**settings).fit(features, reachable)
    return SupportVectors(machine.support_vectors_, machine.dual_coef_[0], gamma, -float(machine.intercept_[0]))
