"""The loop around methods: resumed to the last bit, best policy kept, bad input named."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pullback as pb  # noqa: E402
from pullback.envs import make  # noqa: E402
from pullback.envs.pendulum import Pendulum  # noqa: E402
from pullback.learn import METHODS, PPO, SAPO, Policy, evaluate, train  # noqa: E402
from pullback.learn.training import make_method  # noqa: E402

QUICK = {"starts": 4, "evaluations": 3, "worlds": 4, "hidden": (8, 8), "window": 5}


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def save_always(monkeypatch):
    monkeypatch.setattr("pullback.learn.training.SAVE_AFTER", -1.0)


def without_clock(log):
    return [{name: x for name, x in row.items() if name != "seconds"} for row in log]


@pytest.mark.parametrize("method", ["sapo", "shac", "bptt", "ppo"])
def test_an_interrupted_training_ends_with_the_same_bits(method, tmp_path):
    env = make("pendulum-1", spread=0.2)
    options = {"updates": 7, "seed": 5, **QUICK}
    whole = train(env, method, out=tmp_path / "whole", **options)

    def stop_at(count):
        def watch(training, progress):
            if len(training.log) >= count:
                raise Stop

        return watch

    for count in (2, 5):
        with pytest.raises(Stop):
            train(env, method, out=tmp_path / "parts", watch=stop_at(count), **options)
    parts = train(env, method, out=tmp_path / "parts", **options)
    assert without_clock(parts.log) == without_clock(whole.log) and len(whole.log) == 7
    for name, x in whole.policy.state_dict().items():
        assert torch.equal(x, parts.policy.state_dict()[name]), name
    with np.load(tmp_path / "whole/checkpoint.npz") as a, np.load(tmp_path / "parts/checkpoint.npz") as b:
        assert set(a) == set(b)
        for name in set(a) - {"header"}:
            assert np.array_equal(a[name], b[name]), name
    other = train(env, method, **{**options, "seed": 6})
    assert not torch.equal(other.policy.network.flat, whole.policy.network.flat)


def test_gradients_solve_the_pendulum():
    env = make("pendulum-1")
    training = train(env, "bptt", updates=15, worlds=4, evaluations=5, starts=2)
    assert evaluate(training.policy, env, starts=2).returns.mean() > 0.98 * 0.5
    assert training.log[0]["reward"] < 0.5 * training.log[-1]["reward"]


def test_what_is_written(tmp_path):
    training = train("pendulum-1", "sapo", updates=3, out=tmp_path, **QUICK)
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert len(rows) == 4 and rows[0].startswith("update,steps,seconds,reward") and "eval return" in rows[0]
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["method"] == "SAPO" and settings["worlds"] == 4 and settings["env"] == "pendulum-1"
    policy = Policy.load(tmp_path / "policy.npz")
    assert torch.equal(policy.network.flat, training.policy.network.flat)
    kept = evaluate(policy, make("pendulum-1"), starts=4, seed=20_000).returns.mean()
    assert kept == pytest.approx(max(row["eval return"] for row in training.log if "eval return" in row), abs=1e-6)


class Broken(Pendulum):
    def reward(self, before, action, after):
        angle = after.physics.q[:, 0]
        return {"fine": angle, "broken": torch.where(after.age == 3, angle * torch.nan, angle)}


class Changing(Pendulum):
    def observe(self, state):
        seen = super().observe(state)
        return seen[:, :-1] if int(state.age.max()) >= 3 else seen


@pytest.mark.parametrize("method", ["sapo", "ppo"])
def test_a_reward_that_is_not_finite_is_named(method):
    with pytest.raises(pb.PullbackError, match="reward 'broken' of .*'pendulum-1' is not finite in world 0 at"):
        train(Broken(), method, updates=2, **QUICK)


def test_an_observation_that_changes_its_shape_is_named():
    with pytest.raises(pb.PullbackError, match=r"observation of .*'pendulum-1' has shape \(4, 3\), but \(4, 4\)"):
        train(Changing(), "sapo", updates=2, **QUICK)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(pb.PullbackError, match="there is no environment 'pendulum-9'; did you mean"):
        train("pendulum-9", minutes=1)
    with pytest.raises(pb.PullbackError, match="there is no method 'sappo'; did you mean 'sapo'"):
        train("pendulum-1", "sappo", minutes=1)
    with pytest.raises(pb.PullbackError, match="say how long to train"):
        train("pendulum-1")
    with pytest.raises(pb.PullbackError, match="no option of SAPO 'wordls'; did you mean 'worlds'"):
        train("pendulum-1", updates=1, wordls=3)
    with pytest.raises(pb.PullbackError, match="starts must be a whole number of at least 1, not 0"):
        train("pendulum-1", updates=1, starts=0)
    (tmp_path / "file").touch()
    with pytest.raises(pb.PullbackError, match="cannot write to .*file': File exists"):
        train("pendulum-1", updates=1, out=tmp_path / "file", **QUICK)
    train("pendulum-1", updates=1, out=tmp_path, **QUICK)
    with pytest.raises(pb.PullbackError, match="of another environment, method or seed"):
        train("pendulum-2", updates=1, out=tmp_path, **QUICK)
    file = tmp_path / "checkpoint.npz"
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(pb.PullbackError, match="checkpoint.npz' cannot be read as a checkpoint: delete it"):
        train("pendulum-1", updates=1, out=tmp_path, **QUICK)


ALTERED = {
    "its policy.network.flat is not": lambda arrays, header: arrays["learner.policy.network.flat"].fill(np.nan),
    "its network.flat is not a number": lambda arrays, header: arrays["best.network.flat"].fill(np.nan),
    "Missing key": lambda arrays, header: arrays.pop("best.network.flat"),
    "random does not fit": lambda arrays, header: arrays.pop("learner.random"),
    "state": lambda arrays, header: arrays["learner.random"].fill(0),
    "its memory has 5 rows of reward": lambda arrays, header: arrays.update(
        {"learner.memory.real.reward": arrays["learner.memory.real.reward"][:5]}
    ),
    "memory.real.added": lambda arrays, header: arrays.pop("learner.memory.real.added"),
    "its update must be a whole number": lambda arrays, header: header.update(update="two"),
    "its seconds must be a number": lambda arrays, header: header.update(seconds="few"),
    "not iterable": lambda arrays, header: header.update(log=[1, 2]),
}


@pytest.mark.parametrize("said", ALTERED)
def test_an_altered_checkpoint_is_one_line(said, tmp_path):
    options = {**QUICK, "random_steps": 8, "batch": 8, "ahead": 4, "capacity": 100}
    file = tmp_path / "checkpoint.npz"
    train("pendulum-1", "sac", updates=1, out=tmp_path, **options)
    with np.load(file) as kept:
        arrays = dict(kept)
    header = json.loads(str(arrays.pop("header")))
    ALTERED[said](arrays, header)
    np.savez(file, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(pb.PullbackError, match=rf"checkpoint.npz' cannot be read .*: delete it \(.*{said}") as found:
        train("pendulum-1", "sac", updates=2, out=tmp_path, **options)
    assert "\n" not in str(found.value)


class Late(Pendulum):
    """What it sees is not a number from the 40th control step on, after the first looks."""

    def observe(self, state):
        return torch.where(state.age[:, None] < 40, super().observe(state), torch.nan)


@pytest.mark.parametrize("method", ["sapo", "ppo", "sac"])
def test_an_observation_that_is_not_finite_is_named(method):
    with pytest.raises(pb.PullbackError, match="the observation of environment 'pendulum-1' is not finite in world 0"):
        train(Late(), method, updates=20, **{**QUICK, "evaluations": 0})


class Over(Pendulum):
    def terminated(self, state):
        return state.age >= 0


class Exploding(Pendulum):
    def start(self, random):
        start = super().start(random)
        return start._replace(v=start.v + 1e30)


def test_episodes_that_cannot_begin_are_refused():
    with pytest.raises(pb.PullbackError, match="every start of environment 'pendulum-1' is terminated already"):
        train(Over(), updates=1, **QUICK)
    with pytest.raises(pb.PullbackError, match="the simulation of environment 'pendulum-1' fails in every world at"):
        train(Exploding(), updates=1, **QUICK)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        (SAPO, {"window": 0}, "option window must be a whole number, positive, not 0"),
        (SAPO, {"betas": (0.9,)}, r"option betas must be such as \(0.7, 0.95\), not \(0.9,\)"),
        (SAPO, {"entropy_target": -1.0}, "option entropy_target must be such as"),
        (SAPO, {"discount": 2.0}, "option discount must be a number, not negative, at most 1, not 2.0"),
        (SAPO, {"hidden": (8, 0)}, "option hidden must be a whole number, positive, not 0"),
        (SAPO, {"cap": 0.0}, "option cap must be a number, positive"),
        (SAPO, {"clip": float("nan")}, "option clip must be a number, positive, not nan"),
        (SAPO, {"closed_loop": 1}, "option closed_loop must be True or False, not 1"),
        (SAPO, {"critic_passes": 0}, "option critic_passes must be a whole number, positive, not 0"),
        (PPO, {"worlds": 1, "window": 1}, "use at least two worlds, or a window of two"),
    ],
)
def test_options_out_of_range_are_named(method, options, said):
    with pytest.raises(pb.PullbackError, match=said):
        method(**options)


def test_every_method_has_a_name():
    assert {"sapo", "shac", "bptt", "ppo"} <= set(METHODS)


@pytest.mark.parametrize(("method", "more"), [("sapo", 8), ("ppo", 8), ("sac", 1)])
def test_settings_have_more_worlds_on_a_gpu_unless_told(method, more):
    ant = SimpleNamespace(settings=make("ant").settings, device=torch.device("cuda"))
    here = make_method(method, make("ant"), {})
    assert make_method(method, ant, {}) == replace(here, worlds=more * here.worlds)
    assert make_method(method, ant, {"worlds": 48}).worlds == 48
    assert make_method(here, ant, {}) == here
