"""Sweeps: many runs of a task or a training, over settings and seeds, on many workers, into one table.

A run has a folder from which it resumes, and is done when the folder has its row of the table. If anything is killed,
the same call continues and ends with the same table, which contains no times.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import inspect
import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pullback.core.checks import check_kind, check_number, check_path, check_seed, check_whole, shown, unknown
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file, write_text
from pullback.core.folders import held_folder
from pullback.plan import Progress
from pullback.reach.progress import progress_bar
from pullback.scale.workers import Pool
from pullback.tasks import TASKS, Task, solve
from pullback.tasks.chain import choose

FORMAT = 1  # version of a sweep's files
PATIENCE = 60.0  # time to wait for a worker of a killed sweep that still holds a run's folder [s]
ROW = "row.json"  # file in the folder of a run that is done
DIGITS = 4  # of numbers in printed tables
METHOD = "method"  # a setting is the method, one of its fields after a dot, or an option of the task


@dataclass(frozen=True)
class Range:
    """A setting that is drawn uniformly between ``low`` and ``high``, or whose logarithm is."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self):
        check_number(self.low, "low of a Range", above=0.0 if self.log else None)
        check_number(self.high, "high of a Range", above=self.low)

    def draw(self, random: np.random.Generator) -> float:
        share = random.random()
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return float(self.low + (self.high - self.low) * share)


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep.

    folder:   contains ``table.csv``, ``table.json``, pictures, and a folder for each run
    metric:   the column that runs are compared by: the task's metric (smaller is better), or a policy's return
    settings: names of the varied settings
    rows:     one per run, in the order of settings and then of seeds: settings, ``seed``, ``run``, which is its folder,
              and the results, or ``error``
    """

    folder: Path
    metric: str
    settings: tuple[str, ...]
    rows: list[dict[str, Any]]

    def score(self, row: Mapping[str, Any]) -> float:
        """The score of a row: smaller is better, infinite without a result."""
        value = row.get(self.metric)
        return math.inf if value is None or math.isnan(value) else (1 if self.metric == "metric" else -1) * value

    @property
    def best(self) -> dict[str, Any]:
        """The row of the best run; its files are in ``folder / row["run"]``."""
        return min(self.rows, key=self.score)

    def groups(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """One row per combination of settings, best first, with median, best and worst over its runs."""
        names = self.settings if names is None else tuple(names)
        by: dict[str, list[dict]] = {}
        for row in self.rows:
            by.setdefault(repr([row[name] for name in names]), []).append(row)
        found = []
        for rows in by.values():
            scores = np.array([self.score(row) for row in rows])
            values = {"median": np.median(scores), "best": scores.min(), "worst": scores.max()}
            values = {name: float(abs(x) if self.metric == "metric" else -x) for name, x in values.items()}
            solved = {"solved": sum(row["solved"] for row in rows if "solved" in row)} if "solved" in rows[0] else {}
            found.append({name: rows[0][name] for name in names} | {"runs": len(rows)} | solved | values)
        return sorted(found, key=lambda row: self.score({self.metric: row["median"]}))

    def text(self) -> str:
        """The groups as a printed table, and the errors of failed runs."""
        groups = self.groups()
        cells = [list(groups[0]), *([_cell(x) for x in group.values()] for group in groups)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(x.rjust(width) for x, width in zip(row, widths, strict=True)) for row in cells]
        failed = [row for row in self.rows if "error" in row]
        lines += [f"{row['run']} failed: {row['error']}" for row in failed]
        return "\n".join(lines)


def _cell(value) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Plan:
    """The common settings of all runs of a sweep, as workers need them."""

    target: Any
    length: dict[str, Any]
    spread: float
    device: str

    @classmethod
    def of(cls, target, spread: float, device: str, **length) -> Plan:
        length = {name: x for name, x in length.items() if x is not None}
        return cls(target, length, check_number(spread, "spread", least=0.0), device)


def sweep(
    target: str | Callable | Any,
    space: Mapping[str, Sequence | Range] | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    samples: int | None = None,
    out: str | Path = "out/sweep",
    iterations: int | None = None,
    updates: int | None = None,
    minutes: float | None = None,
    spread: float = 0.0,
    device: str = "cpu",
    workers: int | None = None,
    cpus: int = 1,
    address: str | None = None,
    progress: bool = True,
) -> Sweep:
    """Solves a task, or trains for an environment, with all combinations of settings and all seeds.

    target:     a name in :data:`pullback.tasks.TASKS` or ``pullback.envs.ENVS``; a Task or an Environment; or an
                importable function that makes one, whose options may be varied
    space:      the values of each setting: ``{"method": ["lbfgs", "adam"]}``, fields of the method as
                ``{"method.rate": [0.01, 0.1]}``, and options of the function that makes the target; or a :class:`Range`
    seeds:      their number, or a list: seeds of the method, and of the task if it has an option ``seed``
    samples:    number of draws from ranges
    out:        a folder, from which the same call resumes; on a cluster one that all nodes share
    iterations: the most, of a task; the task's own number if None
    updates, minutes: length of a training: one of them is needed
    spread:     standard deviation of noise on a task's initial guess, in units of its variables
    workers, cpus, address: as in :class:`Shards`
    progress:   shows a progress bar on a terminal
    """
    space = {} if space is None else space
    check_kind(space, Mapping, "space", '{"method.rate": [0.01, 0.1]}')
    count = 1 if samples is None else check_whole(samples, "samples")
    several = isinstance(seeds, Sequence | np.ndarray) and not isinstance(seeds, str)
    numbers = seeds if several else range(check_whole(seeds, "seeds"))
    numbers = [check_seed(seed) for seed in numbers]
    plan = Plan.of(target, spread, device, iterations=iterations, updates=updates, minutes=minutes)
    points = [point | {"seed": seed} for point in _points(space, samples, count) for seed in numbers]
    if not points:
        raise PullbackError("a sweep needs at least one value of each setting, and one seed")
    whose = {"format": FORMAT, "target": _named(target), **plan.length, "spread": plan.spread, "runs": points}
    metric = prepare(plan, points[0])  # raises an error now for settings that do not exist
    with held_folder(check_path(out, "out"), patience=PATIENCE) as folder:
        _claim(folder / "sweep.json", whose)
        names = [f"runs/{number:04d}" for number in range(len(points))]
        done = [folder / name / ROW for name in names]
        rows = [_read_json(path) if path.exists() else None for path in done]
        todo = [number for number, row in enumerate(rows) if row is None]
        with progress_bar(f"sweep of {whose['target']}", len(points), progress) as advance:
            advance(len(points) - len(todo))
            for number, row in _runs(plan, points, names, todo, folder, workers, cpus, address):
                rows[number] = points[number] | {"run": names[number]} | row
                if "error" not in row:  # a failed run is repeated by the next call
                    done[number].parent.mkdir(parents=True, exist_ok=True)
                    write_text(done[number], json.dumps(rows[number], indent=1) + "\n")
                advance(1)
        found = Sweep(folder, metric, tuple(space), rows)
        _write(found)
    return found


def _runs(plan, points, names, todo, folder: Path, workers, cpus: int, address):
    """Yields (number, row) of the runs that are left to do, as they end."""
    if not todo:
        return
    with Pool(workers, cpus=cpus, address=address, most=len(todo)) as pool:
        jobs = [(points[number], str((folder / names[number]).resolve())) for number in todo]
        for job, row in pool.run(run, jobs, (pool.share(plan),)):
            if isinstance(row, Exception):
                row = {"error": f"{'' if isinstance(row, PullbackError) else type(row).__name__ + ': '}{row}"}
            yield todo[job], row


# --- one run ----------------------------------------------------------------------------------------------------------


def run(
    plan: Plan, point: Mapping[str, Any], folder: str, watch: Callable[[list[Progress]], None] | None = None
) -> dict[str, Any]:
    """Does one run, on a worker, and returns its results. ``watch`` is called after every iteration of a task."""
    with held_folder(Path(folder), patience=PATIENCE) as place:
        made = made_of(plan, point)
        row = _solved(plan, made, point, place, watch) if isinstance(made, Task) else _trained(plan, made, point, place)
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}


def _solved(plan: Plan, task: Task, point: Mapping[str, Any], folder: Path, watch) -> dict[str, Any]:
    method, usual = choose(task, point.get(METHOD))
    solved = solve(
        task,
        _with_fields(method, point),
        iterations=plan.length.get("iterations", usual),
        target=None if task.evaluate_at_end else task.target,
        spread=plan.spread,
        seed=point["seed"],
        checkpoint=folder / "state.npz",
        watch=watch,
    )
    last = solved[-1]
    metric = float(task(last.x[None], False).metrics[0])
    losses, metrics = (np.concatenate([getattr(one, name) for one in solved]) for name in ("losses", "metrics"))
    with whole_file(folder / "result.npz") as partial:
        np.savez(partial, x=last.x, losses=losses, metrics=metrics)
    return {
        "metric": metric,
        "solved": metric <= task.target,
        "loss": float(last.losses[last.best]),
        "iterations": sum(one.iterations for one in solved),
        "evaluations": sum(one.evaluations for one in solved),
        "stopped": last.stopped,
    }


def _trained(plan: Plan, env, point: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    from pullback import learn

    options = plan.length | _fields(point)
    training = learn.train(env, point.get(METHOD, "sapo"), seed=point["seed"], out=folder, **options)
    found = learn.evaluate(training.policy, env).summary()
    return {**found, "updates": len(training.log), "steps": training.steps}


def prepare(plan: Plan, point: Mapping[str, Any]) -> str:
    """The metric that the runs of a plan are compared by; an error if one of its settings does not exist."""
    made = made_of(plan, point)
    if isinstance(made, Task):
        _with_fields(choose(made, point.get(METHOD))[0], point)
        if wrong := {"updates", "minutes"} & set(plan.length):
            raise PullbackError(f"{wrong.pop()} is of a training: a task has iterations")
        return "metric"
    from pullback.learn.training import make_method

    make_method(point.get(METHOD, "sapo"), made, _fields(point))
    if len({"updates", "minutes"} & set(plan.length)) != 1 or "iterations" in plan.length or plan.spread:
        raise PullbackError("say how long to train: minutes=2, or updates=500; iterations and spread are of a task")
    return "return"


def made_of(plan: Plan, point: Mapping[str, Any]) -> Any:
    """The task or environment of a run."""
    options = {name: x for name, x in point.items() if name.partition(".")[0] != METHOD and name != "seed"}
    make = plan.target
    if isinstance(make, str) and make in TASKS:
        make = TASKS[make]
    elif isinstance(make, str):
        from pullback import envs

        if make not in envs.ENVS:
            raise PullbackError(unknown("task or environment", make, [*TASKS, *envs.ENVS]))
        make = envs.ENVS[make]
    if callable(make) and not isinstance(make, Task):
        taken = inspect.signature(make).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in taken.values())
        known = [name for name in taken if name not in ("device", "seed")]
        for name in options:
            if name not in known and not takes_any:
                raise PullbackError(unknown(f"option of {_named(plan.target)}", name, known or ["none"]))
        options |= {"seed": point["seed"]} if "seed" in taken else {}
        options |= {"device": plan.device} if "device" in taken or takes_any else {}
        try:
            make = make(**options)
        except TypeError as error:
            raise PullbackError(f"{_named(plan.target)} cannot be made: {error}") from error
    elif options:
        raise PullbackError(
            f"{next(iter(options))!r} is no setting of a target that is made already: give what makes it"
        )
    if not isinstance(make, Task):
        if importlib.util.find_spec("torch") is not None:
            from pullback.envs import Environment

            if isinstance(make, Environment):
                return make
        check_kind(make, Task, "target of a sweep", '"throw", or a pullback.envs.Environment')
    return make


def _fields(point: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the method that a run sets."""
    return {name.partition(".")[2]: x for name, x in point.items() if name.startswith(f"{METHOD}.")}


def _with_fields(method, point: Mapping[str, Any]):
    """The method with the fields that a run sets."""
    wanted, known = _fields(point), [one.name for one in fields(method)]
    for name in wanted:
        if name not in known:
            raise PullbackError(unknown(f"setting of {type(method).__name__}", name, known))
    return replace(method, **wanted)


def _points(space: Mapping[str, Sequence | Range], samples: int | None, count: int) -> list[dict[str, Any]]:
    """All combinations of settings. The draws of a sample do not depend on the number of samples."""
    ranges = {name: x for name, x in space.items() if isinstance(x, Range)}
    if bool(ranges) != (samples is not None):
        raise PullbackError("samples says how often settings that are a Range are drawn: give both or neither")
    for name, values in space.items():
        check_kind(name, str, "the name of a setting", '"method.rate"')
        if name not in ranges and (isinstance(values, str) or not isinstance(values, Sequence | np.ndarray)):
            raise PullbackError(f"values of {name!r} must be several, [...] or a Range, not {shown(values)}")
    grid = {name: [_plain(name, x) for x in values] for name, values in space.items() if name not in ranges}
    points = []
    for sample in range(count):
        random = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(sample,)))
        drawn = {name: one.draw(random) for name, one in ranges.items()}
        for values in itertools.product(*grid.values()):
            point = dict(zip(grid, values, strict=True)) | drawn
            points.append({name: point[name] for name in space})
    return points


def _plain(name: str, value):
    """A value in a form that JSON can represent: NumPy's numbers become Python's."""
    value = value.item() if isinstance(value, np.generic) else value
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        raise PullbackError(
            f"values of {name!r} must be numbers, words, or lists of such, not {shown(value)}: let what makes the "
            "target take one of these"
        ) from None
    return value


def _named(target) -> str:
    return target if isinstance(target, str) else getattr(target, "name", None) or getattr(target, "__name__", "target")


# --- files ------------------------------------------------------------------------------------------------------------


def _claim(path: Path, whose: dict) -> None:
    """Writes which sweep a folder belongs to, or raises an error if it belongs to another one."""
    whose = json.loads(json.dumps(whose, default=repr))
    if not path.exists():
        write_text(path, json.dumps(whose, indent=1) + "\n")
        return
    held = _read_json(path)
    if held.get("format") != FORMAT:
        raise PullbackError(f"{str(path)!r} was written by another version: use another folder")
    if held != whose:
        changed = next(name for name in {**whose, **held} if held.get(name) != whose.get(name))
        raise PullbackError(f"{str(path.parent)!r} is of another sweep, with other {changed}: use another folder")


def _read_json(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        check_kind(found, dict, "it")
        return found
    except (OSError, ValueError) as error:
        raise PullbackError(f"{str(path)!r} cannot be read: delete it ({error})") from None


def _write(found: Sweep) -> None:
    """Writes the tables, as CSV and JSON, and a plot for each numeric setting."""
    names = list(dict.fromkeys(name for row in found.rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(found.rows)
    write_text(found.folder / "table.csv", text.getvalue())
    write_text(found.folder / "table.json", json.dumps(found.rows, indent=1) + "\n")
    if importlib.util.find_spec("matplotlib") is None:
        return
    from pullback.view import plot_lines

    for name in found.settings:
        values = [row[name] for row in found.rows]
        groups = [row for row in found.groups([name]) if math.isfinite(row["worst"])]
        if not all(isinstance(x, int | float) for x in values) or len(groups) < 2:
            continue
        groups.sort(key=lambda row, name=name: row[name])
        lines = {line: [row[line] for row in groups] for line in ("worst", "best", "median")}
        labels = {"title": found.folder.name, "xlabel": name, "ylabel": found.metric}
        with contextlib.suppress(OSError):
            plot_lines(found.folder / f"{name}.png", [row[name] for row in groups], lines, **labels)
