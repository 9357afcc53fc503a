"""Surfaces of maps."""

import numpy as np
import pytest
from stand_ins import Ellipsoid, foot_map

from pullback import PullbackError
from pullback.reach.surface import iso_surface


class Ball(Ellipsoid):
    def decision_function(self, poses):
        return self.evaluate(poses)[0]


def test_the_surface_of_a_ball():
    """Closed, seen from outside, and of the right size."""
    ball = Ball("R3", (0.1, 0.0, -0.1), (0.5, 0.5, 0.5))
    vertices, faces = iso_surface(ball, [(-0.7,) * 3, (0.8,) * 3], cells=20)
    np.testing.assert_allclose(np.linalg.norm(vertices - ball.middle, axis=1), 0.5, atol=0.01)
    a, b, c = (vertices[faces[:, i]] - ball.middle for i in range(3))
    volume = np.sum(np.cross(a, b) * c) / 6
    assert volume == pytest.approx(4 / 3 * np.pi * 0.5**3, rel=0.02)
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    assert (count == 2).all()


def test_bad_input():
    with pytest.raises(PullbackError, match="R3"):
        iso_surface(foot_map(), [(0, 0, 0), (1, 1, 1)])
    with pytest.raises(PullbackError, match="no surface"):
        iso_surface(Ball("R3", (0, 0, 0), (1, 1, 1)), [(5, 5, 5), (6, 6, 6)])
