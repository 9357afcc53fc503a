"""Steps to the least of quadratic functions: with entries held, and within bounds."""

import itertools

import numpy as np
import pytest

from pullback.core.quadratic import box_step, newton_step


def test_newton_steps_of_many_functions_with_entries_held():
    rng = np.random.default_rng(0)
    root, g = rng.normal(size=(20, 5, 5)), rng.normal(size=(20, 5))
    H, free = root @ root.transpose(0, 2, 1) + 0.01 * np.eye(5), rng.random((20, 5)) < 0.6
    steps = newton_step(H, g, free)
    assert np.all(steps[~free] == 0) and np.abs(steps[free]).min() > 1e-6 and not free.all()
    np.testing.assert_allclose((g + (H @ steps[..., None])[..., 0])[free], 0, atol=1e-9)


def test_newton_steps_that_are_checked():
    saddle, g = np.diag([1.0, -1.0]), np.ones(2)
    np.testing.assert_array_equal(newton_step(saddle, g, np.array([True, False]), check=True), [-1, 0])
    with pytest.raises(np.linalg.LinAlgError):
        newton_step(saddle, g, np.array([True, True]), check=True)


def test_box_steps_against_all_active_sets():
    rng = np.random.default_rng(0)
    for _ in range(200):
        root = rng.normal(size=(4, 4))
        H, g = root @ root.T + 0.01 * np.eye(4), 3 * rng.normal(size=4)
        low, high = -rng.uniform(0, 1, 4), rng.uniform(0, 1, 4)
        best = np.inf
        for held in itertools.product((-1, 0, 1), repeat=4):
            held = np.array(held)
            d, free = np.where(held < 0, low, np.where(held > 0, high, 0.0)), held == 0
            d[free] = np.linalg.solve(H[np.ix_(free, free)], -(g + H @ d)[free])
            if np.all((d >= low - 1e-12) & (d <= high + 1e-12)):
                best = min(best, g @ d + d @ H @ d / 2)
        d, free = box_step(H, g, low, high)
        assert np.all((d >= low) & (d <= high)) and np.all(np.isin(d[~free], [*low, *high]))
        np.testing.assert_allclose(g @ d + d @ H @ d / 2, best, rtol=1e-9, atol=1e-12)


def test_box_step_says_where_there_is_no_least():
    assert box_step(np.diag([1.0, -1.0]), np.ones(2), np.full(2, -9.0), np.full(2, 9.0)) is None
