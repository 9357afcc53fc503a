"""Contacts of simple shapes, against MuJoCo: which there are, where, and what is touched."""

import mujoco
import numpy as np
import pytest
import warp as wp
from oracle import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, PLANE, SPHERE, Oracle, extent, name_of
from workspace import contact_workspace, found_contacts, put_hulls, rotations, upload

from pullback.kernels import specialise

PAIRS = [
    (PLANE, SPHERE),
    (PLANE, CAPSULE),
    (PLANE, ELLIPSOID),
    (PLANE, CYLINDER),
    (PLANE, BOX),
    (PLANE, MESH),
    (SPHERE, SPHERE),
    (SPHERE, CAPSULE),
    (SPHERE, CYLINDER),
    (SPHERE, BOX),
    (CAPSULE, CAPSULE),
    (CAPSULE, BOX),
    (BOX, BOX),
]
MOST = 12  # contacts of a pair


def compile_all(precision: str):
    """A kernel that collides one pair of shapes a thread."""
    s = specialise(precision, "collision.shapes")
    n = specialise(precision, "collision.narrow")
    real, vec3, mat33 = n.real, n.vec3, n.mat33
    Contacts, Pair, Mesh, shape = s.Contacts, s.Pair, s.Mesh, s.shape
    plane_sphere, plane_capsule, plane_box = n.plane_sphere, n.plane_capsule, n.plane_box
    sphere_sphere, sphere_capsule, sphere_box = n.sphere_sphere, n.sphere_capsule, n.sphere_box
    plane_ellipsoid, plane_cylinder, plane_mesh = n.plane_ellipsoid, n.plane_cylinder, n.plane_mesh
    sphere_cylinder, capsule_capsule = n.sphere_cylinder, n.capsule_capsule
    capsule_box = specialise(precision, "collision.capsule_box").capsule_box
    box_box = specialise(precision, "collision.box_box").box_box

    @wp.kernel(enable_backward=False, module="unique")
    def collide(
        kind: wp.vec2i,
        reach: wp.array(dtype=real),
        x: wp.array2d(dtype=vec3),
        R: wp.array2d(dtype=mat33),
        size: wp.array2d(dtype=vec3),
        mesh: Mesh,
        corners: int,
        c: Contacts,
    ):
        i = wp.tid()
        s1 = shape(kind[0], x[0, i], R[0, i], size[0, i], 0, 0)
        s2 = shape(kind[1], x[1, i], R[1, i], size[1, i], 0, corners)
        pair = Pair()
        pair.slot = i
        pair.reach = reach[i]
        which = 10 * kind[0] + kind[1]
        if which == 2:
            plane_sphere(c, pair, s1, s2)
        elif which == 3:
            plane_capsule(c, pair, s1, s2)
        elif which == 4:
            plane_ellipsoid(c, pair, s1, s2)
        elif which == 5:
            plane_cylinder(c, pair, s1, s2)
        elif which == 7:
            plane_mesh(c, pair, mesh, s1, s2)
        elif which == 25:
            sphere_cylinder(c, pair, s1, s2)
        elif which == 6:
            plane_box(c, pair, s1, s2)
        elif which == 22:
            sphere_sphere(c, pair, s1, s2)
        elif which == 23:
            sphere_capsule(c, pair, s1, s2)
        elif which == 26:
            sphere_box(c, pair, s1, s2)
        elif which == 33:
            capsule_capsule(c, pair, s1, s2)
        elif which == 36:
            capsule_box(c, pair, s1, s2)
        elif which == 66:
            box_box(c, pair, s1, s2)

    def call(types, x, R, size, reach, hull=None):
        """Per pose a dictionary of its contacts."""
        mesh, c = Mesh(), contact_workspace(precision, MOST, len(reach))
        put_hulls(mesh, hull or {}, precision)
        put = [upload(a, t, precision) for a, t in ((reach, real), (x, vec3), (R, mat33), (size, vec3))]
        corners = len(hull["vertex"]) if hull else 0
        wp.launch(collide, dim=len(reach), inputs=[wp.vec2i(*types), *put, mesh, corners, c], device="cpu")
        found = found_contacts(c)
        count = found.pop("count")
        return [{k: v[i, :n] for k, v in found.items()} for i, n in enumerate(count)]

    return call


def random_poses(types, n, seed=0, aligned=0.2):
    """Poses and sizes of shapes that touch, overlap or nearly touch, and how far apart they may be."""
    rng = np.random.default_rng([seed, *types])
    R = np.stack([rotations(rng, n), rotations(rng, n)])
    size = np.exp(rng.uniform(np.log(0.03), np.log(0.6), (2, n, 3)))
    x = rng.uniform(-1, 1, (2, n, 3))
    reach = rng.choice([0.0, 0.01, 0.1], n)
    u = R[0, :, :, 2] if types[0] == PLANE else rng.normal(size=(n, 3))
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    # Many scenes are built of right angles.
    straight = rng.random(n) < aligned
    quarter = np.array([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0], [0, 1, 0]]], float)
    R[1, straight] = R[0, straight] @ quarter[rng.integers(0, 2, straight.sum())]
    if types == (PLANE, CYLINDER):
        # Nearly upright, MuJoCo's distances are off by up to a radius, since what it takes for a rim is rounding.
        R[1, straight] = R[1, straight] @ turned(rng.choice([0.01, 1.0]), [1, 0, 0])
    touch = extent(types[0], size[0], R[0], u) + extent(types[1], size[1], R[1], u)
    if types[0] != PLANE:
        x[1] = x[0]
    else:
        x[1] -= np.einsum("ni,ni->n", x[1] - x[0], u)[:, None] * u
    x[1] += (touch * rng.uniform(0.0, 1.05, n))[:, None] * u
    return x, R, size, reach


def turned(angle: float, axis) -> np.ndarray:
    quat, R = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, np.array(axis) / np.linalg.norm(axis), angle)
    mujoco.mju_quat2Mat(R, quat)
    return R.reshape(3, 3)


def compare(ours, theirs):
    """Worst errors of distance, normal and position, the poses whose contacts are others, whether order differs."""
    worst = np.zeros(3)
    other, swapped = [], 0
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if len(a["dist"]) != len(b["dist"]):
            other.append(i)
            continue
        if not len(a["dist"]):
            continue
        order = np.linalg.norm(a["pos"][:, None] - b["pos"][None], axis=2).argmin(axis=0)
        if len(set(order)) < len(order):  # two at one place
            order = np.arange(len(order))
        swapped += int((order != np.arange(len(order))).any())
        error = [abs(a[k][order] - b[k]).max() for k in ("dist", "normal", "pos")]
        if max(error) > 1e-2:
            other.append(i)
            continue
        worst = np.maximum(worst, error)
    return worst, other, swapped


def prism() -> np.ndarray:
    """Corners of a mesh, whose faces have four and seven corners."""
    angle = np.arange(7) * 2 * np.pi / 7 + np.array([0.1, -0.1, 0.2, 0.0, -0.2, 0.1, 0.15])
    base = np.stack([0.3 * np.cos(angle), 0.2 * np.sin(angle)], axis=1)
    return np.concatenate([np.c_[base, np.full(7, -0.1)], np.c_[base, np.full(7, 0.12)]])


@pytest.fixture(scope="module")
def double():
    return compile_all("float64")


@pytest.fixture(scope="module")
def single():
    return compile_all("float32")


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_contacts_are_those_of_mujoco(double, types):
    poses = random_poses(types, 1000)
    oracle = Oracle(types, (None, prism()))
    hull, _begin = oracle.hulls()
    ours, theirs = double(types, *poses, hull), oracle(*poses)
    worst, other, swapped = compare(ours, theirs)
    assert not other
    assert worst[0] < 1e-12 and worst[1] < 1e-8 and worst[2] < 1e-9, worst
    # Two boxes at right angles: which corner comes first is a matter of rounding.
    assert swapped == 0 or types == (BOX, BOX)
    touching = sum(len(c["dist"]) > 0 for c in theirs)
    assert 500 < touching < 1000, "poses that say little"
    for i, contact in enumerate(ours):
        check_features(types, [(poses[0][s, i], poses[1][s, i], poses[2][s, i]) for s in (0, 1)], contact, hull)
        assert (contact["along"] == (types == (PLANE, CAPSULE))).all()


@pytest.mark.parametrize("types", PAIRS, ids=name_of)
def test_single_precision(single, types):
    poses = [a.astype("float32").astype(float) for a in random_poses(types, 300, 1, aligned=0.0)]
    oracle = Oracle(types, (None, prism()))
    ours = single(types, *poses, oracle.hulls()[0])
    worst, other, _swapped = compare(ours, oracle(*poses))
    assert not other
    # A direction between two points that nearly coincide is less certain.
    assert worst[0] < 5e-7 and worst[1] < 5e-3 and worst[2] < 5e-4, worst


# --- what is touched -------------------------------------------------------------------------------

POINT, LINE, FLAT, CIRCLE, SMOOTH, CUT, FACE, LEFT, RIGHT = range(9)


def check_features(types, shapes, contact, hull, tol=1e-7):
    """Every feature is what it claims: its core is where its pins say, and the normal fits."""
    for k in range(len(contact["dist"])):
        n, dist = contact["normal"][k], contact["dist"][k]
        kinds = contact["feature1"][k]["kind"], contact["feature2"][k]["kind"]
        for s, outward in ((0, n), (1, -n)):
            (x, R, size), f = shapes[s], contact[f"feature{s + 1}"][k]
            shape, kind, edge, pin = types[s], *f
            partner = contact[f"feature{2 - s}"][k]
            radius = size[0] if shape in (SPHERE, CAPSULE) or (shape, kind) == (CYLINDER, LINE) else 0.0
            core = R.T @ (contact["pos"][k] - (dist / 2 + radius) * outward - x)
            fixed = {PLANE: 0, SPHERE: 0, MESH: 0, ELLIPSOID: 0, BOX: pin * size}.get(
                shape, pin * [size[0], size[0], size[1]]
            )
            local, normal = R.T @ edge, R.T @ outward
            flat = np.array([normal[0], normal[1], 0.0])
            where = (name_of(types), kinds, k)
            if kind in (LINE, CIRCLE, LEFT, RIGHT, CUT, FACE):
                assert abs(edge @ edge - 1) < tol, where
            match kind:
                case 0 if shape == MESH:
                    assert np.linalg.norm(hull["vertex"] - core, axis=1).min() < tol, where
                case 10 | 11:  # a place on the axis
                    assert np.abs(core[:2]).max() < tol and abs(core[2]) < size[1], where
                case 0:
                    np.testing.assert_allclose(core, fixed, atol=tol, err_msg=str(where))
                case 1 | 12:
                    assert abs(edge @ n) < tol, where
                    assert np.count_nonzero(pin) == {BOX: 2}.get(shape, 0) + (kind == 12), where
                    apart = core - fixed
                    assert abs(apart @ normal) < tol, where
                    if types != (BOX, BOX):  # whose edges may pass by each other
                        np.testing.assert_allclose(np.cross(apart, local), 0, atol=tol, err_msg=str(where))
                case 2:
                    axis = np.abs(normal).argmax()
                    assert abs(abs(normal[axis]) - 1) < tol, where
                    assert shape == PLANE or np.sign(normal[axis]) == pin[axis], where
                    assert abs((core - fixed)[axis]) < tol, where
                    if partner["kind"] == CUT:
                        assert abs(edge @ edge - 1) < tol and abs(edge @ n) < tol, where
                        if types == (BOX, BOX):
                            assert abs(local @ (core - fixed)) < tol and np.count_nonzero(pin) == 2, where
                    elif partner["kind"] == FACE:
                        np.testing.assert_allclose(core, fixed, atol=tol, err_msg=str(where))
                    else:
                        assert np.count_nonzero(pin) == (shape != PLANE), where
                case 3 | 7 | 8:
                    np.testing.assert_allclose(edge, R[:, 2], atol=tol)
                    turn = {CIRCLE: 0.0, LEFT: 2 * np.pi / 3, RIGHT: -2 * np.pi / 3}[kind]
                    rim = turned(turn, [0, 0, 1]) @ flat * size[0] / np.linalg.norm(flat)
                    np.testing.assert_allclose(core, fixed + rim, atol=tol, err_msg=str(where))
                case 4:
                    gradient = core / size**2
                    assert abs(gradient @ core - 1) < tol, where
                    np.testing.assert_allclose(gradient / np.linalg.norm(gradient), normal, atol=tol)
                case 5:
                    apart = core - fixed
                    apart -= (apart @ local) * local
                    np.testing.assert_allclose(apart, 0, atol=tol, err_msg=str(where))
                    assert np.count_nonzero(pin) == (2 if shape == BOX else 0), where
                case 6:
                    assert abs(local @ (core - fixed)) < tol and np.count_nonzero(pin) == 1, where


# --- special poses ---------------------------------------------------------------------------------

I3 = np.eye(3)
X90 = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # axis z becomes -y
Y90 = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])  # axis z becomes x
FLIP = np.diag([1.0, -1, -1])
DIAGONAL = turned(np.arctan(np.sqrt(2)), [1, -1, 0])  # a corner of a box looks along z

# Types, pose and sizes of shape 2, axes and sizes of shape 1, which is at 0; number of contacts, features of the first.
SPECIAL = {
    "two spheres in one place": ((SPHERE, SPHERE), (0, 0, 0), X90, (0.3,), I3, (0.1,), 1, (POINT, POINT)),
    "two like spheres in one place": ((SPHERE, SPHERE), (0, 0, 0), I3, (0.3,), I3, (0.1,), 1, (POINT, POINT)),
    "sphere on the axis of a capsule": ((SPHERE, CAPSULE), (0, 0, 0.1), X90, (0.1, 0.3), I3, (0.2,), 1, (POINT, LINE)),
    "sphere on the axis of a like capsule": (
        (SPHERE, CAPSULE), (0, 0, 0.1), I3, (0.1, 0.3), I3, (0.2,), 1, (POINT, LINE),
    ),
    "sphere at the end of a capsule": (
        (SPHERE, CAPSULE), (0, 0, -0.35), I3, (0.1, 0.3), I3, (0.2,), 1, (POINT, POINT),
    ),
    "sphere on the axis of a cylinder": (
        (SPHERE, CYLINDER), (0, 0.1, 0), X90, (0.1, 0.3), I3, (0.2,), 1, (POINT, LINE),
    ),
    "sphere in a cylinder, near a cap": (
        (SPHERE, CYLINDER), (0.01, 0, 0.25), I3, (0.4, 0.3), X90, (0.2,), 1, (POINT, FLAT),
    ),
    "sphere in a cylinder, near its side": (
        (SPHERE, CYLINDER), (0.3, 0, 0.05), I3, (0.4, 0.3), X90, (0.2,), 1, (POINT, LINE),
    ),
    "sphere in the centre of a cylinder": (
        (SPHERE, CYLINDER), (0, 0, 0), I3, (0.4, 0.3), X90, (0.2,), 1, (POINT, FLAT),
    ),
    "sphere in the centre of a box": ((SPHERE, BOX), (0, 0, 0), Y90, (0.3, 0.2, 0.4), I3, (0.1,), 1, (POINT, FLAT)),
    "sphere in a box": ((SPHERE, BOX), (0.1, -0.1, 0.3), I3, (0.3, 0.2, 0.4), I3, (0.1,), 1, (POINT, FLAT)),
    "sphere at an edge of a box": ((SPHERE, BOX), (0.35, 0, 0.45), I3, (0.3, 0.2, 0.4), I3, (0.1,), 1, (POINT, LINE)),
    "parallel capsules": (
        (CAPSULE, CAPSULE), (0.25, 0, 0.1), I3, (0.1, 0.2), I3, (0.2, 0.4), 2, (LINE, POINT),
    ),
    "opposite capsules": (
        (CAPSULE, CAPSULE), (0.25, 0, 0.1), FLIP, (0.1, 0.5), I3, (0.2, 0.3), 2, (POINT, LINE),
    ),
    "parallel capsules, one farther": (
        (CAPSULE, CAPSULE), (0.2, 0, 0.45), I3, (0.1, 0.4), I3, (0.2, 0.3), 2, (LINE, POINT),
    ),
    "capsules end to end": (
        (CAPSULE, CAPSULE), (0, 0, 0.95), I3, (0.1, 0.4), I3, (0.2, 0.3), 2, (POINT, POINT),
    ),
    "capsules one in another": (
        (CAPSULE, CAPSULE), (0, 0, 0.1), I3, (0.1, 0.2), I3, (0.2, 0.4), 2, (LINE, POINT),
    ),
    "crossing capsules": ((CAPSULE, CAPSULE), (0, 0, 0.1), X90, (0.1, 0.2), I3, (0.2, 0.4), 1, (LINE, LINE)),
    "upright cylinder": ((PLANE, CYLINDER), (0.1, 0.2, 0.29), I3, (0.2, 0.3), I3, (1,), 3, (FLAT, POINT)),
    "cylinder upside down": ((PLANE, CYLINDER), (0.1, 0.2, 0.29), FLIP, (0.2, 0.3), I3, (1,), 3, (FLAT, POINT)),
    "sunken cylinder": ((PLANE, CYLINDER), (0.1, 0.2, -0.31), I3, (0.2, 0.3), I3, (1,), 4, (FLAT, POINT)),
    "lying cylinder": ((PLANE, CYLINDER), (0.1, 0.2, 0.19), Y90, (0.2, 0.3), I3, (1,), 2, (FLAT, CIRCLE)),
    "sunken lying cylinder": ((PLANE, CYLINDER), (0.1, 0.2, -0.15), Y90, (0.2, 0.3), I3, (1,), 4, (FLAT, CIRCLE)),
    "upright capsule": ((PLANE, CAPSULE), (0.1, 0.2, 0.49), I3, (0.2, 0.3), I3, (1,), 1, (FLAT, POINT)),
    "box flat on a plane": ((PLANE, BOX), (0.1, 0.2, 0.29), X90, (0.2, 0.3, 0.4), I3, (1,), 4, (FLAT, POINT)),
    "sunken box": ((PLANE, BOX), (0.1, 0.2, -1), I3, (0.2, 0.3, 0.4), I3, (1,), 4, (FLAT, POINT)),
    "ellipsoid upright": ((PLANE, ELLIPSOID), (0, 0, 0.39), I3, (0.2, 0.3, 0.4), I3, (1,), 1, (FLAT, SMOOTH)),
    "capsule lying on a box": (
        (CAPSULE, BOX), (0.01, 0.02, -0.49), I3, (0.5, 0.6, 0.4), Y90, (0.1, 0.3), 2, (POINT, FLAT),
    ),
    "capsule longer than a box": (
        (CAPSULE, BOX), (0.01, 0.02, -0.49), I3, (0.2, 0.6, 0.4), Y90, (0.1, 0.3), 1, (LINE, LINE),
    ),
    "capsule half on a box": (
        (CAPSULE, BOX), (0.3, 0.02, -0.49), I3, (0.2, 0.6, 0.4), Y90, (0.1, 0.3), 2, (POINT, FLAT),
    ),
    "capsule along an edge of a box": (
        (CAPSULE, BOX), (0.01, 0.65, -0.45), I3, (0.2, 0.6, 0.4), Y90, (0.1, 0.3), 2, (LINE, POINT),
    ),
    "capsule upright on a box": (
        (CAPSULE, BOX), (0.01, 0.02, -0.79), I3, (0.2, 0.6, 0.4), I3, (0.1, 0.3), 1, (POINT, FLAT),
    ),
    "capsule through a box": (
        (CAPSULE, BOX), (0.01, 0.02, -0.03), I3, (0.2, 0.1, 0.15), turned(1, [1, 2, 3]), (0.1, 0.9), None, None,
    ),
    "capsule across an edge of a box": (
        (CAPSULE, BOX), (0.24, 0.01, -0.45), I3, (0.2, 0.6, 0.4),
        turned(-0.7, [0, 1, 0]) @ X90, (0.1, 0.3), 2, (POINT, LINE),
    ),
    "capsule at a corner of a box": (
        (CAPSULE, BOX), (-0.24, 0.63, -0.43), I3, (0.2, 0.6, 0.4), turned(0.7, [1, 1, 0]), (0.1, 0.3), None, None,
    ),
    "box on a like box": (
        (BOX, BOX), (0, 0, 0.59), I3, (0.2, 0.25, 0.3), I3, (0.2, 0.25, 0.3), 4, (FLAT, POINT),
    ),
    "box shifted on a box": ((BOX, BOX), (0.1, 0.15, 0.59), I3, (0.2, 0.25, 0.3), I3, (0.2, 0.25, 0.3), 4, None),
    "box turned on a box": (
        (BOX, BOX), (0, 0, 0.59), turned(np.pi / 4, [0, 0, 1]), (0.2, 0.21, 0.3), I3, (0.2, 0.22, 0.3), 8, None,
    ),
    "small box on a large one": (
        (BOX, BOX), (0.05, 0, 0.39), turned(0.3, [0, 0, 1]), (0.1, 0.12, 0.1), I3, (0.4, 0.42, 0.3), 4, (FLAT, POINT),
    ),
    "large box on a small one": (
        (BOX, BOX), (0.05, 0, 0.385), turned(0.03, [1, 2, 0]), (0.4, 0.42, 0.3), I3, (0.1, 0.12, 0.1), 4, None,
    ),
    "crossing edges of boxes": (
        (BOX, BOX), (0, 0, 0.55), turned(np.pi / 4, [1, 0, 0]), (0.4, 0.2, 0.2),
        turned(np.pi / 4, [0, 1, 0]), (0.2, 0.4, 0.2), 1, (LINE, LINE),
    ),
    "corner of a box on a box": (
        (BOX, BOX), (0.01, 0.02, 0.64), DIAGONAL, (0.2, 0.2, 0.2), I3, (0.4, 0.4, 0.3), 1, (FLAT, POINT),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_poses(double, name):
    types, place, R2, size2, R1, size1, count, kinds = SPECIAL[name]
    x = np.array([[np.zeros(3)], [place]])
    R = np.array([[R1], [R2]])
    size = np.array([[np.resize(size1, 3)], [np.resize(size2, 3)]], dtype=float)
    ours, theirs = double(types, x, R, size, np.zeros(1)), Oracle(types)(x, R, size, np.zeros(1))
    worst, other, _swapped = compare(ours, theirs)
    assert not other and worst.max() < 1e-12
    found = ours[0]
    assert count is None or len(found["dist"]) == count
    if kinds is not None:
        assert (found["feature1"][0]["kind"], found["feature2"][0]["kind"]) == kinds
    check_features(types, [(x[s, 0], R[s, 0], size[s, 0]) for s in (0, 1)], found, None)
