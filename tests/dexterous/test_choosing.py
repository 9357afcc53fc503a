"""Several trainings, of which trials choose one."""

from dataclasses import replace

import numpy as np

from pullback.dexterous import train, train_and_choose, try_policy
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


def test_trials_stay_the_same_when_repeated():
    task = replace(TASKS["grasp-cube"](), frames=6)
    policy = task.fresh_policy(0)
    first, again = (try_policy(task, policy, starts=2, hold=0.0) for _ in range(2))
    assert np.array_equal(first.q, again.q)
