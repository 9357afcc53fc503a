"""``pullback tasks`` and ``pullback optimize``: files, exit codes, going on after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pullback.cli import main, optimize
from pullback.tasks import TASKS

EXAMPLES = Path(__file__).parents[2] / "examples"
MY_TASK, IDENTIFY = EXAMPLES / "05_my_task.py", EXAMPLES / "06_identify.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tasks_are_listed(capsys):
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TASKS)
    assert main(["tasks", "--json"]) == 0
    assert [task["name"] for task in json.loads(capsys.readouterr().out)] == list(TASKS)


def test_a_task_of_ones_own(folder, capsys):
    assert main(["optimize", str(MY_TASK)]) == 0
    out = capsys.readouterr().out
    assert "solved: 0.00" in out and "target reached" in out
    result = np.load("out/crane/result.npz", allow_pickle=False)
    assert result["q"].shape == (len(result["controls"]) + 1, 1, 2)
    assert result["losses"][-1] == result["losses"].min() and abs(result["q"][-1, 0, 0] - 0.5) <= 0.01
    assert json.loads((folder / "out/crane/result.json").read_text())["solved"] is True
    assert b"<html" in (folder / "out/crane/replay.html").read_bytes().lower()
    assert (folder / "out/crane/loss.png").stat().st_size > 1000


@pytest.mark.parametrize("method", ["adam", "sgd", "cma", "lbfgs"])
def test_methods(folder, capsys, method):
    """Two iterations are not enough for any: exit code 1, and the result is written all the same."""
    assert main(["optimize", str(MY_TASK), "--method", method, "--iterations", "2", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["iterations"] == 2 and not summary["solved"] and summary["method"].lower().startswith(method)
    assert (folder / f"out/crane-{method}/result.npz").exists()


def test_ilqr_takes_terms_and_says_so(folder, capsys):
    assert main(["optimize", str(MY_TASK), "--method", "ilqr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["solved"]
    assert main(["optimize", "throw", "--method", "ilqr"]) == 2
    assert "terms of pullback.tasks such as Tracking" in capsys.readouterr().err


def test_tasks_that_begin_at_random(folder, capsys):
    """Each seed has its own start and its own folder; a folder of another seed is refused."""
    starts = []
    for seed in ("0", "3"):
        assert main(["optimize", "grasp", "--seed", seed, "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        assert summary["solved"] and summary["seed"] == int(seed) and summary["method"].startswith("ILQR")
        starts.append(np.load(summary["result"])["q"][0])
    assert summary["result"] == str(Path("out/grasp-3/result.npz"))
    assert np.abs(starts[0] - starts[1]).max() > 1e-3
    assert main(["optimize", "grasp", "--seed", "1", "--out", "out/grasp-3"]) == 2
    assert "seed" in capsys.readouterr().err


def test_easier_tasks_are_counted_and_started_over(folder, capsys):
    command = ["optimize", "hop", "--json", "--iterations", "1"]
    assert main(command) in (0, 1)
    summary = json.loads(capsys.readouterr().out)
    result = np.load(summary["result"])
    assert summary["iterations"] == len(result["losses"]) == len(result["metrics"]) == 5 * 3 + 1
    assert summary["evaluations"] > 10 * 16
    states = sorted(path.name for path in (folder / "out/hop").glob("state*.npz"))
    assert states == [*(f"state-{k}.npz" for k in range(5)), "state.npz"]
    before = [(folder / "out/hop" / name).stat().st_mtime_ns for name in states]
    assert main([*command, "--fresh"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["loss"] == summary["loss"]
    after = [(folder / "out/hop" / name).stat().st_mtime_ns for name in states]
    assert all(a != b for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize(
    "task, method, iterations",
    [("hop", None, 50), ("hop", "ilqr", 50), ("hop", "lbfgs", 50), ("hop", "cma", 2000), ("throw", "lbfgs", 60)],
)
def test_how_long_methods_try(task, method, iterations):
    assert optimize.choose(TASKS[task](), method)[1] == iterations


def test_it_goes_on_where_it_was(folder, capsys):
    command = ["optimize", str(MY_TASK), "--method", "adam", "--json"]
    assert main([*command, "--iterations", "12"]) == 1
    whole = json.loads(capsys.readouterr().out)
    again = [*command, "--out", "parts", "--iterations"]
    assert main([*again, "5"]) == main([*again, "12"]) == 1
    output = capsys.readouterr()
    assert "resuming from parts/state.npz" in output.err
    parts = json.loads(output.out[output.out.index("}") + 1 :])
    assert parts["loss"] == whole["loss"] and parts["iterations"] == 12
    assert main([*again, "3", "--fresh"]) == 1
    assert json.loads(capsys.readouterr().out)["iterations"] == 3


def test_killed_and_given_again(folder):
    """The result is the one of an unbroken run, to the last bit."""
    arguments = ["--method", "adam", "--iterations", "1000", "--all", "--json"]
    command = [sys.executable, "-m", "pullback.cli", "optimize", str(MY_TASK), *arguments]
    subprocess.run([*command, "--out", "whole"], capture_output=True, check=False)
    for wait in (0.3, 0.9):
        worker = subprocess.Popen([*command, "--out", "parts"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not Path("parts").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    subprocess.run([*command, "--out", "parts"], capture_output=True, check=False)
    whole, parts = (np.load(f"{name}/result.npz") for name in ("whole", "parts"))
    np.testing.assert_array_equal(parts["losses"], whole["losses"])
    np.testing.assert_array_equal(parts["x"], whole["x"])
    assert len(parts["losses"]) == 1000


def test_least_squares_come_with_intervals(folder, capsys):
    """A table, a picture, and the numbers in both files; the true values are inside, and what has no influence is not
    claimed to be known."""
    assert main(["optimize", str(IDENTIFY), "--seed", "2"]) == 0
    out = capsys.readouterr().out
    assert "mass of link1      undetermined" in out and "undetermined: mass of link1" in out
    assert "(converged)" in out and "true values lie in their intervals, all in the joint intervals" in out
    result = np.load("out/arm-2/result.npz", allow_pickle=False)
    summary = json.loads((folder / "out/arm-2/result.json").read_text())
    assert summary["solved"] and summary["undetermined"] == [["mass of link1"]] and summary["all_inside_jointly"]
    assert [row["name"] for row in summary["estimates"]] == list(result["labels"])
    assert summary["estimates"][0]["standard_errors"] is None and np.isinf(result["standard_errors"][0])
    assert np.all((result["joint_low"] <= result["truth"]) & (result["truth"] <= result["joint_high"]))
    assert np.all(result["low"][1:] < result["estimates"][1:]) and np.all(result["standard_errors"][1:] < 0.1)
    assert result["q"].shape[1] == 6  # every motion
    assert (folder / "out/arm-2/intervals.png").stat().st_size > 5000


def test_seeds_reach_the_task(folder, capsys):
    """Another seed is another problem, and does not go on from the first one's state."""
    command = ["optimize", str(IDENTIFY), "--iterations", "2", "--json"]
    truths = []
    for seed in ("0", "1"):
        main([*command, "--seed", seed, "--fresh"])
        truths.append([row["truth"] for row in json.loads(capsys.readouterr().out)["estimates"]])
    assert not set(truths[0]) & set(truths[1])
    assert main([*command, "--seed", "3", "--out", "out/arm-1"]) == 2
    assert "another method, seed or problem" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["gauss-newton", "matrix-free"])
def test_gauss_newton_goes_on_to_the_same_bits(method, folder, capsys):
    command = ["optimize", str(IDENTIFY), "--json", "--method", method]
    assert main([*command, "--out", "whole"]) == 0
    assert main([*command, "--out", "parts", "--iterations", "2"]) in (0, 1)
    assert main([*command, "--out", "parts"]) == 0
    whole, parts = (np.load(f"{name}/result.npz") for name in ("whole", "parts"))
    assert len(whole["losses"]) > 2
    for name in ("x", "losses", "low", "high"):
        np.testing.assert_array_equal(parts[name], whole[name])


def test_gauss_newton_needs_residuals(folder, capsys):
    assert main(["optimize", str(MY_TASK), "--method", "gauss-newton"]) == 2
    assert "use another method" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, words",
    [
        ("x = 1", "needs a function task()"),
        ("def task(): return 3", "needs a function task()"),
        ("def task(): return 1 / 0", "ZeroDivisionError"),
        ("import pullback as pb\ndef task(): pb.load('nothing.xml')", "nothing.xml"),
    ],
)
def test_files_that_hold_no_task(folder, capsys, text, words):
    (folder / "mine.py").write_text(text)
    assert main(["optimize", "mine.py"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and err.startswith("pullback: ")


@pytest.mark.parametrize("name, words", [("juggle", "there is no task 'juggle'"), ("gone.py", "no file 'gone.py'")])
def test_tasks_that_are_not_there(folder, capsys, name, words):
    assert main(["optimize", name]) == 2
    assert words in capsys.readouterr().err


def test_a_contact_model(folder, capsys):
    """Where a task may have one; what it is called says so."""
    assert optimize.read_task("push", {"seed": 1, "contact": "convex"}).name == "push-convex"
    assert optimize.read_task("push", {"seed": 1, "contact": "longrange"}).name == "push"
    assert main(["optimize", "throw", "--contact", "convex"]) == 2
    assert "option 'contact'" in capsys.readouterr().err
