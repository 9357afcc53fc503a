"""The contract: a System with nothing but step and pullback goes through rollouts and checkpoints."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback.core.bars import Named


class Point(NamedTuple):
    x: Any


class Damped(pb.System):
    """x' = x - rate x³ + control: one number a world, nothing but the contract."""

    worlds, nu, dtype, device = 3, 1, "float64", "cpu"
    params = {"rate": np.array(0.1)}

    def _rate(self, params):
        return (params or self.params)["rate"]

    def step(self, state, control, params=None):
        return Point(state.x - self._rate(params) * state.x**3 + control)

    def pullback(self, state, control, next_bar, params=None):
        x_bar = next_bar.x * (1 - 3 * self._rate(params) * state.x**2)
        return pb.Bars(Point(x_bar), next_bar.x, Named(rate=-np.sum(next_bar.x * state.x**3)))


class Stepped(pb.System):
    """An articulated System seen through the contract alone, without its fused rollouts."""

    def __init__(self, inner: pb.Articulated):
        self.inner = inner
        self.worlds, self.nu, self.dtype, self.device = inner.worlds, inner.nu, inner.dtype, inner.device
        self.params = inner.params

    def step(self, state, control, params=None):
        return self.inner.step(state, control, params)

    def pullback(self, state, control, next_bar, params=None):
        return self.inner.pullback(state, control, next_bar, params)


@pytest.mark.parametrize("every", [1, 2, 5, 20])
def test_a_system_of_ones_own(every):
    system = Damped()
    rng = np.random.default_rng(0)
    start, controls, bars = rng.normal(size=(3, 1)), 0.1 * rng.normal(size=(7, 3, 1)), rng.normal(size=(8, 3, 1))

    def loss(x, u, rate) -> float:
        return float(np.sum(bars * pb.rollout(system, Point(x), u, params={"rate": rate}).x))

    run = pb.rollout(system, Point(start), controls, checkpoint_every=every)
    np.testing.assert_array_equal(run.x, pb.rollout(system, Point(start), controls).x[run.kept])
    found = run.pullback(x_bar=bars)
    h = 1e-6
    for world in range(3):
        move = h * np.eye(3)[:, [world]]
        exact = (loss(start + move, controls, 0.1) - loss(start - move, controls, 0.1)) / (2 * h)
        np.testing.assert_allclose(found.state.x[world, 0], exact, rtol=1e-7)
    exact = (loss(start, controls, 0.1 + h) - loss(start, controls, 0.1 - h)) / (2 * h)
    np.testing.assert_allclose(found.params.rate, exact, rtol=1e-7)
    move = np.zeros(controls.shape)
    move[2, 1] = h
    exact = (loss(start, controls + move, 0.1) - loss(start, controls - move, 0.1)) / (2 * h)
    np.testing.assert_allclose(found.controls[2, 1, 0], exact, rtol=1e-7)
    assert not run.pullback(x_bar=bars, wants_params=False).params


@pytest.mark.parametrize("every", [1, 10])
def test_gradients_that_overflow_are_refused(every):
    class Steep(Damped):
        """At rest at zero, where the slope is 1; in the last world it claims to be more."""

        def pullback(self, state, control, next_bar, params=None):
            return super().pullback(state, control, Point(next_bar.x * [[1.0], [1.0], [slope]]), params)

    run = pb.rollout(Steep(), Point(np.zeros((3, 1))), np.zeros((40, 3, 1)), checkpoint_every=every)
    slope = 1e7
    assert run.pullback(x_bar=np.ones((3, 1))).state.x[2] > 1e200  # whose square overflows
    slope = 1e8
    with np.errstate(all="ignore"), pytest.raises(pb.PullbackError, match="precision in world 2: x_bar is inf"):
        run.pullback(x_bar=np.ones((3, 1)))


@pytest.mark.parametrize("every", [1, 3])
def test_the_plain_loop_agrees_with_the_fused_one(every):
    inner = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=2)
    rng = np.random.default_rng(0)
    start = inner.state(None, 0.3 * rng.normal(size=(2, inner.nv)))
    controls = rng.normal(size=(8, 2, inner.nu))
    q_bar, v_bar = rng.normal(size=(9, 2, inner.nq)), rng.normal(size=(9, 2, inner.nv))
    q_bar[0] = v_bar[0] = 0
    fused = pb.rollout(inner, start, controls, checkpoint_every=every)
    plain = pb.rollout(Stepped(inner), start, controls, checkpoint_every=every)
    np.testing.assert_array_equal(plain.q, fused.q)
    a, b = (run.pullback(q_bar=q_bar, v_bar=v_bar) for run in (fused, plain))
    np.testing.assert_allclose(b.state.q, a.state.q, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(b.controls, a.controls, rtol=1e-9, atol=1e-12)
    for name, bar in a.params.items():
        np.testing.assert_allclose(b.params[name], bar, rtol=1e-9, atol=1e-9, err_msg=name)


class Both(NamedTuple):
    a: Any
    b: Any


class Twisted(pb.System):
    """a' = a + 0.1 sin(b₀) a + u, b' = b + 0.1 a₀ b² : two fields and two controls, for the tangent space as it is."""

    worlds, nu, dtype, device = 2, 2, "float64", "cpu"

    def step(self, state, control, params=None):
        a, b = state
        return Both(a + 0.1 * np.sin(b[..., :1]) * a + control, b + 0.1 * a[..., :1] * b**2)

    def pullback(self, state, control, next_bar, params=None):
        (a, b), (a_bar, b_bar) = state, next_bar
        back = Both(a_bar * (1 + 0.1 * np.sin(b[..., :1])), b_bar * (1 + 0.2 * a[..., :1] * b))
        back.a[..., :1] += 0.1 * (b_bar * b**2).sum(axis=-1, keepdims=True)
        back.b[..., :1] += 0.1 * np.cos(b[..., :1]) * (a_bar * a).sum(axis=-1, keepdims=True)
        return pb.Bars(back, a_bar, Named())


def test_the_tangent_space_of_plain_numbers():
    rng = np.random.default_rng(0)
    system = Twisted()
    start, end = (Both(rng.normal(size=(5, 2, 2)), rng.normal(size=(5, 2, 3))) for _ in range(2))
    moved = system.difference(start, end, leading=2)
    assert moved.shape == (5, 2, 5)
    np.testing.assert_array_equal(moved[..., :2], end.a - start.a)
    np.testing.assert_array_equal(moved[..., 2:], end.b - start.b)
    bar = rng.normal(size=(5, 2, 5))
    np.testing.assert_array_equal(system.difference_jacobian(moved), np.broadcast_to(np.eye(5), (5, 2, 5, 5)))
    back = system.state_bar(end, bar)
    np.testing.assert_array_equal(back.a, bar[..., :2])
    np.testing.assert_array_equal(back.b, bar[..., 2:])


def test_jacobians_by_pullbacks():
    """Two worlds at once, every entry, against central differences at several steps."""
    rng = np.random.default_rng(1)
    system = Twisted()
    state, control = Both(rng.normal(size=(2, 2)), rng.normal(size=(2, 3))), rng.normal(size=(2, 2))
    A, B = system.linearize(state, control)
    assert A.shape == (2, 5, 5) and B.shape == (2, 5, 2)

    def stepped(move: np.ndarray) -> np.ndarray:
        a, b, u = move[:2], move[2:5], move[5:]
        return np.concatenate(system.step(Both(state.a + a, state.b + b), control + u), axis=-1)

    for column, direction in enumerate(np.eye(7)):
        exact = np.concatenate([A, B], axis=-1)[..., column]
        errors = [
            np.abs((stepped(h * direction) - stepped(-h * direction)) / (2 * h) - exact).max()
            for h in (1e-2, 1e-3, 1e-5)
        ]
        assert np.abs(exact).max() > 0.1 and errors[2] < 1e-9 and errors[1] <= 0.02 * errors[0] + 1e-12


def test_named_arrays():
    named = Named(mass=1, com=2)
    assert named.mass == named["mass"] == 1
    assert not hasattr(named, "inertia")
    with pytest.raises(AttributeError, match="no 'inertia'; there are mass, com"):
        _ = named.inertia


class Returns(Damped):
    """Pulls back to whatever it is told."""

    def __init__(self, bars):
        self.bars = bars

    def pullback(self, state, control, next_bar, params=None):
        return self.bars(Point(next_bar.x), next_bar.x)


def test_what_a_pullback_must_return():
    start, u = Point(np.ones((3, 1))), np.zeros((2, 3, 1))
    pull = lambda system: pb.rollout(system, start, u).pullback(x_bar=np.ones((3, 1)))  # noqa: E731
    check = lambda system: pb.check_system(system, start, u[0])  # noqa: E731
    linearize = lambda system: system.linearize(start, u[0])  # noqa: E731
    for call in (pull, check, linearize):
        with pytest.raises(pb.PullbackError, match=r"Returns.pullback must return pb.Bars\(.*\), not Point"):
            call(Returns(lambda x, u: x))
    for call in (pull, check):
        with pytest.raises(pb.PullbackError, match="gives no cotangent of 'rate'"):
            call(Returns(lambda x, u: pb.Bars(x, u)))
    run = pb.rollout(Returns(lambda x, u: pb.Bars(x, u)), start, u)
    assert run.pullback(x_bar=np.ones((3, 1)), wants_params=False).params == {}


def test_a_system_without_parameters_needs_none_in_its_bars():
    class Sum(Returns):
        params = {}

        def step(self, state, control, params=None):
            return Point(state.x + control)

    system, start = Sum(lambda x, u: pb.Bars(x, u)), Point(np.ones((3, 1)))
    found = pb.rollout(system, start, np.zeros((2, 3, 1))).pullback(x_bar=np.ones((3, 1)))
    assert found.params == {} and np.all(found.controls == 1)
    assert pb.check_system(system, start).passed


def test_names_that_are_not_there():
    run = pb.rollout(Damped(), Point(np.ones((3, 1))), np.zeros((2, 3, 1)))
    with pytest.raises(AttributeError, match=r"there is no attribute of a Run 'grads'; there are x, .*pullback\(\)"):
        _ = run.grads
    with pytest.raises(AttributeError, match="did you mean 'controls'"):
        _ = run.control
    with pytest.raises(pb.PullbackError, match="there is no parameter 'rat'; did you mean 'rate'?"):
        pb.rollout(Damped(), Point(np.ones((3, 1))), np.zeros((2, 3, 1)), params={"rat": 1.0})
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    with pytest.raises(pb.PullbackError, match="there is no parameter 'mas'; did you mean 'mass'?"):
        pb.rollout(system, system.state(), steps=1, params={"mas": 1.0})
    with pytest.raises(AttributeError, match="there is no parameter 'mas'; did you mean 'mass'?"):
        _ = system.params.mas


def test_a_system_must_step_and_step_back():
    class Half(pb.System):
        def step(self, state, control, params=None):
            return state

    with pytest.raises(TypeError, match="pullback"):
        Half()
