"""Does check_system pass gradients that are right, and find those that are wrong? On random robots that touch.

python benchmarks/check.py [--json FILE] [--quick]

Robots of one to three bodies, with joints of all types, limits, friction losses, springs and actuators, on a floor and
on each other, where their motion has brought them: sliding, landing, at rest. Each is checked with every contact model,
every second one over a step, the others over three or five. Then one entry of one gradient is off by 1e-4 of itself.
"""

import itertools
import multiprocessing
import sys
from collections.abc import Iterable

import mujoco
import numpy as np
from common import Result, main
from contact_scenes import MODELS
from trees import touching_robot
from wrong_pullback import Altered

import pullback as pb
from pullback.rollout.check import AGREES, KINK, WRONG, WrongGradient

ROLLOUT_STEPS = (1, 3, 1, 5)
# Of errors that are planted, against the entry. [1]
ERROR = 1e-4
# Entries they are planted at: not less than this beside the largest of the gradient, and not less than this. The loss
# is of order one, and an error below its rounding cannot be seen. [1]
SHARE, LEAST = 1e-2, 1e-3


def robots(seeds: Iterable[int]):
    """Seed, model and state; robots that nothing ever pushes are left out."""
    mujoco.set_mju_user_warning(lambda message: None)
    for seed in seeds:
        try:
            text, q, v, control = touching_robot(seed)
        except AssertionError:
            continue
        yield seed, pb.load(text), q, v, control


def report_of(system: pb.System, q, v, control, **options):
    try:
        return pb.check_system(system, system.state(q, v), control[None], **options)
    except WrongGradient as wrong:
        return wrong.report


def verdicts(seed: int) -> dict[str, list | str]:
    """Rows by contact model, or why it was refused; nothing if nothing ever pushes this robot."""
    found: dict[str, list | str] = {}
    for _, model, q, v, control in robots([seed]):
        for name, contact in MODELS.items():
            steps = ROLLOUT_STEPS[seed % len(ROLLOUT_STEPS)]
            try:
                report = report_of(pb.Articulated(model, contact), q, v, control, seed=seed, rollout_steps=steps)
                found[name] = [row for row in report.rows if row.status in (AGREES, KINK, WRONG)]
            except pb.PullbackError as error:
                found[name] = f"robot {seed}: {error}"
    return found


def right(quick: bool):
    """All gradients as they are."""
    count, block = (12, 12) if quick else (500, 50)
    found: dict[int, dict] = {}
    with multiprocessing.get_context("spawn").Pool() as pool:
        for first in itertools.count(step=block):
            seeds = range(first, first + block)
            found |= {seed: rows for seed, rows in zip(seeds, pool.imap(verdicts, seeds), strict=True) if rows}
            for name in MODELS:
                print(f"{len(found)} robots, {name}: {wrong_rows(found, name)}", file=sys.stderr, flush=True)
            if len(found) >= count:
                break
    found = dict(list(found.items())[:count])
    for name in MODELS:
        rows = [row for each in found.values() if isinstance(each[name], list) for row in each[name]]
        refused = [each[name] for each in found.values() if isinstance(each[name], str)]
        wrong = wrong_rows(found, name)
        note = f"{len(rows):,} gradients, {sum(row.status == KINK for row in rows)} at a kink"
        note += f"; {len(refused)} robots refused, such as {refused[0]}" if refused else ""
        note += f"; {', '.join(wrong[:3])}" if wrong else ""
        figure = f"check_system, {len(found)} random robots, {name}: gradients called wrong"
        yield Result(figure, len(wrong), "", "== 0", "", note)


def wrong_rows(found: dict[int, dict], name: str) -> list[str]:
    return [
        f"robot {seed}: {row.field} at {row.worst}"
        for seed, each in found.items()
        if isinstance(each[name], list)
        for row in each[name]
        if row.status == WRONG
    ]


def with_error(inner: pb.Articulated, field: str, index: tuple[int, ...]) -> Altered:
    """The System, with one entry of one field of its pullback off."""

    def alter(bars: pb.Bars) -> None:
        {**bars.state._asdict(), **bars.params}[field][index] *= 1 + ERROR

    return Altered(inner, alter)


def planted(quick: bool):
    """One entry is off, of a field, an index and a contact model that are drawn."""
    rng = np.random.default_rng(0)
    count, tried, found, missed, fields = 4 if quick else 20, 0, 0, [], set()
    for seed, model, q, v, control in robots(itertools.count(1000)):
        name = list(MODELS)[seed % len(MODELS)]
        inner = pb.Articulated(model, MODELS[name])
        try:
            report = report_of(inner, q, v, control, seed=seed)
        except pb.PullbackError:
            continue
        plain = {row.field for row in report.rows if row.status == AGREES} - {"control"}
        shares = significant(inner, q, v, control, seed, plain)
        if not shares:
            continue
        field = list(shares)[rng.integers(len(shares))]
        index = tuple(shares[field][rng.integers(len(shares[field]))])
        row = report_of(with_error(inner, field, index), q, v, control, seed=seed, names=(field,))[field]
        tried, found = tried + 1, found + (row.status == WRONG and row.index == index)
        fields.add(field)
        if row.status != WRONG or row.index != index:
            missed.append(f"robot {seed}, {name}, {field} {index}: {row.status}")
        if tried == count:
            break
    note = f"of {tried}, in {', '.join(sorted(fields))}" + (f"; missed: {'; '.join(missed)}" if missed else "")
    yield Result(f"check_system, {count} errors of {ERROR:g}: found", found, "", f"== {count}", "", note)


def significant(system: pb.Articulated, q, v, control, seed: int, fields: set[str]) -> dict[str, np.ndarray]:
    """Indices of entries that are worth an error, by field: with the cotangent that check_system draws."""
    random = np.random.default_rng(seed)
    bars = system.pullback(
        system.state(q, v), control[None], pb.State(*(random.standard_normal((1, n)) for n in (system.nq, system.nv)))
    )
    every = {**bars.state._asdict(), **bars.params}
    enough = {name: np.abs(every[name]) >= max(LEAST, SHARE * np.abs(every[name]).max()) for name in sorted(fields)}
    return {name: np.argwhere(is_enough) for name, is_enough in enough.items() if np.any(is_enough)}


if __name__ == "__main__":
    main({"right": right, "planted": planted})
