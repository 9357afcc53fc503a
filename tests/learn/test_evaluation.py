"""Evaluations: fixed starts, and MuJoCo itself as the plant."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pullback as pb  # noqa: E402
from pullback.envs import make  # noqa: E402
from pullback.envs.cartpole import CartPole  # noqa: E402
from pullback.learn import Policy, evaluate  # noqa: E402
from pullback.learn.evaluation import MuJoCo  # noqa: E402


def some_policy(env) -> Policy:
    generator = torch.Generator().manual_seed(0)
    policy = Policy(env.name, env.observation_size, env.action_size, hidden=(16,), generator=generator)
    policy.network.flat.data *= 3
    return policy


@pytest.mark.parametrize("name", ["pendulum-3", "ant"])
def test_in_mujoco_a_policy_does_the_same(name):
    env = make(name, dtype="float64")
    policy = some_policy(env).double()
    here = evaluate(policy, env, starts=3, steps=25)
    there = evaluate(policy, env, starts=3, steps=25, plant="mujoco")
    np.testing.assert_allclose(here.returns, there.returns, rtol=1e-7)
    assert here.returns.std() >= 0 and np.abs(here.returns).max() > 0.01
    finer = evaluate(policy, env, starts=3, steps=25, plant="mujoco", timestep=env.system.dt / 5)
    gap = np.abs(finer.returns - here.returns).max()
    assert 1e-6 < gap < 0.2 * np.abs(here.returns).max()


@pytest.mark.parametrize(("timestep", "hold"), [(0.0010417, 16), (0.0009803922, 17), (None, 1)])
def test_timesteps_of_mujoco_fill_a_control_step(timestep, hold):
    """Rounded ones are made to fit."""
    env = make("pendulum-1", 1)
    plant = MuJoCo(env, timestep)
    assert plant.hold == hold and plant.model.opt.timestep == env.control_dt / hold


def test_starts_are_decided_by_the_seed_alone():
    env = make("ant", 2)
    policy = some_policy(env)
    first, again, other = (evaluate(policy, env, starts=3, steps=5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.returns, again.returns) and not np.array_equal(first.returns, other.returns)


def test_an_episode_that_ended_counts_no_longer():
    env = make("ant", 2)
    env.terminated = lambda state: state.age >= 4
    found = evaluate(some_policy(env), env, starts=3, steps=9)
    assert list(found.lengths) == [4] * 3 and not found.survived.any()
    env.terminated = lambda state: state.age >= 400
    short = evaluate(some_policy(env), env, starts=3, steps=4)
    np.testing.assert_array_equal(found.returns, short.returns)
    assert short.survived.all()


def test_bad_input_is_named():
    env = make("pendulum-1")
    with pytest.raises(pb.PullbackError, match="plant='drake' is not known: use 'pullback' or 'mujoco'"):
        evaluate(some_policy(env), env, plant="drake")
    with pytest.raises(pb.PullbackError, match="of 0.01666667 s is not a multiple of 0.001 s: try 0.0009803922"):
        evaluate(some_policy(env), env, plant="mujoco", timestep=0.001)
    with pytest.raises(pb.PullbackError, match="is not a multiple of 0.1 s: try 0.01666667"):
        evaluate(some_policy(env), env, plant="mujoco", timestep=0.1)
    with pytest.raises(pb.PullbackError, match="timestep is for plant='mujoco'"):
        evaluate(some_policy(env), env, timestep=0.01)
    with pytest.raises(pb.PullbackError, match="the policy is for 'pendulum-1' .* not for 'ant'"):
        evaluate(some_policy(env), make("ant"))
    with pytest.raises(pb.PullbackError, match="the policy is for 'pendulum-1' .* not for 'pendulum-2'"):
        evaluate(some_policy(env), "pendulum-2")
    with pytest.raises(pb.PullbackError, match="env must be a Environment, such as .*, not type"):
        evaluate(some_policy(env), type(env))
    with pytest.raises(pb.PullbackError, match="a Policy or a function, not 'policy.npz': Policy.load reads a file"):
        evaluate("policy.npz", env)
    with pytest.raises(pb.PullbackError, match="steps must be a whole number of at least 1, not 0"):
        evaluate(some_policy(env), env, steps=0)
    with pytest.raises(pb.PullbackError, match="starts must be a whole number of at least 1, not 0"):
        evaluate(some_policy(env), env, starts=0)


class Heavy(CartPole):
    def make_system(self, worlds, dtype, device):
        system = super().make_system(worlds, dtype, device)
        system.params["mass"] = 5 * system.params["mass"]
        return system


def test_mujoco_refuses_a_robot_that_is_not_its_own():
    options = {"starts": 2, "steps": 3}
    push = lambda seen: torch.ones(len(seen), 1)  # noqa: E731
    light, heavy = (evaluate(push, env, **options).returns for env in (CartPole(), Heavy()))
    assert not np.allclose(light, heavy)
    with pytest.raises(pb.PullbackError, match="has the robot as model.. gives it, but mass was changed"):
        evaluate(push, Heavy(), plant="mujoco", **options)


def test_functions_may_be_numpy_s_and_are_clipped():
    # As those of adapters are: a reward for little effort is not for actions that no robot takes.
    env, options = make("half-cheetah"), {"starts": 2, "steps": 3}
    full = evaluate(lambda seen: torch.ones(2, 6), env, **options)
    beyond = evaluate(lambda seen: np.full((len(seen), 6), 5.0), env, **options)
    np.testing.assert_array_equal(full.returns, beyond.returns)
    assert np.allclose(full.terms["effort"], -0.6)
