"""Environments through rsl_rl: its interface, and its own runner."""

import numpy as np
import pytest
import torch
from falling import Falling, pushes
from rsl_rl.runners import OnPolicyRunner

from pullback import PullbackError
from pullback.envs.rsl_rl import VecEnv


def test_steps_are_those_of_the_environment():
    worlds = 4
    env, plain = VecEnv(Falling(worlds)), Falling(worlds)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (4, 1, 9)
    random = plain.random(0)
    state = plain.reset(random)
    np.testing.assert_array_equal(env.get_observations()["policy"], plain.observe(state))
    ends, returns = torch.zeros(2), {}
    for push in torch.tensor(pushes(worlds, 25)):
        after = plain.step(state, push, random)
        returns = {name: returns.get(name, 0) + x for name, x in after.terms.items()}
        seen, reward, dones, extras = env.step(push)
        assert torch.equal(reward, after.reward) and torch.equal(dones.bool(), after.done)
        assert torch.equal(extras["time_outs"], after.truncated)
        assert extras["log"]["Metrics/angle"] == after.state.physics.q[:, 0].mean()
        if after.done.any():
            for name, x in returns.items():
                assert extras["log"][f"Episode_Reward/{name}"] == pytest.approx(float(x[after.done].mean()), abs=1e-6)
            share = after.truncated[after.done].float().mean()
            assert extras["log"]["Episode_Termination/time_out"] == share
            returns = {name: torch.where(after.done, 0, x) for name, x in returns.items()}
        state = plain.reset_where(after.done, after.state, random)
        np.testing.assert_array_equal(seen["policy"], plain.observe(state))
        assert torch.equal(env.episode_length_buf, state.age)
        ends += torch.stack([after.terminated.sum(), after.truncated.sum()])
    assert (ends >= 4).all()


def test_lengths_set_by_the_runner_bring_the_time_limit_nearer():
    env = VecEnv(Falling(3))
    env.episode_length_buf = torch.tensor([8, 7, 0])
    up = torch.ones(3, 1)
    assert env.step(up)[3]["time_outs"].tolist() == [True, False, False]
    assert env.step(up)[3]["time_outs"].tolist() == [False, True, False]
    assert env.episode_length_buf.tolist() == [1, 0, 2]


def config() -> dict:
    network = {"class_name": "MLPModel", "hidden_dims": [16, 16], "activation": "elu"}
    distribution = {"class_name": "GaussianDistribution", "init_std": 1.0}
    return {
        "num_steps_per_env": 16,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
        "actor": {**network, "distribution_cfg": distribution},
        "critic": dict(network),
        "multi_gpu": None,
    }


def test_its_runner_learns(tmp_path):
    env = VecEnv("pendulum-1", 8, spread=0.2, seed=3, max_episode_length=20)
    torch.manual_seed(0)
    runner = OnPolicyRunner(env, config(), log_dir=str(tmp_path))
    before = torch.cat([x.flatten() for x in runner.alg.actor.parameters()]).detach().clone()
    runner.learn(3, init_at_random_ep_len=True)
    after = torch.cat([x.flatten() for x in runner.alg.actor.parameters()]).detach()
    assert (after - before).abs().max() > 1e-4
    assert len(runner.logger.lenbuffer) >= 16 and max(runner.logger.lenbuffer) <= 20
    # d² at the start is 0.4 to 0.6 m²; it falls to 0 at best, and at the end counts once more, up to 1 m².
    assert all(-1.6 <= total <= 0.6 for total in runner.logger.rewbuffer)


def test_bad_input_is_one_line():
    env = VecEnv("pendulum-1", 2)
    for action, message in ((torch.zeros(3, 1), "(worlds=2, actions=1)"), (torch.full((2, 1), torch.nan), "world 0")):
        with pytest.raises(PullbackError) as error:
            env.step(action)
        assert message in str(error.value) and "\n" not in str(error.value)
