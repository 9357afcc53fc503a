"""Which MJCF files of common packages load, move as in MuJoCo, or are refused, and why.

    python benchmarks/coverage.py [--json FILE] [--quick] [--table FILE] [--only PACKAGE ...] [FOLDER ...]

Files are those of the packages of ``robots.py`` that are installed, and of any folder given. Each that MuJoCo compiles
and Pullback loads takes 40 steps (8 with --quick) of a random motion: MuJoCo moves it under random controls from the
file's pose, and from states along that motion both make the same step. What is compared is

- the change of velocity: the largest difference of any degree of freedom, over the largest change of any. A file agrees
  if the median of its states is below 1e-9, and nine of ten are below 1e-6;
- Jacobians, in float64: ``linearize`` against differences of ``mj_step`` at a few of these states: the median of the
  largest difference over the largest entry. No one width serves all: solvers leave noise, robots that hang or rest do
  so at kinks, and what friction loss holds still is linear for 1e-9 m/s and less. So there are several widths, of
  central differences and of those to either side, and of each direction that the state is moved in the nearest one
  counts.

A state counts as undetermined, and is left out, where MuJoCo's own step changes as much as ours differs when its state
changes by rounding (1e-15): where bodies without weight are squeezed, for example.

MuJoCo's solver goes on until rounding stops it, and its search for contacts to 1e-12. ``--table`` writes the page
``docs/coverage.md``; with ``--only`` of some packages, named as their modules, what it says of the others stays.
"""

import argparse
import collections
import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from common import Result, main, version
from contact_scenes import MUJOCO
from oracles import precise
from robots import PACKAGES, random_controls, reason

import pullback as pb

VELOCITY, MOST_STATES, JACOBIANS = 1e-9, 1e-6, 1e-6
# Of differences: the longer step over kinks where contacts are stiff, and what friction loss holds still creeps as
# slowly as the shortest.
WIDTHS = (1e-6, 1e-7, 1e-8, 1e-5, 1e-10, 1e-12)
SIDES = (0, 1, -1)  # central, forward, backward
NEAR = JACOBIANS / 10  # once a column agrees to this, other differences of it are not looked at
SPEED = 0.1  # of random velocities at the start [m/s or rad/s]
SLOWER = 0.1  # by which they are multiplied at every new start
ROUNDING = 1e-15  # by which a state is moved to see whether MuJoCo's step is determined [m or rad]
SHARE = 0.9  # of the states of a file that must be below MOST_STATES
EVERY = 10  # steps of the random motion between two states
LARGEST = 120  # degrees of freedom up to which Jacobians are compared


class State(NamedTuple):
    """What a step of MuJoCo starts from."""

    q: np.ndarray
    v: np.ndarray
    act: np.ndarray
    control: np.ndarray


@dataclass
class File:
    """What became of one file."""

    name: str
    outcome: str = ""  # "matches", "differs", "refused", "failed"
    why: str = ""
    errors: list[float] = field(default_factory=list)  # of the change of velocity, per state
    undetermined: int = 0  # states that were left out
    jacobians: list[float] = field(default_factory=list)


def found(root: Path) -> Iterator[tuple[str, mujoco.MjModel, Path]]:
    """Files that MuJoCo compiles by themselves: others are parts of these."""
    for path in sorted(root.rglob("*.xml")):
        try:
            yield str(path.relative_to(root)), mujoco.MjModel.from_xml_path(str(path)), path
        except ValueError:
            continue


def states(m: mujoco.MjModel, count: int, rng: np.random.Generator) -> list[State]:
    """Along a random motion that starts with random velocities; again, with lower ones, where MuJoCo gives up."""
    data, kept = mujoco.MjData(m), []
    speeds = (SPEED * SLOWER**start for start in itertools.count())

    def start():
        if m.nkey:
            mujoco.mj_resetDataKeyframe(m, data, 0)
        else:
            mujoco.mj_resetData(m, data)
        data.qvel[:] = next(speeds) * rng.normal(size=m.nv)

    start()
    for step in range(EVERY * count):
        if step % EVERY == 0:
            data.ctrl[:] = random_controls(m, rng)
        mujoco.mj_step(m, data)
        if any(w.number for w in data.warning) or not np.isfinite(data.qpos).all() or np.abs(data.qvel).max() > 1e3:
            start()
        elif step % EVERY == EVERY - 1:
            kept.append(State(data.qpos.copy(), data.qvel.copy(), data.act.copy(), data.ctrl.copy()))
    return kept


class Oracle:
    """Steps of MuJoCo, and how they change with the state."""

    def __init__(self, m: mujoco.MjModel):
        self.m, self.data = m, mujoco.MjData(m)
        self.size = 2 * m.nv + m.na

    def step(self, state: State, moved: np.ndarray | None = None) -> State:
        """One timestep from a state, or from one that is moved in its tangent space (2 nv + na,)."""
        m, data = self.m, self.data
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = state
        if moved is not None:
            mujoco.mj_integratePos(m, data.qpos, moved[: m.nv], 1.0)
            data.qvel[:] += moved[m.nv : 2 * m.nv]
            data.act[:] += moved[2 * m.nv :]
        mujoco.mj_step(m, data)
        return State(data.qpos.copy(), data.qvel.copy(), data.act.copy(), state.control)

    def apart(self, a: State, b: State) -> np.ndarray:
        """The tangent (2 nv + na,) that leads from a to b."""
        dq = np.zeros(self.m.nv)
        mujoco.mj_differentiatePos(self.m, dq, 1.0, a.q, b.q)
        return np.concatenate([dq, b.v - a.v, b.act - a.act])

    def slope(self, state: State, direction: int, width: float, side: int) -> np.ndarray:
        """A difference by a direction of the tangent space: forward (1), backward (-1) or central (0)."""
        moved = width * np.eye(self.size)[direction]
        a = self.step(state, None if side == 1 else -moved)
        b = self.step(state, None if side == -1 else moved)
        return self.apart(a, b) / (width if side else 2 * width)


def jacobian_error(oracle: Oracle, state: State, ours: np.ndarray) -> float:
    """Largest difference of a Jacobian's entries, over the largest entry of MuJoCo's; of each column, the nearest."""
    nearest, size = np.full(oracle.size, np.inf), 1e-12
    for width, side in itertools.product(WIDTHS, SIDES):
        for column in np.flatnonzero(nearest > NEAR * size):
            theirs = oracle.slope(state, column, width, side)
            nearest[column] = min(nearest[column], np.abs(ours[:, column] - theirs).max())
            size = max(size, np.abs(theirs).max()) if (width, side) == (WIDTHS[0], SIDES[0]) else size
    return float(nearest.max() / size)


def compare(model: pb.Model, file: File, count: int, rng: np.random.Generator) -> None:
    """Fills in the errors of a file."""
    m = precise(model.mujoco)
    kept = states(m, count, rng)
    if not kept:
        raise pb.PullbackError("MuJoCo has no motion of it")
    oracle = Oracle(m)

    def columns(chosen: list[State], system: pb.Articulated):
        q, v, act, u = (np.array(column) for column in zip(*chosen, strict=True))
        return system.state(q, v, act) if system.na else system.state(q, v), u

    system = pb.Articulated(model, worlds=len(kept))
    after = system.step(*columns(kept, system))
    for world, state in enumerate(kept):
        theirs = oracle.step(state)
        our_act = after.act[world] if system.na else state.act
        size = max(np.abs(theirs.v - state.v).max(initial=0.0), 1e-12)
        error = np.abs(after.v[world] - theirs.v).max(initial=0.0) / size
        error = float(max(error, np.abs(our_act - theirs.act).max(initial=0.0)))
        nearby = oracle.step(state, np.repeat((ROUNDING, 0.0), (m.nv, m.nv + m.na)))
        if error > VELOCITY and np.abs(nearby.v - theirs.v).max() / size >= error:
            file.undetermined += 1
        else:
            file.errors.append(error)
    if m.nv > LARGEST:
        return
    few = kept[:: max(1, len(kept) // 4)]
    system = pb.Articulated(model, worlds=len(few))
    A, _B = system.linearize(*columns(few, system))
    file.jacobians += [jacobian_error(oracle, state, ours) for state, ours in zip(few, A, strict=True)]


def agrees(file: File) -> bool:
    """Whether those states do that are determined, half of all at least."""
    if file.undetermined > len(file.errors):
        return False
    return np.median(file.errors) <= VELOCITY and np.mean(np.array(file.errors) <= MOST_STATES) >= SHARE


def examine(name: str, path: Path, count: int) -> File:
    file = File(name)
    try:
        model = pb.load(path, anywhere=True)  # files of installed packages are trusted
        pb.Articulated(model)
    except pb.PullbackError as error:
        file.outcome, file.why = "refused", reason(error)
        return file
    if model.nv == 0:
        file.outcome = "matches"  # nothing moves
        return file
    try:
        compare(model, file, count, np.random.default_rng(0))
        file.outcome = "matches" if agrees(file) else "differs"
    except pb.PullbackError as error:
        file.outcome, file.why = "failed", str(error)
    return file


def sections(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of each package on a page: its line in the first table, and its own table."""
    head, *rest = text.split("\n## ")
    rows = [line for line in head.splitlines() if line.startswith("| ")][1:]
    names = [row.split("|")[1].strip() for row in rows]
    return dict(zip(names, rows, strict=True)), dict(zip(names, rest, strict=True))


def page(of: dict[str, list[File]], before: str = "") -> str:
    """docs/coverage.md; packages that are not in ``of`` stay as they are in the page before."""
    rows, tables = sections(before)
    lines = ["# Coverage", "", (__doc__ or "").split("\n\n")[0].strip(), ""]
    lines += [
        "Generated by `benchmarks/coverage.py`, which defines the comparison. Velocity: median relative difference of",
        "the change of velocity in a step. Jacobian: the same for `linearize` compared with finite differences of",
        "MuJoCo. A file matches if the median over its states is below 1e-9 and nine of ten states are below 1e-6.",
        "",
    ]
    lines += ["| package | files that MuJoCo compiles | load | match | refused |", "|---|---|---|---|---|"]
    for package, files in of.items():
        counts = collections.Counter(file.outcome for file in files)
        loaded = len(files) - counts["refused"]
        table = [package, "", "| file | outcome | velocity | Jacobian |", "|---|---|---|---|"]
        for file in files:
            errors, jacobians = (f"{np.median(x):.1e}" if x else "" for x in (file.errors, file.jacobians))
            why = f": {file.why}".replace("|", "/") if file.why else ""
            table.append(f"| `{file.name}` | {file.outcome}{why} | {errors} | {jacobians} |")
        rows[package] = f"| {package} | {len(files)} | {loaded} | {counts['matches']} | {counts['refused']} |"
        tables[package] = "\n".join(table) + "\n"
    lines += rows.values()
    return "\n".join(lines) + "".join(f"\n\n## {table.strip()}" for table in tables.values()) + "\n"


def figures(quick: bool, folders: list[Path], table: Path | None, only: list[str]):
    warnings.filterwarnings("ignore")
    roots = {}
    for package, distribution in PACKAGES.items():
        if only and package not in only:
            continue
        if (spec := importlib.util.find_spec(package)) is None:
            yield Result(f"coverage, {version(distribution, package)}", None, "files", "", "", "absent: not installed")
        else:
            roots[version(distribution, package)] = Path(spec.submodule_search_locations[0])
    roots |= {folder.name: folder for folder in folders}
    of: dict[str, list[File]] = {}
    for package, root in roots.items():
        of[package] = []
        for name, _m, path in found(root):
            file = examine(name, path, 8 if quick else 40)
            of[package].append(file)
            errors = [f"{np.median(x):.1e}" for x in (file.errors, file.jacobians) if x]
            print(f"{package}: {name}: {file.outcome} {' '.join(errors)} {file.why}", file=sys.stderr, flush=True)
    if table:
        before = table.read_text(encoding="utf-8") if only and table.exists() else ""
        table.write_text(page(of, before), encoding="utf-8")
    files = [file for each in of.values() for file in each]
    loaded = [file for file in files if file.outcome != "refused"]
    moved = [file for file in loaded if file.errors]
    known = [file for file in loaded if file.jacobians]
    share = lambda some, all_: len(some) / len(all_) if all_ else None  # noqa: E731
    reasons = collections.Counter(file.why for file in files if file.outcome == "refused").most_common()
    note = f"{len(files)} files; refused: " + "; ".join(f"{count} × {why}" for why, count in reasons)
    title = "coverage: files that load, share of those that MuJoCo compiles"
    yield Result(title, share(loaded, files), "", ">= 0.95", "", note)
    matching = [file for file in loaded if file.outcome == "matches"]
    others = "; ".join(file.name for file in loaded if file.outcome != "matches")
    title = "coverage: files whose steps agree, share of those that load"
    yield Result(title, share(matching, loaded), "", ">= 0.97", MUJOCO, others)
    good = [file for file in known if np.median(file.jacobians) <= JACOBIANS]
    others = "; ".join(file.name for file in known if np.median(file.jacobians) > JACOBIANS)
    yield Result("coverage: files whose Jacobians agree", share(good, known), "", ">= 0.95", MUJOCO, others)
    print(f"{len(moved)} files moved", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--json")
    parser.add_argument("--only", action="append", default=[], choices=list(PACKAGES))
    own, rest = parser.parse_known_args()
    options = [x for x in rest if x.startswith("-")] + (["--json", own.json] if own.json else [])
    folders = [Path(x) for x in rest if not x.startswith("-")]
    main(partial(figures, folders=folders, table=own.table, only=own.only), options)
