"""How soon are the tasks solved, beside CMA-ES, and does a kill cost anything?

    python benchmarks/tasks.py [--json FILE] [--quick] [--only NAME ...]

CMA-ES runs in the same process, on the same simulator, several worlds at once, with the settings of each task's
baseline; its seconds are those to the same accuracy, or to the end of its iterations. What iLQR and identification show
is in the files beside this one: tasks_ilqr, tasks_identify.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import Result, main, version
from tasks_identify import identify_results
from tasks_ilqr import ilqr_results

from pullback.plan import REACHED, Progress, minimise
from pullback.tasks import TASKS, Task

MOST_STEPS = {"throw": 20, "golf": 50, "racecar": 10}  # gradient steps until solved
SEEDS = 11  # of CMA-ES, whose luck is uneven
FINE = 1e-9  # another target of racecar [m]


def solve(task: Task, method, iterations: int, seed: int = 0) -> Progress:
    x, low, high = task.begin()
    return minimise(task, x, method, iterations=iterations, target=task.target, low=low, high=high, seed=seed)


def beside_cma(task: Task, iterations: int, quick: bool) -> tuple[list[Progress], list[Progress]]:
    """Solved by gradients and by CMA-ES in turn, so that noise hits both; another seed of CMA-ES each time."""
    ours, theirs = [], []
    for seed in range(1 if quick else SEEDS):
        ours.append(solve(task, task.method, task.iterations))
        theirs.append(solve(task, task.baseline, iterations, seed))
    return ours, theirs


def seconds_beside_cma(task: Task, ours: list[Progress], theirs: list[Progress], words: str = "") -> Result:
    seconds, peer = (statistics.median(run.seconds for run in runs) for runs in (ours, theirs))
    note = f"{seconds:.2g} s against {peer:.2g} s"
    name = f"{task.name}: wall-clock / CMA-ES{words}"
    return Result(name, seconds / peer, "ratio", "" if words else "<= 0.1", version("cma", "cma"), note)


def shooting(quick: bool):
    for name, most in MOST_STEPS.items():
        task = TASKS[name]()
        solve(task, task.method, 1)  # compiles
        solve(task, task.baseline, 1)
        ours, theirs = beside_cma(task, task.baseline_iterations, quick)
        found = ours[0]
        steps = found.iterations if found.stopped == REACHED else None
        note = f"{found.metrics[found.best]:.2g} {task.unit}; {found.seconds:.2g} s"
        yield Result(
            f"{name}: gradient steps until within {task.target:g} {task.unit}", steps, "", f"<= {most}", "", note
        )
        best = statistics.median(float(np.min(run.metrics)) for run in theirs)
        counts = ", ".join(str(run.iterations) for run in theirs)
        note = f"{task.baseline!r}, median of {len(theirs)} seeds; iterations {counts}"
        yield Result(f"{name}: the best of CMA-ES", best, task.unit, "", version("cma", "cma"), note)
        yield seconds_beside_cma(task, ours, theirs)
    fine = task.but(target=FINE)
    ours, theirs = beside_cma(fine, 200, quick)
    yield seconds_beside_cma(fine, ours, theirs, f", both to {FINE:g} {task.unit}")


# --- kill -9 ----------------------------------------------------------------------------------------------------------

# Tasks, methods and iterations that take some seconds each.
BROKEN = (
    ("throw", "lbfgs", 40),
    ("throw", "adam", 40),
    ("racecar", "cma", 20),
    ("golf", "sgd", 60),
    ("hop", "ilqr", 12),
)


def start(job: tuple[str, str, int], folder: Path) -> subprocess.Popen:
    name, method, iterations = job
    options = ["--method", method, "--iterations", str(iterations), "--all", "--out", str(folder)]
    command = [sys.executable, "-m", "pullback.cli", "optimize", name, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def result(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "result.npz", allow_pickle=False) as file:
        return {name: file[name] for name in ("x", "losses", "metrics", "controls")}


def kills(quick: bool):
    rng = np.random.default_rng(0)
    same, broken, count = 0, 0, 4 if quick else 20
    with tempfile.TemporaryDirectory() as place:
        whole = {}
        for job in BROKEN:
            folder, began = Path(place) / f"{job[0]}-{job[1]}", time.perf_counter()
            start(job, folder).wait()
            whole[job] = result(folder), time.perf_counter() - began
        for i in range(count):
            job = BROKEN[i % len(BROKEN)]
            folder = Path(place) / f"broken{i}"
            expected, seconds = whole[job]
            process = start(job, folder)
            while True:  # killed again and again, until it is done before its time
                try:
                    process.wait(rng.uniform(0.2, 1.0) * seconds)
                    break
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
                    broken += 1
                    process = start(job, folder)
            found = result(folder)
            same += all(np.array_equal(found[name], value, equal_nan=True) for name, value in expected.items())
    note = (
        f"{broken} kills in all; the same to the last bit: variables, controls, losses and metrics of every iteration"
    )
    yield Result(
        f"kill -9 at random moments of {count} optimisations, then resumed: the same", same, "", f">= {count}", "", note
    )


def guided(quick: bool):
    yield from ilqr_results(range(3 if quick else 10))


def identified(quick: bool):
    yield from identify_results(range(3 if quick else 20))


if __name__ == "__main__":
    main({"shooting": shooting, "ilqr": guided, "identify": identified, "kills": kills}, description=__doc__)
