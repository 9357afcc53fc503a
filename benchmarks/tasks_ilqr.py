"""Does iLQR solve hop and grasp from every start, and in how many iterations? Ten random starts each, seeds 0 to 9."""

import statistics
import time
from collections.abc import Iterable

from common import Result, main

from pullback.plan import REACHED
from pullback.tasks import TASKS, solve

NAMES = ("hop", "grasp")
SEEDS = range(10)


def task_results(name: str, seeds: list[int]) -> list[Result]:
    # Once for nothing: kernels are loaded, and compiled if they never were.
    solve(TASKS[name](seed=seeds[0]), iterations=1)
    solved, iterations, seconds = 0, [], []
    for seed in seeds:
        start = time.perf_counter()
        task = TASKS[name](seed=seed)
        found = solve(task, target=task.target)
        # what was handed out is run once more: that is what counts
        holds = task.metric(task.run(found[-1].x))[0] <= task.target
        seconds.append(time.perf_counter() - start)
        solved += found[-1].stopped == REACHED and bool(holds)
        iterations.append(sum(one.iterations for one in found))
    count = len(seeds)
    return [
        Result(f"{name}: random starts solved", solved, f"of {count}", must=f">= {count}"),
        Result(f"{name}: iterations, median", statistics.median(iterations), "", note=f"most {max(iterations)}"),
        Result(
            f"{name}: time a start, median",
            statistics.median(seconds),
            "s",
            must="<= 60",
            note=f"most {max(seconds):.2g} s, with loading the model",
        ),
    ]


def ilqr_results(seeds: Iterable[int] = SEEDS) -> list[Result]:
    """Of each task: starts solved, and iterations and seconds of those. Easier tasks that come first are counted in."""
    return [figure for name in NAMES for figure in task_results(name, list(seeds))]


if __name__ == "__main__":
    main(lambda quick: ilqr_results(list(SEEDS)[:2] if quick else SEEDS))
