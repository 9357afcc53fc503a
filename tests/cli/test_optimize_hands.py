"""``pullback optimize`` of a task for a hand whose policy proposes its contacts."""

import json

import numpy as np
import pytest

from pullback.cli import main
from pullback.cli.optimize import read_task
from pullback.core.errors import PullbackError
from pullback.dexterous import ContactPolicy

TASK = """
from dataclasses import replace
from pullback.tasks import TASKS

def task():
    return replace(TASKS["grasp-cube"](), name="mine", frames=6)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TASK)
    return tmp_path


def test_it_is_trained_tried_and_written(folder, capsys):
    """Two iterations lift nothing: exit code 1, and all is written, from which a longer training resumes."""
    assert main(["optimize", "mine.py", "--iterations", "2", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["iterations"] == 2 and summary["metric"] < summary["target"]
    assert set(summary["mujoco"]) == {"measured", "replay", "corrected"} and summary["shares"]["distance"] > 0
    result = np.load("out/mine/result.npz", allow_pickle=False)
    assert result["q"].shape[1] == 16 and result["u"].shape == (6, 45)
    assert ContactPolicy.load("out/mine/policy.npz").task == "mine"
    for name in ("proposals.npz", "loss.png", "replay.html", "result.json"):
        assert (folder / "out/mine" / name).stat().st_size > 1000
    assert main(["optimize", "mine.py", "--iterations", "3"]) == 1
    told = capsys.readouterr()
    assert "resuming" in told.err and "3 iterations" in told.out and "MuJoCo, replay" in told.out


def test_options_that_do_not_fit(folder, capsys):
    assert main(["optimize", "mine.py", "--method", "adam"]) == 2
    assert "trained by matrix-free Gauss-Newton: leave out --method" in capsys.readouterr().err
    assert main(["optimize", "mine.py", "--device", "cuda"]) == 2
    assert "trained on the CPU" in capsys.readouterr().err


def test_another_hand(folder, capsys):
    """Where a task may have one; what it is called, and where it is written, says which."""
    task = read_task("grasp-cube", {"seed": 0, "hand": "three_finger"})
    assert task.name == "grasp-cube-three_finger" and task.scene.n == 15 and task.scene.contacts == 4
    assert read_task("grasp-cube", {"seed": 0}).name == "grasp-cube"
    assert main(["optimize", "turn-wheel", "--hand", "hand"]) == 2
    assert "there are no options, such as 'hand'" in capsys.readouterr().err
    assert main(["optimize", "mine.py", "--hand", "hand"]) == 2
    assert "there are no options, such as 'hand'" in capsys.readouterr().err
    with pytest.raises(PullbackError, match="there is no hand 'han'; did you mean 'hand'?"):
        read_task("grasp-cube", {"hand": "han"})
