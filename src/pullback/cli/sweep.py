"""``pullback sweep``: a task or a training with many settings and seeds, on many workers."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pullback.cli import common
from pullback.core.errors import PullbackError
from pullback.scale import Range, Sweep, sweep
from pullback.scale.sweep import Plan, made_of
from pullback.tasks import Task
from pullback.view import draw_run, export, save_motion

ABOUT = """\
Solves a task, or trains in an environment, with every combination of settings and every seed, and writes DIR/table.csv
and DIR/table.json (one row per run), a picture for each numeric setting, DIR/best.html and DIR/best.npz (the best
motion of a task), and DIR/runs (one folder per run). TARGET is a name from 'pullback tasks' or 'pullback envs', or a
Python file with a function task() or env(), whose arguments may be varied.

Run the same command again to resume an interrupted sweep: it ends with the same table. Exit code 1: some run failed.
"""
RANGE = re.compile(r"(uniform|log)\(([^,]+),([^,]+)\)")


def add(verbs) -> None:
    parser = verbs.add_parser("sweep", help="run a task or a training with many settings", description=ABOUT)
    parser.add_argument("target", metavar="TARGET", help="a task, an environment, or a Python file")
    about = "method=lbfgs,adam, or a setting of the method, such as method.rate=0.01,0.1 or method.rate=log(1e-3,1), "
    common.option(parser, "--set NAME=VALUES", about + "or an option of the target", setting, [], action="append")
    common.option(parser, "--samples N", "number of draws from ranges, log(...) and uniform(...)", common.whole(1))
    common.option(parser, "--seeds N", "number of seeds for each combination, starting at 0", common.whole(1), 1)
    common.option(
        parser,
        "--spread S",
        "standard deviation of noise on the initial guess",
        common.number(float, 0),
        0.0,
    )
    common.option(parser, "--iterations N", "iterations of a task, at most (default: the task's own)", common.whole(1))
    length = parser.add_mutually_exclusive_group()
    common.option(length, "--minutes M", "length of a training in minutes", common.positive)
    common.option(length, "--updates N", "length of a training in updates of the policy", common.whole(1))
    common.add_workers(parser)
    common.add_device(parser)
    common.option(parser, "--out DIR", "where to write (default out/sweep-TARGET)", Path)
    common.option(parser, "--json", "print the result as JSON")
    parser.set_defaults(run=run)


def setting(text: str) -> tuple[str, list | Range]:
    """An argument such as method.rate=0.01,0.1 or method.rate=log(1e-3,1)."""
    name, equals, values = text.partition("=")
    if not equals or not name.replace(".", "").isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value,value")
    if found := RANGE.fullmatch(values):
        try:
            return name, Range(float(found[2]), float(found[3]), log=found[1] == "log")
        except ValueError as error:  # PullbackError too
            raise argparse.ArgumentTypeError(f"{text}: {error}") from None
    try:
        return name, list(ast.literal_eval(f"[{values}]"))
    except (ValueError, SyntaxError):
        return name, values.split(",")  # words: the target or its method says whether it has such


@dataclass(frozen=True)
class FromFile:
    """What makes the task or the environment of a user's file, on a worker."""

    name: str

    def __call__(self, device: str = "cpu", seed: int = 0, **options):
        kinds: tuple[type, ...] = (Task,)
        if importlib.util.find_spec("torch") is not None:
            kinds += (common.learning()[0].Environment,)
        given, what = options | {"device": device, "seed": seed}, "a pullback.tasks.Task or a pullback.envs.Environment"
        return common.from_file(self.name, ("task", "env"), given, kinds, what, wanted=options)


def run(args) -> int:
    target = FromFile(args.target) if args.target.endswith(".py") else args.target
    if len(dict(args.set)) < len(args.set):
        raise PullbackError("--set names the same setting twice: separate its values by commas")
    found = sweep(
        target, dict(args.set), seeds=args.seeds, samples=args.samples, spread=args.spread, device=args.device,
        iterations=args.iterations, minutes=args.minutes, updates=args.updates,
        out=args.out or Path("out") / f"sweep-{Path(args.target).stem}", **common.workers_of(args),
    )  # fmt: skip
    best = found.best
    summary = {"metric": found.metric, "rows": found.rows, "groups": found.groups(), "best": best["run"]}
    lines = [f"{args.target}: the {found.metric} over runs with equal settings", found.text()]
    lines += [f"table:  {found.folder / 'table.csv'}"]
    if "error" not in best:
        lines += [f"best:   {found.folder / best['run']}", f"look:   pullback view {write_best(found, target, args)}"]
    common.report(args, summary, "\n".join(lines))
    return int(any("error" in row for row in found.rows))


def write_best(found: Sweep, target, args) -> Path:
    """What to look at: the best motion of a task, written here, or the folder of the best policy."""
    folder = found.folder / found.best["run"]
    if found.metric == "return":
        return folder
    point = {name: found.best[name] for name in (*found.settings, "seed")}
    task = made_of(Plan(target, {}, 0.0, args.device), point)
    if task.system.drawing is None:
        return folder
    with np.load(folder / "result.npz") as arrays:
        run = task.run(arrays["x"])
    drawing = draw_run(run, title=task.name, ghost=task.ghost)
    export(drawing, found.folder / "best.html")
    save_motion(found.folder / "best.npz", drawing)
    return found.folder / "best.npz"
