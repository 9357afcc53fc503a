"""``pullback envs``, ``train`` and ``evaluate``; ``view`` and ``check`` of a policy."""

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

from pullback.cli import main, policy_check
from pullback.envs import ENVS
from pullback.learn import METHODS, Diagnosis, Horizon, Policy
from pullback.view import load_motion

SHORT = ["--updates", "3", "--worlds", "8", "--set", "hidden=(8, 8)", "--set", "window=4"]
OWN = """
import torch
from pullback import envs
from pullback.envs.pendulum import Pendulum

class Own(Pendulum):
    def __init__(self, **options):
        super().__init__(links=1, **options)
        self.name, self.limit = "own", 20
{body}

def env(device="cpu"):
    return Own(device=device)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a short training."""
    folder = tmp_path_factory.mktemp("trained") / "out"
    assert main(["train", "pendulum-1", *SHORT, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *command: str) -> str:
    """The one line that a command ends with."""
    capsys.readouterr()
    assert main(list(command)) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith(("Compiling", "resuming"))]
    assert out == "" and len(lines) == 1
    return lines[0]


def test_environments_are_listed(capsys):
    assert main(["envs", "--json"]) == 0
    listed = {env["name"]: env for env in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(ENVS)
    ant = listed["ant"]
    assert (ant["actions"], ant["control_step"], ant["steps"]) == (8, 0.02, 1000) and ant["time_limit"] == 20
    assert all(env["about"] and env["observations"] > 0 for env in listed.values())
    assert main(["envs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ENVS) and "8 actions, every 20 ms for 20 s" in "".join(lines)
    assert "1 action," in lines[0] and lines[0].endswith("in Gymnasium: pullback/Pendulum1-v0)")
    assert all(env["gymnasium"] in gymnasium.registry for env in listed.values())


def test_a_training_writes_its_files(trained):
    result = json.loads((trained / "result.json").read_text())
    assert (result["env"], result["method"], result["updates"], result["steps"]) == ("pendulum-1", "sapo", 3, 96)
    assert result["pullback"]["return"] == pytest.approx(result["mujoco"]["return"], rel=1e-3)
    assert result["pullback"]["survived"] == 1.0 and result["pullback"]["length"] == 100
    settings = json.loads((trained / "settings.json").read_text())
    assert (settings["worlds"], settings["window"], settings["hidden"]) == (8, 4, [8, 8])
    with open(trained / "log.csv") as file:
        assert len(list(csv.DictReader(file))) == 3
    assert Policy.load(trained / "policy.npz").hidden == (8, 8)
    assert load_motion(trained).frames == 101 and load_motion(trained).title == "pendulum-1"
    assert b"<html" in (trained / "replay.html").read_bytes().lower()
    assert np.asarray(Image.open(trained / "curve.png").convert("L")).std() > 5


def test_a_training_goes_on(trained, here, capsys):
    """With more updates, but not with other options; or it starts over."""
    shutil.copytree(trained, "out")
    longer = ["train", "pendulum-1", *SHORT[2:], "--updates", "5", "--json"]
    assert main([*longer, "--out", "out"]) == 0
    first, err = capsys.readouterr()
    assert "resuming from" in err and json.loads(first)["updates"] == 5
    other = refused(capsys, "train", "pendulum-1", "--updates", "5", "--out", "out")
    assert "checkpoint.npz' is of another environment, method or seed" in other
    assert main([*longer, "--out", "out", "--fresh"]) == 0
    again, err = capsys.readouterr()
    assert "resuming" not in err and json.loads(again)["updates"] == 5


def test_folders_by_method_and_seed(here, capsys):
    assert main(["train", "pendulum-1", *SHORT, "--method", "bptt", "--seed", "2", "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["policy"]) == Path("out/pendulum-1-bptt-2/policy.npz")


def test_help_has_the_methods(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"{', '.join(list(METHODS)[:-1])} or {list(METHODS)[-1]}" in text


def test_evaluation(trained, capsys, tmp_path):
    result = json.loads((trained / "result.json").read_text())
    assert main(["evaluate", str(trained), "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pullback"] == pytest.approx(result["pullback"], rel=1e-4, abs=1e-6) and found["starts"] == 256
    assert json.loads((tmp_path / "evaluation.json").read_text()) == found
    fewer = ["evaluate", str(trained / "policy.npz"), "--starts", "4", "--seconds", "0.5"]
    assert main([*fewer, "--plant", "mujoco"]) == 0
    text = capsys.readouterr().out
    assert "4 episodes of 0.5 s" in text and "MuJoCo" in text and "Pullback" not in text
    values = []
    for timestep in ([], ["--timestep", str(1 / 600)]):
        assert main([*fewer, "--plant", "mujoco", "--json", *timestep]) == 0
        values.append(json.loads(capsys.readouterr().out)["mujoco"])
    assert values[0]["return"] != values[1]["return"] and values[0]["length"] == values[1]["length"] == 30


@pytest.mark.parametrize("of", ["policy.npz", ""])
def test_a_policy_can_be_looked_at(trained, here, capsys, of):
    assert main(["view", str(trained / of), "--export", "film.png", "--frames", "2"]) == 0
    assert np.asarray(Image.open("film.png").convert("L")).std() > 10


@pytest.mark.parametrize(
    ("slopes", "cosines", "said"),
    [
        ((1.0, 1.0, 1.0), (0.7, 0.9, 0.9), "agree (cosine of at least 0.85) in windows of 8, 32 control steps"),
        ((1.0, 1.0, 1.0), (0.7, 0.8, 0.1), "do not agree"),
        ((math.nan, 1.4, 1.0), (0.9, 0.9, 0.9), "WRONG: the loss of the shortest window changes 1.4 times"),
        ((math.nan, math.nan, math.nan), (0.9, 0.9, 0.9), "WRONG: actions change nothing that is rewarded"),
    ],
)
def test_what_is_said_of_gradients(slopes, cosines, said):
    pairs = zip((1, 8, 32), slopes, cosines, strict=True)
    rows = tuple(Horizon(steps, cosine, slope, 1.0, 0, 0) for steps, slope, cosine in pairs)
    (line,) = policy_check._verdict(Diagnosis(rows, 8, 0.0, 1.0, 0.3), {})
    assert said in line


def test_the_check_of_a_policy(trained, here, capsys):
    shutil.copytree(trained, "out")
    assert main(["check", "out"]) == 0
    text = capsys.readouterr().out
    assert "control steps   cosine    slope" in text and "0 of 3 updates skipped, 0 worlds failed" in text
    found = json.loads(Path("out/check.json").read_text())
    assert found["passed"] and [row["steps"] for row in found["horizons"]] == [1, 2, 4, 8, 16, 32]
    assert all(abs(row["slope"] - 1) < 0.01 for row in found["horizons"][:4]) and found["skipped"] == 0
    assert np.asarray(Image.open("out/check.png").convert("L")).std() > 5
    assert main(["check", "pendulum", "--steps", "2"]) == 0  # a robot as before
    assert "gradients agree" in capsys.readouterr().out


def test_an_environment_of_ones_own(here, capsys):
    Path("own.py").write_text(OWN.format(body=""))
    assert main(["train", "own.py", *SHORT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pullback"]["length"] == 20
    assert "'own' does not come with Pullback: name its file with --env" in refused(capsys, "evaluate", "out/own")
    assert main(["evaluate", "out/own", "--env", "own.py", "--starts", "2"]) == 0
    assert main(["view", "out/own/policy.npz", "--env", "own.py", "--export", "a.png"]) == 0
    other = refused(capsys, "evaluate", "out/own", "--env", "pendulum-2")
    assert "the policy is for 'own' (4 observations, 1 action), not for 'pendulum-2'" in other


HEAVY = """
import pullback.envs.cartpole


class Heavy(pullback.envs.cartpole.CartPole):
    name, limit = "heavy", 20

    def make_system(self, worlds, dtype, device):
        system = super().make_system(worlds, dtype, device)
        system.params["mass"] = 2 * system.params["mass"]
        return system


def env():
    return Heavy()
"""


def test_a_robot_that_was_changed_is_not_evaluated_in_mujoco(here, capsys):
    """MuJoCo has the robot of the file: what is said of that one is not said of this."""
    Path("heavy.py").write_text(HEAVY)
    assert main(["train", "heavy.py", *SHORT, "--set", "window=2"]) == 0
    said = capsys.readouterr()
    note = " ".join(said.err.split())
    assert "Pullback" in said.out and "MuJoCo" not in said.out
    assert "not evaluated in MuJoCo, which has the robot as model() gives it, but mass was changed" in note
    command = ("evaluate", "out/heavy", "--env", "heavy.py", "--plant", "mujoco")
    assert "plant='mujoco' has the robot as model() gives it, but mass was changed" in refused(capsys, *command)


SPOILT = {
    "reward": (
        "    def reward(self, before, action, after): return {'approach': 1 / (after.age < 3), 'end': action[:, 0]}",
        "the reward 'approach' of environment 'own' is not finite in world 0 at control step 3 of an episode",
    ),
    "shape of the reward": (
        "    def reward(self, before, action, after): return action.mean()",
        "the reward 'reward' of environment 'own' has shape ()",
    ),
    "observation": (
        "    def observe(self, state):\n"
        "        seen = super().observe(state)\n"
        "        return seen[:, :2] if state.age.max() > 2 else seen",
        "the observation of environment 'own' has shape (8, 2), but (8, 4) is needed",
    ),
    "start": (
        "    def start(self, random): return envs.EnvState(0, 1, 2, 3)",
        "must be a State(q, v) of torch tensors",
    ),
}


@pytest.mark.parametrize("what", SPOILT)
def test_environments_that_are_wrong(here, capsys, what):
    body, said = SPOILT[what]
    Path("own.py").write_text(OWN.format(body=body))
    assert said in refused(capsys, "train", "own.py", *SHORT)


REFUSED = {
    "train pendulum": "'pendulum' is no environment but a robot",
    "train robot.xml": "'robot.xml' is no environment but a robot",
    "train throw": "'throw' is no environment but a task: solve it with 'pullback optimize throw'",
    "train pendulum-9": "there is no environment 'pendulum-9'; did you mean 'pendulum-",
    "train nowhere.py": "there is no file 'nowhere.py'",
    "train empty.py": "empty.py needs a function env() that gives a pullback.envs.Environment",
    "train pendulum-1 --method spo": "there is no method 'spo'; did you mean 'sapo'?",
    "train pendulum-1 --set windw=8": "there is no option of SAPO 'windw'; did you mean 'window'?",
    "train pendulum-1 --set window": "'window' is not of the form name=value",
    "train pendulum-1 --set window=wide": "option window must be a whole number, positive, not 'wide'",
    "train pendulum-1 --set window=0": "option window must be a whole number, positive, not 0",
    "train pendulum-1 --set discount=True": "option discount must be a number, not negative, at most 1, not True",
    "train pendulum-1 --set hidden=[8,0]": "option hidden must be a whole number, positive, not 0",
    "train pendulum-1 --minutes 0": "0 is not positive",
    "train pendulum-1 --minutes 1 --updates 3": "not allowed with argument",
    "train pendulum-1 --device tpu": "device 'tpu' is not available",
    "evaluate nowhere": "there is no file 'nowhere'",
    "evaluate folder": "the folder 'folder' holds no policy.npz",
    "evaluate empty.py": "'empty.py' cannot be read as a policy: it is no .npz file; give the policy.npz",
    "evaluate out/motion.npz": "motion.npz' cannot be read as a policy: Policy.save did not write it",
    "evaluate cut --env pendulum-1": "cannot be read as a policy",
    "evaluate out --plant mujco": "there is no --plant 'mujco'; did you mean 'mujoco'?",
    "evaluate out --plant pullback --timestep 0.001": "--timestep is for MuJoCo",
    "evaluate out --timestep 0.003 --plant mujoco": "is not a multiple of 0.003 s: try 0.002777778 s",
    "view cut/policy.npz": "cannot be read as a policy",
    "check cut": "cannot be read as a policy",
    "train pendulum-1 --updates 3 --out cut": "checkpoint.npz' cannot be read as a checkpoint: delete it",
}


@pytest.mark.parametrize("command", REFUSED)
def test_one_line_for_bad_input(trained, here, capsys, command):
    Path("empty.py").touch()
    Path("folder").mkdir()
    shutil.copytree(trained, "out")
    shutil.copytree(trained, "cut")
    for name in ("policy.npz", "checkpoint.npz"):
        Path("cut", name).write_bytes(Path("out", name).read_bytes()[:2000])
    Path("cut/motion.npz").unlink()
    assert REFUSED[command] in refused(capsys, *command.split())


def test_without_torch(here):
    """The other commands work, and those that need it say how to get it."""
    (here / "torch.py").write_text("raise ImportError('no torch')")
    environment = os.environ | {"PYTHONPATH": str(here)}
    run = lambda *words: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "pullback.cli", *words], capture_output=True, text=True, check=False, env=environment
    )
    assert run("--completion", "bash").returncode == 0
    listed = run("tasks")
    assert listed.returncode == 0 and "throw" in listed.stdout
    assert re.search(r'^swimmer +\(networks need PyTorch: pip install "pullback\[torch\]"\)$', listed.stdout, re.M)
    done = run("train", "ant")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and 'pip install "pullback[learn]"' in done.stderr
