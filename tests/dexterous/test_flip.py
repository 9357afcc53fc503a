"""Goals about an object's own axes, first faces of the tips, and what training learns of a quarter of a turn."""

from dataclasses import replace

import numpy as np
import pytest

from pullback.dexterous import Along, ContactProblem
from pullback.spatial import unit_quat_matrix
from pullback.tasks.manipulations import CUBE, flip, flip_y, flip_z

AXES = {flip: 0, flip_y: 1, flip_z: 2}
CORNERS = CUBE * np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3, indexing="ij"), axis=-1).reshape(8, 3)


@pytest.mark.parametrize("make", AXES)
def test_the_goal_is_a_quarter_turn_that_ends_on_the_table(make):
    task, axis = make(), AXES[make]
    start = task.batch(np.random.default_rng(0), 5, noisy=False).start
    wanted = task.wanted(start, np.linspace(0, 1, 201))
    turn, first = unit_quat_matrix(wanted.quat), unit_quat_matrix(start.quat)
    own = np.swapaxes(first, -1, -2) @ turn[-1]
    quarter = np.eye(3)
    quarter[[(axis + 1) % 3, (axis + 2) % 3]] = 0
    quarter[(axis + 2) % 3, (axis + 1) % 3], quarter[(axis + 1) % 3, (axis + 2) % 3] = 1, -1
    np.testing.assert_allclose(own, np.broadcast_to(quarter, own.shape), atol=1e-9)
    np.testing.assert_allclose(wanted.at[-1], start.at, atol=1e-9)
    corners = wanted.at[..., None, :] + CORNERS @ np.swapaxes(turn, -1, -2)
    lowest = corners[..., 2].min(-1)
    assert lowest.min() > -1e-9 and lowest.max() > 0.04
    np.testing.assert_allclose(lowest[[0, -1]], 0, atol=1e-9)
    if axis < 2:  # the bottom has become a side
        assert np.abs(turn[-1][:, 2, 2]).max() < 1e-9
    in_the_world = replace(task.wanted, own=False)(start, np.linspace(0, 1, 3))
    about = unit_quat_matrix(in_the_world.quat[-1]) @ np.swapaxes(first, -1, -2)
    np.testing.assert_allclose(about, np.broadcast_to(quarter, own.shape), atol=1e-9)
    assert isinstance(in_the_world, type(Along()(start, np.zeros(2))))


def test_tips_begin_at_the_faces_that_they_are_told():
    """None of them the bottom at the end, nor the top at the beginning."""
    for make, axis in ((flip, 0), (flip_y, 1)):
        task, down = make(), np.zeros(3)
        down[2] = -1.0
        last = unit_quat_matrix(task.wanted(task.batch(np.random.default_rng(0), 1).start, np.ones(1)).quat)[0, 0]
        usual = task.scene.split(task.usual()).p[:3]
        np.testing.assert_allclose(np.abs(usual).max(-1), 0.99 * CUBE, rtol=1e-6)
        np.testing.assert_allclose(usual / CUBE, 0.99 * np.array(task.facing), atol=1e-6)
        for face in task.facing:
            assert (last @ np.array(face))[2] > -0.5, (axis, face)
    natural = flip_z()
    assert natural.facing is None and np.abs(natural.scene.split(natural.usual()).p[:3, 2]).max() < 1e-9


def test_tips_begin_on_the_sides_of_their_faces():
    """None has to go round the cube, or past another."""
    for make in (flip, flip_y):
        task = make()
        at = task.scene.hand.home.reshape(3, 3)[:, :2]
        towards = at / np.linalg.norm(at, axis=1, keepdims=True)
        assert np.sum(towards * np.array(task.facing)[:, :2], axis=1).min() > 0.85


def test_edges_and_torques_of_a_squeeze_are_residuals():
    """Zero where the tips are in the middle of their faces, two of them opposite each other."""
    task = flip_y()
    policy = task.fresh_policy(0)
    batch = task.batch(np.random.default_rng(0), 2, noisy=False)
    still = policy.with_weights(0 * policy.weights)
    shares = ContactProblem(task, still, batch).blocks(still.weights)[0].shares
    assert shares["edge"] < 1e-12 and shares["balance"] < 1e-12
    u = still.usual.copy()
    p = task.scene.columns(1)[0]
    u[p] = (0.025, -0.99 * CUBE, 0.0)  # near an edge, and no longer opposite of the third
    shares = ContactProblem(task, replace(still, usual=u), batch).blocks(still.weights)[0].shares
    assert shares["edge"] > 1e-3 and shares["balance"] > 1e-3
