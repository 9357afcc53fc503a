"""Policy gradients through the simulator against differences, and the identities between methods."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pullback.envs import make  # noqa: E402
from pullback.envs.pendulum import Pendulum  # noqa: E402
from pullback.learn import BPTT, SAPO, SHAC  # noqa: E402
from pullback.learn.learner import cap_rows  # noqa: E402
from pullback.learn.returns import td_lambda  # noqa: E402

SMALL = {"worlds": 6, "hidden": (16, 16), "cap": float("inf")}


def pendulum(**options) -> Pendulum:
    return make("pendulum-2", dtype="float64", spread=0.5, **options)


def some_weights(learner, seed: int = 0) -> torch.Tensor:
    """A direction in the space of the actor's weights; these are first moved to where nothing is zero."""
    generator = torch.Generator().manual_seed(seed)
    flat = learner.policy.network.flat
    flat.data += 0.1 * torch.randn(flat.shape, generator=generator, dtype=flat.dtype)
    return torch.randn(flat.shape, generator=generator, dtype=flat.dtype)


def loss_at(learner, arrays, move: torch.Tensor) -> float:
    learner.restore({name: x.clone() for name, x in arrays.items()})
    learner.policy.network.flat.data += move
    return learner.simulate().loss.item()


def compare_with_differences(learner, arrays, way: torch.Tensor, gradient: torch.Tensor, steps) -> None:
    """The slope of the loss along ``way`` by central differences, whose error falls with the square of their step."""
    exact = float(gradient @ way)
    assert abs(exact) > 1e-3
    errors = []
    for h in steps:
        ahead, behind = (loss_at(learner, arrays, side * h * way) for side in (1, -1))
        errors.append(abs((ahead - behind) / (2 * h) - exact) / abs(exact))
    assert min(errors) < 1e-7 and errors[1] < errors[0] / 20, errors


@pytest.mark.parametrize("method", [SAPO(window=5, **SMALL), SHAC(window=4, **SMALL), BPTT(window=6, **SMALL)])
def test_the_actor_s_gradient_is_that_of_the_loss(method):
    learner = method.begin(pendulum(), 3)
    way = some_weights(learner)
    if learner.critic is not None:  # values that matter
        learner.critic.flat.data.mul_(3.0)
        learner.target.copy_(learner.critic.flat.data)
    arrays = {name: x.clone() for name, x in learner.arrays().items()}
    window = learner.simulate()
    window.loss.backward()
    compare_with_differences(learner, arrays, way, learner.actor_gradient(window), (1e-3, 1e-4, 1e-5))


@pytest.mark.parametrize("name", ["cartpole", "hopper", "half-cheetah", "ant", "quadruped", "humanoid"])
def test_windows_in_which_episodes_end_have_the_gradient_of_the_loss(name):
    """Through contact, rewards, resets, values where episodes are cut off or terminate, and the bonus for entropy.

    Steps are small: contacts that begin or end between the two sides make the loss jump.
    """
    env = make(name, dtype="float64")
    env.limit = 39
    learner = SAPO(window=5, reward_scale=0.3, **SMALL).begin(env, 3)
    way = some_weights(learner)
    learner.target.mul_(3.0)
    for _ in range(3):  # down to the floor
        learner.simulate()
    learner.episodes = learner.episodes._replace(age=torch.tensor([0, 36, 37, 5, 20, 36]))
    arrays = {key: x.clone() for key, x in learner.arrays().items()}
    window = learner.simulate()
    assert window.log["truncated"] == 3 and not window.log["failed"]
    window.loss.backward()
    gradient = learner.actor_gradient(window)
    way = gradient.sign() * way.abs()  # random, and not across the gradient
    exact = float(gradient @ way)
    slopes = [
        (loss_at(learner, arrays, h * way) - loss_at(learner, arrays, -h * way)) / (2 * h) for h in (1e-5, 1e-6, 1e-7)
    ]
    assert abs(exact) > 0.1 and min(abs(slope / exact - 1) for slope in slopes) < 1e-6


def test_a_detached_gradient_is_the_closed_loop_s_for_a_blind_policy():
    found = []
    for closed in (True, False):
        learner = BPTT(window=5, closed_loop=closed, **SMALL).begin(pendulum(), 3)
        some_weights(learner)
        n, m = learner.policy.network.sizes[:2]
        learner.policy.network.flat.data[: n * m] = 0.0  # the first matrix
        window = learner.simulate()
        window.loss.backward()
        found.append(learner.actor_gradient(window))
    assert found[0].norm() > 1e-3
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)


def test_a_detached_gradient_leaves_out_what_the_policy_sees():
    found = []
    for closed in (True, False):
        learner = BPTT(window=5, closed_loop=closed, **SMALL).begin(pendulum(), 3)
        some_weights(learner)
        window = learner.simulate()
        window.loss.backward()
        found.append(learner.actor_gradient(window))
    assert (found[0] - found[1]).norm() > 1e-3 * found[0].norm()


class Ended(Pendulum):
    """A pendulum whose episodes terminate at the time limit, so that no value counts afterwards."""

    limit = 6

    def terminated(self, state):
        return state.age >= self.limit


def test_with_whole_episodes_shac_is_back_propagation_through_time():
    found = []
    for kind in (SHAC, BPTT):
        env = Ended(links=2, spread=0.5, dtype="float64")
        learner = kind(window=6, clip=1.0, **SMALL).begin(env, 3)
        window = learner.simulate()
        window.loss.backward()
        assert bool(window.ends[-1].all()) and window.log["terminated"] == 6
        found.append((window.loss.detach(), learner.actor_gradient(window)))
    assert found[0][1].norm() > 1e-3
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_a_window_that_crosses_the_end_of_an_episode_starts_anew():
    env = Ended(links=2, spread=0.5, dtype="float64")
    learner = BPTT(window=9, discount=0.9, **SMALL).begin(env, 3)
    window = learner.simulate()
    np.testing.assert_allclose(window.discounts[:, 0], [*0.9 ** np.arange(6), *0.9 ** np.arange(3)])
    expected = -(window.discounts * window.rewards).sum(0).mean() / 9
    torch.testing.assert_close(window.loss.detach(), expected)
    assert torch.all(learner.episodes.age == 3)


class CutOff(Pendulum):
    """Episodes of six steps, after which what would have come counts; worlds reach them at different times."""

    limit = 6
    timed = False

    def reset(self, random):
        start = super().reset(random)
        return start._replace(age=torch.arange(self.worlds) % self.limit)


def test_what_would_have_come_counts_where_an_episode_is_cut_off():
    """At the time limit inside a window and at the end of the window: values, and their gradient."""
    learner = SHAC(window=5, discount=0.9, **SMALL).begin(CutOff(links=2, spread=0.5, dtype="float64"), 3)
    way = some_weights(learner)
    learner.critic.flat.data.mul_(3.0)
    learner.target.copy_(learner.critic.flat.data)
    arrays = {name: x.clone() for name, x in learner.arrays().items()}
    window = learner.simulate()
    inside = int(window.ends[:-1].sum())
    assert inside > 0 and window.log["terminated"] == 0
    expected = window.discounts * (window.rewards + 0.9 * window.values * window.ends)
    torch.testing.assert_close(window.loss.detach(), -expected.sum(0).mean() / 5)
    window.loss.backward()
    compare_with_differences(learner, arrays, way, learner.actor_gradient(window), (1e-3, 1e-4, 1e-5))


class Falling(Pendulum):
    """Terminates where its first angle has fallen below a threshold."""

    timed = False

    def terminated(self, state):
        return state.physics.q[:, 0] < -0.1


def test_states_in_which_episodes_terminate_have_a_gradient():
    """Critics' values of them are part of the loss, and their gradient goes back; targets count them as nothing."""
    learner = SAPO(window=6, discount=0.9, entropy=0.0, **SMALL).begin(Falling(links=2, spread=0.5, dtype="float64"), 3)
    way = some_weights(learner)
    learner.critic.flat.data.mul_(3.0)
    learner.target.copy_(learner.critic.flat.data)
    arrays = {name: x.clone() for name, x in learner.arrays().items()}
    window = learner.simulate()
    count = int(window.log["terminated"])
    assert count > 0 and int((window.values == 0).sum()) == count
    window.loss.backward()
    with_values = learner.actor_gradient(window)
    # By small steps: a longer one changes when an episode terminates, which is a jump.
    compare_with_differences(learner, arrays, way, with_values, (1e-4, 1e-5, 1e-6))
    learner.method = replace(learner.method, terminal_values=False)
    learner.restore(arrays)
    window = learner.simulate()
    window.loss.backward()
    assert (learner.actor_gradient(window) - with_values).norm() > 0.01 * with_values.norm()


def test_critics_learn_that_terminal_states_are_worth_nothing():
    learner = SAPO(window=6, worlds=16, hidden=(32, 32)).begin(Falling(links=2, spread=0.5), 3)
    for _ in range(20):
        learner.update(0.0)
    assert learner.is_terminal.all()
    assert torch.all(learner.terminal[:, 2:4].abs() < 10)  # observations as the environment has them
    at_end, elsewhere = (
        learner._values(x).abs().mean() for x in (learner.terminal, learner.env.observe(learner.episodes))
    )
    assert at_end < 0.3 * elsewhere


def test_the_last_terminal_states_are_remembered():
    learner = SAPO(window=2, worlds=4, hidden=(8,)).begin(Falling(links=1), 0)
    for first in (0, 10, 20):
        seen = torch.arange(first, first + 6.0)[:, None].expand(6, learner.terminal.shape[1])
        learner._remember(seen, torch.tensor([1.0, 0, 0, 1, 0, 0]))
        if first == 0:
            assert learner.terminal[:, 0].tolist()[:2] == [0, 3] and learner.is_terminal.tolist() == [1, 1, 0, 0]
    assert learner.terminal[:, 0].tolist() == [20, 23, 10, 13] and learner.is_terminal.all()


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_the_bonus_steers_entropy_to_its_target(progress):
    learner = SAPO(window=2, worlds=4, hidden=(8,), entropy_target=(0.0, -2.0)).begin(make("pendulum-1"), 0)
    before = learner.log_alpha.clone()
    log = learner.update(progress)
    wanted = -2.0 * progress
    assert learner.entropy_target == wanted and abs(log["entropy"] - wanted) > 0.05
    assert (learner.log_alpha < before) == (log["entropy"] > wanted)


def brute_force(rewards, values, ends, discount, trust):
    """λ-returns by their definition: means of n-step returns."""
    steps = len(rewards)
    targets = np.zeros_like(rewards)
    for t in range(steps):
        last = next(k for k in range(t, steps) if ends[k])
        total, weight = 0.0, 1.0
        for n in range(1, last - t + 2):
            part = sum(discount**i * rewards[t + i] for i in range(n)) + discount**n * values[t + n - 1]
            share = weight if t + n - 1 == last else weight * (1 - trust)
            total, weight = total + share * part, weight * trust
        targets[t] = total
    return targets


@pytest.mark.parametrize("seed", range(3))
def test_td_lambda_is_a_mean_of_n_step_returns(seed):
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, 9, 4))
    ends = rng.random((9, 4)) < 0.3
    ends[-1] = True
    for discount, trust in itertools.product((0.9, 1.0), (0.0, 0.95, 1.0)):
        options = {"discount": discount, "trust": trust}
        found = td_lambda(*map(torch.as_tensor, (rewards, values, ends)), **options)
        expected = [brute_force(rewards[:, i], values[:, i], ends[:, i], discount, trust) for i in range(4)]
        np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-14)


def test_a_world_whose_gradient_explodes_is_capped():
    learner = BPTT(window=2, worlds=5, hidden=(8,), cap=10.0).begin(make("pendulum-1"), 0)
    capped = []
    bar = torch.ones(5, 3)
    bar[1] *= 1e4
    bar[2, 0] = float("nan")
    found = learner._cap(bar, capped)
    torch.testing.assert_close(found[1].norm(), 10 * bar[0].norm())
    assert int(capped[0]) == 2 and not found[2].any() and torch.equal(found[3:], bar[3:])


def test_a_gradient_that_few_worlds_have_is_kept():
    """As of a penalty that most do not pay: they do not say how large it may be."""
    bar = torch.zeros(7, 3)
    bar[[1, 4]] = torch.tensor([[1.0, 2.0, 2.0], [0.0, 3.0, 0.0]])
    found, over = cap_rows(bar, 10.0)
    assert torch.equal(found, bar) and not over.any()
    bar[5] = 1e4
    found, over = cap_rows(bar, 10.0)
    torch.testing.assert_close(found[5].norm(), torch.tensor(30.0))
    assert over.tolist() == [i == 5 for i in range(7)] and torch.equal(found[:5], bar[:5])
    assert torch.equal(cap_rows(torch.zeros(4, 2), 10.0)[0], torch.zeros(4, 2))
