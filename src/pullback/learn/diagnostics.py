"""Is the gradient through the simulator any good for this policy? Over how many control steps?

Two questions, for windows of 1, 2, 4, ... control steps from states that the policy gets into:

- **cosine**: the worlds are split into halves, and each gives a gradient of the policy's weights. The cosine of the
  angle between them is near 1 where a window's gradient is the same whatever worlds it comes from, and near 0 where it
  is noise, as after too long a window through contact.
- **slope**: how fast the loss changes along the gradient, by central differences, over what the gradient promises: its
  norm. It is 1 where the gradient is right. Where that of one control step is not, a function of the environment cuts
  the gradient off; where that of many is not, the motion is chaotic, or contacts that come and go make the loss jump.

The loss of a window is minus its mean reward. Random numbers are held fixed, so that it is a function of the weights
alone, and episodes that end in a window count until then. There is no critic in it: the check is of the simulator.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.envs import Environment, EnvState, detached, select
from pullback.envs.registry import named
from pullback.learn.learner import Learner, cap_rows
from pullback.learn.policy import Policy

HORIZONS = (1, 2, 4, 8, 16, 32)
SPREAD = 200  # control steps over which the states that windows start from are spread
STEPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # of central differences, as distances in the space of the weights
COARSE = 1e-4  # the least of them in float32: smaller differences are lost in rounding
CAP = 10.0  # a world's cotangents are at most so many times the median, by cap_rows, as learners have it
SATURATED = 0.95  # actions beyond this have nearly no gradient
RIGHT = 0.05  # by which the slope of a right gradient may differ from 1


class Horizon(NamedTuple):
    """The diagnosis of windows of one length.

    steps:     control steps
    cosine:    of the angle between the gradients of two halves of the worlds
    slope:     of the loss along the gradient, by differences, over the gradient's norm; where that is zero, infinite if
               the loss changes all the same, and NaN if it does not
    gradient:  norm of the gradient by the policy's weights
    capped:    worlds with a cotangent of more than 10 times the median
    failed:    worlds whose simulation failed
    """

    steps: int
    cosine: float
    slope: float
    gradient: float
    capped: int
    failed: int


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of the gradients of a policy in an environment.

    horizons:   one row per length of window
    worlds:     that were simulated
    saturated:  share of actions beyond 0.95, which have nearly no gradient
    slack:      mean of 1 - a², the factor by which the hyperbolic tangent shrinks gradients
    deviation:  mean of the actions' deviation before the hyperbolic tangent
    skipped:    updates of the learner that were left out since their gradient was not finite; None for a policy alone
    """

    horizons: tuple[Horizon, ...]
    worlds: int
    saturated: float
    slack: float
    deviation: float
    skipped: int | None = None

    @property
    def right(self) -> bool:
        """Whether the gradient is that of the loss, in the shortest window in which actions matter."""
        return abs(self.slope - 1.0) <= RIGHT

    @property
    def slope(self) -> float:
        """Of the shortest window in which actions matter; NaN if there is none."""
        return next((row.slope for row in self.horizons if not math.isnan(row.slope)), math.nan)

    def __str__(self) -> str:
        rows = [f"{'control steps':>13}{'cosine':>9}{'slope':>9}{'gradient':>11}{'capped':>8}{'failed':>8}"]
        rows += [
            f"{h.steps:>13}{h.cosine:>9.3f}{h.slope:>9.3f}{h.gradient:>11.3g}{h.capped:>8}{h.failed:>8}"
            for h in self.horizons
        ]
        actions = f"actions: {self.saturated:.1%} beyond {SATURATED}, mean 1 - a² {self.slack:.3f}"
        rows += ["", f"{actions}, deviation {self.deviation:.3f}; {self.worlds} worlds"]
        return "\n".join(rows + ([] if self.skipped is None else [f"skipped updates: {self.skipped}"]))


def diagnose(
    policy: Policy | Learner,
    env: Environment | str,
    *,
    horizons: Sequence[int] = HORIZONS,
    worlds: int = 128,
    seed: int = 0,
    dtype: str | None = "float64",
    watch: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Compares the gradient through the simulator between halves of the worlds, and with finite differences.

    policy:    or a learner, whose policy is used
    env:       or the name of one
    horizons:  lengths of windows, in control steps
    worlds:    number of worlds, half of them for each gradient
    dtype:     precision; None: that of the environment
    watch:     called with the number of horizons that are done, and the total number
    """
    skipped = None
    if isinstance(policy, Learner):
        adam = getattr(policy, "actor_adam", None)
        policy, skipped = policy.policy, None if adam is None else int(adam.counts[1])
    if not isinstance(policy, Policy):
        raise PullbackError(f"diagnose needs a Policy or a Learner, not {type(policy).__name__}")
    env = named(env)
    policy.check(env)
    horizons = sorted({check_whole(steps, "a horizon") for steps in horizons})
    if not horizons:
        raise PullbackError("horizons must be lengths of windows in control steps, such as (1, 8, 32): there are none")
    env = env.in_worlds(check_whole(worlds, "worlds", 2), dtype=dtype)
    policy = copy.deepcopy(policy).to(device=env.device, dtype=env.dtype)
    random = env.random(seed)
    start = _spread(policy, env, max(1, min(SPREAD, env.limit - horizons[-1])), random)
    noise = torch.stack([random.normal(env.action_size) for _ in range(horizons[-1])])
    found, actions, deviation = [], None, None
    for steps in horizons:
        window = FixedWindow(policy, env, start, noise[:steps], seed)
        row, actions, deviation = window.examine()
        found.append(row)
        if watch is not None:
            watch(len(found), len(horizons))
    saturated, slack = (actions.abs() > SATURATED).double().mean(), (1 - actions**2).mean()
    return Diagnosis(tuple(found), env.worlds, float(saturated), float(slack), float(deviation), skipped)


@torch.no_grad()
def _spread(policy: Policy, env: Environment, steps: int, random) -> EnvState:
    """Where worlds are at a random moment of the first ``steps`` control steps, each at its own."""
    state = start = env.reset(random)
    moments = random.uniform(low=0.0, high=steps).long()
    for t in range(steps):
        start = select(moments == t, state, start)
        mean, log_deviation = policy.distribution(env.check_observation(env.observe(state)))
        done = env.step(state, torch.tanh(mean + log_deviation.exp() * random.normal(env.action_size)), random)
        env.check_reward(done)
        state = env.reset_where(done.done, done.state, random)
    return detached(start)


class FixedWindow:
    """Some control steps from states that are always the same, with the same noise (steps, worlds, actions)."""

    def __init__(self, policy: Policy, env: Environment, start: EnvState, noise: torch.Tensor, seed: int):
        self.policy, self.env, self.start, self.noise, self.seed = policy, env, start, noise, seed

    def examine(self) -> tuple[Horizon, torch.Tensor, torch.Tensor]:
        """The row of the table; the actions (steps, worlds, actions), and the mean of their deviation."""
        weights = self.policy.network.flat.detach()
        losses, observed, u, failed = self.simulate(weights)
        # The weights are held fixed on the way, and only what reaches u is kept: the network is gone back through once,
        # for each half, with all rows at once.
        bars = torch.autograd.grad(losses.mean(), u, allow_unused=True) if losses.requires_grad else [None] * len(u)
        u_bar = torch.stack([torch.zeros_like(x) if bar is None else bar for x, bar in zip(u, bars, strict=True)])
        capped, over = (torch.stack(x) for x in zip(*(cap_rows(bar, CAP) for bar in u_bar), strict=True))
        first, second = (self.gradient(observed, capped, slice(half, None, 2)) for half in (0, 1))
        gradient = self.gradient(observed, u_bar)
        norm = float(torch.linalg.vector_norm(gradient))
        row = Horizon(
            steps=len(self.noise),
            cosine=float(first @ second / (torch.linalg.vector_norm(first) * torch.linalg.vector_norm(second))),
            slope=self.slope(weights, gradient / norm) / norm if norm else self.slope_of_zero(weights),
            gradient=norm,
            capped=int(over.any(dim=0).sum()),
            failed=int(failed.sum()),
        )
        _, log_deviation = self.policy.of_normalised(observed.flatten(0, 1), weights)
        return row, torch.stack([x.detach().tanh() for x in u]), log_deviation.exp().mean()

    def simulate(self, weights: torch.Tensor):
        """Losses (worlds,); normalised observations (steps, worlds, n), actions before the hyperbolic tangent, of each
        step; and which worlds failed."""
        env, policy, state = self.env, self.policy, self.start
        random = env.random(self.seed)
        alive = torch.ones(env.worlds, dtype=torch.bool, device=env.device)
        failed, total = ~alive, torch.zeros(env.worlds, dtype=env.dtype, device=env.device)
        observed, all_u = [], []
        for noise in self.noise:
            seen = policy.normaliser(env.observe(state))
            mean, log_deviation = policy.of_normalised(seen, weights)
            u = mean + log_deviation.exp() * noise
            if torch.is_grad_enabled() and not u.requires_grad:
                u.requires_grad_()
            observed.append(seen.detach())
            all_u.append(u)
            done = env.step(state, u.tanh(), random)
            total = total + torch.where(alive, done.reward, torch.zeros_like(total))
            failed, alive, state = failed | (alive & done.failed), alive & ~done.done, done.state
        return -total / len(self.noise), torch.stack(observed), all_u, failed

    def gradient(self, observed: torch.Tensor, u_bar: torch.Tensor, worlds=slice(None)) -> torch.Tensor:  # noqa: B008
        """By the policy's weights, from cotangents of the actions (steps, worlds, actions), of some worlds."""
        parts = (x[:, worlds].flatten(0, 1) for x in (observed, u_bar, self.noise))
        seen, bars, noise = parts
        mean, log_deviation = self.policy.of_normalised(seen)
        return torch.autograd.grad((bars * (mean + log_deviation.exp() * noise)).sum(), self.policy.network.flat)[0]

    @torch.no_grad()
    def slope(self, weights: torch.Tensor, direction: torch.Tensor) -> float:
        """Of the loss along a direction of the weights, by central differences of several sizes.

        A contact that begins or ends between the two sides makes the loss jump, and its difference of any size: so
        of each world the median over sizes counts.
        """
        losses = lambda step: self.simulate(weights + step * direction)[0]  # noqa: E731
        sizes = [h for h in STEPS if h >= COARSE or weights.dtype == torch.float64]
        return float(torch.stack([(losses(h) - losses(-h)) / (2 * h) for h in sizes]).median(dim=0).values.mean())

    def slope_of_zero(self, weights: torch.Tensor) -> float:
        """What stands for the slope of a gradient that is zero: the loss may change with the weights all the same."""
        direction = torch.ones_like(weights) / len(weights) ** 0.5
        return math.inf if self.slope(weights, direction) else math.nan
