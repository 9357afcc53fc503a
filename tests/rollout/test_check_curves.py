"""check_system on functions of one number: kinks, jumps, noise, and entries of different size."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback.core.bars import Bars, Named
from pullback.rollout.check import AGREES, KINK, NO_INFLUENCE, SKIPPED, WRONG, WrongGradient


class Place(NamedTuple):
    x: Any


class Curve(pb.System):
    """x goes on by the sum of the values of a function at the entries of a parameter; its gradient is a claim."""

    worlds, nu, dtype, device = 1, 0, "float64", "cpu"

    def __init__(self, function, at, gradient):
        self.function, self.params = function, {"a": np.array(at, dtype=float)}
        self.gradient = np.broadcast_to(np.array(gradient, dtype=float), self.params["a"].shape)

    def step(self, state, control, params=None):
        a = {**self.params, **(params or {})}["a"]
        return Place(state.x + np.sum(self.function(a)))

    def pullback(self, state, control, next_bar, params=None):
        return Bars(Place(next_bar.x), None, Named(a=np.sum(next_bar.x) * self.gradient))

    def check(self, x=0.7, **options):
        """The row of the parameter, passed or not."""
        try:
            return pb.check_system(self, Place(np.full((1, 1), x)), **options)["a"]
        except WrongGradient as wrong:
            return wrong.report["a"]


def bent(below, above, at=1.0, curved=0.3):
    """Of slopes ``below`` and ``above`` a kink."""
    return lambda a: np.where(a < at, below, above) * (a - at) + curved * (a - at) ** 2


def slopes_of(row):
    """Of both sides, without the cotangent that they have in the row."""
    scale = np.random.default_rng(0).standard_normal()
    return [side if side is None else side / scale for side in row.sides]


def test_long_steps_beyond_a_kink_do_not_overrule_short_ones():
    # long steps see (1 + 3) / 2, and agree on it to a percent
    for distance in (2e-4, -2e-4):
        right = 1 if distance > 0 else 3
        function = bent(1, 3, 1 + distance, curved=0)
        assert Curve(function, [1.0], right).check().status == AGREES
        for wrong in (0, 2, 4 - right, 1.001 * right):
            assert Curve(function, [1.0], wrong).check().status == WRONG, wrong


def test_zero_is_right_before_a_kink_and_wrong_after_it():
    for distance in (3e-3, 1e-5, 1e-7):
        assert Curve(bent(0, 3, 1 + distance, 0), [1.0], 0).check().status in (NO_INFLUENCE, KINK)
        assert Curve(bent(0, 3, 1 + distance, 0), [1.0], 1e-3).check().status in (WRONG, KINK)
        assert Curve(bent(0, 3, 1 - distance, 0), [1.0], 0).check(steps=(1e-2, 1e-3, 1e-7)).status == WRONG


def test_what_moves_nothing_but_by_long_steps_has_no_influence():
    """Gradient and differences are zero: that says nothing of a gradient, and is not counted as one that agrees."""
    beyond = bent(0, 3, 1 + 3e-3, 0)
    assert Curve(beyond, [1.0], 0).check().status == NO_INFLUENCE
    assert Curve(beyond, [1.0], 1e-3).check().status == WRONG
    assert Curve(beyond, [1.0, 2.0], [0, 3]).check().status == AGREES
    assert Curve(beyond, [1.0, 2.0], [0, 0]).check().status == WRONG


class Bounded(Curve):
    """Refuses parameters below zero."""

    def step(self, state, control, params=None):
        if np.any({**self.params, **(params or {})}["a"] < 0):
            raise pb.PullbackError("a must not be negative")
        return super().step(state, control, params)


def test_a_jump_from_a_bound_has_no_slope():
    """As restitution has: a body that bounces a little is another matter than one that does not."""
    jump = lambda a: np.where(a > 0, 0.1 + 2 * a, 0.0)  # noqa: E731
    row = Bounded(jump, [0.0], 0).check()
    assert (row.status, row.entries, row.skipped) == (SKIPPED, 0, 1)
    row = Bounded(jump, [0.0, 1.0], [0, 2]).check()
    assert (row.status, row.entries, row.skipped) == (AGREES, 1, 1)
    assert Bounded(jump, [0.0, 1.0], [0, 2.1]).check().status == WRONG
    # without the jump there is a slope, and nothing else will do
    smooth = lambda a: 2 * a + a**2  # noqa: E731
    assert Bounded(smooth, [0.0], 2).check().status == AGREES
    assert Bounded(smooth, [0.0], 0).check().status == WRONG


class Walled(pb.System):
    """x goes on to a cube, in any number of worlds; refuses what is below zero, and may say in which."""

    worlds, nu, dtype, device = 2, 0, "float64", "cpu"

    def __init__(self, says: bool):
        self.says = says

    def step(self, state, control, params=None):
        below = np.flatnonzero(np.any(state.x < 0, axis=1))
        if len(below):
            raise pb.PullbackError("x must not be negative", worlds=below if self.says else ())
        return Place((state.x + 1) ** 3)

    def pullback(self, state, control, next_bar, params=None):
        return Bars(Place(3 * (state.x + 1) ** 2 * next_bar.x), np.zeros((self.worlds, 0)), Named())


@pytest.mark.parametrize("says", [True, False])
def test_a_state_at_a_bound_does_not_spoil_the_others(says):
    """Copies of a System are stepped together; one that is refused is named, or all are stepped one by one."""
    state = Place(np.array([[0.0, 0.7], [0.3, 0.0]]))
    row = pb.check_system(Walled(says), state)["x"]
    assert (row.status, row.entries, row.skipped) == (AGREES, 4, 0) and row.largest > 1


def test_slopes_of_a_kink():
    for below, above in ((1, 3), (-2, 1), (0, -1), (1e-3, 2e-3)):
        function = bent(below, above)
        for claim in (below, above, below + 0.3 * (above - below)):
            row = Curve(function, [1.0], claim).check()
            assert row.status == KINK and row.kink and row.slope_text == "kink", (below, above, claim)
            np.testing.assert_allclose(slopes_of(row), (below, above), rtol=1e-6, atol=1e-9)
            assert row.error < 1e-6
        span = above - below
        for claim in (below - 0.01 * span, above + 0.01 * span, -3 * above, 5 * above):
            row = Curve(function, [1.0], claim).check()
            assert row.status == WRONG and row.kink, (below, above, claim)


def test_kinks_are_reported_and_do_not_hide_other_entries():
    report = pb.check_system(Curve(bent(1, 3), [1.0, 1.5], [1, 3.3]), Place(np.full((1, 1), 0.7)))
    assert report.passed and report["a"].status == KINK and report["a"].index == (0,)
    lines = str(report).splitlines()
    assert any("<-- kink" in line and " | " in line for line in lines) and lines[-1].startswith("kink: ")
    row = Curve(bent(1, 3), [1.0, 1.5], [1, 3.301]).check()
    assert row.status == WRONG and row.index == (1,) and not row.kink


@pytest.mark.parametrize(("below", "above"), [(-1, 1), (-1, 2), (0.5, 2)])
def test_zero_is_no_slope_of_a_kink_that_has_none(below, above):
    """Also where central differences are zero, by symmetry."""
    for curved in (0.0, 0.3):
        row = Curve(bent(below, above, curved=curved), [1.0], 0).check()
        assert row.status == WRONG and row.kink
    # a smooth minimum, however sharp, is none
    for sharp in (1.0, 1e4):
        assert Curve(lambda a, sharp=sharp: sharp * (a - 1) ** 2, [1.0], 0).check().status in (AGREES, NO_INFLUENCE)


def test_edge_of_a_jump():
    def step_up(a):
        return np.where(a > 1, 2.0, 0.0) + 0.5 * a + a**2

    def step_down(a):
        return np.where(a >= 1, 2.0, 0.0) + 0.5 * a + a**2

    for steps in (None, (1e-5, 1e-6)):
        for function, sides in ((step_up, [2.5, None]), (step_down, [None, 2.5])):
            row = Curve(function, [1.0, 0.3], [2.5, 1.1]).check(steps=steps)
            assert row.status == KINK and row.index == (0,) and "jump" in row.sides_text
            assert [None if x is None else round(x, 5) for x in slopes_of(row)] == sides
            for wrong in (0.0, 2.51, -2.5, 100.0):
                assert Curve(function, [1.0, 0.3], [wrong, 1.1]).check(steps=steps).status == WRONG
            # the quotients of the jump are large, and no measure for the other entry
            assert Curve(function, [1.0, 0.3], [2.5, 1.1001]).check(steps=steps).status == WRONG


@pytest.mark.parametrize("width", [1.0, 1e-2, 1e-4, 1e-6, 1e-7])
def test_sharp_bends_that_are_smooth_are_no_kinks(width):
    """A slope that goes from 1 to 3 over a width, which the shortest steps resolve."""

    def function(a):
        return 2 * a + width * np.logaddexp((a - 1) / width, -(a - 1) / width)

    for at in (1.0, 1 + 0.3 * width):
        right = 2 + np.tanh((at - 1) / width)
        assert Curve(function, [at], right).check(tolerance=1e-4).status == AGREES
        for wrong in (right + 0.01, right - 0.3, 0.0):
            row = Curve(function, [at], wrong).check(tolerance=1e-4)
            assert row.status == WRONG and not row.kink, (at, wrong)


def test_kink_of_the_second_derivative_is_none():
    # central differences have an error of first order in the step
    function = lambda a: 0.4 * a + np.where(a > 1, 2000.0, 0.0) * (a - 1) ** 2  # noqa: E731
    assert Curve(function, [1.0], 0.4).check().status == AGREES
    for wrong in (0.40002, 0.42, 0.0, -0.4):
        assert Curve(function, [1.0], wrong).check().status == WRONG


def test_residuals_are_no_gradients():
    """A solver's residual changes with what is varied, by next to nothing, and the pullback of it is no better."""
    ones = np.ones((2, 2))
    slopes = np.array([[30.0, 2e-13], [1e-12, -0.02]])
    claim = np.array([[30.0, -4e-12], [1e-16, -0.02]])
    for x in (0.7, -np.sum(slopes)):  # then forces cancel: the next x is zero, but not more exact for that
        row = Curve(lambda a: slopes * a, ones, claim).check(x)
        assert row.status == AGREES and row.error < 1e-9
    for x in (0.7, 0.0):
        assert Curve(lambda a: 1e-15 * (slopes * (a - 1)), ones, 0.8e-15 * slopes).check(x).status == NO_INFLUENCE
    # what is above that is judged by its own size
    slopes[0, 1], claim[0, 1] = 1e-6, 0.0
    row = Curve(lambda a: slopes * a, ones, claim).check()
    assert row.status == WRONG and row.index == (0, 1)


def test_rounding_does_not_explain_an_error_that_it_is_smaller_than():
    # beside a state of a thousand, no step size shows a slope of 1e-4 to the tolerance
    for factor, status in ((1.0, AGREES), (1.001, WRONG), (0.9, WRONG)):
        assert Curve(lambda a: 1e-4 * np.sin(a), [1.0], factor * 1e-4 * np.cos(1.0)).check(1e3).status == status


def test_noise_of_the_loss_is_measured():
    """What a solver leaves may be far above rounding; right gradients are right all the same, and wrong ones wrong."""
    for noise, off in ((1e-8, 1e-2), (1e-10, 1e-3), (0.0, 2e-6)):
        function = lambda a, noise=noise: np.sin(a) + noise * np.sin(1e13 * a)  # noqa: E731
        right = np.cos(np.array([0.4, 1.0]))
        assert Curve(function, [0.4, 1.0], right).check().status == AGREES
        row = Curve(function, [0.4, 1.0], right * [1, 1 - off]).check()
        assert row.status == WRONG and row.index == (1,), noise


@pytest.mark.parametrize("noise", [3e-14, 1e-13])
def test_noise_that_only_longer_moves_show(noise):
    """What a solver iterates on may not change under tiny moves, and by more than rounding under longer ones."""
    for at in np.linspace(0.3, 1.2, 40):
        function = lambda a: 1e-7 * np.sin(a) + noise * np.sin(np.round(a * 1e6) ** 2)  # noqa: E731
        assert Curve(function, [at], 1e-7 * np.cos(at)).check(3.0).status == AGREES
        assert Curve(function, [at], 1.01e-7 * np.cos(at)).check(3.0).status == WRONG


def test_entries_are_moved_by_their_own_size():
    at = np.array([[0.9, 0.95, 3e-4, 0.5, 2.0]])
    right = np.where(at < 0.1, 400 * np.cos(at / 3e-4), np.cos(at))
    function = lambda a: np.where(np.abs(a) < 0.1, 0.12 * np.sin(a / 3e-4), np.sin(a))  # noqa: E731
    row = Curve(function, at, right).check()
    assert row.status == AGREES and abs(row.slope - 2) < 0.1
    right[0, 2] *= 1 + 1e-5
    row = Curve(function, at, right).check()
    assert row.status == WRONG and row.index == (0, 2)
    # zeros, and what rounding leaves of them, are moved by the size of their vector
    seen = []
    Curve(lambda a: (seen.append(a.copy()), np.sin(a))[1], [[1.0, 0.0, 1e-17]], np.cos([[1.0, 0.0, 0.0]])).check()
    np.testing.assert_allclose(np.abs(seen).max(axis=(0, 1)), [1.03, 0.03, 0.03])


# the same with contacts
