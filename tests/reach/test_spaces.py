"""Spaces of poses: steps, differences and relative poses are what matrices say, and bad rows are named."""

import numpy as np
import pytest

import pullback as pb
from pullback.reach import space

NAMES = ("R2", "SO2", "SE2", "R3", "SO3", "SE3")
SIZES = {"R2": (2, 2, 2), "SO2": (1, 4, 1), "SE2": (3, 6, 3), "R3": (3, 3, 3), "SO3": (4, 9, 3), "SE3": (7, 12, 6)}


def some(name, n=40, seed=0):
    s = space(name)
    box = np.stack([-np.ones(s.dimensions), 2 * np.ones(s.dimensions)])
    return s, s.random(n, box, np.random.default_rng(seed))


def matrix(s, poses):
    """Homogeneous matrices (n, d + 1, d + 1) of poses; d is 2 or 3."""
    d = s.dimensions or {"SO2": 2, "SO3": 3}[s.name]
    T = np.tile(np.eye(d + 1), (len(poses), 1, 1))
    T[:, : s.dimensions, d] = poses[:, : s.dimensions]
    if s.rotation != "none":
        T[:, :d, :d] = s.rotation_matrix(poses)
    return T


@pytest.mark.parametrize("name", NAMES)
def test_sizes(name):
    s, poses = some(name)
    assert (s.sample_size, s.feature_size, s.tangent_size) == SIZES[name]
    assert s.features(poses).shape == (40, s.feature_size)


@pytest.mark.parametrize("name", NAMES)
def test_difference_undoes_integrate(name):
    s, poses = some(name)
    steps = np.random.default_rng(1).uniform(-1, 1, (40, s.tangent_size))
    np.testing.assert_allclose(s.difference(poses, s.integrate(poses, steps)), steps, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_relative_and_composed_poses_are_products_of_matrices(name):
    s, base = some(name, seed=0)
    _, poses = some(name, seed=1)
    seen = np.linalg.inv(matrix(s, base)) @ matrix(s, poses)
    np.testing.assert_allclose(matrix(s, s.relative(base, poses)), seen, atol=1e-12)
    np.testing.assert_allclose(matrix(s, s.compose(base, poses)), matrix(s, base) @ matrix(s, poses), atol=1e-12)
    np.testing.assert_array_equal(s.compose(base[0], poses)[3], s.compose(base[0], poses[3]))


@pytest.mark.parametrize("name", NAMES)
def test_relative_jacobians(name):
    s, base = some(name, n=5, seed=0)
    _, poses = some(name, n=5, seed=1)
    seen = s.relative(base, poses)
    by_base, by_poses = s.relative_jacobians(base, poses)
    for h in (1e-5, 1e-6):
        for k, axis in enumerate(np.eye(s.tangent_size)):
            moved = [s.difference(seen, s.relative(s.integrate(base, d * h * axis), poses)) for d in (1, -1)]
            np.testing.assert_allclose(by_base[..., k], (moved[0] - moved[1]) / (2 * h), atol=1e-8)
            moved = [s.difference(seen, s.relative(base, s.integrate(poses, d * h * axis))) for d in (1, -1)]
            np.testing.assert_allclose(by_poses[..., k], (moved[0] - moved[1]) / (2 * h), atol=1e-8)


def test_a_step_of_the_position_is_along_the_axes_of_the_frame_and_a_turn_about_those_of_the_body():
    s = space("SE3")
    sideways = np.array([0, 0, 0, np.sqrt(0.5), 0, 0, np.sqrt(0.5)])  # turned by 90° about z
    moved = s.integrate(sideways, np.array([1.0, 0, 0, 0, 0, 0]))
    np.testing.assert_allclose(moved[:3], [1, 0, 0])
    turned = s.rotation_matrix(s.integrate(sideways, np.array([0, 0, 0, 0.1, 0, 0])))
    np.testing.assert_allclose(turned[:, 0], [0, 1, 0], atol=1e-12)  # its x axis, about which it turned


def test_grid_and_bounds():
    s = space("SE2")
    poses = s.grid([0.3, 0.4, 0.5], (0, 2), [(-1, 1), (-0.2, 0.2)], (5, 3))
    assert poses.shape == (5, 3, 3)
    np.testing.assert_allclose(poses[:, 1, 0], np.linspace(-1, 1, 5))
    np.testing.assert_allclose(poses[0, :, 2], [0.3, 0.5, 0.7])
    assert np.all(poses[..., 1] == 0.4)
    np.testing.assert_allclose(s.bounds([[0, 0, 0], [1, 2, 0]], 1.2), [[-0.1, -0.2], [1.1, 2.2]])


BAD = {
    "an unknown space": (lambda: space("SE4"), "there is no space 'SE4'"),
    "a wrong shape": (lambda: space("SE3").check(np.zeros((4, 6))), r"shape \(4, 6\), but \(n, 7\)"),
    "NaN": (lambda: space("R2").check([[0, 0], [0, np.nan]]), "row 1 of poses is not finite"),
    "a zero quaternion": (lambda: space("SO3").check([[1, 0, 0, 0], [0, 0, 0, 0]]), "row 1 of poses has no length"),
    "text": (lambda: space("R2").check([["a", "b"]]), "cannot be read as an array of numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    call, message = BAD[kind]
    with pytest.raises(pb.PullbackError, match=message):
        call()
