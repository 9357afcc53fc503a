"""``pullback optimize``: solve a task, and look at the solution."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import time
from pathlib import Path

import numpy as np
from rich.progress import MofNCompleteColumn, TextColumn

from pullback.cli import common, dexterous, planning
from pullback.cli.common import ROBOT_FILES
from pullback.cli.view import add_server, announce
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.trees import leaf_names, leaves
from pullback.dexterous import Manipulation
from pullback.model.robots import HANDS, SAMPLES
from pullback.plan import METHODS, Estimate, Method
from pullback.plan import Progress as Minimised
from pullback.rollout import rollout
from pullback.scale import Spread
from pullback.tasks import TASKS, Planning, Residuals, Task, solve
from pullback.tasks.chain import choose, easier_for
from pullback.tasks.distant import CONTACTS
from pullback.view import Drawing, Viewer, draw_run, export, plot_curve, plot_intervals, plot_lines, save_motion

VIEW_EVERY = 3.0  # a better motion is shown no more often: one wants to see it to its end [s]
LARGE_STATE, FEW_STATES = 500, 300  # numbers of a state from which on only some states are written, and how many
CHOICES = ("contact", "hand")  # that some tasks have
ABOUT = """\
Solves a task and writes DIR/result.npz (the solution and its motion), DIR/result.json (a summary), DIR/loss.png and
DIR/replay.html (a replay for any browser). TASK is a name from 'pullback tasks', or a Python file with a function
task() that returns a pullback.tasks.Task. Least-squares tasks, such as 'identify', also get standard errors and
confidence intervals: a table, and DIR/intervals.png. Some tasks write further plots, such as the depth of 'melt-pool'.
If a state has 500 numbers or more, result.npz has at most 300 states. Tasks that plan on reachability maps, such as
'footsteps', have no loss and no choice of method; their plans are checked by inverse kinematics. Tasks for hands, such
as 'grasp-cube', train a policy that proposes its contacts, and test it in MuJoCo. --seed selects a variant of the
problem, or the initial weights of a policy.

Run the same command again to resume an interrupted optimisation. Only one command at a time can write to DIR. Exit
code 0: solved. 1: not solved within the iterations. 2: bad input. With --view the command runs until Ctrl-C.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("optimize", help="solve a task by gradients", description=ABOUT)
    parser.add_argument("task", metavar="TASK", help=f"a Python file, or one of {', '.join(TASKS)}")
    common.add_common(parser, out="where to write (default out/TASK, or out/TASK-METHOD-SEED)")
    about = "optimiser (default: the task's own); cma needs no gradients"
    common.option(parser, "--method", about, str, choices=sorted(METHODS))
    common.option(parser, "--iterations N", "maximum number of iterations (default: the task's own)", common.whole(1))
    common.option(parser, "--hand HAND", "the hand to use, for tasks that support several", str, choices=sorted(HANDS))
    about = "the contact model, for tasks that support several, such as 'push'; convex is MuJoCo's"
    common.option(parser, "--contact CONTACT", about, str, choices=CONTACTS)
    common.option(parser, "--data PATH", "your own recordings, for tasks that can use them, such as 'cube-toss'", str)
    common.option(parser, "--all", "do all iterations, even after the target is reached")
    common.option(parser, "--fresh", "start over, and ignore earlier progress in DIR")
    common.add_workers(parser, default="none: use threads of this process")
    common.option(parser, "--view", "show the best motion so far in the browser")
    add_server(parser)
    parser.set_defaults(run=run)


def run(args) -> int:
    task = read_task(args.task, options_of(args))
    if isinstance(task, Planning):
        return planning.run(task, args)
    if isinstance(task, Manipulation):
        return dexterous.run(task, args)
    method, usual = choose(task, args.method)
    iterations = args.iterations or usual
    with common.result_folder(args, task.name, args.method) as folder, on_workers(task, method, args) as problem:
        state = folder / "state.npz"
        if args.fresh:
            for old in (state, *folder.glob("state-*.npz")):  # those of easier tasks too
                old.unlink(missing_ok=True)
        x, _, _ = task.begin()
        task(x[None], method.wants_gradients)  # compiles: that is not what is timed
        if state.exists():
            common.console().print(f"resuming from {state} (--fresh starts over)", style="dim")
        viewer = start_viewer(task, args) if args.view else None
        solved = solve_and_show(task, method, iterations, problem, state, args, viewer)
        summary, drawing, known = write_solution(folder, task, method, args.seed, solved)
    if viewer is not None:
        viewer.play(drawing)
    table = "" if known is None else f"{known.table(task.truth)}\n"
    common.report(args, summary, table + _text(summary))
    if viewer is not None:
        viewer.wait()
    return 0 if summary["solved"] else 1


def on_workers(task: Task, method: Method, args) -> contextlib.AbstractContextManager[Spread | None]:
    """The task on the workers that were asked for, until it is left; None if there are none."""
    if args.workers is None and args.address is None:
        return contextlib.nullcontext()
    make = functools.partial(read_task, args.task, options_of(args))
    return Spread(task, make, method=method, **common.workers_of(args))


def write_solution(
    folder: Path, task: Task, method: Method, seed: int, solved: list[Minimised]
) -> tuple[dict, Drawing | None, Estimate | None]:
    """Writes the solution, and returns a summary, its drawing, and the estimate of a least-squares problem."""
    found = solved[-1]
    run = task.run(found.x)
    metric = float(task.metric(run)[0])
    summary = {
        "task": task.name,
        "about": task.about,
        "method": repr(method),
        "seed": seed,
        "solved": metric <= task.target,
        "metric": metric,
        "target": task.target,
        "unit": task.unit,
        "stopped": found.stopped,
        "iterations": sum(one.iterations for one in solved),
        "evaluations": sum(one.evaluations for one in solved),
        "seconds": sum(one.seconds for one in solved),
        "loss": float(found.losses[found.best]),
        "result": str(folder / "result.npz"),
    }
    loss = task.loss(run)
    # the noise can be estimated only where there are more residuals than variables
    is_estimated = isinstance(loss, Residuals) and loss.count > len(found.x)
    known = task.estimate(found.x) if is_estimated else None
    if known is None and task.truth is not None:
        pairs = zip(task.find.natural(task.system, found.x), task.truth, strict=True)
        rows = zip(task.find.labels(task.system), pairs, strict=True)
        summary["found"] = {label: {"found": float(value), "truth": float(true)} for label, (value, true) in rows}
    drawing = draw_found(task, run, solved)
    write_result(folder, task, run, solved, summary, drawing, known)
    return summary, drawing, known


def options_of(args) -> dict:
    """What a task is made with; an error if there is data and the task takes none."""
    options = {"device": args.device, "seed": args.seed}
    options |= {name: getattr(args, name) for name in ("data", *CHOICES) if getattr(args, name) is not None}
    if args.data is not None and args.task in TASKS and "data" not in inspect.signature(TASKS[args.task]).parameters:
        raise PullbackError(f"{args.task!r} learns from no recordings: leave --data out")
    return options


def read_task(name: str, options: dict) -> Task | Planning | Manipulation:
    """A task by its name, or from a Python file of the user's; made with those of the options that it has.

    A hand, or a contact model, is an error where there is no choice of one.
    """
    wanted = set(CHOICES) & set(options)
    if name in TASKS:
        return common.call(TASKS[name], options, wanted)
    path = Path(name)
    if name in SAMPLES or path.suffix in ROBOT_FILES:
        raise PullbackError(f"{name!r} is no task but a robot: try 'pullback simulate {name}'")
    if path.suffix != ".py":
        raise PullbackError(f"{common.unknown('task', name, TASKS)} (or give a Python file)")
    return common.from_file(name, "task", options, (Task, Planning, Manipulation), "a pullback.tasks.Task", wanted)


def start_viewer(task: Task, args) -> Viewer:
    """A viewer of the initial state, until there is a motion."""
    start = rollout(task.in_worlds(task.motions), task.start, steps=0)
    viewer = Viewer(draw_run(start, title=task.name, ghost=task.ghost), host=args.host, port=args.port)
    announce(viewer, browser=True)
    return viewer


def solve_and_show(
    task: Task, method: Method, iterations: int, problem: Spread | None, state: Path, args, viewer: Viewer | None
) -> list[Minimised]:
    """Solves with a progress bar, and shows the best motion so far in the viewer."""
    shown = [None, -np.inf]  # what is shown, and since when
    metric = TextColumn(f"{{task.fields[metric]:.4g}} {task.unit}")
    with common.progress(task.name, MofNCompleteColumn(), metric) as progress:
        total = iterations + sum(easier.iterations for easier in easier_for(task, method))
        bar = progress.add_task("", total=total, metric=float("nan"))

        def watch(found: list[Minimised]) -> None:
            done, last = sum(one.iterations for one in found), found[-1]
            progress.update(bar, completed=done, metric=last.metrics[last.best])
            best = len(found), last.best
            is_news = viewer is not None and best != shown[0] and np.isfinite(last.losses[last.best])
            if is_news and time.monotonic() - shown[1] > VIEW_EVERY:
                stage = [*easier_for(task, method), task][len(found) - 1]
                viewer.play(draw_found(stage, stage.run(last.x), found))
                shown[:] = best, time.monotonic()

        target = None if args.all or task.evaluate_at_end else task.target
        options = {"iterations": iterations, "target": target, "problem": problem, "checkpoint": state}
        return solve(task, method, **options, seed=args.seed, watch=watch)


def draw_found(task: Task, run, solved: list[Minimised]) -> Drawing | None:
    """The motion that was found, with contacts, gradients of the loss and the target; None if it has no looks."""
    if task.system.drawing is None:
        return None
    losses = history(solved, "losses")
    losses = losses if np.all(np.isfinite(losses)) else None
    camera = None if task.camera is None else (task.camera.eye, task.camera.target)
    return draw_run(run, title=task.name, ghost=task.ghost, losses=losses, camera=camera, bars=task.bars(run))


def history(solved: list[Minimised], name: str) -> np.ndarray:
    """Losses or metrics of all iterations, those of easier tasks first."""
    return np.concatenate([getattr(one, name) for one in solved])


def write_result(
    folder: Path,
    task: Task,
    run,
    solved: list[Minimised],
    summary: dict,
    drawing: Drawing | None,
    known: Estimate | None,
) -> None:
    """Writes result.npz, which needs no pickle to be read, result.json and the pictures."""
    losses, metrics = (history(solved, name) for name in ("losses", "metrics"))
    arrays = {"x": solved[-1].x, "losses": losses, "metrics": metrics, "controls": to_numpy(run.controls)}
    if hasattr(task.system, "dt"):
        arrays["dt"] = np.array(task.system.dt)
    if known is not None:
        arrays |= _estimate_arrays(known, task.truth)
    states = {f"state.{name}" if name in arrays else name: x for name, x in written_states(run).items()}
    save_motion(folder / "result.npz", drawing, **states, **arrays)
    if known is not None:
        summary |= _estimate_summary(known, task.truth)
        if (picture := draw_intervals(folder / "intervals.png", task, known)) is not None:
            summary["intervals"] = str(picture)
    if np.all(np.isfinite(losses)):
        labels = {"title": f"{task.name}: {task.about}", "xlabel": "iteration", "ylabel": "loss"}
        summary["curve"] = str(plot_curve(folder / "loss.png", losses, **labels))
    for curves in task.curves(run) if task.curves is not None else ():
        picture = folder / f"{curves.name}.png"
        labels = {"xlabel": curves.xlabel, "ylabel": curves.ylabel}
        plot_lines(picture, curves.x, curves.values, title=f"{task.name}: {curves.name}", **labels)
        summary.setdefault("pictures", []).append(str(picture))
    if drawing is not None:
        summary["replay"] = str(export(drawing, folder / "replay.html"))
    common.write_json(folder / "result.json", summary)


def draw_intervals(path: Path, task: Task, known: Estimate) -> Path | None:
    """A picture of what is determined: a network has weights that are not; None where nothing is."""
    rows = np.flatnonzero(known.determined)
    if not len(rows):
        return None
    estimates = ([known.labels[i] for i in rows], known.values[rows], known.low[rows], known.high[rows])
    truth = None if task.truth is None else np.asarray(task.truth)[rows]
    xlabel = f"estimate and {known.confidence:.0%} interval"
    return plot_intervals(path, *estimates, truth=truth, title=task.name, xlabel=xlabel)


def written_states(run) -> dict[str, np.ndarray]:
    """States by the names of their arrays: all, or where they are large some, and at which steps they are."""
    states = dict(zip(leaf_names(run.states), map(to_numpy, leaves(run.states)), strict=True))
    numbers = sum(math.prod(x.shape[2:]) for x in states.values())
    count = len(run.kept) if numbers < LARGE_STATE else FEW_STATES
    rows = np.unique(np.linspace(0, len(run.kept) - 1, count).round().astype(int))
    return {name: value[rows] for name, value in states.items()} | {"steps": run.kept[rows]}


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
    summary = {"noise": known.noise, "undetermined": [list(group) for group in known.undetermined], "estimates": rows}
    if truth is not None:
        summary |= {"inside": int(known.covers(truth).sum()), "all_inside_jointly": known.covers_all(truth)}
    return summary


def _text(s: dict) -> str:
    verdict = "solved" if s["solved"] else "not solved"
    lines = [
        f"{s['task']}: {s['about']}",
        f"{verdict}: {s['metric']:.4g} {s['unit']}, target {s['target']:g} ({s['stopped']})",
        f"spent:  {s['iterations']} iterations, {s['evaluations']} motions, {s['seconds']:.2g} s",
        *(f"{label}: {x['found']:.4g}, true value {x['truth']:.4g}" for label, x in s.get("found", {}).items()),
    ]
    if "inside" in s:
        jointly = "all" if s["all_inside_jointly"] else "not all"
        inside = f"{s['inside']} of {len(s['estimates'])} true values lie in their intervals"
        lines.append(f"check:  {inside}, {jointly} in the joint intervals")
    lines += [f"{name + ':':<11}{s[name]}" for name in ("result", "curve", "intervals", "replay") if name in s]
    lines += [f"picture:   {picture}" for picture in s.get("pictures", ())]
    lines += [f"look:      pullback view {s['result']}"] if "replay" in s else []
    return "\n".join(lines)
