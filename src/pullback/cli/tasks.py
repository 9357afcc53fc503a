"""``pullback tasks``: what there is to optimise."""

from __future__ import annotations

from pullback.cli import common
from pullback.cli.optimize import read_task
from pullback.tasks import TASKS, Task

ABOUT = "Lists the problems that 'pullback optimize' knows by name, one line each."


def add(verbs) -> None:
    parser = verbs.add_parser("tasks", help="list the problems that come with Pullback", description=ABOUT)
    common.add_common(parser, out="also write the list as DIR/tasks.json")
    parser.set_defaults(run=run)


def run(args) -> int:
    folder = common.out_folder(args)
    tasks = [read_task(name, {"device": args.device}) for name in TASKS]
    listed = [{"name": t.name, "about": t.about, "target": t.target, "unit": t.unit} for t in tasks]
    width = max(len(task.name) for task in tasks)
    lines = [f"{task.name:<{width}}  {task.about} ({_goal(task)})" for task in tasks]
    common.report(args, listed, "\n".join(lines), folder and folder / "tasks.json")
    return 0


def _goal(task: Task) -> str:
    """When a task is solved."""
    if task.unit == "of what is allowed" and task.target == 1:
        return "every tolerance met"
    return f"{'to' if task.unit.startswith('of ') else 'within'} {task.target:g} {task.unit}"
