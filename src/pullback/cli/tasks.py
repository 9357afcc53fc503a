"""``pullback tasks``: what there is to optimise."""

from __future__ import annotations

from pullback.cli import common
from pullback.cli.optimize import read_task
from pullback.core.arrays import check_device
from pullback.core.errors import PullbackError
from pullback.tasks import TASKS, Task

ABOUT = "Lists the tasks that 'pullback optimize' can solve by name, one line each."


def add(verbs) -> None:
    parser = verbs.add_parser("tasks", help="list the tasks that come with Pullback", description=ABOUT)
    common.add_common(parser, out="also write the list as DIR/tasks.json")
    parser.set_defaults(run=run)


def run(args) -> int:
    folder, device = common.out_folder(args), check_device(args.device)
    listed, width = [], max(map(len, TASKS))
    for name in TASKS:
        try:
            task = read_task(name, {"device": device})
            listed.append({"name": task.name, "about": task.about, "target": task.target, "unit": task.unit})
            line = f"{task.about} ({_goal(task)})"
        except PullbackError as missing:  # a package
            line = f"({missing})"
        if not args.json:  # each when it is known: some tasks simulate a recording when they are made
            print(f"{name:<{width}}  {line}", flush=True)
    common.report(args, listed, None, folder and folder / "tasks.json")
    return 0


def _goal(task: Task) -> str:
    """When a task is solved."""
    return f"target {task.target:g} {task.unit}"
