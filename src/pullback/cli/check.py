"""``pullback check``: are the gradients of this robot right?"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pullback.cli.common import (
    add_common,
    add_robot,
    compiling_note,
    make_system,
    positive,
    progress_options,
    read_robot,
    whole,
    writable_folder,
)
from pullback.core.errors import PullbackError
from pullback.dynamics import Articulated
from pullback.rollout import Report, WrongGradient, check_system
from pullback.rollout.check import KINK, NO_INFLUENCE

ABOUT = """\
Compares the gradients of a step, and of a short rollout, with central differences at several step sizes: for every
coordinate, velocity, control and parameter, at a random state. The slope says how the error falls with the step size:
2 for a smooth motion, "exact" where differences have no error to begin with.

Exit code 0: all agree. 1: a gradient is wrong. 2: bad input.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("check", help="compare a robot's gradients with finite differences", description=ABOUT)
    add_robot(parser)
    add_common(parser, out="also write the report as DIR/check.json")
    parser.add_argument("--steps", type=whole(2), default=10, metavar="N", help="of the short rollout (default 10)")
    parser.add_argument("--tolerance", type=positive, metavar="X", help="of the error, against the largest entry")
    parser.set_defaults(run=run)


def run(args) -> int:
    model = read_robot(args)
    folder = None if args.out is None else writable_folder(args.out)
    system = make_system(model, args)
    with compiling_note():
        check_system(system, names=("v",), tolerance=math.inf)
    reports = {count: check_each(system, args, count) for count in (1, args.steps)}
    passed = all(report.passed for report in reports.values())

    result = {
        "robot": args.robot,
        "contact": args.contact,
        "passed": passed,
        "reports": [_plain(report) for report in reports.values()],
    }
    if folder is not None:
        _write(folder / "check.json", result)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _show(args, reports)
    return 0 if passed else 1


def check_each(system: Articulated, args, count: int) -> Report:
    """check_system field by field, so that progress can be seen."""
    names = ["q", "v", *(["control"] if system.nu else []), *system.params]
    rows = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, **progress_options()) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            what = "a step" if count == 1 else f"{count} steps"
            progress.update(task, description=f"{what}: {name}")
            try:
                report = check_system(
                    system, seed=args.seed, rollout_steps=count, tolerance=args.tolerance, names=(name,)
                )
            except WrongGradient as wrong:
                report = wrong.report
            rows.extend(report.rows)
            progress.advance(task)
    return Report(tuple(rows), report.tolerance, count)


def _show(args, reports: dict[int, Report]) -> None:
    for count, report in reports.items():
        print(f"\n{args.robot}, {'one step' if count == 1 else f'a rollout of {count} steps'}:\n\n{report}")
    print()
    for count, report in reports.items():
        what = "one step" if count == 1 else f"{count} steps"
        row = report.worst
        if not report.passed:
            print(f"{what}: WRONG: {WrongGradient(report)}")
        elif row is not None:
            idle, kinks = (sum(other.status == status for other in report.rows) for status in (NO_INFLUENCE, KINK))
            print(
                f"{what}: all {len(report.rows) - idle} gradients agree; the worst is {row.field!r} at {row.worst}, "
                f"error {row.error:.1e}, slope {row.slope_text}"
                + (f"; {kinks} at a kink, where the slopes of the two sides differ" if kinks else "")
                + (f"; {idle} without influence here" if idle else "")
            )


def _plain(report: Report) -> dict:
    rows = [dataclasses.asdict(row) for row in report.rows]
    for row in rows:
        row["slope"] = None if math.isnan(row["slope"]) else row["slope"]
    return {"rollout_steps": report.rollout_steps, "tolerance": report.tolerance, "rows": rows}


def _write(path: Path, result: dict) -> None:
    try:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PullbackError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
