"""Tasks in which nothing touches at first: how many of ten starts are solved with contact of long range, with MuJoCo's
steps and a surrogate gradient, with the other contact models at equal time, and by CMA-ES; and does what was found do
the same with MuJoCo's contact? And how many are solved in that ("mujoco"), where controls are planned with long range,
or sought with it first?

Times are those of the processor, so that what else runs on the machine does not count. With a gradient that is exactly
zero no method moves, whatever its time: such a start is not run on.

Run: python benchmarks/longrange_tasks.py [--tasks NAME ...] [--models NAME ...] [--starts N ...] [--out DIR]
"""

import argparse
import inspect
import json
import time
from collections.abc import Iterable
from pathlib import Path

from common import Result, one_core, table

one_core()  # before NumPy starts its threads

import numpy as np  # noqa: E402

import pullback as pb  # noqa: E402
from pullback.plan import CMA, Method  # noqa: E402
from pullback.tasks import DISTANT, TASKS, Task, solve  # noqa: E402
from pullback.tasks.distant import FINER, MOST  # noqa: E402

NAMES = tuple(name for name, make in TASKS.items() if make in DISTANT)
CONTACTS = {"convex": pb.ContactConvex, "impulse": pb.ContactImpulse, "compliant": pb.ContactCompliant}
MODELS = ("longrange", "mujoco", "surrogate", *CONTACTS, "cma")
STARTS = range(10)
LIMITS = {"billiards": 600, "push": 600, "ant-push": 600, "gather": 1800, "sort": 1800}  # of a start [s]
OUT = Path("out/longrange_tasks")


class OutOfTime(Exception):
    pass


def solve_within(of: Task, method: Method, iterations: int, seconds: float) -> dict:
    """What a method has found when the task is solved, or so much processor time is spent."""
    begun, found = time.process_time(), []

    def watch(progress) -> None:
        found[:] = progress
        if time.process_time() - begun > seconds:
            raise OutOfTime

    try:
        solve(of, method, iterations=iterations, target=of.target, watch=watch)
    except OutOfTime:
        pass
    last = found[-1]
    metric = float(of.metric(of.run(last.x))[0])  # not that of an easier task
    return {
        "solved": metric <= of.target,
        "metric": metric,
        "first": float(last.metrics[0]),
        "iterations": last.iterations,
        "seconds": time.process_time() - begun,
        "x": last.x.tolist(),
    }


def replayed(of: Task, x: np.ndarray) -> float:
    """The metric of the same controls with ContactConvex in steps that are FINER times shorter."""
    model = pb.load(of.system.model.mujoco, timestep=of.system.model.timestep / FINER)
    system = pb.Articulated(model, pb.ContactConvex(max_contacts=MOST))
    start = of.find.initial_states(system, of.start, x[None])
    controls = np.repeat(of.find.decode(system, x[None])[0], FINER, axis=0)
    return float(of.metric(pb.rollout(system, start, controls))[0])


def outcome(name: str, model: str, seed: int, folder: Path) -> dict:
    """Of one start; kept in a file of the folder."""
    path = folder / f"{name}-{model}-{seed}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    of = TASKS[name](seed=seed, contact="convex") if model == "mujoco" else TASKS[name](seed=seed)
    of(of.begin()[0][None], False)  # compiles
    if model == "mujoco":
        found = solve_within(of, of.method, of.iterations, LIMITS[name])
    elif model == "longrange":
        found = solve_within(of, of.method, of.iterations, LIMITS[name])
        found["replay"] = replayed(of, np.array(found["x"]))
    elif model == "surrogate":
        contact = pb.ContactConvex(far=pb.Far(gap=of.system.contact.gap))
        other = of.but(system=pb.Articulated(of.system.model, contact))
        found = solve_within(other, of.method, of.iterations, LIMITS[name])
    else:
        seconds = outcome(name, "longrange", seed, folder)["seconds"]
        if model == "cma":
            assert isinstance(of.baseline, CMA)
            found = solve_within(of, of.baseline, 10**6, seconds)
        else:
            blind = of.but(system=pb.Articulated(of.system.model, CONTACTS[model]()))
            first = blind(blind.begin()[0][None], True)
            if np.any(first.gradients):
                found = solve_within(blind, of.method, 10**6, seconds)
            else:
                metric = float(first.metrics[0])
                found = {"solved": metric <= of.target, "metric": metric, "iterations": 0, "seconds": seconds}
            found["slope"] = float(np.abs(first.gradients).max())
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found


def summary(name: str, model: str, found: list[dict], target: float) -> Iterable[Result]:
    count, solved = len(found), sum(one["solved"] for one in found)
    seconds = [one["seconds"] for one in found]
    note = f"median {np.median(seconds):.0f} s, longest {max(seconds):.0f} s"
    if model in CONTACTS:
        zero = sum(one["slope"] == 0 for one in found)
        note = f"gradient exactly zero at {zero} of {count} starts"
    musts = {"longrange": f">= {0.9 * count:g}", "mujoco": f">= {0.8 * count:g}", "surrogate": "", "cma": ""}
    must = musts.get(model, f"<= {0.2 * count:g}")
    yield Result(f"{name}, {model}: solved of {count}", solved, "starts", must, "", note)
    if model == "longrange":
        within = sum(one["replay"] <= target for one in found if one["solved"])
        worst = max((one["replay"] for one in found if one["solved"]), default=np.nan)
        note = f"steps {FINER} times shorter, farthest {worst:.3g} m, tolerance {target:g} m"
        must = "" if name == "billiards" else f">= {0.8 * count:g}"
        yield Result(f"{name}, replayed with ContactConvex: within tolerance", within, f"of {solved}", must, "", note)


def results(names: Iterable[str], models: Iterable[str], starts: Iterable[int], folder: Path) -> Iterable[Result]:
    for name in names:
        target = TASKS[name]().target
        for model in models:
            if model == "mujoco" and "contact" not in inspect.signature(TASKS[name]).parameters:
                continue
            yield from summary(name, model, [outcome(name, model, seed, folder) for seed in starts], target)


def task_results(quick: bool) -> Iterable[Result]:
    names, starts = (("push",), range(1)) if quick else (NAMES, STARTS)
    return results(names, MODELS, starts, OUT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--starts", nargs="+", type=int, default=list(STARTS))
    parser.add_argument("--out", type=Path, default=OUT, help="results of starts, which are not run again")
    given = parser.parse_args()
    print(table(list(results(given.tasks, given.models, given.starts, given.out))))
