"""Soft actor-critic: its memory, its targets, and episodes that terminate against those that are cut off."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pullback.core.errors import PullbackError  # noqa: E402
from pullback.envs import make  # noqa: E402
from pullback.envs.pendulum import Pendulum  # noqa: E402
from pullback.learn import MBPO, SAC, train  # noqa: E402
from pullback.learn.replay import Replay, columns_of, state_of  # noqa: E402

SMALL = {"worlds": 4, "window": 3, "random_steps": 16, "capacity": 40, "batch": 8, "ahead": 5, "hidden": (16, 16)}


def rows(*numbers: int) -> dict:
    return {"x": torch.tensor(numbers), "y": torch.tensor(numbers)[:, None] * torch.ones(2)}


def test_new_rows_take_the_places_of_the_oldest():
    memory = Replay(5)
    memory.add(rows(0, 1, 2))
    assert len(memory) == 3 and memory.added == 3
    memory.add(rows(3, 4, 5, 6))
    assert len(memory) == 5 and memory.columns["x"].tolist() == [5, 6, 2, 3, 4]
    memory.add(rows(7, 8, 9, 10, 11))
    assert sorted(memory.columns["x"].tolist()) == [7, 8, 9, 10, 11] and memory.added == 12
    assert torch.equal(memory.columns["y"][:, 1].long(), memory.columns["x"])


def test_only_what_was_added_is_drawn_and_all_of_it():
    memory = Replay(100)
    memory.add(rows(7, 8, 9))
    drawn = memory.sample(3000, torch.Generator().manual_seed(0))
    counts = torch.bincount(drawn["x"], minlength=10)[7:]
    assert counts.sum() == 3000 and counts.min() > 850
    assert torch.equal(drawn["y"][:, 0].long(), drawn["x"])


def test_more_rows_than_fit_are_refused():
    with pytest.raises(PullbackError, match="6 rows do not fit into a memory of capacity=5"):
        Replay(5).add(rows(*range(6)))


def test_a_restored_memory_goes_on_as_the_first():
    one, other = Replay(5), Replay(5)
    one.add(rows(*range(4)))
    one.add(rows(4, 5, 6))
    other.restore({name: x.clone() for name, x in one.arrays("memory.real").items()}, "memory.real", "cpu")
    for memory in (one, other):
        memory.add(rows(7, 8))
    assert one.columns["x"].tolist() == other.columns["x"].tolist() == [5, 6, 7, 8, 4]


def test_a_state_comes_back_from_its_columns():
    env = make("pendulum-2", worlds=3, spread=0.5)
    random = env.random(0)
    state = env.step(env.reset(random), random.uniform(2), random).state
    back = state_of(columns_of(state), state)
    assert torch.equal(back.physics.q, state.physics.q) and torch.equal(back.physics.v, state.physics.v)
    assert torch.equal(back.action, state.action) and torch.equal(back.age, state.age)
    assert back.physics.v.abs().min() > 0


# --- targets ----------------------------------------------------------------------------------------------------------


def test_targets_are_bellman_s():
    method = SAC(**SMALL, discount=0.9, reward_scale=0.3, temperature=0.2)
    learner = method.begin(make("pendulum-2", dtype="float64", spread=0.5), 0)
    learner.simulate(10)
    generator = torch.Generator().manual_seed(1)
    learner.target += 0.3 * torch.randn(learner.target.shape, generator=generator, dtype=torch.float64)
    batch = learner.memory.sample(9, generator)
    batch["terminated"][::3] = 1.0
    noise = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    found = learner.targets(batch, noise)
    for i in range(9):
        seen = learner.policy.normaliser(batch["after"][i : i + 1])
        mean, log_deviation = (x[0].detach().numpy() for x in learner.policy.of_normalised(seen))
        deviation = np.exp(log_deviation)
        u = mean + deviation * noise[i].numpy()
        density = np.exp(-0.5 * noise[i].numpy() ** 2) / (deviation * math.sqrt(2 * math.pi)) / (1 - np.tanh(u) ** 2)
        inputs = torch.cat([seen[0], torch.as_tensor(np.tanh(u))])[None]
        first, second = (float(x) for x in learner.critic(inputs, learner.target).flatten())
        assert first != second
        value = min(first, second) - 0.2 * math.log(density.prod())
        expected = 0.3 * float(batch["reward"][i]) + (0.0 if i % 3 == 0 else 0.9 * value)
        assert math.isclose(float(found[i]), expected, rel_tol=1e-9)


class Constant(Pendulum):
    """A reward of one at every step. Episodes last four steps: then they terminate, or are cut off."""

    limit = 4
    timed = False
    ends = True

    def observe(self, state):
        age = state.age[:, None].to(self.dtype) if self.ends else torch.zeros_like(state.physics.v)
        return torch.cat([age, state.physics.q], dim=1)

    def reward(self, before, action, after):
        return torch.ones_like(after.physics.q[:, 0])

    def terminated(self, state):
        return (state.age >= self.limit) if self.ends else torch.zeros_like(state.age, dtype=torch.bool)


class Unending(Constant):
    ends = False


CONSTANT = {"worlds": 16, "window": 4, "random_steps": 0, "batch": 64, "hidden": (32, 32), "actor_every": 10}
CONSTANT |= {"discount": 0.8, "target_memory": 0.9, "rate": 5e-3, "temperature": 1e-6, "temperature_rate": 0.0}


@pytest.mark.parametrize("kind", [Constant, Unending])
def test_values_of_a_constant_reward_are_known(kind):
    learner = SAC(**CONSTANT).begin(kind(), 0)
    for _ in range(8):
        log = learner.update(0.0)
        name, other = ("terminated", "truncated") if kind.ends else ("truncated", "terminated")
        assert log[name] == 16 and log[other] == 0
    batch = learner.memory.sample(200, torch.Generator().manual_seed(0))
    inputs = torch.cat([learner.policy.normaliser(batch["seen"]), batch["action"]], dim=1)
    found = learner.critic(inputs).detach().squeeze(-1)
    left = 4 - batch["seen"][:, 0] if kind.ends else math.inf
    expected = (1 - 0.8**left) / (1 - 0.8) * torch.ones(2, 200)
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.1)


class Timed(Unending):
    """Its episodes are cut off, but the task is over then: the values are those of the one that terminates."""

    timed = True


def test_a_task_can_be_over_at_the_time_limit():
    learner = SAC(**CONSTANT).begin(Timed(), 0)
    log = learner.simulate(4)
    assert log["terminated"] == 16 and log["truncated"] == 0
    assert torch.equal(learner.memory.columns["terminated"][:64].reshape(4, 16).sum(1), torch.tensor([0.0, 0, 0, 16]))


def test_what_follows_is_the_state_before_the_reset():
    learner = SAC(**CONSTANT).begin(Constant(), 0)
    learner.simulate(9)
    held = learner.memory.rows(torch.arange(9 * 16))
    before, after = (held[name][:, 0].reshape(9, 16) for name in ("seen", "after"))
    assert torch.equal(after, before + 1)
    assert torch.equal(held["terminated"].reshape(9, 16).bool(), after == 4)
    assert torch.equal(before[:, 0], torch.arange(9.0) % 4)


# --- as a whole -------------------------------------------------------------------------------------------------------

MODEL = {"model_hidden": (16,), "rollouts": 20, "model_passes": 2, "updates_per_step": 0.5}
METHODS = [SAC(**SMALL, enhance=kind) for kind in (None, "policy", "policy-stored", "samples")]
METHODS += [MBPO(**SMALL, **MODEL, enhance=kind) for kind in (None, "samples")]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__}-{m.enhance}")
def test_a_restored_learner_goes_on_with_the_same_bits(method):
    env = make("pendulum-2", spread=0.3)
    first, second = method.begin(env, 0), method.begin(env, 1)
    for _ in range(3):
        first.update(0.0)
    assert len(first.memory) == 40  # the oldest are gone
    kept = {name: x.clone() for name, x in first.arrays().items()}
    second.restore(kept)
    for _ in range(2):
        assert first.update(0.5) == second.update(0.5)
    one, other = first.arrays(), second.arrays()
    assert one.keys() == other.keys() and all(torch.equal(x, other[name]) for name, x in one.items())
    moved = [name for name, x in kept.items() if x.shape != one[name].shape or not torch.equal(x, one[name])]
    assert {"policy.network.flat", "critic.flat", "target", "log_alpha", "memory.real.after", "random"} <= set(moved)


def test_steps_are_counted_and_the_actor_can_be_slower():
    method = SAC(**SMALL, updates_per_step=0.5, actor_every=3, enhance="policy", horizon=2)
    learner = method.begin(make("pendulum-1"), 0)
    log = learner.update(0.0)
    assert learner.steps == 16 + 12 and learner.critic_adam.counts[0] == 6 and learner.actor_adam.counts[0] == 2
    assert log["resimulated"] == 2 * 5 * 2


def test_the_temperature_rises_while_the_entropy_is_too_low():
    for wanted, sign in ((5.0, 1), (-50.0, -1)):
        learner = SAC(**SMALL, entropy_target=wanted).begin(make("pendulum-1"), 0)
        before = float(learner.log_alpha)
        learner.update(0.0)
        assert sign * (float(learner.log_alpha) - before) > 0


def test_training_by_name():
    training = train("pendulum-1", "sac", updates=2, evaluations=1, starts=4, worlds=4, window=2, random_steps=8)
    assert training.steps == 8 + 2 * 8 and math.isfinite(training.best)


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        (SAC, {"enhance": "actor"}, "enhance='actor' is not known: use 'policy', 'policy-stored', 'samples'"),
        (SAC, {"capacity": 100}, "capacity=100 is less than one round or random_steps"),
        (SAC, {"batch": 32}, "ahead=64 must be between 1 and batch=32"),
        (MBPO, {"enhance": "policy"}, "MBPO has no enhance='policy': use 'samples', or SAC"),
        (MBPO, {"elites": 8}, "elites=8 must be between 1 and networks=7"),
    ],
)
def test_what_cannot_be_is_refused(kind, options, match):
    with pytest.raises(PullbackError, match=match):
        kind(**options)


class Bad(Pendulum):
    def reward(self, before, action, after):
        reward = super().reward(before, action, after)
        return reward | {"odd": torch.where(after.age == 3, torch.nan, 0.0)}


def test_a_reward_that_is_not_finite_is_named():
    learner = SAC(**SMALL).begin(Bad(), 0)
    with pytest.raises(PullbackError, match="reward 'odd'.*not finite in world 0 at control step 3"):
        learner.update(0.0)
