"""A System of one's own is drawn by one method: in pictures, pages, files, the viewer and the commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.cli import main
from pullback.view import Drawing, Viewer, draw_points, draw_run, export, load_motion, save_motion, write_page

sys.path.append(str(Path(__file__).parents[1]))
from swarm import Swarm

COLOURS = np.array([(0.9, 0.1, 0.1, 1), (0.1, 0.7, 0.2, 1), (0.1, 0.2, 0.9, 1), (0.9, 0.7, 0.1, 1)])


class SeenSwarm(Swarm):
    dt = Swarm.h

    def drawing(self, run, *, ghost=None, bars=None):
        return draw_points(self.h * run.kept, run.points.x, radius=[0.1, 0.1, 0.2, 0.1], colours=COLOURS)


TASK = f"""
import sys
sys.path += {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
import numpy as np
from swarm import Points, SwarmState
from test_own_system import SeenSwarm, Swarm
from pullback.tasks import Controls, Loss, Task

def task(seen=True):
    system = SeenSwarm(worlds=1) if seen else Swarm(worlds=1)

    def loss(run):
        x = run.points.x[-1]
        bar = np.zeros_like(run.points.x)
        bar[-1] = 2 * x
        return Loss(np.sum(x**2, axis=(1, 2)), {{"points_bar": Points(bar, None)}})

    far = lambda run: np.abs(run.points.x[-1]).max(axis=(1, 2))
    return Task(
        name="gather", about="four points meet", system=system, start=system.state(), find=Controls(10), loss=loss,
        metric=far, target=1e-3, iterations=2,
    )
"""


PART = """
from pullback import thermal

def system():
    mesh = thermal.block((4e-3, 2e-3, 2e-3), (4, 2, 2))
    path = thermal.follow([(0.0, 1e-3, 2e-3), (4e-3, 1e-3, 2e-3)], speed=10e-3)
    return thermal.Heat(mesh, thermal.inconel_718(), path, dt=0.01, power=100.0)
"""


@pytest.fixture(scope="module")
def run():
    system = SeenSwarm()
    return pb.rollout(system, system.state(), steps=8)


def test_points_become_balls(run):
    drawing = draw_run(run, title="swarm")
    assert (drawing.title, drawing.worlds, drawing.frames) == ("swarm", 2, 9)
    np.testing.assert_allclose(drawing.poses[:, :, 1:, :3], run.points.x, rtol=1e-6)
    np.testing.assert_allclose(drawing.times, 0.1 * np.arange(9))
    assert drawing.shape_size[:, 0].tolist() == [0.1, 0.1, 0.2, 0.1]


def test_it_is_shown_and_exported(run, tmp_path):
    drawing = draw_run(run, title="swarm", losses=[2.0, 1.0], camera=((3, 3, 1), (0, 0, 0)))
    again = load_motion(save_motion(tmp_path / "swarm.npz", drawing, x=run.points.x))
    np.testing.assert_array_equal(again.poses, drawing.poses)
    assert "swarm" in write_page(tmp_path / "swarm.html", drawing).read_text(encoding="utf-8")
    Image = pytest.importorskip("PIL.Image")
    picture = np.asarray(Image.open(export(drawing, tmp_path / "swarm.png", frames=2)).convert("RGB")).astype(float)
    red, green, blue = np.moveaxis(picture, -1, 0)
    assert ((red > 2 * green) & (red > 2 * blue)).any() and ((blue > 1.5 * red) & (blue > 1.5 * green)).any()
    pytest.importorskip("viser")
    with Viewer(drawing) as viewer:
        viewer.go(False, at=0.4)


def test_commands_draw_it(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("gather.py").write_text(TASK, encoding="utf-8")
    assert main(["optimize", "gather.py", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    drawing = load_motion(summary["result"])
    assert (drawing.title, drawing.frames) == ("gather", 11) and len(drawing.losses) == 2
    with np.load(summary["result"], allow_pickle=False) as held:
        np.testing.assert_allclose(drawing.poses[:, :, 1:, :3], held["points.x"], rtol=1e-6)
        assert held["steps"].tolist() == list(range(11)) and held["x"].shape == (30,)
    assert main(["view", "out/gather", "--export", "gather.gif", "--size", "64x48", "--frames", "2"]) == 0


def test_it_is_simulated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("swarm_file.py").write_text(TASK + "\ndef system(worlds):\n    return SeenSwarm(worlds)\n", encoding="utf-8")
    command = ["simulate", "swarm_file.py", "--seconds", "3", "--worlds", "2"]
    assert main([*command, "--control", "random", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("swarm_file.py: 3 s in 30 steps of 100 ms, 2 worlds") and "energy" not in said
    with np.load("out/swarm_file/motion.npz", allow_pickle=False) as held:
        assert np.ptp(held["controls"]) > 1 and held["dt"] == 0.1 and held["count"][-1, 0].tolist() == [30, 15]
        start = SeenSwarm(2).state()
        run = pb.rollout(SeenSwarm(2), start, held["controls"])
        np.testing.assert_array_equal(held["points.x"], run.points.x)
    assert load_motion("out/swarm_file").frames == 31 and Path("out/swarm_file/motion.html").exists()
    assert main([*command, "--keyframe", "home"]) == 2
    assert "--keyframe is for robots" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:overflow")
def test_what_blows_up_is_written_until_then(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stiff = ["def system():", "    swarm = SeenSwarm()", "    swarm.params['c'] = np.array(1e4)", "    return swarm"]
    Path("stiff.py").write_text(TASK + "\n".join(stiff), encoding="utf-8")
    assert main(["simulate", "stiff.py", "--steps", "200"]) == 2
    said = capsys.readouterr().err
    assert "not finite" in said and "steps before are in out/stiff/motion.npz" in said and said.count("\n") == 1
    with np.load("out/stiff/motion.npz", allow_pickle=False) as held:
        assert 10 < len(held["points.x"]) < 201 and len(held["controls"]) == len(held["points.x"]) - 1


@pytest.mark.parametrize(
    "text, words",
    [
        ("system = 3", "needs a function system() that gives a pullback.System"),
        ("def system(): return 1 / 0", "ZeroDivisionError"),
        (TASK + "\ndef system(): return Swarm(1)", "Swarm of mine.py has no dt"),
    ],
)
def test_files_that_hold_no_system(tmp_path, monkeypatch, capsys, text, words):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(text, encoding="utf-8")
    assert main(["simulate", "mine.py"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_printed_part_is_simulated_from_a_file_that_imports_its_neighbour(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "part_beside.py").write_text(PART, encoding="utf-8")
    (folder / "heat.py").write_text("from part_beside import system\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["simulate", "study/heat.py", "--steps", "20"]) == 0
    with np.load("out/heat/motion.npz", allow_pickle=False) as held:
        # the laser is on
        assert np.all(held["controls"][:, 0, 0] > 0) and held["T"][-1].max() > held["T"][0].max() + 10
    assert main(["simulate", "study/heat.py", "--control", "hold"]) == 2
    assert "--control hold is for robots with a keyframe" in capsys.readouterr().err


def test_a_system_without_looks(tmp_path, monkeypatch, capsys):
    system = Swarm()
    with pytest.raises(pb.PullbackError, match="Swarm does not say what it looks like: give it a method drawing"):
        draw_run(pb.rollout(system, system.state(), steps=1))
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("gather.py").write_text(TASK.replace("seen=True", "seen=False"), encoding="utf-8")
    assert main(["optimize", "gather.py", "--json"]) == 1
    assert "replay" not in json.loads(capsys.readouterr().out)
    assert main(["optimize", "gather.py", "--fresh", "--view"]) == 2
    assert "does not say what it looks like" in capsys.readouterr().err


@pytest.mark.parametrize(
    "returned, message",
    [
        (None, "what Bad.drawing returns must be a Drawing, not NoneType"),
        (draw_points([0.0, 0.0], np.zeros((2, 1, 3)), radius=1), "cannot be drawn: there must be frames, their times"),
        (draw_points([0.0], np.zeros((2, 1, 3)), radius=1), r"poses has shape \(2, 1, 2, 7\), not \(1, 1, 2, 7\)"),
    ],
)
def test_a_wrong_drawing_is_named(run, returned, message):
    class Bad(Swarm):
        def drawing(self, run, *, ghost=None, bars=None) -> Drawing:
            return returned

    system = Bad()
    with pytest.raises(pb.PullbackError, match=message):
        draw_run(pb.rollout(system, system.state(), steps=1))


def test_points_of_no_known_shape():
    with pytest.raises(pb.PullbackError, match=r"shape \(frames, worlds, n, 3\), not \(2, 3\)"):
        draw_points([0.0, 1.0], np.zeros((2, 3)), radius=1)
