"""Proximal policy optimisation: the method without gradients of the simulator to compare with.

J. Schulman et al., Proximal Policy Optimization Algorithms, 2017; with the settings that legged robots are trained with
(N. Rudin et al., Learning to Walk in Minutes, 2021): a learning rate that follows the divergence of a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from pullback.core.errors import PullbackError
from pullback.envs import Environment, detached
from pullback.learn.learner import Learner, Method, decayed
from pullback.learn.networks import Adam, Perceptrons
from pullback.learn.policy import log_likelihood
from pullback.learn.returns import td_lambda


@dataclass(frozen=True, kw_only=True)
class PPO(Method):
    """Proximal policy optimisation, without gradients of the simulator.

    window:   control steps of a round
    passes, minibatches: over a round's data
    rate:     of Adam, at first; it is halved or doubled, between 1e-5 and 1e-2, to keep the divergence near ``kl``
    ratio:    of likelihoods, from 1 at most, beyond which nothing more is gained
    trust:    λ of the advantages
    entropy:  bonus
    """

    worlds: int = 256
    window: int = 24
    passes: int = 5
    minibatches: int = 4
    rate: float = 1e-3
    kl: float = 0.01
    ratio: float = 0.2
    trust: float = 0.95
    entropy: float = 0.0
    clip: float = 1.0

    gpu_worlds: ClassVar[int] = 8

    def __post_init__(self):
        super().__post_init__()
        if self.worlds * self.window < 2:
            raise PullbackError("PPO compares what actions lead to: use at least two worlds, or a window of two")

    def begin(self, env: Environment, seed: int) -> PPOLearner:
        return PPOLearner(self, env, seed)


class PPOLearner(Learner):
    def __init__(self, method: PPO, env: Environment, seed: int):
        super().__init__(method, env, seed)
        self.critic = Perceptrons(
            1, env.observation_size, method.hidden, 1, generator=self.weights, dtype=env.dtype, device=env.device
        )
        self.actor_adam, self.critic_adam = (
            Adam(network.flat, clip=method.clip) for network in (self.policy.network, self.critic)
        )
        self.register_buffer("rate", torch.tensor(method.rate, dtype=torch.float64))

    def update(self, progress: float) -> dict[str, float]:
        method = self.method
        observed, u, likelihood, advantages, targets, log = self.simulate()
        flat, divergence, loss = self.policy.network.flat, torch.zeros(()), torch.zeros(())
        old_mean, old_log = (x.detach() for x in self.policy.of_normalised(observed))
        for order in self.orders(len(u), method.passes):
            for rows in order.chunk(method.minibatches):
                mean, log_deviation = self.policy.of_normalised(observed[rows])
                now = log_likelihood(u[rows], (u[rows] - mean) * torch.exp(-log_deviation), log_deviation)
                ratio = torch.exp(now - likelihood[rows])
                clipped = ratio.clamp(1 - method.ratio, 1 + method.ratio)
                gain = torch.minimum(ratio * advantages[rows], clipped * advantages[rows])
                loss = -gain.mean() - method.entropy * log_deviation.mean()
                (gradient,) = torch.autograd.grad(loss, flat)
                norm = self.actor_adam.step(flat.data, gradient, float(self.rate))
                error = self.critic(observed[rows])[0, :, 0] - targets[rows]
                (gradient,) = torch.autograd.grad((error * error).mean(), self.critic.flat)
                self.critic_adam.step(self.critic.flat.data, gradient, float(self.rate))
                with torch.no_grad():
                    apart = torch.exp(2 * old_log[rows]) + (old_mean[rows] - mean) ** 2
                    parts = log_deviation - old_log[rows] + apart / (2 * torch.exp(2 * log_deviation)) - 0.5
                    divergence = parts.sum(1).mean()
            self._adapt(float(divergence), decayed(1e-2, progress))
        self.steps += method.window * method.worlds
        log |= {"gradient": norm, "divergence": divergence, "rate": self.rate, "skipped": self.actor_adam.counts[1]}
        log = {name: float(x) for name, x in log.items()}
        if not math.isfinite(log["reward"] + log["value"]):
            self.refuse_round()
        return log

    def _adapt(self, divergence: float, most: float) -> None:
        if divergence > 2 * self.method.kl:
            self.rate.div_(1.5)
        elif divergence < self.method.kl / 2:
            self.rate.mul_(1.5)
        self.rate.clamp_(1e-5, most)

    @torch.no_grad()
    def simulate(self):
        """A round of simulation: rows (window · worlds, ...) of what was seen and done, and targets."""
        method, env, policy = self.method, self.env, self.policy
        self._seen.clear()
        rows, raw = [], []
        state = self.episodes
        for t in range(method.window):
            seen = env.observe(state)
            observed = policy.normaliser(seen)
            mean, log_deviation = policy.of_normalised(observed)
            noise = self.random.normal(env.action_size)
            u = mean + log_deviation.exp() * noise
            done = self.take_step(state, u.tanh())
            after = self.critic(policy.normaliser(env.observe(done.state)))[0, :, 0]
            value = torch.where(done.terminated, torch.zeros_like(after), after)
            ends = done.done if t < method.window - 1 else torch.ones_like(done.terminated)
            about = torch.stack([done.reward, done.terminated, done.failed, done.truncated])
            likelihood = log_likelihood(u, noise, log_deviation)
            reward = method.reward_scale * done.reward
            rows.append((observed, u, likelihood, self.critic(observed)[0, :, 0], reward, value, ends, about))
            raw.append(seen)
            state = self.carry_on(done.state, done.done)
        self.episodes = detached(state)
        observed, u, likelihood, values, rewards, after, ends, about = (torch.stack(x) for x in zip(*rows, strict=True))
        targets = td_lambda(rewards, after, ends, discount=method.discount, trust=method.trust)
        advantages = targets - values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        reward, terminated, failed, truncated = about.unbind(1)
        log = {
            "reward": reward.mean(), "entropy": -likelihood.mean() / env.action_size,
            "saturated": (u.tanh().abs() > 0.95).double().mean(), "value": targets.mean(),
            "terminated": terminated.sum(), "failed": failed.sum(), "truncated": truncated.sum(),
        }  # fmt: skip
        policy.normaliser.update(torch.cat(raw))
        kept = (x.flatten(0, 1) for x in (observed, u, likelihood, advantages, targets))
        return *kept, log
