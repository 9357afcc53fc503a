"""``pullback optimize`` of a task that plans on reachability maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pullback.cli import common
from pullback.cli.view import show
from pullback.core.errors import PullbackError
from pullback.reach.sqp import Options
from pullback.tasks import Planning
from pullback.view import Drawing, draw, save_motion, write_page


def run(task: Planning, args) -> int:
    if args.method is not None:
        raise PullbackError(f"{task.name} is planned by sequential quadratic programming: leave out --method")
    for option, given in (
        ("--device", args.device != "cpu"),
        ("--all", args.all),
        ("--fresh", args.fresh),
        ("--workers", args.workers),
    ):
        if given:
            raise PullbackError(f"{task.name} is planned anew and on the CPU each time: leave out {option}")
    with common.result_folder(args, task.name) as folder:
        summary, drawing = solve_and_write(task, args, folder)
    common.report(args, summary, _text(summary))
    if args.view:
        show(drawing, args)
    return 0 if summary["solved"] else 1


def solve_and_write(task: Planning, args, folder: Path) -> tuple[dict, Drawing]:
    """Plans, writes the plan and its replay, and returns a summary and the drawing."""
    found = task.solve(None if args.iterations is None else Options(iterations=args.iterations))
    camera = None if task.camera is None else (task.camera.eye, task.camera.target)
    drawing = draw(found.model, found.q, dt=found.dt, title=task.name, camera=camera)
    save_motion(folder / "result.npz", drawing, q=found.q, dt=np.array(found.dt), **found.arrays)
    summary = {
        "task": task.name,
        "about": task.about,
        "seed": args.seed,
        "solved": found.solved,
        "metric": found.metric,
        "target": task.target,
        "unit": task.unit,
        "report": found.report,
        "contacts": found.contacts,
        "reached": found.reached,
        "iterations": found.iterations,
        "seconds": found.seconds,
        "result": str(folder / "result.npz"),
        "replay": str(write_page(folder / "replay.html", drawing)),
    }
    common.write_json(folder / "result.json", summary)
    return summary, drawing


def _text(s: dict) -> str:
    lines = [
        f"{s['task']}: {s['about']}",
        f"plan:    {s['report']}",
        f"checked: {s['reached']} of {s['contacts']} contacts reached by inverse kinematics, "
        f"the worst to {1000 * s['metric']:.2g} mm",
        f"result:  {s['result']}",
        f"replay:  {s['replay']}",
        f"look:    pullback view {s['result']}",
    ]
    return "\n".join(lines)
