"""Failure as data: worlds that cannot go on are masked, and the others do not notice."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from swarm import Swarm

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback.core.trees import leaves, tree_map

jax.config.update("jax_enable_x64", True)

STEPS, WORLDS, BAD = 6, 8, 5


@pytest.fixture(scope="module")
def robots():
    """Quadrupeds that fall on their feet, and the same with one that is thrown at 1e14 m/s."""
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact="impulse", worlds=WORLDS)
    rng = np.random.default_rng(0)
    v = 0.1 * rng.normal(size=(WORLDS, system.nv))
    controls = rng.uniform(-1, 1, size=(STEPS, WORLDS, system.nu))
    wild = v.copy()
    wild[BAD] = 1e14
    return system, system.state(v=v), system.state(v=wild), controls


def some_bars(run) -> dict:
    rng = np.random.default_rng(1)
    return {f"{name}_bar": rng.normal(size=x.shape) for name, x in run.states._asdict().items()}


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("hold", [1, 2])
def test_the_others_are_the_same_to_the_last_bit(robots, every, hold):
    system, healthy, wild, controls = robots
    options = {"hold": hold, "checkpoint_every": every}
    wanted = pb.rollout(system, healthy, controls, **options)
    run = pb.rollout(system, wild, controls, on_failure="mask", **options)
    others = np.arange(WORLDS) != BAD
    assert list(np.flatnonzero(run.status.failed)) == [BAD] == list(run.status.reasons)
    assert run.status.step[BAD] == 0 and np.all(run.status.step[others] == -1)
    assert "world 5" in run.status.reasons[BAD]
    np.testing.assert_array_equal(run.q[:, others], wanted.q[:, others])
    np.testing.assert_array_equal(run.q[:, BAD], np.stack([wild.q[BAD]] * len(run.q)))

    # with a parameter of each world's own, so that their gradients can be told apart
    mass = np.tile(system.params["mass"], (WORLDS, 1))
    bars = some_bars(run)
    wanted = pb.rollout(system, healthy, controls, params={"mass": mass}, **options).pullback(**bars)
    masked = pb.rollout(system, wild, controls, params={"mass": mass}, on_failure="mask", **options)
    found = masked.pullback(**bars)
    for mine, theirs, axis in (
        (found.state.q, wanted.state.q, 0),
        (found.state.v, wanted.state.v, 0),
        (found.controls, wanted.controls, 1),
        (found.params.mass, wanted.params.mass, 0),
    ):
        np.testing.assert_array_equal(np.compress(others, mine, axis), np.compress(others, theirs, axis))
        assert not np.any(np.take(mine, BAD, axis)) and np.all(np.isfinite(mine)) and np.abs(mine).max() > 0
    assert list(np.flatnonzero(found.status.failed)) == [BAD]
    # shared parameters have the sum of the others
    shared = pb.rollout(system, wild, controls, on_failure="mask", **options).pullback(**bars).params.mass
    np.testing.assert_allclose(shared, wanted.params.mass[others].sum(axis=0), rtol=1e-10, atol=1e-12)


def test_raising_stays_the_default(robots):
    system, _, wild, controls = robots
    with pytest.raises(pb.SimulationError, match="world 5") as caught:
        pb.rollout(system, wild, controls)
    assert caught.value.world == BAD
    with pytest.raises(pb.PullbackError, match="on_failure is 'raise' or 'mask', not 'skip'"):
        pb.rollout(system, wild, controls, on_failure="skip")


def test_too_many_contacts_stop_a_world():
    """In the middle of a rollout: it stays where it was before the step that could not be done."""
    model = pb.load(
        """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
        <body pos="0 0 0.1"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/></body></worldbody></mujoco>"""
    )
    system = pb.Articulated(model, pb.ContactConvex(max_contacts=3), worlds=2)
    q = np.tile(model.home.q, (2, 1))
    q[0, 2] = 0.0505  # falls on four corners after some steps; the other one stays in the air
    q[1, 2] = 1.0
    run = pb.rollout(system, system.state(q), steps=30, on_failure="mask")
    stopped = run.status.step[0]
    assert 1 < stopped < 20 and not run.status.failed[1] and "contacts" in run.status.reasons[0]
    np.testing.assert_array_equal(run.q[stopped:, 0], np.stack([run.q[stopped, 0]] * (31 - stopped)))
    assert run.q[stopped, 0, 2] < run.q[stopped - 1, 0, 2]
    bars = run.pullback(q_bar=np.ones_like(run.q))
    assert not np.any(bars.state.q[0]) and np.abs(bars.state.q[1]).max() > 0


def test_a_gradient_that_is_not_finite_is_masked():
    """A chaotic double pendulum in float32, long enough for one gradient to overflow and another to be harmless."""
    system = pb.Articulated(pb.load(pb.robots.chain(3)), contact=None, worlds=2, dtype="float32")
    q = np.zeros((2, system.nq))
    q[0] = 2.5
    run = pb.rollout(system, system.state(q), steps=40, on_failure="mask")
    huge = np.full((41, 2, system.nq), 1.0)
    huge[:, 0] = 3e38  # the sum of two is more than float32 holds
    found = run.pullback(q_bar=huge)
    assert list(found.status.failed) == [True, False] and not run.status.failed.any()
    assert not np.any(found.state.q[0]) and np.abs(found.state.q[1]).max() > 0
    assert np.all(np.isfinite(found.params.mass)) and "grew beyond float32" in found.status.reasons[0]


def test_bindings(robots):
    system, healthy, wild, controls = robots
    run = pb.rollout(system, wild, controls, on_failure="mask")
    bars = some_bars(run)
    wanted = run.pullback(**bars)
    status, u = pb.Status(), torch.tensor(controls, requires_grad=True)
    states = pbt.rollout(system, tree_map(torch.tensor, wild), u, status=status)
    sum((x * torch.tensor(bar)).sum() for x, bar in zip(states, bars.values(), strict=True)).backward()
    np.testing.assert_allclose(u.grad, wanted.controls, rtol=1e-12)
    assert list(np.flatnonzero(status.failed)) == [BAD]

    status = pb.Status()

    def loss(u):
        states = pbj.rollout(system, tree_map(jnp.asarray, wild), u, status=status)
        return sum(jnp.sum(x * bar) for x, bar in zip(states, bars.values(), strict=True))

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(jnp.asarray(controls)), wanted.controls, rtol=1e-12)
    assert list(np.flatnonzero(status.failed)) == [BAD]


@pytest.mark.parametrize("every", [1, 3])
def test_a_system_of_ones_own(every):
    system = Swarm(worlds=3)
    controls = np.random.default_rng(0).normal(size=(STEPS, 3, 3))
    wild = controls.copy()
    wild[2, 1] = 1e308  # its square is more than float64 holds, one step later
    wanted = pb.rollout(system, system.state(), controls, checkpoint_every=every)
    with np.errstate(over="ignore"):
        run = pb.rollout(system, system.state(), wild, on_failure="mask", checkpoint_every=every)
    assert list(run.status.failed) == [False, True, False] and run.status.step[1] == 3
    bar = np.ones(3)
    with np.errstate(over="ignore"):
        found = run.pullback(heat_bar=bar)
    expected = wanted.pullback(heat_bar=bar)
    for mine, theirs in zip(leaves(found.state), leaves(expected.state), strict=True):
        np.testing.assert_array_equal(mine[[0, 2]], theirs[[0, 2]])
        assert not np.any(mine[1])
    np.testing.assert_array_equal(found.controls[:, [0, 2]], expected.controls[:, [0, 2]])
    assert not np.any(found.controls[:, 1]) and np.abs(found.controls).max() > 0


def test_a_status_pickles(robots):
    system, _, wild, controls = robots
    status = pb.rollout(system, wild, controls, on_failure="mask").status
    again = pickle.loads(pickle.dumps(status))
    np.testing.assert_array_equal(again.failed, status.failed)
    assert again.reasons == status.reasons and repr(again) == "Status(1 of 8 worlds failed)"


def test_a_status_that_is_used_again_changes_no_gradient_before(robots):
    """A loop of steps in torch has one Status, which each of them fills in."""
    system, healthy, wild, controls = robots
    status, alone = pb.Status(), pb.Status()
    u = torch.tensor(controls[:1], requires_grad=True)
    first = pbt.rollout(system, tree_map(torch.tensor, wild), u, status=status)
    pbt.rollout(system, tree_map(torch.tensor, healthy), u.detach(), status=status)
    first.v.sum().backward()
    again = torch.tensor(controls[:1], requires_grad=True)
    pbt.rollout(system, tree_map(torch.tensor, wild), again, status=alone).v.sum().backward()
    np.testing.assert_array_equal(u.grad, again.grad)
    assert not torch.any(u.grad[:, BAD]) and torch.any(u.grad) and not status.failed.any()


def test_states_between_checkpoints_stay_where_they_were(robots):
    system, _, wild, controls = robots
    options = {"hold": 2, "on_failure": "mask"}
    every = pb.rollout(system, wild, controls, **options)
    run = pb.rollout(system, wild, controls, checkpoint_every=2, **options)
    for index in range(3):
        np.testing.assert_array_equal(run.piece(index).q, every.q[2 * index : 2 * index + 3])
    fine = every.timesteps()
    bars = some_bars(every)
    spread = {name: np.zeros((2 * STEPS + 1, *bar.shape[1:])) for name, bar in bars.items()}
    for name, bar in bars.items():
        spread[name][::2] = bar
    found = fine.pullback(**spread)
    assert not np.any(found.controls[:, BAD]) and np.any(found.controls)
    pushed = every.pushforward(controls=np.ones((*controls.shape, 1)))
    assert not np.any(pushed[:, BAD]) and np.any(pushed)


def test_a_status_that_nobody_filled_in():
    for ask in ("failed", "step", "reasons"):
        with pytest.raises(pb.PullbackError, match="not filled in"):
            getattr(pb.Status(), ask)


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_step_that_refuses_a_world(worlds):
    """An error that names worlds is a failure of those; of a System in one world it need not name it."""

    class Cold(Swarm):
        def step(self, state, control, params=None):
            hot = np.flatnonzero(state.heat > 3.0)
            if len(hot):
                raise pb.PullbackError("too hot", worlds=hot if worlds > 1 else ())
            return super().step(state, control, params)

    system, last = Cold(worlds=worlds), worlds - 1
    controls = np.random.default_rng(0).normal(size=(STEPS, worlds, 3))
    controls[2, last] = 30.0
    run = pb.rollout(system, system.state(), controls, on_failure="mask")
    assert list(np.flatnonzero(run.status.failed)) == [last] and run.status.reasons[last] == "too hot"
    stopped = run.status.step[last]
    assert 2 < stopped < STEPS
    np.testing.assert_array_equal(run.heat[stopped:, last], run.heat[stopped, last])
    bars = run.pullback(heat_bar=np.ones(worlds))
    assert not np.any(bars.controls[:, last])
    if worlds > 1:
        others = pb.rollout(Swarm(worlds=worlds), system.state(), controls)
        np.testing.assert_array_equal(run.heat[:, :last], others.heat[:, :last])
        wanted = others.pullback(heat_bar=np.ones(worlds)).controls[:, :last]
        np.testing.assert_array_equal(bars.controls[:, :last], wanted)
        assert np.abs(wanted).max() > 0
    with pytest.raises(pb.PullbackError, match="too hot"):
        pb.rollout(system, system.state(), controls)


def test_a_control_that_blows_up_a_system_of_ones_own():
    class Steep(Swarm):
        """Pushed by the exponential of the control: neither it nor its slope is finite for 1e4."""

        def step(self, state, control, params=None):
            return super().step(state, np.exp(control), params)

        def pullback(self, state, control, next_bar, params=None):
            bars = super().pullback(state, np.exp(control), next_bar, params)
            return pb.Bars(bars.state, bars.control * np.exp(control), bars.params)

    controls = np.zeros((STEPS, 2, 3))
    controls[2, 1] = 1e4
    with np.errstate(all="ignore"):
        run = pb.rollout(Steep(), Steep().state(), controls, on_failure="mask")
        bars = run.pullback(heat_bar=np.ones(2))
    assert list(run.status.failed) == [False, True]
    assert not np.any(bars.controls[:, 1]) and np.all(np.isfinite(bars.controls)) and np.any(bars.controls[:, 0])
