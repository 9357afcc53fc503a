"""The potential of meshes of triangles: the hierarchy against all pairs of triangles and against NumPy, its gradient
and Hessian against differences where nodes are blended and at both ends of that, and the four properties."""

import mujoco
import numpy as np
import pytest
from mesh_fields import Fields, fields
from mesh_reference import Mesh, Reference, is_layered, tight_radii
from meshes import asset, ball, free, of_mesh, scene, torus

import pullback as pb
from pullback.contact.triangles import hierarchy, mesh_triangles

LENGTH = 0.1
OTHERS = {
    "torus": of_mesh("torus", "1 0 0"),
    "ball": free('size=".06"', "1 0 0"),
    "box": free('type="box" size=".05 .06 .04"', "1 0 0"),
    "rod": free('type="capsule" size=".03 .06"', "1 0 0"),
    "can": free('type="cylinder" size=".04 .06"', "1 0 0"),
}


def system_of(other: str = "torus", blend: float = 0.5, levels: int = 1) -> pb.Articulated:
    """A bumpy ball of some 0.1 m, the last shape, and another."""
    assets = asset("bumpy", ball(levels, 0.1)) + asset("torus", torus(8, 5))
    first, last = OTHERS[other], of_mesh("bumpy")
    contact = pb.ContactLongRange(meshes="triangles", blend=blend, length=LENGTH)
    return pb.Articulated(pb.load(scene(assets, first + last)), contact)


def poses(count: int, near: float, far: float, seed: int = 0) -> np.ndarray:
    """(count, 14): the first body at the origin, the other this far away in all directions, both turned."""
    rng = np.random.default_rng(seed)
    q = np.zeros((count, 14))
    for body in range(2):
        turn = rng.normal(size=(count, 4))
        q[:, 7 * body + 3 : 7 * body + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    way = rng.normal(size=(count, 3))
    q[:, 7:10] = np.geomspace(near, far, count)[:, None] * way / np.linalg.norm(way, axis=1, keepdims=True)
    return q


def moved(q: np.ndarray, motion: np.ndarray, step: float) -> np.ndarray:
    """The second body, moved as by exp(step · motion) about the world's origin."""
    turn, move = step * motion[:3], step * motion[3:]
    angle = np.linalg.norm(turn)
    K = np.array([[0, -turn[2], turn[1]], [turn[2], 0, -turn[0]], [-turn[1], turn[0], 0]])
    R = np.eye(3) + np.sinc(angle / np.pi) * K + 0.5 * np.sinc(angle / 2 / np.pi) ** 2 * K @ K
    V = np.eye(3) + 0.5 * np.sinc(angle / 2 / np.pi) ** 2 * K + K @ K / 6
    half = np.concatenate([[np.cos(angle / 2)], 0.5 * np.sinc(angle / 2 / np.pi) * turn])
    w, x = half[0], half[1:]
    q = q.copy()
    q[:, 7:10] = q[:, 7:10] @ R.T + V @ move
    v, u = q[:, 10].copy(), q[:, 11:14].copy()
    q[:, 10], q[:, 11:14] = w * v - u @ x, v[:, None] * x + w * u + np.cross(x, u)
    return q


def differences(system: pb.Articulated, q: np.ndarray, motion: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the potential and of its gradient, along a motion of the second body."""
    plus, minus = (fields(system, moved(q, motion, side)) for side in (h, -h))
    return (plus.value - minus.value) / (2 * h), (plus.push - minus.push) / (2 * h)


def worst(system: pb.Articulated, q: np.ndarray, seed: int = 0, h: float = 1e-6) -> tuple[float, float]:
    """Errors of gradient and Hessian beside their size, in all motions."""
    here, rng = fields(system, q), np.random.default_rng(seed)
    assert (here.found == 1).all()
    slopes, curves = [], []
    for _ in range(3):
        motion = rng.normal(size=6) * [1, 1, 1, 0.1, 0.1, 0.1]
        slope, curve = differences(system, q, motion, h)
        size = np.abs(here.push).max(axis=1)
        slopes.append(np.abs(here.push @ motion - slope) / size)
        bent = here.slope(motion)
        curves.append(np.abs(bent - curve).max(axis=1) / np.abs(bent).max(axis=1))
    return float(np.max(slopes)), float(np.max(curves))


def placed(system: pb.Articulated, shape: int, q: np.ndarray) -> Mesh:
    """A mesh in the world, where MuJoCo places its geom."""
    m, scene = system.model.mujoco, system._scene
    data, geom = mujoco.MjData(m), scene.geoms[shape]
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    corners = mesh_triangles(m, int(m.geom_dataid[geom]))
    return Mesh(corners, data.geom_xmat[geom].reshape(3, 3), data.geom_xpos[geom])


# --- against other ways to find it --------------------------------------------------------------------------


def test_more_blending_is_nearer_to_all_pairs_of_triangles():
    """Potentials are too low by the variance of distances that a far one leaves out; its slope is in the forces of the
    blend, divided by its width."""
    q = poses(40, 0.28, 0.6, seed=1)
    all_pairs = fields(system_of(blend=1e30), q)
    assert (all_pairs.leaves == 80 * 80).all() and (all_pairs.distance > 0).all()
    errors = []
    for blend, most in ((0.01, 0.12), (0.5, 0.07), (2.0, 0.05), (5.0, 0.02)):
        found = fields(system_of(blend=blend), q)
        low = 1 - found.value / all_pairs.value
        assert (low > 0).all() and low.max() < 0.05
        off = np.linalg.norm(found.push[:, 3:] - all_pairs.push[:, 3:], axis=1)
        errors.append(np.mean(off / np.linalg.norm(all_pairs.push[:, 3:], axis=1)))
        assert errors[-1] < most and (found.leaves <= all_pairs.leaves / (30 if blend < 1 else 1)).all()
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("blend", [0.01, 0.5])
def test_it_is_what_numpy_finds_and_a_version_without_the_slope_is_not(blend):
    system = system_of(blend=blend, levels=0)
    q = poses(6, 0.2, 0.45, seed=3)
    found = fields(system, q)
    assert (found.distance > 0).all()
    bands, off = 0, []
    for i, one in enumerate(q):
        meshes = [placed(system, shape, one) for shape in range(2)]
        reference, wrong = (Reference(*meshes, LENGTH, blend, slope=slope) for slope in (True, False))
        exact, push = reference.sum(), wrong.sum().push
        np.testing.assert_allclose(found.value[i], exact.value, rtol=1e-9)
        np.testing.assert_allclose(found.push[i], exact.push, rtol=1e-7, atol=1e-7 * np.abs(exact.push).max())
        off.append(np.abs(found.push[i] - push).max() / np.abs(push).max())
        bands += len(reference.bands)
        near, far = np.array(reference.bands).reshape(-1, 2).T
        assert (near >= far * (1 - 1e-12)).all()  # so that what the blend adds pushes apart
    assert bands > 5 and max(off) > 1e-2


# --- derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", OTHERS)
def test_gradient_and_hessian(other):
    for blend in (0.01, 0.5):
        slope, curve = worst(system_of(other, blend), poses(10, 0.27, 0.5, seed=2))
        assert slope < 2e-6 and curve < 2e-5, (slope, curve)


def seams(system: pb.Articulated, seed: int) -> np.ndarray:
    """Poses in which the roots are exactly where their blend begins, ends, and in the middle of it."""
    balls, q = system._scene.balls, poses(1, 1.0, 1.0, seed)
    reach = float(balls.radius[balls.root].sum())
    blend = system.contact.blend
    base = np.repeat(q, 3, axis=0)
    first, second = (placed(system, shape, q[0]).centre[0] for shape in range(2))
    way = second - first
    unit = way / np.linalg.norm(way)
    for k, share in enumerate((1.0, 1 + blend / 2, 1 + blend)):
        base[k, 7:10] += (share * reach - np.linalg.norm(way)) * unit
    return base


@pytest.mark.parametrize("blend", [0.05, 0.5])
def test_derivatives_at_both_ends_of_the_blend(blend):
    """Two continuous derivatives: differences across a seam err by the step times the jump of the third."""
    system = system_of(blend=blend)
    q = seams(system, 4)
    slope, curve = worst(system, q, h=1e-8)
    assert slope < 2e-6 and curve < 1e-4, (slope, curve)
    way = np.array([0, 0, 0, *(q[1, 7:10] - q[0, 7:10])])
    way /= np.linalg.norm(way)
    jumps = []
    for h in (1e-7, 1e-8):
        before, after = (fields(system, moved(q, way, side)) for side in (-h, h))
        jumps.append(np.abs(after.curvature - before.curvature).max(axis=(1, 2)))
    assert (jumps[1] < 0.2 * jumps[0] + 1e-9 * np.abs(before.curvature).max(axis=(1, 2))).all()


# --- properties -----------------------------------------------------------------------------------------------


def test_balls_are_layered_and_tight_ones_are_not():
    for mesh in (ball(2, 0.1), torus(12, 7)):
        nodes, _ = hierarchy(mesh[0][mesh[1]])
        assert is_layered(nodes).all()
        assert not is_layered(nodes | {"radius": tight_radii(nodes)}).all()
        count = len(mesh[1])
        assert len(nodes["child"]) == 2 * count - 1
        assert sorted(-1 - nodes["child"][nodes["child"] < 0]) == list(range(count))


def pulls(found: Fields, q: np.ndarray) -> np.ndarray:
    """Where the force on the second body is not away from the first along the line between bodies that are far enough
    apart for it to separate them."""
    way = q[:, 7:10] / np.linalg.norm(q[:, 7:10], axis=1, keepdims=True)
    return np.einsum("ni,ni->n", -found.push[:, 3:], way) <= 0


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("blend", [0.01, 0.5])
def test_forces_push_apart_and_vanish_nowhere(other, blend):
    q = poses(200, 0.27, 1e3, seed=5)
    found = fields(system_of(other, blend), q)
    assert (found.distance > 0).all() and not pulls(found, q).any()
    force = np.linalg.norm(found.push[:, 3:], axis=1)
    assert (force > 0).all()
    r = np.linalg.norm(q[-1, 7:10])  # two points of weight one
    np.testing.assert_allclose(force[-1], 4 * (np.sqrt(LENGTH / r) + LENGTH / r) / r, rtol=1e-2)


@pytest.mark.parametrize("other", OTHERS)
def test_it_is_a_barrier(other):
    """P times the distance does not fall as bodies come together, down to a ten-millionth of their size."""
    system = system_of(other)
    q = poses(1, 0.5, 0.5, seed=6)
    way = q[0, 7:10] / np.linalg.norm(q[0, 7:10])
    for _ in range(60):
        q[0, 7:10] -= 0.5 * fields(system, q).distance[0] * way
        if fields(system, q).distance[0] < 1e-8:
            break
    reached = np.geomspace(1e-8, 1e-3, 6)[:, None]
    found = fields(system, np.repeat(q, 6, axis=0) + np.c_[np.zeros((6, 7)), reached * way, np.zeros((6, 4))])
    assert (found.found == 1).all() and (found.distance > 0).all() and found.distance[0] < 1e-7
    barrier = found.value * found.distance
    assert (barrier[:3] > 1e-6 * LENGTH).all() and (np.diff(found.value) < 0).all()
    np.testing.assert_allclose(barrier[0], barrier[1], rtol=0.3)
