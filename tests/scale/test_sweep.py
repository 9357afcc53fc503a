"""Sweeps: one table, whatever was killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from sweep_targets import warm_up

import pullback as pb
from pullback.cli import main
from pullback.cli.sweep import setting
from pullback.scale import Range, sweep
from pullback.scale.sweep import _points
from pullback.tasks import solve

SPACE = {"k": [0.3, 0.6], "method.rate": [0.05, 0.1]}
OPTIONS = {"seeds": 2, "workers": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return sweep(warm_up, SPACE, out=tmp_path_factory.mktemp("sweep") / "whole", **OPTIONS)


def table(folder) -> str:
    return (folder / "table.csv").read_text()


def test_what_runs_give(whole):
    """The same as one after the other, here."""
    assert whole.metric == "metric" and len(whole.rows) == 8
    assert [(row["k"], row["method.rate"], row["seed"]) for row in whole.rows[:3]] == [
        (0.3, 0.05, 0), (0.3, 0.05, 1), (0.3, 0.1, 0),
    ]  # fmt: skip
    for row in whole.rows:
        task = warm_up(row["k"], row["seed"])
        found = solve(task, type(task.method)(rate=row["method.rate"]), target=task.target)[-1]
        assert row["metric"] == task(found.x[None], False).metrics[0] and row["iterations"] == found.iterations
        with np.load(whole.folder / row["run"] / "result.npz") as arrays:
            assert np.array_equal(arrays["x"], found.x)
    assert whole.best["metric"] == min(row["metric"] for row in whole.rows)
    group = whole.groups()[0]
    metrics = [
        row["metric"] for row in whole.rows if (row["k"], row["method.rate"]) == (group["k"], group["method.rate"])
    ]
    assert group["median"] == np.median(metrics) and (group["best"], group["worst"]) == (min(metrics), max(metrics))
    assert [row["median"] for row in whole.groups()] == sorted(row["median"] for row in whole.groups())
    names = {path.name for path in whole.folder.iterdir()}
    assert {"table.csv", "table.json", "k.png", "method.rate.png", "runs", "sweep.json"} <= names
    assert json.loads((whole.folder / "table.json").read_text()) == whole.rows
    assert len(table(whole.folder).splitlines()) == 9 and "0.05" in whole.text()


def test_workers_that_are_killed(whole, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    sweep(partial(warm_up, deadly=str(marks)), SPACE, out=tmp_path / "out", **OPTIONS)
    assert len(list(marks.iterdir())) == 2
    assert table(tmp_path / "out") == table(whole.folder)


PROGRAM = """
import sys
sys.path.insert(0, {path!r})
from sweep_targets import warm_up
from pullback.scale import sweep
if __name__ == "__main__":
    sweep(warm_up, {space!r}, out={out!r}, seeds=2, workers=2)
"""


def test_a_driver_that_is_killed(whole, tmp_path):
    """Its workers end with it, and the same call goes on from what is done."""
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(
        PROGRAM.format(path=os.path.dirname(sys.modules["sweep_targets"].__file__), space=SPACE, out=str(out))
    )
    driver = subprocess.Popen([sys.executable, script])
    while len(list(out.glob("runs/*/row.json"))) < 2:
        assert driver.poll() is None
        time.sleep(0.005)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    done = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/row.json")}
    sweep(warm_up, SPACE, out=out, **OPTIONS)
    assert table(out) == table(whole.folder)
    assert all(path.stat().st_mtime_ns == at for path, at in done.items())


def test_a_run_that_fails_is_tried_again(tmp_path):
    """Here since the folder for its marks is missing."""
    call = {"space": {"k": [0.3]}, "out": tmp_path / "out", "workers": 1}
    found = sweep(partial(warm_up, deadly=str(tmp_path / "marks")), **call)
    assert "FileNotFoundError" in found.rows[0]["error"] and "runs/0000 failed" in found.text()
    (tmp_path / "marks").mkdir()
    found = sweep(partial(warm_up, deadly=str(tmp_path / "marks")), **call)
    assert "error" not in found.rows[0]


def test_ranges_and_first_guesses():
    """Draws stay when there are more of them, lie in their range, and seeds move the first guess."""
    space = {"method.rate": Range(0.01, 1.0, log=True), "k": [0.4, 0.5]}
    few, many = (_points(space, n, n) for n in (2, 3))
    assert many[:4] == few and [point["k"] for point in many] == 3 * [0.4, 0.5]
    rates = {point["method.rate"] for point in many}
    assert len(rates) == 3 and all(0.01 <= rate <= 1.0 for rate in rates)
    task = warm_up(0.4)
    start, moved = (solve(task, iterations=1, spread=x, seed=5)[-1].x for x in (0.0, 0.1))
    assert 0.01 < np.std(moved - start) < 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {"k": 0.3}}, r"values of 'k' must be several, \[...\] or a Range, not 0.3"),
        ({"space": {"kk": [0.3]}}, "there is no option of warm_up 'kk'; did you mean 'k'"),
        ({"space": {"method.rat": [1]}}, "there is no setting of Adam 'rat'; did you mean 'rate'"),
        ({"space": {"method": ["adm"]}}, "there is no method 'adm'; did you mean 'adam'"),
        ({"space": {"k": []}}, "at least one value"),
        ({"space": "k"}, "space must be a Mapping, such as"),
        ({"space": {3: [1]}}, "the name of a setting must be a str"),
        ({"space": {"k": [np.ones(2)]}}, "values of 'k' must be numbers, words, or lists of such"),
        ({"space": {"method": [["adam"]]}}, 'method must be a str, such as "adam"'),
        ({"space": {"method.rate": ["x"]}}, "rate of Adam must be a number in .*, not 'x'"),
        ({"seeds": None}, "seeds must be a whole number of at least 1, not None"),
        ({"seeds": "ab"}, "seeds must be a whole number of at least 1, not 'ab'"),
        ({"space": {"k": Range(0, 1)}}, "samples says how often"),
        ({"target": "throww"}, "there is no task or environment 'throww'; did you mean 'throw'"),
        ({"target": 3, "space": {}}, "target of a sweep must be a Task"),
        ({"target": "pendulum-1"}, "pendulum-1 cannot be made: .*unexpected keyword argument 'k'"),
        ({"updates": 3}, "updates is of a training"),
        ({"target": "pendulum-1", "space": {}}, "say how long to train"),
        ({"target": "pendulum-1", "updates": 2, "space": {"method.windw": [3]}}, "no option of SAPO 'windw'"),
        ({"seeds": 3}, "is of another sweep, with other runs"),
        ({"spread": 1.0}, "is of another sweep, with other spread"),
    ],
)
def test_bad_input(whole, change, message):
    with pytest.raises(pb.PullbackError, match=message):
        sweep(**{"target": warm_up, "space": SPACE, "out": whole.folder, **OPTIONS} | change)


def test_another_version(tmp_path):
    (tmp_path / "sweep.json").write_text('{"format": 0}')
    with pytest.raises(pb.PullbackError, match="was written by another version"):
        sweep(warm_up, SPACE, out=tmp_path, **OPTIONS)


def test_trainings_from_the_command_line(tmp_path, capsys):
    pytest.importorskip("torch")
    command = ["sweep", "pendulum-1", "--set", "method.window=2,3", "--set", "method.worlds=4"]
    command += ["--updates", "2", "--workers", "1", "--out", str(tmp_path), "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "return" and [row["method.window"] for row in found["rows"]] == [2, 3]
    best = max(found["rows"], key=lambda row: row["return"])
    assert best["run"] == found["best"] and (tmp_path / best["run"] / "policy.npz").is_file()
    assert main(command) == 0 and json.loads(capsys.readouterr().out) == found


MY_TASK = """
from pullback.plan import LBFGS
from sweep_targets import warm_up

def task(warmth=1.0):
    return warm_up(k=0.5 * warmth)
"""


def test_a_file_from_the_command_line(tmp_path, capsys):
    file = tmp_path / "my_task.py"
    file.write_text(MY_TASK)
    command = ["sweep", str(file), "--workers", "1", "--out", str(tmp_path / "out")]
    assert main([*command, "--set", "warmth=0.5,1", "--set", "method=adam", "--iterations", "3"]) == 0
    assert "warmth" in (text := capsys.readouterr().out) and "best:   " in text and "look:   " in text
    assert main([*command, "--set", "warmt=1"]) == 2
    assert "there is no option 'warmt'; did you mean 'warmth'?" in capsys.readouterr().err


def test_how_settings_are_written():
    assert setting("method=lbfgs,adam") == ("method", ["lbfgs", "adam"])
    assert setting("method.hidden=(8,8),(16,)") == ("method.hidden", [(8, 8), (16,)])
    assert setting("rate=log(1e-3,1)") == ("rate", Range(1e-3, 1.0, log=True))
    assert setting("x=uniform(-1,1)") == ("x", Range(-1.0, 1.0))
    for wrong in ("rate", "=3", "rate=log(0,1)", "a b=3"):
        with pytest.raises(Exception, match="is not of the form|must be a number"):
            setting(wrong)
