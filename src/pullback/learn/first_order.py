"""Policy gradients through the simulator: back-propagation through time, SHAC and SAPO.

A window is T control steps of N worlds. With x the physics, o the observation and u the action before its hyperbolic
tangent, the loss L = -1/(NT) Σ [Σ γᵏ r + γᵏ⁺¹ V(o_end)] is pulled back through simulation, rewards and values to
g_t = ∂L/∂u_t once. The actor then takes one or more steps on

    Σ w_t g_t · û_t - α Σ γᵏ log σ_t / (NTd) + c KL(old ‖ new),    û = μ + σ (u - μ)/σ (the fraction held fixed)

of which the first has w = 1 and is the gradient of L itself; in further ones w is the ratio of likelihoods, or 0 where
that has left (0.2, 2): the simulator's gradients are used again (action-gradient reuse).

SHAC:  J. Xu et al., Accelerated Policy Learning with Parallel Differentiable Simulation, ICLR 2022.
SAPO:  E. Xing et al., Stabilizing Reinforcement Learning in Differentiable Multiphysics Simulation, ICLR 2025: entropy
       in the return and in the critics' targets, deviations that depend on the state, and two critics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from pullback.core.trees import leaves
from pullback.envs import Environment, Transition, detached
from pullback.learn.learner import Learner, Method, cap_rows, decayed, surely_none
from pullback.learn.networks import Adam, Perceptrons, Recorded
from pullback.learn.policy import log_likelihood
from pullback.learn.returns import td_lambda

RATIOS = (0.2, 2.0)  # of likelihoods, between which a gradient is used again


@dataclass(frozen=True, kw_only=True)
class FirstOrder(Method):
    """What the three methods have in common.

    window:        control steps through which gradients go back
    rate, critic_rate: of Adam; the actor's falls in a straight line to the end of the training
    betas, clip:   of Adam; the largest norm of a gradient
    critics:       how many, of which the actor takes the mean and targets the least; none for plain back-propagation
    critic_passes, minibatches: over a window's data
    trust:         λ of the critics' targets
    target_memory: share that a slow copy of the critics, which values are then taken from, keeps; 0 for none
    reuse:         further steps of the actor on the same gradients, held back by ``kl``
    cap:           a world's cotangents are at most so many times the median over worlds in which they are not zero
    closed_loop:   gradients also go back through what the policy sees; else only through the physics
    terminal_values: critics also learn that states in which episodes terminate are worth nothing. What falls over then
                   has a gradient, which leads away from it: termination itself has none
    entropy, entropy_rate: of the bonus for entropy: its factor α at first, and Adam's rate for its logarithm; none if 0
    entropy_target: to which α steers the entropy per action [nats]: at first, and at the end of the training
    """

    window: int = 8
    rate: float = 2e-3
    critic_rate: float = 1e-3
    betas: tuple[float, float] = (0.7, 0.95)
    clip: float = 0.5
    critics: int = 2
    critic_passes: int = 8
    minibatches: int = 4
    trust: float = 0.95
    target_memory: float = 0.0
    reuse: int = 3
    kl: float = 0.2
    cap: float = 10.0
    closed_loop: bool = True
    terminal_values: bool = False
    entropy: float = 0.0
    entropy_rate: float = 0.02
    entropy_target: tuple[float, float] = (-0.5, -2.0)

    gpu_worlds: ClassVar[int] = 8

    def begin(self, env: Environment, seed: int) -> FirstOrderLearner:
        return FirstOrderLearner(self, env, seed)


@dataclass(frozen=True, kw_only=True)
class SAPO(FirstOrder):
    """Soft analytic policy optimisation: the default."""

    terminal_values: bool = True
    entropy: float = 0.03


@dataclass(frozen=True, kw_only=True)
class SHAC(FirstOrder):
    """Short-horizon actor-critic."""

    critics: int = 1
    target_memory: float = 0.2
    clip: float = 1.0
    reuse: int = 0


@dataclass(frozen=True, kw_only=True)
class BPTT(FirstOrder):
    """Back-propagation through time: no critic, so that rewards after a window do not count."""

    window: int = 32
    critics: int = 0
    reuse: int = 0


class Window(NamedTuple):
    """What was seen in a window, (T, N, ...), without gradients, and its loss, with them."""

    loss: torch.Tensor
    observed: torch.Tensor  # normalised
    raw: torch.Tensor
    u: torch.Tensor
    mean: torch.Tensor
    log_deviation: torch.Tensor
    discounts: torch.Tensor  # of rewards, since the start of the window or of the episode
    rewards: torch.Tensor  # scaled, with the bonus
    values: torch.Tensor
    ends: torch.Tensor
    log: dict[str, torch.Tensor]
    u_bars: list[torch.Tensor]  # filled in by the backward pass
    capped: list[torch.Tensor]  # likewise: in how many worlds a cotangent was too large


class FirstOrderLearner(Learner):
    def __init__(self, method: FirstOrder, env: Environment, seed: int):
        super().__init__(method, env, seed)
        self.actor_adam = Adam(self.policy.network.flat, betas=method.betas, clip=method.clip)
        self.critic = None
        if method.critics:
            sizes = (method.critics, env.observation_size, method.hidden, 1)
            self.critic = Perceptrons(*sizes, generator=self.weights, dtype=env.dtype, device=env.device)
            self.critic_adam = Adam(self.critic.flat, betas=method.betas, clip=method.clip)
            self.fit = Recorded(self._fit)
            self.register_buffer("target", self.critic.flat.detach().clone())
            # The last observations at which episodes terminated, and for each 1, or 0 where there is none yet.
            rows = method.worlds if method.terminal_values else 0
            self.register_buffer("terminal", torch.zeros(rows, env.observation_size).to(self.target))
            self.register_buffer("is_terminal", torch.zeros(rows).to(self.target))
        start = math.log(method.entropy) if method.entropy else -math.inf
        self.register_buffer("log_alpha", torch.tensor(start, dtype=env.dtype, device=env.device))
        self.alpha_adam = Adam(self.log_alpha, betas=method.betas)
        self.entropy_target = method.entropy_target[0]

    def update(self, progress: float) -> dict[str, float]:
        method = self.method
        first, last = method.entropy_target
        self.entropy_target = first + (last - first) * min(progress, 1.0)
        window = self.gather()
        norm = self.improve_actor(window, decayed(method.rate, progress))
        log = window.log | {"gradient": norm, "capped": torch.stack(window.capped).sum()}
        if self.critic is not None:
            log |= self.fit_critic(window)
        self.policy.normaliser.update(window.raw.flatten(0, 1))
        self.steps += method.window * method.worlds
        log |= {"skipped": self.actor_adam.counts[1], "alpha": self.log_alpha.exp()}
        values = torch.stack([x.to(torch.float64) for x in log.values()]).tolist()  # the one wait for the device
        log = dict(zip(log, values, strict=True))
        if not math.isfinite(log["reward"] + log.get("value", 0.0)):
            self.refuse_round()
        return log

    # --- the window --------------------------------------------------------------------------------

    def gather(self) -> Window:
        """A window, and the gradients of its loss by the actions."""
        window = self.simulate()
        window.loss.backward()
        return window

    def simulate(self) -> Window:
        """Acts for a window from where episodes are, and keeps where they then are."""
        method, env, policy = self.method, self.env, self.policy
        self._seen.clear()
        frozen = policy.network.flat.detach()
        normalise, alpha = policy.normaliser, self.log_alpha.exp()
        state = detached(self.episodes)
        total = torch.zeros(env.worlds, dtype=env.dtype, device=env.device)
        discount = torch.ones_like(total)
        rows, edges, capped = [], [], []
        u_bars: list = [None] * method.window
        seen = env.observe(state)
        for t in range(method.window):
            raw = seen.detach()
            observed = normalise(seen if method.closed_loop else raw)
            mean, log_deviation = policy.of_normalised(observed, frozen)
            noise = self.random.normal(env.action_size)
            u = mean + log_deviation.exp() * noise
            u = u if u.requires_grad else u.requires_grad_()
            u.register_hook(lambda bar: self._cap(bar, capped))
            u.register_hook(lambda bar, t=t: u_bars.__setitem__(t, bar))
            action = u.tanh()
            done = self.take_step(state, action)
            for leaf in leaves(done.state.physics):
                if leaf.requires_grad:
                    leaf.register_hook(lambda bar: self._cap(bar, capped))
            seen = env.observe(done.state)
            likelihood = log_likelihood(u, noise, log_deviation)
            reward = method.reward_scale * done.reward
            if method.entropy:
                reward = reward + alpha * (-self.entropy_target - likelihood / env.action_size) * ~done.failed
            last = t == method.window - 1
            ends = torch.ones_like(done.done) if last else done.done
            total = total + discount * reward
            terminal = self._terminal(done)
            valued = ends & (~done.terminated | terminal)
            if last or not surely_none(valued):
                edges.append((seen, method.discount * discount * valued))
            weight, discount = discount, torch.where(ends, torch.ones_like(discount), method.discount * discount)
            kinds = (done.terminated, done.failed, done.truncated, terminal)
            about = torch.stack([done.reward, likelihood, *kinds]).detach()
            rows.append((observed, raw, u, mean, log_deviation, weight, reward, seen, ends, about))
            state = self.carry_on(done.state, done.done)
            if state is not done.state:
                seen = env.observe(state)
        self.episodes = detached(state)
        stacked = [torch.stack([x.detach() for x in column]) for column in zip(*rows, strict=True)]
        *kept, after, ends, about = stacked
        reward, likelihood, terminated, failed, truncated, terminal = about.unbind(1)
        values = torch.zeros_like(reward)
        if self.critic is not None:
            total = total + self._values_at(edges)
            with torch.no_grad():
                values = torch.where(terminated > 0, values, self._values(after.flatten(0, 1)).amin(0).view_as(reward))
                self._remember(after.flatten(0, 1), terminal.flatten())
        action = kept[2].tanh()
        log = {
            "reward": reward.mean(), "entropy": -likelihood.mean() / env.action_size,
            "saturated": (action.abs() > 0.95).double().mean(), "deviation": kept[4].exp().mean(),
            "terminated": terminated.sum(), "failed": failed.sum(), "truncated": truncated.sum(),
        }  # fmt: skip
        return Window(-total.mean() / method.window, *kept, values, ends, log, u_bars, capped)

    def _terminal(self, done: Transition) -> torch.Tensor:
        """(N,) where an episode terminated for the state that it is in, which critics are to learn."""
        if not self.method.terminal_values:
            return torch.zeros_like(done.terminated)
        timed = (done.state.age >= self.env.limit) if self.env.timed else torch.zeros_like(done.terminated)
        return done.terminated & ~done.failed & ~timed

    def _remember(self, seen: torch.Tensor, terminal: torch.Tensor) -> None:
        """Keeps the last observations (rows, n) that are terminal (rows,), in memory of a fixed size."""
        if not len(self.terminal) or surely_none(terminal > 0):
            return
        flags = torch.cat([terminal, self.is_terminal])
        order = flags.sort(descending=True, stable=True).indices[: len(self.terminal)]
        self.terminal.copy_(torch.cat([seen, self.terminal])[order])
        self.is_terminal.copy_(flags[order])

    def _values(self, seen: torch.Tensor) -> torch.Tensor:
        """What all critics say of observations (rows, n), (critics, rows)."""
        return self.critic(self.policy.normaliser(seen), self.target).squeeze(-1)

    def _values_at(self, edges: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """Mean values of observations where parts of the window end, with weights, added up for each world."""
        seen, weights = map(torch.cat, zip(*edges, strict=True))
        parts = torch.where(weights > 0, weights * self._values(seen).mean(0), torch.zeros_like(weights))
        return parts.view(len(edges), -1).sum(0)

    def _cap(self, bar: torch.Tensor | None, capped: list) -> torch.Tensor | None:
        """Cotangents (N, ...) by ``cap_rows``; the number of worlds in which one was too large is added to a list."""
        if bar is None:  # nothing depends on it
            return None
        bar, over = cap_rows(bar, self.method.cap)
        capped.append(over.sum())
        return bar

    # --- learning ----------------------------------------------------------------------------------

    def improve_actor(self, window: Window, rate: float) -> torch.Tensor:
        """Steps of the actor on the gradients of one window. Returns the norm of the first."""
        flat, norms = self.policy.network.flat, []
        for repeat in range(1 + self.method.reuse):
            norms.append(self.actor_adam.step(flat.data, self.actor_gradient(window, first=not repeat), rate))
        if self.method.entropy:
            gradient = (window.log["entropy"] - self.entropy_target).to(self.log_alpha.dtype)
            self.alpha_adam.step(self.log_alpha, gradient, self.method.entropy_rate)
        return norms[0]

    def actor_gradient(self, window: Window, *, first: bool = True) -> torch.Tensor:
        """By the actor's weights: of the window's loss itself if it is the first, or of what stands for it later."""
        method, u, old_mean, old_log = self.method, window.u, window.mean, window.log_deviation
        mean, log_deviation = (x.view_as(u) for x in self.policy.of_normalised(window.observed.flatten(0, 1)))
        deviation = log_deviation.exp()
        noise = ((u - mean) / deviation).detach()
        loss = torch.stack(window.u_bars) * (mean + deviation * noise)
        if not first:
            old_noise = (u - old_mean) * torch.exp(-old_log)
            ratio = (0.5 * (old_noise**2 - noise**2) + old_log - log_deviation.detach()).sum(-1, keepdim=True).exp()
            loss = loss * torch.where((ratio > RATIOS[0]) & (ratio < RATIOS[1]), ratio, torch.zeros_like(ratio))
        loss = loss.sum()
        if method.entropy:
            loss = loss - self.log_alpha.exp() * (window.discounts[..., None] * log_deviation).mean()
        if not first:
            apart = torch.exp(2 * old_log) + (old_mean - mean) ** 2
            loss = loss + method.kl * (log_deviation - old_log + apart / (2 * deviation**2) - 0.5).sum(-1).mean()
        return torch.autograd.grad(loss, self.policy.network.flat)[0]

    def fit_critic(self, window: Window) -> dict[str, torch.Tensor]:
        """Fits the critics to TD(λ) targets of the window, and to zero where episodes terminated."""
        method = self.method
        options = {"discount": method.discount, "trust": method.trust}
        targets = td_lambda(window.rewards, window.values, window.ends, **options).flatten()
        terminal, counts = self.terminal, self.is_terminal
        if counts.device.type == "cpu":  # elsewhere, asking how many there are would wait for the device
            terminal, counts = terminal[counts > 0], counts[counts > 0]
        observed = torch.cat([window.observed.flatten(0, 1), self.policy.normaliser(terminal)])
        weights = torch.cat([torch.ones_like(targets), counts])
        wanted = torch.cat([targets, torch.zeros_like(counts)])
        loss = self.fit(observed, wanted, weights, self.orders(len(wanted), method.critic_passes))
        self.target.lerp_(self.critic.flat.detach(), 1 - method.target_memory)
        return {"critic_loss": loss, "value": targets.mean()}

    def _fit(self, observed, wanted, weights, orders: torch.Tensor) -> torch.Tensor:
        """Steps of the critics towards values that are wanted of observations, and the loss of the last minibatch."""
        critic = self.critic
        for order in orders:
            for rows in order.chunk(self.method.minibatches):
                errors = (critic(observed[rows]).squeeze(-1) - wanted[rows]) * weights[rows]
                loss = (errors * errors).sum() / len(rows)
                (gradient,) = torch.autograd.grad(loss, critic.flat)
                self.critic_adam.step(critic.flat.data, gradient, self.method.critic_rate)
        return loss.detach()
