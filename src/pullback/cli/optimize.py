"""``pullback optimize``: solve a task, and look at the solution."""

from __future__ import annotations

import inspect
import json
import runpy
import time
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
from pullback.cli.view import add_server, announce
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.plan import CMA, ILQR, LBFGS, SGD, Adam, Estimate, GaussNewton, Method, minimise
from pullback.plan import Progress as Minimised
from pullback.tasks import TASKS, Residuals, Task
from pullback.view import Drawing, Viewer, draw, draw_run, plot_curve, plot_intervals, save_motion, write_page

VIEW_EVERY = 3.0  # a better motion is shown no more often: one wants to see it to its end [s]
REPLAY_FPS = 60  # of the page: it interpolates [1/s]
METHODS = {"lbfgs": LBFGS, "adam": Adam, "sgd": SGD, "ilqr": ILQR, "gauss-newton": GaussNewton, "cma": CMA}

ABOUT = """\
Solves a task and writes DIR/result.npz (the solution and its motion), DIR/result.json (a summary), DIR/loss.png and
DIR/replay.html, for any browser. TASK is a name from 'pullback tasks', or a Python file with a function task() that
gives a pullback.tasks.Task. A task of least squares, such as 'identify', also gets standard errors and confidence
intervals: a table, and DIR/intervals.png.

What is killed goes on where it was when the same command is given again. Exit code 0: solved. 1: not solved within the
iterations. 2: bad input. With --view it stays until Ctrl-C.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("optimize", help="solve a task by gradients", description=ABOUT)
    parser.add_argument("task", metavar="TASK", help=f"a Python file, or one of {', '.join(TASKS)}")
    add_common(parser, out="where to write (default out/TASK, or out/TASK-METHOD)")
    parser.add_argument("--method", choices=sorted(METHODS), help="default: the task's own; cma needs no gradients")
    parser.add_argument("--iterations", type=whole(1), metavar="N", help="at most (default: the task's own)")
    parser.add_argument("--all", action="store_true", help="do all iterations, even after the target is reached")
    parser.add_argument("--fresh", action="store_true", help="start over, whatever DIR holds")
    parser.add_argument("--view", action="store_true", help="show the best motion so far in the browser")
    add_server(parser)
    parser.set_defaults(run=run)


def run(args) -> int:
    task = read_task(args.task, {"device": args.device, "seed": args.seed})
    method, iterations = choose(task, args)
    default = f"{task.name}-{args.method}" if args.method else task.name
    folder = writable_folder(args.out or Path("out") / default)
    state = folder / "state.npz"
    if args.fresh:
        state.unlink(missing_ok=True)
    x, low, high = task.begin()
    with compiling_note():
        task(x[None], method.wants_gradients)
    if state.exists():
        console().print(f"going on from {state} (--fresh starts over)", style="dim")
    viewer = start_viewer(task, args) if args.view else None
    found = watched(task, x, method, iterations, low, high, state, args, viewer)
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
        "iterations": found.iterations,
        "evaluations": found.evaluations,
        "seconds": found.seconds,
        "loss": float(found.losses[found.best]),
        "result": str(folder / "result.npz"),
    }
    known = task.estimate(found.x) if isinstance(task.loss(run), Residuals) else None
    drawing = draw_found(task, run, found)
    write_result(folder, task, run, found, summary, drawing, known)
    if viewer is not None:
        viewer.play(drawing)
    if args.json:
        print(json.dumps(summary, indent=1))
    else:
        if known is not None:
            print(known.table(task.truth))
        _show(summary)
    if viewer is not None:
        viewer.wait()
    return 0 if summary["solved"] else 1


def read_task(name: str, options: dict) -> Task:
    """A task by its name, or from a Python file of the user's; made with those of the options that it has."""
    if name in TASKS:
        with quiet_warp():
            return _made(TASKS[name], options)
    path = Path(name)
    if path.suffix != ".py":
        raise PullbackError(f"there is no task {name!r}; there are {', '.join(TASKS)}, or give a Python file")
    if not path.is_file():
        raise PullbackError(f"there is no file {name!r}")
    with quiet_warp():
        try:
            made = runpy.run_path(str(path)).get("task")
            task = _made(made, options) if callable(made) else made
        except PullbackError:
            raise
        except Exception as error:  # the user's own code
            raise PullbackError(f"{name} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(task, Task):
        raise PullbackError(f"{name} needs a function task() that gives a pullback.tasks.Task")
    return task


def _made(make, options: dict) -> Task:
    taken = inspect.signature(make).parameters
    return make(**{name: value for name, value in options.items() if name in taken})


def choose(task: Task, args) -> tuple[Method, int]:
    """The method and the number of iterations that were asked for, or the task's own."""
    own = [task.method, task.baseline] if task.baseline is not None else [task.method]
    if args.method is None:
        method = task.method
    else:
        kind = METHODS[args.method]
        method = next((m for m in own if isinstance(m, kind)), None) or kind()
    usual = task.baseline_iterations if isinstance(method, CMA) else task.iterations
    return method, args.iterations or usual


def start_viewer(task: Task, args) -> Viewer:
    """Of the start of the motion, until there is one."""
    if getattr(task.system, "model", None) is None:
        raise PullbackError(f"--view: {type(task.system).__name__} has no bodies to look at")
    model = task.system.model
    first = draw(model, to_numpy(task.start.q)[None], dt=model.timestep, title=task.name, ghost=task.ghost)
    viewer = Viewer(first, host=args.host, port=args.port)
    announce(viewer, browser=True)
    return viewer


def watched(
    task: Task, x, method: Method, iterations: int, low, high, state: Path, args, viewer: Viewer | None
) -> Minimised:
    """minimise, with a bar, and the best motion so far in the viewer."""
    shown = [-1, -np.inf]  # the iteration that is shown, and since when
    columns = (
        TextColumn(task.name),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[figure]:.4g}} {task.unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, **progress_options()) as progress:
        bar = progress.add_task("", total=iterations, figure=float("nan"))

        def watch(found: Minimised) -> None:
            progress.update(bar, completed=found.iterations, figure=found.figures[found.best])
            is_news = viewer is not None and found.best != shown[0] and np.isfinite(found.losses[found.best])
            if is_news and time.monotonic() - shown[1] > VIEW_EVERY:
                viewer.play(draw_found(task, task.run(found.x), found))
                shown[:] = found.best, time.monotonic()

        return minimise(
            task,
            x,
            method,
            iterations=iterations,
            target=None if args.all or task.judged else task.target,
            low=low,
            high=high,
            seed=args.seed,
            checkpoint=state,
            watch=watch,
        )


def draw_found(task: Task, run, found: Minimised) -> Drawing | None:
    """The motion that was found, with contacts, gradients of the loss and the target; None if nothing has shapes."""
    if getattr(task.system, "model", None) is None:
        return None
    return draw_run(
        run,
        title=task.name,
        ghost=task.ghost,
        losses=found.losses if np.all(np.isfinite(found.losses)) else None,
        camera=None if task.camera is None else (task.camera.eye, task.camera.target),
        bars=task.bars(run),
    )


def write_result(
    folder: Path,
    task: Task,
    run,
    found: Minimised,
    summary: dict,
    drawing: Drawing | None,
    known: Estimate | None,
) -> None:
    """Everything there is to keep; no pickle needed to read it."""
    states = {name: to_numpy(getattr(run, name)) for name in run.states._fields}
    arrays = {"x": found.x, "losses": found.losses, "figures": found.figures, "controls": to_numpy(run.controls)}
    model = getattr(task.system, "model", None)
    dt = {} if model is None else {"dt": np.array(model.timestep)}
    estimates = {} if known is None else _estimate_arrays(known, task.truth)
    try:
        save_motion(folder / "result.npz", drawing, **states, **arrays, **dt, **estimates)
        if known is not None:
            summary |= _estimate_summary(known, task.truth)
            picture = folder / "intervals.png"
            plot_intervals(
                picture, known.labels, known.values, known.low, known.high, truth=task.truth, title=task.name,
                xlabel=f"estimate and {known.confidence:.0%} interval",
            )  # fmt: skip
            summary["intervals"] = str(picture)
        if np.all(np.isfinite(found.losses)):
            title = f"{task.name}: {task.about}"
            plot_curve(folder / "loss.png", found.losses, title=title, xlabel="iteration", ylabel="loss")
            summary["curve"] = str(folder / "loss.png")
        if drawing is not None:
            summary["replay"] = str(write_page(folder / "replay.html", drawing.thinned(REPLAY_FPS)))
        (folder / "result.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PullbackError(f"cannot write to {str(folder)!r}: {error.strerror or one_line(error)}") from None


def _estimate_arrays(known: Estimate, truth: np.ndarray | None) -> dict[str, np.ndarray]:
    names = ("standard_errors", "low", "high", "joint_low", "joint_high")
    arrays = {"labels": np.array(known.labels), "estimates": known.values, "noise": np.array(known.noise)}
    true = {} if truth is None else {"truth": truth}
    return arrays | {name: getattr(known, name) for name in names} | true


def _estimate_summary(known: Estimate, truth: np.ndarray | None) -> dict:
    """For result.json, which has no infinity."""
    columns = {name: x for name, x in _estimate_arrays(known, truth).items() if name not in ("labels", "noise")}
    rows = [
        {"name": label} | {name: float(x[i]) if np.isfinite(x[i]) else None for name, x in columns.items()}
        for i, label in enumerate(known.labels)
    ]
    told = {"noise": known.noise, "undetermined": [list(group) for group in known.undetermined], "estimates": rows}
    if truth is not None:
        told |= {"inside": int(known.covers(truth).sum()), "all_inside_jointly": known.covers_all(truth)}
    return told


def _show(s: dict) -> None:
    print(f"{s['task']}: {s['about']}")
    verdict = "solved" if s["solved"] else "not solved"
    print(f"{verdict}: {s['figure']:.4g} {s['unit']}, asked for {s['target']:g} ({s['stopped']})")
    print(f"spent:  {s['iterations']} iterations, {s['evaluations']} motions, {s['seconds']:.2g} s")
    if "inside" in s:
        print(f"inside: {s['inside']} of {len(s['estimates'])} true values in intervals of their own, ", end="")
        print(f"{'all' if s['all_inside_jointly'] else 'not all'} in the joint ones")
    for name in ("result", "curve", "intervals", "replay"):
        if name in s:
            print(f"{name + ':':<11}{s[name]}")
    if "replay" in s:
        print(f"look:      pullback view {s['result']}")
