"""``pullback bench``: every row is there, and the engines make the same motion."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.cli import bench, main


@pytest.fixture
def quick(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "REPEATS", 2)
    monkeypatch.setattr(bench, "LEAST", 1e-4)
    return ["--steps", "5", "--worlds", "3"]


def test_figures(quick, capsys):
    assert main(["bench", "cartpole", *quick, "--json", "--out", "here"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert json.loads(open("here/bench.json").read()) == result
    rows = {(row["engine"], row["dtype"], row["worlds"], row["work"]): row for row in result["rows"]}
    ours = {("pullback", d, w, k) for d in ("float64", "float32") for w in (1, 3) for k in bench.WORK}
    assert set(rows) == ours | {("mj_step", "float64", w, "forward") for w in (1, 3)}
    for key, row in rows.items():
        peer = rows["mj_step", "float64", key[2], "forward"]["steps_per_second"]
        assert row["against_mj_step"] == pytest.approx(row["steps_per_second"] / peer) and row["steps_per_second"] > 0


def test_a_table_for_people(quick, capsys):
    assert main(["bench", *quick, "--dtype", "float64", "--contact", "impulse"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("quadruped: 5 steps of 2 ms, contact: impulse, cpu")
    assert [line.split()[:3] for line in out.splitlines()[3:]] == [
        *(["mj_step", "float64", "1"], ["pullback", "float64", "1"]),
        *(["mj_step", "float64", "3"], ["pullback", "float64", "3"]),
    ]


def test_a_motion_that_blows_up_leaves_no_log(tmp_path):
    """MuJoCo writes MUJOCO_LOG.TXT unless told not to. In a process of its own, since tests tell it too."""
    joint = '<joint name="x" type="slide" stiffness="1e6"/><geom size="0.1"/>'
    (tmp_path / "wild.xml").write_text(
        f'<mujoco><option timestep="0.5" integrator="RK4"/><worldbody><body>{joint}</body></worldbody>'
        '<keyframe><key name="home" qpos="0.1"/></keyframe></mujoco>'
    )
    command = [sys.executable, "-m", "pullback.cli", "bench", "wild.xml", "--contact", "none", "--worlds", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "blows up in MuJoCo" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["wild.xml"]


@pytest.mark.parametrize("contact", ["none", "model"])
def test_both_engines_make_the_same_motion(contact):
    """What is timed side by side is the same work: the same start, controls and steps."""
    model = pb.load(pb.robots.quadruped())
    args = argparse.Namespace(contact=contact, steps=20, seed=1, dtype="float64", device="cpu")
    ours = bench.pullback_motions(model, model.home, args, 3)["forward"]()
    many, _ = bench.mujoco_motion(model, model.home, args, 3)()
    one = bench.mujoco_motion(model, model.home, args, 1)()
    alone = bench.pullback_motions(model, model.home, args, 1)["forward"]()
    nq = model.nq
    np.testing.assert_allclose(ours.q[-1], many[:, -1, 1 : 1 + nq], atol=1e-9)
    np.testing.assert_allclose(alone.q[-1, 0], one.qpos, atol=1e-9)


def test_the_median_of_interleaved_calls(monkeypatch):
    """Each function is called in turn, REPEATS times after two to find out how long it takes."""
    monkeypatch.setattr(bench, "LEAST", 0.0)
    monkeypatch.setattr(bench, "REPEATS", 3)
    monkeypatch.setattr(bench, "calls_a_repeat", lambda function: 2)
    order = []
    seconds = bench.interleaved({name: lambda name=name: order.append(name) for name in "ab"})
    assert "".join(order) == "aabb" * 3 and set(seconds) == {"a", "b"}
