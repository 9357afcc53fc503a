"""Intervals: that they hold what they promise, and that what cannot be known is not claimed."""

import numpy as np
import pytest

import pullback as pb
from pullback.plan import estimate
from pullback.plan.estimate import _quantile

RNG = np.random.default_rng(0)
J = RNG.normal(size=(60, 5)) * [1.0, 3.0, 0.1, 1.0, 10.0]
TRUTH = np.array([1.0, -2.0, 0.5, 3.0, 0.1])


def solved(noise: float, rng) -> tuple[np.ndarray, float]:
    data = J @ TRUTH + noise * rng.normal(size=len(J))
    x = np.linalg.lstsq(J, data, rcond=None)[0]
    return x, float(np.sum((J @ x - data) ** 2) / 2)


def test_coverage_of_a_linear_problem():
    """Of 4000 recordings, 95 % have a true value in its interval, and at least 95 % all of them in the joint ones."""
    rng, count = np.random.default_rng(1), 4000
    inside, together, noise = np.zeros(5), 0, []
    for _ in range(count):
        x, loss = solved(0.3, rng)
        found = estimate(x, loss, J.T @ J, len(J))
        inside += found.covers(TRUTH)
        together += found.covers_all(TRUTH)
        noise.append(found.noise**2)
    deviation = np.sqrt(0.95 * 0.05 / count)
    assert np.all(np.abs(inside / count - 0.95) < 4 * deviation)
    assert 0.95 - 3 * deviation < together / count < 0.97
    np.testing.assert_allclose(np.mean(noise), 0.3**2, rtol=0.02)


def test_standard_errors_are_those_of_the_textbook():
    x, loss = solved(0.3, np.random.default_rng(2))
    found = estimate(x, loss, J.T @ J, len(J), labels="abcde")
    covariance = 2 * loss / (len(J) - 5) * np.linalg.inv(J.T @ J)
    np.testing.assert_allclose(found.standard_errors, np.sqrt(np.diag(covariance)), rtol=1e-10)
    np.testing.assert_allclose((found.high - found.low) / 2, 2.004 * found.standard_errors, rtol=1e-3)  # t, 55 degrees
    assert np.all(found.joint_low < found.low) and found.undetermined == ()
    table = found.table(TRUTH)
    assert len(table.splitlines()) == 6 and "undetermined" not in table


def test_natural_units():
    found = estimate(np.log([2.0, 3.0]), 0.5, np.diag([100.0, 400.0]), 102, natural=np.exp)
    np.testing.assert_allclose(found.values, [2, 3])
    np.testing.assert_allclose(np.log(found.high / found.values), np.log(found.values / found.low))
    np.testing.assert_allclose(found.standard_errors, [0.01, 0.005])


def test_what_cannot_be_told_apart_is_said():
    """Only the sum of two matters, and a fourth has no influence; the third is known all the same."""
    jacobian = np.column_stack([J[:, 0], J[:, 0], J[:, 1], 0 * J[:, 0]])
    found = estimate(np.ones(4), 0.02, jacobian.T @ jacobian, len(J), labels=("a", "b", "c", "nothing"))
    assert {frozenset(group) for group in found.undetermined} == {frozenset("ab"), frozenset(["nothing"])}
    assert np.all(np.isinf(found.standard_errors[[0, 1, 3]])) and found.standard_errors[2] < 0.01
    assert found.covers(np.array([9.0, -9.0, 1.0, 5.0])).all()
    table = found.table(np.ones(4))
    assert "undetermined: a against b" in table and "undetermined: nothing" in table
    assert sum(" undetermined " in line for line in table.splitlines()) == 3


def test_many_undetermined_variables_are_counted_and_not_listed():
    """The weights of a network beside a mass: a table of hundreds of lines would hide the mass."""
    jacobian = np.column_stack([J[:, 0], *np.tile(J[:, 1], (30, 1))])
    labels = ("mass", *(f"weight {i}" for i in range(30)))
    found = estimate(np.ones(31), 0.02, jacobian.T @ jacobian, len(J), labels=labels)
    assert found.determined.tolist() == [True, *[False] * 30]
    _, mass, others = found.table().splitlines()
    assert mass.startswith("mass  ") and others.startswith("30 other variables")


def test_what_is_hardly_known_is_said_too():
    found = estimate(np.ones(2), 0.5, np.diag([1e4, 1.0]), 102, labels=("a", "b"))
    assert found.undetermined == ()
    weak = estimate(np.ones(2), 50.0, np.diag([1e4, 1.0]), 102, labels=("a", "b"))
    assert weak.undetermined == (("b",),) and np.isfinite(weak.standard_errors).all()


@pytest.mark.parametrize("probability, freedom, value", [(0.975, 10, 2.2281), (0.975, 30, 2.0423), (0.995, 20, 2.8453)])
def test_quantiles_of_student(probability, freedom, value):
    assert abs(_quantile(probability, freedom) - value) < 1e-3


def test_too_few_residuals():
    with pytest.raises(pb.PullbackError, match="more residuals than variables"):
        estimate(np.ones(3), 1.0, np.eye(3), 3)
