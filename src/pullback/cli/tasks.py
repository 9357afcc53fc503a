"""``pullback tasks``: what there is to optimise."""

from __future__ import annotations

import json

from pullback.cli.common import add_common, writable_folder, write_json
from pullback.cli.optimize import read_task
from pullback.tasks import TASKS

ABOUT = "Lists the problems that 'pullback optimize' knows by name, one line each."


def add(verbs) -> None:
    parser = verbs.add_parser("tasks", help="list the problems that come with Pullback", description=ABOUT)
    add_common(parser, out="also write the list as DIR/tasks.json")
    parser.set_defaults(run=run)


def run(args) -> int:
    folder = None if args.out is None else writable_folder(args.out)
    tasks = [read_task(name, {"device": args.device}) for name in TASKS]
    listed = [{"name": t.name, "about": t.about, "target": t.target, "unit": t.unit} for t in tasks]
    if folder is not None:
        write_json(folder / "tasks.json", listed)
    if args.json:
        print(json.dumps(listed, indent=1))
        return 0
    width = max(len(task.name) for task in tasks)
    for task in tasks:
        print(f"{task.name:<{width}}  {task.about} (to {task.target:g} {task.unit})")
    return 0
