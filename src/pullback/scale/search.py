"""Searches over settings by Ray Tune: the function that runs one trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.errors import PullbackError
from pullback.plan import Progress
from pullback.scale.sweep import Plan, run


def trainable(
    target: str | Callable | Any,
    *,
    iterations: int | None = None,
    updates: int | None = None,
    minutes: float | None = None,
    spread: float = 0.0,
    device: str = "cpu",
) -> Callable[[dict[str, Any]], None]:
    """A trainable for ``ray.tune.Tuner``: a trial is one run of :func:`sweep`, with settings from Tune's search space.

    Names in ``param_space`` are those of a sweep (``"method"``, ``"method.rate"``, options of the target), and
    ``"seed"``. A task reports after each iteration, so that Tune's schedulers may end a trial early: ``metric`` and
    ``loss``, the best so far, and ``iterations``; at its end the row of a sweep. A training reports its row: ``return``
    and others. A trial that Tune starts again resumes from its folder::

        tuner = tune.Tuner(
            pb.scale.trainable("throw", iterations=30),
            param_space={"method": "adam", "method.rate": tune.loguniform(1e-3, 1.0)},
            tune_config=tune.TuneConfig(metric="metric", mode="min", num_samples=20),
        )

    target, iterations, updates, minutes, spread, device: as in :func:`sweep`
    """
    plan = Plan.of(target, spread, device, iterations=iterations, updates=updates, minutes=minutes)
    try:
        from ray import tune
    except ImportError as error:
        raise PullbackError('searches need Ray Tune: pip install "pullback[tune]"') from error

    def report(progress: list[Progress]) -> None:
        last = progress[-1]
        best = {"metric": float(last.metrics[last.best]), "loss": float(last.losses[last.best])}
        tune.report(best | {"iterations": sum(one.iterations for one in progress)})

    def trial(config: dict[str, Any]) -> None:
        tune.report(run(plan, {"seed": 0} | config, tune.get_context().get_trial_dir(), report))

    return trial
