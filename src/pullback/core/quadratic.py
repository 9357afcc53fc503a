"""Minimisers of a quadratic function g·d + ½ dᵀ H d, for damped least squares and Newton's method.

H (..., n, n) is symmetric, g (..., n).
"""

from __future__ import annotations

import numpy as np

MOST_STEPS = 50  # of Newton within bounds; a few are enough, unless rounding prevents convergence


def newton_step(H: np.ndarray, g: np.ndarray, free: np.ndarray, *, check: bool = False) -> np.ndarray:
    """The minimiser (..., n) over the entries where ``free`` (..., n) is true; the other entries are zero.

    check: raises LinAlgError where H is not positive definite for the free entries, so that there is no minimum
    """
    inner = np.where(free[..., :, None] & free[..., None, :], H, np.eye(H.shape[-1]))
    if check:
        np.linalg.cholesky(inner)
    return -np.linalg.solve(inner, np.where(free, g, 0.0)[..., None])[..., 0]


def box_step(H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray):
    """The minimiser (n,) with low <= d <= high, of one function, by projected Newton steps.

    Returns d and which entries are free, or None where H is not positive definite for those.
    """
    d = np.clip(np.zeros_like(g), low, high)
    for _ in range(MOST_STEPS):
        slope = g + H @ d
        free = ~((d <= low) & (slope > 0) | (d >= high) & (slope < 0))
        try:
            step = newton_step(H, slope, free, check=True)
        except np.linalg.LinAlgError:
            return None
        if np.all(free) and np.all((low <= d + step) & (d + step <= high)):
            return d + step, free
        if np.abs(slope @ step) <= 1e-20 + 1e-14 * np.abs(g @ d):
            break
        value, length = g @ d + d @ H @ d / 2, 1.0
        while True:
            trial = np.clip(d + length * step, low, high)
            if g @ trial + trial @ H @ trial / 2 <= value + 0.1 * slope @ (trial - d) or length < 1e-10:
                break
            length /= 2
        if np.array_equal(trial, d):
            break
        d = trial
    return d, free
