"""``pullback optimize``: solve a task, and look at the solution."""

from __future__ import annotations

import inspect
import json
import runpy
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pullback.cli.common import (
    add_common,
    compiling_note,
    console,
    one_line,
    progress_options,
    quiet_warp,
    whole,
    writable_folder,
)
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.plan import CMA, ILQR, LBFGS, SGD, Adam, Method
from pullback.plan import Progress as Minimised
from pullback.tasks import TASKS, Task, solve
from pullback.tasks.chain import easier_for
from pullback.view import plot_curve, write_replay

METHODS = {"lbfgs": LBFGS, "adam": Adam, "sgd": SGD, "ilqr": ILQR, "cma": CMA}

ABOUT = """\
Solves a task and writes DIR/result.npz (the solution and its motion), DIR/result.json (a summary), DIR/loss.png and
DIR/replay.html, for any browser. TASK is a name from 'pullback tasks', or a Python file with a function task() that
gives a pullback.tasks.Task.

What is killed goes on where it was when the same command is given again. Exit code 0: solved. 1: not solved within the
iterations. 2: bad input.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("optimize", help="solve a task by gradients", description=ABOUT)
    parser.add_argument("task", metavar="TASK", help=f"a Python file, or one of {', '.join(TASKS)}")
    add_common(parser, out="where to write (default out/TASK, or out/TASK-METHOD-SEED)")
    parser.add_argument("--method", choices=sorted(METHODS), help="default: the task's own; cma needs no gradients")
    parser.add_argument("--iterations", type=whole(1), metavar="N", help="at most (default: the task's own)")
    parser.add_argument("--all", action="store_true", help="do all iterations, even after the target is reached")
    parser.add_argument("--fresh", action="store_true", help="start over, whatever DIR holds")
    parser.set_defaults(run=run)


def run(args) -> int:
    task = read_task(args.task, args.device, args.seed)
    method, iterations = choose(task, args)
    default = "-".join([task.name, *([args.method] if args.method else []), *([f"{args.seed}"] if args.seed else [])])
    folder = writable_folder(args.out or Path("out") / default)
    state = folder / "state.npz"
    if args.fresh:
        for old in (state, *folder.glob("state-*.npz")):  # those of easier tasks too
            old.unlink(missing_ok=True)
    x, _, _ = task.begin()
    with compiling_note():
        task(x[None], method.wants_gradients)
    if state.exists():
        console().print(f"going on from {state} (--fresh starts over)", style="dim")
    solved = watched(task, method, iterations, state, args)
    found = solved[-1]
    run = task.run(found.x)
    figure = float(task.figure(run)[0])
    summary = {
        "task": task.name,
        "about": task.about,
        "method": repr(method),
        "seed": args.seed,
        "solved": figure <= task.target,
        "figure": figure,
        "target": task.target,
        "unit": task.unit,
        "stopped": found.stopped,
        "iterations": sum(one.iterations for one in solved),
        "evaluations": sum(one.evaluations for one in solved),
        "seconds": sum(one.seconds for one in solved),
        "loss": float(found.losses[found.best]),
        "result": str(folder / "result.npz"),
    }
    write_result(folder, task, run, solved, summary)
    if args.json:
        print(json.dumps(summary, indent=1))
    else:
        _show(summary)
    return 0 if summary["solved"] else 1


def read_task(name: str, device: str, seed: int = 0) -> Task:
    """A task by its name, or from a Python file of the user's. Those that begin somewhere at random take the seed."""
    if name in TASKS:
        with quiet_warp():
            return TASKS[name](device=device, **_seed_of(TASKS[name], seed))
    path = Path(name)
    if path.suffix != ".py":
        raise PullbackError(f"there is no task {name!r}; there are {', '.join(TASKS)}, or give a Python file")
    if not path.is_file():
        raise PullbackError(f"there is no file {name!r}")
    with quiet_warp():
        try:
            made = runpy.run_path(str(path)).get("task")
            task = made(**_seed_of(made, seed)) if callable(made) else made
        except PullbackError:
            raise
        except Exception as error:  # the user's own code
            raise PullbackError(f"{name} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(task, Task):
        raise PullbackError(f"{name} needs a function task() that gives a pullback.tasks.Task")
    return task


def _seed_of(make, seed: int) -> dict:
    return {"seed": seed} if "seed" in inspect.signature(make).parameters else {}


def choose(task: Task, args) -> tuple[Method, int]:
    """The method and the number of iterations that were asked for, or the task's own."""
    own = [task.method, task.baseline] if task.baseline is not None else [task.method]
    if args.method is None:
        method = task.method
    else:
        kind = METHODS[args.method]
        method = next((m for m in own if isinstance(m, kind)), None) or kind()
    is_baseline = isinstance(method, type(task.baseline or CMA())) and not isinstance(method, type(task.method))
    return method, args.iterations or (task.baseline_iterations if is_baseline else task.iterations)


def watched(task: Task, method: Method, iterations: int, state: Path, args) -> list[Minimised]:
    """solve, with a bar."""
    columns = (
        TextColumn(task.name),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[figure]:.4g}} {task.unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, **progress_options()) as progress:
        total = iterations + sum(easier.iterations for easier in easier_for(task, method))
        bar = progress.add_task("", total=total, figure=float("nan"))

        def watch(found: list[Minimised]) -> None:
            done, last = sum(one.iterations for one in found), found[-1]
            progress.update(bar, completed=done, figure=last.figures[last.best])

        target = None if args.all else task.target
        return solve(task, method, iterations=iterations, target=target, seed=args.seed, checkpoint=state, watch=watch)


def write_result(folder: Path, task: Task, run, solved: list[Minimised], summary: dict) -> None:
    """Everything there is to keep; no pickle needed to read it. Histories begin with those of easier tasks."""
    losses, figures = (np.concatenate([getattr(one, name) for one in solved]) for name in ("losses", "figures"))
    states = {name: to_numpy(getattr(run, name)) for name in run.states._fields}
    arrays = {"x": solved[-1].x, "losses": losses, "figures": figures, "controls": to_numpy(run.controls)}
    model = getattr(task.system, "model", None)
    dt = {} if model is None else {"dt": np.array(model.timestep)}
    try:
        np.savez(folder / "result.npz", **states, **arrays, **dt)
        if np.all(np.isfinite(losses)):
            title = f"{task.name}: {task.about}"
            plot_curve(folder / "loss.png", losses, title=title, xlabel="iteration", ylabel="loss")
            summary["curve"] = str(folder / "loss.png")
        if model is not None:
            replay = folder / "replay.html"
            write_replay(replay, model, run.q, dt=model.timestep, title=task.name, ghost=task.ghost, loss=losses)
            summary["replay"] = str(replay)
        (folder / "result.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PullbackError(f"cannot write to {str(folder)!r}: {error.strerror or one_line(error)}") from None


def _show(s: dict) -> None:
    print(f"{s['task']}: {s['about']}")
    verdict = "solved" if s["solved"] else "not solved"
    print(f"{verdict}: {s['figure']:.4g} {s['unit']}, asked for {s['target']:g} ({s['stopped']})")
    print(f"spent:  {s['iterations']} iterations, {s['evaluations']} motions, {s['seconds']:.2g} s")
    for name in ("result", "curve", "replay"):
        if name in s:
            print(f"{name + ':':<8}{s[name]}")
