"""Postures of whole robots: targets, limits, balance, and what plans are made of."""

import os
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback import PullbackError
from pullback.reach import Disc, Footsteps, Humanoid, check_plan, find_postures, humanoid_maps
from pullback.reach.humanoid import on_floor, sample_stances
from pullback.reach.trajectory import LIFT, ROWS, plan_trajectory
from pullback.reach.walking import middle

FEET = ("left_foot", "right_foot")


def site(robot, q, name):
    """Position and matrix of a site, by MuJoCo."""
    data = mujoco.MjData(robot.model.mujoco)
    data.qpos[:] = q
    mujoco.mj_kinematics(robot.model.mujoco, data)
    mujoco.mj_comPos(robot.model.mujoco, data)
    return data.site(name).xpos.copy(), data.site(name).xmat.reshape(3, 3).copy(), data.subtree_com[0].copy()


def stances(count, seed=0):
    rng = np.random.default_rng(seed)
    left = rng.uniform((-1, -1, -3), (1, 1, 3), size=(count, 3))
    c, s = np.cos(left[:, 2]), np.sin(left[:, 2])
    x, y, yaw = rng.uniform((-0.3, -0.35, -0.4), (0.3, -0.18, 0.4), size=(count, 3)).T
    right = np.stack([left[:, 0] + c * x - s * y, left[:, 1] + s * x + c * y, left[:, 2] + yaw], axis=1)
    return left, right


def test_feet_and_a_hand(robot):
    """What is said to be reached is, by MuJoCo's kinematics and limits."""
    left, right = stances(12)
    frame = middle(left, right)
    c, s = np.cos(frame[:, 2]), np.sin(frame[:, 2])
    hand = np.stack([frame[:, 0] + 0.3 * c - 0.4 * s, frame[:, 1] + 0.3 * s + 0.4 * c, np.full(12, 0.9)], axis=1)
    hand[5] = np.nan
    found = robot.postures(left, right, hand)
    assert found.reached.all() and np.isnan(found.off["left_hand"][5])
    mj = robot.model.mujoco
    for row, q in enumerate(found.q):
        for name, feet in zip(FEET, (left, right), strict=True):
            at, turn, _ = site(robot, q, name)
            np.testing.assert_allclose(at, (*feet[row, :2], 0), atol=1e-3)
            np.testing.assert_allclose(turn[:2, 0], (np.cos(feet[row, 2]), np.sin(feet[row, 2])), atol=6e-3)
        if row != 5:
            np.testing.assert_allclose(site(robot, q, "left_hand")[0], hand[row], atol=1e-3)
        for joint in range(1, mj.njnt):
            at, (low, high) = q[mj.jnt_qposadr[joint]], mj.jnt_range[joint]
            if mj.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
                assert low - 1e-9 <= at <= high + 1e-9
            else:
                assert 2 * np.arccos(min(1.0, abs(at))) <= high + 1e-9


def test_balance(robot):
    """The centre of mass comes over the line between the feet, where it was not before."""
    left, right = stances(8, 1)
    frame = middle(left, right)
    lean = robot.over(frame)
    lean[:, 0] += 0.25 * np.cos(frame[:, 2])
    lean[:, 1] += 0.25 * np.sin(frame[:, 2])

    def off(q):
        rows = []
        for row, one in enumerate(q):
            along = np.linspace(left[row, :2], right[row, :2], 50)
            rows.append(np.linalg.norm(along - site(robot, one, "left_foot")[2][:2], axis=1).min())
        return np.array(rows)

    free = find_postures(robot.model, {FEET[0]: on_floor(left), FEET[1]: on_floor(right)}, usual=lean)
    held = robot.postures(left, right, near=lean, balance=True)
    assert off(free.q).max() > 0.05 and (free.unbalanced == 0).all()
    assert held.reached.all() and off(held.q).max() < 0.032


def test_what_cannot_be_reached_is_said(robot):
    left, right = stances(3)
    hand = np.tile([0.0, 0.0, 5.0], (3, 1))
    found = robot.postures(left, right, hand, starts=1)
    assert not found.reached.any() and found.off["left_hand"].min() > 0.5 and np.isfinite(found.q).all()
    # Feet on top of each other overlap, though each is where it should be.
    same = robot.postures(left, left, starts=1)
    assert not same.reached.any()


def test_a_robot_without_a_floating_base():
    """Any model with sites will do: an arm."""
    model = pb.load(pb.robots.arm())
    points = np.array([[0.4, 0.2, 0.5], [0.3, -0.3, 0.4], [3.0, 0.0, 0.0]])
    found = find_postures(model, {"tip": points})
    assert found.reached.tolist() == [True, True, False]
    assert found.off["tip"][2] > 1.5


def test_bad_input(robot):
    good = on_floor(np.zeros((2, 3)))
    for targets, message in (
        ({"tail": good}, "no site 'tail'"),
        ({FEET[0]: good[:, :5]}, "shape"),
        ({FEET[0]: good, FEET[1]: good[:1]}, "same number of rows"),
        ({FEET[0]: good[:0]}, "at least one"),
        ({}, "at least one"),
        ({FEET[0]: "there"}, "cannot be read as an array of numbers"),
        ({FEET[0]: np.array([[0, 0, 0], [0, np.nan, 0]])}, "row 1 of the target of 'left_foot' is not finite"),
        ({FEET[0]: np.array([[0, 0, np.inf]])}, "row 0 of the target of 'left_foot' is not finite"),
        ({FEET[0]: np.zeros((1, 7))}, "the quaternion in row 0 of the target of 'left_foot' has no length"),
    ):
        with pytest.raises(PullbackError, match=message):
            find_postures(robot.model, targets)
    for options, message in (
        ({"usual": np.zeros(3)}, r"usual has shape \(3,\)"),
        ({"balance": ("left_foot", "tail")}, "no site 'tail'"),
        ({"balance": ("left_foot",)}, "balance must name two sites"),
        ({"tolerance": -1.0}, "tolerance must be a number above 0, not -1.0"),
        ({"turn_tolerance": np.nan}, "turn_tolerance must be a number above 0"),
        ({"starts": 1.5}, "starts must be a whole number"),
        ({"iterations": "many"}, "iterations must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ):
        with pytest.raises(PullbackError, match=message):
            find_postures(robot.model, {FEET[0]: good}, **options)


def test_the_length_of_a_quaternion_does_not_matter(robot):
    """Of a target: neither in what is found nor in what is said about it."""
    pose = np.array([[0.3, 0.4, 1.1, 0.9, 0.1, 0.3, 0.2]])
    found = [find_postures(robot.model, {"left_hand": pose * ([1] * 3 + [x] * 4)}, starts=1) for x in (1.0, 1e5)]
    np.testing.assert_allclose(found[0].q, found[1].q, atol=1e-9)


# --- maps and plans ---------------------------------------------------------------------------------------------------


def test_maps_are_learned_once(robot, maps):
    """They are read from the cache the next time, and nothing half-written is left there."""
    again = humanoid_maps(robot, progress=False)
    for one, other, pose in zip(maps, again, ([0.1, -0.25, 0.1], [0.3, 0.4, 0.9]), strict=True):
        assert one is not other and one.decision_function([pose])[0] == other.decision_function([pose])[0] > 0
    kept = list((Path(os.environ["XDG_CACHE_HOME"]) / "pullback").iterdir())
    assert sorted(path.name.split("-")[0] for path in kept) == ["foot", "hand"]
    poses, reached = sample_stances(robot, 400, seed=7)
    assert maps.foot.score(poses, reached) > 0.8


def test_a_cache_that_cannot_be_written(robot, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PullbackError, match="cannot keep maps"):
        humanoid_maps(robot, folder=tmp_path / "file", progress=False)


def test_maps_of_something_else(tmp_path):
    with pytest.raises(PullbackError, match="robot must be a Humanoid, .*, not str"):
        humanoid_maps("a robot", folder=tmp_path)
    with pytest.raises(PullbackError, match="seed must be a whole number"):
        humanoid_maps(seed=-1, folder=tmp_path)


def test_a_plan_is_checked_and_put_into_motion(robot, maps):
    plan = Footsteps(foot_map=maps.foot, goal=(1.0, 0.1, 0.2), steps=8, obstacles=[Disc(0.5, -0.4, 0.2)]).plan()
    assert plan.solved, plan.report()
    check = check_plan(robot, plan)
    assert check.contacts == 18 and check.reached == 18 and check.worst < 1e-3 and check.apart > 0
    q, hand = plan_trajectory(robot, plan, check)
    assert q.shape == (8 * ROWS + 1, 32) and np.isnan(hand).all()
    # In the first step the right foot is lifted, and the left one stays.
    heights = np.array([[site(robot, one, name)[0][2] for name in FEET] for one in q[: ROWS + 1]])
    assert np.abs(heights[:, 0]).max() < 2e-3 and heights[:, 1].max() == pytest.approx(LIFT, abs=2e-3)
    np.testing.assert_allclose(
        site(robot, q[-1], FEET[1 - plan.sides[-1].startswith("l")])[0][:2], (1.0, 0.1), atol=6e-3
    )


def test_a_plan_that_cannot_be_walked_is_found_out(robot, maps):
    plan = Footsteps(foot_map=maps.foot, goal=(0.6, -0.1, 0.0), steps=4).plan()
    right = plan.right.copy()
    right[2] += (0.0, -2.0, 0.0)
    check = check_plan(robot, replace(plan, right=right))
    assert check.worst > 0.1 and 8 <= check.reached < check.contacts == 10
    turned = plan.left.copy()
    turned[1] = plan.right[1]  # one foot on the other
    check = check_plan(robot, replace(plan, left=turned))
    assert check.apart < 0 and check.reached == 8


def test_a_robot_that_reaches_nothing(robot):
    lost = Humanoid(robot.model, robot.usual, strides=((3.0, 3.0, 0.0), (4.0, 4.0, 0.1)))
    with pytest.raises(PullbackError, match="within this robot's reach"):
        sample_stances(lost, 20)
