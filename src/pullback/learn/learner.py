"""What all methods of learning share: networks, random numbers, episodes that go on, and what is kept of them."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from pullback.core.errors import PullbackError
from pullback.envs import Environment, EnvState, Transition, detached
from pullback.learn.policy import Policy
from pullback.learn.replay import columns_of, state_of

LOOKS = 32  # control steps by which the normaliser of observations begins
MAY_BE_ZERO = ("critics", "reuse", "random_steps", "copies")  # of options that are whole numbers
POSITIVE = ("rate", "critic_rate", "model_rate", "reward_scale", "cap", "clip", "temperature")  # of those that are not
SHARES = ("discount", "trust", "target_memory", "betas", "real")  # options of at most 1
MAY_BE_INFINITE = ("cap", "clip")
ANY_LENGTH = ("hidden", "model_hidden")  # of options that are several numbers


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Hyperparameters of a training method.

    worlds:        simulated at once
    hidden:        sizes of the layers of every network
    discount:      of rewards, per control step
    reward_scale:  factor on rewards, so that values are of the order of one
    log_deviation: logarithm of the deviation of actions, before their hyperbolic tangent, at first
    """

    worlds: int = 128
    hidden: tuple[int, ...] = (128, 128)
    discount: float = 0.99
    reward_scale: float = 1.0
    log_deviation: float = -1.0

    # How many times as many worlds the settings of an environment become on a GPU, where they take no longer.
    gpu_worlds: ClassVar[int] = 1

    def __post_init__(self):
        for option in fields(self):
            value = _checked(option.name, getattr(self, option.name), option.default)
            object.__setattr__(self, option.name, value)

    @abstractmethod
    def begin(self, env: Environment, seed: int) -> Learner:
        """A learner of this method in an environment of any number of worlds."""


def _checked(name: str, value: Any, like: Any) -> Any:
    """The value of an option of the kind that it has by default; an error if it is of another, or out of range."""
    wanted, right = f"such as {like!r}", like is None or type(value) is type(like)
    if isinstance(like, tuple):
        right = isinstance(value, tuple | list) and (len(value) == len(like) or name in ANY_LENGTH)
        if right:
            kinds = like[:1] * len(value) if name in ANY_LENGTH else like
            return tuple(_checked(name, x, kind) for x, kind in zip(value, kinds, strict=True))
    elif isinstance(like, bool):
        wanted = "True or False"
    elif isinstance(like, int | float):
        whole = isinstance(like, int)
        positive = name in POSITIVE or (whole and name not in MAY_BE_ZERO)
        limit = "" if like < 0 else ", positive" if positive else ", not negative"
        wanted = f"a {'whole ' * whole}number{limit}{', at most 1' * (name in SHARES)}"
        right = isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(value, bool)
        right = right and (math.isfinite(value) or (name in MAY_BE_INFINITE and value > 0))
        right = right and (value > 0 or like < 0 or (value == 0 and not positive))
        right = right and (value <= 1 or name not in SHARES)
        value = type(like)(value) if right else value
    if not right:
        raise PullbackError(f"option {name} must be {wanted}, not {value!r}")
    return value


class Learner(torch.nn.Module):
    """A policy in training. Everything that it knows is in its modules, its random numbers and ``episodes``.

    whose:  what a checkpoint belongs to, besides environment, method and seed
    """

    whose: Mapping[str, Any] = {}

    def __init__(self, method: Any, env: Environment, seed: int):
        super().__init__()
        self.method, self.env = method, env.in_worlds(method.worlds)
        weights = torch.Generator().manual_seed(seed)
        self.random = self.env.random(seed + 1)
        self.policy = Policy(
            env.name, env.observation_size, env.action_size, hidden=method.hidden, generator=weights,
            log_deviation=method.log_deviation, dtype=env.dtype, device=env.device,
        )  # fmt: skip
        self.weights = weights
        self.episodes: EnvState = self.env.reset(self.random)
        self._seen: list[Transition] = []
        self.steps = 0  # control steps of all worlds so far
        self._look_around()

    @torch.no_grad()
    def _look_around(self) -> None:
        """Sees what observations are like under random actions: at a start, many are the same in all worlds."""
        state, rows, failed = self.episodes, [], []
        if self.env.terminated(state).all():
            raise PullbackError(
                f"every start of environment {self.env.name!r} is terminated already: change start or terminated (for "
                "episodes of one control step there is limit = 1)"
            )
        for _ in range(min(LOOKS, self.env.limit)):
            rows.append(self.env.check_observation(self.env.observe(state)))
            done = self.env.step(state, self.random.uniform(self.env.action_size, low=-1.0, high=1.0), self.random)
            failed.append(done.failed)
            state = self.carry_on(done.state, done.done)
        if torch.stack(failed).all():
            raise PullbackError(
                f"the simulation of environment {self.env.name!r} fails in every world at the first control step: "
                "start it within its ranges, or use a smaller timestep"
            )
        self.policy.normaliser.update(torch.cat(rows))

    def update(self, progress: float) -> dict[str, float]:
        """Goes on for one round of simulation and learning. Returns what there is to log.

        progress:  how much of the training is over, from 0 to 1
        """
        raise NotImplementedError

    def take_step(self, state: EnvState, action: torch.Tensor) -> Transition:
        """One control step, of which rewards are remembered until ``refuse_round`` asks for them."""
        try:
            done = self.timed(self.env.step(state, action, self.random))
        except PullbackError:
            self.env.check_observation(self.env.observe(state))  # from which the action was: it may be the cause
            raise
        done = done._replace(state=self.env.disturb(done.state, self.random))
        terms = {name: x.detach() for name, x in done.terms.items()}
        self._seen.append(done._replace(state=detached(done.state), reward=done.reward.detach(), terms=terms))
        return done

    def timed(self, done: Transition) -> Transition:
        """The same, terminated at the time limit if the task is over then."""
        if not self.env.timed:
            return done
        return done._replace(terminated=done.done, truncated=torch.zeros_like(done.truncated))

    def refuse_round(self) -> None:
        """An error that names the first reward or observation of this round that was not finite."""
        for transition in self._seen:
            self.env.check_reward(transition)
            self.env.check_observation(self.env.observe(transition.state))
        raise PullbackError(
            f"values in {self.env.name!r} grew beyond the precision: use a smaller reward_scale or rate"
        )

    def carry_on(self, state: EnvState, done: torch.Tensor) -> EnvState:
        """The state with new episodes where they are ``done``."""
        if surely_none(done):
            return state
        return self.env.reset_where(done, state, self.random)

    def orders(self, rows: int, passes: int) -> torch.Tensor:
        """Random orders (passes, rows) of rows, whose parts are minibatches."""
        drawn = {"generator": self.random.generator, "device": self.random.device}
        return torch.stack([torch.randperm(rows, **drawn) for _ in range(passes)])

    # --- what is kept ------------------------------------------------------------------------------

    def arrays(self) -> dict[str, torch.Tensor]:
        """Everything, by name. From the same arrays, a learner goes on with the same bits."""
        found = dict(self.state_dict())
        found |= {f"episodes.{name}": x for name, x in columns_of(self.episodes).items()}
        found |= {"random": self.random.generator.get_state(), "steps": torch.tensor(self.steps)}
        return found | self.more_arrays()

    def restore(self, arrays: dict[str, torch.Tensor]) -> None:
        """Becomes what it was when these arrays were taken."""
        device, own = self.env.device, self.arrays()
        wrong = [name for name, x in own.items() if name not in arrays or arrays[name].shape != x.shape]
        wrong = [name for name in wrong if not name.startswith("memory.")]
        if wrong:
            raise PullbackError(f"it is of another method, robot or size: {wrong[0]} does not fit")
        self.load_state_dict({name: arrays[name] for name in self.state_dict()})
        held = {
            name.removeprefix("episodes."): x.to(device) for name, x in arrays.items() if name.startswith("episodes.")
        }
        self.episodes = state_of(held, self.episodes)
        self.random.generator.set_state(arrays["random"].cpu())
        self.steps = int(arrays["steps"])
        self.restore_more(arrays)

    def more_arrays(self) -> dict[str, torch.Tensor]:
        """What a method keeps besides, such as a replay memory."""
        return {}

    def restore_more(self, arrays: dict[str, torch.Tensor]) -> None:
        """The inverse of ``more_arrays``."""


def surely_none(mask: torch.Tensor) -> bool:
    """Whether it is known that no world is in the mask: on a GPU, asking would wait for the device."""
    return mask.device.type == "cpu" and not mask.any()


def cap_rows(bar: torch.Tensor, cap: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cotangents (rows, ...) with none larger than ``cap`` times the median, and in which rows one was, (rows,).

    The median is over rows whose cotangent is not zero: where most worlds have none, as for a penalty that few of them
    pay, the others keep theirs. A cotangent that is not finite becomes zero.
    """
    norm = torch.linalg.vector_norm(bar.reshape(len(bar), -1), dim=1)
    finite = torch.isfinite(norm)
    most = cap * torch.where(finite & (norm > 0), norm, torch.nan).nanmedian()  # NaN, beyond which is nothing, if none
    factor = torch.where(norm > most, most / norm, 1.0)
    shape = (-1, *(1,) * (bar.ndim - 1))
    return torch.where(finite.view(shape), bar * factor.view(shape), 0.0), ~finite | (norm > most)


def decayed(rate: float, progress: float, last: float = 1e-5) -> float:
    """A learning rate that falls in a straight line to the last."""
    return rate + (min(last, rate) - rate) * min(max(progress, 0.0), 1.0)
