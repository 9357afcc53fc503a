"""``pullback check``: are the gradients of this robot right?"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pullback.cli.common import (
    add_common,
    add_length,
    add_robot,
    make_system,
    not_negative,
    positive,
    progress_options,
    read_keyframe,
    read_length,
    read_robot,
    refuse_large,
    writable_folder,
    write_json,
)
from pullback.core.arrays import to_numpy
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import Keyframe, Model
from pullback.rollout import Report, WrongGradient, check_system, rollout
from pullback.rollout.check import KINK, NO_INFLUENCE, SKIPPED, TOLERANCE

# How hard a robot is pushed: standard deviation of what is added to each velocity. [m/s or rad/s]
PUSH = 0.2
# How many states are searched for one at which something touches.
LOOK_BACK = 500
# How far controls lie from those of the keyframe at most, and how far from the middle of their range, against half of
# their range. [1]
NOISE, INSIDE = 0.1, 0.8

# Said where gradients of contacts look wrong.
NEAR_KINKS = """\
note: many contacts on one body, as of flat feet, may have kinks closer than differences can step over, above all with
--contact impulse. A gradient that is really wrong is so with another --seed, --settle and --contact too."""

ABOUT = """\
Compares the gradients of a step, and of a short rollout, with central differences at several step sizes: for every
coordinate, velocity, control and parameter. The robot starts at a keyframe with a small random push and moves for a
while under the keyframe's control, so that it meets the ground. It is checked where it is then, or was when something
touched it last, after another push and under controls near those of the keyframe. The slope says how the error falls
with the step size: 2 for a smooth motion, "exact" where differences have no error to begin with.

Exit code 0: all agree. 1: a gradient is wrong. 2: bad input.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("check", help="compare a robot's gradients with finite differences", description=ABOUT)
    add_robot(parser)
    add_common(parser, out="also write the report as DIR/check.json")
    add_length(parser, "the short rollout", steps=10)
    parser.add_argument(
        "--settle", type=not_negative, default=0.3, metavar="S", help="seconds to move before the check (default 0.3)"
    )
    parser.add_argument(
        "--tolerance",
        type=positive,
        metavar="X",
        help="of the error, against the largest entry of a gradient "
        f"(default {TOLERANCE['float64']:g} in float64, {TOLERANCE['float32']:g} in float32)",
    )
    parser.set_defaults(run=run)


def run(args) -> int:
    model = read_robot(args)
    refuse_large(model, args.settle / model.timestep)
    steps = read_length(model, args)
    folder = None if args.out is None else writable_folder(args.out)
    keyframe = read_keyframe(model, args)
    system = make_system(model, args)
    state = settled(system, keyframe, args)
    contacts = count_contacts(system, state)
    reports = {
        count: check_each(system, state, controls_near(model, keyframe, args, count), args) for count in (1, steps)
    }
    passed = all(report.passed for report in reports.values())

    result = {
        "robot": args.robot,
        "contact": args.contact,
        "contacts": contacts,
        "passed": passed,
        "reports": [_plain(report) for report in reports.values()],
    }
    if folder is not None:
        write_json(folder / "check.json", result)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _show(args, reports)
        print(_contact_line(model, system, contacts))
        if contacts and not passed:
            print(NEAR_KINKS)
    return 0 if passed else 1


def settled(system: Articulated, keyframe: Keyframe, args) -> State:
    """Where the robot is after it has moved from a pushed keyframe for a while, pushed again.

    The first push takes it out of symmetric poses, in which many gradients vanish; the second keeps what has come to
    rest away from the kink between sticking and sliding. What hops may be in the air at the end of that time: of the
    last states, the latest one at which something touches is taken.
    """
    random = np.random.default_rng(args.seed)
    push = lambda: PUSH * random.standard_normal(system.nv)  # noqa: E731
    state = system.state(keyframe.q, keyframe.v + push())
    steps = round(args.settle / system.model.timestep)
    if steps:
        controls = np.broadcast_to(keyframe.control, (steps, 1, system.nu)).astype(system.dtype)
        motion = rollout(system, state, controls)
        state = motion.final
        if system.max_contacts and not count_contacts(system, state):
            last = (t for t in range(steps - 1, max(-1, steps - 1 - LOOK_BACK), -1) if len(motion.contacts(t)[0]))
            state = State(*(x[next(last, steps)] for x in motion.states))
    return system.state(to_numpy(state.q)[0], to_numpy(state.v)[0] + push())


def controls_near(model: Model, keyframe: Keyframe, args, count: int) -> np.ndarray:
    """(count, 1, nu): those of the keyframe, a little off at random, and inside their limits, which are kinks.

    Others, at random in their whole range, would throw a robot into the air.
    """
    low, high = np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0)).T
    half, middle = (high - low) / 2, (high + low) / 2
    noise = np.random.default_rng(args.seed).uniform(-1, 1, (count, 1, model.nu))
    controls = keyframe.control + NOISE * half * noise
    limited = np.clip(controls, middle - INSIDE * half, middle + INSIDE * half)
    return np.where(model.control_limited, limited, controls).astype(args.dtype)


def count_contacts(system: Articulated, state: State) -> int:
    return len(system.contacts(state)[0]) if system.max_contacts else 0


def check_each(system: Articulated, state: State, controls: np.ndarray, args) -> Report:
    """check_system field by field, so that progress can be seen."""
    count = len(controls)
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
                    system,
                    state,
                    controls,
                    seed=args.seed,
                    rollout_steps=count,
                    tolerance=args.tolerance,
                    names=(name,),
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
            statuses = [other.status for other in report.rows]
            idle, kinks, skipped = (statuses.count(status) for status in (NO_INFLUENCE, KINK, SKIPPED))
            compared = len(statuses) - idle - skipped
            print(
                f"{what}: all {compared} gradients agree; the worst is {row.field!r} at {row.worst}, "
                f"error {row.error:.1e}, slope {row.slope_text}"
                + (f"; {kinks} at a kink, where the slopes of the two sides differ" if kinks else "")
                + (f"; {idle} without influence here" if idle else "")
                + (f"; {skipped} skipped: no difference can be formed" if skipped else "")
            )


def _contact_line(model: Model, system: Articulated, contacts: int) -> str:
    """How many contacts there were, and whether that was as the file has it."""
    asked = any(line.startswith("contact:") for line in model.constraints)
    if system.contact is None or not asked:
        return "contacts: " + ("none, as the file asks for none" if not asked else "switched off")
    if contacts:
        return f"contacts: {contacts} at the state that was checked"
    return (
        "contacts: WARNING: nothing touches at the state that was checked, so gradients of contacts were not; try "
        "another --keyframe, or a longer --settle"
    )


def _plain(report: Report) -> dict:
    rows = [dataclasses.asdict(row) for row in report.rows]
    for row in rows:
        row["slope"] = None if math.isnan(row["slope"]) else row["slope"]
    return {"rollout_steps": report.rollout_steps, "tolerance": report.tolerance, "rows": rows}
