"""The adjoint of contact geometry, against differences of a model of its own: all features and shapes that own them."""

import itertools
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import warp as wp
from feature_model import (
    BOX,
    CAPSULE,
    CIRCLE,
    CUT,
    CYLINDER,
    ELLIPSOID,
    ELLIPSOID_SHAPE,
    FACE,
    LEFT,
    LINE,
    MESH,
    OWNERS,
    PLANE,
    PLANE_SHAPE,
    POINT,
    RIGHT,
    SPHERE,
    Contact,
    Crossing,
    axes_with,
    is_steady,
    random_contact,
    unit,
)

from pullback.kernels import specialise

FREE = (POINT, LINE, CIRCLE, ELLIPSOID)
ON_PLANE = (POINT, LINE, PLANE, CIRCLE, LEFT, RIGHT, ELLIPSOID, CUT, FACE)
PAIRS = [(a, b) for a in FREE for b in FREE]
PAIRS += [(PLANE, b) for b in ON_PLANE] + [(b, PLANE) for b in ON_PLANE if b != PLANE]
NAMES = {
    **{POINT: "point", LINE: "line", PLANE: "plane", CIRCLE: "circle", ELLIPSOID: "ellipsoid", CUT: "cut"},
    **{FACE: "face", LEFT: "left", RIGHT: "right"},
}


# --- the adjoint in a kernel -----------------------------------------------------------------------


def evaluator(precision: str):
    """Contacts and cotangents (n, 13) of position, distance, normal and tangents to gradients (n, 18)."""
    scalar, f = specialise(precision, "spatial.scalar"), specialise(precision, "collision.features")
    real, vec3, vec6, mat33 = scalar.real, scalar.vec3, scalar.vec6, scalar.mat33
    shapes = specialise(precision, "collision.shapes")
    adjoint, make, shape = f.contact_adjoint, shapes.feature, shapes.shape

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        label: wp.array2d(dtype=int),  # shapes, kinds, along
        vector: wp.array2d(dtype=vec3),  # sizes, edges, pins, normal, and bars
        number: wp.array2d(dtype=real),  # dist and its bar
        R: wp.array2d(dtype=mat33),
        wrench: wp.array2d(dtype=vec6),
        size_bar: wp.array2d(dtype=vec3),
    ):
        i = wp.tid()
        w1, w2, z1, z2 = adjoint(
            shape(label[i, 0], vec3(), R[i, 0], vector[i, 0], 0, 0), make(label[i, 2], vector[i, 2], vector[i, 4]),
            shape(label[i, 1], vec3(), R[i, 1], vector[i, 1], 0, 0), make(label[i, 3], vector[i, 3], vector[i, 5]),
            vector[i, 6], number[i, 0], label[i, 4],
            vector[i, 7], number[i, 1], vector[i, 8], vector[i, 9], vector[i, 10],
        )  # fmt: skip
        wrench[i, 0] = w1
        wrench[i, 1] = w2
        size_bar[i, 0] = z1
        size_bar[i, 1] = z2

    def call(contacts: list[Contact], bars: np.ndarray) -> np.ndarray:
        label, vector, number, R = [], [], [], []
        for c, b in zip(contacts, bars, strict=True):
            sides = (c.s1, c.s2)
            label.append([*(s.shape for s in sides), *(s.kind for s in sides), c.along])
            vector.append([*(s.size for s in sides), *(s.R @ s.edge for s in sides), *(s.pin for s in sides)])
            vector[-1] += [c.normal, b[:3], b[4:7], b[7:10], b[10:]]
            number.append([c.dist, b[3]])
            R.append([s.R for s in sides])
        inputs = [wp.array(np.array(label, dtype=np.int32), dtype=int, device="cpu")] + [
            wp.array(np.array(x).astype(precision), dtype=t, device="cpu")
            for x, t in ((vector, vec3), (number, real), (R, mat33))
        ]
        n = len(contacts)
        outputs = [wp.zeros((n, 2), dtype=t, device="cpu") for t in (vec6, vec3)]
        wp.launch(evaluate, dim=n, inputs=inputs, outputs=outputs, device="cpu")
        return np.concatenate([x.numpy().reshape(n, -1) for x in outputs], axis=1).astype(float)

    return call


@pytest.fixture(scope="module")
def double():
    return evaluator("float64")


@pytest.fixture(scope="module")
def single():
    return evaluator("float32")


BLOCKS = {"motion 1": slice(0, 6), "motion 2": slice(6, 12), "sizes 1": slice(12, 15), "sizes 2": slice(15, 18)}
STEPS = (2e-3, 1e-3, 5e-4, 2.5e-4, 1e-4)


def differences(contact: Contact, bar: np.ndarray) -> np.ndarray:
    """Gradients (steps, 18) of the pairing with bar, by differences of fourth order."""
    stencil = np.array([-2.0, -1.0, 1.0, 2.0])
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / 12
    offsets = np.einsum("h,s,pq->hpsq", STEPS, stencil, np.eye(18)).reshape(-1, 18)
    pos, dist, n, t1, t2 = contact.found(*contact.moved(offsets))
    loss = np.concatenate([pos, dist[:, None], n, t1, t2], axis=1) @ bar
    return loss.reshape(len(STEPS), 18, 4) @ weights / np.array(STEPS)[:, None]


def errors(contact: Contact, bar: np.ndarray, gradient: np.ndarray) -> dict[str, float]:
    """Relative errors of the blocks of a gradient, each at its best step."""
    exact = differences(contact, bar)
    whole = np.abs(gradient).max()
    return {
        name: float(
            np.min(np.abs(exact[:, k] - gradient[k]).max(axis=1)) / max(np.abs(gradient[k]).max(), 0.03 * whole)
        )
        for name, k in BLOCKS.items()
    }


def draws(kind1: int, kind2: int, repeat: int = 2) -> tuple[list[Contact], np.ndarray]:
    """Contacts of two kinds with every pair of owners, and cotangents."""
    rng = np.random.default_rng([kind1, kind2])
    contacts = []
    for owners in itertools.product(OWNERS[kind1], OWNERS[kind2], range(repeat)):
        contact = next(c for _ in range(100) if is_steady(c := random_contact(rng, kind1, kind2, *owners[:2])))
        contacts.append(contact)
    return contacts, rng.normal(size=(len(contacts), 13))


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_the_model_reproduces_the_contact_it_was_made_for(kind1, kind2):
    for c in draws(kind1, kind2)[0]:
        pos, dist, n, _t1, _t2 = c.found(*c.moved(np.zeros((1, 18))))
        np.testing.assert_allclose(pos[0], c.pos, atol=1e-13)
        np.testing.assert_allclose(dist[0], c.dist, atol=1e-13)
        np.testing.assert_allclose(n[0], c.normal, atol=1e-13)


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_gradients_of_motions_and_sizes(double, kind1, kind2):
    contacts, bars = draws(kind1, kind2)
    for c, bar, gradient in zip(contacts, bars, double(contacts, bars), strict=True):
        found = errors(c, bar, gradient)
        assert max(found.values()) <= 1e-8, (found, c)


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_single_precision(double, single, kind1, kind2):
    contacts, bars = draws(kind1, kind2)
    exact, found = double(contacts, bars), single(contacts, bars)
    for k in BLOCKS.values():
        scale = np.maximum(np.abs(exact[:, k]).max(axis=1), 0.03 * np.abs(exact).max(axis=1))
        assert (np.abs(found - exact)[:, k].max(axis=1) / scale).max() < 1e-4


def test_lines_that_meet(double):
    """Nothing is special about capsules whose axes cross: their normal comes from the axes, not from the gap."""
    contacts, bars = draws(LINE, LINE)
    met = []
    for c in contacts:
        span = c.dist + c.s1.radius + c.s2.radius
        s1, s2 = (replace(s, c=s.c + sign * span / 2 * c.normal) for s, sign in ((c.s1, 1), (c.s2, -1)))
        met.append(Crossing(s1, s2, c.pos, c.normal, c.dist - span, c.along))
    for c, bar, gradient in zip(met, bars, double(met, bars), strict=True):
        np.testing.assert_allclose(c.found(*c.moved(np.zeros((1, 18))))[0][0], c.pos, atol=1e-13)
        found = errors(c, bar, gradient)
        assert max(found.values()) <= 1e-8, (found, c)


# --- where the contact is not determined -----------------------------------------------------------


def degenerate() -> dict[str, Contact]:
    rng = np.random.default_rng(5)
    z = np.array([0.0, 0.0, 1.0])

    def contact(kind1, kind2, owner1, owner2, dist=None, **changes) -> Contact:
        c = next(c for _ in range(100) if is_steady(c := random_contact(rng, kind1, kind2, owner1, owner2)))
        c = replace(c, dist=c.dist if dist is None else dist(c))
        return replace(c, **{k: replace(getattr(c, k), **change(c)) for k, change in changes.items()})

    def touching(c: Contact) -> float:
        return -float(c.s1.radius + c.s2.radius)

    def like_first(c: Contact) -> dict:
        return {"R": c.s1.R, "edge": c.s1.edge}

    def upright(c: Contact) -> dict:
        R = axes_with(np.random.default_rng(0), 2, c.normal)
        return {"R": R, "edge": z}

    def ball(c: Contact) -> dict:
        return {"size": np.full(3, 0.25)}

    return {
        "two balls in one place": contact(POINT, POINT, SPHERE, SPHERE, touching),
        "two corners in one place": contact(POINT, POINT, MESH, MESH, lambda c: 0.0),
        "a ball on a line": contact(POINT, LINE, SPHERE, CAPSULE, touching),
        "parallel lines": contact(LINE, LINE, CAPSULE, CAPSULE, s2=like_first),
        "parallel lines in one place": contact(LINE, LINE, CAPSULE, CAPSULE, touching, s2=like_first),
        "a point in a centre of curvature": contact(POINT, ELLIPSOID, MESH, ELLIPSOID_SHAPE, lambda c: -0.25, s2=ball),
        "a rim with the normal along its axis": contact(POINT, CIRCLE, SPHERE, CYLINDER, s2=upright),
        "an upright cylinder": contact(PLANE, CIRCLE, PLANE_SHAPE, CYLINDER, s2=upright),
        "a third of a turn": contact(PLANE, LEFT, PLANE_SHAPE, CYLINDER, s2=upright),
        "an edge in its side plane": contact(
            PLANE, CUT, BOX, BOX, s2=lambda c: {"R": c.s1.R, "edge": np.cross(c.s1.edge, c.s1.face)}
        ),
        "a face along the normal": contact(PLANE, FACE, BOX, BOX, s2=lambda c: {"R": c.s1.R, "edge": c.s1.edge}),
        "an ellipsoid of no size": contact(
            PLANE, ELLIPSOID, PLANE_SHAPE, ELLIPSOID_SHAPE, s2=lambda c: {"size": np.zeros(3)}
        ),
    }


DEGENERATE = degenerate()


@pytest.mark.parametrize("name", DEGENERATE)
def test_gradients_stay_finite_where_the_contact_is_not_determined(double, single, name):
    rng = np.random.default_rng(1)
    c = replace(DEGENERATE[name], along=0)
    # Exactly, and as rounding may have it.
    near = [replace(c, dist=c.dist + e * rng.normal()) for e in (0.0, 1e-17, 1e-16)]
    bars = np.repeat(rng.normal(size=(1, 13)), len(near), axis=0)
    for evaluate in (double, single):
        gradient = evaluate(near, bars)
        assert np.isfinite(gradient).all() and np.abs(gradient).max() < 100
        # The shares still add up to the whole.
        np.testing.assert_allclose(gradient[:, 3:6] + gradient[:, 9:12], bars[:, :3], atol=1e-4)


def test_an_undetermined_normal_is_fixed_to_the_base(double):
    """As if the base were a PLANE."""
    rng = np.random.default_rng(2)
    for name in ("two balls in one place", "two corners in one place", "parallel lines in one place", "parallel lines"):
        c = DEGENERATE[name]
        bars = rng.normal(size=(1, 13))
        flat = replace(c, s1=replace(c.s1, kind=PLANE, shape=SPHERE))  # a SPHERE, so that it keeps its radius
        np.testing.assert_allclose(double([c], bars)[:, :12], double([flat], bars)[:, :12], atol=1e-13)


def test_a_rim_that_is_upright_up_to_rounding(double):
    """Its point is where rounding says, and stays there."""
    c = replace(DEGENERATE["an upright cylinder"], along=0)
    out = np.array([0.6, -0.8, 0.0])
    tilted = replace(c, normal=-unit(c.s2.R @ (1e-14 * out - [0.0, 0.0, 1.0])))
    fixed = replace(tilted, s2=replace(c.s2, kind=POINT, pin=c.s2.pin + out))
    bars = np.random.default_rng(1).normal(size=(1, 13))
    np.testing.assert_allclose(double([tilted], bars), double([fixed], bars), atol=0.2)


def test_nan_is_handed_on(double):
    for kind1, kind2 in PAIRS:
        contacts, bars = draws(kind1, kind2, 1)
        for k in range(13):
            spoilt = bars[:1].copy()
            spoilt[0, k] = np.nan
            assert np.isnan(double(contacts[:1], spoilt)[0, :12]).any()
        for spoilt in (replace(contacts[0], dist=np.nan), replace(contacts[0], normal=contacts[0].normal * np.nan)):
            assert np.isnan(double([spoilt], bars[:1])[0, :12]).any()


# --- tangents --------------------------------------------------------------------------------------


def tangents(precision: str, normal: np.ndarray, along: np.ndarray, R2: np.ndarray) -> np.ndarray:
    """(n, 2, 3)"""
    scalar = specialise(precision, "spatial.scalar")
    vec3, mat33, frame = scalar.vec3, scalar.mat33, specialise(precision, "collision.features").contact_frame

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(n: wp.array(dtype=vec3), a: wp.array(dtype=int), R: wp.array(dtype=mat33), t: wp.array2d(dtype=vec3)):
        i = wp.tid()
        t1, t2 = frame(n[i], a[i], R[i])
        t[i, 0] = t1
        t[i, 1] = t2

    out = wp.zeros((len(normal), 2), dtype=vec3, device="cpu")
    inputs = [wp.array(x.astype(precision), dtype=t, device="cpu") for x, t in ((normal, vec3), (R2, mat33))]
    along = wp.array(along.astype(np.int32), dtype=int, device="cpu")
    wp.launch(evaluate, dim=len(normal), inputs=[inputs[0], along, inputs[1]], outputs=[out], device="cpu")
    return out.numpy().astype(float)


PLANE_AND_CAPSULE = """
<mujoco><worldbody>
  <body name="floor" mocap="true"><geom type="plane" size="1 1 1"/></body>
  <body><freejoint/><geom type="capsule" size="0.1 0.3"/></body>
</worldbody></mujoco>
"""
BALLS = """
<mujoco><worldbody>
  <geom type="sphere" size="1"/>
  <body><freejoint/><geom type="sphere" size="1"/></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tangents_are_those_of_mujoco(precision):
    rng = np.random.default_rng(3)
    found = []
    model = mujoco.MjModel.from_xml_string(BALLS)
    data = mujoco.MjData(model)
    directions = np.concatenate([rng.normal(size=(100, 3)), np.eye(3), -np.eye(3)])
    for direction in directions:
        data.qpos[:3] = unit(direction)
        mujoco.mj_forward(model, data)
        found.append((data.contact[0].frame.reshape(3, 3).copy(), 0, np.eye(3)))
    model = mujoco.MjModel.from_xml_string(PLANE_AND_CAPSULE)
    data = mujoco.MjData(model)
    for k in range(50):
        # At first a capsule that stands upright on level ground.
        data.mocap_quat[0] = unit(rng.normal(size=4)) if k > 0 else [1, 0, 0, 0]
        data.qpos[3:7] = unit(rng.normal(size=4)) if k > 0 else [1, 0, 0, 0]
        mujoco.mj_forward(model, data)
        found.append((data.contact[0].frame.reshape(3, 3).copy(), 1, data.geom_xmat[1].reshape(3, 3).copy()))
    frames, along, R2 = (np.array(x) for x in zip(*found, strict=True))
    assert len(frames) == 156
    t = tangents(precision, frames[:, 0], along, R2)
    np.testing.assert_allclose(t, frames[:, 1:], atol=1e-12 if precision == "float64" else 1e-5)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tangents_where_the_axis_is_along_the_normal(precision):
    """MuJoCo takes axis x as it is; here it is made orthogonal, or replaced where it is the normal."""
    rng = np.random.default_rng(4)
    normal = unit(np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(50, 3))]))
    R2 = np.stack([axes_with(rng, 2, n * rng.choice([-1.0, 1.0])) for n in normal])
    t = tangents(precision, normal, np.ones(len(normal), dtype=int), R2)
    full = np.concatenate([normal[:, None], t], axis=1)
    np.testing.assert_allclose(
        full @ np.swapaxes(full, 1, 2),
        np.tile(np.eye(3), (len(normal), 1, 1)),
        atol=1e-12 if precision == "float64" else 1e-5,
    )
    assert (np.linalg.det(full) > 0).all()
    np.testing.assert_allclose(t[2, 0], [1.0, 0.0, 0.0], atol=1e-6)
