"""Environments through stable-baselines3: against its own vector of single environments, and in its PPO."""

import warnings

import numpy as np
import pytest
import torch
from falling import Falling, pushes
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from pullback import PullbackError
from pullback.envs.gymnasium import Env
from pullback.envs.stable_baselines import VecEnv


def test_like_its_own_vector_of_single_environments():
    worlds = 4
    ours, theirs = VecEnv(Falling(worlds)), DummyVecEnv([lambda: Monitor(Env(Falling()))] * worlds)
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    ends = {True: 0, False: 0}
    for action in pushes(worlds, 40):
        seen, reward, done, infos = ours.step(action)
        seen_there, reward_there, done_there, infos_there = theirs.step(action)
        np.testing.assert_allclose(seen, seen_there, rtol=1e-6)
        np.testing.assert_allclose(reward, reward_there, rtol=1e-6)
        np.testing.assert_array_equal(done, done_there)
        for world, (info, there) in enumerate(zip(infos, infos_there, strict=True)):
            assert info["TimeLimit.truncated"] == there["TimeLimit.truncated"]
            assert ("terminal_observation" in info) == ("episode" in info) == done[world]
            if done[world]:
                np.testing.assert_allclose(info["terminal_observation"], there["terminal_observation"], rtol=1e-6)
                assert not np.array_equal(info["terminal_observation"], seen[world])
                assert info["episode"]["r"] == pytest.approx(there["episode"]["r"], abs=2e-6)
                assert info["episode"]["l"] == there["episode"]["l"]
                assert sum(info["reward_terms"].values()) == pytest.approx(info["episode"]["r"], abs=1e-6)
                ends[info["TimeLimit.truncated"]] += 1
    assert min(ends.values()) >= 4


def learned(seed: int) -> PPO:
    env = VecEnv("pendulum-1", 4, spread=0.2)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=2, seed=seed, device="cpu")
    return model.learn(384)


def test_ppo_learns_the_same_from_the_same_seed():
    one, again, other = learned(0), learned(0), learned(1)
    weights = [torch.cat([x.flatten() for x in m.policy.parameters()]).detach() for m in (one, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert one.num_timesteps == 384
    # Its statistics come from infos: 96 steps of four worlds are no whole episode of 100 yet, a fourth round ends them.
    one.learn(128, reset_num_timesteps=False)
    assert [info["l"] for info in one.ep_info_buffer] == [100] * 4
    # d² at the start is 0.4 to 0.6 m²; it falls to 0 at best, and at the end counts once more, up to 1 m².
    assert all(-1.6 <= info["r"] <= 0.6 for info in one.ep_info_buffer), one.ep_info_buffer


def test_its_evaluation_and_wrappers():
    env = VecEnv(Falling(3))
    model = PPO("MlpPolicy", VecNormalize(env), n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(48)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns of environments whose episodes nobody monitors
        returns, lengths = evaluate_policy(model, env, n_eval_episodes=6, return_episode_rewards=True)
    assert len(returns) == 6 and max(lengths) <= 9 and min(lengths) >= 3
    assert env.get_attr("limit") == [9, 9, 9] and not env.has_attr("nonsense")
    assert env.env_method("random", 0, indices=[1])[0].worlds == 3


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_its_factory_makes_registered_environments():
    env = make_vec_env("pullback/Pendulum1-v0", n_envs=2, seed=0)
    env.reset()
    for _ in range(100):
        *_, done, infos = env.step(np.zeros((2, 1)))
    assert done.all() and infos[0]["TimeLimit.truncated"] and infos[1]["episode"]["l"] == 100


def test_seeds():
    def start(seed):
        env = VecEnv("pendulum-2", 3, spread=0.3)
        env.seed(seed)
        return env.reset()

    np.testing.assert_array_equal(start(5), start(5))
    assert not np.array_equal(start(5), start(6)) and not np.array_equal(start(None), start(None))


def test_bad_input_is_one_line():
    env = VecEnv("pendulum-1", 2)
    env.reset()
    for action, message in ((np.zeros((3, 1)), "(worlds=2, actions=1)"), (np.full((2, 1), np.nan), "world 0")):
        with pytest.raises(PullbackError) as error:
            env.step(action)
        assert message in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(PullbackError, match="same in all worlds"):
        env.set_attr("limit", 5, indices=[0])
