"""Training on many workers: each simulates some of the worlds and pulls back through them; the networks learn here.

The learner's state is also here. A shard receives the policy, the slow copy of the critics, and the episodes, random
numbers and last terminal observations of its worlds. It returns the window that it simulated, the gradients of the
actions, and the new state of its worlds. A shard is thus a function of its arguments: the result of a training depends
on the number of shards, but not on the number of workers or on which of them died.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.envs import Environment
from pullback.envs.registry import named
from pullback.learn import Training
from pullback.learn.first_order import FirstOrder, FirstOrderLearner, Window
from pullback.learn.learner import Method
from pullback.learn.replay import columns_of, state_of
from pullback.learn.training import make_method
from pullback.learn.training import train as train_here
from pullback.scale.shards import Shard, Shards

SHARDS = 4  # few, because networks take as long for some worlds as for one
SENT = ("policy.", "target", "log_alpha")  # prefixes of the learner's state that a window depends on
JOINED = ("observed", "raw", "u", "mean", "log_deviation", "discounts", "rewards", "values", "ends")  # (T, worlds, ...)
MEANS = ("reward", "entropy", "saturated", "deviation")  # entries of a log that are means; the others are counts

Arrays = dict[str, np.ndarray]


def train(
    env: Environment | str,
    method: Method | str = "sapo",
    *,
    make: Callable[[], Environment] | None = None,
    shards: int = SHARDS,
    workers: int | None = None,
    cpus: int = 1,
    address: str | None = None,
    **options,
) -> Training:
    """:func:`pullback.learn.train` with the worlds on many workers, for SAPO, SHAC and BPTT.

    With ``updates=`` the result is the same to the last bit on any number of workers. It depends on ``shards``, since
    each has its own random numbers and clips its own cotangents.

    make:     an importable function that makes the same environment on a worker, if it cannot be pickled
    shards:   number of equal parts into which the method's ``worlds`` are divided
    workers, cpus, address: as in :class:`Shards`
    options:  of ``pullback.learn.train``, and of the method
    """
    env, known = named(env), inspect.signature(train_here).parameters
    method = make_method(method, env, {name: x for name, x in options.items() if name not in known})
    if not isinstance(method, FirstOrder):
        raise PullbackError(
            f"{type(method).__name__} learns on one worker: sapo, shac and bptt have gradients to share"
        )
    if method.worlds % check_whole(shards, "shards"):
        raise PullbackError(f"{method.worlds} worlds cannot be split equally over {shards} shards: change either")
    build = _Part(make or env, replace(method, worlds=method.worlds // shards))
    with Shards(build, shards=shards, workers=workers, cpus=cpus, address=address) as on:
        begin = partial(SpreadLearner, on=on)
        return train_here(env, method, begin=begin, **{name: x for name, x in options.items() if name in known})


class SpreadLearner(FirstOrderLearner):
    """A learner that gets its windows from shards."""

    def __init__(self, method: FirstOrder, env: Environment, seed: int, *, on: Shards):
        super().__init__(method, env, seed)
        self.on, self.whose = on, {"shards": on.count}
        # Seeds of shards are spread over all 64-bit numbers, so that those of different trainings do not coincide.
        seeds = np.random.SeedSequence(seed).generate_state(on.count, np.uint64)
        self.randoms = torch.stack([torch.Generator(env.device).manual_seed(int(x)).get_state() for x in seeds])

    def gather(self) -> Window:
        columns, parts = columns_of(self.episodes), range(self.on.count)
        own = {f"episodes.{name}": x for name, x in columns.items()}
        if self.method.critics:
            own |= {"terminal": self.terminal, "is_terminal": self.is_terminal}
        sent = {name: _array(x) for name, x in self.state_dict().items() if name.startswith(SENT)}
        sliced = {name: np.array_split(_array(x), self.on.count) for name, x in own.items()}
        each = [{name: x[k] for name, x in sliced.items()} | {"random": _array(self.randoms[k])} for k in parts]
        windows, own = zip(*self.on.map(sent, self.entropy_target, each=each), strict=True)
        self._take_over(own)
        log = {name: np.sum([window["log"][name] for window in windows]) for name in windows[0]["log"]}
        log = {name: x / len(windows) if name in MEANS else x for name, x in log.items()}
        joined = {name: self._put(np.concatenate([window[name] for window in windows], axis=1)) for name in JOINED}
        # a shard's loss is a mean over its own worlds, and the total loss one over all worlds
        u_bars = self._put(np.concatenate([window["u_bars"] for window in windows], axis=1)) / len(windows)
        capped = self._put(np.array([window["capped"] for window in windows]))
        loss = self._put(np.mean([window["loss"] for window in windows]))
        logged = {name: self._put(np.asarray(x)) for name, x in log.items()}
        return Window(loss=loss, **joined, log=logged, u_bars=list(u_bars), capped=list(capped))

    def _take_over(self, own: tuple[Arrays, ...]) -> None:
        """Takes over the new states of the worlds of all shards."""
        self.randoms = torch.stack([torch.from_numpy(part["random"]) for part in own])
        joined = {name: self._put(np.concatenate([part[name] for part in own])) for name in own[0] if name != "random"}
        held = {name.removeprefix("episodes."): x for name, x in joined.items()}
        self.episodes = state_of(held, self.episodes)
        if self.method.critics:
            self.terminal.copy_(joined["terminal"])
            self.is_terminal.copy_(joined["is_terminal"])

    def _put(self, x) -> torch.Tensor:
        return torch.as_tensor(x, device=self.env.device)

    def more_arrays(self) -> dict[str, torch.Tensor]:
        return {"shards.random": self.randoms}

    def restore_more(self, arrays: dict[str, torch.Tensor]) -> None:
        self.randoms = arrays["shards.random"].cpu()


@dataclass(frozen=True)
class _Part:
    """Builds a shard on a worker: a learner for some of the worlds, which only simulates."""

    make: Environment | Callable[[], Environment]
    method: FirstOrder

    def __call__(self, shard: Shard):
        env = self.make if isinstance(self.make, Environment) else self.make()
        learner = self.method.begin(env, shard.number)

        def evaluate(sent: Arrays, entropy_target: float, own: Arrays) -> tuple[dict, Arrays]:
            learner.entropy_target = entropy_target
            own = {name: torch.from_numpy(np.array(x)) for name, x in own.items()}
            buffers = {name: x for name, x in own.items() if name in ("terminal", "is_terminal")}
            learner.load_state_dict({n: torch.from_numpy(x) for n, x in sent.items()} | buffers, strict=False)
            device, held = learner.env.device, {n: x for n, x in own.items() if n.startswith("episodes.")}
            held = {name.removeprefix("episodes."): x.to(device) for name, x in held.items()}
            learner.episodes = state_of(held, learner.episodes)
            learner.random.generator.set_state(own["random"])
            window = learner.gather()
            if not np.isfinite(_array(window.log["reward"])):
                learner.refuse_round()
            found = {name: _array(getattr(window, name)) for name in JOINED}
            found |= {"u_bars": _array(torch.stack(window.u_bars)), "capped": float(sum(window.capped))}
            found |= {"loss": float(_array(window.loss)), "log": {n: float(_array(x)) for n, x in window.log.items()}}
            own = {f"episodes.{name}": _array(x) for name, x in columns_of(learner.episodes).items()}
            own |= {name: _array(getattr(learner, name)) for name in buffers}
            return found, own | {"random": _array(learner.random.generator.get_state())}

        return evaluate


def _array(x: torch.Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()
