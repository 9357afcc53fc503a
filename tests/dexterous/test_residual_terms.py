"""Every residual, shape and Jacobian of the hand: against differences, and products against each other."""

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.dexterous import Hand, terms
from pullback.dexterous.shapes import Ball, Box, Capsule, Cylinder, HalfSpace, Placed, Union
from pullback.spatial import quat_exp, quat_mul

TURN = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
TURN *= np.linalg.det(TURN)
SHAPES = {
    "ball": Ball(0.03),
    "box": Box(np.array([0.03, 0.02, 0.04])),
    "capsule": Capsule(0.02, 0.03),
    "cylinder": Cylinder(0.02, 0.03),
    "placed": Placed(Capsule(0.02, 0.03), np.array([0.01, 0.02, -0.01]), TURN),
    "union": Union((Box(np.array([0.02, 0.02, 0.02])), Placed(Ball(0.02), np.array([0.05, 0.0, 0.0]), np.eye(3)))),
    "half-space": HalfSpace(0.01),
}


def scattered(count=40, scale=0.03, seed=0):
    return scale * np.random.default_rng(seed).standard_normal((count, 3))


def slope_error(function, x, slope):
    """The largest error of a slope (..., m, n), against the best of central differences at three sizes of step."""
    errors = []
    for h in (1e-5, 1e-6, 1e-7):
        step = h * np.eye(x.shape[-1])
        sides = [np.stack([function(x + sign * one) for one in step], axis=-1) for sign in (1, -1)]
        errors.append(np.abs((sides[0] - sides[1]) / (2 * h) - slope).max() / max(np.abs(slope).max(), 1e-12))
    return min(errors)


@pytest.mark.parametrize("name", SHAPES)
def test_slopes_of_shapes(name):
    shape, x = SHAPES[name], scattered()
    distance, gradient = shape.distance(x)
    assert distance.min() < 0 < distance.max()
    assert np.allclose(np.linalg.norm(gradient, axis=-1), 1)
    assert slope_error(lambda x: shape.distance(x)[0], x, gradient) < 1e-7
    for method in (shape.normal, shape.outside, lambda x: shape.rim(x, 0.008)):
        assert slope_error(lambda x, f=method: f(x)[0], x, method(x)[1]) < 1e-7
    out = np.linalg.norm(shape.outside(x)[0], axis=-1)
    assert np.allclose(out, np.maximum(distance, 0), atol=1e-12)


def test_rims_are_along_edges():
    box, cylinder = SHAPES["box"], SHAPES["cylinder"]
    points = np.array([[0.03, 0.0, 0.0], [0.03, 0.01, 0.035], [0.029, -0.02, 0.0], [0.0, 0.0, -0.04]])
    expected = [[0, 0, 0], [0, 0, 0.005], [0.009, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(box.rim(points, 0.01)[0], expected, atol=1e-12)
    points = np.array([[0.02, 0.0, 0.0], [0.0, 0.02, 0.025], [0.0, -0.015, -0.03], [0.0, 0.0, 0.03]])
    expected = [[0, 0, 0], [0, 0, 0.005], [0, -0.005, 0], [0, 0, 0]]
    np.testing.assert_allclose(cylinder.rim(points, 0.01)[0], expected, atol=1e-12)
    for name in ("ball", "capsule", "half-space"):
        assert not np.any(SHAPES[name].rim(scattered(), 0.01)[0])


@pytest.mark.parametrize("name", ["ball", "box", "capsule", "cylinder"])
def test_distances_are_mujocos(name):
    sizes = {"ball": "0.03", "box": "0.03 0.02 0.04", "capsule": "0.02 0.03", "cylinder": "0.02 0.03"}
    kind = {"ball": "sphere"}.get(name, name)
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody><geom type='{kind}' size='{sizes[name]}'/><body><freejoint/>"
        "<geom type='sphere' size='0.001'/></body></worldbody></mujoco>"
    )
    data, beside = mujoco.MjData(model), 0
    for x, ours in zip(scattered(), SHAPES[name].distance(scattered())[0], strict=True):
        data.qpos[:3] = x
        mujoco.mj_kinematics(model, data)
        if ours > 0.002:  # apart: of shapes that overlap MuJoCo gives another distance
            theirs = mujoco.mj_geomDistance(model, data, 0, 1, 1.0, None)
            assert theirs + 0.001 == pytest.approx(ours, abs=1e-6)
            beside += 1
    assert beside > 10


def test_balls_fill_a_shape():
    """No ball sticks out, and their hull reaches as far as the shape does."""
    directions = scattered(200, 1.0)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    for name in ("ball", "box", "capsule", "cylinder", "placed", "union"):
        centres, radii = SHAPES[name].balls()
        assert np.all(SHAPES[name].distance(centres)[0] + radii < 1e-9), name
    for name in ("ball", "box", "capsule"):
        centres, radii = SHAPES[name].balls()
        far = np.max(directions @ centres.T + radii, axis=-1)
        x = 0.2 * directions
        support = np.max((x - SHAPES[name].outside(x)[0]) @ directions.T, axis=0)
        assert np.all(far >= support - 1e-9), name


def vectors(seed=1):
    random = np.random.default_rng(seed)
    inward = random.standard_normal((60, 3))
    inward /= np.linalg.norm(inward, axis=-1, keepdims=True)
    scales = {"d": 0.01, "w": 0.1, "f": 0.3, "p": 0.03, "s": 0.01, "q": 1.0, "x": 0.1, "p0": 0.03, "p1": 0.03}
    return {name: scale * random.standard_normal((60, 3)) for name, scale in scales.items()} | {"inward": inward}


def facing(p):
    """Inward normals of a box, as they follow a point on it."""
    normal, slope = SHAPES["box"].normal(p)
    return -normal, {"p": -slope}


TERMS = {
    "distance": (("d", "f"), lambda d, f: terms.times_force(d, f, "d")),
    "slip": (("w", "f"), lambda w, f: terms.times_force(w, f, "w")),
    "dissipation": (("w", "f"), terms.dissipation),
    "edge": (("p",), lambda p: terms.off_edges(SHAPES["cylinder"], p, "p", 0.01)),
    "untwisted": (
        ("p0", "p1"),
        lambda p0, p1: terms.untwisted(
            [p0, p1], [SHAPES[name].normal(p) for name, p in (("box", p0), ("cylinder", p1))]
        ),
    ),
    "within": (("p",), lambda p: terms.within(SHAPES["cylinder"], p, "p")),
    "cone": (("f", "p"), lambda f, p: terms.cone(f, *facing(p), 0.7)),
    "grip": (("f", "p"), lambda f, p: terms.grip(f, *facing(p), 0.1)),
    "closer": (("d",), lambda d: terms.closer(d, {"d": np.broadcast_to(np.eye(3), (*d.shape, 3))}, 0.003)),
    "slip near": (("w", "d"), lambda w, d: terms.slip_near(w, d, 0.02)),
    "limits": (("q",), lambda q: terms.limits(q, np.array([-0.5, -1.0, -np.inf]), np.array([0.5, 1.0, np.inf]))),
    "place": (("x",), lambda x: terms.place(x, np.ones(3))),
    "near": (("f",), lambda f: terms.near(f, np.ones(3), "f")),
}


@pytest.mark.parametrize("name", TERMS)
def test_residuals(name):
    names, term = TERMS[name]
    given = {one: vectors()[one] for one in names}
    rows = term(**given)
    active = np.any(rows.value != 0, axis=-1)
    assert active.sum() > 10 and set(rows.slopes) == set(names)
    for one in names:
        assert np.abs(rows.slopes[one]).max() > 0.01
        assert slope_error(lambda x, one=one: term(**{**given, one: x}).value, given[one], rows.slopes[one]) < 1e-7
    random = np.random.default_rng(5)
    tangents = {one: random.standard_normal(given[one].shape) for one in names}
    bar = random.standard_normal(rows.value.shape)
    there = np.sum(bar * rows.jvp(tangents))
    back = sum(np.sum(tangents[one] * part) for one, part in rows.vjp(bar).items())
    assert there == pytest.approx(back, rel=1e-12) and there != 0
    assert np.allclose((rows * 3.0).jvp(tangents), 3 * rows.jvp(tangents))


def test_a_turn_has_no_second_minimum():
    """Half a turn away, where the skew part of the rotation matrix is zero, the residual is as large as can be."""
    goal = quat_exp(np.array([0.3, -0.2, 0.5]))
    phi = np.random.default_rng(2).standard_normal((20, 3))
    quat = quat_mul(goal, quat_exp(phi))
    rows = terms.turned(quat, goal)
    moved = lambda d: terms.turned(quat_mul(quat, quat_exp(d)), goal).value  # noqa: E731
    assert slope_error(moved, np.zeros((20, 3)), rows.slopes["turn"]) < 1e-7
    away = terms.turned(quat_mul(goal, quat_exp(np.array([3.1, 0, 0]))), goal)
    assert np.linalg.norm(away.value) == pytest.approx(3.1) and np.linalg.norm(away.slopes["turn"][:, 0]) > 0.9


def test_a_cone_measures_the_distance_to_it():
    random, up = np.random.default_rng(0), np.array([0.0, 0.0, 1.0])
    f = random.standard_normal((200, 3))
    value = terms.cone(f, np.broadcast_to(up, f.shape), {}, 0.7).value[:, 0]
    angle, size = random.uniform(0, 2 * np.pi, 40000), random.uniform(0, 4, 40000)
    share = np.sqrt(random.uniform(0, 1, 40000))
    inside = size[:, None] * np.stack([0.7 * share * np.cos(angle), 0.7 * share * np.sin(angle), 0 * angle + 1], -1)
    nearest = np.array([np.linalg.norm(inside - one, axis=-1).min() for one in f])
    within = np.hypot(f[:, 0], f[:, 1]) <= 0.7 * f[:, 2]
    assert np.all(value[within] == 0) and 10 < within.sum() < 190
    over = nearest[~within] - value[~within]  # of some points in the cone, none is nearer than the nearest of all
    assert over.min() > -1e-9 and np.median(over) < 0.01 and over.max() < 0.2


@pytest.mark.parametrize("robot", ["arm", "fingertips"])
def test_a_hand_moves_as_in_mujoco(robot):
    model = pb.load(getattr(pb.robots, robot)())
    m = model.mujoco
    hand = Hand(model, [m.body(m.nbody - 1).name])
    random = np.random.default_rng(0)
    q, u = random.uniform(-1, 1, (4, hand.n)), random.standard_normal((4, hand.n))
    bodies = [m.nbody - 1, m.nbody // 2]
    local = 0.1 * random.standard_normal((4, 2, 3))
    pose = hand.pose(q)
    points = hand.points(pose, bodies, local)
    J, W = hand.jacobians(pose, bodies, points)
    data = mujoco.MjData(m)
    for k in range(4):
        data.qpos[:] = q[k]
        mujoco.mj_kinematics(m, data)
        mujoco.mj_comPos(m, data)
        for i, body in enumerate(bodies):
            assert np.allclose(points[k, i], data.xpos[body] + data.xmat[body].reshape(3, 3) @ local[k, i], atol=1e-12)
            jp, jr = np.zeros((3, m.nv)), np.zeros((3, m.nv))
            mujoco.mj_jac(m, data, jp, jr, points[k, i], body)
            assert np.allclose(J[k, i], jp, atol=1e-12) and np.allclose(W[k, i], jr, atol=1e-12)

    def velocity(q):
        pose = hand.pose(q)
        J, _ = hand.jacobians(pose, bodies, hand.points(pose, bodies, local))
        return (J @ u[:, None, :, None])[..., 0]

    slopes = hand.velocity_slopes(J, W, u)
    assert np.abs(slopes).max() > 0.1 or robot == "fingertips"
    for j in range(hand.n):
        step = 1e-6 * np.eye(hand.n)[j]
        assert np.allclose((velocity(q + step) - velocity(q - step)) / 2e-6, slopes[..., j], atol=1e-8)
