"""Chains of joints: poses as the library's kinematics has them, and joint angles that lead to poses, within limits."""

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.dynamics import kinematics
from pullback.reach import Limb, inverse, space
from pullback.reach.chain import Chain
from pullback.reach.ik import random_rotations

ARM, HUMANOID = pb.load(pb.robots.arm()), pb.load(pb.robots.humanoid())
# Every type of joint, anchors off the origin, several joints on a body, a pose that is not zero, and a turned base.
ODD = pb.load("""
<mujoco><default><geom size="0.05" contype="0" conaffinity="0"/></default><worldbody>
<body name="root" pos="0.1 0.2 0.3" euler="20 30 40"><geom/>
  <body name="left" pos="0 0.1 0"><joint name="ball" type="ball" pos="0.02 0.01 0" range="0 100"/>
    <geom/>
    <body name="low" pos="0.2 0 0" euler="0 50 0"><joint name="out" type="slide" axis="1 2 0" range="-0.1 0.2"/>
      <joint name="turn" axis="0 1 1" pos="0 0 0.1" ref="30" range="-70 80"/>
      <geom/><site name="a" pos="0.1 0 0" euler="0 0 90"/></body></body>
  <body name="right" pos="0 -0.1 0"><joint name="free turn" axis="0 0 1"/><geom/>
    <body name="far" pos="0 -0.2 0"><joint name="other ball" type="ball" pos="0 0.03 0"/>
      <geom/><site name="b" pos="0 -0.1 0"/></body></body>
</body></worldbody></mujoco>""")
CHAINS = {
    "arm": (ARM, "base", "tip", None),
    "foot from foot": (HUMANOID, "left_foot", "right_foot", "pelvis"),
    "hand from foot": (HUMANOID, "right_foot", "left_hand", "pelvis"),
    "hand from chest": (HUMANOID, "chest", "left_hand", None),
    "odd, down": (ODD, "root", "a", None),
    "odd, up and down": (ODD, "a", "b", "root"),
    "odd, down and up": (ODD, "b", "low", "root"),
}


def pose_of(model, q, name):
    of = "site" if name in model.sites.names else "body"
    names = model.sites.names if of == "site" else model.body_names
    system = pb.Articulated(model, contact=None, worlds=len(q))
    return kinematics(system, q, of=of).value[:, names.index(name)]


@pytest.mark.parametrize("kind", CHAINS)
def test_poses_are_those_of_the_whole_robot(kind):
    model, base, tip, through = CHAINS[kind]
    chain, s = Chain(model, base, tip, through=through), space("SE3")
    q = chain.random(20, np.random.default_rng(0))
    whole = chain.whole(q)
    seen = s.relative(pose_of(model, whole, base), pose_of(model, whole, tip))
    np.testing.assert_allclose(s.features(chain.forward(q)), s.features(seen), atol=1e-12)


@pytest.mark.parametrize("kind", CHAINS)
def test_joint_angles_are_found_for_poses_that_are_reachable(kind):
    model, base, tip, through = CHAINS[kind]
    limb, s = Limb(model, base, tip, "SE3", through=through), space("SE3")
    rng = np.random.default_rng(1)
    targets, _ = limb.random(200, rng)
    found = limb.solve(targets, rng=rng)
    assert found.reached.mean() > 0.95
    q = found.q[found.reached]
    seen = s.relative(pose_of(model, q, base), pose_of(model, q, tip))
    error = np.linalg.norm(s.difference(seen, targets[found.reached]), axis=1)
    assert error.max() < 2.01e-3 and np.abs(error - found.error[found.reached]).max() < 1e-6
    assert np.all(within_limits(model, q))
    # what is not part of the chain stays where it is
    others = np.setdiff1d(np.arange(model.nq), limb.chain.in_model)
    np.testing.assert_array_equal(q[:, others], np.tile(model.home.q[others], (len(q), 1)))


def within_limits(model, q):
    m, good = model.mujoco, np.ones(len(q), bool)
    for j in np.flatnonzero(m.jnt_limited):
        at, (low, high) = m.jnt_qposadr[j], m.jnt_range[j]
        if m.jnt_type[j] == mujoco.mjtJoint.mjJNT_BALL:
            turn = 2 * np.arccos(np.clip(np.abs(q[:, at]), 0, 1))
            good &= turn <= high + 1e-9
        else:
            good &= (q[:, at] >= low - 1e-12) & (q[:, at] <= high + 1e-12)
    return good


def test_out_of_reach_is_not_reached():
    found = inverse(ARM, "base", "tip", [[2.0, 0, 0.5, 1, 0, 0, 0]], starts=3)
    assert not found.reached[0] and found.error[0] > 1.0


def test_planar_spaces_keep_height_and_tilt():
    """A tool that points down at a table: x, y and yaw are given, the rest is that of ``level``."""
    limb = Limb(ARM, "base", "tip", "SE2", level=[0.4, 0, 0.2, 0, 1, 0, 0])
    poses = np.array([[0.4, 0.1, 0.5], [0.5, -0.2, -1.0], [0.3, 0.3, 2.0]])
    found = limb.solve(poses)
    assert found.reached.all()
    seen = pose_of(ARM, found.q, "tip")
    np.testing.assert_allclose(seen[:, 2], 0.2, atol=2e-3)
    down = space("SE3").rotation_matrix(seen)[:, :, 2]
    np.testing.assert_allclose(down, np.tile([0, 0, -1], (3, 1)), atol=3e-3)
    np.testing.assert_allclose(limb.project(limb.lift(poses)), poses, atol=1e-12)
    np.testing.assert_allclose(limb.project(seen), poses, atol=3e-3)


def test_turns_are_even_within_the_largest():
    turns = random_rotations(20_000, 2.0, np.random.default_rng(0))
    angle = 2 * np.arccos(np.abs(turns[:, 0]))
    assert angle.max() <= 2.0
    # the share of all rotations by at most x is proportional to x - sin x
    for x in (0.5, 1.0, 1.5):
        assert np.mean(angle < x) == pytest.approx((x - np.sin(x)) / (2.0 - np.sin(2.0)), abs=0.01)


SLIDER = """<mujoco><worldbody><body name="a"><geom size="0.1"/><body name="b"><joint name="rail" type="slide"/>
<geom size="0.1"/></body></body></worldbody></mujoco>"""
BAD = {
    "an unknown name": ((ARM, "base", "hand"), {}, "there is no site or body 'hand'; there are tip, world, base"),
    "upside down": ((ARM, "link7", "link2"), {}, "'link2' does not hang from 'link7'"),
    "side by side": ((HUMANOID, "left_foot", "right_foot"), {}, "pass through='pelvis'"),
    "the wrong way": ((HUMANOID, "left_foot", "right_foot"), {"through": "chest"}, "goes through 'pelvis', not"),
    "afloat": ((HUMANOID, "world", "left_foot"), {}, "'left_foot' does not hang from 'world': .* free joint 'root'"),
    "welded": ((ARM, "link7", "tip"), {}, "there is no joint between"),
    "a rail without end": ((pb.load(SLIDER), "a", "b"), {}, "joint 'rail' slides without end"),
    "no model": (("arm.xml", "base", "tip"), {}, "model must be a Model, such as pullback.load"),
    "a level that is no pose": ((ARM, "base", "tip", "SE2"), {"level": [0.1, 0.2]}, "level has shape"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    given, options, message = BAD[kind]
    with pytest.raises(pb.PullbackError, match=message):
        Limb(*given, **options)
