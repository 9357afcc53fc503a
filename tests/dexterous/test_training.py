"""Training, what it leads to where contacts are real, and the files in between."""

from dataclasses import replace

import numpy as np
import pytest

import pullback as pb
from pullback.core.errors import PullbackError
from pullback.dexterous import (
    Along,
    ContactPolicy,
    Manipulation,
    Scattered,
    Scene,
    draw_proposals,
    draw_trial,
    judge,
    train,
    try_policy,
)
from pullback.tasks import TASKS
from pullback.tasks.manipulations import with_object


@pytest.fixture(scope="module")
def grasp():
    """A policy in seconds, since the cube lies nearly at the same place each time."""
    task = TASKS["grasp-cube"]()
    task = replace(task, starts=Scattered(task.scene, spread=0.002, yaw=0.05))
    policy, found = train(task, iterations=70, samples=8)
    return task, policy, found


def test_a_policy_learns_to_grasp(grasp):
    task, policy, _ = grasp
    before, after = (judge(task, one, starts=30) for one in (task.fresh_policy(0), policy))
    assert before.reached == 0 and after.reached > 0.9
    assert after.gap < 0.006 and after.outside < 0.03 and after.penetration < 0.003
    assert before.gap > 5 * after.gap


def test_what_it_proposes_holds_in_mujoco(grasp):
    task, policy, _ = grasp
    held, not_held = (try_policy(task, policy, squeeze=squeeze, starts=12) for squeeze in (0.006, 0.0))
    assert held.rate >= 0.7 and not_held.rate <= 0.3
    assert np.allclose(held.q[0, :, -7:-4], not_held.q[0, :, -7:-4])
    assert np.median(held.distance) < 0.03 < np.median(not_held.distance)
    weak = try_policy(task, policy, squeeze=0.006, starts=12, friction=0.05)
    assert weak.rate < held.rate


def test_pullback_and_mujoco_do_the_same(grasp):
    task, policy, _ = grasp
    options = {"mode": "corrected", "starts": 2, "friction": 0.8, "push": 0.1, "hold": 0.1}
    ours, theirs = (try_policy(task, policy, plant=plant, **options) for plant in ("pullback", "mujoco"))
    plain = try_policy(task, policy, **{**options, "push": 0.0})
    assert np.abs(ours.q - theirs.q).max() < 1e-5 < 1e-4 < np.abs(ours.q - plain.q).max()


def test_it_is_drawn(grasp):
    task, policy, _ = grasp
    x, u, _ = task.rollout(policy, task.batch(np.random.default_rng(0), 2, noisy=False))
    drawing = draw_proposals(task, x, u, sample=1)
    assert not drawing.problem() and drawing.frames == task.frames + 1
    assert len(drawing.contact_pos) == task.frames * 4
    last = drawing.contact_frame == task.frames - 4
    lifted = drawing.contact_force[last].sum(0)[2]
    assert lifted == pytest.approx(task.scene.weight, rel=0.7)
    assert not draw_trial(task, try_policy(task, policy, starts=2), start=1).problem()


def test_resumed_training_is_the_same_to_the_last_bit(tmp_path):
    task = replace(TASKS["grasp-cube"](), frames=5)
    options = {"samples": 3, "hidden": 6}
    whole, _ = train(task, iterations=6, **options)
    train(task, iterations=3, checkpoint=tmp_path / "state.npz", **options)
    resumed, found = train(task, iterations=6, checkpoint=tmp_path / "state.npz", **options)
    assert found.iterations == 6 and np.array_equal(whole.weights, resumed.weights)
    assert not np.array_equal(whole.weights, train(task, iterations=6, seed=1, **options)[0].weights)


def test_policies_are_kept_without_pickle(tmp_path):
    import torch

    task = TASKS["push-cube"]()
    policy = task.fresh_policy(3)
    twin = ContactPolicy.load(policy.save(tmp_path / "policy.npz"))
    features = np.random.default_rng(0).standard_normal((5, task.features))
    assert twin.task == "push-cube" and np.array_equal(policy(features), twin(features))
    module = policy.module()
    assert np.allclose(module(torch.from_numpy(features)).detach().numpy(), policy(features), atol=1e-14)
    for name, change in {"short.npz": {"usual": policy.usual[1:]}, "nan.npz": {"first": np.nan * policy.first}}.items():
        with pytest.raises(PullbackError, match="do not fit"):
            ContactPolicy.load(replace(policy, **change).save(tmp_path / name))
    with pytest.raises(PullbackError, match="there is no file"):
        ContactPolicy.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(PullbackError, match="cannot be read"):
        ContactPolicy.load(tmp_path / "text.npz")


def test_a_moved_goal_is_smooth_and_arrives():
    scene = TASKS["grasp-cube"]().scene
    start = Scattered(scene, spread=0.01, yaw=0.5)(np.random.default_rng(0), 4)
    goal = Along(shift=(0.0, 0.1, 0.0), turn=(0.0, 0.0, 1.0), wait=0.4, arrive=0.9, lift=0.05)
    wanted = goal(start, np.linspace(0, 1, 101))
    assert np.allclose(wanted.at[:41], start.at) and np.allclose(wanted.at[90:], start.at + [0, 0.1, 0])
    assert np.abs(np.diff(wanted.at, axis=0)).max() < 0.006
    assert wanted.at[..., 2].max() == pytest.approx(0.08, abs=1e-3)


def scene_of(robot, kind="box", **options):
    import mujoco

    kinds = {"box": mujoco.mjtGeom.mjGEOM_BOX, "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID}
    model = with_object(robot, kinds[kind], (0.03, 0.03, 0.03), 0.01, (0.0, 0.0, 0.03), "thing")
    return Scene(model, dt=0.03, **options)


COUPLED = """<mujoco><option gravity="0 0 0"/><worldbody>
  <body name="a"><joint name="a" type="slide"/><geom size="0.01"/></body>
  <body name="b"><joint name="b" type="slide"/><geom size="0.01" pos="1 0 0"/></body>
  <body name="thing" pos="0 0 1"><freejoint/><geom size="0.03"/></body></worldbody>
  <equality><joint name="mimic" joint1="a" joint2="b"/></equality></mujoco>"""


def test_hands_and_objects_that_are_no_scene():
    """Joints that move each other, which proposals would not know; nothing to measure forces against; no time."""
    with pytest.raises(PullbackError, match=r"equality 'mimic' \(joint\) couples what a hand moves joint by joint"):
        Scene(pb.load(COUPLED), ["a"], dt=0.03)
    free = pb.load(COUPLED, ignore=("equality",))
    with pytest.raises(PullbackError, match="'thing' has no weight to measure forces against"):
        Scene(free, ["a"], dt=0.03)
    assert Scene(free, ["a"], dt=0.03, force=1.0).weight == 1.0
    with pytest.raises(PullbackError, match="dt must be"):
        Scene(free, ["a"], dt=-0.03, force=1.0)


def test_bad_input_is_told_before_training():
    tips = pb.robots.fingertips(2)
    with pytest.raises(PullbackError, match="no body 'thumb'"):
        scene_of(tips, tips=["thumb"])
    with pytest.raises(PullbackError, match="'thing' is a ellipsoid.*spheres, boxes, capsules and cylinders"):
        scene_of(tips, kind="ellipsoid", tips=["tip1"])
    with pytest.raises(PullbackError, match="neither a hinge nor a slide"):
        scene_of(pb.robots.quadruped(), tips=["torso"])
    scene = scene_of(tips, tips=["tip1", "tip2"])
    away = Scattered(scene, spread=0.0)
    scene.home = np.array([2.0, 0.0, 0.03]), scene.home[1]
    task = Manipulation(name="far", about="", scene=scene, frames=5, starts=away, wanted=Along())
    with pytest.raises(PullbackError, match="'tip1' of task 'far' comes no nearer to 'thing' than 1.* the hand cannot"):
        train(task)
    with pytest.raises(PullbackError, match="frames of 'far' is 1"):
        replace(task, frames=1)
    with pytest.raises(PullbackError, match="mode is one of"):
        try_policy(task, task.fresh_policy(0), mode="guess")
    with pytest.raises(PullbackError, match="plant is one of"):
        try_policy(task, task.fresh_policy(0), plant="bullet")
