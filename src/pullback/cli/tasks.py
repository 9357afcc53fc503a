"""``pullback tasks``: what there is to optimise."""

from __future__ import annotations

from pullback.cli import common
from pullback.cli.optimize import read_task
from pullback.core.arrays import check_device
from pullback.core.errors import PullbackError
from pullback.tasks import TASKS, Task

ABOUT = "Lists the problems that 'pullback optimize' knows by name, one line each."


def add(verbs) -> None:
    parser = verbs.add_parser("tasks", help="list the problems that come with Pullback", description=ABOUT)
    common.add_common(parser, out="also write the list as DIR/tasks.json")
    parser.set_defaults(run=run)


def run(args) -> int:
    folder, device = common.out_folder(args), check_device(args.device)
    listed, lines, width = [], [], max(map(len, TASKS))
    for name in TASKS:
        try:
            task = read_task(name, {"device": device})
        except PullbackError as missing:  # a package
            lines.append(f"{name:<{width}}  ({missing})")
            continue
        listed.append({"name": task.name, "about": task.about, "target": task.target, "unit": task.unit})
        lines.append(f"{task.name:<{width}}  {task.about} ({_goal(task)})")
    common.report(args, listed, "\n".join(lines), folder and folder / "tasks.json")
    return 0


def _goal(task: Task) -> str:
    """When a task is solved."""
    if task.unit == "of what is allowed" and task.target == 1:
        return "every tolerance met"
    return f"{'to' if task.unit.startswith('of ') else 'within'} {task.target:g} {task.unit}"
