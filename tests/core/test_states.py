"""States of any shape go through rollouts, checkpoints, cotangents of every form, Jacobians and the bindings."""

import pickle
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from swarm import Points, Swarm, SwarmState

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback import plan, tasks
from pullback.core.bars import Named
from pullback.core.trees import leaf_names, leaves, row, tree_map

jax.config.update("jax_enable_x64", True)

STEPS = 7
NAMES = ["points.x", "points.v", "heat", "count"]


def problem(dtype="float64"):
    """A System, a start, controls, and random cotangents of every state."""
    system = Swarm(dtype=dtype)
    rng = np.random.default_rng(0)
    bars = tree_map(lambda x: rng.normal(size=(STEPS + 1, *x.shape)), system.state())
    return system, system.state(), rng.normal(size=(STEPS, 2, 3)), {"points": bars.points, "heat": bars.heat}


def given(bars, which=slice(None)) -> dict:
    return {"points_bar": row(bars["points"], which), "heat_bar": bars["heat"][which]}


def loss(run, bars) -> float:
    return float(np.sum(bars["points"].x * run.points.x + bars["points"].v * run.points.v)) + float(
        np.sum(bars["heat"] * run.heat)
    )


def slopes(function, x: np.ndarray) -> list[np.ndarray]:
    """Central differences of a function by every entry of x, at two step sizes."""
    found = []
    for h in (1e-4, 1e-5):
        moves = h * np.eye(x.size).reshape(x.size, *x.shape)
        found.append(np.array([(function(x + m) - function(x - m)) / (2 * h) for m in moves]).reshape(x.shape))
    return found


def test_leaves_and_their_names():
    state = Swarm().state()
    assert leaf_names(state) == NAMES and [x.shape for x in leaves(state)] == [(2, 4, 3), (2, 4, 3), (2,), (2, 2)]


def test_gradients_by_everything():
    system, start, controls, bars = problem()

    def with_start(name):
        def value(x):
            points = start.points._replace(**{name: x}) if name in "xv" else start.points
            state = start._replace(points=points, **({"heat": x} if name == "heat" else {}))
            return loss(pb.rollout(system, state, controls), bars)

        return value

    def with_params(name):
        return lambda x: loss(pb.rollout(system, start, controls, params={name: x}), bars)

    found = pb.rollout(system, start, controls).pullback(**given(bars))
    per_world = pb.rollout(system, start, controls, params={"k": np.tile(system.params["k"], (2, 1))})
    compared = {
        "x": (found.state.points.x, slopes(with_start("x"), start.points.x)),
        "v": (found.state.points.v, slopes(with_start("v"), start.points.v)),
        "heat": (found.state.heat, slopes(with_start("heat"), start.heat)),
        "controls": (found.controls, slopes(lambda u: loss(pb.rollout(system, start, u), bars), controls)),
        "k": (found.params.k, slopes(with_params("k"), system.params["k"])),
        "c": (found.params.c, slopes(with_params("c"), system.params["c"])),
        "k per world": (
            per_world.pullback(**given(bars)).params.k,
            slopes(with_params("k"), np.tile(system.params["k"], (2, 1))),
        ),
    }
    for name, (gradient, differences) in compared.items():
        errors = [np.abs(gradient - each).max() / np.abs(gradient).max() for each in differences]
        assert np.abs(gradient).min() > 1e-6 and errors[1] < 1e-8 and errors[0] < 1e-5, name


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("every", [2, 3, 50, (4, 2)])
def test_checkpoints_and_forms_of_cotangents(dtype, every):
    """Every state's, those of kept states, the last one's and a function's: bit for bit, with fields of every rank."""
    system, start, controls, bars = problem(dtype)
    whole = pb.rollout(system, start, controls)
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    padded = {"points": tree_map(np.zeros_like, bars["points"]), "heat": np.zeros_like(bars["heat"])}
    for name in ("kept", "last"):
        rows = run.kept if name == "kept" else -1
        there = np.isin(np.arange(STEPS + 1), run.kept if name == "kept" else STEPS)
        mask = lambda x, there=there: x * there.reshape(-1, *(1,) * (x.ndim - 1))  # noqa: E731
        padded = {"points": tree_map(mask, bars["points"]), "heat": mask(bars["heat"])}
        same(run.pullback(**given(bars, rows)), whole.pullback(**given(padded)))
    reference = whole.pullback(**given(bars))
    same(run.pullback(**given(bars)), reference)
    x, v = bars["points"]
    functions = Points(lambda steps, states: x[steps], lambda steps, states: v[steps])
    same(run.pullback(points_bar=functions, heat_bar=lambda steps, states: bars["heat"][steps]), reference)
    part = run.pullback(points_bar=Points(None, v))  # of some arrays only
    zero = np.zeros_like(x)
    same(part, whole.pullback(points_bar=Points(zero, v)))


def same(first: pb.Bars, second: pb.Bars) -> None:
    for name, a, b in zip(NAMES, leaves(first.state), leaves(second.state), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(first.controls, second.controls)
    for name, bar in first.params.items():
        np.testing.assert_array_equal(bar, second.params[name], err_msg=name)
    assert np.abs(first.state.points.x).min() > 0 and np.abs(first.controls).min() > 0


def test_adjoints_of_inner_states():
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls)
    found = run.adjoints([4, 0], **given(bars))
    rest = pb.rollout(system, row(run.states, 4), controls[4:]).pullback(**given(bars, slice(4, None))).state
    np.testing.assert_allclose(found.points.x[0], rest.points.x, rtol=1e-12)
    np.testing.assert_allclose(found.heat[0], rest.heat, rtol=1e-12)
    assert np.abs(rest.points.x).min() > 0


def test_jacobians_and_pushforward():
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls)
    A, B = system.linearize(start, controls[0])
    assert A.shape == (2, 25, 25) and B.shape == (2, 25, 3)  # 12 places, 12 velocities, and heat

    def after(move, push):
        state = system.state_bar(start, np.concatenate([[move], [move]]))  # a state from its numbers, in both worlds
        moved = tree_map(lambda x, d: x + d.astype(x.dtype), start, state)
        return system.difference(start, system.step(moved, controls[0] + push))

    for column in range(28):
        error = []
        for h in (1e-3, 1e-5):
            e = h * np.eye(28)[column]
            quotient = (after(e[:25], e[25:]) - after(-e[:25], -e[25:])) / (2 * h)
            error.append(np.abs(quotient - np.concatenate([A, B], axis=2)[..., column]).max())
        assert error[1] < 1e-9, column
    pushed = run.pushforward(controls=np.ones((STEPS, 2, 3, 1)))
    pulled = run.pullback(**given(bars, -1))
    tangent = tree_map(np.squeeze, system.state_bar(run.states, pushed[..., 0]))
    direct = np.sum(bars["points"].x[-1] * tangent.points.x[-1]) + np.sum(bars["points"].v[-1] * tangent.points.v[-1])
    direct += np.sum(bars["heat"][-1] * tangent.heat[-1])
    np.testing.assert_allclose(direct, pulled.controls.sum(), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("every", [1, 3])
def test_torch(dtype, every):
    system, start, controls, bars = problem(dtype)
    kind = getattr(torch, dtype)
    tensors = tree_map(lambda x: torch.tensor(x), start)
    for leaf in leaves(tensors)[:3]:
        leaf.requires_grad_()
    u = torch.tensor(controls, dtype=kind, requires_grad=True)
    k = torch.tensor(system.params["k"], dtype=kind, requires_grad=True)
    states = pbt.rollout(system, tensors, u, params={"k": k}, checkpoint_every=every)
    assert isinstance(states, SwarmState) and isinstance(states.points, Points)
    assert states.count.dtype == torch.int64 and not states.count.requires_grad
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    wanted = run.pullback(**given(bars, run.kept))
    x_bar, v_bar, heat_bar = (torch.tensor(x[run.kept], dtype=kind) for x in (*bars["points"], bars["heat"]))
    ((states.points.x * x_bar).sum() + (states.points.v * v_bar).sum() + (states.heat * heat_bar).sum()).backward()
    close = {"rtol": 1e-12 if dtype == "float64" else 1e-4}
    np.testing.assert_allclose(tensors.points.x.grad, wanted.state.points.x, **close)
    np.testing.assert_allclose(tensors.heat.grad, wanted.state.heat, **close)
    np.testing.assert_allclose(u.grad, wanted.controls, **close)
    np.testing.assert_allclose(k.grad, wanted.params.k, **close)
    one = pbt.step(system, tensors, u[0])
    np.testing.assert_array_equal(one.points.v.detach(), system.step(start, controls[0].astype(dtype)).points.v)


@pytest.mark.parametrize("every", [1, 3])
def test_jax(every):
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    wanted = run.pullback(**given(bars, run.kept))
    x_bar, v_bar, heat_bar = (jnp.asarray(x[run.kept]) for x in (*bars["points"], bars["heat"]))

    def value(points, heat, u, k):
        state = SwarmState(points, heat, jnp.asarray(start.count))
        states = pbj.rollout(system, state, u, params={"k": k}, checkpoint_every=every)
        return jnp.sum(states.points.x * x_bar) + jnp.sum(states.points.v * v_bar) + jnp.sum(states.heat * heat_bar)

    inputs = (Points(*map(jnp.asarray, start.points)), jnp.asarray(start.heat), jnp.asarray(controls))
    points, heat, u, k = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*inputs, jnp.asarray(system.params["k"]))
    for mine, theirs in ((points.x, wanted.state.points.x), (heat, wanted.state.heat), (u, wanted.controls)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_allclose(k, wanted.params.k, rtol=1e-12)
    one = pbj.step(system, SwarmState(inputs[0], inputs[1], jnp.asarray(start.count)), inputs[2][0])
    np.testing.assert_allclose(one.points.v, system.step(start, controls[0]).points.v, rtol=1e-14)


# what goes wrong


class Flat(NamedTuple):
    x: Any


class Line(pb.System):
    """x' = a x + u, of shape (worlds,): a rank that a trajectory of others has."""

    worlds, nu, dtype, device = 3, 1, "float64", "cpu"

    def __init__(self):
        self.params = {"a": np.array(0.5)}

    def step(self, state, control, params=None):
        return Flat((params or self.params)["a"] * state.x + control[:, 0])

    def pullback(self, state, control, next_bar, params=None):
        a = (params or self.params)["a"]
        return pb.Bars(Flat(a * next_bar.x), next_bar.x[:, None], Named(a=np.sum(next_bar.x * state.x)))


def test_a_last_cotangent_of_rank_one_and_as_many_steps_as_worlds():
    """Shapes (worlds,) and (steps + 1, worlds): 3 and (3, 3)."""
    run = pb.rollout(Line(), Flat(np.array([1.0, 2.0, 4.0])), np.zeros((2, 3, 1)))
    last = run.pullback(x_bar=np.array([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(last.state.x, [0.25, 2.5, 25.0])
    np.testing.assert_allclose(last.controls[..., 0], [[0.5, 5.0, 50.0], [1.0, 10.0, 100.0]])
    every = run.pullback(x_bar=np.array([[0.0, 0, 0], [0, 0, 0], [1, 10, 100]]))
    np.testing.assert_array_equal(every.state.x, last.state.x)


def test_whole_numbers_are_taken_for_real_ones():
    whole = pb.rollout(Line(), Flat([1, 2, 4]), np.ones((4, 3, 1), dtype=int))
    real = pb.rollout(Line(), Flat(np.array([1.0, 2.0, 4.0])), np.ones((4, 3, 1)))
    np.testing.assert_array_equal(whole.x, real.x)
    a, b = (run.pullback(x_bar=np.ones(3)) for run in (whole, real))
    np.testing.assert_array_equal(a.controls, b.controls)
    np.testing.assert_array_equal(a.state.x, b.state.x)
    assert np.all(b.controls > 0) and a.controls.dtype == np.float64


def test_parameters_are_held_as_they_were():
    system, a = Line(), np.array(0.5)
    system.params = {"a": a}
    run = pb.rollout(system, Flat(np.ones(3)), np.zeros((2, 3, 1)))
    a[...] = 7.0  # in place
    np.testing.assert_allclose(run.pullback(x_bar=np.ones(3)).state.x, 0.25)


def test_states_of_a_run_are_read_only():
    system = pb.Articulated(pb.load(pb.robots.pendulum()))
    for run in (
        pb.rollout(Line(), Flat(np.ones(3)), np.zeros((2, 3, 1))),
        pb.rollout(system, system.state(), steps=3),
    ):
        for array in (*run.states, *run.final):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


BAD = {
    "parameter 'a' is not finite": {"params": {"a": np.nan}},
    "no parameter 'b'; there are a": {"params": {"b": 1.0}},
    r"parameter 'a' has shape \(2,\), but \(\) or \(3,\)": {"params": {"a": [1.0, 2.0]}},
    r"x has shape \(2,\), but its first axis must be worlds=3": {"state": Flat(np.ones(2))},
    "x is not finite at world 1": {"state": Flat(np.array([1.0, np.nan, 1.0]))},
    "a state is a NamedTuple of arrays": {"state": np.ones(3)},
    "x cannot be read as an array of numbers": {"state": Flat("rest")},
    r"controls has shape \(2, 3, 2\), but \(step=2, worlds=3, nu=1\)": {"controls": np.zeros((2, 3, 2))},
    "controls is not finite at step 1, worlds 2": {"controls": np.where(np.arange(6) < 5, 0, np.inf).reshape(2, 3, 1)},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_of_a_system_of_ones_own(message):
    case = {"state": Flat(np.ones(3)), "controls": np.zeros((2, 3, 1)), **BAD[message]}
    with pytest.raises(pb.PullbackError, match=message):
        pb.rollout(Line(), case.pop("state"), case.pop("controls"), **case)


def test_what_step_and_pullback_return_is_looked_at():
    class Wide(Line):
        def step(self, state, control, params=None):
            return Flat(np.ones(4))

    class Blown(Line):
        def step(self, state, control, params=None):
            return Flat(state.x * np.array([1.0, 1e200, 1.0]))

    class Sideways(Line):
        def pullback(self, state, control, next_bar, params=None):
            return pb.Bars(next_bar, next_bar.x, Named())

    class PerWorld(Line):
        def pullback(self, state, control, next_bar, params=None):
            return pb.Bars(next_bar, next_bar.x[:, None], Named(a=next_bar.x))

    start, controls = Flat(np.ones(3)), np.zeros((3, 3, 1))
    with pytest.raises(pb.PullbackError, match=r"x of the state that Wide.step returns has shape \(4,\)"):
        pb.rollout(Wide(), start, controls)
    with np.errstate(over="ignore"), pytest.raises(pb.PullbackError, match="blew up in world 1 at step 1: x is not"):
        pb.rollout(Blown(), start, controls)
    with pytest.raises(pb.PullbackError, match=r"control that Sideways.pullback returns has shape \(3,\)"):
        pb.rollout(Sideways(), start, controls).pullback(x_bar=np.ones(3))
    with pytest.raises(pb.PullbackError, match=r"parameter 'a' that PerWorld.pullback returns has shape \(3,\)"):
        pb.rollout(PerWorld(), start, controls).pullback(x_bar=np.ones(3))


def test_cotangents_that_do_not_fit():
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls)
    with pytest.raises(pb.PullbackError, match="points_bar must be a Points of cotangents, not ndarray"):
        run.pullback(points_bar=np.ones((2, 4, 3)))
    with pytest.raises(pb.PullbackError, match=r"points_bar.v has shape \(4, 3\), but \(8, 2, 4, 3\) for every state"):
        run.pullback(points_bar=Points(None, np.ones((4, 3))))
    with pytest.raises(pb.PullbackError, match=r"give \(state, controls\), or \(points, heat, count, controls\)"):
        pbt.rollout(system, torch.ones(2), torch.ones(7, 2, 3))


# check_system


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rollout_steps", [1, 3])
def test_check_system(dtype, rollout_steps):
    system = Swarm(dtype=dtype)
    report = pb.check_system(system, rollout_steps=rollout_steps)
    assert [row.field for row in report.rows] == ["points.x", "points.v", "heat", "control", "k", "c"]
    assert all(row.status == "agrees" and row.largest > 0.01 for row in report.rows)
    if dtype == "float64":
        assert max(row.error for row in report.rows) < 1e-8


def test_check_system_finds_an_error_inside_a_field():
    class Off(Swarm):
        def pullback(self, state, control, next_bar, params=None):
            bars = super().pullback(state, control, next_bar, params)
            bars.state.points.v[1, 2, 0] *= 1.0001
            return bars

    with pytest.raises(pb.PullbackError, match=r"gradient of 'points.v' is wrong at points.v\[2, 0\] \(world 1\)"):
        pb.check_system(Off())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_check_system_of_rank_one(dtype):
    class Other(Line):
        def __init__(self):
            super().__init__()
            self.dtype = dtype

        def step(self, state, control, params=None):
            return Flat(super().step(state, control, params).x.astype(self.dtype))

    pb.check_system(Other(), Flat(np.array([1.0, 2.0, 4.0])), np.ones((3, 1)), rollout_steps=3)


# what is built on Systems


def cooled():
    """The least heat after some steps: a task of a System with a nested state."""
    system = Swarm(worlds=1)

    def loss(run):
        return tasks.Loss(run.heat[-1] ** 2, {"heat_bar": 2 * run.heat[-1]})

    return tasks.Task(
        name="cooled",
        about="",
        system=system,
        start=system.state(),
        find=tasks.Controls(STEPS),
        loss=loss,
        metric=lambda run: run.heat[-1],
        target=0.5,
    )


def test_a_task():
    task = cooled()
    point = np.random.default_rng(0).normal(size=task.begin()[0].shape)
    found = task(np.stack([point, -point]), True)
    direction = np.random.default_rng(1).normal(size=point.shape)
    for h, tolerance in ((1e-4, 1e-6), (1e-5, 1e-8)):
        up, down = (task((point + s * direction)[None], False).losses[0] for s in (h, -h))
        exact = found.gradients[0] @ direction
        assert abs((up - down) / (2 * h) - exact) < tolerance * abs(exact)
    x, low, high = task.begin()
    first = task(x[None], False).losses[0]
    assert plan.minimise(task, x, plan.LBFGS(), iterations=25, low=low, high=high).losses[-1] < 0.95 * first


def test_the_first_guess_says_why_it_cannot_be_evaluated():
    class Wide(Swarm):
        def step(self, state, control, params=None):
            return super().step(state, control, params)._replace(heat=np.ones(4))

    x, low, high = cooled().begin()
    task = cooled().but(system=Wide(worlds=1))
    with pytest.raises(pb.PullbackError, match=r"first guess .*: heat of the state that Wide.step returns has shape"):
        plan.minimise(task, x, plan.LBFGS(), iterations=5, low=low, high=high)
    with pytest.raises(pb.PullbackError, match=r"a loss must return Loss\(values, bars\).*, not ndarray"):
        cooled().but(loss=lambda run: run.heat[-1])(x[None], True)


@pytest.mark.parametrize("every", [1, 3])
def test_copies_and_pickles(every):
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    again = pickle.loads(pickle.dumps(run))
    same(again.pullback(**given(bars)), run.pullback(**given(bars)))
    np.testing.assert_array_equal(again.final.points.x, run.final.points.x)
    with pytest.raises(ValueError, match="read-only"):
        again.points.x[...] = 0
    assert "points.x (2, 4, 3)" in repr(run.pullback(**given(bars)))
