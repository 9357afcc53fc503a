"""Environments of a user's own: what they remember has gradients, and what their functions give wrongly is named."""

import numpy as np
import pytest
import torch
from swarm import Swarm

import pullback as pb
from pullback.core.trees import leaves, tree_map
from pullback.envs import Environment
from pullback.learn import train


class Balance(Environment):
    name, hold, limit = "balance", 4, 50

    def model(self):
        return pb.load(pb.robots.cartpole())

    def start(self, random):
        return pb.State(random.uniform(2, low=-0.5, high=0.5), random.uniform(2, low=-0.5, high=0.5))

    def observe(self, state):
        return torch.cat([*state.physics], dim=1)

    def reward(self, before, action, after):
        return -(after.physics.q**2).sum(1)


class Filtered(Balance):
    """Motors that follow actions slowly, and a reward for a mean of the speed over time."""

    def begin(self, random):
        zeros = torch.zeros(self.worlds, 1, dtype=self.dtype)
        return {"force": zeros, "speed": zeros}

    def control(self, state, action):
        return super().control(state, 0.8 * state.extra["force"] + 0.2 * action)

    def update(self, before, action, after, random):
        kept = after.extra
        speed = 0.5 * kept["speed"] + 0.5 * after.physics.v[:, :1]
        return {"force": 0.8 * kept["force"] + 0.2 * action, "speed": speed}

    def observe(self, state):
        return torch.cat([*state.physics, *state.extra.values()], dim=1)

    def reward(self, before, action, after):
        return before.extra["speed"][:, 0] - after.physics.q[:, 1] ** 2


def test_what_is_remembered_has_gradients():
    env, steps = Filtered(6, dtype="float64"), 5
    start = env.reset(env.random(0))
    numbers = torch.Generator().manual_seed(1)
    actions, along = (2 * torch.rand(steps, 6, 1, generator=numbers, dtype=torch.float64) - 1 for _ in range(2))
    weights = torch.randn(6, env.observation_size, generator=numbers, dtype=torch.float64)

    def loss(actions):
        state, random, total = start, env.random(1), 0.0
        for action in actions:
            done = env.step(state, action, random)
            state, total = done.state, total + done.reward
        return total + (weights * env.observe(state)).sum(1)

    moved = actions.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(moved).sum(), moved)
    slope = (gradient * along).sum(dim=(0, 2))
    errors = [
        ((loss(actions + h * along) - loss(actions - h * along)) / (2 * h) - slope).abs().max() for h in (1e-2, 1e-3)
    ]
    assert gradient.abs().amin(dim=(1, 2))[:-1].min() > 1e-4 and slope.abs().min() > 1e-2
    assert errors[1] < 1e-6 and errors[1] < errors[0] / 50  # second order


def test_what_a_failed_world_remembers_has_no_gradient():
    env = Filtered(4, dtype="float64")
    start = env.reset(env.random(0))
    actions = torch.full((2, 4, 1), 0.5, dtype=torch.float64, requires_grad=True)
    first = env.step(start, actions[0], env.random(1))
    simulate = env._simulate

    def fails(physics, control, hold):
        after, failed = simulate(physics, control, hold)
        return after, failed | (torch.arange(4) == 2)

    done = env.step(first.state, actions[1], env.random(1), plant=fails)
    (gradient,) = torch.autograd.grad(env.observe(done.state).sum(), actions)
    assert not gradient[:, 2].any() and gradient[:, [0, 1, 3]].abs().min() > 0


class Flock(Balance):
    """No robot, and nothing that says what its actions do."""

    def make_system(self, worlds, dtype, device):
        return Swarm(worlds=worlds, dtype=dtype)

    def start(self, random):
        return tree_map(torch.as_tensor, self.system.state())

    def observe(self, state):
        return torch.stack([leaf.reshape(self.worlds, -1).sum(1) for leaf in leaves(state.physics)[:2]], dim=1)


def test_a_system_that_is_no_robot_needs_a_control():
    env = Flock(2, dtype="float64")
    random = env.random(0)
    with pytest.raises(NotImplementedError, match=r"Flock needs control\(state, action\), since it is no robot"):
        env.step(env.reset(random), torch.zeros(2, env.action_size, dtype=torch.float64), random)


class Steered(Flock):
    limit = 10

    def control(self, state, action):
        return action

    def reward(self, before, action, after):
        return -(after.physics.points.x**2).mean(dim=(1, 2)) - 0.1 * after.physics.heat


@pytest.mark.parametrize("method", ["sapo", "sac"])
def test_a_system_that_is_no_robot_can_be_trained(method):
    """Its state has leaves of rank one and three, and whole numbers."""
    more = {"random_steps": 16, "batch": 16, "ahead": 4, "enhance": "policy"} if method == "sac" else {}
    options = {"worlds": 4, "window": 4, "hidden": (8,), "starts": 4, **more}
    training = train(Steered(dtype="float64"), method, updates=2, **options)
    assert np.isfinite(training.best) and training.log[-1]["gradient"] > 0


WRONG = {
    "reward": {
        "must be a torch tensor, not float": lambda env, before, action, after: 1.0,
        "must be a torch tensor, not ndarray": lambda env, before, action, after: np.ones(env.worlds),
        r"'reward' of environment 'balance' has shape \(4, 1\), but \(4,\)": lambda env, b, a, c: c.physics.q[:, :1],
        r"'near' of environment 'balance' has shape \(3,\), but \(4,\)": lambda env, b, a, c: {"near": torch.ones(3)},
    },
    "observe": {
        "observation of environment 'balance' must be a torch tensor, not NoneType": lambda env, state: None,
        r"observation of .* has shape \(4,\), but \(4, n\) is needed": lambda env, state: state.physics.q[:, 0],
        "is int64, but float32 is needed": lambda env, state: state.physics.q.long(),
        "is float64, but float32 is needed": lambda env, state: state.physics.q.double(),
    },
    "start": {
        r"start of environment 'balance' must be a State\(q, v\) of torch tensors": lambda env, random: None,
        "must be a State": lambda env, random: (random.uniform(2), random.uniform(2)),
        "of torch tensors": lambda env, random: pb.State(np.zeros((4, 2)), np.zeros((4, 2))),
        r"start's q of .* has shape \(1, 2\)": lambda env, r: pb.State(torch.zeros(1, 2), r.uniform(2)),
        "start's v of environment 'balance' is not finite": lambda env, r: pb.State(r.uniform(2), r.uniform(2) / 0),
    },
    "begin": {
        "begin of environment 'balance' must give tensors by name, not Tensor": lambda env, random: random.uniform(2),
        r"the 'goal' of begin of environment 'balance' has shape \(3,\), but \(4, ...\)": lambda env, random: {
            "goal": torch.zeros(3)
        },
    },
    "update": {
        "update of environment 'balance' must give tensors by name, not NoneType": lambda env, b, a, c, random: None,
        r"must give what begin gave, \[\], not \['goal'\]": lambda env, b, a, c, random: {"goal": random.uniform(1)},
    },
    "terminated": {
        r"termination of environment 'balance' has shape \(4, 1\)": lambda env, state: state.physics.q[:, :1] > 2,
        "termination of environment 'balance' is float32, but bool": lambda env, state: state.physics.q[:, 0],
    },
    "control": {r"control has shape \(4, 2\)": lambda env, state, action: torch.cat([action, action], dim=1)},
    "limit": {"limit must be a whole number of at least 1, not 0": 0, "limit must be .*, not 2.5": 2.5},
    "hold": {"hold must be a whole number of at least 1, not 0": 0},
}  # fmt: skip


@pytest.mark.parametrize(("name", "said"), [(name, said) for name, cases in WRONG.items() for said in cases])
def test_a_wrong_function_is_named(name, said):
    with pytest.raises(pb.PullbackError, match=said) as found:
        env = type("Wrong", (Balance,), {name: WRONG[name][said]})(4)
        random = env.random(0)
        env.step(env.reset(random), torch.zeros(4, 1), random)
    assert "\n" not in str(found.value)
