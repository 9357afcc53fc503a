"""Samples: labels are right where the answer is known, classes are even, and what touches itself is not reachable."""

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.reach import Limb, inverse, sample, sampling

ARM = pb.load(pb.robots.arm())


def two_links(shoulder="", elbow="", contact='contype="0" conaffinity="0"'):
    """A planar arm of 0.5 m and 0.3 m."""
    return pb.load(f"""
    <mujoco><default><joint axis="0 0 1"/><geom type="capsule" size="0.03" {contact}/></default>
    <worldbody><body name="base"><geom name="post" type="sphere" size="0.05"/>
      <body name="upper"><joint name="shoulder" {shoulder}/><geom name="upper" fromto="0.1 0 0 0.45 0 0"/>
        <body name="fore" pos="0.5 0 0"><joint name="elbow" {elbow}/><geom name="fore" fromto="0.05 0 0 0.3 0 0"/>
          <site name="tip" pos="0.3 0 0"/></body></body></body></worldbody></mujoco>""")


@pytest.mark.parametrize("name", ("R2", "R3"))
def test_labels_of_an_arm_that_reaches_a_ring(name):
    """Two links without limits reach what is between 0.2 m and 0.8 m away."""
    data = sample(two_links(), "base", "tip", name, n=600, seed=1)
    assert data.reachable.sum() == 300 and data.space.name == name
    r = np.linalg.norm(data.poses[:, :2], axis=1)
    slack = np.minimum(np.abs(r - 0.2), np.abs(r - 0.8)) < 2e-3
    inside = (0.2 < r) & (r < 0.8)
    if name == "R3":
        inside &= np.abs(data.poses[:, 2]) < 2e-3
    np.testing.assert_array_equal(data.reachable[~slack], inside[~slack])


def test_labels_of_an_arm_with_limits():
    """With the elbow between 30° and 90° and the shoulder within ±60°: angles by the law of cosines."""
    data = sample(two_links('range="-60 60"', 'range="30 90"'), "base", "tip", "R2", n=600)
    x, y = data.poses.T
    cosine = (x**2 + y**2 - 0.5**2 - 0.3**2) / (2 * 0.5 * 0.3)
    elbow = np.arccos(np.clip(cosine, -1, 1))
    shoulder = np.arctan2(y, x) - np.arctan2(0.3 * np.sin(elbow), 0.5 + 0.3 * np.cos(elbow))
    room = np.min([elbow - np.pi / 6, np.pi / 2 - elbow, np.pi / 3 - np.abs(shoulder)], axis=0)
    clear = np.abs(room) > 0.02  # not within the tolerance of the boundary
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(data.reachable[clear], room[clear] > 0)


@pytest.mark.parametrize("name", ("SO2", "SE2", "SO3", "SE3"))
def test_spaces_with_rotations(name):
    model = two_links('range="-60 60"', 'range="30 90"')
    data = sample(model, "base", "tip", name, n=100, seed=2)
    assert data.poses.shape == (100, data.space.sample_size) and data.reachable.sum() == 50
    if name == "SO2":  # the tip's angle is the sum of the joints'
        angle = data.poses[:, 0]
        np.testing.assert_array_equal(data.reachable, (-np.pi / 6 - 2e-3 < angle) & (angle < 5 * np.pi / 6 + 2e-3))
    again = inverse(model, "base", "tip", data.poses, name, starts=20)
    assert np.all(again.reached[data.reachable]) and not np.any(again.reached[~data.reachable])


def test_forward_kinematics_alone():
    data = sample(ARM, "base", "tip", n=500, unreachable=False)
    assert data.poses.shape == (500, 7) and data.reachable.all()
    assert inverse(ARM, "base", "tip", data.poses).reached.mean() > 0.99


def test_the_seed_decides():
    first, again, other = (sample(ARM, "base", "tip", n=60, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.poses, again.poses)
    assert np.abs(first.poses - other.poses).max() > 0.1


def test_split():
    a, b = sample(ARM, "base", "tip", "R3", n=50, unreachable=False).split(30)
    assert len(a) == 30 and len(b) == 20 and b.space is a.space


def test_links_that_overlap_do_not_reach():
    """A folded forearm would lie on the upper arm: MuJoCo finds no contact in what is called reachable."""
    model = two_links(elbow='range="-178 178"', contact="")
    model.mujoco.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)  # neighbours count here
    model = pb.load(model.mujoco)
    poses = np.stack([np.linspace(0.2, 0.79, 200), np.zeros(200)], axis=1)
    free, folded = (Limb(model, "base", "tip", "R2", collisions=c).solve(poses) for c in (True, False))
    assert folded.reached.mean() > 0.95 and 0.3 < free.reached.mean() < 0.9
    data = mujoco.MjData(model.mujoco)
    for q in free.q[free.reached]:
        data.qpos[:] = q
        mujoco.mj_forward(model.mujoco, data)
        assert all(contact.dist > -1e-3 for contact in data.contact)


def test_the_floor_is_in_the_way_of_what_is_bolted_to_it():
    under = np.array([[0.4, 0.0, -0.2], [0.4, 0.0, 0.3]])
    assert list(inverse(ARM, "base", "tip", under, "R3").reached) == [False, True]
    assert inverse(ARM, "base", "tip", under, "R3", collisions=False).reached.all()


def test_the_length_of_the_level_does_not_matter():
    level = Limb(ARM, "base", "tip", "SE2").level
    some, other = (Limb(ARM, "base", "tip", "SE2", level=level * x) for x in ([1.0] * 7, [1.0] * 3 + [9.0] * 4))
    np.testing.assert_allclose(some.level, other.level, rtol=1e-14)


BAD = {
    "too few": (lambda: sample(ARM, "base", "tip", n=1), "n must be a whole number of at least 2, not 1"),
    "half a sample": (lambda: sample(ARM, "base", "tip", n=2.5), "n must be a whole number"),
    "no starts": (lambda: sample(ARM, "base", "tip", starts=0), "starts must be a whole number of at least 1, not 0"),
    "half a start": (lambda: inverse(ARM, "base", "tip", [[0, 0, 1]], "R3", starts=1.5), "starts must be a whole"),
    "a seed in words": (lambda: sample(ARM, "base", "tip", seed="one"), "seed must be a whole number"),
    "a negative seed": (lambda: inverse(ARM, "base", "tip", [[0, 0, 1]], "R3", seed=-1), "seed must be a whole number"),
    "an unknown space": (lambda: sample(ARM, "base", "tip", "E3"), "there is no space 'E3'"),
    "a tip that does not hang": (lambda: sample(ARM, "link4", "link2"), "'link2' does not hang from 'link4'"),
    "everything is reachable": (
        lambda: sample(two_links(), "base", "tip", "SO2", n=10),
        "there is nothing to tell apart",
    ),
    "too high": (lambda: sample(two_links(), "base", "tip", "R2", level=[0, 0, 9, 1, 0, 0, 0]), "to the height 9 m"),
    "always in collision": (lambda: sample(jammed(), "base", "tip", "R3"), "most often of 'cage' and 'fore'"),
}


def jammed():
    """A forearm inside a sphere."""
    return pb.load("""<mujoco><worldbody><body name="base"><geom name="cage" size="0.5"/>
      <body name="upper"><joint axis="0 0 1"/><geom name="upper" size="0.01" contype="0" conaffinity="0"/>
      <body name="fore"><joint axis="0 1 0"/><geom name="fore" size="0.1"/><site name="tip" pos="0.1 0 0"/>
      </body></body></body></worldbody></mujoco>""")


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    call, message = BAD[kind]
    with pytest.raises(pb.PullbackError, match=message):
        call()


def test_what_hardly_ever_happens_is_not_waited_for(monkeypatch):
    """Of these poses one in 200 cannot be reached."""
    monkeypatch.setattr(sampling, "GIVE_UP_AFTER", 2000)
    monkeypatch.setattr(sampling, "RAREST", 0.01)
    nearly_all_round = pb.load("""<mujoco><worldbody><body name="base"><geom size="0.1"/><body name="tip">
      <joint axis="0 0 1" range="-179 179"/><geom size="0.1" contype="0" conaffinity="0"/></body></body>
      </worldbody></mujoco>""")
    with pytest.raises(pb.PullbackError, match="all but [1-9][0-9]* of 20.* can be reached"):
        sample(nearly_all_round, "base", "tip", "SO2", n=100)
