"""Are sets of contacts those of MuJoCo? Random and resting poses of all pairs with a capsule, cylinder, box or mesh.

Two sets are the same if there are as many contacts and each of one has a partner in the other, with its place, its
normal and its distance. Where they are not, the first of these that differs is named: the number, the distance, the
normal, the place. Poses are of four kinds, a quarter each; the last is counted apart, since MuJoCo lets rounding and
the path of its search decide there between points that are as good:

    random   in any pose, from deep inside to just out of the margin
    touching a little in each other, as shapes are in a simulation
    lying    turned so that flat lies nearly on flat, or axes are nearly parallel: within a few degrees
    resting  exactly so, as scenes are built

Shapes on a height field, with a margin and without, are compared as they lie in random poses in and above it.

MuJoCo's iterative solver goes on until rounding stops it: with its own tolerance places of curved shapes are uncertain.
"""

import sys

import mujoco
import numpy as np
import warp as wp
from common import Result, main
from contact_detection import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    MARGIN,
    MESH,
    MOST,
    NAMES,
    PLANE,
    SPHERE,
    Poses,
    hull_of,
    make_kernel,
    pair_model,
    rotations,
)

import pullback as pb

MUJOCO = f"MuJoCo {mujoco.__version__}"
KINDS = ("random", "touching", "lying", "resting")
PAIRS = [
    (a, b)
    for i, a in enumerate((PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH))
    for b in (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)[i:]
    if {a, b} & {CAPSULE, CYLINDER, BOX, MESH}
]
# Where MuJoCo's own search stops early.
CURVED = (CYLINDER, ELLIPSOID)
EXACT, ROUGH = 1e-6, 1e-3  # [m]


def mesh_points(rng: np.random.Generator, which: int) -> np.ndarray:
    """Meshes as robots have them: a rounded hull, a plate with chamfered edges, a prism of eleven sides."""
    if which == 0:
        points = rng.normal(size=(40, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return points * [0.3, 0.2, 0.15] * rng.uniform(0.8, 1, (40, 1))
    if which == 1:
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return np.concatenate([corners * size for size in ([0.3, 0.2, 0.05], [0.26, 0.16, 0.08], [0.1, 0.22, 0.05])])
    angle = 2 * np.pi * np.arange(11) / 11
    ring = 0.25 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([np.c_[ring, np.full(11, z)] for z in (-0.1, 0.12)])


def turn(axis: int, angle: np.ndarray) -> np.ndarray:
    """Rotations about an axis of the frame, (n, 3, 3)."""
    R = np.zeros((len(angle), 3, 3))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[:, axis, axis] = 1
    R[:, i, i] = R[:, j, j] = np.cos(angle)
    R[:, i, j], R[:, j, i] = -np.sin(angle), np.sin(angle)
    return R


def poses_of(kinds: tuple[int, int], count: int, kind: str, corners: np.ndarray | None) -> Poses:
    """Random sizes; the second shape is moved along a direction until it is as deep as wanted."""
    poses = Poses(kinds, count, KINDS.index(kind), corners)
    rng = np.random.default_rng([7, KINDS.index(kind), *kinds])
    if kind == "random":
        poses.R[1] = rotations(rng, count)  # none at right angles: those are below
        return poses
    way = rng.normal(size=(count, 3))
    if kind == "touching":
        poses.R[1] = rotations(rng, count)
    else:
        quarters = np.pi / 2 * rng.integers(4, size=(3, count))
        R = poses.R[0] @ turn(0, quarters[0]) @ turn(1, quarters[1])
        way = R[:, :, 2] * rng.choice([-1.0, 1.0], size=(count, 1))
        spin = np.where(rng.random(count) < 0.5, quarters[2], rng.uniform(0, 2 * np.pi, count))
        R = R @ turn(2, spin)
        if kind == "lying":
            for axis in range(3):
                R = R @ turn(axis, rng.normal(0, 0.03, count))
        poses.R[1] = (
            R @ turn(0, np.pi / 2 * rng.integers(4, size=count)) @ turn(1, np.pi / 2 * rng.integers(4, size=count))
        )
    if kinds[0] == PLANE:
        way = poses.R[0, :, :, 2].copy()
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    aside = rng.uniform(-0.15, 0.15, (count, 3)) * (kind != "touching")
    aside -= np.einsum("pi,pi->p", aside, way)[:, None] * way
    poses.x[1] = poses.x[0] + aside
    depth = rng.uniform(-0.3 * MARGIN, 0.02, count)
    depth[: count // 2] = rng.uniform(0, 0.005, count // 2)
    poses.x[1] -= (poses.gap(way) + depth)[:, None] * way
    return poses


def theirs_of(model, poses: Poses):
    """MuJoCo's contacts: arrays (contacts, poses, ...) and how many there are of each pose."""
    m = model.mujoco
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    m.geom_rbound[:] = [0 if kind == PLANE else 1e3 for kind in poses.kinds]  # the broad phase lets everything pass
    n = len(poses.R[0])
    number, dist = np.zeros(n, int), np.zeros((MOST, n))
    pos, normal = np.zeros((MOST, n, 3)), np.zeros((MOST, n, 3))
    solid = [g for g in range(2) if poses.kinds[g] not in (PLANE, FIELD, MESH)]
    for i in range(n):
        m.geom_size[solid] = poses.size[solid, i]
        data.geom_xpos[:], data.geom_xmat[:] = poses.x[:, i], poses.R[:, i].reshape(2, 9)
        mujoco.mj_collision(m, data)
        k = number[i] = data.ncon
        dist[:k, i], pos[:k, i], normal[:k, i] = data.contact.dist, data.contact.pos, data.contact.frame[:, :3]
    return number, dist, normal, pos


def differences(ours, theirs, bound: float) -> np.ndarray:
    """Of each pose: 0 the same, 1 in another order, 2 other number, 3 other distance, 4 other normal, 5 other place."""
    n = len(ours[0])
    result = np.zeros(n, int)
    result[ours[0] != theirs[0]] = 2
    slack = np.array([bound, max(bound, 1e-5) if bound < ROUGH else 1e-2, bound])
    for i in np.flatnonzero((ours[0] == theirs[0]) & (ours[0] > 0)):
        k = ours[0][i]
        off = np.stack(
            [
                abs(ours[1][:k, i, None] - theirs[1][None, :k, i]),
                np.linalg.norm(ours[2][:k, i, None] - theirs[2][None, :k, i], axis=2),
                np.linalg.norm(ours[3][:k, i, None] - theirs[3][None, :k, i], axis=2),
            ]
        )
        near = off <= slack[:, None, None]
        left, right = near[:, range(k), range(k)].all(), True
        if left:
            continue
        for name, parts in ((3, near[:1]), (4, near[:2]), (5, near)):
            both = parts.all(axis=0)
            if not (both.any(axis=0).all() and both.any(axis=1).all()):
                result[i], right = name, False
                break
        if right:
            result[i] = 1
    return result


WHY = ("same", "order", "number", "distance", "normal", "place")


def compare(kinds: tuple[int, int], count: int, collide) -> dict[str, np.ndarray]:
    """For each kind of pose how many there are, and of them the same, in another order, with another number ..."""
    bound = ROUGH if set(kinds) & set(CURVED) else EXACT
    rng = np.random.default_rng(0)
    result = {}
    for kind in KINDS:
        tally = np.zeros(len(WHY) + 1, int)
        which = range(3) if MESH in kinds else range(1)
        for part in which:
            model = pair_model(kinds, mesh_points(rng, part) if MESH in kinds else None, several=True)
            poses = poses_of(kinds, count // 4 // len(which), kind, hull_of(model, kinds))
            ours, theirs = collide(model, poses, whole=True), theirs_of(model, poses)
            some = (ours[0] > 0) | (theirs[0] > 0)
            found = differences(ours, theirs, bound)[some]
            tally += [some.sum(), *(np.sum(found == k) for k in range(len(WHY)))]
        result[kind] = tally
    return result


def figures(quick: bool):
    count = 1_200 if quick else 14_000
    collide = make_kernel()
    wp.config.quiet = True
    print("pair                 kind      poses   " + "  ".join(f"{w:>8}" for w in WHY), file=sys.stderr)
    for kinds in PAIRS:
        found = compare(kinds, count, collide)
        name = f"{NAMES[kinds[0]]}-{NAMES[kinds[1]]}"
        for kind, tally in found.items():
            row = "  ".join(f"{x / max(tally[0], 1):8.3f}" for x in tally[1:])
            print(f"{name:20} {kind:9} {tally[0]:5}   {row}", file=sys.stderr, flush=True)
        resting = found.pop("resting")
        must = ">= 0.97" if CYLINDER in kinds else ">= 0.99"
        yield share_of(f"contact points, {name}", sum(found.values()), must, found)
        yield share_of(f"contact points, {name} at rest", resting, "", {})
    yield from height_fields(300 if quick else 10_000, collide)


FIELD = 1
ON_FIELDS = (SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)


def field_model(kind: int, margin: float) -> pb.Model:
    """A bumpy height field and a shape, both free."""
    rng = np.random.default_rng(0)
    heights, points = rng.uniform(0, 1, (13, 17)), mesh_points(rng, 0)
    shape = 'mesh="hull"' if kind == MESH else 'size="1 1 1"'
    return pb.load(
        f"""<mujoco><option ccd_tolerance="1e-13" ccd_iterations="400"/><asset>
        <mesh name="hull" vertex="{" ".join(f"{x:.17g}" for x in points.ravel())}"/>
        <hfield name="hills" nrow="13" ncol="17" size="1 0.8 0.2 0.3"
          elevation="{" ".join(f"{x:.9g}" for x in heights.ravel())}"/></asset><worldbody>
        <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <geom name="g0" type="hfield" hfield="hills"/></body>
        <body><freejoint/><geom name="g1" type="{NAMES[kind]}" {shape}/></body></worldbody>
        <contact><pair geom1="g0" geom2="g1" margin="{margin}"/></contact></mujoco>"""
    )


def field_poses(kind: int, count: int) -> Poses:
    """A small shape somewhere between the bottom of the valleys and a little above the hills."""
    poses = Poses((PLANE, kind if kind != MESH else BOX), count, 3, None)
    rng = np.random.default_rng(kind)
    poses.kinds = (FIELD, kind)
    poses.size = rng.uniform(0.03, 0.12, (2, count, 3))
    poses.R[1] = rotations(rng, count)
    local = rng.uniform([-1, -0.8, 0], [1, 0.8, 0.35], (count, 3))
    poses.x[1] = poses.x[0] + np.einsum("nij,nj->ni", poses.R[0], local)
    return poses


def height_fields(count: int, collide):
    for kind in ON_FIELDS:
        bound = ROUGH if kind in CURVED else EXACT
        for margin in (0.0, 0.02):
            model, poses = field_model(kind, margin), field_poses(kind, count)
            ours, theirs = collide(model, poses, whole=True), theirs_of(model, poses)
            some = (ours[0] > 0) | (theirs[0] > 0)
            found = differences(ours, theirs, bound)[some]
            equal, same = np.mean(found != 2), np.mean(found < 2)
            name = f"contact points, height field and {NAMES[kind]}" + (", with a margin" if margin else "")
            note = f"{some.sum()} poses, {ours[0][some].mean():.1f} contacts each"
            must = ">= 0.99" if kind in (SPHERE, CAPSULE, BOX, MESH) else ""
            yield Result(f"{name}: share with as many", equal, "", must, MUJOCO, note)
            if kind in (BOX, MESH) and not margin:
                note += "; MuJoCo's search ends before the depth is known"
            yield Result(f"{name}: share with MuJoCo's set", same, "", "", MUJOCO, note)


def share_of(name: str, tally: np.ndarray, must: str, parts: dict[str, np.ndarray]) -> Result:
    """The poses with the same set, in any order, among those with contacts."""
    share = {kind: (t[1] + t[2]) / max(t[0], 1) for kind, t in {"": tally, **parts}.items()}
    notes = [f"{kind} {x:.4f}" for kind, x in share.items() if kind]
    notes += [f"other {why} {x / tally[0]:.4f}" for why, x in zip(WHY[1:], tally[2:], strict=True) if x]
    return Result(
        f"{name}: share with MuJoCo's set", share[""], "", must, MUJOCO, ", ".join([f"{tally[0]} poses", *notes])
    )


if __name__ == "__main__":
    main(figures)
