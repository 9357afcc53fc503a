"""Differences of configurations, and how they move."""

import numpy as np
from trees import random_states, random_tree

import pullback as pb
from pullback.model.tangent import difference, difference_jacobian, integrate
from pullback.spatial import log_jacobian, quat_exp, quat_log, quat_mul


def test_difference_undoes_integrate():
    model = pb.load(random_tree(8, bodies=6))
    rng = np.random.default_rng(0)
    q, _ = random_states(model.mujoco, rng, 5, unit=False)
    dq = rng.uniform(-1, 1, (5, model.nv))
    assert model.nq > model.nv
    np.testing.assert_allclose(difference(model, q, integrate(model, q, dq)), dq, atol=1e-12)


def test_difference_jacobian():
    model = pb.load(random_tree(8, bodies=6))
    rng = np.random.default_rng(1)
    base, _ = random_states(model.mujoco, rng, 3)
    q = integrate(model, base, rng.uniform(-0.8, 0.8, (3, model.nv)))
    jacobian = difference_jacobian(model, difference(model, base, q))
    for i in range(model.nv):
        move = 1e-6 * np.eye(model.nv)[i]
        up, down = (difference(model, base, integrate(model, q, sign * move)) for sign in (1, -1))
        np.testing.assert_allclose(jacobian[..., i], (up - down) / 2e-6, atol=1e-8)
    assert np.abs(jacobian - np.eye(model.nv)).max() > 0.1


def test_log_jacobian_at_small_and_large_angles():
    rng = np.random.default_rng(2)
    for angle in (0.0, 1e-9, 1e-5, 9.9e-4, 1.01e-3, 0.1, 3.0):
        phi = rng.normal(size=3)
        phi *= angle / np.linalg.norm(phi)
        moves = [1e-5 * e for e in np.eye(3)]
        by = [(quat_log(quat_mul(quat_exp(phi), quat_exp(m))) - quat_log(quat_mul(quat_exp(phi), quat_exp(-m)))) / 2e-5
              for m in moves]  # fmt: skip
        np.testing.assert_allclose(log_jacobian(phi), np.transpose(by), atol=1e-8)
