"""Where to put a robot."""

import numpy as np
import pytest
from stand_ins import Ellipsoid, assert_linearisations_are_derivatives, foot_map

from pullback import PullbackError
from pullback.reach import Block, Disc, Placement


class Reach(Ellipsoid):
    """In SE3 the orientation counts too: the tip's x axis must point about as the base's does."""

    def evaluate(self, poses):
        if self.space.name == "R3":
            return super().evaluate(poses)
        apart = (poses[:, :3] - self.middle) / self.radii
        w, x, y, z = poses[:, 3:].T
        ahead = 1 - 2 * (y * y + z * z)
        # d/dt of the first column's first entry, turned about the body's own axes: R [d]x e1
        by_turn = np.stack([0 * w, -2 * (x * z + w * y), 2 * (x * y - w * z)], axis=1)
        value = 1 - np.sum(apart**2, axis=1) + (ahead - 1)
        return value, np.concatenate([-2 * apart / self.radii, by_turn], axis=1)


def targets(space, count=10, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.uniform((1.8, -1.2, 0.2), (2.2, -0.8, 0.6), size=(count, 3))
    if space == "R3":
        return points
    half = rng.uniform(0.9, 1.1, size=count) / 2
    zero = np.zeros(count)
    return np.concatenate([points, np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)], axis=1)


@pytest.mark.parametrize("space", ["R3", "SE3"])
def test_all_targets_are_within_reach(space):
    reach = Reach(space, (0.5, 0.0, 0.4), (0.45, 0.45, 0.4))
    problem = Placement(reach_map=reach, targets=targets(space), obstacles=[Block(2, -1, 0.1, 0.1)])
    place = problem.plan()
    assert place.solved, place.report()
    assert reach.evaluate(place.seen)[0].min() > -1e-3
    # What is seen from there is what was asked for.
    c, s = np.cos(place.base[2]), np.sin(place.base[2])
    back = place.base[:2] + np.stack([c * place.seen[:, 0] - s * place.seen[:, 1],
                                      s * place.seen[:, 0] + c * place.seen[:, 1]], axis=1)  # fmt: skip
    np.testing.assert_allclose(back, problem.targets[:, :2], atol=1e-9)


@pytest.mark.parametrize("space", ["R3", "SE3"])
def test_linearisations_are_derivatives(space):
    reach = Reach(space, (0.5, 0.0, 0.4), (0.45, 0.45, 0.4))
    problem = Placement(reach_map=reach, targets=targets(space), obstacles=[Disc(2, -1, 0.1)])
    assert_linearisations_are_derivatives(problem.problem(np.zeros(3)), {"base": np.array([[1.5, -0.8, 0.7]])})


def test_near_a_place():
    reach = Reach("R3", (0.5, 0.0, 0.4), (0.45, 0.45, 0.4))
    near = (2.0, -0.5, -1.5)
    place = Placement(reach_map=reach, targets=targets("R3"), near=near).plan()
    assert place.solved and np.linalg.norm(place.base[:2] - near[:2]) < 0.2


def test_targets_that_are_too_far_apart_are_named():
    reach = Reach("R3", (0.5, 0.0, 0.4), (0.45, 0.45, 0.4))
    far = np.array([[0.0, 0.0, 0.4], [3.0, 0.0, 0.4]])
    place = Placement(reach_map=reach, targets=far).plan()
    assert not place.solved and {p.name for p in place.problems} <= {f"target {i} is out of reach" for i in (0, 1)}
    assert "violated by" in place.report()


def test_bad_input():
    reach = Reach("R3", (0.5, 0.0, 0.4), (0.45, 0.45, 0.4))
    for arguments, message in (
        ({"reach_map": foot_map(), "targets": np.zeros((1, 3))}, "R3 or SE3"),
        ({"reach_map": reach, "targets": np.zeros((1, 4))}, "shape"),
        ({"reach_map": reach, "targets": np.zeros((0, 3))}, "must be targets"),
        ({"reach_map": reach, "targets": np.full((1, 3), np.nan)}, "not finite"),
        ({"reach_map": reach, "targets": np.zeros((1, 3)), "near": (1, 2)}, "near must be three"),
        ({"reach_map": reach, "targets": np.zeros((1, 3)), "obstacles": [3]}, "a method distance, not int"),
        ({"reach_map": reach, "targets": np.zeros((1, 3)), "margin": np.nan}, "margin of Placement"),
        ({"reach_map": reach, "targets": np.zeros((1, 3)), "weight": -1.0}, "weight of Placement"),
    ):
        with pytest.raises(PullbackError, match=message):
            Placement(**arguments)
