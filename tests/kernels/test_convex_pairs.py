"""Contacts of convex shapes that have no closed answer, against MuJoCo's solver with its tolerance set tight."""

import numpy as np
import pytest
import warp as wp
from oracle import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, SPHERE, Oracle, extent, name_of
from workspace import contact_workspace, found_contacts, put_hulls, rotations, upload

from pullback.kernels import specialise

PAIRS = [
    (SPHERE, ELLIPSOID),
    (SPHERE, MESH),
    (CAPSULE, ELLIPSOID),
    (CAPSULE, CYLINDER),
    (CAPSULE, MESH),
    (ELLIPSOID, ELLIPSOID),
    (ELLIPSOID, CYLINDER),
    (ELLIPSOID, BOX),
    (ELLIPSOID, MESH),
    (CYLINDER, CYLINDER),
    (CYLINDER, BOX),
    (CYLINDER, MESH),
    (BOX, MESH),
    (MESH, MESH),
]
MOST = 16  # contacts of a pair


def mesh_points(name: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    match name:
        case "tetrahedron":
            return np.array([[0.3, 0, -0.1], [-0.2, 0.25, -0.1], [-0.2, -0.25, -0.1], [0, 0, 0.3]])
        case "cube":
            return 0.2 * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
        case _:
            p = rng.normal(size=(60, 3))
            return p / np.linalg.norm(p, axis=1, keepdims=True) * [0.3, 0.2, 0.15] * rng.uniform(0.8, 1, (60, 1))


def oracle_of(types, meshes=("hull", "tetrahedron"), multi=False) -> Oracle:
    return Oracle(types, [mesh_points(name) for name in meshes], multi)


def compile_pair(precision: str, one_contact: bool = False):
    """A function that collides a batch of pairs."""
    s = specialise(precision, "collision.shapes")
    n = specialise(precision, "collision.convex_pairs")
    real, vec3, mat33 = s.real, s.vec3, s.mat33
    Contacts, Shapes, Pair, shape, convex_pair = s.Contacts, s.Shapes, s.Pair, s.shape, n.convex_pair

    @wp.kernel(enable_backward=False, module="unique")
    def collide(
        kind: wp.vec2i,
        begin: wp.vec3i,
        reach: wp.array(dtype=real),
        x: wp.array2d(dtype=vec3),
        R: wp.array2d(dtype=mat33),
        size: wp.array2d(dtype=vec3),
        shapes: Shapes,
        c: Contacts,
    ):
        i = wp.tid()
        pair = Pair()
        pair.slot = i
        pair.reach = reach[i]
        s1 = shape(kind[0], x[0, i], R[0, i], size[0, i], begin[0], begin[1])
        s2 = shape(kind[1], x[1, i], R[1, i], size[1, i], begin[1], begin[2])
        convex_pair(c, pair, shapes, s1, s2)

    def call(types, x, R, size, reach, hulls):
        """The contacts of every pose, padded: arrays ``[pose, contact]``, and how many there are of each."""
        hull, begin = hulls
        shapes, c = Shapes(), contact_workspace(precision, MOST, len(reach))
        shapes.one_contact = int(one_contact)
        put_hulls(shapes.mesh, hull, precision)
        put = [upload(a, t, precision) for a, t in ((reach, real), (x, vec3), (R, mat33), (size, vec3))]
        wp.launch(collide, len(reach), inputs=[wp.vec2i(*types), wp.vec3i(*begin), *put, shapes, c], device="cpu")
        return found_contacts(c)

    return call


def gap(types, x, R, size, hulls, n) -> np.ndarray:
    """Gap of two shapes along n."""
    hull, begin = hulls
    points = [hull["vertex"][begin[g] : begin[g + 1]] for g in range(2)]
    reach1 = extent(types[0], size[0], R[0], n, points[0])
    reach2 = extent(types[1], size[1], R[1], -n, points[1])
    return np.einsum("ni,ni->n", x[1] - x[0], n) - reach1 - reach2


def random_poses(types, hulls, n, seed=0, smallest=0.03, depth=(0.0, 1.1)):
    """Poses and sizes of shapes that touch, overlap or nearly touch, and how far apart they may be."""
    rng = np.random.default_rng(seed)
    R = np.stack([rotations(rng, n), rotations(rng, n)])
    size = np.exp(rng.uniform(np.log(smallest), np.log(0.5), (2, n, 3)))
    x = rng.uniform(-1, 1, (2, n, 3))
    u = rng.normal(size=(n, 3))
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    x[1] = x[0]
    x[1] += (-gap(types, x, R, size, hulls, u) * rng.uniform(*depth, n))[:, None] * u
    return x, R, size, np.full(n, 0.2)


def outside(kind, size, R, x, p, hull) -> np.ndarray:
    """How far, at most, a point lies outside of a shape; zero or less if it is inside."""
    q = np.einsum("nji,nj->ni", R, p - x)
    match kind:
        case 2:
            return np.linalg.norm(q, axis=1) - size[:, 0]
        case 3:
            q[:, 2] -= np.clip(q[:, 2], -size[:, 1], size[:, 1])
            return np.linalg.norm(q, axis=1) - size[:, 0]
        case 4:
            return (np.linalg.norm(q / size, axis=1) - 1) * size.min(axis=1)
        case 5:
            return np.maximum(np.linalg.norm(q[:, :2], axis=1) - size[:, 0], abs(q[:, 2]) - size[:, 1])
        case 6:
            return (abs(q) - size).max(axis=1)
        case _:
            return (q @ hull["plane"][:, :3].T - hull["plane"][:, 3]).max(axis=1)


def surface_points(a, k=0):
    half = 0.5 * a["dist"][:, k, None] * a["normal"][:, k]
    return a["pos"][:, k] - half, a["pos"][:, k] + half


def farthest_out(types, poses, hulls, a, k=0) -> np.ndarray:
    """How far outside of its shape one of the two touching points is."""
    x, R, size, _reach = poses
    hull, begin = hulls
    found = []
    for g, p in enumerate(surface_points(a, k)):
        # Planes through all triples of corners that have the others on one side: meshes here are small.
        plane = None
        if types[g] == MESH:
            plane = {"plane": hull["planes"][g]}
        found.append(outside(types[g], size[g], R[g], x[g], p, plane))
    return np.maximum(*found)


def add_planes(hulls):
    """The planes of all faces: through every corner and two neighbours of it that have no corner above."""
    hull, begin = hulls
    hull = dict(hull)
    hull["planes"] = []
    for g in range(2):
        planes = []
        v = hull["vertex"][begin[g] : begin[g + 1]]
        for i in range(len(v)):
            first, end = hull["first_neighbour"][begin[g] + i : begin[g] + i + 2]
            near = v[hull["neighbour"][first:end] - begin[g]] - v[i]
            for b in near:
                for c in near:
                    n = np.cross(b, c)
                    if (length := np.linalg.norm(n)) > 1e-9:
                        planes.append([*(n / length), n @ v[i] / length])
        planes = np.array(planes).reshape(-1, 4)
        above = (v @ planes[:, :3].T - planes[:, 3]).max(axis=0) if len(planes) else np.zeros(0)
        hull["planes"].append(planes[above < 1e-12])
    return hull, begin


def kernel_part(hulls):
    """What of the hulls goes to the kernel."""
    hull, begin = hulls
    return {k: v for k, v in hull.items() if k != "planes"}, begin


@pytest.fixture(scope="module")
def touch():
    return compile_pair("float64", one_contact=True)


@pytest.fixture(scope="module")
def pair():
    return compile_pair("float64")


@pytest.fixture(scope="module")
def pair_single():
    return compile_pair("float32")


def meshes_of(types):
    """Meshes to try: the second of two shapes is a mesh before the first is."""
    if types == (MESH, MESH):
        return [("hull", "tetrahedron"), ("hull", "hull"), ("cube", "tetrahedron")]
    return [("cube", m) for m in ("hull", "tetrahedron", "cube")] if MESH in types else [("cube", "cube")]


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_against_mujoco(touch, types):
    """Nowhere is a direction of MuJoCo's better, and where it has converged, distances and normals are the same."""
    for seed, meshes in enumerate(meshes_of(types)):
        oracle = oracle_of(types, meshes)
        hulls = oracle.hulls()
        poses = random_poses(types, hulls, 300, seed)
        x, R, size, _reach = poses
        a = touch(types, *poses, hulls)
        theirs = oracle(*poses)
        assert [len(b["dist"]) for b in theirs] == list(a["count"])

        some = a["count"] > 0
        assert 250 < some.sum() and 30 < (a["dist"][some, 0] > 0).sum() < some.sum() - 100
        dist = np.array([b["dist"][0] if len(b["dist"]) else np.nan for b in theirs])
        normal = np.array([b["normal"][0] if len(b["dist"]) else [np.nan] * 3 for b in theirs])
        their_gap = gap(types, x, R, size, hulls, normal)
        assert (a["dist"][some, 0] > their_gap[some] - 1e-12).all()
        converged = some & (abs(their_gap - dist) < 2e-9)
        assert converged.sum() > 0.95 * some.sum()
        assert abs(a["dist"][:, 0] - dist)[converged].max() < 1e-8
        off = np.linalg.norm(a["normal"][:, 0] - normal, axis=1)[converged]
        assert np.quantile(off, 0.9) < 1e-5 and off.max() < 2e-3  # MuJoCo's is good to the root of its tolerance


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_what_is_found_is_exact(touch, types):
    """The distance is the gap along the normal, both points lie on their shapes and no direction tried is better.

    If the shapes are apart, the first two prove that the answer is right.
    """
    rng = np.random.default_rng(1)
    for seed, (meshes, kind) in enumerate((m, k) for m in meshes_of(types) for k in ({}, {"depth": (0.99, 1.01)})):
        hulls = add_planes(oracle_of(types, meshes).hulls())
        poses = random_poses(types, hulls, 400, 10 + seed, **kind)
        a = touch(types, *poses, kernel_part(hulls))
        some = a["count"] > 0
        x, R, size, _reach = poses
        assert abs(np.linalg.norm(a["normal"][some, 0], axis=1) - 1).max() < 1e-14
        assert abs(gap(types, x, R, size, hulls, a["normal"][:, 0]) - a["dist"][:, 0])[some].max() < 2e-15
        assert farthest_out(types, poses, hulls, a)[some].max() < 1e-9
        for _ in range(100):
            n = rng.normal(size=(400, 3))
            n /= np.linalg.norm(n, axis=1, keepdims=True)
            assert (gap(types, x, R, size, hulls, n) < a["dist"][:, 0] + 1e-12)[some].all()


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_concentric_and_aligned_shapes(pair, types):
    """Whatever is not determined is finite, and the same every time."""
    for meshes in meshes_of(types):
        hulls = add_planes(oracle_of(types, meshes).hulls())
        x, R, size, reach = random_poses(types, hulls, 200, 3)
        R[1, ::2] = R[0, ::2]
        R[:, ::4] = np.eye(3)
        size[:, ::8] = 0.25
        x[1, :100] = x[0, :100]
        poses = x, R, size, reach
        a = pair(types, *poses, kernel_part(hulls))
        again = pair(types, *poses, kernel_part(hulls))
        assert (a["count"][:100] > 0).all() and (a["dist"][:100, 0] < 0).all() and a["count"].max() <= 4
        for k in ("pos", "normal", "dist"):
            assert np.isfinite(a[k]).all()
            assert (a[k] == again[k]).all()
        for k in range(4):
            some = a["count"] > k
            assert not some.any() or farthest_out(types, poses, hulls, a, k)[some].max() < 0.5
            assert abs(np.linalg.norm(a["normal"][some, k], axis=1) - 1).max(initial=0) < 1e-12


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_single_precision(pair_single, pair, types):
    for meshes in meshes_of(types):
        hulls = oracle_of(types, meshes).hulls()
        poses = [p.astype("f4").astype(float) for p in random_poses(types, hulls, 300, 4)]
        a = pair_single(types, *poses, hulls)
        b = pair(types, *poses, hulls)
        same = a["count"] == b["count"]
        assert same.mean() > 0.98
        some = same & (a["count"] > 0)
        close = abs(a["dist"][some, 0] - b["dist"][some, 0]) < 1e-6
        close &= np.linalg.norm(a["normal"][some, 0] - b["normal"][some, 0], axis=1) < 1e-3
        assert close.mean() > 0.98


# --- flat on flat ------------------------------------------------------------------------------------


def turned(*angles) -> np.ndarray:
    """Rotations about z, y, x, one after the other."""
    R = np.eye(3)
    for axis, angle in zip((2, 1, 0), angles, strict=False):
        c, s = np.cos(angle), np.sin(angle)
        step = np.eye(3)
        i, j = [k for k in range(3) if k != axis]
        step[[i, j], [i, j]] = c
        step[i, j], step[j, i] = (-s, s) if axis != 1 else (s, -s)
        R = R @ step
    return R


PLATE = [0.3, 0.3, 0.2]
UPON = [0.0, 0.02, 0.295]
EIGHTH, LYING = (0.0, 0.0, np.pi / 4), (0.0, 0.0, np.pi / 2)
FLAT = {
    # shapes, place of shape 2, its turn, turn of shape 1, sizes, number of contacts
    "mesh on box": ((BOX, MESH), [0.05, 0.02, 0.395], (0.3,), (), (PLATE, []), 4),
    "mesh over a box's edge": ((BOX, MESH), [0.31, 0.02, 0.395], (), (), (PLATE, []), 4),
    "mesh apart from a box": ((BOX, MESH), [0.05, 0.02, 0.405], (), (), (PLATE, []), 4),
    "mesh on mesh": ((MESH, MESH), [0.1, 0.02, 0.395], (0.3,), (), ([], []), 4),
    "edge of a mesh": ((BOX, MESH), [0.0, 0.0, 0.195 + 0.08**0.5], EIGHTH, (), (PLATE, []), 2),
    "cylinder lying on a box": ((CYLINDER, BOX), UPON, (), LYING, ([0.1, 0.2], PLATE), 2),
    "long cylinder on a box": ((CYLINDER, BOX), UPON, (), LYING, ([0.1, 0.5], PLATE), 2),
    "capsule on a mesh": ((CAPSULE, MESH), UPON, (), LYING, ([0.1, 0.3], []), 2),
    "capsule on a cap": ((CAPSULE, CYLINDER), UPON, (), LYING, ([0.1, 0.2], [0.3, 0.2]), 2),
    "parallel cylinders": ((CYLINDER, CYLINDER), [0.0, 0.195, 0.05], (), (), ([0.1, 0.2], [0.1, 0.2]), 1),
}


@pytest.mark.parametrize("name", FLAT)
def test_flat_on_flat(pair, name):
    """The same points as MuJoCo's, whose order is its own."""
    types, place, turn2, turn1, sizes, count = FLAT[name]
    oracle = oracle_of(types, ("cube", "cube"), multi=True)
    x = np.array([[[0.3, -0.2, 0.1]], [[0.3, -0.2, 0.1]]])
    x[1, 0] += place
    R = np.array([[turned(*turn1)], [turned(*turn2)]])
    size = np.array([[np.resize(s or [1.0], 3)] for s in sizes])
    reach = np.array([0.05])
    a = pair(types, x, R, size, reach, oracle.hulls())
    b = oracle(x, R, size, reach)[0]
    assert a["count"][0] == len(b["dist"]) == count
    for p, n, d in zip(b["pos"], b["normal"], b["dist"], strict=True):
        off = np.linalg.norm(a["pos"][0, :count] - p, axis=1)
        k = off.argmin()
        assert off[k] < 1e-7 and abs(a["dist"][0, k] - d) < 1e-7
        assert np.linalg.norm(a["normal"][0, k] - n) < 1e-6


def test_upright_cylinder_on_a_box(pair):
    """Four of the sixteen corners of its rim. Several four span as large an area: MuJoCo lets rounding decide between
    them, so that they change with the place. Ours are always the same ones, and among MuJoCo's."""
    oracle = oracle_of((CYLINDER, BOX), multi=True)
    places = np.linspace(-1, 1, 30)
    x = np.array([[[0.0, 0, 0]], [[0.05, 0.02, 0.295]]]) + np.outer(places, [1.0, 0.3, 0.1])
    R = np.tile(np.array([[np.eye(3)], [turned(0.3)]]), (1, 30, 1, 1))
    size = np.tile(np.array([[[0.1, 0.1, 0]], [[0.3, 0.3, 0.2]]]), (1, 30, 1))
    reach = np.zeros(30)
    a = pair((CYLINDER, BOX), x, R, size, reach, oracle.hulls())
    assert (a["count"] == 4).all()

    def corners(pos, centre):
        p = pos - centre
        assert np.allclose(np.hypot(p[:, 0], p[:, 1]), 0.1) and np.allclose(p[:, 2], 0.0975)
        angle = np.arctan2(p[:, 1], p[:, 0]) / (np.pi / 8)
        assert np.allclose(angle, np.round(angle))
        return frozenset(np.round(angle).astype(int) % 16)

    ours = {corners(pos[:4], centre) for pos, centre in zip(a["pos"], x[0], strict=True)}
    theirs = {corners(b["pos"], centre) for b, centre in zip(oracle(x, R, size, reach), x[0], strict=True)}
    assert len(ours) == 1 and len(theirs) > 1 and ours < theirs


SEVERAL = [p for p in PAIRS if not {SPHERE, ELLIPSOID} & set(p)]


def same_set(ours, theirs, bound: float) -> bool:
    """Whether every contact has a partner with the same place, normal and distance."""
    if len(ours["dist"]) != len(theirs["dist"]):
        return False
    off = [np.linalg.norm(ours[name][:, None] - theirs[name][None], axis=2) for name in ("pos", "normal")]
    near = (off[0] < bound) & (off[1] < 10 * bound) & (abs(ours["dist"][:, None] - theirs["dist"][None]) < bound)
    return bool(near.any(axis=0).all() and near.any(axis=1).all())


def as_large(ours, theirs) -> bool:
    """Whether four corners of a face span as large an area as four others of it, but for a tenth."""

    def area(p):
        return np.linalg.norm(np.cross(p[0] - p[2], p[1] - p[3]))

    four = len(ours["dist"]) == len(theirs["dist"]) == 4 and np.allclose(ours["normal"], theirs["normal"], atol=1e-6)
    return four and 0.9 < area(ours["pos"]) / area(theirs["pos"]) < 1 / 0.9


@pytest.mark.parametrize("types", SEVERAL, ids=name_of)
def test_sets_of_contacts(pair, types):
    """MuJoCo's, in any pose and where faces, edges and axes are parallel but for a few degrees.

    Where it searches for the point touched on a cylinder, it stops early. Its search for a large quadrilateral of the
    corners of a cap comes to corners that are as good but for rounding, which then decides, and may lead elsewhere.
    Where faces are parallel exactly, or a capsule lies along a side, other points are as good; there are as many.
    """
    bound, share = (1e-3, 0.97) if CYLINDER in types else (1e-6, 0.99)
    rng = np.random.default_rng(6)
    for meshes in (("hull", "cube"), ("cube", "hull")) if MESH in types else (("cube", "cube"),):
        oracle = oracle_of(types, meshes, multi=True)
        hulls = oracle.hulls()
        for tilt in (None, 0.03, 0.0):
            poses = random_poses(types, hulls, 300, 5, depth=(0.7, 1.05))
            if tilt is not None:
                quarters = np.pi / 2 * rng.integers(4, size=(300, 3))
                off = tilt * rng.normal(size=(300, 3))
                turns = [turned(*q) @ turned(*o) for q, o in zip(quarters, off, strict=True)]
                poses[1][1] = poses[1][0] @ np.array(turns)
            a, b = pair(types, *poses, hulls), oracle(*poses)
            if tilt == 0.0:
                assert np.mean([a["count"][i] == len(b[i]["dist"]) for i in range(300)]) > share
                continue
            found = [{name: a[name][i, : a["count"][i]] for name in ("pos", "normal", "dist")} for i in range(300)]
            sets = list(zip(found, b, strict=True))
            same = np.array([same_set(f, t, bound) or (CYLINDER in types and as_large(f, t)) for f, t in sets])
            assert np.mean(a["count"] > 1) > 0.02, "poses that say little"
            assert same.mean() >= share, (meshes, tilt)
