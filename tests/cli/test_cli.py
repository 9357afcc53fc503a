"""The command line: results where they should be, and one clear line for bad input."""

import argparse
import json
import re
import subprocess
import sys

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.cli import check, main
from pullback.view import load_motion

SPRING = """
<mujoco model="spring">
  <option timestep="{dt}" integrator="RK4"/>
  <worldbody>
    <body name="ball">
      <joint name="x" type="slide" stiffness="{k}"/>
      <geom size="0.1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="x" ctrlrange="-1 1"/></actuator>
  <keyframe><key name="home" qpos="0.1"/><key name="far" qpos="0.5" ctrl="0.25"/></keyframe>
</mujoco>
"""
# The same with a limit that the start is beyond.
STOPPED = SPRING.replace('type="slide"', 'type="slide" limited="true" range="-1 0.05"')
STICKY = """<mujoco><worldbody>
  <geom name="glue" type="plane" size="1 1 1" adhesion="1"/><body pos="0 0 2"><freejoint/><geom size="0.1"/></body>
  </worldbody></mujoco>"""


@pytest.fixture
def spring(tmp_path, monkeypatch):
    """A file with a ball on a spring, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spring.xml").write_text(SPRING.format(dt=0.01, k=10), encoding="utf-8")
    return tmp_path


def refused(capsys, *argv):
    """The one line that a command ends with."""
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("pullback: ")
    return err


def test_simulate_writes_motion_and_replay(spring, capsys):
    assert main(["simulate", "spring.xml", "--seconds", "0.5"]) == 0
    text = capsys.readouterr().out
    assert "0.5 s in 50 steps of 10 ms, 1 world, float64" in text and "steps/s" in text and "energy" in text
    motion = np.load("out/spring/motion.npz")
    assert motion["q"].shape == (51, 1, 1) and motion["v"].shape == (51, 1, 1)
    assert motion["controls"].shape == (50, 1, 1) and motion["dt"] == 0.01
    assert motion["q"][0, 0, 0] == 0.1
    assert b"<html" in (spring / "out/spring/motion.html").read_bytes().lower()


def test_the_length_of_a_motion(spring, capsys):
    """In steps or in seconds, but not both; the same for every command that has a motion."""
    assert main(["simulate", "spring.xml", "--steps", "7", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["steps"] == 7 and summary["final_time"] == pytest.approx(0.07)
    assert np.load("out/spring/motion.npz")["q"].shape == (8, 1, 1)
    for length, steps in ((["--seconds", "0.04"], 4), (["--steps", "3"], 3), ([], 10)):
        assert main(["check", "spring.xml", *length, "--settle", "0", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["reports"][1]["rollout_steps"] == steps
    for command in ("simulate", "check", "bench"):
        both = refused(capsys, command, "spring.xml", "--steps", "5", "--seconds", "1")
        assert "--seconds: not allowed with argument --steps" in both


def test_simulate_agrees_with_mujoco_however_it_is_cut(spring, monkeypatch):
    monkeypatch.setattr("pullback.cli.simulate.FIRST_CHUNK", 3)
    monkeypatch.setattr("pullback.cli.simulate.CHUNK_SECONDS", 1e-9)  # one step at a time after that
    assert main(["simulate", "spring.xml", "--keyframe", "far", "--control", "hold", "--seconds", "0.3"]) == 0
    motion = np.load("out/spring/motion.npz")
    assert np.all(motion["controls"] == 0.25)
    model = mujoco.MjModel.from_xml_path("spring.xml")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 1)
    for _ in range(30):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(motion["q"][-1, 0], data.qpos, rtol=1e-12)


def test_what_blows_up_is_written_until_then(spring, capsys):
    """And drawn until it leaves the picture."""
    (spring / "stiff.xml").write_text(SPRING.format(dt=0.01, k=4e5), encoding="utf-8")
    said = refused(capsys, "simulate", "stiff.xml", "--seconds", "9")
    step = int(re.search(r"blew up in world 0 at step (\d+)", said)[1])
    assert f"; the {step} steps before are in out/stiff/motion.npz" in said and step > 20  # not in the first piece
    motion = np.load("out/stiff/motion.npz")
    assert len(motion["q"]) == step + 1 == len(motion["controls"]) + 1 and np.isfinite(motion["q"]).all()
    system = pb.Articulated(pb.load("stiff.xml"))
    with pytest.raises(pb.SimulationError, match="the state given is absurd in world 0: q of joint"):
        system.step(system.state(motion["q"][-1, 0], motion["v"][-1, 0]))
    with pytest.raises(pb.SimulationError) as error:
        pb.rollout(system, system.state(*(motion[name][0, 0] for name in "qv")), steps=900)
    assert np.array_equal(error.value.states.q, motion["q"]) and np.array_equal(error.value.states.v, motion["v"])
    drawn = load_motion("out/stiff/motion.npz")
    assert 1 <= drawn.frames < step and np.abs(drawn.poses[..., 0]).max() < 100


def test_simulate_options(spring, capsys):
    argv = [
        "simulate",
        "spring.xml",
        "--control",
        "random",
        "--worlds",
        "3",
        "--dtype",
        "float32",
        "--out",
        "here/deep",
    ]
    assert main([*argv, "--seconds", "0.4", "--seed", "4", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["steps"], summary["worlds"], summary["dtype"]) == (40, 3, "float32")
    motion = np.load(summary["motion"])
    controls = motion["controls"]
    assert controls.shape == (40, 3, 1) and controls.dtype == np.float32 and np.abs(controls).max() <= 1
    assert len(np.unique(controls)) == 4 * 3  # each held for 0.1 s
    assert main([*argv, "--seconds", "0.4", "--seed", "4", "--json"]) == 0
    np.testing.assert_array_equal(np.load(summary["motion"])["q"], motion["q"])


def test_sample_robots_and_contact(spring, capsys):
    assert main(["simulate", "arm", "--contact", "none", "--seconds", "0.01"]) == 0
    assert main(["simulate", "quadruped", "--seconds", "0.5", "--control", "hold"]) == 0
    floor = np.load("out/quadruped/motion.npz")["q"][-1, 0, 2]
    assert main(["simulate", "quadruped", "--seconds", "0.5", "--control", "hold", "--contact", "none"]) == 0
    fallen = np.load("out/quadruped/motion.npz")["q"][-1, 0, 2]
    assert floor > 0.1 and fallen < floor - 0.5


def test_check_passes(spring, capsys):
    assert main(["check", "spring.xml", "--out", "report", "--steps", "3"]) == 0
    text = capsys.readouterr().out
    assert "spring.xml, one step" in text and "a rollout of 3 steps" in text
    assert "gradients agree; the worst is" in text and "slope" in text and "no influence here" in text
    report = json.loads((spring / "report/check.json").read_text(encoding="utf-8"))
    assert report["passed"] and [r["rollout_steps"] for r in report["reports"]] == [1, 3]
    assert {"q", "v", "control", "mass", "stiffness"} <= {row["field"] for row in report["reports"][0]["rows"]}


BALL = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" friction="0.8"/>
    <body name="ball" pos="0 0 0.12"><freejoint/><geom name="ball" size="0.1" mass="1"/></body>
  </worldbody>
  <keyframe><key name="high" qpos="0 0 5 1 0 0 0"/><key name="other" qpos="0 0 0.0999 1 0 0 0"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("contact", ["model", "impulse", "compliant"])
def test_check_touches_the_ground(spring, capsys, contact):
    """The ball falls, rolls, and is checked where it does: its size matters, and its friction, but for Coulomb's."""
    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    assert main(["check", "ball.xml", "--steps", "3", "--contact", contact, "--out", "report"]) == 0
    text = capsys.readouterr().out
    assert "contacts: 1 at the state that was checked" in text and "WARNING" not in text
    report = json.loads((spring / "report/check.json").read_text(encoding="utf-8"))
    assert report["contacts"] == 1
    status = {row["field"]: row["status"] for row in report["reports"][1]["rows"]}
    assert status["geom_size"] == "agrees", status
    assert status["friction"] == ("no influence here" if contact == "impulse" else "agrees"), status


def test_what_hops_is_checked_where_it_last_touched(monkeypatch):
    """Position and velocity are those of one state, the last with a contact."""
    monkeypatch.setattr(check, "PUSH", 0.0)
    model = pb.load(BALL.replace("<worldbody>", '<default><geom solref="-1e4 0"/></default><worldbody>'))
    system = pb.Articulated(model)
    motion = pb.rollout(system, system.state(), steps=400)
    touching = np.array([len(motion.contacts(t)[0]) > 0 for t in range(400)])
    leaves_at = int(np.flatnonzero(touching[:-1] & ~touching[1:])[0])
    settle = (leaves_at + 10) * model.timestep
    state = check.settled(system, model.home, argparse.Namespace(seed=0, settle=settle, dtype="float64"))
    np.testing.assert_array_equal(state.q, motion.q[leaves_at])
    np.testing.assert_array_equal(state.v, motion.v[leaves_at])


def test_check_looks_for_a_contact_that_carries_force(spring, capsys):
    """A push may part what touches; other states, with other pushes, are tried until a contact carries force."""
    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    args = ["check", "ball.xml", "--steps", "2", "--contact", "impulse", "--json", "--keyframe", "other"]
    for seed in range(4):
        assert main([*args, "--seed", str(seed)]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["contacts"] == report["contacts_with_force"] == 1
        status = {row["field"]: row["status"] for row in report["reports"][0]["rows"]}
        assert status["geom_size"] == "agrees"


def test_check_warns_when_no_contact_carries_force(spring, capsys, monkeypatch):
    monkeypatch.setattr(check, "CARRIES", 1e9)
    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    assert main(["check", "ball.xml", "--steps", "2"]) == 0
    assert "contacts: WARNING: no contact carries force at the state that was checked" in capsys.readouterr().out


def test_check_says_when_nothing_touches(spring, capsys):
    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    fast = ["check", "ball.xml", "--steps", "2"]
    assert main([*fast, "--keyframe", "high"]) == 0
    assert "contacts: WARNING: nothing touches at the state that was checked" in capsys.readouterr().out
    assert main([*fast, "--keyframe", "other", "--settle", "0"]) == 0
    assert "contacts: 1 at" in capsys.readouterr().out
    assert main([*fast, "--contact", "none"]) == 0
    assert "contacts: switched off" in capsys.readouterr().out
    assert "there are high, other" in refused(capsys, *fast, "--keyframe", "up")
    assert "--settle: -1 is less than 0" in refused(capsys, *fast, "--settle", "-1")


def test_simulate_with_a_contact_model(spring, capsys):
    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    rest = {}
    for contact in ("model", "convex", "impulse", "compliant", "none"):
        assert main(["simulate", "ball.xml", "--seconds", "1", "--contact", contact]) == 0
        rest[contact] = np.load("out/ball/motion.npz")["q"][-1, 0, 2]
    assert rest["model"] == rest["convex"] and rest["none"] < -1
    assert len({rest[contact] for contact in ("convex", "impulse", "compliant")}) == 3
    assert all(0.09 < rest[contact] < 0.11 for contact in ("convex", "impulse", "compliant")), rest


def test_help_states_the_default_tolerance(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "default 1e-06 in float64, 0.02 in float32" in text and "default 0.3" in text


def test_check_with_and_without_contacts(spring, capsys):
    """The file's limits are parameters of the System that is checked, unless they are switched off."""
    (spring / "stop.xml").write_text(STOPPED.format(dt=0.005, k=10), encoding="utf-8")
    fields = {}
    for contact in ("model", "none"):
        assert main(["check", "stop.xml", "--steps", "2", "--json", "--contact", contact]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["contact"] == contact
        fields[contact] = {row["field"] for row in report["reports"][0]["rows"]}
    assert "joint_range" in fields["model"] and "joint_range" not in fields["none"]


def test_contacts_that_are_not_supported_are_named(spring, capsys):
    (spring / "sticky.xml").write_text(STICKY, encoding="utf-8")
    for verb in ("simulate", "check"):
        error = refused(capsys, verb, "sticky.xml")
        assert "'glue'" in error and "--contact none" in error and "contact=None" not in error
    assert main(["simulate", "sticky.xml", "--contact", "none", "--seconds", "0.01"]) == 0


def test_check_finds_a_wrong_gradient(spring, capsys, monkeypatch):
    right = pb.Articulated.pullback

    def wrong(self, *args, **options):
        bars = right(self, *args, **options)
        bars.params["stiffness"] = bars.params["stiffness"] * 1.001
        return bars

    monkeypatch.setattr(pb.Articulated, "pullback", wrong)
    assert main(["check", "spring.xml", "--steps", "2"]) == 1
    text = capsys.readouterr().out
    assert "one step: WRONG: the gradient of 'stiffness' is wrong at joint 'x'" in text
    assert "2 steps: all" in text and "note:" not in text


def test_check_finds_a_wrong_gradient_of_a_contact(spring, capsys, monkeypatch):
    right = pb.Articulated.pullback

    def wrong(self, *args, **options):
        bars = right(self, *args, **options)
        bars.params["geom_size"] = bars.params["geom_size"] * 1.001
        return bars

    (spring / "ball.xml").write_text(BALL, encoding="utf-8")
    monkeypatch.setattr(pb.Articulated, "pullback", wrong)
    assert main(["check", "ball.xml", "--steps", "2"]) == 1
    text = capsys.readouterr().out
    assert "one step: WRONG: the gradient of 'geom_size' is wrong at geom 'ball'" in text and "kinks closer" in text


def test_bad_input_is_one_line(spring, capsys):
    (spring / "broken.xml").write_text("<mujoco><worldbody><body></mujoco>", encoding="utf-8")
    (spring / "wild.xml").write_text(SPRING.format(dt=0.5, k=1e6), encoding="utf-8")
    (spring / "file").write_text("", encoding="utf-8")
    assert "nowhere.xml" in refused(capsys, "simulate", "nowhere.xml")
    assert "broken.xml" in refused(capsys, "check", "broken.xml")
    assert "no sample robot 'hexapod'; there are acrobot, ant, arm" in refused(capsys, "simulate", "hexapod")
    assert "--seconds: -1 is not positive" in refused(capsys, "simulate", "spring.xml", "--seconds", "-1")
    assert "--seconds" in refused(capsys, "simulate", "spring.xml", "--seconds", "nan")
    assert "--worlds: 0 is less than 1" in refused(capsys, "simulate", "spring.xml", "--worlds", "0")
    assert "GiB" in refused(capsys, "simulate", "spring.xml", "--seconds", "1e9")
    assert "cannot write to 'file/out'" in refused(capsys, "simulate", "spring.xml", "--out", "file/out")
    assert "there are home, far" in refused(capsys, "simulate", "spring.xml", "--keyframe", "up")
    assert "device 'tpu'" in refused(capsys, "simulate", "spring.xml", "--device", "tpu")
    assert "there is no --ignore 'everything'; there are actuator" in refused(
        capsys, "simulate", "spring.xml", "--ignore", "everything"
    )
    assert "pullback --help" in refused(capsys, "fly")
    assert "give a command: tasks, optimize" in refused(capsys)
    assert "in world 0 at step" in refused(capsys, "simulate", "wild.xml", "--seconds", "500")


def test_hints_speak_of_options(spring, capsys):
    (spring / "tendon.xml").write_text(
        SPRING.format(dt=0.01, k=10).replace(
            "<actuator>",
            '<tendon><fixed stiffness="1" springyield="1"><joint joint="x" coef="1"/></fixed></tendon><actuator>',
        ),
        encoding="utf-8",
    )
    assert "load it without these: --ignore spring-yield" in refused(capsys, "simulate", "tendon.xml")
    assert main(["simulate", "tendon.xml", "--ignore", "spring-yield", "--seconds", "0.01"]) == 0


def test_steps_are_counted_from_the_start_of_the_motion(spring, capsys, monkeypatch):
    (spring / "wild.xml").write_text(SPRING.format(dt=0.5, k=1e6), encoding="utf-8")
    monkeypatch.setattr("pullback.cli.simulate.CHUNK_SECONDS", 1e-9)
    counts = []
    for first in (2, 5, 1000):
        monkeypatch.setattr("pullback.cli.simulate.FIRST_CHUNK", first)
        counts.append(refused(capsys, "simulate", "wild.xml", "--seconds", "500"))
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("argv", [["--help"], ["simulate", "--help"], ["check", "--help"], ["--version"]])
def test_help_and_version(argv, capsys):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert (pb.__version__ if argv == ["--version"] else "usage: pullback") in out


def test_from_a_shell(spring):
    """No chatter of Warp, no traceback, and the right exit codes."""
    command = [sys.executable, "-m", "pullback.cli"]
    good = subprocess.run(
        [*command, "simulate", "spring.xml", "--seconds", "0.1"], capture_output=True, text=True, check=False
    )
    assert good.returncode == 0, good.stderr
    assert "warp" not in (good.stdout + good.stderr).lower()
    assert all("Compiling kernels" in line for line in good.stderr.splitlines())
    bad = subprocess.run([*command, "check", "nowhere.xml"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2 and bad.stdout == "" and bad.stderr.count("\n") == 1
