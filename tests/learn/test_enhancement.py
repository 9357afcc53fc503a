"""Policy and sample enhancement: derivatives of the simulator against differences, in float64."""

import math

import pytest

torch = pytest.importorskip("torch")

from pullback.envs import make  # noqa: E402
from pullback.envs.pendulum import Pendulum  # noqa: E402
from pullback.learn import SAC  # noqa: E402
from pullback.learn.replay import columns_of, jacobians, nearby, state_of  # noqa: E402

SMALL = {"worlds": 6, "hidden": (16, 16), "random_steps": 0, "discount": 0.9, "reward_scale": 0.5, "cap": math.inf}


def moving(env, steps: int = 5):
    """A state in which all worlds move, differently, and its random numbers."""
    random = env.random(0)
    state = env.reset(random)
    for _ in range(steps):
        state = env.step(state, random.uniform(env.action_size, low=-1.0, high=1.0), random).state
    return state, random


def outcome(env, state, action, random) -> torch.Tensor:
    """Next observation and reward, (worlds, n + 1)."""
    done = env.step(state, action, random)
    return torch.cat([env.observe(done.state), done.reward[:, None]], dim=1)


def critic_that_matters(learner) -> None:
    generator = torch.Generator().manual_seed(5)
    for network in (learner.critic, learner.policy.network):
        flat = network.flat.data
        flat += 0.3 * torch.randn(flat.shape, generator=generator, dtype=flat.dtype)
    learner.target.copy_(learner.critic.flat.data)


def test_jacobians_are_those_of_differences():
    env = make("pendulum-2", worlds=3, dtype="float64", spread=0.5)
    state, random = moving(env)
    action = random.uniform(2, low=-0.9, high=0.9)
    many = env.in_worlds(3 * (env.observation_size + 1))
    exact = jacobians(many, state, action, many.random(0))
    assert exact.shape == (3, env.observation_size + 1, 2)
    errors = []
    for h in (1e-2, 1e-3, 1e-4):
        columns = []
        for i in range(2):
            move = h * torch.eye(2, dtype=torch.float64)[i]
            sides = [outcome(env, state, action + side * move, random) for side in (1, -1)]
            columns.append((sides[0] - sides[1]) / (2 * h))
        errors.append(float((torch.stack(columns, dim=2) - exact).norm() / exact.norm()))
    assert exact.norm(dim=(1, 2)).min() > 1e-2 and exact[:, -1].norm(dim=1).min() > 1e-4
    assert min(errors) < 1e-8 and errors[1] < errors[0] / 50  # second order


class Short(Pendulum):
    """Episodes of five steps, which terminate."""

    limit = 5

    def terminated(self, state):
        return state.age >= self.limit


class Cut(Short):
    """The same, cut off: what would have come counts."""

    timed = False

    def terminated(self, state):
        return torch.zeros_like(state.age, dtype=torch.bool)


@pytest.mark.parametrize("kind", [Short, Cut])
@pytest.mark.parametrize("horizon", [1, 3])
def test_the_actor_s_gradient_is_that_of_what_lies_ahead(kind, horizon):
    env = kind(links=2, spread=0.5, dtype="float64")
    learner = SAC(**SMALL, enhance="policy", horizon=horizon, ahead=30).begin(env, 0)
    learner.simulate(5)  # states of all ages: some episodes end within the horizon
    critic_that_matters(learner)
    state = state_of(learner.memory.rows(torch.arange(30)), learner.episodes)
    assert sorted(set(state.age.tolist())) == [0, 1, 2, 3, 4]
    noises = torch.stack([learner.noise(30) for _ in range(horizon + 1)])
    flat = learner.policy.network.flat
    way = torch.randn(flat.shape, generator=torch.Generator().manual_seed(1), dtype=flat.dtype)
    loss, *_ = learner.loss_ahead(state, noises, flat)
    (gradient,) = torch.autograd.grad(loss, flat)
    exact = float(gradient @ way)
    assert abs(exact) > 1e-3
    errors = []
    for h in (1e-3, 1e-4, 1e-5):
        ahead, behind = (learner.loss_ahead(state, noises, flat.detach() + side * h * way)[0] for side in (1, -1))
        errors.append(abs(float(ahead - behind) / (2 * h) - exact) / abs(exact))
    assert min(errors) < 1e-6 and errors[1] < errors[0] / 20


def by_hand(learner, state, noises) -> torch.Tensor:
    """What lies ahead of one row, in its own words."""
    method, env, total = learner.method, learner.again, 0.0
    alpha = float(learner.log_alpha.exp())
    for k, noise in enumerate(noises[:-1]):
        action, likelihood = learner.drawn(learner.policy.normaliser(env.observe(state)), noise)
        done = env.step(state, action, learner.again_random)
        total = total + method.discount**k * (method.reward_scale * done.reward - alpha * likelihood)
        state = done.state
        if bool(done.terminated):
            return total
        if bool(done.truncated):
            break
    return total + method.discount ** (k + 1) * learner.value(env.observe(state), noises[-1], learner.critic.flat)


@pytest.mark.parametrize("kind", [Short, Cut])
def test_what_lies_ahead_ends_with_the_episode(kind):
    env = kind(links=2, spread=0.5, dtype="float64")
    learner = SAC(**SMALL, enhance="policy", horizon=3, ahead=1).begin(env, 0)
    learner.simulate(5)
    critic_that_matters(learner)
    for i in range(0, 30, 6):
        state = state_of(learner.memory.rows(torch.tensor([i])), learner.episodes)
        noises = torch.stack([learner.noise(1) for _ in range(4)])
        loss, likelihoods, (inputs, worth) = learner.loss_ahead(state, noises, learner.policy.network.flat)
        expected = by_hand(learner, state, noises)
        torch.testing.assert_close(-loss, expected.squeeze(), rtol=1e-12, atol=1e-12)
        assert likelihoods.shape == (3,)
        seen = learner.policy.normaliser(learner.again.observe(state))
        action, likelihood = learner.drawn(seen, noises[0])
        torch.testing.assert_close(worth, (expected + 0.1 * likelihood).detach())
        assert torch.equal(inputs, torch.cat([seen, action], dim=1).detach())


def stored(enhance: str, env=None):
    """A learner, states, and what the memory would hold of a step from them."""
    env = env or Cut(links=2, spread=0.5, dtype="float64")
    learner = SAC(**SMALL, enhance=enhance).begin(env, 0)
    critic_that_matters(learner)
    state, random = moving(learner.env, 2)
    action = random.uniform(2, low=-0.9, high=0.9)
    done = learner.env.step(state, action, random)
    batch = {"seen": learner.env.observe(state), "action": action, "after": learner.env.observe(done.state)}
    batch |= {"reward": done.reward, "terminated": torch.tensor([0.0, 0, 1, 0, 1, 0], dtype=torch.float64)}
    batch["jacobian"] = jacobians(learner.beside, state, action, learner.beside_random)
    return learner, state, batch


def test_the_stored_gradient_is_the_simulator_s_at_the_stored_action():
    learner, state, batch = stored("policy-stored")
    noise = learner.noise(6)
    action = batch["action"].clone().requires_grad_()
    done = learner.env.step(state, action, learner.random)
    value = learner.value(learner.env.observe(done.state), noise, learner.target)
    total = 0.5 * done.reward + 0.9 * (1 - batch["terminated"]) * value
    (expected,) = torch.autograd.grad(total.sum(), action)
    found = learner.action_gradient(batch, noise)
    assert expected.norm(dim=1).min() > 1e-5
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_stored_gradients_count_less_the_further_the_policy_has_moved():
    learner, _, batch = stored("policy-stored")
    noise, later = learner.noise(6), learner.noise(6)
    observed = learner.policy.normaliser(batch["seen"])
    mean, log_deviation = learner.policy.of_normalised(observed)
    action, likelihood = learner.drawn(observed, noise)
    gradients = learner.action_gradient(batch, later)
    far = (action - batch["action"]).norm(dim=1)
    assert far.min() > 0.01
    expected = 0.1 * likelihood - torch.exp(-far) * (gradients * action).sum(1)
    loss, found = learner.loss_stored(batch, noise, later)
    torch.testing.assert_close(loss, expected.mean(), rtol=1e-9, atol=0)
    torch.testing.assert_close(found, likelihood)


def test_samples_nearby_are_right_to_first_order():
    learner, state, batch = stored("samples")
    way = 2 * torch.rand(6, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64) - 1
    errors, moves = [], []
    for size in (0.08, 0.04, 0.02):
        moved = nearby(batch, size * way)
        torch.testing.assert_close(moved["action"], batch["action"] + size * way)
        true = outcome(learner.env, state, moved["action"], learner.random)
        found = torch.cat([moved["after"], moved["reward"][:, None]], dim=1)
        unmoved = torch.cat([batch["after"], batch["reward"][:, None]], dim=1)
        errors.append(float((found - true).norm()))
        moves.append(float((unmoved - true).norm()))
    assert errors[0] < moves[0] / 20
    assert all(3.6 < a / b < 4.4 for a, b in zip(errors, errors[1:], strict=False))  # second order in what is left
    assert all(1.9 < a / b < 2.1 for a, b in zip(moves, moves[1:], strict=False))


def test_actions_nearby_stay_in_range():
    learner, state, batch = stored("samples")
    moved = nearby(batch, torch.full((6, 2), 5.0, dtype=torch.float64))
    assert torch.equal(moved["action"], torch.ones(6, 2, dtype=torch.float64))
    step = (1 - batch["action"])[:, None, :]
    torch.testing.assert_close(moved["reward"] - batch["reward"], (batch["jacobian"][:, -1:] * step).sum(dim=(1, 2)))


def test_nine_of_ten_samples_are_moved():
    learner, _, batch = stored("samples")
    many = {name: x.repeat(500, *[1] * (x.ndim - 1)) for name, x in batch.items()}
    found = learner.remembered(many)
    delta = found["action"] - many["action"]
    moved = (delta != 0).any(dim=1)
    assert abs(float(moved.double().mean()) - 0.9) < 0.02
    assert 0.045 < delta.abs().max() <= 0.05 + 1e-12 and abs(float(delta.mean())) < 2e-3
    assert torch.equal(found["after"][~moved], many["after"][~moved]) and "jacobian" not in found
    assert torch.all((found["after"] != many["after"]).any(dim=1) == moved)


@pytest.mark.parametrize("enhance", ["policy", "policy-stored", "samples"])
def test_the_memory_holds_what_the_enhancement_needs(enhance):
    env = make("pendulum-2", dtype="float64", spread=0.5)
    learner = SAC(**SMALL, enhance=enhance).begin(env, 0)
    learner.simulate(3)
    held = learner.memory.rows(torch.arange(18))
    if enhance != "policy":
        assert held["jacobian"].shape == (18, env.observation_size + 1, 2) and held["jacobian"].norm() > 0
        return
    state = state_of(held, learner.episodes)
    assert columns_of(state).keys() < held.keys()
    seen = learner.env.in_worlds(18).observe(state)
    assert torch.equal(seen, held["seen"])
    after = outcome(learner.env.in_worlds(18), state, held["action"], learner.random)
    torch.testing.assert_close(after, torch.cat([held["after"], held["reward"][:, None]], dim=1))
