"""What solvers of inverse kinematics share: limits, the best of several starts, and poses that both reach."""

import numpy as np
import pytest

import pullback as pb
from pullback.dynamics import kinematics
from pullback.reach import find_postures, inverse
from pullback.reach.ik import Joints, Solutions, from_starts

# Joints in all sorts of order; the free one and the last have no limits.
MODEL = pb.load("""
<mujoco><default><geom size="0.05" contype="0" conaffinity="0"/></default><worldbody>
<body name="root"><freejoint/><geom/>
  <body name="a"><joint name="ball" type="ball" range="0 60"/><geom/>
    <body name="b"><joint name="slide" type="slide" range="-0.1 0.2"/><geom/>
      <body name="c"><joint name="hinge" axis="0 1 0" range="-30 40"/><geom/>
        <body name="d"><joint name="endless" axis="1 0 0"/><geom/></body></body></body></body></body>
</worldbody></mujoco>""")
ALL = Joints(MODEL, range(MODEL.njoint))


def scattered(n, seed=0):
    q = np.random.default_rng(seed).normal(size=(n, MODEL.nq))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7:11] /= np.linalg.norm(q[:, 7:11], axis=1, keepdims=True)
    return q


def ball_angle(q):
    return 2 * np.arccos(np.minimum(1.0, np.abs(q[:, 7])))


def test_clamped_coordinates_are_within_limits_and_others_stay():
    before = scattered(200)
    after = ALL.clamp(before.copy())
    np.testing.assert_array_equal(after[:, :7], before[:, :7])
    np.testing.assert_array_equal(after[:, 13], before[:, 13])
    np.testing.assert_array_equal(after[:, 11], np.clip(before[:, 11], -0.1, 0.2))
    np.testing.assert_array_equal(after[:, 12], np.clip(before[:, 12], -np.pi / 6, np.deg2rad(40)))
    angle, beyond = ball_angle(after), ball_angle(before) > np.pi / 3
    np.testing.assert_allclose(angle[beyond], np.pi / 3)
    np.testing.assert_allclose(angle[~beyond], ball_angle(before)[~beyond])
    assert beyond.any() and not beyond.all()


def test_joints_are_blocked_where_they_are_pushed_out_of_their_range():
    q = np.tile(MODEL.home.q, (3, 1))
    q[:, 11], q[:, 12] = (-0.1, 0.0, 0.2), (np.deg2rad(40), 0.0, np.deg2rad(-30))
    force = np.ones((3, MODEL.nv))
    expected = np.zeros((3, MODEL.nv), bool)
    expected[2, 9] = expected[0, 10] = True
    np.testing.assert_array_equal(ALL.blocked(q, force), expected)
    expected = np.zeros((3, MODEL.nv), bool)
    expected[0, 9] = expected[2, 10] = True
    np.testing.assert_array_equal(ALL.blocked(q, -force), expected)


def test_some_joints_in_an_order_of_their_own():
    some = Joints(MODEL, [3, 1])  # the hinge and the ball
    assert (some.nq, some.nv) == (5, 4) and some.in_model.tolist() == [12, 7, 8, 9, 10]
    q = some.random(300, np.random.default_rng(0))
    np.testing.assert_array_equal(some.clamp(q.copy())[:, 0], q[:, 0])
    assert np.ptp(q[:, 0]) > 0.9 * np.deg2rad(70) and 0.9 * np.pi / 3 < (2 * np.arccos(q[:, 1])).max() <= np.pi / 3


def test_the_best_of_several_starts_is_kept():
    errors = np.array([[5.0, 5.0, 0.5], [3.0, 0.5, 9.0], [4.0, 9.0, 9.0]])  # of three poses, from three starts
    asked = []

    def search(start, left):
        asked.append(left.tolist())
        return Solutions(np.full((len(left), 1), start), errors[start, left] < 1, errors[start, left])

    found = from_starts(np.full((3, 1), -1), np.full(3, 4.5), 3, search)
    assert asked == [[0, 1, 2], [0, 1], [0]]
    np.testing.assert_array_equal(found.q[:, 0], [1, 1, 0])
    np.testing.assert_array_equal(found.error, [3.0, 0.5, 0.5])
    np.testing.assert_array_equal(found.reached, [False, True, True])
    with pytest.raises(pb.PullbackError, match="starts must be a whole number"):
        from_starts(np.zeros((1, 1)), np.ones(1), 0, search)


ARM = pb.load(pb.robots.arm())
SOLVERS = {
    "of a chain": lambda poses: inverse(ARM, "base", "tip", poses, collisions=False),
    "of a whole robot": lambda poses: find_postures(ARM, {"tip": poses}, starts=10),
}


@pytest.mark.parametrize("kind", SOLVERS)
def test_both_solvers_reach_what_the_arm_reaches_and_nothing_else(kind):
    def poses(q):
        return kinematics(pb.Articulated(ARM, contact=None, worlds=len(q)), q, of="site").value[:, 0]

    joints = Joints(ARM, range(ARM.njoint))
    around = ARM.home.q + np.random.default_rng(0).normal(scale=0.5, size=(60, ARM.nq))
    targets = poses(joints.clamp(around))  # the base is at the world's origin, so that both mean the same by a pose
    found = SOLVERS[kind](np.concatenate([targets, targets[:3] + [2.0, 0, 0, 0, 0, 0, 0]]))
    assert found.reached[:60].mean() > 0.9 and not found.reached[60:].any()
    q, wanted = found.q[:60][found.reached[:60]], targets[found.reached[:60]]
    np.testing.assert_array_equal(joints.clamp(q.copy()), q)
    np.testing.assert_allclose(poses(q)[:, :3], wanted[:, :3], atol=2e-3)
    np.testing.assert_allclose(np.abs(np.sum(poses(q)[:, 3:] * wanted[:, 3:], axis=1)), 1, atol=4e-6)
