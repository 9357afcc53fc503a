"""Policies: what they do, their files, and what is refused of them."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import pullback as pb
from pullback.envs import make
from pullback.learn import Policy, evaluate, record


def policy(hidden=(16, 12), actions=2, observations=5) -> Policy:
    """One whose normaliser has seen something, and whose weights are no longer those it began with."""
    generator = torch.Generator().manual_seed(3)
    made = Policy("robot", observations, actions, hidden=hidden, generator=generator)
    made.normaliser.update(2.0 + 3.0 * torch.randn(100, observations, generator=generator))
    with torch.no_grad():
        made.network.flat += 0.3 * torch.randn(made.network.flat.shape, generator=generator)
    return made


OBSERVATIONS = np.random.default_rng(0).normal(2.0, 5.0, (40, 5)).astype(np.float32)


def test_what_is_given_is_returned():
    mine = policy()
    rows = mine.act(OBSERVATIONS)
    assert rows.shape == (40, 2) and isinstance(rows, np.ndarray) and np.all(np.abs(rows) < 1) and rows.std() > 0.1
    assert np.allclose(mine.act(OBSERVATIONS[7]), rows[7], atol=1e-6) and mine.act(OBSERVATIONS[7]).shape == (2,)
    tensors = mine.act(torch.as_tensor(OBSERVATIONS))
    assert torch.is_tensor(tensors) and np.array_equal(tensors.numpy(), rows)
    drawn = [mine.act(OBSERVATIONS, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1]) and np.abs(drawn[0] - drawn[2]).max() > 0.1
    with pytest.raises(pb.PullbackError, match=r"takes observations \(rows, 5\), not \(40, 4\)"):
        mine.act(OBSERVATIONS[:, :4])
    with pytest.raises(pb.PullbackError, match=r"an observation has shape \(40, 4\), but \(worlds, 5\) at first"):
        mine(torch.as_tensor(OBSERVATIONS[:, :4]))


def test_a_file_holds_the_policy(tmp_path):
    mine = policy()
    again = Policy.load(mine.save(tmp_path / "policy.npz"))
    assert np.array_equal(again.act(OBSERVATIONS), mine.act(OBSERVATIONS))
    assert (again.env, again.hidden, again.actions) == ("robot", (16, 12), 2)
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as file:  # for any program
        assert json.loads(str(file["header"]))["observations"] == 5


@pytest.mark.parametrize("hidden", [(16, 12), (8,), ()])
def test_onnx_acts_alike(tmp_path, hidden):
    mine = policy(hidden)
    path = mine.export_onnx(tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    far = np.concatenate([OBSERVATIONS, 1e3 * OBSERVATIONS])  # beyond what the normaliser lets through
    for rows in (far, far[:1]):
        (actions,) = session.run(["action"], {"observation": rows})
        assert np.abs(actions - mine.act(rows)).max() < 1e-5
    assert {p.key: p.value for p in onnx.load(path).metadata_props} == {"env": "robot"}


def changed(path, **arrays) -> None:
    with np.load(path) as file:
        held = dict(file)
    header = json.loads(str(held["header"])) | arrays.pop("header", {})
    held = {name: x for name, x in (held | arrays).items() if x is not None}
    np.savez(path, **(held | {"header": np.array(json.dumps(header))}))


BROKEN = {
    "no file": (lambda path: path.unlink(), "there is no file"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-300]), "cannot be read as a policy"),
    "no archive": (lambda path: path.write_text("policy"), "it is no .npz file; give the policy.npz"),
    "a pickle": (lambda path: changed(path, **{"network.flat": np.array([print], dtype=object)}), "Object arrays"),
    "an older one": (lambda path: changed(path, header={"format": 0}), "another version"),
    "fewer weights": (lambda path: changed(path, **{"network.flat": np.zeros(7)}), "network.flat has shape (7,)"),
    "other layers": (lambda path: changed(path, header={"hidden": [16, 13]}), "header says"),
    "huge layers": (lambda path: changed(path, header={"hidden": [10**6, 10**6]}), "header says (1000015000004,)"),
    "no sizes": (lambda path: changed(path, header={"hidden": ["a"]}), "layers of sizes"),
    "no normaliser": (lambda path: changed(path, **{"normaliser.mean": None}), "it has no normaliser.mean"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is a folder: give the policy.npz in it"),
    "a checkpoint": (lambda path: np.savez(path, header=np.array('{"update": 3}')), "Policy.save did not write it"),
    "no deviation": (
        lambda path: changed(path, header={"log_deviation": "wide"}),
        "its log_deviation must be a number",
    ),
    "not finite": (lambda path: changed(path, **{"normaliser.mean": np.full(5, np.nan)}), "mean is not finite"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_one_line(tmp_path, kind):
    path = policy().save(tmp_path / "policy.npz")
    spoil, said = BROKEN[kind]
    spoil(path)
    with pytest.raises(pb.PullbackError) as refused:
        Policy.load(path)
    assert said in str(refused.value) and str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_a_policy_for_another_robot_is_refused():
    env = make("pendulum-2")
    with pytest.raises(pb.PullbackError, match=r"for 'robot' \(5 observations, 2 actions\), not for 'pendulum-2'"):
        evaluate(policy(), env, starts=1)


def test_a_run_of_a_policy():
    """Its states are those of the rollout of its controls, and it ends with the episode."""
    env = make("pendulum-2", spread=0.5)
    mine = Policy(env.name, env.observation_size, env.action_size, generator=torch.Generator().manual_seed(1))
    run = record(mine, env, steps=30)
    assert run.steps == 30 and run.hold == env.hold and run.q.shape == (31, 1, 2) and np.abs(run.controls).max() > 1e-3
    again = pb.rollout(env.system.in_worlds(1), pb.State(run.q[0], run.v[0]), run.controls, hold=env.hold)
    assert np.allclose(again.q, run.q, atol=1e-5)

    env.terminated = lambda state: state.age >= 7
    assert record(mine, env, steps=30).steps == 6
