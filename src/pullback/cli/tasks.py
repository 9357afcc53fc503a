"""``pullback tasks``: what there is to optimise."""

from __future__ import annotations

import json

from pullback.cli.common import quiet_warp
from pullback.tasks import TASKS

ABOUT = "Lists the problems that 'pullback optimize' knows by name, one line each."


def add(verbs) -> None:
    parser = verbs.add_parser("tasks", help="list the problems that come with Pullback", description=ABOUT)
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(run=run)


def run(args) -> int:
    with quiet_warp():
        tasks = [make() for make in TASKS.values()]
    if args.json:
        listed = [{"name": t.name, "about": t.about, "target": t.target, "unit": t.unit} for t in tasks]
        print(json.dumps(listed, indent=1))
        return 0
    width = max(len(task.name) for task in tasks)
    for task in tasks:
        print(f"{task.name:<{width}}  {task.about} (to {task.target:g} {task.unit})")
    return 0
