"""Several trainings, of which trials choose one; and what a squeeze does to an object."""

from dataclasses import replace

import numpy as np
import pytest

from pullback.dexterous import train, train_and_choose, try_policy
from pullback.dexterous.trial import squeezed
from pullback.spatial import cross_matrix, unit_quat_matrix
from pullback.tasks import TASKS

QUICK = {"iterations": 2, "samples": 2, "hidden": 4}


def test_the_policy_that_holds_most_often_is_kept(monkeypatch, tmp_path):
    task = replace(TASKS["grasp-cube"](), frames=4)
    held = {5: 0.2, 6: 0.7, 7: 0.1}
    policies = {seed: train(task, seed=seed, **QUICK)[0] for seed in held}

    def tried(_, policy, **options):
        assert options["seed"] not in (0, 1000) and options["squeeze"] == task.squeeze
        (seed,) = [s for s, one in policies.items() if np.array_equal(one.weights, policy.weights)]
        return type("Trial", (), {"rate": held[seed]})

    monkeypatch.setattr("pullback.dexterous.choosing.try_policy", tried)
    options = {**QUICK, "seed": 5, "checkpoint": tmp_path / "state.npz"}
    chosen = train_and_choose(task, tries=3, **options)
    assert chosen.seed == 6 and chosen.rates == held
    assert np.array_equal(chosen.policy.weights, policies[6].weights)
    assert {path.name for path in tmp_path.glob("*.npz")} == {"state.npz", "state-1.npz", "state-2.npz"}
    enough = train_and_choose(replace(task, target=0.6), tries=3, **options)
    assert enough.seed == 6 and enough.rates == {5: 0.2, 6: 0.7}
    assert train_and_choose(task, **options).rates == {5: 0.2}  # the task's own tries: one


@pytest.mark.parametrize("name", ["grasp-cube", "reorient", "turn-wheel"])
def test_a_squeeze_puts_no_force_and_no_torque_on_the_object(name):
    """Fingertips on three slides each: their offsets are those of the joints."""
    task, random = TASKS[name](), np.random.default_rng(0)
    scene, tips = task.scene, len(task.scene.hand.tips)
    x = task.batch(random, 6, noisy=False).start
    u = np.tile(task.usual(), (6, 1)) + 0.3 * scene.weight * random.standard_normal((6, scene.nu)) * (
        np.arange(scene.nu) >= scene.n
    )
    for k in range(tips):
        p, s, f = scene.columns(k)
        u[:, p], u[:, s] = task.usual()[p] + 0.003 * random.standard_normal((6, 3)), 0.0
        u[:, f] = scene.weight * random.standard_normal((6, 3))
    none = np.zeros((6, tips))
    share, moved = squeezed(task, x, u, 0.004, none, scene.shape)
    offsets = moved.reshape(6, tips, 3)
    assert share.min() > 0.3 and np.linalg.norm(offsets, axis=-1).max() > 0.001
    turn, p = unit_quat_matrix(x.quat), scene.split(u).p[:, :tips]
    arm = p @ np.swapaxes(turn, -1, -2)
    inward = -scene.shape.normal(p)[0] @ np.swapaxes(turn, -1, -2)
    assert np.mean(np.sum(offsets * inward, axis=-1)) > 0.001  # it still is a squeeze
    torque = np.sum(cross_matrix(arm) @ offsets[..., None], axis=1)[..., 0]
    if name == "turn-wheel":
        torque = torque * scene.axis
    else:
        assert np.abs(offsets.sum(1)).max() < 2e-5
    assert np.abs(torque).max() < 0.03 * 2e-5 + 1e-6
    alone = u.copy()
    for k in range(1, tips):
        alone[:, scene.columns(k)[2]] = 0.0
    share, moved = squeezed(task, x, alone, 0.004, none, scene.shape)
    assert np.all(share[:, 0] > 0) and not share[:, 1:].any()
    if name != "turn-wheel":
        assert np.abs(moved).max() < 2e-5  # by itself a finger cannot squeeze


def test_trials_stay_the_same_when_repeated():
    task = replace(TASKS["grasp-cube"](), frames=6)
    policy = task.fresh_policy(0)
    first, again = (try_policy(task, policy, starts=2, hold=0.0) for _ in range(2))
    assert np.array_equal(first.q, again.q)
