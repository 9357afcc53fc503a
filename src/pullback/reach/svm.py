"""Maps of support vectors: f = Σ a_i exp(-g |φ_i - φ|²) - ρ.

With one class this is scikit-learn's one-class SVM. With two it is its ν-SVC, reduced: that SVM, made of some of the
samples, knows where the boundary is; a few hundred of its support vectors are kept as centres, and their weights are
fitted anew, to all samples, by the squared hinge loss: both smaller and sharper (``benchmarks/reach_maps.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.errors import PullbackError
from pullback.reach.progress import progress_bar
from pullback.reach.spaces import Space


@dataclass(frozen=True)
class SupportVectors:
    """A fitted map, as plain arrays."""

    centres: np.ndarray  # (m, feature size)
    weights: np.ndarray  # (m,)
    gamma: float  # [1/m²]
    rho: float

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, arrays, space: Space) -> SupportVectors:
        """From what a file holds, or a ValueError."""
        centres, weights = arrays["centres"], arrays["weights"]
        if weights.ndim != 1 or centres.shape != (len(weights), space.feature_size):
            raise ValueError(f"centres have shape {centres.shape}, weights {weights.shape}")
        gamma, rho = float(arrays["gamma"]), float(arrays["rho"])
        if not gamma > 0:
            raise ValueError(f"gamma is {gamma:g}")
        return cls(centres, weights, gamma, rho)

    def kernel(self, space: Space) -> tuple[str, list, int]:
        """Its name, inputs after the poses, and rows of workspace."""
        missing = -len(self.weights) % 4  # the kernel takes four at a time; those without weight change nothing
        centres, weights = np.pad(self.centres, ((0, missing), (0, 0))), np.pad(self.weights, (0, missing))
        inputs = [2 * self.gamma * centres, self.gamma * np.sum(centres**2, axis=1), weights, self.gamma, self.rho]
        return "SUPPORT_VECTORS", inputs, 2 * space.feature_size + 1


@dataclass(frozen=True)
class Settings:
    """Of a fit; the defaults of a space are those that scored best on our sample robots."""

    gamma: float  # [1/m²]
    nu: float  # share of the samples that may be on the wrong side [1]
    centres: int  # that are kept when an SVM of two classes is reduced


ONE_CLASS = {
    **dict.fromkeys(("R2", "R3"), Settings(10.0, 0.01, 0)),
    **dict.fromkeys(("SO2", "SE2"), Settings(3.0, 0.01, 0)),
    **dict.fromkeys(("SO3", "SE3"), Settings(1.0, 0.01, 0)),
}
TWO_CLASSES = {
    "R2": Settings(5.0, 0.02, 400),
    "R3": Settings(5.0, 0.02, 400),
    "SO2": Settings(3.0, 0.02, 100),
    "SE2": Settings(3.0, 0.02, 400),
    "SO3": Settings(0.5, 0.02, 400),
    "SE3": Settings(0.2, 0.15, 1000),
}
# Samples that scikit-learn is given: its time grows with their square.
FIRST_SAMPLES = 15_000
# Samples times centres that the weights are fitted to: their kernel matrix is held in memory, 8 bytes each.
LARGEST_MATRIX = 40_000_000
# Of the squared norm of f, beside the mean loss of a sample [1]. A hundredth of it gains 0.1 % of IoU in R2 and SE3 and
# makes f twice as steep.
SMOOTHING = 1e-6
# The value far from all samples. Left to itself it may come out positive, as if infinity were within reach; and if it
# is above the values outside, gradients there lead away: at -3 those of 60 % of the unreachable poses around a
# humanoid's foot lead to the reachable ones, at -20 those of 98 %.
FAR = -20.0
NEWTON_STEPS = 15
NEWTON_DONE = 1e-6  # relative decrease of the loss [1]


def fit_support_vectors(
    features: np.ndarray, reachable: np.ndarray | None, settings: Settings, *, reduce: bool, seed: int, progress: bool
) -> SupportVectors:
    """A one-class SVM where all poses are reachable, else a ν-SVC; of part of the samples, and the latter then reduced,
    if ``reduce``.
    """
    try:
        from sklearn.svm import NuSVC, OneClassSVM
    except ImportError:
        raise PullbackError("fitting support vectors needs scikit-learn: pip install 'pullback[reach]'") from None
    options = {"kernel": "rbf", "gamma": settings.gamma, "nu": settings.nu, "cache_size": 1000}
    rng = np.random.default_rng(seed)
    first = rng.permutation(len(features))[:FIRST_SAMPLES] if reduce else slice(None)
    if reachable is None:
        return _plain(OneClassSVM(**options).fit(features[first]), settings.gamma)
    if reachable[first].all() or not reachable[first].any():
        raise PullbackError("nearly all poses are of one class: sample about as many of the other")
    try:
        machine = NuSVC(**options).fit(features[first], reachable[first])
    except ValueError as error:
        if "not finite" in str(error):
            raise PullbackError(
                "reachable and unreachable poses are the same: there is nothing to tell apart"
            ) from None
        if "infeasible" not in str(error):
            raise
        share = min(reachable[first].mean(), 1 - reachable[first].mean())
        raise PullbackError(
            f"nu={settings.nu:g} is too large where {share:.1%} of the poses are of the rarer class: it must be less "
            "than twice that share"
        ) from None
    whole = _plain(machine, settings.gamma)
    return _reduced(whole, features, reachable, settings.centres, rng, progress) if reduce else whole


def _plain(machine, gamma: float) -> SupportVectors:
    return SupportVectors(machine.support_vectors_, machine.dual_coef_[0], gamma, -float(machine.intercept_[0]))


def kernel_matrix(features: np.ndarray, centres: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma |difference|²) of all features (n, size) and all centres (m, size)."""
    square = np.sum(features**2, axis=1)[:, None] + np.sum(centres**2, axis=1) - 2 * features @ centres.T
    return np.exp(-gamma * np.maximum(square, 0.0))


def _reduced(
    whole: SupportVectors,
    features: np.ndarray,
    reachable: np.ndarray,
    count: int,
    rng: np.random.Generator,
    progress: bool,
) -> SupportVectors:
    """``count`` of the support vectors, with weights that fit all samples: min smoothing |f|² + mean max(0, 1 - y f)².

    Newton's method on the weights, where only samples within the margin have a say (Chapelle, "Training a support
    vector machine in the primal", 2007).
    """
    centres = whole.centres[rng.permutation(len(whole.centres))[:count]]
    some = rng.permutation(len(features))[: LARGEST_MATRIX // len(centres)]
    side = np.where(reachable[some], 1.0, -1.0)
    K = kernel_matrix(features[some], centres, whole.gamma)
    norm = SMOOTHING * kernel_matrix(centres, centres, whole.gamma)
    norm += 1e-10 * np.eye(len(norm))  # centres that nearly coincide make it singular

    def loss(x: np.ndarray, f: np.ndarray) -> float:
        return x @ norm @ x + np.mean(np.maximum(0.0, 1 - side * f) ** 2)

    x, f = np.zeros(len(centres)), np.full(len(some), FAR)
    now = loss(x, f)
    with progress_bar("fitting a map", NEWTON_STEPS, progress) as advance:
        for _ in range(NEWTON_STEPS):
            inside = side * f < 1
            rows = K[inside]
            slope = norm @ x - rows.T @ (side - f)[inside] / len(some)
            step = np.linalg.solve(norm + rows.T @ rows / len(some), -slope)
            moved, part = K @ step, 1.0
            while loss(x + part * step, f + part * moved) > now and part > 1e-4:
                part /= 2
            x, f = x + part * step, f + part * moved
            before, now = now, loss(x, f)
            advance(1)
            if before - now < NEWTON_DONE * before:
                break
    return SupportVectors(centres, x, whole.gamma, -FAR)
