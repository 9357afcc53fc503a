"""``pullback check`` of a policy: are gradients through the simulator of use to it, and over how many control steps?"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import MofNCompleteColumn

from pullback.cli import common, policies
from pullback.core.errors import PullbackError
from pullback.view import plot_lines

if TYPE_CHECKING:
    from pullback.learn import Diagnosis

VISIBLE = (-0.3, 2.0)  # of cosines and slopes in the picture: what is far off need not be read off [1]
AGREED = 0.85  # cosine from which on two halves of the worlds say the same


def run(args) -> int:
    _, learn = common.learning()
    policy, env = policies.read_policy(args.robot, args.env, args.device)
    own = Path(args.robot) if Path(args.robot).is_dir() else Path(args.robot).parent
    folder = common.writable_folder(args.out or own)
    counts = training_counts(own / "log.csv")
    with common.progress("checking", MofNCompleteColumn()) as progress:
        bar = progress.add_task("", total=None)
        watch = lambda done, count: progress.update(bar, completed=done, total=count)  # noqa: E731
        found = learn.diagnose(policy, env, seed=args.seed, dtype=args.dtype, watch=watch)
    rows = [{name: x if math.isfinite(x) else None for name, x in each._asdict().items()} for each in found.horizons]
    result = {"policy": args.robot, "env": env.name, "passed": found.right, **dataclasses.asdict(found)}
    result |= {"horizons": rows, **counts}
    lines = [f"{args.robot}: {env.name}\n", str(found), *_verdict(found, counts)]
    known = [each for each in found.horizons if math.isfinite(each.cosine + each.slope)]
    if known:
        names = {"slope": "slope, along the gradient", "cosine": "cosine, between halves of the worlds"}
        curves = {words: [getattr(each, name) for each in known] for name, words in names.items()}
        labels = {"xlabel": "length of a window [control steps]", "ylabel": "cosine and slope [1]"}
        labels["title"] = f"{env.name}: gradients of the policy (1 is best)"
        marks = {f"cosine of {AGREED}": AGREED}
        steps = [each.steps for each in known]
        picture = plot_lines(folder / "check.png", steps, curves, **labels, log2=True, marks=marks, within=VISIBLE)
        result["picture"] = str(picture)
        lines.append(f"picture: {result['picture']}")
    common.report(args, result, "\n".join(lines), folder / "check.json")
    return 0 if found.right else 1


def training_counts(log: Path) -> dict[str, int]:
    """From the log of a training, if there is one: its updates, those that were skipped, and the worlds that failed."""
    if not log.is_file():
        return {}
    try:
        with open(log, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        skipped, failed = ([float(row.get(name) or 0) for row in rows] for name in ("skipped", "failed"))
    except (TypeError, ValueError, csv.Error):
        raise PullbackError(f"{str(log)!r} cannot be read as the log of a training: delete it") from None
    return {"updates": len(rows), "skipped": int(max(skipped, default=0)), "failed_worlds": int(sum(failed))}


def _verdict(found: Diagnosis, counts: dict[str, int]) -> Iterator[str]:
    if counts:
        skipped = f"{counts['skipped']} of {counts['updates']} updates skipped"
        yield f"training: {skipped}, {counts['failed_worlds']} worlds failed"
    agreed = [row.steps for row in found.horizons if row.cosine >= AGREED]
    if math.isnan(found.slope):
        yield "WRONG: actions change nothing that is rewarded, in a window of any of these lengths"
    elif not found.right:
        yield (
            f"WRONG: the loss of the shortest window changes {found.slope:.3g} times as fast as its "
            "gradient says: does a function of the environment cut gradients off, by detach, rounding or NumPy?"
        )
    elif agreed:
        lengths = ", ".join(map(str, agreed))
        yield f"halves of the worlds agree (cosine of at least {AGREED}) in windows of {lengths} control steps"
    else:
        yield (
            f"halves of the worlds do not agree (cosine below {AGREED}): more worlds would help, unless the policy is "
            "near an optimum, where gradients vanish"
        )
