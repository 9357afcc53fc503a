"""Gauss-Newton on functions whose minimum is known, and runs that are broken off and go on."""

from dataclasses import replace

import numpy as np
import pytest

import pullback as pb
from pullback.plan import CONVERGED, LBFGS, REACHED, SPENT, Found, GaussNewton, minimise


def least_squares(residuals, metric=lambda x: 0.0):
    """A problem from a function that gives residuals (m,) and their Jacobian (m, n) at a point, or None."""

    def problem(points, wants_gradients, wants_curvature=False):
        found = [residuals(x) for x in points]
        n = points.shape[1]
        values = [(np.full(1, np.inf), np.full((1, n), np.nan)) if pair is None else pair for pair in found]
        return Found(
            np.array([r @ r / 2 for r, _ in values]),
            np.array([J.T @ np.where(np.isfinite(r), r, np.nan) for r, J in values]),
            np.array([metric(x) for x in points]),
            np.array([J.T @ J for _, J in values]) if wants_curvature else None,
        )

    return problem


def rosenbrock_residuals(p):
    x, y = p
    return np.array([1 - x, 10 * (y - x * x)]), np.array([[-1, 0], [-20 * x, 10]])


rosenbrock = least_squares(rosenbrock_residuals, lambda p: float(np.hypot(p[0] - 1, p[1] - 1)))
START = np.array([-1.2, 1.0])


def test_it_is_quick():
    found = minimise(rosenbrock, START, GaussNewton(), iterations=100, target=1e-6)
    assert found.stopped == REACHED and found.evaluations <= 35
    assert found.evaluations < minimise(rosenbrock, START, LBFGS(), iterations=100, target=1e-6).evaluations


DECAY = np.linspace(0, 3, 40)


def decay(p):
    """An exponential with an offset, and data that it does not fit exactly."""
    a, rate, offset = p
    data = 2 * np.exp(-1.3 * DECAY) + 0.5 + 0.05 * np.sin(9 * DECAY)
    fade = np.exp(-rate * DECAY)
    return a * fade + offset - data, np.stack([fade, -a * DECAY * fade, np.ones_like(fade)], axis=1)


@pytest.mark.parametrize("start", [[1.0, 0.1, 0.0], [5.0, 6.0, -3.0], [0.1, 2.0, 2.0]])
def test_it_knows_when_it_has_converged(start):
    """Where residuals stay, no target can be named; the gradient vanishes there."""
    found = minimise(least_squares(decay), np.array(start), GaussNewton(tolerance=1e-14), iterations=200)
    assert found.stopped == CONVERGED and found.iterations < 40
    residuals, jacobian = decay(found.x)
    assert residuals @ residuals > 1e-2
    assert np.abs(jacobian.T @ residuals).max() < 1e-6
    loose = minimise(least_squares(decay), np.array(start), GaussNewton(tolerance=1e-3), iterations=200)
    assert loose.stopped == CONVERGED and loose.iterations < found.iterations


def test_bounds():
    """The minimum of the parabola lies outside, and the axes are not its own: what is left free makes do."""
    goal, skew = np.array([2.0, -1.0, 0.3]), np.array([[1.0, 0.4, 0.2], [0.0, 1.0, -0.5], [0.1, 0.0, 1.0]])
    low, high = np.array([-1.0, -0.5, -1.0]), np.array([1.5, 1.0, np.inf])

    def residuals(p):
        assert np.all(p >= low) and np.all(p <= high)
        return skew @ (p - goal), skew

    problem = least_squares(residuals)
    found = minimise(problem, np.zeros(3), GaussNewton(), iterations=50, low=low, high=high)
    assert found.stopped == CONVERGED
    np.testing.assert_allclose(found.x[0], 1.5)
    held = np.array([found.x[0] == high[0], found.x[1] == low[1], False])
    gradient = skew.T @ skew @ (found.x - goal)
    np.testing.assert_allclose(gradient[~held], 0, atol=1e-6)
    assert gradient[0] < 0 and (not held[1] or gradient[1] > 0)


def test_linear_residuals_take_one_step_whichever_bounds_hold():
    """A variable that would cross its bound at first may end within it: the conditions of Karush, Kuhn and Tucker."""
    rng, at_bounds = np.random.default_rng(0), 0
    for _ in range(100):
        J, r = rng.normal(size=(6, 4)), 3 * rng.normal(size=6)
        low, high = -rng.uniform(0.1, 1, 4), rng.uniform(0.1, 1, 4)
        problem = least_squares(lambda p, J=J, r=r: (J @ p + r, J))
        found = minimise(problem, np.zeros(4), GaussNewton(damping=0), iterations=2, low=low, high=high)
        slope = J.T @ (J @ found.x + r)
        held = (found.x == low) & (slope > 0) | (found.x == high) & (slope < 0)
        np.testing.assert_allclose(slope[~held], 0, atol=1e-7)
        at_bounds += held.sum()
    assert 100 < at_bounds < 300


def test_a_curvature_that_rounding_has_made_indefinite():
    J, r = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([-1.0, -3.0])
    exact = least_squares(lambda p: (J @ p + r, J))

    def rounded(points, wants_gradients, wants_curvature=False):
        found = exact(points, wants_gradients, wants_curvature)
        return replace(found, curvatures=found.curvatures - 1e-7 * np.eye(2))

    found = minimise(rounded, np.zeros(2), GaussNewton(damping=0), iterations=50)
    assert found.stopped == CONVERGED
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-3)


def test_points_that_cannot_be_evaluated_are_stepped_back_from():
    """Beyond 0.4 there is nothing; the first whole step leads to 2."""

    def residuals(p):
        if p[0] > 0.4:
            return None
        return np.array([np.log(0.401 - p[0]) + 5.0, p[1]]), np.array([[-1 / (0.401 - p[0]), 0], [0, 1]])

    found = minimise(least_squares(residuals), np.array([-0.6, 1.0]), GaussNewton(), iterations=100)
    assert found.stopped == CONVERGED
    np.testing.assert_allclose(found.x, [0.401 - np.exp(-5), 0], atol=1e-4)
    assert np.any(np.isinf(found.losses))


def test_a_first_guess_that_cannot_be_evaluated():
    with pytest.raises(pb.PullbackError, match="first guess cannot be evaluated"):
        minimise(least_squares(lambda p: None), np.zeros(2), GaussNewton(), iterations=5)


def test_variables_without_influence_stay():
    """One that nothing depends on, and two of which only the sum matters."""

    def residuals(p):
        return np.array([p[0] + p[1] - 1, 2 * (p[0] + p[1]) - 2.2, p[2] ** 2 - 4]), np.array(
            [[1, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2 * p[2], 0]]
        )

    found = minimise(least_squares(residuals), np.array([0.0, 0.0, 1.0, 7.0]), GaussNewton(), iterations=50)
    assert found.stopped == CONVERGED
    np.testing.assert_allclose(found.x, [0.54, 0.54, 2, 7], atol=1e-3)


def test_no_more_than_was_asked_for():
    found = minimise(rosenbrock, START, GaussNewton(), iterations=3)
    assert found.stopped == SPENT and found.iterations == 3


def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("pullback.plan.loop.SAVE_AFTER", 0.0)
    problem, start = least_squares(decay), np.array([5.0, 6.0, -3.0])
    whole = minimise(problem, start, GaussNewton(), iterations=100)
    for after in (1, 4, whole.iterations - 1):
        left = iter(range(after + 1))  # the first guess is looked at before anything else

        def broken(*asked, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return problem(*asked)

        path = tmp_path / f"state{after}.npz"
        with pytest.raises(KeyboardInterrupt):
            minimise(broken, start, GaussNewton(), iterations=100, checkpoint=path)
        again = minimise(problem, start, GaussNewton(), iterations=100, checkpoint=path)
        np.testing.assert_array_equal(again.losses, whole.losses)
        np.testing.assert_array_equal(again.x, whole.x)
        assert again.stopped == CONVERGED and again.evaluations == whole.evaluations
        asked = []
        once_more = minimise(
            lambda *given, asked=asked: asked.append(given) or problem(*given),
            start, GaussNewton(), iterations=100, checkpoint=path,
        )  # fmt: skip
        np.testing.assert_array_equal(once_more.x, whole.x)
        assert len(asked) == 1  # whether it is the same problem; nothing is left to do


def test_a_checkpoint_of_another_seed_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    minimise(rosenbrock, START, GaussNewton(), iterations=3, checkpoint=path)
    with pytest.raises(pb.PullbackError, match="another method, seed or problem"):
        minimise(rosenbrock, START, GaussNewton(), iterations=3, checkpoint=path, seed=1)


def test_settings_are_checked():
    with pytest.raises(pb.PullbackError, match="damping of GaussNewton must be a number in"):
        GaussNewton(damping=-1)
