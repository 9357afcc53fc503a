"""Soft actor-critic, and with it policy enhancement and sample enhancement through the simulator.

T. Haarnoja et al., Soft Actor-Critic Algorithms and Applications, 2018: two critics Q(s, a) with slow copies Q̄, values

    V̄(s) = min Q̄(s, a) - α log π(a|s),  a ~ π(s),      target of Q(s, a):  r + γ (1 - terminated) V̄(s')

and a temperature α that keeps the policy's entropy near a target. The actor minimises mean [α log π(a|s) - min Q(s, a)]
over a ~ π(s).

**Policy enhancement** (Y.-L. Qiao et al., Efficient Differentiable Simulation of Articulated Bodies, ICML 2021, section
5) takes the gradient by the action from the simulator instead of the critic (equations 13 and 14):

    g = ∂r/∂a + γ (∂s'/∂a)ᵀ ∂V̄(s')/∂s',      the actor minimises mean [α log π(a|s) - w g·a], with g and w held fixed

``enhance="policy-stored"``: the derivatives are those at the stored action a₀, kept with each sample, and w =
exp(-|a - a₀|) (equation 16). Nothing is simulated beyond the samples. The paper's own code computes the weight but
leaves it out, and its γ (which is 1 there) enters twice.

``enhance="policy"``: the simulator runs again from the stored state under the *current* policy's action, for
``horizon`` steps; the gradient of r₀ + ... + γʰ V̄(s_h) goes back through these steps. No derivative is stale, so there
is no weight, and the sums themselves are further targets for the critics. In return each of these rows costs
``horizon`` control steps forward and backward, which the log counts as "resimulated": they are not among the steps of
experience.
With one step this is the gradient of equation 13 at the current action; it is also SVG(h) (N. Heess et al., Learning
Continuous Control Policies by Stochastic Value Gradients, 2015) with the true dynamics.

``enhance="samples"`` is sample enhancement: see :func:`pullback.learn.replay.nearby`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pullback.core.errors import PullbackError
from pullback.envs import Environment, EnvState, detached
from pullback.learn.learner import Learner, Method, cap_rows, decayed
from pullback.learn.networks import Adam, Perceptrons
from pullback.learn.policy import log_likelihood
from pullback.learn.replay import Columns, Replay, columns_of, jacobians, nearby, state_of

ENHANCEMENTS = ("policy", "policy-stored", "samples")


@dataclass(frozen=True, kw_only=True)
class SAC(Method):
    """Soft actor-critic, with policy enhancement or sample enhancement if asked for.

    window:           control steps of a round
    updates_per_step: gradient steps per control step of one world
    random_steps:     control steps of all worlds with random actions, before the first round
    capacity:         rows of the memory
    batch:            rows of a gradient step
    rate, clip:       of Adam, at first: it falls in a straight line; the largest norm of a gradient
    target_memory:    share that the slow copies of the critics keep in a gradient step
    temperature, temperature_rate: α at first, and Adam's rate for its logarithm
    entropy_target:   of the policy, per action [nats]
    actor_every:      gradient steps of the critics per one of the actor
    enhance:          None, "policy", "policy-stored" or "samples"
    horizon, ahead:   "policy": control steps through which the gradient goes back, and rows of a batch it starts from
    cap:              a row's gradient by its action is at most so many times the median over rows that have one
    spread, copies:   "samples": actions move by up to ± this, and so many moved samples come with each stored one
    """

    worlds: int = 8
    window: int = 16
    updates_per_step: float = 1.0
    random_steps: int = 1000
    capacity: int = 200_000
    batch: int = 256
    rate: float = 1e-3
    clip: float = 10.0
    target_memory: float = 0.995
    temperature: float = 0.1
    temperature_rate: float = 3e-3
    entropy_target: float = -0.5
    actor_every: int = 1
    enhance: str | None = None
    horizon: int = 1
    ahead: int = 64
    cap: float = 10.0
    spread: float = 0.05
    copies: int = 9

    def __post_init__(self):
        super().__post_init__()
        if self.enhance is not None and self.enhance not in ENHANCEMENTS:
            raise PullbackError(f"enhance={self.enhance!r} is not known: use {', '.join(map(repr, ENHANCEMENTS))}")
        if not 1 <= self.ahead <= self.batch:
            raise PullbackError(f"ahead={self.ahead} must be between 1 and batch={self.batch}")
        if self.capacity < max(self.window * self.worlds, self.random_steps + self.worlds):
            raise PullbackError(f"capacity={self.capacity} is less than one round or random_steps: use a larger one")

    def begin(self, env: Environment, seed: int) -> SACLearner:
        return SACLearner(self, env, seed)


class SACLearner(Learner):
    def __init__(self, method: SAC, env: Environment, seed: int):
        super().__init__(method, env, seed)
        inputs = env.observation_size + env.action_size
        self.critic = Perceptrons(
            2, inputs, method.hidden, 1, generator=self.weights, dtype=env.dtype, device=env.device
        )
        self.actor_adam, self.critic_adam = (
            Adam(network.flat, clip=method.clip) for network in (self.policy.network, self.critic)
        )
        self.register_buffer("target", self.critic.flat.detach().clone())
        start = torch.tensor(math.log(method.temperature), dtype=env.dtype, device=env.device)
        self.register_buffer("log_alpha", start)
        self.alpha_adam = Adam(self.log_alpha)
        self.memory = Replay(method.capacity)
        self.rate = method.rate  # at present
        self.per_round = max(1, round(method.updates_per_step * method.window * method.worlds))
        if method.enhance == "policy":
            self.again, self.again_random = self._in_worlds(method.ahead)
        elif method.enhance is not None:
            self.beside, self.beside_random = self._in_worlds(method.worlds * (env.observation_size + 1))

    def _in_worlds(self, worlds: int):
        """The environment in another number of worlds, and its random numbers, from the learner's one generator."""
        env = self.env.in_worlds(worlds)
        random = env.random(0)
        random.generator = self.random.generator
        return env, random

    def update(self, progress: float) -> dict[str, float]:
        method = self.method
        self._seen.clear()
        self.rate = decayed(method.rate, progress)
        if self.steps < method.random_steps:
            self.simulate(math.ceil((method.random_steps - self.steps) / method.worlds), at_random=True)
        log = self.simulate(method.window)
        log |= self.prepare(progress)
        batches = self.draw(self.per_round)
        for i in range(self.per_round):
            batch = {name: x[i] for name, x in batches.items()}
            more = None
            if i % method.actor_every == 0:
                log["gradient"], log["entropy"], more = self.improve_actor(batch)
            log["critic_loss"], log["value"] = self.fit_critic(batch, more)
            self.target.lerp_(self.critic.flat.detach(), 1 - method.target_memory)
        log |= {"skipped": self.actor_adam.counts[1], "alpha": self.log_alpha.exp()}
        log = {name: float(x) for name, x in log.items()}
        if method.enhance == "policy":
            log["resimulated"] = math.ceil(self.per_round / method.actor_every) * method.ahead * method.horizon
        if not math.isfinite(log["value"]):
            self.refuse_round()
        return log

    def prepare(self, progress: float) -> dict[str, float]:
        """What there is to do between simulation and learning. Returns what there is to log."""
        return {}

    # --- experience --------------------------------------------------------------------------------

    @torch.no_grad()
    def simulate(self, steps: int, *, at_random: bool = False) -> dict[str, torch.Tensor]:
        """Acts for so many control steps in all worlds, and remembers them. Returns what there is to log."""
        method, env, policy, state = self.method, self.env, self.policy, self.episodes
        rows, about = [], []
        for _ in range(steps):
            seen = env.observe(state)
            if at_random:
                action = self.random.uniform(env.action_size, low=-1.0, high=1.0)
            else:
                mean, log_deviation = policy.distribution(seen)
                action = (mean + log_deviation.exp() * self.random.normal(env.action_size)).tanh()
            done = self.take_step(state, action)
            # Of the episode's last state, not of the next episode's first: where it is truncated, its value counts.
            after = env.check_observation(env.observe(done.state))
            row = {"seen": seen, "action": action, "after": after, "reward": done.reward}
            row["terminated"] = done.terminated.to(env.dtype)
            if method.enhance == "policy":
                row |= columns_of(state)
            elif method.enhance is not None:
                row["jacobian"] = jacobians(self.beside, state, action, self.beside_random)
            rows.append(row)
            about.append(torch.stack([done.terminated, done.failed, done.truncated]))
            state = self.carry_on(done.state, done.done)
        self.episodes = detached(state)
        self.steps += steps * method.worlds
        columns = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
        reward = columns["reward"].mean()
        if not torch.isfinite(reward):
            self.refuse_round()
        self.memory.add(columns)
        policy.normaliser.update(columns["seen"])
        terminated, failed, truncated = torch.stack(about).sum(dim=(0, 2))
        saturated = (columns["action"].abs() > 0.95).double().mean()
        return {
            "reward": reward, "saturated": saturated, "terminated": terminated, "failed": failed,
            "truncated": truncated,
        }  # fmt: skip

    def draw(self, updates: int) -> Columns:
        """Rows for so many gradient steps, (updates, batch, ...)."""
        rows = self.remembered(self.memory.sample(updates * self.method.batch, self.random.generator))
        return {name: x.unflatten(0, (updates, -1)) for name, x in rows.items()}

    def remembered(self, rows: Columns) -> Columns:
        """Rows of the memory, most of them moved to actions nearby if samples are enhanced."""
        if self.method.enhance != "samples":
            return rows
        shape, generator = rows["action"].shape, self.random.generator
        options = {"generator": generator, "dtype": self.env.dtype, "device": generator.device}
        delta = self.method.spread * (2 * torch.rand(shape, **options) - 1)
        moved = torch.rand(shape[0], 1, **options) < self.method.copies / (self.method.copies + 1)
        rows = nearby(rows, delta * moved)
        return {name: x for name, x in rows.items() if name != "jacobian"}

    # --- learning ----------------------------------------------------------------------------------

    def noise(self, rows: int) -> torch.Tensor:
        generator = self.random.generator
        options = {"generator": generator, "dtype": self.env.dtype, "device": generator.device}
        return torch.randn(rows, self.env.action_size, **options)

    def drawn(self, observed: torch.Tensor, noise: torch.Tensor, weights: torch.Tensor | None = None):
        """Actions of the policy for normalised observations, and the logarithms of their likelihoods."""
        mean, log_deviation = self.policy.of_normalised(observed, weights)
        u = mean + log_deviation.exp() * noise
        return u.tanh(), log_likelihood(u, noise, log_deviation)

    def value(self, seen: torch.Tensor, noise: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Soft values (rows,) of observations, by critics with these weights; gradients are by observations only."""
        observed = self.policy.normaliser(seen)
        action, likelihood = self.drawn(observed, noise, self.policy.network.flat.detach())
        worth = self.critic(torch.cat([observed, action], dim=1), weights).amin(0).squeeze(-1)
        return worth - self.log_alpha.exp() * likelihood

    @torch.no_grad()
    def targets(self, batch: Columns, noise: torch.Tensor) -> torch.Tensor:
        """What Q(s, a) should be, (rows,)."""
        later = self.value(batch["after"], noise, self.target)
        return self.method.reward_scale * batch["reward"] + self.method.discount * (1 - batch["terminated"]) * later

    def fit_critic(self, batch: Columns, more: tuple | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """One gradient step of the critics. Returns their loss and the mean of the targets.

        more:  further inputs (rows, n + actions), normalised, and targets (rows,)
        """
        targets = self.targets(batch, self.noise(len(batch["action"])))
        inputs = torch.cat([self.policy.normaliser(batch["seen"]), batch["action"]], dim=1)
        if more is not None:
            inputs, targets = torch.cat([inputs, more[0]]), torch.cat([targets, more[1]])
        found = self.critic(inputs).squeeze(-1)
        loss = ((found - targets) ** 2).mean(1).sum()
        (gradient,) = torch.autograd.grad(loss, self.critic.flat)
        self.critic_adam.step(self.critic.flat.data, gradient, self.rate)
        return loss.detach(), targets.mean()

    def improve_actor(self, batch: Columns) -> tuple[torch.Tensor, torch.Tensor, tuple | None]:
        """One gradient step of the actor and the temperature.

        Returns the gradient's norm, the policy's entropy, and inputs and targets for the critics if there are any.
        """
        flat, rows, more = self.policy.network.flat, len(batch["action"]), None
        if self.method.enhance == "policy":
            noises = torch.stack([self.noise(self.again.worlds) for _ in range(self.method.horizon + 1)])
            state = state_of({name: x[: self.again.worlds] for name, x in batch.items()}, self.episodes)
            loss, likelihood, more = self.loss_ahead(state, noises, flat)
        elif self.method.enhance == "policy-stored":
            loss, likelihood = self.loss_stored(batch, self.noise(rows), self.noise(rows))
        else:
            loss, likelihood = self.loss_critic(batch, self.noise(rows))
        (gradient,) = torch.autograd.grad(loss, flat)
        norm = self.actor_adam.step(flat.data, gradient, self.rate)
        likelihood = likelihood.detach().mean()
        wanted = self.method.entropy_target * self.env.action_size
        self.alpha_adam.step(self.log_alpha, -(likelihood + wanted), self.method.temperature_rate)
        return norm, -likelihood / self.env.action_size, more

    def loss_critic(self, batch: Columns, noise: torch.Tensor):
        """The actor's loss by the critics, and likelihoods (rows,)."""
        observed = self.policy.normaliser(batch["seen"])
        action, likelihood = self.drawn(observed, noise)
        worth = self.critic(torch.cat([observed, action], dim=1), self.critic.flat.detach()).amin(0).squeeze(-1)
        return (self.log_alpha.exp() * likelihood - worth).mean(), likelihood

    def loss_stored(self, batch: Columns, noise: torch.Tensor, later: torch.Tensor):
        """The same by derivatives that are kept with the samples: equations 13, 14 and 16."""
        action, likelihood = self.drawn(self.policy.normaliser(batch["seen"]), noise)
        by_action = self.action_gradient(batch, later)
        weight = torch.exp(-torch.linalg.vector_norm((action - batch["action"]).detach(), dim=1))
        gain = weight * (self.capped(by_action) * action).sum(1)
        return (self.log_alpha.exp() * likelihood - gain).mean(), likelihood

    def action_gradient(self, batch: Columns, noise: torch.Tensor) -> torch.Tensor:
        """∂r/∂a + γ (∂s'/∂a)ᵀ ∂V̄(s')/∂s' (rows, actions) at the stored action: equation 13."""
        after = batch["after"].detach().requires_grad_()
        (bar,) = torch.autograd.grad(self.value(after, noise, self.target).sum(), after)
        bar = self.method.discount * (1 - batch["terminated"])[:, None] * bar
        bars = torch.cat([bar, torch.full_like(bar[:, :1], self.method.reward_scale)], dim=1)
        return torch.einsum("rna,rn->ra", batch["jacobian"], bars)

    def loss_ahead(self, state: EnvState, noises: torch.Tensor, weights: torch.Tensor):
        """The same by ``horizon`` steps of simulation from these states, through which gradients go back.

        noises:   (horizon + 1, rows, actions), of the policy at each step and at the end
        weights:  of the policy in these steps; at the end it has its own, without gradient

        Returns inputs and targets for the critics besides.
        """
        method, env, alpha = self.method, self.again, self.log_alpha.exp()
        total = torch.zeros(env.worlds, dtype=env.dtype, device=env.device)
        discount, likelihoods, first = torch.ones_like(total), [], None
        for noise in noises[:-1]:
            observed = self.policy.normaliser(env.observe(state))
            action, likelihood = self.drawn(observed, noise, weights)
            first = torch.cat([observed, action], dim=1).detach() if first is None else first
            if action.requires_grad:
                action.register_hook(self.capped)
            done = self.timed(env.step(state, action, self.again_random))
            total = total + discount * (method.reward_scale * done.reward - alpha * likelihood)
            later = method.discount * discount
            # An episode that ends on the way is worth nothing more, or what the critics say where it is truncated.
            ends = done.done if len(likelihoods) < method.horizon - 1 else torch.ones_like(done.terminated)
            if ends.any():
                value = self.value(env.observe(done.state), noises[-1], self.target)
                total = total + torch.where(ends & ~done.terminated, later * value, torch.zeros_like(value))
            discount = torch.where(ends, torch.zeros_like(later), later)
            likelihoods.append(likelihood)
            state = done.state
        worth = (total + alpha * likelihoods[0]).detach()  # a Q has no entropy of its own action
        return -total.mean(), torch.cat(likelihoods), (first, worth)

    def capped(self, bar: torch.Tensor) -> torch.Tensor:
        """Gradients (rows, actions) by ``cap_rows``."""
        return cap_rows(bar, self.method.cap)[0]

    # --- what is kept ------------------------------------------------------------------------------

    def more_arrays(self) -> dict[str, torch.Tensor]:
        return self.memory.arrays("memory.real")

    def restore_more(self, arrays: dict[str, torch.Tensor]) -> None:
        self.memory.restore(arrays, "memory.real", self.env.device)
