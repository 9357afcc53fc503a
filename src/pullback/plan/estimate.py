"""The uncertainty of a least-squares solution: standard errors, confidence intervals, undetermined variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pullback.core.errors import PullbackError

NO_CURVATURE = 1e-14  # eigenvalues of the curvature below this fraction of the largest are rounding
TAKES_PART = 0.2  # component of a unit direction above which a variable is named
LISTED = 20  # the most undetermined variables that a table lists; the weights of a network are many more


@dataclass(frozen=True)
class Estimate:
    """Estimates of n variables. Intervals hold for each variable alone; joint ones for all of them at once.

    labels:                 names of the variables
    values:                 (n,) in natural units, such as a factor where the variable is its logarithm
    standard_errors:        (n,) of the variables; infinite if the residuals do not depend on them
    low, high:              (n,) ends of the intervals, in natural units
    joint_low, joint_high:  (n,) ends of intervals that contain all true values at once with that confidence
    noise:                  standard deviation of the residuals, estimated from the loss at the solution
    confidence:             of the intervals, such as 0.95
    undetermined:           groups of labels that the residuals cannot distinguish; a group of one has no influence
    """

    labels: tuple[str, ...]
    values: np.ndarray
    standard_errors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    joint_low: np.ndarray
    joint_high: np.ndarray
    noise: float
    confidence: float
    undetermined: tuple[tuple[str, ...], ...]

    def covers(self, truth: np.ndarray) -> np.ndarray:
        """Which true values (n,) are inside their own intervals."""
        return (self.low <= truth) & (truth <= self.high)

    def covers_all(self, truth: np.ndarray) -> bool:
        """Whether the joint intervals contain all true values (n,)."""
        return bool(np.all((self.joint_low <= truth) & (truth <= self.joint_high)))

    @property
    def determined(self) -> np.ndarray:
        """Which variables (n,) are in no group of ``undetermined``."""
        hidden = {label for group in self.undetermined for label in group}
        return np.array([label not in hidden for label in self.labels])

    def table(self, truth: np.ndarray | None = None) -> str:
        """One line per variable; with the true values (n,), if they are given.

        If more than 20 variables are undetermined, such as the weights of a network, only their number is given.
        """
        determined = self.determined
        others = int(np.sum(~determined))
        rows = np.arange(len(self.labels)) if others <= LISTED else np.flatnonzero(determined)
        width = max(len("parameter"), *(len(self.labels[i]) for i in rows))
        interval = f"{self.confidence * 100:g} % interval"
        lines = [f"{'parameter':<{width}}  estimate  {interval:^18}" + ("" if truth is None else "      true    error")]
        for i in rows:
            label = self.labels[i]
            line = f"{label:<{width}}  {self.values[i]:8.4f}  {self.low[i]:8.4f} {self.high[i]:8.4f} "
            if not determined[i]:
                line = f"{label:<{width}}  {'undetermined':<28}"
            if truth is not None:
                line += f"  {truth[i]:8.4f}"
            if truth is not None and determined[i]:
                error = f"{self.values[i] / truth[i] - 1:+.2%}" if truth[i] else f"{self.values[i]:+.2g}"
                line += f"  {error:>7}" + ("" if self.covers(truth)[i] else "  outside")
            lines.append(line.rstrip())
        if others > LISTED:
            left = "the data do not determine them one by one"
            return "\n".join([*lines, f"{others} other variables, such as weights of a network, are left out: {left}"])
        return "\n".join([*lines, *(f"undetermined: {' against '.join(group)}" for group in self.undetermined)])


def estimate(
    x: np.ndarray,
    loss: float,
    curvature: np.ndarray,
    residuals: int,
    *,
    labels: Sequence[str] | None = None,
    natural: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    confidence: float = 0.95,
    undetermined_from: float = 0.5,
) -> Estimate:
    """The Estimate at a minimum x (n,) of a loss that is half the sum of the squares of ``residuals`` residuals.

    Residuals must have equal noise, or be divided by it; its size is estimated from the loss at x. With J the
    Jacobian and curvature JᵀJ (n, n), the covariance of x is noise² (JᵀJ)⁻¹. This is exact if residuals are linear
    within the intervals.

    natural:            maps the variables (n,) to natural units; increasing in each
    undetermined_from:  a direction of the variables with a larger standard error than this is reported as undetermined
    """
    x, curvature = np.asarray(x, dtype=float), np.asarray(curvature, dtype=float)
    count = len(x)
    labels = tuple(labels) if labels is not None else tuple(f"x{i}" for i in range(count))
    if curvature.shape != (count, count) or len(labels) != count or residuals <= count:
        raise PullbackError(
            f"an estimate of {count} variables needs as many labels, a curvature ({count}, {count}) and more residuals "
            f"than variables, not {len(labels)}, {curvature.shape} and {residuals}"
        )
    freedom = residuals - count
    noise = float(np.sqrt(2 * loss / freedom))
    values, vectors = np.linalg.eigh(curvature)
    known = values > NO_CURVATURE * max(values.max(), np.finfo(float).tiny)
    spread = np.where(known, noise / np.sqrt(np.where(known, values, 1.0)), np.inf)  # along each direction
    with np.errstate(invalid="ignore"):
        parts = np.where(np.abs(vectors) > np.sqrt(NO_CURVATURE), vectors * spread, 0.0)
    errors = np.sqrt(np.sum(parts**2, axis=1))
    if not 0 < confidence < 1:
        raise PullbackError(f"confidence must lie between 0 and 1, not {confidence!r}")
    alone, joint = (_quantile(1 - (1 - confidence) / (2 * among), freedom) for among in (1, count))
    low, high, joint_low, joint_high = (
        natural(x + sign * factor * errors) for factor in (alone, joint) for sign in (-1, 1)
    )
    weak = np.flatnonzero(spread > undetermined_from)
    groups = tuple(tuple(labels[i] for i in np.flatnonzero(np.abs(vectors[:, d]) >= TAKES_PART)) for d in weak)
    return Estimate(labels, natural(x), errors, low, high, joint_low, joint_high, noise, confidence, groups)


def _quantile(probability: float, freedom: int) -> float:
    """A quantile of Student's t-distribution, expanded about the normal one; error below 1e-3 from 10 degrees on."""
    z = NormalDist().inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
