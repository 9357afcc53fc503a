"""Every environment that ships: starts, rewards with gradients, resets, failures, and MuJoCo as the other simulator."""

from functools import cache

import mujoco
import numpy as np
import pytest
import torch

from pullback.core.errors import PullbackError
from pullback.envs import ENVS, detached, make
from pullback.learn.evaluation import MuJoCo, evaluate

each_env = pytest.mark.parametrize("name", ENVS)
ON_THE_FLOOR = ("hopper", "half-cheetah", "ant", "ant-seed", "quadruped", "humanoid")


@cache
def build(name, worlds=8, dtype="float64"):
    spread = {"spread": 0.2} if name.startswith("pendulum") else {}
    return make(name, worlds, dtype=dtype, **spread)


def actions_of(env, steps, *, size=0.5, seed=0):
    shape = (steps, env.worlds, env.action_size)
    return size * env.tensor(np.random.default_rng(seed).uniform(-1, 1, shape))


def bits_of(state):
    return [*state.physics, state.action, state.age, *state.extra.values()]


def assert_same(one, other, worlds=slice(None)):
    for x, y in zip(bits_of(one), bits_of(other), strict=True):
        assert torch.equal(x[worlds], y[worlds])


@each_env
def test_says_what_it_is(name):
    env = build(name)
    assert env.name == name and 10 < len(env.about) < 100 and "\n" not in env.about
    state = env.reset(env.random(0))
    assert env.observe(state).shape == (env.worlds, env.observation_size)
    done = env.step(state, torch.zeros(env.worlds, env.action_size, dtype=env.dtype), env.random(1))
    env.check_reward(done)
    assert {x.shape for x in (done.reward, done.terminated, done.truncated, done.failed)} == {(env.worlds,)}
    assert torch.allclose(done.reward, sum(done.terms.values()))
    assert all(x.shape == (env.worlds,) for x in env.metrics(state, done.state.action, done.state).values())
    assert env.metrics(state, done.state.action, done.state)


@each_env
def test_starts_are_in_range_and_off_the_floor(name):
    env = build(name, 128)
    state, m = env.reset(env.random(3)), env.system.model.mujoco
    data, limited = mujoco.MjData(m), m.jnt_limited & (m.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)
    for q in state.physics.q.numpy():
        data.qpos[:] = q
        mujoco.mj_forward(m, data)
        assert min((c.dist for c in data.contact), default=0.0) > -0.02
        angles = q[m.jnt_qposadr[limited == 1]]
        low, high = m.jnt_range[limited == 1].T
        assert np.all((low <= angles) & (angles <= high))
    random = env.random(4)
    for _ in range(5):
        done = env.step(state, torch.zeros(env.worlds, env.action_size, dtype=env.dtype), random)
        assert not done.done.any()
        state = done.state


@each_env
def test_seeds_decide_and_worlds_differ(name):
    env = build(name)
    one, again, other = (env.reset(env.random(seed)) for seed in (0, 0, 1))
    assert_same(one, again)
    q = one.physics.q
    assert not torch.equal(q, other.physics.q)
    assert all(not torch.equal(q[i], q[j]) for i in range(env.worlds) for j in range(i))


@each_env
def test_gradients_of_rewards_by_actions(name):
    """Three control steps along random directions. A world at a kink of contact does not spoil the median."""
    env, steps = build(name, 24), 3
    random = env.random(0)
    with torch.no_grad():  # down to the floor
        start = env.reset(random)
        for action in actions_of(env, 15, size=0.2, seed=1):
            start = env.step(start, action, random).state
    start = detached(start)

    def reward(actions):
        state, total, again = start, 0.0, env.random(1)
        for action in actions:
            done = env.step(state, action, again)
            assert not done.failed.any()
            state, total = done.state, total + done.reward
        return total

    actions = actions_of(env, steps).requires_grad_()
    (gradient,) = torch.autograd.grad(reward(actions).sum(), actions)
    along = actions_of(env, steps, size=1.0, seed=2)
    slope = (gradient * along).sum(dim=(0, 2))
    errors = []
    with torch.no_grad():
        for size in (1e-3, 1e-4, 1e-5, 1e-6):
            change = (reward(actions + size * along) - reward(actions - size * along)) / (2 * size)
            errors.append((change - slope).abs() / torch.maximum(change.abs(), slope.abs()).clamp(min=1e-9))
    best = torch.stack(errors).amin(dim=0)
    assert slope.abs().median() > 1e-4  # zeros would not pass
    assert best.median() < 1e-5
    assert (best < 1e-2).double().mean() > 0.7


@each_env
def test_reset_where_leaves_the_others(name):
    env = build(name)
    random = env.random(0)
    state = env.reset(random)
    for action in actions_of(env, 2):
        state = env.step(state, action, random).state
    done = torch.arange(env.worlds) % 3 == 0
    new = env.reset_where(done, state, random)
    assert_same(new, state, ~done)
    assert torch.equal(new.age[done], torch.zeros_like(new.age[done])) and not new.action[done].any()
    assert (new.physics.q[done] != state.physics.q[done]).any(dim=1).all()


@each_env
def test_moves_as_in_mujoco(name):
    """Five control steps after the first contact, each simulator on its own."""
    env = build(name)
    random = env.random(0)
    with torch.no_grad():
        state = env.reset(random)
        for action in actions_of(env, 15, size=0.2, seed=1):
            state = env.step(state, action, random).state
        other, plant, randoms = state, MuJoCo(env), (env.random(1), env.random(1))
        plant.model.opt.tolerance, plant.model.opt.iterations = 0, 100
        for action in actions_of(env, 5):
            ours, theirs = env.step(state, action, randoms[0]), env.step(other, action, randoms[1], plant=plant)
            state, other = ours.state, theirs.state
            assert not (ours.failed | theirs.failed).any()
            torch.testing.assert_close(ours.reward, theirs.reward, rtol=1e-6, atol=1e-6)
    for one, two in zip(state.physics, other.physics, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)
    assert (sum(data.ncon for data in plant.data) > 0) == (name in ON_THE_FLOOR)


@each_env
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_world_that_fails_is_flagged_and_the_others_go_on(name, dtype):
    env = build(name, dtype=dtype)
    start, sick = env.reset(env.random(0)), torch.arange(env.worlds) == 2
    broken = start._replace(physics=start.physics._replace(v=start.physics.v.clone()))
    broken.physics.v[sick] = 0.5 * torch.finfo(env.dtype).max
    found = []
    for state in (start, broken):
        actions = actions_of(env, 2).requires_grad_()
        random, total, failed = env.random(1), 0.0, []
        for action in actions:
            done = env.step(state, action, random)
            state, total = done.state, total + done.reward
            failed.append(done)
        (gradient,) = torch.autograd.grad(total.sum(), actions)
        found.append((failed[0], state, gradient))
    (whole, after, gradient), (first, also, same) = found
    assert not whole.failed.any()
    assert torch.equal(first.failed, sick) and first.terminated[sick].all() and not first.reward[sick].any()
    assert_same(also, after, ~sick)
    assert torch.equal(first.reward[~sick], whole.reward[~sick])
    assert torch.equal(same[:, ~sick], gradient[:, ~sick]) and gradient[:, ~sick].any()
    assert torch.isfinite(same).all()
    assert torch.equal(first.state.physics.q[sick], start.physics.q[sick])


@each_env
def test_episodes_are_evaluated(name):
    """A policy that does nothing, for a short while: metrics have a row per start, and are finite."""
    env = build(name, dtype="float32")
    found = evaluate(lambda seen: torch.zeros(len(seen), env.action_size), env, starts=4, steps=3)
    assert found.returns.shape == (4,) and found.metrics
    assert all(np.isfinite(x).all() for x in found.metrics.values())


# what single environments promise


@pytest.mark.parametrize("links", [1, 3])
def test_pendulum_returns_are_by_the_end_alone(links):
    env = make(f"pendulum-{links}", 2, dtype="float64")
    random, total, share = env.random(0), 0.0, 0.0
    state = env.reset(random)
    for action in actions_of(env, env.limit):
        done = env.step(state, action, random)
        total, share = total + done.reward, share + env.metrics(state, action, done.state)["share"] / env.limit
        state = done.state
    assert done.truncated.all()
    expected = links**2 / 2 - 2 * env.distance(state)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(share, expected / (links**2 / 2))


def test_pendulum_of_other_lengths_is_refused():
    for links in (0, 8):
        with pytest.raises(PullbackError, match="links"):
            make("pendulum-1", links=links)


def test_cartpole_knows_upright():
    env = make("cartpole", 3, dtype="float64")
    state = env.reset(env.random(0))
    q = env.tensor([[0, np.pi], [0, np.pi + 0.1], [0, -np.pi - 0.3]])
    state = state._replace(physics=state.physics._replace(q=q, v=0 * q), age=state.age + env.limit)
    torch.testing.assert_close(env.angle(state), env.tensor([0, 0.1, -0.3]), atol=1e-12, rtol=0)
    torch.testing.assert_close(
        env.metrics(state, state.action, state)["upright"] > 0, torch.tensor([True, True, False])
    )
    early = state._replace(age=state.age - 50)
    assert not env.metrics(early, early.action, early)["upright"].any()
    assert torch.equal(env.step(state, 0 * state.action, env.random(0)).reward.argmax(), torch.tensor(0))


def test_quadruped_gets_another_command_after_ten_seconds():
    env = build("quadruped")
    random = env.random(0)
    state = env.reset(random)
    assert state.extra["command"].abs().max() <= 1
    state = state._replace(age=state.age + torch.where(torch.arange(env.worlds) < 4, 499, 498))
    after = env.step(state, 0 * state.action, random).state
    changed = (after.extra["command"] != state.extra["command"]).any(dim=1)
    assert torch.equal(changed, torch.arange(env.worlds) < 4)
    assert env.limit * env.control_dt == pytest.approx(20)


def test_quadruped_stands_when_asked_to_do_nothing_and_ends_when_it_falls():
    env = build("quadruped", 32, dtype="float32")
    random = env.random(0)
    state = env.reset(random)
    stood = torch.ones(env.worlds, dtype=torch.bool)
    for _ in range(100):
        done = env.step(state, 0 * state.action, random)
        stood &= ~done.terminated
        state = done.state
    assert stood.float().mean() > 0.9
    home = env.home()
    over = home.q.clone()
    over[0, 3:7] = env.tensor([np.cos(0.6), np.sin(0.6), 0, 0])  # 69° about x
    over[1, 2] = 0.04  # the trunk's box reaches 45 mm down
    over[2, 2] = 0.05
    state = state._replace(physics=home._replace(q=over))
    assert env.terminated(state).tolist()[:4] == [True, True, False, False]


def test_quadruped_sees_and_is_paid_in_its_own_axes():
    """Turned about z, the same motion has the same observation and reward, but for the command."""
    env = make("quadruped", 2, dtype="float64")
    state = env.reset(env.random(0))
    q, v = (x[:1].repeat(2, 1) for x in state.physics)
    turn = 1.1
    w, z = np.cos(turn / 2), np.sin(turn / 2)
    a, b, c, d = q[0, 3:7].tolist()
    q[1, 3:7] = env.tensor([w * a - z * d, w * b - z * c, w * c + z * b, w * d + z * a])
    cos, sin = np.cos(turn), np.sin(turn)
    v[1, 0], v[1, 1] = cos * v[0, 0] - sin * v[0, 1], sin * v[0, 0] + cos * v[0, 1]
    command = state.extra["command"][:1].repeat(2, 1)
    state = state._replace(physics=state.physics._replace(q=q, v=v), extra={"command": command})
    seen = env.observe(state)
    torch.testing.assert_close(seen[0], seen[1], atol=1e-12, rtol=0)
    reward = env.step(state, actions_of(env, 1)[0, :1].repeat(2, 1), env.random(0)).reward
    torch.testing.assert_close(reward[0], reward[1], atol=1e-9, rtol=0)


def test_ant_seed_is_paid_as_in_the_paper():
    env = make("ant-seed", 2, dtype="float64")
    state, action = env.reset(env.random(0)), actions_of(env, 1)[0]
    assert env.observation_size == 27 and env.control_dt == pytest.approx(0.05)
    done = env.step(state, action, env.random(0))
    moved = (done.state.physics.q[:, 0] - state.physics.q[:, 0]) / 0.05
    torch.testing.assert_close(done.reward, moved - 0.5 * (action**2).sum(1) + 1)


def test_a_class_is_no_name():
    with pytest.raises(PullbackError, match="the name of an environment must be a str, such as .*, not type"):
        make(type(build("cartpole")))


def test_an_unknown_name_is_refused():
    with pytest.raises(PullbackError, match="did you mean 'half-cheetah'"):
        make("half_cheetah")


@pytest.mark.parametrize("name", ["ant", "hopper"])
def test_without_gymnasium_the_robot_is_ours_and_moves_alike(name, monkeypatch):
    theirs = make(name, 4, dtype="float64")
    monkeypatch.setattr("pullback.envs.gymnasium_files.find_spec", lambda package: None)
    ours = make(name, 4, dtype="float64")
    assert theirs.system.model.home.q.shape == ours.system.model.home.q.shape
    assert "home" not in theirs.system.model.keyframes and "home" in ours.system.model.keyframes
    states = [env.reset(env.random(0)) for env in (ours, theirs)]
    for action in actions_of(ours, 20):
        states = [
            env.step(state, action, env.random(0)).state for env, state in zip((ours, theirs), states, strict=True)
        ]
    torch.testing.assert_close(states[0].physics.q, states[1].physics.q, rtol=0, atol=1e-8)


def test_control_steps_of_other_timesteps():
    """They stay as long as they are, and the physics converges."""
    found = []
    for timestep, hold in ((0.005, 4), (0.0025, 8), (0.0005, 40)):
        env = make("ant", dtype="float64", timestep=timestep)
        assert env.hold == hold and np.isclose(env.control_dt, 0.02) and np.isclose(env.system.dt, timestep)
        random = env.random(0)
        state = env.reset(random)
        found.append(env.step(state, torch.full((1, 8), 0.5, dtype=torch.float64), random).state.physics.v)
    coarse, fine = (float((x - found[-1]).norm()) for x in found[:2])
    assert 0 < fine < 0.7 * coarse
    with pytest.raises(PullbackError, match=r"0\.02 s is not a multiple of 0\.003 s: try 0\.002857143 s"):
        make("ant", timestep=0.003)
    with pytest.raises(PullbackError, match="'cartpole' has no other timestep"):
        make("cartpole", timestep=0.001)
    with pytest.raises(PullbackError, match="timestep"):
        make("ant", timestep=-1.0)
