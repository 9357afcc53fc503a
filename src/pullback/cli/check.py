"""``pullback check``: are the gradients of this robot right?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from pullback.cli import common, policies, policy_check
from pullback.core.arrays import to_numpy
from pullback.core.system import State
from pullback.core.trees import tree_map
from pullback.dynamics import Articulated
from pullback.model import Keyframe, Model
from pullback.rollout import Report, WrongGradient, check_system, rollout
from pullback.rollout.check import KINK, NO_INFLUENCE, SKIPPED, TOLERANCE

# How hard a robot is pushed: standard deviation of what is added to each velocity. [m/s or rad/s]
PUSH = 0.2
# How many states are searched for one at which a contact carries force.
LOOK_BACK = 500
# A contact carries force from this share of the robot's weight on. [1]
CARRIES = 1e-3
GRAVITY = 9.81  # which weights are by, whatever the file has [m/s²]
# How far controls lie from those of the keyframe at most, and how far from the middle of their range, against half of
# their range. [1]
NOISE, INSIDE = 0.1, 0.8

# Said where gradients of contacts look wrong.
NEAR_KINKS = """\
note: many contacts on one body, as of flat feet, may have kinks closer than differences can step over, above all with
--contact impulse. A gradient that is really wrong is so with another --seed, --settle and --contact too."""

ABOUT = """\
Compares the gradients of a step, and of a short rollout, with central differences at several step sizes: with respect
to every coordinate, velocity, control and parameter. The robot starts at a keyframe with a small random push and moves
under the keyframe's control, so that it meets the ground. It is checked in its final state, or in the last state in
which a contact carried force, after another small push and with controls near those of the keyframe. The error of
finite differences falls with a power of their step size: the slope is this power, 2 where the motion is smooth, and
"exact" if the differences have no such error.

ROBOT may also be a folder that 'pullback train' wrote, or its policy.npz. Gradients of the policy over windows of 1 to
32 control steps, from states that the policy visits, are then compared between two halves of the worlds (cosine), and
with central differences (slope). The results are a table, check.json and check.png in that folder or in DIR.

Exit code 0: all agree. 1: a gradient is wrong. 2: bad input.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("check", help="compare a robot's gradients with finite differences", description=ABOUT)
    common.add_robot(parser, dtype="float64")
    common.add_common(parser, out="also write the report as DIR/check.json")
    common.add_length(parser, "the short rollout", steps=10)
    common.option(parser, "--settle S", "time to move before the check in seconds", common.number(float, 0), 0.3)
    usual = f"(default {TOLERANCE['float64']:g} in float64, {TOLERANCE['float32']:g} in float32)"
    about = f"largest error, relative to the largest entry of the gradient {usual}"
    common.option(parser, "--tolerance X", about, common.positive)
    policies.add_env(parser)
    parser.set_defaults(run=run)


def run(args) -> int:
    if policies.is_policy(args.robot):
        return policy_check.run(args)
    model = common.read_robot(args)
    numbers = model.nq + model.nv + model.nu
    common.refuse_large(args.settle / model.timestep, numbers)
    steps = common.read_length(model.timestep, numbers, args)
    folder = common.out_folder(args)
    keyframe = common.read_keyframe(model, args)
    system = common.make_system(model, args)
    state = settled(system, keyframe, args)
    contacts, acting = count_contacts(system, state, controls_near(model, keyframe, args, 1)[0])
    reports = {
        count: check_each(system, state, controls_near(model, keyframe, args, count), args) for count in (1, steps)
    }
    passed = all(report.passed for report in reports.values())

    result = {
        "robot": args.robot,
        "contact": args.contact,
        "contacts": contacts,
        "contacts_with_force": acting,
        "passed": passed,
        "reports": [_plain(report) for report in reports.values()],
    }
    lines = [*_text_lines(args, reports), _contact_line(model, system, contacts, acting)]
    lines += [NEAR_KINKS] if contacts and not passed else []
    common.report(args, result, "\n".join(lines), folder and folder / "check.json")
    return 0 if passed else 1


def settled(system: Articulated, keyframe: Keyframe, args) -> State:
    """Where the robot is after it has moved from a pushed keyframe for a while, pushed again.

    The first push takes it out of symmetric poses, in which many gradients vanish; the second keeps what has come to
    rest away from the kink between sticking and sliding. What hops may be in the air at the end of that time, and a
    push may part what touches: of the last states, each with a push of its own, the latest one at which a contact
    carries force is taken, or else the latest one at which something touches.
    """
    random = np.random.default_rng(args.seed)
    push = lambda: PUSH * random.standard_normal(system.nv)  # noqa: E731
    start = common.start_at(system, dataclasses.replace(keyframe, v=keyframe.v + push()))
    steps = round(args.settle / system.model.timestep)
    controls = np.broadcast_to(keyframe.control, (steps, 1, system.nu)).astype(system.dtype)
    states = rollout(system, start, controls).states if steps else tree_map(lambda x: x[None], start)

    def pushed(t: int):
        q, v, *act = (to_numpy(x)[t, 0] for x in states)
        return system.state(q, v + push(), *act)

    chosen, touching = pushed(steps), 0
    if not system.max_contacts:
        return chosen
    control = controls_near(system.model, keyframe, args, 1)[0]
    for t in range(steps, max(-1, steps - 1 - LOOK_BACK), -1):
        state = chosen if t == steps else pushed(t)
        contacts, acting = count_contacts(system, state, control)
        if acting:
            return state
        if contacts and not touching:
            chosen, touching = state, contacts
    return chosen


def controls_near(model: Model, keyframe: Keyframe, args, count: int) -> np.ndarray:
    """(count, 1, nu): those of the keyframe, a little off at random, and inside their limits, which are kinks.

    Others, at random in their whole range, would throw a robot into the air.
    """
    low, high = common.control_limits(model).T
    half, middle = (high - low) / 2, (high + low) / 2
    noise = np.random.default_rng(args.seed).uniform(-1, 1, (count, 1, model.nu))
    controls = keyframe.control + NOISE * half * noise
    limited = np.clip(controls, middle - INSIDE * half, middle + INSIDE * half)
    return np.where(model.control_limited, limited, controls).astype(args.dtype)


def count_contacts(system: Articulated, state: State, control: np.ndarray) -> tuple[int, int]:
    """All, and those that carry force."""
    if not system.max_contacts:
        return 0, 0
    points = system.contacts(state, control)[0]
    weight = GRAVITY * float(np.sum(system.params["mass"]))
    return len(points), int(np.sum(np.linalg.norm(points.force, axis=1) > CARRIES * weight))


def check_each(system: Articulated, state: State, controls: np.ndarray, args) -> Report:
    """check_system field by field, so that progress can be seen."""
    count = len(controls)
    names = ["q", "v", *(["control"] if system.nu else []), *system.params]
    rows = []
    with common.progress("{task.description}") as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            what = "a step" if count == 1 else f"{count} steps"
            progress.update(task, description=f"{what}: {name}")
            try:
                options = {"seed": args.seed, "rollout_steps": count, "tolerance": args.tolerance, "names": (name,)}
                report = check_system(system, state, controls, **options)
            except WrongGradient as wrong:
                report = wrong.report
            rows.extend(report.rows)
            progress.advance(task)
    return Report(tuple(rows), report.tolerance, count)


def _text_lines(args, reports: dict[int, Report]) -> Iterator[str]:
    """The tables, and what is worst in each."""
    for count, report in reports.items():
        yield f"\n{args.robot}, {'one step' if count == 1 else f'a rollout of {count} steps'}:\n\n{report}"
    yield ""
    for count, report in reports.items():
        what = "one step" if count == 1 else f"{count} steps"
        worst = report.worst
        if not report.passed:
            yield f"{what}: WRONG: {WrongGradient(report)}"
        elif worst is not None:
            statuses = [other.status for other in report.rows]
            idle, kinks, skipped = (statuses.count(status) for status in (NO_INFLUENCE, KINK, SKIPPED))
            compared = len(statuses) - idle - skipped
            yield (
                f"{what}: all {compared} gradients agree; the worst is {worst.field!r} at {worst.worst}, "
                f"error {worst.error:.1e}, slope {worst.slope_text}"
                + (f"; {kinks} at a kink, where the slopes of the two sides differ" if kinks else "")
                + (f"; {idle} with no influence here" if idle else "")
                + (f"; {skipped} skipped: no difference can be formed" if skipped else "")
            )


def _contact_line(model: Model, system: Articulated, contacts: int, acting: int) -> str:
    """How many contacts there were, how many of them carried force, and whether that was as the file has it."""
    asked = any(line.startswith("contact:") for line in model.constraints)
    if system.contact is None or not asked:
        return "contacts: " + ("none, as the file asks for none" if not asked else "switched off")
    if acting:
        some = "" if acting == contacts else f", of which {acting} {'carries' if acting == 1 else 'carry'} force"
        return f"contacts: {contacts} at the state that was checked{some}"
    nothing = "no contact carries force" if contacts else "nothing touches"
    return (
        f"contacts: WARNING: {nothing} at the state that was checked, so gradients of contacts were not; try another "
        "--keyframe or --seed, or a longer --settle"
    )


def _plain(report: Report) -> dict:
    rows = [dataclasses.asdict(entry) for entry in report.rows]
    for entry in rows:
        entry["slope"] = None if math.isnan(entry["slope"]) else entry["slope"]
    return {"rollout_steps": report.rollout_steps, "tolerance": report.tolerance, "rows": rows}
