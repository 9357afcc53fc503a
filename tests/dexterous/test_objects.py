"""Objects that differ from sample to sample: boxes, cylinders and capsules of random size."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from pullback.dexterous import draw_proposals, draw_trial, judge, try_policy
from pullback.tasks import TASKS

KINDS = {0: "mjGEOM_BOX", 1: "mjGEOM_CYLINDER", 2: "mjGEOM_CAPSULE"}


@pytest.fixture(scope="module")
def task():
    return TASKS["grasp-any"]()


@pytest.fixture(scope="module")
def batch(task):
    return task.batch(np.random.default_rng(0), 24, noisy=False)


def only(things, sample):
    """One of them, as a batch of its own."""
    return replace(things, kind=things.kind[sample : sample + 1], half=things.half[sample : sample + 1])


def test_shapes_and_inertias_are_those_of_the_files(task, batch):
    things, random = batch.things, np.random.default_rng(1)
    assert set(things.kind) == {0, 1, 2}
    for k in range(8):
        scene, own = task.scene.with_thing(things, k), only(things, k)
        m = scene.model.mujoco
        assert m.geom_type[-1] == getattr(mujoco.mjtGeom, KINDS[things.kind[k]])
        assert m.body_mass[-1] == pytest.approx(task.scene.mass)
        np.testing.assert_allclose(own.inertia[0], scene.inertia, rtol=1e-9, atol=1e-12)
        x = 0.04 * random.normal(size=(50, 1, 3))
        for what in ("distance", "normal", "outside"):
            for ours, theirs in zip(getattr(own.shape, what)(x), getattr(scene.shape, what)(x), strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_sample_is_what_it_is_by_itself(task, batch):
    """Shapes are not mixed up between samples, nor the balls that stand for them."""
    shape, points = batch.things.shape, 0.03 * np.random.default_rng(2).normal(size=(5, 24, 3))
    centres, radii = shape.balls()
    for k in range(24):
        own = only(batch.things, k).shape
        for what in ("distance", "normal", "outside"):
            for all_of_them, alone in zip(
                getattr(shape, what)(points), getattr(own, what)(points[:, k : k + 1]), strict=True
            ):
                np.testing.assert_array_equal(all_of_them[:, k], alone[:, 0])
        alone, its_radii = own.balls()
        lowest = (alone[0, :, 2] - its_radii[0]).min()
        assert (centres[k, :, 2] - radii[k]).min() == pytest.approx(lowest) == pytest.approx(-batch.things.half[k, 2])
        extent = np.abs(centres[k]).max(0) + radii[k].max()
        np.testing.assert_allclose(extent, batch.things.half[k], rtol=0.03)


def test_they_rest_on_the_table(task, batch):
    np.testing.assert_allclose(batch.start.at[:, 2], batch.things.half[:, 2])
    for k in range(6):
        m = batch.things.model(k).mujoco
        data = mujoco.MjData(m)
        mujoco.mj_resetDataKeyframe(m, data, 0)
        data.ctrl[:] = data.qpos[: m.nu]
        for _ in range(200):
            mujoco.mj_step(m, data)
        assert np.abs(data.qpos[m.nu : m.nu + 3] - [0, 0, batch.things.half[k, 2]]).max() < 2e-3


def test_the_policy_sees_which_it_is(task, batch):
    policy = task.fresh_policy(0)
    assert task.features == TASKS["grasp-cube"]().features + 6 == policy.first.shape[1] - 1
    seen = task.see(batch.start, 0, batch)
    assert seen.shape == (24, task.features)
    assert np.array_equal(seen[:, -6:-3].argmax(-1), batch.things.kind)
    larger = replace(batch.things, half=1.1 * batch.things.half)
    moved = task.see(batch.start, 0, batch._replace(things=larger)) - seen
    assert np.abs(moved[:, -3:]).min() > 0.1 and not moved[:, :-3].any()


def test_each_start_of_a_trial_has_its_own_object(task):
    """In MuJoCo and in Pullback the same, and drawn as what it is."""
    policy = task.fresh_policy(1)
    options = {"starts": 3, "hold": 0.0, "seed": 3, "mode": "corrected"}
    ours, theirs = (try_policy(task, policy, plant=plant, **options) for plant in ("pullback", "mujoco"))
    assert len(set(theirs.things.kind)) > 1
    assert np.abs(ours.q - theirs.q).max() < 1e-5
    np.testing.assert_allclose(theirs.q[0, :, -5], theirs.things.half[:, 2])
    batch = task.batch(np.random.default_rng(0), 3, noisy=False)
    x, u, _ = task.rollout(policy, batch)
    for drawing in (draw_trial(task, theirs, start=1), draw_proposals(task, x, u, sample=2, things=batch.things)):
        assert not drawing.problem() and len(drawing.contact_pos) == 4 * task.frames


def test_quality_counts_penetration_of_each_with_its_own_size(task):
    """Of fingertips that stay at home nothing reaches into the objects, however large these are."""
    policy = task.fresh_policy(2)
    still = policy.with_weights(0 * policy.weights)
    quality = judge(task, still, starts=40)
    assert quality.penetration < 1e-3 and quality.reached == 0
    large = replace(task, things=replace(task.things, least=0.06, most=0.08))
    assert judge(large, still, starts=40).penetration > 5e-3
