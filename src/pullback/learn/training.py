"""Training: rounds of a method until a budget is spent, with logs, checkpoints, evaluations and the best policy."""

from __future__ import annotations

import copy
import csv
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pullback.core.archives import read_arrays
from pullback.core.checks import check_number, check_whole, unknown
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file, write_text
from pullback.core.threads import one_torch_thread
from pullback.envs import Environment
from pullback.envs.registry import named
from pullback.learn.evaluation import Evaluation, evaluate
from pullback.learn.first_order import BPTT, SAPO, SHAC
from pullback.learn.learner import Learner, Method
from pullback.learn.mbpo import MBPO
from pullback.learn.policy import Policy
from pullback.learn.ppo import PPO
from pullback.learn.sac import SAC

METHODS: dict[str, type[Method]] = {"sapo": SAPO, "shac": SHAC, "bptt": BPTT, "ppo": PPO, "sac": SAC, "mbpo": MBPO}
SAVE_AFTER = 10.0  # at most this much work is lost by an interruption [s]
LONGEST = 500  # control steps of an evaluation during training
CHOOSING = 20_000  # seed of the starts by which the best policy is chosen: not those that it is evaluated on later
FORMAT = 1  # of checkpoints; those without a number are of the first too
LARGEST = 2**34  # of a checkpoint [bytes]


@dataclass
class Training:
    """The progress of a training.

    policy:      the best so far, by its mean return from fixed starts
    evaluation:  of that policy
    log:         one row per round
    seconds:     spent, without what an interruption lost
    steps:       control steps simulated, of all worlds
    """

    policy: Policy
    evaluation: Evaluation | None = None
    log: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    best: float = -np.inf


@one_torch_thread()
def train(
    env: Environment | str,
    method: Method | str = "sapo",
    *,
    minutes: float | None = None,
    updates: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    evaluations: int = 10,
    starts: int = 64,
    watch: Callable[[Training, float], None] | None = None,
    begin: Callable[[Method, Environment, int], Learner] | None = None,
    **options,
) -> Training:
    """Trains a policy for an environment.

    method:       a name, with the settings recommended by the environment, or a method with your own hyperparameters
    minutes:      length of the training; or
    updates:      number of updates: then the result is the same to the last bit, even if the training is interrupted
    out:          a folder for log.csv, policy.npz (the best so far) and checkpoint.npz, from which the same call
                  resumes
    evaluations:  number of evaluations of the policy during the training, each on ``starts`` fixed initial states
    watch:        called after every update with the training and its progress, from 0 to 1
    begin:        makes the learner from method, environment and seed; default: the method does
    options:      hyperparameters that replace some of the method's
    """
    if (minutes is None) == (updates is None):
        raise PullbackError("say how long to train: minutes=2, or updates=500")
    check_number(minutes, "minutes") if updates is None else check_whole(updates, "updates")
    check_whole(evaluations, "evaluations", 0)
    check_whole(starts, "starts")
    env = named(env)
    method = make_method(method, env, options)
    learner = method.begin(env, seed) if begin is None else begin(method, env, seed)
    training = Training(copy.deepcopy(learner.policy))
    folder = None if out is None else Path(out)
    whose = {"env": env.name, "method": repr(method), "seed": seed, **learner.whose}
    update = 0
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PullbackError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from None
        if (folder / "checkpoint.npz").exists():
            update = _resume(folder / "checkpoint.npz", learner, training, whose)
        else:
            settings = {**asdict(method), "method": type(method).__name__, "env": env.name, "seed": seed}
            path = folder / "settings.json"
            write_text(path, json.dumps(settings, indent=1) + "\n")
    board = _tensorboard(folder)
    judge = env.in_worlds(starts)
    saved = time.monotonic()
    _warm_up(learner)

    def progress() -> float:
        return update / updates if updates is not None else training.seconds / (60 * minutes)

    while progress() < 1.0:
        began = time.perf_counter()
        before = int(progress() * evaluations)
        row = learner.update(progress())
        update += 1
        training.steps = learner.steps
        training.seconds += time.perf_counter() - began
        if int(progress() * evaluations) > before or progress() >= 1.0:
            began = time.perf_counter()
            row |= _evaluate(learner, judge, training)
            training.seconds += time.perf_counter() - began
        training.log.append({"update": update, "steps": learner.steps, "seconds": training.seconds, **row})
        if board is not None:
            for name, x in row.items():
                board.add_scalar(name, x, learner.steps)
        if folder is not None and (progress() >= 1.0 or time.monotonic() - saved > SAVE_AFTER):
            _save(folder, learner, training, update, whose)
            saved = time.monotonic()
        if watch is not None:
            watch(training, min(progress(), 1.0))
    if board is not None:
        board.close()
    return training


def make_method(method: Method | str, env: Environment, options: dict[str, Any]) -> Method:
    """A method by name with the settings that suit the environment, and options in place of some."""
    if isinstance(method, str):
        if method not in METHODS:
            raise PullbackError(unknown("method", method, METHODS))
        suited = METHODS[method](**env.settings.get(method, {}))
        if env.device.type == "cuda":
            suited = replace(suited, worlds=suited.gpu_worlds * suited.worlds)
    elif isinstance(method, Method):
        suited = method
    else:
        raise PullbackError(f"method must be a name or a Method, such as SAPO(), not {type(method).__name__}")
    known = [each.name for each in fields(suited)]
    for name in options:
        if name not in known:
            raise PullbackError(unknown(f"option of {type(suited).__name__}", name, known))
    return replace(suited, **options)


def _warm_up(learner: Learner) -> None:
    """Compiles: that is not what is timed. Leaves the learner as it was."""
    held = {name: x.clone() for name, x in learner.arrays().items()}
    learner.update(0.0)
    learner.restore(held)


def _evaluate(learner: Learner, judge: Environment, training: Training) -> dict[str, float]:
    steps = min(judge.limit, LONGEST)
    found = evaluate(learner.policy, judge, starts=judge.worlds, seed=CHOOSING, steps=steps)
    summary = found.summary()
    if summary["return"] > training.best:
        training.best, training.evaluation = summary["return"], found
        training.policy = copy.deepcopy(learner.policy)
    return {f"eval {name}": x for name, x in summary.items()}


# --- files ------------------------------------------------------------------------------------------------------------


def _save(folder: Path, learner: Learner, training: Training, update: int, whose: dict) -> None:
    training.policy.save(folder / "policy.npz")
    header = {"format": FORMAT, "update": update}
    header |= {"seconds": training.seconds, "best": training.best, "whose": whose, "log": training.log}
    arrays = {f"learner.{name}": x.detach().cpu().numpy() for name, x in learner.arrays().items()}
    arrays |= {f"best.{name}": x.detach().cpu().numpy() for name, x in training.policy.state_dict().items()}
    with whole_file(folder / "checkpoint.npz") as partial, open(partial, "wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), **arrays)
    names = list(dict.fromkeys(name for row in training.log for name in row))
    with whole_file(folder / "log.csv") as partial, open(partial, "w", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(training.log)


def _resume(path: Path, learner: Learner, training: Training, whose: dict) -> int:
    """Learner and training as a checkpoint has them; returns how many updates there were."""
    try:
        arrays = read_arrays(path, largest=LARGEST)
        header = json.loads(str(arrays.pop("header")))
        if header.get("format", FORMAT) != FORMAT:
            raise PullbackError("it was written by another version")
        if header["whose"] == whose:
            return _restore(header, arrays, learner, training)
    except Exception as error:  # there is no end to what can be wrong with an archive
        reason = " ".join(str(error).split())
        raise PullbackError(f"{str(path)!r} cannot be read as a checkpoint: delete it ({reason})") from error
    raise PullbackError(f"{str(path)!r} is of another environment, method or seed: delete it, or use another folder")


def _restore(header: dict, arrays: dict[str, np.ndarray], learner: Learner, training: Training) -> int:
    of: dict[str, dict[str, torch.Tensor]] = {"learner": {}, "best": {}}
    for name, x in arrays.items():
        kind, _, name = name.partition(".")
        if np.isnan(x).any() and not name.startswith("memory."):
            raise PullbackError(f"its {name} is not a number")
        of[kind][name] = torch.as_tensor(x)
    learner.restore(of["learner"])
    training.policy.load_state_dict(of["best"])
    training.steps, training.log = learner.steps, [dict(row) for row in header["log"]]
    training.seconds = check_number(header["seconds"], "its seconds", least=0.0)
    training.best = float(header["best"])
    return check_whole(header["update"], "its update", len(training.log), len(training.log))


def _tensorboard(folder: Path | None):
    """A writer, if TensorBoard is installed."""
    if folder is None or importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))
