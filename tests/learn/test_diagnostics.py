"""The check of a policy's gradients: right where they are right, and it says so where they are not."""

import math

import pytest
import torch

import pullback as pb
from pullback.envs import detached, make
from pullback.envs.pendulum import Pendulum
from pullback.learn import SAPO, Policy, diagnose
from pullback.learn.diagnostics import FixedWindow

SIZE = {"worlds": 16, "horizons": (1, 4)}


def policy_for(env, bias: float = 0.0) -> Policy:
    made = Policy(env.name, env.observation_size, env.action_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        made.network.flat[-2 * env.action_size : -env.action_size] = bias
    return made


def test_gradients_that_are_right():
    env = make("pendulum-2", spread=0.2)
    found = diagnose(policy_for(env), env, worlds=32, horizons=(8, 1, 2, 8))
    assert [row.steps for row in found.horizons] == [1, 2, 8] and found.right and found.worlds == 32
    for row in found.horizons:
        assert row.slope == pytest.approx(1.0, abs=1e-3) and row.gradient > 1e-4
        assert -1 <= row.cosine <= 1 and row.failed == 0
    assert found.saturated < 0.1 and 0.5 < found.slack < 1 and found.deviation == pytest.approx(math.exp(-1), rel=0.2)
    assert len(str(found).splitlines()) == 6


def test_the_gradient_is_that_of_autograd():
    """The way by cotangents of actions gives the same as to go back through everything."""
    env = make("pendulum-2", 8, dtype="float64", spread=0.2)
    policy = policy_for(env).double()
    noise = torch.randn(5, 8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    window = FixedWindow(policy, env, env.reset(env.random(2)), noise, 0)
    losses, observed, u, _ = window.simulate(policy.network.flat.detach())
    bars = torch.stack(torch.autograd.grad(losses.mean(), u))
    found = window.gradient(observed, bars)
    (wanted,) = torch.autograd.grad(window.simulate(policy.network.flat)[0].mean(), policy.network.flat)
    assert wanted.norm() > 1e-4 and (found - wanted).norm() < 1e-10 * wanted.norm()


class Cut(Pendulum):
    """Half of its reward has no gradient."""

    def reward(self, before, action, after):
        found = super().reward(before, action, after)
        return {**found, "unseen": 2 * found["approach"].detach()}


def test_a_gradient_that_is_cut_off():
    env = Cut(links=2, spread=0.2)
    found = diagnose(policy_for(env), env, **SIZE)
    assert not found.right and found.horizons[0].slope == pytest.approx(3.0, abs=0.05)


class Late(Pendulum):
    """Rewarded is where it was before the action, or a part of that without a gradient, or nothing."""

    paid = "before"

    def reward(self, before, action, after):
        angle = {"before": before, "cut": detached(after), "nothing": after}[self.paid].physics.q[:, 0]
        return angle if self.paid != "nothing" else 0 * angle.detach()


def test_a_window_in_which_actions_do_not_matter_is_not_wrong():
    env = Late(links=2, spread=0.2)
    found = diagnose(policy_for(env), env, **SIZE)
    assert math.isnan(found.horizons[0].slope) and found.slope == pytest.approx(1.0, abs=1e-3) and found.right
    env.paid = "cut"
    found = diagnose(policy_for(env), env, **SIZE)
    assert found.horizons[0].slope == math.inf and not found.right
    env.paid = "nothing"
    found = diagnose(policy_for(env), env, **SIZE)
    assert math.isnan(found.slope) and not found.right


class Divided(Pendulum):
    """Every other world wants the same, or the opposite."""

    other = 1

    def reward(self, before, action, after):
        sign = torch.ones(self.worlds)
        sign[1::2] = self.other
        return sign * (action[:, 0] + 0.01 * after.physics.q[:, 0])


@pytest.mark.parametrize("other", [1, -1])
def test_halves_agree_or_not(other):
    env = Divided(links=2)
    env.other = other
    assert other * diagnose(policy_for(env), env, **SIZE).horizons[0].cosine > 0.4


class Failing(Pendulum):
    def _simulate(self, physics, control, hold):
        after, failed = super()._simulate(physics, control, hold)
        return after, failed | (torch.arange(self.worlds) == 3)


def test_failures_and_saturation_are_counted():
    env = Failing(links=2)
    found = diagnose(policy_for(env, bias=5.0), env, **SIZE)
    assert [row.failed for row in found.horizons] == [1, 1]
    assert found.saturated > 0.9 and found.slack < 0.1


def test_a_learner_knows_what_it_skipped():
    env = make("pendulum-1")
    learner = SAPO(worlds=4, hidden=(8,)).begin(env, seed=0)
    assert diagnose(learner, env, **SIZE).skipped == 0
    learner.actor_adam.counts[1] = 3
    found = diagnose(learner, env, **SIZE)
    assert found.skipped == 3 and str(found).endswith("skipped updates: 3")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": None}, "needs a Policy or a Learner, not NoneType"),
        ({"env": make("pendulum-1")}, "the policy is for 'pendulum-2'"),
        ({"horizons": ()}, "there are none"),
        ({"horizons": (1, 0)}, "a horizon must be a whole number"),
        ({"worlds": 1}, "worlds must be a whole number of at least 2"),
    ],
)
def test_bad_input(given, said):
    env = make("pendulum-2")
    given = {"policy": policy_for(env), "env": env} | SIZE | given
    with pytest.raises(pb.PullbackError, match=said):
        diagnose(given.pop("policy"), given.pop("env"), **given)
