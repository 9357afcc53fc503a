"""Training from one seed after another until a policy holds where contacts are real.

Equally consistent policies may hold well or badly, and nothing in the model says which does: trials do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pullback.core.checks import check_seed
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.task import Manipulation
from pullback.dexterous.training import train
from pullback.dexterous.trial import try_policy
from pullback.plan import Progress

CHOOSING = 3000  # seed of the starts that policies are chosen on: neither trained nor judged on


@dataclass(frozen=True)
class Chosen:
    """The policy that held most often.

    seed:   of its first weights
    found:  how its training went
    rates:  share of starts in which each that was trained held, by seed
    """

    policy: ContactPolicy
    seed: int
    found: Progress
    rates: dict[int, float]


def train_and_choose(
    task: Manipulation,
    *,
    seed: int = 0,
    tries: int | None = None,
    starts: int = 50,
    checkpoint: Path | None = None,
    watch: Callable[[Progress], None] | None = None,
    **options,
) -> Chosen:
    """Trains from seed, seed + 1, ... until a policy holds as often as the task demands, and keeps the best.

    Trials are in MuJoCo, in the task's own mode and with its squeeze.

    tries:       how many seeds at most; the task's own if None
    starts:      of the trials that choose
    checkpoint:  of the first training; those of later ones stand beside it
    options:     those of ``train``
    """
    best, rates = None, {}
    for k in range(check_seed(seed), seed + (tries or task.tries)):
        beside = checkpoint
        if checkpoint is not None and k > seed:
            beside = checkpoint.with_name(f"{checkpoint.stem}-{k - seed}{checkpoint.suffix}")
        policy, found = train(task, seed=k, checkpoint=beside, watch=watch, **options)
        rates[k] = try_policy(task, policy, mode=task.mode, squeeze=task.squeeze, starts=starts, seed=CHOOSING).rate
        if best is None or rates[k] > rates[best.seed]:
            best = Chosen(policy, k, found, rates)
        if rates[k] >= task.target:
            break
    return best
