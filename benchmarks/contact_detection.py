"""Are contacts found where MuJoCo finds them? Random poses of every pair of shapes; part of contact.py.

Where two answers differ, what decides is the gap along a normal n, from shape 1 to shape 2,

    gap(n) = n · (x2 - x1) - reach of shape 1 along n - reach of shape 2 along -n,

whose largest value over all n is the signed distance of two convex shapes, apart or overlapping. It needs nothing but
how far a shape reaches in a direction, so it owes nothing to either solver: the normal with the larger gap is the
better answer, and a distance that is not the gap along its own normal is no answer at all.

Where faces are nearly parallel both simulators turn the one contact into several (MuJoCo's option multiccd). That is
left out first, to see how exact the one is, and then compared as it comes; ``contact_points`` compares whole sets.
"""

import copy

import mujoco
import numpy as np
import warp as wp
from common import Result

import pullback as pb
from pullback.contact import Scene
from pullback.kernels import Flavour, specialise

MUJOCO = f"MuJoCo {mujoco.__version__}"
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7
NAMES = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
SOLID = (SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)
PRIMITIVES = [(PLANE, b) for b in SOLID] + [(a, b) for i, a in enumerate(SOLID) for b in SOLID[i:]]
MESHES = [(PLANE, MESH), *((a, MESH) for a in SOLID), (MESH, MESH)]
# Pairs without a closed answer of their own, which may have several contacts.
FLAT = [
    (CAPSULE, CYLINDER),
    (CYLINDER, CYLINDER),
    (CYLINDER, BOX),
    *((a, MESH) for a in (CAPSULE, CYLINDER, BOX, MESH)),
]

MARGIN = 0.1  # contacts are found this far apart [m]
SIZES = (0.03, 0.5)  # [m]
MOST = 50  # contacts of a pair that the workspace holds
DISTANCE, NORMAL, MESH_DISTANCE = 1e-8, 1e-6, 1e-5  # [m], [1], [m]
# Gaps of shapes of this size are sums of a few numbers below one: rounding. [m]
ROUNDING = 1e-15
NEARBY = (1e-6, 1e-5, 1e-3, 1e-2)  # how far to look for a better normal [rad]


def pair_model(kinds: tuple[int, int], points: np.ndarray | None, *, several: bool = False) -> pb.Model:
    """Two free shapes that may touch (a plane is fixed). MuJoCo's iterative solver goes on until rounding stops it."""
    asset, geoms = "", ""
    if points is not None:
        asset = f'<mesh name="hull" vertex="{" ".join(f"{x:.17g}" for x in points.ravel())}"/>'
    for i, kind in enumerate(kinds):
        shape = 'mesh="hull"' if kind == MESH else 'size="1 1 1"'
        geom = f'<geom name="g{i}" type="{NAMES[kind]}" {shape}/>'
        geoms += geom if kind == PLANE else f"<body><freejoint/>{geom}</body>"
    multiccd = "enable" if several else "disable"
    return pb.load(
        f"""<mujoco><option ccd_tolerance="1e-13" ccd_iterations="400"><flag multiccd="{multiccd}"/></option>
        <asset>{asset}</asset>
        <worldbody>{geoms}</worldbody><contact><pair geom1="g0" geom2="g1" margin="{MARGIN}"/></contact></mujoco>"""
    )


def hull_points(rng: np.random.Generator, count: int = 40) -> np.ndarray:
    points = rng.normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points * [0.3, 0.2, 0.15] * rng.uniform(0.8, 1, (count, 1))


# --- poses ------------------------------------------------------------------------------------------------------------


def rotations(rng: np.random.Generator, n: int) -> np.ndarray:
    R = np.empty((n, 9))
    for row, quat in zip(R, rng.normal(size=(n, 4)), strict=True):
        mujoco.mju_quat2Mat(row, quat / np.linalg.norm(quat))
    return R.reshape(n, 3, 3)


def reach(kind: int, size: np.ndarray, R: np.ndarray, n: np.ndarray, corners: np.ndarray | None) -> np.ndarray:
    """How far a shape reaches along n from its origin."""
    local = np.einsum("pji,pj->pi", R, n)
    flat = np.hypot(local[:, 0], local[:, 1])
    match kind:
        case 0:  # all the way, but along its own normal
            return np.zeros(len(n))
        case 2:
            return size[:, 0]
        case 3:
            return size[:, 0] + size[:, 1] * np.abs(local[:, 2])
        case 4:
            return np.linalg.norm(size * local, axis=1)
        case 5:
            return size[:, 0] * flat + size[:, 1] * np.abs(local[:, 2])
        case 6:
            return np.sum(size * np.abs(local), axis=1)
        case _:
            return np.max(local @ corners.T, axis=1)


class Poses:
    """Two shapes of random sizes in many poses: apart within the margin or overlapping, down to centre in centre."""

    def __init__(self, kinds: tuple[int, int], count: int, seed: int, corners: np.ndarray | None):
        rng = np.random.default_rng([seed, *kinds])
        self.kinds, self.corners = kinds, corners
        self.R = np.stack([rotations(rng, count), rotations(rng, count)])
        # Some at right angles, as scenes are built.
        straight = rng.random(count) < 0.1
        self.R[1, straight] = self.R[0, straight] @ np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], float)
        self.size = np.exp(rng.uniform(*np.log(SIZES), (2, count, 3)))
        self.x = np.repeat(rng.uniform(-1, 1, (1, count, 3)), 2, axis=0)
        way = self.R[0, :, :, 2] if kinds[0] == PLANE else rng.normal(size=(count, 3))
        way = way / np.linalg.norm(way, axis=1, keepdims=True)
        # From fully inside to just out of the margin, as far as sizes allow.
        self.x[1] += ((MARGIN - self.gap(way)) * rng.uniform(0, 1.05, count))[:, None] * way

    def gap(self, n: np.ndarray) -> np.ndarray:
        """(poses,) [m] along n (poses, 3)."""
        first, second = (reach(k, self.size[i], self.R[i], s * n, self.corners)
                         for i, (k, s) in enumerate(zip(self.kinds, (1, -1), strict=True)))  # fmt: skip
        return np.einsum("pi,pi->p", self.x[1] - self.x[0], n) - first - second

    def largest_nearby(self, n: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Of the poses chosen, those where no normal around n has a larger gap."""
        some = copy.copy(self)
        some.x, some.R, some.size = self.x[:, which], self.R[:, which], self.size[:, which]
        n, rng = n[which], np.random.default_rng(0)
        best, largest = some.gap(n), np.ones(len(n), bool)
        if self.kinds[0] == PLANE:
            return largest  # there is but one
        for step in NEARBY:
            for _ in range(8):
                aside = rng.normal(size=n.shape)
                aside -= np.einsum("pi,pi->p", aside, n)[:, None] * n
                for side in (-step, step):
                    moved = n + side * aside / np.linalg.norm(aside, axis=1, keepdims=True)
                    largest &= some.gap(moved / np.linalg.norm(moved, axis=1, keepdims=True)) <= best + ROUNDING
        return largest


# --- contacts ---------------------------------------------------------------------------------------------------------

Found = tuple[np.ndarray, np.ndarray]  # distances (contacts, poses), infinite for none, normals (contacts, poses, 3)


def make_kernel():
    """A function that finds the contacts of many poses, by the kernels a step uses."""
    shapes, tree = specialise("float64", "collision.shapes"), specialise("float64", "tree.structs")
    Shapes, Contacts, Params, real = shapes.Shapes, shapes.Contacts, tree.Params, shapes.real
    collide_pair = specialise(Flavour("float64", "convex"), "collide").collide_pair

    @wp.kernel(enable_backward=False, module="unique")
    def kernel(g: Shapes, p: Params, c: Contacts):
        world = wp.tid()
        collide_pair(g, p, c, 0, real(0.0), world, world)

    def run(model: pb.Model, poses: Poses, *, whole: bool = False) -> Found:
        """With ``whole``, how many there are in each pose, distances, normals and places of all."""
        count = len(poses.R[0])
        put = lambda x, dtype: wp.array(np.ascontiguousarray(x), dtype=dtype, device="cpu")  # noqa: E731
        g = pb.Articulated(model, contact=pb.ContactConvex())._shapes
        p, c = Params(), Contacts()
        p.shape_size = put(poses.size.swapaxes(0, 1), shapes.vec3)
        c.x, c.R = put(poses.x, shapes.vec3), put(poses.R, shapes.mat33)
        for name, variable in Contacts.vars.items():
            if name not in ("x", "R"):
                items = 1 if name == "count" else MOST
                setattr(c, name, wp.zeros((items, count), dtype=variable.type.dtype, device="cpu"))
        wp.launch(kernel, count, inputs=[g, p, c], device="cpu")
        distance, normal, number = (getattr(c, name).numpy() for name in ("dist", "normal", "count"))
        assert number.max() <= MOST
        if whole:
            return number[0], distance, normal, c.pos.numpy()
        return np.where(np.arange(MOST)[:, None] < number, distance, np.inf), normal

    return run


def mujoco_contacts(model: pb.Model, poses: Poses) -> Found:
    """Poses and sizes are written straight into MuJoCo's arrays."""
    m = model.mujoco
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    m.geom_rbound[:] = [0 if kind == PLANE else 1e3 for kind in poses.kinds]  # the broad phase lets everything pass
    count = len(poses.R[0])
    distance, normal = np.full((MOST, count), np.inf), np.zeros((MOST, count, 3))
    solid = [g for g in range(2) if poses.kinds[g] not in (PLANE, MESH)]
    for i in range(count):
        m.geom_size[solid] = poses.size[solid, i]
        data.geom_xpos[:], data.geom_xmat[:] = poses.x[:, i], poses.R[:, i].reshape(2, 9)
        mujoco.mj_collision(m, data)
        distance[: data.ncon, i], normal[: data.ncon, i] = data.contact.dist, data.contact.frame[:, :3]
    return distance, normal


# --- figures ----------------------------------------------------------------------------------------------------------


def deepest(found: Found, like: np.ndarray | None = None) -> Found:
    """The deepest contact of each pose: distances (poses,), normals (poses, 3). Of several, the one most ``like``."""
    distance, normal = found
    every = np.arange(distance.shape[1])
    chosen = distance.argmin(axis=0)
    if like is not None:
        as_deep = distance <= distance[chosen, every] + 10 * ROUNDING
        chosen = np.where(as_deep, np.einsum("cpi,pi->cp", normal, like), -np.inf).argmax(axis=0)
    return distance[chosen, every], normal[chosen, every]


def compare(poses: Poses, ours: Found, theirs: Found, bound: float) -> dict:
    """Worst errors, and how many poses had to be judged by their gaps because the two answers differ."""
    theirs = deepest(theirs)
    distance, normal = deepest(ours, theirs[1])
    touching = np.isfinite(distance) | np.isfinite(theirs[0])
    # Found by one alone: it should have been at the margin.
    apart = np.abs(np.minimum(distance, MARGIN) - np.minimum(theirs[0], MARGIN))
    turned = np.linalg.norm(normal - theirs[1], axis=1) * (np.isfinite(distance) & np.isfinite(theirs[0]))
    gap, their_gap = poses.gap(normal), poses.gap(theirs[1])
    differ = touching & ((apart > bound) | (turned > NORMAL))
    # Ours stands if its distance is the gap along its normal, no gap along a normal nearby is larger, nor MuJoCo's.
    certified = np.isfinite(distance) & (np.abs(distance - gap) <= bound / 10) & (gap >= their_gap - ROUNDING)
    certified[differ] &= poses.largest_nearby(normal, differ)
    excused = differ & certified
    tie = excused & (np.abs(gap - their_gap) <= ROUNDING) & (np.abs(theirs[0] - their_gap) <= bound)
    return {
        "distance": float(np.max(apart[touching & ~excused], initial=0.0)),
        "normal": float(np.max(turned[touching & ~excused], initial=0.0)),
        "poses": int(touching.sum()),
        "overlapping": int((theirs[0] < 0).sum()),
        "worse": int((excused & ~tie).sum()),
        "tie": int(tie.sum()),
        "wrong": np.flatnonzero(differ & ~excused),
    }


def hull_of(model: pb.Model, kinds: tuple[int, int]) -> np.ndarray | None:
    if MESH not in kinds:
        return None
    corners = Scene.of(model).hulls.vertex
    return corners[: len(corners) // 2] if kinds == (MESH, MESH) else corners  # both are the same mesh


def detection(quick: bool):
    count = 2000 if quick else 10_000
    collide = make_kernel()
    rng = np.random.default_rng(0)
    for title, pairs, bound in (("primitives", PRIMITIVES, DISTANCE), ("convex meshes", MESHES, MESH_DISTANCE)):
        results = {}
        for kinds in pairs:
            model = pair_model(kinds, hull_points(rng) if MESH in kinds else None)
            poses = Poses(kinds, count, 1, hull_of(model, kinds))
            found = compare(poses, collide(model, poses), mujoco_contacts(model, poses), bound)
            results[f"{NAMES[kinds[0]]}-{NAMES[kinds[1]]}"] = found
        poses, overlapping = (sum(r[name] for r in results.values()) for name in ("poses", "overlapping"))
        judged = [f"{n}: {r['worse']}, {r['tie']}" for n, r in results.items() if r["worse"] or r["tie"]]
        wrong = [f"{n}: {len(r['wrong'])}" for n, r in results.items() if len(r["wrong"])]
        note = f"{len(pairs)} pairs, {poses} poses, {overlapping} overlapping"
        if judged:
            note += "; left out since MuJoCo's normal has a smaller gap, or one as large: " + ", ".join(judged)
        if wrong:
            note += "; poses off by more: " + ", ".join(wrong)
        for what, unit, must in (("distance", "m", f"<= {bound:g}"), ("normal", "", f"<= {NORMAL:g}")):
            worst = max(results, key=lambda n: results[n][what])
            demand = must if (what, bound) != ("normal", MESH_DISTANCE) else ""
            name = f"detection, {title}: worst {what} error"
            yield Result(name, results[worst][what], unit, demand, MUJOCO, f"worst: {worst}; {note}")
    yield several_contacts(collide, count, rng)


def several_contacts(collide, count: int, rng: np.random.Generator) -> Result:
    """Flat shapes as a step sees them: how often the deepest contact is another one than MuJoCo's."""
    others, all_poses, parts = 0, 0, []
    for kinds in FLAT:
        model = pair_model(kinds, hull_points(rng) if MESH in kinds else None, several=True)
        poses = Poses(kinds, count, 1, hull_of(model, kinds))
        theirs = deepest(mujoco_contacts(model, poses))
        distance, normal = deepest(collide(model, poses), theirs[1])
        both = np.isfinite(distance) & np.isfinite(theirs[0])
        apart, turned = np.abs(distance[both] - theirs[0][both]), np.linalg.norm(normal[both] - theirs[1][both], axis=1)
        off = int(np.sum((apart > MESH_DISTANCE) | (turned > 1e-3)))  # far beyond what its solver leaves undone
        parts.append(f"{NAMES[kinds[0]]}-{NAMES[kinds[1]]} {100 * off / both.sum():.0f} %")
        others, all_poses = others + off, all_poses + int(both.sum())
    note = ", ".join(parts)
    figure = "detection, flat shapes with several contacts: poses whose deepest is not MuJoCo's"
    return Result(figure, others / all_poses, "", "", MUJOCO, note)
