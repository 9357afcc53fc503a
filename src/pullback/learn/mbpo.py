"""Model-based policy optimisation: soft actor-critic on short rollouts of a learned model.

M. Janner et al., When to Trust Your Model: Model-Based Policy Optimization, NeurIPS 2019. The model is an ensemble of
networks, each of which gives a normal distribution of the reward and of the change of the observation. After each round
of simulation it is fitted further, rollouts of it start from observations of the memory, and the actor and the critics
learn from a little real and much predicted experience.

Two things differ from the original. The probability that an episode terminates is learnt as well, as one more output,
where the original is given a formula for each environment; and predicted experience carries that probability, so that
targets take its mean. Targets of the networks are normalised, as their inputs are.

``enhance="samples"`` is the sample enhancement of Y.-L. Qiao et al. (:func:`pullback.learn.replay.nearby`): both the
model and the critics learn from real samples and samples near them. The paper's code moves one random entry of the
observation by one row of the Jacobian; here all move, by the full one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from pullback.core.errors import PullbackError
from pullback.envs import Environment
from pullback.learn.networks import Adam, Normaliser, Perceptrons
from pullback.learn.replay import Columns, Replay
from pullback.learn.sac import SAC, SACLearner

LOG_VARIANCE = (-10.0, 1.0)  # of a normalised prediction
HELD_OUT = 5  # every fifth row of the memory is not learnt from: it decides when to stop, and which networks are elite
PATIENCE, GAIN = 5, 0.01  # fitting stops after so many passes in which the held-out error did not fall by this share


@dataclass(frozen=True, kw_only=True)
class MBPO(SAC):
    """Model-based policy optimisation: soft actor-critic on short rollouts of a learned model.

    networks, elites: of the ensemble, and how many of them, those with the least held-out error, predict
    model_hidden, model_rate, model_decay: sizes of their layers; Adam's rate and decay of weights
    model_passes:     over the memory in a round, at most
    rollouts:         of the model in a round
    lengths:          (from, to, first, last): rollouts grow from ``first`` to ``last`` control steps while the training
                      goes from ``from`` to ``to``, as shares of it
    remembered_rounds: for which predicted experience is kept
    real:             share of a batch that is real
    """

    window: int = 32
    updates_per_step: float = 10.0
    networks: int = 7
    elites: int = 5
    model_hidden: tuple[int, ...] = (200, 200, 200, 200)
    model_rate: float = 1e-3
    model_decay: float = 5e-5
    model_passes: int = 10
    rollouts: int = 10_000
    lengths: tuple[float, float, int, int] = (0.2, 1.0, 1, 1)
    remembered_rounds: int = 4
    real: float = 0.05

    def __post_init__(self):
        super().__post_init__()
        if self.enhance not in (None, "samples"):
            raise PullbackError(f"MBPO has no enhance={self.enhance!r}: use 'samples', or SAC")
        if not 1 <= self.elites <= self.networks:
            raise PullbackError(f"elites={self.elites} must be between 1 and networks={self.networks}")
        if self.random_steps + self.window * self.worlds < 2 * HELD_OUT:
            raise PullbackError("a model cannot be fitted to so few samples: use more random_steps")

    def begin(self, env: Environment, seed: int) -> MBPOLearner:
        return MBPOLearner(self, env, seed)

    def length(self, progress: float) -> int:
        """Of rollouts of the model. [control steps]"""
        begin, end, first, last = self.lengths
        share = min(max((progress - begin) / max(end - begin, 1e-9), 0.0), 1.0)
        return int(first + share * (last - first))


class Ensemble(torch.nn.Module):
    """Networks that predict, from an observation and an action, the reward, the next observation and termination."""

    def __init__(self, method: MBPO, observations: int, actions: int, *, generator, dtype, device):
        super().__init__()
        self.method, self.observations = method, observations
        options = {"dtype": dtype, "device": device}
        outputs = 2 * (observations + 1) + 1  # means and variances of the reward and changes; termination
        inputs = observations + actions
        self.network = Perceptrons(
            method.networks, inputs, method.model_hidden, outputs, generator=generator, **options
        )
        self.adam = Adam(self.network.flat, decay=method.model_decay)
        self.normaliser = Normaliser(inputs, **options)
        self.register_buffer("target_mean", torch.zeros(observations + 1, **options))
        self.register_buffer("target_deviation", torch.ones(observations + 1, **options))
        self.register_buffer("elite", torch.arange(method.elites, device=device))

    def predict(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Means and logarithms of variances (networks, rows, n + 1) of normalised targets, and logits of termination.

        inputs:  (rows, n + actions) for all networks, or (networks, rows, n + actions)
        """
        size = self.observations + 1
        mean, log_variance, logit = self.network(self.normaliser(inputs)).split([size, size, 1], dim=-1)
        low, high = LOG_VARIANCE
        log_variance = high - functional.softplus(high - log_variance)
        return mean, low + functional.softplus(log_variance - low), logit[..., 0]

    def errors(self, rows: Columns, *, likelihood: bool = True) -> torch.Tensor:
        """(networks,) negative logarithms of likelihoods, or mean squares; rows (rows, ...) or (networks, rows, ...)"""
        inputs, targets = self.pairs(rows)
        mean, log_variance, logit = self.predict(inputs)
        square = (mean - (targets - self.target_mean) / self.target_deviation) ** 2
        if not likelihood:
            return square.mean(dim=(1, 2))
        ends = rows["terminated"].expand(logit.shape)
        ends = functional.binary_cross_entropy_with_logits(logit, ends, reduction="none").mean(1)
        return (square * torch.exp(-log_variance) + log_variance).mean(dim=(1, 2)) + ends

    def fit(self, rows: Callable[[torch.Tensor], Columns], count: int, generator: torch.Generator) -> tuple[float, int]:
        """Learns from ``count`` rows until it no longer gets better on those held out.

        rows:  gives the rows of an index of any shape

        Returns the mean of the elites' held-out squares, in units of the targets' variance, and the number of passes.
        """
        index = torch.arange(count, device=self.elite.device)
        learnt, held_out = index[index % HELD_OUT != 0], index[index % HELD_OUT == 0]
        every = rows(index)
        inputs, targets = self.pairs(every)
        self.normaliser.count.fill_(0)  # of all rows as they are now, not a mean over rounds
        self.normaliser.update(inputs)
        self.target_mean.copy_(targets.mean(0))
        self.target_deviation.copy_(targets.std(0).clamp(min=1e-6))
        judges = {name: x[held_out] for name, x in every.items()}
        best, since, passes = math.inf, 0, 0
        while passes < self.method.model_passes and since < PATIENCE:
            # Each network has its own order, and with it its own weights.
            options = {"generator": generator, "device": generator.device}
            order = torch.rand(self.method.networks, len(learnt), **options).argsort(dim=1)
            for part in order.split(self.method.batch, dim=1):
                loss = self.errors(rows(learnt[part])).sum()
                (gradient,) = torch.autograd.grad(loss, self.network.flat)
                self.adam.step(self.network.flat.data, gradient, self.method.model_rate)
            with torch.no_grad():
                error = self.errors(judges, likelihood=False)
            self.elite.copy_(error.argsort()[: self.method.elites])
            now = float(error[self.elite].mean())
            best, since = (now, 0) if now < best * (1 - GAIN) else (best, since + 1)
            passes += 1
        return now, passes

    @torch.no_grad()
    def sample(self, seen: torch.Tensor, action: torch.Tensor, generator: torch.Generator) -> Columns:
        """What may follow, for each row by one of the elites. ``terminated`` is a probability.

        seen, action:  rows are a multiple of ``elites``
        """
        options = {"generator": generator, "device": generator.device}
        inputs = torch.cat([seen, action], dim=1)
        order = torch.randperm(len(seen), **options).view(self.method.elites, -1)
        given = inputs.new_zeros(self.method.networks, order.shape[1], inputs.shape[1])
        given[self.elite] = inputs[order]
        mean, log_variance, logit = (x[self.elite] for x in self.predict(given))
        noise = torch.randn(mean.shape, dtype=mean.dtype, **options)
        drawn = self.target_mean + self.target_deviation * (mean + torch.exp(0.5 * log_variance) * noise)
        found, ends = torch.empty_like(drawn).flatten(0, 1), torch.empty_like(logit).flatten()
        found[order.flatten()], ends[order.flatten()] = drawn.flatten(0, 1), logit.sigmoid().flatten()
        after = seen + found[:, :-1]
        return {"seen": seen, "action": action, "after": after, "reward": found[:, -1], "terminated": ends}

    @staticmethod
    def pairs(rows: Columns) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets: the change of the observation, and the reward."""
        inputs = torch.cat([rows["seen"], rows["action"]], dim=-1)
        return inputs, torch.cat([rows["after"] - rows["seen"], rows["reward"][..., None]], dim=-1)


class MBPOLearner(SACLearner):
    def __init__(self, method: MBPO, env: Environment, seed: int):
        super().__init__(method, env, seed)
        self.model = Ensemble(
            method, env.observation_size, env.action_size, generator=self.weights, dtype=env.dtype, device=env.device
        )
        self.rollouts = math.ceil(method.rollouts / method.elites) * method.elites
        longest = max(method.lengths[2:])
        self.predicted = Replay(self.rollouts * longest * method.remembered_rounds)

    def prepare(self, progress: float) -> dict[str, float]:
        error, passes = self.model.fit(self._learnt_from, len(self.memory), self.random.generator)
        self.imagine(self.method.length(progress))
        return {"model_error": error, "model_passes": passes}

    def _learnt_from(self, index: torch.Tensor) -> Columns:
        rows = self.remembered(self.memory.rows(index.flatten()))
        return {name: x.unflatten(0, index.shape) for name, x in rows.items()}

    @torch.no_grad()
    def imagine(self, length: int) -> None:
        """Rollouts of the model under the current policy, from observations of the memory."""
        generator = self.random.generator
        seen = self.memory.sample(self.rollouts, generator)["seen"]
        alive = torch.ones(self.rollouts, dtype=torch.bool, device=seen.device)
        for _ in range(length):
            action, _ = self.drawn(self.policy.normaliser(seen), self.noise(self.rollouts))
            rows = self.model.sample(seen, action, generator)
            self.predicted.add({name: x[alive] for name, x in rows.items()})
            alive = alive & (rows["terminated"] < 0.5)
            seen = rows["after"]
            if not alive.any():
                break

    def draw(self, updates: int) -> Columns:
        generator, batch = self.random.generator, self.method.batch
        real = min(max(1, round(self.method.real * batch)), batch)
        rows = self.remembered(self.memory.sample(updates * real, generator))
        others = self.predicted.sample(updates * (batch - real), generator)
        pair = lambda x, y: torch.cat([x.unflatten(0, (updates, -1)), y.unflatten(0, (updates, -1))], dim=1)  # noqa: E731
        return {name: pair(rows[name], x) for name, x in others.items()}

    # --- what is kept ------------------------------------------------------------------------------

    def more_arrays(self) -> dict[str, torch.Tensor]:
        return super().more_arrays() | self.predicted.arrays("memory.predicted")

    def restore_more(self, arrays: dict[str, torch.Tensor]) -> None:
        super().restore_more(arrays)
        self.predicted.restore(arrays, "memory.predicted", self.env.device)
