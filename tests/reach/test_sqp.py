"""The optimiser alone: known minima, curved constraints, contradictions."""

import numpy as np
import pytest

from pullback import PullbackError
from pullback.reach import space
from pullback.reach.sqp import FIXED, Constraint, Linearised, Options, Problem, Rows, minimise


def towards(goal):
    """A residual that pulls a point in R2 to a goal."""

    def rows(at):
        return Rows(at - goal, np.array([[0], [1]]), np.ones((2, 1)))

    return rows


def point(constraints, goal=(2.0, 0.0)):
    """One point in R2."""
    pull = towards(np.array(goal))
    return Problem({"at": space("R2")}, lambda poses: Linearised([pull(poses["at"][0])], constraints(poses["at"][0])))


def at_least(value, gradient, name, equal=False):
    return Constraint(Rows(np.array([value]), np.array([[0, 1]]), np.array([gradient])), lambda _: name, equal)


def test_the_nearest_point_of_a_disc():
    """A curved constraint: the answer is on the line from its middle to the goal."""

    def inside(x):
        return [at_least(1 - x @ x, -2 * x, "out of the disc")]

    found = minimise(point(inside, (3.0, 4.0)), {"at": np.array([[0.1, -0.2]])}, Options(enough=1e-12))
    np.testing.assert_allclose(found.poses["at"][0], (0.6, 0.8), atol=1e-4)
    assert found.feasible and found.cost == pytest.approx(8.0, abs=1e-3)
    assert found.iterations < 60


def test_equalities_and_fixed_columns():
    def on_line(x):
        line = at_least(x[0] + x[1] - 1, (1.0, 1.0), "off the line", equal=True)
        nothing = Constraint(Rows(np.array([1.0]), np.array([[FIXED]]), np.array([[5.0]])), lambda _: "never")
        return [line, nothing]

    found = minimise(point(on_line), {"at": np.zeros((1, 2))}, Options(enough=1e-12))
    np.testing.assert_allclose(found.poses["at"][0], (1.5, -0.5), atol=1e-4)


def test_contradictory_constraints_are_named():
    """x >= 1 and x <= 0: the compromise is between, and both are reported, each by half of what lies between."""

    def both(x):
        return [at_least(x[0] - 1, (1.0, 0.0), "too far left"), at_least(-x[0], (-1.0, 0.0), "too far right")]

    found = minimise(point(both), {"at": np.zeros((1, 2))})
    assert not found.feasible and {v.name for v in found.violations} == {"too far left", "too far right"}
    for violation in found.violations:
        assert violation.amount == pytest.approx(0.5, abs=1e-3)
        assert "violated by 0.5" in str(violation)


def test_rotations_move_on_their_manifold():
    """A quaternion is turned into another, and stays one."""
    se3, goal = space("SE3"), np.array([0.3, -0.2, 0.1, 0.5, 0.5, -0.5, 0.5])

    def linearise(poses):
        off = se3.difference(poses["at"][0], goal)
        return Linearised([Rows(off, np.arange(6)[:, None], np.full((6, 1), -1.0))], [])

    found = minimise(
        Problem({"at": se3}, linearise), {"at": np.array([[0, 0, 0, 1.0, 0, 0, 0]])}, Options(enough=1e-14)
    )
    np.testing.assert_allclose(se3.difference(found.poses["at"][0], goal), 0, atol=1e-5)
    assert np.linalg.norm(found.poses["at"][0, 3:]) == pytest.approx(1.0)


def test_steps_stay_in_their_box():
    seen = []

    def watched(x):
        seen.append(x.copy())
        return []

    minimise(point(watched, (9.0, 0.0)), {"at": np.zeros((1, 2))}, Options(iterations=3, box=0.05))
    assert np.abs(np.diff([x[0] for x in seen])).max(initial=0) == pytest.approx(0.05, rel=1e-4)


def test_bad_input():
    with pytest.raises(PullbackError, match="box of Options must be a number above 0"):
        Options(box=0.0)
    with pytest.raises(PullbackError, match="iterations must be a whole number of at least 1, not 'many'"):
        Options(iterations="many")
    with pytest.raises(PullbackError, match="not finite"):
        minimise(point(lambda x: []), {"at": np.array([[np.nan, 0.0]])})
