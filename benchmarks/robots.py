"""One step of every robot that people have, against MuJoCo's: all MJCF files of the packages below that are installed.

    python benchmarks/robots.py [--json FILE] [--quick]

Each file that MuJoCo compiles and Pullback loads makes one step from

- its poses as filed, ``qpos0`` and every keyframe: as they are, and with random velocities and controls;
- edges: poses of these in which a joint is moved so that one limit or one contact is at its margin exactly, or as near
  to it as numbers come;
- sides: the same, 1e-12 m or rad to either side;
- random poses around those as filed.

What is compared is the velocity after the step: the largest difference of any degree of freedom, over the largest
change of velocity of any, but at least that of an acceleration of one (m/s² or rad/s²). MuJoCo's solver goes on until
rounding stops it.

Every file found is counted: those that are no whole model for MuJoCo, and those that Pullback refuses, by reason. Poses
in which MuJoCo finds contacts by iteration (ITERATED) are counted on their own: it stops with points that are not the
nearest, to 1e-6 or so, and between flat faces of cylinders and meshes it keeps other corners of the polygon.
"""

import collections
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np
from common import Result, main, version
from contact_scenes import MUJOCO
from oracles import precise

import pullback as pb

PACKAGES = {  # module: distribution
    "gymnasium": "gymnasium",
    "dm_control": "dm_control",
    "gymnasium_robotics": "gymnasium-robotics",
    "robosuite": "robosuite",
    "mujoco_playground": "playground",
    "myosuite": "myosuite",
    "brax": "brax",
}
ACCURACY = 1e-9
SPEED = 0.1  # of random velocities [m/s or rad/s]
SIDE = 1e-12  # how far the sides of an edge are from it [m or rad]
WIDE = 0.1  # contacts are moved to their margin from at most this far [m]
EDGES = 4  # contacts of each pose as filed that are moved to their margin
LIMITS = 6  # joints likewise
SHAPES = {int(kind): name.rpartition("_")[2].lower() for name, kind in mujoco.mjtGeom.__members__.items()}
ITERATED = {  # pairs that MuJoCo has no collider of its own for
    frozenset(pair.split("-"))
    for pair in (
        "sphere-ellipsoid sphere-mesh capsule-ellipsoid capsule-cylinder capsule-mesh "
        "ellipsoid-ellipsoid ellipsoid-cylinder ellipsoid-box ellipsoid-mesh "
        "cylinder-cylinder cylinder-box cylinder-mesh box-mesh mesh-mesh"
    ).split()
}


@dataclass
class Case:
    """A pose of a robot, and what came of it."""

    kind: str  # filed, edge, side or random
    q: np.ndarray
    v: np.ndarray
    controls: np.ndarray
    error: float = 0.0
    iterated: list[str] = field(default_factory=list)  # pairs of shapes that MuJoCo found contacts of by iteration
    undecided: bool = False  # a contact or limit is at its margin to rounding, and not exactly


@dataclass
class Files:
    """What became of a package's files."""

    found: int = 0
    loaded: list[str] = field(default_factory=list)
    fragments: collections.Counter = field(default_factory=collections.Counter)  # MuJoCo does not compile them: why
    refused: collections.Counter = field(default_factory=collections.Counter)  # nor does Pullback load them: why


# --- files ------------------------------------------------------------------------------------------------------------


def reason(error: Exception) -> str:
    """A message without the names and numbers in it, so that like messages count as one."""
    text = str(error).strip().splitlines()[0]
    text = re.sub(r"^not supported: |^.*\.xml: |^(XML )?Error: ", "", text)
    text = re.sub(r"'[^']*'", "'...'", text)
    text = re.sub(r"\d+", "N", text)
    return re.split(r"[;:.](?: |$)| \(and| \(line", text)[0].strip()


def robots(package: str, files: Files) -> Iterator[tuple[str, pb.Model]]:
    spec = importlib.util.find_spec(package)
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("*.xml")):
        files.found += 1
        name = str(path.relative_to(root))
        try:
            mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            files.fragments[reason(error)] += 1
            continue
        try:
            model = pb.load(path, anywhere=True)  # files of installed packages are trusted
            pb.Articulated(model)
        except pb.PullbackError as error:
            files.refused[reason(error)] += 1
            print(f"{package}: {name}: refused: {error}", file=sys.stderr)
            continue
        files.loaded.append(name)
        yield f"{package}: {name}", model


# --- poses ------------------------------------------------------------------------------------------------------------


def random_controls(m: mujoco.MjModel, rng: np.random.Generator) -> np.ndarray:
    low, high = np.where(m.actuator_ctrllimited[:, None], m.actuator_ctrlrange, (-1.0, 1.0)).T
    return rng.uniform(low, high)


def moved(m: mujoco.MjModel, q: np.ndarray, dof: int, by: float) -> np.ndarray:
    """q with the coordinate of a hinge, a slide or the place of a free joint moved."""
    joint = m.dof_jntid[dof]
    q = q.copy()
    q[m.jnt_qposadr[joint] + dof - m.jnt_dofadr[joint]] += by
    return q


def movable(m: mujoco.MjModel) -> np.ndarray:
    """Degrees of freedom (nv,) that are one coordinate: all but rotations of balls and free joints."""
    kind = m.jnt_type[m.dof_jntid]
    entry = np.arange(m.nv) - m.jnt_dofadr[m.dof_jntid]
    joint = mujoco.mjtJoint
    return np.isin(kind, (joint.mjJNT_HINGE, joint.mjJNT_SLIDE)) | ((kind == joint.mjJNT_FREE) & (entry < 3))


def limited(m: mujoco.MjModel) -> np.ndarray:
    """Hinges and slides with a range."""
    kinds = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    return np.flatnonzero(m.jnt_limited.astype(bool) & np.isin(m.jnt_type, kinds))


def limit_edges(m: mujoco.MjModel, q: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[int, float, np.ndarray]]:
    """A degree of freedom, which way leads off its limit, and q with its distance equal to its margin."""
    for j in rng.permutation(limited(m))[:LIMITS]:
        side = rng.choice((1.0, -1.0))
        limit = m.jnt_range[j, 0 if side > 0 else 1]
        edge = q.copy()
        edge[m.jnt_qposadr[j]] = limit + side * m.jnt_margin[j]
        yield int(m.jnt_dofadr[j]), side, edge


def margin(m: mujoco.MjModel, pair: tuple[int, int]) -> float:
    for k in range(m.npair):
        if {int(m.pair_geom1[k]), int(m.pair_geom2[k])} == set(pair):
            return float(m.pair_margin[k])
    return float(m.geom_margin[pair[0]] + m.geom_margin[pair[1]])


def contact_edges(m: mujoco.MjModel, q: np.ndarray) -> Iterator[tuple[int, float, np.ndarray]]:
    """The same for contacts: a degree of freedom, the slope of a distance by it, and q where that is the margin."""
    wide = precise(m)
    wide.geom_margin[:] += WIDE / 2
    wide.pair_margin[:] += WIDE
    data = mujoco.MjData(wide)
    can_move = movable(m)

    def near(q: np.ndarray) -> dict[tuple[int, int], tuple[float, np.ndarray, np.ndarray]]:
        """Of each pair of geoms, the contact that is nearest: distance less the file's margin, place and normal."""
        data.qpos[:] = q
        mujoco.mj_fwdPosition(wide, data)
        found: dict = {}
        for c in data.contact:
            pair = (int(c.geom1), int(c.geom2))
            x = c.dist - margin(m, pair)
            if pair not in found or x < found[pair][0]:
                found[pair] = (x, c.pos.copy(), c.frame[:3].copy())
        return found

    def slope(pair: tuple[int, int], place: np.ndarray, normal: np.ndarray) -> np.ndarray:
        total = np.zeros(m.nv)
        for sign, geom in zip((-1.0, 1.0), pair, strict=True):
            jacobian = np.zeros((3, m.nv))
            mujoco.mj_jac(wide, data, jacobian, None, place, int(m.geom_bodyid[geom]))
            total += sign * normal @ jacobian
        return np.where(can_move, total, 0.0)

    kinds = set()
    for pair in sorted(start := near(q), key=lambda pair: abs(start[pair][0])):
        kind = tuple(m.geom_type[list(pair)])
        if kind in kinds or len(kinds) == EDGES:
            continue
        best, edge = None, q
        for _ in range(30):  # Newton's method, until rounding stops it
            x, place, normal = near(edge).get(pair, (np.nan, np.zeros(3), np.zeros(3)))
            if not (best is None or abs(x) < abs(best[0])):
                break
            by = slope(pair, place, normal)
            dof = int(np.argmax(abs(by)))
            if abs(by[dof]) < 0.1:
                break
            best = (x, dof, float(by[dof]), edge)
            edge = moved(m, edge, dof, -x / by[dof])
        if best is not None and abs(best[0]) <= 1e-14:
            kinds.add(kind)
            yield best[1:]


def cases(m: mujoco.MjModel, rng: np.random.Generator, quick: bool) -> Iterator[Case]:
    rest, none = np.zeros(m.nv), np.zeros(m.nu)
    filed = [(m.qpos0, rest, none), *zip(m.key_qpos, m.key_qvel, m.key_ctrl, strict=True)]
    if quick:
        filed = filed[:2]
    kicked = lambda: SPEED * rng.normal(size=m.nv)  # noqa: E731
    for q, v, controls in filed:
        yield Case("filed", q, v, controls)
        yield Case("filed", q, v + kicked(), random_controls(m, rng))
        for edges in (limit_edges(m, q, rng), contact_edges(m, q)):
            for dof, slope, edge in edges:
                v_edge = kicked()
                yield Case("edge", edge, v_edge, controls)
                for side in (-SIDE, SIDE):
                    yield Case("side", moved(m, edge, dof, side / slope), v_edge, controls)
    for k in range(2 if quick else 8):
        q = filed[k % len(filed)][0].copy()
        mujoco.mj_integratePos(m, q, 0.2 * rng.normal(size=m.nv), 1.0)
        yield Case("random", q, kicked(), random_controls(m, rng))


# --- steps ------------------------------------------------------------------------------------------------------------


def at_margin(m: mujoco.MjModel, data: mujoco.MjData) -> bool:
    """Whether rounding decides if some contact or limit acts."""
    scale = 1e-15 * (1.0 + np.abs(data.geom_xpos).max(initial=0.0))
    x = [c.dist - c.includemargin for c in data.contact]
    for j in limited(m):
        low, high = m.jnt_range[j]
        q = data.qpos[m.jnt_qposadr[j]]
        x += [q - low - m.jnt_margin[j], high - q - m.jnt_margin[j]]
    return any(0.0 < abs(distance) <= scale for distance in x)


def compare(model: pb.Model, poses: list[Case]) -> None:
    """Fills in the errors of a robot's poses, and which pairs MuJoCo iterated on."""
    m = precise(model.mujoco)
    q, v, controls = (np.array([getattr(case, name) for case in poses]) for name in ("q", "v", "controls"))
    system = pb.Articulated(model, worlds=len(poses))
    ours = system.step(system.state(q, v), controls).v
    data = mujoco.MjData(m)
    for case, our_v in zip(poses, ours, strict=True):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = case.q, case.v, case.controls
        mujoco.mj_forward(m, data)
        case.undecided = at_margin(m, data)
        pairs = {tuple(sorted(SHAPES[int(m.geom_type[g])] for g in c.geom)) for c in data.contact}
        case.iterated = sorted("-".join(pair) for pair in pairs if frozenset(pair) in ITERATED)
        mujoco.mj_step(m, data)
        size = max(np.abs(data.qvel - case.v).max(initial=0.0), m.opt.timestep)
        case.error = float(np.abs(our_v - data.qvel).max(initial=0.0) / size)


def figures(quick: bool):
    rng = np.random.default_rng(0)
    done: list[tuple[str, Case]] = []
    for package, distribution in PACKAGES.items():
        title = f"robots, {version(distribution, package)}: files that load"
        if importlib.util.find_spec(package) is None:
            yield Result(title, None, "files", "", "", "absent: not installed")
            continue
        files = Files()
        failed = []
        for name, model in robots(package, files):
            poses = list(cases(model.mujoco, rng, quick))
            try:
                compare(model, poses)
            except pb.PullbackError as error:
                failed.append(f"{name}: {error}")
                continue
            done += [(name, case) for case in poses]
        why = lambda reasons: "; ".join(f"{count} × {text}" for text, count in reasons.most_common())  # noqa: E731
        note = f"{files.found} found; {files.fragments.total()} that MuJoCo does not compile"
        note += f"; {files.refused.total()} refused: {why(files.refused)}" if files.refused else "; none refused"
        note += f"; steps that failed: {'; '.join(failed)}" if failed else ""
        yield Result(title, len(files.loaded), "files", "", "", note)
        for text, count in files.fragments.most_common():
            print(f"{package}: MuJoCo does not compile {count}: {text}", file=sys.stderr)

    titles = {
        "filed": "poses as filed",
        "edge": "a limit or contact at its margin",
        "side": "1e-12 to either side of it",
        "random": "random poses",
    }
    for kind, title in titles.items():
        every = [(name, case) for name, case in done if case.kind == kind]
        decided = [(n, c) for n, c in every if not c.iterated and not (kind == "edge" and c.undecided)]
        if decided:
            name, worst = max(decided, key=lambda item: item[1].error)
            note = f"{len(decided)} poses of {len({n for n, _ in decided})} files, worst: {name}"
            if kind == "edge":
                near = [c for _, c in every if c.undecided and not c.iterated]
                beyond = sum(c.error > ACCURACY for c in near)
                note += f"; left out, at the margin to rounding but not exactly: {len(near)}, of which {beyond} differ"
            yield Result(
                f"robots, {title}: difference of the next velocity", worst.error, "", f"<= {ACCURACY}", MUJOCO, note
            )
    iterated = [(name, case) for name, case in done if case.iterated]
    if iterated:
        beyond: dict[str, set[str]] = collections.defaultdict(set)
        for name, case in iterated:
            if case.error > ACCURACY:
                beyond[name] |= set(case.iterated)
        count = sum(case.error > ACCURACY for _, case in iterated)
        note = f"{count} of {len(iterated)} poses, of "
        note += "; ".join(f"{name} ({', '.join(sorted(pairs))})" for name, pairs in sorted(beyond.items()))
        title = "robots, poses with contacts that MuJoCo iterates on: share with other velocities"
        yield Result(title, count / len(iterated), "", "", MUJOCO, note)
    for name, case in sorted(done, key=lambda item: -item[1].error):
        if case.error > ACCURACY:
            print(f"{case.kind:6} {case.error:.1e} {name} {' '.join(case.iterated)}", file=sys.stderr)


if __name__ == "__main__":
    main(figures)
