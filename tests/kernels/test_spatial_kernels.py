"""Spatial operators inside kernels, against NumPy: at every size of angle, in both precisions."""

import numpy as np
import pytest
import warp as wp

from pullback import spatial as rim
from pullback.kernels import specialise

EPS = {"float64": 2.3e-16, "float32": 1.2e-7}
# Around every switch from a series to a closed form, and up to half a turn and beyond.
ANGLES = [0.0, 1e-12, 1e-6, 9.9e-3, 1.01e-2, 0.0199, 0.0201, 0.0999, 0.1001, 0.199, 0.201, 1.0, 3.0, 3.14159]


def evaluator(precision: str):
    """A kernel of every operator of rotation vectors: phi, x, y to rows of results."""
    s = specialise(precision, "spatial.algebra")
    vec3, vec4 = s.vec3, s.vec4
    exp, log, jac, jac_t = s.quat_exp, s.quat_log, s.exp_jacobian, s.exp_jacobian_transposed
    inv, inv_t, inv_adjoint = s.log_jacobian, s.log_jacobian_transposed, s.log_jacobian_adjoint
    matrix, rotate = s.quat_matrix, s.quat_rotate

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        phi: wp.array(dtype=vec3),
        x: wp.array(dtype=vec3),
        y: wp.array(dtype=vec3),
        quat: wp.array(dtype=vec4),
        out: wp.array2d(dtype=vec3),
    ):
        i = wp.tid()
        q = exp(phi[i])
        quat[i] = q
        out[i, 0] = log(q)
        out[i, 1] = jac(phi[i], x[i])
        out[i, 2] = jac_t(phi[i], x[i])
        out[i, 3] = inv(phi[i], x[i])
        out[i, 4] = inv_t(phi[i], x[i])
        out[i, 5] = inv_adjoint(phi[i], x[i], y[i])
        out[i, 6] = matrix(q) * x[i]
        out[i, 7] = rotate(q, x[i])

    def call(phi: np.ndarray, x: np.ndarray, y: np.ndarray):
        arrays = [wp.array(a.astype(precision), dtype=vec3, device="cpu") for a in (phi, x, y)]
        quat = wp.zeros(len(phi), dtype=vec4, device="cpu")
        out = wp.zeros((len(phi), 8), dtype=vec3, device="cpu")
        wp.launch(evaluate, dim=len(phi), inputs=[*arrays, quat, out], device="cpu")
        return quat.numpy().astype(float), out.numpy().astype(float)

    return call


@pytest.fixture(scope="module", params=["float64", "float32"])
def precision(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def found(precision):
    """Inputs in the kernel's own precision, and what it makes of them."""
    rng = np.random.default_rng(0)
    angles = np.repeat(ANGLES, 5)
    axis = rng.normal(size=(len(angles), 3))
    phi = angles[:, None] * axis / np.linalg.norm(axis, axis=1, keepdims=True)
    phi, x, y = (a.astype(precision).astype(float) for a in (phi, *rng.normal(size=(2, len(angles), 3))))
    quat, out = evaluator(precision)(phi, x, y)
    return phi, x, y, quat, out


def right_jacobian(phi: np.ndarray) -> np.ndarray:
    """The right Jacobian of the exponential, (3, 3), by its power series: Σ (-[phi])ᵏ / (k + 1)!"""
    hat = np.array([[0, -phi[2], phi[1]], [phi[2], 0, -phi[0]], [-phi[1], phi[0], 0]])
    total, term = np.eye(3), np.eye(3)
    for k in range(1, 40):
        term = term @ (-hat) / (k + 1)
        total = total + term
    return total


def test_exponential_and_logarithm(found, precision):
    phi, _, _, quat, out = found
    np.testing.assert_allclose(quat, rim.quat_exp(phi), atol=8 * EPS[precision])
    np.testing.assert_allclose(out[:, 0], phi, atol=40 * EPS[precision])


def test_rotation_of_a_vector(found, precision):
    phi, x, _, _, out = found
    exact = np.einsum("nij,nj->ni", rim.quat_matrix(rim.quat_exp(phi)), x)
    np.testing.assert_allclose(out[:, 6], exact, atol=40 * EPS[precision])
    np.testing.assert_allclose(out[:, 7], exact, atol=40 * EPS[precision])


def test_jacobians_of_the_exponential(found, precision):
    phi, x, _, _, out = found
    J = np.stack([right_jacobian(p) for p in phi])
    tolerance = 100 * EPS[precision]
    np.testing.assert_allclose(out[:, 1], np.einsum("nij,nj->ni", J, x), atol=tolerance)
    np.testing.assert_allclose(out[:, 2], np.einsum("nji,nj->ni", J, x), atol=tolerance)
    inverse = np.linalg.inv(J)
    np.testing.assert_allclose(out[:, 3], np.einsum("nij,nj->ni", inverse, x), atol=tolerance)
    np.testing.assert_allclose(out[:, 4], np.einsum("nji,nj->ni", inverse, x), atol=tolerance)


def test_the_cotangent_of_the_rotation_vector_in_the_inverse_jacobian(found, precision):
    phi, x, y, _, out = found

    def pairing(p, a, b) -> float:
        return float(b @ np.linalg.solve(right_jacobian(p), a))

    h = 1e-5
    exact = np.array(
        [
            [(pairing(p + h * e, a, b) - pairing(p - h * e, a, b)) / (2 * h) for e in np.eye(3)]
            for p, a, b in zip(phi, x, y, strict=True)
        ]
    )
    np.testing.assert_allclose(out[:, 5], exact, atol=1e-8 if precision == "float64" else 2e-4)


def test_cotangents_of_quaternions_at_the_rim():
    """A loss of the four numbers of q, which has any length, and of rotations of it: the two bars belong together."""
    rng = np.random.default_rng(1)
    q = rng.normal(size=(6, 4)) * rng.uniform(0.2, 4.0, size=(6, 1))
    weights = rng.normal(size=(6, 3, 3))

    def loss(p: np.ndarray) -> np.ndarray:
        return np.sum(weights * rim.quat_matrix(p), axis=(1, 2))

    h = 1e-6
    by_number = np.stack([(loss(q + h * e) - loss(q - h * e)) / (2 * h) for e in np.eye(4)], axis=1)
    turns = [rim.quat_exp(h * e) for e in np.eye(3)]
    by_turn = np.stack(
        [(loss(rim.quat_mul(q, t)) - loss(rim.quat_mul(q, rim.quat_conj(t)))) / (2 * h) for t in turns], axis=1
    )
    np.testing.assert_allclose(rim.quat_bar_of_tangent(q, by_turn), by_number, atol=1e-8)
    np.testing.assert_allclose(rim.tangent_of_quat_bar(q, by_number), by_turn, atol=1e-8)
    assert np.abs(by_turn).max() > 0.1


def test_both_precisions_come_from_one_source():
    single, double = specialise("float32", "spatial.scalar"), specialise("float64", "spatial.scalar")
    assert single.real is wp.float32 and double.real is wp.float64
    assert single.__file__ == double.__file__
    assert specialise("float32", "tree.structs").Tree is not specialise("float64", "tree.structs").Tree
